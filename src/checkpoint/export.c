/*
 * The weights of a step as other programs load them, with its config.json:
 *
 *   mkdir OUT.part; write and sync each file; rename OUT.part to OUT
 */
#include "checkpoint/rewrite.h"

#include "base/draft.h"
#include "base/file.h"
#include "checkpoint/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_FLOATS 16384u
#define MAX_COPY_BYTES (256u << 20)

/* An export: its contents and its place. */
struct export
{
    const struct pen_checkpoint *checkpoint;
    const struct pen_any_model *model;
    const char *directory;
    enum pen_dtype dtype;
    struct pen_any_tensor *infos;
    struct pen_tensor_spec *specs;
    uint32_t count;
};

/* Floats in the type that is wanted; a number of batches as it is. */
static pen_status put_tensor(const struct export *export, uint32_t tensor,
                             struct pen_weights_writer *writer,
                             struct pen_text *why)
{
    float block[BLOCK_FLOATS];
    char bytes[sizeof block];
    const struct pen_safetensor *found = NULL;
    pen_status status =
        pen_checkpoint_find(export->checkpoint, export->model, tensor,
                            PEN_CHECKPOINT_WEIGHT, &found, why);
    if (status != PEN_OK)
        return status;
    if (export->specs[tensor].dtype == found->dtype)
        return pen_weights_put(writer, tensor, found->bytes, found->num_bytes,
                               why);
    uint64_t num_elements = export->infos[tensor].num_elements;
    size_t width = pen_dtype_bits(found->dtype) / 8;
    for (uint64_t i = 0; i < num_elements && status == PEN_OK;
         i += BLOCK_FLOATS) {
        uint64_t left = num_elements - i;
        size_t count = left < BLOCK_FLOATS ? (size_t)left : BLOCK_FLOATS;
        pen_dtype_to_float(found->dtype, found->bytes + i * width, count,
                           block);
        pen_dtype_from_float(export->dtype, block, count, bytes);
        status =
            pen_weights_put(writer, tensor, bytes,
                            count * pen_dtype_bits(export->dtype) / 8, why);
    }
    return status;
}

static pen_status write_weights(const struct export *export,
                                uint64_t max_shard_bytes, struct pen_text *why)
{
    struct pen_weights_writer *writer = NULL;
    for (uint32_t i = 0; i < export->count; i++) {
        struct pen_any_tensor *info = &export->infos[i];
        pen_any_model_tensor(export->model, i, info);
        export->specs[i] = (struct pen_tensor_spec){
            info->name,
            info->dtype == PEN_DTYPE_F32 ? export->dtype : info->dtype,
            info->num_dims, info->shape};
    }
    pen_status status =
        pen_weights_create(export->directory, "model", export->specs,
                           export->count, max_shard_bytes, &writer, why);
    if (status != PEN_OK)
        return status;
    for (uint32_t i = 0; i < export->count && status == PEN_OK; i++)
        status = put_tensor(export, i, writer, why);
    if (status == PEN_OK)
        return pen_weights_finish(writer, why);
    pen_weights_abandon(writer);
    return status;
}

static pen_status write_file(const struct export *export, const char *name,
                             const struct pen_text *bytes, struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/%s", export->directory, name);
    pen_status status = pen_draft_write_file(
        pen_text_string(&path), pen_text_string(bytes), bytes->length, why);
    pen_text_release(&path);
    return status;
}

static pen_status write_config(const struct export *export,
                               struct pen_text *why)
{
    struct pen_text config = PEN_TEXT_EMPTY;
    pen_any_model_print(export->model, export->dtype, &config);
    pen_status status = config.has_failed ? PEN_NOMEM : PEN_OK;
    if (status == PEN_OK)
        status = write_file(export, "config.json", &config, why);
    else
        pen_why(why, "no memory for config.json");
    pen_text_release(&config);
    return status;
}

static pen_status copy_file(const struct export *export, const char *name,
                            struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text bytes = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/%s", pen_text_string(&export->checkpoint->path),
                 name);
    pen_status status =
        pen_file_read(pen_text_string(&path), MAX_COPY_BYTES, &bytes, why);
    if (status == PEN_OK)
        status = write_file(export, name, &bytes, why);
    pen_text_release(&path);
    pen_text_release(&bytes);
    return status;
}

static pen_status fill(const struct export *export, uint64_t max_shard_bytes,
                       struct pen_text *why)
{
    const struct pen_manifest *manifest = &export->checkpoint->manifest;
    pen_status status = write_weights(export, max_shard_bytes, why);
    if (status == PEN_OK)
        status = write_config(export, why);
    for (size_t i = 0; i < manifest->num_files && status == PEN_OK; i++) {
        const char *name = manifest->files[i].name;
        if (!pen__is_tensor_file(name) && strcmp(name, "config.json") != 0)
            status = copy_file(export, name, why);
    }
    return status;
}

/* Renames to `to`, which must not exist; the rename is on disk afterwards. */
static pen_status give_name(const char *from, const char *to,
                            struct pen_text *why)
{
    int handle = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = handle < 0 || rename(from, to) != 0;
    int parent = failed ? -1 : openat(handle, "..", O_RDONLY | O_CLOEXEC);
    failed = parent < 0 || fsync(parent) != 0;
    pen_status status = failed ? pen_file_refuse("write", to, why) : PEN_OK;
    if (handle >= 0)
        close(handle);
    if (parent >= 0)
        close(parent);
    return status;
}

static pen_status write_directory(struct export *export, const char *directory,
                                  uint64_t max_shard_bytes,
                                  struct pen_text *why)
{
    const char *part = export->directory;
    if (access(directory, F_OK) == 0) {
        pen_why(why, "%s already exists", directory);
        return PEN_INVALID;
    }
    if (mkdir(part, 0777) != 0) {
        bool is_there = errno == EEXIST;
        pen_status status = pen_file_refuse("make", part, why);
        if (is_there)
            pen_why(why, "; remove it unless another process is writing it");
        return status;
    }
    pen_status status = fill(export, max_shard_bytes, why);
    if (status == PEN_OK)
        status = give_name(part, directory, why);
    if (status != PEN_OK)
        pen__tree_remove(part);
    return status;
}

pen_status pen_checkpoint_export(const struct pen_checkpoint *checkpoint,
                                 const struct pen_any_model *model,
                                 const char *directory, enum pen_dtype dtype,
                                 uint64_t max_shard_bytes, struct pen_text *why)
{
    uint32_t count = pen_any_model_num_tensors(model);
    struct pen_text part = PEN_TEXT_EMPTY;
    size_t length = strlen(directory);
    while (length > 1 && directory[length - 1] == '/')
        length--;
    pen_text_add(&part, "%.*s.part", (int)length, directory);
    struct export export = {.checkpoint = checkpoint,
                            .model = model,
                            .directory = pen_text_string(&part),
                            .dtype = dtype,
                            .infos = calloc(count + 1, sizeof *export.infos),
                            .specs = calloc(count + 1, sizeof *export.specs),
                            .count = count};
    pen_status status = PEN_NOMEM;
    if (export.infos != NULL && export.specs != NULL && !part.has_failed)
        status = write_directory(&export, directory, max_shard_bytes, why);
    else
        pen_why(why, "no memory to write %s", directory);
    free(export.infos);
    free(export.specs);
    pen_text_release(&part);
    return status;
}
