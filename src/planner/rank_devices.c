#include "planner/rank_devices.h"

#include "planner/operations.h"

struct pen__rank_devices pen__devices_from(const struct pen_setting *setting,
                                           uint64_t first, uint64_t count)
{
    const struct pen_cluster *cluster = setting->cluster;
    struct pen__rank_devices out = {.memory_bytes = setting->memory_limit};
    uint64_t begin = 0;
    double least = -1;
    for (uint32_t i = 0; i < cluster->num_groups; i++) {
        const struct pen_device *device = &cluster->groups[i].device;
        uint64_t end = begin + cluster->groups[i].count;
        if (begin < first + count && first < end) {
            double peak = pen_device_peak(device, setting->number);
            if (least < 0 || peak < least) {
                least = peak;
                out.slowest = i;
            }
            if (out.memory_bytes == 0 ||
                device->memory_bytes < out.memory_bytes)
                out.memory_bytes = device->memory_bytes;
        }
        begin = end;
    }
    return out;
}

double pen__devices_peak(const struct pen_setting *setting, uint64_t count)
{
    const struct pen_cluster *cluster = setting->cluster;
    double sum = 0;
    for (uint32_t i = 0; i < cluster->num_groups && count > 0; i++) {
        uint64_t taken = cluster->groups[i].count;
        if (taken > count)
            taken = count;
        sum += (double)taken *
               pen_device_peak(&cluster->groups[i].device, setting->number);
        count -= taken;
    }
    return sum;
}

struct pen__rank_devices pen__devices_of(const struct pen_setting *setting,
                                         const struct pen_plan *plan,
                                         uint32_t rank)
{
    uint64_t size = pen_plan_num_ranks(plan) / plan->degrees[PEN_DEGREE_PP];
    return pen__devices_from(setting, rank * size, size);
}
