#include "planner/energy.h"

struct pen__rates pen__rates_of(const struct pen_cluster *cluster,
                                uint64_t count)
{
    struct pen__rates rates = {.idle_watts = 0};
    bool has_watts = true;
    bool has_price = true;
    for (uint32_t i = 0; i < cluster->num_groups && count > 0; i++) {
        const struct pen_device *device = &cluster->groups[i].device;
        uint64_t taken = cluster->groups[i].count;
        if (taken > count)
            taken = count;
        rates.idle_watts += (double)taken * pen_device_idle_watts(device);
        rates.price_per_hour += (double)taken * device->price_per_hour;
        has_watts = has_watts && device->watts > 0;
        has_price = has_price && device->price_per_hour > 0;
        count -= taken;
    }
    if (!has_watts)
        rates.idle_watts = 0;
    if (!has_price)
        rates.price_per_hour = 0;
    return rates;
}

void pen__energy_start(const struct pen_setting *setting,
                       const struct pen_plan *plan,
                       struct pen_prediction *prediction)
{
    struct pen__rates rates =
        pen__rates_of(setting->cluster, pen_plan_num_ranks(plan));
    prediction->busy_sec = 0;
    prediction->joules = rates.idle_watts * prediction->step_sec;
    prediction->price = rates.price_per_hour * prediction->step_sec / 3600;
}

void pen__energy_add(const struct pen_setting *setting,
                     const struct pen_plan *plan, uint32_t rank,
                     double busy_sec, struct pen_prediction *prediction)
{
    const struct pen_cluster *cluster = setting->cluster;
    uint64_t size = pen_plan_num_ranks(plan) / plan->degrees[PEN_DEGREE_PP];
    uint64_t first = rank * size;
    uint64_t end = first + size;
    uint64_t begin = 0;
    prediction->busy_sec += (double)size * busy_sec;
    if (prediction->joules == 0)
        return;
    for (uint32_t i = 0; i < cluster->num_groups && begin < end; i++) {
        const struct pen_device *device = &cluster->groups[i].device;
        uint64_t from = begin > first ? begin : first;
        begin += cluster->groups[i].count;
        uint64_t to = begin < end ? begin : end;
        if (from < to)
            prediction->joules +=
                (double)(to - from) * busy_sec *
                (device->watts - pen_device_idle_watts(device));
    }
}
