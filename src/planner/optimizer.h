#ifndef PEN_PLANNER_OPTIMIZER_H
#define PEN_PLANNER_OPTIMIZER_H

#include "planner/predict.h"

/*
 * The memory of a plan's optimizer, and how long its step takes.
 *
 *              bytes of a weight, in addition to its master
 *   adam       8: both moments
 *   adam8      2, and two scales of 4 bytes for each 256 weights
 *   adafactor  4 for each row and column of a matrix, 4 for all other weights;
 *              there is no first moment
 *   muon       4 for weights of matrices: the momentum; 8 for all others, which
 *              Adam steps
 *
 * A master has 4 bytes where weights have 2. The recipe may say otherwise:
 * master_bytes and moment_bytes come first. Sharded optimizers divide by the
 * ranks that have the same weights; Muon deals whole matrices to them.
 */

/* `count` weights of [rows, columns], as one rank has them. */
struct pen__matrix {
    double rows;
    double columns;
    double count;
    bool is_expert;
    bool is_table; /* of tokens, at either end: Muon leaves them to Adam */
};

#define PEN__MAX_MATRICES 32u

struct pen__matrix_list {
    struct pen__matrix items[PEN__MAX_MATRICES];
    uint32_t count;
};

/* The matrices of a layer; none of a network for images. */
void pen__layer_list_matrices(const struct pen_setting *setting,
                              const struct pen_plan *plan, uint32_t group,
                              uint32_t layer, struct pen__matrix_list *out);

/* Weights that all replicas have, and those of experts. */
enum { PEN__COMMON, PEN__OF_EXPERTS, PEN__OWNERS };

/* The matrices of a stage on one rank, by owner; all 0 where none is asked for:
 * Adam does not look at them. */
struct pen__matrix_sums {
    double weights[PEN__OWNERS]; /* of all matrices */
    double edges[PEN__OWNERS];   /* their rows and columns */
    double whole[PEN__OWNERS];   /* weights that Muon steps */
    double whole_sec[PEN__OWNERS];
    double most_weights[PEN__OWNERS]; /* of one matrix of Muon */
    double most_sec[PEN__OWNERS];
};

/* Adds the layers of a stage to *sums. */
void pen__matrix_sums_add(const struct pen_setting *setting,
                          const struct pen_plan *plan, uint32_t group,
                          const struct pen_layer_range *range,
                          struct pen__matrix_sums *sums);

/* Adds those of one stage to those of its rank. */
void pen__matrix_sums_join(const struct pen__matrix_sums *from,
                           struct pen__matrix_sums *sums);

/* Seconds in which five rounds of Newton and Schulz make rows and columns of a
 * matrix orthogonal: 5 (4 m m n + 2 m m m) flops, m <= n. */
double pen__orthogonal_sec(const struct pen_device *device,
                           enum pen_number number, double rows, double columns);

/* Bytes of masters and moments on one rank, and seconds of a step. */
double pen__optimizer_bytes(const struct pen_setting *setting,
                            const struct pen_plan *plan,
                            const struct pen_layer_bytes *bytes,
                            const struct pen__matrix_sums *sums);
double pen__optimizer_sec(const struct pen_setting *setting,
                          const struct pen_plan *plan,
                          const struct pen_device *device,
                          const struct pen_layer_bytes *bytes,
                          const struct pen__matrix_sums *sums);

/* Bytes of one accumulated gradient. */
double pen__gradient_bytes(const struct pen_setting *setting,
                           const struct pen_plan *plan);

/* Whether every rank gets whole gradients, though the optimizer is sharded. */
bool pen__needs_whole_gradients(const struct pen_plan *plan);

/* The fewest bytes of masters and moments for each weight of a plan with this
 * recipe, before sharding. */
double pen__least_optimizer_bytes(const struct pen_setting *setting,
                                  const struct pen_recipe *recipe);

/* Ranks that have the same weights: of all layers, or of experts. */
double pen__num_owners(const uint32_t degrees[PEN_DEGREES], uint32_t expert_tp,
                       int owner);

#endif
