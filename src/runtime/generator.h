#ifndef PEN_RUNTIME_GENERATOR_H
#define PEN_RUNTIME_GENERATOR_H

#include "base/random.h"
#include "network/network.h"

/*
 * Continues a text token by token. Every token costs a forward pass over the
 * whole context: nothing is kept from one to the next.
 */
struct pen_text_generator;

struct pen_text_generator_options {
    struct pen_network *network; /* forward only, a batch of one; borrowed */
    double temperature;          /* 0: always the most likely token */
    double top_p; /* only the likeliest tokens that reach this share; 1: all */
    uint64_t seed;
};

/* On failure *out is untouched. */
pen_status
pen_text_generator_create(const struct pen_text_generator_options *options,
                          size_t sequence, struct pen_text_generator **out);
void pen_text_generator_free(struct pen_text_generator *generator);

/*
 * The token that follows these, of which the last `sequence` are seen. count
 * is at least 1 and all ids are in the vocabulary.
 */
uint32_t pen_text_generator_next(struct pen_text_generator *generator,
                                 const uint32_t *tokens, size_t count);

/*
 * Draws from logits, which are changed; `order` has room for as many entries.
 * Apart from the above for tests.
 */
uint32_t pen_text_generator_draw(float *logits, uint32_t *order, size_t count,
                                 double temperature, double top_p,
                                 struct pen_random *random);

#endif
