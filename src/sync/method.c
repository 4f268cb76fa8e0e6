#include "sync/method.h"

#include <stdlib.h>
#include <string.h>

pen_status pen_sync_create(const struct pen_sync_method *method,
                           const struct pen_sync_setting *setting,
                           struct pen_sync **out, struct pen_text *why)
{
    struct pen_sync *sync = calloc(1, method->size);
    if (sync == NULL)
        return PEN_NOMEM;
    pen_status status = method->init(sync, setting, why);
    if (status == PEN_OK)
        *out = sync;
    else
        pen_sync_free(method, sync);
    return status;
}

void pen_sync_free(const struct pen_sync_method *method, struct pen_sync *sync)
{
    if (sync != NULL)
        method->release(sync);
    free(sync);
}

bool pen_sync_is_free(const struct pen_sync_method *method,
                      const struct pen_sync_values *options,
                      uint32_t num_replicas)
{
    return method->is_free == NULL ? (method->is & PEN_SYNC_IS_FREE) != 0
                                   : method->is_free(options, num_replicas);
}

struct pen_compression
pen_sync_compression(const struct pen_sync_setting *setting)
{
    return (struct pen_compression){.peers = setting->peers,
                                    .tensors = setting->tensors,
                                    .num_tensors = setting->num_tensors,
                                    .count = setting->count,
                                    .seed = setting->seed,
                                    .epoch_steps = setting->epoch_steps,
                                    .options = setting->compressor_options};
}

pen_status pen_sync_average(const struct pen_sync_setting *setting,
                            uint32_t channel, struct pen_average **out,
                            struct pen_text *why)
{
    struct pen_compression compression = pen_sync_compression(setting);
    return pen_average_create(&compression, setting->compressor, channel, out,
                              why);
}

pen_status pen_sync_plain_average(const struct pen_sync_setting *setting,
                                  uint32_t channel, struct pen_average **out,
                                  struct pen_text *why)
{
    struct pen_compression compression = pen_sync_compression(setting);
    return pen_average_create(&compression, NULL, channel, out, why);
}

void pen_sync_read_weights(const struct pen_sync_setting *setting, float *out)
{
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *it = &setting->tensors[i];
        memcpy(out + it->first, it->value, it->count * sizeof *out);
    }
}

void pen_sync_write_weights(const struct pen_sync_setting *setting,
                            const float *from)
{
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *it = &setting->tensors[i];
        memcpy(it->value, from + it->first, it->count * sizeof *from);
    }
}

void pen_sync_read_gradients(const struct pen_sync_setting *setting, float *out)
{
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *it = &setting->tensors[i];
        memcpy(out + it->first, it->gradient, it->count * sizeof *out);
    }
}

void pen_sync_write_gradients(const struct pen_sync_setting *setting,
                              const float *from)
{
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *it = &setting->tensors[i];
        memcpy(it->gradient, from + it->first, it->count * sizeof *from);
    }
}

void pen_sync_local_step(const struct pen_sync_setting *setting,
                         const struct pen_sync_step *at)
{
    setting->step(setting->context, at);
}

float *pen_sync_vector(const struct pen_sync_setting *setting)
{
    return calloc(setting->count + 1, sizeof(float));
}

pen_status pen_sync_vectors(const struct pen_sync_setting *setting,
                            float **const *places)
{
    for (size_t i = 0; places[i] != NULL; i++) {
        *places[i] = pen_sync_vector(setting);
        if (*places[i] == NULL)
            return PEN_NOMEM;
    }
    return PEN_OK;
}

void pen_sync_mean_weights(const struct pen_sync_setting *setting,
                           struct pen_average *plain, float *out)
{
    pen_sync_read_weights(setting, out);
    pen_average_start(plain, 0, out);
    pen_average_wait(plain);
}
