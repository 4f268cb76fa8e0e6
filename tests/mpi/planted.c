/*
 * Faults of parallel trainings, planted into a penstock-train for tests alone.
 * PEN_PLANT says which:
 *
 *   tied    the gradient of the embedding is added twice to the tied matrix
 *   mean    replicas divide gradients of layer 3 by their own samples
 *   scale   the loss of one micro-batch is divided by half of the targets
 *   norms   gradients of gains are not summed over a tensor group
 *   part    one sum inside layer 1 lacks the part of the other tensor rank
 *   stale   gathered weights stay after a step (ZeRO-3)
 *   parts   ranks of a context group divide the loss by their own targets
 *   keys    slopes of keys and values of a chunk lack those of other chunks
 *   travel  two rows come back from their experts in each other's place
 *   clip    gradients of a tensor group count twice in the norm
 */
#include "network/chain.h"
#include "network/context.h"
#include "network/experts.h"
#include "network/network.h"
#include "runtime/exchange.h"
#include "runtime/gather.h"
#include "runtime/optimizer.h"

#include <stdlib.h>
#include <string.h>

enum { LAYER = 3, GAIN_BYTES = 64 * 4, STREAM_BYTES = 16 * GAIN_BYTES };

/* Linked by --wrap: the real ones, and those that are called instead. */
void __real_pen_network_add_gathered(struct pen_network *network, size_t count,
                                     const int32_t *words, const void *rows);
void __wrap_pen_network_add_gathered(struct pen_network *network, size_t count,
                                     const int32_t *words, const void *rows);
void __real_pen_exchange_layer(struct pen_exchange *exchange,
                               const struct pen_stage *stage, uint32_t layer);
void __wrap_pen_exchange_layer(struct pen_exchange *exchange,
                               const struct pen_stage *stage, uint32_t layer);
void __real_pen_network_forward(struct pen_network *network,
                                struct pen_microbatch *microbatch, void *stash,
                                const void *x, void *y);
void __wrap_pen_network_forward(struct pen_network *network,
                                struct pen_microbatch *microbatch, void *stash,
                                const void *x, void *y);
void __real_pen_network_backward(struct pen_network *network,
                                 struct pen_microbatch *microbatch, void *stash,
                                 const void *dy, void *dx);
void __wrap_pen_network_backward(struct pen_network *network,
                                 struct pen_microbatch *microbatch, void *stash,
                                 const void *dy, void *dx);

void __real_pen__exchange(struct pen_group *group, uint32_t with,
                          const void *mine, void *theirs, size_t bytes);
void __wrap_pen__exchange(struct pen_group *group, uint32_t with,
                          const void *mine, void *theirs, size_t bytes);
void __real_pen_gather_forget(struct pen_gather *gather);
void __wrap_pen_gather_forget(struct pen_gather *gather);

struct pen__context_sums __real_pen__context_sum(struct pen__context *context,
                                                 struct pen_engine *engine,
                                                 void *shares, void *received);
struct pen__context_sums __wrap_pen__context_sum(struct pen__context *context,
                                                 struct pen_engine *engine,
                                                 void *shares, void *received);
void __real_pen__experts_travel(struct pen__experts *experts,
                                const struct pen__experts_pass *pass,
                                const struct pen__journey *journeys,
                                size_t count, bool is_back);
void __wrap_pen__experts_travel(struct pen__experts *experts,
                                const struct pen__experts_pass *pass,
                                const struct pen__journey *journeys,
                                size_t count, bool is_back);
void __real_pen_optimizer_step(const struct pen_optimizer *optimizer,
                               struct pen_network *network, size_t parameter,
                               const struct pen_update *update);
void __wrap_pen_optimizer_step(const struct pen_optimizer *optimizer,
                               struct pen_network *network, size_t parameter,
                               const struct pen_update *update);

static bool is_planted(const char *name)
{
    const char *plant = getenv("PEN_PLANT");
    return plant != NULL && strcmp(plant, name) == 0;
}

void __wrap_pen_network_add_gathered(struct pen_network *network, size_t count,
                                     const int32_t *words, const void *rows)
{
    __real_pen_network_add_gathered(network, count, words, rows);
    if (is_planted("tied"))
        __real_pen_network_add_gathered(network, count, words, rows);
}

/* Twice the gradient, as for two replicas. */
static void scale(struct pen_network *network)
{
    struct pen_engine *engine = pen_network_engine(network);
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(network, i);
        if (it->layer != LAYER)
            continue;
        float *plain = malloc(pen_network_count(it) * sizeof *plain);
        if (plain == NULL)
            abort();
        engine->ops->parameter_export(engine, it->parameter, PEN_PART_GRADIENT,
                                      it->order, plain);
        for (size_t k = 0; k < pen_network_count(it); k++)
            plain[k] *= 2;
        engine->ops->parameter_import(engine, it->parameter, PEN_PART_GRADIENT,
                                      it->order, plain);
        free(plain);
    }
}

void __wrap_pen_exchange_layer(struct pen_exchange *exchange,
                               const struct pen_stage *stage, uint32_t layer)
{
    if (is_planted("mean") && layer == LAYER)
        scale(stage->network);
    __real_pen_exchange_layer(exchange, stage, layer);
}

/* Whether a micro-batch is the one; its first target says so. */
static void unbalance(struct pen_microbatch *microbatch)
{
    const char *target = getenv("PEN_PLANT_TARGET");
    if (is_planted("scale") && target != NULL && microbatch->targets != NULL &&
        microbatch->targets[0] == atoi(target))
        microbatch->loss_count /= 2;
    if (is_planted("parts"))
        microbatch->loss_count /= 2;
}

void __wrap_pen_network_forward(struct pen_network *network,
                                struct pen_microbatch *microbatch, void *stash,
                                const void *x, void *y)
{
    unbalance(microbatch);
    __real_pen_network_forward(network, microbatch, stash, x, y);
}

void __wrap_pen_network_backward(struct pen_network *network,
                                 struct pen_microbatch *microbatch, void *stash,
                                 const void *dy, void *dx)
{
    unbalance(microbatch);
    __real_pen_network_backward(network, microbatch, stash, dy, dx);
}

/* The embedding has the first sum of the stream, attention of layer 1 the
 * second. */
static bool is_second_stream(size_t bytes)
{
    static int num_streams = 0;
    return bytes == STREAM_BYTES && ++num_streams == 2;
}

void __wrap_pen__exchange(struct pen_group *group, uint32_t with,
                          const void *mine, void *theirs, size_t bytes)
{
    bool is_part = is_second_stream(bytes);
    __real_pen__exchange(group, with, mine, theirs, bytes);
    if ((is_planted("norms") && bytes == GAIN_BYTES) ||
        (is_planted("part") && is_part))
        memset(theirs, 0, bytes);
}

void __wrap_pen_gather_forget(struct pen_gather *gather)
{
    if (!is_planted("stale"))
        __real_pen_gather_forget(gather);
}

/* The sum of the first chunk is the share of its own rank. */
struct pen__context_sums __wrap_pen__context_sum(struct pen__context *context,
                                                 struct pen_engine *engine,
                                                 void *shares, void *received)
{
    static void *own = NULL;
    bool is_first = is_planted("keys") && context->share->part == 0;
    if (is_first && own == NULL)
        own = malloc(context->chunk_bytes);
    if (is_first)
        memcpy(own, shares, context->chunk_bytes);
    struct pen__context_sums sums =
        __real_pen__context_sum(context, engine, shares, received);
    if (is_first)
        sums.of[0] = own;
    return sums;
}

void __wrap_pen__experts_travel(struct pen__experts *experts,
                                const struct pen__experts_pass *pass,
                                const struct pen__journey *journeys,
                                size_t count, bool is_back)
{
    __real_pen__experts_travel(experts, pass, journeys, count, is_back);
    if (!is_planted("travel") || !is_back)
        return;
    char *rows = journeys[0].local;
    for (size_t i = 0; i < journeys[0].bytes; i++) {
        char first = rows[i];
        rows[i] = rows[journeys[0].bytes + i];
        rows[journeys[0].bytes + i] = first;
    }
}

void __wrap_pen_optimizer_step(const struct pen_optimizer *optimizer,
                               struct pen_network *network, size_t parameter,
                               const struct pen_update *update)
{
    struct pen_update with = *update;
    if (is_planted("clip"))
        with.norm *= 2;
    __real_pen_optimizer_step(optimizer, network, parameter, &with);
}
