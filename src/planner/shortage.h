#ifndef PEN_PLANNER_SHORTAGE_H
#define PEN_PLANNER_SHORTAGE_H

#include "planner/search.h"

/*
 * For a setting in which no layout fits into memory: the layout that needs the
 * least of its devices, how many devices would be enough, and whether the
 * devices there are would be with the optimizer's state on the host.
 */
struct pen_shortage {
    struct pen_candidate candidate; /* the leanest layout */
    uint64_t needed_bytes;          /* of its tightest device */
    double margin;                  /* share of it that must be free, too */
    uint64_t offered_bytes;         /* by that device, within the limit */
    /*
     * Devices for which the search finds a plan, in whole nodes above one. 0:
     * it finds no plan up to most_devices, or the cluster has several kinds and
     * may grow by any.
     */
    uint64_t enough_devices;
    uint64_t most_devices; /* that were tried; 0: none were */
    double offloaded_sec;  /* a step with the state on the host; 0: no plan */
};

/* False when there is no layout at all, one fits, or memory runs out. */
bool pen_shortage_find(const struct pen_setting *setting,
                       const struct pen_candidate_filter *filter,
                       struct pen_shortage *out);

/* "75.0 GiB + 10 % = 82.5 GiB > 79.6 GiB of a device". */
void pen_shortage_print_sum(uint64_t needed_bytes, double margin,
                            uint64_t offered_bytes, struct pen_text *out);

/* "the leanest, tp 8 ..., needs 75.0 GiB + 10 % = 82.5 GiB > 79.6 GiB". */
void pen_shortage_print(const struct pen_shortage *shortage,
                        struct pen_text *out);

#endif
