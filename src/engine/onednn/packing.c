/*
 * The library's matrix product (dnnl_sgemm, and what the primitives called
 * gemm stand on) copies blocks of both operands into buffers that it allocates
 * and frees in every call; nobody can hand it one. Column-major, as it thinks:
 *
 *            depth                  384 columns at most
 *          +-------+             +-----+
 *          |       |       depth |  B  |  one per thread
 *     rows |   A   |             +-----+
 *          |       |  one for all threads of a large product, with 9984 rows
 *          +-------+  for each of them (of ten threads) at most
 *
 * Otherwise threads share the columns, each with an A of its own; where its B
 * is a single block, A goes through a few rows at a time. Products of floats
 * with few rows or columns are not copied at all, unless rows lie apart by a
 * distance that caches dislike. Sizes and choices are those for AVX-512; other
 * processors have less depth.
 */
#include "engine/onednn/onednn.h"

enum {
    MOST_ROWS = 9984,
    MOST_COLUMNS = 384,
    MOST_SHARERS = 10,
    SHARED_ROWS = 1000, /* at least, */
    SHARED_FLOATS = 96, /* and so many columns for each thread */
    SHARED_HALVES = 68, /* likewise */
    DEPTH_BYTES = 1536,
    SHALLOW = 384,
    BAD_DISTANCE = 256, /* of rows, in floats, and its multiples */
    WORST_DISTANCE = 1024,
    LARGE_SIDE = 378, /* for each thread */
    SMALL_SIDE = 28   /* likewise */
};

#define MOST_SHARE_OF_COPIES 0.00196 /* of rows * columns, to copy a and b */

static size_t at_most(size_t number, size_t limit)
{
    return number < limit ? number : limit;
}

/* Up to two blocks there are two halves, unless it is shallow. */
static size_t depth_of(size_t inner, size_t unit)
{
    size_t most = DEPTH_BYTES / unit;
    if (inner <= SHALLOW)
        return inner;
    return inner < 2 * most ? (inner + 1) / 2 : most;
}

static size_t rows_of_a(size_t threads, size_t unit, size_t rows,
                        size_t columns)
{
    size_t least = unit == sizeof(float) ? SHARED_FLOATS : SHARED_HALVES;
    if (threads > 1 && rows >= SHARED_ROWS && columns >= threads * least)
        return at_most(rows, at_most(threads, MOST_SHARERS) * MOST_ROWS);
    if (columns <= threads * MOST_COLUMNS)
        return 0;
    return threads * at_most(rows, MOST_ROWS);
}

void pen__packing_note(struct pen__onednn *self, size_t unit, size_t rows,
                       size_t columns, size_t inner)
{
    size_t threads = (size_t)self->engine.threads;
    size_t of_a = rows_of_a(threads, unit, rows, columns);
    size_t of_b = at_most(columns, threads * MOST_COLUMNS);
    size_t bytes = (of_a + of_b) * depth_of(inner, unit) * unit;
    if (bytes > self->packing_bytes)
        self->packing_bytes = bytes;
}

static bool is_multiple(size_t distance, size_t of)
{
    return distance % of == 0;
}

/* What the library copies although the copies are a large part of the work. */
static bool is_copied_anyway(const struct pen__sgemm *of, size_t threads)
{
    if (!of->is_b_turned && of->is_a_turned)
        return threads == 1 && of->rows > 100 &&
               ((of->rows < 1200 && of->columns < 200 && of->inner < 1200) ||
                (is_multiple(of->a_distance, BAD_DISTANCE) &&
                 is_multiple(of->b_distance, BAD_DISTANCE)));
    if (!is_multiple(of->a_distance, WORST_DISTANCE) || of->is_a_turned)
        return false;
    return of->is_b_turned ||
           (threads <= 8 && of->inner > 500 && of->columns > 100);
}

static bool is_copied(const struct pen__sgemm *of, size_t threads)
{
    double rows = (double)of->rows;
    double columns = (double)of->columns;
    if (is_copied_anyway(of, threads))
        return true;
    if (1 / rows + 1 / columns >= MOST_SHARE_OF_COPIES)
        return false;
    if (is_multiple(of->a_distance, BAD_DISTANCE) ||
        is_multiple(of->b_distance, BAD_DISTANCE) ||
        is_multiple(of->rows, BAD_DISTANCE))
        return true;
    if (of->rows >= threads * LARGE_SIDE && of->inner >= threads * LARGE_SIDE)
        return true;
    bool is_flat = of->rows <= threads * SMALL_SIDE &&
                   (!of->is_b_turned || of->rows >= of->columns);
    return !is_flat && of->columns > threads * SMALL_SIDE &&
           of->inner > threads;
}

void pen__packing_note_floats(struct pen__onednn *self,
                              const struct pen__sgemm *of)
{
    if (is_copied(of, (size_t)self->engine.threads))
        pen__packing_note(self, sizeof(float), of->rows, of->columns,
                          of->inner);
}
