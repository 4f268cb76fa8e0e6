/* The description of a timed schedule, as several commands print it. */
#include "cli/schedule/schedule.h"

struct pen__summary pen__summarise(const struct pen_timing *timing)
{
    struct pen__summary summary = {.fullest = 0};
    for (uint32_t r = 0; r < timing->num_ranks; r++) {
        if (timing->ranks[r].peak > timing->ranks[summary.fullest].peak)
            summary.fullest = r;
        if (timing->ranks[r].versions > summary.versions)
            summary.versions = timing->ranks[r].versions;
    }
    summary.peak = timing->ranks[summary.fullest].peak;
    return summary;
}

json_t *pen__timing_json(const struct pen_timing *timing)
{
    json_t *ranks = json_array();
    for (uint32_t r = 0; r < timing->num_ranks; r++) {
        const struct pen_rank_time *rank = &timing->ranks[r];
        pen__json_append(
            &ranks, json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:I}", "rank",
                              (json_int_t)r, "start", rank->start_sec, "end",
                              rank->end_sec, "busy", rank->busy_sec, "idle",
                              rank->idle_sec, "peak_activations", rank->peak,
                              "versions", (json_int_t)rank->versions));
    }
    struct pen__summary summary = pen__summarise(timing);
    return json_pack("{s:f, s:f, s:f, s:f, s:I, s:I, s:o}", "makespan",
                     timing->makespan_sec, "span", timing->span_sec, "bubble",
                     timing->bubble, "peak_activations", summary.peak,
                     "fullest_rank", (json_int_t)summary.fullest, "versions",
                     (json_int_t)summary.versions, "ranks", ranks);
}
