/*
 * Plots show what the logs say: means and extremes stay right through smoothing
 * and thinning, ticks are round, labels do not overlap, and runs of any kind
 * (one point, gaps, a million points, astray) can be drawn.
 */
#include "support/folder.h"
#include "support/support.h"

#include "base/file.h"
#include "base/random.h"
#include "view/plot_ends.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A run whose loss falls, with noise; change what should differ. */
static struct pen_run make_run(size_t num_steps, uint64_t seed)
{
    struct pen_random random = {.state = seed};
    static char model[] = "preset:gpt2";
    struct pen_run run = {.model = model, .num_steps = num_steps};
    run.steps = calloc(num_steps + 1, sizeof *run.steps);
    assert_non_null(run.steps);
    for (size_t i = 0; i < num_steps; i++) {
        double x = (double)(i + 1);
        run.steps[i] = (struct pen_run_step){
            .step = i + 1,
            .loss = 3 + 8 / sqrt(x) + 0.2 * pen_random_unit(&random),
            .tokens = 4096 * (i + 1),
            .tokens_per_sec = 1300 + 20 * pen_random_unit(&random),
            .elapsed_sec = 3.1 * x,
            .val_loss = i % 50 == 49 ? 3.1 + 8 / sqrt(x) : NAN};
    }
    return run;
}

static struct pen__curve random_curve(size_t count, uint64_t seed)
{
    struct pen_random random = {.state = seed};
    struct pen__curve curve = {malloc(count * sizeof *curve.points), count};
    assert_non_null(curve.points);
    for (size_t i = 0; i < count; i++) {
        bool is_gap = pen_random_below(&random, 10) == 0;
        double y = is_gap ? NAN : pen_random_unit(&random);
        curve.points[i] = (struct pen__point){(double)i, y};
    }
    return curve;
}

/* The mean over the window that pen__curve_smooth() promises, by hand. */
static double mean_around(const struct pen__curve *curve, size_t at,
                          size_t window)
{
    size_t before = window / 2;
    size_t behind = (window - 1) / 2;
    if (at < before)
        before = behind = at;
    double sum = 0;
    double count = 0;
    for (size_t i = at - before; i <= at + behind && i < curve->count; i++) {
        if (isnan(curve->points[i].y))
            continue;
        sum += curve->points[i].y;
        count++;
    }
    return sum / count;
}

static void a_smoothed_point_is_the_mean_around_it(void **state)
{
    (void)state;
    static const uint32_t windows[] = {1, 2, 3, 10, 64, 499, 500, 10000};
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        struct pen__curve raw = random_curve(500, 7);
        struct pen__curve smooth = random_curve(500, 7);
        assert_int_equal(PEN_OK, pen__curve_smooth(&smooth, windows[w]));
        for (size_t i = 0; i < raw.count; i++) {
            double expected = mean_around(&raw, i, windows[w]);
            if (isnan(raw.points[i].y))
                assert_true(isnan(smooth.points[i].y));
            else
                expect_close(expected, smooth.points[i].y, "mean");
        }
        free(raw.points);
        free(smooth.points);
    }
}

static void a_spike_does_not_spoil_what_comes_behind(void **state)
{
    (void)state;
    struct pen__curve curve = random_curve(100, 3);
    for (size_t i = 0; i < curve.count; i++)
        curve.points[i].y = i == 20 ? 1e29 : 1.25;
    assert_int_equal(PEN_OK, pen__curve_smooth(&curve, 10));
    for (size_t i = 40; i < curve.count; i++)
        expect_close(1.25, curve.points[i].y, "behind the spike");
    free(curve.points);
}

static void thinning_keeps_extremes_ends_and_gaps(void **state)
{
    (void)state;
    enum { COUNT = 100000, COLUMNS = 50 };
    struct pen__curve curve = random_curve(COUNT, 11);
    for (size_t i = 0; i < COUNT; i++) {
        bool is_gap = i >= 40500 && i < 43700;
        curve.points[i].y = is_gap ? NAN : sin((double)i);
    }
    curve.points[31415].y = 7;
    curve.points[92653].y = -7;
    pen__curve_thin(&curve, (struct pen__range){0, COUNT}, COLUMNS);
    assert_in_range(curve.count, COLUMNS, 4 * (COLUMNS + 2));
    double least = INFINITY;
    double most = -INFINITY;
    size_t num_gaps = 0;
    for (size_t i = 0; i < curve.count; i++) {
        if (i > 0)
            assert_true(curve.points[i].x > curve.points[i - 1].x);
        num_gaps += isnan(curve.points[i].y) != 0;
        least = fmin(least, curve.points[i].y);
        most = fmax(most, curve.points[i].y);
    }
    expect_close(-7, least, "least");
    expect_close(7, most, "most");
    expect_close(0, curve.points[0].x, "first");
    expect_close(COUNT - 1, curve.points[curve.count - 1].x, "last");
    assert_int_equal(1, num_gaps);
    free(curve.points);
}

static void few_points_are_left_alone(void **state)
{
    (void)state;
    struct pen__curve curve = random_curve(20, 5);
    for (size_t i = 0; i < curve.count; i++)
        curve.points[i].y = (double)i;
    pen__curve_thin(&curve, (struct pen__range){0, 20}, 1000);
    assert_int_equal(20, curve.count);
    free(curve.points);
}

/* 1, 2 or 5 times a power of ten. */
static void expect_round(double step)
{
    double digit = step / pow(10, floor(log10(step) + 1e-9));
    if (fabs(digit - 1) > 1e-6 && fabs(digit - 2) > 1e-6 &&
        fabs(digit - 5) > 1e-6)
        fail_msg("ticks are %.17g apart", step);
}

static void check_axis(enum pen__axis_kind kind, struct pen__range range,
                       unsigned most_ticks)
{
    struct pen__axis axis;
    pen__axis_init(&axis, kind, range, most_ticks);
    if (range.least <= range.most &&
        (pen__axis_share(&axis, range.least) < -1e-9 ||
         pen__axis_share(&axis, range.most) > 1 + 1e-9))
        fail_msg("kind %d: %.17g..%.17g leaves the axis %.17g..%.17g", kind,
                 range.least, range.most, axis.from, axis.to);
    if (axis.num_ticks > most_ticks + 1)
        fail_msg("kind %d: %zu ticks", kind, axis.num_ticks);
    if (axis.step > 0)
        expect_round(axis.step);
    for (size_t i = 0; i < axis.num_ticks; i++) {
        double share = pen__axis_share(&axis, axis.ticks[i]);
        char label[PEN__NUMBER_SIZE];
        pen__axis_label(&axis, i, label);
        assert_in_range(strlen(label), 1, 12);
        if (share < -1e-6 || share > 1 + 1e-6)
            fail_msg("kind %d: tick %s is at %g", kind, label, share);
    }
}

static void ticks_are_round_and_few_for_any_range(void **state)
{
    (void)state;
    struct pen_random random = {.state = 9};
    for (int i = 0; i < 100000; i++) {
        double size = pow(10, 60 * pen_random_unit(&random) - 30);
        double a = size * pen_random_unit(&random);
        double b = size * (i % 3 == 0 ? a / size : pen_random_unit(&random));
        double sign = i % 5 == 0 ? -1 : 1;
        enum pen__axis_kind kind = pen_random_below(&random, 5);
        if (kind == PEN__AXIS_LOG || kind == PEN__AXIS_COUNT)
            sign = 1;
        struct pen__range range = {fmin(sign * a, b), fmax(sign * a, b)};
        if (i % 101 == 0)
            range = (struct pen__range){INFINITY, -INFINITY};
        check_axis(kind, range, 2 + pen_random_below(&random, 10));
    }
}

/* All labels of an axis, with a space between them. */
static void expect_labels(const char *expected, enum pen__axis_kind kind,
                          double least, double most, unsigned most_ticks)
{
    struct pen__axis axis;
    struct pen_text labels = PEN_TEXT_EMPTY;
    pen__axis_init(&axis, kind, (struct pen__range){least, most}, most_ticks);
    for (size_t i = 0; i < axis.num_ticks; i++) {
        char label[PEN__NUMBER_SIZE];
        pen__axis_label(&axis, i, label);
        pen_text_add(&labels, "%s%s", i == 0 ? "" : " ", label);
    }
    assert_string_equal(expected, pen_text_string(&labels));
    pen_text_release(&labels);
}

static void axes_are_labelled_as_people_write(void **state)
{
    (void)state;
    expect_labels("0 100 200 300 400 500 600", PEN__AXIS_COUNT, 1, 600, 10);
    expect_labels("0 1 2", PEN__AXIS_COUNT, 1, 1, 10);
    expect_labels("500 520 540", PEN__AXIS_COUNT, 500, 555, 5);
    expect_labels("0 0.5M 1.0M 1.5M 2.0M", PEN__AXIS_COUNT, 4096, 2.4e6, 5);
    expect_labels("0 2B 4B 6B", PEN__AXIS_COUNT, 4096, 7.5e9, 4);
    expect_labels("4 6 8 10", PEN__AXIS_LOOSE, 2.7, 11, 5);
    expect_labels("3.00 3.05 3.10 3.15", PEN__AXIS_LOOSE, 3, 3.15, 5);
    expect_labels("0 500 1000", PEN__AXIS_ZERO, 400, 1320, 3);
    expect_labels("3 4 5 6 7 8 9 10", PEN__AXIS_LOG, 2.9, 11, 8);
    expect_labels("1 10 100 1000", PEN__AXIS_LOG, 1, 2000, 6);
    expect_labels("0.001 1 1000 1M", PEN__AXIS_LOG, 1e-3, 2e6, 4);
    expect_labels("3.0 3.2 3.4", PEN__AXIS_LOG, 3, 3.5, 4);
}

static void values_have_four_digits(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0"},          {3.19, "3.190"},   {-2.5, "-2.500"},
                 {1293.4, "1293"},  {13100, "13.10k"}, {0.0123, "0.01230"},
                 {2.5e6, "2.500M"}, {7e9, "7.000B"},   {1e-12, "1e-12"},
                 {1e30, "1e+18T"},  {9999.9, "10000"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[PEN__NUMBER_SIZE];
        pen__print_value(cases[i].value, text);
        assert_string_equal(cases[i].text, text);
    }
}

static void ends_are_apart_and_in_order(void **state)
{
    (void)state;
    enum { RUNS = 10 };
    struct pen_run runs[RUNS];
    struct pen_plot_item items[RUNS];
    struct pen_plot_options options = {.x = PEN_PLOT_STEP};
    struct pen__plot plot;
    struct pen__axis axis;
    struct pen__end *ends;
    size_t count;
    for (size_t i = 0; i < RUNS; i++) {
        runs[i] = make_run(100 + 10 * i, i);
        items[i] = (struct pen_plot_item){&runs[i], "x"};
    }
    assert_int_equal(PEN_OK,
                     pen__plot_init(&plot, items, RUNS, &options, 500, NULL));
    pen__axis_init(&axis, PEN__AXIS_LOOSE, plot.y[PEN__CHART_LOSS], 5);
    pen__ends_make(&plot, PEN__CHART_LOSS, &axis, 300, 12, &ends, &count);
    assert_int_equal(2 * RUNS, count);
    for (size_t i = 1; i < count; i++) {
        assert_true(ends[i].y >= ends[i - 1].y + 12 - 1e-9);
        assert_true(atof(ends[i].text) <= atof(ends[i - 1].text));
    }
    assert_true(ends[0].y >= 0 && ends[count - 1].y <= 300);
    free(ends);
    pen__ends_make(&plot, PEN__CHART_LOSS, &axis, 200, 12, &ends, &count);
    assert_int_equal(0, count);
    free(ends);
    pen__plot_release(&plot);
    for (size_t i = 0; i < RUNS; i++)
        free(runs[i].steps);
}

/* Draws to a file of this name, reads it and removes it. */
static void draw(const struct pen_plot_item *items, size_t count,
                 const struct pen_plot_options *options, const char *name,
                 struct pen_text *out)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/%s", folder, name);
    if (pen_plot_draw(items, count, options, pen_text_string(&path), &why) !=
        PEN_OK)
        fail_msg("%s: %s", name, pen_text_string(&why));
    if (pen_file_read(pen_text_string(&path), 64u << 20, out, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    assert_int_equal(0, remove(pen_text_string(&path)));
    pen_text_release(&path);
    pen_text_release(&why);
}

static void runs_of_any_kind_can_be_drawn(void **state)
{
    (void)state;
    struct pen_run runs[] = {make_run(300, 1), make_run(1, 2), make_run(0, 3),
                             make_run(300, 4), make_run(300, 5)};
    for (size_t i = 0; i < 300; i++) {
        runs[3].steps[i].loss = i % 7 == 3 ? 1 : NAN; /* single points */
        runs[3].steps[i].elapsed_sec = NAN;
        runs[4].steps[i].loss = i < 100 ? 1e308 : i < 200 ? -1e308 : 0;
        runs[4].steps[i].tokens_per_sec = 1e308;
    }
    struct pen_plot_item items[5];
    for (size_t i = 0; i < 5; i++)
        items[i] = (struct pen_plot_item){&runs[i], "\xff<&>\x01"};
    for (unsigned i = 0; i < 16; i++) {
        struct pen_plot_options options = {
            .x = i % 3, .smooth = i & 4 ? 10 : 0, .has_log_loss = (i & 8) != 0};
        struct pen_text file = PEN_TEXT_EMPTY;
        struct pen_text text = PEN_TEXT_EMPTY;
        draw(items, 5, &options, "a.svg", &file);
        assert_null(memchr(file.bytes, 1, file.length));
        assert_null(strstr(file.bytes, "nan"));
        assert_null(strstr(file.bytes, "inf"));
        assert_int_equal(
            PEN_OK, pen_plot_print(items, 5, &options, i & 1, 80, &text, NULL));
        assert_null(strstr(text.bytes, "nan"));
        assert_non_null(strstr(text.bytes, "?<&>?: no step yet"));
        pen_text_release(&file);
        pen_text_release(&text);
    }
    for (size_t i = 0; i < 5; i++)
        free(runs[i].steps);
}

static void files_begin_as_their_ending_says(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *magic;
    } cases[] = {{"a.svg", "<?xml"},
                 {"a.png", "\x89PNG\r\n\x1a\n"},
                 {"a.pdf", "%PDF-1."}};
    struct pen_run run = make_run(100, 1);
    struct pen_plot_item item = {&run, "a"};
    struct pen_plot_options options = {.x = PEN_PLOT_STEP};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_text file = PEN_TEXT_EMPTY;
        draw(&item, 1, &options, cases[i].name, &file);
        assert_memory_equal(cases[i].magic, file.bytes, strlen(cases[i].magic));
        pen_text_release(&file);
    }
    free(run.steps);
}

static void a_million_points_make_a_small_file(void **state)
{
    (void)state;
    struct pen_run run = make_run(1000000, 1);
    struct pen_plot_item item = {&run, "a"};
    struct pen_plot_options options = {.x = PEN_PLOT_STEP, .smooth = 1000};
    struct pen_text file = PEN_TEXT_EMPTY;
    draw(&item, 1, &options, "a.svg", &file);
    assert_in_range(file.length, 10000, 2000000);
    pen_text_release(&file);
    free(run.steps);
}

static void expect_refusal(const struct pen_plot_item *item, const char *path,
                           const char *expected)
{
    struct pen_plot_options options = {.x = PEN_PLOT_TIME};
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_plot_draw(item, 1, &options, path, &why) == PEN_OK)
        fail_msg("%s was drawn", path);
    assert_string_equal(expected, pen_text_string(&why));
    pen_text_release(&why);
}

static void what_cannot_be_drawn_is_refused(void **state)
{
    (void)state;
    struct pen_run run = make_run(3, 1);
    struct pen_plot_item item = {&run, "a"};
    expect_refusal(&item, "a.doc",
                   "cannot draw a.doc: its name should end in .svg, .png or "
                   ".pdf");
    expect_refusal(&item, "/nowhere/a.svg",
                   "cannot write /nowhere/a.svg: No such file or directory");
    for (size_t i = 0; i < 3; i++)
        run.steps[i].elapsed_sec = NAN;
    expect_refusal(&item, "a.svg",
                   "nothing to draw: no run has a step with a time yet");
    free(run.steps);
}

static size_t letters_in(const char *line, size_t length)
{
    size_t letters = 0;
    for (size_t i = 0; i < length; i++)
        letters += (line[i] & 0xc0) != 0x80;
    return letters;
}

static void a_terminal_is_not_overrun(void **state)
{
    (void)state;
    struct pen_run runs[] = {make_run(300, 1), make_run(200, 2)};
    struct pen_plot_item items[] = {{&runs[0], "a"}, {&runs[1], "b"}};
    for (unsigned columns = 60; columns < 140; columns += 7) {
        struct pen_plot_options options = {.x = columns % 3};
        struct pen_text text = PEN_TEXT_EMPTY;
        assert_int_equal(PEN_OK, pen_plot_print(items, 2, &options, false,
                                                columns, &text, NULL));
        for (const char *line = text.bytes; *line != '\0';) {
            size_t length = strcspn(line, "\n");
            if (letters_in(line, length) > columns &&
                strstr(line, "tokens/s\n") != line + length - 8)
                fail_msg("wider than %u: %.*s", columns, (int)length, line);
            line += length + 1;
        }
        assert_null(strchr(text.bytes, '\033'));
        pen_text_release(&text);
    }
    free(runs[0].steps);
    free(runs[1].steps);
}

/* Two points: a line from one corner of the chart to the other. */
static void a_terminal_shows_the_line(void **state)
{
    (void)state;
    struct pen_run run = make_run(2, 1);
    run.steps[0].loss = 2;
    run.steps[1].loss = 1;
    run.steps[1].val_loss = 2;
    struct pen_plot_item item = {&run, "falling"};
    struct pen_plot_options options = {.x = PEN_PLOT_STEP};
    struct pen_text text = PEN_TEXT_EMPTY;
    assert_int_equal(
        PEN_OK, pen_plot_print(&item, 1, &options, false, 44, &text, NULL));
    const char *expected[] = {
        "preset:gpt2\n       loss\n",
        "   2.0 ┤⡀                  o o 2.000\n",
        "   1.0 ┤                   ⠈ 1.000\n",
        "       └┬──────────────────┬\n",
        "        1                  2  step\n",
        "── falling: step 2, loss 1.000, validated 2.000, ",
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        if (strstr(text.bytes, expected[i]) == NULL)
            fail_msg("lacks:\n%s\nin:\n%s", expected[i], text.bytes);
    }
    pen_text_release(&text);
    free(run.steps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_smoothed_point_is_the_mean_around_it),
        cmocka_unit_test(a_spike_does_not_spoil_what_comes_behind),
        cmocka_unit_test(thinning_keeps_extremes_ends_and_gaps),
        cmocka_unit_test(few_points_are_left_alone),
        cmocka_unit_test(ticks_are_round_and_few_for_any_range),
        cmocka_unit_test(axes_are_labelled_as_people_write),
        cmocka_unit_test(values_have_four_digits),
        cmocka_unit_test(ends_are_apart_and_in_order),
        cmocka_unit_test(runs_of_any_kind_can_be_drawn),
        cmocka_unit_test(files_begin_as_their_ending_says),
        cmocka_unit_test(a_million_points_make_a_small_file),
        cmocka_unit_test(what_cannot_be_drawn_is_refused),
        cmocka_unit_test(a_terminal_is_not_overrun),
        cmocka_unit_test(a_terminal_shows_the_line),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
