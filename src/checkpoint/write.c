/*
 * Writing a checkpoint:
 *
 *   lock RUN; remove what an interrupted writer left     here
 *   mkdir RUN/.tmp-step-N
 *   write, hash and sync the tensors of each process     share.c
 *   make one set of their files, with indexes            collect.c
 *   write and sync MANIFEST.json                         commit.c
 *   rename .tmp-step-N to step-N; sync RUN
 *
 * Whatever ends the writer before the rename leaves the steps that were there
 * as they were, and a directory that no reader looks at.
 */
#include "checkpoint/internal.h"

#include "base/bug.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static pen_status refuse_memory(struct pen_text *why)
{
    pen_why(why, "no memory to write a checkpoint");
    return PEN_NOMEM;
}

void pen__checkpoint_deallocate(struct pen_checkpoint_writer *writer)
{
    if (writer->run_handle >= 0)
        close(writer->run_handle);
    pen_manifest_release(&writer->manifest);
    pen_text_release(&writer->run);
    pen_text_release(&writer->temporary);
    for (int i = 0; i < PEN_RECORD_SYNC; i++)
        json_decref(writer->missing[i]);
    for (size_t i = 0; i < writer->num_records; i++)
        pen_record_release(&writer->records[i]);
    free(writer->records);
    free(writer);
}

/* Makes and locks the directory of the run. */
static pen_status open_run(struct pen_checkpoint_writer *writer,
                           struct pen_text *why)
{
    const char *run = pen_text_string(&writer->run);
    pen_status status = pen__run_make(run, why);
    if (status != PEN_OK)
        return status;
    writer->run_handle = open(run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (writer->run_handle < 0)
        return pen_file_refuse("open", run, why);
    /*
     * Some network file systems cannot lock a directory; then no process does.
     */
    if (flock(writer->run_handle, LOCK_EX | LOCK_NB) != 0 &&
        errno == EWOULDBLOCK) {
        pen_why(why, "another process is writing a checkpoint to %s", run);
        return PEN_IO;
    }
    return PEN_OK;
}

static void note_run(struct pen_checkpoint_writer *writer, const char *run)
{
    if (writer->other_run[0] == '\0')
        memcpy(writer->other_run, run, sizeof writer->other_run);
    else if (run[0] != '\0' && strcmp(writer->other_run, run) != 0)
        writer->has_several_runs = true;
}

/*
 * Finds the hash of the newest manifest before this step: a reader of the last
 * manifest can check whether the ones before it are those it grew from. Which
 * run the steps are of is compared at the end, when that of this one is known.
 */
static pen_status find_previous(struct pen_checkpoint_writer *writer,
                                struct pen_text *why)
{
    struct pen_checkpoint_list list;
    pen_status status =
        pen_checkpoint_list_load(pen_text_string(&writer->run), &list, why);
    if (status != PEN_OK)
        return status;
    for (size_t i = 0; i < list.count; i++) {
        const struct pen_checkpoint_entry *entry = &list.entries[i];
        note_run(writer, entry->run);
        if (entry->is_whole && entry->step < writer->manifest.step)
            memcpy(writer->manifest.previous, entry->manifest_hash,
                   PEN_HASH_SIZE);
    }
    pen_checkpoint_list_release(&list);
    return PEN_OK;
}

static pen_status make_temporary(struct pen_checkpoint_writer *writer,
                                 struct pen_text *why)
{
    pen__temporary_path(pen_text_string(&writer->run), writer->manifest.step,
                        &writer->temporary);
    if (writer->temporary.has_failed)
        return refuse_memory(why);
    const char *path = pen_text_string(&writer->temporary);
    if (mkdir(path, 0700) != 0)
        return pen_file_refuse("make", path, why);
    return PEN_OK;
}

static pen_status expect_part(struct pen_checkpoint_writer *writer,
                              const char *tensor, enum pen_checkpoint_part part,
                              struct pen_text *why)
{
    struct pen_text name = PEN_TEXT_EMPTY;
    pen__part_name(tensor, part, &name);
    int failed =
        name.has_failed ||
        json_object_set_new(writer->missing[part == PEN_CHECKPOINT_WEIGHT
                                                ? PEN_RECORD_MODEL
                                                : PEN_RECORD_OPTIMIZER],
                            pen_text_string(&name), json_null()) != 0;
    pen_text_release(&name);
    return failed ? refuse_memory(why) : PEN_OK;
}

/* Lists all tensors that the shares have to bring. */
static pen_status expect_tensors(struct pen_checkpoint_writer *writer,
                                 const struct pen_checkpoint_tensor *tensors,
                                 size_t count, struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (int i = 0; i < PEN_RECORD_SYNC; i++)
        writer->missing[i] = json_object();
    for (size_t i = 0; i < count; i++) {
        uint32_t num_moments = pen_checkpoint_tensor_moments(
            tensors[i].has_moments, writer->manifest.num_moments);
        for (uint32_t part = 0; status == PEN_OK && part <= num_moments; part++)
            status = expect_part(writer, tensors[i].spec.name, part, why);
    }
    return status;
}

static pen_status prepare(struct pen_checkpoint_writer *writer, const char *run,
                          struct pen_text *why)
{
    pen_text_add_string(&writer->run, run);
    if (writer->run.has_failed)
        return refuse_memory(why);
    pen_status status = open_run(writer, why);
    if (status != PEN_OK)
        return status;
    pen__leftovers_remove(run);
    return find_previous(writer, why);
}

pen_status pen_checkpoint_begin(const char *run, uint64_t step,
                                const struct pen_checkpoint_tensor *tensors,
                                size_t count, uint32_t num_moments,
                                struct pen_checkpoint_writer **out,
                                struct pen_text *why)
{
    PEN_BUG_UNLESS(step <= PEN__MAX_STEP);
    PEN_BUG_UNLESS(num_moments <= PEN_MANIFEST_MAX_MOMENTS);
    struct pen_checkpoint_writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL)
        return refuse_memory(why);
    writer->run_handle = -1;
    pen_status status = pen_manifest_init(&writer->manifest, why);
    writer->manifest.step = step;
    writer->manifest.num_moments = num_moments;
    if (status == PEN_OK)
        status = expect_tensors(writer, tensors, count, why);
    if (status == PEN_OK)
        status = prepare(writer, run, why);
    if (status == PEN_OK)
        status = make_temporary(writer, why);
    if (status == PEN_OK)
        *out = writer;
    else
        pen__checkpoint_deallocate(writer);
    return status;
}

pen_status pen_checkpoint_create(const char *run, uint64_t step,
                                 const struct pen_checkpoint_tensor *tensors,
                                 size_t count, uint32_t num_moments,
                                 uint64_t max_shard_bytes,
                                 struct pen_checkpoint_writer **out,
                                 struct pen_text *why)
{
    const struct pen_checkpoint_share_args args = {.run = run,
                                                   .step = step,
                                                   .tensors = tensors,
                                                   .count = count,
                                                   .num_moments = num_moments,
                                                   .max_shard_bytes =
                                                       max_shard_bytes};
    struct pen_checkpoint_writer *writer = NULL;
    pen_status status = pen_checkpoint_begin(run, step, tensors, count,
                                             num_moments, &writer, why);
    if (status != PEN_OK)
        return status;
    status = pen_checkpoint_share_create(&args, &writer->share, why);
    if (status == PEN_OK)
        *out = writer;
    else
        pen_checkpoint_abandon(writer);
    return status;
}

/* ------------------------------------------------------------- A model's */

/* The tensors of a model, and what has their names and shapes. */
struct model_tensors {
    struct pen_any_tensor *infos;
    struct pen_checkpoint_tensor *tensors;
    size_t count;
};

static pen_status list_tensors(const struct pen_any_model *model,
                               struct model_tensors *out, struct pen_text *why)
{
    uint32_t count = pen_any_model_num_tensors(model);
    *out = (struct model_tensors){calloc(count, sizeof *out->infos),
                                  calloc(count, sizeof *out->tensors), count};
    if (out->infos == NULL || out->tensors == NULL)
        return refuse_memory(why);
    for (uint32_t i = 0; i < count; i++) {
        struct pen_any_tensor *info = &out->infos[i];
        pen_any_model_tensor(model, i, info);
        out->tensors[i] = (struct pen_checkpoint_tensor){
            .spec = {info->name, info->dtype, info->num_dims, info->shape},
            .has_moments = info->is_trained};
    }
    return PEN_OK;
}

static void release_tensors(struct model_tensors *list)
{
    free(list->infos);
    free(list->tensors);
}

static pen_status add_config(struct pen_checkpoint_writer *writer,
                             const struct pen_any_model *model,
                             struct pen_text *why)
{
    struct pen_text config = PEN_TEXT_EMPTY;
    pen_any_model_print(model, PEN_DTYPE_F32, &config);
    pen_status status =
        config.has_failed
            ? refuse_memory(why)
            : pen_checkpoint_add_file(writer, "config.json", config.bytes,
                                      config.length, why);
    pen_text_release(&config);
    return status;
}

/* Ends the writer if it fails. */
static pen_status take_config(struct pen_checkpoint_writer *writer,
                              const struct pen_any_model *model,
                              struct pen_checkpoint_writer **out,
                              struct pen_text *why)
{
    pen_status status = add_config(writer, model, why);
    if (status == PEN_OK)
        *out = writer;
    else
        pen_checkpoint_abandon(writer);
    return status;
}

pen_status pen_checkpoint_begin_for(const struct pen_any_model *model,
                                    const char *run, uint64_t step,
                                    uint32_t num_moments,
                                    struct pen_checkpoint_writer **out,
                                    struct pen_text *why)
{
    struct pen_checkpoint_writer *writer = NULL;
    struct model_tensors list;
    pen_status status = list_tensors(model, &list, why);
    if (status == PEN_OK)
        status = pen_checkpoint_begin(run, step, list.tensors, list.count,
                                      num_moments, &writer, why);
    release_tensors(&list);
    return status == PEN_OK ? take_config(writer, model, out, why) : status;
}

void pen_checkpoint_expect(struct pen_checkpoint_writer *writer,
                           const struct pen_any_model *model,
                           const char *optimizer)
{
    for (uint32_t i = 0; i < pen_any_model_num_tensors(model); i++) {
        struct pen_any_tensor info;
        struct pen_text name = PEN_TEXT_EMPTY;
        pen_any_model_tensor(model, i, &info);
        pen__part_name(info.name, PEN_CHECKPOINT_MOMENT2, &name);
        if (pen_checkpoint_moments_of(optimizer, &info) == PEN_MOMENTS_FIRST)
            json_object_del(writer->missing[PEN_RECORD_OPTIMIZER],
                            pen_text_string(&name));
        pen_text_release(&name);
    }
}

pen_status pen_checkpoint_create_for(const struct pen_any_model *model,
                                     const char *run, uint64_t step,
                                     uint32_t num_moments,
                                     uint64_t max_shard_bytes,
                                     struct pen_checkpoint_writer **out,
                                     struct pen_text *why)
{
    struct pen_checkpoint_writer *writer = NULL;
    struct model_tensors list;
    pen_status status = list_tensors(model, &list, why);
    if (status == PEN_OK)
        status =
            pen_checkpoint_create(run, step, list.tensors, list.count,
                                  num_moments, max_shard_bytes, &writer, why);
    release_tensors(&list);
    return status == PEN_OK ? take_config(writer, model, out, why) : status;
}

pen_status pen_checkpoint_put(struct pen_checkpoint_writer *writer,
                              enum pen_checkpoint_part part, size_t tensor,
                              const void *bytes, size_t length,
                              struct pen_text *why)
{
    return pen_checkpoint_share_put(writer->share, part, tensor, bytes, length,
                                    why);
}

struct pen_manifest *
pen_checkpoint_manifest(struct pen_checkpoint_writer *writer)
{
    return &writer->manifest;
}
