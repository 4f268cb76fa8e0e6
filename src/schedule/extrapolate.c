/*
 * Exact extrapolation of the periodic part.
 *
 * Every row is prefix, body x count, suffix. Taking the same number of
 * iterations out of all loops gives the schedule of fewer micro-batches. We run
 * that one and look at iterations in the middle of the loops: an iteration
 * depends only on messages and clocks of at most J iterations before it (J
 * from the order of messages on the channels and from the window). If J+1
 * iterations in a row repeat the ones c before them, all shifted by the same
 * number of ticks on all ranks and channels, then by induction so does every
 * further one, and the iterations left out cost that shift each:
 *
 *   iteration from the end of the loop   ...  2J+2  ....  J+1  ...  1 | suffix
 *                                              |-- all shifted --|
 *
 * The region stays J away from the suffix, so that nothing in it depends on
 * what follows the loops. Ticks are integers: "shifted" is an equality.
 */
#include "schedule/extrapolate.h"

#include <stdlib.h>

#define MAX_CYCLE 4u
#define CUT_STEP 12u /* divisible by every cycle up to MAX_CYCLE */

struct loops {
    const struct pen__program *program;
    uint32_t *factor;    /* per rank: body runs per common iteration */
    uint64_t *per;       /* per channel: messages per common iteration */
    uint64_t *send_tail; /* per channel: sends behind the sender's loop */
    uint64_t *recv_tail;
    uint32_t reach; /* J */
    uint32_t least; /* common iterations that every row has */
};

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Forwards among the instructions [from, to). */
static uint64_t forwards(const struct pen__program *program,
                         const struct pen__loop_row *row, uint32_t from,
                         uint32_t to)
{
    uint32_t none = program->shape.num_stages * PEN__COST_SLOTS;
    uint64_t count = 0;
    for (uint32_t i = from; i < to; i++) {
        const struct pen__instr *instr = &row->instrs[i];
        count += instr->kind == PEN__RUN && instr->cost != none &&
                 instr->cost % PEN__COST_SLOTS == PEN__COST_FORWARD;
    }
    return count;
}

/* Micro-batches that one run of the body advances; 0: not a whole number. */
static uint64_t advance_of(const struct pen__program *program, uint32_t rank)
{
    const struct pen__loop_row *row = &program->rows[rank];
    uint32_t body_end = row->prefix + row->body;
    uint64_t units = (uint64_t)program->shape.num_microbatches *
                     program->shape.num_slices / program->shape.num_copies;
    uint64_t body = forwards(program, row, row->prefix, body_end);
    uint64_t all = body * row->count + forwards(program, row, 0, row->prefix) +
                   forwards(program, row, body_end, body_end + row->suffix);
    if (row->count == 0 || all == 0 || body * units % all != 0)
        return 0;
    return body * units / all;
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
        common = common / gcd(common, advance) * advance;
        if (common > 65536)
            return false;
    }
    loops->least = UINT32_MAX;
    for (uint32_t rank = 0; rank < p; rank++) {
        loops->factor[rank] = (uint32_t)(common / advance_of(program, rank));
        uint32_t runs = program->rows[rank].count / loops->factor[rank];
        if (runs < loops->least)
            loops->least = runs;
    }
    return true;
}

struct tally {
    uint64_t *body; /* per channel, of one common iteration */
    uint64_t *tail;
};

static void tally_message(struct tally *tally, int32_t channel, bool is_body,
                          uint32_t factor)
{
    if (channel == PEN__NONE)
        return;
    if (is_body)
        tally->body[channel] += factor;
    else
        tally->tail[channel]++;
}

/* Counts messages, and the longest dependency in common iterations. */
static bool measure_reach(struct loops *loops, uint64_t *received)
{
    const struct pen__program *program = loops->program;
    struct tally sends = {loops->per, loops->send_tail};
    struct tally receives = {received, loops->recv_tail};
    uint64_t back = 0;
    for (uint32_t rank = 0; rank < program->shape.num_ranks; rank++) {
        const struct pen__loop_row *row = &program->rows[rank];
        uint32_t all = row->prefix + row->body + row->suffix;
        for (uint32_t i = row->prefix; i < all; i++) {
            const struct pen__instr *instr = &row->instrs[i];
            bool is_body = i < row->prefix + row->body;
            if (is_body && instr->kind != PEN__RUN && program->has_twins)
                return false;
            bool is_move =
                instr->recv != PEN__NONE &&
                program->channels[instr->recv].direction == PEN_DIRECTION_NONE;
            uint32_t factor = loops->factor[rank];
            tally_message(&sends, is_move ? instr->recv : instr->send, is_body,
                          factor);
            tally_message(&receives, instr->recv, is_body, factor);
            if (is_body && instr->back > back)
                back = instr->back;
        }
    }
    uint64_t reach = 1;
    for (uint32_t i = 0; i < program->num_channels; i++) {
        uint64_t per = loops->per[i];
        if (per != received[i])
            return false;
        if (per == 0)
            continue;
        uint64_t a = loops->send_tail[i];
        uint64_t b = loops->recv_tail[i];
        uint64_t apart = a > b ? a - b : b - a;
        uint64_t lag = (apart + per - 1) / per +
                       (program->window + back + per - 1) / per + 1;
        if (lag > reach)
            reach = lag;
    }
    loops->reach = reach > UINT32_MAX / 8 ? UINT32_MAX / 8 : (uint32_t)reach;
    return true;
}

/* Does `times`, read from its end, repeat itself `cycle` iterations ago? */
static bool repeats(const int64_t *end, uint64_t per, uint32_t from,
                    uint32_t to, uint32_t cycle, int64_t shift)
{
    const int64_t *last = end - (uint64_t)(from - 1) * per;
    const int64_t *first = end - (uint64_t)to * per;
    for (const int64_t *at = first; at < last; at++) {
        if (at[0] - at[-(int64_t)(per * cycle)] != shift)
            return false;
    }
    return true;
}

static bool is_periodic(const struct loops *loops, const struct pen__run *run,
                        const uint64_t *totals, uint32_t cycle, int64_t *shift)
{
    const struct pen__program *program = loops->program;
    uint32_t from = loops->reach + 1;
    uint32_t to = 2 * loops->reach + 2;
    for (uint32_t rank = 0; rank < program->shape.num_ranks; rank++) {
        uint32_t factor = loops->factor[rank];
        const int64_t *end =
            run->iteration_clock[rank] + pen__run_count(run, rank);
        if (rank == 0) {
            const int64_t *at = end - (uint64_t)(from - 1) * factor - 1;
            *shift = at[0] - at[-(int64_t)((uint64_t)cycle * factor)];
        }
        if (!repeats(end, factor, from, to, cycle, *shift))
            return false;
    }
    for (uint32_t i = 0; i < program->num_channels; i++) {
        uint64_t per = loops->per[i];
        uint64_t first = run->channels[i].first;
        if (per == 0)
            continue;
        const int64_t *sent =
            run->arrival + first + totals[i] - loops->send_tail[i];
        const int64_t *posted =
            run->posted + first + totals[i] - loops->recv_tail[i];
        if (!repeats(sent, per, from, to, cycle, *shift) ||
            !repeats(posted, per, from, to, cycle, *shift))
            return false;
    }
    return true;
}

/* Busy ticks of the instructions [from, to), each run once. */
static int64_t busy_of(const struct pen__run *run,
                       const struct pen__loop_row *row, uint32_t from,
                       uint32_t to)
{
    int64_t busy = 0;
    for (uint32_t i = from; i < to; i++) {
        const struct pen__instr *instr = &row->instrs[i];
        if (instr->kind == PEN__STEP)
            busy += run->ticks->step[instr->cost];
        else if (instr->kind == PEN__RUN)
            busy += run->ticks->of[instr->cost];
    }
    return busy;
}

/* Adds what the iterations left out would have taken. */
static void stretch(const struct loops *loops, struct pen__run *run,
                    uint32_t cut, int64_t shift)
{
    const struct pen__program *program = loops->program;
    for (uint32_t rank = 0; rank < program->shape.num_ranks; rank++) {
        const struct pen__loop_row *row = &program->rows[rank];
        struct pen__rank_state *state = &run->ranks[rank];
        uint32_t body_end = row->prefix + row->body;
        int64_t head = busy_of(run, row, 0, row->prefix);
        int64_t body = busy_of(run, row, row->prefix, body_end);
        int64_t tail = busy_of(run, row, body_end, body_end + row->suffix);
        /* A rank may take no time before, in, or behind its loop. */
        if (head + body == 0 && tail > 0)
            state->first += shift;
        if (body + tail > 0)
            state->last += shift;
        state->busy += body * (int64_t)loops->factor[rank] * (int64_t)cut;
        state->clock += shift;
    }
}

/* One attempt with `keep` iterations; *is_done when the result stands. */
static pen_status attempt(const struct loops *loops,
                          const struct pen__ticks *ticks, uint32_t keep,
                          struct pen__run *run, bool *is_done)
{
    const struct pen__program *program = loops->program;
    uint32_t cut = (loops->least - keep) / CUT_STEP * CUT_STEP;
    pen_status status =
        pen__run_init(run, program, ticks, cut, loops->factor, true, false);
    if (status != PEN_OK)
        return status;
    bool has_finished = pen__run_all(run);
    uint64_t *totals =
        malloc(((size_t)program->num_channels + 1) * sizeof *totals);
    if (totals == NULL) {
        pen__run_release(run);
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; i < program->num_channels; i++)
        totals[i] = run->channels[i].sent;
    *is_done = false;
    for (uint32_t cycle = 1; has_finished && cycle <= MAX_CYCLE; cycle++) {
        int64_t shift = 0;
        if (is_periodic(loops, run, totals, cycle, &shift)) {
            stretch(loops, run, cut, shift * (int64_t)(cut / cycle));
            *is_done = true;
            break;
        }
    }
    free(totals);
    if (!*is_done)
        pen__run_release(run);
    return PEN_OK;
}

static pen_status search(const struct loops *loops,
                         const struct pen__ticks *ticks, struct pen__run *run,
                         bool *is_done)
{
    uint32_t need = 2 * loops->reach + 2 + MAX_CYCLE + CUT_STEP;
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
    loops.per = calloc(channels, sizeof *loops.per);
    loops.send_tail = calloc(channels, sizeof *loops.send_tail);
    loops.recv_tail = calloc(channels, sizeof *loops.recv_tail);
    uint64_t *received = calloc(channels, sizeof *received);
    pen_status status = PEN_NOMEM;
    *is_done = false;
    if (loops.factor != NULL && loops.per != NULL && loops.send_tail != NULL &&
        loops.recv_tail != NULL && received != NULL) {
        status = PEN_OK;
        if (align(&loops) && measure_reach(&loops, received))
            status = search(&loops, ticks, run, is_done);
    }
    free(loops.factor);
    free(loops.per);
    free(loops.send_tail);
    free(loops.recv_tail);
    free(received);
    run->factor = NULL;
    return status;
}
