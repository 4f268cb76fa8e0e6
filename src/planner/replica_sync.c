#include "planner/replica_sync.h"

#include <math.h>

double pen_replica_device_rate(const struct pen_device *device)
{
    const double *constants = device->constants;
    if (constants[PEN_CONSTANT_UNITS] == 1) /* a processor */
        return PEN_REPLICA_CORE_RATE;
    return device->memory_bytes_per_sec * constants[PEN_CONSTANT_BYTES_SHARE] /
           2;
}

static bool is_done_by_trainer(const struct pen_sync_choice *choice)
{
    return (choice->method->is & PEN_SYNC_IS_NATIVE) != 0 &&
           choice->compressor == NULL;
}

/* Seconds that one synchronisation stalls computing. */
static double stall_of(const struct pen_replica_setting *setting,
                       const struct pen_replica_time *time)
{
    const struct pen_sync_cost *cost = &time->cost;
    double sync = time->sync_sec;
    if (is_done_by_trainer(&time->choice) && setting->has_stall)
        return setting->stall_sec;
    if (is_done_by_trainer(&time->choice)) {
        double last = setting->last_share * sync;
        return last + fmax(0, sync - last - setting->overlap_sec);
    }
    double waits = sync;
    if (cost->hidden > 0)
        waits -= cost->hidden * setting->compute_sec;
    double backlog = cost->bytes / setting->bytes_per_sec -
                     cost->interval * setting->compute_sec;
    return fmax(0, fmax(waits, backlog));
}

/* A leg is a message to each of the others, about. */
double pen_replica_latency(const struct pen_replica_setting *setting,
                           const struct pen_sync_cost *cost)
{
    double others = setting->num_replicas - 1.0;
    bool is_asked_for =
        setting->eager_bytes > 0 && cost->legs > 0 &&
        cost->bytes / cost->legs / others > setting->eager_bytes;
    return cost->legs * setting->latency_sec * (is_asked_for ? 3 : 1);
}

double pen_replica_kept_sec(const struct pen_replica_time *time)
{
    return time->goodput > 0 ? time->step_sec / time->goodput : INFINITY;
}

static struct pen_sync_case case_of(const struct pen_replica_setting *setting)
{
    return (struct pen_sync_case){.num_replicas = setting->num_replicas,
                                  .shapes = setting->shapes,
                                  .num_shapes = setting->num_shapes,
                                  .num_weights = setting->num_weights,
                                  .num_moments = setting->num_moments,
                                  .core_bytes_per_sec =
                                      setting->encode_bytes_per_sec};
}

static void set_times(const struct pen_replica_setting *setting,
                      struct pen_replica_time *out)
{
    const struct pen_sync_cost *cost = &out->cost;
    out->step_bytes = cost->bytes / cost->interval;
    out->stall_sec = stall_of(setting, out) / cost->interval;
    out->encode_sec = cost->encode_sec / cost->interval;
    out->step_sec = setting->compute_sec + out->stall_sec + out->encode_sec;
    out->samples_per_sec = setting->samples / out->step_sec;
}

void pen_replica_predict(const struct pen_replica_setting *setting,
                         const struct pen_sync_choice *choice,
                         struct pen_replica_time *out)
{
    const struct pen_sync_case of = case_of(setting);
    *out = (struct pen_replica_time){.choice = *choice, .goodput = 1};
    struct pen_sync_cost *cost = &out->cost;
    pen_sync_choice_cost(choice, &of, cost);
    out->sync_sec = pen_replica_latency(setting, cost) +
                    cost->bytes / setting->bytes_per_sec;
    if (is_done_by_trainer(choice) && setting->has_stall)
        out->sync_sec = setting->link_sec;
    set_times(setting, out);
}

#define RING_LEGS 10.0

/* Messages of compressors are gathered already, sums are halves of two ways. */
static double ring_bytes(const struct pen_replica_setting *setting,
                         const struct pen_replica_time *time, uint32_t islands)
{
    const struct pen_sync_choice *choice = &time->choice;
    double replicas = setting->num_replicas, bytes = time->cost.bytes;
    double gathered = choice->method->islands->compressor != NULL ? bytes : 0;
    if (choice->compressor != NULL) {
        const struct pen_sync_case of = case_of(setting);
        struct pen_mean_cost mean = {0};
        choice->compressor->cost(&of, &mean);
        gathered = fmin(mean.bytes, bytes);
    }
    double given = gathered / (replicas - 1) +
                   (bytes - gathered) * replicas / (2 * (replicas - 1));
    return (islands - 1) * given;
}

void pen_replica_use_ring(const struct pen_replica_setting *setting,
                          uint32_t islands, struct pen_replica_time *time)
{
    time->islands = islands;
    time->cost.bytes = ring_bytes(setting, time, islands);
    time->cost.legs = RING_LEGS;
    time->sync_sec = RING_LEGS * setting->latency_sec +
                     time->cost.bytes / setting->bytes_per_sec;
    set_times(setting, time);
}
