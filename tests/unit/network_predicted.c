/*
 * The first rank of a tensor group, an expert group or both, and every rank of
 * a context group, also with tensor groups, has the parameters and keeps the
 * bytes that the planner derives from whole layers.
 */
#include "support/engine.h"

#include "network/weights.h"
#include "planner/context_rank.h"
#include "planner/expert_rank.h"
#include "planner/tensor_rank.h"
#include "support/models.h"
#include "support/thread_group.h"

enum { BATCH = 2, SEQUENCE = 64, ROWS = BATCH * SEQUENCE, HIDDEN = 64 };
enum { BLOCKS = 2, MOST_RANKS = 4 };

static const char *const configs[] = {
    "{\"model_type\":\"gpt2\",\"vocab_size\":128,\"n_positions\":64,"
    "\"n_embd\":64,\"n_layer\":2,\"n_head\":4}",
    "{\"model_type\":\"llama\",\"vocab_size\":128,\"hidden_size\":64,"
    "\"intermediate_size\":96,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":4,"
    "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-5,"
    "\"tie_word_embeddings\":false}",
    "{\"model_type\":\"qwen3\",\"vocab_size\":128,\"hidden_size\":64,"
    "\"intermediate_size\":96,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":4,"
    "\"head_dim\":16,\"max_position_embeddings\":64}"};

/* Members with fewer experts than a token chooses, and with more. */
static const char mixture[] =
    "{\"model_type\":\"mixtral\",\"vocab_size\":128,\"hidden_size\":64,"
    "\"intermediate_size\":96,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":4,"
    "\"num_local_experts\":8,\"num_experts_per_tok\":3,"
    "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-5,"
    "\"tie_word_embeddings\":false}";

/* Narrow layers that all members have. */
static const char latent[] =
    "{\"model_type\":\"deepseek_v3\",\"vocab_size\":128,\"hidden_size\":64,"
    "\"intermediate_size\":96,\"moe_intermediate_size\":48,"
    "\"num_hidden_layers\":2,\"first_k_dense_replace\":1,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":4,"
    "\"q_lora_rank\":32,\"kv_lora_rank\":24,\"qk_nope_head_dim\":16,"
    "\"qk_rope_head_dim\":8,\"v_head_dim\":16,\"n_routed_experts\":8,"
    "\"num_experts_per_tok\":2,\"n_shared_experts\":1,\"n_group\":2,"
    "\"topk_group\":1,\"norm_topk_prob\":true,"
    "\"routed_scaling_factor\":2.5,\"max_position_embeddings\":64,"
    "\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":false}";

/* The same with experts in all blocks, and an MLP of all tokens beside the
 * experts. */
static const char latent_mixture[] =
    "{\"model_type\":\"deepseek_v3\",\"vocab_size\":128,"
    "\"hidden_size\":64,\"intermediate_size\":96,"
    "\"moe_intermediate_size\":32,\"num_hidden_layers\":2,"
    "\"first_k_dense_replace\":0,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":4,\"q_lora_rank\":24,\"kv_lora_rank\":16,"
    "\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":8,\"v_head_dim\":12,"
    "\"n_routed_experts\":8,\"n_shared_experts\":1,"
    "\"num_experts_per_tok\":3,\"n_group\":2,\"topk_group\":1,"
    "\"norm_topk_prob\":true,\"routed_scaling_factor\":2.5,"
    "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-5,"
    "\"tie_word_embeddings\":false}";

struct layer {
    const struct pen_model *model;
    enum pen_layer_kind kind;
    enum pen_recompute recompute;
};

/* Ranks that share tensors, and experts or sequences; 0 as 1. */
struct split {
    uint32_t tensor;
    uint32_t context;
    uint32_t experts;
    bool cuts_rows;
    struct pen_group *group; /* of tensors */
    struct pen_group *expert_group;
    struct pen_group *parts; /* of sequences */
};

static uint32_t layer_of(const struct layer *layer)
{
    return layer->kind == PEN_LAYER_EMBEDDING ? 0
           : layer->kind == PEN_LAYER_HEAD    ? BLOCKS + 1
                                              : 1;
}

/* Sizes of a network with this layer alone, as src/profiler makes it. */
static struct pen_profile_layer measure(const struct layer *layer,
                                        const struct split *split)
{
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F32);
    struct pen_network *network;
    struct pen_network_sizes sizes;
    struct pen_network_options options = {.engine = engine,
                                          .model = layer->model,
                                          .first_layer = layer_of(layer),
                                          .num_layers = 1,
                                          .batch = BATCH,
                                          .sequence = SEQUENCE,
                                          .step_rows = ROWS,
                                          .recompute = layer->recompute};
    if (split->experts > 1)
        options.experts = (struct pen_expert_share){
            .total = split->experts, .group = split->expert_group};
    if (split->tensor > 1)
        options.tensor =
            (struct pen_tensor_share){.total = split->tensor,
                                      .count = 1,
                                      .cuts_rows = split->cuts_rows,
                                      .group = split->group};
    if (split->context > 1)
        options.context = (struct pen_context_share){.total = split->context,
                                                     .part = split->parts->self,
                                                     .group = split->parts};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_profile_layer made = {0};
    if (pen_network_create(&options, &network, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_network_sizes(network, &sizes);
    struct pen_profile_mode *mode = &made.modes[layer->recompute];
    *mode = (struct pen_profile_mode){.is_there = true,
                                      .stash_bytes = sizes.stash,
                                      .hold_bytes = sizes.hold,
                                      .scratch_bytes =
                                          pen_network_scratch_bytes(network)};
    made.output_bytes = sizes.output;
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(network, i);
        if (!it->is_value_only)
            made.num_parameters += it->rows * it->columns;
    }
    made.parameter_bytes = pen_network_dealt_bytes(network);
    pen_network_free(network);
    pen_engine_free(engine);
    return made;
}

static void expect_bytes(const struct layer *layer, const char *what,
                         uint64_t predicted, uint64_t taken)
{
    uint64_t margin = 256 + taken / 100;
    if (predicted > taken + margin || taken > predicted + margin)
        fail_msg("%s, kind %d, recompute %d: %s is %llu bytes, predicted %llu",
                 pen_family_name(layer->model->family), (int)layer->kind,
                 (int)layer->recompute, what, (unsigned long long)taken,
                 (unsigned long long)predicted);
}

static struct thread_world *world_of(uint32_t ranks)
{
    return thread_world_create(ranks > 0 ? ranks : 1);
}

static void compare(const struct layer *layer, struct split split,
                    uint32_t member)
{
    const struct split whole = {.group = NULL};
    struct thread_world *world = world_of(split.tensor);
    struct thread_world *parts = world_of(split.context);
    struct thread_world *dealt = world_of(split.experts);
    struct pen_profile profile = {.micro_batch = BATCH, .sequence = SEQUENCE};
    struct pen_compute compute = {.model = layer->model,
                                  .profile = &profile,
                                  .micro_batch = BATCH,
                                  .sequence = SEQUENCE,
                                  .tensor_ranks = split.tensor,
                                  .cuts_rows = split.cuts_rows,
                                  .context_ranks = split.context,
                                  .expert_ranks = split.experts};
    split.group = thread_world_group(world, 0);
    split.parts = thread_world_group(parts, split.context > 0 ? member : 0);
    if (split.experts > 0)
        split.expert_group = thread_world_group(dealt, member);
    profile.layers[layer->kind] = measure(layer, &whole);
    struct pen_profile_layer here = measure(layer, &split);
    pen_compute_share_layers(&compute, &profile);
    if (split.experts > 1 && layer->kind == PEN_LAYER_BLOCK)
        assert_int_equal(here.parameter_bytes, /* from each source */
                         sizeof(float) *
                             (pen_expert_rank_experts(&compute, 1) +
                              pen_expert_rank_elsewhere(&compute, 1)));
    const struct pen_profile_layer *derived = &profile.layers[layer->kind];
    const struct pen_profile_mode *mode = &derived->modes[layer->recompute];
    const struct pen_profile_mode *taken = &here.modes[layer->recompute];
    assert_int_equal(here.num_parameters, derived->num_parameters);
    expect_bytes(layer, "stash", mode->stash_bytes, taken->stash_bytes);
    expect_bytes(layer, "hold", mode->hold_bytes, taken->hold_bytes);
    expect_bytes(layer, "scratch", mode->scratch_bytes, taken->scratch_bytes);
    if (split.context > 1 || split.cuts_rows)
        expect_bytes(layer, "output", derived->output_bytes, here.output_bytes);
    thread_world_free(world);
    thread_world_free(parts);
    thread_world_free(dealt);
}

static void compare_layers(const struct pen_model *model, struct split split,
                           uint32_t member)
{
    for (int kind = 0; kind < PEN_LAYER_KINDS; kind++)
        for (int mode = 0; mode < PEN_RECOMPUTES; mode++)
            compare(&(struct layer){model, (enum pen_layer_kind)kind,
                                    (enum pen_recompute)mode},
                    split, member);
}

static void ranks_keep_what_is_derived(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        struct pen_model *model = parse_model(configs[i]);
        for (uint32_t ranks = 2; ranks <= MOST_RANKS; ranks *= 2) {
            compare_layers(model, (struct split){.tensor = ranks}, 0);
            compare_layers(
                model, (struct split){.tensor = ranks, .cuts_rows = true}, 0);
            compare_layers(model, (struct split){.context = ranks}, ranks - 1);
            compare_layers(model, (struct split){.tensor = ranks, .context = 2},
                           1);
            compare_layers(model,
                           (struct split){.tensor = 2,
                                          .context = ranks,
                                          .cuts_rows = true},
                           ranks - 1);
        }
        pen_model_free(model);
    }
}

static void ranks_with_some_experts_keep_what_is_derived(void **state)
{
    (void)state;
    struct pen_model *model = parse_model(mixture);
    for (uint32_t ranks = 2; ranks <= 2 * MOST_RANKS; ranks *= 2)
        compare_layers(model, (struct split){.experts = ranks}, 0);
    pen_model_free(model);
}

static void ranks_with_parts_of_experts_keep_what_is_derived(void **state)
{
    (void)state;
    const char *const mixtures[] = {mixture, latent_mixture};
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i++) {
        struct pen_model *model = parse_model(mixtures[i]);
        for (uint32_t ranks = 2; ranks <= MOST_RANKS; ranks *= 2)
            for (uint32_t experts = 1; experts <= MOST_RANKS; experts *= 4) {
                struct split split = {.tensor = ranks, .experts = experts};
                compare_layers(model, split, 0);
                split.cuts_rows = true;
                compare_layers(model, split, 0);
            }
        pen_model_free(model);
    }
}

/* docs/running.md: of a block, per micro-batch of a group, where each rank
 * chooses others' experts in equal shares. */
static void experts_send_what_the_formula_has(void **state)
{
    (void)state;
    enum { EXPERTS = 8, CHOSEN = 3, RANKS = 4 };
    struct pen_model *model = parse_model(mixture);
    const struct pen_compute compute = {.model = model,
                                        .micro_batch = BATCH,
                                        .sequence = SEQUENCE,
                                        .expert_ranks = RANKS};
    double choices = (double)ROWS * CHOSEN * (RANKS - 1); /* of the group */
    double counts = 4.0 * EXPERTS * (RANKS - 1);
    for (int mode = 0; mode < PEN_RECOMPUTES; mode++) {
        double sum = 0;
        for (uint32_t i = 0; i < model->num_layers; i++)
            for (int pass = 0; pass < PEN_PASS_BACKWARD; pass++)
                sum += RANKS * pen_expert_rank_messages(
                                   &compute, i, (enum pen_recompute)mode,
                                   (enum pen_layer_pass)pass)
                                   .bytes;
        bool is_full = mode == PEN_RECOMPUTE_FULL;
        double again = is_full ? counts + choices * (4 * HIDDEN + 4) : 0;
        expect_close(BLOCKS * (counts + choices * (4 * 4 * HIDDEN + 8) + again),
                     sum, "bytes");
    }
    pen_model_free(model);
}

/* docs/running.md: 4 P log2 P bytes for every expert of a token, of all ranks
 * together, and the messages of an expert group as without tensor groups. */
static void ranks_with_parts_of_experts_send_gradients_of_gates(void **state)
{
    (void)state;
    enum { CHOSEN = 3, RANKS = 4, PARTNERS = 2 };
    struct pen_model *model = parse_model(mixture);
    struct pen_profile profile = {
        .micro_batch = BATCH, .sequence = SEQUENCE, .link = {true, 1e-3, 1e6}};
    struct pen_compute compute = {.model = model,
                                  .profile = &profile,
                                  .micro_batch = BATCH,
                                  .sequence = SEQUENCE,
                                  .tensor_ranks = RANKS,
                                  .expert_ranks = 2};
    const struct pen_layer_range block = {.first = 1, .count = 1};
    double sum = 0;
    for (uint32_t i = 0; i < model->num_layers; i++)
        for (int pass = 0; pass < PEN_PASS_BACKWARD; pass++)
            sum += RANKS * PARTNERS *
                   (double)pen_tensor_rank_gate_bytes(
                       &compute, i, (enum pen_layer_pass)pass);
    expect_close(BLOCKS * 4.0 * RANKS * PARTNERS * ROWS * CHOSEN, sum, "bytes");
    double gates = PARTNERS * (1e-3 + 4.0 * ROWS * CHOSEN / 1e6);
    double sums = PARTNERS * (1e-3 + 4.0 * ROWS * HIDDEN / 1e6);
    expect_close(4 * sums + gates,
                 pen_compute_inside_sec(&compute, &block, PEN_COMPUTE_TENSOR),
                 "sums and gates");
    double sec = pen_compute_inside_sec(&compute, &block, PEN_COMPUTE_EXPERTS);
    compute.tensor_ranks = 1;
    expect_close(pen_compute_inside_sec(&compute, &block, PEN_COMPUTE_EXPERTS),
                 sec, "rows");
    pen_model_free(model);
}

/* Products of a rank stay, fewer parameters are summed and stepped. */
static void experts_take_the_seconds_of_their_messages(void **state)
{
    (void)state;
    struct pen_model *model = parse_model(mixture);
    struct pen_profile profile = {
        .micro_batch = BATCH, .sequence = SEQUENCE, .link = {true, 1e-3, 1e6}};
    struct pen_compute compute = {.model = model,
                                  .profile = &profile,
                                  .micro_batch = BATCH,
                                  .sequence = SEQUENCE,
                                  .optimizer = PEN_UPDATE_ADAM,
                                  .num_members = 4,
                                  .expert_ranks = 4};
    const struct pen_layer_range block = {.first = 1, .count = 1};
    struct pen_profile_mode *mode =
        &profile.layers[PEN_LAYER_BLOCK].modes[PEN_RECOMPUTE_NONE];
    mode->is_there = true;
    mode->passes[PEN_PASS_FORWARD].median_sec = 1;
    profile.updates[PEN_UPDATE_ADAM].median_sec = 1e-6;
    profile.updates[PEN_UPDATE_ADD].median_sec = 1e-6;
    struct pen_cost cost;
    pen_compute_stage(&compute, &block, true, &cost);
    double bytes = pen_expert_rank_messages(&compute, 1, PEN_RECOMPUTE_NONE,
                                            PEN_PASS_FORWARD)
                       .bytes;
    expect_close(1 + 3 * 3 * 1e-3 + bytes / 1e6, cost.forward_sec, "a forward");
    double all = (double)pen_model_layer_parameters(model, 1);
    double experts = (double)pen_model_expert_parameters(model, 1);
    expect_close(1e-6 * (all - 0.75 * experts), cost.step_sec, "a step");
    expect_close(0.75 * ((all - experts) * (1e-6 + 8 / 1e6) + experts * 1e-6),
                 cost.sync_sec, "sums of one expert group");
    pen_model_free(model);
}

/* Activations of a micro-batch, per docs/running.md, to each partner. */
static void a_rank_sends_four_sums_of_a_block(void **state)
{
    (void)state;
    struct pen_model *model = parse_model(configs[0]);
    struct pen_compute compute = {.model = model,
                                  .micro_batch = BATCH,
                                  .sequence = SEQUENCE,
                                  .tensor_ranks = 2};
    for (int mode = 0; mode < PEN_RECOMPUTES; mode++) {
        double sum = 0;
        for (uint32_t i = 0; i < model->num_layers; i++)
            for (int pass = 0; pass < PEN_PASS_BACKWARD; pass++) {
                struct pen_tensor_messages sent = pen_tensor_rank_messages(
                    &compute, pen_model_layer_kind(model, i),
                    (enum pen_recompute)mode, (enum pen_layer_pass)pass);
                sum += sent.count * sent.bytes;
            }
        double again = mode == PEN_RECOMPUTE_FULL ? BLOCKS : 0;
        expect_close(4.0 * ROWS * ((4 * BLOCKS + 2 + again) * HIDDEN + 3), sum,
                     "bytes");
    }
    pen_model_free(model);
}

/* docs/running.md: so much of all ranks together, with sequence parallelism. */
static void ranks_send_parts_of_rows(void **state)
{
    (void)state;
    enum { RANKS = 4 };
    struct pen_model *model = parse_model(configs[0]);
    struct pen_compute compute = {.model = model,
                                  .micro_batch = BATCH,
                                  .sequence = SEQUENCE,
                                  .cuts_rows = true,
                                  .tensor_ranks = RANKS};
    for (int mode = 0; mode < PEN_RECOMPUTES; mode++) {
        double sum = 0;
        for (uint32_t i = 0; i < model->num_layers; i++)
            for (int pass = 0; pass < PEN_PASS_BACKWARD; pass++) {
                struct pen_tensor_messages sent = pen_tensor_rank_rounds(
                    &compute, pen_model_layer_kind(model, i),
                    (enum pen_recompute)mode, (enum pen_layer_pass)pass);
                sum += sent.count * sent.bytes * RANKS * (RANKS - 1);
            }
        double again = mode == PEN_RECOMPUTE_FULL ? 3 * BLOCKS : 0;
        expect_close(4.0 * (RANKS - 1) * ROWS * HIDDEN *
                         (10 * BLOCKS + 5 + again),
                     sum, "bytes");
    }
    pen_model_free(model);
}

/* Messages in which the first member of a group adds up with the others. */
struct sums {
    uint64_t messages; /* to all partners */
    uint64_t bytes;
};

static void add_sum(struct sums *sums, uint64_t bytes, uint32_t span)
{
    for (uint32_t apart = 1; apart < span; apart *= 2) {
        sums->messages++;
        sums->bytes += bytes;
    }
}

static struct sums sums_of_network(const struct pen_model *model,
                                   const struct split *split)
{
    struct sums sums = {0};
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F32);
    struct pen_network *network;
    struct pen_text why = PEN_TEXT_EMPTY;
    const struct pen_network_options options = {
        .engine = engine,
        .model = model,
        .num_layers = model->num_layers,
        .batch = BATCH,
        .sequence = SEQUENCE,
        .step_rows = ROWS,
        .tensor = {.total = split->tensor,
                   .count = 1,
                   .cuts_rows = split->cuts_rows,
                   .group = split->group}};
    if (pen_network_create(&options, &network, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(network, i);
        if (!it->is_value_only && it->num_sharing > 1)
            add_sum(&sums, it->rows * it->columns * sizeof(float),
                    it->num_sharing);
    }
    pen_network_free(network);
    pen_engine_free(engine);
    return sums;
}

static void compare_sums(const struct pen_model *model, uint32_t ranks,
                         bool cuts_rows)
{
    struct thread_world *world = thread_world_create(ranks);
    const struct split split = {.tensor = ranks,
                                .cuts_rows = cuts_rows,
                                .group = thread_world_group(world, 0)};
    const struct pen_compute compute = {.model = model,
                                        .micro_batch = BATCH,
                                        .sequence = SEQUENCE,
                                        .tensor_ranks = ranks,
                                        .cuts_rows = cuts_rows};
    struct sums here = sums_of_network(model, &split);
    struct sums listed = {0};
    for (uint32_t i = 0; i < model->num_layers; i++) {
        struct pen_pass_messages sent;
        pen_tensor_rank_copies(&compute, i, &sent);
        for (uint32_t k = 0; k < sent.count; k++)
            add_sum(&listed, sent.rounds[k].part_bytes[0], sent.rounds[k].span);
    }
    assert_int_equal(here.messages, listed.messages);
    assert_int_equal(here.bytes, listed.bytes);
    thread_world_free(world);
}

static void gradients_of_copies_are_listed(void **state)
{
    (void)state;
    const char *all[] = {configs[0], configs[1], configs[2], mixture, latent};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct pen_model *model = parse_model(all[i]);
        for (uint32_t ranks = 2; ranks <= MOST_RANKS; ranks *= 2) {
            compare_sums(model, ranks, false);
            compare_sums(model, ranks, true);
        }
        pen_model_free(model);
    }
}

/* Where two blocks are computed again together, the first sends one more sum.
 */
static void chunks_are_computed_again_to_the_last_block(void **state)
{
    (void)state;
    struct pen_model *model = parse_model(configs[0]);
    struct pen_compute compute = {.model = model,
                                  .micro_batch = BATCH,
                                  .sequence = SEQUENCE,
                                  .tensor_ranks = 2};
    const struct pen_layer_range all = {.count = BLOCKS + 2,
                                        .recompute = PEN_RECOMPUTE_FULL};
    assert_int_equal(3 * BLOCKS + 1,
                     pen_compute_tensor_sums(&compute, &all, PEN_PASS_INPUT));
    compute.span.chunk = BLOCKS;
    assert_int_equal(3 * BLOCKS + 1 + BLOCKS - 1,
                     pen_compute_tensor_sums(&compute, &all, PEN_PASS_INPUT));
    compute.cuts_rows = true;
    assert_int_equal(7 * BLOCKS + 1 + BLOCKS - 1,
                     pen_compute_tensor_rounds(&compute, &all, PEN_PASS_INPUT));
    pen_model_free(model);
}

/* Keys and values of two chunks to each other part, per docs/running.md. */
static void parts_send_keys_and_values(void **state)
{
    (void)state;
    enum { PARTS = 4, PAIR = 2 * HIDDEN, CHUNK = ROWS / (2 * PARTS) };
    struct pen_model *model = parse_model(configs[0]);
    struct pen_profile profile = {
        .micro_batch = BATCH, .sequence = SEQUENCE, .link = {true, 1e-3, 1e6}};
    struct pen_compute compute = {.model = model,
                                  .profile = &profile,
                                  .micro_batch = BATCH,
                                  .sequence = SEQUENCE,
                                  .context_ranks = PARTS};
    struct pen_layer_range block = {.first = 1, .count = 1};
    double chunk = 4.0 * PAIR * CHUNK;
    assert_int_equal(4 * PAIR * CHUNK, pen_context_rank_chunk_bytes(&compute));
    double exchange = 1e-3 + 2 * (PARTS - 1) * chunk / 1e6;
    expect_close(2 * exchange,
                 pen_compute_inside_sec(&compute, &block, PEN_COMPUTE_CONTEXT),
                 "there and back");
    block.recompute = PEN_RECOMPUTE_FULL;
    expect_close(3 * exchange,
                 pen_compute_inside_sec(&compute, &block, PEN_COMPUTE_CONTEXT),
                 "gathered again");
    struct pen_layer_range all = {.count = BLOCKS + 2};
    struct pen_context_messages sent =
        pen_compute_context_messages(&compute, &all, PEN_PASS_INPUT);
    assert_int_equal(0, sent.gathers);
    assert_int_equal(BLOCKS, sent.sums);
    pen_model_free(model);
}

/* One rank adds what another one sends; each has half of the products. */
static void seconds_are_shared_and_messages_added(void **state)
{
    (void)state;
    struct pen_model *model = parse_model(configs[0]);
    struct pen_profile profile = {.micro_batch = BATCH, .sequence = SEQUENCE};
    struct pen_compute compute = {.model = model,
                                  .profile = &profile,
                                  .micro_batch = BATCH,
                                  .sequence = SEQUENCE,
                                  .tensor_ranks = 4};
    double stream = ROWS * HIDDEN;
    struct pen_profile_mode *mode =
        &profile.layers[PEN_LAYER_BLOCK].modes[PEN_RECOMPUTE_NONE];
    mode->is_there = true;
    mode->passes[PEN_PASS_FORWARD].median_sec = 1;
    profile.updates[PEN_UPDATE_ADD].median_sec = 0.1 / stream;
    pen_tensor_rank_cut(&compute, &profile);
    expect_close(0.2 + 0.8 / 4, mode->passes[PEN_PASS_FORWARD].median_sec,
                 "norms whole, products shared");
    struct pen_layer_range block = {.first = 1, .count = 1};
    expect_close(0,
                 pen_compute_inside_sec(&compute, &block, PEN_COMPUTE_TENSOR),
                 "without a link");
    profile.link = (struct pen_profile_link){true, 1e-3, 1e6};
    double sum = 1e-3 + 4 * stream / 1e6 + 0.1;
    expect_close(2 * 4 * sum,
                 pen_compute_inside_sec(&compute, &block, PEN_COMPUTE_TENSOR),
                 "four sums with two partners");
    struct pen_cost cost;
    pen_compute_stage(&compute, &block, true, &cost);
    expect_close(0.2 + 0.8 / 4 + 2 * 2 * sum, cost.forward_sec, "a forward");
    compute.cuts_rows = true;
    double round = 1e-3 + 3 * stream / 1e6;
    expect_close(10 * round + (6 * 1 + 4 * 3) * 0.1 / 4,
                 pen_compute_inside_sec(&compute, &block, PEN_COMPUTE_TENSOR),
                 "six gathers, each with a copy, and four scattered results");
    pen_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_keep_what_is_derived),
        cmocka_unit_test(ranks_with_some_experts_keep_what_is_derived),
        cmocka_unit_test(ranks_with_parts_of_experts_keep_what_is_derived),
        cmocka_unit_test(a_rank_sends_four_sums_of_a_block),
        cmocka_unit_test(ranks_send_parts_of_rows),
        cmocka_unit_test(gradients_of_copies_are_listed),
        cmocka_unit_test(chunks_are_computed_again_to_the_last_block),
        cmocka_unit_test(parts_send_keys_and_values),
        cmocka_unit_test(experts_send_what_the_formula_has),
        cmocka_unit_test(ranks_with_parts_of_experts_send_gradients_of_gates),
        cmocka_unit_test(experts_take_the_seconds_of_their_messages),
        cmocka_unit_test(seconds_are_shared_and_messages_added)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
