/* Drawings: the right file, every op once, bearable sizes, clear refusals. */
#include "base/file.h"
#include "support/folder.h"
#include "view/ink.h"
#include "view_item.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define MIB (1024u * 1024u)

/* Draws to a file of this name, reads it and removes it. */
static void draw(const struct pen_picture_item *items, size_t count,
                 const char *name, struct pen_text *out)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/%s", folder, name);
    if (pen_timeline_draw(items, count, pen_text_string(&path), &why) != PEN_OK)
        fail_msg("%s: %s", name, pen_text_string(&why));
    if (pen_file_read(pen_text_string(&path), 64 * MIB, out, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    assert_int_equal(0, remove(pen_text_string(&path)));
    pen_text_release(&path);
    pen_text_release(&why);
}

static void files_begin_as_their_ending_says(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *magic;
    } cases[] = {{"a.svg", "<?xml"},
                 {"a.png", "\x89PNG\r\n\x1a\n"},
                 {"a.pdf", "%PDF-1."},
                 {"a.json", "{"}};
    struct pen_picture_item item = make_item("1f1b", 4, 8, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_text file = PEN_TEXT_EMPTY;
        draw(&item, 1, cases[i].name, &file);
        if (strncmp(file.bytes, cases[i].magic, strlen(cases[i].magic)) != 0)
            fail_msg("%s begins with %.8s", cases[i].name, file.bytes);
        pen_text_release(&file);
    }
    free_item(&item);
}

/* Every element that opens is closed, in order. */
static void expect_well_formed(const char *xml)
{
    const char *open[64];
    int depth = 0;
    int elements = 0;
    for (const char *at = strchr(xml, '<'); at != NULL;
         at = strchr(at + 1, '<')) {
        const char *end = strchr(at, '>');
        assert_non_null(end);
        if (at[1] == '?' || at[1] == '!')
            continue;
        if (at[1] == '/') {
            assert_true(depth > 0);
            size_t length = strcspn(at + 2, ">");
            assert_memory_equal(open[--depth], at + 2, length);
        } else if (end[-1] != '/') {
            assert_true(depth < 64);
            open[depth++] = at + 1;
        }
        elements++;
    }
    assert_int_equal(0, depth);
    assert_true(elements > 10);
}

/* Rectangles in the path data up to the closing quote. */
static uint32_t count_boxes_in(const char *path)
{
    uint32_t boxes = 0;
    char sides[5] = "";
    for (; *path != '"' && *path != '\0'; path++) {
        if (strchr("MmlhvzaZ", *path) == NULL)
            continue;
        memmove(sides, sides + 1, 3);
        sides[3] = *path;
        boxes += memcmp(sides, "hvhz", 4) == 0;
    }
    return boxes;
}

/* Rectangles that are filled with the colour of one of these kinds. */
static uint32_t count_boxes(const char *svg, uint32_t chunks)
{
    uint32_t boxes = 0;
    for (const char *at = strstr(svg, "<path"); at != NULL;
         at = strstr(at + 1, "<path")) {
        const char *data = strstr(at, " d=\"");
        unsigned red = 0;
        unsigned green = 0;
        unsigned blue = 0;
        if (data == NULL ||
            sscanf(at, "<path fill=\"#%2x%2x%2x\"", &red, &green, &blue) != 3)
            continue;
        bool is_ours = false;
        for (unsigned kind = 0; kind <= PEN_OP_RECOMPUTE; kind++) {
            for (uint32_t chunk = 0; chunk < chunks; chunk++) {
                struct pen__colour ink =
                    pen__ink_of(kind, chunk, chunks).colour;
                is_ours = is_ours || (lround(255 * ink.red) == red &&
                                      lround(255 * ink.green) == green &&
                                      lround(255 * ink.blue) == blue);
            }
        }
        boxes += is_ours ? count_boxes_in(data + 4) : 0;
    }
    return boxes;
}

static void an_svg_has_one_box_per_compute_op(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t ranks;
        uint32_t microbatches;
        uint32_t samples; /* of these colours, in the legend */
    } cases[] = {{"1f1b", 4, 8, 2},
                 {"gpipe", 1, 1, 2},
                 {"gpipe", 16, 64, 2},
                 {"zb-h1", 4, 8, 3},
                 {"seq1f1b", 4, 8, 2},
                 {"chimera", 4, 8, 2 + 1},
                 {"dualpipe", 4, 8, 4 + 1 + 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_picture_item item = make_item(cases[i].name, cases[i].ranks,
                                                 cases[i].microbatches, 0.1);
        struct pen_text svg = PEN_TEXT_EMPTY;
        draw(&item, 1, "a.svg", &svg);
        expect_well_formed(svg.bytes);
        uint32_t expected = count_compute(item.schedule) + cases[i].samples;
        uint32_t found = count_boxes(svg.bytes, 1);
        if (found != expected)
            fail_msg("%s: %u boxes, not %u", cases[i].name, found, expected);
        pen_text_release(&svg);
        free_item(&item);
    }
}

static void kinds_differ_without_colour(void **state)
{
    (void)state;
    for (unsigned a = 0; a <= PEN_OP_RECOMPUTE; a++) {
        for (unsigned b = 0; b < a; b++)
            assert_int_not_equal(pen__ink_of(a, 0, 1).hatch,
                                 pen__ink_of(b, 0, 1).hatch);
    }
}

/* Measured ops of any kind may take time. */
static void labels_can_be_read_on_every_kind(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < PEN_OP_KINDS; kind++) {
        unsigned op_class = pen_op_info(kind)->op_class;
        struct pen__colour colour = pen__ink_of(kind, 0, 1).colour;
        if (op_class == PEN_OP_CLASS_SEND || op_class == PEN_OP_CLASS_RECV)
            continue;
        if (!(colour.green > 0.5))
            fail_msg("%s is too dark", pen_op_info(kind)->words);
    }
}

static void stacked_schedules_are_all_drawn(void **state)
{
    (void)state;
    struct pen_picture_item items[] = {make_item("gpipe", 4, 8, 0),
                                       make_item("1f1b", 4, 8, 0),
                                       make_item("zb-h1", 8, 16, 0)};
    items[1].label = STRANGE_LABEL;
    items[1].note = STRANGE_LABEL;
    struct pen_text svg = PEN_TEXT_EMPTY;
    draw(items, 3, "a.svg", &svg);
    expect_well_formed(svg.bytes);
    uint32_t expected = 4;
    for (size_t i = 0; i < 3; i++)
        expected += count_compute(items[i].schedule);
    assert_int_equal(expected, count_boxes(svg.bytes, 1));
    pen_text_release(&svg);
    for (size_t i = 0; i < 3; i++)
        free_item(&items[i]);
}

static void the_same_picture_has_the_same_bytes(void **state)
{
    (void)state;
    struct pen_picture_item item = make_item("bpipe", 4, 8, 0.1);
    struct pen_text first = PEN_TEXT_EMPTY;
    struct pen_text second = PEN_TEXT_EMPTY;
    draw(&item, 1, "a.png", &first);
    draw(&item, 1, "b.png", &second);
    assert_int_equal(first.length, second.length);
    assert_memory_equal(first.bytes, second.bytes, first.length);
    pen_text_release(&first);
    pen_text_release(&second);
    free_item(&item);
}

/* Another bubble changes a picture only where it is written. */
static void a_bare_picture_has_no_bubble(void **state)
{
    (void)state;
    struct pen_picture_item item = make_item("1f1b", 4, 8, 0);
    struct pen_timing *timing = (struct pen_timing *)item.timing;
    for (int is_bare = 0; is_bare < 2; is_bare++) {
        struct pen_text before = PEN_TEXT_EMPTY;
        struct pen_text after = PEN_TEXT_EMPTY;
        item.is_bare = is_bare;
        timing->bubble = 0.125;
        draw(&item, 1, "a.png", &before);
        timing->bubble = 0.75;
        draw(&item, 1, "a.png", &after);
        bool is_same = before.length == after.length &&
                       memcmp(before.bytes, after.bytes, before.length) == 0;
        assert_int_equal(is_bare, is_same);
        pen_text_release(&before);
        pen_text_release(&after);
    }
    free_item(&item);
}

static void a_schedule_without_time_can_be_drawn(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    costs.uniform.forward_sec = 0;
    costs.uniform.input_sec = 0;
    costs.uniform.weight_sec = 0;
    struct pen_picture_item item = time_item(make("1f1b", 2, 2, 1), &costs);
    struct pen_text file = PEN_TEXT_EMPTY;
    draw(&item, 1, "a.svg", &file);
    expect_well_formed(file.bytes);
    pen_text_release(&file);
    pen_timeline_print(&item, 1, false, 80, &file);
    assert_int_equal(0, file.has_failed);
    pen_text_release(&file);
    free_item(&item);
}

static void large_pictures_stay_bearable(void **state)
{
    (void)state;
    struct pen_picture_item item = make_item("1f1b", 64, 256, 0);
    struct pen_text file = PEN_TEXT_EMPTY;
    draw(&item, 1, "a.svg", &file);
    if (file.length > 15 * MIB)
        fail_msg("the SVG has %zu bytes", file.length);
    pen_text_release(&file);
    draw(&item, 1, "a.pdf", &file);
    if (file.length > 4 * MIB)
        fail_msg("the PDF has %zu bytes", file.length);
    pen_text_release(&file);
    free_item(&item);
}

static void refuse(const struct pen_picture_item *item, const char *name,
                   const char *expected)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/%s", folder, name);
    assert_int_equal(PEN_INVALID,
                     pen_timeline_draw(item, 1, pen_text_string(&path), &why));
    if (strstr(pen_text_string(&why), expected) == NULL)
        fail_msg("expected \"%s\" in \"%s\"", expected, pen_text_string(&why));
    assert_int_equal(-1, access(pen_text_string(&path), F_OK));
    pen_text_release(&path);
    pen_text_release(&why);
}

static void unknown_endings_are_refused_with_those_that_work(void **state)
{
    (void)state;
    struct pen_picture_item item = make_item("gpipe", 2, 2, 0);
    const char *words = "should end in .svg, .png, .pdf or .json (Perfetto)";
    refuse(&item, "a.gif", words);
    refuse(&item, "svg", words);
    refuse(&item, "a.svg.gz", words);
    free_item(&item);
}

static void too_many_ops_are_refused(void **state)
{
    (void)state;
    /* Refused before its times are looked at. */
    struct pen_schedule *schedule = make("gpipe", 32, 8200, 0);
    struct pen_picture_item item = {.schedule = schedule};
    refuse(&item, "a.svg", "write a .json for Perfetto");
    pen_schedule_free(schedule);
}

static void a_missing_folder_is_named(void **state)
{
    (void)state;
    struct pen_picture_item item = make_item("gpipe", 2, 2, 0);
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(
        PEN_IO, pen_timeline_draw(&item, 1, "/nowhere/at/all/a.svg", &why));
    assert_non_null(strstr(pen_text_string(&why), "/nowhere/at/all/a.svg"));
    pen_text_release(&why);
    free_item(&item);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_begin_as_their_ending_says),
        cmocka_unit_test(an_svg_has_one_box_per_compute_op),
        cmocka_unit_test(kinds_differ_without_colour),
        cmocka_unit_test(labels_can_be_read_on_every_kind),
        cmocka_unit_test(stacked_schedules_are_all_drawn),
        cmocka_unit_test(the_same_picture_has_the_same_bytes),
        cmocka_unit_test(a_bare_picture_has_no_bubble),
        cmocka_unit_test(a_schedule_without_time_can_be_drawn),
        cmocka_unit_test(large_pictures_stay_bearable),
        cmocka_unit_test(unknown_endings_are_refused_with_those_that_work),
        cmocka_unit_test(too_many_ops_are_refused),
        cmocka_unit_test(a_missing_folder_is_named),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
