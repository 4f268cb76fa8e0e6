/*
 * A Megatron command line is read as the model and the plan that Megatron-LM
 * would make of it; what it would refuse is refused in one line.
 */
#include "support/support.h"

#include "export/megatron_line.h"

#include <string.h>

/* The least that is a line, to which a test adds. */
#define LEAST                                                                  \
    "--num-layers 8 --hidden-size 64 --num-attention-heads 4 "                 \
    "--seq-length 32 --vocab-size 100 "

struct read {
    struct pen_model *model;
    struct pen_plan *plan;
    struct pen_text notes;
};

static struct read read_line(const char *text, uint64_t world)
{
    struct read read = {.notes = PEN_TEXT_EMPTY};
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_megatron_line_parse(text, strlen(text), world, &read.model,
                                &read.plan, &read.notes, &why) != PEN_OK)
        fail_msg("%s\nrefused: %s", text, pen_text_string(&why));
    pen_text_release(&why);
    return read;
}

static void release(struct read *read)
{
    pen_model_free(read->model);
    pen_plan_free(read->plan);
    pen_text_release(&read->notes);
}

static void expect_refusal(const char *text, uint64_t world,
                           const char *expected)
{
    struct read read = {.notes = PEN_TEXT_EMPTY};
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_megatron_line_parse(text, strlen(text), world, &read.model,
                                &read.plan, &read.notes, &why) == PEN_OK)
        fail_msg("accepted: %s", text);
    assert_string_equal(expected, pen_text_string(&why));
    assert_null(read.model);
    assert_null(read.plan);
    pen_text_release(&read.notes);
    pen_text_release(&why);
}

/* The blocks of the stages: "2 3 3". */
static void expect_blocks(const char *line, uint64_t world,
                          const char *expected)
{
    struct read read = read_line(line, world);
    struct pen_text found = PEN_TEXT_EMPTY;
    uint32_t last = read.plan->num_stages - 1;
    for (uint32_t i = 0; i <= last; i++)
        pen_text_add(&found, "%s%u", i == 0 ? "" : " ",
                     read.plan->stages[i].count - (i == 0) - (i == last));
    assert_string_equal(expected, pen_text_string(&found));
    pen_text_release(&found);
    release(&read);
}

/* ---- words ---- */

static void words_are_parted_as_by_a_shell(void **state)
{
    (void)state;
    struct read read = read_line(
        "# a comment --num-layers 3\n"
        "torchrun --nproc_per_node 4 --nnodes=2 pretrain_gpt.py \\\n"
        "  --num-layers=8 --hidden-size '64' --num-attention-heads \"4\" "
        "--seq-length 32 --vocab-size 1\\00 --lr 1e-4 --micro-batch-size 3 "
        "--micro-batch-size 2 --global-batch-size 64 --save '/a b' --bf16 "
        "# --fp16\n",
        0);
    assert_int_equal(8, read.model->num_blocks);
    assert_int_equal(64, read.model->hidden);
    assert_int_equal(100, read.model->vocab);
    assert_int_equal(8, read.plan->degrees[PEN_DEGREE_DP]);
    assert_int_equal(2, read.plan->micro_batch);
    assert_int_equal(4, read.plan->num_microbatches);
    assert_int_equal(PEN_NUMBER_BF16, read.plan->number);
    assert_string_equal("not read: --lr, --save\n",
                        pen_text_string(&read.notes));
    release(&read);
    expect_refusal("--num-layers '8", 1,
                   "the command line ends inside a quote");
    expect_refusal("", 1, "--num-layers is missing");
}

static void what_is_not_read_is_named(void **state)
{
    (void)state;
    struct pen_megatron_overlaps overlaps;
    const char *line = LEAST "--lr 1e-4 \"${DATA_ARGS[@]}\" --lr=2e-4 "
                             "--save $RUN --overlap-grad-reduce";
    struct read read = read_line(line, 1);
    assert_string_equal("not read: --lr, ${DATA_ARGS[@]}, --save\n",
                        pen_text_string(&read.notes));
    release(&read);
    pen_megatron_line_overlaps(line, strlen(line), &overlaps);
    assert_true(overlaps.gradients);
    assert_false(overlaps.parameters);
    assert_false(overlaps.loss);
    line = LEAST "--cross-entropy-loss-fusion";
    pen_megatron_line_overlaps(line, strlen(line), &overlaps);
    assert_true(overlaps.loss);
    read = read_line("torchrun --nproc-per-node 8 x.py " LEAST, 16);
    assert_string_equal("the line starts 8 ranks, but there are 16 devices: "
                        "all of them are used\n",
                        pen_text_string(&read.notes));
    release(&read);
    expect_refusal(LEAST "--seq-length --bf16", 1,
                   "--seq-length has no value, expected a whole number in its "
                   "range");
    expect_refusal(LEAST "--tensor-model-parallel-size $TP", 1,
                   "--tensor-model-parallel-size is '$TP', expected what the "
                   "shell makes of it: variables are not expanded");
}

static void a_line_of_gpt_has_defaults(void **state)
{
    (void)state;
    struct read read = read_line(LEAST, 0);
    assert_int_equal(PEN_FAMILY_GPT2, read.model->family);
    assert_int_equal(256, read.model->intermediate);
    assert_int_equal(32, read.model->max_positions);
    assert_true(read.model->has_tied_embeddings);
    assert_int_equal(PEN_NUMBER_F32, read.plan->number);
    assert_int_equal(PEN_SHARDING_NONE, read.plan->sharding);
    assert_int_equal(1234, read.plan->seed);
    assert_int_equal(1, pen_plan_num_ranks(read.plan));
    assert_string_equal("1f1b", read.plan->schedule.name);
    assert_string_equal(
        "the number of ranks is not given: the plan assumes 1, one replica\n",
        pen_text_string(&read.notes));
    release(&read);
}

static void options_choose_the_family(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        enum pen_family family;
    } cases[] = {
        {"--disable-bias-linear", PEN_FAMILY_LLAMA},
        {"--disable-bias-linear --add-qkv-bias", PEN_FAMILY_QWEN2},
        {"--disable-bias-linear --qk-layernorm", PEN_FAMILY_QWEN3},
        {"--disable-bias-linear --window-size (15,0)", PEN_FAMILY_MISTRAL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_text line = PEN_TEXT_EMPTY;
        pen_text_add(&line,
                     LEAST "--swiglu --normalization RMSNorm "
                           "--position-embedding-type rope "
                           "--untie-embeddings-and-output-weights "
                           "--group-query-attention --num-query-groups 2 %s",
                     cases[i].options);
        struct read read = read_line(pen_text_string(&line), 1);
        assert_int_equal(cases[i].family, read.model->family);
        assert_int_equal(2, read.model->num_kv_heads);
        assert_int_equal(128, read.model->intermediate);
        assert_false(read.model->has_tied_embeddings);
        assert_string_equal("", pen_text_string(&read.notes));
        pen_text_release(&line);
        release(&read);
    }
}

/* ---- the layout ---- */

static void layouts_are_read_with_their_traps(void **state)
{
    (void)state;
#define PP4 LEAST "--pipeline-model-parallel-size 4 "
#define LAYOUT PP4 "--pipeline-model-parallel-layout "
    expect_blocks(LAYOUT "'Ett|tt|tt|ttL'", 4, "2 2 2 2");
    expect_blocks(LAYOUT "'Et*3|t|(t|)*1,t*3L'", 4, "3 1 1 3");
    expect_blocks(LAYOUT "'E|(t|)*6,t*2L'", 4, "0 1 1 1 1 1 1 2");
    expect_blocks(LAYOUT "'E(t|)*7tL'", 4, "1 1 1 1 1 1 1 1");
    expect_blocks(LAYOUT "'Et*2|*1t*2|t*2|t*0t*2L'", 4, "2 2 2 2");
    expect_refusal(LAYOUT "'Ett|tt|tt|ttL|'", 4,
                   "the layout must begin with its only E and end with its "
                   "only L; the | at its end begins an empty stage");
    expect_refusal(LAYOUT "'Ett|tt|tt|tt'", 4,
                   "the layout must begin with its only E and end with its "
                   "only L");
    expect_refusal(
        LAYOUT "'Et*4||t*4|L'", 4,
        "stage 1 of the layout is empty, which a plan does not support");
    expect_refusal(LAYOUT "'Et|t|L'", 4,
                   "the layout has 2 layers in 3 stages; --num-layers is 8, "
                   "and the stages must divide by pp 4");
    expect_refusal(LAYOUT "'Et*8|m|t|L'", 4,
                   "the layout has multi-token prediction layers (m) elsewhere "
                   "than right before L, which a plan does not support");
    expect_refusal(LAYOUT "'E((t|)*2)*2L'", 4,
                   "the layout has '('; expected E, t, m, L or |");
    expect_refusal(LAYOUT "'Et*99999999999999999999L'", 4,
                   "the layout has more than 262144 characters");
    expect_refusal(LAYOUT "''", 4,
                   "the layout must begin with its only E and end with its "
                   "only L");
}

static void layers_are_dealt_as_the_options_say(void **state)
{
    (void)state;
    expect_blocks(PP4, 4, "2 2 2 2");
    expect_blocks(PP4 "--num-layers-per-virtual-pipeline-stage 1", 4,
                  "1 1 1 1 1 1 1 1");
    expect_blocks(PP4 "--num-virtual-stages-per-pipeline-rank 2", 4,
                  "1 1 1 1 1 1 1 1");
    expect_blocks(PP4 "--num-layers 10 "
                      "--account-for-embedding-in-pipeline-split "
                      "--account-for-loss-in-pipeline-split",
                  4, "2 3 3 2");
    expect_blocks(PP4 "--decoder-first-pipeline-num-layers 1 "
                      "--decoder-last-pipeline-num-layers 3",
                  4, "1 2 2 3");
    expect_blocks(PP4 "--num-layers 14 --decoder-first-pipeline-num-layers 2 "
                      "--num-virtual-stages-per-pipeline-rank 2",
                  4, "1 2 2 2 1 2 2 2");
    expect_refusal(PP4 "--num-layers 9", 4,
                   "9 layers do not divide into 1 stages on each of 4 ranks");
    expect_refusal(PP4 "--decoder-first-pipeline-num-layers 9", 4,
                   "8 layers do not divide into 1 stages on each of 4 ranks");
}

/* The layout of a 70B from a thread: 40 stages, 80 layers. */
static void a_layout_from_the_field_is_read(void **state)
{
    (void)state;
    struct read read = read_line(
        "--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 "
        "--num-attention-heads 64 --group-query-attention "
        "--num-query-groups 8 --swiglu --normalization RMSNorm "
        "--position-embedding-type rope --disable-bias-linear "
        "--untie-embeddings-and-output-weights --vocab-size 128256 "
        "--seq-length 8192 --tensor-model-parallel-size 4 "
        "--sequence-parallel --pipeline-model-parallel-size 8 "
        "--pipeline-model-parallel-layout "
        "\"Et*2|(t*2|)*34,t*3|(t*2|)*3,tL\" --micro-batch-size 1 "
        "--global-batch-size 128 --use-distributed-optimizer "
        "--overlap-grad-reduce --overlap-param-gather "
        "--recompute-granularity selective --recompute-modules core_attn",
        64);
    const struct pen_plan *plan = read.plan;
    assert_int_equal(40, plan->num_stages);
    assert_int_equal(5, plan->degrees[PEN_DEGREE_VPP]);
    assert_int_equal(2, plan->degrees[PEN_DEGREE_DP]);
    assert_int_equal(64, plan->num_microbatches);
    assert_int_equal(3, plan->stages[35].count);
    assert_int_equal(2, plan->stages[39].count);
    assert_true(plan->has_sequence_parallel);
    assert_int_equal(PEN_SHARDING_ZERO1, plan->sharding);
    assert_int_equal(PEN_RECOMPUTE_SELECTIVE, plan->stages[7].recompute);
    assert_string_equal("interleaved", plan->schedule.name);
    release(&read);
}

static void experts_are_read(void **state)
{
    (void)state;
    struct read read = read_line(
        LEAST "--swiglu --normalization RMSNorm --position-embedding-type "
              "rope --disable-bias-linear --num-experts 16 --moe-router-topk 4 "
              "--moe-ffn-hidden-size 48 --moe-layer-freq ([0]*3+[1]*5) "
              "--moe-shared-expert-intermediate-size 96 "
              "--multi-latent-attention --q-lora-rank 24 --kv-lora-rank 16 "
              "--qk-head-dim 8 --qk-pos-emb-head-dim 4 --v-head-dim 8 "
              "--expert-model-parallel-size 2",
        4);
    const struct pen_model *model = read.model;
    assert_int_equal(PEN_FAMILY_DEEPSEEK_V3, model->family);
    assert_int_equal(16, model->num_experts);
    assert_int_equal(4, model->experts_per_token);
    assert_int_equal(48, model->expert_intermediate);
    assert_int_equal(2, model->num_shared_experts);
    assert_int_equal(3, model->num_dense_blocks);
    assert_int_equal(24, model->q_lora_rank);
    assert_int_equal(12, model->head_dim);
    assert_int_equal(2, read.plan->degrees[PEN_DEGREE_EP]);
    assert_string_equal("", pen_text_string(&read.notes));
    release(&read);
    read = read_line(LEAST "--swiglu --normalization RMSNorm "
                           "--position-embedding-type rope --qk-layernorm "
                           "--disable-bias-linear --num-experts 16 "
                           "--moe-router-topk 4 --moe-layer-freq "
                           "([0]*1+[1]*1+[0]*1+[1]*1+[0]*1+[1]*1+[0]*1+[1]*1)",
                     4);
    assert_int_equal(PEN_FAMILY_QWEN3_MOE, read.model->family);
    assert_int_equal(2, read.model->sparse_step);
    assert_string_equal("", pen_text_string(&read.notes));
    release(&read);
}

/* ---- the rest ---- */

static void narrow_numbers_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        enum pen_number number;
    } rows[] = {
        {LEAST "--bf16 --fp8-format hybrid --fp8-recipe tensorwise",
         PEN_NUMBER_FP8},
        {LEAST "--bf16 --fp8-format e4m3 --fp8-recipe mxfp8", PEN_NUMBER_MXFP8},
        {LEAST "--bf16 --fp4-format e2m1", PEN_NUMBER_NVFP4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct read read = read_line(rows[i].line, 2);
        assert_int_equal(rows[i].number, read.plan->number);
        assert_string_equal("", pen_text_string(&read.notes));
        release(&read);
    }
}

static void recomputation_and_sharding_are_read(void **state)
{
    (void)state;
    struct read read =
        read_line(LEAST "--recompute-granularity full --recompute-method block "
                        "--recompute-num-layers 3 --use-megatron-fsdp "
                        "--data-parallel-sharding-strategy optim_grads --bf16 "
                        "--fp8-format hybrid",
                  2);
    assert_int_equal(PEN_RECOMPUTE_FULL, read.plan->stages[0].recompute);
    assert_int_equal(PEN_SHARDING_ZERO2, read.plan->sharding);
    assert_int_equal(PEN_NUMBER_FP8, read.plan->number);
    assert_string_equal(
        "Megatron recomputes a part of each stage's layers; the plan "
        "recomputes all of them\n",
        pen_text_string(&read.notes));
    release(&read);
}

#define MIXTURE                                                                \
    LEAST "--swiglu --normalization RMSNorm --position-embedding-type rope "   \
          "--qk-layernorm --disable-bias-linear --num-experts 16 --bf16 "

static void a_recipe_is_read(void **state)
{
    (void)state;
    struct read read = read_line(
        MIXTURE
        "--tensor-model-parallel-size 2 --sequence-parallel "
        "--expert-model-parallel-size 8 --expert-tensor-parallel-size 1 "
        "--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend "
        "hybridep --overlap-moe-expert-parallel-comm --delay-wgrad-compute "
        "--recompute-granularity selective --recompute-modules moe_act "
        "layernorm --fine-grained-activation-offloading "
        "--offload-modules=core_attn,qkv_linear "
        "--use-distributed-optimizer --use-precision-aware-optimizer "
        "--exp-avg-dtype bf16 --exp-avg-sq-dtype fp32 --grad-reduce-in-bf16 "
        "--cuda-graph-impl local --cuda-graph-scope attn moe_router",
        8);
    const struct pen_recipe *recipe = &read.plan->recipe;
    assert_int_equal(1, read.plan->expert_tp);
    assert_int_equal(8, read.plan->degrees[PEN_DEGREE_EP]);
    assert_int_equal(PEN_DISPATCHER_HYBRIDEP, recipe->dispatcher);
    assert_true(recipe->overlaps_experts && recipe->delays_weights);
    assert_int_equal(1u << PEN_MODULE_EXPERT_ACT | 1u << PEN_MODULE_NORMS,
                     recipe->modules);
    assert_int_equal(1u << PEN_MODULE_CORE_ATTENTION, recipe->offloaded);
    assert_int_equal(6, recipe->moment_bytes);
    assert_int_equal(2, recipe->master_bytes);
    assert_int_equal(2, recipe->gradient_bytes);
    assert_int_equal(PEN_GRAPHS_MODULES, recipe->graphs);
    assert_string_equal("--offload-modules: qkv_linear is not counted\n",
                        pen_text_string(&read.notes));
    release(&read);
}

static void further_recipes_are_read(void **state)
{
    (void)state;
    struct read read =
        read_line(MIXTURE "--pipeline-model-parallel-size 2 "
                          "--pipeline-model-parallel-layout Et*4|t*4mmL "
                          "--mtp-num-layers 2 --optimizer dist_muon",
                  2);
    assert_int_equal(2, read.plan->recipe.mtp_blocks);
    assert_int_equal(PEN_OPTIMIZER_MUON, read.plan->recipe.optimizer);
    assert_int_equal(PEN_SHARDING_ZERO1, read.plan->sharding);
    release(&read);
    read = read_line(LEAST "--bf16 --cuda-graph-impl full_iteration "
                           "--recompute-activations --recompute-modules "
                           "core_attn --cpu-offloading-num-layers 0",
                     1);
    assert_int_equal(PEN_GRAPHS_FULL, read.plan->recipe.graphs);
    assert_int_equal(0, read.plan->recipe.modules);
    release(&read);
    expect_refusal(MIXTURE "--pipeline-model-parallel-size 2 "
                           "--pipeline-model-parallel-layout Et*4|t*4mL "
                           "--mtp-num-layers 2",
                   2, "--mtp-num-layers is 2, but the layout has 1 layers m");
}

static void numbers_that_do_not_agree_are_refused(void **state)
{
    (void)state;
    expect_refusal(LEAST "--tensor-model-parallel-size 3", 8,
                   "8 ranks do not divide by tp 3 x pp 1 x cp 1");
    expect_refusal(LEAST "--micro-batch-size 3 --global-batch-size 8", 2,
                   "--global-batch-size 8 does not divide by a micro-batch of "
                   "3 on 2 replicas");
    expect_refusal(
        LEAST "--tensor-model-parallel-size 0", 1,
        "--tensor-model-parallel-size is '0', expected a whole number "
        "in its range");
    expect_refusal(
        LEAST "--tensor-model-parallel-size", 1,
        "--tensor-model-parallel-size has no value, expected a whole number "
        "in its range");
    expect_refusal(LEAST "--norm-epsilon small", 1,
                   "--norm-epsilon is 'small', expected a number");
    expect_refusal(
        LEAST "--num-attention-heads 5", 1,
        "the model of the command line: 5 heads do not divide a hidden "
        "size of 64, or their total width is above 4194304");
    expect_refusal(LEAST "--hidden-size 8 --swiglu", 1,
                   "--ffn-hidden-size is missing, and --hidden-size 8 is too "
                   "small for its default");
    expect_refusal(LEAST "--multi-latent-attention", 1,
                   "latent attention is supported with experts only");
    expect_refusal(
        LEAST "--num-experts 8 --moe-layer-freq ([0]*3+[1]*9)", 1,
        "--moe-layer-freq must be a number or a list as ([0]*3+[1]*5) "
        "for 8 blocks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_parted_as_by_a_shell),
        cmocka_unit_test(what_is_not_read_is_named),
        cmocka_unit_test(a_line_of_gpt_has_defaults),
        cmocka_unit_test(options_choose_the_family),
        cmocka_unit_test(layouts_are_read_with_their_traps),
        cmocka_unit_test(layers_are_dealt_as_the_options_say),
        cmocka_unit_test(a_layout_from_the_field_is_read),
        cmocka_unit_test(experts_are_read),
        cmocka_unit_test(narrow_numbers_are_read),
        cmocka_unit_test(recomputation_and_sharding_are_read),
        cmocka_unit_test(a_recipe_is_read),
        cmocka_unit_test(further_recipes_are_read),
        cmocka_unit_test(numbers_that_do_not_agree_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
