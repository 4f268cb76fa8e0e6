/*
 * Depth first over the items, those first that give up size at the lowest cost.
 * The cost of the remaining items is bounded from below as if choices could be
 * split: the cheapest ones, and for the excess size the lowest rates in their
 * order. The first choice that is kept is the one those rates suggest. Where
 * two neighbours are equal, the second makes no later choice than the first, so
 * that equal layers do not multiply the ways to choose.
 */
#include "planner/knapsack.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static const struct pen_knapsack_choice *
choice_of(const struct pen_knapsack *knapsack, uint32_t item, uint32_t pick)
{
    return &knapsack->choices[knapsack->begins[item] + pick];
}

static uint32_t num_choices(const struct pen_knapsack *knapsack, uint32_t item)
{
    return knapsack->begins[item + 1] - knapsack->begins[item];
}

static uint32_t cheapest(const struct pen_knapsack *knapsack, uint32_t item)
{
    uint32_t least = 0;
    for (uint32_t i = 1; i < num_choices(knapsack, item); i++) {
        const struct pen_knapsack_choice *a = choice_of(knapsack, item, i);
        const struct pen_knapsack_choice *b = choice_of(knapsack, item, least);
        if (a->cost < b->cost || (a->cost == b->cost && a->size < b->size))
            least = i;
    }
    return least;
}

/* Rate and saving of an item; returns the choice with that rate. */
static uint32_t rate_item(const struct pen_knapsack *knapsack, uint32_t item,
                          struct pen_knapsack_room *room)
{
    uint32_t least = cheapest(knapsack, item);
    uint32_t found = least;
    const struct pen_knapsack_choice *from = choice_of(knapsack, item, least);
    room->rate = INFINITY;
    room->saving = 0;
    for (uint32_t i = 0; i < num_choices(knapsack, item); i++) {
        const struct pen_knapsack_choice *to = choice_of(knapsack, item, i);
        double saving = from->size - to->size;
        if (saving <= 0)
            continue;
        double rate = (to->cost - from->cost) / saving;
        if (rate < room->rate) {
            room->rate = rate;
            found = i;
        }
        room->saving = saving > room->saving ? saving : room->saving;
    }
    return found;
}

static int by_rate(const void *a, const void *b)
{
    const struct pen_knapsack_room *x = a;
    const struct pen_knapsack_room *y = b;
    if (x->rate != y->rate)
        return x->rate < y->rate ? -1 : 1;
    if (x->saving != y->saving)
        return x->saving > y->saving ? -1 : 1;
    return (x->item > y->item) - (x->item < y->item);
}

static void order_items(const struct pen_knapsack *knapsack,
                        struct pen_knapsack_room *room)
{
    uint32_t count = knapsack->num_items;
    for (uint32_t i = 0; i < count; i++) {
        room[i] = (struct pen_knapsack_room){.item = i};
        (void)rate_item(knapsack, i, &room[i]);
    }
    qsort(room, count, sizeof *room, by_rate);
    room[count] = (struct pen_knapsack_room){0};
    for (uint32_t i = count; i-- > 0;) {
        const struct pen_knapsack_choice *least =
            choice_of(knapsack, room[i].item, cheapest(knapsack, room[i].item));
        room[i].rest_cost = room[i + 1].rest_cost + least->cost;
        room[i].rest_size = room[i + 1].rest_size + least->size;
    }
}

/* The cheapest choices, and exchanges by rate until they fit. */
static double pick_by_rate(const struct pen_knapsack *knapsack,
                           struct pen_knapsack_room *room)
{
    double excess = room[0].rest_size - knapsack->capacity;
    double cost = 0;
    for (uint32_t i = 0; i < knapsack->num_items; i++) {
        struct pen_knapsack_room copy;
        uint32_t item = room[i].item;
        uint32_t pick = cheapest(knapsack, item);
        double size = choice_of(knapsack, item, pick)->size;
        if (excess > 0)
            pick = rate_item(knapsack, item, &copy);
        excess -= size - choice_of(knapsack, item, pick)->size;
        cost += choice_of(knapsack, item, pick)->cost;
        room[i].best = pick;
    }
    return excess > 0 ? INFINITY : cost;
}

/* No cost from this depth on is lower; may stop once it is not below `best`. */
static double bound_of(const struct pen_knapsack *knapsack,
                       const struct pen_knapsack_room *room, uint32_t depth,
                       double best)
{
    const struct pen_knapsack_room *at = &room[depth];
    double excess = at->size + at->rest_size - knapsack->capacity;
    double bound = at->cost + at->rest_cost;
    for (uint32_t i = depth; i < knapsack->num_items && excess > 0; i++) {
        double part = room[i].saving < excess ? room[i].saving : excess;
        if (part > 0)
            bound += part * room[i].rate;
        excess -= part;
        if (bound >= best)
            return bound;
    }
    return excess > 0 ? INFINITY : bound;
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

/* One more than the last choice that an item may make. */
static uint32_t first_try(const struct pen_knapsack *knapsack,
                          const struct pen_knapsack_room *room, uint32_t depth)
{
    uint32_t item = room[depth].item;
    if (depth > 0 && are_equal(knapsack, room[depth - 1].item, item))
        return room[depth - 1].tried + 1;
    return num_choices(knapsack, item);
}

static double search(const struct pen_knapsack *knapsack,
                     struct pen_knapsack_room *room, double best, double *bound)
{
    uint32_t depth = 0;
    room[0].next = first_try(knapsack, room, 0);
    for (uint64_t steps = 0;; steps++) {
        if (room[depth].next == 0) {
            if (depth == 0)
                break;
            depth--;
            continue;
        }
        if (steps >= knapsack->most_steps)
            return best;
        struct pen_knapsack_room *at = &room[depth];
        at->tried = --at->next;
        const struct pen_knapsack_choice *it =
            choice_of(knapsack, at->item, at->tried);
        room[depth + 1].cost = at->cost + it->cost;
        room[depth + 1].size = at->size + it->size;
        if (bound_of(knapsack, room, depth + 1, best) >= best)
            continue;
        if (depth + 1 < knapsack->num_items) {
            depth++;
            room[depth].next = first_try(knapsack, room, depth);
            continue;
        }
        best = room[depth + 1].cost;
        for (uint32_t i = 0; i < knapsack->num_items; i++)
            room[i].best = room[i].tried;
    }
    *bound = best;
    return best;
}

double pen_knapsack_solve(const struct pen_knapsack *knapsack,
                          struct pen_knapsack_room *room, double *bound)
{
    if (knapsack->num_items == 0)
        return *bound = knapsack->capacity >= 0 ? 0 : INFINITY;
    order_items(knapsack, room);
    double best = pick_by_rate(knapsack, room);
    *bound = bound_of(knapsack, room, 0, INFINITY);
    if (*bound < best)
        best = search(knapsack, room, best, bound);
    else
        *bound = best;
    for (uint32_t i = 0; i < knapsack->num_items; i++)
        room[room[i].item].pick = room[i].best;
    return best;
}
