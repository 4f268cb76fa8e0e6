/*
 * Runs one seed: takes the next event until all is well or an invariant is
 * broken.
 */
#include "ring/sim/sim.h"

#include "ring/sim/world.h"

#include <stdlib.h>
#include <string.h>

struct pen_ring_world *pen_ring_world_create(void)
{
    return malloc(sizeof(struct pen_ring_world));
}

void pen_ring_world_free(struct pen_ring_world *world)
{
    free(world);
}

static void begin(struct pen_ring_world *world, const struct pen_ring_run *run,
                  struct pen_ring_outcome *out)
{
    memset(world, 0, offsetof(struct pen_ring_world, heap));
    memset(out, 0, sizeof *out);
    world->run = run;
    world->outcome = out;
    world->random.state = run->seed;
    pen__world_queue_clear(world);
    pen__world_draw_faults(world);
    pen_ring_memory_init(&world->memory, &world->store);
    world->last_revision = world->memory.revision;
    out->num_islands = world->setting.num_islands;
    out->num_coordinators = world->setting.num_coordinators;
    out->quorum = world->setting.quorum;
    for (uint32_t i = 0; i < pen__world_num_nodes(world); i++)
        pen__world_start(world, pen__world_node_at(world, i));
}

/* Lets an evicted island try its key again, with all messages of a member. */
static void attack(struct pen_ring_world *world, uint32_t island)
{
    const struct pen_ring_record *record = &world->memory.record;
    struct pen_ring_message message = {.kind = PEN_RING_JOIN,
                                       .from = island,
                                       .incarnation =
                                           record->incarnations[island] + 1,
                                       .revision = world->memory.revision,
                                       .epoch = record->epoch,
                                       .round = record->round,
                                       .hash = record->hash};
    struct pen_ring_event event = {.kind = PEN_RING_MESSAGE,
                                   .message = &message};
    for (uint32_t i = 0; i < world->setting.num_coordinators; i++)
        if (world->nodes[PEN_RING_ISLANDS + i].is_up)
            pen__world_step(world, PEN_RING_ISLANDS + i, &event);
}

static void tick(struct pen_ring_world *world, uint32_t node, uint64_t life)
{
    struct pen_ring_event event = {.kind = PEN_RING_TICK};
    if (world->nodes[node].is_up)
        pen__world_step(world, node, &event);
    else if (world->nodes[node].has_ended && !world->is_healed &&
             pen_ring_has(world->memory.record.revoked, node))
        attack(world, node);
    else if (world->nodes[node].has_ended && world->is_healed &&
             pen_ring_has(world->memory.record.members, node))
        pen__world_evict(world, node); /* the operator sees that it is gone */
    struct pen__due *due = pen__world_queue_new(world);
    due->thing = PEN__TICK;
    due->node = node;
    due->life = life;
    pen__world_queue_push(world, due,
                          world->now + world->setting.limits.beat / 2);
}

static void deliver(struct pen_ring_world *world, const struct pen__due *due)
{
    struct pen_ring_event event = {.kind = PEN_RING_MESSAGE,
                                   .message = &due->message};
    pen__world_mark(world,
                    &(struct pen_ring_mark_at){.mark = PEN_RING_MARK_MESSAGE,
                                               .kind = due->message.kind,
                                               .node = due->message.from,
                                               .peer = due->node,
                                               .began_at = due->began_at,
                                               .at = world->now});
    pen__world_step(world, due->node, &event);
}

static void trained(struct pen_ring_world *world, const struct pen__due *due)
{
    struct pen_ring_event event = {
        .kind = PEN_RING_TRAINED, .round = due->round, .offer = due->offer};
    if (!world->training[due->node].is_on ||
        world->training[due->node].serial != due->revision)
        return;
    world->training[due->node].is_on = false;
    pen__world_mark(world,
                    &(struct pen_ring_mark_at){.mark = PEN_RING_MARK_TRAIN,
                                               .node = due->node,
                                               .round = due->round,
                                               .began_at = due->began_at,
                                               .at = world->now});
    pen__world_step(world, due->node, &event);
}

static void answer(struct pen_ring_world *world, const struct pen__due *due)
{
    struct pen_ring_event event = {.kind = due->request == PEN_RING_LEASE
                                               ? PEN_RING_LEASED
                                               : PEN_RING_STORED,
                                   .record = &due->message.record,
                                   .revision = due->revision,
                                   .is_refused = due->is_refused,
                                   .is_granted = due->is_granted};
    pen__world_step(world, due->node, &event);
}

/*
 * Delivers an event to a living node; an event for an earlier life of the node
 * is lost.
 */
static void happen_to_node(struct pen_ring_world *world,
                           const struct pen__due *due)
{
    const struct pen__node *node = &world->nodes[due->node];
    if (due->thing != PEN__DELIVER && due->life != node->life)
        return;
    if (due->thing == PEN__TICK)
        tick(world, due->node, due->life);
    else if (due->thing == PEN__RESTART)
        pen__world_restart(world, due->node);
    else if (!node->is_up)
        return;
    else if (due->thing == PEN__DELIVER)
        deliver(world, due);
    else if (due->thing == PEN__TRAINED)
        trained(world, due);
    else
        answer(world, due);
}

static void happen(struct pen_ring_world *world, struct pen__due *due)
{
    switch (due->thing) {
    case PEN__REQUEST:
        pen__world_request(world, due);
        break;
    case PEN__FAULT:
        pen__world_fault(world, due);
        break;
    case PEN__MEND:
        pen__world_mend(world, due);
        break;
    case PEN__HEAL:
        pen__world_heal(world);
        break;
    default:
        happen_to_node(world, due);
        break;
    }
}

/*
 * Returns whether the event is for a stopped process, which sees it when it
 * continues.
 */
static bool is_stopped(const struct pen_ring_world *world,
                       const struct pen__due *due)
{
    return (due->thing <= PEN__TRAINED || due->thing == PEN__ANSWER) &&
           world->nodes[due->node].paused_until > world->now;
}

pen_status pen_ring_sim(struct pen_ring_world *world,
                        const struct pen_ring_run *run,
                        struct pen_ring_outcome *out, struct pen_text *why)
{
    begin(world, run, out);
    while (world->broken == NULL && !pen__world_is_done(world)) {
        struct pen__due *due = pen__world_queue_pop(world);
        world->now = due->at;
        if (world->is_healed && world->now > world->healed_at + HEAL_TIME) {
            pen__world_break(world,
                             "liveness: healed, but the run does not continue");
        } else if (is_stopped(world, due)) {
            pen__world_queue_push(world, due,
                                  world->nodes[due->node].paused_until);
            continue;
        } else {
            happen(world, due);
            out->num_events++;
        }
        pen__world_queue_done(world, due);
    }
    out->length = world->now;
    world->store.close(world->store.target);
    if (world->broken == NULL)
        return PEN_OK;
    pen_why(why, "%s, after %.3f s and %llu events", world->broken,
            1e-9 * (double)world->now, (unsigned long long)out->num_events);
    return PEN_INVALID;
}
