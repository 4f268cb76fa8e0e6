/* One schedule: title, rows, critical path. */
#include "view/page.h"

#include <math.h>

/*
 * Returns the height of the path, just over the cells, so that it hides no
 * label.
 */
static double path_y(const struct pen__page *page, size_t index,
                     const struct pen_path_step *step, double weight)
{
    return pen__page_row_y(page, index, step->rank) - weight / 2;
}

/*
 * Draws the critical path: a heavy line over its cells, and a lighter one to
 * the next rank where it waits for a message, unless rows of others lie
 * between.
 */
static void draw_path(struct pen__canvas *canvas, const struct pen__page *page,
                      size_t index)
{
    const struct pen_timing *timing = page->sheets[index].item->timing;
    double weight = fmin(2, page->cell_height * 0.16);
    pen__use_grey(canvas, 0.05);
    for (uint32_t i = 0; i < timing->path_count; i++) {
        const struct pen_path_step *step = &timing->path[i];
        const struct pen_op_time *time =
            &timing->ops[step->rank][step->position];
        double y = path_y(page, index, step, weight);
        pen__add_line(canvas, pen__page_x(page, time->start_sec), y,
                      pen__page_x(page, time->end_sec), y);
    }
    pen__stroke(canvas, weight);
    bool is_alone = !page->is_by_row || page->count == 1;
    for (uint32_t i = 1; i < timing->path_count && is_alone; i++) {
        const struct pen_path_step *from = &timing->path[i - 1];
        const struct pen_path_step *to = &timing->path[i];
        if (from->rank == to->rank)
            continue;
        pen__add_line(
            canvas,
            pen__page_x(page, timing->ops[from->rank][from->position].end_sec),
            path_y(page, index, from, weight),
            pen__page_x(page, timing->ops[to->rank][to->position].start_sec),
            path_y(page, index, to, weight));
    }
    pen__stroke(canvas, weight * 0.5);
}

static void write_title(struct pen__canvas *canvas,
                        const struct pen__page *page, size_t index)
{
    const struct pen__sheet *sheet = &page->sheets[index];
    const struct pen_timing *timing = sheet->item->timing;
    double zoom = page->zoom;
    double y = pen__page_panel_y(page, index) + 12 * zoom;
    double right = page->plot_x + page->plot_width;
    struct pen_text text = PEN_TEXT_EMPTY;
    pen__add_item_label(sheet->item, &text);
    pen__use_grey(canvas, PEN__TEXT_GREY);
    double x = page->plot_x;
    x += pen__write_within(canvas, x, y, page->plot_width / 3, 11 * zoom, true,
                           pen_text_string(&text));
    x += 10 * zoom;

    pen_text_clear(&text);
    pen__add_shape(&sheet->item->schedule->shape, &text);
    if (!sheet->item->is_bare)
        pen_text_add(&text, "   makespan %.5g %s   bubble %.1f %%",
                     timing->makespan_sec * page->unit.per_sec, page->unit.name,
                     100 * timing->bubble);
    if (!page->is_by_row)
        pen_text_add(&text, "   peak %.4g A", sheet->peak);
    pen__write_within(canvas, x, y, right - x, 9.5 * zoom, false,
                      pen_text_string(&text));
    pen_text_release(&text);

    if (page->is_by_row && index + 1 < page->count)
        return;
    pen__use_font(canvas, 8, false);
    pen__use_grey(canvas, PEN__QUIET_GREY);
    pen__write(canvas, right + 42, y, PEN__RIGHT, "busy");
    if (!page->is_by_row)
        pen__write(canvas, right + 76, y, PEN__RIGHT, "peak");
}

static void add_widest_label(const struct pen_shape *shape, bool with_letter,
                             struct pen_text *out)
{
    pen_text_add(out, "%s%u", with_letter ? "B" : "",
                 shape->num_microbatches - 1);
    if (shape->num_slices > 1)
        pen_text_add(out, ".%u", shape->num_slices - 1);
}

/* Letters only where there is room in most cells of every panel. */
static bool has_room_for_letters(struct pen__canvas *canvas,
                                 const struct pen__page *page)
{
    struct pen_text widest = PEN_TEXT_EMPTY;
    bool has_room = true;
    pen__use_font(canvas, page->label_size, false);
    for (size_t i = 0; i < page->count; i++) {
        const struct pen__sheet *sheet = &page->sheets[i];
        double cell_sec = fmax(sheet->short_sec, sheet->mean_sec / 2);
        pen_text_clear(&widest);
        add_widest_label(&sheet->item->schedule->shape, true, &widest);
        double need = pen__text_width(canvas, pen_text_string(&widest)) + 2;
        has_room = has_room && need < cell_sec * page->per_sec;
    }
    pen_text_release(&widest);
    return has_room;
}

void pen__panel_draw(struct pen__canvas *canvas, const struct pen__page *page,
                     size_t index)
{
    const struct pen_shape *shape = &page->sheets[index].item->schedule->shape;
    bool has_letters = has_room_for_letters(canvas, page);
    struct pen_text widest = PEN_TEXT_EMPTY;
    add_widest_label(shape, has_letters, &widest);
    struct pen__labels labels = {has_letters, pen_text_string(&widest)};
    write_title(canvas, page, index);
    for (uint32_t rank = 0; rank < shape->num_ranks; rank++)
        pen__row_draw(canvas, page, index, rank, &labels);
    draw_path(canvas, page, index);
    pen_text_release(&widest);
}
