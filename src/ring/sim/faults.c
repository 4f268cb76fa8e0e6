/*
 * The faults of a run: they are drawn from the seed before the run begins, and
 * carried out here.
 */
#include "ring/sim/world.h"

#include <string.h>

static void draw_rates(struct pen_ring_world *world)
{
    static const double rates[] = {0, 0, 0.01, 0.05, 0.2};
    static const int64_t delays[] = {SECOND / 1000, SECOND / 50, SECOND / 5};
    struct pen_random *random = &world->random;
    world->loss = rates[pen_random_below(random, 5)];
    world->duplicate = rates[pen_random_below(random, 5)];
    world->corrupt = rates[pen_random_below(random, 3)];
    world->delay_least = SECOND / 10000;
    world->delay_most = delays[pen_random_below(random, 3)];
    world->is_folding = pen__world_chance(world, 0.5);
}

static void draw_nodes(struct pen_ring_world *world)
{
    for (uint32_t i = 0; i < pen__world_num_nodes(world); i++) {
        struct pen__node *node = &world->nodes[pen__world_node_at(world, i)];
        bool is_skewed = pen__world_chance(world, 0.3);
        node->rate =
            is_skewed ? 0.8 + 0.4 * pen_random_unit(&world->random) : 1;
        node->offset = pen__world_between(world, SECOND, 1000000 * SECOND);
        node->slowness = pen__world_chance(world, 0.2) ? 4 : 1;
    }
}

static void draw_cluster(struct pen_ring_world *world)
{
    struct pen_random *random = &world->random;
    struct pen_ring_setting *setting = &world->setting;
    pen_ring_limits_init(&setting->limits, PATIENCE);
    setting->num_islands = 3 + pen_random_below(random, 7);
    setting->num_coordinators = 2 + pen_random_below(random, 2);
    setting->quorum =
        1 + pen_random_below(random, setting->num_islands / 2 + 1);
}

static void draw_one(struct pen_ring_world *world, uint32_t *removals)
{
    enum pen__fault fault = pen_random_below(&world->random, PEN__NUM_FAULTS);
    bool removes = fault == PEN__EVICT || fault == PEN__LEAVE;
    if (removes &&
        world->setting.quorum + *removals >= world->setting.num_islands)
        fault = PEN__CRASH;
    else if (removes && ++*removals > 2)
        fault = PEN__PAUSE;
    uint32_t count = fault == PEN__EVICT || fault == PEN__LEAVE
                         ? world->setting.num_islands
                         : pen__world_num_nodes(world);
    struct pen__due *due = pen__world_queue_new(world);
    due->thing = PEN__FAULT;
    due->fault = fault;
    due->node =
        pen__world_node_at(world, pen_random_below(&world->random, count));
    due->round = pen_random_next(&world->random); /* the sides of a cut */
    due->length = pen__world_between(
        world, SECOND / 10,
        pen__world_chance(world, 0.3) ? 5 * PATIENCE : PATIENCE / 2);
    pen__world_queue_push(world, due, pen__world_between(world, 0, FAULT_TIME));
    world->outcome->num_faults++;
}

void pen__world_draw_faults(struct pen_ring_world *world)
{
    draw_rates(world);
    draw_cluster(world);
    draw_nodes(world);
    uint32_t removals = 0;
    uint32_t count = pen_random_below(&world->random, 16);
    for (uint32_t i = 0; i < count; i++)
        draw_one(world, &removals);
    /*
     * A run that wipes a copy of the state must not lose another one meanwhile.
     */
    world->has_wiped = removals > 0;
    struct pen__due *due = pen__world_queue_new(world);
    due->thing = PEN__HEAL;
    pen__world_queue_push(world, due, FAULT_TIME);
}

/* ---- crashes */

/* Returns whether another member holds the state that this one would lose. */
static bool may_wipe(const struct pen_ring_world *world, uint32_t island)
{
    return (pen__world_holders(world) & ~pen_ring_bit(island)) != 0;
}

static void crash(struct pen_ring_world *world, const struct pen__due *due)
{
    uint32_t node = due->node;
    bool is_wiped = false;
    if (!world->nodes[node].is_up)
        return;
    world->nodes[node].is_up = false;
    world->nodes[node].life++;
    if (node < PEN_RING_ISLANDS) {
        struct pen_ring_kept *kept = &world->kept[node];
        uint64_t newest = world->islands[node].kept.incarnation;
        if (newest > world->incarnations[node])
            world->incarnations[node] = newest;
        world->islands[node].kept = *kept;
        pen__world_check_kept(world);
        is_wiped = world->broken == NULL && !world->has_wiped &&
                   pen__world_chance(world, 0.2) && may_wipe(world, node);
        if (is_wiped) {
            world->has_wiped = true;
            memset(kept, 0, sizeof *kept);
            memset(world->disk[node], 0, sizeof world->disk[node]);
            memset(&world->training[node], 0, sizeof world->training[node]);
            world->islands[node].kept = *kept;
        }
    }
    struct pen__due *again = pen__world_queue_new(world);
    again->thing = PEN__RESTART;
    again->node = node;
    again->life = world->nodes[node].life;
    pen__world_queue_push(world, again, world->now + due->length);
    pen__world_mark(world,
                    &(struct pen_ring_mark_at){.mark = PEN_RING_MARK_CRASH,
                                               .node = node,
                                               .began_at = world->now,
                                               .at = world->now + due->length,
                                               .is_wiped = is_wiped});
}

void pen__world_restart(struct pen_ring_world *world, uint32_t node)
{
    if (!world->nodes[node].is_up && !world->nodes[node].has_ended)
        pen__world_start(world, node);
}

/* ---- others */

static void mend_later(struct pen_ring_world *world, const struct pen__due *due)
{
    struct pen__due *later = pen__world_queue_new(world);
    later->thing = PEN__MEND;
    later->fault = due->fault;
    pen__world_queue_push(world, later, world->now + due->length);
}

static void divide(struct pen_ring_world *world, const struct pen__due *due)
{
    world->cut = 0;
    for (uint32_t i = 0; i < pen__world_num_nodes(world); i++)
        if (pen_ring_has(due->round, i))
            world->cut |= pen_ring_bit(pen__world_node_at(world, i));
    world->is_one_way = due->fault == PEN__ONE_WAY;
    mend_later(world, due);
    pen__world_mark(world,
                    &(struct pen_ring_mark_at){.mark = PEN_RING_MARK_CUT,
                                               .set = world->cut,
                                               .began_at = world->now,
                                               .at = world->now + due->length});
}

void pen__world_evict(struct pen_ring_world *world, uint32_t island)
{
    struct pen_ring_event event = {.kind = PEN_RING_TOLD_TO_EVICT,
                                   .island = island};
    for (uint32_t i = 0; i < world->setting.num_coordinators; i++)
        if (world->nodes[PEN_RING_ISLANDS + i].is_up)
            pen__world_step(world, PEN_RING_ISLANDS + i, &event);
}

void pen__world_fault(struct pen_ring_world *world, const struct pen__due *due)
{
    struct pen_ring_event leave = {.kind = PEN_RING_TOLD_TO_LEAVE};
    struct pen_ring_mark_at mark = {.node = due->node,
                                    .began_at = world->now,
                                    .at = world->now + due->length};
    struct pen__node *node = &world->nodes[due->node];
    switch (due->fault) {
    case PEN__CRASH:
        crash(world, due);
        return;
    case PEN__PAUSE:
        node->paused_until = world->now + due->length;
        mark.mark = PEN_RING_MARK_PAUSE;
        break;
    case PEN__CUT:
    case PEN__ONE_WAY:
        divide(world, due);
        return;
    case PEN__OUTAGE:
        world->is_out = true;
        mend_later(world, due);
        mark.mark = PEN_RING_MARK_OUTAGE;
        break;
    case PEN__LOSE_LEASE:
        world->memory.is_leased = false;
        mark.mark = PEN_RING_MARK_LEASE;
        mark.at = world->now;
        break;
    case PEN__EVICT:
        pen__world_evict(world, due->node);
        mark.mark = PEN_RING_MARK_EVICT;
        mark.at = world->now;
        break;
    default:
        if (node->is_up)
            pen__world_step(world, due->node, &leave);
        mark.mark = PEN_RING_MARK_LEAVE;
        mark.at = world->now;
        break;
    }
    pen__world_mark(world, &mark);
}

void pen__world_mend(struct pen_ring_world *world, const struct pen__due *due)
{
    if (due->fault == PEN__OUTAGE)
        world->is_out = false;
    else
        world->cut = 0;
}

void pen__world_heal(struct pen_ring_world *world)
{
    world->is_healed = true;
    world->healed_at = world->now;
    world->healed_round = world->memory.record.round;
    world->loss = world->duplicate = world->corrupt = 0;
    world->cut = 0;
    world->is_out = false;
    for (uint32_t i = 0; i < pen__world_num_nodes(world); i++) {
        uint32_t node = pen__world_node_at(world, i);
        world->nodes[node].paused_until = 0;
        world->nodes[node].slowness = 1;
        pen__world_restart(world, node);
    }
    pen__world_mark(world,
                    &(struct pen_ring_mark_at){.mark = PEN_RING_MARK_HEAL,
                                               .began_at = world->now,
                                               .at = world->now});
}
