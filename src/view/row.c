/*
 * One rank: its cells, with its memory under them and its figures to the right.
 * They are drawn layer by layer, all cells of one look in one path: that keeps
 * the files small and the hatching even over the borders of cells.
 */
#include "view/page.h"

#include <math.h>

#define LEAST_HATCHED 2.0 /* narrower cells show nothing but their shade */
#define LEAST_OUTLINED 2.0

struct row {
    struct pen__canvas *canvas;
    const struct pen__page *page;
    const struct pen__sheet *sheet;
    uint32_t rank;
    double y;
    const struct pen__labels *labels;
};

static uint32_t chunks_of(const struct row *row)
{
    return pen_shape_chunks(&row->sheet->item->schedule->shape);
}

static const struct pen__cell_row *cells_of(const struct row *row)
{
    return &row->sheet->rows[row->rank];
}

/* Returns the next cell from *i on that takes time, or NULL at the end. */
static const struct pen__cell *next_cell(const struct row *row, uint32_t *i)
{
    const struct pen__cell_row *cells = cells_of(row);
    while (*i < cells->count) {
        const struct pen__cell *cell = &cells->cells[(*i)++];
        if (pen__cell_takes_time(cell))
            return cell;
    }
    return NULL;
}

static void fill_cells(const struct row *row, unsigned kind, uint16_t chunk)
{
    const struct pen__cell *cell = NULL;
    bool has_any = false;
    for (uint32_t i = 0; (cell = next_cell(row, &i)) != NULL;) {
        if (cell->kind != kind || cell->chunk != chunk)
            continue;
        struct pen__box box = pen__page_box(row->page, cell, row->y);
        pen__add_box(row->canvas, &box);
        has_any = true;
    }
    if (!has_any)
        return;
    pen__use_colour(row->canvas,
                    pen__ink_of(kind, chunk, chunks_of(row)).colour);
    pen__fill(row->canvas);
}

static double label_size(const struct row *row, const struct pen__cell *cell)
{
    return cell->lanes == 1 ? row->page->label_size
                            : fmin(row->page->label_size,
                                   row->page->cell_height / cell->lanes * 0.75);
}

/*
 * Returns the width of the label in this cell, 0 for none: when the widest does
 * not fit, no cell of the row has one, since a row with some labels looks
 * broken.
 */
static double label_width(const struct row *row, const struct pen__cell *cell,
                          char label[PEN__LABEL_SIZE])
{
    double size = label_size(row, cell);
    double room = (cell->end_sec - cell->start_sec) * row->page->per_sec - 2;
    if (size < 4.5 || room < size / 2)
        return 0;
    pen__use_font_size(row->canvas, size);
    if (pen__text_width(row->canvas, row->labels->widest) > room)
        return 0;
    pen__cell_label(row->sheet, row->rank, cell, row->labels->has_letters,
                    label);
    double width = pen__text_width(row->canvas, label);
    return width > room ? 0 : width;
}

/* Hatches on both sides of the label, so that it stays easy to read. */
static void hatch_cells(const struct row *row)
{
    const struct pen__cell *cell = NULL;
    for (uint32_t i = 0; (cell = next_cell(row, &i)) != NULL;) {
        char label[PEN__LABEL_SIZE];
        enum pen__hatch hatch = pen__ink_of(cell->kind, 0, 1).hatch;
        struct pen__box box = pen__page_box(row->page, cell, row->y);
        if (hatch == PEN__HATCH_NONE || box.width < LEAST_HATCHED)
            continue;
        double width = label_width(row, cell, label);
        if (width > 0) {
            struct pen__box side = box;
            double room = (box.width - width) / 2 - 1;
            side.width = fmax(0, floor(10 * room) / 10);
            pen__hatch_box(row->canvas, hatch, &side);
            side.x = box.x + box.width - side.width;
            pen__hatch_box(row->canvas, hatch, &side);
        } else {
            pen__hatch_box(row->canvas, hatch, &box);
        }
    }
    pen__hatch_stroke(row->canvas);
}

/* Edges that neighbours share are drawn once. */
static void outline_cells(const struct row *row)
{
    double mean = row->sheet->mean_sec * row->page->per_sec;
    if (mean < LEAST_OUTLINED)
        return;
    double bottom = row->y + row->page->cell_height;
    double run_start = 0;
    double run_end = -1;
    const struct pen__cell *cell = NULL;
    for (uint32_t i = 0;;) {
        cell = next_cell(row, &i);
        struct pen__box box = {.x = INFINITY};
        if (cell != NULL)
            box = pen__page_box(row->page, cell, row->y);
        if (cell != NULL && cell->lane > 0) {
            pen__add_line(row->canvas, box.x, box.y, box.x + box.width, box.y);
            continue;
        }
        if (box.x > run_end + 0.01 && run_end >= 0) {
            pen__add_line(row->canvas, run_end, row->y, run_end, bottom);
            pen__add_line(row->canvas, run_start, row->y, run_end, row->y);
            pen__add_line(row->canvas, run_start, bottom, run_end, bottom);
        }
        if (cell == NULL)
            break;
        if (box.x > run_end + 0.01)
            run_start = box.x;
        run_end = box.x + box.width;
        pen__add_line(row->canvas, box.x, row->y, box.x, bottom);
    }
    pen__use_grey(row->canvas, 0.2);
    pen__stroke(row->canvas, fmin(0.45, mean * 0.08));
}

static double foot_weight(const struct pen__page *page)
{
    return fmin(1.4, page->cell_height * 0.1);
}

/* Draws a heavy foot for the second copy of the model. */
static void underline_up_copy(const struct row *row)
{
    const struct pen__cell *cell = NULL;
    double weight = foot_weight(row->page);
    for (uint32_t i = 0; (cell = next_cell(row, &i)) != NULL;) {
        if (!cell->is_up)
            continue;
        struct pen__box box = pen__page_box(row->page, cell, row->y);
        double y = box.y + box.height - weight / 2;
        double inset = fmin(1, box.width * 0.1);
        pen__add_line(row->canvas, box.x + inset, y, box.x + box.width - inset,
                      y);
    }
    pen__use_grey(row->canvas, 0.25);
    pen__stroke(row->canvas, weight);
}

static void label_cells(const struct row *row)
{
    const struct pen__cell *cell = NULL;
    pen__use_grey(row->canvas, PEN__TEXT_GREY);
    for (uint32_t i = 0; (cell = next_cell(row, &i)) != NULL;) {
        char label[PEN__LABEL_SIZE];
        if (label_width(row, cell, label) == 0)
            continue;
        struct pen__box box = pen__page_box(row->page, cell, row->y);
        double rise = label_size(row, cell) * 0.36; /* half of a digit */
        if (cell->is_up)
            rise -= foot_weight(row->page) / 2;
        pen__write(row->canvas, box.x + box.width / 2,
                   box.y + box.height / 2 + rise, PEN__CENTRE, label);
    }
}

/* Ops without time; several at one instant make one mark. */
static void mark_cells(const struct row *row)
{
    const struct pen__cell_row *cells = cells_of(row);
    const struct pen__cell *last = NULL;
    for (uint32_t i = 0; i < cells->count; i++) {
        const struct pen__cell *cell = &cells->cells[i];
        if (pen__cell_takes_time(cell) || pen_op_is_compute(cell->kind))
            continue;
        if (last != NULL && last->kind == cell->kind &&
            last->start_sec == cell->start_sec)
            continue;
        pen__mark(row->canvas, cell->kind,
                  pen__page_x(row->page, cell->start_sec), row->y,
                  row->page->cell_height);
        last = cell;
    }
}

/* Draws the memory of the rank as a staircase under its cells. */
static void draw_curve(const struct row *row)
{
    const struct pen__page *page = row->page;
    const struct pen_curve *curve =
        &row->sheet->item->timing->curves[row->rank];
    double floor_y = row->y + page->cell_height + page->curve_height + 1.5;
    double y = floor_y;
    if (curve->count == 0)
        return;
    pen__move_to(row->canvas, pen__page_x(page, curve->points[0].at_sec), y);
    for (uint32_t i = 0; i < curve->count; i++) {
        const struct pen_level *point = &curve->points[i];
        bool is_last_at = i + 1 == curve->count ||
                          curve->points[i + 1].at_sec > point->at_sec;
        double level_y = floor_y - point->level * page->per_level;
        if (!is_last_at || level_y == y)
            continue;
        double x = pen__page_x(page, point->at_sec);
        pen__line_to(row->canvas, x, y);
        pen__line_to(row->canvas, x, level_y);
        y = level_y;
    }
    double end = pen__page_x(page, row->sheet->end_sec);
    pen__line_to(row->canvas, end, y);
    pen__line_to(row->canvas, end, floor_y);
    pen__use_grey(row->canvas, 0.77);
    pen__fill(row->canvas);
    pen__add_line(row->canvas, page->plot_x, floor_y, end, floor_y);
    pen__use_grey(row->canvas, 0.55);
    pen__stroke(row->canvas, 0.35);
}

static void draw_waiting(const struct row *row)
{
    double y = row->y + row->page->cell_height / 2;
    pen__add_line(row->canvas, row->page->plot_x, y,
                  pen__page_x(row->page, row->sheet->end_sec), y);
    pen__use_grey(row->canvas, 0.6);
    pen__stroke(row->canvas, 0.5);
}

static void write_name(const struct row *row, double x, double y)
{
    const struct pen_picture_item *item = row->sheet->item;
    struct pen_text text = PEN_TEXT_EMPTY;
    if (item->row_label != NULL)
        pen__add_clean(item->row_label, &text);
    else
        pen_text_add(&text, "rank %u",
                     item->ranks == NULL ? row->rank : item->ranks[row->rank]);
    pen__use_grey(row->canvas,
                  item->row_label == NULL ? PEN__TEXT_GREY : PEN__QUIET_GREY);
    pen__write(row->canvas, x, y, PEN__RIGHT, pen_text_string(&text));
    pen_text_release(&text);
}

/* Writes the name of the rank on the left; busy and peak on the right. */
static void write_sides(const struct row *row)
{
    const struct pen__page *page = row->page;
    const struct pen_timing *timing = row->sheet->item->timing;
    const struct pen_rank_time *time = &timing->ranks[row->rank];
    double size = 8.5;
    uint32_t every = (uint32_t)ceil(size * 1.1 / page->pitch);
    if (row->rank % every != 0)
        return;
    double y = row->y + page->cell_height / 2 + size * 0.36;
    double right = page->plot_x + page->plot_width;
    double busy = timing->makespan_sec > 0
                      ? 100 * time->busy_sec / timing->makespan_sec
                      : 0;
    struct pen_text text = PEN_TEXT_EMPTY;
    pen__use_font(row->canvas, size, false);
    write_name(row, page->plot_x - 6, y);
    pen__use_grey(row->canvas, PEN__QUIET_GREY);
    pen_text_add(&text, "%.1f %%", busy);
    pen__write(row->canvas, right + 42, y, PEN__RIGHT, pen_text_string(&text));
    pen_text_clear(&text);
    pen_text_add(&text, "%.4g", time->peak);
    if (!page->is_by_row)
        pen__write(row->canvas, right + 76, y, PEN__RIGHT,
                   pen_text_string(&text));
    pen_text_release(&text);
}

void pen__row_draw(struct pen__canvas *canvas, const struct pen__page *page,
                   size_t index, uint32_t rank,
                   const struct pen__labels *labels)
{
    const struct row row = {
        .canvas = canvas,
        .page = page,
        .sheet = &page->sheets[index],
        .rank = rank,
        .y = pen__page_row_y(page, index, rank),
        .labels = labels,
    };
    draw_waiting(&row);
    for (unsigned kind = 0; kind < PEN_OP_KINDS; kind++) {
        for (uint32_t chunk = 0;
             row.sheet->has_cells[kind] && chunk < chunks_of(&row); chunk++)
            fill_cells(&row, kind, (uint16_t)chunk);
    }
    pen__use_font(canvas, page->label_size, false);
    hatch_cells(&row);
    outline_cells(&row);
    underline_up_copy(&row);
    label_cells(&row);
    mark_cells(&row);
    if (!page->is_by_row)
        draw_curve(&row);
    write_sides(&row);
}
