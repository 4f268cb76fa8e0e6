#include "planner/context_rank.h"

static uint32_t num_ranks(const struct pen_compute *compute)
{
    return compute->context_ranks > 1 ? compute->context_ranks : 1;
}

uint32_t pen_context_rank_tokens(const struct pen_compute *compute)
{
    return compute->sequence / num_ranks(compute);
}

static uint32_t tensor_ranks(const struct pen_compute *compute)
{
    return compute->tensor_ranks > 1 ? compute->tensor_ranks : 1;
}

/* Numbers of keys and values of all chunks of a micro-batch: all heads, or
 * those of one rank of a tensor group. */
static uint64_t pair_numbers(const struct pen_compute *compute)
{
    const struct pen_model *model = compute->model;
    uint32_t heads = model->num_kv_heads / tensor_ranks(compute);
    return 2 * (uint64_t)compute->micro_batch * compute->sequence *
           (heads > 0 ? heads : 1) * model->head_dim;
}

uint64_t pen_context_rank_chunk_bytes(const struct pen_compute *compute)
{
    uint64_t element = compute->is_bf16 ? 2 : 4;
    return pair_numbers(compute) * element / num_ranks(compute) / 2;
}

/* ---- bytes ---- */

static void cut_mode(const struct pen_compute *compute,
                     enum pen_layer_kind kind, enum pen_recompute recompute,
                     struct pen_profile_mode *mode)
{
    uint64_t ranks = num_ranks(compute);
    /* The tensor group is not cut yet: chunks of all its ranks. */
    uint64_t chunk =
        pen_context_rank_chunk_bytes(compute) * tensor_ranks(compute);
    mode->stash_bytes /= ranks;
    mode->hold_bytes /= ranks;
    mode->scratch_bytes /= ranks;
    for (int pass = 0; pass < PEN_PASSES; pass++)
        mode->passes[pass].median_sec /= (double)ranks;
    if (kind != PEN_LAYER_BLOCK)
        return;
    uint64_t gathered = 2 * ranks * chunk;
    if (recompute == PEN_RECOMPUTE_FULL) { /* a hold has a stash */
        mode->hold_bytes += gathered;
        mode->scratch_bytes += gathered;
    } else
        mode->stash_bytes += gathered;
    /* Own shares of the gradients, and the shares of others in own chunks. */
    mode->scratch_bytes += gathered + 2 * (ranks - 1) * chunk;
}

void pen_context_rank_cut(const struct pen_compute *compute,
                          struct pen_profile *profile)
{
    if (num_ranks(compute) == 1)
        return;
    for (int kind = 0; kind < PEN_LAYER_KINDS; kind++) {
        struct pen_profile_layer *layer = &profile->layers[kind];
        layer->output_bytes /= num_ranks(compute);
        for (int i = 0; i < PEN_RECOMPUTES; i++)
            if (layer->modes[i].is_there)
                cut_mode(compute, (enum pen_layer_kind)kind,
                         (enum pen_recompute)i, &layer->modes[i]);
    }
}

/* ---- messages ---- */

struct pen_context_messages pen_context_rank_messages(
    const struct pen_compute *compute, enum pen_layer_kind kind,
    enum pen_recompute recompute, enum pen_layer_pass pass)
{
    bool is_backward = pass == PEN_PASS_INPUT || pass == PEN_PASS_BACKWARD;
    bool is_again = is_backward && recompute == PEN_RECOMPUTE_FULL;
    if (num_ranks(compute) == 1 || kind != PEN_LAYER_BLOCK)
        return (struct pen_context_messages){.gathers = 0};
    return (struct pen_context_messages){
        .gathers = pass == PEN_PASS_FORWARD || is_again, .sums = is_backward};
}

/* Returns the seconds of adding a chunk to another. */
static double add_sec(const struct pen_compute *compute)
{
    double numbers = (double)pen_context_rank_chunk_bytes(compute) /
                     (compute->is_bf16 ? 2 : 4);
    return compute->profile == NULL
               ? 0
               : numbers * compute->profile->updates[PEN_UPDATE_ADD].median_sec;
}

/* Chunks of the others that the first rank of a group sends in an exchange,
 * and the last one gets. */
static double num_chunks(const struct pen_compute *compute)
{
    return 2 * (num_ranks(compute) - 1.0);
}

void pen_context_rank_sends(const struct pen_compute *compute,
                            enum pen_layer_kind kind,
                            enum pen_recompute recompute,
                            enum pen_layer_pass pass,
                            struct pen_pass_messages *out)
{
    struct pen_context_messages sent =
        pen_context_rank_messages(compute, kind, recompute, pass);
    uint64_t chunk = pen_context_rank_chunk_bytes(compute);
    *out = (struct pen_pass_messages){.count = sent.gathers + sent.sums};
    for (uint32_t i = 0; i < out->count; i++) {
        bool is_sum = i >= sent.gathers;
        out->rounds[i] = (struct pen_message_round){
            .way = is_sum ? PEN_WAY_CAUSAL : PEN_WAY_BACK,
            .num_parts = num_ranks(compute),
            .part_bytes = {chunk, chunk},
            .after_sec =
                (2 + (is_sum ? num_chunks(compute) : 0)) * add_sec(compute)};
    }
}

/* Each exchange copies the own chunks once, and a sum adds what came. */
double pen_context_rank_sec(const struct pen_compute *compute,
                            enum pen_layer_kind kind,
                            enum pen_recompute recompute,
                            enum pen_layer_pass pass)
{
    const struct pen_profile *profile = compute->profile;
    if (num_ranks(compute) == 1 || profile == NULL || !profile->link.is_there)
        return 0;
    struct pen_context_messages sent =
        pen_context_rank_messages(compute, kind, recompute, pass);
    double chunks = num_chunks(compute);
    double bytes = (double)pen_context_rank_chunk_bytes(compute);
    double exchange = profile->link.latency_sec +
                      chunks * bytes / profile->link.bytes_per_sec +
                      2 * add_sec(compute);
    return (sent.gathers + sent.sums) * exchange +
           sent.sums * chunks * add_sec(compute);
}
