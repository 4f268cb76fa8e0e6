/*
 * Every family has the exact number of parameters that is published for its
 * models, layer by layer, and a preset is the model of that name's file.
 */
#include "support/models.h"
#include "support/support.h"

#include "core/any_model.h"
#include "core/model_cost.h"
#include "core/profile.h"

#include <inttypes.h>
#include <stdio.h>

/* Layers add up, and what is printed is the same model again. */
static void expect_consistent(const struct pen_model *model)
{
    uint64_t sum = 0;
    uint64_t idle = 0;
    for (uint32_t layer = 0; layer < model->num_layers; layer++) {
        uint64_t experts = pen_model_expert_parameters(model, layer);
        sum += pen_model_layer_parameters(model, layer);
        if (experts > 0)
            idle += experts / model->num_experts *
                    (model->num_experts - model->experts_per_token);
    }
    assert_int_equal(model->num_parameters, sum);
    assert_int_equal(model->num_parameters - idle,
                     pen_model_active_parameters(model));
    struct pen_text once = PEN_TEXT_EMPTY;
    struct pen_text twice = PEN_TEXT_EMPTY;
    pen_model_print(model, &once);
    struct pen_model *again = parse_model(pen_text_string(&once));
    pen_model_print(again, &twice);
    assert_string_equal(pen_text_string(&once), pen_text_string(&twice));
    char hashes[2][PEN_HASH_SIZE];
    assert_int_equal(PEN_OK, pen_profile_hash_model(model, hashes[0], NULL));
    assert_int_equal(PEN_OK, pen_profile_hash_model(again, hashes[1], NULL));
    assert_string_equal(hashes[0], hashes[1]);
    for (uint32_t layer = 0; layer < model->num_layers; layer++)
        assert_int_equal(pen_model_layer_parameters(model, layer),
                         pen_model_layer_parameters(again, layer));
    assert_int_equal(model->num_parameters, again->num_parameters);
    pen_model_free(again);
    pen_text_release(&once);
    pen_text_release(&twice);
}

/* file, parameters as published or counted by transformers, preset */
static const struct {
    const char *file;
    uint64_t parameters;
    const char *preset;
} published[] = {
    {"hf/Qwen--Qwen2.5-1.5B.config.json", 1543714304, "qwen2.5-1.5b"},
    {"hf/Qwen--Qwen2.5-7B.config.json", 7615616512, "qwen2.5-7b"},
    {"hf/Qwen--Qwen2.5-32B.config.json", 32763876352, "qwen2.5-32b"},
    {"hf/Qwen--Qwen2.5-72B.config.json", 72706203648, "qwen2.5-72b"},
    {"hf/Qwen--Qwen3-8B.config.json", 8190735360, "qwen3-8b"},
    {"hf/Qwen--Qwen3-30B-A3B.config.json", 30532122624, "qwen3-30b-a3b"},
    {"hf/deepseek-ai--DeepSeek-V3.config.json", 671026419200, "deepseek-v3"},
    {"hf/gpt2.config.json", 124439808, "gpt2"},
    {"hf/meta-llama--Llama-2-7b-hf.config.json", 6738415616, "llama-2-7b"},
    {"hf/meta-llama--Llama-2-13b-hf.config.json", 13015864320, "llama-2-13b"},
    {"hf/meta-llama--Llama-2-70b-hf.config.json", 68976648192, "llama-2-70b"},
    {"hf/meta-llama--Meta-Llama-3.1-8B.config.json", 8030261248,
     "llama-3.1-8b"},
    {"hf/meta-llama--Meta-Llama-3.1-70B.config.json", 70553706496,
     "llama-3.1-70b"},
    {"hf/meta-llama--Meta-Llama-3.1-405B.config.json", 405853388800,
     "llama-3.1-405b"},
    {"hf/mistralai--Mistral-7B-Instruct-v0.3.config.json", 7248023552,
     "mistral-7b"},
    {"hf/mistralai--Mixtral-8x7B-v0.1.config.json", 46702792704,
     "mixtral-8x7b"},
    {"hf/mistralai--Mixtral-8x22B-v0.1.config.json", 140620634112,
     "mixtral-8x22b"},
    {"hf/openai--gpt-oss-20b.config.json", 20914757184, "gpt-oss-20b"},
    {"llm-analysis/bert-base-uncased.json", 109514298, "bert-base"},
    {"llm-analysis/bert-large.json", 335174458, "bert-large"},
    {"llm-analysis/bigscience_bloom-560m.json", 559214592, "bloom-560m"},
    {"llm-analysis/bigscience_bloom-7b1.json", 7069016064, "bloom-7b1"},
    {"llm-analysis/facebook_opt-125m.json", 125239296, "opt-125m"},
    {"llm-analysis/facebook_opt-1.3b.json", 1315758080, "opt-1.3b"},
    {"llm-analysis/facebook_opt-6.7b.json", 6658473984, "opt-6.7b"},
    {"llm-analysis/facebook_opt-13b.json", 12853473280, "opt-13b"},
    {"llm-analysis/facebook_opt-66b.json", 65719701504, "opt-66b"},
    {"llm-analysis/facebook_opt-175b.json", 174604468224, "opt-175b"},
    {"llm-analysis/gpt2.json", 124439808, "gpt2"},
    {"llm-analysis/gpt2-medium.json", 354823168, "gpt2-medium"},
    {"llm-analysis/gpt2-large.json", 774030080, "gpt2-large"},
    {"llm-analysis/gpt2-xl.json", 1557611200, "gpt2-xl"},
    {"llm-analysis/megatron-lm-175b.json", 174604443648, NULL},
    {"llm-analysis/mt-nlg-530b.json", 529581813760, NULL},
    {"pythia/pythia-14m.yml", 14067712, "pythia-14m"},
    {"pythia/pythia-31m.yml", 30494720, "pythia-31m"},
    {"pythia/pythia-70m.yml", 70426624, "pythia-70m"},
    {"pythia/pythia-160m.yml", 162322944, "pythia-160m"},
    {"pythia/pythia-410m.yml", 405334016, "pythia-410m"},
    {"pythia/pythia-1b.yml", 1011781632, "pythia-1b"},
    {"pythia/pythia-1.4b.yml", 1414647808, "pythia-1.4b"},
    {"pythia/pythia-2.8b.yml", 2775208960, "pythia-2.8b"},
    {"pythia/pythia-6.9b.yml", 6857302016, "pythia-6.9b"},
    {"pythia/pythia-12b.yml", 11846072320, "pythia-12b"}};

static void every_shared_file_has_the_published_parameters(void **state)
{
    (void)state;
    need_folder(MODEL_CONFIGS);
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        char path[1000];
        snprintf(path, sizeof path, MODEL_CONFIGS "%s", published[i].file);
        struct pen_model *model = load_model(path);
        if (model->num_parameters != published[i].parameters)
            fail_msg("%s: expected %" PRIu64 ", found %" PRIu64,
                     published[i].file, published[i].parameters,
                     model->num_parameters);
        expect_consistent(model);
        pen_model_free(model);
    }
}

static void a_preset_is_the_model_of_its_file(void **state)
{
    (void)state;
    need_folder(MODEL_CONFIGS);
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        char path[1000];
        char preset[100];
        if (published[i].preset == NULL)
            continue;
        snprintf(path, sizeof path, MODEL_CONFIGS "%s", published[i].file);
        snprintf(preset, sizeof preset, "preset:%s", published[i].preset);
        expect_same_shape(path, preset);
    }
}

static void presets_without_a_file_have_the_published_parameters(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t parameters;
    } presets[] = {
        {"preset:llama-3.2-1b", 1235814400},
        {"preset:llama-3.2-3b", 3212749824},
        {"preset:qwen2.5-0.5b", 494032768},
        {"preset:qwen2.5-3b", 3085938688},
        {"preset:qwen2.5-14b", 14770033664},
        {"preset:qwen3-0.6b", 596049920},
        {"preset:qwen3-1.7b", 1720574976},
        {"preset:qwen3-4b", 4022468096},
        {"preset:qwen3-14b", 14768307200},
        {"preset:qwen3-32b", 32762123264},
        {"preset:qwen3-235b-a22b", 235093634560},
        {"preset:gpt-oss-120b", 116829156672},
        {"preset:opt-350m", 331196416},
        {"preset:opt-2.7b", 2651596800},
        {"preset:opt-30b", 29974540288},
        {"preset:bloom-1b1", 1065314304},
        {"preset:bloom-1b7", 1722408960},
        {"preset:bloom-3b", 3002557440},
        {"preset:bloom-176b", 176247271424},
        {"preset:gpt-neox-20b", 20554567680},
        /* 12 l h^2 (1 + 13 / 12 h + (V + s) / 12 l h) and the last norm, with
           the sizes of Narayanan et al., SC 2021, table 1 */
        {"preset:gpt3-175b", 174615846912},
        {"preset:mt-nlg-530b", 529600819200},
        {"preset:gpt-1t", 1008038758400},
    };
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        struct pen_model *model = load_model(presets[i].name);
        if (model->num_parameters != presets[i].parameters)
            fail_msg("%s: expected %" PRIu64 ", found %" PRIu64,
                     presets[i].name, presets[i].parameters,
                     model->num_parameters);
        expect_consistent(model);
        pen_model_free(model);
    }
}

static void experts_are_counted_apart(void **state)
{
    (void)state;
    struct pen_model *model = load_model("preset:deepseek-v3");
    assert_int_equal(63, model->num_layers);
    assert_false(pen_model_block_is_sparse(model, 2));
    assert_true(pen_model_block_is_sparse(model, 3));
    assert_int_equal(0, pen_model_expert_parameters(model, 0));
    assert_int_equal(0, pen_model_expert_parameters(model, 3));
    uint64_t expert = (uint64_t)3 * 7168 * 2048;
    assert_int_equal(256 * expert, pen_model_expert_parameters(model, 4));
    assert_int_equal(0, pen_model_expert_parameters(model, 62));
    /* DeepSeek-V3 report (arXiv 2412.19437): 671 B, 37 B for each token. */
    assert_int_equal(37552297472, pen_model_active_parameters(model));
    assert_int_equal(1, model->num_mtp_layers);
    assert_int_equal(11610068224, pen_model_mtp_parameters(model));
    /* 128 heads of 128 + 64 for scores and 128 for values. */
    uint64_t attention = (uint64_t)7168 * 1536 + 1536 * 24576 + 7168 * 576 +
                         512 * 32768 + 16384 * 7168;
    assert_int_equal(attention + 3 * (uint64_t)7168 * 18432,
                     pen_model_block_products(model, 0));
    assert_int_equal(attention + 256 * 7168 + 9 * expert,
                     pen_model_block_products(model, 60));
    pen_model_free(model);
    /* DeepSeek-V2 (arXiv 2405.04434): 236 B with 21 B, 15.7 B with 2.4 B. */
    model = load_model("preset:deepseek-v2");
    assert_int_equal(235741434880, model->num_parameters);
    assert_int_equal(21375800320, pen_model_active_parameters(model));
    pen_model_free(model);
    model = load_model("preset:deepseek-v2-lite");
    assert_int_equal(15706484224, model->num_parameters);
    assert_int_equal(2661150208, pen_model_active_parameters(model));
    pen_model_free(model);
    model = load_model("preset:mixtral-8x7b");
    assert_int_equal(12879925248, pen_model_active_parameters(model));
    assert_int_equal(0, pen_model_mtp_parameters(model));
    pen_model_free(model);
}

#define SIZES                                                                  \
    "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":6,"     \
    "\"num_attention_heads\":4,\"vocab_size\":100,"                            \
    "\"max_position_embeddings\":32"
#define QWEN3_MOE                                                              \
    "\"model_type\":\"qwen3_moe\",\"num_experts\":8,"                          \
    "\"num_experts_per_tok\":2,\"moe_intermediate_size\":16," SIZES
#define GPT_OSS                                                                \
    "\"model_type\":\"gpt_oss\",\"num_local_experts\":8,"                      \
    "\"num_key_value_heads\":2," SIZES
#define MIXTRAL                                                                \
    "\"model_type\":\"mixtral\",\"num_local_experts\":8,"                      \
    "\"num_key_value_heads\":2," SIZES
#define DEEPSEEK_V2                                                            \
    "\"model_type\":\"deepseek_v2\",\"n_routed_experts\":8,"                   \
    "\"num_experts_per_tok\":2,\"moe_intermediate_size\":16,"                  \
    "\"kv_lora_rank\":8,\"qk_nope_head_dim\":8,\"qk_rope_head_dim\":4,"        \
    "\"v_head_dim\":8," SIZES
#define OPT                                                                    \
    "\"model_type\":\"opt\",\"hidden_size\":64,\"ffn_dim\":96,"                \
    "\"num_hidden_layers\":6,\"num_attention_heads\":4,\"vocab_size\":100,"    \
    "\"max_position_embeddings\":32"

static void sparse_blocks_come_as_the_file_says(void **state)
{
    (void)state;
    struct pen_model *model =
        parse_model("{" QWEN3_MOE ",\"decoder_sparse_step\":2,"
                    "\"mlp_only_layers\":[0,1]}");
    static const bool expected[6] = {false, false, false, true, false, true};
    for (uint32_t block = 0; block < 6; block++)
        assert_int_equal(expected[block],
                         pen_model_block_is_sparse(model, block));
    expect_consistent(model);
    pen_model_free(model);
}

static void gpt_oss_has_windows_in_turn(void **state)
{
    (void)state;
    struct pen_model *model = parse_model("{" GPT_OSS "}");
    for (uint32_t block = 0; block < 6; block++)
        assert_int_equal(block % 2 == 0 ? 128 : 0,
                         pen_model_window(model, block));
    expect_consistent(model);
    pen_model_free(model);
}

/* Without a word it is YaRN, and a model that says "default" stays so. */
static void gpt_oss_scales_positions_as_transformers_does(void **state)
{
    (void)state;
    static const struct {
        const char *scaling;
        enum pen_rope_kind kind;
        bool is_exact;
    } cases[] = {{"", PEN_ROPE_YARN, true},
                 {",\"rope_scaling\":{\"rope_type\":\"default\"}",
                  PEN_ROPE_DEFAULT, false},
                 {",\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4,"
                  "\"original_max_position_embeddings\":8}",
                  PEN_ROPE_YARN, false},
                 {",\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4,"
                  "\"original_max_position_embeddings\":8,\"truncate\":false}",
                  PEN_ROPE_YARN, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char config[1024];
        struct pen_text printed = PEN_TEXT_EMPTY;
        snprintf(config, sizeof config, "{" GPT_OSS "%s}", cases[i].scaling);
        struct pen_model *model = parse_model(config);
        pen_model_print(model, &printed);
        struct pen_model *again = parse_model(pen_text_string(&printed));
        assert_int_equal(cases[i].kind, model->rope.kind);
        assert_int_equal(cases[i].kind, again->rope.kind);
        assert_int_equal(cases[i].is_exact, model->rope.has_exact_ends);
        assert_int_equal(cases[i].is_exact, again->rope.has_exact_ends);
        assert_true(model->rope.factor == again->rope.factor);
        assert_true(again->gate_alpha == 1.702 && again->gate_limit == 7);
        assert_false(model->rope.is_unknown);
        pen_text_release(&printed);
        pen_model_free(again);
        pen_model_free(model);
    }
}

static void a_greedy_router_of_deepseek_v2_has_no_groups(void **state)
{
    (void)state;
    struct pen_model *model = parse_model(
        "{" DEEPSEEK_V2 ",\"n_group\":4,\"topk_group\":2,\"topk_method\":"
        "\"greedy\"}");
    assert_int_equal(0, model->num_expert_groups);
    expect_consistent(model);
    pen_model_free(model);
    model = parse_model("{" DEEPSEEK_V2
                        ",\"n_group\":4,\"topk_group\":2,\"topk_method\":"
                        "\"group_limited_greedy\"}");
    assert_int_equal(4, model->num_expert_groups);
    expect_consistent(model);
    pen_model_free(model);
}

static void an_encoder_attends_to_both_sides(void **state)
{
    (void)state;
    struct pen_model *bert = load_model("preset:bert-base");
    struct pen_model *gpt2 = load_model("preset:gpt2");
    struct pen_workload work = {.batch = 2, .sequence = 512};
    struct pen_layer_cost both;
    struct pen_layer_cost causal;
    pen_model_layer_cost(bert, 1, &work, &both);
    pen_model_layer_cost(gpt2, 1, &work, &causal);
    assert_false(pen_model_is_causal(bert));
    /* The blocks have the same matrices: twice the pairs but for the diagonal.
     */
    double pairs = 512.0 * 512 - 512.0 * 513 / 2;
    assert_true(both.forward_flops - causal.forward_flops ==
                4.0 * 2 * 768 * pairs);
    pen_model_free(bert);
    pen_model_free(gpt2);
}

static void a_narrow_tied_matrix_goes_to_the_head(void **state)
{
    (void)state;
    struct pen_model *model = load_model("preset:opt-350m");
    struct pen_layer_range first = {.first = 0, .count = 10};
    struct pen_layer_range last = {.first = 10, .count = 16};
    assert_int_equal(50272 * 512, pen_model_vocab_parameters(model));
    assert_int_equal(50272 * 512 + 512 * 1024, pen_model_head_products(model));
    uint64_t behind = pen_model_trained_parameters(model, &last);
    assert_int_equal(model->num_parameters,
                     pen_model_trained_parameters(model, &first) + behind);
    uint64_t blocks = 15 * pen_model_layer_parameters(model, 1);
    assert_int_equal(blocks + 50272 * 512 + 512 * 1024, behind);
    pen_model_free(model);
}

static void what_is_planned_is_not_trained(void **state)
{
    (void)state;
    static const char *const planned[] = {
        "preset:opt-125m", "preset:bloom-560m", "preset:pythia-70m",
        "preset:bert-base"};
    for (size_t i = 0; i < sizeof planned / sizeof *planned; i++) {
        struct pen_model *model = load_model(planned[i]);
        struct pen_any_model any;
        struct pen_text why = PEN_TEXT_EMPTY;
        assert_int_equal(0, model->num_tensors);
        assert_int_equal(PEN_INVALID, pen_model_check_trainable(model, NULL));
        assert_int_equal(PEN_INVALID,
                         pen_any_model_load(&any, planned[i], &why));
        char expected[200];
        snprintf(
            expected, sizeof expected,
            "%s: model_type \"%s\" is for planning only; train and profile "
            "support \"gpt2\", \"llama\", \"mistral\", \"qwen2\", \"qwen3\", "
            "\"mixtral\", \"qwen3_moe\", \"deepseek_v2\", \"deepseek_v3\", "
            "\"gpt_oss\"",
            planned[i], pen_family_name(model->family));
        assert_string_equal(expected, pen_text_string(&why));
        pen_text_release(&why);
        pen_model_free(model);
    }
    struct pen_model *model = load_model("preset:llama-2-7b");
    assert_int_equal(PEN_OK, pen_model_check_trainable(model, NULL));
    pen_model_free(model);
}

static void keys_of_transformers_are_read_in_both_spellings(void **state)
{
    (void)state;
    struct pen_model *model =
        parse_model("{\"model_type\":\"bloom\",\"n_embed\":64,\"n_layer\":2,"
                    "\"num_attention_heads\":4,\"vocab_size\":100,"
                    "\"n_inner\":null}");
    assert_int_equal(256, model->intermediate);
    assert_int_equal(2048, model->max_positions);
    expect_consistent(model);
    pen_model_free(model);
    model = parse_model("{" MIXTRAL ",\"rope_parameters\":{\"rope_theta\":5e5,"
                        "\"rope_type\":\"default\"}}");
    assert_true(model->rope.theta == 500000);
    assert_int_equal(96, model->expert_intermediate);
    assert_int_equal(2, model->experts_per_token);
    pen_model_free(model);
    model = parse_model("{" OPT ",\"word_embed_proj_dim\":64}");
    assert_int_equal(0, model->embedding_dim);
    pen_model_free(model);
}

#define NEOX                                                                   \
    "{ # a comment with \"quotes\": 1, and { braces\n"                         \
    "  \"num-layers\": 3, \"hidden-size\": 64,\n"                              \
    "  \"num_attention_heads\": 4, # and one behind\n"                         \
    "  \"max-position-embeddings\": 32,\n"                                     \
    "  \"optimizer\": {\"hidden-size\": 7}\n"                                  \
    "  \"attention-config\": [[[\"flash\"], 3]]\n"

static void settings_of_gpt_neox_are_read(void **state)
{
    (void)state;
    struct pen_model *model =
        parse_model(NEOX "\"pos-emb\": \"rotary\", \"rotary_pct\": 0.5,}");
    assert_int_equal(PEN_FAMILY_GPT_NEOX, model->family);
    assert_int_equal(64, model->hidden);
    assert_int_equal(256, model->intermediate);
    assert_int_equal(50304, model->vocab);
    assert_true(model->rope.share == 0.5);
    assert_true(model->has_tied_embeddings);
    assert_false(model->has_parallel_residual);
    pen_model_free(model);
    model = parse_model(NEOX "\"pos-emb\": \"rotary\", \"model-parallel-size\":"
                             " 2, \"gpt-j-residual\": true,\n"
                             "\"no-weight-tying\": true }");
    assert_int_equal(50432, model->vocab);
    assert_true(model->rope.share == 1);
    assert_false(model->has_tied_embeddings);
    assert_true(model->has_parallel_residual);
    expect_consistent(model);
    pen_model_free(model);
    expect_model_refusal(NEOX "}", "pos-emb must be \"rotary\"");
    expect_model_refusal(NEOX "\"pos-emb\":\"rotary\",\"norm\":\"rmsnorm\"}",
                         "norm \"rmsnorm\" is not supported; it must be "
                         "\"layernorm\"");
}

#define SHORT                                                                  \
    "\"num_layers\":2,\"n_head\":4,\"hidden_dim\":64,\"vocab_size\":100,"      \
    "\"max_seq_len\":32,\"ffn_embed_dim\":256"

static void short_keys_get_their_family_from_the_name(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum pen_family family;
    } cases[] = {{"{\"name\":\"x_opt-1b\"," SHORT "}", PEN_FAMILY_OPT},
                 {"{\"name\":\"bert-big\"," SHORT "}", PEN_FAMILY_BERT},
                 {"{\"name\":\"a_b_bloom\"," SHORT "}", PEN_FAMILY_BLOOM},
                 {"{\"name\":\"mine\"," SHORT "}", PEN_FAMILY_GPT2},
                 {"{" SHORT "}", PEN_FAMILY_GPT2},
                 {"{\"name\":\"mine\",\"model_type\":\"opt\"," SHORT "}",
                  PEN_FAMILY_OPT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_model *model = parse_model(cases[i].text);
        assert_int_equal(cases[i].family, model->family);
        assert_int_equal(256, model->intermediate);
        expect_consistent(model);
        pen_model_free(model);
    }
    expect_model_refusal("{\"model_type\":\"llama\"," SHORT "}",
                         "model_type \"llama\" is not supported; it must be "
                         "\"gpt2\", \"opt\", \"bloom\" or \"bert\"");
}

static void refusals_name_the_key(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *reason;
    } cases[] = {
        {"{\"model_type\":\"mixtral\",\"vocab_size\":100}",
         "hidden_size must be an integer from 1 to 262144"},
        {"{" MIXTRAL ",\"num_experts_per_tok\":9}",
         "num_experts_per_tok is 9; it must be from 1 to the number of "
         "experts, 8"},
        {"{" MIXTRAL ",\"num_experts_per_tok\":null}",
         "num_experts_per_tok is 0; it must be from 1 to the number of "
         "experts, 8"},
        {"{" MIXTRAL ",\"hidden_act\":\"gelu\"}",
         "hidden_act \"gelu\" is not supported; it must be \"silu\" or "
         "\"swish\""},
        {"{" OPT ",\"activation_function\":\"silu\"}",
         "activation_function \"silu\" is not supported; it must be "
         "\"gelu_new\", \"gelu\", \"relu\", \"gelu_fast\" or "
         "\"gelu_pytorch_tanh\""},
        {"{" OPT ",\"layer_norm_elementwise_affine\":false}",
         "layer_norm_elementwise_affine is false; only true is supported"},
        {"{" QWEN3_MOE ",\"mlp_only_layers\":[1]}",
         "mlp_only_layers must be a list of the first layers: 0, 1, ..."},
        {"{" QWEN3_MOE ",\"rope_parameters\":3}",
         "rope_parameters must be an object"},
        {"{" DEEPSEEK_V2 ",\"topk_method\":\"noaux_tc\"}",
         "topk_method \"noaux_tc\" is not supported; it must be \"greedy\" or "
         "\"group_limited_greedy\""},
        {"{" DEEPSEEK_V2 ",\"topk_method\":\"group_limited_greedy\"}",
         "n_group is missing; topk_method group_limited_greedy needs it"},
        {"{" DEEPSEEK_V2 ",\"norm_topk_prob\":true}",
         "norm_topk_prob is true; only false is supported"},
        {"{" DEEPSEEK_V2 ",\"scoring_func\":\"sigmoid\"}",
         "scoring_func \"sigmoid\" is not supported; it must be \"softmax\""},
        {"{" GPT_OSS ",\"layer_types\":[]}",
         "layer_types must be a list of 6 strings"},
        {"{" GPT_OSS ",\"layer_types\":[\"full_attention\",1,1,1,1,1]}",
         "layer_types[0] must be \"sliding_attention\""},
        {"{\"model_type\":\"bloom\",\"hidden_size\":64,\"n_layer\":2,"
         "\"n_head\":4,\"vocab_size\":100,\"n_inner\":100}",
         "n_inner is 100; only four times the hidden size is supported"},
        {"{\"model_type\":\"mixtral\",\"hidden_size\":262144,"
         "\"intermediate_size\":4194304,\"num_hidden_layers\":65536,"
         "\"num_attention_heads\":8,\"vocab_size\":100,"
         "\"max_position_embeddings\":32,\"num_local_experts\":16384}",
         "the model has more than 2^60 parameters"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_model_refusal(cases[i].text, cases[i].reason);
}

static void
ten_trillion_parameters_in_ten_thousand_blocks_are_fine(void **state)
{
    (void)state;
    struct pen_model *model =
        parse_model("{\"model_type\":\"mixtral\",\"hidden_size\":8192,"
                    "\"intermediate_size\":4096,\"num_hidden_layers\":10007,"
                    "\"num_attention_heads\":64,\"num_key_value_heads\":8,"
                    "\"vocab_size\":256000,\"max_position_embeddings\":1048576,"
                    "\"num_local_experts\":16}");
    assert_true(model->num_parameters > 10000000000000);
    expect_consistent(model);
    pen_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shared_file_has_the_published_parameters),
        cmocka_unit_test(a_preset_is_the_model_of_its_file),
        cmocka_unit_test(presets_without_a_file_have_the_published_parameters),
        cmocka_unit_test(experts_are_counted_apart),
        cmocka_unit_test(sparse_blocks_come_as_the_file_says),
        cmocka_unit_test(gpt_oss_has_windows_in_turn),
        cmocka_unit_test(gpt_oss_scales_positions_as_transformers_does),
        cmocka_unit_test(a_greedy_router_of_deepseek_v2_has_no_groups),
        cmocka_unit_test(an_encoder_attends_to_both_sides),
        cmocka_unit_test(a_narrow_tied_matrix_goes_to_the_head),
        cmocka_unit_test(what_is_planned_is_not_trained),
        cmocka_unit_test(keys_of_transformers_are_read_in_both_spellings),
        cmocka_unit_test(settings_of_gpt_neox_are_read),
        cmocka_unit_test(short_keys_get_their_family_from_the_name),
        cmocka_unit_test(refusals_name_the_key),
        cmocka_unit_test(
            ten_trillion_parameters_in_ten_thousand_blocks_are_fine)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
