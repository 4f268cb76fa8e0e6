/*
 * From a repeating slot pattern to a schedule on a V, Qi et al., NeurIPS 2024,
 * arXiv 2405.15362. All ranks share one time line of slots of equal length:
 *
 *            slot  0   1   2   3   4   5   6   7   8   9  10  11
 *   rank 0        F0  .   .   F1  I1  W   F0  I0  W   F1  I1  W
 *   rank 1        .   F0  F1  .   .   I1  I0  F0  F1  W   W   I1
 *
 * The steady state stays as it is: from the first I0 to the last F0 of rank 0.
 * Ops before and after it move to earlier slots, as long as no rank holds more
 * than the fullest one did. W has no identity until the end: the n-th W of a
 * rank belongs to its n-th input gradient.
 */
#include "schedule/generators/v_pattern.h"

#include "base/bug.h"
#include "schedule/generators/require.h"

#include <stdlib.h>
#include <string.h>

#define W PEN__V_PASSES /* counts as a pass, after the others */
#define FREE UINT8_MAX

struct cell {
    uint32_t number; /* micro-batch, or of W: how many came before */
    uint8_t pass;    /* enum pen__v_pass, W or FREE */
};

/* The state of a rank after a slot. */
struct state {
    uint32_t level;   /* activations held, in chunks */
    uint32_t inputs;  /* I1 and I0 so far */
    uint32_t pending; /* W that could run, when free slots stand for W */
};

struct grid {
    uint32_t num_ranks;
    uint32_t microbatches;
    uint32_t length; /* slots of a row */
    bool has_weights;
    uint32_t limit; /* of state.level */
    struct cell *cells;
    struct state *states;
    uint32_t *slots; /* per rank, pass and micro-batch */
};

static struct cell *row_of(const struct grid *grid, uint32_t rank)
{
    return grid->cells + (size_t)rank * grid->length;
}

static struct state *states_of(const struct grid *grid, uint32_t rank)
{
    return grid->states + (size_t)rank * grid->length;
}

static uint32_t *slot_of(const struct grid *grid, uint32_t rank, unsigned pass,
                         uint32_t microbatch)
{
    size_t row = (size_t)rank * PEN__V_PASSES + pass;
    return &grid->slots[row * grid->microbatches + microbatch];
}

static bool is_input(uint8_t pass)
{
    return pass == PEN__V_I1 || pass == PEN__V_I0;
}

static void place(struct grid *grid, uint32_t rank, uint32_t slot,
                  struct cell cell)
{
    PEN_BUG_UNLESS(slot < grid->length);
    PEN_BUG_UNLESS(row_of(grid, rank)[slot].pass == FREE);
    row_of(grid, rank)[slot] = cell;
    if (cell.pass != W)
        *slot_of(grid, rank, cell.pass, cell.number) = slot;
}

static void drop_weights(struct grid *grid)
{
    for (size_t i = 0; i < (size_t)grid->num_ranks * grid->length; i++) {
        if (grid->cells[i].pass == W)
            grid->cells[i].pass = FREE;
    }
    grid->has_weights = false;
}

/* Puts a W in every free slot when one is due. */
static void put_weights(struct grid *grid)
{
    for (uint32_t rank = 0; rank < grid->num_ranks; rank++) {
        struct cell *row = row_of(grid, rank);
        uint32_t inputs = 0;
        uint32_t weights = 0;
        for (uint32_t slot = 0; slot < grid->length; slot++) {
            if (is_input(row[slot].pass))
                inputs++;
            else if (row[slot].pass == FREE && weights < inputs)
                row[slot] = (struct cell){weights++, W};
        }
        PEN_BUG_UNLESS(weights == 2 * grid->microbatches);
    }
    grid->has_weights = true;
}

/* Returns the slot of the op of another pass that must come before, or -1. */
static int64_t feeder_slot(const struct grid *grid, uint32_t rank,
                           struct cell cell)
{
    bool is_ascending = cell.pass == PEN__V_F0 || cell.pass == PEN__V_I1;
    uint32_t end = is_ascending ? 0 : grid->num_ranks - 1;
    if (rank != end)
        return *slot_of(grid, is_ascending ? rank - 1 : rank + 1, cell.pass,
                        cell.number);
    if (cell.pass == PEN__V_F0)
        return -1;
    return *slot_of(grid, rank, cell.pass - 1u, cell.number);
}

static struct state step(const struct grid *grid, struct state state,
                         uint8_t pass)
{
    if (pass == PEN__V_F0 || pass == PEN__V_F1) {
        state.level++;
    } else if (is_input(pass)) {
        state.inputs++;
        state.pending += !grid->has_weights;
    } else if (pass == W) {
        state.level--;
    } else if (state.pending > 0) {
        state.pending--;
        state.level--;
    }
    return state;
}

static bool is_same(struct state a, struct state b)
{
    return a.level == b.level && a.inputs == b.inputs && a.pending == b.pending;
}

static struct state state_before(const struct grid *grid, uint32_t rank,
                                 uint32_t slot)
{
    if (slot == 0)
        return (struct state){0};
    return states_of(grid, rank)[slot - 1];
}

/* Recomputes from `first` on, at least to `last`, until nothing changes. */
static void update_states(struct grid *grid, uint32_t rank, uint32_t first,
                          uint32_t last)
{
    struct state *states = states_of(grid, rank);
    struct state state = state_before(grid, rank, first);
    for (uint32_t slot = first; slot < grid->length; slot++) {
        state = step(grid, state, row_of(grid, rank)[slot].pass);
        if (slot >= last && is_same(state, states[slot]))
            return;
        states[slot] = state;
    }
}

/* Returns whether the rank would stay within the limit with this op at `to`. */
static bool may_move(const struct grid *grid, uint32_t rank, uint32_t from,
                     uint32_t to)
{
    const struct cell *row = row_of(grid, rank);
    struct state state = state_before(grid, rank, to);
    for (uint32_t slot = to; slot < grid->length; slot++) {
        uint8_t pass = slot == to     ? row[from].pass
                       : slot == from ? FREE
                                      : row[slot].pass;
        state = step(grid, state, pass);
        if (state.level > grid->limit)
            return false;
        if (slot >= from && is_same(state, states_of(grid, rank)[slot]))
            return true;
    }
    return true;
}

/* Returns the slot in which the rank has run `count` input gradients. */
static uint32_t slot_of_input(const struct grid *grid, uint32_t rank,
                              uint32_t count)
{
    const struct state *states = states_of(grid, rank);
    uint32_t low = 0;
    uint32_t high = grid->length - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (states[middle].inputs >= count)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Returns the first slot after all ops that this one depends on. */
static uint32_t earliest_slot(const struct grid *grid, uint32_t rank,
                              struct cell cell, const int64_t *last_weight)
{
    if (cell.pass == W) {
        int64_t input = slot_of_input(grid, rank, cell.number + 1);
        return (uint32_t)(later(input, last_weight[rank]) + 1);
    }
    int64_t after = feeder_slot(grid, rank, cell);
    if (cell.pass > PEN__V_F0)
        after = later(after, *slot_of(grid, rank, cell.pass - 1u, cell.number));
    if (cell.number > 0)
        after = later(after, *slot_of(grid, rank, cell.pass, cell.number - 1));
    return (uint32_t)(after + 1);
}

/* Moves the op at `slot` to the earliest slot that is free and fits. */
static uint32_t move(struct grid *grid, uint32_t rank, uint32_t slot,
                     const int64_t *last_weight)
{
    struct cell *row = row_of(grid, rank);
    struct cell cell = row[slot];
    for (uint32_t to = earliest_slot(grid, rank, cell, last_weight); to < slot;
         to++) {
        if (row[to].pass != FREE || !may_move(grid, rank, slot, to))
            continue;
        row[slot].pass = FREE;
        place(grid, rank, to, cell);
        update_states(grid, rank, to, slot);
        return to;
    }
    return slot;
}

/* Computes every state anew; the fullest rank sets the limit. */
static void measure(struct grid *grid)
{
    grid->limit = 0;
    for (uint32_t rank = 0; rank < grid->num_ranks; rank++) {
        update_states(grid, rank, 0, grid->length - 1);
        for (uint32_t slot = 0; slot < grid->length; slot++) {
            if (states_of(grid, rank)[slot].level > grid->limit)
                grid->limit = states_of(grid, rank)[slot].level;
        }
    }
}

/* Moves the ops outside the steady state, or only those after it. */
static void reorder(struct grid *grid, bool moves_warmup, int64_t *last_weight)
{
    uint32_t first = *slot_of(grid, 0, PEN__V_I0, 0);
    uint32_t last = *slot_of(grid, 0, PEN__V_F0, grid->microbatches - 1);
    measure(grid);
    for (uint32_t rank = 0; rank < grid->num_ranks; rank++)
        last_weight[rank] = -1;
    for (uint32_t slot = 0; slot < grid->length; slot++) {
        for (uint32_t rank = 0; rank < grid->num_ranks; rank++) {
            uint8_t pass = row_of(grid, rank)[slot].pass;
            if (pass == FREE)
                continue;
            bool is_behind = slot > last || (slot == last && rank > 0);
            uint32_t at = slot;
            if (is_behind || (moves_warmup && slot < first))
                at = move(grid, rank, slot, last_weight);
            if (pass == W)
                last_weight[rank] = at;
        }
    }
}

/* Keeps the order of every rank and closes the gaps. */
static void squeeze(struct grid *grid, int64_t *last)
{
    for (uint32_t rank = 0; rank < grid->num_ranks; rank++)
        last[rank] = -1;
    /* In slot order, so that what an op waits for has moved before it. */
    for (uint32_t slot = 0; slot < grid->length; slot++) {
        for (uint32_t rank = 0; rank < grid->num_ranks; rank++) {
            struct cell cell = row_of(grid, rank)[slot];
            if (cell.pass == FREE)
                continue;
            int64_t after = last[rank];
            if (cell.pass != W)
                after = later(after, feeder_slot(grid, rank, cell));
            row_of(grid, rank)[slot].pass = FREE;
            place(grid, rank, (uint32_t)(after + 1), cell);
            last[rank] = after + 1;
        }
    }
}

static void build_row(const struct grid *grid, uint32_t rank,
                      struct pen__builder *builder)
{
    uint32_t stages[] = {rank, 2 * grid->num_ranks - 1 - rank};
    uint32_t inputs[2] = {0, 0};
    uint32_t weights[2] = {0, 0};
    for (uint32_t slot = 0; slot < grid->length; slot++) {
        struct cell cell = row_of(grid, rank)[slot];
        unsigned chunk = weights[1] < inputs[1] ? 1 : 0;
        if (cell.pass == FREE && weights[chunk] < inputs[chunk]) {
            pen__put(builder, rank, PEN_OP_BACKWARD_WEIGHT, stages[chunk],
                     weights[chunk]);
            weights[chunk]++;
        } else if (is_input(cell.pass)) {
            chunk = cell.pass == PEN__V_I1 ? 1 : 0;
            pen__put(builder, rank, PEN_OP_BACKWARD_INPUT, stages[chunk],
                     cell.number);
            inputs[chunk]++;
        } else if (cell.pass != FREE) {
            chunk = cell.pass == PEN__V_F1 ? 1 : 0;
            pen__put(builder, rank, PEN_OP_FORWARD, stages[chunk], cell.number);
        }
    }
}

static void lay_out(struct grid *grid, pen__v_slots *slots)
{
    memset(grid->cells, FREE,
           (size_t)grid->num_ranks * grid->length * sizeof *grid->cells);
    for (uint32_t rank = 0; rank < grid->num_ranks; rank++) {
        uint32_t first[PEN__V_PASSES];
        slots(grid->num_ranks, rank, first);
        for (uint32_t i = 0; i < grid->microbatches; i++) {
            for (unsigned pass = 0; pass < PEN__V_PASSES; pass++)
                place(grid, rank, first[pass] + i * PEN__V_PERIOD,
                      (struct cell){i, (uint8_t)pass});
        }
    }
}

static void build(struct grid *grid, pen__v_slots *slots, int64_t *scratch,
                  struct pen__builder *builder)
{
    lay_out(grid, slots);
    put_weights(grid);
    reorder(grid, true, scratch);
    squeeze(grid, scratch);
    drop_weights(grid);
    reorder(grid, false, scratch);
    put_weights(grid);
    squeeze(grid, scratch);
    drop_weights(grid);
    for (uint32_t rank = 0; rank < grid->num_ranks; rank++)
        build_row(grid, rank, builder);
}

pen_status pen__v_generate(const struct pen_generator_args *args,
                           const char *name, pen__v_slots *slots,
                           struct pen_schedule **out, struct pen_text *why)
{
    pen_status status = pen__require_chunks(name, args, 2, why);
    if (status != PEN_OK)
        return status;
    struct pen_shape shape = pen__shape(PEN_PLACEMENT_V, args->ranks,
                                        2 * args->ranks, args->microbatches);
    struct pen__builder builder;
    pen__builder_init(&builder, name, &shape, why);
    if (builder.status != PEN_OK)
        return builder.status;
    size_t p = args->ranks;
    size_t m = args->microbatches;
    /* The pattern ends before slot 6 (m + p), 2m weight gradients follow. */
    size_t length = 8 * m + 6 * p + PEN__V_PERIOD;
    struct grid grid = {.num_ranks = args->ranks,
                        .microbatches = args->microbatches,
                        .length = (uint32_t)length,
                        .cells = calloc(p * length, sizeof *grid.cells),
                        .states = calloc(p * length, sizeof *grid.states),
                        .slots =
                            calloc(p * m, PEN__V_PASSES * sizeof *grid.slots)};
    int64_t *scratch = calloc(p, sizeof *scratch);
    if (length > UINT32_MAX || grid.cells == NULL || grid.states == NULL ||
        grid.slots == NULL || scratch == NULL)
        builder.status = PEN_NOMEM;
    else
        build(&grid, slots, scratch, &builder);
    free(grid.cells);
    free(grid.states);
    free(grid.slots);
    free(scratch);
    return pen__builder_finish(&builder, out, why);
}
