#ifndef PEN_SYNC_OUTER_H
#define PEN_SYNC_OUTER_H

#include "sync/method.h"

/*
 * The common part of DiLoCo and its kin: weights theta that all members share,
 * replicas that move away from them, and an outer step with the mean of their
 * moves,
 *
 *   D = mean(theta - x_i)
 *   v <- mu v + D        theta <- theta - lr (D + mu v)
 *
 * on one or more parts of the weights, each of them whole tensors, and about
 * as large as the others. Means of different parts may be under way at the same
 * time.
 */
struct pen_outer_part {
    size_t first_tensor;
    size_t num_tensors; /* 0: there are fewer tensors than parts */
    size_t first;       /* in a vector of all weights */
    size_t count;
    struct pen_average *average; /* NULL: it is empty */
};

struct pen_outer {
    const struct pen_sync_setting *setting;
    float lr;
    float momentum; /* mu */
    float *theta;
    float *velocity; /* v */
    float *moved;    /* of each part what this replica moved, then D */
    struct pen_outer_part *parts;
    uint32_t num_parts;
};

/* Prepares the parts. To be released in any case. */
pen_status pen_outer_init(struct pen_outer *outer,
                          const struct pen_sync_setting *setting,
                          uint32_t num_parts, double lr, double momentum,
                          struct pen_text *why);
void pen_outer_release(struct pen_outer *outer);

size_t pen_outer_bytes(const struct pen_outer *outer);

/* Begins the mean of the replicas' moves in a part. */
void pen_outer_start(struct pen_outer *outer, uint32_t part, uint64_t step);

/* Begins the mean of the vectors moved[] of a part. */
void pen_outer_send(struct pen_outer *outer, uint32_t part, uint64_t step);

/* Returns true when no mean of the part is under way. Never waits. */
bool pen_outer_has_come(struct pen_outer *outer, uint32_t part);

/* Compute the move of a replica, and the outer step, on vectors. */
void pen_outer_give(const float *theta, const float *weights, size_t count,
                    float *out);
void pen_outer_take(float lr, float momentum, const float *moved, size_t count,
                    float *theta, float *velocity);
void pen_outer_island_give(struct pen_sync_island *it,
                           const struct pen_sync_step *at, float *out);

/* Waits for it and takes the outer step of the part. */
void pen_outer_step(struct pen_outer *outer, uint32_t part);

/*
 * Takes the outer step of a part; then its local weights are mix x_i + (1 -
 * mix) theta.
 */
void pen_outer_apply(struct pen_outer *outer, uint32_t part, float mix);

void pen_outer_poll(struct pen_outer *outer);

/* Waits until no mean is under way; moved[] is the same on all members then. */
void pen_outer_settle(struct pen_outer *outer);

/* Adds theta, velocity, and the states of compressors. */
void pen_outer_states(struct pen_outer *outer, struct pen_sync_states *out);

/* Copies theta, as the last outer steps left it. */
void pen_outer_consistent(const struct pen_outer *outer, float *out);

/* Computes the cost where all parts are sent at once and waited for. */
void pen_outer_cost(const struct pen_sync_case *of,
                    const struct pen_mean_cost *mean,
                    struct pen_sync_cost *out);

#endif
