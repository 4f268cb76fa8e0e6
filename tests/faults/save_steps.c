/*
 * A training without the training, for tests that let its disk fail: takes
 * steps, writes each behind the next one, says which could not be saved and
 * goes on. Fails if the last one could not.
 *
 *   save_steps RUN STEPS
 */
#include "base/log.h"
#include "checkpoint/saver.h"
#include "checkpoint/snapshot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG                                                                 \
    "{\"model_type\":\"penstock_mlp\",\"num_channels\":1,\"image_size\":2,"    \
    "\"hidden_sizes\":[3],\"num_labels\":2}"

enum { MOMENTS = 2, KEEP = 2, MOST_TENSORS = 8 };

struct training {
    const char *run;
    struct pen_any_model model;
    struct pen_any_tensor infos[MOST_TENSORS];
    struct pen_checkpoint_tensor tensors[MOST_TENSORS];
    struct pen_snapshot *snapshot;
    struct pen_saver *saver;
    uint64_t saving; /* the step that is being written */
    bool has_failed; /* the last one that was */
};

static pen_status create(struct training *training, struct pen_text *why)
{
    pen_status status = pen_image_model_parse(CONFIG, strlen(CONFIG),
                                              &training->model.images, why);
    if (status != PEN_OK)
        return status;
    uint32_t count = pen_any_model_num_tensors(&training->model);
    for (uint32_t i = 0; i < count; i++) {
        struct pen_any_tensor *info = &training->infos[i];
        pen_any_model_tensor(&training->model, i, info);
        training->tensors[i] = (struct pen_checkpoint_tensor){
            {info->name, info->dtype, info->num_dims, info->shape}, true, 0};
    }
    const struct pen_snapshot_contents contents = {
        .tensors = training->tensors, .count = count, .num_moments = MOMENTS};
    status = pen_snapshot_create(&contents, &training->snapshot, why);
    return status == PEN_OK ? pen_saver_create(&training->saver, why) : status;
}

static pen_status write_step(void *context, struct pen_text *why)
{
    struct training *training = context;
    struct pen_checkpoint_writer *writer = NULL;
    struct pen_checkpoint_keep keep = {.count = KEEP};
    struct pen_text record = PEN_TEXT_EMPTY;
    pen_status status =
        pen_checkpoint_begin_for(&training->model, training->run,
                                 training->saving, MOMENTS, &writer, why);
    if (status != PEN_OK)
        return status;
    status = pen_snapshot_write(training->snapshot, training->run,
                                training->saving, 0, 0, &record, why);
    if (status == PEN_OK)
        status =
            pen_checkpoint_add_record(writer, record.bytes, record.length, why);
    pen_text_release(&record);
    if (status == PEN_OK)
        status = pen_checkpoint_finish(writer, &keep, why);
    else
        pen_checkpoint_abandon(writer);
    pen_checkpoint_keep_release(&keep);
    return status;
}

static void take_step(struct training *training)
{
    for (uint32_t i = 0; i < pen_any_model_num_tensors(&training->model); i++) {
        for (uint32_t part = 0; part <= MOMENTS; part++) {
            float *values = pen_snapshot_part(training->snapshot, part, i);
            for (uint64_t j = 0; j < training->infos[i].num_elements; j++)
                values[j] = (float)(training->saving * 1000 + 100 * part + j);
        }
    }
}

static void wait(struct training *training)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    training->has_failed =
        pen_saver_wait(training->saver, &why) == PEN_SAVER_FAILED;
    if (training->has_failed)
        pen_log(PEN_LOG_WARN, "step %" PRIu64 " is not saved: %s",
                training->saving, pen_text_string(&why));
    pen_text_release(&why);
}

int main(int argc, char **argv)
{
    struct training training = {.run = argc == 3 ? argv[1] : NULL};
    struct pen_text why = PEN_TEXT_EMPTY;
    const struct pen_saver_job job = {write_step, &training};
    if (argc != 3)
        return 2;
    if (create(&training, &why) != PEN_OK) {
        pen_log(PEN_LOG_ERROR, "%s", pen_text_string(&why));
        return 1;
    }
    for (uint64_t step = 1; step <= strtoull(argv[2], NULL, 10); step++) {
        wait(&training);
        training.saving = step;
        take_step(&training);
        pen_saver_start(training.saver, &job);
    }
    wait(&training);
    pen_saver_free(training.saver);
    pen_snapshot_free(training.snapshot);
    pen_any_model_release(&training.model);
    return training.has_failed;
}
