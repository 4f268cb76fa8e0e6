#include "runtime/checkpointer.h"

#include "base/bug.h"
#include "base/log.h"
#include "checkpoint/saver.h"
#include "runtime/agree.h"
#include "runtime/checkpoint_contents.h"
#include "runtime/replicas_checkpoint.h"
#include "runtime/trainer_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct pen_checkpointer {
    struct pen_checkpointer_options options;
    struct pen_transport *transport;
    bool is_leader;
    struct pen__contents contents;
    uint32_t epoch;                /* of the layout that they belong to */
    struct pen_snapshot *snapshot; /* NULL in the foreground */
    struct pen_saver *saver;       /* likewise */

    /* The step that is being written. */
    bool is_busy;
    bool has_begun; /* the leader could make its directory */
    bool is_over;   /* this rank's share */
    pen_status status;
    uint64_t step;
    struct pen_text record;
    struct pen_text why;
    struct pen_checkpoint_writer *writer; /* of the leader */

    /* The step before that one, on the leader. */
    bool is_committing;
    pen_status last;
    struct pen_text last_why;
    uint64_t durable_step; /* 0: none */
};

void pen_checkpointer_unload(struct pen_checkpointer *checkpointer)
{
    pen_snapshot_free(checkpointer->snapshot);
    checkpointer->snapshot = NULL;
    pen__contents_release(&checkpointer->contents);
    checkpointer->contents = (struct pen__contents){0};
}

pen_status pen_checkpointer_reload(struct pen_checkpointer *checkpointer,
                                   struct pen_text *why)
{
    struct pen_trainer *trainer = checkpointer->options.trainer;
    struct pen__contents *contents = &checkpointer->contents;
    pen_status status =
        pen__contents_init(contents, trainer, checkpointer->is_leader, why);
    checkpointer->epoch = trainer->layout.mesh.epoch;
    if (status != PEN_OK || !checkpointer->options.is_in_background ||
        pen__contents_is_empty(contents))
        return status;
    const struct pen_snapshot_contents list = pen__contents_list(contents);
    return pen_snapshot_create(&list, &checkpointer->snapshot, why);
}

pen_status
pen_checkpointer_create(const struct pen_checkpointer_options *options,
                        struct pen_checkpointer **out, struct pen_text *why)
{
    const struct pen_trainer *trainer = options->trainer;
    struct pen_checkpointer *checkpointer = calloc(1, sizeof *checkpointer);
    if (checkpointer == NULL)
        return PEN_NOMEM;
    checkpointer->options = *options;
    bool has_own = pen_trainer_replicas(trainer) != NULL;
    checkpointer->transport =
        has_own ? trainer->options.world : trainer->options.transport;
    checkpointer->is_leader = pen_transport_rank(checkpointer->transport) == 0;
    pen_status status = pen_checkpointer_reload(checkpointer, why);
    if (status == PEN_OK && options->is_in_background)
        status = pen_saver_create(&checkpointer->saver, why);
    if (status == PEN_OK)
        *out = checkpointer;
    else
        pen_checkpointer_free(checkpointer);
    return status;
}

void pen_checkpointer_free(struct pen_checkpointer *checkpointer)
{
    if (checkpointer == NULL)
        return;
    pen_saver_free(checkpointer->saver);
    if (checkpointer->writer != NULL)
        pen_checkpoint_abandon(checkpointer->writer);
    pen_checkpointer_unload(checkpointer);
    pen_text_release(&checkpointer->record);
    pen_text_release(&checkpointer->why);
    pen_text_release(&checkpointer->last_why);
    pen_checkpoint_keep_release(&checkpointer->options.keep);
    free(checkpointer);
}

size_t pen_checkpointer_bytes(const struct pen_checkpointer *checkpointer)
{
    return checkpointer->snapshot == NULL
               ? 0
               : pen_snapshot_bytes(checkpointer->snapshot);
}

size_t
pen_checkpointer_passing_bytes(const struct pen_checkpointer *checkpointer)
{
    size_t plain_bytes = checkpointer->contents.plain_bytes;
    return plain_bytes > PEN_CHECKPOINT_BLOCK_BYTES
               ? plain_bytes
               : PEN_CHECKPOINT_BLOCK_BYTES;
}

/* ---- writing a share ---- */

static pen_status write_now(struct pen_checkpointer *checkpointer,
                            struct pen_text *why)
{
    const struct pen_checkpoint_share_args args = {
        .run = checkpointer->options.run,
        .step = checkpointer->step,
        .number = pen_transport_rank(checkpointer->transport),
        .max_shard_bytes = checkpointer->options.max_shard_bytes};
    return pen__contents_write(&checkpointer->contents, args,
                               &checkpointer->record, why);
}

/* Writes the snapshot; runs in the thread. */
static pen_status write_snapshot(void *context, struct pen_text *why)
{
    struct pen_checkpointer *checkpointer = context;
    return pen_snapshot_write(
        checkpointer->snapshot, checkpointer->options.run, checkpointer->step,
        pen_transport_rank(checkpointer->transport),
        checkpointer->options.max_shard_bytes, &checkpointer->record, why);
}

static pen_status begin_step(struct pen_checkpointer *checkpointer)
{
    const struct pen_trainer *trainer = checkpointer->options.trainer;
    struct pen_text *why = &checkpointer->why;
    pen_status status = pen_checkpoint_begin_for(
        trainer->options.model, checkpointer->options.run, checkpointer->step,
        checkpointer->contents.num_moments, &checkpointer->writer, why);
    if (status != PEN_OK)
        return status;
    pen_checkpoint_expect(checkpointer->writer, trainer->options.model,
                          pen_optimizer_name(&trainer->options.optimizer));
    struct pen_manifest *manifest =
        pen_checkpoint_manifest(checkpointer->writer);
    status = pen__contents_describe(
        &checkpointer->contents, manifest, checkpointer->options.run_id,
        checkpointer->options.describe, checkpointer->options.context, why);
    if (status == PEN_OK && checkpointer->options.tokenizer_folder != NULL)
        status = pen_checkpoint_copy_tokenizer(
            checkpointer->writer, checkpointer->options.tokenizer_folder, why);
    return status;
}

/* A share of an older layout has other tensors than those that are missing. */
static pen_status check_epochs(struct pen_checkpointer *checkpointer,
                               uint32_t epoch)
{
    const struct pen_mesh *mesh = &checkpointer->options.trainer->layout.mesh;
    struct pen_text *why = &checkpointer->why;
    pen_status status = pen_mesh_check_epoch(mesh, 0, epoch, why);
    if (status == PEN_OK)
        status = pen_mesh_check_epoch(
            mesh, pen_transport_rank(checkpointer->transport),
            checkpointer->epoch, why);
    return status;
}

/*
 * All ranks learn whether there is a directory to write to, of which step:
 * replicas that do not wait for each other may stop at different ones, and in
 * which epoch of the layout the leader is.
 */
static pen_status begin_all(struct pen_checkpointer *checkpointer)
{
    struct {
        uint64_t step;
        uint32_t has_begun;
        uint32_t epoch;
    } told = {checkpointer->step, 0, checkpointer->epoch};
    if (checkpointer->is_leader) {
        checkpointer->status = begin_step(checkpointer);
        told.has_begun = checkpointer->status == PEN_OK;
    }
    pen_status status =
        pen_transport_share(checkpointer->transport, &told, sizeof told);
    checkpointer->has_begun = status == PEN_OK && told.has_begun != 0;
    checkpointer->step = told.step;
    if (checkpointer->has_begun)
        checkpointer->status = check_epochs(checkpointer, told.epoch);
    return status;
}

static void start_writing(struct pen_checkpointer *checkpointer)
{
    struct pen_saver_job job = {write_snapshot, checkpointer};
    struct pen_text *why = &checkpointer->why;
    checkpointer->status = pen__contents_serve(&checkpointer->contents);
    if (checkpointer->status != PEN_OK ||
        pen__contents_is_empty(&checkpointer->contents)) {
        checkpointer->is_over = true;
    } else if (checkpointer->snapshot == NULL) {
        checkpointer->status = write_now(checkpointer, why);
        checkpointer->is_over = true;
    } else {
        checkpointer->status =
            pen__contents_copy(&checkpointer->contents, checkpointer->snapshot);
        checkpointer->is_over = checkpointer->status != PEN_OK;
        if (checkpointer->status == PEN_OK)
            pen_saver_start(checkpointer->saver, &job);
    }
}

/*
 * Before ranks wait for each other here: early ranks serve the others until
 * they come.
 */
static pen_status await_replicas(struct pen_checkpointer *checkpointer)
{
    if (checkpointer->contents.replicas == NULL)
        return PEN_OK;
    return pen_replicas_settle(
        pen_trainer_replicas(checkpointer->options.trainer));
}

/* Replicas show their one model meanwhile. */
static pen_status start_sharing(struct pen_checkpointer *checkpointer)
{
    pen_status status = PEN_OK;
    if (checkpointer->contents.replicas != NULL)
        status = pen_replicas_saver_begin(checkpointer->contents.replicas);
    if (status != PEN_OK)
        return status;
    start_writing(checkpointer);
    if (checkpointer->contents.replicas != NULL)
        status = pen_replicas_saver_end(checkpointer->contents.replicas);
    return status;
}

pen_status pen_checkpointer_begin(struct pen_checkpointer *checkpointer)
{
    struct pen_text unused = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    if (checkpointer->is_committing) /* slower than the steps between two */
        status = pen_checkpointer_settle(checkpointer, &unused);
    pen_text_release(&unused);
    if (status == PEN_LOST)
        return status;
    PEN_BUG_UNLESS(!checkpointer->is_busy);
    checkpointer->is_busy = true;
    checkpointer->is_over = false;
    checkpointer->status = PEN_OK;
    checkpointer->step =
        pen_trainer_progress(checkpointer->options.trainer).steps;
    pen_text_release(&checkpointer->record);
    pen_text_release(&checkpointer->why);
    status = await_replicas(checkpointer);
    if (status == PEN_OK)
        status = begin_all(checkpointer);
    if (checkpointer->has_begun && checkpointer->status == PEN_OK)
        status = start_sharing(checkpointer);
    else
        checkpointer->is_over = true;
    return status;
}

bool pen_checkpointer_is_writing(const struct pen_checkpointer *checkpointer)
{
    return checkpointer->is_leader ||
           !pen__contents_is_empty(&checkpointer->contents);
}

uint64_t pen_checkpointer_step(const struct pen_checkpointer *checkpointer)
{
    return checkpointer->step;
}

bool pen_checkpointer_is_busy(const struct pen_checkpointer *checkpointer)
{
    return checkpointer->is_busy;
}

static void hear_thread(struct pen_checkpointer *checkpointer,
                        enum pen_saver_state state)
{
    checkpointer->is_over = true;
    if (state == PEN_SAVER_FAILED)
        checkpointer->status = PEN_IO;
}

bool pen_checkpointer_is_over(struct pen_checkpointer *checkpointer)
{
    if (checkpointer->is_over)
        return true;
    enum pen_saver_state state =
        pen_saver_poll(checkpointer->saver, &checkpointer->why);
    if (state != PEN_SAVER_RUNNING)
        hear_thread(checkpointer, state);
    return checkpointer->is_over;
}

/* ---- collecting ---- */

/*
 * The first message of a rank to the leader: the length of its record or
 * reason.
 */
struct answer {
    uint64_t length;
    uint8_t has_failed;
};

/* A reason that names a rank stays as it is. */
static void name_failure(const struct pen_checkpointer *checkpointer,
                         pen_status status, struct pen_text *why)
{
    if (status != PEN_OK)
        pen_agree_name(checkpointer->transport, status, "writing a checkpoint",
                       why);
}

static pen_status send_answer(struct pen_checkpointer *checkpointer)
{
    struct pen_request requests[2] = {{.is_active = false},
                                      {.is_active = false}};
    bool has_failed = checkpointer->status != PEN_OK;
    name_failure(checkpointer, checkpointer->status, &checkpointer->why);
    const struct pen_text *text =
        has_failed ? &checkpointer->why : &checkpointer->record;
    struct answer answer = {text->length, has_failed};
    struct pen_tag tag = {PEN_TAG_STATE, 1};
    pen_transport_send(checkpointer->transport, 0, tag, &answer, sizeof answer,
                       &requests[0]);
    if (text->length > 0)
        pen_transport_send(checkpointer->transport, 0, tag,
                           pen_text_string(text), text->length, &requests[1]);
    pen_status status =
        pen_transport_wait(checkpointer->transport, &requests[0]);
    return status == PEN_OK
               ? pen_transport_wait(checkpointer->transport, &requests[1])
               : status;
}

static pen_status take_text(struct pen_checkpointer *checkpointer,
                            const struct answer *answer, const char *text)
{
    struct pen_text *why = &checkpointer->why;
    if (!answer->has_failed)
        return answer->length == 0
                   ? PEN_OK
                   : pen_checkpoint_add_record(checkpointer->writer, text,
                                               answer->length, why);
    if (why->length == 0)
        pen_text_add_bytes(why, text, answer->length);
    return PEN_IO;
}

static pen_status take_answer(struct pen_checkpointer *checkpointer,
                              uint32_t rank)
{
    struct pen_request request = {.is_active = false};
    struct pen_tag tag = {PEN_TAG_STATE, 1};
    struct answer answer;
    pen_transport_receive(checkpointer->transport, rank, tag, &answer,
                          sizeof answer, &request);
    pen_status status = pen_transport_wait(checkpointer->transport, &request);
    if (status != PEN_OK)
        return status;
    char *text = malloc(answer.length + 1);
    if (text == NULL)
        pen_agree_alone(checkpointer->transport, PEN_NOMEM,
                        "collecting a checkpoint", NULL);
    if (answer.length > 0) {
        pen_transport_receive(checkpointer->transport, rank, tag, text,
                              answer.length, &request);
        status = pen_transport_wait(checkpointer->transport, &request);
    }
    if (status == PEN_OK)
        status = take_text(checkpointer, &answer, text);
    free(text);
    return status;
}

/* Commits the step; runs in the thread of the leader. */
static pen_status commit(void *context, struct pen_text *why)
{
    struct pen_checkpointer *checkpointer = context;
    struct pen_checkpoint_writer *writer = checkpointer->writer;
    checkpointer->writer = NULL;
    return pen_checkpoint_finish(writer, &checkpointer->options.keep, why);
}

static void tell_result(struct pen_checkpointer *checkpointer,
                        pen_status status, struct pen_text *why)
{
    name_failure(checkpointer, status, why);
    checkpointer->is_committing = false;
    checkpointer->last = status;
    pen_text_release(&checkpointer->last_why);
    checkpointer->last_why = *why;
    *why = (struct pen_text)PEN_TEXT_EMPTY;
    if (status == PEN_OK)
        checkpointer->durable_step = checkpointer->step;
    else
        pen_log(PEN_LOG_WARN,
                "could not write the checkpoint of step %" PRIu64 ": %s",
                checkpointer->step, pen_text_string(&checkpointer->last_why));
}

/* Fails only after a loss: settle() reports the fate of the checkpoint. */
static pen_status lead(struct pen_checkpointer *checkpointer)
{
    struct pen_saver_job job = {commit, checkpointer};
    uint32_t size = pen_transport_size(checkpointer->transport);
    pen_status status = checkpointer->status;
    if (status == PEN_OK && checkpointer->record.length > 0)
        status = pen_checkpoint_add_record(
            checkpointer->writer, pen_text_string(&checkpointer->record),
            checkpointer->record.length, &checkpointer->why);
    name_failure(checkpointer, status, &checkpointer->why);
    for (uint32_t rank = 1; rank < size && checkpointer->has_begun; rank++) {
        pen_status theirs = take_answer(checkpointer, rank);
        if (theirs == PEN_LOST)
            return theirs;
        status = status == PEN_OK ? theirs : status;
    }
    if (status == PEN_OK && checkpointer->saver != NULL) {
        checkpointer->is_committing = true;
        pen_saver_start(checkpointer->saver, &job);
        return PEN_OK;
    }
    if (status == PEN_OK)
        status = commit(checkpointer, &checkpointer->why);
    if (checkpointer->writer != NULL)
        pen_checkpoint_abandon(checkpointer->writer);
    checkpointer->writer = NULL;
    tell_result(checkpointer, status, &checkpointer->why);
    return PEN_OK;
}

pen_status pen_checkpointer_collect(struct pen_checkpointer *checkpointer)
{
    pen_status status = PEN_OK;
    PEN_BUG_UNLESS(checkpointer->is_busy && checkpointer->is_over);
    if (checkpointer->is_leader)
        status = lead(checkpointer);
    else if (checkpointer->has_begun)
        status = send_answer(checkpointer);
    checkpointer->is_busy = false;
    return status;
}

uint64_t pen_checkpointer_durable_step(struct pen_checkpointer *checkpointer)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    enum pen_saver_state state = PEN_SAVER_RUNNING;
    if (checkpointer->is_committing)
        state = pen_saver_poll(checkpointer->saver, &reason);
    if (state != PEN_SAVER_RUNNING)
        tell_result(checkpointer, state == PEN_SAVER_DONE ? PEN_OK : PEN_IO,
                    &reason);
    pen_text_release(&reason);
    return checkpointer->durable_step;
}

pen_status pen_checkpointer_settle(struct pen_checkpointer *checkpointer,
                                   struct pen_text *why)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    if (checkpointer->is_busy)
        status = await_replicas(checkpointer);
    if (checkpointer->is_busy && !pen_checkpointer_is_over(checkpointer))
        hear_thread(checkpointer,
                    pen_saver_wait(checkpointer->saver, &checkpointer->why));
    if (checkpointer->is_busy && status == PEN_OK)
        status = pen_checkpointer_collect(checkpointer);
    if (checkpointer->is_committing) {
        enum pen_saver_state state =
            pen_saver_wait(checkpointer->saver, &reason);
        tell_result(checkpointer, state == PEN_SAVER_DONE ? PEN_OK : PEN_IO,
                    &reason);
    }
    pen_text_release(&reason);
    if (status == PEN_LOST)
        return status;
    if (checkpointer->last != PEN_OK)
        pen_why(why, "%s", pen_text_string(&checkpointer->last_why));
    return checkpointer->last;
}
