#include "runtime/pretrained.h"

#include <sys/stat.h>
#include <unistd.h>

static bool is_directory(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool has_file(const char *directory, const char *name)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/%s", directory, name);
    bool is_there = access(pen_text_string(&path), F_OK) == 0;
    pen_text_release(&path);
    return is_there;
}

static pen_status open_checkpoint(struct pen_pretrained *pretrained,
                                  const char *source, struct pen_text *why)
{
    pen_status status =
        pen_checkpoint_open(source, NULL, &pretrained->checkpoint, why);
    if (status != PEN_OK)
        return status;
    const struct pen_checkpoint *checkpoint = pretrained->checkpoint;
    pretrained->weights = checkpoint->model;
    pen_text_add_string(&pretrained->directory,
                        pen_text_string(&checkpoint->path));
    return pen_any_model_load(&pretrained->model,
                              pen_text_string(&checkpoint->path), why);
}

static pen_status open_plain(struct pen_pretrained *pretrained,
                             const char *source, struct pen_text *why)
{
    pen_status status = pen_any_model_load(&pretrained->model, source, why);
    if (status != PEN_OK || !is_directory(source))
        return status;
    pen_text_add_string(&pretrained->directory, source);
    if (!has_file(source, "model.safetensors") &&
        !has_file(source, "model.safetensors.index.json"))
        return PEN_OK;
    status = pen_weights_open(source, &pretrained->opened, why);
    pretrained->weights = pretrained->opened;
    return status;
}

pen_status pen_pretrained_open(struct pen_pretrained *pretrained,
                               const char *source, struct pen_text *why)
{
    *pretrained = (struct pen_pretrained){0};
    pen_status status = pen_checkpoint_kind_of(source) == PEN_CHECKPOINT_NONE
                            ? open_plain(pretrained, source, why)
                            : open_checkpoint(pretrained, source, why);
    if (status != PEN_OK)
        pen_pretrained_release(pretrained);
    return status;
}

void pen_pretrained_close_weights(struct pen_pretrained *pretrained)
{
    pen_weights_close(pretrained->opened);
    pen_checkpoint_close(pretrained->checkpoint);
    pretrained->opened = NULL;
    pretrained->checkpoint = NULL;
    pretrained->weights = NULL;
}

void pen_pretrained_release(struct pen_pretrained *pretrained)
{
    pen_pretrained_close_weights(pretrained);
    pen_any_model_release(&pretrained->model);
    pen_text_release(&pretrained->directory);
    *pretrained = (struct pen_pretrained){0};
}
