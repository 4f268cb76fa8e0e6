#include "schedule/generators/generator.h"

void pen__builder_init(struct pen__builder *builder, const char *name,
                       const struct pen_shape *shape, struct pen_text *why)
{
    builder->schedule = NULL;
    builder->status = pen_schedule_create(name, shape, &builder->schedule, why);
}

void pen__put_op(struct pen__builder *builder, uint32_t rank, struct pen_op op)
{
    if (builder->status == PEN_OK)
        builder->status = pen_schedule_add(builder->schedule, rank, op);
}

void pen__put(struct pen__builder *builder, uint32_t rank,
              enum pen_op_kind kind, uint32_t stage, uint32_t microbatch)
{
    if (builder->status == PEN_OK)
        pen__put_op(builder, rank, pen_op_make(kind, stage, microbatch));
}

pen_status pen__builder_finish(struct pen__builder *builder,
                               struct pen_schedule **out, struct pen_text *why)
{
    if (builder->status == PEN_OK) {
        *out = builder->schedule;
        return PEN_OK;
    }
    if (builder->schedule != NULL) {
        pen_why(why, "out of memory while generating");
        pen_schedule_free(builder->schedule);
    }
    return builder->status;
}

struct pen_shape pen__shape(enum pen_placement_kind placement, uint32_t ranks,
                            uint32_t stages, uint32_t microbatches)
{
    return (struct pen_shape){.placement = placement,
                              .num_ranks = ranks,
                              .num_stages = stages,
                              .num_copies = 1,
                              .num_microbatches = microbatches,
                              .num_slices = 1};
}

pen_status pen__generate_linear(const char *name,
                                const struct pen_generator_args *args,
                                pen__row_writer *put_row,
                                struct pen_schedule **out, struct pen_text *why)
{
    struct pen_shape shape = pen__shape(PEN_PLACEMENT_LINEAR, args->ranks,
                                        args->ranks, args->microbatches);
    struct pen__builder builder;
    pen__builder_init(&builder, name, &shape, why);
    for (uint32_t rank = 0; rank < args->ranks; rank++)
        put_row(&builder, rank, args->ranks, args->microbatches);
    return pen__builder_finish(&builder, out, why);
}
