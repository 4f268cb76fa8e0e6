#include "sync/average.h"

#include "base/bug.h"

#include <stdlib.h>
#include <string.h>

struct pen_average {
    struct pen_compression setting;
    const struct pen_compressor *compressor; /* NULL: exact */
    void *state;
    struct pen_collective *collective;
    bool is_under_way;
    uint32_t round;
    uint64_t step;
    float *vector;
};

pen_status pen_average_create(const struct pen_compression *setting,
                              const struct pen_compressor *compressor,
                              uint32_t channel, struct pen_average **out,
                              struct pen_text *why)
{
    size_t most = setting->count, most_gathered = 0;
    struct pen_average *average = calloc(1, sizeof *average);
    if (average == NULL)
        return PEN_NOMEM;
    average->setting = *setting;
    average->compressor = compressor;
    pen_status status = PEN_OK;
    if (compressor != NULL) {
        status = compressor->create(setting, &average->state, why);
        compressor->sizes(setting, &most, &most_gathered);
    }
    if (status == PEN_OK)
        status = pen_collective_create(setting->peers, channel, most,
                                       most_gathered, &average->collective);
    if (status == PEN_OK)
        *out = average;
    else
        pen_average_free(average);
    return status;
}

void pen_average_free(struct pen_average *average)
{
    if (average == NULL)
        return;
    pen_collective_free(average->collective);
    if (average->state != NULL)
        average->compressor->free(average->state);
    free(average);
}

size_t pen_average_bytes(const struct pen_average *average)
{
    size_t bytes = pen_collective_bytes(average->collective);
    if (average->compressor != NULL)
        bytes += average->compressor->bytes(average->state);
    return bytes;
}

/* ---- rounds ---- */

static void begin_round(struct pen_average *average)
{
    struct pen_round round = {0};
    if (average->compressor == NULL) {
        pen_collective_sum(average->collective, average->vector,
                           average->setting.count);
        return;
    }
    average->compressor->encode(average->state, average->round, average->step,
                                average->vector, &round);
    switch (round.kind) {
    case PEN_ROUND_SUM:
        pen_collective_sum(average->collective, round.floats, round.count);
        break;
    case PEN_ROUND_GATHER:
        pen_collective_gather(average->collective, round.bytes, round.length);
        break;
    case PEN_ROUND_SCATTER:
        pen_collective_scatter(average->collective, round.pieces,
                               round.lengths);
        break;
    }
}

static void divide(struct pen_average *average)
{
    float share = 1.0f / (float)average->setting.peers->size;
    for (size_t i = 0; i < average->setting.count; i++)
        average->vector[i] *= share;
}

/* Ends a round; returns true after the last one. */
static bool end_round(struct pen_average *average)
{
    if (average->compressor == NULL) {
        divide(average);
        return true;
    }
    average->compressor->decode(average->state, average->round, average->step,
                                average->collective, average->vector);
    return ++average->round == average->compressor->num_rounds;
}

void pen_average_start(struct pen_average *average, uint64_t step,
                       float *vector)
{
    if (average->setting.peers->has_lost)
        return;
    PEN_BUG_UNLESS(!average->is_under_way);
    average->is_under_way = true;
    average->round = 0;
    average->step = step;
    average->vector = vector;
    begin_round(average);
    (void)pen_average_poll(average);
}

bool pen_average_poll(struct pen_average *average)
{
    while (average->is_under_way && pen_collective_poll(average->collective)) {
        average->is_under_way = !end_round(average);
        if (average->is_under_way)
            begin_round(average);
    }
    return !average->is_under_way;
}

static bool is_over(void *context)
{
    return pen_average_poll(context);
}

void pen_average_wait(struct pen_average *average)
{
    pen_group_wait(average->setting.peers, is_over, average);
}

void *pen_average_state(const struct pen_average *average,
                        const struct pen_compressor *compressor)
{
    PEN_BUG_UNLESS(average->compressor == compressor);
    return average->state;
}

void pen_average_states(struct pen_average *average,
                        struct pen_sync_states *out)
{
    PEN_BUG_UNLESS(!average->is_under_way || average->setting.peers->has_lost);
    if (average->compressor != NULL && average->compressor->states != NULL)
        average->compressor->states(average->state, out);
}

void pen_sync_compression_state(const struct pen_compression *setting,
                                const char *name, float *floats,
                                struct pen_sync_states *out)
{
    struct pen_sync_state state = {.name = name,
                                   .kind = PEN_STATE_LIKE_WEIGHTS,
                                   .first_tensor = setting->first_tensor,
                                   .num_tensors = setting->num_tensors,
                                   .count = setting->count};
    state.floats = floats;
    pen_sync_states_add(out, &state);
}

void pen_average_cost(const struct pen_compressor *compressor,
                      const struct pen_sync_case *of, struct pen_mean_cost *out)
{
    *out = (struct pen_mean_cost){0};
    if (compressor != NULL) {
        compressor->cost(of, out);
        return;
    }
    out->bytes = pen_collective_sum_bytes(of->num_replicas, of->num_weights);
    out->legs = pen_collective_sum_legs(of->num_replicas, of->num_weights);
    out->extra = of->num_weights * sizeof(float);
}
