/*
 * What replicas keep beside the model comes back as it was saved, counts in the
 * hash, and stays when a step is written with other shards; the manifest tells
 * how the replicas were kept together.
 */
#include "support/folder.h"
#include "support/support.h"

#include "checkpoint/record.h"
#include "checkpoint/rewrite.h"
#include "checkpoint/share.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONFIG                                                                 \
    "{\"model_type\":\"gpt2\",\"n_embd\":4,\"n_layer\":1,\"n_head\":2,"        \
    "\"n_positions\":3,\"vocab_size\":5}"

enum { MOST_TENSORS = 32, MOST_VALUES = 128, NUM_EXTRAS = 4 };

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
    char command[2 * sizeof run + 20];
    snprintf(command, sizeof command, "rm -rf %s %s2", run, run);
    return system(command);
}

/* ---- a step of two shares ---- */

static const uint64_t shape[] = {2, 3};
static const uint64_t three[] = {3};
static const uint64_t none[] = {0};

/* The first two are of share 0, the others of share 1. */
static const struct pen_tensor_spec extras[NUM_EXTRAS] = {
    {"z.replica0.weight", PEN_DTYPE_F32, 2, shape},
    {"sync.replica0.ratio", PEN_DTYPE_F64, 1, three},
    {"a.theta", PEN_DTYPE_F32, 1, three},
    {"b.theta", PEN_DTYPE_F32, 1, none}};

struct source {
    struct pen_any_tensor infos[MOST_TENSORS];
    struct pen_checkpoint_tensor tensors[MOST_TENSORS];
    size_t count;
    size_t first_extra;
    double more; /* is added to one extra */
    float values[MOST_VALUES];
    double numbers[3];
};

static const void *bytes_of(void *context, enum pen_checkpoint_part part,
                            size_t tensor)
{
    struct source *source = context;
    for (size_t i = 0; i < MOST_VALUES; i++)
        source->values[i] = (float)(100 * part + tensor) + 0.01f * (float)i;
    return source->values;
}

static double extra_number(size_t extra, size_t i, double more)
{
    return 1.0 + (double)extra + 0.125 * (double)i + (extra == 1 ? more : 0);
}

static const void *extra_of(void *context, size_t extra)
{
    struct source *source = context;
    extra += source->first_extra;
    for (size_t i = 0; i < 6; i++) {
        double number = extra_number(extra, i, source->more);
        source->values[i] = (float)number;
        if (i < 3)
            source->numbers[i] = number;
    }
    return extra == 1 ? (const void *)source->numbers
                      : (const void *)source->values;
}

/* Share 0 has the tensors of the model, too. */
static void take_portion(struct source *source, uint32_t share)
{
    uint32_t count = share == 0 ? pen_any_model_num_tensors(&model) : 0;
    source->first_extra = 2 * (size_t)share;
    for (uint32_t i = 0; i < count; i++) {
        struct pen_any_tensor *info = &source->infos[i];
        pen_any_model_tensor(&model, i, info);
        assert_true(info->num_elements <= MOST_VALUES && i < MOST_TENSORS);
        source->tensors[i] = (struct pen_checkpoint_tensor){
            {info->name, info->dtype, info->num_dims, info->shape},
            false,
            i == 0};
    }
    source->count = count;
}

static void write_share(uint32_t share, double more, uint64_t max_bytes,
                        struct pen_text *record)
{
    struct source portion = {.more = more};
    struct pen_text why = PEN_TEXT_EMPTY;
    take_portion(&portion, share);
    const struct pen_checkpoint_share_args args = {.run = run,
                                                   .step = 7,
                                                   .number = share,
                                                   .tensors = portion.tensors,
                                                   .count = portion.count,
                                                   .extras = extras + 2 * share,
                                                   .num_extras = 2,
                                                   .max_shard_bytes =
                                                       max_bytes};
    const struct pen_checkpoint_source source = {bytes_of, extra_of, &portion};
    if (pen_checkpoint_share_write(&args, &source, record, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
}

static struct pen_checkpoint_writer *begin(void)
{
    struct pen_checkpoint_writer *writer = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_checkpoint_begin_for(&model, run, 7, 0, &writer, &why) != PEN_OK)
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

static void set_sync(struct pen_manifest *manifest, uint32_t interval,
                     double rate)
{
    const struct pen_manifest_sync sync = {"diloco", interval, 4, "powersgd"};
    assert_int_equal(PEN_OK, pen_manifest_set_sync(manifest, &sync, NULL));
    assert_int_equal(PEN_OK, pen_manifest_set_sync_option(manifest, false, "lr",
                                                          rate, NULL));
    assert_int_equal(
        PEN_OK, pen_manifest_set_sync_option(manifest, true, "rank", 4, NULL));
}

static void save(double more, uint64_t max_bytes)
{
    struct pen_text record = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_checkpoint_writer *writer = begin();
    set_sync(pen_checkpoint_manifest(writer), 500, 0.7);
    for (uint32_t i = 0; i < 2; i++) {
        write_share(i, more, max_bytes, &record);
        add(writer, &record);
    }
    if (pen_checkpoint_finish(writer, 0, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
}

static struct pen_checkpoint *open_run(const char *path)
{
    struct pen_checkpoint *checkpoint = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_checkpoint_open(path, NULL, &checkpoint, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    return checkpoint;
}

static void expect_extras(const struct pen_checkpoint *checkpoint, double more)
{
    for (size_t i = 0; i < NUM_EXTRAS; i++) {
        const struct pen_tensor_spec *spec = &extras[i];
        const struct pen_safetensor *found = NULL;
        struct pen_text why = PEN_TEXT_EMPTY;
        if (pen_checkpoint_find_extra(checkpoint, spec->name, &found, &why) !=
            PEN_OK)
            fail_msg("%s", pen_text_string(&why));
        assert_int_equal(spec->dtype, found->dtype);
        assert_int_equal(spec->num_dims, found->num_dims);
        assert_memory_equal(spec->shape, found->shape,
                            spec->num_dims * sizeof *spec->shape);
        bool is_wide = spec->dtype == PEN_DTYPE_F64;
        for (size_t k = 0; k < found->num_bytes / (is_wide ? 8 : 4); k++) {
            double wide = extra_number(i, k, more);
            float narrow = (float)wide;
            assert_memory_equal(
                is_wide ? (const void *)&wide : (const void *)&narrow,
                found->bytes + k * (is_wide ? 8 : 4), is_wide ? 8 : 4);
        }
    }
}

static void hash_of(const char *path, char out[PEN_HASH_SIZE])
{
    struct pen_checkpoint *checkpoint = open_run(path);
    assert_int_equal(PEN_OK,
                     pen_checkpoint_hash(checkpoint, &model, NULL, out, NULL));
    pen_checkpoint_close(checkpoint);
}

/* ---- claims ---- */

static void extras_come_back(void **state)
{
    (void)state;
    static const uint64_t limits[] = {0, 20};
    for (size_t i = 0; i < 2; i++) {
        const struct pen_safetensor *found = NULL;
        struct pen_text why = PEN_TEXT_EMPTY;
        save(0, limits[i]);
        struct pen_checkpoint *checkpoint = open_run(run);
        expect_extras(checkpoint, 0);
        assert_int_equal(1, pen_checkpoint_num_versions(checkpoint, &model, 0));
        assert_int_equal(PEN_INVALID, pen_checkpoint_find_extra(
                                          checkpoint, "c.theta", &found, &why));
        assert_non_null(strstr(pen_text_string(&why),
                               "/step-00000007 has no tensor c.theta"));
        pen_checkpoint_close(checkpoint);
        pen_text_release(&why);
    }
}

static void the_hash_has_every_number_of_every_extra(void **state)
{
    (void)state;
    char first[PEN_HASH_SIZE];
    char other[PEN_HASH_SIZE];
    save(0, 0);
    hash_of(run, first);
    save(0, 20); /* other files */
    hash_of(run, other);
    assert_string_equal(first, other);
    save(1e-15, 0); /* less than a float would tell */
    hash_of(run, other);
    assert_string_not_equal(first, other);
}

static void other_shards_keep_extras(void **state)
{
    (void)state;
    char first[PEN_HASH_SIZE];
    char other[PEN_HASH_SIZE];
    char second[sizeof run + 1];
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_manifest_sync sync;
    snprintf(second, sizeof second, "%s2", run);
    save(0.5, 0);
    hash_of(run, first);
    struct pen_checkpoint *checkpoint = open_run(run);
    if (pen_checkpoint_reshard(checkpoint, &model, second, 30, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_checkpoint_close(checkpoint);
    checkpoint = open_run(second);
    expect_extras(checkpoint, 0.5);
    assert_true(pen_manifest_get_sync(&checkpoint->manifest, &sync));
    assert_string_equal("diloco", sync.method);
    pen_checkpoint_close(checkpoint);
    hash_of(second, other);
    assert_string_equal(first, other);
}

static void an_export_has_no_extras(void **state)
{
    (void)state;
    char second[sizeof run + 1];
    char file[sizeof second + 20];
    snprintf(second, sizeof second, "%s2", run);
    snprintf(file, sizeof file, "%s/sync.safetensors", second);
    save(0, 0);
    struct pen_checkpoint *checkpoint = open_run(run);
    assert_int_equal(PEN_OK, pen_checkpoint_export(checkpoint, &model, second,
                                                   PEN_DTYPE_F32, 0, NULL));
    pen_checkpoint_close(checkpoint);
    assert_int_not_equal(0, access(file, F_OK));
}

/* ---- who may bring what ---- */

static void expect_refusal(struct pen_checkpoint_writer *writer,
                           const char *reason)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID, pen_checkpoint_finish(writer, 0, &why));
    if (strstr(pen_text_string(&why), reason) == NULL)
        fail_msg("expected %s, found %s", reason, pen_text_string(&why));
    pen_text_release(&why);
}

static void forge(struct pen_text *record, const char *from, const char *to)
{
    char *at = strstr(record->bytes, from);
    assert_non_null(at);
    memcpy(at, to, strlen(to));
}

static void an_extra_is_in_one_share(void **state)
{
    (void)state;
    struct pen_text record = PEN_TEXT_EMPTY;
    struct pen_checkpoint_writer *writer = begin();
    write_share(0, 0, 0, &record);
    add(writer, &record);
    write_share(1, 0, 0, &record);
    forge(&record, "a.theta\",\"b", "a.theta\",\"a");
    add(writer, &record);
    expect_refusal(writer, "two shares have the tensor a.theta");
}

static void versions_and_extras_are_told_apart(void **state)
{
    (void)state;
    struct pen_text record = PEN_TEXT_EMPTY;
    struct pen_checkpoint_writer *writer = begin();
    write_share(0, 0, 0, &record);
    forge(&record, "\"z.replica0.weight", "\"z.repl.version099");
    add(writer, &record);
    expect_refusal(writer, "the extra tensor z.repl.version099 of a share has "
                           "the name of a version");
    writer = begin();
    write_share(0, 0, 0, &record);
    forge(&record, "\"extras\":2", "\"extras\":1");
    add(writer, &record);
    expect_refusal(writer, "of a tensor that it does not have");
}

static void a_record_has_as_many_extras_as_it_can(void **state)
{
    (void)state;
    struct pen_text record = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_checkpoint_writer *writer = begin();
    write_share(1, 0, 0, &record);
    forge(&record, "\"extras\":2", "\"extras\":3");
    assert_int_equal(
        PEN_INVALID,
        pen_checkpoint_add_record(writer, record.bytes, record.length, &why));
    assert_string_equal("files[0].extras must be an integer from 0 to 2",
                        pen_text_string(&why));
    pen_checkpoint_abandon(writer);
    pen_text_release(&record);
    pen_text_release(&why);
}

/* ---- the manifest ---- */

static void the_manifest_says_how_replicas_agree(void **state)
{
    (void)state;
    struct pen_manifest_sync sync;
    struct pen_manifest wanted;
    struct pen_text why = PEN_TEXT_EMPTY;
    save(0, 0);
    struct pen_checkpoint *checkpoint = open_run(run);
    assert_true(pen_manifest_get_sync(&checkpoint->manifest, &sync));
    assert_string_equal("diloco", sync.method);
    assert_string_equal("powersgd", sync.compressor);
    assert_int_equal(500, sync.interval);
    assert_int_equal(4, sync.num_replicas);

    assert_int_equal(PEN_OK, pen_manifest_init(&wanted, NULL));
    assert_false(pen_manifest_get_sync(&wanted, &sync));
    set_sync(&wanted, 500, 0.7);
    assert_int_equal(PEN_OK, pen_manifest_compare_sync(&checkpoint->manifest,
                                                       &wanted, &why));
    set_sync(&wanted, 25, 0.5);
    assert_int_equal(PEN_INVALID, pen_manifest_compare_sync(
                                      &checkpoint->manifest, &wanted, &why));
    assert_string_equal("sync.interval is 500 in the checkpoint and 25 here, "
                        "sync.options.lr is 0.69999999999999996 in the "
                        "checkpoint and 0.5 here",
                        pen_text_string(&why));
    pen_text_clear(&why);
    const struct pen_manifest_sync plain = {"diloco", 500, 4, NULL};
    assert_int_equal(PEN_OK, pen_manifest_set_sync(&wanted, &plain, NULL));
    pen_manifest_set_sync_option(&wanted, false, "lr", 0.7, NULL);
    assert_int_equal(PEN_INVALID, pen_manifest_compare_sync(
                                      &checkpoint->manifest, &wanted, &why));
    assert_string_equal("sync.compressor is \"powersgd\" in the checkpoint and "
                        "nothing here, sync.compressor_options.rank is 4.0 in "
                        "the checkpoint and nothing here",
                        pen_text_string(&why));
    pen_manifest_release(&wanted);
    pen_text_release(&why);
    pen_checkpoint_close(checkpoint);
}

#define TEST(name) cmocka_unit_test_teardown(name, empty_run)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(extras_come_back),
        TEST(the_hash_has_every_number_of_every_extra),
        TEST(other_shards_keep_extras),
        TEST(an_export_has_no_extras),
        TEST(an_extra_is_in_one_share),
        TEST(versions_and_extras_are_told_apart),
        TEST(a_record_has_as_many_extras_as_it_can),
        TEST(the_manifest_says_how_replicas_agree)};
    return cmocka_run_group_tests(tests, make_run, remove_run);
}
