#ifndef PEN_SCHEDULE_GENERATORS_ASYNCHRONOUS_H
#define PEN_SCHEDULE_GENERATORS_ASYNCHRONOUS_H

#include "schedule/generators/generator.h"

/*
 * The common part of schedules without a flush: 1F1B over the whole run, a STEP
 * after every period, and the weight version that each op reads. A generator
 * fixes the order and the versions; the runtime computes a method's prediction
 * or correction from them.
 */
struct pen__async {
    const char *name;
    uint32_t ranks;
    uint32_t microbatches; /* of the whole run */
    uint32_t period;       /* micro-batches per STEP */
    uint32_t versions;     /* that a stage keeps, at most */
    /* The version that the op of this stage reads; NULL: the newest one. */
    uint32_t (*forward)(const struct pen__async *run, uint32_t stage,
                        uint32_t microbatch);
    uint32_t (*backward)(const struct pen__async *run, uint32_t stage,
                         uint32_t microbatch);
};

/*
 * Computes the micro-batches of the run: m per batch, and `batches` unless the
 * user gives another number.
 */
pen_status pen__async_total(const struct pen_generator_args *args,
                            uint32_t batches, uint32_t *out,
                            struct pen_text *why);

/*
 * Makes 1F1B over the whole run on a linear pipeline. A backward that reads
 * another version than its forward is declared in the rules.
 */
pen_status pen__async_generate(const struct pen__async *run,
                               struct pen_schedule **out, struct pen_text *why);

/*
 * Makes PipeDream's order with one stored version: a STEP after every backward.
 */
pen_status pen__async_newest(const char *name,
                             const struct pen_generator_args *args,
                             struct pen_schedule **out, struct pen_text *why);

void pen__put_version(struct pen__builder *builder, uint32_t rank,
                      enum pen_op_kind kind, uint32_t stage,
                      uint32_t microbatch, uint32_t version);

/* Put a SYNC, and the STEP that creates this version. */
void pen__put_sync(struct pen__builder *builder, uint32_t rank, uint32_t stage);
void pen__put_step(struct pen__builder *builder, uint32_t rank, uint32_t stage,
                   uint32_t version);

#endif
