/*
 * Bisection on the seconds of the slowest part. For one bound, from the last
 * part to the first, all layers are marked from which this part and the parts
 * after it can take the remaining layers:
 *
 *   can(j, b)  if some e in b+1..last(j, b) has can(j + 1, e)
 *
 * where last(j, b), the last end that the bound and the bytes of the part allow
 * it, never falls with b: one walk per part. With the least bound each part
 * then ends, among the ends that leave the others a way, where it has its share
 * of what is left.
 */
#include "planner/chain_cut.h"

#include <stdbool.h>
#include <stdlib.h>

/*
 * How near the search comes to the least bound. Long chains in many parts would
 * take long: they are cut between pieces of several layers.
 */
#define NEAR 1e-9
#define NEAR_IF_LARGE 1e-3
#define LARGE ((size_t)1 << 18)

struct work {
    const struct pen__chain_cut *chain;
    uint32_t piece;      /* layers that stay together */
    uint32_t num_pieces; /* of all layers; the last may be smaller */
    uint32_t *next; /* per part and piece: the next end that leaves a way */
    size_t width;   /* pieces and two more */
};

/* The first layer of a piece. */
static uint32_t layer_of(const struct work *work, uint32_t piece)
{
    uint64_t layer = (uint64_t)piece * work->piece;
    return layer < work->chain->num_layers ? (uint32_t)layer
                                           : work->chain->num_layers;
}

static const double *row_of(const struct pen__chain_cut *chain, uint32_t part)
{
    return &chain->sums[(size_t)chain->rows[part] * (chain->num_layers + 1)];
}

/* Whether a part may have these pieces. */
static bool is_allowed(const struct work *work, uint32_t part,
                       uint32_t first_piece, uint32_t end_piece, double bound)
{
    const struct pen__chain_cut *chain = work->chain;
    const double *row = row_of(chain, part);
    uint32_t begin = layer_of(work, first_piece);
    uint32_t end = layer_of(work, end_piece);
    if (row[end] - row[begin] > bound)
        return false;
    return chain->bytes == NULL ||
           chain->bytes[end] - chain->bytes[begin] <= chain->limits[part];
}

/* The ends of a part from this piece on; num_pieces + 1: there is none. */
static uint32_t *ends_of(const struct work *work, uint32_t part)
{
    return &work->next[part * work->width];
}

/* Marks the pieces where a part may begin, as ends of the part before. */
static void mark_begins(const struct work *work, uint32_t part, double bound,
                        uint32_t *begins)
{
    const uint32_t *ends = ends_of(work, part);
    uint32_t last = work->num_pieces;
    begins[last + 1] = last + 1;
    begins[last] = last + 1;
    for (uint32_t begin = last; begin-- > 0;) {
        while (last > begin && !is_allowed(work, part, begin, last, bound))
            last--;
        bool can = ends[begin + 1] <= last;
        begins[begin] = can ? begin : begins[begin + 1];
    }
}

/* Whether there is a cut with no part slower than the bound. */
static bool can_keep(const struct work *work, double bound, uint32_t *starts)
{
    const struct pen__chain_cut *chain = work->chain;
    uint32_t *ends = ends_of(work, chain->num_parts - 1);
    for (uint32_t i = 0; i <= work->num_pieces; i++)
        ends[i] = work->num_pieces;
    ends[work->num_pieces + 1] = work->num_pieces + 1;
    for (uint32_t part = chain->num_parts; part-- > 0;)
        mark_begins(work, part, bound,
                    part == 0 ? starts : ends_of(work, part - 1));
    return starts[0] == 0;
}

/* The slowness of a part's device: its seconds for the whole chain. */
static double slowness(const struct pen__chain_cut *chain, uint32_t part)
{
    double all = row_of(chain, part)[chain->num_layers];
    return all > 0 ? all : 1;
}

static double all_speeds(const struct pen__chain_cut *chain)
{
    double speed = 0;
    for (uint32_t part = 0; part < chain->num_parts; part++)
        speed += 1 / slowness(chain, part);
    return speed;
}

/* The least bound that can be kept; negative: none. */
static double find_bound(const struct work *work, uint32_t *starts)
{
    const struct pen__chain_cut *chain = work->chain;
    double most = 0;
    for (uint32_t part = 0; part < chain->num_parts; part++) {
        double all = row_of(chain, part)[chain->num_layers];
        most = all > most ? all : most;
    }
    if (!can_keep(work, most, starts))
        return -1;
    double low = 0;
    /* If layers could be split, all parts would take this long. */
    double high = 1.05 / all_speeds(chain);
    while (high < most && !can_keep(work, high, starts)) {
        low = high;
        high *= 1.5;
    }
    high = high < most ? high : most;
    double near = work->piece > 1 ? NEAR_IF_LARGE : NEAR;
    while (high - low > near * high) {
        double middle = (low + high) / 2;
        if (can_keep(work, middle, starts))
            high = middle;
        else
            low = middle;
    }
    can_keep(work, high, starts);
    return high;
}

/* The end that comes nearest to a share of what is left, of those allowed. */
static uint32_t choose_end(const struct work *work, uint32_t part,
                           uint32_t begin, double bound, double share)
{
    const double *row = row_of(work->chain, part);
    const uint32_t *ends = ends_of(work, part);
    uint32_t best = ends[begin + 1];
    for (uint32_t end = best;
         end <= work->num_pieces && is_allowed(work, part, begin, end, bound);
         end = ends[end + 1]) {
        best = end;
        if (row[layer_of(work, end)] - row[layer_of(work, begin)] >= share)
            break;
    }
    return best;
}

static void fill_counts(const struct work *work, double bound, uint32_t *counts)
{
    const struct pen__chain_cut *chain = work->chain;
    double speed_left = all_speeds(chain);
    uint32_t at = 0;
    for (uint32_t part = 0; part < chain->num_parts; part++) {
        const double *row = row_of(chain, part);
        double left = row[chain->num_layers] - row[layer_of(work, at)];
        double share = left / slowness(chain, part) / speed_left;
        uint32_t end = choose_end(work, part, at, bound, share);
        speed_left -= 1 / slowness(chain, part);
        counts[part] = layer_of(work, end) - layer_of(work, at);
        at = end;
    }
}

/* As many layers as keep the work small, and leave each part two pieces. */
static uint32_t choose_piece(const struct pen__chain_cut *chain)
{
    size_t cells = (size_t)chain->num_layers * chain->num_parts;
    size_t piece = (cells + LARGE - 1) / LARGE;
    size_t most = chain->num_layers / (2 * (size_t)chain->num_parts);
    piece = piece < most ? piece : most;
    return piece > 1 ? (uint32_t)piece : 1;
}

pen_status pen__chain_cut(const struct pen__chain_cut *chain, uint32_t *counts,
                          struct pen_text *why)
{
    struct work work = {.chain = chain, .piece = choose_piece(chain)};
    work.num_pieces = (chain->num_layers + work.piece - 1) / work.piece;
    work.width = (size_t)work.num_pieces + 2;
    uint32_t *starts = calloc(work.width, sizeof *starts);
    work.next = calloc(work.width * chain->num_parts, sizeof *work.next);
    pen_status status = PEN_NOMEM;
    if (starts == NULL || work.next == NULL) {
        pen_why(why, "no memory to cut %u layers", chain->num_layers);
    } else {
        double bound = find_bound(&work, starts);
        status = bound < 0 ? PEN_INFEASIBLE : PEN_OK;
        if (status == PEN_OK)
            fill_counts(&work, bound, counts);
        else
            pen_why(why, "no cut of %u layers into %u stages fits into memory",
                    chain->num_layers, chain->num_parts);
    }
    free(starts);
    free(work.next);
    return status;
}
