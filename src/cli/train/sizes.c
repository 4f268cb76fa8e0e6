#include "cli/train/sizes.h"

#include "core/mesh.h"
#include "schedule/generators.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool pen__train_schedule_is_file(const char *text)
{
    return strchr(text, '.') != NULL || strchr(text, '/') != NULL ||
           (pen_generator_find(text) == NULL && access(text, F_OK) == 0);
}

/* Micro-batches of one update, where steps overlap. */
static uint64_t microbatches_of(const struct pen_schedule *schedule)
{
    uint64_t period = schedule->rules.period;
    return period != 0 ? period * schedule->shape.num_copies
                       : schedule->shape.num_microbatches;
}

static pen_status take_ranks(struct pen__train_args *args, uint32_t own,
                             uint32_t *num_ranks, struct pen_text *why)
{
    if (args->pipeline_size != 1 && args->pipeline_size != own) {
        pen_why(why,
                "--pipeline-model-parallel-size %" PRIu64
                ": %s is for %u ranks; leave the option out",
                args->pipeline_size, args->pipeline, own);
        return PEN_INVALID;
    }
    if (args->is_check && *num_ranks == 1)
        *num_ranks = own;
    if (*num_ranks % own != 0) {
        pen_why(why,
                "%s is for %u ranks, but this job has %u; start it with mpirun "
                "-n %u, or with a multiple of that for replicas",
                args->pipeline, own, *num_ranks, own);
        return PEN_INVALID;
    }
    args->pipeline_size = own;
    return PEN_OK;
}

static pen_status take_batch(struct pen__train_args *args, uint64_t own,
                             uint64_t num_replicas, struct pen_text *why)
{
    uint64_t batch = own * args->micro_batch_size * num_replicas;
    if (!args->has_global_batch)
        args->global_batch_size = batch;
    if (args->global_batch_size == batch)
        return PEN_OK;
    pen_why(why,
            "--global-batch-size %" PRIu64 ": %s has %" PRIu64
            " micro-batches, which makes %" PRIu64
            " with --micro-batch-size %" PRIu64 " and %" PRIu64
            " replica%s; leave the option out",
            args->global_batch_size, args->pipeline, own, batch,
            args->micro_batch_size, num_replicas, num_replicas == 1 ? "" : "s");
    return PEN_INVALID;
}

/* Takes the ranks of all stages, which are those of a pipeline. */
static pen_status take_replicas(struct pen__train_args *args,
                                struct pen_text *why)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    const char *text = args->replicas_text;
    uint64_t ranks = 0;
    pen_status status = pen_replicas_parse(text, strlen(text), args->replicas,
                                           &args->num_replicated, &reason);
    for (uint32_t i = 0; i < args->num_replicated; i++)
        ranks += args->replicas[i];
    if (status != PEN_OK)
        pen_why(why, "--stage-replicas %s: %s", text, pen_text_string(&reason));
    pen_text_release(&reason);
    if (status == PEN_OK && args->pipeline_size != 1 &&
        args->pipeline_size != ranks) {
        pen_why(why,
                "--stage-replicas %s are %" PRIu64 " ranks, but "
                "--pipeline-model-parallel-size is %" PRIu64 "; leave that out",
                text, ranks, args->pipeline_size);
        status = PEN_INVALID;
    }
    args->pipeline_size = ranks;
    return status;
}

pen_status pen__train_take_sizes(struct pen__train_args *args,
                                 uint32_t *num_ranks, struct pen_text *why)
{
    if (args->replicas_text != NULL) {
        if (args->plan == NULL &&
            (args->pipeline == NULL ||
             !pen__train_schedule_is_file(args->pipeline)))
            return take_replicas(args, why);
        pen_why(why,
                "--stage-replicas %s: %s has its own; leave the option out",
                args->replicas_text,
                args->plan != NULL ? args->plan : args->pipeline);
        return PEN_INVALID;
    }
    struct pen_schedule *schedule = NULL;
    if (args->plan != NULL || args->pipeline == NULL ||
        !pen__train_schedule_is_file(args->pipeline))
        return PEN_OK;
    pen_status status =
        pen_schedule_load_lowered(args->pipeline, &schedule, NULL, why);
    if (status != PEN_OK)
        return status;
    status = take_ranks(args, schedule->shape.num_ranks, num_ranks, why);
    struct pen_mesh mesh =
        pen_mesh_fill(PEN_MESH_PIPELINE_FIRST,
                      schedule->shape.num_ranks *
                          (uint32_t)(args->tensor_size * args->context_size),
                      *num_ranks);
    if (status == PEN_OK)
        status = take_batch(args, microbatches_of(schedule),
                            pen_mesh_num_replicas(&mesh), why);
    pen_schedule_free(schedule);
    return status;
}

/* ---- layers of each stage ---- */

bool pen__train_has_stages(const struct pen__train_args *args)
{
    return args->pipeline_size > 1 || args->stage_layers != NULL ||
           args->replica_shares != NULL;
}

/* The next number of a list with commas; false where there is none. */
static bool read_layers(const char **at, uint32_t *out)
{
    char *end;
    if (**at < '0' || **at > '9')
        return false;
    unsigned long number = strtoul(*at, &end, 10);
    if (number == 0 || number > PEN_MAX_STAGES ||
        (*end != '\0' && (*end != ',' || end[1] == '\0')))
        return false;
    *out = (uint32_t)number;
    *at = *end == ',' ? end + 1 : end;
    return true;
}

pen_status pen__train_set_sections(const struct pen_model *model,
                                   struct pen_layer_range *stages,
                                   uint32_t num_stages, struct pen_text *why)
{
    uint32_t sections = model->num_sections;
    uint32_t next = 0;
    if (sections <= 1)
        return PEN_OK;
    if (sections % num_stages != 0) {
        pen_why(why,
                "--local-updates %u: the %u stages of the pipeline need as "
                "many whole sections each; use a multiple of %u",
                sections, num_stages, num_stages);
        return PEN_INVALID;
    }
    for (uint32_t i = 0; i < num_stages; i++) {
        uint32_t last =
            pen_model_section_end(model, (i + 1) * (sections / num_stages) - 1);
        stages[i].first = next;
        stages[i].count = last + 1 - next;
        next = last + 1;
    }
    return PEN_OK;
}

pen_status pen__train_set_layers(const struct pen__train_args *args,
                                 struct pen_layer_range *stages,
                                 uint32_t num_stages, uint32_t num_layers,
                                 struct pen_text *why)
{
    const char *at = args->stage_layers;
    uint32_t count = 0;
    uint64_t next = 0;
    if (at == NULL)
        return PEN_OK;
    for (uint32_t number; *at != '\0'; count++) {
        if (!read_layers(&at, &number)) {
            pen_why(why,
                    "--stage-layers %s: expected a number of layers for each "
                    "stage with commas between them, as 13,3",
                    args->stage_layers);
            return PEN_INVALID;
        }
        if (count < num_stages) {
            stages[count].first = (uint32_t)next;
            stages[count].count = number;
        }
        next += number;
    }
    if (count == num_stages && next == num_layers)
        return PEN_OK;
    pen_why(why,
            "--stage-layers %s has %u stages and %" PRIu64 " layers, but the "
            "schedule has %u stages and the model %u layers",
            args->stage_layers, count, next, num_stages, num_layers);
    return PEN_INVALID;
}
