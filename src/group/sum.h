#ifndef PEN_GROUP_SUM_H
#define PEN_GROUP_SUM_H

#include "group/group.h"

/*
 * A sum over the members of a group, without waiting: it is begun, polled while
 * other work continues, and over when poll says so. One object carries one sum
 * at a time; every member begins the same ones in the same order.
 *
 * Numbers are added in the order of the tree (tree.h) on every route but the
 * fast one, so that the sum is bit-identical on all members, whatever the
 * timing, and to one process that adds in this order.
 *
 *   SHARES  member k adds share k of the array, and sends it back: 2 (n-1) / n
 *           of it is sent. Long shares take turns, so that a member sends to
 *           one other and receives from one other at a time: where several
 *           streams meet on a slow link it is idle while they find their pace
 *   OWNER   one member adds all of it. Rows that are zero may stay where they
 *           are (sparse_rows.h): zeros are filled in before they are added
 *   HOPS    up the tree to member 0 and down again: 2 log2 n messages of the
 *           whole array one after another, for few numbers and many members
 *   FAST    in whatever order is fast. Members whose number is a power of two
 *           halve the array with ever farther partners and double it again;
 *           others pass parts round a ring. Either way a member sends
 *           2 (n-1) / n of the array, in 2 log2 n or 2 (n-1) messages. As fast
 *           as MPI_Iallreduce() or faster where several are under way; one
 *           alone takes half as long again on ranks that share cores
 *           (bench/train_all_reduce)
 *
 * Members may have several leaves of the tree each, in order. A member then
 * contributes the sums of the nodes that its leaves make up (pen_tree_node()).
 *
 * Each sum has two halves: the first collects numbers where they are added, the
 * second returns the results to all. A job may run one half alone; HOPS runs
 * both.
 */
struct pen_sum;

enum pen_sum_route {
    PEN_SUM_SHARES,
    PEN_SUM_OWNER,
    PEN_SUM_HOPS,
    PEN_SUM_FAST
};

enum pen_sum_way { PEN_SUM_IN = 1, PEN_SUM_OUT = 2, PEN_SUM_BOTH = 3 };

enum { PEN_SUM_CHANNELS = 2 }; /* that one object takes: in and out */

struct pen_sum_options {
    struct pen_group *group; /* borrowed */
    uint32_t channel;        /* the first */
    enum pen_sum_route route;
    const uint32_t *leaves; /* of each member; NULL: one. OWNER alone, and not
                               sparse; borrowed until the sum is made */
    bool is_double;         /* else floats */
    bool is_sparse;         /* some jobs have a width */
    bool is_phantom;        /* arrays have no memory; FAST alone */
    size_t most;            /* elements of the longest array */
};

/* Creates a sum. On failure *out is untouched. */
pen_status pen_sum_create(const struct pen_sum_options *options,
                          struct pen_sum **out);
void pen_sum_free(struct pen_sum *sum);

/* Returns the bytes that it holds in addition to itself. */
size_t pen_sum_bytes(const struct pen_sum *sum);

struct pen_sum_job {
    enum pen_sum_way way;
    void *values; /* in place; not touched until it is over. NULL: phantom */
    size_t count;
    void *const *nodes;   /* arrays of this member's nodes but the last, which
                             is `values`; they lose their numbers */
    uint32_t owner;       /* on the route of that name */
    size_t width;         /* of rows that may stay when they are zero, or 0 */
    size_t element_bytes; /* of a phantom */
    /* the second half uses a channel that is this much higher */
    uint32_t further_channel;
};

void pen_sum_begin(struct pen_sum *sum, const struct pen_sum_job *job);

/*
 * Advances as far as possible. PEN_OK when no sum is under way; PEN_BUSY;
 * PEN_LOST.
 */
pen_status pen_sum_poll(struct pen_sum *sum);

/*
 * Returns whether this member's last messages have left, so that the next sum
 * may begin. With HOPS the result is known earlier; for all other routes this
 * is true at once.
 */
bool pen_sum_is_quiet(struct pen_sum *sum);

/* Waits until the sum is over and quiet. PEN_OK or PEN_LOST. */
pen_status pen_sum_wait(struct pen_sum *sum) PEN_MUST_CHECK;

/* The share of an array that a member adds. */
void pen_sum_share(uint32_t num_members, uint32_t member, size_t count,
                   size_t *first, size_t *share);

/* Bytes of a share from which on members take turns. */
#define PEN_SUM_LONG_SHARE ((size_t)1 << 19)

void pen_add_floats(float *to, const float *from, size_t count);

#endif
