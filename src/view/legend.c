/* The legend: a sample and a word for everything that the page shows. */
#include "view/page.h"

#define SAMPLE_WIDTH 24.0
#define SAMPLE_HEIGHT 11.0
#define MARK_WIDTH 8.0
#define LINE_HEIGHT 17.0
#define WORD_GAP 5.0    /* from a sample to its word */
#define SAMPLE_GAP 16.0 /* from there to the next sample */
#define TYPE_SIZE 8.5

enum sample_kind {
    SAMPLE_CELL,
    SAMPLE_WAITING,
    SAMPLE_PATH,
    SAMPLE_MEMORY,
    SAMPLE_CHUNKS,
    SAMPLE_UP,
    SAMPLE_PAIR,
    SAMPLE_MARK
};

struct sample {
    enum sample_kind kind;
    unsigned op; /* SAMPLE_CELL, SAMPLE_MARK */
    const char *words;
};

struct flow {
    struct pen__canvas *canvas;
    const struct pen__page *page;
    double x;
    double y;
    bool is_drawn;
};

static void draw_box(struct pen__canvas *canvas, const struct pen__box *box,
                     unsigned op, uint32_t chunk, uint32_t chunks)
{
    struct pen__ink ink = pen__ink_of(op, chunk, chunks);
    pen__add_box(canvas, box);
    pen__use_colour(canvas, ink.colour);
    pen__fill(canvas);
    pen__hatch_box(canvas, ink.hatch, box);
    pen__hatch_stroke(canvas);
    pen__add_box(canvas, box);
    pen__use_grey(canvas, 0.2);
    pen__stroke(canvas, 0.45);
}

static void draw_line(struct pen__canvas *canvas, const struct pen__box *box,
                      double y, double grey, double weight)
{
    double at = box->y + y * box->height;
    pen__add_line(canvas, box->x, at, box->x + box->width, at);
    pen__use_grey(canvas, grey);
    pen__stroke(canvas, weight);
}

static void draw_halves(struct pen__canvas *canvas, const struct pen__box *box)
{
    struct pen__box half = *box;
    half.height /= 2;
    draw_box(canvas, &half, PEN_OP_FORWARD, 0, 1);
    half.y += half.height;
    draw_box(canvas, &half, PEN_OP_BACKWARD, 0, 1);
}

static void draw_shades(struct pen__canvas *canvas, const struct pen__box *box)
{
    for (uint32_t i = 0; i < 3; i++) {
        struct pen__box part = *box;
        part.width /= 3;
        part.x += i * part.width;
        draw_box(canvas, &part, PEN_OP_FORWARD, i, 3);
    }
}

static void draw_stairs(struct pen__canvas *canvas, const struct pen__box *box)
{
    static const double steps[] = {0.35, 0.7, 1, 0.7, 0.35};
    double width = box->width / 5;
    double bottom = box->y + box->height;
    pen__move_to(canvas, box->x, bottom);
    for (int i = 0; i < 5; i++) {
        double y = bottom - steps[i] * box->height;
        pen__line_to(canvas, box->x + i * width, y);
        pen__line_to(canvas, box->x + (i + 1) * width, y);
    }
    pen__line_to(canvas, box->x + box->width, bottom);
    pen__use_grey(canvas, 0.77);
    pen__fill(canvas);
}

static void draw_sample(struct pen__canvas *canvas, const struct sample *sample,
                        const struct pen__box *box)
{
    switch (sample->kind) {
    case SAMPLE_CELL:
        draw_box(canvas, box, sample->op, 0, 1);
        break;
    case SAMPLE_WAITING:
        draw_line(canvas, box, 0.5, 0.6, 0.5);
        break;
    case SAMPLE_PATH:
        draw_line(canvas, box, 0.5, 0.05, 2);
        break;
    case SAMPLE_MEMORY:
        draw_stairs(canvas, box);
        break;
    case SAMPLE_CHUNKS:
        draw_shades(canvas, box);
        break;
    case SAMPLE_UP:
        draw_box(canvas, box, PEN_OP_FORWARD, 0, 1);
        draw_line(canvas, box, 0.92, 0.25, 1.4);
        break;
    case SAMPLE_PAIR:
        draw_halves(canvas, box);
        break;
    case SAMPLE_MARK:
        pen__mark(canvas, sample->op, box->x + box->width / 2, box->y,
                  box->height);
        break;
    }
}

static void put(struct flow *flow, struct sample sample)
{
    const struct pen__page *page = flow->page;
    double zoom = page->zoom;
    double right = page->width - PEN__MARGIN;
    struct pen__box box = {.width = SAMPLE_WIDTH * zoom,
                           .height = SAMPLE_HEIGHT * zoom};
    if (sample.kind == SAMPLE_MARK)
        box.width = MARK_WIDTH * zoom;
    pen__use_font(flow->canvas, TYPE_SIZE * zoom, false);
    double shift = box.width + WORD_GAP * zoom;
    double width = shift + pen__text_width(flow->canvas, sample.words);
    if (flow->x > page->plot_x && flow->x + width > right) {
        flow->x = page->plot_x;
        flow->y += LINE_HEIGHT * zoom;
    }
    box.x = flow->x;
    box.y = flow->y;
    if (flow->is_drawn) {
        draw_sample(flow->canvas, &sample, &box);
        pen__use_grey(flow->canvas, PEN__TEXT_GREY);
        pen__write(flow->canvas, box.x + shift, box.y + box.height - 2.5 * zoom,
                   PEN__LEFT, sample.words);
    }
    flow->x += width + SAMPLE_GAP * zoom;
}

struct shown {
    bool cells[PEN_OP_KINDS];
    bool marks[PEN_OP_KINDS];
    bool chunks;
    bool copies;
    bool lanes;
};

static struct shown find_shown(const struct pen__page *page)
{
    struct shown shown = {.chunks = false};
    for (size_t i = 0; i < page->count; i++) {
        const struct pen__sheet *sheet = &page->sheets[i];
        const struct pen_shape *shape = &sheet->item->schedule->shape;
        for (unsigned kind = 0; kind < PEN_OP_KINDS; kind++) {
            shown.cells[kind] = shown.cells[kind] || sheet->has_cells[kind];
            shown.marks[kind] = shown.marks[kind] || sheet->has_marks[kind];
        }
        shown.chunks = shown.chunks || pen_shape_chunks(shape) > 1;
        shown.copies = shown.copies || pen__has_second_copy(shape);
        shown.lanes = shown.lanes || sheet->has_lanes;
    }
    return shown;
}

static void put_memory(struct flow *flow)
{
    double peak = 0;
    for (size_t i = 0; i < flow->page->count; i++) {
        double other = flow->page->sheets[i].peak;
        peak = other > peak ? other : peak;
    }
    struct pen_text words = PEN_TEXT_EMPTY;
    pen_text_add(&words, "activations held, full height %.4g A", peak);
    put(flow, (struct sample){SAMPLE_MEMORY, 0, pen_text_string(&words)});
    pen_text_release(&words);
}

double pen__legend(struct pen__canvas *canvas, const struct pen__page *page,
                   bool is_drawn)
{
    struct shown shown = find_shown(page);
    struct flow flow = {canvas, page, page->plot_x, page->legend_y, is_drawn};
    for (unsigned op = 0; op < PEN_OP_KINDS; op++) {
        if (shown.cells[op])
            put(&flow,
                (struct sample){SAMPLE_CELL, op, pen_op_info(op)->words});
    }
    if (shown.lanes)
        put(&flow, (struct sample){SAMPLE_PAIR, 0, "overlapped"});
    if (shown.chunks)
        put(&flow, (struct sample){SAMPLE_CHUNKS, 0, "first to last chunk"});
    if (shown.copies)
        put(&flow, (struct sample){SAMPLE_UP, 0, "second copy"});
    put(&flow, (struct sample){SAMPLE_WAITING, 0, "waiting"});
    put(&flow, (struct sample){SAMPLE_PATH, 0, "critical path"});
    if (!page->is_by_row)
        put_memory(&flow);
    for (unsigned op = 0; op < PEN_OP_KINDS; op++) {
        if (shown.marks[op] && !shown.cells[op] && !pen_op_is_compute(op))
            put(&flow,
                (struct sample){SAMPLE_MARK, op, pen_op_info(op)->words});
    }
    return flow.y - page->legend_y + LINE_HEIGHT * page->zoom;
}
