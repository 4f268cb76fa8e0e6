/*
 * A coordinator of a ring serves while it has the store's lease. The lease only
 * keeps two coordinators from disturbing each other; the compare-and-swap keeps
 * the record right.
 *
 *     STANDBY ───lease──► reads the record ──► SERVES: listens, changes the
 *         ▲                                    membership, closes rounds
 *         └─────────lease lost, or not renewed in time─────────┘
 */
#include "ring/coordinator.h"

#include "ring/plant.h"

#include <string.h>

struct pen_ring_message *
pen__coordinator_send(const struct pen_ring_coordinator *coordinator,
                      struct pen_ring_actions *actions, enum pen_ring_kind kind,
                      uint64_t to)
{
    struct pen_ring_action *action = pen__ring_add(actions, PEN_RING_SEND);
    struct pen_ring_message *message = &action->message;
    action->to = to;
    message->kind = kind;
    message->from = PEN_RING_ISLANDS + coordinator->number;
    message->incarnation = 0;
    message->revision = coordinator->revision;
    message->epoch = coordinator->record.epoch;
    message->round = coordinator->record.round;
    message->set = 0;
    if (kind == PEN_RING_RECORD)
        message->record = coordinator->record;
    return message;
}

static void read_record(struct pen_ring_coordinator *coordinator, int64_t now,
                        struct pen_ring_actions *actions)
{
    coordinator->read_at = now + coordinator->setting->limits.beat;
    pen__ring_add(actions, PEN_RING_READ);
}

void pen__coordinator_swap(struct pen_ring_coordinator *coordinator,
                           const struct pen_ring_record *next, int64_t now,
                           struct pen_ring_actions *actions)
{
    struct pen_ring_action *action = pen__ring_add(actions, PEN_RING_SWAP);
    action->revision = coordinator->revision;
    action->record = *next;
    coordinator->is_swapping = true;
    coordinator->read_at = now + 2 * coordinator->setting->limits.beat;
}

bool pen__coordinator_hears(const struct pen_ring_coordinator *coordinator,
                            uint32_t island, int64_t now)
{
    const struct pen_ring_seen *seen = &coordinator->seen[island];
    int64_t since = seen->is_there ? seen->at : coordinator->serving_since;
    return now - since <= coordinator->setting->limits.patience;
}

/* ---- the record */

static void forget_round(struct pen_ring_coordinator *coordinator, int64_t now)
{
    coordinator->has_proposal = false;
    coordinator->quorum_at = 0;
    for (uint32_t i = 0; i < coordinator->setting->num_islands; i++) {
        coordinator->seen[i].whole = 0;
        coordinator->seen[i].offer_round = 0;
        coordinator->seen[i].has_acked = false;
    }
    coordinator->round_began_at = now;
}

static void take_record(struct pen_ring_coordinator *coordinator,
                        const struct pen_ring_event *event,
                        struct pen_ring_actions *actions)
{
    coordinator->is_swapping = false;
    if (event->is_refused && coordinator->has_proposal &&
        PEN__IS_PLANTED(PEN__PLANT_DOUBLE_COMMIT)) {
        coordinator->revision = event->revision;
        pen__coordinator_swap(coordinator, &coordinator->proposal, event->now,
                              actions);
        return;
    }
    if (event->revision <= coordinator->revision)
        return;
    if (event->record->round == coordinator->record.round + 1 &&
        coordinator->revision > 0)
        coordinator->lengths[coordinator->num_lengths++ % PEN_RING_MEDIAN_OF] =
            event->now - coordinator->round_began_at;
    coordinator->revision = event->revision;
    coordinator->record = *event->record;
    coordinator->to_evict &= ~coordinator->record.revoked;
    coordinator->to_leave &= coordinator->record.members;
    forget_round(coordinator, event->now);
    pen__coordinator_send(coordinator, actions, PEN_RING_RECORD,
                          pen_ring_bit(coordinator->setting->num_islands) - 1);
}

/* ---- messages */

static void note(struct pen_ring_coordinator *coordinator,
                 const struct pen_ring_message *message, int64_t now)
{
    struct pen_ring_seen *seen = &coordinator->seen[message->from];
    if (seen->is_there && message->incarnation < seen->incarnation)
        return;
    seen->is_there = true;
    seen->at = now;
    seen->incarnation = message->incarnation;
    seen->revision = message->revision;
    seen->epoch = message->epoch;
    seen->round = message->round;
    seen->hash = message->hash;
}

static void take_message(struct pen_ring_coordinator *coordinator,
                         const struct pen_ring_event *event,
                         struct pen_ring_actions *actions)
{
    const struct pen_ring_message *message = event->message;
    const struct pen_ring_record *record = &coordinator->record;
    uint32_t from = message->from;
    if (!coordinator->is_serving || coordinator->revision == 0 ||
        from >= coordinator->setting->num_islands)
        return;
    if (message->revision > coordinator->revision)
        read_record(coordinator, event->now, actions);
    else if (message->kind == PEN_RING_JOIN || message->kind == PEN_RING_BEAT ||
             message->kind == PEN_RING_LEAVE)
        pen__coordinator_send(coordinator, actions, PEN_RING_RECORD,
                              pen_ring_bit(from));
    if (pen_ring_has(record->revoked, from) &&
        !PEN__IS_PLANTED(PEN__PLANT_EVICTED_KEY))
        return;
    if (message->kind == PEN_RING_LEAVE &&
        message->incarnation >= record->incarnations[from]) {
        coordinator->to_leave |= pen_ring_bit(from);
        if (pen_ring_has(record->members, from))
            note(coordinator, message, event->now);
        else
            coordinator->seen[from].is_there = false;
        return;
    }
    if (message->kind == PEN_RING_JOIN) {
        if (message->incarnation > record->incarnations[from])
            note(coordinator, message, event->now);
        return;
    }
    if (!pen_ring_has(record->members, from) ||
        message->incarnation != record->incarnations[from])
        return;
    if (message->kind == PEN_RING_BEAT) {
        note(coordinator, message, event->now);
        if (message->revision == coordinator->revision)
            coordinator->seen[from].whole |= message->set;
    } else if (message->kind == PEN_RING_OFFER) {
        pen__coordinator_offer(coordinator, message);
    } else if (message->kind == PEN_RING_ACK) {
        pen__coordinator_ack(coordinator, message);
    }
}

/* ---- time */

static void lease(struct pen_ring_coordinator *coordinator,
                  const struct pen_ring_event *event,
                  struct pen_ring_actions *actions)
{
    const struct pen_ring_limits *limits = &coordinator->setting->limits;
    if (!event->is_granted) {
        coordinator->is_serving = false;
        return;
    }
    coordinator->lease_end = event->now + limits->lease;
    if (coordinator->is_serving)
        return;
    coordinator->is_serving = true;
    coordinator->serving_since = event->now;
    coordinator->revision = 0;
    coordinator->is_swapping = false;
    memset(coordinator->seen, 0, sizeof coordinator->seen);
    forget_round(coordinator, event->now);
    read_record(coordinator, event->now, actions);
}

static void work(struct pen_ring_coordinator *coordinator, int64_t now,
                 struct pen_ring_actions *actions)
{
    if (!coordinator->is_serving)
        return;
    if ((coordinator->is_swapping || coordinator->revision == 0) &&
        now >= coordinator->read_at) {
        coordinator->is_swapping = false;
        read_record(coordinator, now, actions);
    }
    if (coordinator->revision > 0 && !coordinator->is_swapping)
        pen__coordinator_members(coordinator, now, actions);
    if (coordinator->revision > 0 && !coordinator->is_swapping)
        pen__coordinator_round(coordinator, now, actions);
}

static void tick(struct pen_ring_coordinator *coordinator, int64_t now,
                 struct pen_ring_actions *actions)
{
    const struct pen_ring_limits *limits = &coordinator->setting->limits;
    if (now >= coordinator->lease_at) {
        coordinator->lease_at = now + limits->lease / 4;
        pen__ring_add(actions, PEN_RING_LEASE);
    }
    if (coordinator->is_serving && now > coordinator->lease_end)
        coordinator->is_serving = false;
    work(coordinator, now, actions);
}

void pen_ring_coordinator_init(struct pen_ring_coordinator *coordinator,
                               const struct pen_ring_setting *setting,
                               uint32_t number)
{
    memset(coordinator, 0, sizeof *coordinator);
    coordinator->setting = setting;
    coordinator->number = number;
}

void pen_ring_coordinator_step(struct pen_ring_coordinator *coordinator,
                               const struct pen_ring_event *event,
                               struct pen_ring_actions *actions)
{
    actions->count = 0;
    switch (event->kind) {
    case PEN_RING_TICK:
        tick(coordinator, event->now, actions);
        break;
    case PEN_RING_MESSAGE:
        take_message(coordinator, event, actions);
        if (event->message->kind != PEN_RING_JOIN)
            work(coordinator, event->now, actions);
        break;
    case PEN_RING_STORED:
        take_record(coordinator, event, actions);
        break;
    case PEN_RING_LEASED:
        lease(coordinator, event, actions);
        break;
    case PEN_RING_TOLD_TO_EVICT:
        coordinator->to_evict |= pen_ring_bit(event->island);
        break;
    default:
        break;
    }
}
