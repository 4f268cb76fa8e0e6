/*
 * The sample number alone decides which tokens are seen: every sequence once
 * per epoch, each epoch in another order, parts without overlap, blends as
 * weighted.
 */
#include "support/support.h"

#include "data/sampler.h"

#include <stdlib.h>
#include <string.h>

/* A file in memory: tokens 0, 1, 2, ... */
struct numbers {
    struct pen_token_file file;
    uint8_t *bytes;
};

static void numbers_init(struct numbers *numbers, uint32_t count)
{
    numbers->bytes = malloc(4 * (size_t)count);
    for (uint32_t i = 0; i < count; i++) {
        for (size_t j = 0; j < 4; j++)
            numbers->bytes[4 * (size_t)i + j] = (uint8_t)(i >> 8 * j);
    }
    numbers->file = (struct pen_token_file){.format = PEN_TOKENS_LLMC,
                                            .type = PEN_TOKEN_UINT32,
                                            .num_tokens = count,
                                            .num_documents = 1,
                                            .tokens = numbers->bytes};
}

static struct pen_sampler *sampler_of(const struct pen_sample_source *sources,
                                      size_t count,
                                      const struct pen_sampler_options *options)
{
    struct pen_sampler *sampler = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_sampler_create(sources, count, options, &sampler, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    return sampler;
}

static struct pen_sampler *single(const struct numbers *numbers,
                                  struct pen_sampler_options options)
{
    struct pen_sample_source source = {&numbers->file, 1};
    return sampler_of(&source, 1, &options);
}

static void a_sample_is_a_stretch_of_tokens(void **state)
{
    (void)state;
    struct numbers numbers;
    uint32_t ids[4];
    numbers_init(&numbers, 32);
    struct pen_sampler *sampler =
        single(&numbers, (struct pen_sampler_options){.seq_length = 3,
                                                      .is_ordered = true});
    assert_int_equal(10, pen_sampler_epoch(sampler, 0));
    for (uint32_t sample = 0; sample < 25; sample++) {
        pen_sampler_read(sampler, sample, ids);
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(sample % 10 * 3 + i, ids[i]);
    }
    pen_sampler_free(sampler);
    free(numbers.bytes);
}

static void every_sequence_comes_once_per_epoch(void **state)
{
    (void)state;
    static const uint32_t counts[] = {2, 3, 5, 17, 64, 65, 1000, 4097};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct numbers numbers;
        numbers_init(&numbers, counts[i]);
        struct pen_sampler *sampler = single(
            &numbers, (struct pen_sampler_options){.seq_length = 1, .seed = i});
        uint64_t epoch = pen_sampler_epoch(sampler, 0);
        assert_int_equal(counts[i] - 1, epoch);
        for (uint64_t e = 0; e < 3; e++) {
            bool *is_seen = calloc(counts[i], sizeof *is_seen);
            for (uint64_t sample = 0; sample < epoch; sample++) {
                struct pen_sample_place place =
                    pen_sampler_locate(sampler, e * epoch + sample);
                assert_int_equal(e, place.epoch);
                assert_true(place.begin < epoch);
                assert_false(is_seen[place.begin]);
                is_seen[place.begin] = true;
            }
            free(is_seen);
        }
        pen_sampler_free(sampler);
        free(numbers.bytes);
    }
}

/* Samples of [0, epoch) that stand where another order has them. */
static uint64_t agreement(const struct pen_sampler *a,
                          const struct pen_sampler *b, uint64_t shift)
{
    uint64_t equal = 0;
    uint64_t epoch = pen_sampler_epoch(a, 0);
    for (uint64_t i = 0; i < epoch; i++)
        equal += pen_sampler_locate(a, i).begin ==
                 pen_sampler_locate(b, i + shift).begin;
    return equal;
}

static void seed_and_epoch_change_the_order(void **state)
{
    (void)state;
    struct numbers numbers;
    numbers_init(&numbers, 10001);
    struct pen_sampler_options options = {.seq_length = 1, .seed = 1};
    struct pen_sampler *first = single(&numbers, options);
    struct pen_sampler *again = single(&numbers, options);
    options.seed = 2;
    struct pen_sampler *other = single(&numbers, options);
    options.is_ordered = true;
    struct pen_sampler *ordered = single(&numbers, options);
    assert_int_equal(10000, agreement(first, again, 0));
    /* One in common is the mean of two random orders; twelve are not. */
    assert_in_range(agreement(first, other, 0), 0, 12);
    assert_in_range(agreement(first, again, 10000), 0, 12);
    assert_in_range(agreement(first, ordered, 0), 0, 12);
    pen_sampler_free(first);
    pen_sampler_free(again);
    pen_sampler_free(other);
    pen_sampler_free(ordered);
    free(numbers.bytes);
}

/* The first samples are part of every checkpoint: they may never change. */
static void the_order_is_fixed_for_good(void **state)
{
    (void)state;
    struct numbers numbers;
    uint64_t found[8];
    numbers_init(&numbers, 1001);
    struct pen_sampler *sampler = single(
        &numbers, (struct pen_sampler_options){.seq_length = 1, .seed = 1234});
    for (uint64_t i = 0; i < 8; i++)
        found[i] = pen_sampler_locate(sampler, i).begin;
    static const uint64_t expected[8] = {268, 533, 708, 981,
                                         942, 663, 399, 403};
    assert_memory_equal(expected, found, sizeof found);
    pen_sampler_free(sampler);
    free(numbers.bytes);
}

static void parts_follow_each_other_without_overlap(void **state)
{
    (void)state;
    struct numbers numbers;
    numbers_init(&numbers, 1000);
    static const uint64_t begins[] = {0, 949, 999};
    static const uint64_t sizes[] = {949, 50, 1};
    for (unsigned part = 0; part < PEN_SPLIT_PARTS; part++) {
        struct pen_sampler_options options = {.seq_length = 1,
                                              .is_ordered = true,
                                              .part = (enum pen_split_part)part,
                                              .split = {949, 50, 1}};
        struct pen_sample_source source = {&numbers.file, 1};
        struct pen_sampler *sampler = NULL;
        struct pen_text why = PEN_TEXT_EMPTY;
        pen_status status =
            pen_sampler_create(&source, 1, &options, &sampler, &why);
        if (sizes[part] == 1) {
            assert_int_equal(PEN_INVALID, status);
            assert_non_null(strstr(pen_text_string(&why), "has 1 tokens"));
        } else {
            assert_int_equal(PEN_OK, status);
            assert_int_equal(sizes[part] - 1, pen_sampler_epoch(sampler, 0));
            assert_int_equal(begins[part],
                             pen_sampler_locate(sampler, 0).begin);
        }
        pen_sampler_free(sampler);
        pen_text_release(&why);
    }
    free(numbers.bytes);
}

static void a_blend_keeps_every_weight_at_every_index(void **state)
{
    (void)state;
    struct numbers numbers[3];
    struct pen_sample_source sources[3];
    static const double weights[3] = {0.7, 0.2, 0.1};
    uint64_t counts[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        numbers_init(&numbers[i], 1000);
        sources[i] = (struct pen_sample_source){&numbers[i].file, weights[i]};
    }
    struct pen_sampler_options options = {.seq_length = 4, .seed = 7};
    struct pen_sampler *sampler = sampler_of(sources, 3, &options);
    for (uint64_t i = 0; i < 200000; i++) {
        struct pen_sample_place place = pen_sampler_locate(sampler, i);
        /* The n-th sample of a source is in epoch n / 249. */
        assert_int_equal(counts[place.source]++ / 249, place.epoch);
        for (size_t j = 0; j < 3; j++) {
            double behind = weights[j] * (double)(i + 1) - (double)counts[j];
            /* 4: the weights are kept in 1/65536. */
            if (behind > 1.0 + 4 || behind < -1.0 - 4)
                fail_msg("source %zu is %g behind at %u", j, behind,
                         (unsigned)i);
        }
    }
    pen_sampler_free(sampler);
    for (size_t i = 0; i < 3; i++)
        free(numbers[i].bytes);
}

static void wrong_blends_and_splits_are_refused(void **state)
{
    (void)state;
    struct numbers numbers;
    numbers_init(&numbers, 100);
    struct pen_sample_source sources[2] = {{&numbers.file, 1},
                                           {&numbers.file, 1e-6}};
    struct pen_sampler_options options = {.seq_length = 4};
    struct pen_sampler *sampler = NULL;
    double split[PEN_SPLIT_PARTS];
    assert_int_equal(PEN_INVALID,
                     pen_sampler_create(sources, 2, &options, &sampler, NULL));
    sources[1].weight = -1;
    assert_int_equal(PEN_INVALID,
                     pen_sampler_create(sources, 2, &options, &sampler, NULL));
    assert_int_equal(PEN_INVALID,
                     pen_sampler_create(sources, 0, &options, &sampler, NULL));
    options.seq_length = 100;
    assert_int_equal(PEN_INVALID,
                     pen_sampler_create(sources, 1, &options, &sampler, NULL));
    static const char *const bad[] = {"",     "a",   "1,2,3,4", "1,,2",
                                      "-1,2", "0,0", "1,2,",    "nan"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(PEN_INVALID, pen_split_parse(bad[i], split, NULL));
    assert_int_equal(PEN_OK, pen_split_parse("949,50,1", split, NULL));
    assert_true(split[0] == 949 && split[1] == 50 && split[2] == 1);
    assert_int_equal(PEN_OK, pen_split_parse("99,1", split, NULL));
    assert_true(split[1] == 1 && split[2] == 0);
    free(numbers.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_is_a_stretch_of_tokens),
        cmocka_unit_test(every_sequence_comes_once_per_epoch),
        cmocka_unit_test(seed_and_epoch_change_the_order),
        cmocka_unit_test(the_order_is_fixed_for_good),
        cmocka_unit_test(parts_follow_each_other_without_overlap),
        cmocka_unit_test(a_blend_keeps_every_weight_at_every_index),
        cmocka_unit_test(wrong_blends_and_splits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
