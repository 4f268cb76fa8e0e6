/*
 * A checkpoint that is written behind the training has the state of the moment
 * at which it was asked for, and the training learns what became of it.
 */
#include "support/folder.h"
#include "support/support.h"

#include "checkpoint/saver.h"
#include "checkpoint/snapshot.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* A job that waits until it is let go. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool is_open;
    int num_runs;
    pen_status answer;
};

static pen_status run_gate(void *context, struct pen_text *why)
{
    struct gate *gate = context;
    pthread_mutex_lock(&gate->lock);
    while (!gate->is_open)
        pthread_cond_wait(&gate->opened, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
    gate->num_runs++;
    if (gate->answer != PEN_OK)
        pen_why(why, "disk %d is full", gate->num_runs);
    return gate->answer;
}

static void open_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->is_open = true;
    pthread_cond_broadcast(&gate->opened);
    pthread_mutex_unlock(&gate->lock);
}

#define GATE                                                                   \
    {                                                                          \
        .lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER  \
    }

static struct pen_saver *create(void)
{
    struct pen_saver *saver = NULL;
    assert_int_equal(PEN_OK, pen_saver_create(&saver, NULL));
    assert_int_equal(PEN_SAVER_IDLE, pen_saver_poll(saver, NULL));
    return saver;
}

static void polling_does_not_wait(void **state)
{
    (void)state;
    struct gate gate = GATE;
    struct pen_saver *saver = create();
    pen_saver_start(saver, &(struct pen_saver_job){run_gate, &gate});
    assert_int_equal(PEN_SAVER_RUNNING, pen_saver_poll(saver, NULL));
    open_gate(&gate);
    assert_int_equal(PEN_SAVER_DONE, pen_saver_wait(saver, NULL));
    assert_int_equal(PEN_SAVER_IDLE, pen_saver_poll(saver, NULL));
    assert_int_equal(PEN_SAVER_IDLE, pen_saver_wait(saver, NULL));
    assert_int_equal(1, gate.num_runs);
    pen_saver_free(saver);
}

static void a_failure_is_told_once_with_its_reason(void **state)
{
    (void)state;
    struct gate gate = GATE;
    struct pen_saver *saver = create();
    gate.answer = PEN_IO;
    gate.is_open = true;
    for (int i = 1; i <= 3; i++) {
        struct pen_text why = PEN_TEXT_EMPTY;
        char expected[40];
        enum pen_saver_state found = PEN_SAVER_RUNNING;
        snprintf(expected, sizeof expected, "disk %d is full", i);
        pen_saver_start(saver, &(struct pen_saver_job){run_gate, &gate});
        while (found == PEN_SAVER_RUNNING)
            found = pen_saver_poll(saver, &why);
        assert_int_equal(PEN_SAVER_FAILED, found);
        assert_string_equal(expected, pen_text_string(&why));
        assert_int_equal(PEN_SAVER_IDLE, pen_saver_poll(saver, &why));
        assert_string_equal(expected, pen_text_string(&why));
        pen_text_release(&why);
    }
    gate.answer = PEN_OK;
    pen_saver_start(saver, &(struct pen_saver_job){run_gate, &gate});
    assert_int_equal(PEN_SAVER_DONE, pen_saver_wait(saver, NULL));
    pen_saver_free(saver);
}

static void freeing_waits_for_the_job(void **state)
{
    (void)state;
    struct gate gate = GATE;
    struct pen_saver *saver = create();
    gate.is_open = true;
    gate.answer = PEN_IO;
    pen_saver_start(saver, &(struct pen_saver_job){run_gate, &gate});
    pen_saver_free(saver);
    assert_int_equal(1, gate.num_runs);
    pen_saver_free(NULL);
}

/* ------------------------------------------------------------ snapshots */

static const uint64_t shape[] = {3, 50};
static const uint64_t scalar[] = {1};
static const struct pen_checkpoint_tensor tensors[] = {
    {{"b", PEN_DTYPE_F32, 2, shape}, true, 2},
    {{"a", PEN_DTYPE_F32, 2, shape}, true, 0},
    {{"n", PEN_DTYPE_I64, 0, scalar}, false, 0},
    {{"c", PEN_DTYPE_F32, 1, shape}, false, 1}};

enum { NUM_TENSORS = sizeof tensors / sizeof *tensors, MOMENTS = 2 };

static const struct pen_tensor_spec extras[] = {
    {"c.replica1.weight", PEN_DTYPE_F32, 1, shape},
    {"sync.replica1.pi", PEN_DTYPE_F64, 1, shape}};
static const size_t extra_bytes[] = {12, 24};

enum { NUM_EXTRAS = sizeof extras / sizeof *extras };

static const struct pen_snapshot_contents contents = {.tensors = tensors,
                                                      .count = NUM_TENSORS,
                                                      .num_moments = MOMENTS,
                                                      .extras = extras,
                                                      .num_extras = NUM_EXTRAS};

static size_t part_bytes(uint32_t part, size_t tensor)
{
    static const size_t elements[] = {150, 150, 1, 3};
    return elements[tensor] * (part == 0 && tensor == 2 ? 8 : 4);
}

static bool has_part(uint32_t part, size_t tensor)
{
    if (part >= PEN_CHECKPOINT_VERSION1)
        return part - PEN_CHECKPOINT_VERSION1 < tensors[tensor].num_versions;
    return part == 0 || tensors[tensor].has_moments;
}

/* Fills every part with its own number, plus `more`. */
static void fill(struct pen_snapshot *snapshot, int more)
{
    for (size_t i = 0; i < NUM_TENSORS; i++) {
        for (uint32_t part = 0; part < PEN_CHECKPOINT_VERSION1 + 2; part++) {
            if (has_part(part, i))
                memset(pen_snapshot_part(snapshot, part, i),
                       (int)(10 * i + part) + more, part_bytes(part, i));
        }
    }
    for (size_t i = 0; i < NUM_EXTRAS; i++)
        memset(pen_snapshot_extra(snapshot, i), 100 + (int)i + more,
               extra_bytes[i]);
}

struct save {
    struct pen_snapshot *snapshot;
    struct pen_checkpoint_writer *writer;
    char run[sizeof folder + 8];
};

static pen_status run_save(void *context, struct pen_text *why)
{
    struct save *save = context;
    struct pen_text record = PEN_TEXT_EMPTY;
    pen_status status =
        pen_snapshot_write(save->snapshot, save->run, 3, 0, 0, &record, why);
    if (status == PEN_OK)
        status = pen_checkpoint_add_record(save->writer, record.bytes,
                                           record.length, why);
    pen_text_release(&record);
    if (status == PEN_OK)
        return pen_checkpoint_finish(save->writer, 0, why);
    pen_checkpoint_abandon(save->writer);
    return status;
}

static void expect_files(const struct pen_weights *files, size_t count)
{
    static const char *const names[] = {"b", "a", "n", "c"};
    assert_int_equal(count, pen_weights_count(files));
    for (size_t i = 0; i < count; i++) {
        const struct pen_safetensor *it = pen_weights_at(files, i);
        size_t tensor = 0;
        unsigned number = 0;
        uint32_t part = 0;
        if (strstr(it->name, ".replica") != NULL)
            continue;
        while (names[tensor][0] != it->name[0])
            tensor++;
        if (sscanf(it->name + 1, ".moment%u", &number) == 1)
            part = number;
        else if (sscanf(it->name + 1, ".version%u", &number) == 1)
            part = PEN_CHECKPOINT_VERSION1 + number - 1;
        assert_int_equal(part_bytes(part, tensor), it->num_bytes);
        for (size_t j = 0; j < it->num_bytes; j++)
            assert_int_equal(10 * tensor + part, it->bytes[j]);
    }
}

static void expect_extras(const struct pen_checkpoint *checkpoint)
{
    for (size_t i = 0; i < NUM_EXTRAS; i++) {
        const struct pen_safetensor *it = NULL;
        assert_int_equal(PEN_OK, pen_checkpoint_find_extra(
                                     checkpoint, extras[i].name, &it, NULL));
        assert_int_equal(extras[i].dtype, it->dtype);
        assert_int_equal(extra_bytes[i], it->num_bytes);
        for (size_t j = 0; j < it->num_bytes; j++)
            assert_int_equal(100 + i, it->bytes[j]);
    }
}

static void a_snapshot_is_written_behind_the_training(void **state)
{
    (void)state;
    struct save save;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_checkpoint *checkpoint = NULL;
    struct pen_saver *saver = create();
    snprintf(save.run, sizeof save.run, "%s/run", folder);
    assert_int_equal(PEN_OK,
                     pen_snapshot_create(&contents, &save.snapshot, NULL));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(PEN_OK,
                         pen_checkpoint_begin(save.run, 3, tensors, NUM_TENSORS,
                                              MOMENTS, &save.writer, &why));
        fill(save.snapshot, 0);
        pen_saver_start(saver, &(struct pen_saver_job){run_save, &save});
        if (pen_saver_wait(saver, &why) != PEN_SAVER_DONE)
            fail_msg("%s", pen_text_string(&why));
        fill(save.snapshot, 1);
    }
    if (pen_checkpoint_open(save.run, NULL, &checkpoint, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    expect_files(checkpoint->model, NUM_TENSORS);
    expect_files(checkpoint->optimizer, 4);
    expect_files(checkpoint->sync, 3 + NUM_EXTRAS);
    expect_extras(checkpoint);
    pen_checkpoint_close(checkpoint);
    pen_snapshot_free(save.snapshot);
    pen_saver_free(saver);
}

/* Parts lie beside each other, as in files, behind the heads of these. */
static void a_snapshot_takes_what_it_says(void **state)
{
    (void)state;
    struct pen_snapshot *snapshot = NULL;
    size_t expected = 0;
    for (size_t i = 0; i < NUM_TENSORS; i++) {
        for (uint32_t part = 0; part < PEN_CHECKPOINT_VERSION1 + 2; part++)
            expected += has_part(part, i) ? part_bytes(part, i) : 0;
    }
    for (size_t i = 0; i < NUM_EXTRAS; i++)
        expected += extra_bytes[i];
    assert_int_equal(PEN_OK, pen_snapshot_create(&contents, &snapshot, NULL));
    size_t told = pen_snapshot_block_bytes(snapshot);
    assert_in_range(told, expected, expected + 8192);
    assert_in_range(pen_snapshot_bytes(snapshot), told, told + 8192);
    fill(snapshot, 0);
    for (size_t i = 0; i < NUM_TENSORS; i++) {
        for (uint32_t part = 0; part < PEN_CHECKPOINT_VERSION1 + 2; part++) {
            if (!has_part(part, i))
                continue;
            const unsigned char *at = pen_snapshot_part(snapshot, part, i);
            assert_int_equal(0, (uintptr_t)at % sizeof(float));
            for (size_t j = 0; j < part_bytes(part, i); j++)
                assert_int_equal(10 * i + part, at[j]);
        }
    }
    pen_snapshot_free(snapshot);
    pen_snapshot_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(polling_does_not_wait),
        cmocka_unit_test(a_failure_is_told_once_with_its_reason),
        cmocka_unit_test(freeing_waits_for_the_job),
        cmocka_unit_test(a_snapshot_is_written_behind_the_training),
        cmocka_unit_test(a_snapshot_takes_what_it_says)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
