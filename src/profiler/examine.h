#ifndef PEN_PROFILER_EXAMINE_H
#define PEN_PROFILER_EXAMINE_H

#include "core/model.h"
#include "engine/registry.h"

/*
 * Whether an engine computes what it should: every operation that a text model
 * needs, at the model's shapes, against the reference engine in double; each
 * one twice, for equal bits; and its rate.
 */
enum { PEN_EXAMINE_MOST = 40 };

struct pen_examine_options {
    const struct pen_model *model; /* that can be trained; borrowed */
    const struct pen_engine_kind *engine;
    const char *device; /* of it; NULL: its choice; borrowed */
    bool is_bf16;
    int threads;
    size_t batch; /* sequences */
    size_t sequence;
};

/* One operation. */
struct pen_examined {
    const char *name;
    char shape[48];
    double difference; /* the largest, relative to the largest number */
    double tolerance;
    bool has_same_bits; /* twice */
    double sec;
    double flops; /* of a product, else 0 */
    double bytes; /* of the arrays of all others */
};

struct pen_examination {
    struct pen_examined rows[PEN_EXAMINE_MOST];
    size_t count;
};

static inline bool pen_examined_is_good(const struct pen_examined *row)
{
    return row->difference <= row->tolerance && row->has_same_bits;
}

/* Examines the engine; calls `tell`, if not NULL, after each operation. */
pen_status
pen_examine(const struct pen_examine_options *options,
            void (*tell)(void *context, uint32_t done, uint32_t total),
            void *context, struct pen_examination *out, struct pen_text *why);

#endif
