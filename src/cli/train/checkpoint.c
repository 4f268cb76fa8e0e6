#include "cli/train/checkpoint.h"

#include "base/log.h"
#include "runtime/trainer_checkpoint.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SHARD_BYTES ((uint64_t)5 << 30) /* as transformers cuts them */

/* Options that may change when a run is resumed without changing it. */
static const char *const free_options[] = {
    "model",
    "load",
    "random-weights",
    "train-iters",
    "save",
    "save-interval",
    "save-keep",
    "verify-interval",
    "checksum-messages",
    "mapping",
    "move",
    "log",
    "check",
    "log-interval",
    "probe",
    "probe-steps",
    "tensorboard-dir",
    "metrics-port",
    "eval-interval",
    "eval-iters",
    "recompute-granularity",
    "recompute-modules",
    "recompute-stages",
    "recompute-method",
    "recompute-num-layers",
    "pipeline-model-parallel-size",
    "num-virtual-stages-per-pipeline-rank",
    "pp",
    "vpp",
    "tensor-model-parallel-size",
    "tp",
    "stage-replicas",
    "slices",
    "context-parallel-size",
    "cp",
    "ep",
    "expert-model-parallel-size",
    "stage-layers",
    "replica-shares",
    "schedule",
    "use-distributed-optimizer",
    "sharding",
    "data-parallel-sharding-strategy",
    "sharding-group",
    "logical-replicas",
    "logical-tensor",
    "sync", /* these five are compared where they count */
    "sync-interval",
    "sync-option",
    "sync-replicas",
    "compress",
    "ring",
    "island",
    "key",
    "keys",
    "patience",
    "trace",
    "on-nan",
    "hang-timeout",
    "exit-duration-in-mins",
    "peak-tflops",
    "plan",
    "profile"};

/*
 * Options that are younger than checkpoints of 0.1.1, with the value that a
 * checkpoint without them means. Options with that value are not kept.
 */
static const struct {
    const char *name;
    double number; /* of flags: 0 */
    const char *word;
} young_options[] = {{"stale-after", 0, NULL},
                     {"stale-discount", 0, NULL},
                     {"predict-weights", 0, NULL},
                     {"muon-momentum", 0.95, NULL},
                     {"muon-plain-momentum", 0, NULL},
                     {"muon-adjust-lr", 0, "original"},
                     {"moe-aux-loss-coeff", 0, NULL},
                     {"moe-z-loss-coeff", 0, NULL},
                     {"moe-expert-capacity-factor", 0, NULL},
                     {"moe-router-bias-update-rate", 0, NULL},
                     {"sequence-parallel", 0, NULL},
                     {"sparsity", 0, NULL},
                     {"local-updates", 1, NULL},
                     {"late", 0, "discard"}};

static bool is_off(const char *name, const json_t *value)
{
    size_t i = 0, count = sizeof young_options / sizeof *young_options;
    while (i < count && strcmp(young_options[i].name, name) != 0)
        i++;
    if (i == count)
        return false;
    if (json_is_string(value))
        return young_options[i].word != NULL &&
               strcmp(json_string_value(value), young_options[i].word) == 0;
    double number = json_is_true(value) ? 1 : json_number_value(value);
    return fabs(number - young_options[i].number) < DBL_EPSILON;
}

bool pen__train_is_free(const char *name)
{
    for (size_t i = 0; i < sizeof free_options / sizeof *free_options; i++)
        if (strcmp(free_options[i], name) == 0)
            return true;
    return false;
}

/* Keeps the text of an option; a list is kept as its JSON. */
static pen_status set_text(struct pen_manifest *manifest, const char *name,
                           const json_t *value, struct pen_text *why)
{
    if (json_is_string(value))
        return pen_manifest_set_text(manifest, name, json_string_value(value),
                                     why);
    char *text = json_dumps(value, JSON_COMPACT);
    if (text == NULL)
        return PEN_NOMEM;
    pen_status status = pen_manifest_set_text(manifest, name, text, why);
    free(text);
    return status;
}

static pen_status set_setting(struct pen_manifest *manifest, const char *name,
                              const json_t *value, struct pen_text *why)
{
    if (json_is_boolean(value))
        return pen_manifest_set_flag(manifest, name, json_is_true(value), why);
    if (json_is_integer(value))
        return pen_manifest_set_integer(manifest, name,
                                        json_integer_value(value), why);
    if (json_is_real(value))
        return pen_manifest_set_number(manifest, name, json_real_value(value),
                                       why);
    return set_text(manifest, name, value, why);
}

/* Fills in all settings that the numbers of a run depend on. */
static pen_status set_settings(struct pen_manifest *manifest,
                               const struct pen__train_args *args,
                               struct pen_text *why)
{
    json_t *settings = pen__train_args_print(args);
    pen_status status = settings == NULL ? PEN_NOMEM : PEN_OK;
    const char *name;
    json_t *value;
    json_object_foreach(settings, name, value)
    {
        if (status == PEN_OK && !pen__train_is_free(name) &&
            !is_off(name, value))
            status = set_setting(manifest, name, value, why);
    }
    json_decref(settings);
    return status;
}

static pen_status set_command(struct pen_manifest *manifest,
                              const struct pen__train_args *args,
                              struct pen_text *why)
{
    json_t *options = pen__train_args_given(args);
    pen_status status =
        options == NULL
            ? PEN_NOMEM
            : pen_manifest_set_command(manifest, args->num_ranks, options, why);
    json_decref(options);
    return status;
}

pen_status pen__train_fill_manifest(void *args, struct pen_manifest *manifest,
                                    struct pen_text *why)
{
    pen_status status = set_settings(manifest, args, why);
    return status == PEN_OK ? set_command(manifest, args, why) : status;
}

bool pen__train_is_same_command(const struct pen__train_args *args,
                                const struct pen_manifest *manifest)
{
    uint32_t num_ranks;
    json_t *saved = pen_manifest_get_command(manifest, &num_ranks);
    json_t *given = pen__train_args_given(args);
    bool is_same = saved != NULL && given != NULL && json_equal(saved, given);
    json_decref(given);
    return is_same;
}

pen_status pen__train_saver_create(const struct pen__train_saver_wish *wish,
                                   struct pen_trainer *trainer,
                                   struct pen_checkpointer **out,
                                   struct pen_text *why)
{
    struct pen__train_args *args = wish->args;
    const struct pen_pretrained *pretrained = wish->pretrained;
    struct pen_checkpointer_options options = {
        .trainer = trainer,
        .run = args->save,
        .run_id = wish->run_id,
        .keep = {.count = (uint32_t)args->save_keep,
                 .has_loaded =
                     wish->loaded != NULL && !wish->loaded->is_in_memory},
        .tokenizer_folder = pretrained->directory.length > 0
                                ? pen_text_string(&pretrained->directory)
                                : NULL,
        .is_in_background = args->save_interval > 0,
        .max_shard_bytes = SHARD_BYTES,
        .describe = pen__train_fill_manifest,
        .context = args};
    if (wish->loaded != NULL)
        options.keep.loaded = wish->loaded->manifest.step;
    return pen_checkpointer_create(&options, out, why);
}

void pen__train_tell_loaded(const struct pen_pretrained *pretrained)
{
    static const char *const units[] = {"", " k", " M", " B"};
    double count = (double)pen_any_model_num_parameters(&pretrained->model);
    size_t unit = 0;
    while (count >= 999.5 && unit < 3) {
        count /= 1000;
        unit++;
    }
    pen_log(PEN_LOG_INFO, "loaded %.*f%s weights from %s",
            count < 9.995 && unit > 0 ? 1 : 0, count, units[unit],
            pen_text_string(&pretrained->directory));
}

static pen_status warn_of_changes(const struct pen__train_args *args,
                                  const struct pen_checkpoint *checkpoint,
                                  struct pen_text *why)
{
    struct pen_manifest wanted = {0};
    struct pen_text changes = PEN_TEXT_EMPTY;
    pen_status status = pen_manifest_init(&wanted, why);
    if (status == PEN_OK)
        status = set_settings(&wanted, args, why);
    if (status == PEN_OK &&
        pen_manifest_compare_settings(&checkpoint->manifest, &wanted,
                                      &changes) != PEN_OK)
        pen_log(PEN_LOG_WARN,
                "settings differ from %s, so this will be another run: %s",
                pen_text_string(&checkpoint->path), pen_text_string(&changes));
    pen_manifest_release(&wanted);
    pen_text_release(&changes);
    return status;
}

pen_status pen__train_resume(const struct pen__train_args *args,
                             const struct pen_checkpoint *checkpoint,
                             struct pen_trainer *trainer, bool is_telling,
                             struct pen_text *why)
{
    pen_status status =
        is_telling ? warn_of_changes(args, checkpoint, why) : PEN_OK;
    if (status == PEN_OK)
        status = pen_trainer_load(trainer, checkpoint, why);
    if (status == PEN_OK && is_telling)
        pen_log(PEN_LOG_INFO, "resuming after step %" PRIu64 " from %s",
                checkpoint->manifest.step, pen_text_string(&checkpoint->path));
    return status;
}
