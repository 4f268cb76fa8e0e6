#ifndef PEN_NETWORK_IMAGE_TENSORS_H
#define PEN_NETWORK_IMAGE_TENSORS_H

#include "network/chain.h"
#include "network/fill.h"

/* Tensors of a network for images: how they begin, and where they are kept. */

void pen__image_fill(const struct pen_image_model *model, uint64_t seed,
                     const struct pen__fill *fill);

/* One block for the running statistics of all layers that the network has. */
pen_status pen__image_statistics_create(struct pen_network *network,
                                        struct pen_text *why);

/* Sets means to zero and variances to one. */
void pen__image_statistics_reset(struct pen_network *network);

#endif
