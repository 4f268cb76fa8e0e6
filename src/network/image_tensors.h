#ifndef PEN_NETWORK_IMAGE_TENSORS_H
#define PEN_NETWORK_IMAGE_TENSORS_H

#include "core/weights.h"
#include "network/chain.h"
#include "network/fill.h"

/* Tensors of a network for images: how they begin, and where they are found. */

void pen__image_fill(const struct pen_image_model *model, uint64_t seed,
                     const struct pen__fill *fill);

pen_status pen__image_find(const struct pen_image_model *model, uint32_t tensor,
                           const struct pen_weights *weights,
                           const struct pen_safetensor **out,
                           struct pen_text *why);

/* One block for the running statistics of all layers that the network has. */
pen_status pen__image_statistics_create(struct pen_network *network,
                                        struct pen_text *why);

/* Means zero, variances one. */
void pen__image_statistics_reset(struct pen_network *network);

pen_status pen__image_statistics_load(struct pen_network *network,
                                      const struct pen_weights *weights,
                                      struct pen_text *why);

#endif
