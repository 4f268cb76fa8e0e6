/*
 * ZB automatic: Qi et al., ICLR 2024, arXiv 2401.10241, section 3: zero bubble
 * as far as a memory limit allows.
 *
 *   limit 2p   rank 0  F0 F1 F2 F3 F4 F5 F6 I0 F7 W0 I1 W1 ...
 *              rank 3  .. .. .. F0 I0 F1 I1 F2 I2 ...
 *
 * Forwards and input gradients go in rounds of one micro-batch; weight
 * gradients fill what would be idle and run when memory forbids more. Three
 * yes-or-no choices have no winner for all times, so all eight are tried.
 * Stages are ranks here.
 */
#include "base/bug.h"
#include "schedule/generators/asap.h"
#include "schedule/generators/require.h"
#include "schedule/generators/zb_line.h"

#include <stdlib.h>

struct options {
    bool may_idle_before_first_input; /* stop short instead of overfilling */
    bool prioritises_input; /* a rank far ahead may leave its F for later */
    bool is_greedy; /* fill also the gaps that do not make the bubble longer */
};

#define NUM_OPTIONS 8u

/* Returns the options of an attempt; the first is preferred. */
static struct options options_at(unsigned number)
{
    return (struct options){.may_idle_before_first_input = (number & 4) == 0,
                            .prioritises_input = (number & 2) == 0,
                            .is_greedy = (number & 1) == 0};
}

struct attempt {
    struct pen__zb_line line;
    struct options options;
    uint32_t *extra;  /* per rank: forwards before I0, but for the first */
    bool *is_forward; /* per rank: takes a forward in this round */
};

/* Puts weight gradients into the gap before `arrival`. */
static void fill_gap(struct attempt *a, uint32_t r, int64_t arrival)
{
    struct pen__zb_line *line = &a->line;
    const struct pen__zb_rank *rank = &line->ranks[r];
    pen__zb_fill(line, r, arrival);
    if (!pen__zb_has_weight(line, r) || rank->clock >= arrival)
        return;
    bool is_harmless =
        arrival - rank->clock <= line->most_bubble - rank->bubble;
    if (!is_harmless || a->options.is_greedy)
        pen__zb_put_weight(line, r);
}

/*
 * Counts the forwards that fit between F0 and the arrival of I0; *clock is
 * their end.
 */
static uint32_t count_before(const struct attempt *a, uint32_t r,
                             int64_t arrival, int64_t *clock)
{
    const struct pen__zb_line *line = &a->line;
    const struct pen__stage_cost *cost = &line->costs[r];
    int64_t memory = line->ranks[r].memory;
    uint32_t count = 0;
    *clock = line->ranks[r].clock;
    while (1 + count < line->shape.num_microbatches &&
           memory + pen__zb_forward_need(cost) <= line->limit &&
           (a->options.may_idle_before_first_input
                ? *clock + cost->forward <= arrival
                : *clock < arrival)) {
        count++;
        *clock += cost->forward;
        memory += cost->forward_memory;
    }
    return count;
}

static void count_extra(struct attempt *a)
{
    const struct pen__zb_line *line = &a->line;
    uint32_t p = line->shape.num_ranks;
    int64_t input_end = line->ranks[p - 1].clock + line->costs[p - 1].input;
    a->extra[p - 1] = 0;
    for (uint32_t r = p - 1; r-- > 0;) {
        int64_t arrival = input_end + line->costs[r + 1].back;
        int64_t clock = 0;
        a->extra[r] = count_before(a, r, arrival, &clock);
        input_end = (clock > arrival ? clock : arrival) + line->costs[r].input;
    }
    /* No rank runs ahead of the one before it; one less keeps both busy. */
    for (uint32_t r = 1; r < p; r++) {
        uint32_t before = a->extra[r - 1];
        if (a->extra[r] < before)
            continue;
        bool is_whole = before + 1 == line->shape.num_microbatches;
        a->extra[r] = is_whole || before == 0 ? before : before - 1;
    }
}

static void put_first_microbatch(struct attempt *a)
{
    uint32_t p = a->line.shape.num_ranks;
    for (uint32_t r = 0; r < p; r++)
        pen__zb_put_forward(&a->line, r);
    count_extra(a);
    for (uint32_t r = 0; r < p; r++) {
        for (uint32_t i = 0; i < a->extra[r]; i++)
            pen__zb_put_forward(&a->line, r);
    }
    for (uint32_t r = p; r-- > 0;)
        pen__zb_put_input(&a->line, r);
}

/* Ticks of the weight gradients that must make room for a forward. */
static int64_t forced_ticks(const struct pen__zb_line *line, uint32_t r)
{
    const struct pen__zb_rank *rank = &line->ranks[r];
    const struct pen__stage_cost *cost = &line->costs[r];
    int64_t memory = rank->memory + pen__zb_forward_need(cost);
    int64_t ticks = 0;
    uint32_t due = rank->num_inputs - rank->num_weights;
    for (; due > 0 && memory > line->limit; due--) {
        memory += cost->weight_memory;
        ticks += cost->weight;
    }
    return ticks;
}

/* Does this rank take a forward before its next input gradient? */
static bool wants_forward(const struct attempt *a, uint32_t r)
{
    const struct pen__zb_line *line = &a->line;
    const struct pen__zb_rank *rank = &line->ranks[r];
    if (line->forwards[r] == line->shape.num_microbatches)
        return false;
    if (!a->options.prioritises_input || r == line->shape.num_ranks - 1 ||
        line->forwards[r] < line->forwards[r + 1] + 2)
        return true;
    const struct pen__stage_cost *next = &line->costs[r + 1];
    int64_t input_arrival =
        line->ranks[r + 1].clock + next->forward + next->input + next->back;
    int64_t gap = input_arrival - rank->clock;
    if (gap <= 0)
        return false;
    if (line->costs[r].forward + forced_ticks(line, r) <= gap)
        return true;
    return gap > line->most_bubble - rank->bubble;
}

static void put_microbatch(struct attempt *a)
{
    struct pen__zb_line *line = &a->line;
    uint32_t p = line->shape.num_ranks;
    bool is_forward = true;
    for (uint32_t r = p; r-- > 0;) {
        is_forward = is_forward && wants_forward(a, r);
        a->is_forward[r] = is_forward;
    }
    for (uint32_t r = 0; r < p; r++) {
        if (!a->is_forward[r])
            continue;
        pen__zb_make_room(line, r, pen__zb_forward_need(&line->costs[r]));
        fill_gap(a, r, pen__zb_forward_arrival(line, r));
        pen__zb_put_forward(line, r);
    }
    for (uint32_t r = p; r-- > 0;) {
        pen__zb_make_room(line, r, line->costs[r].input_memory);
        fill_gap(a, r, pen__zb_input_arrival(line, r));
        while (r == 0 && line->forwards[0] == line->shape.num_microbatches &&
               pen__zb_has_weight(line, 0))
            pen__zb_put_weight(line, 0);
        pen__zb_put_input(line, r);
    }
}

/* Returns the span of the slowest rank. */
static int64_t run(struct attempt *a, struct options options)
{
    struct pen__zb_line *line = &a->line;
    a->options = options;
    pen__zb_restart(line);
    put_first_microbatch(a);
    for (uint32_t i = 1; i < line->shape.num_microbatches; i++)
        put_microbatch(a);
    pen__zb_finish(line);
    PEN_BUG_UNLESS(!line->has_failed);
    int64_t span = 0;
    for (uint32_t r = 0; r < line->shape.num_ranks; r++) {
        int64_t of_rank = line->ranks[r].clock - line->ranks[r].start;
        span = of_rank > span ? of_rank : span;
    }
    return span;
}

static void run_best(struct attempt *a)
{
    unsigned best = 0;
    int64_t best_span = INT64_MAX;
    for (unsigned number = 0; number < NUM_OPTIONS; number++) {
        int64_t span = run(a, options_at(number));
        if (span < best_span) {
            best_span = span;
            best = number;
        }
    }
    if (best != NUM_OPTIONS - 1)
        run(a, options_at(best));
}

static void build(struct pen__builder *builder, const struct pen_shape *shape,
                  const struct pen__stage_cost *costs, int64_t limit)
{
    struct attempt attempt = {
        .extra = calloc(shape->num_ranks, sizeof *attempt.extra),
        .is_forward = calloc(shape->num_ranks, sizeof *attempt.is_forward)};
    pen_status status = pen__zb_init(&attempt.line, shape, costs, limit);
    if (status == PEN_OK && attempt.extra != NULL &&
        attempt.is_forward != NULL) {
        run_best(&attempt);
        pen__zb_build(&attempt.line, builder);
    } else {
        builder->status = PEN_NOMEM;
    }
    pen__zb_release(&attempt.line);
    free(attempt.extra);
    free(attempt.is_forward);
}

static int64_t least_limit(const struct pen__stage_cost *costs, uint32_t ranks)
{
    int64_t least = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        int64_t need = pen__zb_forward_need(&costs[r]);
        least = need > least ? need : least;
    }
    return least;
}

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    static const struct pen_memory half = {
        .forward = 1, .input = -0.5, .weight = -0.5};
    const struct pen_memory *memory =
        args->has_memory ? &args->costs->memory : &half;
    pen_status status = pen__require_chunks("zb-auto", args, 1, why);
    if (status == PEN_OK)
        status = pen__zb_require_memory("zb-auto", memory, why);
    if (status != PEN_OK)
        return status;
    struct pen_shape shape = pen__shape(PEN_PLACEMENT_LINEAR, args->ranks,
                                        args->ranks, args->microbatches);
    struct pen__stage_cost *costs = NULL;
    status = pen__stage_costs_create(args, &shape, memory, &costs, why);
    if (status != PEN_OK)
        return status;
    int64_t least = least_limit(costs, args->ranks);
    int64_t limit = args->memory_limit > 0
                        ? pen__memory_units(args->memory_limit)
                        : 2 * (int64_t)args->ranks * least;
    if (limit < least) {
        pen_why(why,
                "zb-auto does not fit in a memory limit of %g; the smallest "
                "that works is %g",
                args->memory_limit, (double)least / PEN__MEMORY_PER_A);
        free(costs);
        return PEN_INFEASIBLE;
    }
    struct pen__builder builder;
    pen__builder_init(&builder, "zb-auto", &shape, why);
    if (builder.status == PEN_OK)
        build(&builder, &shape, costs, limit);
    pen__run_asap(&builder, costs);
    free(costs);
    return pen__builder_finish(&builder, out, why);
}

const struct pen_generator pen__zb_auto = {
    .name = "zb-auto",
    .title = "ZB automatic: zero bubble within a memory limit",
    .paper = "Qi et al., ICLR 2024, arXiv 2401.10241",
    .placement = PEN_PLACEMENT_LINEAR,
    .constraints = "none",
    .versions = "1",
    .bubble = "between zb-h1 and zb-h2, by the limit",
    .peak = "at most the limit (2p unless given), I and W freeing half each",
    .is_synchronous = true,
    .splits_backward = true,
    .is_optimistic = true,
    .has_limit = true,
    .uses_costs = true,
    .generate = generate,
};
