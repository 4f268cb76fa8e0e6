#include "schedule/time.h"

#include "base/bug.h"
#include "schedule/extrapolate.h"
#include "schedule/machine.h"
#include "schedule/memory.h"
#include "schedule/path.h"

#include <math.h>
#include <stdlib.h>

struct pen_timer {
    const struct pen_schedule *schedule; /* borrowed */
    struct pen__program *program;        /* with loops */
    uint32_t *versions;                  /* per rank */
    bool has_moves;
};

void pen_timing_free(struct pen_timing *timing)
{
    if (timing == NULL)
        return;
    for (uint32_t rank = 0; rank < timing->num_ranks; rank++) {
        if (timing->ops != NULL)
            free(timing->ops[rank]);
        if (timing->curves != NULL)
            free(timing->curves[rank].points);
    }
    free(timing->ops);
    free(timing->curves);
    free(timing->path);
    free(timing->ranks);
    free(timing);
}

void pen_timer_free(struct pen_timer *timer)
{
    if (timer == NULL)
        return;
    pen__program_free(timer->program);
    free(timer->versions);
    free(timer);
}

static uint32_t versions_of(const struct pen_schedule *schedule, uint32_t rank)
{
    bool is_versioned =
        schedule->rules.versions != 0 || schedule->rules.period != 0;
    return is_versioned ? pen__row_versions(schedule, rank) : 1;
}

pen_status pen_timer_create(const struct pen_schedule *schedule,
                            uint32_t send_window, struct pen_timer **out,
                            struct pen_text *why)
{
    uint32_t p = schedule->shape.num_ranks;
    struct pen_timer *timer = calloc(1, sizeof *timer);
    if (timer == NULL)
        goto fail;
    timer->schedule = schedule;
    timer->versions = calloc(p, sizeof *timer->versions);
    if (timer->versions == NULL)
        goto fail_timer;
    for (uint32_t rank = 0; rank < p; rank++)
        timer->versions[rank] = versions_of(schedule, rank);
    timer->has_moves = pen_schedule_has_class(schedule, PEN_OP_CLASS_MOVE);
    pen_status status =
        pen__program_create(schedule, send_window, true, &timer->program, why);
    if (status != PEN_OK) {
        pen_timer_free(timer);
        return status;
    }
    *out = timer;
    return PEN_OK;

fail_timer:
    free(timer);
fail:
    pen_why(why, "out of memory for timing");
    return PEN_NOMEM;
}

/*
 * Computes start, end and busy time of every rank, and the figures derived from
 * them.
 */
static void summarise(struct pen_timing *timing, const struct pen__run *run)
{
    double per_sec = run->ticks->per_sec;
    int64_t first = INT64_MAX;
    int64_t last = 0;
    int64_t span = 0;
    int64_t busiest = 0;
    for (uint32_t rank = 0; rank < timing->num_ranks; rank++) {
        const struct pen__rank_state *state = &run->ranks[rank];
        struct pen_rank_time *time = &timing->ranks[rank];
        int64_t start = state->first < 0 ? 0 : state->first;
        time->start_sec = (double)start / per_sec;
        time->end_sec = (double)state->last / per_sec;
        time->busy_sec = (double)state->busy / per_sec;
        if (state->first < 0)
            continue;
        first = start < first ? start : first;
        last = state->last > last ? state->last : last;
        span = state->last - start > span ? state->last - start : span;
        busiest = state->busy > busiest ? state->busy : busiest;
    }
    int64_t makespan = first == INT64_MAX ? 0 : last - first;
    timing->makespan_sec = (double)makespan / per_sec;
    timing->span_sec = (double)span / per_sec;
    timing->bubble = span == 0 ? 0 : (double)(span - busiest) / (double)span;
    for (uint32_t rank = 0; rank < timing->num_ranks; rank++)
        timing->ranks[rank].idle_sec =
            (double)(makespan - run->ranks[rank].busy) / per_sec;
}

static pen_status create_timing(uint32_t num_ranks, struct pen_timing **out)
{
    struct pen_timing *timing = calloc(1, sizeof *timing);
    if (timing == NULL)
        return PEN_NOMEM;
    timing->num_ranks = num_ranks;
    timing->ranks = calloc(num_ranks, sizeof *timing->ranks);
    if (timing->ranks == NULL) {
        free(timing);
        return PEN_NOMEM;
    }
    *out = timing;
    return PEN_OK;
}

static pen_status fill_ops(struct pen_timing *timing,
                           const struct pen_schedule *schedule,
                           const struct pen__run *run)
{
    double per_sec = run->ticks->per_sec;
    timing->ops = calloc(timing->num_ranks, sizeof *timing->ops);
    if (timing->ops == NULL)
        return PEN_NOMEM;
    for (uint32_t rank = 0; rank < timing->num_ranks; rank++) {
        uint32_t count = schedule->rows[rank].count;
        timing->ops[rank] = malloc(((size_t)count + 1) * sizeof **timing->ops);
        if (timing->ops[rank] == NULL)
            return PEN_NOMEM;
        for (uint32_t i = 0; i < count; i++) {
            const struct pen__op_time *time = &run->ops[rank][i];
            timing->ops[rank][i] = (struct pen_op_time){
                (double)time->start / per_sec, (double)time->end / per_sec};
        }
    }
    return PEN_OK;
}

/* Computes the curve of one rank from its events; its peak too. */
static pen_status fill_curve(struct pen_timing *timing,
                             const struct pen_schedule *schedule,
                             const struct pen__run *run,
                             const struct pen_cost_table *costs, uint32_t rank)
{
    struct pen__event *events = NULL;
    uint32_t count = 0;
    pen_status status =
        pen__rank_events(schedule, rank, run, costs, &events, &count);
    if (status != PEN_OK)
        return status;
    struct pen_level *points = malloc(((size_t)count + 1) * sizeof *points);
    if (points == NULL) {
        free(events);
        return PEN_NOMEM;
    }
    double level = 0;
    double peak = 0;
    for (uint32_t i = 0; i < count; i++) {
        level += events[i].delta;
        peak = fmax(peak, level);
        points[i] = (struct pen_level){
            (double)events[i].at / run->ticks->per_sec, level};
    }
    free(events);
    timing->curves[rank] = (struct pen_curve){points, count};
    timing->ranks[rank].peak = peak;
    return PEN_OK;
}

static pen_status fill_curves(struct pen_timing *timing,
                              const struct pen_schedule *schedule,
                              const struct pen__run *run,
                              const struct pen_cost_table *costs)
{
    timing->curves = calloc(timing->num_ranks, sizeof *timing->curves);
    if (timing->curves == NULL)
        return PEN_NOMEM;
    for (uint32_t rank = 0; rank < timing->num_ranks; rank++) {
        pen_status status = fill_curve(timing, schedule, run, costs, rank);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

/* Times everything, with a record of every op. */
static pen_status time_with_ops(const struct pen_schedule *schedule,
                                const struct pen_cost_table *table,
                                uint32_t send_window, struct pen_timing *timing,
                                struct pen_text *why)
{
    struct pen__program *program = NULL;
    struct pen__ticks ticks = {.of = NULL};
    struct pen__run run = {.program = NULL};
    const struct pen__run_options options = {.with_ops = true};
    pen_status status =
        pen__program_create(schedule, send_window, false, &program, why);
    if (status != PEN_OK)
        return status;
    status = pen__ticks_init(&ticks, program, table);
    if (status == PEN_OK)
        status = pen__run_init(&run, program, &ticks, &options);
    if (status == PEN_OK && !pen__run_all(&run)) {
        pen_why(why,
                "the schedule deadlocks; `penstock schedule check` prints the "
                "cycle of ranks");
        status = PEN_INVALID;
    }
    if (status == PEN_OK) {
        summarise(timing, &run);
        status = fill_ops(timing, schedule, &run);
    }
    if (status == PEN_OK)
        status = fill_curves(timing, schedule, &run, table);
    if (status == PEN_OK)
        status = pen__critical_path(schedule, &run, timing);
    pen__run_release(&run);
    pen__ticks_release(&ticks);
    pen__program_free(program);
    return status;
}

static pen_status time_quickly(const struct pen_timer *timer,
                               const struct pen_cost_table *table,
                               bool is_exhaustive, struct pen_timing *timing,
                               struct pen_text *why)
{
    struct pen__ticks ticks = {.of = NULL};
    struct pen__run run = {.program = NULL};
    bool is_done = false;
    pen_status status = pen__ticks_init(&ticks, timer->program, table);
    if (status == PEN_OK && !is_exhaustive)
        status = pen__extrapolate(timer->program, &ticks, &run, &is_done);
    timing->is_extrapolated = is_done;
    if (status == PEN_OK && !is_done) {
        status = pen__run_init(&run, timer->program, &ticks, NULL);
        if (status == PEN_OK && !pen__run_all(&run)) {
            pen_why(
                why,
                "the schedule deadlocks; `penstock schedule check` prints the "
                "cycle of ranks");
            status = PEN_INVALID;
        }
    }
    if (status == PEN_OK) {
        summarise(timing, &run);
        for (uint32_t rank = 0; rank < timing->num_ranks; rank++)
            timing->ranks[rank].peak =
                pen__row_peak(timer->program, rank, table);
    }
    pen__run_release(&run);
    pen__ticks_release(&ticks);
    return status;
}

/*
 * Times a schedule: with ops, where `timer` may be NULL, or without, with the
 * schedule's timer.
 */
static pen_status time_schedule(const struct pen_schedule *schedule,
                                const struct pen_timer *timer,
                                const struct pen_costs *costs,
                                const struct pen_time_options *options,
                                struct pen_timing **out, struct pen_text *why)
{
    struct pen_cost_table table;
    pen_status status =
        pen_cost_table_init(&table, costs, &schedule->shape, why);
    if (status != PEN_OK)
        return status;
    struct pen_timing *timing = NULL;
    status = create_timing(schedule->shape.num_ranks, &timing);
    if (status == PEN_OK && options->with_ops)
        status =
            time_with_ops(schedule, &table, options->send_window, timing, why);
    else if (status == PEN_OK)
        status =
            time_quickly(timer, &table, options->is_exhaustive, timing, why);
    pen_cost_table_release(&table);
    if (status != PEN_OK) {
        pen_timing_free(timing);
        if (status == PEN_NOMEM)
            pen_why(why, "out of memory while timing");
        return status;
    }
    timing->step_sec =
        schedule->rules.is_optimistic ? timing->span_sec : timing->makespan_sec;
    for (uint32_t rank = 0; rank < timing->num_ranks; rank++)
        timing->ranks[rank].versions =
            timer != NULL ? timer->versions[rank] : versions_of(schedule, rank);
    *out = timing;
    return PEN_OK;
}

pen_status pen_timer_run(const struct pen_timer *timer,
                         const struct pen_costs *costs, bool is_exhaustive,
                         struct pen_timing **out, struct pen_text *why)
{
    /* Where stashes move, the peak depends on the times of the ops. */
    struct pen_time_options options = {.with_ops = timer->has_moves,
                                       .is_exhaustive = is_exhaustive,
                                       .send_window = timer->program->window};
    return time_schedule(timer->schedule, timer, costs, &options, out, why);
}

pen_status pen_schedule_time(const struct pen_schedule *schedule,
                             const struct pen_costs *costs,
                             const struct pen_time_options *options,
                             struct pen_timing **out, struct pen_text *why)
{
    static const struct pen_time_options defaults = {.with_ops = false};
    if (options == NULL)
        options = &defaults;
    if (options->with_ops)
        return time_schedule(schedule, NULL, costs, options, out, why);
    struct pen_timer *timer = NULL;
    pen_status status =
        pen_timer_create(schedule, options->send_window, &timer, why);
    if (status == PEN_OK)
        status = pen_timer_run(timer, costs, options->is_exhaustive, out, why);
    pen_timer_free(timer);
    return status;
}
