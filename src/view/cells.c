#include "view/cells.h"

#include "base/bug.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static bool is_shown(unsigned kind)
{
    unsigned op_class = pen_op_info(kind)->op_class;
    return op_class != PEN_OP_CLASS_SEND && op_class != PEN_OP_CLASS_RECV;
}

bool pen__has_second_copy(const struct pen_shape *shape)
{
    return shape->num_copies == 2 &&
           shape->placement != PEN_PLACEMENT_REPLICATED;
}

static struct pen__cell make_cell(const struct pen_picture_item *item,
                                  uint32_t rank, uint32_t position)
{
    const struct pen_shape *shape = &item->schedule->shape;
    const struct pen_op *op = &item->schedule->rows[rank].ops[position];
    const struct pen_op_time *time = &item->timing->ops[rank][position];
    uint32_t part = pen_shape_part_of_stage(shape, op->stage);
    uint32_t parts = pen_shape_parts(shape);
    uint32_t chunks = pen_shape_chunks(shape);
    return (struct pen__cell){
        .start_sec = time->start_sec,
        .end_sec = time->end_sec,
        .position = position,
        .chunk = (uint16_t)((uint64_t)part * chunks / parts),
        .kind = op->kind,
        .lanes = 1,
        .is_up = pen__has_second_copy(shape) &&
                 pen_shape_copy_of_stage(shape, op->stage) == 1,
    };
}

/* Gives the compute cells [first, end), one overlap group, their lanes. */
static void share_time(struct pen__cell *cells, uint32_t first, uint32_t end)
{
    double start_sec = INFINITY;
    double end_sec = 0;
    uint8_t lanes = 0;
    for (uint32_t i = first; i < end; i++) {
        if (!pen_op_is_compute(cells[i].kind))
            continue;
        start_sec = fmin(start_sec, cells[i].start_sec);
        end_sec = fmax(end_sec, cells[i].end_sec);
        cells[i].lane = lanes++;
    }
    for (uint32_t i = first; i < end; i++) {
        if (!pen_op_is_compute(cells[i].kind))
            continue;
        cells[i].start_sec = start_sec;
        cells[i].end_sec = end_sec;
        cells[i].lanes = lanes;
    }
}

static void find_groups(const struct pen_row *row, struct pen__cell_row *cells)
{
    uint32_t first = 0;
    while (first < cells->count) {
        uint16_t group = row->ops[cells->cells[first].position].group;
        uint32_t end = first + 1;
        while (group != 0 && end < cells->count &&
               row->ops[cells->cells[end].position].group == group)
            end++;
        if (end - first > 1)
            share_time(cells->cells, first, end);
        first = end;
    }
}

/*
 * Returns whether to hide a SYNC: one that its STEP follows at the same
 * instant.
 */
static bool is_hidden_sync(const struct pen_picture_item *item, uint32_t rank,
                           uint32_t position)
{
    const struct pen_row *row = &item->schedule->rows[rank];
    const struct pen_op_time *times = item->timing->ops[rank];
    return row->ops[position].kind == PEN_OP_SYNC_GRAD &&
           position + 1 < row->count &&
           row->ops[position + 1].kind == PEN_OP_STEP &&
           times[position + 1].start_sec == times[position].start_sec;
}

static pen_status fill_row(struct pen__sheet *sheet, uint32_t rank)
{
    const struct pen_row *row = &sheet->item->schedule->rows[rank];
    struct pen__cell_row *out = &sheet->rows[rank];
    out->cells = malloc(((size_t)row->count + 1) * sizeof *out->cells);
    if (out->cells == NULL)
        return PEN_NOMEM;
    for (uint32_t i = 0; i < row->count; i++) {
        if (is_shown(row->ops[i].kind) && !is_hidden_sync(sheet->item, rank, i))
            out->cells[out->count++] = make_cell(sheet->item, rank, i);
    }
    find_groups(row, out);
    return PEN_OK;
}

static int by_position(const void *key, const void *element)
{
    uint32_t position = *(const uint32_t *)key;
    const struct pen__cell *cell = element;
    return (position > cell->position) - (position < cell->position);
}

static void mark_path(struct pen__sheet *sheet)
{
    const struct pen_timing *timing = sheet->item->timing;
    for (uint32_t i = 0; i < timing->path_count; i++) {
        const struct pen_path_step *step = &timing->path[i];
        struct pen__cell_row *row = &sheet->rows[step->rank];
        if (row->cells == NULL)
            continue;
        struct pen__cell *cell =
            bsearch(&step->position, row->cells, row->count, sizeof *row->cells,
                    by_position);
        if (cell != NULL)
            cell->is_critical = true;
    }
}

static void summarise(struct pen__sheet *sheet)
{
    const struct pen_timing *timing = sheet->item->timing;
    double sum_sec = 0;
    double short_sec = INFINITY;
    uint64_t count = 0;
    for (uint32_t rank = 0; rank < timing->num_ranks; rank++) {
        const struct pen__cell_row *row = &sheet->rows[rank];
        sheet->peak = fmax(sheet->peak, timing->ranks[rank].peak);
        for (uint32_t i = 0; i < row->count; i++) {
            const struct pen__cell *cell = &row->cells[i];
            sheet->end_sec = fmax(sheet->end_sec, cell->end_sec);
            sheet->has_lanes = sheet->has_lanes || cell->lanes > 1;
            if (!pen__cell_takes_time(cell)) {
                sheet->has_marks[cell->kind] = true;
                continue;
            }
            sheet->has_cells[cell->kind] = true;
            double cell_sec = cell->end_sec - cell->start_sec;
            sum_sec += cell_sec;
            short_sec = fmin(short_sec, cell_sec);
            count++;
        }
    }
    sheet->mean_sec = count == 0 ? 0 : sum_sec / (double)count;
    sheet->short_sec = count == 0 ? 0 : short_sec;
}

pen_status pen__sheet_init(struct pen__sheet *sheet,
                           const struct pen_picture_item *item)
{
    uint32_t p = item->schedule->shape.num_ranks;
    PEN_BUG_UNLESS(item->timing->ops != NULL && item->timing->curves != NULL);
    *sheet = (struct pen__sheet){.item = item};
    sheet->rows = calloc(p, sizeof *sheet->rows);
    if (sheet->rows == NULL)
        return PEN_NOMEM;
    for (uint32_t rank = 0; rank < p; rank++) {
        if (fill_row(sheet, rank) != PEN_OK) {
            pen__sheet_release(sheet);
            return PEN_NOMEM;
        }
    }
    mark_path(sheet);
    summarise(sheet);
    return PEN_OK;
}

void pen__sheet_release(struct pen__sheet *sheet)
{
    if (sheet->rows == NULL)
        return;
    for (uint32_t rank = 0; rank < sheet->item->schedule->shape.num_ranks;
         rank++)
        free(sheet->rows[rank].cells);
    free(sheet->rows);
    *sheet = (struct pen__sheet){.item = NULL};
}

struct pen__sheet *pen__sheets_create(const struct pen_picture_item *items,
                                      size_t count)
{
    struct pen__sheet *sheets = calloc(count, sizeof *sheets);
    for (size_t i = 0; sheets != NULL && i < count; i++) {
        if (pen__sheet_init(&sheets[i], &items[i]) != PEN_OK) {
            pen__sheets_free(sheets, i);
            return NULL;
        }
    }
    return sheets;
}

void pen__sheets_free(struct pen__sheet *sheets, size_t count)
{
    for (size_t i = 0; sheets != NULL && i < count; i++)
        pen__sheet_release(&sheets[i]);
    free(sheets);
}

void pen__cell_label(const struct pen__sheet *sheet, uint32_t rank,
                     const struct pen__cell *cell, bool with_letter,
                     char label[PEN__LABEL_SIZE])
{
    const struct pen_schedule *schedule = sheet->item->schedule;
    const struct pen_op *op = &schedule->rows[rank].ops[cell->position];
    const char *letter = with_letter ? pen_op_info(op->kind)->text : "";
    if (!pen_op_has_microbatch(op->kind))
        snprintf(label, PEN__LABEL_SIZE, "%s", letter);
    else if (schedule->shape.num_slices > 1)
        snprintf(label, PEN__LABEL_SIZE, "%s%u.%u", letter, op->microbatch,
                 op->slice);
    else
        snprintf(label, PEN__LABEL_SIZE, "%s%u", letter, op->microbatch);
}

/*
 * Returns the bytes of the UTF-8 sequence that starts here; 0 when it is
 * malformed.
 */
static size_t sequence_length(const unsigned char *at)
{
    size_t length = *at < 0x80   ? 1
                    : *at < 0xc2 ? 0
                    : *at < 0xe0 ? 2
                    : *at < 0xf0 ? 3
                    : *at < 0xf5 ? 4
                                 : 0;
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    }
    bool is_overlong =
        (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool is_no_character = (at[0] == 0xed && at[1] > 0x9f) ||
                           (at[0] == 0xf4 && at[1] > 0x8f) ||
                           (at[0] == 0xc2 && at[1] < 0xa0) ||
                           (at[0] == 0xef && at[1] == 0xbf && at[2] > 0xbd);
    return is_overlong || is_no_character ? 0 : length;
}

void pen__add_clean(const char *string, struct pen_text *out)
{
    const unsigned char *at = (const unsigned char *)string;
    while (*at != '\0') {
        size_t length = sequence_length(at);
        if (length == 0 || *at < 0x20 || *at == 0x7f) {
            pen_text_add_bytes(out, "?", 1);
            length = 1;
        } else {
            pen_text_add_bytes(out, (const char *)at, length);
        }
        at += length;
    }
}

void pen__add_item_label(const struct pen_picture_item *item,
                         struct pen_text *out)
{
    pen__add_clean(item->label == NULL ? item->schedule->name : item->label,
                   out);
}

void pen__add_shape(const struct pen_shape *shape, struct pen_text *out)
{
    pen_text_add(out, "p=%u m=%u", shape->num_ranks, shape->num_microbatches);
    if (pen_shape_chunks(shape) > 1)
        pen_text_add(out, " v=%u", pen_shape_chunks(shape));
    if (shape->num_slices > 1)
        pen_text_add(out, " slices=%u", shape->num_slices);
    bool is_replicated = shape->placement == PEN_PLACEMENT_REPLICATED;
    if (shape->num_copies > 1 && !is_replicated)
        pen_text_add(out, " copies=%u", shape->num_copies);
    for (uint32_t i = 0; i < pen_shape_parts(shape) && is_replicated; i++)
        pen_text_add(out, "%s%u", i == 0 ? " replicas=" : ",",
                     pen_shape_members(shape, i));
}

double pen__longest_sec(const struct pen__sheet *sheets, size_t count)
{
    double longest_sec = 0;
    for (size_t i = 0; i < count; i++)
        longest_sec = fmax(longest_sec, sheets[i].end_sec);
    return longest_sec;
}

struct pen__unit pen__unit_for(const struct pen__sheet *sheets, size_t count)
{
    return pen__unit_of(pen__longest_sec(sheets, count));
}

struct pen__unit pen__unit_of(double longest_sec)
{
    if (longest_sec >= 1 || longest_sec == 0)
        return (struct pen__unit){"s", 1};
    if (longest_sec >= 1e-3)
        return (struct pen__unit){"ms", 1e3};
    return (struct pen__unit){"us", 1e6};
}

double pen__nice_step(double range, double most)
{
    if (!(range > 0))
        return 1;
    double raw = range / most;
    double power = pow(10, floor(log10(raw)));
    double digit = raw / power;
    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}
