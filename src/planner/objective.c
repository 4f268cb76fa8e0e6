/*
 * A value is a fixed part and a rate, times the seconds of a step:
 *
 *   time     0             1
 *   energy   computing     idle watts of the devices
 *   cost     0             price of the devices, or their number
 *
 * Fixed part and rate do not depend on the schedule, so a bound of the seconds
 * is a bound of the value.
 */
#include "planner/objective.h"

#include "planner/energy.h"

const char *const pen_objective_names[PEN_OBJECTIVES + 1] = {
#define OBJECTIVE_NAME(name, word) word,
    PEN_OBJECTIVE_TABLE(OBJECTIVE_NAME) NULL};

static const struct pen_device *find_without_watts(const struct pen_cluster *it)
{
    for (uint32_t i = 0; i < it->num_groups; i++)
        if (it->groups[i].device.watts == 0)
            return &it->groups[i].device;
    return NULL;
}

pen_status pen_objective_check(enum pen_objective objective,
                               const struct pen_cluster *cluster,
                               struct pen_text *why)
{
    const struct pen_device *device = find_without_watts(cluster);
    if (objective != PEN_OBJECTIVE_ENERGY || device == NULL)
        return PEN_OK;
    pen_why(why,
            "the energy of %s is not known; give its 'watts' in the cluster "
            "file",
            device->kind);
    return PEN_INVALID;
}

/* With a price of all kinds or of none: plans are compared in one unit. */
static double cost_rate(const struct pen_cluster *cluster, uint64_t devices)
{
    for (uint32_t i = 0; i < cluster->num_groups; i++)
        if (cluster->groups[i].device.price_per_hour == 0)
            return (double)devices;
    return pen__rates_of(cluster, devices).price_per_hour / 3600;
}

double pen_objective_value(enum pen_objective objective,
                           const struct pen_cluster *cluster,
                           const struct pen_plan *plan,
                           const struct pen_prediction *prediction)
{
    if (objective == PEN_OBJECTIVE_ENERGY)
        return prediction->joules;
    return pen__objective_floor(objective, cluster, pen_plan_num_ranks(plan),
                                prediction->step_sec, 0);
}

double pen__objective_floor(enum pen_objective objective,
                            const struct pen_cluster *cluster, uint64_t devices,
                            double seconds, double busy_joules)
{
    switch (objective) {
    case PEN_OBJECTIVE_ENERGY:
        return busy_joules +
               seconds * pen__rates_of(cluster, devices).idle_watts;
    case PEN_OBJECTIVE_COST:
        return seconds * cost_rate(cluster, devices);
    case PEN_OBJECTIVE_TIME:
    case PEN_OBJECTIVES:
        break;
    }
    return seconds;
}
