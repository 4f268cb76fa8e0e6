#include "sync/outer.h"

#include <stdlib.h>
#include <string.h>

/* ---- making ---- */

/* Returns the part that has the middle of a tensor. */
static uint32_t part_of(const struct pen_outer *outer,
                        const struct pen_sync_tensor *tensor)
{
    size_t middle = tensor->first + tensor->count / 2;
    return (uint32_t)(middle * outer->num_parts / outer->setting->count);
}

static void cut(struct pen_outer *outer)
{
    for (size_t i = 0; i < outer->setting->num_tensors; i++) {
        const struct pen_sync_tensor *tensor = &outer->setting->tensors[i];
        struct pen_outer_part *part = &outer->parts[part_of(outer, tensor)];
        if (part->num_tensors == 0) {
            part->first_tensor = i;
            part->first = tensor->first;
        }
        part->num_tensors++;
        part->count += tensor->count;
    }
}

static pen_status make_averages(struct pen_outer *outer, struct pen_text *why)
{
    const struct pen_sync_setting *setting = outer->setting;
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < outer->num_parts && status == PEN_OK; i++) {
        struct pen_outer_part *part = &outer->parts[i];
        struct pen_compression of = pen_sync_compression(setting);
        of.tensors += part->first_tensor;
        of.num_tensors = part->num_tensors;
        of.first_tensor = part->first_tensor;
        of.base = part->first;
        of.count = part->count;
        if (part->num_tensors > 0)
            status = pen_average_create(&of, setting->compressor,
                                        i * PEN_COLLECTIVE_CHANNELS,
                                        &part->average, why);
    }
    return status;
}

pen_status pen_outer_init(struct pen_outer *outer,
                          const struct pen_sync_setting *setting,
                          uint32_t num_parts, double lr, double momentum,
                          struct pen_text *why)
{
    *outer = (struct pen_outer){.setting = setting,
                                .lr = (float)lr,
                                .momentum = (float)momentum,
                                .num_parts = num_parts};
    outer->parts = calloc(num_parts, sizeof *outer->parts);
    pen_status status = PEN_NOMEM;
    if (outer->parts != NULL)
        status = pen_sync_vectors(
            setting,
            PEN_SYNC_VECTORS(&outer->theta, &outer->velocity, &outer->moved));
    if (status != PEN_OK)
        return status;
    cut(outer);
    pen_sync_read_weights(setting, outer->theta);
    return make_averages(outer, why);
}

void pen_outer_release(struct pen_outer *outer)
{
    for (uint32_t i = 0; i < outer->num_parts && outer->parts != NULL; i++)
        pen_average_free(outer->parts[i].average);
    free(outer->parts);
    free(outer->theta);
    free(outer->velocity);
    free(outer->moved);
}

size_t pen_outer_bytes(const struct pen_outer *outer)
{
    size_t bytes = 3 * outer->setting->count * sizeof(float);
    for (uint32_t i = 0; i < outer->num_parts; i++)
        if (outer->parts[i].average != NULL)
            bytes += pen_average_bytes(outer->parts[i].average);
    return bytes;
}

/* ---- steps ---- */

void pen_outer_give(const float *theta, const float *weights, size_t count,
                    float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = theta[i] - weights[i];
}

void pen_outer_island_give(struct pen_sync_island *it,
                           const struct pen_sync_step *at, float *out)
{
    const struct pen_sync_setting *setting = it->setting;
    (void)at;
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *tensor = &setting->tensors[i];
        pen_outer_give(it->theta + tensor->first, tensor->value, tensor->count,
                       out + tensor->first);
    }
}

void pen_outer_take(float lr, float momentum, const float *moved, size_t count,
                    float *theta, float *velocity)
{
    for (size_t i = 0; i < count; i++) {
        velocity[i] = momentum * velocity[i] + moved[i];
        theta[i] -= lr * (moved[i] + momentum * velocity[i]);
    }
}

void pen_outer_start(struct pen_outer *outer, uint32_t index, uint64_t step)
{
    const struct pen_outer_part *part = &outer->parts[index];
    if (part->average == NULL)
        return;
    for (size_t i = 0; i < part->num_tensors; i++) {
        const struct pen_sync_tensor *tensor =
            &outer->setting->tensors[part->first_tensor + i];
        pen_outer_give(outer->theta + tensor->first, tensor->value,
                       tensor->count, outer->moved + tensor->first);
    }
    pen_outer_send(outer, index, step);
}

void pen_outer_send(struct pen_outer *outer, uint32_t index, uint64_t step)
{
    const struct pen_outer_part *part = &outer->parts[index];
    if (part->average != NULL)
        pen_average_start(part->average, step, outer->moved + part->first);
}

bool pen_outer_has_come(struct pen_outer *outer, uint32_t index)
{
    struct pen_average *average = outer->parts[index].average;
    return average == NULL || pen_average_poll(average);
}

void pen_outer_step(struct pen_outer *outer, uint32_t index)
{
    const struct pen_outer_part *part = &outer->parts[index];
    if (part->average != NULL)
        pen_average_wait(part->average);
    pen_outer_take(outer->lr, outer->momentum, outer->moved + part->first,
                   part->count, outer->theta + part->first,
                   outer->velocity + part->first);
}

void pen_outer_apply(struct pen_outer *outer, uint32_t index, float mix)
{
    const struct pen_outer_part *part = &outer->parts[index];
    pen_outer_step(outer, index);
    for (size_t i = 0; i < part->num_tensors; i++) {
        const struct pen_sync_tensor *tensor =
            &outer->setting->tensors[part->first_tensor + i];
        const float *theta = outer->theta + tensor->first;
        for (size_t k = 0; k < tensor->count; k++)
            tensor->value[k] = theta[k] + mix * (tensor->value[k] - theta[k]);
    }
}

void pen_outer_poll(struct pen_outer *outer)
{
    for (uint32_t i = 0; i < outer->num_parts; i++)
        if (outer->parts[i].average != NULL)
            (void)pen_average_poll(outer->parts[i].average);
}

void pen_outer_settle(struct pen_outer *outer)
{
    for (uint32_t i = 0; i < outer->num_parts; i++)
        if (outer->parts[i].average != NULL)
            pen_average_wait(outer->parts[i].average);
}

/* ---- what others ask ---- */

void pen_outer_states(struct pen_outer *outer, struct pen_sync_states *out)
{
    size_t count = outer->setting->count;
    pen_sync_states_add_vector(out, "theta", true, outer->theta, count);
    pen_sync_states_add_vector(out, "outer_velocity", true, outer->velocity,
                               count);
    for (uint32_t i = 0; i < outer->num_parts; i++)
        if (outer->parts[i].average != NULL)
            pen_average_states(outer->parts[i].average, out);
}

void pen_outer_consistent(const struct pen_outer *outer, float *out)
{
    memcpy(out, outer->theta, outer->setting->count * sizeof *out);
}

void pen_outer_cost(const struct pen_sync_case *of,
                    const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    out->bytes = mean->bytes;
    out->legs = mean->legs;
    out->encode_sec = mean->encode_sec;
    out->extra = mean->extra + 3 * of->num_weights * sizeof(float);
    out->staleness = of->interval - 1.0;
    out->waits_for_slowest = true;
}
