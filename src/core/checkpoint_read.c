/*
 * Reading checkpoints: nothing is used before all of it is verified.
 */
#include "core/checkpoint_internal.h"

#include "base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define OPTIMIZER "optimizer.safetensors"

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

pen_status pen__checkpoint_read_manifest(const char *path,
                                         struct pen_manifest *out,
                                         struct pen_text *why)
{
    struct pen_text name = PEN_TEXT_EMPTY;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_text_add(&name, "%s/" PEN_MANIFEST_NAME, path);
    pen_status status = pen_file_read(pen_text_string(&name),
                                      PEN_MANIFEST_MAX_BYTES, &text, why);
    if (status == PEN_OK) {
        status = pen_manifest_parse(text.bytes, text.length, out, &reason);
        if (status != PEN_OK)
            pen_why(why, "%s: %s", pen_text_string(&name),
                    pen_text_string(&reason));
    }
    pen_text_release(&name);
    pen_text_release(&text);
    pen_text_release(&reason);
    return status;
}

/* A file that is not in the manifest could be read in place of one that is. */
static pen_status check_names(const char *path,
                              const struct pen_manifest *manifest,
                              struct pen_text *why)
{
    struct pen__names names;
    pen_status status = pen__names_list(path, &names, why);
    if (status != PEN_OK)
        return status;
    for (size_t i = 0; status == PEN_OK && i < names.count; i++) {
        const char *name = names.names[i];
        if (name[0] == '.' || strcmp(name, PEN_MANIFEST_NAME) == 0 ||
            pen_manifest_find_file(manifest, name) != NULL)
            continue;
        pen_why(why, "%s/%s is not in " PEN_MANIFEST_NAME "; move it elsewhere",
                path, name);
        status = PEN_INVALID;
    }
    pen__names_release(&names);
    return status;
}

static pen_status check_size(const char *path,
                             const struct pen_manifest_file *file,
                             struct pen_text *why)
{
    struct stat about;
    struct pen_text name = PEN_TEXT_EMPTY;
    pen_text_add(&name, "%s/%s", path, file->name);
    pen_status status = PEN_INVALID;
    if (lstat(pen_text_string(&name), &about) != 0)
        pen_why(why, "cannot open %s: %s", pen_text_string(&name),
                strerror(errno));
    else if (!S_ISREG(about.st_mode))
        pen_why(why, "%s is not a regular file", pen_text_string(&name));
    else if ((uint64_t)about.st_size != file->num_bytes)
        pen_why(why, "%s has %" PRIu64 " bytes, must have %" PRIu64,
                pen_text_string(&name), (uint64_t)about.st_size,
                file->num_bytes);
    else
        status = PEN_OK;
    pen_text_release(&name);
    return status;
}

pen_status pen__checkpoint_check_files(const char *path,
                                       const struct pen_manifest *manifest,
                                       struct pen_text *why)
{
    pen_status status = check_names(path, manifest, why);
    for (size_t i = 0; status == PEN_OK && i < manifest->num_files; i++)
        status = check_size(path, &manifest->files[i], why);
    return status;
}

static pen_status check_bytes(const char *path,
                              const struct pen_manifest *manifest,
                              const struct pen_checkpoint_watch *watch,
                              struct pen_text *why)
{
    uint64_t total = pen_manifest_total_bytes(manifest);
    uint64_t done = 0;
    pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < manifest->num_files; i++) {
        const struct pen_manifest_file *file = &manifest->files[i];
        struct pen__file_facts facts;
        struct pen_text name = PEN_TEXT_EMPTY;
        pen_text_add(&name, "%s/%s", path, file->name);
        status = pen__file_hash(pen_text_string(&name), watch, &done, total,
                                &facts, why);
        if (status == PEN_OK && (facts.num_bytes != file->num_bytes ||
                                 strcmp(facts.hash, file->hash) != 0)) {
            pen_why(why, "%s is damaged: its SHA-256 is %s, must be %s",
                    pen_text_string(&name), facts.hash, file->hash);
            status = PEN_INVALID;
        }
        pen_text_release(&name);
    }
    return status;
}

static pen_status verify(const char *path,
                         const struct pen_checkpoint_watch *watch,
                         struct pen_manifest *out, struct pen_text *why)
{
    struct pen_manifest manifest;
    pen_status status = pen__checkpoint_read_manifest(path, &manifest, why);
    if (status != PEN_OK)
        return status;
    status = pen__checkpoint_check_files(path, &manifest, why);
    if (status == PEN_OK)
        status = check_bytes(path, &manifest, watch, why);
    if (status == PEN_OK)
        *out = manifest;
    else
        pen_manifest_release(&manifest);
    return status;
}

pen_status pen_checkpoint_verify(const char *path,
                                 const struct pen_checkpoint_watch *watch,
                                 struct pen_text *why)
{
    struct pen_manifest manifest;
    pen_status status = verify(path, watch, &manifest, why);
    if (status == PEN_OK)
        pen_manifest_release(&manifest);
    return status;
}

static pen_status open_optimizer(struct pen_checkpoint *checkpoint,
                                 struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    bool is_single =
        pen_manifest_find_file(&checkpoint->manifest, OPTIMIZER) != NULL;
    pen_text_add(&path, "%s/" OPTIMIZER "%s",
                 pen_text_string(&checkpoint->path),
                 is_single ? "" : ".index.json");
    pen_status status =
        pen_weights_open(pen_text_string(&path), &checkpoint->optimizer, why);
    pen_text_release(&path);
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
    pen_status status = verify(path, watch, &checkpoint->manifest, why);
    if (status == PEN_OK)
        status = pen_weights_open(path, &checkpoint->model, why);
    if (status == PEN_OK && checkpoint->manifest.num_moments > 0)
        status = open_optimizer(checkpoint, why);
    if (status == PEN_OK)
        *out = checkpoint;
    else
        pen_checkpoint_close(checkpoint);
    return status;
}

/* A step that was renamed would be taken for a newer one than it is. */
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
        return PEN_OK;
    }
    pen_why(why, "%s has no checkpoint that is whole", run);
    if (skipped.length > 0)
        pen_why(why, "\n%s", pen_text_string(&skipped));
    pen_text_release(&skipped);
    return status;
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
    pen_manifest_release(&checkpoint->manifest);
    pen_text_release(&checkpoint->path);
    pen_text_release(&checkpoint->skipped);
    free(checkpoint);
}

static pen_status find_moment(const struct pen_tensor_info *info,
                              uint32_t moment,
                              const struct pen_weights *optimizer,
                              const struct pen_safetensor **out,
                              struct pen_text *why)
{
    struct pen_text name = PEN_TEXT_EMPTY;
    const struct pen_tensor_form *form = info->form;
    pen_text_add(&name, "%s.moment%u", info->name, moment);
    const struct pen_safetensor *found =
        optimizer == NULL ? NULL
                          : pen_weights_find(optimizer, pen_text_string(&name));
    bool is_right = found != NULL && found->dtype == PEN_DTYPE_F32 &&
                    found->num_dims == form->num_dims &&
                    memcmp(found->shape, form->shape,
                           form->num_dims * sizeof *form->shape) == 0;
    if (is_right)
        *out = found;
    else
        pen_why(why,
                "the optimizer has no tensor %s of type F32 and the "
                "model's shape",
                pen_text_string(&name));
    pen_text_release(&name);
    return is_right ? PEN_OK : PEN_INVALID;
}

pen_status pen__find_part(const struct pen_model *model, uint32_t tensor,
                          enum pen_checkpoint_part part,
                          const struct pen_weights *weights,
                          const struct pen_weights *optimizer,
                          const struct pen_safetensor **out,
                          struct pen_text *why)
{
    struct pen_tensor_info info;
    if (part == PEN_CHECKPOINT_WEIGHT)
        return pen_weights_find_tensor(weights, model, tensor, out, why);
    pen_model_tensor(model, tensor, &info);
    return find_moment(&info, part, optimizer, out, why);
}

pen_status pen_checkpoint_find(const struct pen_checkpoint *checkpoint,
                               const struct pen_model *model, uint32_t tensor,
                               enum pen_checkpoint_part part,
                               const struct pen_safetensor **out,
                               struct pen_text *why)
{
    return pen__find_part(model, tensor, part, checkpoint->model,
                          checkpoint->optimizer, out, why);
}
