/* The terminal grid: to scale, equally wide rows, the same without colour. */
#include "view_item.h"

#include <stdio.h>

static void print(const struct pen_picture_item *items, size_t count,
                  bool with_colour, unsigned columns, struct pen_text *out)
{
    pen_text_clear(out);
    pen_timeline_print(items, count, with_colour, columns, out);
    assert_int_equal(0, out->has_failed);
}

static void rows_read_as_the_schedule(void **state)
{
    (void)state;
    static const char expected[] =
        "1f1b  p=4 m=4  makespan 21 s  bubble 42.9%  peak 4 A busy    peak\n"
        "rank 0 F0F1F2F3............B0==..B1==..B2==..B3==   57.1%       4\n"
        "rank 1 ..F0F1F2........B0==F3B1==..B2==..B3==....   57.1%       3\n"
        "rank 2 ....F0F1....B0==F2B1==F3B2==..B3==........   57.1%       2\n"
        "rank 3 ......F0B0==F1B1==F2B2==F3B3==............   57.1%       1\n"
        "path   001122333333333333333333333333222211110000\n"
        "time   |0        |5        |10       |15           s\n"
        "F- forward   B= backward   . waiting   \n"
        "path: the rank on the critical path, its last digit\n";
    struct pen_picture_item item = make_item("1f1b", 4, 4, 0);
    struct pen_text text = PEN_TEXT_EMPTY;
    print(&item, 1, false, 80, &text);
    assert_string_equal(expected, pen_text_string(&text));
    pen_text_release(&text);
    free_item(&item);
}

/* Width of the lines that begin with "rank"; fails when they differ. */
static size_t row_width(const char *text, uint32_t rows)
{
    size_t width = 0;
    uint32_t found = 0;
    for (const char *line = text; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        if (strncmp(line, "rank ", 5) == 0) {
            if (found > 0 && length != width)
                fail_msg("a row of %zu behind rows of %zu columns", length,
                         width);
            width = length;
            found++;
        }
        line += length + 1;
    }
    assert_int_equal(rows, found);
    return width;
}

static void rows_are_equally_wide_and_fit(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t ranks;
        uint32_t microbatches;
    } cases[] = {{"1f1b", 4, 8},     {"1f1b", 12, 24},  {"gpipe", 1, 1},
                 {"1f1b", 64, 128},  {"zb-h1", 8, 16},  {"dualpipe", 8, 16},
                 {"seq1f1b", 4, 8},  {"chimera", 4, 8}, {"interleaved", 4, 8},
                 {"pipedream", 4, 8}};
    static const unsigned columns[] = {60, 80, 132, 200};
    struct pen_text text = PEN_TEXT_EMPTY;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_picture_item item = make_item(cases[i].name, cases[i].ranks,
                                                 cases[i].microbatches, 0.1);
        for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
            print(&item, 1, false, columns[c], &text);
            size_t width = row_width(pen_text_string(&text), cases[i].ranks);
            if (width > columns[c])
                fail_msg("%s: %zu columns of %u", cases[i].name, width,
                         columns[c]);
        }
        free_item(&item);
    }
    pen_text_release(&text);
}

static void remove_escapes(const char *text, struct pen_text *out)
{
    while (*text != '\0') {
        if (*text == '\033')
            text += strcspn(text, "m") + 1;
        else
            pen_text_add_bytes(out, text++, 1);
    }
}

static void colour_only_adds_escapes(void **state)
{
    (void)state;
    struct pen_picture_item item = make_item("zb-h1", 4, 8, 0);
    struct pen_text plain = PEN_TEXT_EMPTY;
    struct pen_text coloured = PEN_TEXT_EMPTY;
    struct pen_text stripped = PEN_TEXT_EMPTY;
    print(&item, 1, false, 100, &plain);
    print(&item, 1, true, 100, &coloured);
    assert_null(strchr(pen_text_string(&plain), '\033'));
    assert_non_null(strstr(pen_text_string(&coloured), "\033[1;4m"));
    remove_escapes(pen_text_string(&coloured), &stripped);
    const char *remark = strstr(pen_text_string(&stripped), " (its ops");
    assert_non_null(remark);
    assert_memory_equal(pen_text_string(&plain), pen_text_string(&stripped),
                        (size_t)(remark - pen_text_string(&stripped)));
    pen_text_release(&plain);
    pen_text_release(&coloured);
    pen_text_release(&stripped);
    free_item(&item);
}

/* 64 ranks in 100 columns: the letters still have the shares of the times. */
static void dense_rows_keep_the_proportions(void **state)
{
    (void)state;
    struct pen_picture_item item = make_item("1f1b", 64, 128, 0);
    struct pen_text text = PEN_TEXT_EMPTY;
    print(&item, 1, false, 100, &text);
    const char *row = strstr(pen_text_string(&text), "rank 0 ");
    int found[128] = {0};
    for (row += 8; *row != ' '; row++)
        found[(int)*row]++;
    int slots = found['F'] + found['B'] + found['.'];
    /* 128 of 573 seconds are forward, 256 backward. */
    assert_in_range(found['F'], slots * 128 / 573 - 2, slots * 128 / 573 + 2);
    assert_in_range(found['B'], slots * 256 / 573 - 2, slots * 256 / 573 + 2);
    pen_text_release(&text);
    free_item(&item);
}

/* Stacked schedules share the scale: the slower one is the wider one. */
static void schedules_share_one_time_axis(void **state)
{
    (void)state;
    struct pen_picture_item items[] = {make_item("zb-h1", 4, 8, 0),
                                       make_item("1f1b", 4, 8, 0)};
    struct pen_text text = PEN_TEXT_EMPTY;
    print(items, 2, false, 100, &text);
    row_width(pen_text_string(&text), 8);
    const char *path = strstr(pen_text_string(&text), "\npath   ");
    size_t first = strcspn(path + 8, ".\n");
    path = strstr(path + 8, "\npath   ");
    size_t second = strcspn(path + 8, ".\n");
    assert_int_equal(27 * 33, first * 33 * 33 / second);
    pen_text_release(&text);
    free_item(&items[0]);
    free_item(&items[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_read_as_the_schedule),
        cmocka_unit_test(rows_are_equally_wide_and_fit),
        cmocka_unit_test(colour_only_adds_escapes),
        cmocka_unit_test(dense_rows_keep_the_proportions),
        cmocka_unit_test(schedules_share_one_time_axis),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
