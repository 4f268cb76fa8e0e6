/*
 * A checkpoint that several processes write is the one that a single process
 * writes: same tensors, same hash; and it is there only if every tensor is in
 * one share, and in one only.
 */
#include "support/folder.h"
#include "support/support.h"

#include "base/file.h"
#include "checkpoint/record.h"
#include "checkpoint/share.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONFIG                                                                 \
    "{\"model_type\":\"gpt2\",\"n_embd\":4,\"n_layer\":2,\"n_head\":2,"        \
    "\"n_positions\":3,\"vocab_size\":5}"

enum { MOMENTS = 2, MOST_SHARES = 4, MOST_VALUES = 100 };

static struct pen_any_model model;
static char run[sizeof folder + 8];

static int make_run(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    snprintf(run, sizeof run, "%s/run", folder);
    return pen_model_parse(CONFIG, strlen(CONFIG), &model.decoder, NULL) !=
           PEN_OK;
}

static int remove_run(void **state)
{
    pen_any_model_release(&model);
    return remove_folder(state);
}

static int empty_run(void **state)
{
    (void)state;
    char command[sizeof run + 10];
    snprintf(command, sizeof command, "rm -rf %s", run);
    return system(command);
}

/* The tensors i of the model with i % count == number. */
struct portion {
    struct pen_any_tensor infos[MOST_VALUES];
    struct pen_checkpoint_tensor tensors[MOST_VALUES];
    uint32_t numbers[MOST_VALUES]; /* in the model */
    size_t count;
    float values[MOST_VALUES]; /* of the part that was asked for last */
};

static void take_portion(struct portion *out, uint32_t number, uint32_t count,
                         uint32_t num_versions)
{
    out->count = 0;
    for (uint32_t i = number; i < pen_any_model_num_tensors(&model);
         i += count) {
        struct pen_any_tensor *info = &out->infos[out->count];
        pen_any_model_tensor(&model, i, info);
        out->numbers[out->count] = i;
        out->tensors[out->count++] = (struct pen_checkpoint_tensor){
            {info->name, info->dtype, info->num_dims, info->shape},
            true,
            num_versions};
    }
}

static float number_of(uint32_t part, uint32_t tensor, size_t i)
{
    return 10.f * (float)part + (float)tensor + 0.01f * (float)i;
}

static const void *bytes_of(void *context, enum pen_checkpoint_part part,
                            size_t tensor)
{
    struct portion *portion = context;
    for (size_t i = 0; i < portion->infos[tensor].num_elements; i++)
        portion->values[i] = number_of(part, portion->numbers[tensor], i);
    return portion->values;
}

static struct pen_checkpoint_share_args
args_of(const struct portion *portion, uint32_t number, uint64_t max_bytes)
{
    return (struct pen_checkpoint_share_args){.run = run,
                                              .step = 7,
                                              .number = number,
                                              .tensors = portion->tensors,
                                              .count = portion->count,
                                              .num_moments = MOMENTS,
                                              .max_shard_bytes = max_bytes};
}

/* Share `number` of `count`. */
static void write_share(uint32_t number, uint32_t count, uint64_t max_bytes,
                        uint32_t num_versions, struct pen_text *record)
{
    struct portion portion;
    struct pen_text why = PEN_TEXT_EMPTY;
    take_portion(&portion, number, count, num_versions);
    struct pen_checkpoint_share_args args =
        args_of(&portion, number, max_bytes);
    const struct pen_checkpoint_source source = {bytes_of, NULL, &portion};
    if (pen_checkpoint_share_write(&args, &source, record, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
}

static struct pen_checkpoint_writer *begin(void)
{
    struct pen_checkpoint_writer *writer = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_checkpoint_begin_for(&model, run, 7, MOMENTS, &writer, &why) !=
        PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    return writer;
}

static void add(struct pen_checkpoint_writer *writer, struct pen_text *record)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_checkpoint_add_record(writer, record->bytes, record->length,
                                  &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(record);
}

static void finish(struct pen_checkpoint_writer *writer)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_checkpoint_finish(writer, 0, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
}

/* All shares, one after the other, the last first. */
static void save(uint32_t count, uint64_t max_bytes, uint32_t num_versions)
{
    struct pen_checkpoint_writer *writer = begin();
    for (uint32_t i = count; i-- > 0;) {
        struct pen_text record = PEN_TEXT_EMPTY;
        write_share(i, count, max_bytes, num_versions, &record);
        add(writer, &record);
    }
    finish(writer);
}

/* By pen_checkpoint_put(), in the model's order. */
static void save_alone(void)
{
    struct portion all;
    struct pen_checkpoint_writer *writer = NULL;
    take_portion(&all, 0, 1, 0);
    assert_int_equal(PEN_OK, pen_checkpoint_create_for(&model, run, 7, MOMENTS,
                                                       0, &writer, NULL));
    for (size_t i = 0; i < all.count; i++) {
        for (uint32_t part = 0; part <= MOMENTS; part++)
            assert_int_equal(
                PEN_OK, pen_checkpoint_put(
                            writer, part, i, bytes_of(&all, part, i),
                            all.infos[i].num_elements * sizeof(float), NULL));
    }
    finish(writer);
}

static void hash_run(uint32_t num_versions, char out[PEN_HASH_SIZE])
{
    struct pen_checkpoint *checkpoint = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_checkpoint_open(run, NULL, &checkpoint, &why) != PEN_OK ||
        pen_checkpoint_hash(checkpoint, &model, NULL, out, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    for (uint32_t i = 0; i < pen_any_model_num_tensors(&model); i++)
        assert_int_equal(num_versions,
                         pen_checkpoint_num_versions(checkpoint, &model, i));
    pen_checkpoint_close(checkpoint);
}

static bool has_file(const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/step-00000007/%s", run, name);
    return access(path, F_OK) == 0;
}

static void the_hash_does_not_depend_on_who_wrote_what(void **state)
{
    (void)state;
    char alone[PEN_HASH_SIZE];
    char shared[PEN_HASH_SIZE];
    save_alone();
    hash_run(0, alone);
    for (uint32_t count = 1; count <= MOST_SHARES; count++) {
        for (uint64_t most = 0; most <= 300; most += 150) {
            save(count, most, 0);
            hash_run(0, shared);
            assert_string_equal(alone, shared);
        }
    }
}

static void files_have_the_names_that_transformers_expects(void **state)
{
    (void)state;
    save(1, 0, 0);
    assert_true(has_file("model.safetensors"));
    assert_false(has_file("model.safetensors.index.json"));
    save(3, 0, 0);
    assert_true(has_file("model-00001-of-00003.safetensors"));
    assert_true(has_file("model-00003-of-00003.safetensors"));
    assert_true(has_file("model.safetensors.index.json"));
    assert_true(has_file("optimizer-00003-of-00003.safetensors"));
    assert_true(has_file("optimizer.safetensors.index.json"));
    assert_true(has_file("config.json"));
    assert_false(has_file("sync.safetensors"));
    assert_false(has_file("model.000001.safetensors"));
}

/* As on a cluster: the leader knows nothing but the bytes of the records. */
static void processes_write_at_the_same_time(void **state)
{
    (void)state;
    char alone[PEN_HASH_SIZE];
    char shared[PEN_HASH_SIZE];
    int pipes[MOST_SHARES][2];
    save_alone();
    hash_run(0, alone);
    struct pen_checkpoint_writer *writer = begin();
    fflush(NULL);
    for (uint32_t i = 0; i < MOST_SHARES; i++) {
        assert_int_equal(0, pipe(pipes[i]));
        if (fork() != 0)
            continue;
        struct pen_text record = PEN_TEXT_EMPTY;
        write_share(i, MOST_SHARES, 200, 0, &record);
        _exit(write(pipes[i][1], record.bytes, record.length) !=
              (ssize_t)record.length);
    }
    for (uint32_t i = 0; i < MOST_SHARES; i++) {
        int code = 0;
        char bytes[65536];
        assert_true(wait(&code) > 0);
        assert_int_equal(0, code);
        close(pipes[i][1]);
        ssize_t length = read(pipes[i][0], bytes, sizeof bytes);
        assert_true(length > 0);
        assert_int_equal(PEN_OK, pen_checkpoint_add_record(
                                     writer, bytes, (size_t)length, NULL));
        close(pipes[i][0]);
    }
    finish(writer);
    hash_run(0, shared);
    assert_string_equal(alone, shared);
}

static void versions_are_kept_and_hashed(void **state)
{
    (void)state;
    char without[PEN_HASH_SIZE];
    char one[PEN_HASH_SIZE];
    char again[PEN_HASH_SIZE];
    const struct pen_safetensor *found = NULL;
    struct pen_checkpoint *checkpoint = NULL;
    save(2, 0, 0);
    hash_run(0, without);
    save(2, 0, 3);
    assert_true(has_file("sync-00002-of-00002.safetensors"));
    hash_run(3, one);
    assert_string_not_equal(without, one);
    save(1, 0, 3);
    assert_true(has_file("sync.safetensors"));
    hash_run(3, again);
    assert_string_equal(one, again);
    assert_int_equal(PEN_OK, pen_checkpoint_open(run, NULL, &checkpoint, NULL));
    assert_int_equal(PEN_OK, pen_checkpoint_find(checkpoint, &model, 1,
                                                 PEN_CHECKPOINT_VERSION1 + 2,
                                                 &found, NULL));
    float value = number_of(PEN_CHECKPOINT_VERSION1 + 2, 1, 0);
    assert_string_equal("transformer.wpe.weight.version3", found->name);
    assert_memory_equal(&value, found->bytes, sizeof value);
    pen_checkpoint_close(checkpoint);
}

/* Ends a checkpoint that has to be refused; nothing may be left of it. */
static void expect_refusal(struct pen_checkpoint_writer *writer,
                           const char *reason)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    char command[sizeof run + 40];
    assert_int_equal(PEN_INVALID, pen_checkpoint_finish(writer, 0, &why));
    if (strstr(pen_text_string(&why), reason) == NULL)
        fail_msg("expected %s, found %s", reason, pen_text_string(&why));
    snprintf(command, sizeof command, "test -z \"$(ls -A %s)\"", run);
    assert_int_equal(0, system(command));
    pen_text_release(&why);
}

static void a_tensor_that_nobody_wrote_is_missed(void **state)
{
    (void)state;
    struct pen_text record = PEN_TEXT_EMPTY;
    struct pen_checkpoint_writer *writer = begin();
    expect_refusal(writer,
                   "28 tensors are missing from all shares, among them");
    writer = begin();
    write_share(0, 2, 0, 0, &record);
    add(writer, &record);
    expect_refusal(writer,
                   "14 tensors are missing from all shares, among them");
}

static void a_tensor_that_two_wrote_is_refused(void **state)
{
    (void)state;
    struct pen_text record = PEN_TEXT_EMPTY;
    struct pen_checkpoint_writer *writer = begin();
    for (uint32_t i = 0; i < 2; i++) {
        write_share(i, 2, 0, 0, &record);
        add(writer, &record);
    }
    write_share(2, 3, 0, 0, &record);
    add(writer, &record);
    expect_refusal(writer, "two shares have the tensor transformer.");
}

/* A record in which every `from` became `to`, which is as long. */
static void forge(struct pen_text *record, const char *from, const char *to)
{
    char *at = strstr(record->bytes, from);
    assert_non_null(at);
    for (; at != NULL; at = strstr(at + 1, from))
        memcpy(at, to, strlen(to));
}

static void a_tensor_that_nobody_wants_is_refused(void **state)
{
    (void)state;
    struct pen_text record = PEN_TEXT_EMPTY;
    struct pen_checkpoint_writer *writer = begin();
    write_share(0, 1, 0, 0, &record);
    forge(&record, "transformer.wte.weight\"", "transformer.wxe.weight\"");
    add(writer, &record);
    expect_refusal(writer, "a share has the tensor transformer.wxe.weight, "
                           "which the checkpoint does not have");
}

static void a_version_needs_the_newer_ones(void **state)
{
    (void)state;
    static const char *const names[] = {"version2", "version0", "version9",
                                        "vers.on1", "version "};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct pen_text record = PEN_TEXT_EMPTY;
        struct pen_checkpoint_writer *writer = begin();
        write_share(0, 1, 0, 1, &record);
        forge(&record, "version1", names[i]);
        add(writer, &record);
        expect_refusal(writer, "of a tensor that it does not have");
    }
}

/* What a record says of a file is compared with the file. */
static void a_file_that_is_not_there_is_missed(void **state)
{
    (void)state;
    struct pen_text record = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_checkpoint_writer *writer = begin();
    write_share(0, 1, 0, 0, &record);
    forge(&record, "model.000000", "model.000001");
    add(writer, &record);
    assert_int_equal(PEN_IO, pen_checkpoint_finish(writer, 0, &why));
    writer = begin();
    write_share(0, 1, 0, 0, &record);
    forge(&record, "\"bytes\":", "\"bytes\":9");
    add(writer, &record);
    expect_refusal(writer, "bytes, must have 9");
    pen_text_release(&why);
}

static void a_record_is_of_this_step_and_comes_once(void **state)
{
    (void)state;
    struct pen_text record = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_checkpoint_writer *writer = begin();
    write_share(0, 1, 0, 0, &record);
    assert_int_equal(PEN_OK, pen_checkpoint_add_record(writer, record.bytes,
                                                       record.length, &why));
    assert_int_equal(
        PEN_INVALID,
        pen_checkpoint_add_record(writer, record.bytes, record.length, &why));
    assert_string_equal("share 0 was sent twice", pen_text_string(&why));
    pen_text_clear(&why);
    forge(&record, "\"step\":7", "\"step\":8");
    assert_int_equal(
        PEN_INVALID,
        pen_checkpoint_add_record(writer, record.bytes, record.length, &why));
    assert_string_equal("share 0 is of step 8, not 7", pen_text_string(&why));
    pen_checkpoint_abandon(writer);
    pen_text_release(&record);
    pen_text_release(&why);
}

static void nothing_is_left_of_an_abandoned_share(void **state)
{
    (void)state;
    struct portion portion;
    struct pen_checkpoint_share *share = NULL;
    struct pen_checkpoint_writer *writer = begin();
    char command[sizeof run + 60];
    take_portion(&portion, 0, 1, 0);
    struct pen_checkpoint_share_args args = args_of(&portion, 0, 100);
    assert_int_equal(PEN_OK, pen_checkpoint_share_create(&args, &share, NULL));
    assert_int_equal(
        PEN_OK, pen_checkpoint_share_put(share, PEN_CHECKPOINT_WEIGHT, 0,
                                         bytes_of(&portion, 0, 0), 80, NULL));
    pen_checkpoint_share_abandon(share);
    snprintf(command, sizeof command,
             "test \"$(ls %s/.tmp-step-00000007)\" = config.json", run);
    assert_int_equal(0, system(command));
    pen_checkpoint_abandon(writer);
}

static void without_a_leader_there_is_no_share(void **state)
{
    (void)state;
    struct portion portion;
    struct pen_text record = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    take_portion(&portion, 0, 1, 0);
    struct pen_checkpoint_share_args args = args_of(&portion, 0, 0);
    const struct pen_checkpoint_source source = {bytes_of, NULL, &portion};
    assert_int_equal(PEN_IO,
                     pen_checkpoint_share_write(&args, &source, &record, &why));
    assert_non_null(strstr(pen_text_string(&why), "No such file"));
    assert_int_equal(0, record.length);
    pen_text_release(&why);
}

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

/* A record in which one part is replaced. */
static void expect_record(const char *from, const char *to, const char *reason)
{
    static const char good[] =
        "{\"format\":\"penstock-share\",\"version\":1,\"step\":3,\"share\":2,"
        "\"files\":[{\"kind\":\"model\",\"name\":\"model.000002.safetensors\","
        "\"bytes\":96,\"sha256\":\"" ZEROS "\",\"tensor_bytes\":16,"
        "\"tensors\":[\"a\",\"b\"]}]}";
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_record record;
    const char *at = strstr(good, from);
    assert_non_null(at);
    pen_text_add_bytes(&text, good, (size_t)(at - good));
    pen_text_add_string(&text, to);
    pen_text_add_string(&text, at + strlen(from));
    pen_status status =
        pen_record_parse(text.bytes, text.length, &record, &why);
    if (strstr(pen_text_string(&why), reason) == NULL)
        fail_msg("expected %s, found %s", reason, pen_text_string(&why));
    assert_int_equal(reason[0] == '\0' ? PEN_OK : PEN_INVALID, status);
    if (status == PEN_OK) {
        struct pen_text again = PEN_TEXT_EMPTY;
        assert_int_equal(PEN_OK, pen_record_print(&record, &again, NULL));
        assert_string_equal(text.bytes, again.bytes);
        pen_text_release(&again);
        pen_record_release(&record);
    }
    pen_text_release(&text);
    pen_text_release(&why);
}

static void everything_in_a_record_has_bounds(void **state)
{
    (void)state;
    static const char kind[] =
        "files[0].kind must be model, optimizer or sync, and "
        "files[0].name must begin with it";
    expect_record("3", "3", "");
    expect_record("penstock-share", "penstock-run", "format must be");
    expect_record("\"version\":1", "\"version\":2", "version must be 1");
    expect_record("\"step\":3", "\"step\":-1",
                  "step must be an integer from 0 to 999999999999");
    expect_record("\"share\":2", "\"share\":1000000",
                  "share must be an integer from 0 to 999999");
    expect_record("\"model\"", "\"modem\"", kind);
    expect_record("\"model\"", "\"optimizer\"", kind);
    expect_record("model.0", "../model.0", kind);
    expect_record("model.0", "model-0", kind);
    expect_record("model.0", "model./0", kind);
    expect_record("\"bytes\":96", "\"bytes\":140737488355329",
                  "files[0].bytes must be an integer from 0 to "
                  "140737488355328");
    expect_record("bytes\":16", "bytes\":97",
                  "files[0].tensor_bytes must be an integer from 0 to 96");
    expect_record(ZEROS, "0", "files[0].sha256 must be 64 hexadecimal digits");
    expect_record("[\"a\",\"b\"]", "[]",
                  "files[0].tensors must be a list of names");
    expect_record("\"b\"", "7", "files[0].tensors must be a list of names");
    expect_record("\"b\"", "\"\"", "files[0].tensors must be a list of names");
    expect_record("[{", "{", "line 1");
    expect_record("\"share\"", "\"shard\"", "shard is not a key");
}

#define TEST(name) cmocka_unit_test_teardown(name, empty_run)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_hash_does_not_depend_on_who_wrote_what),
        TEST(files_have_the_names_that_transformers_expects),
        TEST(processes_write_at_the_same_time),
        TEST(versions_are_kept_and_hashed),
        TEST(a_tensor_that_nobody_wrote_is_missed),
        TEST(a_tensor_that_two_wrote_is_refused),
        TEST(a_tensor_that_nobody_wants_is_refused),
        TEST(a_version_needs_the_newer_ones),
        TEST(a_file_that_is_not_there_is_missed),
        TEST(a_record_is_of_this_step_and_comes_once),
        TEST(nothing_is_left_of_an_abandoned_share),
        TEST(without_a_leader_there_is_no_share),
        TEST(everything_in_a_record_has_bounds)};
    return cmocka_run_group_tests(tests, make_run, remove_run);
}
