/*
 * One run of a ring of islands, from its seed.
 *
 *      seed 7: 4 islands, 2 coordinators, quorum 2, 5 faults ...
 *                     epoch 3       round 1      round 2
 *      coordinator 0 ───┼──────────────┼────────────┼─────
 *      island 0      [training]\──/[training]───┼──────
 *      island 1      [training]─\/──[ crashed ]─┼──────
 *                    |----|----|----|  time (s)
 */
#include "view/ring_draw.h"

#include "ring/sim/sim.h"
#include "view/ink.h"
#include "view/picture.h"
#include "view/rank_rows.h"

#include <math.h>
#include <stdlib.h>

#define MARGIN 14.0
#define LEFT 74.0
#define PLOT_WIDTH 1300.0
#define HEAD_HEIGHT 52.0
#define PITCH 34.0
#define BAND 12.0 /* height of what takes time, within a row */
#define AXIS_HEIGHT 40.0
#define LEGEND_HEIGHT 18.0
#define HEAD 3.0 /* of an arrow */

static const struct pen__colour training = {0.72, 0.82, 0.93};
static const struct pen__colour crashed = {0.25, 0.25, 0.28};
static const struct pen__colour paused = {0.93, 0.72, 0.36};
static const struct pen__colour divided = {0.98, 0.90, 0.90};
static const struct pen__colour contribution = {0.36, 0.55, 0.78};
static const struct pen__colour control = {0.55, 0.45, 0.70};
static const struct pen__colour lost = {0.85, 0.35, 0.35};
static const struct pen__colour committed = {0.13, 0.55, 0.27};
static const struct pen__colour membership = {0.60, 0.36, 0.10};

/* The marks of a run, in order. */
struct record {
    struct pen_ring_mark_at *list;
    size_t count;
    size_t room;
    bool is_full; /* no memory for more */
};

struct drawing {
    const struct record *record;
    struct pen_ring_outcome outcome;
    double from_sec;
    double to_sec;
    struct pen__box plot;
    const char *title;
};

/* Signs of life and their answers are left out: there are too many. */
static bool is_drawn(const struct pen_ring_mark_at *mark)
{
    bool is_message =
        mark->mark == PEN_RING_MARK_MESSAGE || mark->mark == PEN_RING_MARK_LOST;
    return !is_message ||
           (mark->kind != PEN_RING_BEAT && mark->kind != PEN_RING_RECORD &&
            mark->kind != PEN_RING_FETCH);
}

static void add_mark(void *context, const struct pen_ring_mark_at *mark)
{
    struct record *record = context;
    if (!is_drawn(mark) || record->is_full)
        return;
    if (record->count == record->room) {
        size_t room = record->room == 0 ? 1024 : 2 * record->room;
        void *larger = realloc(record->list, room * sizeof *record->list);
        if (larger == NULL) {
            record->is_full = true;
            return;
        }
        record->list = larger;
        record->room = room;
    }
    record->list[record->count++] = *mark;
}

/* ---- places */

static uint32_t num_rows(const struct drawing *drawing)
{
    return drawing->outcome.num_islands + drawing->outcome.num_coordinators;
}

/* Coordinators are above the islands. */
static uint32_t row_of(const struct drawing *drawing, uint32_t node)
{
    return node >= PEN_RING_ISLANDS ? node - PEN_RING_ISLANDS
                                    : node + drawing->outcome.num_coordinators;
}

static double y_of(const struct drawing *drawing, uint32_t node)
{
    return drawing->plot.y + (row_of(drawing, node) + 0.5) * PITCH;
}

static double x_of(const struct drawing *drawing, int64_t at)
{
    double share = (1e-9 * (double)at - drawing->from_sec) /
                   (drawing->to_sec - drawing->from_sec);
    return drawing->plot.x + fmin(fmax(share, 0), 1) * drawing->plot.width;
}

static bool is_seen(const struct drawing *drawing,
                    const struct pen_ring_mark_at *mark)
{
    return 1e-9 * (double)mark->at >= drawing->from_sec &&
           1e-9 * (double)mark->began_at <= drawing->to_sec;
}

/* ---- what takes time */

static void add_band(struct pen__canvas *canvas, const struct drawing *drawing,
                     const struct pen_ring_mark_at *mark, uint32_t node,
                     double height)
{
    double x = x_of(drawing, mark->began_at);
    const struct pen__box box = {x, y_of(drawing, node) - height / 2,
                                 fmax(x_of(drawing, mark->at) - x, 1), height};
    pen__add_box(canvas, &box);
}

static void draw_bands(struct pen__canvas *canvas,
                       const struct drawing *drawing, enum pen_ring_mark which,
                       struct pen__colour colour)
{
    for (size_t i = 0; i < drawing->record->count; i++) {
        const struct pen_ring_mark_at *mark = &drawing->record->list[i];
        if (mark->mark == which && is_seen(drawing, mark))
            add_band(canvas, drawing, mark, mark->node, BAND);
    }
    pen__use_colour(canvas, colour);
    pen__fill(canvas);
}

static void draw_cuts(struct pen__canvas *canvas, const struct drawing *drawing)
{
    for (size_t i = 0; i < drawing->record->count; i++) {
        const struct pen_ring_mark_at *mark = &drawing->record->list[i];
        if (mark->mark != PEN_RING_MARK_CUT || !is_seen(drawing, mark))
            continue;
        for (uint32_t node = 0; node < PEN_RING_NODES; node++)
            if (pen_ring_has(mark->set, node))
                add_band(canvas, drawing, mark, node, PITCH);
    }
    pen__use_colour(canvas, divided);
    pen__fill(canvas);
}

/* ---- messages */

static void add_arrow(struct pen__canvas *canvas, const struct drawing *drawing,
                      const struct pen_ring_mark_at *mark)
{
    double x0 = x_of(drawing, mark->began_at);
    double y0 = y_of(drawing, mark->node);
    double x1 = x_of(drawing, mark->at);
    double y1 = y_of(drawing, mark->peer);
    double length = hypot(x1 - x0, y1 - y0);
    if (mark->mark == PEN_RING_MARK_LOST) { /* it ends on its way */
        x1 = x0 + (x1 - x0) / 3;
        y1 = y0 + (y1 - y0) / 3;
    }
    pen__add_line(canvas, x0, y0, x1, y1);
    if (mark->mark == PEN_RING_MARK_LOST || length <= HEAD)
        return;
    double along_x = (x1 - x0) / length * HEAD;
    double along_y = (y1 - y0) / length * HEAD;
    pen__add_line(canvas, x1, y1, x1 - along_x - along_y / 2,
                  y1 - along_y + along_x / 2);
    pen__add_line(canvas, x1, y1, x1 - along_x + along_y / 2,
                  y1 - along_y - along_x / 2);
}

static bool is_contribution(enum pen_ring_kind kind)
{
    return kind == PEN_RING_FRAGMENT || kind == PEN_RING_OFFER ||
           kind == PEN_RING_STATE;
}

static void draw_messages(struct pen__canvas *canvas,
                          const struct drawing *drawing, bool of_contributions,
                          enum pen_ring_mark which, struct pen__colour colour)
{
    for (size_t i = 0; i < drawing->record->count; i++) {
        const struct pen_ring_mark_at *mark = &drawing->record->list[i];
        if (mark->mark == which && is_seen(drawing, mark) &&
            (which == PEN_RING_MARK_LOST ||
             is_contribution(mark->kind) == of_contributions))
            add_arrow(canvas, drawing, mark);
    }
    pen__use_colour(canvas, colour);
    pen__stroke(canvas, 0.4);
}

/* ---- commits, epochs, faults at one moment */

/* Names that would meet the one before are left out. */
static void write_mark(struct pen__canvas *canvas, double x, double y,
                       const char *words, double *taken)
{
    if (x < *taken)
        return;
    pen__write(canvas, x, y, PEN__CENTRE, words);
    *taken = x + pen__text_width(canvas, words) + 4;
}

static void draw_changes(struct pen__canvas *canvas,
                         const struct drawing *drawing,
                         enum pen_ring_mark which, const char *name,
                         struct pen__colour colour)
{
    bool is_commit = which == PEN_RING_MARK_COMMIT;
    double top = drawing->plot.y - (is_commit ? 2 : 12);
    double taken = 0;
    pen__use_font(canvas, PEN__ROWS_TYPE_SIZE, is_commit);
    pen__use_colour(canvas, colour);
    for (size_t i = 0; i < drawing->record->count; i++) {
        const struct pen_ring_mark_at *mark = &drawing->record->list[i];
        if (mark->mark != which || !is_seen(drawing, mark))
            continue;
        struct pen_text text = PEN_TEXT_EMPTY;
        double x = x_of(drawing, mark->at);
        pen_text_add(&text, "%s%llu", name, (unsigned long long)mark->round);
        write_mark(canvas, x, top - 2, pen_text_string(&text), &taken);
        pen_text_release(&text);
        pen__add_line(canvas, x, top, x,
                      drawing->plot.y + drawing->plot.height);
        pen__stroke(canvas, is_commit ? 0.9 : 0.5);
        for (uint32_t node = 0; is_commit && node < PEN_RING_ISLANDS; node++)
            if (pen_ring_has(mark->set, node))
                pen__add_circle(canvas, x, y_of(drawing, node), 2.4);
        pen__fill(canvas);
    }
}

static const char *moment_of(enum pen_ring_mark mark)
{
    switch (mark) {
    case PEN_RING_MARK_EVICT:
        return "evicted";
    case PEN_RING_MARK_LEAVE:
        return "told to leave";
    case PEN_RING_MARK_LEASE:
        return "lease lost";
    case PEN_RING_MARK_OUTAGE:
        return "store away";
    case PEN_RING_MARK_HEAL:
        return "healed";
    default:
        return NULL;
    }
}

static void draw_moments(struct pen__canvas *canvas,
                         const struct drawing *drawing)
{
    pen__use_font(canvas, PEN__ROWS_TYPE_SIZE, false);
    pen__use_colour(canvas, lost);
    for (size_t i = 0; i < drawing->record->count; i++) {
        const struct pen_ring_mark_at *mark = &drawing->record->list[i];
        const char *words = moment_of(mark->mark);
        if (words == NULL || !is_seen(drawing, mark))
            continue;
        bool is_node = mark->mark == PEN_RING_MARK_EVICT ||
                       mark->mark == PEN_RING_MARK_LEAVE;
        double x = x_of(drawing, mark->began_at);
        double y = is_node ? y_of(drawing, mark->node) - BAND / 2 - 2
                           : drawing->plot.y + drawing->plot.height + 22;
        pen__write(canvas, x, y, PEN__CENTRE, words);
        pen__add_circle(canvas, x,
                        is_node ? y_of(drawing, mark->node)
                                : drawing->plot.y + drawing->plot.height,
                        2.4);
        pen__fill(canvas);
    }
}

/* ---- the page */

static void draw_rows(struct pen__canvas *canvas, const struct drawing *drawing)
{
    pen__use_font(canvas, PEN__ROWS_TYPE_SIZE + 1, false);
    for (uint32_t node = 0; node < PEN_RING_NODES; node++) {
        bool is_island = node < PEN_RING_ISLANDS;
        uint32_t number = is_island ? node : node - PEN_RING_ISLANDS;
        if (number >= (is_island ? drawing->outcome.num_islands
                                 : drawing->outcome.num_coordinators))
            continue;
        double y = y_of(drawing, node);
        struct pen_text text = PEN_TEXT_EMPTY;
        pen_text_add(&text, "%s %u", is_island ? "island" : "coordinator",
                     number);
        pen__use_grey(canvas, PEN__TEXT_GREY);
        pen__write(canvas, drawing->plot.x - 6, y + 3, PEN__RIGHT,
                   pen_text_string(&text));
        pen_text_release(&text);
        pen__add_line(canvas, drawing->plot.x, y,
                      drawing->plot.x + drawing->plot.width, y);
        pen__use_grey(canvas, 0.8);
        pen__stroke(canvas, 0.5);
    }
}

static void draw_legend(struct pen__canvas *canvas,
                        const struct drawing *drawing)
{
    static const struct {
        const struct pen__colour *colour;
        const char *words;
    } samples[] = {{&training, "trains"},
                   {&contribution, "contribution, state"},
                   {&control, "join, proposal, acknowledgement"},
                   {&committed, "commit, with its contributors"},
                   {&membership, "new epoch"},
                   {&crashed, "crashed"},
                   {&paused, "stopped"},
                   {&divided, "cut off"},
                   {&lost, "lost message, other faults"}};
    double x = drawing->plot.x;
    double y = drawing->plot.y + drawing->plot.height + AXIS_HEIGHT;
    pen__use_font(canvas, PEN__ROWS_TYPE_SIZE, false);
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        x = pen__rows_sample(canvas, x, y, *samples[i].colour,
                             samples[i].words);
}

/* Draws the axis, which counts from the beginning of the run. */
static void draw_axis(struct pen__canvas *canvas, const struct drawing *drawing)
{
    double range = drawing->to_sec - drawing->from_sec;
    double step = pen__nice_step(range, 20);
    double y = drawing->plot.y + drawing->plot.height;
    pen__use_font(canvas, PEN__ROWS_TYPE_SIZE, false);
    pen__use_grey(canvas, PEN__QUIET_GREY);
    for (double at = ceil(drawing->from_sec / step) * step;
         at <= drawing->to_sec; at += step) {
        struct pen_text text = PEN_TEXT_EMPTY;
        double x = x_of(drawing, (int64_t)(1e9 * at));
        pen_text_add(&text, "%.4g s", at);
        pen__add_line(canvas, x, y, x, y + 3);
        pen__write(canvas, x, y + 12, PEN__CENTRE, pen_text_string(&text));
        pen_text_release(&text);
    }
    pen__add_line(canvas, drawing->plot.x, y,
                  drawing->plot.x + drawing->plot.width, y);
    pen__stroke(canvas, 0.5);
}

static void draw(struct pen__canvas *canvas, const void *context)
{
    const struct drawing *drawing = context;
    pen__use_grey(canvas, PEN__TEXT_GREY);
    pen__write_within(canvas, drawing->plot.x, MARGIN + 10, PLOT_WIDTH, 12,
                      true, drawing->title);
    draw_cuts(canvas, drawing);
    draw_rows(canvas, drawing);
    draw_bands(canvas, drawing, PEN_RING_MARK_TRAIN, training);
    draw_bands(canvas, drawing, PEN_RING_MARK_PAUSE, paused);
    draw_bands(canvas, drawing, PEN_RING_MARK_CRASH, crashed);
    draw_messages(canvas, drawing, false, PEN_RING_MARK_LOST, lost);
    draw_messages(canvas, drawing, true, PEN_RING_MARK_MESSAGE, contribution);
    draw_messages(canvas, drawing, false, PEN_RING_MARK_MESSAGE, control);
    draw_changes(canvas, drawing, PEN_RING_MARK_EPOCH, "epoch ", membership);
    draw_changes(canvas, drawing, PEN_RING_MARK_COMMIT, "", committed);
    draw_moments(canvas, drawing);
    draw_axis(canvas, drawing);
    draw_legend(canvas, drawing);
}

static pen_status write_picture(struct drawing *drawing, const char *path,
                                struct pen_text *why)
{
    double height = PITCH * num_rows(drawing);
    drawing->plot =
        (struct pen__box){MARGIN + LEFT, HEAD_HEIGHT, PLOT_WIDTH, height};
    const struct pen__picture page = {
        .width = 2 * MARGIN + LEFT + PLOT_WIDTH,
        .height = HEAD_HEIGHT + height + AXIS_HEIGHT + LEGEND_HEIGHT + MARGIN,
        .draw = draw,
        .context = drawing,
        .name = drawing->title};
    return pen__picture_write(&page, path, why);
}

static void add_title(const struct pen_ring_picture *picture,
                      const struct pen_ring_outcome *outcome,
                      const char *broken, struct pen_text *out)
{
    pen_text_add(out,
                 "seed %llu: %u islands, %u coordinators, quorum %u, %u "
                 "faults; %llu rounds committed, %llu epochs in %.1f s",
                 (unsigned long long)picture->seed, outcome->num_islands,
                 outcome->num_coordinators, outcome->quorum,
                 outcome->num_faults, (unsigned long long)outcome->num_rounds,
                 (unsigned long long)outcome->num_epochs,
                 1e-9 * (double)outcome->length);
    if (*broken != '\0')
        pen_text_add(out, "; broken: %s", broken);
}

static pen_status run_and_draw(struct pen_ring_world *world,
                               const struct pen_ring_picture *picture,
                               const char *path, struct pen_text *why)
{
    struct record record = {0};
    struct drawing drawing = {.record = &record};
    struct pen_text broken = PEN_TEXT_EMPTY;
    struct pen_text title = PEN_TEXT_EMPTY;
    const struct pen_ring_run run = {
        .seed = picture->seed, .mark = add_mark, .context = &record};
    pen_status status = PEN_OK;
    pen_ring_sim(world, &run, &drawing.outcome, &broken);
    add_title(picture, &drawing.outcome, pen_text_string(&broken), &title);
    double end_sec = 1e-9 * (double)drawing.outcome.length;
    drawing.title = pen_text_string(&title);
    drawing.from_sec = picture->from_sec;
    drawing.to_sec = picture->to_sec > 0 && picture->to_sec < end_sec
                         ? picture->to_sec
                         : end_sec;
    if (record.is_full) {
        pen_why(why, "out of memory");
        status = PEN_NOMEM;
    } else if (drawing.from_sec >= drawing.to_sec) {
        pen_why(why, "--begin %g is not before the end of the picture, %.1f s",
                drawing.from_sec, drawing.to_sec);
        status = PEN_INVALID;
    } else {
        status = write_picture(&drawing, path, why);
    }
    free(record.list);
    pen_text_release(&title);
    pen_text_release(&broken);
    return status;
}

pen_status pen_ring_draw(const struct pen_ring_picture *picture,
                         const char *path, struct pen_text *why)
{
    pen_status status = pen__picture_check(path, why);
    if (status != PEN_OK)
        return status;
    struct pen_ring_world *world = pen_ring_world_create();
    if (world == NULL) {
        pen_why(why, "out of memory");
        return PEN_NOMEM;
    }
    status = run_and_draw(world, picture, path, why);
    pen_ring_world_free(world);
    return status;
}
