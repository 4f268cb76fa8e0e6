/*
 * The grid for terminals. A column is a slot of time; a cell begins with its
 * letter and, where there is room, its micro-batch, and is filled up with a
 * character of its own:
 *
 *   rank 0 F0-F1-F2-F3-.........B0====F4-B1====  72.7%     4
 *   rank 1 ...F0-F1-F2-......B0====F3-B1====...  72.7%     3
 *   path   000111222333333333222222111111000...
 *
 * Where a slot holds several ops, the kind that fills most of it is shown.
 */
#include "view/cells.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIDE_COLUMNS 16u /* "  72.7%   1234.5" */
#define LEAST_SLOTS 16u

struct look {
    char fill;
    const char *escape; /* colour of letters and ground */
};

/* 256-colour codes: the hues of the drawings on their nearest squares. */
static const struct look looks[PEN_OP_KINDS] = {
    [PEN_OP_FORWARD] = {'-', "\033[38;5;16;48;5;117m"},
    [PEN_OP_BACKWARD] = {'=', "\033[38;5;16;48;5;216m"},
    [PEN_OP_BACKWARD_INPUT] = {'~', "\033[38;5;16;48;5;222m"},
    [PEN_OP_BACKWARD_WEIGHT] = {'+', "\033[38;5;16;48;5;79m"},
    [PEN_OP_RECOMPUTE] = {':', "\033[38;5;16;48;5;183m"},
    [PEN_OP_STEP] = {'#', "\033[38;5;231;48;5;240m"},
};

#define ESCAPE_WAITING "\033[38;5;245m"
#define ESCAPE_CRITICAL "\033[1;4m"
#define ESCAPE_END "\033[0m"
#define OVERLAPPED_FILL '&'

/* The content of one slot: waiting, or an op of one of the kinds. */
#define WAITING PEN_OP_KINDS
#define NUM_SORTS (PEN_OP_KINDS + 1)

struct slot {
    const struct pen__cell *cell;          /* that is shown; NULL: waiting */
    const struct pen__cell *of[NUM_SORTS]; /* the longest one of each kind */
    double longest_sec[NUM_SORTS];
    double sum_sec[NUM_SORTS];
};

struct grid {
    const struct pen__sheet *sheet; /* at hand */
    struct pen__unit unit;
    double slot_sec;
    double tiny_sec; /* less of a slot is nothing */
    unsigned num_slots;
    unsigned name_width;
    bool with_colour;
    struct slot *slots; /* of the row at hand */
    char *line;         /* of num_slots letters and a NUL */
    struct pen_text *out;
};

static unsigned slot_at(const struct grid *grid, double at_sec)
{
    double slot = floor(at_sec / grid->slot_sec + 1e-9);
    return slot < grid->num_slots ? (unsigned)slot : grid->num_slots;
}

/* Overlapped ops are shown one after the other. */
static void fill_slots(struct grid *grid, const struct pen__cell *cell)
{
    double lane_sec = (cell->end_sec - cell->start_sec) / cell->lanes;
    double start_sec = cell->start_sec + cell->lane * lane_sec;
    double end_sec = start_sec + lane_sec;
    for (unsigned i = slot_at(grid, start_sec); i < grid->num_slots; i++) {
        struct slot *slot = &grid->slots[i];
        double from_sec = fmax(start_sec, i * grid->slot_sec);
        double part_sec = fmin(end_sec, (i + 1) * grid->slot_sec) - from_sec;
        if (part_sec <= 0)
            break;
        slot->sum_sec[cell->kind] += part_sec;
        slot->sum_sec[WAITING] -= part_sec;
        if (part_sec > slot->longest_sec[cell->kind] + grid->tiny_sec) {
            slot->longest_sec[cell->kind] = part_sec;
            slot->of[cell->kind] = cell;
        }
    }
}

/*
 * Chooses the kind that fills most of a slot. Where slots are longer than ops,
 * the error is carried on, as printers do with greys: a row that is two thirds
 * backward then shows two B for every F.
 */
static void choose_cells(struct grid *grid)
{
    bool is_dense = grid->sheet->mean_sec < grid->slot_sec;
    double carry_sec[NUM_SORTS] = {0};
    for (unsigned i = 0; i < grid->num_slots; i++) {
        struct slot *slot = &grid->slots[i];
        unsigned most = WAITING;
        for (unsigned kind = NUM_SORTS; kind-- > 0;) {
            carry_sec[kind] += slot->sum_sec[kind];
            if (slot->sum_sec[kind] > grid->tiny_sec &&
                (slot->sum_sec[most] <= grid->tiny_sec ||
                 carry_sec[kind] >= carry_sec[most] - grid->tiny_sec))
                most = kind;
        }
        slot->cell = slot->of[most];
        carry_sec[most] -= grid->slot_sec;
        if (!is_dense)
            memset(carry_sec, 0, sizeof carry_sec);
    }
}

static void fill_row(struct grid *grid, uint32_t rank)
{
    const struct pen__cell_row *row = &grid->sheet->rows[rank];
    memset(grid->slots, 0, grid->num_slots * sizeof *grid->slots);
    for (unsigned i = 0; i < grid->num_slots; i++)
        grid->slots[i].sum_sec[WAITING] = grid->slot_sec;
    for (uint32_t i = 0; i < row->count; i++)
        fill_slots(grid, &row->cells[i]);
    choose_cells(grid);
}

/* Spells the letters of slots [first, end), which show one cell or waiting. */
static void spell(struct grid *grid, uint32_t rank, unsigned first,
                  unsigned end)
{
    const struct pen__cell *cell = grid->slots[first].cell;
    char label[PEN__LABEL_SIZE];
    if (cell == NULL) {
        memset(grid->line + first, '.', end - first);
        return;
    }
    char fill = cell->lanes > 1 ? OVERLAPPED_FILL : looks[cell->kind].fill;
    pen__cell_label(grid->sheet, rank, cell, true, label);
    size_t length = strlen(label) <= end - first ? strlen(label) : 1;
    memset(grid->line + first, fill, end - first);
    memcpy(grid->line + first, label, length);
    if (cell->is_up)
        grid->line[first] = (char)tolower((unsigned char)label[0]);
}

static void add_coloured(struct grid *grid, unsigned first, unsigned end)
{
    const struct pen__cell *cell = grid->slots[first].cell;
    if (!grid->with_colour) {
        pen_text_add_bytes(grid->out, grid->line + first, end - first);
        return;
    }
    pen_text_add_string(grid->out, cell == NULL ? ESCAPE_WAITING
                                                : looks[cell->kind].escape);
    if (cell != NULL && cell->is_critical)
        pen_text_add_string(grid->out, ESCAPE_CRITICAL);
    pen_text_add_bytes(grid->out, grid->line + first, end - first);
    pen_text_add_string(grid->out, ESCAPE_END);
}

static void print_row(struct grid *grid, uint32_t rank)
{
    const struct pen_timing *timing = grid->sheet->item->timing;
    const struct pen_rank_time *time = &timing->ranks[rank];
    double all_sec = timing->makespan_sec > 0 ? timing->makespan_sec : 1;
    fill_row(grid, rank);
    pen_text_add(grid->out, "rank %-*u", (int)grid->name_width - 5, rank);
    for (unsigned first = 0; first < grid->num_slots;) {
        unsigned end = first + 1;
        while (end < grid->num_slots &&
               grid->slots[end].cell == grid->slots[first].cell)
            end++;
        spell(grid, rank, first, end);
        add_coloured(grid, first, end);
        first = end;
    }
    pen_text_add(grid->out, "  %5.1f%% %7.5g\n", 100 * time->busy_sec / all_sec,
                 time->peak);
}

/* Prints which rank holds up all others: the last digit of its number. */
static void print_path(struct grid *grid)
{
    const struct pen_timing *timing = grid->sheet->item->timing;
    memset(grid->line, '.', grid->num_slots);
    for (uint32_t i = 0; i < timing->path_count; i++) {
        const struct pen_path_step *step = &timing->path[i];
        const struct pen_op_time *time =
            &timing->ops[step->rank][step->position];
        unsigned end = slot_at(grid, time->end_sec);
        for (unsigned slot = slot_at(grid, time->start_sec); slot < end; slot++)
            grid->line[slot] = (char)('0' + step->rank % 10);
    }
    pen_text_add(grid->out, "%-*s%s\n", (int)grid->name_width, "path",
                 grid->line);
}

/* Prints a number at the slot of every tick: |0 |10 |20 */
static void print_axis(struct grid *grid)
{
    double slot = grid->slot_sec * grid->unit.per_sec;
    unsigned ticks = grid->num_slots / 8;
    double step = pen__nice_step(slot * grid->num_slots, ticks);
    memset(grid->line, ' ', grid->num_slots);
    for (unsigned tick = 0;; tick++) {
        char number[32];
        int length = snprintf(number, sizeof number, "|%.6g", tick * step);
        unsigned at = slot_at(grid, tick * step / grid->unit.per_sec);
        if (at + (unsigned)length > grid->num_slots)
            break;
        memcpy(grid->line + at, number, (size_t)length);
    }
    pen_text_add(grid->out, "%-*s%s  %s\n", (int)grid->name_width, "time",
                 grid->line, grid->unit.name);
}

static void print_title(struct grid *grid)
{
    const struct pen__sheet *sheet = grid->sheet;
    const struct pen_timing *timing = sheet->item->timing;
    struct pen_text *out = grid->out;
    size_t start = out->length;
    pen__add_item_label(sheet->item, out);
    pen_text_add_string(out, "  ");
    pen__add_shape(&sheet->item->schedule->shape, out);
    pen_text_add(out, "  makespan %.6g %s  bubble %.1f%%  peak %.5g A",
                 timing->makespan_sec * grid->unit.per_sec, grid->unit.name,
                 100 * timing->bubble, sheet->peak);
    size_t width = grid->name_width + grid->num_slots + SIDE_COLUMNS;
    size_t used = out->length - start + strlen("busy    peak");
    pen_text_add_repeat(out, ' ', used < width ? width - used : 2);
    pen_text_add_string(out, "busy    peak\n");
}

static void add_key(struct grid *grid, const char *escape, const char *letters,
                    const char *words)
{
    if (grid->with_colour)
        pen_text_add(grid->out, "%s%s" ESCAPE_END " %s   ", escape, letters,
                     words);
    else
        pen_text_add(grid->out, "%s %s   ", letters, words);
}

static void print_legend(struct grid *grid, const struct pen__sheet *sheets,
                         size_t count)
{
    bool has_lanes = false;
    bool has_copies = false;
    for (unsigned kind = 0; kind < PEN_OP_KINDS; kind++) {
        bool is_shown = false;
        for (size_t i = 0; i < count; i++)
            is_shown = is_shown || sheets[i].has_cells[kind];
        char letters[] = {pen_op_info(kind)->text[0], looks[kind].fill, '\0'};
        if (is_shown)
            add_key(grid, looks[kind].escape, letters,
                    pen_op_info(kind)->words);
    }
    for (size_t i = 0; i < count; i++) {
        has_lanes = has_lanes || sheets[i].has_lanes;
        has_copies = has_copies ||
                     pen__has_second_copy(&sheets[i].item->schedule->shape);
    }
    if (has_lanes)
        add_key(grid, "", "&", "overlapped");
    if (has_copies)
        add_key(grid, "", "f b i w", "second copy");
    add_key(grid, ESCAPE_WAITING, ".", "waiting");
    pen_text_add_string(grid->out, "\npath: the rank on the critical path, its "
                                   "last digit");
    pen_text_add_string(
        grid->out, grid->with_colour ? " (its ops are underlined)\n" : "\n");
}

static unsigned digits_of(uint32_t number)
{
    unsigned digits = 1;
    for (; number > 9; number /= 10)
        digits++;
    return digits;
}

/*
 * Chooses the slots: a whole number of them in the shortest op, if there are
 * that many.
 */
static void choose_slots(struct grid *grid, const struct pen__sheet *sheets,
                         size_t count, unsigned columns)
{
    uint32_t most_ranks = 1;
    double short_sec = INFINITY;
    for (size_t i = 0; i < count; i++) {
        const struct pen__sheet *sheet = &sheets[i];
        uint32_t ranks = sheet->item->schedule->shape.num_ranks;
        most_ranks = ranks > most_ranks ? ranks : most_ranks;
        short_sec = fmin(short_sec, sheet->short_sec);
    }
    double longest_sec = pen__longest_sec(sheets, count);
    grid->name_width = 6 + digits_of(most_ranks - 1);
    unsigned sides = grid->name_width + SIDE_COLUMNS;
    grid->num_slots =
        columns > sides + LEAST_SLOTS ? columns - sides : LEAST_SLOTS;
    grid->slot_sec = longest_sec > 0 ? longest_sec / grid->num_slots : 1;
    double per_short = floor(short_sec / grid->slot_sec + 1e-9);
    if (per_short >= 1 && isfinite(per_short)) {
        grid->slot_sec = short_sec / per_short;
        grid->num_slots = (unsigned)ceil(longest_sec / grid->slot_sec - 1e-9);
    }
    grid->tiny_sec = 1e-9 * grid->slot_sec;
}

void pen_timeline_print(const struct pen_picture_item *items, size_t count,
                        bool with_colour, unsigned columns,
                        struct pen_text *out)
{
    struct pen__sheet *sheets = pen__sheets_create(items, count);
    if (sheets == NULL)
        goto fail;
    struct grid grid = {
        .unit = pen__unit_for(sheets, count),
        .with_colour = with_colour,
        .out = out,
    };
    choose_slots(&grid, sheets, count, columns);
    grid.slots = calloc(grid.num_slots, sizeof *grid.slots);
    grid.line = calloc((size_t)grid.num_slots + 1, 1);
    if (grid.slots == NULL || grid.line == NULL)
        goto fail_grid;
    for (size_t i = 0; i < count; i++) {
        grid.sheet = &sheets[i];
        print_title(&grid);
        for (uint32_t rank = 0; rank < items[i].schedule->shape.num_ranks;
             rank++)
            print_row(&grid, rank);
        print_path(&grid);
        if (i + 1 < count)
            pen_text_add_string(out, "\n");
    }
    print_axis(&grid);
    print_legend(&grid, sheets, count);
    free(grid.slots);
    free(grid.line);
    pen__sheets_free(sheets, count);
    return;

fail_grid:
    free(grid.slots);
    free(grid.line);
    pen__sheets_free(sheets, count);
fail:
    out->has_failed = 1;
}
