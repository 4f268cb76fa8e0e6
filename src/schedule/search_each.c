/*
 * The search that others call: each placement by itself, with the work and the
 * random numbers that it would have alone, and the best of the results. A
 * search of several placements is therefore never worse than that of one of
 * them, unless a limit of seconds, which they share, ends it.
 */
#include "schedule/search_placement.h"
#include "schedule/search_problem.h"

#include <math.h>
#include <string.h>

#define MAX_CHUNKS (UINT8_MAX / PEN__ROLES) /* a type is a byte */

static const unsigned placements[] = {PEN_SEARCH_LINEAR, PEN_SEARCH_LOOP,
                                      PEN_SEARCH_V};
#define NUM_PLACEMENTS (sizeof placements / sizeof *placements)

/* The state of the search: the results so far. */
struct joint {
    const struct pen_search_args *args;
    unsigned wanted;            /* placements that are searched */
    unsigned count;             /* of them */
    unsigned done;              /* of them */
    struct pen_schedule *found; /* NULL: nothing yet */
    struct pen_search_report report;
    double least;           /* memory that could work */
    struct pen_text reason; /* why a placement was left out */
};

/* Progress of one placement as progress of all. */
static void report_progress_of_all(const struct pen_search_progress *progress,
                                   void *context)
{
    const struct joint *joint = context;
    struct pen_search_progress all = *progress;
    if (joint->found != NULL)
        all.span_sec = fmin(all.span_sec, joint->report.span_sec);
    all.done = (joint->done + progress->done) / joint->count;
    joint->args->on_progress(&all, joint->args->context);
}

static bool is_shorter(double span_a, double makespan_a, double span_b,
                       double makespan_b)
{
    return span_a != span_b ? span_a < span_b : makespan_a < makespan_b;
}

/* Keeps the better one of the published schedules. */
static void take_start(struct pen_search_report *best,
                       const struct pen_search_report *it)
{
    bool is_first = best->start[0] == '\0';
    if (it->start[0] == '\0' ||
        (!is_first &&
         !is_shorter(it->start_span_sec, it->start_makespan_sec,
                     best->start_span_sec, best->start_makespan_sec)))
        return;
    memcpy(best->start, it->start, sizeof best->start);
    best->start_span_sec = it->start_span_sec;
    best->start_makespan_sec = it->start_makespan_sec;
}

/* Keeps the better one of the schedules, and frees the other. */
static void take(struct joint *joint, struct pen_schedule *schedule,
                 const struct pen_search_report *it)
{
    struct pen_search_report *best = &joint->report;
    take_start(best, it);
    best->rules_tried += it->rules_tried;
    best->moves_tried += it->moves_tried;
    best->lower_bound_sec = fmin(best->lower_bound_sec, it->lower_bound_sec);
    if (joint->found != NULL &&
        !is_shorter(it->span_sec, it->makespan_sec, best->span_sec,
                    best->makespan_sec)) {
        pen_schedule_free(schedule);
        return;
    }
    pen_schedule_free(joint->found);
    joint->found = schedule;
    best->span_sec = it->span_sec;
    best->makespan_sec = it->makespan_sec;
    best->is_start = it->is_start;
}

/* Searches one placement; INVALID and INFEASIBLE leave it out. */
static pen_status search_one(struct joint *joint, unsigned placement)
{
    struct pen_search_args args = *joint->args;
    struct pen_search_report report;
    struct pen_schedule *schedule = NULL;
    double least = INFINITY;
    args.placements = placement;
    args.seconds /= joint->count;
    if (args.on_progress != NULL) {
        args.on_progress = report_progress_of_all;
        args.context = joint;
    }
    pen_text_clear(&joint->reason);
    pen_status status = pen__search_placement(&args, &schedule, &report, &least,
                                              &joint->reason);
    joint->least = fmin(joint->least, least);
    if (status == PEN_OK)
        take(joint, schedule, &report);
    return status == PEN_NOMEM ? status : PEN_OK;
}

static pen_status search_all(struct joint *joint, struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (size_t i = 0; i < NUM_PLACEMENTS && status == PEN_OK; i++) {
        if ((joint->wanted & placements[i]) == 0)
            continue;
        status = search_one(joint, placements[i]);
        joint->done++;
    }
    bool is_known = isfinite(joint->least);
    if (status == PEN_OK && joint->wanted == PEN_SEARCH_ANY && is_known)
        status = search_one(joint, PEN__SEARCH_REST);
    if (status != PEN_OK || joint->found != NULL)
        return status;
    if (!is_known) { /* the costs fit none of the placements */
        pen_why(why, "%s", pen_text_string(&joint->reason));
        return PEN_INVALID;
    }
    pen_why(why, "no schedule fits in %g A; a single micro-batch needs %g",
            joint->args->memory_limit, joint->least);
    return PEN_INFEASIBLE;
}

static pen_status check_args(const struct pen_search_args *args,
                             struct pen_text *why)
{
    if (args->ranks == 0 || args->microbatches == 0) {
        pen_why(why, "the search needs at least 1 stage and 1 micro-batch");
        return PEN_INVALID;
    }
    if (args->chunks > MAX_CHUNKS || args->ranks > PEN_MAX_STAGES) {
        pen_why(why, "the search supports up to %u ranks and %u chunks",
                PEN_MAX_STAGES, MAX_CHUNKS);
        return PEN_INVALID;
    }
    if ((args->placements & ~(unsigned)PEN_SEARCH_ANY) != 0) {
        pen_why(why, "the search supports the placements linear, loop and v");
        return PEN_INVALID;
    }
    return PEN_OK;
}

pen_status pen_schedule_search(const struct pen_search_args *args,
                               struct pen_schedule **out,
                               struct pen_search_report *report,
                               struct pen_text *why)
{
    pen_status status = check_args(args, why);
    if (status != PEN_OK)
        return status;
    struct joint joint = {.args = args,
                          .wanted = args->placements == 0 ? PEN_SEARCH_ANY
                                                          : args->placements,
                          .report = {.lower_bound_sec = INFINITY},
                          .least = INFINITY};
    for (size_t i = 0; i < NUM_PLACEMENTS; i++)
        joint.count += (joint.wanted & placements[i]) != 0;
    status = search_all(&joint, why);
    if (status == PEN_OK) {
        *out = joint.found;
        if (report != NULL)
            *report = joint.report;
    } else {
        pen_schedule_free(joint.found);
    }
    pen_text_release(&joint.reason);
    return status;
}
