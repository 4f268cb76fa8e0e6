#include "sync/sparse.h"

#include "base/bug.h"
#include "base/clones.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADER_BYTES = 8,
    PAIR_BYTES = sizeof(float) + sizeof(uint32_t),
    PART = 16384 /* floats that are delivered together */
};

size_t pen_sparse_picked(double ratio, size_t count)
{
    double wanted = ratio * (double)count + 0.5;
    size_t picked = wanted < (double)count ? (size_t)wanted : count;
    return picked > 0 || count == 0 ? picked : 1;
}

static size_t num_pairs(const struct pen_compression *setting, double ratio)
{
    size_t sum = 0;
    for (size_t i = 0; i < setting->num_tensors; i++)
        sum += pen_sparse_picked(ratio, setting->tensors[i].count);
    return sum;
}

size_t pen_sparse_length(const struct pen_compression *setting, double ratio)
{
    return num_pairs(setting, ratio) * PAIR_BYTES;
}

/* Keys of the tensor that needs most of them. */
static size_t largest_room(const struct pen_compression *setting, double ratio)
{
    size_t most = 1;
    for (size_t i = 0; i < setting->num_tensors; i++) {
        size_t count = setting->tensors[i].count;
        size_t room = pen_largest_room(count, pen_sparse_picked(ratio, count));
        most = room > most ? room : most;
    }
    return most;
}

pen_status pen_sparse_init(struct pen_sparse *sparse,
                           const struct pen_compression *setting, double ratio)
{
    *sparse = (struct pen_sparse){.setting = *setting,
                                  .most = num_pairs(setting, ratio)};
    sparse->sent = calloc(sparse->most + 1, PAIR_BYTES);
    sparse->cursors = calloc(setting->peers->size, sizeof *sparse->cursors);
    if (sparse->sent != NULL && sparse->cursors != NULL &&
        pen_largest_init(&sparse->largest, largest_room(setting, ratio)) ==
            PEN_OK)
        return PEN_OK;
    pen_sparse_release(sparse);
    return PEN_NOMEM;
}

void pen_sparse_release(struct pen_sparse *sparse)
{
    pen_largest_release(&sparse->largest);
    free(sparse->sent);
    free(sparse->cursors);
    sparse->sent = NULL;
    sparse->cursors = NULL;
}

size_t pen_sparse_bytes(const struct pen_sparse *sparse)
{
    return sparse->most * PAIR_BYTES +
           2 * sparse->largest.room * sizeof(uint64_t);
}

/*
 * Returns the time of picking, in passes over the vector. Measured:
 * bench/compress.
 */
static double picking_passes(double ratio)
{
    return fmin(20 * ratio, 4);
}

void pen_sparse_cost(const struct pen_sync_case *of, double ratio, double most,
                     double passes, struct pen_mean_cost *out)
{
    double pairs = 0, most_pairs = 0, room = 0;
    for (size_t i = 0; i < of->num_shapes; i++) {
        size_t count = of->shapes[i][0] * of->shapes[i][1];
        size_t picked = pen_sparse_picked(most, count);
        double needed = (double)pen_largest_room(count, picked);
        pairs += (double)pen_sparse_picked(ratio, count);
        most_pairs += (double)picked;
        room = needed > room ? needed : room;
    }
    /* Messages lie here, and in the collective for both directions. */
    double copies = 1 + 2.0 * of->num_replicas;
    out->bytes = (of->num_replicas - 1.0) * (pairs * PAIR_BYTES + HEADER_BYTES);
    out->legs = of->num_replicas > 1 ? 1 : 0;
    out->extra = most_pairs * PAIR_BYTES * copies + 2 * room * sizeof(uint64_t);
    out->encode_sec = (passes + picking_passes(ratio)) * of->num_weights *
                      sizeof(float) / of->core_bytes_per_sec;
}

/* ---- encode ---- */

/* A tensor of what is given, and of what waits. */
struct fold {
    const float *given;
    float *values;
    float *velocity;
    float momentum;
};

PEN_CLONES static void fold_velocity(const float *restrict given, float mu,
                                     float *restrict velocity,
                                     float *restrict values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        velocity[i] = mu * velocity[i] + given[i];
        values[i] += velocity[i];
    }
}

static void fold(void *context, size_t first, size_t count)
{
    const struct fold *it = context;
    if (it->velocity == NULL)
        pen_add_floats(it->values + first, it->given + first, count);
    else
        fold_velocity(it->given + first, it->momentum, it->velocity + first,
                      it->values + first, count);
}

static float peek(void *context, size_t place)
{
    const struct fold *it = context;
    float velocity = it->velocity == NULL ? 0 : it->velocity[place];
    return it->values[place] + (it->momentum * velocity + it->given[place]);
}

static void pick(struct pen_sparse *sparse, struct fold *it, size_t count,
                 size_t picked, float *sent, uint32_t *places)
{
    struct pen_largest_source source = {it->values, count, fold, peek, it};
    pen_largest_find(&sparse->largest, &source, picked, places);
    for (size_t j = 0; j < picked; j++) {
        sent[j] = it->values[places[j]];
        it->values[places[j]] = 0;
        if (it->velocity != NULL)
            it->velocity[places[j]] = 0;
    }
}

void pen_sparse_encode(struct pen_sparse *sparse, double ratio,
                       const float *given,
                       const struct pen_sparse_waiting *waiting,
                       struct pen_round *out)
{
    const struct pen_compression *setting = &sparse->setting;
    size_t pairs = num_pairs(setting, ratio);
    float *sent = sparse->sent;
    uint32_t *places = (uint32_t *)(sent + pairs);
    PEN_BUG_UNLESS(pairs <= sparse->most);
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *tensor = &setting->tensors[i];
        size_t first = tensor->first - setting->base;
        size_t picked = pen_sparse_picked(ratio, tensor->count);
        struct fold it = {given + first, waiting->values + first, NULL,
                          waiting->momentum};
        if (waiting->velocity != NULL)
            it.velocity = waiting->velocity + first;
        if (picked > 0)
            pick(sparse, &it, tensor->count, picked, sent, places);
        sent += picked;
        places += picked;
    }
    *out = (struct pen_round){.kind = PEN_ROUND_GATHER,
                              .bytes = sparse->sent,
                              .length = pairs * PAIR_BYTES};
}

/* ---- decode ---- */

/* Pairs of a tensor in the message of a member, of which `cursor` are done. */
struct pairs {
    const float *values;
    const uint32_t *places;
    size_t count;
    size_t cursor;
};

/* Adds those before `end`. Returns the cursor. */
static size_t add_pairs(const struct pairs *pairs, size_t end, float share,
                        float *tensor)
{
    size_t j = pairs->cursor;
    for (; j < pairs->count && pairs->places[j] < end; j++)
        tensor[pairs->places[j]] += share * pairs->values[j];
    return j;
}

/* Adds one tensor, part by part; its pairs come after `before` others. */
static void deliver(struct pen_sparse *sparse, size_t num_pairs, size_t before,
                    size_t picked, const struct pen_collective *received,
                    size_t count, float *tensor)
{
    uint32_t size = sparse->setting.peers->size;
    size_t length;
    memset(sparse->cursors, 0, size * sizeof *sparse->cursors);
    for (size_t first = 0; first < count; first += PART) {
        size_t end = count - first < PART ? count : first + PART;
        memset(tensor + first, 0, (end - first) * sizeof *tensor);
        for (uint32_t k = 0; k < size; k++) {
            const float *values = pen_collective_received(received, k, &length);
            PEN_BUG_UNLESS(length == num_pairs * PAIR_BYTES);
            struct pairs pairs = {values + before,
                                  (const uint32_t *)(values + num_pairs) +
                                      before,
                                  picked, sparse->cursors[k]};
            sparse->cursors[k] =
                add_pairs(&pairs, end, 1.0f / (float)size, tensor);
        }
    }
}

void pen_sparse_decode(struct pen_sparse *sparse, double ratio,
                       const struct pen_collective *received, float *vector)
{
    const struct pen_compression *setting = &sparse->setting;
    size_t all = num_pairs(setting, ratio), before = 0;
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *tensor = &setting->tensors[i];
        size_t picked = pen_sparse_picked(ratio, tensor->count);
        deliver(sparse, all, before, picked, received, tensor->count,
                vector + (tensor->first - setting->base));
        before += picked;
    }
}

bool pen_sparse_add(const struct pen_sparse *sparse, double ratio,
                    const void *message, float share, float *vector)
{
    const struct pen_compression *setting = &sparse->setting;
    const float *values = message;
    const uint32_t *places =
        (const uint32_t *)(values + num_pairs(setting, ratio));
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *tensor = &setting->tensors[i];
        float *to = vector + (tensor->first - setting->base);
        size_t picked = pen_sparse_picked(ratio, tensor->count);
        for (size_t j = 0; j < picked; j++) {
            if (places[j] >= tensor->count)
                return false;
            to[places[j]] += share * values[j];
        }
        values += picked;
        places += picked;
    }
    return true;
}
