/*
 * The bytes that a rank of this runtime allocates, as src/runtime does: room
 * for micro-batches in flight (stage.c), messages (executor_room.c), sums over
 * logical replicas (gradients.c) and members (reduction.c), rows of a tied
 * matrix (tied.c), parameters and scratch as the profile found them.
 */
#include "planner/measured.h"

#include "planner/expert_rank.h"
#include "planner/tensor_rank.h"
#include "schedule/needs.h"

#include <stdlib.h>

enum { ALIGNMENT = 64, LABEL_BYTES = 64, MOMENTS = 2 };

/* A rank, and the sums over its stages. */
struct holder {
    const struct pen__measured *measured;
    const struct pen_plan *plan;
    const struct pen_model *model;
    const struct pen_row *row;
    uint32_t rank;
    uint64_t capacity; /* rows that a tied embedding gathers */
    uint64_t trained;
    uint64_t elsewhere;     /* gradients of experts that others step */
    uint64_t dealt;         /* experts here, where others are elsewhere */
    uint64_t tied;          /* of these, what embedding and head share */
    uint64_t turns;         /* elements of gradients that others own, at once */
    uint64_t owned;         /* elements that the fullest member steps, */
    uint64_t owned_experts; /* and of experts that are dealt out */
    uint64_t parameters;    /* bytes, as all below */
    uint64_t activations;
    uint64_t messages;
    uint64_t sums;
    uint64_t scratch; /* of networks: each has its own */
    uint64_t engine;  /* one for all */
    uint64_t passing;
};

static uint64_t align(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static bool has_layer(const struct pen_layer_range *range, uint32_t layer)
{
    return layer >= range->first && layer < range->first + range->count;
}

static bool has_head(const struct holder *holder,
                     const struct pen_layer_range *range)
{
    return has_layer(range, holder->model->num_layers - 1);
}

static const struct pen_profile_layer *layer_of(const struct holder *holder,
                                                uint32_t layer)
{
    return &holder->measured->profile
                .layers[pen_model_layer_kind(holder->model, layer)];
}

/* ---- parameters ---- */

/* Words of a step, each once: see pen_network_gathered_capacity(). */
static uint64_t gathered_rows(const struct holder *holder, uint64_t rows)
{
    return rows < holder->model->vocab ? rows : holder->model->vocab;
}

static uint64_t num_rows(const struct holder *holder)
{
    return (uint64_t)holder->plan->micro_batch * holder->plan->sequence;
}

/* Tokens of a micro-batch that this rank has. */
static uint64_t own_rows(const struct holder *holder)
{
    return num_rows(holder) / holder->plan->degrees[PEN_DEGREE_CP];
}

/* Elements that this rank has of the matrix of embedding and head. */
static uint64_t tied_parameters(const struct holder *holder)
{
    return pen_tensor_rank_share(&holder->measured->compute,
                                 (uint64_t)holder->model->vocab *
                                     holder->model->hidden);
}

/*
 * The profile has the embedding alone, with a value of the tied matrix and with
 * the rows of the two micro-batches that it was measured with.
 */
static uint64_t tied_bytes(const struct holder *holder,
                           const struct pen_layer_range *range, uint64_t bytes)
{
    enum { MEASURED = 2, PARTS = 2 }; /* value and gradient */
    uint64_t row = (uint64_t)holder->model->hidden * sizeof(float);
    uint64_t before =
        PARTS * row * gathered_rows(holder, MEASURED * num_rows(holder));
    uint64_t value =
        has_head(holder, range) ? tied_parameters(holder) * sizeof(float) : 0;
    return bytes - before - value + PARTS * row * holder->capacity;
}

/* Experts of a layer that are here where other ranks have others: these are
 * not sharded. */
static uint64_t dealt_of(const struct holder *holder, uint32_t layer)
{
    const struct pen_compute *compute = &holder->measured->compute;
    return pen_expert_rank_elsewhere(compute, layer) > 0
               ? pen_expert_rank_experts(compute, layer)
               : 0;
}

/* Parameters of a layer that take turns; experts and the matrix that embedding
 * and head share do not. */
static uint64_t turning(const struct holder *holder, uint32_t layer)
{
    const struct pen_model *model = holder->model;
    bool has_tied =
        model->has_tied_embeddings && layer + 1 == model->num_layers;
    uint64_t all = layer_of(holder, layer)->num_parameters;
    uint64_t stays =
        (has_tied ? tied_parameters(holder) : 0) + dealt_of(holder, layer);
    return all > stays ? all - stays : 0;
}

/* Each stage has owners of its own for whole arrays; the largest array may be
 * more than a fair share. Returns how many elements others step then. */
static uint64_t add_owned(struct holder *holder,
                          const struct pen_layer_range *range)
{
    const struct pen_compute *compute = &holder->measured->compute;
    uint64_t all = 0, largest = 0, dealt = 0;
    for (uint32_t i = range->first; i < range->first + range->count; i++) {
        all += layer_of(holder, i)->num_parameters - dealt_of(holder, i);
        largest = larger(largest, layer_of(holder, i)->largest);
        dealt += dealt_of(holder, i);
    }
    bool is_shared = compute->is_sharded && compute->num_members > 1;
    uint64_t own =
        is_shared ? larger(all / compute->num_members, largest) : all;
    if (own > all) /* an expert is larger */
        own = all;
    holder->owned += own;
    holder->owned_experts +=
        is_shared ? dealt * compute->expert_ranks / compute->num_members
                  : dealt;
    return all - own;
}

/*
 * Counts two layers that follow each other: a member may own nothing of them.
 */
static void add_turns(struct holder *holder,
                      const struct pen_layer_range *range)
{
    uint64_t most = 0, before = 0, others = add_owned(holder, range);
    for (uint32_t i = range->first; i < range->first + range->count; i++) {
        most = larger(most, before + turning(holder, i));
        before = turning(holder, i);
    }
    if (holder->model->has_tied_embeddings && has_head(holder, range))
        holder->tied += tied_parameters(holder);
    holder->turns += most < others ? most : others;
}

static void add_parameters(struct holder *holder,
                           const struct pen_layer_range *range)
{
    for (uint32_t i = range->first; i < range->first + range->count; i++) {
        const struct pen_profile_layer *layer = layer_of(holder, i);
        uint64_t bytes = layer->parameter_bytes - layer->engine_bytes;
        if (i == 0 && holder->model->has_tied_embeddings)
            bytes = tied_bytes(holder, range, bytes);
        holder->parameters += bytes;
        holder->trained += layer->num_parameters;
        holder->elsewhere +=
            pen_expert_rank_elsewhere(&holder->measured->compute, i);
        holder->dealt += dealt_of(holder, i);
        holder->engine = larger(holder->engine, layer->engine_bytes);
        holder->passing = larger(holder->passing, layer->passing_bytes);
    }
}

/* ---- activations ---- */

/* Slices of a micro-batch. */
static uint32_t num_slices(const struct holder *holder)
{
    return holder->measured->schedule->shape.num_slices;
}

/*
 * Bytes that slices share in a block: queries, keys and values of all of them.
 */
static uint64_t shared_bytes(const struct holder *holder, uint32_t layer)
{
    const struct pen_plan *plan = holder->plan;
    const struct pen_model *model = holder->model;
    if (num_slices(holder) == 1 ||
        pen_model_layer_kind(model, layer) != PEN_LAYER_BLOCK)
        return 0;
    return (uint64_t)plan->micro_batch * plan->sequence * model->head_dim *
           (model->num_heads + 2 * (uint64_t)model->num_kv_heads) *
           (holder->measured->compute.is_bf16 ? 2 : 4);
}

/*
 * Bytes of a layer for all that is in flight at once; a profile measures whole
 * micro-batches.
 */
static uint64_t layer_bytes(const struct holder *holder, uint32_t layer,
                            const struct pen_stage_needs *needs, bool is_full,
                            const struct pen_compute_bytes *bytes)
{
    uint64_t shared = shared_bytes(holder, layer);
    uint64_t stash = bytes->stash - (is_full ? 0 : shared);
    uint64_t hold = bytes->hold - shared;
    return (needs->stashes * stash + needs->holds * hold) / num_slices(holder) +
           (needs->contexts + needs->slopes) * shared;
}

static void add_activations(struct holder *holder, uint32_t stage,
                            const struct pen_layer_range *range)
{
    struct pen_stage_needs needs = pen_row_count_needs(
        &holder->measured->schedule->shape, holder->row, stage);
    uint32_t slices = num_slices(holder);
    uint64_t input = 2 * align(own_rows(holder) / slices * sizeof(int32_t));
    uint64_t scratch = 0;
    for (uint32_t i = range->first; i < range->first + range->count; i++) {
        struct pen_compute_bytes bytes;
        pen_compute_layer_bytes(&holder->measured->compute, i, range->recompute,
                                &bytes);
        holder->activations += layer_bytes(
            holder, i, &needs, range->recompute == PEN_RECOMPUTE_FULL, &bytes);
        scratch = larger(scratch, bytes.scratch / slices);
    }
    if (range->first == 0 || has_head(holder, range))
        holder->activations += needs.inputs * input;
    if (range->first > 0)
        holder->activations +=
            needs.kept *
            align(
                holder->measured->profile.layers[PEN_LAYER_BLOCK].output_bytes /
                slices);
    holder->scratch += scratch;
}

/* ---- messages ---- */

/*
 * Slots of both directions between a stage of this rank and the next stage, on
 * the same rank.
 */
static uint64_t local_slots(const struct holder *holder, uint32_t stage,
                            uint32_t next)
{
    return pen_row_count_waiting(holder->row, PEN_DIRECTION_ACT, stage, next) +
           pen_row_count_waiting(holder->row, PEN_DIRECTION_GRAD, next, stage);
}

/* Whether an earlier stage of the rank speaks with the same peer already. */
static bool is_known(const struct holder *holder, uint32_t stage,
                     uint32_t other, bool is_next)
{
    const struct pen_shape *shape = &holder->measured->schedule->shape;
    uint32_t peer = pen_shape_rank_of(shape, other);
    for (uint32_t i = 0; i < stage; i++) {
        uint32_t there = is_next ? pen_shape_next_stage(shape, i)
                                 : pen_shape_previous_stage(shape, i);
        if (pen_shape_rank_of(shape, i) == holder->rank &&
            pen_shape_is_remote(shape, i, there) &&
            pen_shape_rank_of(shape, there) == peer)
            return true;
    }
    return false;
}

/* Activations go to the next stage, gradients come back from it. */
static uint64_t remote_slots(const struct holder *holder, uint32_t other,
                             bool is_next)
{
    const struct pen_schedule *schedule = holder->measured->schedule;
    uint32_t peer = pen_shape_rank_of(&schedule->shape, other);
    return pen_row_count_out(schedule, holder->rank,
                             is_next ? PEN_DIRECTION_ACT : PEN_DIRECTION_GRAD,
                             peer) +
           pen_row_count_in(schedule, holder->rank,
                            is_next ? PEN_DIRECTION_GRAD : PEN_DIRECTION_ACT,
                            peer);
}

static void add_messages(struct holder *holder, uint32_t stage)
{
    const struct pen_schedule *schedule = holder->measured->schedule;
    const struct pen_shape *shape = &schedule->shape;
    const uint32_t others[] = {pen_shape_next_stage(shape, stage),
                               pen_shape_previous_stage(shape, stage)};
    uint64_t slots = 0;
    for (int i = 0; i < 2; i++) {
        bool is_next = i == 0;
        if (others[i] == PEN_NO_STAGE)
            continue;
        if (!pen_shape_is_remote(shape, stage, others[i]))
            slots += is_next ? local_slots(holder, stage, others[i]) : 0;
        else if (!is_known(holder, stage, others[i], is_next))
            slots += remote_slots(holder, others[i], is_next);
    }
    uint64_t bytes =
        holder->measured->profile.layers[PEN_LAYER_BLOCK].output_bytes /
        num_slices(holder);
    holder->messages += slots * (align(bytes) + LABEL_BYTES);
}

/* ---- sums ---- */

static uint64_t lane_bytes(uint32_t num_members, uint64_t largest)
{
    return (uint64_t)PEN_NEEDS_LANES * num_members *
           pen_needs_piece(num_members, largest) * sizeof(float);
}

/* Whether experts are summed over other ranks that have the same ones. */
static bool has_expert_sums(const struct holder *holder,
                            const struct pen_layer_range *range)
{
    const struct pen_compute *compute = &holder->measured->compute;
    for (uint32_t i = range->first; i < range->first + range->count; i++)
        if (pen_expert_rank_elsewhere(compute, i) > 0)
            return compute->num_members > compute->expert_ranks;
    return false;
}

static void add_sums(struct holder *holder, const struct pen_layer_range *range)
{
    const struct pen_plan *plan = holder->plan;
    const struct pen_model *model = holder->model;
    uint32_t num_members = holder->measured->compute.num_members;
    uint32_t share =
        plan->logical_replicas * plan->degrees[PEN_DEGREE_CP] / num_members;
    uint64_t trained = 0, largest = 0, tied = 0;
    for (uint32_t i = range->first; i < range->first + range->count; i++) {
        trained += layer_of(holder, i)->num_parameters +
                   pen_expert_rank_elsewhere(&holder->measured->compute, i);
        largest = larger(largest, layer_of(holder, i)->largest);
    }
    bool has_end = has_head(holder, range) != has_layer(range, 0);
    if (model->has_tied_embeddings && has_end) {
        uint64_t rows = (holder->capacity + 1) * sizeof(int32_t);
        if (has_head(holder, range)) {
            tied = tied_parameters(holder);
            rows += holder->capacity * model->hidden * sizeof(float);
            rows *= share;
        }
        holder->sums += rows;
    }
    if (share > 1)
        holder->sums +=
            (pen_needs_levels(share) * (trained - tied) + share * tied) *
            sizeof(float);
    if (num_members > 1)
        holder->sums += lane_bytes(num_members, largest);
    if (has_expert_sums(holder, range))
        holder->sums += lane_bytes(
            num_members / holder->measured->compute.expert_ranks, largest);
}

/* ---- all together ---- */

/*
 * Values saved for each parameter that a rank steps, to undo a step: the weight
 * and its moments.
 */
static uint64_t saved_values(const struct holder *holder)
{
    return holder->measured->schedule->rules.is_optimistic ? 1 + MOMENTS : 0;
}

/* As the trainer decides: see pen_trainer_drops_gradients(). */
static bool drops_gradients(const struct holder *holder)
{
    const struct pen_plan *plan = holder->plan;
    uint64_t members = holder->measured->compute.num_members;
    uint64_t parts = plan->degrees[PEN_DEGREE_CP]; /* of the same samples */
    return plan->sharding >= PEN_SHARDING_ZERO2 && members > 1 &&
           plan->logical_replicas * parts == members &&
           pen_plan_global_batch(plan) * parts == plan->micro_batch * members;
}

/*
 * Elements of gradients that are there at once. A tied matrix stays whole on
 * all members. The one that owns it has the largest moments where it is more
 * than a fair share; the others may have more in all.
 */
static uint64_t kept_gradients(const struct holder *holder)
{
    uint64_t members = holder->measured->compute.num_members;
    uint64_t own = holder->owned, tied = holder->tied;
    uint64_t experts = holder->dealt + holder->elsewhere;
    uint64_t shared = holder->trained - holder->dealt;
    if (!drops_gradients(holder))
        return holder->trained + holder->elsewhere;
    if (tied == 0 || own <= shared / members)
        return own + tied + holder->turns + experts;
    uint64_t other = (shared - own) / (members - 1);
    uint64_t in_all = tied + (1 + MOMENTS) * other;
    return larger(own, in_all > MOMENTS * own ? in_all - MOMENTS * own : 0) +
           holder->turns + experts;
}

static void write_memory(const struct holder *holder,
                         struct pen_plan_memory *out)
{
    uint64_t gradients = (holder->trained + holder->elsewhere) * sizeof(float);
    uint64_t moments = MOMENTS * holder->trained * sizeof(float);
    out->bytes[PEN_MEMORY_WEIGHTS] = holder->parameters - gradients - moments;
    out->bytes[PEN_MEMORY_GRADIENTS] = kept_gradients(holder) * sizeof(float);
    out->bytes[PEN_MEMORY_OPTIMIZER] = (MOMENTS + saved_values(holder)) *
                                       (holder->owned + holder->owned_experts) *
                                       sizeof(float);
    out->bytes[PEN_MEMORY_ACTIVATIONS] = holder->activations;
    out->bytes[PEN_MEMORY_LOSS] = 0; /* logits are part of a stash */
    out->bytes[PEN_MEMORY_BUFFERS] = holder->messages + holder->sums;
    out->bytes[PEN_MEMORY_OVERHEAD] = holder->measured->profile.program_bytes +
                                      holder->scratch + holder->engine +
                                      holder->passing;
}

void pen__measured_memory(const struct pen__measured *measured,
                          const struct pen_plan *plan, uint32_t rank,
                          struct pen_plan_memory *out)
{
    const struct pen_shape *shape = &measured->schedule->shape;
    struct holder holder = {.measured = measured,
                            .plan = plan,
                            .model = measured->compute.model,
                            .row = &measured->schedule->rows[rank],
                            .rank = rank};
    uint64_t rows = pen_plan_global_batch(plan) * plan->sequence /
                    plan->logical_replicas / plan->degrees[PEN_DEGREE_CP];
    holder.capacity = gathered_rows(&holder, larger(rows, num_rows(&holder)));
    for (uint32_t stage = 0; stage < shape->num_stages; stage++) {
        if (pen_shape_rank_of(shape, stage) != rank)
            continue;
        const struct pen_layer_range *range =
            &plan->stages[pen_shape_part_of_stage(shape, stage)];
        add_messages(&holder, stage);
        if (pen_shape_keeper(shape, stage) != stage)
            continue;
        add_parameters(&holder, range);
        add_turns(&holder, range);
        add_activations(&holder, stage, range);
        add_sums(&holder, range);
    }
    write_memory(&holder, out);
}
