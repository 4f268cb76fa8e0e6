/* Flops and bytes of layers, from their shapes. */
#include "core/model_cost.h"

#include "core/image_model_cost.h"

const char *const pen_recompute_names[PEN_RECOMPUTES + 1] = {
    "none", "selective", "full", NULL};

struct pen_recomputed pen_recomputed_of(enum pen_recompute recompute,
                                        unsigned modules)
{
    struct pen_recomputed out = {.norms = false};
    if (recompute != PEN_RECOMPUTE_SELECTIVE)
        return out;
    bool is_cheap = modules == 0;
    out.norms = is_cheap || (modules & 1u << PEN_MODULE_NORMS) != 0;
    out.attention = (modules & 1u << PEN_MODULE_CORE_ATTENTION) != 0;
    out.wide = (modules & 1u << PEN_MODULE_MLP) != 0;
    out.inner = is_cheap || out.wide;
    return out;
}

/* Widths of a block, in elements per token. */
struct widths {
    uint64_t hidden;
    uint64_t queries; /* all heads side by side */
    uint64_t values;  /* that come out of the attention */
    uint64_t keys;
    uint64_t qkv;
    uint64_t inner; /* of the MLP, after the activation function */
    uint64_t wide;  /* before it: gate and up side by side */
};

/*
 * Returns the inner width for one token: that of an MLP, or of the experts
 * chosen for it.
 */
static uint64_t inner_of(const struct pen_model *model,
                         const struct pen_block *block)
{
    switch (block->mlp) {
    case PEN_MLP_DENSE:
        return model->intermediate;
    case PEN_MLP_EXPERTS:
        return (uint64_t)model->experts_per_token * model->expert_intermediate +
               model->shared_intermediate;
    case PEN_MLP_NONE:
        break;
    }
    return 0;
}

static void add_mixer(const struct pen_model *model,
                      const struct pen_block *block, struct widths *w)
{
    const struct pen_recurrence *state = &model->recurrence;
    switch (block->mixer) {
    case PEN_MIXER_ATTENTION:
        w->queries = (uint64_t)model->num_heads * block->head_dim;
        w->keys = (uint64_t)block->num_kv_heads * block->head_dim;
        w->qkv = w->queries + 2 * w->keys;
        w->values = w->queries; /* latent ones end in zeros */
        return;
    case PEN_MIXER_MAMBA:
    case PEN_MIXER_DELTA:
        w->values = (uint64_t)state->num_heads * state->head_dim;
        w->qkv = pen_model_recurrence_width(model, block->mixer);
        return;
    case PEN_MIXER_NONE:
        return;
    }
}

static struct widths widths_of(const struct pen_model *model,
                               const struct pen_block *block)
{
    struct widths w = {.hidden = model->hidden,
                       .inner = inner_of(model, block)};
    add_mixer(model, block, &w);
    w.wide = pen_model_has_gate(model) ? 2 * w.inner : w.inner;
    return w;
}

/*
 * Takes what is computed again out of the stash. Its result is in the hold
 * where the backward weight reads it, else in the scratch, where the forward
 * has a place for it, too: that of a gradient which is not there yet.
 */
static void drop_recomputed(const struct widths *w, uint64_t heads,
                            bool has_experts, uint64_t shared,
                            const struct pen_workload *work,
                            struct pen_layer_cost *out)
{
    const struct pen_recomputed again =
        pen_recomputed_of(work->recompute, work->modules);
    uint64_t rows = work->batch * work->sequence;
    uint64_t held = 0, passing = 0;
    if (again.norms)
        passing += 2 * w->hidden;
    if (again.inner)
        passing += w->inner;
    if (again.attention)
        held += w->values;
    if (again.wide)
        held += w->wide;
    uint64_t dropped = held + passing;
    if (again.wide) /* the scratch of experts has the room */
        passing += has_experts ? shared : w->wide - w->inner;
    uint64_t stats = again.attention ? heads * work->stat_bytes : 0;
    out->stash_bytes -= rows * (dropped * work->element_bytes + stats);
    out->hold_bytes += rows * held * work->element_bytes;
    out->again_bytes = rows * (passing * work->element_bytes + stats);
}

/* Logits and gates, where copies of tokens are, and the copies on their way. */
static void add_routing(const struct pen_model *model,
                        const struct pen_workload *work,
                        struct pen_layer_cost *out, uint64_t *stash)
{
    uint64_t rows = work->batch * work->sequence;
    uint64_t slots = rows * model->experts_per_token;
    uint64_t logits = rows * model->num_experts * work->stat_bytes;
    const uint64_t index = sizeof(int32_t);
    uint64_t routing = logits + slots * (work->stat_bytes + 3 * index) +
                       model->num_experts * index;
    uint64_t features = 2 * (uint64_t)model->expert_intermediate;
    *stash += routing;
    out->hold_bytes += logits;
    out->common.stash_bytes += routing;
    out->common.hold_bytes += logits;
    out->common.copy_bytes =
        slots * (model->hidden * work->element_bytes + work->stat_bytes);
    out->copy_bytes =
        out->common.copy_bytes + slots * features * work->element_bytes;
}

static void block_cost(const struct pen_model *model, uint32_t block,
                       const struct pen_workload *work,
                       struct pen_layer_cost *out)
{
    const struct pen_block *it = pen_model_block(model, block);
    struct widths w = widths_of(model, it);
    uint64_t rows = work->batch * work->sequence;
    double products =
        2.0 * (double)rows * (double)pen_model_block_products(model, block);
    /* Scores, and the weighted sum of the values. */
    double attention = (double)work->batch *
                       pen_model_mixer_flops(model, it, (double)work->sequence);
    out->forward_flops = products + attention;
    /* The scores are computed again: five products instead of two. */
    out->input_flops = products + 2.5 * attention;
    out->weight_flops = products;

    bool is_layer_norm = model->norm == PEN_MODEL_NORM_LAYER;
    uint64_t stats = (is_layer_norm ? 4 : 2) + model->num_heads;
    uint64_t kept =
        w.qkv + w.values + w.hidden + w.wide + 2 * w.hidden + w.inner;
    uint64_t held = 3 * w.hidden + w.qkv + w.wide;
    if (model->has_qk_norm) {
        kept += w.queries + w.keys;
        held += w.queries + w.keys;
        stats += model->num_heads + model->num_kv_heads;
    }
    if (model->kv_lora_rank > 0) {
        uint64_t up = (uint64_t)model->qk_nope_dim + model->v_head_dim;
        uint64_t low = 2 * (uint64_t)model->q_lora_rank +
                       2 * (uint64_t)model->kv_lora_rank + model->qk_rope_dim;
        kept += low + model->kv_lora_rank;
        held += low + up * model->num_heads;
        stats += 2;
        out->common.stash_bytes =
            rows * (low + model->kv_lora_rank) * work->element_bytes;
        out->common.hold_bytes = rows * low * work->element_bytes;
    }
    uint64_t stash =
        rows * (kept * work->element_bytes + stats * work->stat_bytes);
    uint64_t boundary = rows * w.hidden * work->element_bytes;
    out->output_bytes = boundary;
    out->stash_bytes = boundary;
    out->hold_bytes = boundary + rows * held * work->element_bytes;
    if (model->has_attention_sinks)
        out->hold_bytes += (uint64_t)model->num_heads * work->stat_bytes;
    if (it->mlp == PEN_MLP_EXPERTS)
        add_routing(model, work, out, &stash);
    if (work->recompute == PEN_RECOMPUTE_FULL) {
        out->hold_bytes += stash;
        out->common.hold_bytes += out->common.stash_bytes;
        out->common.stash_bytes = 0;
    } else
        out->stash_bytes += stash;
    drop_recomputed(&w, model->num_heads, it->mlp == PEN_MLP_EXPERTS,
                    model->shared_intermediate, work, out);
    const struct pen_recomputed again =
        pen_recomputed_of(work->recompute, work->modules);
    if (again.attention)
        out->again_flops += attention;
    if (again.wide)
        out->again_flops +=
            2.0 * (double)rows * (double)w.hidden * (double)w.wide;
}

static void head_cost(const struct pen_model *model,
                      const struct pen_workload *work,
                      struct pen_layer_cost *out)
{
    uint64_t rows = work->batch * work->sequence;
    double product =
        2.0 * (double)rows * (double)pen_model_head_products(model);
    out->forward_flops = product;
    out->input_flops = product;
    out->weight_flops = product;
    uint64_t stats = model->norm == PEN_MODEL_NORM_LAYER ? 2 : 1;
    out->output_bytes = 0;
    out->stash_bytes = rows * ((2 * (uint64_t)model->hidden + model->vocab) *
                                   work->element_bytes +
                               stats * work->stat_bytes);
    out->hold_bytes = rows * model->hidden * work->element_bytes;
}

/* A head in the middle, which has a copy of its input. */
static void add_local_head(const struct pen_model *model,
                           const struct pen_workload *work,
                           struct pen_layer_cost *out)
{
    struct pen_layer_cost head = {0};
    head_cost(model, work, &head);
    out->forward_flops += head.forward_flops;
    out->input_flops += head.input_flops;
    out->weight_flops += head.weight_flops;
    out->hold_bytes += head.hold_bytes;
    if (work->recompute == PEN_RECOMPUTE_FULL)
        out->hold_bytes += head.stash_bytes;
    else
        out->stash_bytes += head.stash_bytes;
}

void pen_model_layer_cost(const struct pen_model *model, uint32_t layer,
                          const struct pen_workload *workload,
                          struct pen_layer_cost *out)
{
    *out = (struct pen_layer_cost){0};
    if (model->images != NULL) {
        pen_image_layer_cost(model->images, layer, workload, out);
        return;
    }
    switch (pen_model_layer_kind(model, layer)) {
    case PEN_LAYER_EMBEDDING:
        out->output_bytes = workload->batch * workload->sequence *
                            model->hidden * workload->element_bytes;
        out->hold_bytes = out->output_bytes;
        break;
    case PEN_LAYER_BLOCK:
        block_cost(model, layer - 1, workload, out);
        if (pen_model_has_local_head(model, layer))
            add_local_head(model, workload, out);
        break;
    case PEN_LAYER_HEAD:
    case PEN_LAYER_KINDS:
        head_cost(model, workload, out);
        break;
    }
}

uint64_t pen_model_trained_parameters(const struct pen_model *model,
                                      const struct pen_layer_range *range)
{
    uint64_t sum = 0;
    uint64_t matrix = pen_model_vocab_parameters(model);
    for (uint32_t i = 0; i < range->count; i++)
        sum += pen_model_layer_parameters(model, range->first + i);
    bool has_embedding = range->first == 0;
    bool has_head = range->first + range->count == model->num_layers;
    if (!model->has_tied_embeddings || has_embedding == has_head)
        return sum;
    return has_head ? sum + matrix : sum - matrix;
}

double pen_model_step_flops(const struct pen_model *model, uint64_t batch,
                            uint64_t sequence)
{
    struct pen_workload work = {.batch = batch, .sequence = sequence};
    double sum = 0;
    for (uint32_t layer = 0; layer < model->num_layers; layer++) {
        struct pen_layer_cost cost;
        pen_model_layer_cost(model, layer, &work, &cost);
        sum += cost.forward_flops + cost.input_flops + cost.weight_flops;
    }
    return sum;
}
