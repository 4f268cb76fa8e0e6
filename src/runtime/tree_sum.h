#ifndef PEN_RUNTIME_TREE_SUM_H
#define PEN_RUNTIME_TREE_SUM_H

#include "runtime/transport.h"

/*
 * A sum over all ranks of a transport that nobody waits for: it moves on
 * whenever ranks look after it. Numbers go up a binary tree of the ranks and
 * their sums come down:
 *
 *   IDLE --start--> GATHERING --both children--> RISING --total--> IDLE
 *
 * It is for numbers of which each has one contributor: their sum is exact in
 * any order. Unlike pen_transport_sum() it does not block under a simulated
 * MPI, where ranks must go on into their next row.
 */
struct pen_tree_sum;

/* For so many numbers. NOMEM is the only failure; *out is then untouched. */
pen_status pen_tree_sum_create(struct pen_transport *transport, size_t count,
                               struct pen_tree_sum **out);
void pen_tree_sum_free(struct pen_tree_sum *sum);

size_t pen_tree_sum_bytes(const struct pen_tree_sum *sum);

/* The one before is quiet. The values become the sums; they are borrowed. */
void pen_tree_sum_start(struct pen_tree_sum *sum, double *values);

/* True when the sums are there. */
bool pen_tree_sum_poll(struct pen_tree_sum *sum);

/* True when nothing of it is under way, after that. */
bool pen_tree_sum_is_quiet(struct pen_tree_sum *sum);

#endif
