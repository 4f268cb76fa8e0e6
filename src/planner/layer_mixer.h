#ifndef PEN_PLANNER_LAYER_MIXER_H
#define PEN_PLANNER_LAYER_MIXER_H

#include "planner/layer_operations.h"

/*
 * Blocks that are more or less than attention and an MLP: Mamba, gated delta
 * nets, keys that are picked or compressed, gates, hyper-connections, and
 * blocks that have only one of the two.
 */

/* Sets what the block of a layer has of its own; tp and tokens are there. */
void pen__mixer_open(const struct pen_model *model, struct pen__layer *layer);

/* Products with weights of what mixes positions, over all tokens each. */
struct pen__mixer_product {
    double batch;
    double rows; /* of the input */
    double columns;
};

#define PEN_MAX_MIXER_PRODUCTS 12

uint32_t
pen__mixer_list_products(const struct pen__layer *layer,
                         struct pen__mixer_product out[PEN_MAX_MIXER_PRODUCTS]);

/* The operations between these products. */
void pen__mixer_list_core(const struct pen__layer *layer, bool is_backward,
                          struct pen_operation_list *list);

#endif
