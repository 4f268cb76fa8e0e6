/*
 * The library's matrix product (dnnl_sgemm, and what the primitives called
 * gemm stand on) copies blocks of both operands into buffers that it allocates
 * and frees in every call; nobody can hand it one. Column-major, as it thinks:
 *
 *            depth                  384 columns at most
 *          +-------+             +-----+
 *          |       |       depth |  B  |  one per thread
 *     rows |   A   |             +-----+
 *          |       |  one for all threads, with 9984 rows for each
 *          +-------+  of them (of ten threads) at most
 *
 * Where B is a single block, A goes through a few rows at a time. The sizes are
 * those for AVX-512; other processors have less depth.
 */
#include "engine/onednn/onednn.h"

enum {
    MOST_ROWS = 9984,
    MOST_COLUMNS = 384,
    MOST_SHARERS = 10,
    LEAST_DEPTH = 128,
    DEPTH_BYTES = 1536
};

static size_t at_most(size_t number, size_t limit)
{
    return number < limit ? number : limit;
}

/* Between one and two blocks there are two halves. */
static size_t depth_of(size_t inner, size_t unit)
{
    size_t most = DEPTH_BYTES / unit;
    if (inner <= most)
        return inner < LEAST_DEPTH ? LEAST_DEPTH : inner;
    return inner < 2 * most ? (inner + 1) / 2 : most;
}

void pen__packing_note(struct pen__onednn *self, size_t unit, size_t rows,
                       size_t columns, size_t inner)
{
    size_t threads = (size_t)self->engine.threads;
    size_t of_a =
        columns <= MOST_COLUMNS
            ? 0
            : at_most(rows, at_most(threads, MOST_SHARERS) * MOST_ROWS);
    size_t of_b = at_most(columns, threads * MOST_COLUMNS);
    size_t bytes = (of_a + of_b) * depth_of(inner, unit) * unit;
    if (bytes > self->packing_bytes)
        self->packing_bytes = bytes;
}
