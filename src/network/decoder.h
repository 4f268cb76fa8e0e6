#ifndef PEN_NETWORK_DECODER_H
#define PEN_NETWORK_DECODER_H

#include "network/chain.h"

/* The layers of a decoder, and what its makers share. */

/* Sizes that every layer of a network agrees on. */
struct pen__shape {
    size_t rows;     /* of a pass: all its chunks */
    size_t own_rows; /* of these, between products that are cut */
    size_t hidden;
    size_t element; /* bytes of an activation */
    size_t stat;    /* bytes of a statistic */
};

struct pen__shape pen__shape_of(const struct pen_network_options *options);

/* Tokens of a sequence in one chunk of a pass (layer.h), and rows of it. */
size_t pen__chunk_tokens(const struct pen_network_options *options);
size_t pen__chunk_rows(const struct pen_network_options *options);

/*
 * The share that a piece has of the weight of a dense layer (network.h,
 * pen_tensor_share): some outputs, with their biases; or some inputs, and then
 * the first piece has all biases.
 */
enum pen__side { PEN__ALL, PEN__OUTPUTS, PEN__INPUTS };

struct pen__cut {
    enum pen__side side;
    size_t first;
    size_t count;
};

/* Piece `piece` of `total` equal ones. */
struct pen__cut pen__cut_equally(enum pen__side side, size_t size,
                                 uint32_t piece, uint32_t total);

/* Words of a piece; the last one may have fewer. */
struct pen__cut pen__cut_words(const struct pen_network_options *options,
                               uint32_t piece);

struct pen__part {
    enum pen_part part;
    struct pen__cut cut;
};

/*
 * The parameter that holds these parts of a layer, one after the other. Parts
 * that the model does not have are left out; *out is NULL, and the status OK,
 * when none is left.
 */
pen_status pen__add_parameter(struct pen_network *network, uint32_t layer,
                              enum pen_parameter_use use,
                              const struct pen__part *parts, size_t count,
                              struct pen_parameter **out, struct pen_text *why);

/* The same for one part that is not cut. */
pen_status pen__add_part(struct pen_network *network, uint32_t layer,
                         enum pen_parameter_use use, enum pen_part part,
                         struct pen_parameter **out, struct pen_text *why);

/* A norm over `rows` rows with the weights of these two parts. */
pen_status pen__add_norm(struct pen_network *network, uint32_t layer,
                         enum pen_part gain, enum pen_part bias, size_t rows,
                         struct pen_norm *out, struct pen_text *why);

/* A weight and its bias, cut alike. */
struct pen__dense {
    enum pen_part weight;
    enum pen_part bias;
    struct pen__cut cut;
};

/* A dense layer over all rows, made from these parts, and prepared. */
pen_status pen__add_linear(struct pen_network *network, uint32_t layer,
                           const struct pen__dense *parts, size_t count,
                           struct pen_linear *out, struct pen_text *why);

/* The layers. On success *out is owned by the caller, the network. */
pen_status pen__embedding_create(struct pen_network *network, uint32_t layer,
                                 struct pen__layer **out, struct pen_text *why);
pen_status pen__block_create(struct pen_network *network, uint32_t layer,
                             struct pen__layer **out, struct pen_text *why);
/* Also makes the head in the middle of a block that has one. */
pen_status pen__head_create(struct pen_network *network, uint32_t layer,
                            struct pen__layer **out, struct pen_text *why);

/*
 * Adds a head in the middle to a block that is there: *layer becomes both,
 * and owns the block. On failure *layer is untouched. See local.c.
 */
pen_status pen__local_head_add(struct pen_network *network, uint32_t number,
                               struct pen__layer **layer, struct pen_text *why);

/*
 * Cosines and sines of all positions, [sequence][rotary size / 2] each, of the
 * stat type, as the tables of the network.
 */
pen_status pen__rotary_tables(struct pen_network *network);

/* Numbers of a head that turn, and what scores are multiplied by. */
size_t pen__rotary_size(const struct pen_model *model);
double pen__attention_scale(const struct pen_model *model);

#endif
