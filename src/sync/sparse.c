#include "sync/sparse.h"

#include "base/bug.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES = 8, PAIR_BYTES = sizeof(float) + sizeof(uint32_t) };

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
    if (sparse->sent == NULL)
        return PEN_NOMEM;
    pen_status status =
        pen_largest_init(&sparse->largest, largest_room(setting, ratio));
    if (status != PEN_OK)
        pen_sparse_release(sparse);
    return status;
}

void pen_sparse_release(struct pen_sparse *sparse)
{
    pen_largest_release(&sparse->largest);
    free(sparse->sent);
    sparse->sent = NULL;
}

size_t pen_sparse_bytes(const struct pen_sparse *sparse)
{
    return sparse->most * PAIR_BYTES +
           2 * sparse->largest.room * sizeof(uint64_t);
}

void pen_sparse_cost(const struct pen_sync_case *of, double ratio, double most,
                     struct pen_mean_cost *out)
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
}

/* ---- rounds ---- */

void pen_sparse_encode(struct pen_sparse *sparse, double ratio, float *values,
                       float *also, struct pen_round *out)
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
        if (picked == 0)
            continue;
        pen_largest_find(&sparse->largest, values + first, tensor->count,
                         picked, places);
        for (size_t j = 0; j < picked; j++) {
            sent[j] = values[first + places[j]];
            values[first + places[j]] = 0;
            if (also != NULL)
                also[first + places[j]] = 0;
        }
        sent += picked;
        places += picked;
    }
    *out = (struct pen_round){.kind = PEN_ROUND_GATHER,
                              .bytes = sparse->sent,
                              .length = pairs * PAIR_BYTES};
}

static void add_message(const struct pen_compression *setting, double ratio,
                        const float *values, const uint32_t *places,
                        float *vector)
{
    float share = 1.0f / (float)setting->peers->size;
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *tensor = &setting->tensors[i];
        size_t picked = pen_sparse_picked(ratio, tensor->count);
        float *at = vector + (tensor->first - setting->base);
        for (size_t j = 0; j < picked; j++) {
            PEN_BUG_UNLESS(places[j] < tensor->count);
            at[places[j]] += share * values[j];
        }
        values += picked;
        places += picked;
    }
}

void pen_sparse_decode(const struct pen_sparse *sparse, double ratio,
                       const struct pen_collective *received, float *vector)
{
    const struct pen_compression *setting = &sparse->setting;
    size_t pairs = num_pairs(setting, ratio), length;
    memset(vector, 0, setting->count * sizeof *vector);
    for (uint32_t k = 0; k < setting->peers->size; k++) {
        const float *values = pen_collective_received(received, k, &length);
        PEN_BUG_UNLESS(length == pairs * PAIR_BYTES);
        add_message(setting, ratio, values, (const uint32_t *)(values + pairs),
                    vector);
    }
}
