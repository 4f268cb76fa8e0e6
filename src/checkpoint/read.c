/*
 * Opening checkpoints. Nothing is used before all of it is verified.
 */
#include "checkpoint/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum pen_checkpoint_kind pen_checkpoint_kind_of(const char *path)
{
    struct pen__names names;
    enum pen_checkpoint_kind kind = PEN_CHECKPOINT_NONE;
    if (pen__names_list(path, &names, NULL) != PEN_OK)
        return kind;
    for (size_t i = 0; i < names.count; i++) {
        uint64_t step;
        if (strcmp(names.names[i], PEN_MANIFEST_NAME) == 0)
            kind = PEN_CHECKPOINT_STEP;
        else if (kind == PEN_CHECKPOINT_NONE &&
                 pen__step_parse(names.names[i], &step))
            kind = PEN_CHECKPOINT_RUN;
    }
    pen__names_release(&names);
    return kind;
}

/* Moments or versions, in one file or several; NULL when there are none. */
static pen_status open_files(const struct pen_checkpoint *checkpoint,
                             enum pen_record_kind kind,
                             struct pen_weights **out, struct pen_text *why)
{
    static const char *const endings[] = {".safetensors",
                                          ".safetensors.index.json"};
    pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && *out == NULL && i < 2; i++) {
        struct pen_text name = PEN_TEXT_EMPTY;
        struct pen_text path = PEN_TEXT_EMPTY;
        pen_text_add(&name, "%s%s", pen_record_kind_name(kind), endings[i]);
        pen_text_add(&path, "%s/%s", pen_text_string(&checkpoint->path),
                     pen_text_string(&name));
        if (pen_manifest_find_file(&checkpoint->manifest,
                                   pen_text_string(&name)) != NULL)
            status = pen_weights_open(pen_text_string(&path), out, why);
        pen_text_release(&name);
        pen_text_release(&path);
    }
    return status;
}

static pen_status open_step(const char *path,
                            const struct pen_checkpoint_watch *watch,
                            struct pen_checkpoint **out, struct pen_text *why)
{
    struct pen_checkpoint *checkpoint = calloc(1, sizeof *checkpoint);
    if (checkpoint == NULL) {
        pen_why(why, "no memory to open %s", path);
        return PEN_NOMEM;
    }
    pen_text_add_string(&checkpoint->path, path);
    pen_status status =
        pen__checkpoint_verify(path, watch, &checkpoint->manifest, why);
    if (status == PEN_OK)
        status = pen_weights_open(path, &checkpoint->model, why);
    if (status == PEN_OK)
        status = open_files(checkpoint, PEN_RECORD_OPTIMIZER,
                            &checkpoint->optimizer, why);
    if (status == PEN_OK)
        status =
            open_files(checkpoint, PEN_RECORD_SYNC, &checkpoint->sync, why);
    if (status == PEN_OK)
        *out = checkpoint;
    else
        pen_checkpoint_close(checkpoint);
    return status;
}

/*
 * Checks the number: a step that was renamed would be taken for a newer one
 * than it is.
 */
static pen_status check_number(const struct pen_checkpoint *checkpoint,
                               uint64_t step, struct pen_text *why)
{
    if (checkpoint->manifest.step == step)
        return PEN_OK;
    pen_why(why, "%s is step %" PRIu64 " by its manifest",
            pen_text_string(&checkpoint->path), checkpoint->manifest.step);
    return PEN_INVALID;
}

static pen_status open_numbered(const char *run, uint64_t step,
                                const struct pen_checkpoint_watch *watch,
                                struct pen_checkpoint **out,
                                struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_checkpoint *checkpoint = NULL;
    pen__step_path(run, step, &path);
    pen_status status =
        open_step(pen_text_string(&path), watch, &checkpoint, why);
    if (status == PEN_OK)
        status = check_number(checkpoint, step, why);
    if (status == PEN_OK)
        *out = checkpoint;
    else
        pen_checkpoint_close(checkpoint);
    pen_text_release(&path);
    return status;
}

/* Tries the steps from the last to the first. */
static pen_status open_newest(const char *run, const struct pen__steps *steps,
                              const struct pen_checkpoint_watch *watch,
                              struct pen_checkpoint **out, struct pen_text *why)
{
    struct pen_text skipped = PEN_TEXT_EMPTY;
    pen_status status = PEN_INVALID;
    for (size_t i = steps->count; status != PEN_OK && i-- > 0;) {
        struct pen_text reason = PEN_TEXT_EMPTY;
        status = open_numbered(run, steps->steps[i], watch, out, &reason);
        if (status != PEN_OK)
            pen_text_add(&skipped, "%s%s", skipped.length > 0 ? "\n" : "",
                         pen_text_string(&reason));
        pen_text_release(&reason);
    }
    if (status == PEN_OK) {
        (*out)->skipped = skipped;
        (*out)->is_newest = true;
        return PEN_OK;
    }
    pen_why(why,
            "%s has no complete checkpoint\n"
            "%s",
            run, pen_text_string(&skipped));
    pen_text_release(&skipped);
    return status;
}

static pen_status check_run(const char *run, struct pen_text *why)
{
    struct pen_checkpoint_list list;
    pen_status status = pen_checkpoint_list_load(run, &list, why);
    if (status != PEN_OK)
        return status;
    status = pen__list_check_run(&list, run, why);
    pen_checkpoint_list_release(&list);
    return status;
}

void pen_checkpoint_describe_skipped(const struct pen_checkpoint *checkpoint,
                                     struct pen_text *out)
{
    if (checkpoint->skipped.length > 0)
        pen_text_add(out,
                     "newer steps are damaged and were skipped; %s is used "
                     "instead\n%s",
                     pen_text_string(&checkpoint->path),
                     pen_text_string(&checkpoint->skipped));
}

pen_status pen_checkpoint_open(const char *path,
                               const struct pen_checkpoint_watch *watch,
                               struct pen_checkpoint **out,
                               struct pen_text *why)
{
    struct pen__steps steps;
    if (pen_checkpoint_kind_of(path) == PEN_CHECKPOINT_STEP)
        return open_step(path, watch, out, why);
    pen_status status = pen__steps_list(path, &steps, why);
    if (status != PEN_OK)
        return status;
    if (steps.count == 0) {
        free(steps.steps);
        pen_why(why,
                "%s is not a checkpoint: it has neither " PEN_MANIFEST_NAME
                " nor a folder step-NNNNNNNN",
                path);
        return PEN_INVALID;
    }
    status = check_run(path, why);
    if (status == PEN_OK)
        status = open_newest(path, &steps, watch, out, why);
    free(steps.steps);
    return status;
}

void pen_checkpoint_close(struct pen_checkpoint *checkpoint)
{
    if (checkpoint == NULL)
        return;
    pen_weights_close(checkpoint->model);
    pen_weights_close(checkpoint->optimizer);
    pen_weights_close(checkpoint->sync);
    pen_manifest_release(&checkpoint->manifest);
    pen_text_release(&checkpoint->path);
    pen_text_release(&checkpoint->skipped);
    free(checkpoint);
}

/* A moment or a version; NULL when it is not there. */
static const struct pen_safetensor *
find_part(const struct pen_checkpoint *checkpoint, const char *tensor,
          enum pen_checkpoint_part part)
{
    const struct pen_weights *files = part >= PEN_CHECKPOINT_VERSION1
                                          ? checkpoint->sync
                                          : checkpoint->optimizer;
    struct pen_text name = PEN_TEXT_EMPTY;
    pen__part_name(tensor, part, &name);
    const struct pen_safetensor *found =
        files == NULL ? NULL : pen_weights_find(files, pen_text_string(&name));
    pen_text_release(&name);
    return found;
}

pen_status pen_checkpoint_find(const struct pen_checkpoint *checkpoint,
                               const struct pen_any_model *model,
                               uint32_t tensor, enum pen_checkpoint_part part,
                               const struct pen_safetensor **out,
                               struct pen_text *why)
{
    struct pen_any_tensor info;
    if (part == PEN_CHECKPOINT_WEIGHT)
        return pen_any_model_find(model, tensor, checkpoint->model, out, why);
    pen_any_model_tensor(model, tensor, &info);
    const struct pen_safetensor *found = find_part(checkpoint, info.name, part);
    if (found != NULL && found->dtype == PEN_DTYPE_F32 &&
        found->num_dims == info.num_dims &&
        memcmp(found->shape, info.shape, info.num_dims * sizeof *info.shape) ==
            0) {
        *out = found;
        return PEN_OK;
    }
    struct pen_text name = PEN_TEXT_EMPTY;
    pen__part_name(info.name, part, &name);
    pen_why(why, "%s has no tensor %s of type F32 and the model's shape",
            pen_text_string(&checkpoint->path), pen_text_string(&name));
    pen_text_release(&name);
    return PEN_INVALID;
}

const struct pen_safetensor *
pen__next_extra(const struct pen_checkpoint *checkpoint, size_t *at)
{
    size_t count =
        checkpoint->sync == NULL ? 0 : pen_weights_count(checkpoint->sync);
    while (*at < count) {
        const struct pen_safetensor *it =
            pen_weights_at(checkpoint->sync, (*at)++);
        if (!pen__is_version_name(it->name))
            return it;
    }
    return NULL;
}

pen_status pen_checkpoint_find_extra(const struct pen_checkpoint *checkpoint,
                                     const char *name,
                                     const struct pen_safetensor **out,
                                     struct pen_text *why)
{
    const struct pen_safetensor *found =
        checkpoint->sync == NULL || pen__is_version_name(name)
            ? NULL
            : pen_weights_find(checkpoint->sync, name);
    if (found != NULL) {
        *out = found;
        return PEN_OK;
    }
    pen_why(why, "%s has no tensor %s", pen_text_string(&checkpoint->path),
            name);
    return PEN_INVALID;
}

uint32_t pen_checkpoint_num_versions(const struct pen_checkpoint *checkpoint,
                                     const struct pen_any_model *model,
                                     uint32_t tensor)
{
    struct pen_any_tensor info;
    uint32_t count = 0;
    pen_any_model_tensor(model, tensor, &info);
    while (count < PEN_CHECKPOINT_MAX_VERSIONS &&
           find_part(checkpoint, info.name, PEN_CHECKPOINT_VERSION1 + count) !=
               NULL)
        count++;
    return count;
}
