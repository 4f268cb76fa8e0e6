#ifndef PEN_RUNTIME_ISLAND_RANKS_H
#define PEN_RUNTIME_ISLAND_RANKS_H

#include "sync/method.h"

/*
 * The ranks of an island: vectors of each become one of all of the model on
 * rank 0, tensors in the order of their keys, and the other way round. All
 * ranks call the same functions in the same order. A lost rank ends waits.
 */
struct pen__island_ranks {
    const struct pen_sync_setting *setting; /* whose peers they are */
    /* Rank 0; NULL on others. */
    struct pen__island_piece *pieces;
    size_t num_pieces;
    size_t *counts;                  /* floats of each rank */
    float *part;                     /* of one rank */
    struct pen_sync_tensor *tensors; /* of the model */
    size_t num_tensors;
    size_t num_whole; /* floats of the model */
};

/* Finds out which rank has which part of the model. */
pen_status pen__island_ranks_init(struct pen__island_ranks *ranks,
                                  const struct pen_sync_setting *setting);
void pen__island_ranks_release(struct pen__island_ranks *ranks);
size_t pen__island_ranks_bytes(const struct pen__island_ranks *ranks);

bool pen__island_is_first(const struct pen__island_ranks *ranks);

/* Gathers the vectors of all ranks in `whole` on rank 0, and scatters it. */
void pen__island_gather(struct pen__island_ranks *ranks, const float *vector,
                        float *whole);
void pen__island_scatter(struct pen__island_ranks *ranks, float *whole,
                         float *vector);
/* Rank 0 gets the first failure of all ranks, others get their own. */
pen_status pen__island_gather_status(struct pen__island_ranks *ranks,
                                     pen_status status);
/* Sends the bytes of rank 0 to all ranks. */
void pen__island_share(struct pen__island_ranks *ranks, void *bytes,
                       size_t length);

#endif
