/*
 * The driver of all nodes: it carries out their actions, on a network and a
 * store that lose, delay, repeat and reorder.
 */
#include "ring/sim/world.h"

#include "base/bug.h"

#include <stddef.h>
#include <string.h>

bool pen__world_chance(struct pen_ring_world *world, double share)
{
    return share > 0 && pen_random_unit(&world->random) < share;
}

int64_t pen__world_between(struct pen_ring_world *world, int64_t least,
                           int64_t most)
{
    double share = pen_random_unit(&world->random);
    return least + (int64_t)(share * (double)(most - least));
}

uint32_t pen__world_num_nodes(const struct pen_ring_world *world)
{
    return world->setting.num_islands + world->setting.num_coordinators;
}

uint32_t pen__world_node_at(const struct pen_ring_world *world, uint32_t index)
{
    uint32_t islands = world->setting.num_islands;
    return index < islands ? index : PEN_RING_ISLANDS + index - islands;
}

int64_t pen__world_clock_of(const struct pen_ring_world *world, uint32_t node)
{
    const struct pen__node *at = &world->nodes[node];
    return at->offset + (int64_t)(at->rate * (double)world->now);
}

bool pen__world_can_hear(const struct pen_ring_world *world, uint32_t from,
                         uint32_t to)
{
    bool is_from = pen_ring_has(world->cut, from);
    bool is_to = pen_ring_has(world->cut, to);
    return is_from == is_to || (world->is_one_way && is_to);
}

void pen__world_mark(const struct pen_ring_world *world,
                     const struct pen_ring_mark_at *mark)
{
    if (world->run->mark != NULL)
        world->run->mark(world->run->context, mark);
}

/* ---- the network */

static void copy_message(struct pen_ring_message *out,
                         const struct pen_ring_message *message)
{
    bool has_record =
        message->kind == PEN_RING_RECORD || message->kind == PEN_RING_PROPOSE;
    memcpy(out, message,
           has_record ? sizeof *out
                      : offsetof(struct pen_ring_message, record));
}

static void send_one(struct pen_ring_world *world, uint32_t to,
                     const struct pen_ring_message *message)
{
    int64_t at = world->now + pen__world_between(world, world->delay_least,
                                                 world->delay_most);
    if (pen__world_chance(world, world->loss) ||
        pen__world_chance(world, world->corrupt) || /* a wrong checksum */
        !pen__world_can_hear(world, message->from, to)) {
        pen__world_mark(world,
                        &(struct pen_ring_mark_at){.mark = PEN_RING_MARK_LOST,
                                                   .kind = message->kind,
                                                   .node = message->from,
                                                   .peer = to,
                                                   .began_at = world->now,
                                                   .at = at});
        return;
    }
    struct pen__due *due = pen__world_queue_new(world);
    due->thing = PEN__DELIVER;
    due->node = to;
    copy_message(&due->message, message);
    pen__world_queue_push(world, due, at);
}

static void send_to(struct pen_ring_world *world, uint64_t to,
                    const struct pen_ring_message *message)
{
    for (uint32_t i = 0; i < pen__world_num_nodes(world); i++) {
        uint32_t node = pen__world_node_at(world, i);
        if (!pen_ring_has(to, node))
            continue;
        send_one(world, node, message);
        world->outcome->num_messages++;
        if (pen__world_chance(world, world->duplicate))
            send_one(world, node, message);
    }
}

static void give(struct pen_ring_world *world, uint32_t island,
                 const struct pen_ring_action *action)
{
    const struct pen_ring_kept *kept = &world->islands[island].kept;
    const struct pen_ring_part *own = &kept->parts[island];
    struct pen_ring_message message = {.kind = PEN_RING_FRAGMENT,
                                       .from = island,
                                       .incarnation = kept->incarnation,
                                       .revision = kept->revision,
                                       .epoch = own->epoch,
                                       .round = own->round,
                                       .offer = own->offer};
    for (uint32_t i = 0; i < own->offer.num_fragments; i++) {
        message.fragment = i;
        if (pen_ring_has(action->set, i))
            send_to(world, action->to, &message);
    }
}

/* ---- training and sums */

static void train(struct pen_ring_world *world, uint32_t island,
                  const struct pen_ring_action *action)
{
    if (world->training[island].is_on &&
        world->training[island].round == action->round &&
        world->training[island].first == action->first)
        return;
    struct pen_ring_offer *late = &world->training[island].late;
    bool is_late = late->num_fragments > 0 && late->first == action->first;
    struct pen__due *due = pen__world_queue_new(world);
    uint64_t batches = 1 + pen_random_below(&world->random, 8);
    due->thing = PEN__TRAINED;
    due->node = island;
    due->life = world->nodes[island].life;
    due->round = action->round;
    due->offer = (struct pen_ring_offer){
        .first = action->first,
        .last = (is_late && world->is_folding ? late->last : action->first) +
                batches,
        .num_fragments = 1 + pen_random_below(&world->random, 4)};
    due->offer.tokens = 100 * (due->offer.last - due->offer.first);
    for (uint32_t i = 0; i < 4; i++)
        due->offer.hash.words[i] = pen_random_next(&world->random);
    world->training[island].is_on = true;
    world->training[island].round = action->round;
    world->training[island].first = action->first;
    world->training[island].serial = due->revision = world->serial;
    *late = due->offer;
    double length = world->nodes[island].slowness *
                    (double)pen__world_between(world, SECOND / 2, 2 * SECOND);
    pen__world_queue_push(world, due, world->now + (int64_t)length);
}

static void sum(struct pen_ring_world *world, uint32_t island,
                const struct pen_ring_action *action)
{
    const struct pen_ring_kept *kept = &world->islands[island].kept;
    struct pen_ring_offer offers[PEN_RING_ISLANDS];
    for (uint32_t i = 0; i < world->setting.num_islands; i++) {
        const struct pen__real *real = &world->real[island][i];
        offers[i] = kept->parts[i].offer;
        if (pen_ring_has(action->set, i) &&
            (!pen_ring_same_hash(&real->of, &offers[i].hash) ||
             real->fragments != pen_ring_bit(offers[i].num_fragments) - 1))
            pen__world_break(world,
                             "A3: a sum of a contribution that is not whole");
    }
    struct pen_ring_event event = {
        .kind = PEN_RING_SUMMED, .round = action->round, .set = action->set};
    pen__world_sum(&kept->hash, action->set, offers, world->real[island],
                   &event.hash);
    pen__world_step(world, island, &event);
}

static void note_ack(struct pen_ring_world *world,
                     const struct pen_ring_message *message)
{
    uint32_t at = world->num_acks[message->from]++ % MOST_ACKS;
    world->acks[message->from][at] = (struct pen__ack){
        message->epoch, message->round, message->set, message->hash};
}

/* ---- the store */

static void ask_store(struct pen_ring_world *world, uint32_t node,
                      const struct pen_ring_action *action)
{
    if (pen__world_chance(world, world->loss))
        return;
    struct pen__due *due = pen__world_queue_new(world);
    due->thing = PEN__REQUEST;
    due->node = node;
    due->life = world->nodes[node].life;
    due->request = action->kind;
    due->revision = action->revision;
    if (action->kind == PEN_RING_SWAP)
        due->message.record = action->record;
    pen__world_queue_push(world, due,
                          world->now + pen__world_between(world,
                                                          world->delay_least,
                                                          world->delay_most));
}

/*
 * Asks the store in memory, which always answers; the network may lose the
 * answer.
 */
static void ask_memory(struct pen_ring_world *world, const struct pen__due *due,
                       struct pen__due *answer)
{
    struct pen_ring_store *store = &world->store;
    bool is_done = true;
    bool is_later = false;
    pen_status status = PEN_OK;
    world->memory.now = world->now;
    if (due->request == PEN_RING_LEASE)
        status =
            store->lease(store->target, due->node, world->setting.limits.lease,
                         &answer->is_granted, NULL);
    else if (due->request == PEN_RING_SWAP)
        status = store->swap(store->target, due->revision, &due->message.record,
                             &is_done, NULL);
    answer->is_refused = !is_done;
    world->outcome->num_conflicts += !is_done;
    if (status == PEN_OK)
        status = store->read(store->target, &answer->message.record,
                             &answer->revision, NULL);
    if (status == PEN_OK)
        status =
            store->watch(store->target, world->last_revision, &is_later, NULL);
    PEN_BUG_UNLESS(status == PEN_OK);
    if (is_later)
        pen__world_check_record(world);
}

/*
 * Sends a request to the store, a node of its own on the side of the last
 * coordinator.
 */
void pen__world_request(struct pen_ring_world *world, struct pen__due *due)
{
    if (world->is_out || pen_ring_has(world->cut, due->node))
        return;
    struct pen__due *answer = pen__world_queue_new(world);
    answer->thing = PEN__ANSWER;
    answer->node = due->node;
    answer->life = due->life;
    answer->request = due->request;
    ask_memory(world, due, answer);
    if (pen__world_chance(world, world->loss)) {
        pen__world_queue_done(world, answer);
        return;
    }
    pen__world_queue_push(world, answer,
                          world->now + pen__world_between(world,
                                                          world->delay_least,
                                                          world->delay_most));
}

/* ---- steps */

/*
 * Ends a process. Evicted and left islands stay away; others are started again.
 */
static void end(struct pen_ring_world *world, uint32_t node)
{
    world->nodes[node].is_up = false;
    if (pen_ring_has(world->memory.record.revoked, node) ||
        world->islands[node].is_leaving) {
        world->nodes[node].has_ended = true;
        return;
    }
    struct pen__due *due = pen__world_queue_new(world);
    due->thing = PEN__RESTART;
    due->node = node;
    due->life = world->nodes[node].life;
    pen__world_queue_push(world, due, world->now + SECOND);
}

static void carry_out(struct pen_ring_world *world, uint32_t node,
                      const struct pen_ring_action *action)
{
    switch (action->kind) {
    case PEN_RING_SEND:
        if (action->message.kind == PEN_RING_ACK)
            note_ack(world, &action->message);
        send_to(world, action->to, &action->message);
        break;
    case PEN_RING_GIVE:
        give(world, node, action);
        break;
    case PEN_RING_KEEP:
        world->kept[node] = world->islands[node].kept;
        memcpy(world->disk[node], world->real[node], sizeof world->disk[node]);
        break;
    case PEN_RING_TRAIN:
        train(world, node, action);
        break;
    case PEN_RING_SUM:
        sum(world, node, action);
        break;
    case PEN_RING_END:
        end(world, node);
        break;
    default:
        ask_store(world, node, action);
        break;
    }
}

/* Checks that the fragments that the island accepted were really received. */
static void receive(struct pen_ring_world *world, uint32_t island,
                    const struct pen_ring_message *message,
                    const struct pen_ring_part *before)
{
    const struct pen_ring_kept *kept = &world->islands[island].kept;
    const struct pen_ring_part *part = &kept->parts[message->from];
    struct pen__real *real = &world->real[island][message->from];
    if (part->fragments == before->fragments && part->epoch == before->epoch &&
        part->round == before->round)
        return;
    if (part->epoch != kept->record.epoch)
        pen__world_break(world, "A2: a fragment of another epoch was accepted");
    if (!pen_ring_same_hash(&real->of, &message->offer.hash))
        *real = (struct pen__real){.of = message->offer.hash};
    real->fragments |= pen_ring_bit(message->fragment);
}

static void step_island(struct pen_ring_world *world, uint32_t node,
                        const struct pen_ring_event *event,
                        struct pen_ring_actions *actions)
{
    struct pen_ring_island *island = &world->islands[node];
    bool is_fragment = event->kind == PEN_RING_MESSAGE &&
                       event->message->kind == PEN_RING_FRAGMENT;
    struct pen_ring_part before = {0};
    if (is_fragment)
        before = island->kept.parts[event->message->from];
    pen_ring_island_step(island, event, actions);
    if (is_fragment)
        receive(world, node, event->message, &before);
    const struct pen_ring_part *own = &island->kept.parts[node];
    world->real[node][node] = (struct pen__real){
        .of = own->offer.hash,
        .fragments = pen_ring_bit(own->offer.num_fragments) - 1};
}

void pen__world_step(struct pen_ring_world *world, uint32_t node,
                     struct pen_ring_event *event)
{
    struct pen_ring_actions actions;
    bool is_island = node < PEN_RING_ISLANDS;
    event->now = pen__world_clock_of(world, node);
    if (is_island)
        step_island(world, node, event, &actions);
    else
        pen_ring_coordinator_step(&world->coordinators[node - PEN_RING_ISLANDS],
                                  event, &actions);
    for (uint32_t i = 0; i < actions.count; i++)
        carry_out(world, node, &actions.list[i]);
    pen__world_check_node(world, node);
}

void pen__world_start(struct pen_ring_world *world, uint32_t node)
{
    struct pen__node *at = &world->nodes[node];
    at->is_up = true;
    at->life++;
    at->paused_until = 0;
    if (node < PEN_RING_ISLANDS) {
        struct pen_ring_island *island = &world->islands[node];
        uint64_t newest = world->incarnations[node];
        if (island->kept.incarnation > newest)
            newest = island->kept.incarnation;
        world->incarnations[node] = newest + 1;
        pen_ring_island_init(island, &world->setting, node, newest + 1,
                             &world->kept[node]);
        memcpy(world->real[node], world->disk[node], sizeof world->real[node]);
        world->training[node].is_on = false;
    } else {
        pen_ring_coordinator_init(&world->coordinators[node - PEN_RING_ISLANDS],
                                  &world->setting, node - PEN_RING_ISLANDS);
    }
    struct pen__due *due = pen__world_queue_new(world);
    due->thing = PEN__TICK;
    due->node = node;
    due->life = at->life;
    pen__world_queue_push(
        world, due, world->now + pen__world_between(world, 0, SECOND / 5));
}
