/*
 * Charts can be drawn of any points: none, one, gaps, on logarithmic axes; in
 * every form; and names of any bytes leave the drawing well-formed.
 */
#include "support/folder.h"
#include "support/support.h"

#include "base/file.h"
#include "view/chart.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

/* Draws it, and gives the bytes of the file. */
static void draw(const struct pen_chart *chart, const char *name,
                 struct pen_text *out)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/%s", folder, name);
    if (pen_chart_draw(chart, pen_text_string(&path), &why) != PEN_OK)
        fail_msg("%s: %s", name, pen_text_string(&why));
    assert_int_equal(
        PEN_OK, pen_file_read(pen_text_string(&path), 1u << 24, out, NULL));
    unlink(pen_text_string(&path));
    pen_text_release(&path);
    pen_text_release(&why);
}

static struct pen_chart chart_of(const struct pen_chart_line *lines,
                                 size_t count)
{
    return (struct pen_chart){.title = "a title",
                              .x_name = "ranks",
                              .y_name = "seconds",
                              .lines = lines,
                              .num_lines = count};
}

static void every_form_is_written(void **state)
{
    (void)state;
    static const struct pen_chart_point points[] = {{1, 2}, {2, 3}, {4, 5}};
    static const struct pen_chart_line line = {"line", points, 3};
    static const char *const names[] = {"a.svg", "a.png", "a.pdf"};
    static const char *const starts[] = {"<?xml", "\x89PNG", "%PDF"};
    struct pen_chart chart = chart_of(&line, 1);
    for (size_t i = 0; i < 3; i++) {
        struct pen_text bytes = PEN_TEXT_EMPTY;
        draw(&chart, names[i], &bytes);
        assert_memory_equal(starts[i], bytes.bytes, strlen(starts[i]));
        pen_text_release(&bytes);
    }
}

/* Moves in the data of all paths. */
static size_t count_moves(const struct pen_text *svg)
{
    size_t count = 0;
    for (const char *at = strstr(pen_text_string(svg), " d=\""); at != NULL;
         at = strstr(at, " d=\"")) {
        for (at += 4; *at != '"'; at++)
            count += *at == 'M' || *at == 'm';
    }
    return count;
}

/* A gap parts the line in two: one more place where the pen is set down. */
static void gaps_part_lines(void **state)
{
    (void)state;
    struct pen_chart_point points[] = {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}};
    const struct pen_chart_line line = {"line", points, 5};
    struct pen_chart chart = chart_of(&line, 1);
    struct pen_text whole = PEN_TEXT_EMPTY;
    struct pen_text parted = PEN_TEXT_EMPTY;
    draw(&chart, "a.svg", &whole);
    points[2].y = (double)NAN;
    draw(&chart, "a.svg", &parted);
    size_t moves = count_moves(&whole);
    assert_true(moves > 0);
    /* One more for the line, one less for the mark that is gone. */
    assert_int_equal(moves, count_moves(&parted));
    assert_true(parted.length < whole.length);
    pen_text_release(&whole);
    pen_text_release(&parted);
}

static void odd_points_are_drawn(void **state)
{
    (void)state;
    static const struct pen_chart_point one[] = {{3, 0}};
    static const struct pen_chart_point none[] = {{1, (double)NAN}};
    static const struct pen_chart_point wide[] = {{1, 1e-6}, {16384, 1e6}};
    static const struct pen_chart_line lines[] = {{"one", one, 1},
                                                  {"none", none, 1},
                                                  {"empty", NULL, 0},
                                                  {"wide <&\x01\xff", wide, 2}};
    for (size_t first = 0; first < 4; first++) {
        struct pen_chart chart = chart_of(lines + first, 4 - first);
        for (int i = 0; i < 4; i++) {
            struct pen_text bytes = PEN_TEXT_EMPTY;
            chart.has_log_x = (i & 1) != 0;
            chart.has_log_y = (i & 2) != 0;
            draw(&chart, "a.svg", &bytes);
            assert_null(strstr(bytes.bytes, "nan"));
            pen_text_release(&bytes);
        }
    }
}

static void other_endings_are_refused(void **state)
{
    (void)state;
    struct pen_chart chart = chart_of(NULL, 0);
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID, pen_chart_draw(&chart, "a.gif", &why));
    assert_non_null(strstr(pen_text_string(&why), ".svg, .png or .pdf"));
    pen_text_release(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_written),
        cmocka_unit_test(gaps_part_lines),
        cmocka_unit_test(odd_points_are_drawn),
        cmocka_unit_test(other_endings_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
