#include "runtime/exchange.h"

#include "base/bug.h"
#include "runtime/exchange_internal.h"
#include "runtime/transport_group.h"

#include <stdlib.h>

uint32_t pen__exchange_index(const struct pen_exchange *exchange,
                             const struct pen_stage *stage)
{
    for (uint32_t i = 0; i < exchange->num_stages; i++)
        if (pen_executor_stage(exchange->options.executor, i)->stage ==
            stage->stage)
            return i;
    PEN_BUG_UNLESS(false);
    return 0;
}

/* ---- making ---- */

/* The members of a stage's part; a single member needs no group. */
static pen_status make_group(struct pen_exchange *exchange,
                             const struct pen_stage *stage,
                             struct pen_group **out)
{
    const struct pen_layout *layout = &exchange->options.layout;
    const struct pen_transport_group_options options = {
        .transport = exchange->options.transport,
        .first = {PEN_TAG_GRADIENT, stage->part * PEN_REDUCTION_LANES},
        .num_kinds = PEN_REDUCTION_CHANNELS,
        .epoch = layout->mesh.epoch};
    uint32_t num_members = pen_layout_members(layout, stage->part);
    uint32_t users = pen_shape_users(&layout->shape, stage->stage);
    uint32_t *ranks = calloc(num_members, sizeof *ranks);
    if (ranks == NULL)
        return PEN_NOMEM;
    for (uint32_t k = 0; k < num_members; k++)
        ranks[k] = pen_layout_rank_of(layout, stage->part, k * users);
    pen_status status = pen_transport_group_create(
        &options, ranks, num_members, pen_layout_member(layout, stage->stage),
        out);
    free(ranks);
    return status;
}

/* The ranks with the same experts as this one: one of each expert group. The
 * numbers of their messages follow those of all parts. */
static pen_status make_expert_group(struct pen_exchange *exchange,
                                    const struct pen_stage *stage,
                                    struct pen_group **out)
{
    const struct pen_layout *layout = &exchange->options.layout;
    uint32_t each = layout->num_experts;
    uint32_t number = pen_shape_parts(&layout->shape) + stage->part;
    const struct pen_transport_group_options options = {
        .transport = exchange->options.transport,
        .first = {PEN_TAG_GRADIENT, number * PEN_REDUCTION_LANES},
        .num_kinds = PEN_REDUCTION_CHANNELS,
        .epoch = layout->mesh.epoch};
    uint32_t count = pen_layout_members(layout, stage->part) / each;
    uint32_t *ranks = calloc(count, sizeof *ranks);
    if (ranks == NULL)
        return PEN_NOMEM;
    for (uint32_t k = 0; k < count; k++)
        ranks[k] = pen_layout_rank_at(layout, layout->row,
                                      k * each + pen_layout_expert(layout));
    pen_status status = pen_transport_group_create(
        &options, ranks, count, pen_layout_expert_group(layout), out);
    free(ranks);
    return status;
}

static pen_status make_reduction(struct pen_exchange *exchange,
                                 const struct pen_stage *stage,
                                 const struct pen__sums *sums,
                                 struct pen_group *group, uint32_t num_dealt,
                                 struct pen_reduction **out)
{
    const struct pen_reduction_options options = {
        .group = group,
        .num_dealt = num_dealt,
        .network = stage->network,
        .shares = exchange->options.layout.shares,
        .gradients = sums->gradients,
        .is_sharded = exchange->options.is_sharded,
        .gathered_by = num_dealt > 1 ? 0 : exchange->options.gathered_by,
        .is_cut = pen_layout_group_size(&exchange->options.layout) > 1,
        .is_fast = exchange->options.is_fast,
        .is_sparse = exchange->options.is_sparse,
        .has_second = exchange->options.has_second,
        .phantom = exchange->options.phantom};
    return pen_reduction_create(&options, out);
}

/* Whether a stage has experts that are dealt out. */
static bool has_experts(const struct pen_network *network)
{
    return pen_network_dealt_bytes(network) > 0;
}

static pen_status make_reductions(struct pen_exchange *exchange,
                                  const struct pen_stage *stage,
                                  struct pen__sums *sums)
{
    const struct pen_layout *layout = &exchange->options.layout;
    uint32_t members = pen_layout_members(layout, stage->part);
    uint32_t experts = layout->num_experts;
    if (members == 1)
        return PEN_OK;
    pen_status status = make_group(exchange, stage, &sums->group);
    if (status == PEN_OK)
        status = make_reduction(exchange, stage, sums, sums->group, 1,
                                &sums->reduction);
    if (status != PEN_OK || experts == members || !has_experts(stage->network))
        return status;
    status = make_expert_group(exchange, stage, &sums->expert_group);
    if (status == PEN_OK)
        status = make_reduction(exchange, stage, sums, sums->expert_group,
                                experts, &sums->expert_reduction);
    return status;
}

static pen_status make_sums(struct pen_exchange *exchange, uint32_t index,
                            struct pen_text *why)
{
    struct pen_stage *stage =
        pen_executor_stage(exchange->options.executor, index);
    struct pen__sums *sums = &exchange->sums[index];
    const struct pen_network_parameter *tied = pen_network_tied(stage->network);
    sums->is_tied_head = tied != NULL && !tied->is_value_only;
    /* Sums without contents have no order. */
    const struct pen_layout *layout = &exchange->options.layout;
    bool is_phantom = exchange->options.phantom != NULL;
    sums->num_replicas = is_phantom ? 1 : pen_layout_share(layout, stage->part);
    const struct pen_gradients_options options = {
        .network = stage->network,
        .num_replicas = sums->num_replicas,
        .num_lanes =
            is_phantom ? 1 : pen_shape_users(&layout->shape, stage->stage),
        .keeps_nodes = layout->shares != NULL,
        .first = layout->shares == NULL
                     ? 0
                     : pen_layout_first_logical(
                           layout, pen_layout_copy(layout, stage->stage))};
    pen_status status = pen_gradients_create(&options, &sums->gradients);
    if (status == PEN_OK)
        status = make_reductions(exchange, stage, sums);
    if (status == PEN_OK && exchange->options.drops_gradients)
        status = pen_turns_create(stage->network, sums->reduction,
                                  PEN_PART_GRADIENT, &sums->turns, why);
    const struct pen_gather_options gathering = {
        sums->group, stage->network, sums->reduction,
        exchange->options.gathered_by, exchange->options.phantom};
    if (status == PEN_OK && exchange->options.gathered_by > 0)
        status = pen_gather_create(&gathering, &sums->gather, why);
    if (status == PEN_OK && exchange->options.has_second)
        status = pen__exchange_add_seconds(stage->network);
    return status;
}

/* Ties the ends of every copy of the model that has one on this rank. */
static pen_status make_tied(struct pen_exchange *exchange)
{
    const struct pen_exchange_options *options = &exchange->options;
    const struct pen_shape *shape = &options->layout.shape;
    uint32_t copies = shape->num_copies;
    exchange->tied = calloc(copies, sizeof *exchange->tied);
    if (exchange->tied == NULL)
        return PEN_NOMEM;
    for (uint32_t copy = 0; copy < copies; copy++) {
        struct pen_tied_options wanted = {.transport = options->transport,
                                          .executor = options->executor,
                                          .layout = options->layout,
                                          .copy = copy};
        for (uint32_t i = 0; i < exchange->num_stages; i++) {
            struct pen_stage *stage = pen_executor_stage(options->executor, i);
            uint32_t of_copy = copy * pen_shape_parts(shape) + stage->part;
            if (pen_shape_keeper(shape, of_copy) != stage->stage ||
                pen_network_tied(stage->network) == NULL)
                continue;
            if (exchange->sums[i].is_tied_head) {
                wanted.head = stage->network;
                wanted.gradients = exchange->sums[i].gradients;
            } else {
                wanted.embedding = stage->network;
            }
        }
        if (wanted.head == NULL && wanted.embedding == NULL)
            continue;
        pen_status status =
            pen_tied_create(&wanted, &exchange->tied[exchange->num_tied]);
        if (status != PEN_OK)
            return status;
        exchange->num_tied++;
    }
    return PEN_OK;
}

pen_status pen_exchange_create(const struct pen_exchange_options *options,
                               struct pen_exchange **out, struct pen_text *why)
{
    struct pen_exchange *exchange = calloc(1, sizeof *exchange);
    if (exchange == NULL)
        return PEN_NOMEM;
    exchange->options = *options;
    exchange->num_stages = pen_executor_num_stages(options->executor);
    exchange->sums = calloc(exchange->num_stages, sizeof *exchange->sums);
    pen_status status = exchange->sums == NULL ? PEN_NOMEM : PEN_OK;
    for (uint32_t i = 0; i < exchange->num_stages && status == PEN_OK; i++)
        status = make_sums(exchange, i, why);
    if (status == PEN_OK)
        status = make_tied(exchange);
    if (status == PEN_OK) {
        *out = exchange;
        return PEN_OK;
    }
    pen_why(why, "no memory for sums of gradients");
    pen_exchange_free(exchange);
    return status;
}

void pen_exchange_free(struct pen_exchange *exchange)
{
    if (exchange == NULL)
        return;
    for (uint32_t i = 0; i < exchange->num_stages && exchange->sums != NULL;
         i++) {
        pen_gradients_free(exchange->sums[i].gradients);
        pen_turns_free(exchange->sums[i].turns);
        pen_gather_free(exchange->sums[i].gather);
        pen_reduction_free(exchange->sums[i].reduction);
        pen_transport_group_free(exchange->sums[i].group);
        pen_reduction_free(exchange->sums[i].expert_reduction);
        pen_transport_group_free(exchange->sums[i].expert_group);
    }
    for (uint32_t i = 0; i < exchange->num_tied; i++)
        pen_tied_free(exchange->tied[i]);
    free(exchange->tied);
    free(exchange->sums);
    free(exchange);
}

size_t pen_exchange_bytes(const struct pen_exchange *exchange)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < exchange->num_stages; i++) {
        bytes += pen_gradients_bytes(exchange->sums[i].gradients);
        if (exchange->sums[i].reduction != NULL)
            bytes += pen_reduction_bytes(exchange->sums[i].reduction);
        if (exchange->sums[i].expert_reduction != NULL)
            bytes += pen_reduction_bytes(exchange->sums[i].expert_reduction);
        if (exchange->sums[i].turns != NULL)
            bytes += pen_turns_bytes(exchange->sums[i].turns);
        if (exchange->sums[i].gather != NULL)
            bytes += pen_gather_bytes(exchange->sums[i].gather);
    }
    for (uint32_t i = 0; i < exchange->num_tied; i++)
        bytes += pen_tied_bytes(exchange->tied[i]);
    return bytes;
}

bool pen_exchange_owns(const struct pen_exchange *exchange, uint32_t stage,
                       size_t parameter)
{
    const struct pen_network *network =
        pen_executor_stage(exchange->options.executor, stage)->network;
    const struct pen_network_parameter *it =
        pen_network_parameter(network, parameter);
    const struct pen__sums *sums = &exchange->sums[stage];
    const struct pen_reduction *reduction =
        it->num_dealt > 1 ? sums->expert_reduction : sums->reduction;
    return !it->is_value_only &&
           (reduction == NULL || pen_reduction_owns(reduction, parameter));
}

/* ---- the pass ---- */

void pen_exchange_poll(struct pen_exchange *exchange)
{
    for (uint32_t i = 0; i < exchange->num_stages && exchange->options.is_joint;
         i++)
        pen__exchange_poll_tied(exchange, i);
    for (uint32_t i = 0; i < exchange->num_stages; i++) {
        if (exchange->sums[i].reduction != NULL)
            pen_reduction_poll(exchange->sums[i].reduction);
        if (exchange->sums[i].expert_reduction != NULL)
            pen_reduction_poll(exchange->sums[i].expert_reduction);
        if (exchange->sums[i].gather != NULL)
            pen_gather_poll(exchange->sums[i].gather);
    }
}

static bool is_summed(void *context)
{
    const struct pen__sums *sums = context;
    const struct pen_reduction *both[] = {sums->reduction,
                                          sums->expert_reduction};
    for (int i = 0; i < 2; i++)
        if (both[i] != NULL && !pen_reduction_is_done(both[i]))
            return false;
    return sums->gather == NULL || pen_gather_is_done(sums->gather);
}

static bool is_done(void *context)
{
    const struct pen_exchange *exchange = context;
    for (uint32_t i = 0; i < exchange->num_stages; i++)
        if (!is_summed(&exchange->sums[i]))
            return false;
    return true;
}

bool pen_exchange_is_busy(struct pen_exchange *exchange)
{
    return !is_done(exchange);
}

void pen__exchange_begin_sums(struct pen__sums *sums)
{
    pen_gradients_begin(sums->gradients);
    if (sums->gather != NULL)
        pen_gather_forget(sums->gather);
    if (sums->reduction != NULL)
        pen_reduction_begin(sums->reduction);
    if (sums->expert_reduction != NULL)
        pen_reduction_begin(sums->expert_reduction);
}

void pen_exchange_clear(struct pen_exchange *exchange,
                        const struct pen_stage *stage)
{
    pen__exchange_begin_sums(
        &exchange->sums[pen__exchange_index(exchange, stage)]);
}

void pen_exchange_begin(struct pen_exchange *exchange, uint32_t steps)
{
    for (uint32_t i = 0; i < exchange->num_stages; i++)
        pen__exchange_begin_sums(&exchange->sums[i]);
    for (uint32_t i = 0; i < exchange->num_tied; i++)
        pen_tied_begin(exchange->tied[i], steps);
}

struct coming {
    const struct pen_gather *gather;
    uint32_t layer;
};

static bool has_come(void *context)
{
    const struct coming *coming = context;
    return pen_gather_has(coming->gather, coming->layer);
}

/* After a loss the pass ends at its next wait. */
void pen_exchange_visit(struct pen_exchange *exchange,
                        const struct pen_stage *stage, uint32_t layer,
                        uint32_t next)
{
    struct pen__sums *sums =
        &exchange->sums[pen__exchange_index(exchange, stage)];
    struct coming coming = {sums->gather, layer};
    if (sums->gather == NULL || sums->has_lost)
        return;
    pen_gather_want(sums->gather, layer);
    if (pen_executor_wait(exchange->options.executor, has_come, &coming,
                          PEN_NO_RANK) != PEN_OK) {
        sums->has_lost = true;
        return;
    }
    pen_gather_use(sums->gather, layer);
    bool is_near = next == layer + 1 || layer == next + 1;
    if (next != PEN_NO_LAYER && is_near)
        pen_gather_want(sums->gather, next);
}

struct leaving {
    const struct pen_reduction *reduction;
    uint32_t layer;
};

static bool have_left(void *context)
{
    const struct leaving *leaving = context;
    return pen_reduction_has_left(leaving->reduction, leaving->layer);
}

/* After a loss the pass ends at its next wait. */
void pen_exchange_enter(struct pen_exchange *exchange,
                        const struct pen_stage *stage, uint32_t layer)
{
    const struct pen__sums *sums =
        &exchange->sums[pen__exchange_index(exchange, stage)];
    struct leaving leaving = {sums->reduction, layer + 2};
    if (sums->turns != NULL &&
        pen_executor_wait(exchange->options.executor, have_left, &leaving,
                          PEN_NO_RANK) == PEN_OK)
        pen_turns_clear(sums->turns, layer);
}

/* Only the last replica's gradients become final layer by layer. */
void pen_exchange_layer(struct pen_exchange *exchange,
                        const struct pen_stage *stage, uint32_t layer)
{
    struct pen__sums *sums =
        &exchange->sums[pen__exchange_index(exchange, stage)];
    if (sums->reduction != NULL && !exchange->options.is_late &&
        sums->num_replicas == 1) {
        pen_network_finish_layer(stage->network, layer);
        pen_reduction_layer(sums->reduction, layer);
    }
}

void pen_exchange_open(struct pen_exchange *exchange,
                       const struct pen_stage *stage, uint32_t number)
{
    if (exchange->options.phantom == NULL)
        pen_gradients_open(
            exchange->sums[pen__exchange_index(exchange, stage)].gradients,
            number / exchange->options.num_per_step);
}

pen_status pen_exchange_gradient(struct pen_exchange *exchange,
                                 const struct pen_stage *stage, uint32_t number)
{
    pen_status status = PEN_OK;
    const struct pen_exchange_options *options = &exchange->options;
    struct pen__sums *sums =
        &exchange->sums[pen__exchange_index(exchange, stage)];
    uint32_t per_step = options->num_per_step;
    uint32_t per_replica =
        per_step * pen_shape_users(&options->layout.shape, stage->stage) /
        sums->num_replicas;
    if ((number + 1) % per_replica != 0)
        return PEN_OK;
    uint32_t copy =
        pen_shape_copy_of_stage(&options->layout.shape, stage->stage) +
        number / per_step;
    pen_gradients_close(sums->gradients);
    for (uint32_t i = 0; i < exchange->num_tied && status == PEN_OK; i++)
        if (pen_tied_is_embedding(exchange->tied[i], stage->network) &&
            pen_tied_copy(exchange->tied[i]) == copy)
            status = pen_tied_hand_over(exchange->tied[i],
                                        number % per_step / per_replica);
    return status;
}

void pen_exchange_sync(struct pen_exchange *exchange,
                       const struct pen_stage *stage)
{
    uint32_t index = pen__exchange_index(exchange, stage);
    struct pen__sums *sums = &exchange->sums[index];
    if (exchange->options.is_joint)
        pen__exchange_set_aside(exchange, index);
    if (sums->reduction != NULL)
        pen_reduction_start(sums->reduction);
    if (sums->expert_reduction != NULL)
        pen_reduction_start(sums->expert_reduction);
}

pen_status pen_exchange_await(struct pen_exchange *exchange,
                              const struct pen_stage *stage)
{
    return pen_executor_wait(
        exchange->options.executor, is_summed,
        &exchange->sums[pen__exchange_index(exchange, stage)], PEN_NO_RANK);
}

void pen_exchange_set_executor(struct pen_exchange *exchange,
                               struct pen_executor *executor)
{
    exchange->options.executor = executor;
    for (uint32_t i = 0; i < exchange->num_tied; i++)
        pen_tied_set_executor(exchange->tied[i], executor);
}

pen_status pen_exchange_finish(struct pen_exchange *exchange)
{
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < exchange->num_tied && status == PEN_OK; i++)
        status = pen_tied_join(exchange->tied[i]);
    if (status != PEN_OK)
        return status;
    for (uint32_t i = 0; i < exchange->num_stages; i++)
        if (exchange->sums[i].reduction != NULL)
            pen_reduction_start_tied(exchange->sums[i].reduction);
    return pen_executor_wait(exchange->options.executor, is_done, exchange,
                             PEN_NO_RANK);
}

/* ---- the values ---- */

static void values_changed(struct pen_exchange *exchange, uint32_t index)
{
    struct pen_network *network =
        pen_executor_stage(exchange->options.executor, index)->network;
    struct pen_engine *engine = pen_network_engine(network);
    const struct pen_reduction *reduction = exchange->sums[index].reduction;
    for (size_t i = 0; i < pen_network_num_parameters(network); i++)
        if (!pen_exchange_owns(exchange, index, i) &&
            (reduction == NULL || pen_reduction_keeps(reduction, i)))
            engine->ops->parameter_value_changed(
                engine, pen_network_parameter(network, i)->parameter);
}

/*
 * Owners send values to the members that keep them, on the channels of
 * pen_reduction_share(), and therefore after it.
 */
static pen_status spread_values(struct pen_exchange *exchange)
{
    for (uint32_t i = 0; i < exchange->num_stages; i++) {
        struct pen_gather *gather = exchange->sums[i].gather;
        if (gather == NULL)
            return PEN_OK;
        pen_gather_forget(gather);
        pen_gather_spread(gather);
    }
    return pen_executor_wait(exchange->options.executor, is_done, exchange,
                             PEN_NO_RANK);
}

pen_status pen_exchange_values(struct pen_exchange *exchange)
{
    bool is_shared = exchange->options.is_sharded;
    for (uint32_t i = 0; i < exchange->num_stages && is_shared; i++) {
        if (exchange->sums[i].reduction != NULL)
            pen_reduction_share(exchange->sums[i].reduction);
        if (exchange->sums[i].expert_reduction != NULL)
            pen_reduction_share(exchange->sums[i].expert_reduction);
    }
    pen_status status = pen_executor_wait(exchange->options.executor, is_done,
                                          exchange, PEN_NO_RANK);
    if (status == PEN_OK)
        status = spread_values(exchange);
    if (status != PEN_OK)
        return status;
    for (uint32_t i = 0; i < exchange->num_stages && is_shared; i++)
        values_changed(exchange, i);
    for (uint32_t i = 0; i < exchange->num_tied; i++)
        pen_tied_send_value(exchange->tied[i]);
    for (uint32_t i = 0; i < exchange->num_tied && status == PEN_OK; i++)
        status = pen_tied_take_value(exchange->tied[i]);
    return status;
}
