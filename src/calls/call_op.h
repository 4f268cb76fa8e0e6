#ifndef PEN_CALLS_CALL_OP_H
#define PEN_CALLS_CALL_OP_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Operations of communication: kind, name, whether every rank waits for every
 * other, and whether every rank gives the same number of values.
 */
#define PEN_CALL_OP_TABLE(X)                                                   \
    X(OTHER, "other", false, false)                                            \
    X(ALL_REDUCE, "all_reduce", true, true)                                    \
    X(ALL_GATHER, "all_gather", true, true)                                    \
    X(REDUCE_SCATTER, "reduce_scatter", true, true)                            \
    X(ALL_TO_ALL, "all_to_all", true, false)                                   \
    X(BARRIER, "barrier", true, false)                                         \
    X(BROADCAST, "broadcast", false, true)                                     \
    X(REDUCE, "reduce", false, true)                                           \
    X(GATHER, "gather", false, true)                                           \
    X(SCATTER, "scatter", false, false)                                        \
    X(SEND, "send", false, true)                                               \
    X(RECV, "recv", false, true)

enum pen_call_op {
#define PEN_CALL_OP_ENUM(name, words, waits, same) PEN_CALL_##name,
    PEN_CALL_OP_TABLE(PEN_CALL_OP_ENUM)
#undef PEN_CALL_OP_ENUM
        PEN_CALL_OPS
};

struct pen_call_op_info {
    const char *words;
    bool waits_for_all;
    bool has_same_data;
};

const struct pen_call_op_info *pen_call_op_info(enum pen_call_op op);

/*
 * Finds the operation in a name of a recorder: "nccl:all_reduce",
 * "gloo:_allgather_base", "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
 * "nccl:recv 1<-0". False where the name is of nothing known.
 */
bool pen__call_op_find(const char *name, enum pen_call_op *out);

/* Returns whether the operation is a send or a receive, not a collective. */
bool pen_call_op_is_message(enum pen_call_op op);

#endif
