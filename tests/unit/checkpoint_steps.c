/*
 * A checkpoint comes back as it was saved, whatever its files; one that is not
 * whole is never loaded, and one that is whole is never lost to it.
 */
#include "support/support.h"

#include "base/file.h"
#include "checkpoint/checkpoint.h"

#include <fcntl.h>
#include <stdarg.h>
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
static struct pen_any_model any;

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(run, sizeof run, "%s/run", folder);
    return pen_model_parse(CONFIG, strlen(CONFIG), &any.decoder, NULL) !=
           PEN_OK;
}

static void shell(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

static void shell(const char *format, ...)
{
    char command[500];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
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
    pen_any_model_release(&any);
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
    if (pen_checkpoint_create_for(&any, run, step, num_moments, shard, &writer,
                                  &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    struct pen_manifest *manifest = pen_checkpoint_manifest(writer);
    manifest->sample = step * 32;
    manifest->dtype = PEN_DTYPE_BF16;
    strcpy(manifest->optimizer, "adamw");
    manifest->num_replicas = 4;
    pen_manifest_set_random(manifest, "dropout", UINT64_MAX - step, NULL);
    pen_manifest_set_number(manifest, "lr", 6e-4, NULL);
    pen_manifest_set_integer(manifest, "seed", 1234, NULL);
    pen_manifest_set_text(manifest, "lr-decay-style", "cosine", NULL);
    pen_manifest_set_flag(manifest, "bf16", true, NULL);
    for (uint32_t i = 0; i < any.decoder->num_tensors; i++) {
        float values[100];
        struct pen_tensor_info info;
        pen_model_tensor(any.decoder, i, &info);
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
    struct pen_checkpoint_keep newest = {.count = keep};
    if (pen_checkpoint_finish(begin(step, num_moments, shard), &newest, &why) !=
        PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_checkpoint_keep_release(&newest);
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
    for (uint32_t i = 0; i < any.decoder->num_tensors; i++) {
        for (uint32_t part = 0; part <= num_moments; part++) {
            const struct pen_safetensor *found = NULL;
            float values[100];
            struct pen_text why = PEN_TEXT_EMPTY;
            if (pen_checkpoint_find(checkpoint, &any, i, part, &found, &why) !=
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
    assert_int_equal(4, manifest->num_replicas);
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

static void the_newest_step_is_the_largest_number(void **state)
{
    (void)state;
    save(99999999, 0, 0, 0);
    save(100000000, 0, 0, 0);
    save(5, 0, 0, 0);
    expect_step(run, 100000000, 0);
    struct pen_checkpoint_list list;
    assert_int_equal(PEN_OK, pen_checkpoint_list_load(run, &list, NULL));
    assert_int_equal(3, list.count);
    assert_int_equal(5, list.entries[0].step);
    assert_int_equal(100000000, list.entries[2].step);
    for (size_t i = 0; i < list.count; i++) {
        assert_true(list.entries[i].is_whole);
        assert_true(list.entries[i].num_bytes >
                    4 * any.decoder->num_parameters);
        assert_true(list.entries[i].written_sec > 1700000000);
    }
    pen_checkpoint_list_release(&list);
}

static void a_manifest_names_the_one_before_it(void **state)
{
    (void)state;
    char first[PEN_HASH_SIZE];
    struct pen_text text = PEN_TEXT_EMPTY;
    save(1, 2, 0, 0);
    save(2, 2, 0, 0);
    assert_int_equal(PEN_OK,
                     pen_file_read(in_run("step-00000001/MANIFEST.json"),
                                   100000, &text, NULL));
    assert_int_equal(PEN_OK,
                     pen_hash_bytes(text.bytes, text.length, first, NULL));
    struct pen_checkpoint *checkpoint = open_path(run);
    assert_string_equal(first, checkpoint->manifest.previous);
    pen_checkpoint_close(checkpoint);
    pen_text_release(&text);
}

static void kinds_of_directories_are_told_apart(void **state)
{
    (void)state;
    struct pen_checkpoint *checkpoint = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_CHECKPOINT_NONE, pen_checkpoint_kind_of(folder));
    assert_int_equal(PEN_CHECKPOINT_NONE, pen_checkpoint_kind_of("/none"));
    assert_int_equal(PEN_INVALID,
                     pen_checkpoint_open(folder, NULL, &checkpoint, &why));
    assert_non_null(
        strstr(pen_text_string(&why),
               "is not a checkpoint: it has neither MANIFEST.json nor a folder "
               "step-NNNNNNNN"));
    save(1, 0, 0, 0);
    assert_int_equal(PEN_CHECKPOINT_RUN, pen_checkpoint_kind_of(run));
    assert_int_equal(PEN_CHECKPOINT_STEP,
                     pen_checkpoint_kind_of(in_run("step-00000001")));
    pen_text_release(&why);
}

static void hash_of(const char *path, char out[PEN_HASH_SIZE])
{
    struct pen_checkpoint *checkpoint = open_path(path);
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_checkpoint_hash(checkpoint, &any, NULL, out, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_checkpoint_close(checkpoint);
}

static void a_state_has_one_hash_whatever_its_files(void **state)
{
    (void)state;
    char single[PEN_HASH_SIZE];
    char shards[PEN_HASH_SIZE];
    char other[PEN_HASH_SIZE];
    save(3, 2, 0, 0);
    hash_of(run, single);
    save(3, 2, 100, 0);
    assert_true(exists("step-00000003/model.safetensors.index.json"));
    hash_of(run, shards);
    assert_string_equal(single, shards);
    save(3, 1, 0, 0);
    hash_of(run, other);
    assert_string_not_equal(single, other);
    save(4, 2, 0, 0);
    hash_of(run, other);
    assert_string_not_equal(single, other);
}

static void moments_that_are_not_there_are_refused(void **state)
{
    (void)state;
    const struct pen_safetensor *found = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    save(1, 1, 0, 0);
    struct pen_checkpoint *checkpoint = open_path(run);
    assert_int_equal(PEN_INVALID,
                     pen_checkpoint_find(checkpoint, &any, 0,
                                         PEN_CHECKPOINT_MOMENT2, &found, &why));
    assert_non_null(strstr(pen_text_string(&why),
                           "step-00000001 has no tensor "
                           "transformer.wte.weight.moment2 of type F32 and "
                           "the model's shape"));
    assert_null(found);
    pen_checkpoint_close(checkpoint);
    pen_text_release(&why);
}

static void further_files_are_part_of_it(void **state)
{
    (void)state;
    struct pen_text why = PEN_TEXT_EMPTY;
    char source[300];
    snprintf(source, sizeof source, "%s/source", folder);
    shell("mkdir %s", source);
    shell("echo '{}' >%s/tokenizer.json", source);
    shell("echo '{}' >%s/other.json", source);
    shell("echo x >%s/'a b'", source);
    struct pen_checkpoint_writer *writer = begin(1, 0, 0);
    assert_int_equal(PEN_OK,
                     pen_checkpoint_copy_tokenizer(writer, source, &why));
    strcat(source, "/a b");
    assert_int_equal(PEN_INVALID,
                     pen_checkpoint_copy_file(writer, source, &why));
    assert_int_equal(PEN_OK, pen_checkpoint_finish(writer, 0, &why));
    assert_true(exists("step-00000001/tokenizer.json"));
    assert_false(exists("step-00000001/other.json"));
    shell("echo '[]' >%s", in_run("step-00000001/tokenizer.json"));
    assert_int_equal(PEN_INVALID, pen_checkpoint_verify(in_run("step-00000001"),
                                                        NULL, NULL));
    pen_text_release(&why);
}

static void a_step_of_the_same_number_is_replaced(void **state)
{
    (void)state;
    save(1, 2, 300, 0);
    save(1, 0, 0, 0);
    expect_step(run, 1, 0);
    assert_false(exists(".tmp-step-00000001"));
    assert_false(exists("step-00000001/model.safetensors.index.json"));
}

static void old_steps_go_when_only_some_are_kept(void **state)
{
    (void)state;
    save(1, 0, 0, 2);
    save(2, 0, 0, 2);
    assert_true(exists("step-00000001"));
    shell("rm %s", in_run("step-00000002/config.json"));
    save(3, 0, 0, 2);
    save(9, 0, 0, 0);
    assert_true(exists("step-00000001"));
    save(4, 0, 0, 2);
    assert_false(exists("step-00000001"));
    assert_true(exists("step-00000002")); /* not whole: somebody may look */
    assert_true(exists("step-00000003"));
    assert_true(exists("step-00000009")); /* not older */
    expect_step(in_run("step-00000004"), 4, 0);
    save(5, 0, 0, 1);
    assert_false(exists("step-00000003"));
    assert_false(exists("step-00000004"));
    assert_false(exists(".tmp-removed-step-00000003"));
}

static void nothing_is_left_of_an_abandoned_one(void **state)
{
    (void)state;
    pen_checkpoint_abandon(begin(1, 2, 300));
    shell("test -z \"$(ls -A %s)\"", run);
}

static void what_a_dead_writer_left_is_removed(void **state)
{
    (void)state;
    shell("mkdir -p %s", in_run(".tmp-step-00000009"));
    shell("touch %s", in_run(".tmp-step-00000009/model.safetensors.part"));
    shell("ln -s / %s", in_run(".tmp-step-00000009/link"));
    save(1, 0, 0, 0);
    assert_false(exists(".tmp-step-00000009"));
    expect_step(run, 1, 0);

    /* A tree of them, but never what is behind a link. */
    shell("mkdir -p %s", in_run(".tmp-a/b/c"));
    shell("ln -s step-00000001 %s", in_run(".tmp-b"));
    save(2, 0, 0, 0);
    assert_false(exists(".tmp-a"));
    assert_int_equal(0, access(in_run("step-00000001/config.json"), F_OK));
}

/* A ResNet of one block; a statistic is its number, a count twice that. */
static void save_images(const struct pen_any_model *images, uint64_t step,
                        float statistic)
{
    struct pen_checkpoint_writer *writer = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_checkpoint_create_for(images, run, step, 2, 0, &writer, &why) !=
        PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    for (uint32_t i = 0; i < pen_any_model_num_tensors(images); i++) {
        struct pen_any_tensor tensor;
        float values[1000];
        int64_t batches = (int64_t)(2 * statistic);
        pen_any_model_tensor(images, i, &tensor);
        fill(step, 0, i, (size_t)tensor.num_elements, values);
        if (!tensor.is_trained)
            values[0] = statistic;
        bool is_count = tensor.dtype == PEN_DTYPE_I64;
        const void *bytes = is_count ? (void *)&batches : (void *)values;
        size_t length =
            is_count ? sizeof batches : tensor.num_elements * sizeof *values;
        for (uint32_t part = 0; part <= (tensor.is_trained ? 2u : 0u); part++)
            assert_int_equal(PEN_OK, pen_checkpoint_put(writer, part, i, bytes,
                                                        length, &why));
    }
    if (pen_checkpoint_finish(writer, 0, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
}

static void hash_images(const struct pen_any_model *images, const char *step,
                        char out[PEN_HASH_SIZE])
{
    struct pen_checkpoint *checkpoint = open_path(in_run(step));
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_null(pen_weights_find(
        checkpoint->optimizer,
        "resnet.embedder.embedder.normalization.running_mean.moment1"));
    if (pen_checkpoint_hash(checkpoint, images, NULL, out, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_checkpoint_close(checkpoint);
}

static void statistics_are_kept_and_hashed_without_moments(void **state)
{
    (void)state;
    static const char config[] =
        "{\"model_type\":\"resnet\",\"num_channels\":1,\"embedding_size\":4,"
        "\"hidden_sizes\":[4],\"depths\":[1],\"layer_type\":\"basic\"}";
    struct pen_any_model images = {.decoder = NULL};
    struct pen_any_model again = {.decoder = NULL};
    char first[PEN_HASH_SIZE];
    char second[PEN_HASH_SIZE];
    assert_int_equal(PEN_OK, pen_image_model_parse(config, sizeof config - 1,
                                                   &images.images, NULL));
    save_images(&images, 1, 3);
    hash_images(&images, "step-00000001", first);
    assert_int_equal(PEN_OK,
                     pen_any_model_load(&again, in_run("step-00000001"), NULL));
    assert_non_null(again.images);
    assert_int_equal(images.images->num_parameters,
                     pen_any_model_num_parameters(&again));
    shell("rm -r %s", in_run("step-00000001"));
    save_images(&images, 1, 3);
    hash_images(&images, "step-00000001", second);
    assert_string_equal(first, second);
    shell("rm -r %s", in_run("step-00000001"));
    save_images(&images, 1, 4);
    hash_images(&images, "step-00000001", second);
    assert_string_not_equal(first, second);
    pen_any_model_release(&images);
    pen_any_model_release(&again);
}

static void two_writers_at_once_are_refused(void **state)
{
    (void)state;
    struct pen_checkpoint_writer *first = begin(1, 0, 0);
    struct pen_checkpoint_writer *second = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(
        PEN_IO, pen_checkpoint_create_for(&any, run, 2, 0, 0, &second, &why));
    assert_non_null(strstr(pen_text_string(&why),
                           "another process is writing a checkpoint to"));
    assert_int_equal(PEN_OK, pen_checkpoint_finish(first, 0, NULL));
    expect_step(run, 1, 0);
    save(2, 0, 0, 0);
    pen_text_release(&why);
}

/* Step 2 is wrong in one way: it is refused by name, and step 1 is taken. */
static void expect_refused(const char *reason)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_not_equal(
        PEN_OK, pen_checkpoint_verify(in_run("step-00000002"), NULL, &why));
    if (strstr(pen_text_string(&why), reason) == NULL)
        fail_msg("expected %s, found %s", reason, pen_text_string(&why));
    struct pen_checkpoint *checkpoint = open_path(run);
    assert_int_equal(1, checkpoint->manifest.step);
    assert_string_equal(pen_text_string(&why),
                        pen_text_string(&checkpoint->skipped));
    expect_tensors(checkpoint, 1, 2);
    pen_checkpoint_close(checkpoint);
    pen_text_release(&why);
}

static void a_step_that_is_not_whole_is_passed_over(void **state)
{
    (void)state;
    static const struct {
        const char *damage; /* done in the directory of the step */
        const char *reason;
    } cases[] = {
        {"truncate -s -1 optimizer.safetensors",
         "/optimizer.safetensors has 9599 bytes, must have 9600"},
        {"truncate -s 0 config.json", "/config.json has 0 bytes, must have "},
        {"echo >>model.safetensors", "/model.safetensors has "},
        {"rm config.json", "/config.json: No such file or directory"},
        {"rm MANIFEST.json", "/MANIFEST.json: No such file or directory"},
        {"touch extra",
         "/extra is not in MANIFEST.json; move it to another folder"},
        {"mkdir extra",
         "/extra is not in MANIFEST.json; move it to another folder"},
        {"mv config.json .x; ln -s .x config.json",
         "/config.json is not a regular file"},
        {"rm config.json; mkfifo config.json",
         "/config.json is not a regular file"},
        {"mv MANIFEST.json .x; ln -s .x MANIFEST.json",
         "/MANIFEST.json is not a regular file"},
        {"rm MANIFEST.json; mkfifo MANIFEST.json",
         "/MANIFEST.json is not a regular file"},
        {"truncate -s -1 MANIFEST.json", "the hash at its end (offset "},
        {"truncate -s 10 MANIFEST.json",
         "/MANIFEST.json: 10 bytes are too few for a manifest"},
        {"sed -i s/wte/wtf/ model.safetensors",
         "/model.safetensors is damaged: its SHA-256 is "}};
    save(1, 2, 0, 0);
    save(2, 2, 0, 0);
    shell("cd %s && cp -a step-00000002 .good", run);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[400];
        snprintf(command, sizeof command, "cd %s && { %s; }",
                 in_run("step-00000002"), cases[i].damage);
        shell("%s", command);
        expect_refused(cases[i].reason);
        shell("cd %s && rm -r step-00000002 && cp -a .good step-00000002", run);
    }
    expect_step(run, 2, 2);
    shell("touch %s/.DS_Store", in_run("step-00000002"));
    expect_step(run, 2, 2);
}

static void all_that_is_wrong_is_told(void **state)
{
    (void)state;
    struct pen_text why = PEN_TEXT_EMPTY;
    save(1, 2, 0, 0);
    shell("cd %s; rm config.json; echo >>model.safetensors; touch a",
          in_run("step-00000001"));
    assert_int_equal(PEN_INVALID, pen_checkpoint_verify(in_run("step-00000001"),
                                                        NULL, &why));
    assert_non_null(strstr(pen_text_string(&why), "/a is not in"));
    assert_non_null(strstr(pen_text_string(&why), "config.json: No such file"));
    assert_non_null(strstr(pen_text_string(&why), "/model.safetensors has"));
    pen_text_release(&why);
}

static void a_renamed_step_is_not_a_newer_one(void **state)
{
    (void)state;
    save(1, 0, 0, 0);
    save(2, 0, 0, 0);
    shell("cd %s; mv step-00000001 step-00000009", run);
    struct pen_checkpoint *checkpoint = open_path(run);
    assert_int_equal(2, checkpoint->manifest.step);
    assert_non_null(strstr(pen_text_string(&checkpoint->skipped),
                           "step-00000009 is step 1 by its manifest"));
    pen_checkpoint_close(checkpoint);
    expect_step(in_run("step-00000009"), 1, 0);
}

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

/* A manifest that is sealed well, with one part replaced. */
static void expect_manifest(const char *from, const char *to,
                            const char *reason)
{
    static const char good[] =
        "{\"format\": \"penstock-checkpoint\", \"version\": 1, \"step\": 3, "
        "\"sample\": 96, \"dtype\": \"F32\", "
        "\"optimizer\": {\"name\": \"adamw\", \"moments\": 2}, "
        "\"random\": {\"dropout\": \"00000000000004d2\"}, "
        "\"configuration\": {}, \"configuration_sha256\": "
        "\"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a\", "
        "\"files\": [{\"name\": \"a\", \"bytes\": 1, \"sha256\": \"" ZEROS
        "\"}, {\"name\": \"b\", \"bytes\": 2, \"sha256\": \"" ZEROS "\"}], "
        "\"previous\": null";
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_manifest manifest;
    const char *at = strstr(good, from);
    assert_non_null(at);
    pen_text_add_bytes(&text, good, (size_t)(at - good));
    pen_text_add_string(&text, to);
    pen_text_add_string(&text, at + strlen(from));
    assert_int_equal(PEN_OK, pen_manifest_seal(&text, NULL));
    pen_status status =
        pen_manifest_parse(text.bytes, text.length, &manifest, &why);
    if (strstr(pen_text_string(&why), reason) == NULL)
        fail_msg("expected %s, found %s", reason, pen_text_string(&why));
    assert_int_equal(reason[0] == '\0' ? PEN_OK : PEN_INVALID, status);
    if (status == PEN_OK)
        pen_manifest_release(&manifest);
    pen_text_release(&text);
    pen_text_release(&why);
}

#define BAD_NAME                                                               \
    "files[0].name must be the name of a file in the manifest's folder, of "   \
    "letters, digits, '.', '_' and '-'"

static void a_manifest_names_files_beside_it_only(void **state)
{
    (void)state;
    expect_manifest("\"a\"", "\"a\"", "");
    static const char *const names[] = {"\"../a\"",    "\"/etc/passwd\"",
                                        "\"\"",        "\".\"",
                                        "\"..\"",      "\".a\"",
                                        "\"a/b\"",     "\"a\\\\b\"",
                                        "\"a\\nb\"",   "\"MANIFEST.json\"",
                                        "\"\\u00e4\"", "7",
                                        "null",        "[\"a\"]"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        expect_manifest("\"a\"", names[i], BAD_NAME);
    expect_manifest("\"a\"", "\"b\"",
                    "files[1].name must be in alphabetical order");
    expect_manifest("\"a\"", "\"c\"",
                    "files[1].name must be in alphabetical order");
}

static void every_number_of_a_manifest_has_bounds(void **state)
{
    (void)state;
    expect_manifest("\"step\": 3", "\"step\": -1",
                    "step must be an integer from 0 to 999999999999");
    expect_manifest("\"step\": 3", "\"step\": 1e3",
                    "step must be an integer from 0 to 999999999999");
    expect_manifest("\"sample\": 96", "\"x\": 96",
                    "x is not a key of this format; expected one of format "
                    "version run step sample dtype optimizer "
                    "logical_replicas logical_tensor sync random configuration "
                    "configuration_sha256 command files previous sha256");
    expect_manifest("\"sample\": 96", "\"step\": 96",
                    "line 1, column 65: duplicate object key");
    expect_manifest("\"bytes\": 1", "\"bytes\": 9223372036854775807",
                    "files[0].bytes must be an integer from 0 to "
                    "140737488355328");
    expect_manifest("\"bytes\": 1", "\"bytes\": 99999999999999999999",
                    "too big integer");
    expect_manifest("\"version\": 1", "\"version\": 5",
                    "version must be an integer from 1 to 4");
    expect_manifest("\"F32\"", "\"F64\"", "dtype must be \"F32\" or \"BF16\"");
    expect_manifest("\"moments\": 2", "\"moments\": 3",
                    "optimizer.moments must be an integer from 0 to 2");
    expect_manifest("\"random\"", "\"logical_replicas\": 8, \"random\"", "");
    expect_manifest("\"random\"", "\"logical_replicas\": 0, \"random\"",
                    "logical_replicas must be an integer from 1 to 1048576");
    static const char version4[] =
        "\"version\": 4, \"run\": \"0123456789abcdef\", \"logical_tensor\": ";
    char with_pieces[128];
    snprintf(with_pieces, sizeof with_pieces, "%s8", version4);
    expect_manifest("\"version\": 1", with_pieces, "");
    snprintf(with_pieces, sizeof with_pieces, "%s0", version4);
    expect_manifest("\"version\": 1", with_pieces,
                    "logical_tensor must be an integer from 1 to 1024");
    expect_manifest("\"random\"", "\"logical_tensor\": 8, \"random\"",
                    "logical_tensor is a key of version 4; version is 1");
    expect_manifest("\"adamw\"", "\"\"",
                    "optimizer.name must be a word of at most 31 letters");
    expect_manifest("4d2", "4D2",
                    "random must have at most 1024 names, each with 16 "
                    "hexadecimal digits");
    expect_manifest("n\": {}", "n\": {\"a\": {}}",
                    "configuration must have at most 1024 names, each with a "
                    "number, a string, true or false");
    expect_manifest("n\": {}", "n\": {\"a\": 1}",
                    "configuration_sha256 does not match the configuration");
    expect_manifest(ZEROS, "0",
                    "files[0].sha256 must be 64 hexadecimal digits");
    expect_manifest("null", "1", "previous must be 64 hexadecimal digits");
}

static void the_id_of_a_run_is_a_key_of_version_2(void **state)
{
    (void)state;
    static const char version[] = "\"version\": 1";
    expect_manifest(version, "\"version\": 2, \"run\": \"0123456789abcdef\"",
                    "");
    expect_manifest(version, "\"version\": 1, \"run\": \"0123456789abcdef\"",
                    "run is a key of version 2; version is 1");
    static const char *const wrong[] = {
        "\"version\": 2",
        "\"version\": 2, \"run\": null",
        "\"version\": 2, \"run\": 7",
        "\"version\": 2, \"run\": \"\"",
        "\"version\": 2, \"run\": \"0123456789abcde\"",
        "\"version\": 2, \"run\": \"0123456789abcdef0\"",
        "\"version\": 2, \"run\": \"0123456789ABCDEF\""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_manifest(version, wrong[i], "run must be 16 hexadecimal digits");
}

#define VERSION_3 "\"version\": 3, \"run\": \"0123456789abcdef\", "

static void the_command_is_a_key_of_version_3(void **state)
{
    (void)state;
    static const char version[] = "\"version\": 1, ";
    expect_manifest(version,
                    VERSION_3 "\"command\": {\"ranks\": 2, \"options\": "
                              "{\"lr\": [\"1e-3\"], \"bf16\": []}}, ",
                    "");
    expect_manifest(version, VERSION_3, "");
    expect_manifest(version,
                    "\"version\": 1, \"command\": {\"ranks\": 2, "
                    "\"options\": {}}, ",
                    "command is a key of version 3; version is 1");
    expect_manifest(version,
                    VERSION_3 "\"command\": {\"ranks\": 0, \"options\": {}}, ",
                    "command.ranks must be an integer from 1 to 1048576");
    static const char *const wrong[] = {
        VERSION_3 "\"command\": {\"ranks\": 1}, ",
        VERSION_3 "\"command\": {\"ranks\": 1, \"options\": []}, ",
        VERSION_3 "\"command\": {\"ranks\": 1, \"options\": {\"lr\": 1}}, ",
        VERSION_3 "\"command\": {\"ranks\": 1, \"options\": {\"lr\": [1]}}, ",
        VERSION_3 "\"command\": {\"ranks\": 1, \"options\": {\"LR\": []}}, "};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_manifest(version, wrong[i],
                        "command.options must have at most 1024 names, each "
                        "with a list of at most 4096 strings");
}

static void ids_are_drawn_and_differ(void **state)
{
    (void)state;
    char first[PEN_RUN_ID_SIZE];
    char second[PEN_RUN_ID_SIZE];
    assert_int_equal(PEN_OK, pen_run_id_draw(first, NULL));
    assert_int_equal(PEN_OK, pen_run_id_draw(second, NULL));
    assert_true(pen_run_id_is_valid(first) && pen_run_id_is_valid(second));
    assert_string_not_equal(first, second);
    assert_string_not_equal(first, PEN_RUN_ID_OLD);
}

/* "sync" of a manifest. */
static void expect_sync(const char *sync, const char *reason)
{
    char text[300];
    snprintf(text, sizeof text, "\"sync\": {%s}, \"random\"", sync);
    expect_manifest("\"random\"", text, reason);
}

#define SYNC "\"method\": \"parle\", \"interval\": 25, \"replicas\": 3, "

static void everything_about_replicas_has_bounds(void **state)
{
    (void)state;
    expect_sync(SYNC "\"options\": {}", "");
    expect_sync(SYNC "\"options\": {\"lr\": 0.5}, \"compressor\": \"sign\", "
                     "\"compressor_options\": {}",
                "");
    expect_sync("", "sync.method must be at most 63 lower-case letters");
    expect_sync("\"method\": \"A\"", "sync.method must be");
    expect_sync("\"method\": \"a\", \"interval\": 0",
                "sync.interval must be an integer from 1 to 4294967295");
    expect_sync("\"method\": \"a\", \"interval\": 1, \"replicas\": 0",
                "sync.replicas must be an integer from 1 to 1048576");
    expect_sync(SYNC "\"options\": {\"lr\": 1}",
                "sync.options must have at most 1024 names, each with a number "
                "that has a decimal point");
    expect_sync(SYNC "\"options\": {\"L\": 1.0}", "sync.options must have");
    expect_sync(SYNC "\"options\": {}, \"compressor\": 1",
                "sync.compressor must be at most 63 lower-case letters");
    expect_sync(SYNC "\"options\": {}, \"compressor\": \"a\"",
                "sync.compressor_options");
    expect_sync(SYNC "\"options\": {}, \"compressor_options\": {}",
                "sync.compressor must be");
    expect_sync(SYNC "\"options\": {}, \"x\": 1", "sync.x is not a key");
}

static void a_manifest_with_too_many_files_is_refused(void **state)
{
    (void)state;
    struct pen_text many = PEN_TEXT_EMPTY;
    pen_text_add_string(&many, "\"files\": [");
    for (uint32_t i = 0; i < PEN_MANIFEST_MAX_FILES; i++)
        pen_text_add(&many, "0,");
    expect_manifest("\"files\": [", pen_text_string(&many),
                    "files must be a list of at most 65536");
    pen_text_release(&many);
}

static void sha_256_is_that_of_the_standard(void **state)
{
    (void)state;
    char hash[PEN_HASH_SIZE];
    assert_int_equal(PEN_OK, pen_hash_bytes("abc", 3, hash, NULL));
    assert_string_equal("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff"
                        "61f20015ad",
                        hash);
    assert_true(pen_hash_is_valid(hash));
    assert_int_equal(PEN_OK, pen_hash_bytes("", 0, hash, NULL));
    assert_string_equal("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca49599"
                        "1b7852b855",
                        hash);
    hash[63] = 'A';
    assert_false(pen_hash_is_valid(hash));
    assert_false(pen_hash_is_valid(""));
}

#define TEST(name) cmocka_unit_test_teardown(name, empty_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_saved_comes_back),
        TEST(the_manifest_has_what_a_run_needs),
        TEST(the_newest_step_is_the_largest_number),
        TEST(a_manifest_names_the_one_before_it),
        TEST(kinds_of_directories_are_told_apart),
        TEST(a_state_has_one_hash_whatever_its_files),
        TEST(statistics_are_kept_and_hashed_without_moments),
        TEST(moments_that_are_not_there_are_refused),
        TEST(further_files_are_part_of_it),
        TEST(a_step_of_the_same_number_is_replaced),
        TEST(old_steps_go_when_only_some_are_kept),
        TEST(nothing_is_left_of_an_abandoned_one),
        TEST(what_a_dead_writer_left_is_removed),
        TEST(two_writers_at_once_are_refused),
        TEST(a_step_that_is_not_whole_is_passed_over),
        TEST(all_that_is_wrong_is_told),
        TEST(a_renamed_step_is_not_a_newer_one),
        TEST(a_manifest_names_files_beside_it_only),
        TEST(every_number_of_a_manifest_has_bounds),
        TEST(the_id_of_a_run_is_a_key_of_version_2),
        TEST(the_command_is_a_key_of_version_3),
        TEST(ids_are_drawn_and_differ),
        TEST(everything_about_replicas_has_bounds),
        TEST(a_manifest_with_too_many_files_is_refused),
        TEST(sha_256_is_that_of_the_standard)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
