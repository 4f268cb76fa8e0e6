/*
 * Lower bounds of the span that hold for every candidate of a problem.
 *
 * A micro-batch alone passes F of all stages, then I of all stages backwards;
 * let chain(x) be the start of op x on that way. On a rank whose first stage is
 * a and whose last is z:
 *
 *   head               its first op starts at chain(F a), always
 *   fill, before the   lasts at least chain(I z) - chain(F a), and only F can
 *   first I            run, as many as memory holds
 *   drain, between     lasts at least chain(I a) - chain(F z) - F z, and only
 *   last F and last I  what memory held when the last F started can run
 *
 * The rest of both gaps is idle. Both count, unless memory could hold all
 * micro-batches at once: then they may overlap and the larger one counts. Four
 * bounds follow, of which the largest over all ranks holds:
 *
 *   own work      work of the rank + its idle time
 *   last I        rank q must end its last I, then the gradient has to travel
 *                 to a rank r before it, whose last W follows
 *   last F        before its last F, rank q must have done whatever memory does
 *                 not hold; then that micro-batch moves on to its last I on
 * rank r, whose last W follows memory x time every micro-batch holds its share
 * at least from F to I, and the rest through W; the rank offers limit * span
 */
#include "schedule/search_bound.h"

#include <math.h>
#include <stdlib.h>

struct chains {
    int64_t *forward;  /* per stage: start of its F */
    int64_t *backward; /* per stage: start of its I */
};

/* F, I and W of the chunk-th stage of a rank. */
struct parts {
    const struct pen__task *f;
    const struct pen__task *i;
    const struct pen__task *w;
};

static struct parts parts_of(const struct pen__problem *problem, uint32_t rank,
                             uint32_t chunk)
{
    const struct pen__task *first =
        pen__task_of(problem, rank, pen__type(chunk, PEN__F));
    return (struct parts){first + PEN__F, first + PEN__I, first + PEN__W};
}

/* Returns the limit as given: the search may not use the slack for rounding. */
static double limit_of(const struct pen__problem *problem)
{
    return problem->limit / (1 + PEN__LIMIT_SLACK);
}

static uint32_t chunks_of(const struct pen__problem *problem)
{
    return problem->num_types / PEN__ROLES;
}

static struct parts parts_of_stage(const struct pen__problem *problem,
                                   uint32_t stage)
{
    uint32_t rank = pen_shape_rank_of(&problem->shape, stage);
    uint32_t chunk = 0;
    while (parts_of(problem, rank, chunk).f->stage != stage)
        chunk++;
    return parts_of(problem, rank, chunk);
}

static int64_t hop(const struct pen__problem *problem, int32_t channel)
{
    return channel == PEN__NONE
               ? 0
               : problem->latency[channel] + problem->transfer[channel];
}

static void fill_chains(const struct pen__problem *problem,
                        struct chains *chains)
{
    uint32_t stages = problem->shape.num_stages;
    int64_t at = 0;
    for (uint32_t stage = 0; stage < stages; stage++) {
        struct parts parts = parts_of_stage(problem, stage);
        chains->forward[stage] = at;
        at += parts.f->ticks + hop(problem, parts.f->send);
    }
    for (uint32_t stage = stages; stage-- > 0;) {
        struct parts parts = parts_of_stage(problem, stage);
        chains->backward[stage] = at;
        at += parts.i->ticks + hop(problem, parts.i->send);
    }
}

/* Something that takes room and gives work, `most` times at most. */
struct item {
    double memory;
    double work;
    double most;
};

/* Returns the most work in this room, in parts if need be (an upper bound). */
static double fill_room(struct item *items, uint32_t count, double room)
{
    double work = 0;
    for (uint32_t left = count; left > 0; left--) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < left; i++) {
            if (items[i].work * items[best].memory >
                items[best].work * items[i].memory)
                best = i;
        }
        struct item item = items[best];
        items[best] = items[left - 1];
        double times = item.most;
        if (item.memory > 0)
            times = fmin(times, fmax(room, 0) / item.memory);
        work += times * item.work;
        room -= times * fmax(item.memory, 0);
    }
    return work;
}

/* Returns the work of the F that memory can hold at once. */
static double forward_work(const struct pen__problem *problem, uint32_t rank)
{
    struct item items[UINT8_MAX];
    uint32_t chunks = chunks_of(problem);
    double unit = parts_of(problem, rank, 0).f->memory;
    bool is_even = unit > 0 && isfinite(problem->limit);
    for (uint32_t chunk = 0; chunk < chunks; chunk++) {
        const struct pen__task *f = parts_of(problem, rank, chunk).f;
        is_even = is_even && f->memory == unit;
        items[chunk] = (struct item){f->memory, (double)f->ticks,
                                     problem->num_microbatches};
    }
    double room =
        is_even ? floor(problem->limit / unit) * unit : limit_of(problem);
    return fill_room(items, chunks, room);
}

/* Returns F of all chunks, for one micro-batch. */
static int64_t all_forward(const struct pen__problem *problem, uint32_t rank)
{
    int64_t sum = 0;
    for (uint32_t chunk = 0; chunk < chunks_of(problem); chunk++)
        sum += parts_of(problem, rank, chunk).f->ticks;
    return sum;
}

/* Returns the memory of one micro-batch whose F have all run. */
static double whole_memory(const struct pen__problem *problem, uint32_t rank)
{
    double sum = 0;
    for (uint32_t chunk = 0; chunk < chunks_of(problem); chunk++)
        sum += parts_of(problem, rank, chunk).f->memory;
    return sum;
}

/*
 * Returns the work left in memory next to one whole micro-batch: I (and W) of
 * micro-batches that wait for I, W of those that wait for W only.
 */
static double held_work(const struct pen__problem *problem, uint32_t rank,
                        bool with_weights)
{
    struct item items[2 * UINT8_MAX];
    uint32_t count = 0;
    double most = problem->num_microbatches - 1.0;
    for (uint32_t chunk = 0; chunk < chunks_of(problem); chunk++) {
        struct parts parts = parts_of(problem, rank, chunk);
        double weight = with_weights ? (double)parts.w->ticks : 0;
        items[count++] = (struct item){parts.f->memory,
                                       (double)parts.i->ticks + weight, most};
        if (with_weights)
            items[count++] =
                (struct item){parts.f->memory + parts.i->memory, weight, most};
    }
    return fill_room(items, count,
                     limit_of(problem) - whole_memory(problem, rank));
}

/* Returns I (and W) of the chunks from `first` on, for one micro-batch. */
static int64_t backward_work(const struct pen__problem *problem, uint32_t rank,
                             uint32_t first, bool with_weights)
{
    int64_t sum = 0;
    for (uint32_t chunk = first; chunk < chunks_of(problem); chunk++) {
        struct parts parts = parts_of(problem, rank, chunk);
        sum += parts.i->ticks + (with_weights ? parts.w->ticks : 0);
    }
    return sum;
}

/* Returns true when the rank could run every F before its first I. */
static bool holds_all(const struct pen__problem *problem, uint32_t rank)
{
    return whole_memory(problem, rank) * problem->num_microbatches <=
           problem->limit;
}

/* Returns the idle ticks before the first I. */
static int64_t fill_idle(const struct pen__problem *problem,
                         const struct chains *chains, uint32_t rank)
{
    struct parts first = parts_of(problem, rank, 0);
    struct parts last = parts_of(problem, rank, chunks_of(problem) - 1);
    double idle = (double)(chains->backward[last.f->stage] -
                           chains->forward[first.f->stage]) -
                  forward_work(problem, rank);
    return (int64_t)fmax(idle, 0);
}

/* Returns the idle ticks between last F and last I. */
static int64_t drain_idle(const struct pen__problem *problem,
                          const struct chains *chains, uint32_t rank,
                          bool with_weights)
{
    struct parts first = parts_of(problem, rank, 0);
    struct parts last = parts_of(problem, rank, chunks_of(problem) - 1);
    double idle = (double)(chains->backward[first.f->stage] -
                           chains->forward[last.f->stage] - last.f->ticks -
                           backward_work(problem, rank, 1, with_weights)) -
                  held_work(problem, rank, with_weights);
    return (int64_t)fmax(idle, 0);
}

/*
 * Returns the idle ticks that the rank cannot avoid; W counts as work or not.
 */
static int64_t idle_of(const struct pen__problem *problem,
                       const struct chains *chains, uint32_t rank,
                       bool with_weights)
{
    int64_t fill = fill_idle(problem, chains, rank);
    int64_t drain = drain_idle(problem, chains, rank, with_weights);
    if (!holds_all(problem, rank))
        return fill + drain;
    return fill > drain ? fill : drain;
}

/*
 * Returns the time from the end of the last I of this rank to the end of its
 * last W or STEP.
 */
static int64_t tail_of(const struct pen__problem *problem, uint32_t rank)
{
    struct parts parts = parts_of(problem, rank, 0);
    int64_t step = problem->step[parts.w->stage];
    return parts.w->ticks +
           (step > 0 ? step + problem->sync[parts.w->stage] : 0);
}

/* Returns the span of the ranks before q that follows from q's own F and I. */
static int64_t last_input_bound(const struct pen__problem *problem,
                                const struct chains *chains, uint32_t q)
{
    int64_t work =
        backward_work(problem, q, 0, false) + all_forward(problem, q);
    int64_t end = problem->head[q] + work * problem->num_microbatches +
                  idle_of(problem, chains, q, false);
    struct parts own = parts_of(problem, q, 0);
    int64_t bound = 0;
    for (uint32_t rank = 0; rank <= q; rank++) {
        struct parts parts = parts_of(problem, rank, 0);
        int64_t way = chains->backward[parts.i->stage] + parts.i->ticks -
                      chains->backward[own.i->stage] - own.i->ticks;
        int64_t span = end + way + tail_of(problem, rank) - problem->head[rank];
        bound = span > bound ? span : bound;
    }
    return bound;
}

/* Returns the span of any rank that follows from q's last F. */
static int64_t last_forward_bound(const struct pen__problem *problem,
                                  const struct chains *chains, uint32_t q)
{
    int64_t m = problem->num_microbatches;
    int64_t backward = backward_work(problem, q, 0, true);
    double before = (double)((m - 1) * backward) - held_work(problem, q, true);
    int64_t end = problem->head[q] + all_forward(problem, q) * m +
                  (int64_t)fmax(before, 0);
    if (!holds_all(problem, q))
        end += fill_idle(problem, chains, q);
    struct parts last = parts_of(problem, q, chunks_of(problem) - 1);
    int64_t bound = 0;
    for (uint32_t rank = 0; rank < problem->num_ranks; rank++) {
        struct parts parts = parts_of(problem, rank, 0);
        int64_t way = chains->backward[parts.i->stage] + parts.i->ticks -
                      chains->forward[last.f->stage] - last.f->ticks;
        int64_t span = end + way + tail_of(problem, rank) - problem->head[rank];
        bound = span > bound ? span : bound;
    }
    return bound;
}

static int64_t memory_time_bound(const struct pen__problem *problem,
                                 const struct chains *chains, uint32_t rank)
{
    if (!isfinite(problem->limit))
        return 0;
    double sum = 0;
    for (uint32_t chunk = 0; chunk < chunks_of(problem); chunk++) {
        struct parts parts = parts_of(problem, rank, chunk);
        uint32_t stage = parts.f->stage;
        int64_t held =
            chains->backward[stage] + parts.i->ticks - chains->forward[stage];
        sum +=
            parts.f->memory * (double)held +
            fmax(parts.f->memory + parts.i->memory, 0) * (double)parts.w->ticks;
    }
    return (int64_t)(sum * problem->num_microbatches / limit_of(problem) *
                     (1 - 1e-12));
}

int64_t pen__span_bound(const struct pen__problem *problem)
{
    size_t stages = problem->shape.num_stages;
    struct chains chains = {calloc(stages, sizeof *chains.forward),
                            calloc(stages, sizeof *chains.backward)};
    int64_t bound = 0;
    if (chains.forward != NULL && chains.backward != NULL) {
        fill_chains(problem, &chains);
        for (uint32_t rank = 0; rank < problem->num_ranks; rank++) {
            const int64_t bounds[] = {
                problem->work[rank] + idle_of(problem, &chains, rank, true),
                last_input_bound(problem, &chains, rank),
                last_forward_bound(problem, &chains, rank),
                memory_time_bound(problem, &chains, rank)};
            for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
                bound = bounds[i] > bound ? bounds[i] : bound;
        }
    }
    free(chains.forward);
    free(chains.backward);
    return bound;
}

double pen__memory_bound(const struct pen__problem *problem)
{
    double most = 0;
    for (uint32_t rank = 0; rank < problem->num_ranks; rank++)
        most = fmax(most, whole_memory(problem, rank));
    return most;
}
