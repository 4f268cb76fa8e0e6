/*
 * The library's matrix product (dnnl_sgemm, on which the primitives called gemm
 * are built) copies blocks of both operands into buffers that it allocates and
 * frees in every call; a caller cannot supply them. Column-major, as in the
 * library:
 *
 *            depth                  384 columns at most
 *          +-------+             +-----+
 *          |       |       depth |  B  |  one per thread
 *     rows |   A   |             +-----+
 *          |       |  one for all threads of a large product, with 9984 rows
 *          +-------+  for each of them (of ten threads) at most
 *
 * Otherwise threads share the columns, each with an A of its own followed by B;
 * where B is a single block, A goes through a strip of it, and the rest is not
 * touched. Products of floats with few rows or columns are not copied at all,
 * unless rows lie apart by a distance that caches dislike. Sizes and choices
 * are those for AVX-512; other processors have less depth.
 *
 * malloc() keeps the memory that a thread frees, and gives the next product the
 * same place: memory that one product touches stays for the others, so pieces
 * are added up.
 */
#include "engine/onednn/onednn.h"

enum {
    MOST_ROWS = 9984,
    MOST_COLUMNS = 384,
    MOST_SHARERS = 10,
    STRIP_ROWS = 48,
    SHARED_ROWS = 1000, /* at least, */
    SHARED_FLOATS = 96, /* at least this many columns for each thread */
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

/*
 * The depth of a block. A depth of up to two blocks is halved, unless it is
 * shallow.
 */
static size_t depth_of(size_t inner, size_t unit)
{
    size_t most = DEPTH_BYTES / unit;
    if (inner <= SHALLOW)
        return inner;
    return inner < 2 * most ? (inner + 1) / 2 : most;
}

/* Pieces that it meets become one with it. */
static void touch(struct pen__touched *of, size_t begin, size_t end)
{
    int kept = 0;
    for (int i = 0; i < of->count; i++) {
        struct pen__piece piece = of->pieces[i];
        bool is_last_place = kept + 1 == PEN__MAX_PIECES;
        if (is_last_place || (piece.begin <= end && begin <= piece.end)) {
            begin = piece.begin < begin ? piece.begin : begin;
            end = piece.end > end ? piece.end : end;
        } else {
            of->pieces[kept++] = piece;
        }
    }
    of->pieces[kept] = (struct pen__piece){begin, end};
    of->count = kept + 1;
}

static size_t bytes_of(const struct pen__touched *touched)
{
    size_t sum = 0;
    for (int i = 0; i < touched->count; i++)
        sum += touched->pieces[i].end - touched->pieces[i].begin;
    return sum;
}

void pen__packing_note(struct pen__onednn *self, size_t unit, size_t rows,
                       size_t columns, size_t inner)
{
    size_t threads = (size_t)self->engine.threads;
    size_t least = unit == sizeof(float) ? SHARED_FLOATS : SHARED_HALVES;
    size_t depth = depth_of(inner, unit) * unit;
    size_t share = (columns + threads - 1) / threads;
    size_t b = at_most(share, MOST_COLUMNS) * depth;
    if (threads > 1 && rows >= SHARED_ROWS && columns >= threads * least) {
        size_t most = at_most(threads, MOST_SHARERS) * MOST_ROWS;
        touch(&self->packed_by_first, 0, at_most(rows, most) * depth + b);
        touch(&self->packed_by_other, 0, b);
        return;
    }
    size_t a = at_most(rows, MOST_ROWS) * depth;
    size_t strip = share > MOST_COLUMNS ? a : at_most(a, STRIP_ROWS * depth);
    touch(&self->packed_by_first, 0, strip);
    touch(&self->packed_by_first, a, a + b);
    touch(&self->packed_by_other, 0, strip);
    touch(&self->packed_by_other, a, a + b);
}

size_t pen__packing_bytes(const struct pen__onednn *self)
{
    return bytes_of(&self->packed_by_first) +
           (size_t)(self->engine.threads - 1) *
               bytes_of(&self->packed_by_other);
}

static bool is_multiple(size_t distance, size_t of)
{
    return distance % of == 0;
}

/* The distance from column to column as they are stored. */
static size_t a_distance(const struct pen__sgemm *of)
{
    return of->is_a_turned ? of->inner : of->rows;
}

static size_t b_distance(const struct pen__sgemm *of)
{
    return of->is_b_turned ? of->columns : of->inner;
}

/*
 * Returns whether the library copies although the copies are a large part of
 * the work.
 */
static bool is_copied_anyway(const struct pen__sgemm *of, size_t threads)
{
    if (!of->is_b_turned && of->is_a_turned)
        return threads == 1 && of->rows > 100 &&
               ((of->rows < 1200 && of->columns < 200 && of->inner < 1200) ||
                (is_multiple(a_distance(of), BAD_DISTANCE) &&
                 is_multiple(b_distance(of), BAD_DISTANCE)));
    if (!is_multiple(a_distance(of), WORST_DISTANCE) || of->is_a_turned)
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
    if (is_multiple(a_distance(of), BAD_DISTANCE) ||
        is_multiple(b_distance(of), BAD_DISTANCE) ||
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
