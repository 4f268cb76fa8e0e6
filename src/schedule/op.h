#ifndef PEN_SCHEDULE_OP_H
#define PEN_SCHEDULE_OP_H

#include "base/bug.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The operations of the byte code. This table is the only place that
 * classifies them: enum, printer, parser, verifier, timer and pictures are
 * made from it.
 *
 *   name             text    class   direction  meaning
 */
#define PEN_OP_TABLE(X)                                                        \
    X(FORWARD, "F", COMPUTE, ACT, "forward")                                   \
    X(BACKWARD, "B", COMPUTE, GRAD, "backward")                                \
    X(BACKWARD_INPUT, "I", COMPUTE, GRAD, "input gradient")                    \
    X(BACKWARD_WEIGHT, "W", COMPUTE, NONE, "weight gradient")                  \
    X(RECOMPUTE, "R", COMPUTE, NONE, "recomputation")                          \
    X(SEND_ACT, "SA", SEND, ACT, "send of an activation")                      \
    X(RECV_ACT, "RA", RECV, ACT, "receive of an activation")                   \
    X(SEND_GRAD, "SG", SEND, GRAD, "send of a gradient")                       \
    X(RECV_GRAD, "RG", RECV, GRAD, "receive of a gradient")                    \
    X(SYNC_GRAD, "SYNC", SYNC, NONE, "gradient synchronisation")               \
    X(STEP, "STEP", STEP, NONE, "optimizer step")                              \
    X(EVICT, "EV", MOVE, NONE, "eviction of a stash")                          \
    X(LOAD, "LD", MOVE, NONE, "return of a stash")

enum pen_op_kind {
#define PEN_OP_ENUM(name, text, class, direction, words) PEN_OP_##name,
    PEN_OP_TABLE(PEN_OP_ENUM)
#undef PEN_OP_ENUM
        PEN_OP_KINDS
};

enum pen_op_class {
    PEN_OP_CLASS_COMPUTE,
    PEN_OP_CLASS_SEND,
    PEN_OP_CLASS_RECV,
    PEN_OP_CLASS_SYNC,
    PEN_OP_CLASS_STEP,
    PEN_OP_CLASS_MOVE
};

/* The tensor that an op consumes (compute) or carries (send, receive). */
enum pen_direction {
    PEN_DIRECTION_NONE,
    PEN_DIRECTION_ACT, /* towards the loss */
    PEN_DIRECTION_GRAD /* towards the input */
};

struct pen_op_info {
    const char *text;
    const char *words;
    uint8_t op_class;  /* enum pen_op_class */
    uint8_t direction; /* enum pen_direction */
};

#define PEN_OP_NO_MICROBATCH UINT32_MAX
#define PEN_OP_CURRENT UINT32_MAX

/*
 * Flag of an F whose (stage, micro-batch, slice) has an R: it keeps its input
 * alone. Follows from the rows: see pen_schedule_mark_recomputed().
 */
#define PEN_OP_IS_RECOMPUTED 1u

/* 16 bytes: tens of millions of them are kept at once. */
struct pen_op {
    uint8_t kind;        /* enum pen_op_kind */
    uint8_t flags;       /* PEN_OP_IS_RECOMPUTED, or 0 */
    uint16_t group;      /* overlap group on this rank, 0 = none */
    uint16_t stage;      /* sends: the producing stage; receives: consuming */
    uint16_t slice;      /* token slice, 0 when unused */
    uint32_t microbatch; /* PEN_OP_NO_MICROBATCH for SYNC_GRAD and STEP */
    uint32_t version;    /* weight version, PEN_OP_CURRENT when unused */
};

/* Never NULL; kind must be below PEN_OP_KINDS. */
extern const struct pen_op_info pen__op_infos[PEN_OP_KINDS];

static inline const struct pen_op_info *pen_op_info(unsigned kind)
{
    PEN_BUG_UNLESS(kind < PEN_OP_KINDS);
    return &pen__op_infos[kind];
}

/*
 * Returns whether the op has a micro-batch: SYNC_GRAD and STEP concern a stage
 * as a whole.
 */
static inline bool pen_op_has_microbatch(unsigned kind)
{
    return kind != PEN_OP_SYNC_GRAD && kind != PEN_OP_STEP;
}

static inline bool pen_op_is_compute(unsigned kind)
{
    return kind <= PEN_OP_RECOMPUTE;
}

static inline bool pen_op_is_recomputed(const struct pen_op *op)
{
    return (op->flags & PEN_OP_IS_RECOMPUTED) != 0;
}

#endif
