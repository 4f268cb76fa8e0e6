/*
 * The search as a whole.
 *
 *   1  every generator that is legal here and fits: the best one is kept, and
 *      those of a searched placement join its pool of candidates
 *   2  per placement, the list scheduler under ready-made rules, then under
 *      rules varied at random, better ones being kept
 *   3  local search on the best few candidates of all placements, then a long
 *      one on the best
 *   4  the winner becomes a schedule, is lowered, verified and timed like any
 *      other; if the best generator is not slower, that one is returned
 *
 * Work is counted in ops evaluated, so a seed fixes the answer.
 */
#include "schedule/search.h"

#include "base/bug.h"
#include "schedule/generators.h"
#include "schedule/search_bound.h"
#include "schedule/search_list.h"
#include "schedule/search_moves.h"
#include "schedule/time.h"
#include "schedule/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POOL 3u
#define LONG_ROUNDS 3u
#define MAX_FIELDS 3u

/* A candidate kept for the local search. */
struct entry {
    uint8_t *order;
    struct pen__score score;
    struct pen__rule *rule; /* NULL: not from the list scheduler */
};

/* The search under one placement. */
struct field {
    struct pen__problem problem;
    struct pen__evaluator *evaluator;
    struct pen__lister *lister;
    struct pen__moves *moves;
    struct pen__rule *rule;  /* being tried */
    uint8_t *order;          /* being tried */
    struct entry pool[POOL]; /* best first */
    uint32_t pooled;
    uint64_t spare_steps; /* of the list scheduler */
    int64_t bound;
};

struct search {
    const struct pen_search_args *args;
    struct field fields[MAX_FIELDS];
    uint32_t num_fields;
    struct pen_schedule *start; /* best generator; NULL when none fits */
    struct pen_search_report report;
    struct pen__random random;
    struct timespec begin;
    uint64_t budget;
};

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

static uint64_t steps_of(const struct search *search)
{
    uint64_t steps = 0;
    for (uint32_t i = 0; i < search->num_fields; i++)
        steps += pen__evaluator_steps(search->fields[i].evaluator) +
                 search->fields[i].spare_steps;
    return steps;
}

static double span_of(const struct field *field, const struct entry *entry)
{
    return (double)entry->score.span / field->problem.per_sec;
}

static void tell(const struct search *search)
{
    if (search->args->on_progress == NULL)
        return;
    double span = search->start == NULL ? (double)INFINITY
                                        : search->report.start_span_sec;
    for (uint32_t i = 0; i < search->num_fields; i++) {
        const struct field *field = &search->fields[i];
        if (field->pooled > 0)
            span = fmin(span, span_of(field, &field->pool[0]));
    }
    struct pen_search_progress progress = {
        span, fmin(1, (double)steps_of(search) / (double)search->budget)};
    search->args->on_progress(&progress, search->args->context);
}

/* Puts field->order into the pool where it belongs, if it does. */
static void offer(struct field *field, const struct pen__score *score,
                  const struct pen__rule *rule)
{
    uint32_t at = field->pooled;
    while (at > 0 && pen__score_is_less(score, &field->pool[at - 1].score))
        at--;
    if (at == POOL || (at > 0 && field->pool[at - 1].score.span == score->span))
        return;
    uint32_t last = field->pooled < POOL ? field->pooled++ : POOL - 1;
    struct entry entry = field->pool[last];
    memmove(&field->pool[at + 1], &field->pool[at],
            (last - at) * sizeof *field->pool);
    memcpy(entry.order, field->order, pen__order_size(&field->problem));
    entry.score = *score;
    if (rule != NULL)
        pen__rule_copy(&field->problem, entry.rule, rule);
    else
        entry.rule->period = 0;
    field->pool[at] = entry;
}

static void field_release(struct field *field)
{
    pen__evaluator_free(field->evaluator);
    pen__lister_free(field->lister);
    pen__moves_free(field->moves);
    pen__rule_free(field->rule);
    free(field->order);
    for (uint32_t i = 0; i < POOL; i++) {
        free(field->pool[i].order);
        pen__rule_free(field->pool[i].rule);
    }
    pen__problem_release(&field->problem);
}

static pen_status field_init(struct field *field,
                             const struct pen_search_args *args,
                             enum pen_placement_kind placement, uint32_t chunks,
                             struct pen_text *why)
{
    *field = (struct field){.order = NULL};
    struct pen_shape shape = {.placement = placement,
                              .num_ranks = args->ranks,
                              .num_stages = args->ranks * chunks,
                              .num_copies = 1,
                              .num_microbatches = args->microbatches,
                              .num_slices = 1};
    pen_status status = pen_shape_check(&shape, why);
    if (status == PEN_OK)
        status = pen__problem_init(&field->problem, &shape, args->costs,
                                   args->memory_limit, args->send_window, why);
    if (status != PEN_OK)
        return status;
    size_t size = pen__order_size(&field->problem);
    field->order = malloc(size);
    status = field->order == NULL ? PEN_NOMEM : PEN_OK;
    if (status == PEN_OK)
        status = pen__evaluator_create(&field->problem, &field->evaluator);
    if (status == PEN_OK)
        status = pen__lister_create(&field->problem, &field->lister);
    if (status == PEN_OK)
        status = pen__moves_create(&field->problem, &field->moves);
    if (status == PEN_OK)
        status = pen__rule_create(&field->problem, &field->rule);
    for (uint32_t i = 0; i < POOL && status == PEN_OK; i++) {
        field->pool[i].order = malloc(size);
        status = field->pool[i].order == NULL
                     ? PEN_NOMEM
                     : pen__rule_create(&field->problem, &field->pool[i].rule);
    }
    if (status != PEN_OK) {
        pen_why(why, "out of memory for the search");
        field_release(field);
        return status;
    }
    field->bound = pen__span_bound(&field->problem);
    return PEN_OK;
}

static bool is_searched(const struct pen_search_args *args,
                        enum pen_placement_kind placement)
{
    unsigned wanted = args->placements == 0 ? PEN_SEARCH_ANY : args->placements;
    switch (placement) {
    case PEN_PLACEMENT_LINEAR:
        return (wanted & PEN_SEARCH_LINEAR) != 0;
    case PEN_PLACEMENT_LOOP:
        return (wanted & PEN_SEARCH_LOOP) != 0;
    case PEN_PLACEMENT_V:
        return (wanted & PEN_SEARCH_V) != 0;
    default:
        return wanted == PEN_SEARCH_ANY;
    }
}

/* Costs per stage fit one placement only: others are left out in silence. */
static pen_status open_fields(struct search *search, struct pen_text *why)
{
    static const enum pen_placement_kind kinds[MAX_FIELDS] = {
        PEN_PLACEMENT_LINEAR, PEN_PLACEMENT_LOOP, PEN_PLACEMENT_V};
    const struct pen_search_args *args = search->args;
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < MAX_FIELDS; i++) {
        uint32_t chunks = kinds[i] == PEN_PLACEMENT_LINEAR ? 1
                          : kinds[i] == PEN_PLACEMENT_LOOP && args->chunks != 0
                              ? args->chunks
                              : 2;
        if (!is_searched(args, kinds[i]))
            continue;
        pen_text_clear(&reason);
        status = field_init(&search->fields[search->num_fields], args, kinds[i],
                            chunks, &reason);
        if (status == PEN_OK)
            search->num_fields++;
        else if (status == PEN_NOMEM)
            break;
    }
    if (search->num_fields > 0 && status != PEN_NOMEM)
        status = PEN_OK;
    if (status != PEN_OK)
        pen_why(why, "%s", pen_text_string(&reason));
    pen_text_release(&reason);
    return status;
}

/* Span and makespan of a legal schedule that fits; false for others. */
static bool judge(const struct pen_search_args *args,
                  const struct pen_schedule *schedule, double *span,
                  double *makespan)
{
    struct pen_verify_options verify = {.send_window = args->send_window,
                                        .memory_limit = args->memory_limit,
                                        .costs = args->costs};
    struct pen_time_options options = {.send_window = args->send_window};
    struct pen_timing *timing = NULL;
    if (pen_schedule_verify(schedule, &verify, NULL, NULL) != PEN_OK ||
        pen_schedule_time(schedule, args->costs, &options, &timing, NULL) !=
            PEN_OK)
        return false;
    *span = timing->span_sec;
    *makespan = timing->makespan_sec;
    pen_timing_free(timing);
    return true;
}

/* A generator's schedule as a candidate of the field with its shape. */
static void offer_schedule(struct search *search,
                           const struct pen_schedule *schedule)
{
    for (uint32_t i = 0; i < search->num_fields; i++) {
        struct field *field = &search->fields[i];
        const struct pen_shape *shape = &field->problem.shape;
        struct pen__score score;
        if (shape->placement == schedule->shape.placement &&
            shape->num_stages == schedule->shape.num_stages &&
            schedule->shape.num_slices == 1 &&
            pen__order_from_schedule(&field->problem, schedule, field->order) &&
            pen__evaluate(field->evaluator, field->order, INT64_MAX, &score))
            offer(field, &score, NULL);
    }
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
    double span = 0;
    double makespan = 0;
    if (pen_generator_make(generator, &wanted, &schedule, NULL) != PEN_OK)
        return;
    if (!is_searched(args, schedule->shape.placement) ||
        !judge(args, schedule, &span, &makespan)) {
        pen_schedule_free(schedule);
        return;
    }
    offer_schedule(search, schedule);
    struct pen_search_report *report = &search->report;
    if (search->start != NULL && (span > report->start_span_sec ||
                                  (span == report->start_span_sec &&
                                   makespan >= report->start_makespan_sec))) {
        pen_schedule_free(schedule);
        return;
    }
    pen_schedule_free(search->start);
    search->start = schedule;
    strcpy(report->start, generator->name);
    report->start_span_sec = span;
    report->start_makespan_sec = makespan;
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
        if (!generator->is_synchronous || generator->has_slices)
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

/* The field whose best candidate is the shortest of all; NULL: there is none.
 */
static struct field *best_field(struct search *search)
{
    struct field *best = NULL;
    for (uint32_t i = 0; i < search->num_fields; i++) {
        struct field *field = &search->fields[i];
        if (field->pooled > 0 &&
            (best == NULL ||
             span_of(field, &field->pool[0]) < span_of(best, &best->pool[0])))
            best = field;
    }
    return best;
}

/* True when no candidate of this field can beat the best of all. */
static bool is_hopeless(struct search *search, const struct field *field)
{
    struct field *best = best_field(search);
    if (best == NULL)
        return false;
    /* Ticks may differ between fields: half a tick more is still equal. */
    double span = span_of(best, &best->pool[0]) * field->problem.per_sec;
    return span < (double)field->bound + 0.5;
}

/* Lists under field->rule and keeps what is good. */
static bool try_rule(struct search *search, struct field *field, int64_t cap)
{
    struct pen__score score;
    search->report.rules_tried++;
    field->spare_steps += 3 * pen__order_size(&field->problem);
    if (!pen__list(field->lister, field->rule, field->order) ||
        !pen__evaluate(field->evaluator, field->order, cap, &score))
        return false;
    offer(field, &score, field->rule);
    return true;
}

static void try_ready_rules(struct search *search, struct field *field)
{
    uint32_t count = pen__rule_count(&field->problem);
    for (uint32_t i = 0; i < count && !is_over(search); i++) {
        pen__rule_set(&field->problem, i, field->rule);
        try_rule(search, field, INT64_MAX);
    }
}

static void vary_rules(struct search *search, struct field *field,
                       uint64_t steps)
{
    uint64_t begin = steps_of(search);
    uint64_t spent = 0;
    for (uint32_t i = 0; spent < steps && field->pooled > 0; i++) {
        if (i % 64 == 0 && (is_over(search) || is_hopeless(search, field)))
            return;
        const struct entry *from =
            &field->pool[i % 4 < 3 ? 0
                                   : pen__random_below(&search->random,
                                                       field->pooled)];
        if (from->rule->period == 0) {
            /* From a generator: the nearest thing is a ready-made rule. */
            pen__rule_set(&field->problem,
                          pen__random_below(&search->random,
                                            pen__rule_count(&field->problem)),
                          field->rule);
        } else {
            pen__rule_copy(&field->problem, field->rule, from->rule);
        }
        pen__rule_vary(&field->problem, field->rule,
                       1 - 0.8 * (double)spent / (double)steps,
                       &search->random);
        try_rule(search, field, field->pool[field->pooled - 1].score.span);
        spent = steps_of(search) - begin;
    }
}

/* Local search from one entry of the pool; the result is offered. */
static void move_from(struct search *search, struct field *field,
                      uint32_t index, uint64_t steps)
{
    struct pen__score score = field->pool[index].score;
    memcpy(field->order, field->pool[index].order,
           pen__order_size(&field->problem));
    search->report.moves_tried +=
        pen__moves_run(field->moves, field->evaluator, steps, field->bound,
                       &search->random, is_over, search, field->order, &score);
    if (pen__score_is_less(&score, &field->pool[0].score))
        offer(field, &score, NULL);
    tell(search);
}

static void run(struct search *search)
{
    for (uint32_t i = 0; i < search->num_fields; i++)
        try_ready_rules(search, &search->fields[i]);
    tell(search);
    for (uint32_t i = 0; i < search->num_fields; i++)
        vary_rules(search, &search->fields[i],
                   search->budget * 3 / 10 / search->num_fields);
    tell(search);
    for (uint32_t i = 0; i < search->num_fields; i++) {
        struct field *field = &search->fields[i];
        for (uint32_t k = 0; k < field->pooled && k < 2; k++) {
            if (!is_hopeless(search, field))
                move_from(search, field, k,
                          search->budget * 3 / 20 / search->num_fields);
        }
    }
    for (uint32_t round = 0; round < LONG_ROUNDS && !is_over(search); round++) {
        struct field *best = best_field(search);
        if (best == NULL || is_hopeless(search, best))
            return;
        move_from(search, best, 0, search->budget * 11 / 20 / LONG_ROUNDS);
    }
}

/* Ops to evaluate: about a second for 8 ranks and 24 micro-batches. */
static uint64_t budget_of(const struct search *search)
{
    double ops = 0;
    for (uint32_t i = 0; i < search->num_fields; i++)
        ops += (double)pen__order_size(&search->fields[i].problem);
    double effort = search->args->effort > 0 ? search->args->effort : 1;
    return (uint64_t)(effort * fmin(1e7 + 3e4 * ops, 1.5e9)) + 1;
}

static pen_status make_best(struct search *search, struct pen_schedule **out,
                            struct pen_text *why)
{
    struct field *field = best_field(search);
    if (field == NULL)
        return PEN_INFEASIBLE;
    struct pen_schedule *compute = NULL;
    pen_status status = pen__order_to_schedule(
        &field->problem, field->pool[0].order, "search", &compute, why);
    if (status == PEN_OK)
        status = pen_schedule_lower(compute, out, why);
    pen_schedule_free(compute);
    return status;
}

static void set_bound(struct search *search)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < search->num_fields; i++) {
        const struct field *field = &search->fields[i];
        least = fmin(least, (double)field->bound / field->problem.per_sec);
    }
    search->report.lower_bound_sec = least;
}

static void refuse(const struct search *search, struct pen_text *why)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < search->num_fields; i++)
        least = fmin(least, pen__memory_bound(&search->fields[i].problem));
    pen_why(why,
            "no schedule was found within %g A; one micro-batch alone needs %g",
            search->args->memory_limit, least);
}

/* The candidate, or the generator's schedule where that is not slower. */
static pen_status choose(struct search *search, struct pen_schedule **out,
                         struct pen_text *why)
{
    struct pen_search_report *report = &search->report;
    struct pen_schedule *made = NULL;
    pen_status status = make_best(search, &made, why);
    if (status != PEN_OK && status != PEN_INFEASIBLE)
        return status;
    if (made != NULL)
        PEN_BUG_UNLESS(judge(search->args, made, &report->span_sec,
                             &report->makespan_sec));
    bool has_start = search->start != NULL;
    if (made == NULL && !has_start) {
        refuse(search, why);
        return PEN_INFEASIBLE;
    }
    report->is_start =
        has_start &&
        (made == NULL || report->start_span_sec < report->span_sec ||
         (report->start_span_sec == report->span_sec &&
          report->start_makespan_sec <= report->makespan_sec));
    if (report->is_start) {
        pen_schedule_free(made);
        made = search->start;
        search->start = NULL;
        report->span_sec = report->start_span_sec;
        report->makespan_sec = report->start_makespan_sec;
    }
    *out = made;
    return PEN_OK;
}

pen_status pen_schedule_search(const struct pen_search_args *args,
                               struct pen_schedule **out,
                               struct pen_search_report *report,
                               struct pen_text *why)
{
    if (args->ranks == 0 || args->microbatches == 0) {
        pen_why(why, "a search needs at least 1 stage and 1 micro-batch");
        return PEN_INVALID;
    }
    struct search search = {.args = args, .random = {args->seed}};
    clock_gettime(CLOCK_MONOTONIC, &search.begin);
    pen_status status = open_fields(&search, why);
    if (status == PEN_OK) {
        search.budget = budget_of(&search);
        set_bound(&search);
        try_generators(&search);
        run(&search);
        status = choose(&search, out, why);
    }
    if (status == PEN_OK && report != NULL)
        *report = search.report;
    for (uint32_t i = 0; i < search.num_fields; i++)
        field_release(&search.fields[i]);
    pen_schedule_free(search.start);
    return status;
}
