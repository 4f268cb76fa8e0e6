/* 1F1B without a flush, as PipeDream and everything after it runs it. */
#include "schedule/generators/asynchronous.h"

/* Twice as many ops of one kind on a rank can still be counted. */
#define MOST_MICROBATCHES (UINT32_MAX / 2)

pen_status pen__async_total(const struct pen_generator_args *args,
                            uint32_t batches, uint32_t *out,
                            struct pen_text *why)
{
    if (args->batches != 0)
        batches = args->batches;
    if (args->microbatches > MOST_MICROBATCHES / batches) {
        pen_why(why,
                "%u batches of %u micro-batches are too many: their product "
                "may be %u",
                batches, args->microbatches, MOST_MICROBATCHES);
        return PEN_INVALID;
    }
    *out = batches * args->microbatches;
    return PEN_OK;
}

void pen__put_version(struct pen__builder *builder, uint32_t rank,
                      enum pen_op_kind kind, uint32_t stage,
                      uint32_t microbatch, uint32_t version)
{
    struct pen_op op = pen_op_make(kind, stage, microbatch);
    op.version = version;
    pen__put_op(builder, rank, op);
}

void pen__put_sync(struct pen__builder *builder, uint32_t rank, uint32_t stage)
{
    pen__put(builder, rank, PEN_OP_SYNC_GRAD, stage, PEN_OP_NO_MICROBATCH);
}

void pen__put_step(struct pen__builder *builder, uint32_t rank, uint32_t stage,
                   uint32_t version)
{
    pen__put_version(builder, rank, PEN_OP_STEP, stage, PEN_OP_NO_MICROBATCH,
                     version);
}

static void put_forward(struct pen__builder *builder,
                        const struct pen__async *run, uint32_t rank,
                        uint32_t microbatch)
{
    uint32_t version = run->forward == NULL
                           ? PEN_OP_CURRENT
                           : run->forward(run, rank, microbatch);
    pen__put_version(builder, rank, PEN_OP_FORWARD, rank, microbatch, version);
}

static void put_backward(struct pen__builder *builder,
                         const struct pen__async *run, uint32_t rank,
                         uint32_t microbatch)
{
    uint32_t version = run->backward == NULL
                           ? PEN_OP_CURRENT
                           : run->backward(run, rank, microbatch);
    pen__put_version(builder, rank, PEN_OP_BACKWARD, rank, microbatch, version);
    if ((microbatch + 1) % run->period != 0)
        return;
    pen__put_sync(builder, rank, rank);
    pen__put_step(builder, rank, rank, (microbatch + 1) / run->period);
}

static void put_row(struct pen__builder *builder, const struct pen__async *run,
                    uint32_t rank)
{
    uint32_t m = run->microbatches;
    uint32_t warmup = pen__min(run->ranks - 1 - rank, m);
    for (uint32_t i = 0; i < warmup; i++)
        put_forward(builder, run, rank, i);
    for (uint32_t i = 0; i < m; i++) {
        if (i < m - warmup)
            put_forward(builder, run, rank, warmup + i);
        put_backward(builder, run, rank, i);
    }
}

pen_status pen__async_generate(const struct pen__async *run,
                               struct pen_schedule **out, struct pen_text *why)
{
    struct pen_shape shape = pen__shape(PEN_PLACEMENT_LINEAR, run->ranks,
                                        run->ranks, run->microbatches);
    struct pen__builder builder;
    pen__builder_init(&builder, run->name, &shape, why);
    if (builder.status == PEN_OK)
        builder.schedule->rules = (struct pen_rules){
            .versions = run->versions,
            .period = run->period,
            .is_stale = run->backward != run->forward || run->forward == NULL};
    for (uint32_t rank = 0; rank < run->ranks; rank++)
        put_row(&builder, run, rank);
    return pen__builder_finish(&builder, out, why);
}

pen_status pen__async_newest(const char *name,
                             const struct pen_generator_args *args,
                             struct pen_schedule **out, struct pen_text *why)
{
    struct pen__async run = {
        .name = name, .ranks = args->ranks, .period = 1, .versions = 1};
    pen_status status = pen__async_total(args, 1, &run.microbatches, why);
    if (status != PEN_OK)
        return status;
    return pen__async_generate(&run, out, why);
}
