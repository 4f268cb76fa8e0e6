#ifndef PEN_SCHEDULE_GENERATORS_GENERATOR_H
#define PEN_SCHEDULE_GENERATORS_GENERATOR_H

#include "schedule/generators.h"

/*
 * The common part of the generators: a builder that remembers the first
 * failure, so that a recipe reads as a recipe.
 */
struct pen__builder {
    struct pen_schedule *schedule; /* NULL when it could not be created */
    pen_status status;
};

void pen__builder_init(struct pen__builder *builder, const char *name,
                       const struct pen_shape *shape, struct pen_text *why);

/* Appends one compute op; does nothing after a failure. */
void pen__put(struct pen__builder *builder, uint32_t rank,
              enum pen_op_kind kind, uint32_t stage, uint32_t microbatch);
void pen__put_op(struct pen__builder *builder, uint32_t rank, struct pen_op op);

/* Hands the schedule over, or frees it and returns the failure. */
pen_status pen__builder_finish(struct pen__builder *builder,
                               struct pen_schedule **out, struct pen_text *why);

/* Returns a shape with one copy and one slice. */
struct pen_shape pen__shape(enum pen_placement_kind placement, uint32_t ranks,
                            uint32_t stages, uint32_t microbatches);

/* Writes the row of one rank of a linear pipeline of p ranks. */
typedef void pen__row_writer(struct pen__builder *builder, uint32_t rank,
                             uint32_t p, uint32_t m);

/* Makes a linear pipeline, row by row, as many generators do. */
pen_status pen__generate_linear(const char *name,
                                const struct pen_generator_args *args,
                                pen__row_writer *put_row,
                                struct pen_schedule **out,
                                struct pen_text *why);

static inline uint32_t pen__min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* 1F1B warm-up, steady state and cool-down on one rank of a linear pipeline. */
pen__row_writer pen__put_1f1b;

#endif
