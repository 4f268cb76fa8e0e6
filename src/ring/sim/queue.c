/*
 * The queue of future events, by time: a heap of indices, so that nothing large
 * moves.
 */
#include "ring/sim/world.h"

#include "base/bug.h"

void pen__world_queue_clear(struct pen_ring_world *world)
{
    world->heap_size = 0;
    world->num_unused = MOST_EVENTS;
    for (uint32_t i = 0; i < MOST_EVENTS; i++)
        world->unused[i] = MOST_EVENTS - 1 - i;
}

struct pen__due *pen__world_queue_new(struct pen_ring_world *world)
{
    PEN_BUG_UNLESS(world->num_unused > 0);
    struct pen__due *due = &world->pool[world->unused[--world->num_unused]];
    due->began_at = world->now;
    return due;
}

static bool is_before(const struct pen_ring_world *world, uint32_t a,
                      uint32_t b)
{
    const struct pen__due *first = &world->pool[a];
    const struct pen__due *second = &world->pool[b];
    return first->at != second->at ? first->at < second->at
                                   : first->serial < second->serial;
}

void pen__world_queue_push(struct pen_ring_world *world, struct pen__due *due,
                           int64_t at)
{
    uint32_t index = (uint32_t)(due - world->pool);
    uint32_t place = world->heap_size++;
    due->at = at;
    due->serial = world->serial++;
    while (place > 0 && is_before(world, index, world->heap[(place - 1) / 2])) {
        world->heap[place] = world->heap[(place - 1) / 2];
        place = (place - 1) / 2;
    }
    world->heap[place] = index;
}

struct pen__due *pen__world_queue_pop(struct pen_ring_world *world)
{
    if (world->heap_size == 0)
        return NULL;
    uint32_t first = world->heap[0];
    uint32_t last = world->heap[--world->heap_size];
    uint32_t place = 0;
    for (;;) {
        uint32_t child = 2 * place + 1;
        if (child >= world->heap_size)
            break;
        if (child + 1 < world->heap_size &&
            is_before(world, world->heap[child + 1], world->heap[child]))
            child++;
        if (!is_before(world, world->heap[child], last))
            break;
        world->heap[place] = world->heap[child];
        place = child;
    }
    world->heap[place] = last;
    return &world->pool[first];
}

void pen__world_queue_done(struct pen_ring_world *world, struct pen__due *due)
{
    world->unused[world->num_unused++] = (uint32_t)(due - world->pool);
}
