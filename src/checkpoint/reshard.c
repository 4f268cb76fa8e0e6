/*
 * A step with other shards: a checkpoint of one share that is read out of the
 * old files.
 */
#include "checkpoint/rewrite.h"

#include "base/bug.h"
#include "checkpoint/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool pen__is_tensor_file(const char *name)
{
    for (enum pen_record_kind i = 0; i < PEN_RECORD_KINDS; i++) {
        const char *word = pen_record_kind_name(i);
        size_t length = strlen(word);
        if (strncmp(name, word, length) == 0 &&
            (name[length] == '.' || name[length] == '-') &&
            strstr(name, ".safetensors") != NULL)
            return true;
    }
    return false;
}

/* A copy: its contents and their source. */
struct copy {
    const struct pen_checkpoint *checkpoint;
    const struct pen_any_model *model;
    struct pen_any_tensor *infos;
    struct pen_checkpoint_tensor *tensors;
    uint32_t count;
    const struct pen_safetensor **extras;
    struct pen_tensor_spec *extra_specs;
    size_t num_extras;
};

static const void *bytes_of(void *context, enum pen_checkpoint_part part,
                            size_t tensor)
{
    const struct copy *copy = context;
    const struct pen_safetensor *found = NULL;
    pen_status status = pen_checkpoint_find(
        copy->checkpoint, copy->model, (uint32_t)tensor, part, &found, NULL);
    PEN_BUG_UNLESS(status == PEN_OK);
    return found->bytes;
}

static const void *extra_of(void *context, size_t extra)
{
    const struct copy *copy = context;
    return copy->extras[extra]->bytes;
}

static pen_status list_extras(struct copy *copy, struct pen_text *why)
{
    const struct pen_checkpoint *checkpoint = copy->checkpoint;
    const struct pen_safetensor *it;
    size_t most =
        checkpoint->sync == NULL ? 0 : pen_weights_count(checkpoint->sync);
    copy->extras = calloc(most + 1, sizeof *copy->extras);
    copy->extra_specs = calloc(most + 1, sizeof *copy->extra_specs);
    if (copy->extras == NULL || copy->extra_specs == NULL) {
        pen_why(why, "no memory for %zu tensors", most);
        return PEN_NOMEM;
    }
    for (size_t i = 0; (it = pen__next_extra(checkpoint, &i)) != NULL;) {
        copy->extra_specs[copy->num_extras] = (struct pen_tensor_spec){
            it->name, it->dtype, it->num_dims, it->shape};
        copy->extras[copy->num_extras++] = it;
    }
    return PEN_OK;
}

/* Finds every part once, so that none is missed later. */
static pen_status list_tensor(struct copy *copy, uint32_t tensor,
                              struct pen_text *why)
{
    struct pen_any_tensor *info = &copy->infos[tensor];
    struct pen_checkpoint_tensor *made = &copy->tensors[tensor];
    const struct pen_safetensor *found = NULL;
    pen_any_model_tensor(copy->model, tensor, info);
    pen_status status =
        pen_checkpoint_find(copy->checkpoint, copy->model, tensor,
                            PEN_CHECKPOINT_WEIGHT, &found, why);
    if (status != PEN_OK)
        return status;
    *made = (struct pen_checkpoint_tensor){
        {info->name, found->dtype, info->num_dims, info->shape},
        pen_checkpoint_moments_of(copy->checkpoint->manifest.optimizer, info),
        pen_checkpoint_num_versions(copy->checkpoint, copy->model, tensor)};
    uint32_t num_moments = pen_checkpoint_tensor_moments(
        made->has_moments, copy->checkpoint->manifest.num_moments);
    for (uint32_t i = 0; i < num_moments && status == PEN_OK; i++)
        status = pen_checkpoint_find(copy->checkpoint, copy->model, tensor,
                                     PEN_CHECKPOINT_MOMENT1 + i, &found, why);
    for (uint32_t i = 0; i < made->num_versions && status == PEN_OK; i++)
        status = pen_checkpoint_find(copy->checkpoint, copy->model, tensor,
                                     PEN_CHECKPOINT_VERSION1 + i, &found, why);
    return status;
}

static void copy_manifest(const struct pen_manifest *from,
                          struct pen_manifest *to)
{
    memcpy(to->run, from->run, sizeof to->run);
    to->sample = from->sample;
    to->dtype = from->dtype;
    to->num_replicas = from->num_replicas;
    to->num_pieces = from->num_pieces;
    memcpy(to->optimizer, from->optimizer, sizeof to->optimizer);
    json_decref(to->random);
    json_decref(to->configuration);
    to->random = json_incref(from->random);
    to->configuration = json_incref(from->configuration);
    to->sync = json_incref(from->sync);
    to->command = json_incref(from->command);
}

static pen_status copy_files(const struct pen_checkpoint *checkpoint,
                             struct pen_checkpoint_writer *writer,
                             struct pen_text *why)
{
    const struct pen_manifest *manifest = &checkpoint->manifest;
    pen_status status = PEN_OK;
    for (size_t i = 0; i < manifest->num_files && status == PEN_OK; i++) {
        struct pen_text path = PEN_TEXT_EMPTY;
        const char *name = manifest->files[i].name;
        pen_text_add(&path, "%s/%s", pen_text_string(&checkpoint->path), name);
        if (!pen__is_tensor_file(name))
            status =
                pen_checkpoint_copy_file(writer, pen_text_string(&path), why);
        pen_text_release(&path);
    }
    return status;
}

static pen_status fill(struct copy *copy, struct pen_checkpoint_writer *writer,
                       const char *run, uint64_t max_shard_bytes,
                       struct pen_text *why)
{
    const struct pen_manifest *manifest = &copy->checkpoint->manifest;
    const struct pen_checkpoint_share_args args = {
        .run = run,
        .step = manifest->step,
        .tensors = copy->tensors,
        .count = copy->count,
        .num_moments = manifest->num_moments,
        .extras = copy->extra_specs,
        .num_extras = copy->num_extras,
        .max_shard_bytes = max_shard_bytes};
    const struct pen_checkpoint_source source = {bytes_of, extra_of, copy};
    struct pen_text record = PEN_TEXT_EMPTY;
    copy_manifest(manifest, pen_checkpoint_manifest(writer));
    pen_status status =
        pen_checkpoint_share_write(&args, &source, &record, why);
    if (status == PEN_OK)
        status =
            pen_checkpoint_add_record(writer, record.bytes, record.length, why);
    if (status == PEN_OK)
        status = copy_files(copy->checkpoint, writer, why);
    pen_text_release(&record);
    return status;
}

static pen_status write_copy(struct copy *copy, const char *run,
                             uint64_t max_shard_bytes, struct pen_text *why)
{
    const struct pen_manifest *manifest = &copy->checkpoint->manifest;
    struct pen_checkpoint_writer *writer = NULL;
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < copy->count && status == PEN_OK; i++)
        status = list_tensor(copy, i, why);
    if (status == PEN_OK)
        status = list_extras(copy, why);
    if (status == PEN_OK)
        status = pen_checkpoint_begin(run, manifest->step, copy->tensors,
                                      copy->count, manifest->num_moments,
                                      &writer, why);
    if (status != PEN_OK)
        return status;
    status = fill(copy, writer, run, max_shard_bytes, why);
    if (status == PEN_OK)
        return pen_checkpoint_finish(writer, 0, why);
    pen_checkpoint_abandon(writer);
    return status;
}

pen_status pen_checkpoint_reshard(const struct pen_checkpoint *checkpoint,
                                  const struct pen_any_model *model,
                                  const char *run, uint64_t max_shard_bytes,
                                  struct pen_text *why)
{
    uint32_t count = pen_any_model_num_tensors(model);
    struct copy copy = {.checkpoint = checkpoint,
                        .model = model,
                        .infos = calloc(count + 1, sizeof *copy.infos),
                        .tensors = calloc(count + 1, sizeof *copy.tensors),
                        .count = count};
    pen_status status = PEN_NOMEM;
    if (copy.infos != NULL && copy.tensors != NULL)
        status = write_copy(&copy, run, max_shard_bytes, why);
    else
        pen_why(why, "no memory for %" PRIu32 " tensors", count);
    free(copy.infos);
    free(copy.tensors);
    free(copy.extras);
    free(copy.extra_specs);
    return status;
}
