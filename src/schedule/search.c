/*
 * The search of one placement; search_each.c makes of it the search that others
 * call.
 *
 *   1  every generator of the placement that is legal here and fits: the best
 *      one is kept, and those of the searched shape join the pool of candidates
 *   2  the list scheduler under ready-made rules, then under rules varied at
 *      random, better ones being kept
 *   3  local search on the best few candidates, then a long one on the best
 *   4  the winner becomes a schedule, is lowered, verified and timed like any
 *      other; if the best generator is not slower, that one is returned
 *
 * Work is counted in ops evaluated, so a seed fixes the answer.
 */
#include "schedule/search_placement.h"

#include "base/bug.h"
#include "schedule/generators.h"
#include "schedule/search_bound.h"
#include "schedule/search_field.h"
#include "schedule/time.h"
#include "schedule/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LONG_ROUNDS 3u

struct result {
    double span_sec;
    double makespan_sec;
};

struct search {
    const struct pen_search_args *args;
    struct pen__field field;
    bool has_field;             /* not with PEN__SEARCH_REST */
    struct pen_schedule *start; /* best generator; NULL when none fits */
    struct pen_search_report report;
    struct pen_random random;
    struct timespec begin;
    uint64_t budget;
};

static bool is_shorter(const struct result *a, const struct result *b)
{
    if (a->span_sec != b->span_sec)
        return a->span_sec < b->span_sec;
    return a->makespan_sec < b->makespan_sec;
}

static double seconds_since(const struct timespec *begin)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - begin->tv_sec) +
           (double)(now.tv_nsec - begin->tv_nsec) * 1e-9;
}

static bool is_over(void *context)
{
    const struct search *search = context;
    double seconds = search->args->seconds;
    return seconds > 0 && seconds_since(&search->begin) > seconds;
}

static void report_progress(const struct search *search)
{
    if (search->args->on_progress == NULL)
        return;
    double span = search->start == NULL ? (double)INFINITY
                                        : search->report.start_span_sec;
    const struct pen__field *field = &search->field;
    struct pen_search_progress progress = {
        fmin(span, pen__field_span(field)),
        fmin(1, (double)pen__field_steps(field) / (double)search->budget)};
    search->args->on_progress(&progress, search->args->context);
}

static bool is_searched(const struct pen_search_args *args,
                        enum pen_placement_kind placement)
{
    unsigned wanted = args->placements;
    switch (placement) {
    case PEN_PLACEMENT_LINEAR:
        return (wanted & PEN_SEARCH_LINEAR) != 0;
    case PEN_PLACEMENT_LOOP:
        return (wanted & PEN_SEARCH_LOOP) != 0;
    case PEN_PLACEMENT_V:
        return (wanted & PEN_SEARCH_V) != 0;
    default:
        return (wanted & PEN__SEARCH_REST) != 0;
    }
}

/* Opens the field; published schedules of other placements have none. */
static pen_status open_field(struct search *search, struct pen_text *why)
{
    const struct pen_search_args *args = search->args;
    if (args->placements == PEN__SEARCH_REST)
        return PEN_OK;
    enum pen_placement_kind placement =
        args->placements == PEN_SEARCH_LINEAR ? PEN_PLACEMENT_LINEAR
        : args->placements == PEN_SEARCH_LOOP ? PEN_PLACEMENT_LOOP
                                              : PEN_PLACEMENT_V;
    uint32_t loop = args->chunks != 0 ? args->chunks : 2;
    uint32_t chunks = placement == PEN_PLACEMENT_LINEAR ? 1
                      : placement == PEN_PLACEMENT_LOOP ? loop
                                                        : 2;
    struct pen_shape shape = {.placement = placement,
                              .num_ranks = args->ranks,
                              .num_stages = args->ranks * chunks,
                              .num_copies = 1,
                              .num_microbatches = args->microbatches,
                              .num_slices = 1};
    pen_status status = pen_shape_check(&shape, why);
    if (status == PEN_OK)
        status = pen__field_init(&search->field, &shape, args->costs,
                                 args->memory_limit, args->send_window, why);
    search->has_field = status == PEN_OK;
    return status;
}

/* Computes span and makespan of a schedule that is legal and fits. */
static pen_status judge(const struct pen_search_args *args,
                        const struct pen_schedule *schedule,
                        struct result *result)
{
    struct pen_verify_options verify = {.send_window = args->send_window,
                                        .memory_limit = args->memory_limit,
                                        .costs = args->costs};
    struct pen_time_options options = {.send_window = args->send_window};
    struct pen_timing *timing = NULL;
    pen_status status = pen_schedule_verify(schedule, &verify, NULL, NULL);
    if (status == PEN_OK)
        status =
            pen_schedule_time(schedule, args->costs, &options, &timing, NULL);
    if (status == PEN_OK)
        *result = (struct result){timing->span_sec, timing->makespan_sec};
    pen_timing_free(timing);
    return status;
}

/*
 * Offers a generator's schedule as a candidate, if it has the shape of the
 * field.
 */
static void offer(struct search *search, const struct pen_schedule *schedule)
{
    const struct pen_shape *shape = &search->field.problem.shape;
    if (search->has_field && shape->placement == schedule->shape.placement &&
        shape->num_stages == schedule->shape.num_stages &&
        schedule->shape.num_slices == 1)
        pen__field_offer(&search->field, schedule);
}

static void try_generator(struct search *search,
                          const struct pen_generator *generator,
                          uint32_t chunks)
{
    const struct pen_search_args *args = search->args;
    struct pen_generator_args wanted = {.ranks = args->ranks,
                                        .microbatches = args->microbatches,
                                        .chunks = chunks,
                                        .memory_limit = args->memory_limit,
                                        .has_memory = args->has_memory,
                                        .costs = args->costs};
    struct pen_schedule *schedule = NULL;
    struct result result = {0, 0};
    if (pen_generator_make(generator, &wanted, &schedule, NULL) != PEN_OK)
        return;
    if (!is_searched(args, schedule->shape.placement) ||
        judge(args, schedule, &result) != PEN_OK) {
        pen_schedule_free(schedule);
        return;
    }
    offer(search, schedule);
    struct result known = {search->report.start_span_sec,
                           search->report.start_makespan_sec};
    if (search->start != NULL && !is_shorter(&result, &known)) {
        pen_schedule_free(schedule);
        return;
    }
    pen_schedule_free(search->start);
    search->start = schedule;
    strcpy(search->report.start, generator->name);
    search->report.start_span_sec = result.span_sec;
    search->report.start_makespan_sec = result.makespan_sec;
}

/*
 * Slices are left out: that a slice costs its share of the micro-batch is a
 * claim about the model, not about the schedule.
 */
static void try_generators(struct search *search)
{
    uint32_t chunks = search->args->chunks;
    for (size_t i = 0; pen_generator_at(i) != NULL; i++) {
        const struct pen_generator *generator = pen_generator_at(i);
        if (!generator->is_synchronous || generator->has_slices ||
            generator->is_local)
            continue;
        if (!generator->has_chunks) {
            try_generator(search, generator, 0);
            continue;
        }
        for (uint32_t v = 2; v <= 4; v++)
            try_generator(search, generator, v);
        if (chunks > 4)
            try_generator(search, generator, chunks);
    }
}

/* Returns true when no candidate can beat the best one. */
static bool is_best(const struct pen__field *field)
{
    return pen__field_span(field) * field->problem.per_sec <
           (double)field->bound + 0.5;
}

static struct pen__moves_end end_of(struct search *search, double share)
{
    return (struct pen__moves_end){
        .steps = (uint64_t)(share * (double)search->budget) + 1,
        .goal = search->field.bound,
        .is_over = is_over,
        .context = search};
}

/* Shares of the work: varied rules, short local searches, long ones. */
#define VARY_SHARE 0.3
#define SHORT_SHARE 0.15
#define LONG_SHARE 0.55

static void list_all(struct search *search)
{
    struct pen__field *field = &search->field;
    struct pen__moves_end end = end_of(search, 0);
    if (!is_best(field))
        pen__field_list(field, &end);
    report_progress(search);
    end = end_of(search, VARY_SHARE);
    if (!is_best(field))
        pen__field_vary(field, &end, &search->random);
    report_progress(search);
}

static void move_all(struct search *search)
{
    struct pen__field *field = &search->field;
    const uint32_t each = 2;
    struct pen__moves_end end = end_of(search, SHORT_SHARE / each);
    for (uint32_t k = 0; k < field->pooled && k < each; k++) {
        if (!is_best(field))
            pen__field_move(field, k, &end, &search->random);
    }
    report_progress(search);
    end = end_of(search, LONG_SHARE / LONG_ROUNDS);
    for (uint32_t round = 0; round < LONG_ROUNDS; round++) {
        if (field->pooled == 0 || is_best(field) || is_over(search))
            return;
        pen__field_move(field, 0, &end, &search->random);
        report_progress(search);
    }
}

/* Ops to evaluate: about a second for 8 ranks and 24 micro-batches. */
static uint64_t budget_of(const struct search *search)
{
    double ops = (double)pen__order_size(&search->field.problem);
    double effort = search->args->effort > 0 ? search->args->effort : 1;
    return (uint64_t)(effort * fmin(1e7 + 3e4 * ops, 1.5e9)) + 1;
}

/* Makes a schedule of the shortest candidate; NULL when there is none. */
static pen_status make_best(struct search *search, struct pen_schedule **out,
                            struct pen_text *why)
{
    struct pen__field *field = &search->field;
    if (field->pooled == 0)
        return PEN_OK;
    struct pen_schedule *compute = NULL;
    pen_status status = pen__order_to_schedule(
        &field->problem, field->pool[0].order, "search", &compute, why);
    if (status == PEN_OK)
        status = pen_schedule_lower(compute, out, why);
    pen_schedule_free(compute);
    return status;
}

static void finish_report(struct search *search, const struct result *result)
{
    struct pen_search_report *report = &search->report;
    report->span_sec = result->span_sec;
    report->makespan_sec = result->makespan_sec;
    const struct pen__field *field = &search->field;
    report->rules_tried = field->rules_tried;
    report->moves_tried = field->moves_tried;
    report->lower_bound_sec =
        search->has_field ? (double)field->bound / field->problem.per_sec
                          : (double)INFINITY;
}

/*
 * Chooses the candidate, or the generator's schedule where that is not longer.
 */
static pen_status choose(struct search *search, struct pen_schedule **out,
                         struct pen_text *why)
{
    struct pen_schedule *made = NULL;
    struct result result = {INFINITY, INFINITY};
    struct result start = {search->report.start_span_sec,
                           search->report.start_makespan_sec};
    pen_status status = make_best(search, &made, why);
    if (status == PEN_OK && made != NULL)
        status = judge(search->args, made, &result);
    PEN_BUG_UNLESS(status == PEN_OK || status == PEN_NOMEM);
    if (status == PEN_OK && made == NULL && search->start == NULL)
        status = PEN_INFEASIBLE;
    if (status != PEN_OK) {
        pen_schedule_free(made);
        return status;
    }
    if (search->start != NULL && !is_shorter(&result, &start)) {
        pen_schedule_free(made);
        made = search->start;
        result = start;
        search->start = NULL;
        search->report.is_start = true;
    }
    finish_report(search, &result);
    *out = made;
    return PEN_OK;
}

pen_status pen__search_placement(const struct pen_search_args *args,
                                 struct pen_schedule **out,
                                 struct pen_search_report *report,
                                 double *least, struct pen_text *why)
{
    struct search search = {.args = args, .random = {args->seed}};
    clock_gettime(CLOCK_MONOTONIC, &search.begin);
    pen_status status = open_field(&search, why);
    if (status != PEN_OK)
        return status;
    try_generators(&search);
    if (search.has_field) {
        search.budget = budget_of(&search);
        list_all(&search);
        move_all(&search);
        *least = pen__memory_bound(&search.field.problem);
    }
    status = choose(&search, out, why);
    if (status == PEN_OK)
        *report = search.report;
    if (search.has_field)
        pen__field_release(&search.field);
    pen_schedule_free(search.start);
    return status;
}
