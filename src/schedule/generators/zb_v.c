/*
 * ZB-V: Qi et al., ICLR 2024, arXiv 2401.10241 (extended version): zero bubble
 * with the memory of 1F1B, by two chunks per rank that run down and up again.
 *
 *   rank 0   0F0 0F1 0F2 0F3 0F4 0F5 0F6 7F0 7I0 7W0 7F1 7I1 7W1 ...
 *   rank 3   ... 3F0 4F0 3F1 4F1 3F2 4F2 3F3 4F3 4I0 4W0 3F4 3I0 ...
 *
 * Rank r holds part r (chunk 0) and part 2p-1-r (chunk 1), so the turn needs
 * no message and the loss sits on rank 0. Input gradients run in rounds, one
 * per rank and round; forwards follow; weight gradients fill the gaps.
 */
#include "schedule/generators/asap.h"
#include "schedule/generators/require.h"
#include "schedule/generators/zb_line.h"

#include <stdlib.h>
#include <string.h>

struct attempt {
    struct pen__zb_line line;
    bool fills_forwards; /* also gaps before forwards */
    bool fills_inputs;   /* also gaps before the gradients of chunk 1 */
    int64_t *approved;   /* per rank: bubble of the attempt before, or 0 */
    int64_t most_approved;
    uint8_t *chunk; /* per rank: the one whose input gradient comes next */
};

static uint32_t stage_of(const struct attempt *a, uint32_t rank, unsigned chunk)
{
    return chunk == 0 ? rank : a->line.shape.num_stages - 1 - rank;
}

static uint32_t forwards(const struct attempt *a, uint32_t rank, unsigned chunk)
{
    return a->line.forwards[stage_of(a, rank, chunk)];
}

static uint32_t inputs(const struct attempt *a, uint32_t rank, unsigned chunk)
{
    return a->line.inputs[stage_of(a, rank, chunk)];
}

static void put_forward(struct attempt *a, uint32_t rank, unsigned chunk)
{
    pen__zb_put_forward(&a->line, stage_of(a, rank, chunk));
}

/*
 * Puts chunk 0 everywhere, and more of it while chunk 1 is still on its way up.
 */
static void put_first_microbatch(struct attempt *a)
{
    struct pen__zb_line *line = &a->line;
    uint32_t p = line->shape.num_ranks;
    for (uint32_t rank = 0; rank < p; rank++)
        put_forward(a, rank, 0);
    put_forward(a, p - 1, 1);
    for (uint32_t rank = p - 1; rank-- > 0 && !line->has_failed;) {
        const struct pen__stage_cost *cost = &line->costs[rank];
        int64_t arrival = pen__zb_forward_arrival(line, stage_of(a, rank, 1));
        while (line->ranks[rank].memory +
                       cost->forward_memory * (2 + 2 * (int64_t)rank) <=
                   line->limit &&
               line->ranks[rank].clock + cost->forward <= arrival &&
               forwards(a, rank, 0) < line->shape.num_microbatches &&
               !line->has_failed) {
            for (uint32_t i = 0; i <= rank; i++)
                put_forward(a, i, 0);
        }
        put_forward(a, rank, 1);
    }
}

static bool is_behind(const struct attempt *a, uint32_t rank)
{
    uint32_t here = forwards(a, rank, 0) + forwards(a, rank, 1);
    uint32_t before = forwards(a, rank - 1, 0) + forwards(a, rank - 1, 1);
    return here < before ||
           (forwards(a, rank, 1) <= forwards(a, rank - 1, 1) &&
            forwards(a, rank - 1, 1) < a->line.shape.num_microbatches);
}

/* Lets later ranks catch up, chunk by chunk in turn. */
static void put_warmup(struct attempt *a)
{
    uint32_t p = a->line.shape.num_ranks;
    uint32_t m = a->line.shape.num_microbatches;
    unsigned chunk = 0;
    for (uint32_t rank = 1; rank < p; rank++) {
        while (is_behind(a, rank) && !a->line.has_failed) {
            for (uint32_t i = p; i-- > rank;) {
                if (forwards(a, i, chunk) < m)
                    put_forward(a, i, chunk);
            }
            chunk = 1 - chunk;
        }
    }
}

/*
 * Puts W before `arrival`, and one that ends later if the gap is a new longest.
 */
static void fill_gap(struct attempt *a, uint32_t rank, int64_t arrival,
                     bool fills)
{
    struct pen__zb_line *line = &a->line;
    pen__zb_fill(line, rank, arrival);
    int64_t most = a->most_approved - a->approved[rank];
    if (line->most_bubble > most)
        most = line->most_bubble;
    int64_t gap = arrival - line->ranks[rank].clock;
    if (fills && pen__zb_has_weight(line, rank) &&
        gap > most - line->ranks[rank].bubble)
        pen__zb_put_weight(line, rank);
}

/* Gradients pass chunk 1 from rank 0 on, then chunk 0 back to rank 0. */
static unsigned choose_input(const struct attempt *a, uint32_t rank)
{
    uint32_t p = a->line.shape.num_ranks;
    uint32_t m = a->line.shape.num_microbatches;
    if (inputs(a, rank, 0) >= inputs(a, rank, 1))
        return 1;
    bool is_there = rank == p - 1 || inputs(a, rank, 1) == m ||
                    inputs(a, rank + 1, 0) > inputs(a, rank, 0);
    return is_there ? 0 : 1;
}

static void put_input(struct attempt *a, uint32_t rank)
{
    unsigned chunk = a->chunk[rank];
    uint32_t stage = stage_of(a, rank, chunk);
    /* The turn at either end of the V is local: no gap to fill. */
    if (rank != (chunk == 0 ? a->line.shape.num_ranks - 1 : 0))
        fill_gap(a, rank, pen__zb_input_arrival(&a->line, stage),
                 chunk == 0 || a->fills_inputs);
    pen__zb_put_input(&a->line, stage);
}

static void put_inputs(struct attempt *a)
{
    uint32_t p = a->line.shape.num_ranks;
    for (uint32_t rank = 0; rank < p; rank++) {
        pen__zb_make_room(&a->line, rank, a->line.costs[rank].input_memory);
        a->chunk[rank] = (uint8_t)choose_input(a, rank);
    }
    for (uint32_t rank = p; rank-- > 0;) {
        if (a->chunk[rank] == 0)
            put_input(a, rank);
    }
    for (uint32_t rank = 0; rank < p; rank++) {
        if (a->chunk[rank] == 1)
            put_input(a, rank);
    }
}

/* Returns the chunk whose forward this rank runs now, or -1. */
static int choose_forward(const struct attempt *a, uint32_t rank)
{
    uint32_t p = a->line.shape.num_ranks;
    uint32_t down = forwards(a, rank, 0);
    uint32_t up = forwards(a, rank, 1);
    if (up >= down)
        return 0;
    if (rank == p - 1 || forwards(a, rank + 1, 1) > up)
        return 1;
    if (down < a->line.shape.num_microbatches &&
        (rank == 0 || forwards(a, rank - 1, 0) > down))
        return 0;
    return -1;
}

static void put_forwards(struct attempt *a)
{
    struct pen__zb_line *line = &a->line;
    uint32_t p = line->shape.num_ranks;
    for (uint32_t rank = 0; rank < p; rank++) {
        if (forwards(a, rank, 1) == line->shape.num_microbatches)
            continue;
        int chunk = choose_forward(a, rank);
        if (chunk < 0)
            continue;
        uint32_t stage = stage_of(a, rank, (unsigned)chunk);
        pen__zb_make_room(line, rank,
                          pen__zb_forward_need(&line->costs[stage]));
        if (rank != (chunk == 0 ? 0 : p - 1))
            fill_gap(a, rank, pen__zb_forward_arrival(line, stage),
                     a->fills_forwards);
        pen__zb_put_forward(line, stage);
    }
}

static void run(struct attempt *a)
{
    pen__zb_restart(&a->line);
    put_first_microbatch(a);
    put_warmup(a);
    uint32_t rounds = 2 * a->line.shape.num_microbatches;
    for (uint32_t i = 0; i < rounds && !a->line.has_failed; i++) {
        put_inputs(a);
        put_forwards(a);
    }
    pen__zb_finish(&a->line);
}

/* Bubbles of the attempt before may come again without making it worse. */
static void approve(struct attempt *a)
{
    a->most_approved = a->line.most_bubble;
    for (uint32_t rank = 0; rank < a->line.shape.num_ranks; rank++)
        a->approved[rank] = a->line.ranks[rank].bubble;
}

static void take_if_better(struct attempt *a, struct pen__zb_line *best)
{
    if (a->line.has_failed ||
        (!best->has_failed && a->line.most_bubble >= best->most_bubble))
        return;
    struct pen__zb_line line = a->line;
    a->line = *best;
    *best = line;
}

/* Tries both fillings, each again and again while the bubble shrinks. */
static void run_best(struct attempt *a, struct pen__zb_line *best)
{
    uint32_t p = a->line.shape.num_ranks;
    best->has_failed = true;
    for (unsigned number = 0; number < 4; number++) {
        a->fills_inputs = (number & 2) == 0;
        a->fills_forwards = (number & 1) == 0;
        memset(a->approved, 0, p * sizeof *a->approved);
        a->most_approved = 0;
        int64_t bubble = INT64_MAX;
        run(a);
        while (!a->line.has_failed && a->line.most_bubble < bubble) {
            bubble = a->line.most_bubble;
            approve(a);
            take_if_better(a, best);
            run(a);
        }
    }
}

/* Searches the best; has_failed of *best says that nothing fits the limit. */
static pen_status search(const struct pen_shape *shape,
                         const struct pen__stage_cost *costs, int64_t limit,
                         struct pen__zb_line *best)
{
    struct attempt attempt = {
        .approved = calloc(shape->num_ranks, sizeof *attempt.approved),
        .chunk = calloc(shape->num_ranks, sizeof *attempt.chunk)};
    pen_status status = pen__zb_init(best, shape, costs, limit);
    pen_status second = pen__zb_init(&attempt.line, shape, costs, limit);
    if (second != PEN_OK || attempt.approved == NULL || attempt.chunk == NULL)
        status = PEN_NOMEM;
    if (status == PEN_OK)
        run_best(&attempt, best);
    pen__zb_release(&attempt.line);
    free(attempt.approved);
    free(attempt.chunk);
    return status;
}

/*
 * Makes all chunks as large as the largest, since the recipe counts chunks.
 * Returns the memory of a chunk, at least one unit.
 */
static int64_t level_memory(struct pen__stage_cost *costs, uint32_t stages)
{
    uint32_t largest = 0;
    for (uint32_t stage = 1; stage < stages; stage++) {
        if (costs[stage].forward_memory > costs[largest].forward_memory)
            largest = stage;
    }
    for (uint32_t stage = 0; stage < stages; stage++) {
        costs[stage].forward_memory = costs[largest].forward_memory;
        costs[stage].input_memory = costs[largest].input_memory;
        costs[stage].weight_memory = costs[largest].weight_memory;
    }
    int64_t need = pen__zb_forward_need(&costs[largest]);
    return need > 0 ? need : 1;
}

/* Gives all stages the mean time. */
static void level_times(struct pen__stage_cost *costs, uint32_t stages)
{
    struct pen__stage_cost sum = {.forward = 0};
    for (uint32_t stage = 0; stage < stages; stage++) {
        sum.forward += costs[stage].forward;
        sum.input += costs[stage].input;
        sum.weight += costs[stage].weight;
        sum.ahead += costs[stage].ahead;
        sum.back += costs[stage].back;
    }
    for (uint32_t stage = 0; stage < stages; stage++) {
        costs[stage].forward = sum.forward / stages;
        costs[stage].input = sum.input / stages;
        costs[stage].weight = sum.weight / stages;
        costs[stage].ahead = sum.ahead / stages;
        costs[stage].back = sum.back / stages;
    }
}

/*
 * Searches for ranks of equal speed, which the recipe expects. On others its
 * warm-up can ask for a forward whose input is missing; then this takes the
 * order for ranks of the mean speed, which exists, and `costs` become those.
 */
static pen_status search_levelled(const struct pen_shape *shape,
                                  struct pen__stage_cost *costs, int64_t limit,
                                  struct pen__zb_line *best)
{
    pen_status status = search(shape, costs, limit, best);
    if (status != PEN_OK || !best->has_failed)
        return status;
    pen__zb_release(best);
    level_times(costs, shape->num_stages);
    return search(shape, costs, limit, best);
}

/* Names the next limit that works, up to the one without any. */
static pen_status refuse(const struct pen_generator_args *args,
                         const struct pen_shape *shape,
                         const struct pen__stage_cost *costs, int64_t chunk,
                         struct pen_text *why)
{
    int64_t limit = pen__memory_units(args->memory_limit);
    int64_t most = 2 * (int64_t)args->ranks * chunk;
    bool fits = false;
    while (!fits && limit < most) {
        limit = (limit / chunk + 1) * chunk;
        struct pen__zb_line line;
        pen_status status = search(shape, costs, limit, &line);
        fits = !line.has_failed;
        pen__zb_release(&line);
        if (status != PEN_OK)
            return status;
    }
    pen_why(why,
            "zb-v does not fit in a memory limit of %g; the smallest that "
            "works is %g",
            args->memory_limit, (double)limit / PEN__MEMORY_PER_A);
    return PEN_INFEASIBLE;
}

static pen_status build(const struct pen_generator_args *args,
                        const struct pen__zb_line *line,
                        struct pen_schedule **out, struct pen_text *why)
{
    struct pen__stage_cost *costs = NULL;
    pen_status status = pen__stage_costs_create(
        args, &line->shape, &args->costs->memory, &costs, why);
    if (status != PEN_OK)
        return status;
    struct pen__builder builder;
    pen__builder_init(&builder, "zb-v", &line->shape, why);
    pen__zb_build(line, &builder);
    pen__run_asap(&builder, costs);
    free(costs);
    return pen__builder_finish(&builder, out, why);
}

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    pen_status status = pen__require_chunks("zb-v", args, 2, why);
    if (status == PEN_OK)
        status = pen__zb_require_memory("zb-v", &args->costs->memory, why);
    if (status != PEN_OK)
        return status;
    struct pen_shape shape = pen__shape(PEN_PLACEMENT_V, args->ranks,
                                        2 * args->ranks, args->microbatches);
    struct pen__stage_cost *costs = NULL;
    status = pen__stage_costs_create(args, &shape, &args->costs->memory, &costs,
                                     why);
    if (status != PEN_OK)
        return status;
    int64_t chunk = level_memory(costs, shape.num_stages);
    int64_t limit = args->memory_limit > 0
                        ? pen__memory_units(args->memory_limit)
                        : 2 * (int64_t)args->ranks * chunk;
    struct pen__zb_line line;
    status = search_levelled(&shape, costs, limit, &line);
    if (status != PEN_OK)
        pen_why(why, "out of memory while generating");
    else if (line.has_failed)
        status = refuse(args, &shape, costs, chunk, why);
    else
        status = build(args, &line, out, why);
    pen__zb_release(&line);
    free(costs);
    return status;
}

const struct pen_generator pen__zb_v = {
    .name = "zb-v",
    .title = "ZB-V: zero bubble with the memory of 1F1B",
    .paper = "Qi et al., ICLR 2024, arXiv 2401.10241",
    .placement = PEN_PLACEMENT_V,
    .constraints = "none",
    .versions = "1",
    .bubble = "0 in span at tF = tB = tW and m >= 2p-1",
    .peak = "p, or the limit",
    .is_synchronous = true,
    .splits_backward = true,
    .is_optimistic = true,
    .has_limit = true,
    .uses_costs = true,
    .generate = generate,
};
