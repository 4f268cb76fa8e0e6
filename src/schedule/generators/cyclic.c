/*
 * Cyclic data parallelism: Fournier, Oyallon, 2024, arXiv 2403.08837 (CDP-v2).
 *
 *   N=3, one letter per part, lower case is the backward:
 *   worker 0  A B C c b a A B C c b a
 *   worker 1      A B C c b a A B C c b a
 *   worker 2          A B C c b a A B C c b a
 *
 * N workers hold the whole model in N parts and run one micro-batch each per
 * step, two slots apart, so that at any time N(N+1)/2 stashes of parts exist
 * instead of N^2. Counting from 0, worker i reads part j with all gradients of
 * the step before if j >= N-1-i, and one update older otherwise; with two slots
 * between workers, the newer ones are just ready.
 *
 * A schedule has no clock, so the distance has to come from the waits. When a
 * SYNC takes time, the last worker, which reads all parts fresh, is delayed
 * until the others are two slots apart and wait for it; they cannot get further
 * apart. When it takes none, workers run in step, which is as good.
 */
#include "schedule/generators/asynchronous.h"

#define MAX_WORKERS 255 /* squared, it is the number of stages */

struct worker {
    struct pen__builder *builder;
    const struct pen_shape *shape;
    uint32_t rank;
    uint32_t steps;
};

/* Returns true when the forward needs the update of the step before. */
static bool is_fresh(const struct worker *worker, uint32_t part)
{
    return part + worker->rank + 1 >= worker->shape->num_ranks;
}

static void put_part(const struct worker *worker, enum pen_op_kind kind,
                     uint32_t part, uint32_t step)
{
    uint32_t rank = worker->rank;
    uint32_t stage = pen_shape_stage_at(worker->shape, rank, rank, part);
    bool is_forward = kind == PEN_OP_FORWARD;
    bool is_newest = is_fresh(worker, part);
    uint32_t version = is_newest || step == 0 ? step : step - 1;
    /*
     * The update comes before the op that needs it first, or else before the
     * next backward, which must not add to the gradient that the update still
     * uses.
     */
    if (step > 0 && is_forward == is_newest)
        pen__put_step(worker->builder, rank, stage, step);
    pen__put_version(worker->builder, rank, kind, stage,
                     rank * worker->steps + step, version);
    if (!is_forward)
        pen__put_sync(worker->builder, rank, stage);
}

static void put_worker(const struct worker *worker)
{
    uint32_t parts = worker->shape->num_ranks;
    for (uint32_t step = 0; step < worker->steps; step++) {
        for (uint32_t part = 0; part < parts; part++)
            put_part(worker, PEN_OP_FORWARD, part, step);
        for (uint32_t part = parts; part-- > 0;)
            put_part(worker, PEN_OP_BACKWARD, part, step);
    }
    for (uint32_t part = parts; part-- > 0;)
        pen__put_step(
            worker->builder, worker->rank,
            pen_shape_stage_at(worker->shape, worker->rank, worker->rank, part),
            worker->steps);
}

static pen_status check(const struct pen_generator_args *args,
                        uint32_t *microbatches, struct pen_text *why)
{
    uint32_t n = args->ranks;
    if (n > MAX_WORKERS) {
        pen_why(why, "cyclic has as many parts as workers: at most %d, not %u",
                MAX_WORKERS, n);
        return PEN_INVALID;
    }
    pen_status status = pen__async_total(args, 1, microbatches, why);
    if (status == PEN_OK && *microbatches % n != 0) {
        uint32_t below = *microbatches - *microbatches % n;
        pen_why(why,
                "cyclic on %u workers needs a multiple of %u micro-batches, "
                "not %u: %u would work",
                n, n, *microbatches, below == 0 ? n : below);
        return PEN_INVALID;
    }
    return status;
}

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    uint32_t n = args->ranks;
    uint32_t microbatches = 0;
    pen_status status = check(args, &microbatches, why);
    if (status != PEN_OK)
        return status;
    struct pen_shape shape =
        pen__shape(PEN_PLACEMENT_CYCLIC, n, n * n, microbatches);
    shape.num_copies = n;
    struct pen__builder builder;
    pen__builder_init(&builder, "cyclic", &shape, why);
    if (builder.status == PEN_OK)
        builder.schedule->rules =
            (struct pen_rules){.versions = 2, .period = 1};
    for (uint32_t rank = 0; rank < n; rank++) {
        struct worker worker = {.builder = &builder,
                                .shape = &shape,
                                .rank = rank,
                                .steps = microbatches / n};
        put_worker(&worker);
    }
    return pen__builder_finish(&builder, out, why);
}

const struct pen_generator pen__cyclic = {
    .name = "cyclic",
    .title = "Cyclic data parallelism: workers two slots apart",
    .paper = "Fournier, Oyallon, 2024, arXiv 2403.08837",
    .placement = PEN_PLACEMENT_CYCLIC,
    .constraints = "p divides m, p <= 255, parts of equal time",
    .versions = "2; 1 on the last worker",
    .bubble = "0 in steady state",
    .peak = "p; once apart, p(p+1)/2 over all workers",
    .steps_each = true,
    .note = "workers run two slots apart only if a gradient takes time to "
            "travel; otherwise they run at the same time",
    .generate = generate,
};
