/*
 * Exact extrapolation of the periodic part.
 *
 * Every row is a head, a loop and a tail. Taking the same number of iterations
 * out of all loops gives the schedule of fewer micro-batches. We run that one
 * and examine iterations in the middle of the loops. The times in an iteration
 * follow from clocks and messages of iterations at most J away, earlier or
 * later on another rank's count (J from the order of messages on the channels
 * and from the window). If 2J+1 iterations in a row repeat the ones c before
 * them, all shifted by the same number of ticks on all ranks and channels, then
 * every wait of the whole program has its like in the short one:
 *
 *   iteration from the end of the loop   ..  3J+1  ......  J+1  ..  1 | tail
 *                                             |-- all shifted --|
 *
 * therefore repeating c iterations of that region, each time with the same
 * shift, solves the equations of the whole program. They have one solution,
 * because nothing waits for itself. Ticks are integers: "shifted" is an
 * equality.
 */
#include "schedule/extrapolate.h"

#include "base/multiple.h"

#include <stdlib.h>

#define MAX_CYCLE 4u
#define CUT_STEP 12u /* divisible by every cycle up to MAX_CYCLE */

/* Messages at one end of a channel. */
struct flow {
    uint64_t head; /* before the loop */
    uint64_t per;  /* in one common iteration */
    uint64_t tail; /* after the loop */
    uint64_t back; /* receives posted after the one that is waited for */
};

struct loops {
    const struct pen__program *program;
    uint32_t *factor; /* per rank: runs of its loop per common iteration */
    struct flow *sent;
    struct flow *received;
    struct pen__zone *zones; /* per channel */
    uint32_t reach;          /* J */
    uint32_t least;          /* common iterations that every row has */
};

/* Forwards in one run of a stretch. */
static uint64_t forwards(const struct pen__program *program,
                         const struct pen__instr_row *row,
                         const struct pen__stretch *stretch)
{
    uint32_t none = program->shape.num_stages * PEN__COST_SLOTS;
    uint64_t count = 0;
    for (uint32_t i = 0; i < stretch->length; i++) {
        const struct pen__instr *instr = &row->instrs[stretch->first + i];
        uint32_t slot = instr->cost % PEN__COST_SLOTS;
        count += instr->kind == PEN__RUN && instr->cost != none &&
                 (slot == PEN__COST_FORWARD || slot == PEN__COST_KEPT);
    }
    return count;
}

/*
 * Returns the micro-batches that one run of the loop advances; 0: not a whole
 * number.
 */
static uint64_t advance_of(const struct pen__program *program, uint32_t rank)
{
    const struct pen__instr_row *row = &program->rows[rank];
    uint64_t units = (uint64_t)program->shape.num_microbatches *
                     program->shape.num_slices / program->shape.num_copies;
    uint64_t all = 0;
    if (row->loop == PEN__NO_LOOP)
        return 0;
    for (uint32_t i = 0; i < row->num_stretches; i++)
        all += forwards(program, row, &row->stretches[i]) *
               row->stretches[i].count;
    uint64_t each = forwards(program, row, &row->stretches[row->loop]) * units;
    return all == 0 || each % all != 0 ? 0 : each / all;
}

/* Brings all rows to one iteration of the same number of micro-batches. */
static bool align(struct loops *loops)
{
    const struct pen__program *program = loops->program;
    uint32_t p = program->shape.num_ranks;
    uint64_t common = 1;
    for (uint32_t rank = 0; rank < p; rank++) {
        uint64_t advance = advance_of(program, rank);
        if (advance == 0)
            return false;
        common = pen_common_multiple(common, advance);
        if (common > 65536)
            return false;
    }
    loops->least = UINT32_MAX;
    for (uint32_t rank = 0; rank < p; rank++) {
        loops->factor[rank] = (uint32_t)(common / advance_of(program, rank));
        const struct pen__instr_row *row = &program->rows[rank];
        uint32_t runs = row->stretches[row->loop].count / loops->factor[rank];
        if (runs < loops->least)
            loops->least = runs;
    }
    return true;
}

/*
 * Counts a message in the part of the row that it belongs to: 0 before the
 * loop, 1 the loop, 2 after it.
 */
static void count_message(struct flow *flows, int32_t channel, int where,
                          uint64_t times)
{
    if (channel == PEN__NONE)
        return;
    uint64_t *counts[] = {&flows[channel].head, &flows[channel].per,
                          &flows[channel].tail};
    *counts[where] += times;
}

/* Counts the messages of one stretch; false: not to be extrapolated. */
static bool count_stretch(struct loops *loops, uint32_t rank, uint32_t number)
{
    const struct pen__program *program = loops->program;
    const struct pen__instr_row *row = &program->rows[rank];
    const struct pen__stretch *stretch = &row->stretches[number];
    int where = (number > row->loop) + (number >= row->loop);
    uint64_t times = number == row->loop ? loops->factor[rank] : stretch->count;
    for (uint32_t i = 0; i < stretch->length; i++) {
        const struct pen__instr *instr = &row->instrs[stretch->first + i];
        /* Twins wait for each other by number, not by iteration. */
        if (instr->kind != PEN__RUN && program->has_twins && where < 2)
            return false;
        bool is_move =
            instr->recv != PEN__NONE &&
            program->channels[instr->recv].direction == PEN_DIRECTION_NONE;
        count_message(loops->sent, is_move ? instr->recv : instr->send, where,
                      times);
        count_message(loops->received, instr->recv, where, times);
        if (instr->wait != PEN__NONE &&
            instr->back > loops->received[instr->wait].back)
            loops->received[instr->wait].back = instr->back;
    }
    return true;
}

/* Counts messages, and the longest dependency in common iterations. */
static bool measure_reach(struct loops *loops)
{
    const struct pen__program *program = loops->program;
    for (uint32_t rank = 0; rank < program->shape.num_ranks; rank++) {
        for (uint32_t i = 0; i < program->rows[rank].num_stretches; i++) {
            if (!count_stretch(loops, rank, i))
                return false;
        }
    }
    uint64_t reach = 1;
    for (uint32_t i = 0; i < program->num_channels; i++) {
        const struct flow *sent = &loops->sent[i];
        const struct flow *received = &loops->received[i];
        uint64_t per = sent->per;
        if (per != received->per)
            return false;
        if (per == 0) {
            /* Nothing may wait across the loops. */
            if (sent->tail != received->tail ||
                (sent->tail > 0 && sent->head > 0) || received->back > 0)
                return false;
            continue;
        }
        uint64_t apart = sent->tail > received->tail
                             ? sent->tail - received->tail
                             : received->tail - sent->tail;
        uint64_t late = program->window + received->back;
        uint64_t lag = (apart + per - 1) / per + (late + per - 1) / per + 1;
        if (lag > reach)
            reach = lag;
    }
    loops->reach = reach > UINT32_MAX / 8 ? UINT32_MAX / 8 : (uint32_t)reach;
    return true;
}

/* Iterations from the end of the loops that are compared, both included. */
static uint32_t zone_from(const struct loops *loops)
{
    return loops->reach + 1;
}

static uint32_t zone_to(const struct loops *loops)
{
    return 3 * loops->reach + 1;
}

/* Iterations from the end that the comparison looks at. */
static uint32_t watched(const struct loops *loops)
{
    return zone_to(loops) + MAX_CYCLE;
}

/* Does the zone of these times, `per` an iteration, repeat those before? */
static bool repeats(const struct loops *loops, const int64_t *times,
                    uint64_t per, uint32_t cycle, int64_t shift)
{
    uint64_t from = (watched(loops) - zone_to(loops)) * per;
    uint64_t to = (watched(loops) - zone_from(loops) + 1) * per;
    for (uint64_t i = from; i < to; i++) {
        if (times[i] - times[i - cycle * per] != shift)
            return false;
    }
    return true;
}

static bool is_periodic(const struct loops *loops, const struct pen__run *run,
                        uint32_t cycle, int64_t *shift)
{
    const struct pen__program *program = loops->program;
    const int64_t *ends = run->loop_clock[0];
    uint32_t last = (watched(loops) - zone_from(loops) + 1) * loops->factor[0];
    *shift = ends[last - 1] - ends[last - 1 - cycle * loops->factor[0]];
    for (uint32_t rank = 0; rank < program->shape.num_ranks; rank++) {
        if (!repeats(loops, run->loop_clock[rank], loops->factor[rank], cycle,
                     *shift))
            return false;
    }
    for (uint32_t i = 0; i < program->num_channels; i++) {
        const struct pen__watch *watch = &run->watches[i];
        uint64_t per = loops->sent[i].per;
        if (!repeats(loops, watch->arrivals, per, cycle, *shift) ||
            !repeats(loops, watch->posts, per, cycle, *shift))
            return false;
    }
    return true;
}

/* Returns the busy ticks of one run of a stretch. */
static int64_t busy_of(const struct pen__run *run,
                       const struct pen__instr_row *row,
                       const struct pen__stretch *stretch)
{
    int64_t busy = 0;
    for (uint32_t i = 0; i < stretch->length; i++) {
        const struct pen__instr *instr = &row->instrs[stretch->first + i];
        if (instr->kind == PEN__STEP)
            busy += run->ticks->step[instr->cost];
        else if (instr->kind == PEN__RUN)
            busy += run->ticks->of[instr->cost];
    }
    return busy;
}

/* Adds what the iterations left out would have taken. */
static void extend(const struct loops *loops, struct pen__run *run,
                   uint32_t cut, int64_t shift)
{
    const struct pen__program *program = loops->program;
    for (uint32_t rank = 0; rank < program->shape.num_ranks; rank++) {
        const struct pen__instr_row *row = &program->rows[rank];
        struct pen__rank_state *state = &run->ranks[rank];
        int64_t body = busy_of(run, row, &row->stretches[row->loop]);
        /* A rank may spend no time before, in, or after its loop. */
        bool starts_behind = true;
        bool ends_before = true;
        for (uint32_t i = 0; i < row->num_stretches; i++) {
            bool takes_time = busy_of(run, row, &row->stretches[i]) > 0;
            if (takes_time && i <= row->loop)
                starts_behind = false;
            if (takes_time && i >= row->loop)
                ends_before = false;
        }
        if (starts_behind && state->first >= 0)
            state->first += shift;
        if (!ends_before)
            state->last += shift;
        state->busy += body * (int64_t)loops->factor[rank] * (int64_t)cut;
        state->clock += shift;
    }
}

/*
 * Makes one attempt with `keep` iterations; *is_done when its result is exact.
 */
static pen_status attempt(const struct loops *loops,
                          const struct pen__ticks *ticks, uint32_t keep,
                          struct pen__run *run, bool *is_done)
{
    uint32_t cut = (loops->least - keep) / CUT_STEP * CUT_STEP;
    const struct pen__run_options options = {.cut = cut,
                                             .factor = loops->factor,
                                             .zones = loops->zones,
                                             .watched = watched(loops)};
    pen_status status = pen__run_init(run, loops->program, ticks, &options);
    if (status != PEN_OK)
        return status;
    bool has_finished = pen__run_all(run);
    *is_done = false;
    for (uint32_t cycle = 1; has_finished && cycle <= MAX_CYCLE; cycle++) {
        int64_t shift = 0;
        if (is_periodic(loops, run, cycle, &shift)) {
            extend(loops, run, cut, shift * (int64_t)(cut / cycle));
            *is_done = true;
            break;
        }
    }
    if (!*is_done)
        pen__run_release(run);
    return PEN_OK;
}

/* Marks the last messages of the loops, as far as the comparison looks. */
static void mark_zones(struct loops *loops)
{
    for (uint32_t i = 0; i < loops->program->num_channels; i++)
        loops->zones[i] =
            (struct pen__zone){.sent_behind = loops->sent[i].tail,
                               .received_behind = loops->received[i].tail,
                               .count = watched(loops) * loops->sent[i].per};
}

static pen_status search(const struct loops *loops,
                         const struct pen__ticks *ticks, struct pen__run *run,
                         bool *is_done)
{
    uint32_t need = watched(loops) + CUT_STEP;
    for (uint32_t extra = 4; need + extra < loops->least / 2; extra *= 4) {
        pen_status status = attempt(loops, ticks, need + extra, run, is_done);
        if (status != PEN_OK || *is_done)
            return status;
    }
    return PEN_OK;
}

pen_status pen__extrapolate(const struct pen__program *program,
                            const struct pen__ticks *ticks,
                            struct pen__run *run, bool *is_done)
{
    struct loops loops = {.program = program};
    size_t channels = (size_t)program->num_channels + 1;
    loops.factor = calloc(program->shape.num_ranks, sizeof *loops.factor);
    loops.sent = calloc(channels, sizeof *loops.sent);
    loops.received = calloc(channels, sizeof *loops.received);
    loops.zones = calloc(channels, sizeof *loops.zones);
    pen_status status = PEN_NOMEM;
    *is_done = false;
    if (loops.factor != NULL && loops.sent != NULL && loops.received != NULL &&
        loops.zones != NULL) {
        status = PEN_OK;
        if (align(&loops) && measure_reach(&loops)) {
            mark_zones(&loops);
            status = search(&loops, ticks, run, is_done);
        }
    }
    free(loops.factor);
    free(loops.sent);
    free(loops.received);
    free(loops.zones);
    run->options = (struct pen__run_options){.cut = 0};
    return status;
}
