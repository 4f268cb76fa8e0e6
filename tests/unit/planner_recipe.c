/*
 * What a recipe changes: where experts lie and how tokens come to them, what is
 * computed again or waits on the host, and what graphs launch.
 */
#include "planner/module_sets.h"
#include "support/layout.h"
#include "support/support.h"

#include <math.h>

/* DeepSeek-V3 as sizes: 256 experts, 8 of them for each token. */
#define DEEPSEEK "preset:deepseek-v3"
#define HIDDEN 7168.0
#define TOKENS 4096.0
#define SPARSE_LAYER 30u

static void open_deepseek(struct layout *out, uint32_t dp, uint32_t ep)
{
    layout_init(out, DEEPSEEK, "preset:dgx-h100*32", 1, 1);
    out->setting.sequence = out->plan->sequence = 4096;
    out->plan->degrees[PEN_DEGREE_DP] = dp;
    out->plan->degrees[PEN_DEGREE_EP] = ep;
    out->plan->expert_tp = 1;
}

static struct pen_layer_time time_layer(const struct layout *layout,
                                        enum pen_recompute mode)
{
    struct pen_layer_time time;
    struct pen_layer_bytes bytes;
    pen_predict_layer(&layout->setting, layout->plan, 0, SPARSE_LAYER, mode,
                      &time, &bytes);
    return time;
}

static struct pen_layer_bytes bytes_of(const struct layout *layout,
                                       enum pen_recompute mode)
{
    struct pen_layer_time time;
    struct pen_layer_bytes bytes;
    pen_predict_layer(&layout->setting, layout->plan, 0, SPARSE_LAYER, mode,
                      &time, &bytes);
    return bytes;
}

static double all_passes(const struct pen_layer_time *time)
{
    return time->forward_sec + time->input_sec + time->weight_sec +
           time->recompute_sec;
}

/* Without a host that waits, what is left of expert_sec are messages. */
static void forget_host(struct layout *layout)
{
    double *constants = layout->cluster->groups[0].device.constants;
    constants[PEN_CONSTANT_COUNT_SEC] = 0;
    constants[PEN_CONSTANT_DISPATCH_SEC] = 0;
    constants[PEN_CONSTANT_EXPERT_LAUNCH] = 0;
}

static void experts_fold_over_tensor_ranks(void **state)
{
    (void)state;
    struct layout layout;
    open_deepseek(&layout, 8, 1);
    uint64_t all = bytes_of(&layout, PEN_RECOMPUTE_NONE).num_experts;
    layout.plan->degrees[PEN_DEGREE_TP] = 4;
    layout.plan->has_sequence_parallel = true;
    layout.plan->degrees[PEN_DEGREE_EP] = 32; /* more than 8 replicas */
    struct pen_layer_bytes folded = bytes_of(&layout, PEN_RECOMPUTE_NONE);
    assert_int_equal(all / 32, folded.num_experts);
    /* Shared by the tensor ranks instead, four experts lie where one was. */
    layout.plan->expert_tp = 4;
    layout.plan->degrees[PEN_DEGREE_EP] = 8;
    struct pen_layer_bytes shared = bytes_of(&layout, PEN_RECOMPUTE_NONE);
    assert_int_equal(all / 32, shared.num_experts);
    /* Their rows are a quarter as wide and four times as many. */
    struct pen_layer_time whole = time_layer(&layout, PEN_RECOMPUTE_NONE);
    assert_true(whole.expert_sec > 0);
    layout_release(&layout);
}

/* 4096 tokens of 7168 numbers in 16 bits, to other nodes and back, twice. */
static void a_node_gets_one_copy(void **state)
{
    (void)state;
    struct layout layout;
    open_deepseek(&layout, 32, 32);
    forget_host(&layout);
    double *constants = layout.cluster->groups[0].device.constants;
    constants[PEN_CONSTANT_NETWORK_SEC] = 0;
    constants[PEN_CONSTANT_LINK_SEC] = 0;
    layout.cluster->levels[1].latency_sec = 0;
    double network = layout.cluster->levels[1].bytes_per_sec *
                     constants[PEN_CONSTANT_NETWORK_SHARE];
    double bytes = TOKENS * HIDDEN * 2;
    struct pen_layer_time copies = time_layer(&layout, PEN_RECOMPUTE_NONE);
    expect_close(4 * bytes * 8 * 3 / 4 / network, copies.expert_sec,
                 "six of eight copies leave the node");
    layout.plan->recipe.dispatcher = PEN_DISPATCHER_DEEPEP;
    struct pen_layer_time one = time_layer(&layout, PEN_RECOMPUTE_NONE);
    expect_close(4 * bytes * 3 * (1 - pow(0.75, 8)) / network, one.expert_sec,
                 "2.7 of three other nodes");
    layout_release(&layout);
}

static void hidden_messages_cost_a_share(void **state)
{
    (void)state;
    struct layout layout;
    open_deepseek(&layout, 32, 32);
    forget_host(&layout);
    struct pen_layer_time open = time_layer(&layout, PEN_RECOMPUTE_NONE);
    layout.plan->recipe.overlaps_experts = true;
    struct pen_layer_time hidden = time_layer(&layout, PEN_RECOMPUTE_NONE);
    expect_close(PEN_BESIDE_SHARE * open.expert_sec, hidden.expert_sec,
                 "beside another micro-batch");
    layout_release(&layout);
}

static void graphs_and_fused_experts_free_the_host(void **state)
{
    (void)state;
    struct layout layout;
    open_deepseek(&layout, 8, 8);
    struct pen_recipe *recipe = &layout.plan->recipe;
    recipe->dispatcher = PEN_DISPATCHER_HYBRIDEP;
    struct pen_layer_time none = time_layer(&layout, PEN_RECOMPUTE_NONE);
    recipe->graphs = PEN_GRAPHS_MODULES;
    struct pen_layer_time some = time_layer(&layout, PEN_RECOMPUTE_NONE);
    recipe->has_fused_experts = true;
    struct pen_layer_time fused = time_layer(&layout, PEN_RECOMPUTE_NONE);
    recipe->graphs = PEN_GRAPHS_FULL;
    struct pen_layer_time full = time_layer(&layout, PEN_RECOMPUTE_NONE);
    assert_true(all_passes(&some) < all_passes(&none));
    assert_true(all_passes(&fused) < all_passes(&some));
    assert_true(all_passes(&full) < all_passes(&fused));
    recipe->dispatcher = PEN_DISPATCHER_ALLTOALL;
    recipe->graphs = PEN_GRAPHS_MODULES;
    struct pen_layer_time counted = time_layer(&layout, PEN_RECOMPUTE_NONE);
    recipe->drops_tokens = true;
    struct pen_layer_time dropped = time_layer(&layout, PEN_RECOMPUTE_NONE);
    assert_true(all_passes(&dropped) < all_passes(&counted));
    layout_release(&layout);
}

/* Bytes of a token that the design notes derive for each module. */
static void modules_free_what_they_hold(void **state)
{
    (void)state;
    struct layout layout;
    open_deepseek(&layout, 8, 8);
    struct pen_recipe *recipe = &layout.plan->recipe;
    double all = (double)bytes_of(&layout, PEN_RECOMPUTE_NONE).stash_bytes;
    const struct {
        enum pen_module module;
        double bytes;
        const char *what;
    } cases[] = {
        {PEN_MODULE_NORMS, 2 * 2 * HIDDEN, "outputs of both norms"},
        {PEN_MODULE_LATENT, 2 * 128 * 3 * 192.0, "queries, keys and values"},
        {PEN_MODULE_EXPERT_ACT, 2 * 8 * 2048.0, "inputs of second products"},
        {PEN_MODULE_EXPERTS, 2 * (8 * (HIDDEN + 3 * 2048.0) + 3 * 2048.0),
         "all of the experts"},
        {PEN_MODULE_SHARED_EXPERTS, 2 * 3 * 2048.0, "the shared one"},
        {PEN_MODULE_MLP, 0, "no dense MLP here"},
        {PEN_MODULE_CORE_ATTENTION, 0, "fused attention has no pairs"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        recipe->modules = 1u << cases[i].module;
        double kept =
            (double)bytes_of(&layout, PEN_RECOMPUTE_SELECTIVE).stash_bytes;
        expect_close(TOKENS * cases[i].bytes, all - kept, cases[i].what);
        struct pen_layer_time time =
            time_layer(&layout, PEN_RECOMPUTE_SELECTIVE);
        assert_true(time.recompute_sec > 0 ||
                    cases[i].module == PEN_MODULE_MLP);
    }
    layout_release(&layout);
}

static double freed_by_norms(struct layout *layout, uint32_t layer)
{
    struct pen_layer_time time;
    struct pen_layer_bytes all;
    struct pen_layer_bytes kept;
    layout->plan->recipe.modules = 1u << PEN_MODULE_NORMS;
    pen_predict_layer(&layout->setting, layout->plan, 0, layer,
                      PEN_RECOMPUTE_NONE, &time, &all);
    pen_predict_layer(&layout->setting, layout->plan, 0, layer,
                      PEN_RECOMPUTE_SELECTIVE, &time, &kept);
    return (double)all.stash_bytes - (double)kept.stash_bytes;
}

/* Transformer Engine joins the others with the product behind them. */
static void norms_of_experts_and_latents_are_freed(void **state)
{
    (void)state;
    struct layout layout;
    layout_init(&layout, "preset:llama-3.1-8b", "preset:dgx-h100*8", 1, 1);
    expect_close(0, freed_by_norms(&layout, 5), "plain attention, dense MLP");
    layout_release(&layout);
    layout_init(&layout, "preset:qwen3-30b-a3b", "preset:dgx-h100*8", 1, 1);
    double row = 2.0 * layout.setting.model->hidden * layout.setting.sequence;
    expect_close(row, freed_by_norms(&layout, 5), "before experts");
    layout.plan->recipe.graphs = PEN_GRAPHS_MODULES;
    expect_close(0, freed_by_norms(&layout, 5), "inside a graph");
    layout_release(&layout);
    open_deepseek(&layout, 8, 8);
    expect_close(TOKENS * 2 * HIDDEN, freed_by_norms(&layout, 1),
                 "a latent before a dense MLP");
    layout_release(&layout);
}

/* Each frees more bytes than the one before it, and takes longer. */
static void sets_of_modules_are_in_order(void **state)
{
    (void)state;
    const struct {
        const char *model;
        unsigned first; /* modules of the first set */
        bool has_experts;
    } cases[] = {
        {"preset:llama-3.1-8b", 1u << PEN_MODULE_MLP, false},
        {"preset:qwen3-30b-a3b",
         1u << PEN_MODULE_NORMS | 1u << PEN_MODULE_EXPERT_ACT, true},
        {DEEPSEEK, 1u << PEN_MODULE_NORMS | 1u << PEN_MODULE_LATENT, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct layout layout;
        struct pen__module_sets sets;
        layout_init(&layout, cases[i].model, "preset:dgx-h100*8", 1, 1);
        struct pen_recipe recipe = {.modules = 0};
        pen__module_sets_find(&layout.setting, &recipe, &sets);
        assert_true(sets.count >= 1 && sets.count <= 4);
        assert_int_equal(cases[i].first, sets.items[0]);
        double before_sec = 0;
        double before = INFINITY;
        for (uint32_t j = 0; j < sets.count; j++) {
            layout.plan->recipe.modules = sets.items[j];
            struct pen_layer_time time =
                time_layer(&layout, PEN_RECOMPUTE_SELECTIVE);
            double kept =
                (double)bytes_of(&layout, PEN_RECOMPUTE_SELECTIVE).stash_bytes;
            assert_true(kept < before && time.recompute_sec > before_sec);
            before = kept;
            before_sec = time.recompute_sec;
        }
        unsigned experts = 1u << PEN_MODULE_EXPERTS;
        assert_true(((sets.items[sets.count - 1] & experts) != 0) ==
                    cases[i].has_experts);
        recipe.overlaps_experts = true;
        pen__module_sets_find(&layout.setting, &recipe, &sets);
        for (uint32_t j = 0; j < sets.count; j++)
            assert_int_equal(0, sets.items[j] & experts);
        recipe.modules = experts;
        pen__module_sets_find(&layout.setting, &recipe, &sets);
        assert_int_equal(1, sets.count);
        assert_int_equal(experts, sets.items[0]);
        layout_release(&layout);
    }
}

static void narrow_numbers_keep_narrow_inputs(void **state)
{
    (void)state;
    struct layout layout;
    open_deepseek(&layout, 8, 8);
    double wide = (double)bytes_of(&layout, PEN_RECOMPUTE_NONE).stash_bytes;
    layout.setting.number = PEN_NUMBER_FP8;
    double narrow = (double)bytes_of(&layout, PEN_RECOMPUTE_NONE).stash_bytes;
    /* One byte less for norms, second products and permuted tokens; one more
     * for what attention gives, and none for what stays wide in the latent. */
    double latent = 1536 + 512 + 64;
    double less =
        2 * HIDDEN + 8 * (HIDDEN + 2048.0) + 2048.0 + latent - 128 * 128.0;
    expect_close(TOKENS * less, wide - narrow, "8 bits");
    layout_release(&layout);
}

static void a_further_token_is_a_block_and_a_head(void **state)
{
    (void)state;
    struct layout layout;
    open_deepseek(&layout, 8, 8);
    struct pen_layer_time head;
    struct pen_layer_time block = time_layer(&layout, PEN_RECOMPUTE_NONE);
    struct pen_layer_time more;
    struct pen_layer_bytes bytes;
    struct pen_layer_bytes more_bytes;
    uint32_t last = layout.model->num_layers - 1;
    pen_predict_layer(&layout.setting, layout.plan, 0, last, PEN_RECOMPUTE_NONE,
                      &head, &bytes);
    layout.plan->recipe.mtp_blocks = 1;
    pen_predict_layer(&layout.setting, layout.plan, 0, last, PEN_RECOMPUTE_NONE,
                      &more, &more_bytes);
    assert_true(more.forward_sec > 2 * head.forward_sec + block.forward_sec);
    assert_true(more.forward_sec <
                1.1 * (2 * head.forward_sec + block.forward_sec));
    assert_true(more_bytes.num_experts > 0);
    layout_release(&layout);
}

/* Nemotron predicts a further token with attention and with experts. */
static void a_further_token_has_blocks_of_its_kinds(void **state)
{
    (void)state;
    struct layout layout;
    layout_init(&layout, "preset:nemotron-3-super", "preset:dgx-h100*1", 1, 1);
    const struct pen_model *model = layout.model;
    uint32_t last = model->num_layers - 1;
    struct pen_layer_time head;
    struct pen_layer_time more;
    struct pen_layer_bytes bytes;
    double blocks = 0;
    assert_int_equal(2, model->num_mtp_kinds);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t block = 0;
        struct pen_layer_time time;
        while (pen_model_block_kind(model, block) != model->mtp_kinds[i])
            block++;
        pen_predict_layer(&layout.setting, layout.plan, 0, block + 1,
                          PEN_RECOMPUTE_NONE, &time, &bytes);
        blocks += time.forward_sec;
    }
    pen_predict_layer(&layout.setting, layout.plan, 0, last, PEN_RECOMPUTE_NONE,
                      &head, &bytes);
    layout.plan->recipe.mtp_blocks = 1;
    pen_predict_layer(&layout.setting, layout.plan, 0, last, PEN_RECOMPUTE_NONE,
                      &more, &bytes);
    assert_true(more.forward_sec > 2 * head.forward_sec + blocks);
    assert_true(more.forward_sec < 1.15 * (2 * head.forward_sec + blocks));
    layout_release(&layout);
}

/* Gradients go over the way to the host, weights come back. */
static void a_step_on_the_host_takes_its_way(void **state)
{
    (void)state;
    struct layout layout;
    layout_init(&layout, "preset:llama-3.1-8b", "preset:dgx-h100*1", 1, 1);
    layout.plan->degrees[PEN_DEGREE_DP] = 8;
    layout.plan->sharding = PEN_SHARDING_ZERO1;
    struct pen_prediction here;
    struct pen_prediction there;
    layout_predict(&layout, &here);
    layout.plan->recipe.offloads_optimizer = true;
    layout_predict(&layout, &there);
    assert_int_equal(0, there.memory[0].bytes[PEN_MEMORY_OPTIMIZER]);
    double weights = (double)layout.model->num_parameters / 8;
    double rate =
        layout.cluster->groups[0].device.constants[PEN_CONSTANT_HOST_RATE];
    assert_true(there.step_sec - here.step_sec > weights * (4 + 2) / rate);
    pen_prediction_release(&here);
    pen_prediction_release(&there);
    layout_release(&layout);
}

static void blocks_on_the_host_free_the_device(void **state)
{
    (void)state;
    struct layout layout;
    layout_init(&layout, "preset:llama-3.1-8b", "preset:dgx-h100*8", 1, 1);
    layout.plan->degrees[PEN_DEGREE_DP] = 8;
    struct pen_prediction here;
    struct pen_prediction half;
    layout_predict(&layout, &here);
    layout.plan->recipe.offload_blocks = 16; /* of 32 */
    layout_predict(&layout, &half);
    expect_close((double)here.memory[0].bytes[PEN_MEMORY_ACTIVATIONS] / 2,
                 (double)half.memory[0].bytes[PEN_MEMORY_ACTIVATIONS],
                 "half of the activations");
    /* A slow way to the host is waited for. */
    layout.cluster->groups[0].device.constants[PEN_CONSTANT_HOST_RATE] = 1e9;
    assert_true(layout_step(&layout) > 2 * half.step_sec);
    pen_prediction_release(&here);
    pen_prediction_release(&half);
    layout_release(&layout);
}

static void narrow_attention_is_faster(void **state)
{
    (void)state;
    struct layout layout;
    open_deepseek(&layout, 8, 8);
    struct pen_layer_time wide = time_layer(&layout, PEN_RECOMPUTE_NONE);
    layout.plan->recipe.has_narrow_attention = true;
    struct pen_layer_time narrow = time_layer(&layout, PEN_RECOMPUTE_NONE);
    assert_true(narrow.forward_sec < wide.forward_sec);
    assert_true(narrow.input_sec < wide.input_sec);
    layout_release(&layout);
}

static void pages_are_larger_than_their_contents(void **state)
{
    (void)state;
    struct layout layout;
    open_deepseek(&layout, 8, 8);
    double plain = (double)bytes_of(&layout, PEN_RECOMPUTE_NONE).stash_bytes;
    layout.plan->recipe.is_paged = true;
    double paged = (double)bytes_of(&layout, PEN_RECOMPUTE_NONE).stash_bytes;
    expect_close(floor(0.2 * TOKENS * 2 * 8 * (HIDDEN + 3 * 2048.0)),
                 paged - plain, "a fifth of the experts");
    layout_release(&layout);
}

static void overlap_holds_a_chunk_more(void **state)
{
    (void)state;
    struct layout layout;
    layout_init(&layout, "preset:qwen3-30b-a3b", "preset:dgx-h100*2", 4, 2);
    layout.plan->degrees[PEN_DEGREE_DP] = 2;
    layout.plan->degrees[PEN_DEGREE_EP] = 2;
    uint64_t plain = layout_peak(&layout);
    layout.plan->recipe.overlaps_experts = true;
    uint64_t more = layout_peak(&layout);
    assert_true(more > plain);
    assert_true(more < 2 * plain);
    layout_release(&layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_fold_over_tensor_ranks),
        cmocka_unit_test(a_node_gets_one_copy),
        cmocka_unit_test(hidden_messages_cost_a_share),
        cmocka_unit_test(graphs_and_fused_experts_free_the_host),
        cmocka_unit_test(modules_free_what_they_hold),
        cmocka_unit_test(norms_of_experts_and_latents_are_freed),
        cmocka_unit_test(sets_of_modules_are_in_order),
        cmocka_unit_test(narrow_numbers_keep_narrow_inputs),
        cmocka_unit_test(a_further_token_is_a_block_and_a_head),
        cmocka_unit_test(a_further_token_has_blocks_of_its_kinds),
        cmocka_unit_test(a_step_on_the_host_takes_its_way),
        cmocka_unit_test(blocks_on_the_host_free_the_device),
        cmocka_unit_test(narrow_attention_is_faster),
        cmocka_unit_test(pages_are_larger_than_their_contents),
        cmocka_unit_test(overlap_holds_a_chunk_more)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
