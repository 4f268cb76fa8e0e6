/*
 * Depth first over the items. What is left is bounded from below by its
 * cheapest choices and, as far as those do not fit, by the best rate at which
 * any item gives up size for cost. Of equal neighbours the later one chooses no
 * earlier choice, so that equal layers do not multiply the ways to choose.
 */
#include "planner/knapsack.h"

#include <math.h>

static const struct pen_knapsack_choice *
choice_of(const struct pen_knapsack *knapsack, uint32_t item, uint32_t pick)
{
    return &knapsack->choices[knapsack->begins[item] + pick];
}

static uint32_t num_choices(const struct pen_knapsack *knapsack, uint32_t item)
{
    return knapsack->begins[item + 1] - knapsack->begins[item];
}

static const struct pen_knapsack_choice *
cheapest(const struct pen_knapsack *knapsack, uint32_t item)
{
    const struct pen_knapsack_choice *least = choice_of(knapsack, item, 0);
    for (uint32_t i = 1; i < num_choices(knapsack, item); i++) {
        const struct pen_knapsack_choice *it = choice_of(knapsack, item, i);
        if (it->cost < least->cost ||
            (it->cost == least->cost && it->size < least->size))
            least = it;
    }
    return least;
}

/* Sums over each item and all behind it. */
static void fill_rests(const struct pen_knapsack *knapsack,
                       struct pen_knapsack_room *room)
{
    room[knapsack->num_items] =
        (struct pen_knapsack_room){.rest_rate = INFINITY};
    for (uint32_t item = knapsack->num_items; item-- > 0;) {
        const struct pen_knapsack_choice *least = cheapest(knapsack, item);
        double smallest = least->size;
        double rate = room[item + 1].rest_rate;
        for (uint32_t i = 0; i < num_choices(knapsack, item); i++) {
            const struct pen_knapsack_choice *it = choice_of(knapsack, item, i);
            if (it->size >= least->size)
                continue;
            rate =
                fmin(rate, (it->cost - least->cost) / (least->size - it->size));
            smallest = fmin(smallest, it->size);
        }
        room[item] = (struct pen_knapsack_room){
            .rest_cost = room[item + 1].rest_cost + least->cost,
            .rest_size = room[item + 1].rest_size + least->size,
            .rest_least_size = room[item + 1].rest_least_size + smallest,
            .rest_rate = rate};
    }
}

static bool is_hopeless(const struct pen_knapsack *knapsack,
                        const struct pen_knapsack_room *at, double best)
{
    double excess = at->size + at->rest_size - knapsack->capacity;
    double bound = at->cost + at->rest_cost;
    if (at->size + at->rest_least_size > knapsack->capacity)
        return true;
    if (excess > 0)
        bound += excess * at->rest_rate;
    return bound >= best;
}

static bool are_equal(const struct pen_knapsack *knapsack, uint32_t a,
                      uint32_t b)
{
    if (num_choices(knapsack, a) != num_choices(knapsack, b))
        return false;
    for (uint32_t i = 0; i < num_choices(knapsack, a); i++) {
        const struct pen_knapsack_choice *x = choice_of(knapsack, a, i);
        const struct pen_knapsack_choice *y = choice_of(knapsack, b, i);
        if (x->cost != y->cost || x->size != y->size)
            return false;
    }
    return true;
}

static void keep(const struct pen_knapsack *knapsack,
                 struct pen_knapsack_room *room)
{
    for (uint32_t i = 0; i < knapsack->num_items; i++)
        room[i].pick = room[i].tried;
}

double pen_knapsack_solve(const struct pen_knapsack *knapsack,
                          struct pen_knapsack_room *room, bool *is_exact)
{
    double best = INFINITY;
    uint32_t depth = 0;
    fill_rests(knapsack, room);
    if (knapsack->num_items == 0)
        return knapsack->capacity >= 0 ? 0 : INFINITY;
    for (uint64_t steps = 0;;) {
        if (room[depth].next == num_choices(knapsack, depth)) {
            if (depth == 0)
                return best;
            depth--;
            continue;
        }
        if (steps++ == knapsack->most_steps) {
            *is_exact = false;
            return best;
        }
        uint32_t pick = room[depth].tried = room[depth].next++;
        const struct pen_knapsack_choice *it = choice_of(knapsack, depth, pick);
        struct pen_knapsack_room *after = &room[depth + 1];
        after->cost = room[depth].cost + it->cost;
        after->size = room[depth].size + it->size;
        if (is_hopeless(knapsack, after, best))
            continue;
        if (depth + 1 == knapsack->num_items) {
            best = after->cost;
            keep(knapsack, room);
            continue;
        }
        depth++;
        after->next = are_equal(knapsack, depth - 1, depth) ? pick : 0;
    }
}
