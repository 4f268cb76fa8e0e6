/*
 * penstock checkpoint reshard and export: a step in other files.
 */
#include "cli/files/checkpoint.h"

#include "base/log.h"
#include "checkpoint/rewrite.h"
#include "cli/program/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void report(void *context, uint64_t done, uint64_t total)
{
    pen__progress_update(context, done, total, NULL);
}

pen_status pen__step_open(struct pen__step *step, const char *path,
                          struct pen_text *why)
{
    *step = (struct pen__step){.watch = {report, &step->progress}};
    pen__progress_init(&step->progress, "bytes");
    pen_status status =
        pen_checkpoint_open(path, &step->watch, &step->checkpoint, why);
    if (status != PEN_OK)
        return status;
    pen__warn_skipped(step->checkpoint);
    return pen_any_model_load(&step->model,
                              pen_text_string(&step->checkpoint->path), why);
}

pen_status pen__step_add_heads(struct pen__step *step, struct pen_text *why)
{
    uint32_t sections = pen_weights_num_sections(step->checkpoint->model);
    return step->model.decoder == NULL
               ? PEN_OK
               : pen_model_add_local_heads(step->model.decoder, sections, why);
}

void pen__step_close(struct pen__step *step)
{
    pen__progress_finish(&step->progress);
    pen_any_model_release(&step->model);
    pen_checkpoint_close(step->checkpoint);
}

bool pen__parse_size(const char *text, uint64_t *out)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {{"", 1},
                 {"B", 1},
                 {"kB", 1000},
                 {"KB", 1000},
                 {"MB", 1000000},
                 {"GB", 1000000000},
                 {"KiB", UINT64_C(1) << 10},
                 {"MiB", UINT64_C(1) << 20},
                 {"GiB", UINT64_C(1) << 30}};
    size_t length = strspn(text, "0123456789");
    if (length == 0 || length > 9)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(text + length, units[i].name) != 0)
            continue;
        *out = strtoull(text, NULL, 10) * units[i].bytes;
        return true;
    }
    return false;
}

int pen__checkpoint_reshard(const struct pen__checkpoint_args *args)
{
    struct pen__step step;
    struct pen_text why = PEN_TEXT_EMPTY;
    uint64_t number = 0;
    pen_status status = pen__step_open(&step, args->paths.words[0], &why);
    if (status == PEN_OK)
        status = pen__step_add_heads(&step, &why);
    if (status == PEN_OK) {
        number = step.checkpoint->manifest.step;
        status =
            pen_checkpoint_reshard(step.checkpoint, &step.model, args->output,
                                   args->max_shard_bytes, &why);
    }
    pen__step_close(&step);
    int code = status == PEN_OK ? PEN__EXIT_OK : pen__refuse_as(status, &why);
    if (status == PEN_OK)
        printf("%s/step-%08" PRIu64 "\n", args->output, number);
    pen_text_release(&why);
    return code;
}

int pen__checkpoint_export(const struct pen__checkpoint_args *args)
{
    struct pen__step step;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = pen__step_open(&step, args->paths.words[0], &why);
    if (status == PEN_OK)
        status = pen_checkpoint_export(
            step.checkpoint, &step.model, args->output,
            args->is_bf16 ? PEN_DTYPE_BF16 : PEN_DTYPE_F32,
            args->max_shard_bytes, &why);
    pen__step_close(&step);
    int code = status == PEN_OK ? PEN__EXIT_OK : pen__refuse_as(status, &why);
    if (status == PEN_OK)
        printf("%s\n", args->output);
    pen_text_release(&why);
    return code;
}
