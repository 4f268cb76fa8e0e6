/*
 * Rounds between islands: what is in a contribution, and that the next state
 * depends on contributions, their weights and nothing else.
 */
#include "support/support.h"

#include "sync/islands.h"

#include <stdlib.h>
#include <string.h>

enum { TENSORS = 4, COUNT = 200, MOMENTS = 2 };

static const size_t counts[TENSORS] = {96, 24, 40, 40};

struct model {
    struct pen_sync_choice choice;
    struct pen_sync_tensor tensors[TENSORS];
    struct pen_islands *islands;
};

static struct pen_sync_choice choose(const char *method, uint64_t interval,
                                     const char *option, const char *compress)
{
    struct pen_sync_choice choice;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(pen_sync_choose(method, interval, &option, option != NULL,
                                     compress, &choice, &why),
                     PEN_OK);
    pen_text_release(&why);
    return choice;
}

static void make_model(struct model *model, bool is_folding)
{
    size_t first = 0;
    for (size_t i = 0; i < TENSORS; first += counts[i++])
        model->tensors[i] = (struct pen_sync_tensor){.key = i,
                                                     .rows = 1,
                                                     .columns = counts[i],
                                                     .count = counts[i],
                                                     .first = first};
    const struct pen_islands_model of = {.choice = &model->choice,
                                         .tensors = model->tensors,
                                         .num_tensors = TENSORS,
                                         .count = COUNT,
                                         .num_moments = MOMENTS,
                                         .is_folding = is_folding,
                                         .epoch_steps = 1};
    assert_int_equal(pen_islands_create(&of, &model->islands, NULL), PEN_OK);
}

static float number(size_t of, size_t index)
{
    return (float)((index * 37 + of * 11) % 101) / 64 - 0.7f;
}

/* What island `of` gives, with moments behind it. */
static struct pen_islands_contribution
contribution(struct model *model, uint32_t of, uint64_t round, double tokens)
{
    float given[(1 + MOMENTS) * COUNT];
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        given[i] = number(of, i);
    size_t length = pen_islands_length(model->islands, round);
    void *bytes = calloc(1, length + 1);
    assert_non_null(bytes);
    assert_true(length <= pen_islands_most(model->islands));
    pen_islands_write(model->islands, round, given, bytes);
    return (struct pen_islands_contribution){of, tokens, bytes, length};
}

static void drop(struct pen_islands_contribution *given, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free((void *)given[i].bytes);
}

static void weights_are_tokens(void **state)
{
    (void)state;
    struct model model = {.choice = choose("diloco", 5, NULL, NULL)};
    make_model(&model, false);
    struct pen_islands_contribution given[] = {contribution(&model, 0, 1, 640),
                                               contribution(&model, 1, 1, 320)};
    float found[2 * COUNT] = {0};
    assert_int_equal(pen_islands_state(model.islands), 2 * COUNT);
    assert_int_equal(pen_islands_take(model.islands, 1, given, 2, found),
                     PEN_OK);
    for (size_t i = 0; i < COUNT; i++) {
        float mean = (number(0, i) + 0.5f * number(1, i)) * (1 / 1.5f);
        assert_true(found[COUNT + i] == mean);
        assert_true(found[i] == -0.7f * (mean + 0.9f * mean));
    }
    drop(given, 2);
    pen_islands_free(model.islands);
}

static void the_order_in_which_they_came_does_not_count(void **state)
{
    (void)state;
    struct model model = {
        .choice = choose("diloco", 5, NULL, "chunk-top-k:3,chunk=16")};
    make_model(&model, false);
    struct pen_islands_contribution given[] = {contribution(&model, 0, 1, 5),
                                               contribution(&model, 1, 1, 7),
                                               contribution(&model, 2, 1, 6)};
    struct pen_islands_contribution other[] = {given[2], given[0], given[1]};
    float found[2 * COUNT] = {0}, again[2 * COUNT] = {0};
    assert_int_equal(pen_islands_take(model.islands, 1, given, 3, found),
                     PEN_OK);
    assert_int_equal(pen_islands_take(model.islands, 1, other, 3, again),
                     PEN_OK);
    assert_memory_equal(found, again, sizeof found);
    drop(given, 3);
    pen_islands_free(model.islands);
}

static void moments_are_given_when_they_are_due(void **state)
{
    (void)state;
    struct model model = {.choice = choose("des-loc", 5, "kv=10", NULL)};
    make_model(&model, false);
    const size_t weights = COUNT * sizeof(float);
    assert_int_equal(pen_islands_state(model.islands), 3 * COUNT);
    assert_int_equal(pen_islands_length(model.islands, 1), weights);
    assert_int_equal(pen_islands_length(model.islands, 2), 2 * weights);
    assert_int_equal(pen_islands_length(model.islands, 3), 2 * weights);
    assert_int_equal(pen_islands_length(model.islands, 6), 3 * weights);
    struct pen_islands_contribution given = contribution(&model, 3, 2, 1);
    float found[3 * COUNT] = {0};
    assert_int_equal(pen_islands_take(model.islands, 2, &given, 1, found),
                     PEN_OK);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(found[i] == number(3, i));
        assert_true(found[COUNT + i] == 0);
        assert_true(found[2 * COUNT + i] == number(3, 2 * COUNT + i));
    }
    drop(&given, 1);
    pen_islands_free(model.islands);
}

static void fragments_take_turns_over_all_weights(void **state)
{
    (void)state;
    struct model model = {
        .choice = choose("streaming-diloco", 12, "fragments=3", NULL)};
    make_model(&model, false);
    float found[2 * COUNT] = {0};
    size_t sent = 0, changed = 0;
    assert_int_equal(pen_islands_steps(&model.choice), 4);
    assert_int_equal(pen_islands_delay(&model.choice), 1);
    for (uint64_t round = 1; round <= 3; round++) {
        struct pen_islands_contribution given =
            contribution(&model, 1, round, 1);
        sent += given.length;
        memset(found, 0, sizeof found);
        assert_int_equal(
            pen_islands_take(model.islands, round, &given, 1, found), PEN_OK);
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(found[COUNT + i] == 0 ||
                        found[COUNT + i] == number(1, i));
            changed += found[COUNT + i] != 0;
        }
        drop(&given, 1);
    }
    assert_int_equal(sent, COUNT * sizeof(float));
    size_t not_zero = 0;
    for (size_t i = 0; i < COUNT; i++)
        not_zero += number(1, i) != 0;
    assert_int_equal(changed, not_zero);
    pen_islands_free(model.islands);
}

/* What waited is a change, also where a method gives its weights. */
static void folded_weights_are_changes(void **state)
{
    (void)state;
    struct model model = {.choice = choose("local-sgd", 5, "moments=0", NULL)};
    make_model(&model, true);
    struct pen_islands_contribution given = contribution(&model, 0, 1, 2);
    float found[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        found[i] = 1;
    assert_true(pen_islands_gives_changes(&model.choice, true));
    assert_int_equal(pen_islands_take(model.islands, 1, &given, 1, found),
                     PEN_OK);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(found[i] == 1 - number(0, i));
    drop(&given, 1);
    pen_islands_free(model.islands);
}

/* Bytes of another island are input. */
static void what_is_no_contribution_is_refused(void **state)
{
    (void)state;
    struct model model = {.choice = choose("diloco", 5, NULL, "top-k:0.1")};
    make_model(&model, false);
    struct pen_islands_contribution given = contribution(&model, 0, 1, 1);
    float found[2 * COUNT] = {0};
    given.length--;
    assert_int_equal(pen_islands_take(model.islands, 1, &given, 1, found),
                     PEN_INVALID);
    given.length++;
    given.tokens = 0;
    assert_int_equal(pen_islands_take(model.islands, 1, &given, 1, found),
                     PEN_INVALID);
    given.tokens = 1;
    assert_int_equal(pen_islands_take(model.islands, 1, &given, 1, found),
                     PEN_OK);
    memset((char *)(uintptr_t)given.bytes + given.length - 4, 0xff, 4);
    assert_int_equal(pen_islands_take(model.islands, 1, &given, 1, found),
                     PEN_INVALID);
    drop(&given, 1);
    pen_islands_free(model.islands);
}

static void expect_refusal(const struct pen_sync_choice *choice,
                           bool is_folding, const char *words)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(pen_islands_check(choice, is_folding, &why), PEN_INVALID);
    assert_non_null(strstr(pen_text_string(&why), words));
    pen_text_release(&why);
}

static void others_are_refused_with_what_there_is(void **state)
{
    (void)state;
    struct pen_sync_choice choice;
    size_t refused = 0;
    for (size_t i = 0; i < pen_sync_num_methods(); i++) {
        const struct pen_sync_method *method = pen_sync_method_at(i);
        choice = choose(method->name, 0, NULL, NULL);
        if (method->islands == NULL) {
            refused++;
            expect_refusal(&choice, false, "of --ring there are: diloco, ");
            expect_refusal(&choice, true, "of --ring there are: diloco, ");
        } else {
            assert_int_equal(pen_islands_check(&choice, false, NULL), PEN_OK);
        }
    }
    assert_true(refused > 0);
    choice = choose("diloco", 0, NULL, "powersgd");
    expect_refusal(&choice, false, "there are: top-k, chunk-top-k, dgc");
    choice = choose("diloco", 0, NULL, "top-k");
    expect_refusal(&choice, true, "use --late discard");
    choice = choose("sparse-loco", 0, NULL, NULL);
    expect_refusal(&choice, true, "use --late discard");
    choice = choose("streaming-diloco", 0, NULL, NULL);
    expect_refusal(&choice, true, "use --late discard");
    choice = choose("streaming-diloco", 10, NULL, NULL);
    expect_refusal(&choice, false, "a multiple of fragments");
    choice = choose("streaming-diloco", 20, "delay=5", NULL);
    expect_refusal(&choice, false, "above delay times fragments");
    choice = choose("des-loc", 10, "ku=15", NULL);
    expect_refusal(&choice, false, "multiples of --sync-interval");
    choice = choose("decoupled-diloco", 10, "quorum=2", NULL);
    expect_refusal(&choice, false, "penstock ring coordinate");
}

/* What is not refused gives two rounds, and the next states of them. */
static void run_two_rounds(struct model *model, bool is_folding)
{
    make_model(model, is_folding);
    float *found = calloc(pen_islands_state(model->islands) + 1, sizeof *found);
    assert_non_null(found);
    for (uint64_t round = 1; round <= 2; round++) {
        struct pen_islands_contribution given[] = {
            contribution(model, 0, round, 640),
            contribution(model, 1, round, 320)};
        assert_int_equal(
            pen_islands_take(model->islands, round, given, 2, found), PEN_OK);
        drop(given, 2);
    }
    free(found);
    pen_islands_free(model->islands);
}

/* With a compressor (NULL: none) under a method. Whether islands have it. */
static bool try_combination(const char *method, const char *compress,
                            bool is_folding)
{
    struct model model;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status =
        pen_sync_choose(method, 0, NULL, 0, compress, &model.choice, &why);
    if (status == PEN_OK)
        status = pen_islands_check(&model.choice, is_folding, &why);
    if (status == PEN_OK)
        run_two_rounds(&model, is_folding);
    else
        assert_true(status == PEN_INVALID && why.length > 20);
    pen_text_release(&why);
    return status == PEN_OK;
}

static void every_combination_runs_or_says_why(void **state)
{
    (void)state;
    size_t ran = 0, refused = 0;
    for (size_t i = 0; i < pen_sync_num_methods(); i++)
        for (size_t k = 0; k <= pen_sync_num_compressors(); k++)
            for (int is_folding = 0; is_folding < 2; is_folding++) {
                const char *compress =
                    k == 0 ? NULL : pen_sync_compressor_at(k - 1)->name;
                bool runs = try_combination(pen_sync_method_at(i)->name,
                                            compress, is_folding);
                ran += runs;
                refused += !runs;
            }
    print_message("%zu combinations run, %zu are refused\n", ran, refused);
    assert_true(ran > 30 && refused > ran);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_tokens),
        cmocka_unit_test(the_order_in_which_they_came_does_not_count),
        cmocka_unit_test(moments_are_given_when_they_are_due),
        cmocka_unit_test(fragments_take_turns_over_all_weights),
        cmocka_unit_test(folded_weights_are_changes),
        cmocka_unit_test(what_is_no_contribution_is_refused),
        cmocka_unit_test(others_are_refused_with_what_there_is),
        cmocka_unit_test(every_combination_runs_or_says_why)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
