#ifndef PEN_CORE_TALLY_H
#define PEN_CORE_TALLY_H

#include "core/tensor_piece.h"

#include <stdint.h>

/*
 * Sums over all numbers of a tensor, added piece by piece. Sums are exact and
 * the hash is a sum of one number per element, so that the result does not
 * depend on how a tensor is cut, which rank adds which piece, or in which
 * order: every layout that computes the same tensor gets the same tally.
 *
 * Every element must be added once. A piece that several ranks hold is added
 * by one of them.
 *
 * Element i of the whole tensor has the place p(i) = next(i), where next(s) is
 * the number that pen_random_next() draws from the state s. The hash is the sum
 * of next(p(i) ^ bits of the float) modulo 2^64. Sketch j is the sum of all
 * elements, those negative where bit j of p(i) is 1. The difference of a sketch
 * between two tensors is, on the average of its square, the norm of their
 * difference: sketches show how far two tensors are apart, where norm and sum
 * of a permuted tensor would be equal.
 */
#define PEN_TALLY_SKETCHES 8

/* Digits of base 2^32, of which neighbours overlap until they are settled. The
 * lowest bit of a float is 2^-149, that of its square 2^-298. */
#define PEN_TALLY_DIGITS 12
#define PEN_TALLY_SQUARE_DIGITS 22

struct pen_tally {
    uint64_t count;     /* of all elements */
    uint64_t nonfinite; /* of those that are in no sum */
    uint64_t hash;
    float max; /* magnitude */
    int64_t sum[PEN_TALLY_DIGITS];
    int64_t sketch[PEN_TALLY_SKETCHES][PEN_TALLY_DIGITS];
    int64_t squares[PEN_TALLY_SQUARE_DIGITS];
};

/*
 * Adds a piece to a tally, which is zeroed at first. `numbers` has the piece
 * densely, row by row.
 */
void pen_tally_add(struct pen_tally *tally,
                   const struct pen_tensor_piece *whole,
                   const struct pen_tensor_piece *piece, const float *numbers);
void pen_tally_join(struct pen_tally *tally, const struct pen_tally *other);

/* The sums as doubles, which follow from the exact ones alone. */
struct pen_tally_result {
    uint64_t count;
    uint64_t nonfinite;
    uint64_t hash;
    double norm;
    double sum;
    double max;
    double sketch[PEN_TALLY_SKETCHES];
};

void pen_tally_read(const struct pen_tally *tally,
                    struct pen_tally_result *out);

#endif
