/*
 * A profile prints as a file that reads back as the same profile, number for
 * number, and a file that is wrong is refused by its place.
 */
#include "support/support.h"

#include "core/profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A block of a micro-batch twice as large. */
static void double_block(struct pen_profile_layer *layers)
{
    struct pen_profile_layer *block = &layers[PEN_LAYER_BLOCK];
    block->output_bytes *= 2;
    block->passing_bytes *= 2;
    for (int mode = 0; mode < PEN_RECOMPUTES; mode++) {
        block->modes[mode].stash_bytes *= 2;
        for (int pass = 0; pass < PEN_PASSES; pass++)
            block->modes[mode].passes[pass].median_sec *= 2;
    }
}

/* Every number another one, none of them round. */
static struct pen_profile make_profile(void)
{
    struct pen_profile profile = {.cpu = "Some (R) CPU @ 2.1GHz",
                                  .num_cores = 2,
                                  .memory_bytes = 1u << 30,
                                  .engine = "onednn",
                                  .library = "2.6.3, OpenMP",
                                  .is_bf16 = true,
                                  .num_threads = 1,
                                  .num_ranks = 2,
                                  .family = "gpt2",
                                  .micro_batch = 4,
                                  .sequence = 128,
                                  .num_rounds = 7,
                                  .program_bytes = 31234567,
                                  .num_more = 1,
                                  .more = {{.micro_batch = 8}}};
    double next = 1.0 / 3;
    memset(profile.model_hash, 'a', PEN_HASH_SIZE - 1);
    for (int kind = 0; kind < PEN_LAYER_KINDS; kind++) {
        struct pen_profile_layer *layer = &profile.layers[kind];
        layer->num_parameters = 100u + (unsigned)kind;
        layer->parameter_bytes = PEN_PROFILE_MAX_BYTES;
        layer->engine_bytes = 300u + (unsigned)kind;
        layer->passing_bytes = 400u + (unsigned)kind;
        layer->largest = 50u + (unsigned)kind;
        layer->output_bytes = kind == PEN_LAYER_HEAD ? 0 : 64;
        for (int mode = 0; mode < PEN_RECOMPUTES; mode += 2) {
            struct pen_profile_mode *it = &layer->modes[mode];
            it->is_there = true;
            it->stash_bytes = 1000u + (unsigned)(10 * kind + mode);
            it->hold_bytes = 2000u + (unsigned)(10 * kind + mode);
            it->scratch_bytes = 3000u + (unsigned)(10 * kind + mode);
            for (int pass = 0; pass < PEN_PASSES; pass++) {
                it->passes[pass].median_sec = next *= 0.9;
                it->passes[pass].spread_sec = next / 100;
            }
        }
    }
    memcpy(profile.more[0].layers, profile.layers, sizeof profile.layers);
    double_block(profile.more[0].layers);
    for (int update = 0; update < PEN_UPDATES; update++)
        profile.updates[update] =
            (struct pen_measured){next * 1e-9, next * 1e-11};
    profile.link = (struct pen_profile_link){
        .is_there = true, .latency_sec = 3.1e-6, .bytes_per_sec = 4.2e9};
    return profile;
}

static struct pen_profile *parse_profile(const char *text)
{
    struct pen_profile *profile = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_profile_parse(text, strlen(text), &profile, &why) != PEN_OK)
        fail_msg("%s\nrefused: %s", text, pen_text_string(&why));
    pen_text_release(&why);
    return profile;
}

/* Prints a right profile, puts `with` in place of `what`, expects a refusal. */
static void expect_refusal(const char *what, const char *with,
                           const char *expected)
{
    struct pen_profile made = make_profile();
    struct pen_profile *profile = NULL;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text changed = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_profile_print(&made, &text);
    const char *at = strstr(pen_text_string(&text), what);
    if (at == NULL)
        fail_msg("the text has no %s", what);
    pen_text_add_bytes(&changed, text.bytes, (size_t)(at - text.bytes));
    pen_text_add(&changed, "%s%s", with, at + strlen(what));
    pen_status status =
        pen_profile_parse(changed.bytes, changed.length, &profile, &why);
    if (status != PEN_INVALID)
        fail_msg("accepted: %s for %s", with, what);
    assert_string_equal(expected, pen_text_string(&why));
    assert_null(profile);
    pen_text_release(&why);
    pen_text_release(&changed);
    pen_text_release(&text);
}

static void a_profile_comes_back_number_for_number(void **state)
{
    (void)state;
    struct pen_profile made = make_profile();
    struct pen_text first = PEN_TEXT_EMPTY;
    struct pen_text second = PEN_TEXT_EMPTY;
    pen_profile_print(&made, &first);
    struct pen_profile *read = parse_profile(pen_text_string(&first));
    pen_profile_print(read, &second);
    assert_string_equal(pen_text_string(&first), pen_text_string(&second));
    assert_string_equal(made.cpu, read->cpu);
    assert_string_equal(made.library, read->library);
    assert_true(read->is_bf16);
    assert_memory_equal(made.layers, read->layers, sizeof made.layers);
    assert_memory_equal(made.updates, read->updates, sizeof made.updates);
    assert_int_equal(1, read->num_more);
    assert_int_equal(8, read->more[0].micro_batch);
    assert_memory_equal(made.more[0].layers, read->more[0].layers,
                        sizeof made.layers);
    assert_int_equal(31234567, read->program_bytes);
    assert_true(read->link.bytes_per_sec == 4.2e9);
    pen_profile_free(read);
    pen_text_release(&first);
    pen_text_release(&second);
}

static void a_profile_is_saved_if_it_is_right(void **state)
{
    (void)state;
    char path[] = "/tmp/penstock-profile-XXXXXX";
    struct pen_profile made = make_profile();
    struct pen_profile *read = NULL;
    int handle = mkstemp(path);
    assert_true(handle >= 0);
    close(handle);
    assert_int_equal(PEN_OK, pen_profile_save(&made, path, NULL));
    assert_int_equal(PEN_OK, pen_profile_load(path, &read, NULL));
    assert_int_equal(128, read->sequence);
    pen_profile_free(read);
    made.layers[1].modes[0].passes[0].median_sec = NAN;
    assert_int_equal(PEN_INVALID, pen_profile_save(&made, path, NULL));
    unlink(path);
}

static void wrong_profiles_are_refused_by_their_place(void **state)
{
    (void)state;
    expect_refusal("penstock-profile", "penstock-plan",
                   "format must be \"penstock-profile\"");
    expect_refusal("\"version\": 1", "\"version\": 2", "version must be 1");
    expect_refusal("{\"cpu\"", "{\"gpu\"",
                   "machine.gpu is not a key of this format; expected one of "
                   "cpu cores memory_bytes");
    expect_refusal("\"cores\": 2", "\"cores\": 0",
                   "machine.cores must be an integer from 1 to 16777216");
    expect_refusal("Some (R)", "S\\u00e9",
                   "machine.cpu must be a string of 1 to 95 printable ASCII "
                   "characters without quotes and backslashes");
    expect_refusal("\"bf16\"", "\"fp8\"",
                   "engine.dtype must be one of \"f32\" \"bf16\"");
    expect_refusal("aaaa", "AAAA",
                   "model.sha256 must be 64 hexadecimal digits");
    expect_refusal("\"f_spread\"", "\"f_spraed\"",
                   "layers.embedding.none.f_spraed is not a key of this "
                   "format; expected one of f f_spread i i_spread w w_spread b "
                   "b_spread stash_bytes hold_bytes scratch_bytes");
    expect_refusal("\"engine_bytes\": 300", "\"engine_bytes\": 1e3",
                   "layers.embedding.engine_bytes must be an integer from 0 to "
                   "9007199254740992");
    expect_refusal("\"largest\": 50", "\"largest\": 101",
                   "layers.embedding has a number out of range");
    expect_refusal("{\"micro_batch\": 8", "{\"micro_batch\": 4",
                   "more[0].micro_batch must be larger than 4");
    expect_refusal("\"more\": [", "\"more\": [7, ",
                   "more[0] must be an object");
    expect_refusal("\"program_bytes\": 31234567", "\"program_bytes\": -1",
                   "program_bytes must be an integer from 0 to "
                   "9007199254740992");
    expect_refusal("\"stash_bytes\": 1000", "\"stash_bytes\": -1",
                   "layers.embedding.none.stash_bytes must be an integer from "
                   "0 to 9007199254740992");
    expect_refusal("\"latency\": 3.1e-06, ", "", "link.latency is missing");
    expect_refusal("\"bandwidth\": 4.2e+09", "\"bandwidth\": 0",
                   "link.bandwidth must be a number from 1 to 9.0072e+15");
    expect_refusal("\"rounds\": 7", "\"rounds\": 7,\n  \"rounds\": 8",
                   "line 10, column 10: duplicate object key near "
                   "'\"rounds\"'");
}

/* Keys that came later may be absent. */
static void an_older_profile_is_read(void **state)
{
    (void)state;
    static const char *const later[] = {
        ",\n  \"program_bytes\": 31234567", ", \"scratch_bytes\": 3000",
        (",\n      \"engine_bytes\": 300, \"passing_bytes\": 400, "
         "\"largest\": 50")};
    struct pen_profile made = make_profile();
    made.num_more = 0;
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_profile_print(&made, &text);
    char *bytes = strdup(pen_text_string(&text));
    assert_non_null(bytes);
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        char *at = strstr(bytes, later[i]);
        assert_non_null(at);
        memmove(at, at + strlen(later[i]), strlen(at + strlen(later[i])) + 1);
    }
    struct pen_profile *read = parse_profile(bytes);
    assert_int_equal(0, read->program_bytes);
    assert_int_equal(0, read->layers[0].engine_bytes);
    assert_int_equal(0, read->layers[0].modes[0].scratch_bytes);
    pen_profile_free(read);
    free(bytes);
    pen_text_release(&text);
}

static void between_two_sizes_is_the_line_between_them(void **state)
{
    (void)state;
    struct pen_profile made = make_profile();
    struct pen_profile found;
    const struct pen_profile_layer *block = &made.layers[PEN_LAYER_BLOCK];
    const struct pen_profile_layer *at = &found.layers[PEN_LAYER_BLOCK];
    const double shares[] = {1, 1.5, 2};
    const uint32_t sizes[] = {4, 6, 8};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(PEN_OK, pen_profile_at(&made, sizes[i], &found, NULL));
        assert_int_equal(sizes[i], found.micro_batch);
        assert_int_equal(0, found.num_more);
        expect_close(shares[i] * block->modes[0].passes[0].median_sec,
                     at->modes[0].passes[0].median_sec, "seconds");
        expect_close(shares[i] * (double)block->modes[0].stash_bytes,
                     (double)at->modes[0].stash_bytes, "stash");
        expect_close(shares[i] * (double)block->output_bytes,
                     (double)at->output_bytes, "output");
        assert_int_equal(block->num_parameters, at->num_parameters);
    }
}

static void sizes_beyond_are_refused(void **state)
{
    (void)state;
    struct pen_profile made = make_profile();
    struct pen_profile found = {.num_cores = 42};
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID, pen_profile_at(&made, 3, &found, NULL));
    assert_int_equal(PEN_INVALID, pen_profile_at(&made, 9, &found, &why));
    assert_string_equal(
        "the profile is for micro-batches of 4 to 8 sequences of 128 "
        "tokens, not for 9 of 128; measure it again",
        pen_text_string(&why));
    assert_int_equal(42, found.num_cores);
    made.num_more = 0; /* of one size there is no line */
    assert_int_equal(PEN_INVALID, pen_profile_at(&made, 5, &found, NULL));
    assert_int_equal(PEN_OK, pen_profile_at(&made, 4, &found, NULL));
    pen_text_release(&why);
}

static void layers_have_the_same_modes(void **state)
{
    (void)state;
    struct pen_profile profile = make_profile();
    profile.layers[PEN_LAYER_HEAD].modes[PEN_RECOMPUTE_FULL].is_there = false;
    assert_int_equal(PEN_INVALID, pen_profile_check(&profile, NULL));
    for (int kind = 0; kind < PEN_LAYER_KINDS; kind++)
        for (int mode = 0; mode < PEN_RECOMPUTES; mode++)
            profile.layers[kind].modes[mode].is_there = false;
    assert_int_equal(PEN_INVALID, pen_profile_check(&profile, NULL));
}

static void a_profile_fits_what_it_was_measured_for(void **state)
{
    (void)state;
    struct pen_profile profile = make_profile();
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_model *model = NULL;
    assert_int_equal(PEN_OK, pen_model_load("preset:gpt2", &model, NULL));
    struct pen_profile_use use = {
        .model = model, .micro_batch = 4, .sequence = 128, .is_bf16 = true};
    assert_int_equal(PEN_INVALID, pen_profile_fits(&profile, &use, &why));
    assert_string_equal(
        "the profile is for another model (a gpt2); measure it again",
        pen_text_string(&why));
    assert_int_equal(PEN_OK,
                     pen_profile_hash_model(model, profile.model_hash, NULL));
    assert_int_equal(PEN_OK, pen_profile_fits(&profile, &use, NULL));
    use.micro_batch = 5; /* between the two that were measured */
    assert_int_equal(PEN_OK, pen_profile_fits(&profile, &use, NULL));
    use.micro_batch = 4;
    use.sequence = 64;
    profile.num_more = 0;
    pen_text_clear(&why);
    assert_int_equal(PEN_INVALID, pen_profile_fits(&profile, &use, &why));
    assert_string_equal(
        "the profile is for micro-batches of 4 sequences of 128 "
        "tokens, not for 4 of 64; measure it again",
        pen_text_string(&why));
    use.sequence = 128;
    use.is_bf16 = false;
    pen_text_clear(&why);
    assert_int_equal(PEN_INVALID, pen_profile_fits(&profile, &use, &why));
    assert_string_equal("the profile was measured in bf16; measure it again in "
                        "the number format of the training",
                        pen_text_string(&why));
    pen_model_free(model);
    pen_text_release(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_profile_comes_back_number_for_number),
        cmocka_unit_test(a_profile_is_saved_if_it_is_right),
        cmocka_unit_test(wrong_profiles_are_refused_by_their_place),
        cmocka_unit_test(an_older_profile_is_read),
        cmocka_unit_test(between_two_sizes_is_the_line_between_them),
        cmocka_unit_test(sizes_beyond_are_refused),
        cmocka_unit_test(layers_have_the_same_modes),
        cmocka_unit_test(a_profile_fits_what_it_was_measured_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
