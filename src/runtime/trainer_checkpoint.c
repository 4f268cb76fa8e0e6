#include "runtime/trainer_checkpoint.h"

#include "network/images.h"
#include "network/weights.h"
#include "runtime/trainer_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The parts of a tensor that are kept, here and in files; the first 1 + moments
 * of them.
 */
static const struct {
    enum pen_parameter_part in_engine;
    enum pen_checkpoint_part in_file;
} parts[] = {{PEN_PART_VALUE, PEN_CHECKPOINT_WEIGHT},
             {PEN_PART_MOMENT1, PEN_CHECKPOINT_MOMENT1},
             {PEN_PART_MOMENT2, PEN_CHECKPOINT_MOMENT2}};

/* Replicas have moments of their own elsewhere; see replicas_checkpoint.c. */
static int num_parts(const struct pen_trainer *trainer)
{
    return trainer->options.world != NULL
               ? 1
               : 1 + pen_optimizer_moments(&trainer->options.optimizer);
}

/* Moments are where the parameter is stepped. */
int pen__trainer_num_kept(const struct pen_trainer *trainer, uint32_t stage,
                          size_t parameter)
{
    if (trainer->options.world != NULL ||
        !pen_exchange_owns(trainer->exchange, stage, parameter))
        return 1;
    return 1 + pen_optimizer_moments_of(
                   &trainer->options.optimizer,
                   pen_executor_stage(trainer->executor, stage)->network,
                   parameter);
}

/* Bytes of the largest parameter as a plain array. */
static size_t tensor_bytes(const struct pen_trainer *trainer)
{
    size_t most = 1;
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++) {
        const struct pen_network *network =
            pen_executor_stage(trainer->executor, s)->network;
        for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
            const struct pen_network_parameter *it =
                pen_network_parameter(network, i);
            size_t count = pen_network_plain_count(it);
            most = count > most ? count : most;
        }
        for (size_t i = 0; i < pen_network_num_anchors(network); i++) {
            size_t count = pen_network_count(pen_network_anchor(network, i));
            most = count > most ? count : most;
        }
    }
    return most * sizeof(float);
}

static pen_status fill_parameter(struct pen_network *network,
                                 const struct pen_network_parameter *it,
                                 int count,
                                 const struct pen__trainer_source *source,
                                 float *plain, struct pen_text *why)
{
    for (int p = 0; p < count; p++) {
        for (size_t k = 0; k < it->num_slices; k++) {
            const struct pen_tensor_slice *slice = &it->slices[k];
            float *values = plain + slice->first;
            pen_status status = source->read(source->context, slice,
                                             parts[p].in_file, values, why);
            if (status == PEN_OK)
                status = pen_network_check_slice(network, slice, values, why);
            if (status != PEN_OK)
                return status;
        }
        pen_network_import(network, it, parts[p].in_engine, plain);
    }
    return PEN_OK;
}

pen_status pen__trainer_fill(struct pen_trainer *trainer,
                             const struct pen__trainer_source *source,
                             struct pen_text *why)
{
    float *plain = malloc(tensor_bytes(trainer));
    pen_status status = plain == NULL ? PEN_NOMEM : PEN_OK;
    for (uint32_t s = 0;
         s < pen_trainer_num_stages(trainer) && status == PEN_OK; s++) {
        struct pen_network *network = pen_trainer_network(trainer, s);
        for (size_t i = 0;
             i < pen_network_num_parameters(network) && status == PEN_OK; i++)
            status = fill_parameter(network, pen_network_parameter(network, i),
                                    pen__trainer_num_kept(trainer, s, i),
                                    source, plain, why);
        for (size_t i = 0;
             i < pen_network_num_anchors(network) && status == PEN_OK; i++)
            status = fill_parameter(network, pen_network_anchor(network, i), 1,
                                    source, plain, why);
    }
    free(plain);
    return status;
}

/* ---- out of a checkpoint ---- */

struct reader {
    const struct pen_trainer *trainer;
    const struct pen_checkpoint *checkpoint;
};

static pen_status read_slice(void *context,
                             const struct pen_tensor_slice *slice,
                             enum pen_checkpoint_part part, float *values,
                             struct pen_text *why)
{
    const struct reader *reader = context;
    const struct pen_safetensor *tensor;
    pen_status status =
        pen_checkpoint_find(reader->checkpoint, reader->trainer->options.model,
                            slice->tensor, part, &tensor, why);
    return status == PEN_OK ? pen_network_read_slice(slice, tensor, values, why)
                            : status;
}

static pen_status check_optimizer(const struct pen_trainer *trainer,
                                  const struct pen_checkpoint *checkpoint,
                                  struct pen_text *why)
{
    const struct pen_manifest *manifest = &checkpoint->manifest;
    const char *name = pen_optimizer_name(&trainer->options.optimizer);
    uint32_t num_moments = (uint32_t)num_parts(trainer) - 1;
    if (strcmp(manifest->optimizer, name) == 0 &&
        manifest->num_moments == num_moments)
        return PEN_OK;
    pen_why(why,
            "%s belongs to a run with the optimizer %s and %" PRIu32
            " moments per weight, but this run has %s and %" PRIu32
            "; to start a new run from its weights, give it as --model",
            pen_text_string(&checkpoint->path), manifest->optimizer,
            manifest->num_moments, name, num_moments);
    return PEN_INVALID;
}

static pen_status check_replicas(const struct pen_trainer *trainer,
                                 const struct pen_checkpoint *checkpoint,
                                 struct pen_text *why)
{
    struct pen_manifest_sync sync;
    bool has_own = trainer->options.world != NULL;
    if (pen_manifest_get_sync(&checkpoint->manifest, &sync) == has_own)
        return PEN_OK;
    if (has_own)
        pen_why(why, "%s belongs to a run without --sync",
                pen_text_string(&checkpoint->path));
    else
        pen_why(
            why, "%s belongs to a run of %" PRIu32 " replicas with --sync %s",
            pen_text_string(&checkpoint->path), sync.num_replicas, sync.method);
    pen_why(why, "; to start a new run from its weights, give it as --model");
    return PEN_INVALID;
}

pen_status pen_trainer_load(struct pen_trainer *trainer,
                            const struct pen_checkpoint *checkpoint,
                            struct pen_text *why)
{
    pen_status status = check_replicas(trainer, checkpoint, why);
    if (status == PEN_OK)
        status = check_optimizer(trainer, checkpoint, why);
    struct reader reader = {trainer, checkpoint};
    const struct pen__trainer_source source = {&reader, read_slice};
    if (status == PEN_OK)
        status = pen__trainer_fill(trainer, &source, why);
    for (uint32_t s = 0;
         s < pen_trainer_num_stages(trainer) && status == PEN_OK; s++)
        status = pen_network_load_statistics(pen_trainer_network(trainer, s),
                                             checkpoint->model, why);
    if (status == PEN_OK)
        trainer->progress = (struct pen_trainer_progress){
            checkpoint->manifest.step, checkpoint->manifest.sample};
    return status;
}
