#ifndef PEN_RUNTIME_ALL_REDUCE_H
#define PEN_RUNTIME_ALL_REDUCE_H

#include "runtime/transport.h"

/*
 * One sum over members under way, in whatever order is fast: first every member
 * gets the sum of a part of the array, then all get the parts of all. Members
 * whose number is a power of two halve the array with ever farther partners and
 * double it again; others pass parts round a ring. Either way a member sends
 * 2 (n - 1) / n of the array, in 2 log2 n or 2 (n - 1) messages.
 *
 * The part of a member is a range of count / n elements, rounded up or down,
 * the same one in both halves; it may be empty.
 *
 * As fast as MPI_Iallreduce() or faster where several are under way; one alone
 * takes half as long again on ranks that share cores (bench/train_all_reduce).
 */
struct pen_all_reduce;

struct pen_all_reduce_options {
    struct pen_transport *transport;
    const uint32_t *ranks; /* of the members; borrowed */
    uint32_t num_members;  /* at least two */
    uint32_t member;
    struct pen_tag tag;
    size_t most;     /* elements of the longest array */
    bool is_phantom; /* arrays have no memory */
};

/* On failure *out is untouched. */
pen_status pen_all_reduce_create(const struct pen_all_reduce_options *options,
                                 struct pen_all_reduce **out);
void pen_all_reduce_free(struct pen_all_reduce *it);

/* Bytes that it holds besides itself. */
size_t pen_all_reduce_bytes(const struct pen_all_reduce_options *options);

/* Which halves of the way are gone. */
enum pen_all_reduce_way {
    PEN_ALL_REDUCE_SCATTER = 1,
    PEN_ALL_REDUCE_GATHER = 2,
    PEN_ALL_REDUCE_BOTH = 3
};

/*
 * Begins with `count` floats in place; of a phantom values is NULL and its
 * elements have `element_bytes`. None may be under way.
 */
void pen_all_reduce_begin(struct pen_all_reduce *it,
                          enum pen_all_reduce_way way, float *values,
                          size_t count, size_t element_bytes);

/* Goes on as far as it can without waiting; true when it is done. */
bool pen_all_reduce_poll(struct pen_all_reduce *it);

#endif
