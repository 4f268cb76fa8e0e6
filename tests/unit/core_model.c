/*
 * A model has the tensors and the exact number of parameters that its
 * config.json stands for, and what cannot be carried is refused with its key.
 */
#include "support/models.h"
#include "support/support.h"

#include "core/model.h"

#include <stdio.h>
#include <string.h>

/* Printing what was parsed from a print gives the same text. */
static void expect_round_trip(const struct pen_model *model)
{
    struct pen_text once = PEN_TEXT_EMPTY;
    struct pen_text twice = PEN_TEXT_EMPTY;
    pen_model_print(model, &once);
    struct pen_model *again = parse_model(pen_text_string(&once));
    pen_model_print(again, &twice);
    assert_string_equal(pen_text_string(&once), pen_text_string(&twice));
    assert_int_equal(model->num_parameters, again->num_parameters);
    assert_int_equal(model->num_tensors, again->num_tensors);
    assert_int_equal(model->window, again->window);
    assert_int_equal(model->dtype, again->dtype);
    pen_model_free(again);
    pen_text_release(&once);
    pen_text_release(&twice);
}

/* Sums by tensor and by layer agree with the total, or the test fails. */
static void expect_consistent(const struct pen_model *model)
{
    uint64_t by_tensor = 0;
    uint64_t by_layer = 0;
    struct pen_tensor_info info;
    for (uint32_t i = 0; i < model->num_tensors; i++) {
        pen_model_tensor(model, i, &info);
        by_tensor += info.form->num_elements;
        assert_int_equal(i, pen_model_find_expert_part(model, info.layer,
                                                       info.expert,
                                                       info.form->part));
    }
    uint32_t next = 0;
    for (uint32_t layer = 0; layer < model->num_layers; layer++) {
        uint32_t first;
        uint32_t count = pen_model_layer_tensors(model, layer, &first);
        assert_int_equal(next, first);
        next = first + count;
        by_layer += pen_model_layer_parameters(model, layer);
    }
    assert_int_equal(model->num_tensors, next);
    assert_int_equal(model->num_parameters, by_tensor);
    assert_int_equal(model->num_parameters, by_layer);
    expect_round_trip(model);
}

static void presets_have_the_published_parameters(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t parameters;
    } presets[] = {{"preset:gpt2", 124439808},
                   {"preset:gpt2-medium", 354823168},
                   {"preset:gpt2-large", 774030080},
                   {"preset:gpt2-xl", 1557611200}};
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        struct pen_model *model = load_model(presets[i].name);
        assert_int_equal(presets[i].parameters, model->num_parameters);
        expect_consistent(model);
        pen_model_free(model);
    }
}

static void published_configs_have_the_published_parameters(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t parameters;
    } models[] = {{"gpt2", 124439808},
                  {"meta-llama--Llama-2-7b-hf", 6738415616},
                  {"meta-llama--Llama-2-13b-hf", 13015864320},
                  {"meta-llama--Llama-2-70b-hf", 68976648192},
                  {"meta-llama--Meta-Llama-3.1-8B", 8030261248},
                  {"meta-llama--Meta-Llama-3.1-70B", 70553706496},
                  {"meta-llama--Meta-Llama-3.1-405B", 405853388800},
                  {"mistralai--Mistral-7B-Instruct-v0.3", 7248023552},
                  {"Qwen--Qwen2.5-1.5B", 1543714304},
                  {"Qwen--Qwen2.5-7B", 7615616512},
                  {"Qwen--Qwen2.5-32B", 32763876352},
                  {"Qwen--Qwen2.5-72B", 72706203648},
                  {"Qwen--Qwen3-8B", 8190735360}};
    need_folder(MODEL_CONFIGS);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char path[1000];
        snprintf(path, sizeof path, MODEL_CONFIGS "hf/%s.config.json",
                 models[i].name);
        struct pen_model *model = load_model(path);
        if (model->num_parameters != models[i].parameters)
            fail_msg("%s: expected %llu, found %llu", models[i].name,
                     (unsigned long long)models[i].parameters,
                     (unsigned long long)model->num_parameters);
        expect_consistent(model);
        pen_model_free(model);
    }
}

static void expect_tensor(const struct pen_model *model, uint32_t tensor,
                          const char *expected)
{
    struct pen_tensor_info info;
    char found[200];
    pen_model_tensor(model, tensor, &info);
    const struct pen_tensor_form *form = info.form;
    static const char *const roles[] = {"matrix", "bias", "norm"};
    int length = snprintf(found, sizeof found, "%u %s %s %llu", info.layer,
                          roles[form->role], info.name,
                          (unsigned long long)form->shape[0]);
    if (form->num_dims == 2)
        snprintf(found + length, sizeof found - (size_t)length, "x%llu",
                 (unsigned long long)form->shape[1]);
    assert_string_equal(expected, found);
}

static void gpt2_stores_linear_weights_input_first(void **state)
{
    (void)state;
    struct pen_model *model = load_model("preset:gpt2");
    assert_int_equal(2 + 12 * 12 + 2, model->num_tensors);
    expect_tensor(model, 0, "0 matrix transformer.wte.weight 50257x768");
    expect_tensor(model, 1, "0 matrix transformer.wpe.weight 1024x768");
    expect_tensor(model, 2, "1 norm transformer.h.0.ln_1.weight 768");
    expect_tensor(model, 4,
                  "1 matrix transformer.h.0.attn.c_attn.weight 768x2304");
    expect_tensor(model, 5, "1 bias transformer.h.0.attn.c_attn.bias 2304");
    expect_tensor(model, 145, "12 bias transformer.h.11.mlp.c_proj.bias 768");
    expect_tensor(model, 147, "13 norm transformer.ln_f.bias 768");
    struct pen_tensor_info info;
    pen_model_tensor(model, 4, &info);
    assert_true(info.form->is_input_first);
    assert_string_equal("h.0.attn.c_attn.weight",
                        pen_model_bare_name(model, info.name));
    pen_model_tensor(model, 0, &info);
    assert_false(info.form->is_input_first);
    pen_model_free(model);
}

#define LLAMA_SIZES                                                            \
    "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":3,"     \
    "\"num_attention_heads\":4,\"vocab_size\":100,"                            \
    "\"max_position_embeddings\":32"
#define LLAMA "\"model_type\":\"llama\"," LLAMA_SIZES
#define QWEN2 "\"model_type\":\"qwen2\",\"num_key_value_heads\":2," LLAMA_SIZES
#define QWEN3 "\"model_type\":\"qwen3\",\"num_key_value_heads\":2," LLAMA_SIZES
#define GPT2                                                                   \
    "\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":3,\"n_head\":4,"        \
    "\"n_positions\":32,\"vocab_size\":100"

static void llama_has_an_output_matrix_of_its_own(void **state)
{
    (void)state;
    struct pen_model *model =
        parse_model("{" LLAMA ",\"num_key_value_heads\":2}");
    assert_int_equal(1 + 3 * 9 + 2, model->num_tensors);
    assert_int_equal(16, model->head_dim);
    expect_tensor(model, 3,
                  "1 matrix model.layers.0.self_attn.k_proj.weight "
                  "32x64");
    expect_tensor(model, 27,
                  "3 matrix model.layers.2.mlp.down_proj.weight "
                  "64x96");
    expect_tensor(model, 29, "4 matrix lm_head.weight 100x64");
    struct pen_tensor_info info;
    pen_model_tensor(model, 3, &info);
    assert_false(info.form->is_input_first);
    expect_consistent(model);
    pen_model_free(model);
}

static void absent_keys_mean_what_transformers_takes(void **state)
{
    (void)state;
    struct pen_model *model = parse_model("{" LLAMA "}");
    assert_int_equal(4, model->num_kv_heads);
    assert_false(model->has_tied_embeddings);
    assert_true(model->norm_eps == 1e-6);
    assert_int_equal(PEN_ROPE_DEFAULT, model->rope.kind);
    assert_true(model->rope.theta == 10000);
    assert_int_equal(PEN_DTYPE_F32, model->dtype);
    pen_model_free(model);
    model = parse_model("{" QWEN3 ",\"head_dim\":null}");
    assert_int_equal(16, model->head_dim);
    pen_model_free(model);
    model = parse_model("{" QWEN3 "}");
    assert_int_equal(128, model->head_dim);
    pen_model_free(model);
    model = parse_model("{" GPT2 ",\"n_inner\":null}");
    assert_int_equal(256, model->intermediate);
    assert_true(model->has_tied_embeddings);
    assert_int_equal(PEN_ROPE_NONE, model->rope.kind);
    pen_model_free(model);
}

static void families_differ_in_biases_and_norms(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t per_block;
    } cases[] = {{"{" LLAMA "}", 9},
                 {"{" LLAMA ",\"attention_bias\":true}", 13},
                 {"{" LLAMA ",\"mlp_bias\":true}", 12},
                 {"{" QWEN2 "}", 12},
                 {"{" QWEN2 ",\"attention_bias\":true}", 12},
                 {"{" QWEN3 "}", 11},
                 {"{" QWEN3 ",\"attention_bias\":true}", 15},
                 {"{" GPT2 "}", 12}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_model *model = parse_model(cases[i].text);
        uint32_t first;
        assert_int_equal(cases[i].per_block,
                         pen_model_layer_tensors(model, 1, &first));
        expect_consistent(model);
        pen_model_free(model);
    }
}

static void rotary_scaling_is_read_in_both_spellings(void **state)
{
    (void)state;
#define LLAMA3                                                                 \
    "\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1,"           \
    "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":8192"
    const char *const texts[] = {
        "{" LLAMA ",\"rope_theta\":500000,\"rope_scaling\":{" LLAMA3 "}}",
        "{" LLAMA ",\"rope_parameters\":{\"rope_theta\":5e5," LLAMA3 "}}"};
    for (size_t i = 0; i < 2; i++) {
        struct pen_model *model = parse_model(texts[i]);
        const struct pen_rope *rope = &model->rope;
        assert_int_equal(PEN_ROPE_LLAMA3, rope->kind);
        assert_true(rope->theta == 500000 && rope->factor == 8);
        assert_true(rope->low_freq_factor == 1 && rope->high_freq_factor == 4);
        assert_int_equal(8192, rope->original_positions);
        expect_consistent(model);
        pen_model_free(model);
    }
    struct pen_model *model = parse_model(
        "{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}");
    assert_int_equal(PEN_ROPE_LINEAR, model->rope.kind);
    assert_true(model->rope.factor == 2);
    pen_model_free(model);
}

static void expect_windows(const char *text, const uint32_t expected[3])
{
    struct pen_model *model = parse_model(text);
    for (uint32_t block = 0; block < 3; block++)
        assert_int_equal(expected[block], pen_model_window(model, block));
    expect_consistent(model);
    pen_model_free(model);
}

static void windows_are_those_of_the_family(void **state)
{
    (void)state;
#define MISTRAL                                                                \
    "\"model_type\":\"mistral\",\"num_key_value_heads\":2," LLAMA_SIZES
#define SLIDING "\"use_sliding_window\":true,\"sliding_window\":8"
    static const uint32_t none[] = {0, 0, 0};
    static const uint32_t all[] = {4096, 4096, 4096};
    static const uint32_t upper[] = {0, 0, 8};
    expect_windows("{" MISTRAL "}", all);
    expect_windows("{" MISTRAL ",\"sliding_window\":null}", none);
    expect_windows("{" QWEN2 ",\"sliding_window\":8}", none);
    expect_windows("{" QWEN2 "," SLIDING "}", none);
    expect_windows("{" QWEN2 "," SLIDING ",\"max_window_layers\":2}", upper);
    expect_windows("{" QWEN3 "," SLIDING
                   ",\"layer_types\":[\"full_attention\",\"full_attention\","
                   "\"sliding_attention\"]}",
                   upper);
}

static void unknown_keys_and_tied_embeddings_are_fine(void **state)
{
    (void)state;
    struct pen_model *model =
        parse_model("{" QWEN2 ",\"tie_word_embeddings\":true,\"x\":[{}],"
                    "\"dtype\":\"bfloat16\"}");
    assert_int_equal(1 + 3 * 12 + 1, model->num_tensors);
    assert_int_equal(PEN_DTYPE_BF16, model->dtype);
    expect_consistent(model);
    pen_model_free(model);
}

static void refusals_name_the_key(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *reason;
    } cases[] = {
        {"{}", "model_type is missing; is this a model's config.json?"},
        {"{\"model_type\":\"mamba\"}",
         "a model of type \"mamba\" cannot be planned without "
         "num_hidden_layers, hidden_size, num_attention_heads, vocab_size"},
        {"{" LLAMA "\n,,}",
         "line 2, column 2: string or '}' expected near ','"},
        {"{" LLAMA ",\"vocab_size\":5}",
         "line 1, column 166: duplicate object key near '\"vocab_size\"'"},
        {"{\"model_type\":\"llama\",\"vocab_size\":100}",
         "hidden_size must be an integer from 1 to 262144"},
        {"{" LLAMA ",\"num_key_value_heads\":3}",
         "num_key_value_heads is 3; it must divide the number of heads, "
         "4"},
        {"{" LLAMA ",\"head_dim\":15}",
         "head_dim is 15; it must be even for rotary positions"},
        {"{" LLAMA ",\"hidden_act\":\"gelu\"}",
         "hidden_act \"gelu\" is not supported; it must be \"silu\" or "
         "\"swish\""},
        {"{" LLAMA ",\"rope_scaling\":{\"type\":\"yarn\"}}",
         "rope_scaling.type \"yarn\" is not supported; it must be "
         "\"default\", \"linear\" or \"llama3\""},
        {"{" LLAMA ",\"rope_scaling\":{\"type\":\"linear\"}}",
         "rope_scaling.factor is missing"},
        {"{" LLAMA ",\"rope_scaling\":[]}", "rope_scaling must be an object"},
        {"{" LLAMA ",\"rope_parameters\":{\"partial_rotary_factor\":0.5}}",
         "rope_parameters.partial_rotary_factor must be a number from 1 to 1"},
        {"{" LLAMA ",\"torch_dtype\":\"int8\"}",
         "torch_dtype \"int8\" is not supported; it must be \"float32\", "
         "\"float16\", \"bfloat16\" or \"float64\""},
        {"{" GPT2 ",\"scale_attn_weights\":false}",
         "scale_attn_weights is false; only true is supported"},
        {"{" QWEN2 "," SLIDING
         ",\"layer_types\":[\"sliding_attention\",\"full_attention\","
         "\"full_attention\"]}",
         "layer_types[1] must be \"sliding_attention\" as the layer before "
         "it"},
        {"{" QWEN2 ",\"use_mrope\":true}",
         "use_mrope is true; only false is supported"},
        {"{" QWEN2 "," SLIDING ",\"layer_types\":[]}",
         "layer_types must be a list of 3 strings"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_model_refusal(cases[i].text, cases[i].reason);
}

static void a_missing_file_and_preset_are_named(void **state)
{
    (void)state;
    struct pen_model *model = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_IO, pen_model_load("/nowhere", &model, &why));
    assert_string_equal("cannot open /nowhere: No such file or directory",
                        pen_text_string(&why));
    pen_text_clear(&why);
    assert_int_equal(PEN_IO, pen_model_load("lama-3.1-70b", &model, &why));
    assert_non_null(strstr(pen_text_string(&why),
                           "; did you mean llama-3.1-70b, a preset; "));
    pen_text_clear(&why);
    assert_int_equal(PEN_INVALID, pen_model_load("preset:x", &model, &why));
    static const char known[] =
        "there is no preset:x; expected preset: and one of\n"
        "  gpt2 gpt2-medium gpt2-large gpt2-xl\n"
        "  gpt3-175b mt-nlg-530b gpt-1t\n"
        "  llama-2-7b llama-2-13b llama-2-70b\n";
    assert_memory_equal(known, pen_text_string(&why), sizeof known - 1);
    assert_non_null(strstr(pen_text_string(&why), "\n  deepseek-v3\n"));
    pen_text_release(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_have_the_published_parameters),
        cmocka_unit_test(published_configs_have_the_published_parameters),
        cmocka_unit_test(gpt2_stores_linear_weights_input_first),
        cmocka_unit_test(llama_has_an_output_matrix_of_its_own),
        cmocka_unit_test(absent_keys_mean_what_transformers_takes),
        cmocka_unit_test(families_differ_in_biases_and_norms),
        cmocka_unit_test(rotary_scaling_is_read_in_both_spellings),
        cmocka_unit_test(windows_are_those_of_the_family),
        cmocka_unit_test(unknown_keys_and_tied_embeddings_are_fine),
        cmocka_unit_test(refusals_name_the_key),
        cmocka_unit_test(a_missing_file_and_preset_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
