#include "planner/device_order.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define MOST_EXACT 12u

struct halving {
    const double *links; /* (num_devices, num_devices) */
    uint32_t num_devices;
    uint32_t *part; /* devices that are halved; the first half stands first */
    uint32_t count;
    uint32_t half;
};

static double link_of(const struct halving *it, uint32_t a, uint32_t b)
{
    return it->links[(size_t)it->part[a] * it->num_devices + it->part[b]];
}

/* ---- all halves ---- */

/* Bandwidth between the members of a set and the others. */
static double cut_of(const struct halving *it, uint32_t set)
{
    double sum = 0;
    for (uint32_t a = 0; a < it->count; a++)
        for (uint32_t b = 0; b < a; b++)
            if ((set >> a & 1) != (set >> b & 1))
                sum += link_of(it, a, b);
    return sum;
}

static uint32_t size_of(uint32_t set)
{
    uint32_t size = 0;
    for (; set != 0; set &= set - 1)
        size++;
    return size;
}

static void halve_exactly(struct halving *it)
{
    uint32_t best = 0;
    double least = INFINITY;
    for (uint32_t set = 0; set < 1u << it->count; set++) {
        if (size_of(set) != it->half)
            continue;
        double cut = cut_of(it, set);
        if (cut < least) {
            least = cut;
            best = set;
        }
    }
    uint32_t sorted[MOST_EXACT];
    uint32_t first = 0;
    uint32_t second = it->half;
    for (uint32_t i = 0; i < it->count; i++)
        sorted[(best >> i & 1) != 0 ? first++ : second++] = it->part[i];
    for (uint32_t i = 0; i < it->count; i++)
        it->part[i] = sorted[i];
}

/* ---- exchanges ---- */

/* Bandwidth to the other half less that to its own. */
static double pull_of(const struct halving *it, uint32_t place)
{
    double pull = 0;
    for (uint32_t i = 0; i < it->count; i++)
        if (i != place)
            pull += (i < it->half) != (place < it->half)
                        ? link_of(it, place, i)
                        : -link_of(it, place, i);
    return pull;
}

/* The exchange that takes the most off the cut; false when none does. */
static bool exchange_best(struct halving *it, double *pulls)
{
    double best = 0;
    uint32_t from = 0;
    uint32_t to = 0;
    for (uint32_t i = 0; i < it->count; i++)
        pulls[i] = pull_of(it, i);
    for (uint32_t a = 0; a < it->half; a++) {
        for (uint32_t b = it->half; b < it->count; b++) {
            double gain = pulls[a] + pulls[b] - 2 * link_of(it, a, b);
            if (gain > best * (1 + 1e-12)) {
                best = gain;
                from = a;
                to = b;
            }
        }
    }
    uint32_t moved = it->part[from];
    it->part[from] = it->part[to];
    it->part[to] = moved;
    return best > 0;
}

static void halve(struct halving *it, double *pulls)
{
    if (it->half == 0 || it->half == it->count)
        return;
    if (it->count <= MOST_EXACT) {
        halve_exactly(it);
        return;
    }
    /* Each exchange shortens the cut; more are hardly ever needed. */
    for (uint32_t i = 0; i < 4 * it->count && exchange_best(it, pulls); i++)
        continue;
}

/* Where part i of so many begins. */
static uint32_t begin_of(uint32_t num_devices, uint32_t i, uint32_t parts)
{
    return (uint32_t)((uint64_t)num_devices * i / parts);
}

pen_status pen_device_order(const double *bytes_per_sec, uint32_t num_devices,
                            uint32_t *order, struct pen_text *why)
{
    if (num_devices == 0 || num_devices > PEN_DEVICE_ORDER_MAX) {
        pen_why(why, "%u devices; there must be 1 to %u", num_devices,
                PEN_DEVICE_ORDER_MAX);
        return PEN_INVALID;
    }
    double *pulls = calloc(num_devices, sizeof *pulls);
    if (pulls == NULL) {
        pen_why(why, "no memory for %u devices", num_devices);
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; i < num_devices; i++)
        order[i] = i;
    /* Parts of one size after the other: all, halves, quarters, ... */
    for (uint32_t parts = 1; parts < num_devices; parts *= 2) {
        for (uint32_t i = 0; i < parts; i++) {
            uint32_t begin = begin_of(num_devices, i, parts);
            struct halving it = {
                .links = bytes_per_sec,
                .num_devices = num_devices,
                .part = order + begin,
                .count = begin_of(num_devices, i + 1, parts) - begin,
                .half = begin_of(num_devices, 2 * i + 1, 2 * parts) - begin};
            halve(&it, pulls);
        }
    }
    free(pulls);
    return PEN_OK;
}
