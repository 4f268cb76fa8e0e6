/*
 * A checkpoint comes back as it was saved, whatever its files; one that is not
 * whole is never loaded, and one that is whole is never lost to it.
 */
#include "support/support.h"

#include "base/file.h"
#include "core/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIG                                                                 \
    "{\"model_type\":\"gpt2\",\"n_embd\":4,\"n_layer\":2,\"n_head\":2,"        \
    "\"n_positions\":3,\"vocab_size\":5,\"torch_dtype\":\"bfloat16\"}"

static char folder[] = "/tmp/penstock-checkpoint-XXXXXX";
static char run[sizeof folder + 8];
static struct pen_model *model;

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(run, sizeof run, "%s/run", folder);
    return pen_model_parse(CONFIG, strlen(CONFIG), &model, NULL) != PEN_OK;
}

static void shell(const char *format, const char *path)
{
    char command[500];
    snprintf(command, sizeof command, format, path);
    if (system(command) != 0)
        fail_msg("%s", command);
}

static int empty_folder(void **state)
{
    (void)state;
    shell("rm -rf %s/*", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    pen_model_free(model);
    return rmdir(folder);
}

static const char *in_run(const char *name)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", run, name);
    return path;
}

static bool exists(const char *name)
{
    return access(in_run(name), F_OK) == 0;
}

/* A number that tells step, part, tensor and place. */
static float number(uint64_t step, uint32_t part, uint32_t tensor, size_t i)
{
    return (float)step + 0.25f * (float)part + 0.01f * (float)tensor +
           0.0001f * (float)i;
}

static void fill(uint64_t step, uint32_t part, uint32_t tensor, size_t count,
                 float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = number(step, part, tensor, i);
}

static struct pen_checkpoint_writer *begin(uint64_t step, uint32_t num_moments,
                                           uint64_t shard)
{
    struct pen_checkpoint_writer *writer = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_checkpoint_create_for(model, run, step, num_moments, shard, &writer,
                                  &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    struct pen_manifest *manifest = pen_checkpoint_manifest(writer);
    manifest->sample = step * 32;
    manifest->dtype = PEN_DTYPE_BF16;
    strcpy(manifest->optimizer, "adamw");
    pen_manifest_set_random(manifest, "dropout", UINT64_MAX - step, NULL);
    pen_manifest_set_number(manifest, "lr", 6e-4, NULL);
    pen_manifest_set_integer(manifest, "seed", 1234, NULL);
    pen_manifest_set_text(manifest, "lr-decay-style", "cosine", NULL);
    pen_manifest_set_flag(manifest, "bf16", true, NULL);
    for (uint32_t i = 0; i < model->num_tensors; i++) {
        float values[100];
        struct pen_tensor_info info;
        pen_model_tensor(model, i, &info);
        size_t count = (size_t)info.form->num_elements;
        for (uint32_t part = 0; part <= num_moments; part++) {
            fill(step, part, i, count, values);
            assert_int_equal(PEN_OK,
                             pen_checkpoint_put(writer, part, i, values,
                                                count * sizeof *values, &why));
        }
    }
    return writer;
}

static void save(uint64_t step, uint32_t num_moments, uint64_t shard,
                 uint32_t keep)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_checkpoint_finish(begin(step, num_moments, shard), keep, &why) !=
        PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
}

static struct pen_checkpoint *open_path(const char *path)
{
    struct pen_checkpoint *checkpoint = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_checkpoint_open(path, NULL, &checkpoint, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return checkpoint;
}

static void expect_tensors(const struct pen_checkpoint *checkpoint,
                           uint64_t step, uint32_t num_moments)
{
    for (uint32_t i = 0; i < model->num_tensors; i++) {
        for (uint32_t part = 0; part <= num_moments; part++) {
            const struct pen_safetensor *found = NULL;
            float values[100];
            struct pen_text why = PEN_TEXT_EMPTY;
            if (pen_checkpoint_find(checkpoint, model, i, part, &found, &why) !=
                PEN_OK)
                fail_msg("%s", pen_text_string(&why));
            assert_int_equal(PEN_DTYPE_F32, found->dtype);
            fill(step, part, i, found->num_bytes / 4, values);
            assert_memory_equal(values, found->bytes, found->num_bytes);
        }
    }
}

static void expect_step(const char *path, uint64_t step, uint32_t num_moments)
{
    struct pen_checkpoint *checkpoint = open_path(path);
    assert_int_equal(step, checkpoint->manifest.step);
    assert_int_equal(num_moments, checkpoint->manifest.num_moments);
    expect_tensors(checkpoint, step, num_moments);
    pen_checkpoint_close(checkpoint);
}

static void what_was_saved_comes_back(void **state)
{
    (void)state;
    for (uint32_t moments = 0; moments <= 2; moments++) {
        save(moments, moments, 0, 0);
        save(moments + 10, moments, 300, 0);
        expect_step(run, moments + 10, moments);
        expect_step(in_run("step-00000010"), 10, 0);
    }
    assert_true(exists("step-00000000/model.safetensors"));
    assert_false(exists("step-00000000/optimizer.safetensors"));
    assert_true(exists("step-00000010/model.safetensors.index.json"));
    assert_true(exists("step-00000011/optimizer.safetensors.index.json"));
    assert_true(exists("step-00000001/config.json"));
    struct stat about;
    assert_int_equal(0, stat(in_run("step-00000010"), &about));
    assert_int_equal(0700, about.st_mode & 0777);
}

static void the_manifest_has_what_a_run_needs(void **state)
{
    (void)state;
    save(7, 2, 0, 0);
    struct pen_checkpoint *checkpoint = open_path(run);
    struct pen_manifest *manifest = &checkpoint->manifest;
    uint64_t random = 0;
    assert_int_equal(7 * 32, manifest->sample);
    assert_int_equal(PEN_DTYPE_BF16, manifest->dtype);
    assert_string_equal("adamw", manifest->optimizer);
    assert_true(pen_manifest_get_random(manifest, "dropout", &random));
    assert_true(random == UINT64_MAX - 7);
    assert_false(pen_manifest_get_random(manifest, "none", &random));
    assert_string_equal("", manifest->previous);
    assert_int_equal(3, manifest->num_files);
    assert_non_null(pen_manifest_find_file(manifest, "config.json"));

    struct pen_manifest wanted;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_OK, pen_manifest_init(&wanted, NULL));
    pen_manifest_set_flag(&wanted, "bf16", true, NULL);
    pen_manifest_set_integer(&wanted, "seed", 1234, NULL);
    pen_manifest_set_text(&wanted, "lr-decay-style", "cosine", NULL);
    pen_manifest_set_number(&wanted, "lr", 6e-4, NULL);
    assert_int_equal(PEN_OK,
                     pen_manifest_compare_settings(manifest, &wanted, &why));
    pen_manifest_set_integer(&wanted, "seed", 1, NULL);
    pen_manifest_set_flag(&wanted, "shuffle", false, NULL);
    assert_int_equal(PEN_INVALID,
                     pen_manifest_compare_settings(manifest, &wanted, &why));
    assert_string_equal("seed is 1234 in the checkpoint and 1 here, shuffle is "
                        "nothing in the checkpoint and false here",
                        pen_text_string(&why));
    pen_manifest_release(&wanted);
    pen_text_release(&why);
    pen_checkpoint_close(checkpoint);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_was_saved_comes_back, empty_folder),
        cmocka_unit_test_teardown(the_manifest_has_what_a_run_needs,
                                  empty_folder)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
