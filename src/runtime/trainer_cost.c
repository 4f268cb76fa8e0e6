/*
 * What a step costs: operations, and bytes that are resident when it ends.
 */
#include "core/model_cost.h"
#include "runtime/trainer_internal.h"

#include <stdio.h>
#include <string.h>

double pen_trainer_step_flops(const struct pen_trainer *trainer)
{
    const struct pen_trainer_options *options = &trainer->options;
    return pen_model_step_flops(options->model, options->global_batch,
                                options->sequence);
}

/* A line of /proc/self/status, such as "VmHWM:    1234 kB"; 0 without it. */
static size_t status_bytes(const char *name)
{
    char line[256];
    size_t kilobytes = 0;
    FILE *file = fopen("/proc/self/status", "r");
    if (file == NULL)
        return 0;
    while (kilobytes == 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            sscanf(line + strlen(name), ": %zu kB", &kilobytes);
    fclose(file);
    return kilobytes * 1024;
}

size_t pen__resident_bytes(void)
{
    return status_bytes("VmRSS");
}

size_t pen_memory_peak(void)
{
    return status_bytes("VmHWM");
}

void pen_trainer_predict_memory(const struct pen_trainer *trainer,
                                const struct pen_batches *batches,
                                uint64_t num_samples,
                                struct pen_trainer_memory *out)
{
    struct pen_network_sizes sizes;
    pen_network_sizes(trainer->network, &sizes);
    struct pen_trainer_memory memory = {
        .program = trainer->base_bytes,
        .parameters = trainer->engine->ops->memory_bytes(trainer->engine),
        .activations = trainer->arena_bytes +
                       pen_network_scratch_bytes(trainer->network),
        .logits = sizes.logits,
        .data = pen_batches_bytes(batches, num_samples)};
    memory.total = memory.program + memory.parameters + memory.activations +
                   memory.data;
    *out = memory;
}
