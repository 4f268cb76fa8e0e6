/*
 * Some ranks of a view, each a low row of what it did. Waiting has a colour
 * of its own, the darkest of all, so that it is seen how it spreads.
 *
 *      1f1b, step 1: ranks 480 to 543 of 1024        waits
 *      rank 480 FFFF####BFBFBF############           34.2 %
 *      rank 481 ..FFF###BFBFB#############           35.0 %
 *               |----|----|----|----|  time (ms)
 *      [] forward  [] backward  ## waiting ...
 */
#include "view/view_internal.h"

#include "view/ink.h"
#include "view/picture.h"
#include "view/rank_rows.h"

#include <math.h>
#include <stdlib.h>

#define MARGIN 14.0
#define LEFT 54.0  /* "rank 16383" */
#define RIGHT 44.0 /* waits */
#define PLOT_WIDTH 860.0
#define TITLE_HEIGHT 22.0
#define AXIS_HEIGHT 40.0
#define LEGEND_HEIGHT 16.0
#define GAP 0.5            /* of a row, between pipelines */
#define LEAST_OUTLINED 4.0 /* points of a mean cell, in each direction */

/* The reasons for which ops wait: words and colour. */
enum wait_kind { WAIT_NEIGHBOUR, WAIT_SUMS, WAITS };

static const struct {
    const char *words;
    struct pen__colour colour;
} waits[WAITS] = {{"waiting for a neighbour", {0.76, 0.18, 0.24}},
                  {"waiting for sums", {0.42, 0.24, 0.52}}};

/* Where a rank is drawn. */
struct place {
    uint32_t line;
    double y;
};

struct picture {
    const struct pen_view *view;
    const struct place *places; /* from the top */
    uint32_t count;
    struct pen__unit unit;
    double pitch;
    double cell_height;
    double per_sec;
    double bottom;   /* of the rows */
    double mean_sec; /* of an op */
    bool has_cells[PEN_OP_KINDS];
    bool has_waits[WAITS];
};

static const struct pen_row *row_at(const struct picture *picture,
                                    uint32_t line)
{
    const struct pen__course *course = &picture->view->measured;
    return &course->schedule->rows[pen__row_of_line(course, line)];
}

static const struct pen__span *span_at(const struct picture *picture,
                                       uint32_t line, uint32_t position)
{
    return &picture->view->measured.spans[line][position];
}

static enum wait_kind wait_of(unsigned kind)
{
    return kind == PEN_OP_SYNC_GRAD || kind == PEN_OP_STEP ? WAIT_SUMS
                                                           : WAIT_NEIGHBOUR;
}

static bool is_cell(const struct pen__span *span, unsigned kind)
{
    unsigned op_class = pen_op_info(kind)->op_class;
    return span->end_sec > span->ready_sec && op_class != PEN_OP_CLASS_SEND &&
           op_class != PEN_OP_CLASS_RECV;
}

static double x_at(const struct picture *picture, double at_sec)
{
    return MARGIN + LEFT + at_sec * picture->per_sec;
}

static void add_box(struct pen__canvas *canvas, const struct picture *picture,
                    uint32_t index, double from_sec, double to_sec)
{
    double x = x_at(picture, from_sec);
    const struct pen__box box = {x, picture->places[index].y,
                                 x_at(picture, to_sec) - x,
                                 picture->cell_height};
    pen__add_box(canvas, &box);
}

static void fill_waits(struct pen__canvas *canvas,
                       const struct picture *picture, uint32_t index,
                       enum wait_kind kind)
{
    uint32_t line = picture->places[index].line;
    const struct pen_row *row = row_at(picture, line);
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen__span *span = span_at(picture, line, i);
        if (span->ready_sec > span->begin_sec &&
            wait_of(row->ops[i].kind) == kind)
            add_box(canvas, picture, index, span->begin_sec, span->ready_sec);
    }
    pen__use_colour(canvas, waits[kind].colour);
    pen__fill(canvas);
}

static void fill_cells(struct pen__canvas *canvas,
                       const struct picture *picture, uint32_t index,
                       unsigned kind)
{
    uint32_t line = picture->places[index].line;
    const struct pen_row *row = row_at(picture, line);
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen__span *span = span_at(picture, line, i);
        if (row->ops[i].kind == kind && is_cell(span, kind))
            add_box(canvas, picture, index, span->ready_sec, span->end_sec);
    }
    pen__use_colour(canvas, pen__ink_of(kind, 0, 1).colour);
    if (fmin(picture->mean_sec * picture->per_sec, picture->cell_height) >=
        LEAST_OUTLINED)
        pen__fill_outlined(canvas, 0.3, 0.25);
    else
        pen__fill(canvas);
}

/*
 * Draws the part of the chain that decided the step which is in this picture.
 */
static void draw_chain(struct pen__canvas *canvas,
                       const struct picture *picture, uint32_t index)
{
    const struct pen__chain *chain = &picture->view->findings.chain;
    double weight = fmin(2, picture->pitch - picture->cell_height);
    double y = picture->places[index].y - weight / 2;
    for (uint64_t i = 0; i < chain->count; i++) {
        const struct pen__chain_op *op = &chain->ops[i];
        if (op->line != picture->places[index].line)
            continue;
        const struct pen__span *span = span_at(picture, op->line, op->position);
        pen__add_line(canvas, x_at(picture, span->ready_sec), y,
                      x_at(picture, span->end_sec), y);
    }
    pen__use_grey(canvas, 0.05);
    pen__stroke(canvas, weight);
}

/*
 * Writes the name of the rank on the left and how much it waits on the right.
 */
static void write_sides(struct pen__canvas *canvas,
                        const struct picture *picture, uint32_t index)
{
    uint32_t line = picture->places[index].line;
    const struct pen__line_facts *facts = &picture->view->findings.lines[line];
    double end_sec = picture->view->measured.end_sec;
    uint32_t every;
    double size = pen__rows_type_size(picture->pitch, &every);
    if (index % every != 0)
        return;
    double y =
        picture->places[index].y + picture->cell_height / 2 + size * 0.36;
    struct pen_text text = PEN_TEXT_EMPTY;
    pen__use_font(canvas, size, false);
    pen__use_grey(canvas, PEN__TEXT_GREY);
    pen_text_add(&text, "rank %u", picture->view->lines.ranks[line]);
    pen__write(canvas, MARGIN + LEFT - 5, y, PEN__RIGHT,
               pen_text_string(&text));
    pen_text_clear(&text);
    pen__use_grey(canvas, PEN__QUIET_GREY);
    pen_text_add(&text, "%.1f %%",
                 end_sec > 0 ? 100 * facts->waiting_sec / end_sec : 0);
    pen__write(canvas, MARGIN + LEFT + PLOT_WIDTH + RIGHT - 4, y, PEN__RIGHT,
               pen_text_string(&text));
    pen_text_release(&text);
}

static void draw_row(struct pen__canvas *canvas, const struct picture *picture,
                     uint32_t index)
{
    for (enum wait_kind kind = 0; kind < WAITS; kind++)
        fill_waits(canvas, picture, index, kind);
    for (unsigned kind = 0; kind < PEN_OP_KINDS; kind++) {
        if (picture->has_cells[kind])
            fill_cells(canvas, picture, index, kind);
    }
    draw_chain(canvas, picture, index);
    write_sides(canvas, picture, index);
}

static void add_title(const struct picture *picture, struct pen_text *out)
{
    const struct pen_view *view = picture->view;
    pen_text_add(
        out, "%s, step %u: %u of %u ranks, %.5g %s", view->schedule->name,
        view->step, picture->count, view->lines.count,
        view->measured.end_sec * picture->unit.per_sec, picture->unit.name);
}

static void write_title(struct pen__canvas *canvas,
                        const struct picture *picture)
{
    double y = MARGIN + 10;
    double right = MARGIN + LEFT + PLOT_WIDTH;
    struct pen_text text = PEN_TEXT_EMPTY;
    add_title(picture, &text);
    pen__use_grey(canvas, PEN__TEXT_GREY);
    pen__write_within(canvas, MARGIN + LEFT, y, PLOT_WIDTH, 11, true,
                      pen_text_string(&text));
    pen_text_release(&text);
    pen__use_font(canvas, PEN__ROWS_TYPE_SIZE, false);
    pen__use_grey(canvas, PEN__QUIET_GREY);
    pen__write(canvas, right + RIGHT - 4, y, PEN__RIGHT, "waits");
}

static void draw_legend(struct pen__canvas *canvas,
                        const struct picture *picture)
{
    double x = MARGIN + LEFT;
    double y = picture->bottom + AXIS_HEIGHT;
    pen__use_font(canvas, PEN__ROWS_TYPE_SIZE, false);
    for (unsigned kind = 0; kind < PEN_OP_KINDS; kind++) {
        if (picture->has_cells[kind])
            x = pen__rows_sample(canvas, x, y, pen__ink_of(kind, 0, 1).colour,
                                 pen_op_info(kind)->words);
    }
    for (enum wait_kind kind = 0; kind < WAITS; kind++) {
        if (picture->has_waits[kind])
            x = pen__rows_sample(canvas, x, y, waits[kind].colour,
                                 waits[kind].words);
    }
    pen__write(canvas, x + 24, y + 7.8, PEN__LEFT, "critical path");
    pen__add_line(canvas, x, y + 5, x + 20, y + 5);
    pen__use_grey(canvas, 0.05);
    pen__stroke(canvas, 2);
}

static void draw_picture(struct pen__canvas *canvas, const void *context)
{
    const struct picture *picture = context;
    write_title(canvas, picture);
    for (uint32_t i = 0; i < picture->count; i++)
        draw_row(canvas, picture, i);
    const struct pen__box plot = {MARGIN + LEFT, 0, PLOT_WIDTH,
                                  picture->bottom};
    pen__rows_axis(canvas, &plot, picture->view->measured.end_sec,
                   &picture->unit);
    draw_legend(canvas, picture);
}

/* Finds the contents of the picture and their size. */
static void look_at(struct picture *picture)
{
    double sum_sec = 0;
    uint64_t cells = 0;
    for (uint32_t index = 0; index < picture->count; index++) {
        uint32_t line = picture->places[index].line;
        const struct pen_row *row = row_at(picture, line);
        for (uint32_t i = 0; i < row->count; i++) {
            const struct pen__span *span = span_at(picture, line, i);
            unsigned kind = row->ops[i].kind;
            if (span->ready_sec > span->begin_sec)
                picture->has_waits[wait_of(kind)] = true;
            if (!is_cell(span, kind))
                continue;
            picture->has_cells[kind] = true;
            sum_sec += span->end_sec - span->ready_sec;
            cells++;
        }
    }
    picture->mean_sec = cells == 0 ? 0 : sum_sec / (double)cells;
}

/* Puts the ranks one under the other, with a gap where a pipeline begins. */
static double place_ranks(const struct pen_view *view, struct place *places,
                          uint32_t count, double pitch)
{
    double y = MARGIN + TITLE_HEIGHT;
    for (uint32_t i = 0; i < count; i++) {
        const struct pen__course *course = &view->measured;
        if (i > 0 && pen__row_of_line(course, places[i].line) <
                         pen__row_of_line(course, places[i - 1].line))
            y += GAP * pitch;
        places[i].y = y;
        y += pitch;
    }
    return y;
}

static void init_picture(struct picture *picture, const struct pen_view *view,
                         struct place *places, uint32_t count)
{
    double end_sec = view->measured.end_sec;
    double pitch = pen__rows_pitch(count);
    *picture =
        (struct picture){.view = view,
                         .places = places,
                         .count = count,
                         .unit = pen__unit_of(end_sec),
                         .pitch = pitch,
                         .cell_height = pitch * 0.86,
                         .per_sec = end_sec > 0 ? PLOT_WIDTH / end_sec : 0,
                         .bottom = place_ranks(view, places, count, pitch)};
    look_at(picture);
}

static pen_status write_picture(const struct picture *drawn, const char *path,
                                struct pen_text *why)
{
    struct pen_text title = PEN_TEXT_EMPTY;
    add_title(drawn, &title);
    const struct pen__picture picture = {
        .width = 2 * MARGIN + LEFT + PLOT_WIDTH + RIGHT,
        .height = drawn->bottom + AXIS_HEIGHT + LEGEND_HEIGHT + MARGIN,
        .draw = draw_picture,
        .context = drawn,
        .name = pen_text_string(&title)};
    pen_status status = pen__picture_write(&picture, path, why);
    pen_text_release(&title);
    return status;
}

static pen_status check_ranks(const struct pen_view *view,
                              const struct pen_view_ranks *ranks,
                              struct pen_text *why)
{
    if (ranks->first > ranks->last || ranks->last >= view->lines.count) {
        pen_why(why, "there are no ranks %u to %u: the trace has ranks 0 to %u",
                ranks->first, ranks->last, view->lines.count - 1);
        return PEN_INVALID;
    }
    if (ranks->last - ranks->first >= PEN__ROWS_MOST) {
        pen_why(why,
                "a drawing of %u ranks would be unreadable; the limit is %u",
                ranks->last - ranks->first + 1, PEN__ROWS_MOST);
        return PEN_INVALID;
    }
    return PEN_OK;
}

pen_status pen_view_draw_ranks(const struct pen_view *view,
                               const struct pen_view_ranks *ranks,
                               const char *path, struct pen_text *why)
{
    pen_status status = check_ranks(view, ranks, why);
    if (status == PEN_OK)
        status = pen__picture_check(path, why);
    if (status != PEN_OK)
        return status;
    uint32_t count = ranks->last - ranks->first + 1;
    struct place *places = calloc(count, sizeof *places);
    if (places == NULL) {
        pen_why(why, "out of memory for a picture of %u ranks", count);
        return PEN_NOMEM;
    }
    for (uint32_t line = 0; line < view->lines.count; line++) {
        uint32_t rank = view->lines.ranks[line];
        if (rank >= ranks->first && rank <= ranks->last)
            places[rank - ranks->first].line = line;
    }
    struct picture picture;
    init_picture(&picture, view, places, count);
    status = write_picture(&picture, path, why);
    free(places);
    return status;
}
