#include "planner/tensor_rank.h"

#include "base/bug.h"
#include "planner/context_rank.h"

static uint32_t num_ranks(const struct pen_compute *compute)
{
    return compute->tensor_ranks > 1 ? compute->tensor_ranks : 1;
}

static uint32_t num_partners(const struct pen_compute *compute)
{
    uint32_t partners = 0;
    for (uint32_t apart = 1; apart < num_ranks(compute); apart *= 2)
        partners++;
    return partners;
}

/* Rows of a micro-batch that the ranks of a tensor group have: their part of
 * each sequence. */
static uint64_t num_rows(const struct pen_compute *compute)
{
    return (uint64_t)compute->micro_batch * pen_context_rank_tokens(compute);
}

/* Numbers of a micro-batch between two layers. */
static uint64_t stream_numbers(const struct pen_compute *compute)
{
    return num_rows(compute) * compute->model->hidden;
}

static uint64_t stream_bytes(const struct pen_compute *compute)
{
    return stream_numbers(compute) * (compute->is_bf16 ? 2 : 4);
}

static uint64_t share(const struct pen_compute *compute, uint64_t all,
                      uint64_t whole)
{
    uint64_t ranks = num_ranks(compute);
    return all <= whole ? all : whole + (all - whole + ranks - 1) / ranks;
}

uint64_t pen_tensor_rank_share(const struct pen_compute *compute,
                               uint64_t count)
{
    return share(compute, count, 0);
}

/* Rows between the products of layers, too (network/stream.h). */
static bool cuts_rows(const struct pen_compute *compute)
{
    return compute->cuts_rows && num_ranks(compute) > 1;
}

/* ---- parameters ---- */

/* The first rank of a group has these as they are. */
static bool is_whole(const struct pen_tensor_form *form)
{
    switch (form->part) {
    case PEN_PART_ATTENTION_OUT_BIAS:
    case PEN_PART_DOWN_BIAS:
    case PEN_PART_POSITION_EMBEDDING:
    case PEN_PART_Q_DOWN:
    case PEN_PART_Q_DOWN_BIAS:
    case PEN_PART_KV_DOWN:
    case PEN_PART_KV_DOWN_BIAS:
    case PEN_PART_ROUTER:
    case PEN_PART_ROUTER_BIAS:
    case PEN_PART_ROUTER_OFFSET:
    case PEN_PART_EXPERT_DOWN_BIAS:
        return true;
    default:
        return form->role == PEN_ROLE_NORM;
    }
}

static uint64_t whole_parameters(const struct pen_model *model, uint32_t layer)
{
    uint32_t first = 0;
    uint32_t count = pen_model_layer_tensors(model, layer, &first);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct pen_tensor_info tensor;
        pen_model_tensor(model, first + i, &tensor);
        sum += is_whole(tensor.form) ? tensor.form->num_elements : 0;
    }
    return sum;
}

double pen_tensor_rank_parameters(const struct pen_compute *compute,
                                  const struct pen_layer_range *range)
{
    uint64_t whole = 0;
    uint64_t all = pen_model_trained_parameters(compute->model, range);
    if (num_ranks(compute) == 1)
        return (double)all;
    for (uint32_t i = 0; i < range->count; i++)
        whole += whole_parameters(compute->model, range->first + i);
    return (double)share(compute, all, whole);
}

static uint32_t layer_of(const struct pen_model *model,
                         enum pen_layer_kind kind)
{
    switch (kind) {
    case PEN_LAYER_EMBEDDING:
        return 0;
    case PEN_LAYER_HEAD:
        return model->num_layers - 1;
    case PEN_LAYER_BLOCK:
    case PEN_LAYER_KINDS:
        break;
    }
    return 1;
}

/* Rows of a tied matrix that the profiler's two micro-batches gather. */
static uint64_t gathered_bytes(const struct pen_compute *compute,
                               enum pen_layer_kind kind)
{
    enum { MICROBATCHES = 2, PARTS = 2 }; /* value and gradient */
    const struct pen_model *model = compute->model;
    uint64_t rows =
        MICROBATCHES * (uint64_t)compute->micro_batch * compute->sequence;
    if (kind != PEN_LAYER_EMBEDDING || !model->has_tied_embeddings)
        return 0;
    return PARTS * sizeof(float) * model->hidden *
           (rows < model->vocab ? rows : model->vocab);
}

static void cut_parameters(const struct pen_compute *compute,
                           enum pen_layer_kind kind,
                           struct pen_profile_layer *layer)
{
    enum { MOMENTS = 2 };
    uint64_t whole =
        whole_parameters(compute->model, layer_of(compute->model, kind));
    uint64_t state =
        (2 + MOMENTS) * sizeof(float) * whole + gathered_bytes(compute, kind);
    uint64_t engine = share(compute, layer->engine_bytes, 0);
    layer->parameter_bytes =
        share(compute, layer->parameter_bytes - layer->engine_bytes, state) +
        engine;
    layer->engine_bytes = engine;
    layer->passing_bytes = share(compute, layer->passing_bytes, 0);
    layer->num_parameters = share(compute, layer->num_parameters, whole);
    if (layer->largest > whole)
        layer->largest = share(compute, layer->largest, 0);
}

/* ---- activations ---- */

/* Arrays as wide as the residual stream, and statistics of its rows. */
struct wide {
    uint64_t streams;
    uint64_t stats;
};

struct wide_bytes {
    struct wide stash;
    struct wide hold;
    struct wide scratch;
    struct wide held; /* added to the hold: gathered rows, where rows are cut */
    struct wide added; /* to the scratch: rooms for what partners send */
};

/* A block, without the room for products of queries, keys and values apart. */
static struct wide_bytes wide_block(enum pen_recompute recompute)
{
    bool is_selective = recompute == PEN_RECOMPUTE_SELECTIVE;
    if (recompute == PEN_RECOMPUTE_FULL)
        return (struct wide_bytes){.stash = {1, 0},
                                   .hold = {7, 4},
                                   .scratch = {8, 4},
                                   .added = {1, 0}};
    return (struct wide_bytes){.stash = {is_selective ? 2 : 4, 4},
                               .hold = {4, 0},
                               .scratch = {is_selective ? 7 : 5, 0},
                               .added = {1, 0}};
}

/* Stored in one tensor, they come apart only when they are cut. */
static bool comes_apart(const struct pen_model *model)
{
    return !model->has_qk_norm &&
           pen_model_find_part(model, 1, PEN_PART_QKV) < model->num_tensors;
}

/*
 * As src/network lays them out: chain.c (an input, a gradient of the output,
 * and in the scratch two gradients and a hold), block.c, projection.c,
 * embedding.c, head.c.
 */
static struct wide_bytes wide_of(const struct pen_model *model,
                                 enum pen_layer_kind kind,
                                 enum pen_recompute recompute)
{
    switch (kind) {
    case PEN_LAYER_EMBEDDING:
        return (struct wide_bytes){.hold = {1, 0}, .added = {1, 0}};
    case PEN_LAYER_HEAD:
        return (struct wide_bytes){.stash = {2, 2},
                                   .hold = {1, 0},
                                   .scratch = {3, 0},
                                   .added = {1, 6}};
    case PEN_LAYER_BLOCK:
    case PEN_LAYER_KINDS:
        break;
    }
    struct wide_bytes block = wide_block(recompute);
    block.scratch.streams += model->has_qk_norm;
    block.scratch.streams += model->kv_lora_rank > 0;
    block.added.streams += comes_apart(model);
    return block;
}

/*
 * Where rows are cut, a rank has its part of all of these and rooms for whole
 * ones, as src/network/stream.c gathers and scatters them.
 */
static struct wide_bytes wide_of_part(const struct pen_model *model,
                                      enum pen_layer_kind kind)
{
    struct wide_bytes wide = {.added = {2, 0}}; /* results and received ones */
    if (kind == PEN_LAYER_HEAD)
        wide.added.stats = 9;
    if (kind != PEN_LAYER_BLOCK)
        return wide;
    wide.held.streams = 2;  /* gradients of both halves */
    wide.added.streams = 5; /* these, too, and outputs of a norm */
    wide.added.streams += comes_apart(model);
    wide.scratch.streams = model->has_qk_norm;
    wide.scratch.streams += model->kv_lora_rank > 0;
    return wide;
}

/* Bytes of routers and narrow layers; the profile's blocks are alike. */
static struct pen_layer_common common_of(const struct pen_compute *compute,
                                         enum pen_layer_kind kind,
                                         enum pen_recompute recompute)
{
    const struct pen_workload work = {.batch = compute->micro_batch,
                                      .sequence = compute->sequence,
                                      .element_bytes = compute->is_bf16 ? 2 : 4,
                                      .stat_bytes = sizeof(float),
                                      .recompute = recompute};
    struct pen_layer_cost cost;
    pen_model_layer_cost(compute->model, layer_of(compute->model, kind), &work,
                         &cost);
    return cost.common;
}

/* Gradients of the gates that another rank has, of one block. */
static uint64_t gate_bytes(const struct pen_compute *compute, uint32_t layer)
{
    const struct pen_model *model = compute->model;
    bool has_experts = pen_model_layer_kind(model, layer) == PEN_LAYER_BLOCK &&
                       pen_model_block_is_sparse(model, layer - 1);
    return has_experts
               ? num_rows(compute) * model->experts_per_token * sizeof(float)
               : 0;
}

static uint64_t bytes_of(const struct pen_compute *compute,
                         const struct wide *wide)
{
    return wide->streams * stream_bytes(compute) +
           wide->stats * num_rows(compute) * sizeof(float);
}

uint64_t pen_tensor_rank_bytes(const struct pen_compute *compute,
                               uint64_t bytes, uint32_t streams)
{
    return share(compute, bytes,
                 cuts_rows(compute) ? 0 : streams * stream_bytes(compute));
}

static void cut_bytes(const struct pen_compute *compute,
                      enum pen_layer_kind kind, enum pen_recompute recompute,
                      struct pen_profile_mode *mode)
{
    struct wide_bytes wide = cuts_rows(compute)
                                 ? wide_of_part(compute->model, kind)
                                 : wide_of(compute->model, kind, recompute);
    const struct pen_layer_common common = common_of(compute, kind, recompute);
    mode->stash_bytes =
        share(compute, mode->stash_bytes,
              bytes_of(compute, &wide.stash) + common.stash_bytes);
    mode->hold_bytes =
        share(compute, mode->hold_bytes,
              bytes_of(compute, &wide.hold) + common.hold_bytes) +
        bytes_of(compute, &wide.held);
    mode->scratch_bytes = share(compute, mode->scratch_bytes,
                                bytes_of(compute, &wide.scratch) +
                                    common.hold_bytes + common.copy_bytes) +
                          bytes_of(compute, &wide.added) +
                          gate_bytes(compute, layer_of(compute->model, kind));
}

/* ---- seconds ---- */

/*
 * Passes over the whole stream, each about as long as adding an array to
 * another: norms and sums of a block, the norm of the head, and all of an
 * embedding, which looks for every word.
 */
static double num_sweeps(enum pen_layer_kind kind, enum pen_recompute recompute,
                         enum pen_layer_pass pass)
{
    bool is_backward = pass == PEN_PASS_INPUT || pass == PEN_PASS_BACKWARD;
    double again = is_backward && recompute != PEN_RECOMPUTE_NONE ? 2 : 0;
    if (kind == PEN_LAYER_EMBEDDING)
        return pass == PEN_PASS_FORWARD ? 1 : 0;
    return (kind == PEN_LAYER_BLOCK ? 2 + again : 1) *
           (pass == PEN_PASS_BACKWARD ? 2 : 1);
}

static double sweep_sec(const struct pen_compute *compute,
                        const struct pen_profile *profile)
{
    return (double)stream_numbers(compute) *
           profile->updates[PEN_UPDATE_ADD].median_sec;
}

static void cut_seconds(const struct pen_compute *compute,
                        const struct pen_profile *profile,
                        enum pen_layer_kind kind, enum pen_recompute recompute,
                        struct pen_profile_mode *mode)
{
    for (int pass = 0; pass < PEN_PASSES; pass++) {
        double *sec = &mode->passes[pass].median_sec;
        double whole =
            cuts_rows(compute)
                ? 0
                : sweep_sec(compute, profile) *
                      num_sweeps(kind, recompute, (enum pen_layer_pass)pass);
        if (*sec > whole)
            *sec = whole + (*sec - whole) / num_ranks(compute);
    }
}

void pen_tensor_rank_cut(const struct pen_compute *compute,
                         struct pen_profile *profile)
{
    if (num_ranks(compute) == 1)
        return;
    for (int kind = 0; kind < PEN_LAYER_KINDS; kind++) {
        struct pen_profile_layer *layer = &profile->layers[kind];
        cut_parameters(compute, (enum pen_layer_kind)kind, layer);
        if (cuts_rows(compute))
            layer->output_bytes = share(compute, layer->output_bytes, 0);
        for (int i = 0; i < PEN_RECOMPUTES; i++) {
            if (!layer->modes[i].is_there)
                continue;
            cut_bytes(compute, (enum pen_layer_kind)kind, (enum pen_recompute)i,
                      &layer->modes[i]);
            cut_seconds(compute, profile, (enum pen_layer_kind)kind,
                        (enum pen_recompute)i, &layer->modes[i]);
        }
    }
}

/* ---- messages ---- */

static uint32_t num_sums(enum pen_layer_kind kind, enum pen_recompute recompute,
                         enum pen_layer_pass pass)
{
    bool is_backward = pass == PEN_PASS_INPUT || pass == PEN_PASS_BACKWARD;
    switch (kind) {
    case PEN_LAYER_EMBEDDING:
        return pass == PEN_PASS_FORWARD;
    case PEN_LAYER_HEAD:
        return is_backward;
    case PEN_LAYER_BLOCK:
    case PEN_LAYER_KINDS:
        break;
    }
    if (is_backward)
        return recompute == PEN_RECOMPUTE_FULL ? 3 : 2;
    return pass == PEN_PASS_FORWARD ? 2 : 0;
}

/* Products read the outputs of a norm and the gradients of their results. */
static uint32_t num_gathers(const struct pen_compute *compute,
                            enum pen_layer_kind kind,
                            enum pen_recompute recompute,
                            enum pen_layer_pass pass)
{
    const bool is_block = kind == PEN_LAYER_BLOCK;
    const bool reads_norm = kind != PEN_LAYER_EMBEDDING;
    const uint32_t weight = is_block ? 2 : 1;
    uint32_t input = is_block ? 2 : 0;
    if (is_block && recompute == PEN_RECOMPUTE_FULL)
        input += 2;
    if (is_block && recompute == PEN_RECOMPUTE_SELECTIVE)
        input += pen_recomputed_of(recompute, compute->modules).wide;
    switch (pass) {
    case PEN_PASS_FORWARD:
        return reads_norm ? weight : 0;
    case PEN_PASS_INPUT:
        return input;
    case PEN_PASS_WEIGHT:
        return weight;
    case PEN_PASS_BACKWARD:
        return input + weight;
    case PEN_PASSES:
        break;
    }
    return 0;
}

/* Each member sends to each other one its part of the rows, in one round. */
struct pen_tensor_messages
pen_tensor_rank_rounds(const struct pen_compute *compute,
                       enum pen_layer_kind kind, enum pen_recompute recompute,
                       enum pen_layer_pass pass)
{
    if (!cuts_rows(compute))
        return (struct pen_tensor_messages){.count = 0};
    uint32_t gathers = num_gathers(compute, kind, recompute, pass);
    return (struct pen_tensor_messages){
        .count = gathers + num_sums(kind, recompute, pass),
        .num_gathers = gathers,
        .bytes = (double)stream_bytes(compute) / num_ranks(compute)};
}

struct pen_tensor_messages
pen_tensor_rank_messages(const struct pen_compute *compute,
                         enum pen_layer_kind kind, enum pen_recompute recompute,
                         enum pen_layer_pass pass)
{
    if (num_ranks(compute) == 1)
        return (struct pen_tensor_messages){.count = 0};
    if (kind == PEN_LAYER_HEAD && pass == PEN_PASS_FORWARD)
        return (struct pen_tensor_messages){.count = 1,
                                            .bytes = 3.0 * sizeof(float) *
                                                     (double)num_rows(compute)};
    if (cuts_rows(compute))
        return (struct pen_tensor_messages){.count = 0};
    return (struct pen_tensor_messages){.count =
                                            num_sums(kind, recompute, pass),
                                        .bytes = (double)stream_bytes(compute),
                                        .is_added = true};
}

/* Rounds of equal length: as many gathers as come before each sum. */
static void list_rounds(const struct pen_compute *compute,
                        const struct pen_tensor_messages *sent,
                        struct pen_pass_messages *out)
{
    const struct pen_profile *profile = compute->profile;
    double part_sec =
        profile == NULL ? 0 : sweep_sec(compute, profile) / num_ranks(compute);
    uint32_t sums = sent->count - sent->num_gathers;
    struct pen_message_round round = {.way = PEN_WAY_BACK,
                                      .num_parts = num_ranks(compute),
                                      .part_bytes = {(uint64_t)sent->bytes}};
    for (uint32_t i = 0; i < sent->count; i++) {
        bool is_sum = (uint64_t)(i + 1) * sums / sent->count >
                      (uint64_t)i * sums / sent->count;
        round.after_sec = is_sum ? (num_ranks(compute) - 1) * part_sec
                                 : part_sec; /* the own part is copied */
        out->rounds[out->count++] = round;
    }
}

void pen_tensor_rank_sends(const struct pen_compute *compute,
                           enum pen_layer_kind kind,
                           enum pen_recompute recompute,
                           enum pen_layer_pass pass,
                           struct pen_pass_messages *out)
{
    struct pen_tensor_messages sent =
        pen_tensor_rank_messages(compute, kind, recompute, pass);
    struct pen_tensor_messages parts =
        pen_tensor_rank_rounds(compute, kind, recompute, pass);
    struct pen_message_round round = {.way = PEN_WAY_DISTANCES,
                                      .num_parts = 1,
                                      .part_bytes = {(uint64_t)sent.bytes}};
    if (sent.is_added && compute->profile != NULL)
        round.after_sec =
            num_partners(compute) * sweep_sec(compute, compute->profile);
    *out = (struct pen_pass_messages){.count = 0};
    list_rounds(compute, &parts, out);
    for (uint32_t i = 0; i < sent.count; i++)
        out->rounds[out->count++] = round;
}

/* Ranks that follow each other and each have a part of the gradient. */
static uint32_t num_sharing(const struct pen_compute *compute,
                            enum pen_part part)
{
    uint32_t ranks = num_ranks(compute);
    uint32_t heads = compute->model->num_kv_heads;
    switch (part) {
    case PEN_PART_Q_NORM:
    case PEN_PART_K_NORM:
    case PEN_PART_Q_DOWN:
    case PEN_PART_Q_DOWN_BIAS:
    case PEN_PART_Q_LOW_NORM:
    case PEN_PART_KV_DOWN:
    case PEN_PART_KV_DOWN_BIAS:
    case PEN_PART_KV_LOW_NORM:
        return ranks;
    case PEN_PART_ATTENTION_NORM:
    case PEN_PART_ATTENTION_NORM_BIAS:
    case PEN_PART_MLP_NORM:
    case PEN_PART_MLP_NORM_BIAS:
    case PEN_PART_FINAL_NORM:
    case PEN_PART_FINAL_NORM_BIAS:
        return cuts_rows(compute) ? ranks : 1;
    case PEN_PART_K:
    case PEN_PART_K_BIAS:
    case PEN_PART_V:
    case PEN_PART_V_BIAS:
        return ranks > heads ? ranks / heads : 1;
    default:
        return 1;
    }
}

static bool is_of_heads(enum pen_part part)
{
    return part == PEN_PART_K || part == PEN_PART_K_BIAS ||
           part == PEN_PART_V || part == PEN_PART_V_BIAS;
}

void pen_tensor_rank_copies(const struct pen_compute *compute, uint32_t layer,
                            struct pen_pass_messages *out)
{
    const struct pen_model *model = compute->model;
    uint32_t first = 0;
    uint32_t count = num_ranks(compute) == 1
                         ? 0
                         : pen_model_layer_tensors(model, layer, &first);
    *out = (struct pen_pass_messages){.count = 0};
    for (uint32_t i = 0; i < count; i++) {
        struct pen_tensor_info tensor;
        pen_model_tensor(model, first + i, &tensor);
        uint32_t span = num_sharing(compute, tensor.form->part);
        if (span == 1)
            continue;
        uint64_t elements = tensor.form->num_elements;
        if (is_of_heads(tensor.form->part)) /* of which each rank has one */
            elements /= model->num_kv_heads;
        PEN_BUG_UNLESS(out->count < PEN_PASS_ROUNDS);
        out->rounds[out->count++] =
            (struct pen_message_round){.way = PEN_WAY_DISTANCES,
                                       .num_parts = 1,
                                       .part_bytes = {elements * sizeof(float)},
                                       .span = span};
    }
}

uint64_t pen_tensor_rank_gate_bytes(const struct pen_compute *compute,
                                    uint32_t layer, enum pen_layer_pass pass)
{
    bool is_backward = pass == PEN_PASS_INPUT || pass == PEN_PASS_BACKWARD;
    return is_backward && num_ranks(compute) > 1 ? gate_bytes(compute, layer)
                                                 : 0;
}

double pen_tensor_rank_gate_sec(const struct pen_compute *compute,
                                uint32_t layer, enum pen_layer_pass pass)
{
    const struct pen_profile *profile = compute->profile;
    double bytes = (double)pen_tensor_rank_gate_bytes(compute, layer, pass);
    if (bytes == 0 || profile == NULL || !profile->link.is_there)
        return 0;
    return num_partners(compute) *
           (profile->link.latency_sec + bytes / profile->link.bytes_per_sec);
}

/* Parts go to all others at once; the own one is copied, or others added. */
static double rounds_sec(const struct pen_compute *compute,
                         const struct pen_tensor_messages *sent)
{
    const struct pen_profile *profile = compute->profile;
    double others = num_ranks(compute) - 1;
    double part_sec = sweep_sec(compute, profile) / num_ranks(compute);
    double round = profile->link.latency_sec +
                   others * sent->bytes / profile->link.bytes_per_sec;
    return sent->count * round +
           (sent->num_gathers + (sent->count - sent->num_gathers) * others) *
               part_sec;
}

double pen_tensor_rank_sec(const struct pen_compute *compute,
                           enum pen_layer_kind kind,
                           enum pen_recompute recompute,
                           enum pen_layer_pass pass)
{
    const struct pen_profile *profile = compute->profile;
    if (num_ranks(compute) == 1 || profile == NULL || !profile->link.is_there)
        return 0;
    struct pen_tensor_messages sent =
        pen_tensor_rank_messages(compute, kind, recompute, pass);
    double sec = profile->link.latency_sec +
                 sent.bytes / profile->link.bytes_per_sec +
                 (sent.is_added ? sweep_sec(compute, profile) : 0);
    struct pen_tensor_messages rounds =
        pen_tensor_rank_rounds(compute, kind, recompute, pass);
    return num_partners(compute) * sent.count * sec +
           rounds_sec(compute, &rounds);
}
