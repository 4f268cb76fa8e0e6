/*
 * What a step costs: operations, and bytes that are resident when it ends.
 */
#include "core/model_cost.h"
#include "runtime/trainer_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

double pen_trainer_step_flops(const struct pen_trainer *trainer)
{
    const struct pen_trainer_options *options = &trainer->options;
    return pen_model_step_flops(options->model, options->global_batch,
                                options->sequence);
}

/*
 * A line of /proc/self/status, such as "VmHWM:    1234 kB"; 0 without it. Read
 * without stdio, for it is asked between steps. (getrusage() would tell the
 * peak too, but of the program that started us if that was larger.)
 */
static size_t status_bytes(const char *name)
{
    char text[4096];
    int handle = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (handle < 0)
        return 0;
    ssize_t length = read(handle, text, sizeof text - 1);
    close(handle);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    const char *line = strstr(text, name);
    if (line == NULL)
        return 0;
    return (size_t)strtoull(line + strlen(name), NULL, 10) * 1024;
}

size_t pen_memory_peak(void)
{
    return status_bytes("\nVmHWM:");
}

/*
 * All that is accounted for is resident already, but for the data: what else
 * is resident now is the program with its libraries.
 */
void pen_trainer_predict_memory(const struct pen_trainer *trainer,
                                const struct pen_batches *batches,
                                uint64_t num_samples,
                                struct pen_trainer_memory *out)
{
    struct pen_network_sizes sizes;
    pen_network_sizes(trainer->network, &sizes);
    struct pen_trainer_memory memory = {
        .parameters = trainer->engine->ops->memory_bytes(trainer->engine),
        .activations =
            trainer->arena_bytes + pen_network_scratch_bytes(trainer->network),
        .logits = sizes.logits,
        .data = pen_batches_bytes(batches, num_samples)};
    size_t resident = status_bytes("\nVmRSS:");
    size_t known = memory.parameters + memory.activations;
    memory.program = resident > known ? resident - known : 0;
    memory.total = known + memory.program + memory.data;
    size_t before = pen_memory_peak();
    memory.total = before > memory.total ? before : memory.total;
    *out = memory;
}
