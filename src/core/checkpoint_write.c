/*
 * Writing a checkpoint:
 *
 *   lock RUN; remove what an interrupted writer left     here
 *   mkdir RUN/.tmp-step-N; write and sync each file
 *   hash the files; write and sync MANIFEST.json         checkpoint_commit.c
 *   rename .tmp-step-N to step-N; sync RUN
 *
 * Whatever ends the writer before the rename leaves the steps that were there
 * as they were, and a directory that no reader looks at.
 */
#include "core/checkpoint_internal.h"

#include "base/bug.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static pen_status refuse(const char *what, const char *path,
                         struct pen_text *why)
{
    pen_why(why, "cannot %s %s: %s", what, path, strerror(errno));
    return PEN_IO;
}

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
    pen_text_release(&writer->names);
    free(writer->dims);
    free(writer->specs);
    free(writer->moments);
    free(writer->first_moments);
    free(writer);
}

/* The name of a directory is on disk when the one around it is. */
static int sync_parent(int handle)
{
    int parent = openat(handle, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
        return -1;
    int failed = fsync(parent);
    close(parent);
    return failed;
}

/* Makes and locks the directory of the run. */
static pen_status open_run(struct pen_checkpoint_writer *writer,
                           struct pen_text *why)
{
    const char *run = pen_text_string(&writer->run);
    bool is_new = mkdir(run, 0777) == 0;
    if (!is_new && errno != EEXIST)
        return refuse("make", run, why);
    writer->run_handle = open(run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (writer->run_handle < 0)
        return refuse("open", run, why);
    if (is_new && sync_parent(writer->run_handle) != 0)
        return refuse("write", run, why);
    /* Some network file systems cannot lock a directory; then nobody does. */
    if (flock(writer->run_handle, LOCK_EX | LOCK_NB) != 0 &&
        errno == EWOULDBLOCK) {
        pen_why(why, "another process is writing a checkpoint to %s", run);
        return PEN_IO;
    }
    return PEN_OK;
}

/*
 * The hash of the newest manifest before this step: whoever has the last
 * manifest can tell whether the ones before it are those it grew from.
 */
static pen_status find_previous(struct pen_checkpoint_writer *writer,
                                struct pen_text *why)
{
    struct pen_checkpoint_list list;
    pen_status status =
        pen_checkpoint_list_load(pen_text_string(&writer->run), &list, why);
    if (status != PEN_OK)
        return status;
    for (size_t i = list.count; i-- > 0;) {
        const struct pen_checkpoint_entry *entry = &list.entries[i];
        if (!entry->is_whole || entry->step >= writer->manifest.step)
            continue;
        memcpy(writer->manifest.previous, entry->manifest_hash, PEN_HASH_SIZE);
        break;
    }
    pen_checkpoint_list_release(&list);
    return PEN_OK;
}

static pen_status make_temporary(struct pen_checkpoint_writer *writer,
                                 struct pen_text *why)
{
    char name[PEN__STEP_NAME_SIZE];
    pen__step_name(writer->manifest.step, name);
    pen_text_add(&writer->temporary, "%s/" PEN__TEMPORARY "%s",
                 pen_text_string(&writer->run), name);
    if (writer->temporary.has_failed)
        return refuse_memory(why);
    const char *path = pen_text_string(&writer->temporary);
    if (mkdir(path, 0700) != 0)
        return refuse("make", path, why);
    return PEN_OK;
}

static size_t count_dims(const struct pen_checkpoint_tensor *tensors,
                         size_t count)
{
    size_t num_dims = 0;
    for (size_t i = 0; i < count; i++)
        num_dims += tensors[i].spec.num_dims;
    return num_dims;
}

static uint32_t moments_of(const struct pen_checkpoint_writer *writer,
                           const struct pen_checkpoint_tensor *tensor)
{
    return tensor->has_moments ? writer->manifest.num_moments : 0;
}

/* Names move while the text grows, so offsets come first. */
static void add_names(struct pen_checkpoint_writer *writer,
                      const struct pen_checkpoint_tensor *tensors)
{
    for (size_t i = 0; i < writer->num_specs; i++) {
        const char *name = tensors[i].spec.name;
        pen_text_add_bytes(&writer->names, name, strlen(name) + 1);
        for (uint32_t m = 1; m <= moments_of(writer, &tensors[i]); m++) {
            pen_text_add(&writer->names, "%s.moment%u", name, m);
            pen_text_add_bytes(&writer->names, "", 1);
        }
    }
}

static const char *next_name(const char **at)
{
    const char *name = *at;
    *at += strlen(name) + 1;
    return name;
}

/* Copies the specs and makes those of the moments. */
static pen_status copy_specs(struct pen_checkpoint_writer *writer,
                             const struct pen_checkpoint_tensor *tensors,
                             struct pen_text *why)
{
    size_t count = writer->num_specs;
    size_t most = count * writer->manifest.num_moments;
    writer->dims = calloc(count_dims(tensors, count) + 1, sizeof *writer->dims);
    writer->specs = calloc(count + 1, sizeof *writer->specs);
    writer->moments = calloc(most + 1, sizeof *writer->moments);
    writer->first_moments = calloc(count + 1, sizeof *writer->first_moments);
    add_names(writer, tensors);
    if (writer->dims == NULL || writer->specs == NULL ||
        writer->moments == NULL || writer->first_moments == NULL ||
        writer->names.has_failed)
        return refuse_memory(why);
    const char *name = writer->names.bytes;
    uint64_t *dims = writer->dims;
    for (size_t i = 0; i < count; i++) {
        const struct pen_tensor_spec *spec = &tensors[i].spec;
        struct pen_tensor_spec *copy = &writer->specs[i];
        if (spec->num_dims > 0)
            memcpy(dims, spec->shape, spec->num_dims * sizeof *dims);
        *copy = *spec;
        copy->name = next_name(&name);
        copy->shape = dims;
        dims += spec->num_dims;
        writer->first_moments[i] = writer->num_moment_specs;
        for (uint32_t m = 0; m < moments_of(writer, &tensors[i]); m++)
            writer->moments[writer->num_moment_specs++] =
                (struct pen_tensor_spec){next_name(&name), PEN_DTYPE_F32,
                                         copy->num_dims, copy->shape};
    }
    return PEN_OK;
}

static pen_status open_files(struct pen_checkpoint_writer *writer,
                             uint64_t max_shard_bytes, struct pen_text *why)
{
    const char *path = pen_text_string(&writer->temporary);
    pen_status status =
        pen_weights_create(path, "model", writer->specs, writer->num_specs,
                           max_shard_bytes, &writer->model, why);
    if (status == PEN_OK && writer->manifest.num_moments > 0)
        status = pen_weights_create(path, "optimizer", writer->moments,
                                    writer->num_moment_specs, max_shard_bytes,
                                    &writer->optimizer, why);
    return status;
}

static pen_status begin(struct pen_checkpoint_writer *writer, const char *run,
                        const struct pen_checkpoint_tensor *tensors,
                        struct pen_text *why)
{
    pen_text_add_string(&writer->run, run);
    if (writer->run.has_failed)
        return refuse_memory(why);
    pen_status status = copy_specs(writer, tensors, why);
    if (status == PEN_OK)
        status = open_run(writer, why);
    if (status != PEN_OK)
        return status;
    pen__leftovers_remove(run);
    return find_previous(writer, why);
}

pen_status pen_checkpoint_create(const char *run, uint64_t step,
                                 const struct pen_checkpoint_tensor *tensors,
                                 size_t count, uint32_t num_moments,
                                 uint64_t max_shard_bytes,
                                 struct pen_checkpoint_writer **out,
                                 struct pen_text *why)
{
    PEN_BUG_UNLESS(step <= PEN__MAX_STEP);
    PEN_BUG_UNLESS(num_moments <= PEN_MANIFEST_MAX_MOMENTS);
    struct pen_checkpoint_writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL)
        return refuse_memory(why);
    writer->run_handle = -1;
    writer->num_specs = count;
    pen_status status = pen_manifest_init(&writer->manifest, why);
    writer->manifest.step = step;
    writer->manifest.num_moments = num_moments;
    if (status == PEN_OK)
        status = begin(writer, run, tensors, why);
    if (status == PEN_OK)
        status = make_temporary(writer, why);
    if (status != PEN_OK) {
        pen__checkpoint_deallocate(writer);
        return status;
    }
    status = open_files(writer, max_shard_bytes, why);
    if (status == PEN_OK)
        *out = writer;
    else
        pen_checkpoint_abandon(writer);
    return status;
}

static void model_tensors(const struct pen_any_model *model, uint32_t count,
                          struct pen_any_tensor *infos,
                          struct pen_checkpoint_tensor *tensors)
{
    for (uint32_t i = 0; i < count; i++) {
        pen_any_model_tensor(model, i, &infos[i]);
        tensors[i] = (struct pen_checkpoint_tensor){
            {infos[i].name, infos[i].dtype, infos[i].num_dims, infos[i].shape},
            infos[i].is_trained};
    }
}

static pen_status add_config(struct pen_checkpoint_writer *writer,
                             const struct pen_any_model *model,
                             struct pen_text *why)
{
    struct pen_text config = PEN_TEXT_EMPTY;
    pen_any_model_print(model, &config);
    pen_status status =
        config.has_failed
            ? refuse_memory(why)
            : pen_checkpoint_add_file(writer, "config.json", config.bytes,
                                      config.length, why);
    pen_text_release(&config);
    return status;
}

pen_status pen_checkpoint_create_for(const struct pen_any_model *model,
                                     const char *run, uint64_t step,
                                     uint32_t num_moments,
                                     uint64_t max_shard_bytes,
                                     struct pen_checkpoint_writer **out,
                                     struct pen_text *why)
{
    struct pen_checkpoint_writer *writer = NULL;
    uint32_t count = pen_any_model_num_tensors(model);
    struct pen_any_tensor *infos = calloc(count, sizeof *infos);
    struct pen_checkpoint_tensor *tensors = calloc(count, sizeof *tensors);
    pen_status status = PEN_NOMEM;
    if (infos != NULL && tensors != NULL) {
        model_tensors(model, count, infos, tensors);
        status = pen_checkpoint_create(run, step, tensors, count, num_moments,
                                       max_shard_bytes, &writer, why);
    } else {
        refuse_memory(why);
    }
    free(infos);
    free(tensors);
    if (status == PEN_OK) {
        status = add_config(writer, model, why);
        if (status == PEN_OK)
            *out = writer;
        else
            pen_checkpoint_abandon(writer);
    }
    return status;
}

pen_status pen_checkpoint_put(struct pen_checkpoint_writer *writer,
                              enum pen_checkpoint_part part, size_t tensor,
                              const void *bytes, size_t length,
                              struct pen_text *why)
{
    if (part == PEN_CHECKPOINT_WEIGHT)
        return pen_weights_put(writer->model, tensor, bytes, length, why);
    size_t moment = (size_t)part - PEN_CHECKPOINT_MOMENT1;
    PEN_BUG_UNLESS(moment < writer->manifest.num_moments);
    return pen_weights_put(writer->optimizer,
                           writer->first_moments[tensor] + moment, bytes,
                           length, why);
}

struct pen_manifest *
pen_checkpoint_manifest(struct pen_checkpoint_writer *writer)
{
    return &writer->manifest;
}
