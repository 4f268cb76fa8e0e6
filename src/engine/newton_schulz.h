#ifndef PEN_ENGINE_NEWTON_SCHULZ_H
#define PEN_ENGINE_NEWTON_SCHULZ_H

#include <stddef.h>

/*
 * The matrix sign that Muon steps with (Jordan, 2024; torch.optim.Muon): a
 * matrix X, divided by its norm, becomes
 *
 *   A = X X^T,   X <- a X + (b A + c A A) X
 *
 * five times, which brings its singular values near 1. For a matrix with more
 * rows than columns A is X^T X and multiplies from the right: A is the smaller
 * of the two. Engines compute all of it in the master type; torch rounds to
 * bf16.
 */
#define PEN_NEWTON_SCHULZ_A 3.4445
#define PEN_NEWTON_SCHULZ_B (-4.7750)
#define PEN_NEWTON_SCHULZ_C 2.0315
#define PEN_NEWTON_SCHULZ_EPSILON 1e-7 /* the least norm to divide by */

enum { PEN_NEWTON_SCHULZ_STEPS = 5 };

/* Elements of scratch: X twice, A, and b A + c A A. */
static inline size_t pen_newton_schulz_scratch(size_t rows, size_t columns)
{
    size_t side = rows < columns ? rows : columns;
    return 2 * rows * columns + 2 * side * side;
}

/* The matrix, and A, which is the smaller of X X^T and X^T X. */
struct pen_newton_schulz_room {
    size_t rows;
    size_t columns;
    size_t side; /* of A */
    float *x;
    float *next;
    float *a;
    float *update; /* b A + c A A */
};

static inline struct pen_newton_schulz_room
pen_newton_schulz_room_of(float *scratch, size_t rows, size_t columns)
{
    size_t count = rows * columns;
    size_t side = rows < columns ? rows : columns;
    return (struct pen_newton_schulz_room){.rows = rows,
                                           .columns = columns,
                                           .side = side,
                                           .x = scratch,
                                           .next = scratch + count,
                                           .a = scratch + 2 * count,
                                           .update = scratch + 2 * count +
                                                     side * side};
}

#endif
