#ifndef PEN_NETWORK_IMAGES_H
#define PEN_NETWORK_IMAGES_H

#include "core/image_model.h"
#include "network/network.h"

/*
 * Networks that classify images. Everything in network.h holds for them, too,
 * with the tensors of the image model in place of the model's:
 * pen_network_initialize(), pen_network_load(), the passes, the parameters.
 * pen_network_model() is NULL.
 *
 * Weights begin as transformers draws those of a ResNet: filters normal with
 * variance 2 / fan-out, dense layers uniform within 1 / sqrt(inputs). The
 * filters of the small networks have variance 2 / fan-in, being few.
 */

struct pen_image_options {
    struct pen_engine *engine;           /* borrowed until the network's end */
    const struct pen_image_model *model; /* borrowed likewise */
    uint32_t first_layer;
    uint32_t num_layers;
    size_t batch;  /* images of a micro-batch */
    size_t height; /* 0: as the model says */
    size_t width;
    int moments; /* that the optimizer keeps per parameter */
    bool is_forward_only;
};

/* On failure *out is untouched. */
pen_status pen_network_create_images(const struct pen_image_options *options,
                                     struct pen_network **out,
                                     struct pen_text *why);

/* The image model; NULL for other networks. */
const struct pen_image_model *
pen_network_image_model(const struct pen_network *network);

/* Share of the newest batch in a running statistic. */
#define PEN_STATISTICS_MOMENTUM 0.1

/*
 * A tensor of the network that is not trained: num_elements stats, or one
 * uint64_t where that is a number of batches. Every forward of training changes
 * it, and so does one that measures. Borrowed until the network is freed.
 */
void *pen_network_statistic(struct pen_network *network, uint32_t tensor);

/* All of them as one block; NULL where the network has none. */
void *pen_network_statistics(struct pen_network *network, size_t *bytes);

#endif
