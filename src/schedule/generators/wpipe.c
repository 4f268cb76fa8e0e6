/*
 * WPipe (2GW): Yang et al., ICLR 2022, "Group-based interleaved pipeline
 * parallelism for large-scale DNN training".
 *
 *   p=2, m=2, stages 0 and 1 are group 1, stages 2 and 3 group 2:
 *   rank 0  0F0 0F1 2F0 2F1 ... 2B0 0F2 2B1 0F3 0B0 2F2 0B1 2F3 2B2 ...
 *   rank 1      1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 ...
 *
 * Every rank holds one stage of each group and a micro-batch passes the ranks
 * twice. The paper moves the forwards of the next batch in front of the
 * backwards of this one in group 1, keeps the order in group 2, and updates
 * the groups in turn. We do not know its table of slots; this order follows
 * from those sentences:
 *
 *   forwards   group 1 batch 0, group 2 batch 0, group 1 batch 1, ...
 *   backwards  group 2 batch 0, group 1 batch 0, group 2 batch 1, ...
 *
 * Rank s warms up with m + p-1-s forwards and then alternates: 1F1B in a
 * pipeline of twice the length. With m >= p-1 group 2 has its STEP before the
 * forwards of the next batch and keeps one version, group 1 is one STEP late
 * and keeps two; with m >= p no rank waits in steady state either.
 */
#include "schedule/generators/asynchronous.h"

#define DEFAULT_BATCHES 3

struct run {
    struct pen__builder builder;
    uint32_t ranks;
    uint32_t period; /* m */
};

/* Returns the version that batch t reads: t in group 2, t-1 in group 1. */
static uint32_t version_of(uint32_t group, uint32_t batch)
{
    return group == 1 || batch == 0 ? batch : batch - 1;
}

/*
 * Puts the index-th forward of a rank; groups take turns, m micro-batches each.
 */
static void put_forward(struct run *run, uint32_t rank, uint32_t index)
{
    uint32_t turn = index / run->period;
    uint32_t group = turn % 2;
    uint32_t batch = turn / 2;
    pen__put_version(
        &run->builder, rank, PEN_OP_FORWARD, group * run->ranks + rank,
        batch * run->period + index % run->period, version_of(group, batch));
}

static void put_backward(struct run *run, uint32_t rank, uint32_t index)
{
    uint32_t turn = index / run->period;
    uint32_t group = 1 - turn % 2;
    uint32_t batch = turn / 2;
    uint32_t stage = group * run->ranks + rank;
    pen__put_version(&run->builder, rank, PEN_OP_BACKWARD, stage,
                     batch * run->period + index % run->period,
                     version_of(group, batch));
    if ((index + 1) % run->period != 0)
        return;
    pen__put_sync(&run->builder, rank, stage);
    pen__put_step(&run->builder, rank, stage, batch + 1);
}

static pen_status check(const struct pen_generator_args *args,
                        uint32_t *microbatches, struct pen_text *why)
{
    if (args->ranks > PEN_MAX_STAGES / 2) {
        pen_why(why, "wpipe has two stages per rank: at most %u ranks, not %u",
                PEN_MAX_STAGES / 2, args->ranks);
        return PEN_INVALID;
    }
    if (args->microbatches < args->ranks) {
        pen_why(why,
                "wpipe on %u ranks needs at least %u micro-batches per batch, "
                "not %u",
                args->ranks, args->ranks, args->microbatches);
        return PEN_INVALID;
    }
    return pen__async_total(args, DEFAULT_BATCHES, microbatches, why);
}

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    struct run run = {.ranks = args->ranks, .period = args->microbatches};
    uint32_t microbatches = 0;
    pen_status status = check(args, &microbatches, why);
    if (status != PEN_OK)
        return status;
    struct pen_shape shape = pen__shape(PEN_PLACEMENT_LOOP, args->ranks,
                                        2 * args->ranks, microbatches);
    pen__builder_init(&run.builder, "wpipe", &shape, why);
    /* Between its two passes a batch waits in the link from the last rank to
     * the first, hence the window. */
    if (run.builder.status == PEN_OK)
        run.builder.schedule->rules = (struct pen_rules){
            .send_window = run.period, .versions = 2, .period = run.period};
    uint32_t total = 2 * microbatches;
    for (uint32_t rank = 0; rank < run.ranks; rank++) {
        uint32_t warmup = pen__min(run.period + run.ranks - 1 - rank, total);
        for (uint32_t i = 0; i < warmup; i++)
            put_forward(&run, rank, i);
        for (uint32_t i = 0; i < total; i++) {
            if (i < total - warmup)
                put_forward(&run, rank, warmup + i);
            put_backward(&run, rank, i);
        }
    }
    return pen__builder_finish(&run.builder, out, why);
}

const struct pen_generator pen__wpipe = {
    .name = "wpipe",
    .title = "WPipe: two groups of layers, one of them with fresh weights",
    .paper = "Yang et al., ICLR 2022, openreview cw-EmNq5zfD",
    .placement = PEN_PLACEMENT_LOOP,
    .constraints = "m >= p, window m",
    .versions = "2 in the first half of the model, 1 in the second",
    .bubble = "0 in steady state, (p-1)T/2 once per run",
    .peak = "(m+p-s)/2",
    .note = "order derived from the published description of the two "
            "groups, because the paper's slot table is not published",
    .generate = generate,
};
