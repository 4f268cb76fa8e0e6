/* The search under one placement; search_field.h has the idea. */
#include "schedule/search_field.h"

#include "schedule/search_bound.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void pen__field_release(struct pen__field *field)
{
    pen__moves_free(field->moves);
    pen__evaluator_free(field->evaluator);
    pen__lister_free(field->lister);
    pen__rule_free(field->rule);
    free(field->order);
    for (uint32_t i = 0; i < PEN__POOL; i++) {
        free(field->pool[i].order);
        pen__rule_free(field->pool[i].rule);
    }
    pen__problem_release(&field->problem);
}

static pen_status create_tools(struct pen__field *field)
{
    const struct pen__problem *problem = &field->problem;
    size_t size = pen__order_size(problem);
    field->order = malloc(size);
    pen_status status = field->order == NULL ? PEN_NOMEM : PEN_OK;
    if (status == PEN_OK)
        status = pen__evaluator_create(problem, &field->evaluator);
    if (status == PEN_OK)
        status = pen__lister_create(problem, &field->lister);
    if (status == PEN_OK)
        status = pen__moves_create(problem, field->evaluator, &field->moves);
    if (status == PEN_OK)
        status = pen__rule_create(problem, &field->rule);
    for (uint32_t i = 0; i < PEN__POOL && status == PEN_OK; i++) {
        field->pool[i].order = malloc(size);
        status = field->pool[i].order == NULL
                     ? PEN_NOMEM
                     : pen__rule_create(problem, &field->pool[i].rule);
    }
    return status;
}

pen_status pen__field_init(struct pen__field *field,
                           const struct pen_shape *shape,
                           const struct pen_costs *costs, double limit,
                           uint32_t window, struct pen_text *why)
{
    *field = (struct pen__field){.order = NULL};
    pen_status status =
        pen__problem_init(&field->problem, shape, costs, limit, window, why);
    if (status != PEN_OK)
        return status;
    status = create_tools(field);
    if (status != PEN_OK) {
        pen_why(why, "out of memory for the search");
        pen__field_release(field);
        return status;
    }
    field->bound = pen__span_bound(&field->problem);
    return PEN_OK;
}

double pen__field_span(const struct pen__field *field)
{
    return field->pooled == 0
               ? (double)INFINITY
               : (double)field->pool[0].score.span / field->problem.per_sec;
}

/* Listing an op takes about as long as evaluating three. */
#define LIST_STEPS 3u

uint64_t pen__field_steps(const struct pen__field *field)
{
    return pen__evaluator_steps(field->evaluator) +
           LIST_STEPS * field->rules_tried * pen__order_size(&field->problem);
}

/* Puts field->order into the pool where it belongs, if it does. */
static void pool_order(struct pen__field *field, const struct pen__score *score,
                       const struct pen__rule *rule)
{
    struct pen__entry *pool = field->pool;
    uint32_t at = field->pooled;
    while (at > 0 && pen__score_is_less(score, &pool[at - 1].score))
        at--;
    bool is_known = at > 0 && pool[at - 1].score.span == score->span;
    if (at == PEN__POOL || is_known)
        return;
    /* With the same span but a longer makespan: the new one replaces it. */
    uint32_t last = at;
    while (last < field->pooled && pool[last].score.span != score->span)
        last++;
    if (last == field->pooled && field->pooled < PEN__POOL)
        field->pooled++;
    else if (last == field->pooled)
        last = PEN__POOL - 1;
    struct pen__entry entry = pool[last];
    memmove(&pool[at + 1], &pool[at], (last - at) * sizeof *pool);
    memcpy(entry.order, field->order, pen__order_size(&field->problem));
    entry.score = *score;
    entry.has_rule = rule != NULL;
    if (rule != NULL)
        pen__rule_copy(&field->problem, entry.rule, rule);
    pool[at] = entry;
}

void pen__field_offer(struct pen__field *field,
                      const struct pen_schedule *schedule)
{
    struct pen__score score;
    if (pen__order_from_schedule(&field->problem, schedule, field->order) &&
        pen__evaluate(field->evaluator, field->order, INT64_MAX, &score))
        pool_order(field, &score, NULL);
}

/* Lists under field->rule and keeps what is good. */
static void try_rule(struct pen__field *field)
{
    bool is_full = field->pooled == PEN__POOL;
    int64_t cap = is_full ? field->pool[PEN__POOL - 1].score.span : INT64_MAX;
    struct pen__score score;
    field->rules_tried++;
    if (pen__list(field->lister, field->rule, field->order) &&
        pen__evaluate(field->evaluator, field->order, cap, &score))
        pool_order(field, &score, field->rule);
}

static bool has_reached(const struct pen__field *field, int64_t goal)
{
    return field->pooled > 0 && field->pool[0].score.span <= goal;
}

void pen__field_list(struct pen__field *field, const struct pen__moves_end *end)
{
    uint32_t count = pen__rule_count(&field->problem);
    for (uint32_t i = 0; i < count && !has_reached(field, end->goal) &&
                         !end->is_over(end->context);
         i++) {
        pen__rule_set(&field->problem, i, field->rule);
        try_rule(field);
    }
}

/* Takes the rule of a good candidate, mostly the best, into field->rule. */
static void choose_rule(struct pen__field *field, struct pen_random *random)
{
    bool is_any = pen_random_below(random, 4) == 0;
    const struct pen__entry *from =
        &field->pool[is_any ? pen_random_below(random, field->pooled) : 0];
    uint32_t count = pen__rule_count(&field->problem);
    if (from->has_rule)
        pen__rule_copy(&field->problem, field->rule, from->rule);
    else
        pen__rule_set(&field->problem, pen_random_below(random, count),
                      field->rule);
}

void pen__field_vary(struct pen__field *field, const struct pen__moves_end *end,
                     struct pen_random *random)
{
    uint64_t begin = pen__field_steps(field);
    uint64_t spent = 0;
    for (uint32_t i = 0; spent < end->steps && field->pooled > 0 &&
                         !has_reached(field, end->goal);
         i++) {
        if (i % 16 == 0 && end->is_over(end->context))
            return;
        double strength = 1 - 0.8 * (double)spent / (double)end->steps;
        choose_rule(field, random);
        pen__rule_vary(&field->problem, field->rule, strength, random);
        try_rule(field);
        spent = pen__field_steps(field) - begin;
    }
}

void pen__field_move(struct pen__field *field, uint32_t index,
                     const struct pen__moves_end *end,
                     struct pen_random *random)
{
    struct pen__score score = field->pool[index].score;
    memcpy(field->order, field->pool[index].order,
           pen__order_size(&field->problem));
    field->moves_tried +=
        pen__moves_run(field->moves, end, random, field->order, &score);
    pool_order(field, &score, NULL);
}
