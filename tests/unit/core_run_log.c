/*
 * What is logged of a training reads back number for number, also after a kill
 * and a resume, and a file that is not such a log is refused by its place.
 */
#include "support/support.h"

#include "base/file.h"
#include "base/random.h"
#include "core/run_log.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define HEAD                                                                   \
    "{\"format\":\"penstock-run\",\"version\":2,\"model\":\"m\","              \
    "\"settings\":{}}\n"
#define REST                                                                   \
    "\"grad_norm\":1,\"lr\":1,\"tokens\":1,\"tokens_per_sec\":1,"              \
    "\"share_of_peak\":1,\"step_ms\":1,\"memory_bytes\":1,\"elapsed_sec\":1}"  \
    "\n"
#define STEP(number) "{\"step\":" number ",\"loss\":1," REST

static const struct pen_run_head head = {.model = "m"};
static char folder[] = "/tmp/penstock-run-log-XXXXXX";
static char path[100];

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/run.jsonl", folder);
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static struct pen_run_step step_number(uint64_t number)
{
    return (struct pen_run_step){.step = number,
                                 .loss = 10.0 / (double)number,
                                 .grad_norm = 0.1,
                                 .lr = 6e-4,
                                 .tokens = number * 1024,
                                 .tokens_per_sec = 1e5 / 3,
                                 .share_of_peak = 0.7,
                                 .step_ms = 30.72,
                                 .memory_bytes = 1u << 30,
                                 .elapsed_sec = 0.03072 * (double)number,
                                 .val_loss = NAN,
                                 .val_accuracy = NAN,
                                 .loss_usual = NAN,
                                 .grad_norm_usual = NAN,
                                 .move_sec = NAN,
                                 .move_bytes = NAN,
                                 .repeated = NAN,
                                 .skipped = NAN,
                                 .round = NAN,
                                 .round_islands = NAN,
                                 .round_epoch = NAN,
                                 .round_wait_sec = NAN,
                                 .expert_imbalance = NAN,
                                 .dropped_tokens = NAN};
}

static struct pen_run *load(void)
{
    struct pen_run *run = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_run_load(path, &run, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return run;
}

static struct pen_run_log open_log(uint64_t last_step)
{
    struct pen_run_log log;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_run_log_open(&log, path, &head, last_step, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return log;
}

static void append(struct pen_run_log *log, struct pen_run_step step)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_run_log_append(log, &step, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
}

static void write_steps(uint64_t last_step, uint64_t to)
{
    struct pen_run_log log = open_log(last_step);
    assert_true(log.elapsed_sec ==
                (last_step == 0 ? 0 : step_number(last_step).elapsed_sec));
    for (uint64_t number = last_step + 1; number <= to; number++)
        append(&log, step_number(number));
    pen_run_log_close(&log);
}

static void expect_same_real(double expected, double found, const char *what)
{
    bool is_same = isfinite(expected) ? expected == found : isnan(found);
    if (!is_same)
        fail_msg("%s: expected %a, found %a", what, expected, found);
}

static void expect_same_step(const struct pen_run_step *expected,
                             const struct pen_run_step *found)
{
    assert_int_equal(expected->step, found->step);
    assert_int_equal(expected->tokens, found->tokens);
    assert_int_equal(expected->memory_bytes, found->memory_bytes);
    expect_same_real(expected->loss, found->loss, "loss");
    expect_same_real(expected->grad_norm, found->grad_norm, "grad_norm");
    expect_same_real(expected->lr, found->lr, "lr");
    expect_same_real(expected->tokens_per_sec, found->tokens_per_sec,
                     "tokens_per_sec");
    expect_same_real(expected->share_of_peak, found->share_of_peak,
                     "share_of_peak");
    expect_same_real(expected->step_ms, found->step_ms, "step_ms");
    expect_same_real(expected->elapsed_sec, found->elapsed_sec, "elapsed_sec");
    expect_same_real(expected->val_loss, found->val_loss, "val_loss");
    expect_same_real(expected->val_accuracy, found->val_accuracy,
                     "val_accuracy");
    expect_same_real(expected->loss_usual, found->loss_usual, "loss_usual");
    expect_same_real(expected->grad_norm_usual, found->grad_norm_usual,
                     "grad_norm_usual");
    expect_same_real(expected->move_sec, found->move_sec, "move_sec");
    expect_same_real(expected->move_bytes, found->move_bytes, "move_bytes");
    expect_same_real(expected->repeated, found->repeated, "repeated");
    expect_same_real(expected->skipped, found->skipped, "skipped");
    expect_same_real(expected->round, found->round, "round");
    expect_same_real(expected->round_islands, found->round_islands, "islands");
    expect_same_real(expected->round_epoch, found->round_epoch, "epoch");
    expect_same_real(expected->round_wait_sec, found->round_wait_sec, "wait");
    expect_same_real(expected->expert_imbalance, found->expert_imbalance,
                     "imbalance");
    expect_same_real(expected->dropped_tokens, found->dropped_tokens,
                     "dropped");
}

/* Any bits that are a double: huge, tiny, negative, NaN, infinite. */
static double random_real(struct pen_random *random)
{
    uint64_t bits = pen_random_next(random);
    double value;
    memcpy(&value, &bits, sizeof value);
    return pen_random_below(random, 2) == 0 ? value : (double)(float)value;
}

static void every_number_reads_back_the_same(void **state)
{
    (void)state;
    enum { STEPS = 5000 };
    struct pen_random random = {.state = 1};
    struct pen_run_step *steps = calloc(STEPS, sizeof *steps);
    assert_non_null(steps);
    struct pen_run_log log = open_log(0);
    for (uint64_t i = 0; i < STEPS; i++) {
        steps[i] =
            (struct pen_run_step){.step = i + 1,
                                  .loss = random_real(&random),
                                  .grad_norm = random_real(&random),
                                  .lr = random_real(&random),
                                  .tokens = pen_random_next(&random) >> 1,
                                  .tokens_per_sec = random_real(&random),
                                  .share_of_peak = random_real(&random),
                                  .step_ms = random_real(&random),
                                  .memory_bytes = pen_random_next(&random) >> 1,
                                  .elapsed_sec = random_real(&random),
                                  .val_loss = random_real(&random),
                                  .val_accuracy = random_real(&random),
                                  .loss_usual = random_real(&random),
                                  .grad_norm_usual = random_real(&random),
                                  .move_sec = random_real(&random),
                                  .move_bytes = random_real(&random),
                                  .repeated = random_real(&random),
                                  .skipped = random_real(&random),
                                  .round = random_real(&random),
                                  .round_islands = random_real(&random),
                                  .round_epoch = random_real(&random),
                                  .round_wait_sec = random_real(&random),
                                  .expert_imbalance = random_real(&random),
                                  .dropped_tokens = random_real(&random)};
        append(&log, steps[i]);
    }
    pen_run_log_close(&log);
    struct pen_run *run = load();
    assert_int_equal(STEPS, run->num_steps);
    for (size_t i = 0; i < STEPS; i++)
        expect_same_step(&steps[i], &run->steps[i]);
    pen_run_free(run);
    free(steps);
}

static void a_line_is_as_the_document_says(void **state)
{
    (void)state;
    char line[PEN_RUN_LINE_SIZE];
    struct pen_run_step step = step_number(4);
    step.grad_norm = NAN;
    step.lr = INFINITY;
    size_t length = pen_run_step_print(&step, line);
    assert_int_equal(length, strlen(line));
    assert_string_equal(
        "{\"step\":4,\"loss\":2.5,\"grad_norm\":null,\"lr\":null,"
        "\"tokens\":4096,\"tokens_per_sec\":33333.333333333336,"
        "\"share_of_peak\":0.7,\"step_ms\":30.72,\"memory_bytes\":1073741824,"
        "\"elapsed_sec\":0.12288}\n",
        line);
    step.val_loss = 2.25;
    pen_run_step_print(&step, line);
    assert_non_null(
        strstr(line, ",\"elapsed_sec\":0.12288,\"val_loss\":2.25}"));
    step.val_accuracy = 0.75;
    pen_run_step_print(&step, line);
    assert_non_null(strstr(line, ",\"val_loss\":2.25,\"val_accuracy\":0.75}"));
    step.loss_usual = 1.5;
    step.grad_norm_usual = 0.5;
    pen_run_step_print(&step, line);
    assert_non_null(strstr(line, ",\"val_accuracy\":0.75,\"loss_usual\":1.5,"
                                 "\"grad_norm_usual\":0.5}"));
    step.move_sec = 0.25;
    step.move_bytes = 4096;
    pen_run_step_print(&step, line);
    assert_non_null(strstr(line, ",\"grad_norm_usual\":0.5,\"move_sec\":0.25,"
                                 "\"move_bytes\":4096}"));
    step.repeated = step.skipped = 1;
    pen_run_step_print(&step, line);
    assert_non_null(strstr(line, ",\"move_bytes\":4096,\"repeated\":1,"
                                 "\"skipped\":1}"));
}

static void the_longest_line_fits(void **state)
{
    (void)state;
    const double longest = -1.2345678901234567e-301;
    char line[PEN_RUN_LINE_SIZE];
    struct pen_run_step step = {
        INT64_MAX, longest, longest,   longest, INT64_MAX, longest,
        longest,   longest, INT64_MAX, longest, longest,   longest,
        longest,   longest, longest,   longest, longest,   longest,
        longest,   longest, longest,   longest, longest,   longest};
    assert_in_range(pen_run_step_print(&step, line), 300, PEN_RUN_LINE_SIZE);
}

static void the_head_comes_back(void **state)
{
    (void)state;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_run_log log;
    json_t *settings = json_pack("{s:i, s:f}", "seed", 7, "lr", 6e-4);
    struct pen_run_head full = {.model = "preset:gpt2", .settings = settings};
    assert_int_equal(PEN_OK, pen_run_log_open(&log, path, &full, 0, &why));
    pen_run_log_close(&log);
    struct pen_run *run = load();
    assert_string_equal("preset:gpt2", run->model);
    assert_true(json_equal(settings, run->settings));
    assert_int_equal(0, run->num_steps);
    pen_run_free(run);
    json_decref(settings);

    struct pen_run_head odd = {.model = "dir/\xff"};
    assert_int_equal(PEN_OK, pen_run_log_open(&log, path, &odd, 0, &why));
    pen_run_log_close(&log);
    run = load();
    assert_string_equal("dir/?", run->model);
    pen_run_free(run);
}

static void expect_steps(uint64_t expected)
{
    struct pen_run *run = load();
    assert_int_equal(expected, run->num_steps);
    for (uint64_t i = 0; i < expected; i++) {
        struct pen_run_step step = step_number(i + 1);
        expect_same_step(&step, &run->steps[i]);
    }
    assert_false(run->is_cut);
    pen_run_free(run);
}

static void a_resumed_run_has_each_step_once(void **state)
{
    (void)state;
    write_steps(0, 45);
    write_steps(37, 100); /* the checkpoint was older than the log */
    expect_steps(100);
    write_steps(100, 110); /* nothing to drop */
    expect_steps(110);
    write_steps(0, 3); /* anew */
    expect_steps(3);
}

static void a_resumed_run_may_begin_a_log(void **state)
{
    (void)state;
    struct pen_run_log log = open_log(37);
    append(&log, step_number(38));
    pen_run_log_close(&log);
    struct pen_run *run = load();
    assert_int_equal(1, run->num_steps);
    assert_int_equal(38, run->steps[0].step);
    pen_run_free(run);
}

static void add_to_file(const char *text)
{
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(0, fclose(file));
}

static void a_line_cut_by_a_kill_is_left_out(void **state)
{
    (void)state;
    write_steps(0, 5);
    add_to_file("{\"step\":6,\"lo");
    struct pen_run *run = load();
    assert_int_equal(5, run->num_steps);
    assert_true(run->is_cut);
    pen_run_free(run);
    write_steps(5, 8);
    expect_steps(8);
}

static void a_reader_sees_a_line_before_the_log_is_closed(void **state)
{
    (void)state;
    struct pen_run_log log = open_log(0);
    append(&log, step_number(1));
    expect_steps(1);
    append(&log, step_number(2));
    expect_steps(2);
    pen_run_log_close(&log);
}

static void another_file_is_not_continued(void **state)
{
    (void)state;
    struct pen_run_log log;
    struct pen_text why = PEN_TEXT_EMPTY;
    char expected[200];
    add_to_file("my notes\n");
    assert_int_equal(PEN_INVALID, pen_run_log_open(&log, path, &head, 5, &why));
    snprintf(
        expected, sizeof expected,
        "cannot continue %s: line 1, column 2: '[' or '{' expected near 'my'",
        path);
    assert_string_equal(expected, pen_text_string(&why));
    struct pen_text text = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_OK, pen_file_read(path, 100, &text, NULL));
    assert_string_equal("my notes\n", pen_text_string(&text));
    pen_text_release(&text);
    pen_text_release(&why);
}

/* A disk that is full for one step costs that step and nothing else. */
static void a_full_disk_leaves_whole_lines(void **state)
{
    (void)state;
    struct rlimit before;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_run_step step = step_number(2);
    struct pen_run_log log = open_log(0);
    append(&log, step_number(1));
    assert_int_equal(0, getrlimit(RLIMIT_FSIZE, &before));
    struct rlimit small = {(rlim_t)log.journal.size_bytes + 10,
                           before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &small));
    assert_int_equal(PEN_IO, pen_run_log_append(&log, &step, &why));
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &before));
    assert_non_null(strstr(pen_text_string(&why), "cannot write "));
    expect_steps(1);
    append(&log, step);
    expect_steps(2);
    pen_run_log_close(&log);
    pen_text_release(&why);
}

/* 0.1.0 wrote such heads; its reader refuses keys that it does not know. */
static void an_older_log_goes_on_without_newer_keys(void **state)
{
    (void)state;
    add_to_file("{\"format\":\"penstock-run\",\"version\":1,\"model\":\"m\","
                "\"settings\":{}}\n" STEP("1"));
    struct pen_run_log log = open_log(1);
    struct pen_run_step step = step_number(2);
    step.loss_usual = 1;
    append(&log, step);
    pen_run_log_close(&log);
    struct pen_run *run = load();
    assert_int_equal(2, run->num_steps);
    assert_true(isnan(run->steps[1].loss_usual));
    pen_run_free(run);
}

static void a_pipe_can_be_written(void **state)
{
    (void)state;
    struct pen_run_log log;
    assert_int_equal(PEN_OK,
                     pen_run_log_open(&log, "/dev/null", &head, 3, NULL));
    append(&log, step_number(1));
    pen_run_log_close(&log);
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_IO,
                     pen_run_log_open(&log, "/nowhere/x", &head, 0, &why));
    assert_string_equal("cannot write /nowhere/x: No such file or directory",
                        pen_text_string(&why));
    pen_text_release(&why);
}

static void wrong_logs_are_refused_by_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *why;
    } cases[] = {
        {"", "line 1, column 1: expected {\"format\":\"penstock-run\", ...} "
             "and a newline"},
        {"{}\n", "line 1, column 1: format must be \"penstock-run\""},
        {"[]\n", "line 1, column 1: expected one JSON object per line"},
        {"{\"format\":\"penstock-run\",\"version\":3}\n",
         "line 1, column 1: version must be an integer from 1 to 2"},
        {"{\"format\":\"penstock-run\",\"version\":1,\"model\":3}\n",
         "line 1, column 1: model must be a string"},
        {"{\"format\":\"penstock-run\",\"version\":1,\"model\":\"\"}\n",
         "line 1, column 1: settings must be an object"},
        {"{\"format\":\"penstock-run\",\"version\":1,\"x\":1}\n",
         "line 1, column 1: x is not a key of this format; expected one of "
         "format version model settings"},
        {HEAD "\n", "line 2, column 0: '[' or '{' expected near end of file"},
        {HEAD STEP("1") "{\"step\":2,}\n",
         "line 3, column 11: string or '}' expected near '}'"},
        {HEAD STEP("1") "{\"step\":2} 3\n",
         "line 3, column 12: end of file expected near '3'"},
        {HEAD STEP("1") "7\n",
         "line 3, column 1: '[' or '{' expected near '7'"},
        {HEAD STEP("1.5"), "line 2, column 2: step must be a whole number from "
                           "0 to 2^63 - 1"},
        {HEAD STEP("-1"), "line 2, column 2: step must be a whole number from "
                          "0 to 2^63 - 1"},
        {HEAD STEP("0"),
         "line 2, column 2: step 0 must be larger than the step before "
         "it, 0"},
        {HEAD STEP("7") STEP("7"),
         "line 3, column 2: step 7 must be larger than the step before "
         "it, 7"},
        {HEAD "{\"step\":1,\"loss\":\"high\"," REST,
         "line 2, column 11: loss must be a number or null"},
        {HEAD "{\"step\":1,\"loss\":1e999," REST,
         "line 2, column 22: real number overflow near '1e999'"},
        {HEAD "{\"step\":1,\"loss\":NaN," REST,
         "line 2, column 20: invalid token near 'NaN'"},
        {HEAD "{\"step\":1}\n",
         "line 2, column 1: loss is missing, expected a number or null"},
        {HEAD "{\"step\":1,\"loss\":2,\"loss\":2," REST,
         "line 2, column 25: duplicate object key near '\"loss\"'"},
        {HEAD "{\"step\":1,\"los\":2,\"loss\":2," REST,
         "line 2, column 11: los is not a key of a step"},
        {"{\"format\":\"penstock-run\",\"version\":1,\"model\":\"m\","
         "\"settings\":{}}\n{\"step\":1,\"loss_usual\":2,\"loss\":2," REST,
         "line 2, column 11: loss_usual is not a key of a step"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_run *run = NULL;
        struct pen_text why = PEN_TEXT_EMPTY;
        assert_int_equal(
            PEN_INVALID,
            pen_run_parse(cases[i].text, strlen(cases[i].text), &run, &why));
        assert_string_equal(cases[i].why, pen_text_string(&why));
        assert_null(run);
        pen_text_release(&why);
    }
}

static void a_missing_file_is_refused_by_its_name(void **state)
{
    (void)state;
    struct pen_run *run = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_IO, pen_run_load("/nowhere/run", &run, &why));
    assert_string_equal("cannot open /nowhere/run: No such file or directory",
                        pen_text_string(&why));
    pen_text_release(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_number_reads_back_the_same,
                                  remove_file),
        cmocka_unit_test(a_line_is_as_the_document_says),
        cmocka_unit_test(the_longest_line_fits),
        cmocka_unit_test_teardown(the_head_comes_back, remove_file),
        cmocka_unit_test_teardown(a_resumed_run_has_each_step_once,
                                  remove_file),
        cmocka_unit_test_teardown(a_resumed_run_may_begin_a_log, remove_file),
        cmocka_unit_test_teardown(a_line_cut_by_a_kill_is_left_out,
                                  remove_file),
        cmocka_unit_test_teardown(a_reader_sees_a_line_before_the_log_is_closed,
                                  remove_file),
        cmocka_unit_test_teardown(another_file_is_not_continued, remove_file),
        cmocka_unit_test_teardown(a_full_disk_leaves_whole_lines, remove_file),
        cmocka_unit_test_teardown(an_older_log_goes_on_without_newer_keys,
                                  remove_file),
        cmocka_unit_test(a_pipe_can_be_written),
        cmocka_unit_test(wrong_logs_are_refused_by_their_place),
        cmocka_unit_test(a_missing_file_is_refused_by_its_name),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
