/*
 * Every file of tests/golden is made again: the same rows, the same figures.
 *
 * The first line names the generator, its arguments and what must come out at
 * unit times; the others are the rows, one per rank, without communication:
 *
 *   zb-h1 ranks=4 microbatches=8 makespan=27 span=27 peak=4,4,4,4 freed=4,3,2,1
 *   0F0 0F1 0F2 0F3 0I0 0W0 ...
 *
 *   peak      activations per rank, held to W
 *   freed     the same when I frees them
 *   versions  weight versions held per rank
 *   memory    what the generator is told of F, I and W (the figures are not)
 *   steps     "hidden": the rows leave out STEP
 *
 * A file without rows states figures only.
 */
#include "base/file.h"
#include "support/support.h"

#include <dirent.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER PEN_SOURCE_DIR "/tests/golden/"
#define MAX_FILES 128
#define MAX_RANKS 16

struct golden {
    char *text;
    const char *generator;
    struct pen_generator_args args;
    struct pen_costs costs; /* told to the generator */
    double makespan;        /* negative: not stated */
    double span;
    const char *peak; /* NULL: not stated */
    const char *freed;
    const char *versions;
    bool hides_steps;
    char *rows;
};

static uint32_t number(const char *text)
{
    return (uint32_t)strtoul(text, NULL, 10);
}

static void read_memory(struct golden *golden, const char *value)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_memory_read(value, &golden->costs.memory, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    golden->args.has_memory = true;
    pen_text_release(&why);
}

static void read_field(struct golden *golden, const char *key,
                       const char *value)
{
    if (strcmp(key, "ranks") == 0)
        golden->args.ranks = number(value);
    else if (strcmp(key, "microbatches") == 0)
        golden->args.microbatches = number(value);
    else if (strcmp(key, "chunks") == 0)
        golden->args.chunks = number(value);
    else if (strcmp(key, "slices") == 0)
        golden->args.slices = number(value);
    else if (strcmp(key, "batches") == 0)
        golden->args.batches = number(value);
    else if (strcmp(key, "warmup") == 0)
        golden->args.warmup = number(value);
    else if (strcmp(key, "limit") == 0)
        golden->args.memory_limit = strtod(value, NULL);
    else if (strcmp(key, "memory") == 0)
        read_memory(golden, value);
    else if (strcmp(key, "makespan") == 0)
        golden->makespan = strtod(value, NULL);
    else if (strcmp(key, "span") == 0)
        golden->span = strtod(value, NULL);
    else if (strcmp(key, "peak") == 0)
        golden->peak = value;
    else if (strcmp(key, "freed") == 0)
        golden->freed = value;
    else if (strcmp(key, "versions") == 0)
        golden->versions = value;
    else if (strcmp(key, "steps") == 0)
        golden->hides_steps = strcmp(value, "hidden") == 0;
    else
        fail_msg("the first line has an unknown field %s", key);
}

/* Cuts the text in place: fields are borrowed from golden->text. */
static void read_golden(struct golden *golden, const char *file)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_text_add(&path, FOLDER "%s", file);
    if (pen_file_read(pen_text_string(&path), 1 << 20, &text, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&path);
    pen_text_release(&why);
    *golden = (struct golden){.text = text.bytes, .makespan = -1, .span = -1};
    golden->costs = unit_costs();
    golden->rows = strchr(golden->text, '\n');
    assert_non_null(golden->rows);
    *golden->rows++ = '\0';
    char *rest = NULL;
    golden->generator = strtok_r(golden->text, " ", &rest);
    for (char *field = strtok_r(NULL, " ", &rest); field != NULL;
         field = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(field, '=');
        assert_non_null(value);
        *value++ = '\0';
        read_field(golden, field, value);
    }
}

static bool is_shown(const struct golden *golden, const struct pen_op *op)
{
    uint8_t op_class = pen_op_info(op->kind)->op_class;
    if (op_class == PEN_OP_CLASS_STEP)
        return op->version != PEN_OP_CURRENT && !golden->hides_steps;
    return op_class == PEN_OP_CLASS_COMPUTE || op_class == PEN_OP_CLASS_MOVE;
}

static void print_row(const struct golden *golden, const struct pen_row *row,
                      struct pen_text *out)
{
    for (uint32_t i = 0; i < row->count; i++) {
        if (!is_shown(golden, &row->ops[i]))
            continue;
        pen_text_add_string(out, out->length > 0 ? " " : "");
        pen_op_print(&row->ops[i], out);
    }
}

static void expect_rows(struct golden *golden,
                        const struct pen_schedule *schedule)
{
    char *rest = NULL;
    char *expected = strtok_r(golden->rows, "\n", &rest);
    if (expected == NULL)
        return;
    for (uint32_t rank = 0; rank < schedule->shape.num_ranks; rank++) {
        struct pen_text found = PEN_TEXT_EMPTY;
        print_row(golden, &schedule->rows[rank], &found);
        if (expected == NULL || strcmp(expected, pen_text_string(&found)) != 0)
            fail_msg("rank %u\nexpected %s\nfound    %s", rank,
                     expected != NULL ? expected : "no more rows",
                     pen_text_string(&found));
        pen_text_release(&found);
        expected = strtok_r(NULL, "\n", &rest);
    }
    assert_null(expected);
}

/* "4,3,2,1" against one value per rank. */
static void expect_list(const char *expected, const double *found,
                        uint32_t count, const char *what)
{
    if (expected == NULL)
        return;
    const char *at = expected;
    for (uint32_t i = 0; i < count; i++) {
        char *end = NULL;
        double value = strtod(at, &end);
        if (end == at)
            fail_msg("%s has fewer than %u values: %s", what, count, expected);
        expect_close(value, found[i], what);
        at = *end == ',' ? end + 1 : end;
    }
    assert_string_equal("", at);
}

static void expect_figures(const struct golden *golden,
                           const struct pen_schedule *schedule)
{
    struct pen_costs costs = unit_costs();
    struct pen_timing *timing = time_of(schedule, &costs);
    costs.memory = (struct pen_memory){.forward = 1, .input = -1};
    struct pen_timing *freeing = time_of(schedule, &costs);
    double peak[MAX_RANKS];
    double freed[MAX_RANKS];
    double versions[MAX_RANKS];
    assert_true(timing->num_ranks <= MAX_RANKS);
    for (uint32_t rank = 0; rank < timing->num_ranks; rank++) {
        peak[rank] = timing->ranks[rank].peak;
        freed[rank] = freeing->ranks[rank].peak;
        versions[rank] = timing->ranks[rank].versions;
    }
    if (golden->makespan >= 0)
        expect_close(golden->makespan, timing->makespan_sec, "makespan");
    if (golden->span >= 0)
        expect_close(golden->span, timing->span_sec, "span");
    expect_list(golden->peak, peak, timing->num_ranks, "peak");
    expect_list(golden->freed, freed, timing->num_ranks, "peak freed at I");
    expect_list(golden->versions, versions, timing->num_ranks, "versions");
    pen_timing_free(timing);
    pen_timing_free(freeing);
}

static void expect_verified(const struct pen_schedule *schedule)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_verify_options options = {0};
    if (pen_schedule_verify(schedule, &options, NULL, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
}

/* state: the name of the file. */
static void golden_file_is_made_again(void **state)
{
    struct golden golden;
    read_golden(&golden, *state);
    golden.args.costs = &golden.costs;
    struct pen_schedule *schedule = make_with(golden.generator, &golden.args);
    expect_rows(&golden, schedule);
    expect_verified(schedule);
    expect_figures(&golden, schedule);
    pen_schedule_free(schedule);
    pen_costs_release(&golden.costs);
    free(golden.text);
}

/* Unless the order is ours rather than the paper's. */
static void published_orders_have_a_golden_file(void **state)
{
    (void)state;
    for (size_t i = 0; pen_generator_at(i) != NULL; i++) {
        const struct pen_generator *generator = pen_generator_at(i);
        struct pen_text pattern = PEN_TEXT_EMPTY;
        glob_t found;
        if (generator->note != NULL)
            continue;
        pen_text_add(&pattern, FOLDER "%s_p*.txt", generator->name);
        if (glob(pen_text_string(&pattern), 0, NULL, &found) != 0)
            fail_msg("write the rows of %s as tests/golden/%s_p4_m8.txt; the "
                     "top of tests/unit/golden.c says how",
                     generator->name, generator->name);
        globfree(&found);
        pen_text_release(&pattern);
    }
}

static int is_golden(const struct dirent *entry)
{
    return strstr(entry->d_name, ".txt") != NULL;
}

int main(void)
{
    static struct CMUnitTest tests[MAX_FILES];
    struct dirent **files = NULL;
    int count = scandir(FOLDER, &files, is_golden, alphasort);
    if (count <= 0 || count >= MAX_FILES) {
        print_error("%d files in %s\n", count, FOLDER);
        return 1;
    }
    for (int i = 0; i < count; i++)
        tests[i] = (struct CMUnitTest){.name = files[i]->d_name,
                                       .test_func = golden_file_is_made_again,
                                       .initial_state = files[i]->d_name};
    tests[count] = (struct CMUnitTest)cmocka_unit_test(
        published_orders_have_a_golden_file);
    int failed =
        _cmocka_run_group_tests("golden", tests, (size_t)count + 1, NULL, NULL);
    for (int i = 0; i < count; i++)
        free(files[i]);
    free(files);
    return failed;
}
