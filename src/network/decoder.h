#ifndef PEN_NETWORK_DECODER_H
#define PEN_NETWORK_DECODER_H

#include "network/chain.h"

/* The layers of a decoder, and what its makers share. */

/* Sizes that every layer of a network agrees on. */
struct pen__shape {
    size_t rows; /* batch * sequence */
    size_t hidden;
    size_t element; /* bytes of an activation */
    size_t stat;    /* bytes of a statistic */
};

struct pen__shape pen__shape_of(const struct pen_network_options *options);

/*
 * The parameter that holds these parts of a layer, one behind the other. Parts
 * the model does not have are left out; NULL in *out when none is left, which
 * is no failure.
 */
pen_status pen__add_parameter(struct pen_network *network, uint32_t layer,
                              enum pen_parameter_use use,
                              const enum pen_part *parts, size_t count,
                              struct pen_parameter **out, struct pen_text *why);

/* The same for one part. */
pen_status pen__add_part(struct pen_network *network, uint32_t layer,
                         enum pen_parameter_use use, enum pen_part part,
                         struct pen_parameter **out, struct pen_text *why);

/* A norm over `rows` rows with the weights of these two parts. */
pen_status pen__add_norm(struct pen_network *network, uint32_t layer,
                         enum pen_part gain, enum pen_part bias, size_t rows,
                         struct pen_norm *out, struct pen_text *why);

/* A dense layer over all rows, made from these parts, and prepared. */
pen_status pen__add_linear(struct pen_network *network, uint32_t layer,
                           const enum pen_part *weights,
                           const enum pen_part *biases, size_t count,
                           struct pen_linear *out, struct pen_text *why);

/* The layers. On success *out is owned by the caller, the network. */
pen_status pen__embedding_create(struct pen_network *network, uint32_t layer,
                                 struct pen__layer **out, struct pen_text *why);
pen_status pen__block_create(struct pen_network *network, uint32_t layer,
                             struct pen__layer **out, struct pen_text *why);
pen_status pen__head_create(struct pen_network *network, uint32_t layer,
                            struct pen__layer **out, struct pen_text *why);

/*
 * Cosines and sines of all positions, [sequence][head_dim / 2] each, of the
 * stat type, as the tables of the network.
 */
pen_status pen__rotary_tables(struct pen_network *network);

#endif
