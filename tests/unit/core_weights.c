/*
 * The weights of a model lie in one file or in shards with an index; both
 * read the same, and a tensor that does not fit the model is refused.
 */
#include "support/support.h"

#include "base/file.h"
#include "core/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/penstock-weights-XXXXXX";

static const char *const names[] = {
    "model.safetensors", "model-00001-of-00003.safetensors",
    "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors",
    "model.safetensors.index.json"};

static const char *in_folder(const char *name, char file[200])
{
    snprintf(file, 200, "%s/%s", folder, name);
    return file;
}

static int exists(const char *name)
{
    char file[200];
    return access(in_folder(name, file), F_OK) == 0;
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int empty_folder(void **state)
{
    (void)state;
    char file[200];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(in_folder(names[i], file));
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void write_text(const char *name, const char *text)
{
    char file[200];
    assert_int_equal(PEN_OK, pen_file_write(in_folder(name, file), text,
                                            strlen(text), NULL));
}

static const uint64_t four[] = {4};
static const uint64_t none[] = {0};
static const struct pen_tensor_spec specs[] = {{"d", PEN_DTYPE_U8, 1, four},
                                               {"a", PEN_DTYPE_U8, 1, four},
                                               {"e", PEN_DTYPE_U8, 1, four},
                                               {"z", PEN_DTYPE_U8, 1, none},
                                               {"b", PEN_DTYPE_F64, 1, four}};
enum { NUM_SPECS = 5 };

static const char *bytes_of(size_t tensor)
{
    static const char *const bytes[NUM_SPECS] = {
        "dddd", "aaaa", "eeee", "", "0123456789abcdef0123456789abcdef"};
    return bytes[tensor];
}

static void write_weights(uint64_t max_shard_bytes)
{
    struct pen_weights_writer *writer = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_weights_create(folder, "model", specs, NUM_SPECS, max_shard_bytes,
                           &writer, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    for (size_t i = 0; i < NUM_SPECS; i++)
        assert_int_equal(PEN_OK, pen_weights_put(writer, i, bytes_of(i),
                                                 strlen(bytes_of(i)), &why));
    if (pen_weights_finish(writer, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
}

static void expect_weights(const char *path)
{
    struct pen_weights *weights = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_weights_open(path, &weights, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    assert_int_equal(NUM_SPECS, pen_weights_count(weights));
    assert_string_equal("a", pen_weights_at(weights, 0)->name);
    assert_string_equal("z", pen_weights_at(weights, NUM_SPECS - 1)->name);
    for (size_t i = 0; i < NUM_SPECS; i++) {
        const struct pen_safetensor *found =
            pen_weights_find(weights, specs[i].name);
        assert_non_null(found);
        assert_int_equal(strlen(bytes_of(i)), found->num_bytes);
        assert_memory_equal(bytes_of(i), found->bytes, found->num_bytes);
    }
    assert_null(pen_weights_find(weights, "c"));
    pen_weights_close(weights);
    pen_text_release(&why);
}

static void one_file_holds_everything_without_a_limit(void **state)
{
    (void)state;
    char file[200];
    write_weights(0);
    assert_true(exists("model.safetensors"));
    assert_false(exists("model.safetensors.index.json"));
    expect_weights(folder);
    expect_weights(in_folder("model.safetensors", file));
}

static void shards_have_an_index_that_transformers_reads(void **state)
{
    (void)state;
    char file[200];
    write_weights(8);
    struct pen_text index = PEN_TEXT_EMPTY;
    assert_int_equal(
        PEN_OK, pen_file_read(in_folder("model.safetensors.index.json", file),
                              10000, &index, NULL));
    assert_string_equal("{\n"
                        "  \"metadata\": {\n"
                        "    \"total_size\": 44\n"
                        "  },\n"
                        "  \"weight_map\": {\n"
                        "    \"a\": \"model-00001-of-00003.safetensors\",\n"
                        "    \"b\": \"model-00003-of-00003.safetensors\",\n"
                        "    \"d\": \"model-00001-of-00003.safetensors\",\n"
                        "    \"e\": \"model-00002-of-00003.safetensors\",\n"
                        "    \"z\": \"model-00002-of-00003.safetensors\"\n"
                        "  }\n"
                        "}",
                        pen_text_string(&index));
    pen_text_release(&index);
    expect_weights(folder);
    expect_weights(file);
}

static void a_later_write_is_what_is_read(void **state)
{
    (void)state;
    write_text("model.safetensors", "stale");
    write_weights(8);
    assert_false(exists("model.safetensors"));
    expect_weights(folder);
    write_weights(0);
    assert_false(exists("model.safetensors.index.json"));
    expect_weights(folder);
}

static void nothing_is_left_of_abandoned_weights(void **state)
{
    (void)state;
    struct pen_weights_writer *writer = NULL;
    assert_int_equal(PEN_OK, pen_weights_create(folder, "model", specs,
                                                NUM_SPECS, 8, &writer, NULL));
    assert_int_equal(PEN_OK, pen_weights_put(writer, 0, "dddd", 4, NULL));
    assert_int_equal(PEN_OK, pen_weights_put(writer, 1, "aaaa", 4, NULL));
    assert_true(exists(names[1]));
    assert_int_equal(PEN_OK, pen_weights_put(writer, 2, "e", 1, NULL));
    assert_true(exists("model-00002-of-00003.safetensors.part"));
    pen_weights_abandon(writer);
    assert_false(exists(names[1]));
    assert_false(exists("model-00002-of-00003.safetensors.part"));
}

static void expect_refusal(const char *path, const char *reason)
{
    struct pen_weights *weights = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_not_equal(PEN_OK, pen_weights_open(path, &weights, &why));
    assert_null(weights);
    if (strstr(pen_text_string(&why), reason) == NULL)
        fail_msg("expected %s, found %s", reason, pen_text_string(&why));
    pen_text_release(&why);
}

static void an_index_names_files_beside_it_only(void **state)
{
    (void)state;
    static const char *const files[] = {"\"../model.safetensors\"",
                                        "\"/etc/passwd\"",
                                        "\"\"",
                                        "1",
                                        "\"..\"",
                                        "\"a/model.safetensors\"",
                                        "\".x.safetensors\"",
                                        "\"x.bin\""};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"weight_map\":{\"a\":%s}}", files[i]);
        write_text("model.safetensors.index.json", text);
        expect_refusal(
            folder,
            "model.safetensors.index.json: weight_map.a must be the name "
            "of a .safetensors file in the folder of the index");
    }
}

static void an_index_that_lies_is_refused(void **state)
{
    (void)state;
    expect_refusal(folder, "has neither model.safetensors nor "
                           "model.safetensors.index.json");
    write_text("model.safetensors.index.json", "{}");
    expect_refusal(folder, "weight_map must be an object");
    write_text("model.safetensors.index.json",
               "{\"weight_map\":{\"a\":\"x.safetensors\"}}");
    expect_refusal(folder, "x.safetensors: No such file or directory");
    write_weights(8);
    write_text("model.safetensors.index.json",
               "{\"weight_map\":{\"b\":\"model-00001-of-00003.safetensors\"}}");
    expect_refusal(
        folder, "/model-00001-of-00003.safetensors does not have the tensor b "
                "that the index names");
}

#define CONFIG                                                                 \
    "{\"model_type\":\"gpt2\",\"n_embd\":2,\"n_layer\":1,\"n_head\":1,"        \
    "\"n_positions\":3,\"vocab_size\":5}"

static void expect_tensor(const char *name, enum pen_dtype dtype,
                          const uint64_t shape[2], const char *reason)
{
    char file[200];
    in_folder("model.safetensors", file);
    struct pen_model *model = NULL;
    struct pen_weights *weights = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_weights_writer *writer = NULL;
    const struct pen_safetensor *found = NULL;
    const struct pen_tensor_spec spec = {name, dtype, 2, shape};
    const char bytes[100] = "";
    assert_int_equal(PEN_OK,
                     pen_model_parse(CONFIG, strlen(CONFIG), &model, NULL));
    assert_int_equal(PEN_OK, pen_weights_create(folder, "model", &spec, 1, 0,
                                                &writer, NULL));
    uint64_t length = shape[0] * shape[1] * pen_dtype_bits(dtype) / 8;
    assert_int_equal(PEN_OK, pen_weights_put(writer, 0, bytes, length, NULL));
    assert_int_equal(PEN_OK, pen_weights_finish(writer, NULL));
    assert_int_equal(PEN_OK, pen_weights_open(file, &weights, NULL));
    pen_status status =
        pen_weights_find_tensor(weights, model, 1, &found, &why);
    assert_int_equal(reason[0] == '\0' ? PEN_OK : PEN_INVALID, status);
    assert_string_equal(reason, pen_text_string(&why));
    assert_true((found != NULL) == (status == PEN_OK));
    pen_weights_close(weights);
    pen_model_free(model);
    pen_text_release(&why);
}

/* As published: experts of four bits, in blocks, with scales. */
static void weights_in_mxfp4_are_refused(void **state)
{
    (void)state;
    static const char config[] =
        "{\"model_type\":\"gpt_oss\",\"vocab_size\":5,\"hidden_size\":4,"
        "\"num_hidden_layers\":1,\"num_attention_heads\":1,"
        "\"num_key_value_heads\":1,\"head_dim\":4,\"intermediate_size\":3,"
        "\"num_local_experts\":2,\"num_experts_per_tok\":1,"
        "\"max_position_embeddings\":8}";
    const uint64_t shape[] = {2, 4};
    const char bytes[8] = "";
    const struct pen_tensor_spec spec = {
        "model.layers.0.mlp.experts.gate_up_proj_blocks", PEN_DTYPE_U8, 2,
        shape};
    char file[200];
    struct pen_model *model = NULL;
    struct pen_weights *weights = NULL;
    struct pen_weights_writer *writer = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    const struct pen_safetensor *found = NULL;
    in_folder("model.safetensors", file);
    assert_int_equal(PEN_OK,
                     pen_model_parse(config, strlen(config), &model, NULL));
    assert_int_equal(PEN_OK, pen_weights_create(folder, "model", &spec, 1, 0,
                                                &writer, NULL));
    assert_int_equal(PEN_OK,
                     pen_weights_put(writer, 0, bytes, sizeof bytes, NULL));
    assert_int_equal(PEN_OK, pen_weights_finish(writer, NULL));
    assert_int_equal(PEN_OK, pen_weights_open(file, &weights, NULL));
    uint32_t tensor = pen_model_find_part(model, 1, PEN_PART_EXPERT_WIDE);
    assert_int_equal(PEN_INVALID, pen_weights_find_tensor(
                                      weights, model, tensor, &found, &why));
    assert_string_equal(
        "the weights have model.layers.0.mlp.experts.gate_up_proj in MXFP4, "
        "which is not read; load the model in transformers with "
        "Mxfp4Config(dequantize=True) and save it, then give that folder",
        pen_text_string(&why));
    pen_weights_close(weights);
    pen_model_free(model);
    pen_text_release(&why);
}

static void a_tensor_must_fit_the_model(void **state)
{
    (void)state;
    static const uint64_t right[] = {3, 2};
    static const uint64_t wrong[] = {2, 3};
    expect_tensor("transformer.wpe.weight", PEN_DTYPE_BF16, right, "");
    expect_tensor("wpe.weight", PEN_DTYPE_F32, right, "");
    expect_tensor("wpe", PEN_DTYPE_F32, right,
                  "the weights have no tensor transformer.wpe.weight");
    expect_tensor("wpe.weight", PEN_DTYPE_F32, wrong,
                  "tensor transformer.wpe.weight has the shape [2, 3], but the "
                  "model needs [3, 2]");
    expect_tensor("wpe.weight", PEN_DTYPE_I32, right,
                  "tensor transformer.wpe.weight has the type I32; it must be "
                  "F32, BF16, F16 or F64");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(one_file_holds_everything_without_a_limit,
                                  empty_folder),
        cmocka_unit_test_teardown(shards_have_an_index_that_transformers_reads,
                                  empty_folder),
        cmocka_unit_test_teardown(a_later_write_is_what_is_read, empty_folder),
        cmocka_unit_test_teardown(nothing_is_left_of_abandoned_weights,
                                  empty_folder),
        cmocka_unit_test_teardown(an_index_names_files_beside_it_only,
                                  empty_folder),
        cmocka_unit_test_teardown(an_index_that_lies_is_refused, empty_folder),
        cmocka_unit_test_teardown(weights_in_mxfp4_are_refused, empty_folder),
        cmocka_unit_test_teardown(a_tensor_must_fit_the_model, empty_folder)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
