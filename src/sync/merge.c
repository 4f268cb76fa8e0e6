#include "sync/merge.h"

#include "base/bug.h"
#include "base/clones.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- in one place ---- */

enum { PART = 256 }; /* floats that are merged together, of each level */

PEN_CLONES static void multiply(float *restrict out,
                                const float *restrict values, float factor,
                                size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = factor * values[i];
}

/*
 * Adds up the tree of n members: that of the largest power of two below n, plus
 * that of the rest.
 */
static void add_up(const struct pen_contribution *given, uint32_t num_given,
                   size_t first, size_t count, float *out)
{
    if (num_given == 1) {
        multiply(out, given->values + first, (float)given->weight, count);
        return;
    }
    uint32_t left = 1;
    while (2 * left < num_given)
        left *= 2;
    float right[PART];
    add_up(given, left, first, count, out);
    add_up(given + left, num_given - left, first, count, right);
    pen_add_floats(out, right, count);
}

static void sort(struct pen_contribution *given, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        struct pen_contribution it = given[i];
        uint32_t at = i;
        for (; at > 0 && given[at - 1].replica > it.replica; at--)
            given[at] = given[at - 1];
        given[at] = it;
    }
}

/* Moves those that count to the front. Returns how many they are. */
static uint32_t drop_left_out(struct pen_contribution *given, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        PEN_BUG_UNLESS(given[i].weight >= 0 && isfinite(given[i].weight));
        if (given[i].weight > 0)
            given[kept++] = given[i];
    }
    return kept;
}

/*
 * Weights as shares of the largest one: equal ones are 1, which changes no
 * number, and the sum of them is how many there are.
 */
void pen_merge(struct pen_contribution *given, uint32_t num_given, size_t count,
               float *out)
{
    double most = 0, sum = 0;
    sort(given, num_given);
    uint32_t num_kept = drop_left_out(given, num_given);
    PEN_BUG_UNLESS(num_kept > 0);
    for (uint32_t i = 0; i < num_kept; i++)
        most = fmax(most, given[i].weight);
    for (uint32_t i = 0; i < num_kept; i++) {
        given[i].weight /= most;
        sum += given[i].weight;
    }
    float share = 1.0f / (float)sum;
    for (size_t first = 0; first < count; first += PART) {
        size_t length = count - first < PART ? count - first : PART;
        float part[PART];
        add_up(given, num_kept, first, length, part);
        multiply(out + first, part, share, length);
    }
}

/* ---- between members ---- */

enum { SCATTER, GATHER, NUM_ROUNDS };

struct piece {
    double weight;
    float values[];
};

struct merging {
    struct pen_compression setting;
    double weight;
    unsigned char *pieces; /* of all members */
    const void **starts;
    size_t *lengths;
    struct pen_contribution *given;
    float *merged; /* the own share */
    size_t first;
    size_t share;
};

static size_t piece_bytes(size_t share)
{
    return (sizeof(struct piece) + share * sizeof(float) + 7) / 8 * 8;
}

static size_t longest_share(uint32_t size, size_t count)
{
    return (count + size - 1) / size;
}

/* Scatters have a weight in front of a share, gathers do not. */
static void cost(const struct pen_sync_case *of, struct pen_mean_cost *out)
{
    double size = of->num_replicas, others = size - 1;
    double share = ceil(of->num_weights / size) * sizeof(float);
    out->bytes = pen_collective_sum_bytes(of->num_replicas, of->num_weights) +
                 others * (2 * sizeof(uint64_t) + sizeof(double));
    out->legs = others > 0 ? 2 : 0;
    /* Here, and in the collective for both directions. */
    out->extra = of->num_weights * sizeof(float) + share + 2 * size * share;
}

static void sizes(const struct pen_compression *setting, size_t *sum,
                  size_t *gathered)
{
    *sum = 0;
    *gathered =
        piece_bytes(longest_share(setting->peers->size, setting->count));
}

static void release(void *state)
{
    struct merging *it = state;
    free(it->pieces);
    free(it->starts);
    free(it->lengths);
    free(it->given);
    free(it->merged);
    free(it);
}

static size_t all_pieces_bytes(const struct pen_compression *setting)
{
    size_t first, share, sum = 0;
    for (uint32_t k = 0; k < setting->peers->size; k++) {
        pen_sum_share(setting->peers->size, k, setting->count, &first, &share);
        sum += piece_bytes(share);
    }
    return sum;
}

static pen_status create(const struct pen_compression *setting, void **out,
                         struct pen_text *why)
{
    (void)why;
    uint32_t size = setting->peers->size;
    struct merging *it = calloc(1, sizeof *it);
    if (it == NULL)
        return PEN_NOMEM;
    it->setting = *setting;
    it->weight = 1;
    pen_sum_share(size, setting->peers->self, setting->count, &it->first,
                  &it->share);
    it->pieces = calloc(1, all_pieces_bytes(setting));
    it->starts = calloc(size, sizeof *it->starts);
    it->lengths = calloc(size, sizeof *it->lengths);
    it->given = calloc(size, sizeof *it->given);
    it->merged = calloc(it->share + 1, sizeof *it->merged);
    if (it->pieces == NULL || it->starts == NULL || it->lengths == NULL ||
        it->given == NULL || it->merged == NULL) {
        release(it);
        return PEN_NOMEM;
    }
    *out = it;
    return PEN_OK;
}

static size_t bytes(const void *state)
{
    const struct merging *it = state;
    return all_pieces_bytes(&it->setting) + it->share * sizeof(float);
}

static void write_pieces(struct merging *it, const float *vector)
{
    uint32_t size = it->setting.peers->size;
    unsigned char *at = it->pieces;
    for (uint32_t k = 0; k < size; k++) {
        struct piece *piece = (struct piece *)(void *)at;
        size_t first, share;
        pen_sum_share(size, k, it->setting.count, &first, &share);
        at += piece_bytes(share);
        piece->weight = it->weight;
        if (it->weight == 0)
            share = 0;
        memcpy(piece->values, vector + first, share * sizeof *vector);
        it->starts[k] = piece;
        it->lengths[k] = sizeof *piece + share * sizeof *vector;
    }
}

static void encode(void *state, uint32_t round, uint64_t step, float *vector,
                   struct pen_round *out)
{
    struct merging *it = state;
    (void)step;
    if (round == GATHER) {
        *out = (struct pen_round){.kind = PEN_ROUND_GATHER,
                                  .bytes = it->merged,
                                  .length = it->share * sizeof *it->merged};
        return;
    }
    write_pieces(it, vector);
    *out = (struct pen_round){.kind = PEN_ROUND_SCATTER,
                              .pieces = it->starts,
                              .lengths = it->lengths};
}

static void merge_share(struct merging *it,
                        const struct pen_collective *received)
{
    uint32_t size = it->setting.peers->size;
    double sum = 0;
    for (uint32_t k = 0; k < size; k++) {
        size_t length;
        const struct piece *piece =
            pen_collective_received(received, k, &length);
        size_t share = piece->weight == 0 ? 0 : it->share;
        PEN_BUG_UNLESS(length == sizeof *piece + share * sizeof(float));
        it->given[k] =
            (struct pen_contribution){k, piece->weight, piece->values};
        sum += piece->weight;
    }
    if (sum > 0)
        pen_merge(it->given, size, it->share, it->merged);
    else
        memset(it->merged, 0, it->share * sizeof *it->merged);
}

static void decode(void *state, uint32_t round, uint64_t step,
                   const struct pen_collective *received, float *vector)
{
    struct merging *it = state;
    uint32_t size = it->setting.peers->size;
    (void)step;
    if (round == SCATTER) {
        merge_share(it, received);
        return;
    }
    for (uint32_t k = 0; k < size; k++) {
        size_t first, share, length;
        const void *merged = pen_collective_received(received, k, &length);
        pen_sum_share(size, k, it->setting.count, &first, &share);
        PEN_BUG_UNLESS(length == share * sizeof *vector);
        memcpy(vector + first, merged, length);
    }
}

const struct pen_compressor pen_merging = {
    .name = "merge",
    .num_rounds = NUM_ROUNDS,
    .cost = cost,
    .sizes = sizes,
    .create = create,
    .free = release,
    .bytes = bytes,
    .encode = encode,
    .decode = decode,
};

void pen_merging_weigh(struct pen_average *average, double weight)
{
    struct merging *it = pen_average_state(average, &pen_merging);
    it->weight = weight;
}
