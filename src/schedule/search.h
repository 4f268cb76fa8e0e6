#ifndef PEN_SCHEDULE_SEARCH_H
#define PEN_SCHEDULE_SEARCH_H

#include "schedule/costs.h"
#include "schedule/schedule.h"

/*
 * Finds a schedule for given costs and memory. It starts from the best of all
 * generators (which is also the worst it can return) and of a list scheduler,
 * and improves by moves that keep the schedule legal.
 *
 * It minimises the span, then the makespan (time.h).
 */

/* Placements to search, as bits; 0 means all of them. */
enum pen_search_placements {
    PEN_SEARCH_LINEAR = 1,
    PEN_SEARCH_LOOP = 2,
    PEN_SEARCH_V = 4,
    PEN_SEARCH_ANY = 7
};

struct pen_search_progress {
    double span_sec; /* best so far */
    double done;     /* share of the work, 0 to 1 */
};

struct pen_search_args {
    uint32_t ranks;
    uint32_t microbatches;
    unsigned placements; /* enum pen_search_placements, joined */
    uint32_t chunks;     /* of the loop; 0: 2 */
    double memory_limit; /* in A; 0: none */
    bool has_memory;     /* the user named the memory of the ops */
    const struct pen_costs *costs;
    uint32_t send_window; /* 0: the default */
    double effort;        /* share of the usual work; 0: 1 */
    double seconds;       /* stop after this time; 0: only by the work */
    uint64_t seed;
    /* May be NULL. Called now and then, never from another thread. */
    void (*on_progress)(const struct pen_search_progress *progress,
                        void *context);
    void *context;
};

struct pen_search_report {
    char start[PEN_SCHEDULE_NAME_MAX +
               1];         /* best generator; "" when none fits */
    double start_span_sec; /* 0 when none fits */
    double start_makespan_sec;
    double span_sec;
    double makespan_sec;
    /* No schedule that the search can make is below. A published one may be:
     * one that moves activations, or with other chunks or several copies. */
    double lower_bound_sec;
    uint64_t rules_tried; /* candidates of the list scheduler */
    uint64_t moves_tried;
    bool is_start; /* the generator's schedule was not improved */
};

/*
 * Searches a schedule, which is lowered and verified, within the limit. The
 * same arguments give the same schedule, and a search of several placements is
 * not worse than that of one of them, unless `seconds` ends the search.
 * PEN_INFEASIBLE when nothing within the limit was found: why says the least
 * that could work. Free *out with pen_schedule_free().
 */
pen_status pen_schedule_search(const struct pen_search_args *args,
                               struct pen_schedule **out,
                               struct pen_search_report *report,
                               struct pen_text *why);

#endif
