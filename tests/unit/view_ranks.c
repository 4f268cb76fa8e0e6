/*
 * A picture of some ranks has as much of each colour as their time was spent
 * so: the pixels of waiting, of forward and of backward passes are counted.
 */
#include "support/folder.h"
#include "support/support.h"
#include "support/synthetic.h"
#include "view/ink.h"
#include "view/view_internal.h"

#include <cairo.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 4u
#define REPLICAS 4u
#define SLOW_RANK 6u /* row 2 of replica 1 */

/* Ops long enough that their borders do not matter. */
static struct pen_costs costs_of(const char *rest)
{
    struct pen_costs costs = unit_costs();
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_text_add(&text,
                 "{\"format\":\"penstock-costs\",\"version\":1,\"f\":0.5,"
                 "\"i\":0.5,\"w\":0.5%s}",
                 rest);
    if (pen_costs_parse_json(text.bytes, text.length, &costs, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&text);
    pen_text_release(&why);
    return costs;
}

/* Replica 1 has a rank that takes three times as long. */
static struct pen_view *view_of_slow_rank(void)
{
    struct pen_schedule *schedule = make("1f1b", ROWS, 4, 0);
    struct pen_costs truth[REPLICAS];
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_view *view = NULL;
    for (uint32_t i = 0; i < REPLICAS; i++)
        truth[i] = costs_of(i != SLOW_RANK / ROWS
                                ? ""
                                : ",\"ranks\":[{\"count\":2},{\"f\":1.5,\"i\":"
                                  "1.5,\"w\":1.5},{}]");
    const struct synthetic synthetic = {.schedule = schedule,
                                        .truth = truth,
                                        .num_replicas = REPLICAS,
                                        .num_steps = 1,
                                        .is_by_replica = true};
    if (write_synthetic(&synthetic, folder, &why) != PEN_OK ||
        pen_view_load(folder, NULL, &view, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    for (uint32_t i = 0; i < REPLICAS; i++)
        pen_costs_release(&truth[i]);
    pen_text_release(&why);
    pen_schedule_free(schedule);
    return view;
}

static cairo_surface_t *draw(const struct pen_view *view,
                             struct pen_view_ranks ranks)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/ranks.png", folder);
    if (pen_view_draw_ranks(view, &ranks, pen_text_string(&path), &why) !=
        PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    cairo_surface_t *surface =
        cairo_image_surface_create_from_png(pen_text_string(&path));
    assert_int_equal(CAIRO_STATUS_SUCCESS, cairo_surface_status(surface));
    pen_text_release(&path);
    pen_text_release(&why);
    return surface;
}

enum hue { WAIT_NEIGHBOUR, WAIT_REPLICAS, FORWARD, BACKWARD, HUES };

static bool is_near(const unsigned char *pixel, struct pen__colour colour)
{
    return abs(pixel[2] - (int)lround(colour.red * 255)) < 3 &&
           abs(pixel[1] - (int)lround(colour.green * 255)) < 3 &&
           abs(pixel[0] - (int)lround(colour.blue * 255)) < 3;
}

static void count_pixels(cairo_surface_t *surface, double counts[HUES])
{
    const struct pen__colour colours[HUES] = {
        {0.76, 0.18, 0.24},
        {0.42, 0.24, 0.52},
        pen__ink_of(PEN_OP_FORWARD, 0, 1).colour,
        pen__ink_of(PEN_OP_BACKWARD, 0, 1).colour};
    int width = cairo_image_surface_get_width(surface);
    int height = cairo_image_surface_get_height(surface);
    int stride = cairo_image_surface_get_stride(surface);
    const unsigned char *bytes = cairo_image_surface_get_data(surface);
    memset(counts, 0, HUES * sizeof *counts);
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            for (int hue = 0; hue < HUES; hue++)
                counts[hue] +=
                    is_near(bytes + (size_t)y * (size_t)stride + (size_t)x * 4,
                            colours[hue]);
        }
    }
}

static void add_seconds(const struct pen_view *view, uint32_t rank,
                        double seconds[HUES])
{
    const struct pen_row *row = &view->schedule->rows[rank % ROWS];
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen__span *span = &view->measured.spans[rank][i];
        unsigned kind = row->ops[i].kind;
        bool is_sync = kind == PEN_OP_SYNC_GRAD || kind == PEN_OP_STEP;
        seconds[is_sync ? WAIT_REPLICAS : WAIT_NEIGHBOUR] +=
            span->ready_sec - span->begin_sec;
        if (pen_op_is_compute(kind))
            seconds[kind == PEN_OP_FORWARD ? FORWARD : BACKWARD] +=
                span->end_sec - span->ready_sec;
    }
}

static void expect_colours(const struct pen_view *view,
                           struct pen_view_ranks ranks)
{
    double counts[HUES];
    double seconds[HUES] = {0};
    double all_pixels = 0;
    double all_sec = 0;
    cairo_surface_t *surface = draw(view, ranks);
    count_pixels(surface, counts);
    cairo_surface_destroy(surface);
    for (uint32_t rank = ranks.first; rank <= ranks.last; rank++)
        add_seconds(view, rank, seconds);
    for (int hue = 0; hue < HUES; hue++) {
        all_pixels += counts[hue];
        all_sec += seconds[hue];
    }
    for (int hue = 0; hue < HUES; hue++) {
        double share = counts[hue] / all_pixels;
        double expected = seconds[hue] / all_sec;
        if (fabs(share - expected) > 0.02)
            fail_msg("ranks %u to %u, colour %d: %.3f of the pixels, %.3f of "
                     "the seconds",
                     ranks.first, ranks.last, hue, share, expected);
    }
}

static void colours_take_the_room_of_their_seconds(void **state)
{
    (void)state;
    static const struct pen_view_ranks cases[] = {
        {0, ROWS * REPLICAS - 1},
        {0, ROWS - 1},        /* waits for the other replica */
        {ROWS, 2 * ROWS - 1}, /* has the slow rank */
        {SLOW_RANK, SLOW_RANK},
    };
    struct pen_view *view = view_of_slow_rank();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_colours(view, cases[i]);
    pen_view_free(view);
}

static void ranks_that_are_not_there_are_refused(void **state)
{
    (void)state;
    static const struct pen_view_ranks cases[] = {{16, 16}, {0, 16}, {3, 2}};
    struct pen_view *view = view_of_slow_rank();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_text why = PEN_TEXT_EMPTY;
        assert_int_equal(PEN_INVALID, pen_view_draw_ranks(view, &cases[i],
                                                          "none.svg", &why));
        assert_non_null(
            strstr(pen_text_string(&why), "the trace has ranks 0 to 15"));
        pen_text_release(&why);
    }
    pen_view_free(view);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(colours_take_the_room_of_their_seconds),
        cmocka_unit_test(ranks_that_are_not_there_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
