/*
 * Decoders of any type: the blocks that a file lists, the parameters that
 * transformers counts for the models of 2026, and what is said of a type that
 * Penstock does not know.
 */
#include "support/models.h"
#include "support/support.h"

#include "core/any_model.h"
#include "core/model_cost.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIGS_2026 PEN_SOURCE_DIR "/../shared/data/configs-2026/"

/* Layers add up, and what is printed is the same model again. */
static void expect_round_trip(const struct pen_model *model)
{
    struct pen_text once = PEN_TEXT_EMPTY;
    struct pen_text twice = PEN_TEXT_EMPTY;
    uint64_t sum = 0;
    pen_model_print(model, &once);
    struct pen_model *again = parse_model(pen_text_string(&once));
    pen_model_print(again, &twice);
    assert_string_equal(pen_text_string(&once), pen_text_string(&twice));
    assert_int_equal(model->num_kinds, again->num_kinds);
    for (uint32_t layer = 0; layer < model->num_layers; layer++) {
        sum += pen_model_layer_parameters(model, layer);
        assert_int_equal(pen_model_layer_parameters(model, layer),
                         pen_model_layer_parameters(again, layer));
    }
    assert_int_equal(sum, model->num_parameters);
    assert_int_equal(pen_model_active_parameters(model),
                     pen_model_active_parameters(again));
    assert_int_equal(pen_model_mtp_parameters(model),
                     pen_model_mtp_parameters(again));
    assert_true(pen_model_step_flops(model, 3, 1000) ==
                pen_model_step_flops(again, 3, 1000));
    pen_model_free(again);
    pen_text_release(&once);
    pen_text_release(&twice);
}

/* As tests/interop/run_model_counts finds them; see there for what
 * transformers does not build itself. */
static const struct {
    const char *file;
    uint64_t parameters;
    const char *preset; /* or NULL */
} counted[] = {
    {"MiniMaxAI--MiniMax-M2.5", 228689764864, "minimax-m2.5"},
    {"MiniMaxAI--MiniMax-M3", 426174572928, NULL},
    {"Qwen--Qwen3-235B-A22B", 235093634560, "qwen3-235b-a22b"},
    {"Qwen--Qwen3-32B", 32762123264, "qwen3-32b"},
    {"Qwen--Qwen3.5-122B-A10B", 122111526912, "qwen3.5-122b-a10b"},
    {"Qwen--Qwen3.5-27B", 26895998464, "qwen3.5-27b"},
    {"Qwen--Qwen3.5-35B-A3B", 34660610688, "qwen3.5-35b-a3b"},
    {"Qwen--Qwen3.5-397B-A17B", 396346350336, "qwen3.5-397b-a17b"},
    {"Qwen--Qwen3.6-27B", 26895998464, NULL},
    {"Qwen--Qwen3.6-35B-A3B", 34660610688, NULL},
    {"deepseek-ai--DeepSeek-V3.2", 671877944064, "deepseek-v3.2"},
    {"deepseek-ai--DeepSeek-V4-Flash", 284332240471, "deepseek-v4-flash"},
    {"deepseek-ai--DeepSeek-V4-Pro", 1572997201763, "deepseek-v4-pro"},
    {"google--gemma-3-1b", 999885952, "gemma-3-1b"},
    {"google--gemma-3-27b", 27009346304, "gemma-3-27b"},
    {"google--gemma-4-26B-A4B", 25233141760, "gemma-4-26b-a4b"},
    {"meta-llama--Llama-4-Maverick-17B-128E", 400711848960, "llama-4-maverick"},
    {"meta-llama--Llama-4-Scout-17B-16E", 107769861120, "llama-4-scout"},
    {"moonshotai--Kimi-K2-Instruct", 1026408232448, "kimi-k2"},
    {"nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B", 31577940288, "nemotron-3-nano"},
    {"nvidia--NVIDIA-Nemotron-3-Super-120B-A12B", 120668707840,
     "nemotron-3-super"},
    {"nvidia--NVIDIA-Nemotron-3-Ultra-550B-A55B", 549308993536,
     "nemotron-3-ultra"},
    {"nvidia--NVIDIA-Nemotron-3.5-Lightning-30B-A3B", 31577940288, NULL},
    {"openai--gpt-oss-120b", 116829156672, "gpt-oss-120b"},
    {"zai-org--GLM-4.5-Air", 106852251264, "glm-4.5-air"},
    {"zai-org--GLM-4.5", 352797829024, "glm-4.5"},
    {"zai-org--GLM-4.6", 352797829024, "glm-4.6"},
    {"zai-org--GLM-5.2", 743377019904, NULL},
    {"zai-org--GLM-5", 743911218432, "glm-5"},
};

static void files_of_2026_have_the_parameters_of_transformers(void **state)
{
    (void)state;
    need_folder(CONFIGS_2026);
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        char path[1000];
        snprintf(path, sizeof path, CONFIGS_2026 "%s.config.json",
                 counted[i].file);
        struct pen_model *model = load_model(path);
        if (model->num_parameters != counted[i].parameters)
            fail_msg("%s: expected %" PRIu64 ", found %" PRIu64,
                     counted[i].file, counted[i].parameters,
                     model->num_parameters);
        assert_false(model->is_guessed);
        expect_round_trip(model);
        pen_model_free(model);
    }
}

static void a_preset_is_the_model_of_its_file(void **state)
{
    (void)state;
    need_folder(CONFIGS_2026);
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        char path[1000];
        char preset[100];
        if (counted[i].preset == NULL)
            continue;
        snprintf(path, sizeof path, CONFIGS_2026 "%s.config.json",
                 counted[i].file);
        snprintf(preset, sizeof preset, "preset:%s", counted[i].preset);
        expect_same_shape(path, preset);
    }
}

#define SIZES                                                                  \
    "\"vocab_size\":100,\"hidden_size\":64,\"num_attention_heads\":4,"         \
    "\"num_hidden_layers\":6"

/* A letter for each block: A attention, W with a window, P picked, C and H
 * compressed, M Mamba, D delta net, - none; and d dense, e experts, - none. */
static void write_blocks(const struct pen_model *model, char *out)
{
    for (uint32_t i = 0; i < model->num_blocks; i++) {
        const struct pen_block *block = pen_model_block(model, i);
        char mixer = block->mixer == PEN_MIXER_MAMBA   ? 'M'
                     : block->mixer == PEN_MIXER_DELTA ? 'D'
                     : block->mixer == PEN_MIXER_NONE  ? '-'
                     : block->compression > 0 ? (block->is_picked ? 'C' : 'H')
                     : block->is_picked       ? 'P'
                     : block->window > 0      ? 'W'
                                              : 'A';
        *out++ = mixer;
        *out++ = block->mlp == PEN_MLP_NONE    ? '-'
                 : block->mlp == PEN_MLP_DENSE ? 'd'
                                               : 'e';
    }
    *out = '\0';
}

static void blocks_come_as_the_file_says(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        const char *blocks;
    } cases[] = {
        {"", "AdAdAdAdAdAd"},
        {",\"sliding_window\":8", "WdWdWdWdWdWd"},
        {",\"sliding_window\":8,\"use_sliding_window\":false", "AdAdAdAdAdAd"},
        {",\"sliding_window\":8,\"sliding_window_pattern\":3", "WdWdAdWdWdAd"},
        {",\"num_experts\":4", "AeAeAeAeAeAe"},
        {",\"num_experts\":4,\"first_k_dense_replace\":2", "AdAdAeAeAeAe"},
        {",\"num_experts\":4,\"interleave_moe_layer_step\":2", "AdAeAdAeAdAe"},
        {",\"num_experts\":4,\"moe_layer_freq\":[0,1,1,0,0,1]", "AdAeAeAdAdAe"},
        {",\"num_experts\":4,\"moe_layers\":[5]", "AdAdAdAdAdAe"},
        {",\"num_experts\":4,\"mlp_only_layers\":[3]", "AeAeAeAdAeAe"},
        {",\"num_experts\":4,\"mlp_layer_types\":[\"dense\",\"sparse\","
         "\"sparse\",\"sparse\",\"dense\",\"sparse\"]",
         "AdAeAeAeAdAe"},
        {",\"mamba_num_heads\":4,\"num_experts\":4,"
         "\"hybrid_override_pattern\":\"ME*-ME\"",
         "M--eA--dM--e"},
        {",\"mamba_n_heads\":4,\"num_experts\":4,\"layers_block_type\":"
         "[\"mamba\",\"moe\",\"attention\",\"mlp\",\"mamba\",\"moe\"]",
         "M--eA--dM--e"},
        {",\"mamba_d_state\":16,\"mamba_expand\":2,\"attn_layer_period\":3,"
         "\"attn_layer_offset\":1,\"num_experts\":4,\"expert_layer_period\":2,"
         "\"expert_layer_offset\":1",
         "MdAeMdMeAdMe"},
        {",\"linear_num_value_heads\":4,\"full_attention_interval\":3",
         "DdDdAdDdDdAd"},
        {",\"mamba_n_heads\":4,\"layer_types\":[\"mamba\",\"mamba\","
         "\"attention\",\"mamba\",\"mamba\",\"attention\"]",
         "MdMdAdMdMdAd"},
        {",\"index_n_heads\":2,\"index_head_dim\":8,\"index_topk\":16",
         "PdPdPdPdPdPd"},
        {",\"index_n_heads\":2,\"index_head_dim\":8,\"index_topk\":16,"
         "\"sliding_window\":8,\"compress_ratios\":[0,128,4,128,4,0,0]",
         "WdHdCdHdCdWd"},
        /* Words of nobody are taken for attention. */
        {",\"layer_types\":[\"a\",\"b\",\"c\",1,2,3]", "AdAdAdAdAdAd"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1000];
        char found[20];
        snprintf(text, sizeof text, "{\"model_type\":\"foo\"," SIZES "%s}",
                 cases[i].keys);
        struct pen_model *model = parse_model(text);
        write_blocks(model, found);
        assert_string_equal(cases[i].blocks, found);
        expect_round_trip(model);
        pen_model_free(model);
    }
}

static void a_list_of_blocks_tells_their_number(void **state)
{
    (void)state;
    struct pen_model *model =
        parse_model("{\"model_type\":\"nemotron_h\",\"vocab_size\":100,"
                    "\"hidden_size\":64,\"num_attention_heads\":4,"
                    "\"mamba_num_heads\":4,\"layers_block_type\":[\"mamba\","
                    "\"mlp\",\"full_attention\"]}");
    char found[20];
    write_blocks(model, found);
    assert_string_equal("M--dA-", found);
    expect_round_trip(model);
    pen_model_free(model);
}

static void an_unknown_type_is_guessed_and_says_so(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        const char *warning;
    } cases[] = {
        {"", "unknown model_type \"foo\": planned as a decoder with a gated "
             "MLP; its figures may be off by more\n"},
        {",\"activation_function\":\"gelu_new\"",
         "unknown model_type \"foo\": planned as a decoder with a plain MLP; "
         "its figures may be off by more\n"},
        {",\"n_routed_experts\":8",
         "unknown model_type \"foo\": planned as a decoder with a gated MLP "
         "and experts; its figures may be off by more\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1000];
        struct pen_text warning = PEN_TEXT_EMPTY;
        snprintf(text, sizeof text, "{\"model_type\":\"foo\"," SIZES "%s}",
                 cases[i].keys);
        struct pen_model *model = parse_model(text);
        assert_true(model->is_guessed);
        assert_string_equal("foo", pen_model_type(model));
        pen_model_add_warnings(model, &warning);
        assert_string_equal(cases[i].warning, pen_text_string(&warning));
        assert_int_equal(PEN_INVALID, pen_model_check_trainable(model, NULL));
        assert_int_equal(0, model->num_tensors);
        pen_text_release(&warning);
        pen_model_free(model);
    }
}

/* What GPT-2 and Llama are by their own readers, they are by their keys. */
static void guessed_counts_are_those_of_the_family(void **state)
{
    (void)state;
    static const char llama[] =
        "{\"model_type\":\"%s\"," SIZES ",\"num_key_value_heads\":2,"
        "\"intermediate_size\":96,\"max_position_embeddings\":32,"
        "\"rms_norm_eps\":1e-5}";
    char text[1000];
    snprintf(text, sizeof text, llama, "llama");
    struct pen_model *known = parse_model(text);
    snprintf(text, sizeof text, llama, "lama");
    struct pen_model *guessed = parse_model(text);
    for (uint32_t layer = 0; layer < known->num_layers; layer++)
        assert_int_equal(pen_model_layer_parameters(known, layer),
                         pen_model_layer_parameters(guessed, layer));
    assert_true(pen_model_step_flops(known, 2, 32) ==
                pen_model_step_flops(guessed, 2, 32));
    pen_model_free(known);
    pen_model_free(guessed);
}

static void a_text_part_stands_for_the_whole(void **state)
{
    (void)state;
    struct pen_text warning = PEN_TEXT_EMPTY;
    struct pen_model *model = parse_model(
        "{\"model_type\":\"see\",\"tie_word_embeddings\":true,\"dtype\":"
        "\"float16\",\"vision_config\":{\"hidden_size\":9},\"text_config\":{"
        "\"model_type\":\"llama\"," SIZES ",\"intermediate_size\":96,"
        "\"max_position_embeddings\":32}}");
    assert_int_equal(PEN_FAMILY_LLAMA, model->family);
    assert_true(model->has_tied_embeddings && model->is_text_part);
    assert_int_equal(PEN_DTYPE_F16, model->dtype);
    assert_int_equal(PEN_INVALID, pen_model_check_trainable(model, NULL));
    pen_model_add_warnings(model, &warning);
    assert_string_equal("only the text part of the model is planned, "
                        "\"llama\"; what it has for images or sound is not "
                        "counted\n",
                        pen_text_string(&warning));
    pen_text_release(&warning);
    pen_model_free(model);
}

static void a_recurrence_costs_as_much_per_token_at_any_length(void **state)
{
    (void)state;
    struct pen_model *model =
        parse_model("{\"model_type\":\"foo\"," SIZES ",\"mamba_num_heads\":8,"
                    "\"mamba_head_dim\":16,\"ssm_state_size\":32,"
                    "\"layer_types\":[\"mamba\",\"mamba\",\"mamba\",\"mamba\","
                    "\"mamba\",\"mamba\"]}");
    double shorter = pen_model_step_flops(model, 1, 1024);
    double longer = pen_model_step_flops(model, 1, 8192);
    assert_true(longer > 7.999 * shorter && longer < 8.001 * shorter);
    pen_model_free(model);
}

static void refusals_name_what_is_missing(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *reason;
    } cases[] = {
        {"{\"model_type\":\"foo\"}",
         "a model of type \"foo\" cannot be planned without num_hidden_layers, "
         "hidden_size, num_attention_heads, vocab_size"},
        {"{\"model_type\":\"foo\",\"d_model\":64,\"n_layers\":2,"
         "\"n_heads\":4}",
         "a model of type \"foo\" cannot be planned without vocab_size"},
        {"{\"model_type\":\"foo\"," SIZES ",\"kv_lora_rank\":8}",
         "a model of type \"foo\" cannot be planned without "
         "qk_nope_head_dim, v_head_dim"},
        {"{\"model_type\":\"foo\"," SIZES ",\"head_dim\":\"wide\"}",
         "head_dim must be an integer from 0 to 4194304"},
        {"{\"model_type\":\"foo\"," SIZES ",\"num_experts\":2,"
         "\"num_experts_per_tok\":3}",
         "num_experts_per_tok is 3; it must be from 1 to the number of "
         "experts, 2"},
        {"{\"model_type\":\"foo\"," SIZES ",\"layer_types\":[]}",
         "layer_types must have 6 entries"},
        {"{\"model_type\":\"see\",\"text_config\":7}",
         "text_config must be an object"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_model_refusal(cases[i].text, cases[i].reason);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_2026_have_the_parameters_of_transformers),
        cmocka_unit_test(a_preset_is_the_model_of_its_file),
        cmocka_unit_test(blocks_come_as_the_file_says),
        cmocka_unit_test(a_list_of_blocks_tells_their_number),
        cmocka_unit_test(an_unknown_type_is_guessed_and_says_so),
        cmocka_unit_test(guessed_counts_are_those_of_the_family),
        cmocka_unit_test(a_text_part_stands_for_the_whole),
        cmocka_unit_test(a_recurrence_costs_as_much_per_token_at_any_length),
        cmocka_unit_test(refusals_name_what_is_missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
