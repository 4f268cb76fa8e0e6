#include "planner/expert_rank.h"

enum { MOMENTS = 2 };

static uint32_t num_ranks(const struct pen_compute *compute)
{
    return compute->expert_ranks > 1 ? compute->expert_ranks : 1;
}

static uint64_t element_bytes(const struct pen_compute *compute)
{
    return compute->is_bf16 ? 2 : 4;
}

static uint64_t num_tokens(const struct pen_compute *compute)
{
    return (uint64_t)compute->micro_batch * compute->sequence;
}

/* Ranks that share the features of an expert. */
static uint32_t num_pieces(const struct pen_compute *compute)
{
    return compute->tensor_ranks > 1 ? compute->tensor_ranks : 1;
}

static bool is_dealt(const struct pen_compute *compute, uint32_t layer)
{
    return num_ranks(compute) > 1 && compute->model != NULL &&
           pen_model_expert_parameters(compute->model, layer) > 0;
}

/* ---- bytes ---- */

static struct pen_expert_room room_of(const struct pen_compute *compute,
                                      const struct pen_recomputed *again)
{
    const struct pen_model *model = compute->model;
    uint64_t element = element_bytes(compute);
    uint64_t owned = model->num_experts / num_ranks(compute);
    uint64_t chosen = model->experts_per_token;
    uint64_t slots = num_tokens(compute) * chosen;
    uint64_t rows = num_tokens(compute) * num_ranks(compute) *
                    (owned < chosen ? owned : chosen);
    uint64_t inner = (rows - slots) * model->expert_intermediate /
                     num_pieces(compute) * element;
    uint64_t come = rows * model->hidden * element;
    uint64_t gates = sizeof(float) * rows;
    return (struct pen_expert_room){
        .stash = come + gates + (again->wide ? 0 : 2 * inner) +
                 (again->inner ? 0 : inner),
        .hold = come + (again->wide ? 4 : 2) * inner,
        .scratch = come + gates + sizeof(float) * slots +
                   (again->inner ? 3 : 2) * inner};
}

void pen_expert_rank_room(const struct pen_compute *compute,
                          enum pen_recompute recompute,
                          struct pen_expert_room *out)
{
    const struct pen_recomputed again =
        pen_recomputed_of(recompute, compute->modules);
    *out = (struct pen_expert_room){0};
    if (num_ranks(compute) > 1)
        *out = room_of(compute, &again);
}

uint64_t pen_expert_rank_elsewhere(const struct pen_compute *compute,
                                   uint32_t layer)
{
    return is_dealt(compute, layer)
               ? (num_ranks(compute) - 1) *
                     pen_expert_rank_experts(compute, layer)
               : 0;
}

uint64_t pen_expert_rank_experts(const struct pen_compute *compute,
                                 uint32_t layer)
{
    return pen_model_expert_parameters(compute->model, layer) /
           ((uint64_t)num_ranks(compute) * num_pieces(compute));
}

/*
 * A profile has the hold in the scratch, too, for a backward that is whole;
 * with full recomputation, what is computed again is in both.
 */
static void cut_mode(const struct pen_compute *compute,
                     enum pen_recompute recompute,
                     struct pen_profile_mode *mode)
{
    const struct pen_recomputed again = pen_recomputed_of(recompute, 0);
    const struct pen_expert_room room = room_of(compute, &again);
    uint64_t held = room.hold;
    if (recompute == PEN_RECOMPUTE_FULL)
        held += room.stash;
    else
        mode->stash_bytes += room.stash;
    mode->hold_bytes += held;
    mode->scratch_bytes += held + room.scratch;
}

void pen_expert_rank_cut(const struct pen_compute *compute,
                         struct pen_profile *profile)
{
    enum { BLOCK = 1 }; /* those of a profile are alike */
    struct pen_profile_layer *layer = &profile->layers[PEN_LAYER_BLOCK];
    if (!is_dealt(compute, BLOCK))
        return;
    uint64_t elsewhere = pen_expert_rank_elsewhere(compute, BLOCK);
    uint64_t copy = compute->is_bf16 ? element_bytes(compute) : 0;
    layer->num_parameters -= elsewhere;
    layer->parameter_bytes -=
        elsewhere * ((1 + MOMENTS) * sizeof(float) + copy);
    for (int i = 0; i < PEN_RECOMPUTES; i++)
        if (layer->modes[i].is_there)
            cut_mode(compute, (enum pen_recompute)i, &layer->modes[i]);
}

/* ---- messages ---- */

static void add_round(struct pen_pass_messages *to, enum pen_message_way way,
                      uint64_t num_parts, uint64_t first, uint64_t second)
{
    to->rounds[to->count++] = (struct pen_message_round){
        .way = way, .num_parts = num_parts, .part_bytes = {first, second}};
}

/*
 * The rounds are counts, then rows with their gates, then results; on the way
 * back gradients of results, of gates and of rows. Counts, rows and gates come
 * again where they are computed again.
 */
void pen_expert_rank_sends(const struct pen_compute *compute, uint32_t layer,
                           enum pen_recompute recompute,
                           enum pen_layer_pass pass,
                           struct pen_pass_messages *out)
{
    bool is_forward = pass == PEN_PASS_FORWARD;
    bool is_backward = pass == PEN_PASS_INPUT || pass == PEN_PASS_BACKWARD;
    bool is_again = is_backward && recompute == PEN_RECOMPUTE_FULL;
    *out = (struct pen_pass_messages){.count = 0};
    if (!is_dealt(compute, layer) || (!is_forward && !is_backward))
        return;
    const struct pen_model *model = compute->model;
    uint64_t choices = num_tokens(compute) * model->experts_per_token;
    uint64_t row = element_bytes(compute) * model->hidden;
    uint64_t gate = sizeof(float);
    if (is_forward || is_again) {
        add_round(out, PEN_WAY_THERE, model->num_experts, sizeof(int32_t), 0);
        add_round(out, PEN_WAY_THERE, choices, row, gate);
    }
    if (is_backward) {
        add_round(out, PEN_WAY_THERE, choices, row, 0);
        add_round(out, PEN_WAY_BACK, choices, gate, 0);
    }
    add_round(out, PEN_WAY_BACK, choices, row, 0);
}

struct pen_expert_messages
pen_expert_rank_messages(const struct pen_compute *compute, uint32_t layer,
                         enum pen_recompute recompute, enum pen_layer_pass pass)
{
    struct pen_pass_messages sent;
    pen_expert_rank_sends(compute, layer, recompute, pass, &sent);
    struct pen_expert_messages out = {.rounds = sent.count};
    double others = num_ranks(compute) - 1;
    for (uint32_t i = 0; i < sent.count; i++)
        for (int k = 0; k < PEN_ROUND_MESSAGES; k++)
            out.bytes += others / num_ranks(compute) *
                         (double)sent.rounds[i].num_parts *
                         (double)sent.rounds[i].part_bytes[k];
    return out;
}

double pen_expert_rank_sec(const struct pen_compute *compute, uint32_t layer,
                           enum pen_recompute recompute,
                           enum pen_layer_pass pass)
{
    const struct pen_profile *profile = compute->profile;
    if (profile == NULL || !profile->link.is_there)
        return 0;
    struct pen_expert_messages sent =
        pen_expert_rank_messages(compute, layer, recompute, pass);
    return sent.rounds * (num_ranks(compute) - 1) * profile->link.latency_sec +
           sent.bytes / profile->link.bytes_per_sec;
}
