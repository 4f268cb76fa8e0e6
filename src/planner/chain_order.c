/* In which order the groups of a chain stand along the pipeline. */
#include "planner/chain.h"

#include <stdlib.h>
#include <string.h>

#define MOST_PERMUTED 5u

struct search {
    const struct pen_chain_problem *problem;
    struct pen_chain_group *groups; /* in the order that is tried */
    uint32_t *order;                /* numbers of groups; what is tried */
    uint32_t *best_order;
    struct pen_chain_plan *best;
    uint32_t num_left;   /* orders that may still be tried */
    pen_status status;   /* of the last one */
    struct pen_text why; /* the last one failed */
};

static pen_status solve_order(struct search *search,
                              struct pen_chain_plan **plan)
{
    struct pen_chain_problem problem = *search->problem;
    for (uint32_t i = 0; i < problem.num_groups; i++)
        search->groups[i] = search->problem->groups[search->order[i]];
    problem.groups = search->groups;
    pen_text_clear(&search->why);
    return pen_chain_solve(&problem, plan, &search->why);
}

/* True when this order is better than all before it. */
static bool try_order(struct search *search)
{
    struct pen_chain_plan *plan = NULL;
    if (search->num_left == 0)
        return false;
    search->num_left--;
    search->status = solve_order(search, &plan);
    if (search->status != PEN_OK)
        return false;
    if (search->best != NULL && plan->stage_sec >= search->best->stage_sec) {
        pen_chain_plan_free(plan);
        return false;
    }
    for (uint32_t i = 0; i < plan->num_stages; i++)
        plan->stages[i].group = search->order[plan->stages[i].group];
    pen_chain_plan_free(search->best);
    search->best = plan;
    memcpy(search->best_order, search->order,
           search->problem->num_groups * sizeof *search->order);
    return true;
}

static void exchange(uint32_t *order, uint32_t a, uint32_t b)
{
    uint32_t moved = order[a];
    order[a] = order[b];
    order[b] = moved;
}

static void permute(struct search *search, uint32_t first)
{
    if (first == search->problem->num_groups) {
        (void)try_order(search);
        return;
    }
    for (uint32_t i = first; i < search->problem->num_groups; i++) {
        exchange(search->order, first, i);
        permute(search, first + 1);
        exchange(search->order, first, i);
    }
}

/* Seconds of all layers, or bytes of memory, of a group. */
static double measure(const struct search *search, uint32_t group,
                      bool is_by_memory)
{
    const struct pen_chain_group *it = &search->problem->groups[group];
    double sum = 0;
    if (is_by_memory)
        return it->memory_bytes == 0 ? 1e300 : (double)it->memory_bytes;
    for (uint32_t i = 0; i < search->problem->num_layers; i++)
        sum += it->seconds[i].forward_sec + it->seconds[i].input_sec +
               it->seconds[i].weight_sec;
    return sum;
}

/* Insertion: groups are few, and equal ones keep their order. */
static void sort_groups(struct search *search, bool is_by_memory,
                        bool is_descending)
{
    for (uint32_t i = 0; i < search->problem->num_groups; i++) {
        double value = measure(search, i, is_by_memory);
        uint32_t at = i;
        for (; at > 0; at--) {
            double other = measure(search, search->order[at - 1], is_by_memory);
            if (is_descending ? other >= value : other <= value)
                break;
            search->order[at] = search->order[at - 1];
        }
        search->order[at] = i;
    }
}

static void try_sorted(struct search *search)
{
    (void)try_order(search);
    for (int i = 0; i < 4; i++) {
        sort_groups(search, i % 2 == 0, i < 2);
        (void)try_order(search);
    }
}

/* Exchanges neighbours while that helps. */
static void climb(struct search *search)
{
    bool has_changed = search->best != NULL;
    while (has_changed && search->num_left > 0) {
        has_changed = false;
        for (uint32_t i = 0; i + 1 < search->problem->num_groups; i++) {
            memcpy(search->order, search->best_order,
                   search->problem->num_groups * sizeof *search->order);
            exchange(search->order, i, i + 1);
            has_changed = try_order(search) || has_changed;
        }
    }
}

static pen_status run(struct search *search, uint32_t most_orders)
{
    bool has_all = search->problem->num_groups <= MOST_PERMUTED;
    for (uint32_t i = 0; i < search->problem->num_groups; i++)
        search->order[i] = i;
    search->num_left = has_all ? UINT32_MAX : most_orders;
    if (has_all) {
        permute(search, 0);
    } else {
        try_sorted(search);
        climb(search);
    }
    if (search->best == NULL)
        return search->status;
    search->best->has_all_orders = has_all;
    return PEN_OK;
}

pen_status pen_chain_solve_any_order(const struct pen_chain_problem *problem,
                                     uint32_t most_orders,
                                     struct pen_chain_plan **out,
                                     struct pen_text *why)
{
    size_t count = problem->num_groups;
    struct search search = {.problem = problem,
                            .groups = calloc(count, sizeof *search.groups),
                            .order = calloc(count, sizeof *search.order),
                            .best_order =
                                calloc(count, sizeof *search.best_order),
                            .status = PEN_INVALID};
    pen_status status = PEN_NOMEM;
    if (count == 0 || most_orders == 0) {
        pen_why(why, "there is no order of %zu groups to try", count);
        status = PEN_INVALID;
    } else if (search.groups == NULL || search.order == NULL ||
               search.best_order == NULL) {
        pen_why(why, "no memory for %zu groups", count);
    } else {
        status = run(&search, most_orders);
        if (status != PEN_OK)
            pen_why(why, "%s", pen_text_string(&search.why));
    }
    free(search.groups);
    free(search.order);
    free(search.best_order);
    pen_text_release(&search.why);
    if (status == PEN_OK)
        *out = search.best;
    return status;
}
