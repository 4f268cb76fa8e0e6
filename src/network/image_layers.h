#ifndef PEN_NETWORK_IMAGE_LAYERS_H
#define PEN_NETWORK_IMAGE_LAYERS_H

#include "network/chain.h"
#include "network/images.h"

/* The layers of a network for images, and what they share. */

/* A layer's place in the model, and the shape of its input. */
struct pen__image_place {
    struct pen_network *network;
    uint32_t layer;
    const struct pen_image_layer *model; /* of that layer */
    size_t channels;
    size_t image[2]; /* {height, width} */
    bool is_first;   /* reads the pixels */
};

/* Bytes of a micro-batch of images that have this many numbers each. */
size_t pen__image_bytes(const struct pen__image_place *place, size_t numbers);

/* The tensor as a parameter, with all dimensions but the first as columns. */
pen_status pen__image_parameter(const struct pen__image_place *place,
                                enum pen_parameter_use use, uint32_t tensor,
                                struct pen_parameter **out,
                                struct pen_text *why);

/* The dense product of a layer, prepared. */
pen_status pen__image_linear(const struct pen__image_place *place,
                             struct pen_linear *out, struct pen_text *why);

/*
 * The input of a layer: x, or the pixels, which lie in the stash where the
 * engine does not compute in float.
 */
struct pen__image_input {
    bool is_pixels;
    size_t num_copied; /* numbers; 0: pixels are read where they are */
    size_t copy;       /* in the stash */
};

/* Sets the input bytes of the layer. */
void pen__image_input_init(const struct pen__image_place *place,
                           struct pen__layer *layer,
                           struct pen__image_input *out);

/* Copies the pixels if need be: the first thing of a forward. */
void pen__image_input_read(const struct pen__image_input *input,
                           const struct pen__pass *pass);
const void *pen__image_input_at(const struct pen__image_input *input,
                                const struct pen__pass *pass, const void *x);

/*
 * A convolution, and the norm after it if it has one. The layer around it owns
 * the output and its gradient; that gradient has to stay from backward input to
 * backward weight.
 */
struct pen__filter {
    struct pen_convolution convolution;
    struct pen_batch_norm norm; /* no gain: none */
    uint64_t *num_batches;
    size_t count_out; /* numbers of a micro-batch */

    /* In the stash. */
    size_t raw; /* before the norm */
    size_t mean;
    size_t rstd;
    /* In the hold. */
    size_t raw_gradient;
};

/* Takes room in the layer's stash and hold. */
pen_status pen__filter_init(const struct pen__image_place *place,
                            const struct pen_image_convolution *model,
                            struct pen__layer *layer, struct pen__filter *out,
                            struct pen_text *why);
void pen__filter_forward(const struct pen__filter *filter,
                         const struct pen__pass *pass, const void *x, void *y);

/* Turns dy into dx, which may be NULL, and the gradient of the raw output. */
void pen__filter_backward_input(const struct pen__filter *filter,
                                const struct pen__pass *pass, const void *dy,
                                void *dx);
void pen__filter_backward_weight(const struct pen__filter *filter,
                                 const struct pen__pass *pass, const void *x,
                                 const void *dy);

/* The layers. On success *out is owned by the caller, the network. */
pen_status pen__image_convolution_create(const struct pen__image_place *place,
                                         struct pen__layer **out,
                                         struct pen_text *why);
pen_status pen__image_residual_create(const struct pen__image_place *place,
                                      struct pen__layer **out,
                                      struct pen_text *why);
pen_status pen__image_dense_create(const struct pen__image_place *place,
                                   struct pen__layer **out,
                                   struct pen_text *why);
pen_status pen__image_head_create(const struct pen__image_place *place,
                                  struct pen__layer **out,
                                  struct pen_text *why);

#endif
