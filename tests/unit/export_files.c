/*
 * What is written for each target, word by word, for one small plan; what
 * happens to plans that a target cannot say.
 */
#include "support/support.h"

#include "core/profile.h"
#include "export/export.h"

#include <stdlib.h>
#include <string.h>

#define CONFIG                                                                 \
    "{\"model_type\":\"llama\",\"torch_dtype\":\"bfloat16\","                  \
    "\"vocab_size\":1000,\"hidden_size\":256,\"num_hidden_layers\":4,"         \
    "\"num_attention_heads\":8,\"num_key_value_heads\":4,"                     \
    "\"intermediate_size\":512,\"max_position_embeddings\":4096,"              \
    "\"rms_norm_eps\":1e-5}"

static struct pen_model *parse_model(const char *config)
{
    struct pen_model *model = NULL;
    assert_int_equal(PEN_OK,
                     pen_model_parse(config, strlen(config), &model, NULL));
    return model;
}

/* dp 2, 8 micro-batches of 2, layers spread over pp * vpp stages. */
static struct pen_plan *make_plan(const struct pen_model *model, uint32_t pp,
                                  uint32_t vpp, const char *schedule)
{
    struct pen_plan *plan = pen_plan_create(pp, vpp);
    uint32_t next = 0;
    assert_non_null(plan);
    assert_true(pen_plan_set(&plan->model, "tiny"));
    assert_true(pen_plan_set(&plan->schedule.name, schedule));
    assert_int_equal(PEN_OK,
                     pen_profile_hash_model(model, plan->model_hash, NULL));
    plan->sequence = 1024;
    plan->number = PEN_NUMBER_BF16;
    plan->degrees[PEN_DEGREE_DP] = 2;
    plan->micro_batch = 2;
    plan->num_microbatches = 8;
    plan->logical_replicas = 2;
    plan->sharding = PEN_SHARDING_ZERO1;
    plan->seed = 7;
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        uint32_t end = model->num_layers * (i + 1) / plan->num_stages;
        plan->stages[i].first = next;
        plan->stages[i].count = end - next;
        next = end;
    }
    return plan;
}

struct made {
    struct pen_export_files files;
    struct pen_text notes;
};

static struct made export_plan(const char *target, const struct pen_plan *plan,
                               const struct pen_model *model)
{
    struct made made = {.notes = PEN_TEXT_EMPTY};
    struct pen_text why = PEN_TEXT_EMPTY;
    const struct pen_export *exporter = pen_export_find(target, &why);
    if (exporter == NULL || pen_export_make(exporter, plan, model, &made.files,
                                            &made.notes, &why) != PEN_OK)
        fail_msg("%s: %s", target, pen_text_string(&why));
    pen_text_release(&why);
    return made;
}

static void release(struct made *made)
{
    pen_export_files_release(&made->files);
    pen_text_release(&made->notes);
}

/* The first file, without the comments at its head. */
static const char *body(const struct made *made, uint32_t file)
{
    const char *text = pen_text_string(&made->files.list[file].text);
    while (*text == '#')
        text += strcspn(text, "\n") + 1;
    return text;
}

static void expect_notes(const char *target, struct pen_plan *plan,
                         const struct pen_model *model, const char *expected)
{
    struct made made = export_plan(target, plan, model);
    assert_string_equal(expected, pen_text_string(&made.notes));
    release(&made);
    pen_plan_free(plan);
}

/* ---- texts ---- */

static void megatron_gets_options(void **state)
{
    (void)state;
    struct pen_model *model = parse_model(CONFIG);
    struct pen_plan *plan = make_plan(model, 3, 1, "1f1b");
    struct made made = export_plan("megatron", plan, model);
    assert_string_equal("", pen_text_string(&made.notes));
    assert_string_equal("megatron.args", made.files.list[0].name);
    assert_string_equal(
        "--num-layers 4\n--hidden-size 256\n--ffn-hidden-size 512\n"
        "--num-attention-heads 8\n--kv-channels 32\n"
        "--group-query-attention\n--num-query-groups 4\n"
        "--max-position-embeddings 4096\n"
        "--position-embedding-type rope\n--rotary-base 10000\n"
        "--vocab-size 1000\n--normalization RMSNorm\n"
        "--norm-epsilon 1e-05\n--swiglu\n--disable-bias-linear\n"
        "--untie-embeddings-and-output-weights\n"
        "--attention-dropout 0.0\n--hidden-dropout 0.0\n"
        "--seq-length 1024\n--micro-batch-size 2\n"
        "--global-batch-size 32\n--bf16\n"
        "--cross-entropy-loss-fusion\n--seed 7\n"
        "--tensor-model-parallel-size 1\n"
        "--pipeline-model-parallel-size 3\n"
        "--pipeline-model-parallel-layout \"Et|tt|tL\"\n"
        "--overlap-grad-reduce\n--use-distributed-optimizer\n"
        "--overlap-param-gather\n",
        body(&made, 0));
    release(&made);
    pen_plan_free(plan);
    pen_model_free(model);
}

/* Runs of equal stages are told in brackets, and no bar ends the layout. */
static void a_long_layout_is_short(void **state)
{
    (void)state;
    struct pen_model *model = parse_model(
        "{\"model_type\":\"llama\",\"vocab_size\":1000,\"hidden_size\":256,"
        "\"num_hidden_layers\":80,\"num_attention_heads\":8,"
        "\"intermediate_size\":512,\"max_position_embeddings\":4096}");
    struct pen_plan *plan = make_plan(model, 8, 5, "interleaved");
    struct made made;
    uint32_t next = 0;
    for (uint32_t i = 0; i < 40; i++) {
        plan->stages[i].first = next;
        plan->stages[i].count = i == 0 || i == 35 ? 3 : 2;
        next += plan->stages[i].count;
    }
    made = export_plan("megatron", plan, model);
    assert_non_null(strstr(body(&made, 0), "--pipeline-model-parallel-layout "
                                           "\"Ett|(tt|)*34t*3|(tt|)*3tL\"\n"));
    release(&made);
    pen_plan_free(plan);
    pen_model_free(model);
}

static void deepspeed_gets_json_and_its_cut(void **state)
{
    (void)state;
    struct pen_model *model = parse_model(CONFIG);
    struct pen_plan *plan = make_plan(model, 3, 1, "1f1b");
    struct made made = export_plan("deepspeed", plan, model);
    assert_string_equal(
        "{\n  \"train_batch_size\": 32,\n"
        "  \"train_micro_batch_size_per_gpu\": 2,\n"
        "  \"gradient_accumulation_steps\": 8,\n"
        "  \"zero_optimization\": {\"stage\": 1, \"overlap_comm\": true},\n"
        "  \"bf16\": {\"enabled\": true},\n"
        "  \"pipeline\": {\"activation_checkpoint_interval\": 0}\n}\n",
        body(&made, 0));
    assert_non_null(strstr(body(&made, 1), "PARTS = [0, 2, 4, 6]\n"));
    assert_non_null(strstr(body(&made, 1), "num_pp=3, num_mp=1, num_dp=2"));
    release(&made);
    pen_plan_free(plan);
    pen_model_free(model);
}

static void torchtitan_gets_arguments(void **state)
{
    (void)state;
    struct pen_model *model = parse_model(CONFIG);
    struct pen_plan *plan = make_plan(model, 3, 1, "zb-h1");
    plan->sharding = PEN_SHARDING_ZERO3;
    struct made made = export_plan("torchtitan", plan, model);
    assert_string_equal("", pen_text_string(&made.notes));
    assert_int_equal(5, made.files.count);
    assert_string_equal(
        "--module recipe --config model\n"
        "--parallelism.module_fqns_per_model_part tok_embeddings,layers.0 "
        "layers.1,layers.2 layers.3,norm,lm_head\n"
        "--training.local_batch_size 16\n"
        "--training.global_batch_size 32\n--training.seq_len 1024\n"
        "--training.mixed_precision_param bfloat16\n"
        "--training.disable_cuda_graphs\n--debug.seed 7\n"
        "--parallelism.data_parallel_replicate_degree 1\n"
        "--parallelism.data_parallel_shard_degree 2\n"
        "--parallelism.fsdp_reshard_after_forward always\n"
        "--parallelism.tensor_parallel_degree 1\n"
        "--parallelism.context_parallel_degree 1\n"
        "--parallelism.expert_parallel_degree 1\n"
        "--parallelism.pipeline_parallel_degree 3\n"
        "--parallelism.pipeline_parallel_schedule PipelineScheduleMulti\n"
        "--parallelism.pipeline_parallel_schedule_csv schedule.csv\n"
        "--parallelism.pipeline_parallel_microbatch_size 2\n"
        "activation_checkpoint:none\n",
        body(&made, 0));
    assert_string_equal("schedule.csv", made.files.list[2].name);
    release(&made);
    pen_plan_free(plan);
    pen_model_free(model);
}

static void old_torchtitan_gets_toml(void **state)
{
    (void)state;
    struct pen_model *model = parse_model(
        "{\"model_type\":\"llama\",\"vocab_size\":128256,"
        "\"hidden_size\":4096,\"num_hidden_layers\":32,"
        "\"num_attention_heads\":32,\"num_key_value_heads\":8,"
        "\"intermediate_size\":14336,\"max_position_embeddings\":8192}");
    struct pen_plan *plan = make_plan(model, 1, 1, "1f1b");
    plan->sharding = PEN_SHARDING_ZERO3;
    plan->stages[0].recompute = PEN_RECOMPUTE_SELECTIVE;
    struct made made = export_plan("torchtitan@0.2.2", plan, model);
    assert_string_equal(
        "[model]\nname = \"llama3\"\nflavor = \"8B\"\n\n"
        "[training]\nlocal_batch_size = 2\nglobal_batch_size = 32\n"
        "seq_len = 1024\ndtype = \"float32\"\n"
        "mixed_precision_param = \"bfloat16\"\n\n"
        "[debug]\nseed = 7\n\n"
        "[parallelism]\ndata_parallel_replicate_degree = 1\n"
        "data_parallel_shard_degree = 2\n"
        "fsdp_reshard_after_forward = \"always\"\n"
        "tensor_parallel_degree = 1\ncontext_parallel_degree = 1\n"
        "expert_parallel_degree = 1\n"
        "pipeline_parallel_degree = 1\n\n"
        "[activation_checkpoint]\nmode = \"selective\"\n"
        "selective_ac_option = \"op\"\n",
        body(&made, 0));
    release(&made);
    pen_plan_free(plan);
    pen_model_free(model);
}

/* Five ranks on nodes of four: one on each, so that all nodes are alike. */
static void jobs_have_equal_nodes(void **state)
{
    (void)state;
    struct pen_model *model = parse_model(CONFIG);
    struct pen_plan *plan = make_plan(model, 3, 1, "1f1b");
    plan->node_size = 4;
    struct made made = export_plan("sbatch", plan, model);
    assert_string_equal("job.sbatch", made.files.list[1].name);
    const char *text = pen_text_string(&made.files.list[1].text);
    assert_non_null(strstr(text, "#SBATCH --nodes=2\n"));
    assert_non_null(strstr(text, "#SBATCH --ntasks-per-node=3\n"));
    release(&made);
    plan->target = PEN_TARGET_MEGATRON;
    plan->degrees[PEN_DEGREE_DP] = 5;
    plan->logical_replicas = 5;
    made = export_plan("sbatch", plan, model);
    text = pen_text_string(&made.files.list[1].text);
    assert_non_null(strstr(text, "#SBATCH --nodes=5\n"));
    assert_non_null(strstr(text, "--nnodes 5 --nproc-per-node 3 "));
    release(&made);
    pen_plan_free(plan);
    pen_model_free(model);
}

/* ---- recipes ---- */

#define MIXTURE                                                                \
    "{\"model_type\":\"deepseek_v3\",\"torch_dtype\":\"bfloat16\","            \
    "\"vocab_size\":1000,\"hidden_size\":256,\"num_hidden_layers\":4,"         \
    "\"num_attention_heads\":8,\"num_key_value_heads\":8,"                     \
    "\"intermediate_size\":512,\"max_position_embeddings\":4096,"              \
    "\"rms_norm_eps\":1e-5,\"n_routed_experts\":8,\"num_experts_per_tok\":2,"  \
    "\"moe_intermediate_size\":64,\"n_shared_experts\":1,"                     \
    "\"first_k_dense_replace\":1,\"q_lora_rank\":null,\"kv_lora_rank\":32,"    \
    "\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":16,\"v_head_dim\":16}"

/* tp 2, dp 2, pp 2, ep 4 over both, interleaved. */
static struct pen_plan *make_mixture(const struct pen_model *model)
{
    struct pen_plan *plan = make_plan(model, 2, 2, "interleaved");
    plan->degrees[PEN_DEGREE_TP] = 2;
    plan->degrees[PEN_DEGREE_EP] = 4;
    plan->has_sequence_parallel = true;
    plan->expert_tp = 1;
    return plan;
}

static void expect_options(const char *target, struct pen_plan *plan,
                           const struct pen_model *model, const char *expected)
{
    struct made made = export_plan(target, plan, model);
    if (strstr(body(&made, 0), expected) == NULL)
        fail_msg("%s\ndoes not have:\n%s", body(&made, 0), expected);
    release(&made);
    pen_plan_free(plan);
}

static void megatron_gets_options_of_a_recipe(void **state)
{
    (void)state;
    struct pen_model *model = parse_model(MIXTURE);
    struct pen_plan *plan = make_mixture(model);
    plan->number = PEN_NUMBER_FP8;
    for (uint32_t i = 0; i < plan->num_stages; i++)
        plan->stages[i].recompute = PEN_RECOMPUTE_SELECTIVE;
    plan->recipe = (struct pen_recipe){.dispatcher = PEN_DISPATCHER_HYBRIDEP,
                                       .overlaps_experts = true,
                                       .delays_weights = true,
                                       .graphs = PEN_GRAPHS_MODULES,
                                       .modules = 1u << PEN_MODULE_LATENT |
                                                  1u << PEN_MODULE_EXPERT_ACT,
                                       .offloaded = 1u << PEN_MODULE_NORMS,
                                       .gradient_bytes = 2,
                                       .master_bytes = 2,
                                       .moment_bytes = 4,
                                       .mtp_blocks = 1};
    expect_options("megatron", plan, model,
                   "--pipeline-model-parallel-layout \"E|tt|t|tmL\"\n"
                   "--expert-model-parallel-size 4\n"
                   "--expert-tensor-parallel-size 1\n"
                   "--moe-token-dispatcher-type flex\n"
                   "--moe-flex-dispatcher-backend hybridep\n"
                   "--moe-router-dtype fp32\n"
                   "--overlap-moe-expert-parallel-comm\n"
                   "--delay-wgrad-compute\n"
                   "--mtp-num-layers 1\n"
                   "--overlap-grad-reduce\n"
                   "--use-distributed-optimizer\n"
                   "--overlap-param-gather\n"
                   "--use-precision-aware-optimizer\n"
                   "--main-grads-dtype bf16\n"
                   "--exp-avg-dtype bf16\n--exp-avg-sq-dtype bf16\n"
                   "--grad-reduce-in-bf16\n"
                   "--recompute-granularity selective\n"
                   "--recompute-modules mla_up_proj moe_act\n"
                   "--fine-grained-activation-offloading\n"
                   "--offload-modules attn_norm mlp_norm\n"
                   "--cuda-graph-impl transformer_engine\n"
                   "--cuda-graph-scope attn moe_router moe_preprocess\n"
                   "--te-rng-tracker\n");
    plan = make_mixture(model);
    plan->recipe = (struct pen_recipe){.optimizer = PEN_OPTIMIZER_MUON};
    expect_options("megatron", plan, model, "\n--optimizer dist_muon\n");
    plan = make_mixture(model);
    plan->recipe = (struct pen_recipe){.dispatcher = PEN_DISPATCHER_HYBRIDEP,
                                       .is_paged = true,
                                       .has_fused_experts = true,
                                       .graphs = PEN_GRAPHS_FULL};
    expect_options("megatron@2026.08", plan, model,
                   "--moe-expert-rank-capacity-factor 1.5\n"
                   "--moe-paged-stash\n"
                   "--use-transformer-engine-op-fuser\n");
    pen_model_free(model);
}

static void others_get_what_they_have_of_a_recipe(void **state)
{
    (void)state;
    struct pen_model *model = parse_model(CONFIG);
    struct pen_plan *plan = make_plan(model, 1, 1, "1f1b");
    plan->recipe.offloads_optimizer = true;
    plan->recipe.gradient_bytes = 2;
    expect_options("deepspeed", plan, model,
                   "\"offload_optimizer\": {\"device\": \"cpu\", "
                   "\"pin_memory\": true}},\n"
                   "  \"data_types\": {\"grad_accum_dtype\": \"bf16\"}");
    plan = make_plan(model, 1, 1, "1f1b");
    plan->recipe.moment_bytes = 4;
    expect_options("torchtitan", plan, model,
                   "--optimizer.implementation fused_opt_states_bf16\n");
    pen_model_free(model);
}

/* ---- what cannot be said ---- */

static void changes_are_noted(void **state)
{
    (void)state;
    struct pen_model *model = parse_model(CONFIG);
    struct pen_plan *plan = make_plan(model, 3, 2, "dualpipev");
    expect_notes("megatron", plan, model,
                 "Megatron-LM has no schedule dualpipev: the export uses "
                 "interleaved\n");
    plan = make_plan(model, 3, 2, "interleaved");
    plan->num_microbatches = 2;
    expect_notes("megatron", plan, model,
                 "Megatron-LM supports one stage per rank in this case: 2 "
                 "consecutive stages are joined\n"
                 "Megatron-LM has no schedule interleaved: the export uses "
                 "1f1b\n");
    plan = make_plan(model, 2, 1, "1f1b");
    plan->stages[1].recompute = PEN_RECOMPUTE_FULL;
    expect_notes("megatron", plan, model,
                 "Megatron-LM recomputes in all stages or in none: all stages "
                 "get full recomputation, which costs time and saves memory\n");
    plan = make_plan(model, 2, 1, "pipedream");
    plan->sharding = PEN_SHARDING_ZERO3;
    expect_notes(
        "deepspeed", plan, model,
        "DeepSpeed supports at most ZeRO 1 with a pipeline: the export "
        "uses it\n"
        "DeepSpeed has no schedule pipedream: the export uses 1f1b\n");
    plan = make_plan(model, 2, 1, "chimera");
    plan->number = PEN_NUMBER_FP16;
    expect_notes("torchtitan", plan, model,
                 "torchtitan 0.3.0 has no schedule chimera: the export uses "
                 "1f1b\n"
                 "torchtitan 0.3.0 cannot shard only the moments in this case: "
                 "the export shards weights, gradients and moments, and keeps "
                 "weights gathered from forward to backward\n"
                 "torchtitan 0.3.0 has no option for fp16: the export uses "
                 "bf16\n");
    pen_model_free(model);
}

/* A prediction is of the plan as it was, not of the nearest one. */
static void a_changed_plan_loses_its_prediction(void **state)
{
    (void)state;
    struct pen_model *model = parse_model(CONFIG);
    struct pen_plan *plan = make_plan(model, 2, 1, "1f1b");
    plan->predicted.is_there = true;
    plan->predicted.step_sec = 1.5;
    plan->predicted.tokens_per_sec = 1000;
    struct made made = export_plan("megatron", plan, model);
    assert_non_null(strstr(pen_text_string(&made.files.list[0].text),
                           "# predicted: 1.5 s a step, 1000 tokens a second"));
    release(&made);
    assert_true(pen_plan_set(&plan->schedule.name, "zb-h1"));
    made = export_plan("megatron", plan, model);
    assert_null(strstr(pen_text_string(&made.files.list[0].text), "predicted"));
    assert_true(plan->predicted.is_there);
    release(&made);
    pen_plan_free(plan);
    pen_model_free(model);
}

static void expect_refusal(const char *target, struct pen_plan *plan,
                           const struct pen_model *model, const char *expected)
{
    struct made made = {.notes = PEN_TEXT_EMPTY};
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID,
                     pen_export_make(pen_export_find(target, NULL), plan, model,
                                     &made.files, &made.notes, &why));
    assert_string_equal(expected, pen_text_string(&why));
    assert_int_equal(0, made.files.count);
    pen_text_release(&why);
    pen_text_release(&made.notes);
    pen_plan_free(plan);
}

static void what_has_no_near_plan_is_refused(void **state)
{
    (void)state;
    struct pen_model *model = parse_model(CONFIG);
    struct pen_model *gpt2 =
        parse_model("{\"model_type\":\"gpt2\",\"vocab_size\":100,\"n_embd\":64,"
                    "\"n_layer\":4,\"n_head\":4,\"n_positions\":2048}");
    struct pen_plan *plan = make_plan(model, 2, 1, "1f1b");
    plan->degrees[PEN_DEGREE_CP] = 2;
    plan->sequence = 1022;
    expect_refusal("megatron", plan, model,
                   "a sequence of 1022 tokens does not divide by 4");
    expect_refusal(
        "torchtitan@0.2.2", make_plan(model, 2, 1, "1f1b"), model,
        "torchtitan 0.2.2 selects these models by name, and has none "
        "with the sizes of tiny");
    expect_refusal("torchtitan", make_plan(gpt2, 2, 1, "1f1b"), gpt2,
                   "torchtitan 0.3.0 has no model with the layers of tiny");
    expect_refusal("megatron", make_plan(gpt2, 2, 1, "1f1b"), model,
                   "the plan is for another model (tiny)");
    pen_model_free(gpt2);
    pen_model_free(model);
}

static void recipes_without_an_option_are_refused(void **state)
{
    (void)state;
    struct pen_model *model = parse_model(MIXTURE);
    struct pen_plan *plan = make_mixture(model);
    plan->recipe.dispatcher = PEN_DISPATCHER_HYBRIDEP;
    plan->recipe.is_paged = true;
    expect_refusal("megatron", plan, model,
                   "Megatron-LM 0.16.1 has no paged stash; export to "
                   "megatron@2026.08, or plan without it");
    plan = make_mixture(model);
    plan->recipe.optimizer = PEN_OPTIMIZER_ADAFACTOR;
    expect_refusal("megatron", plan, model,
                   "Megatron-LM 0.16.1 has no Adafactor; plan with --optimizer "
                   "adam or muon");
    plan = make_mixture(model);
    plan->sharding = PEN_SHARDING_NONE;
    plan->recipe.moment_bytes = 4;
    expect_refusal("megatron@2026.08", plan, model,
                   "Megatron-LM of August 2026 changes the bytes and the place "
                   "of the optimizer's state with sharding zero1 only; plan "
                   "with it");
    plan = make_mixture(model);
    plan->degrees[PEN_DEGREE_EP] = 3;
    plan->expert_tp = 0;
    expect_refusal("megatron", plan, model,
                   "ep 3 x expert_tp 2 does not divide dp x tp x cp, 4, or ep "
                   "does not divide 8 experts");
    pen_model_free(model);
    model = parse_model(CONFIG);
    plan = make_plan(model, 2, 1, "1f1b");
    plan->recipe.offloaded = 1u << PEN_MODULE_NORMS;
    expect_refusal("deepspeed", plan, model,
                   "DeepSpeed has no option for recipe.offload_modules; plan "
                   "without it");
    plan = make_plan(model, 2, 1, "1f1b");
    plan->recipe.graphs = PEN_GRAPHS_MODULES;
    expect_refusal("torchtitan", plan, model,
                   "torchtitan 0.3.0 has graphs of a whole step with pp 1 and "
                   "ep 1 only; plan with --graphs none");
    pen_model_free(model);
}

static void exporters_are_found_by_name_and_version(void **state)
{
    (void)state;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_string_equal("0.3.0", pen_export_find("torchtitan", NULL)->version);
    assert_string_equal("0.2.2",
                        pen_export_find("torchtitan@0.2.2", NULL)->version);
    assert_null(pen_export_find("torch", &why));
    assert_string_equal("there is no exporter torch; expected one of "
                        "megatron@0.16.1, megatron@2026.08, "
                        "torchtitan@0.3.0, torchtitan@0.2.2, deepspeed@0.19.6, "
                        "nanotron@0.4, sbatch",
                        pen_text_string(&why));
    pen_text_release(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(megatron_gets_options),
        cmocka_unit_test(a_long_layout_is_short),
        cmocka_unit_test(deepspeed_gets_json_and_its_cut),
        cmocka_unit_test(torchtitan_gets_arguments),
        cmocka_unit_test(old_torchtitan_gets_toml),
        cmocka_unit_test(jobs_have_equal_nodes),
        cmocka_unit_test(changes_are_noted),
        cmocka_unit_test(a_changed_plan_loses_its_prediction),
        cmocka_unit_test(what_has_no_near_plan_is_refused),
        cmocka_unit_test(megatron_gets_options_of_a_recipe),
        cmocka_unit_test(others_get_what_they_have_of_a_recipe),
        cmocka_unit_test(recipes_without_an_option_are_refused),
        cmocka_unit_test(exporters_are_found_by_name_and_version)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
