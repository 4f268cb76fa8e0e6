#ifndef PEN_GROUP_SUM_INTERNAL_H
#define PEN_GROUP_SUM_INTERNAL_H

#include "group/sum.h"

enum pen__sum_state {
    PEN__SUM_IDLE,
    PEN__SUM_IN,   /* numbers travel to the members that add them */
    PEN__SUM_OUT,  /* sums go back */
    PEN__SUM_LAST, /* of HOPS: they are here, and leave for further members */
};

struct pen_sum {
    struct pen_sum_options options;
    struct pen_sum_job job;
    enum pen__sum_state state;
    uint32_t step; /* which of them, as the route counts; 0: all at once */
    char *staged;  /* what the others have, to be added */
    uint32_t num_leaves;  /* of all members */
    uint32_t most_nodes;  /* of one of them */
    uint32_t *first_leaf; /* per member, and the end */
    uint32_t *first_node; /* likewise */
    void **sums;          /* per leaf, while one adds; NULL: inside a node */
    struct pen_group_request *sends;    /* most_nodes per member */
    struct pen_group_request *receives; /* likewise */
};

/* The range of an array that a member has, or sends. */
struct pen__range {
    size_t first;
    size_t count;
};

static inline size_t pen__sum_element(const struct pen_sum *sum)
{
    return sum->options.is_double ? sizeof(double) : sizeof(float);
}

void pen__sum_add(const struct pen_sum *sum, void *to, const void *from,
                  size_t count);

/*
 * Returns the elements that are staged, and those from one member's to the
 * next.
 */
size_t pen__sum_fast_staged(const struct pen_sum_options *options);
size_t pen__sum_owners_stride(const struct pen_sum_options *options);

void pen__sum_owners_begin(struct pen_sum *sum);
void pen__sum_hops_begin(struct pen_sum *sum);
void pen__sum_fast_begin(struct pen_sum *sum);

/* Advances until nothing more can be done now; the state says how far it is. */
void pen__sum_owners_poll(struct pen_sum *sum);
void pen__sum_hops_poll(struct pen_sum *sum);
void pen__sum_fast_poll(struct pen_sum *sum);

#endif
