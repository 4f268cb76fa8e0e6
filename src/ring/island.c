/*
 * One island of a ring: its messages and its signs of life. Its reaction to a
 * new record is in island_record.c.
 */
#include "ring/island.h"

#include "ring/plant.h"

#include <string.h>

bool pen__island_is_member(const struct pen_ring_island *island)
{
    const struct pen_ring_record *record = &island->kept.record;
    return pen_ring_has(record->members, island->number) &&
           record->incarnations[island->number] == island->kept.incarnation;
}

bool pen__island_is_current(const struct pen_ring_island *island)
{
    const struct pen_ring_kept *kept = &island->kept;
    return kept->revision > 0 && kept->round == kept->record.round &&
           pen_ring_same_hash(&kept->hash, &kept->record.hash);
}

uint64_t pen__island_coordinator(const struct pen_ring_island *island)
{
    return pen_ring_bit(PEN_RING_ISLANDS + island->coordinator);
}

uint64_t pen__island_peers(const struct pen_ring_island *island)
{
    return island->kept.record.members & ~pen_ring_bit(island->number);
}

struct pen_ring_message *pen__island_send(const struct pen_ring_island *island,
                                          struct pen_ring_actions *actions,
                                          enum pen_ring_kind kind, uint64_t to)
{
    struct pen_ring_action *action = pen__ring_add(actions, PEN_RING_SEND);
    struct pen_ring_message *message = &action->message;
    action->to = to;
    message->kind = kind;
    message->from = island->number;
    message->incarnation = island->kept.incarnation;
    message->revision = island->kept.revision;
    message->epoch = island->kept.record.epoch;
    message->round = island->kept.round;
    message->hash = island->kept.hash;
    message->set = 0;
    return message;
}

/* ---- contributions */

static uint64_t all_fragments(const struct pen_ring_offer *offer)
{
    return offer->num_fragments >= PEN_RING_FRAGMENTS
               ? UINT64_MAX
               : pen_ring_bit(offer->num_fragments) - 1;
}

static bool is_whole(const struct pen_ring_part *part)
{
    if (PEN__IS_PLANTED(PEN__PLANT_LOST_FRAGMENT))
        return pen_ring_count(part->fragments) + 1 >= part->offer.num_fragments;
    return part->fragments == all_fragments(&part->offer);
}

/*
 * Returns whether the part belongs to the round after the state that is held.
 */
static bool is_of(const struct pen_ring_part *part,
                  const struct pen_ring_kept *kept, uint64_t epoch)
{
    return part->round == kept->round + 1 && part->epoch == epoch &&
           part->offer.num_fragments > 0;
}

uint64_t pen_ring_island_whole(const struct pen_ring_island *island)
{
    const struct pen_ring_kept *kept = &island->kept;
    uint64_t whole = 0;
    for (uint32_t i = 0; i < island->setting->num_islands; i++)
        if (is_of(&kept->parts[i], kept, kept->record.epoch) &&
            is_whole(&kept->parts[i]))
            whole |= pen_ring_bit(i);
    return whole;
}

bool pen__island_can_sum(const struct pen_ring_island *island,
                         const struct pen_ring_record *record, uint64_t epoch)
{
    const struct pen_ring_kept *kept = &island->kept;
    if (record->round != kept->round + 1)
        return false;
    for (uint32_t i = 0; i < island->setting->num_islands; i++)
        if (pen_ring_has(record->contributors, i) &&
            (!is_of(&kept->parts[i], kept, epoch) ||
             !is_whole(&kept->parts[i]) ||
             !pen_ring_same_offer(&kept->parts[i].offer, &record->offers[i])))
            return false;
    return true;
}

/* Returns whether the message is of the round that is open here (A2). */
static bool is_open(const struct pen_ring_island *island,
                    const struct pen_ring_message *message)
{
    const struct pen_ring_record *record = &island->kept.record;
    bool is_epoch = message->epoch == record->epoch ||
                    PEN__IS_PLANTED(PEN__PLANT_STALE_EPOCH);
    return pen__island_is_member(island) && pen__island_is_current(island) &&
           is_epoch && message->round == record->round + 1;
}

static bool is_peer(const struct pen_ring_island *island,
                    const struct pen_ring_message *message)
{
    const struct pen_ring_record *record = &island->kept.record;
    return message->from < PEN_RING_ISLANDS &&
           message->from != island->number &&
           pen_ring_has(record->members, message->from) &&
           (record->incarnations[message->from] == message->incarnation ||
            PEN__IS_PLANTED(PEN__PLANT_STALE_EPOCH));
}

static void beat(struct pen_ring_island *island,
                 struct pen_ring_actions *actions)
{
    pen__island_send(island, actions, PEN_RING_BEAT,
                     pen__island_coordinator(island))
        ->set = pen_ring_island_whole(island);
}

static void take_fragment(struct pen_ring_island *island,
                          const struct pen_ring_message *message,
                          struct pen_ring_actions *actions)
{
    struct pen_ring_part *part = &island->kept.parts[message->from];
    if (!is_peer(island, message) || !is_open(island, message) ||
        message->offer.num_fragments == 0 ||
        message->offer.num_fragments > PEN_RING_FRAGMENTS ||
        message->fragment >= message->offer.num_fragments)
        return;
    bool is_known = part->epoch == message->epoch &&
                    part->round == message->round &&
                    part->offer.num_fragments > 0;
    if (is_known && !pen_ring_same_offer(&part->offer, &message->offer))
        return;
    if (!is_known)
        *part = (struct pen_ring_part){.epoch = message->epoch,
                                       .round = message->round,
                                       .offer = message->offer};
    if (pen_ring_has(part->fragments, message->fragment))
        return;
    part->fragments |= pen_ring_bit(message->fragment);
    if (is_whole(part))
        beat(island, actions);
}

static void give(struct pen_ring_island *island, uint64_t to,
                 uint64_t fragments, struct pen_ring_actions *actions)
{
    const struct pen_ring_part *own = &island->kept.parts[island->number];
    struct pen_ring_action *action = pen__ring_add(actions, PEN_RING_GIVE);
    action->to = to;
    action->set = fragments & all_fragments(&own->offer);
    action->round = own->round;
}

/* Sends the island's own contribution to the open round. */
static void offer(struct pen_ring_island *island,
                  struct pen_ring_actions *actions)
{
    const struct pen_ring_part *own = &island->kept.parts[island->number];
    struct pen_ring_message *message = pen__island_send(
        island, actions, PEN_RING_OFFER, pen__island_coordinator(island));
    message->round = own->round;
    message->offer = own->offer;
}

static void take_own(struct pen_ring_island *island,
                     const struct pen_ring_offer *own,
                     struct pen_ring_actions *actions)
{
    struct pen_ring_kept *kept = &island->kept;
    kept->parts[island->number] =
        (struct pen_ring_part){.epoch = kept->record.epoch,
                               .round = kept->round + 1,
                               .fragments = all_fragments(own),
                               .offer = *own};
    island->phase = PEN_RING_OFFERED;
    pen__ring_add(actions, PEN_RING_KEEP);
    offer(island, actions);
    beat(island, actions);
    give(island, pen__island_peers(island), UINT64_MAX, actions);
}

void pen__island_begin_round(struct pen_ring_island *island,
                             struct pen_ring_actions *actions)
{
    struct pen_ring_kept *kept = &island->kept;
    const struct pen_ring_part *own = &kept->parts[island->number];
    uint64_t cursor = kept->record.cursors[island->number];
    /* A broken round is repeated with the same contribution. */
    if (own->offer.num_fragments > 0 && own->round == kept->round + 1 &&
        own->offer.first == cursor) {
        const struct pen_ring_offer same = own->offer;
        take_own(island, &same, actions);
        return;
    }
    island->phase = PEN_RING_TRAINING;
    struct pen_ring_action *action = pen__ring_add(actions, PEN_RING_TRAIN);
    action->round = kept->round + 1;
    action->first = cursor;
}

static void trained(struct pen_ring_island *island,
                    const struct pen_ring_event *event,
                    struct pen_ring_actions *actions)
{
    const struct pen_ring_kept *kept = &island->kept;
    if (island->phase == PEN_RING_TRAINING && event->round == kept->round + 1 &&
        event->offer.first == kept->record.cursors[island->number])
        take_own(island, &event->offer, actions);
}

/* ---- messages */

static void propose(struct pen_ring_island *island,
                    const struct pen_ring_message *message,
                    struct pen_ring_actions *actions)
{
    if (message->from < PEN_RING_ISLANDS || !is_open(island, message) ||
        !pen__island_can_sum(island, &message->record, message->epoch))
        return;
    if (island->proposed == message->record.contributors && island->is_summed) {
        pen__island_ack(island, actions);
        return;
    }
    island->proposed = message->record.contributors;
    island->is_summed = false;
    struct pen_ring_action *action = pen__ring_add(actions, PEN_RING_SUM);
    action->set = message->record.contributors;
    action->round = message->round;
}

static void pull(struct pen_ring_island *island,
                 const struct pen_ring_message *message,
                 struct pen_ring_actions *actions)
{
    if (message->from < PEN_RING_ISLANDS &&
        message->round == island->kept.round)
        pen__island_send(island, actions, PEN_RING_STATE,
                         pen_ring_bit(message->from));
}

/* Takes a state if it is that of the record, whole, as its hash proves. */
static void take_state(struct pen_ring_island *island,
                       const struct pen_ring_message *message,
                       struct pen_ring_actions *actions)
{
    struct pen_ring_kept *kept = &island->kept;
    if (kept->revision == 0 || pen__island_is_current(island) ||
        message->round != kept->record.round ||
        !pen_ring_same_hash(&message->hash, &kept->record.hash))
        return;
    kept->round = message->round;
    kept->hash = message->hash;
    pen__ring_add(actions, PEN_RING_KEEP);
    if (pen__island_is_member(island))
        pen__island_begin_round(island, actions);
    else
        island->beat_at = 0;
}

static void take_message(struct pen_ring_island *island,
                         const struct pen_ring_event *event,
                         struct pen_ring_actions *actions)
{
    const struct pen_ring_message *message = event->message;
    if (message->from >= PEN_RING_ISLANDS) { /* the sender is a coordinator */
        island->coordinator = message->from - PEN_RING_ISLANDS;
        island->heard_at = event->now;
    }
    switch (message->kind) {
    case PEN_RING_RECORD:
        pen__island_adopt(island, message, actions);
        break;
    case PEN_RING_PROPOSE:
        propose(island, message, actions);
        break;
    case PEN_RING_FRAGMENT:
        take_fragment(island, message, actions);
        break;
    case PEN_RING_FETCH:
        if (is_peer(island, message) && is_open(island, message) &&
            island->phase == PEN_RING_OFFERED)
            give(island, pen_ring_bit(message->from), message->set, actions);
        break;
    case PEN_RING_PULL:
        pull(island, message, actions);
        break;
    case PEN_RING_STATE:
        take_state(island, message, actions);
        break;
    default:
        break;
    }
}

/* ---- signs of life */

/* Asks one peer, in turn, for missing parts of its contribution. */
static void fetch(struct pen_ring_island *island,
                  struct pen_ring_actions *actions)
{
    uint64_t missing =
        pen__island_peers(island) & ~pen_ring_island_whole(island);
    if (missing == 0 || !pen__island_is_current(island))
        return;
    do
        island->source = (island->source + 1) % island->setting->num_islands;
    while (!pen_ring_has(missing, island->source));
    const struct pen_ring_part *part = &island->kept.parts[island->source];
    bool is_begun = is_of(part, &island->kept, island->kept.record.epoch);
    struct pen_ring_message *message = pen__island_send(
        island, actions, PEN_RING_FETCH, pen_ring_bit(island->source));
    message->round = island->kept.round + 1;
    message->set = is_begun ? ~part->fragments : UINT64_MAX;
}

/* Asks one island, in turn, for the state of the record. */
static void ask_for_state(struct pen_ring_island *island,
                          struct pen_ring_actions *actions)
{
    uint32_t count = island->setting->num_islands;
    do
        island->source = (island->source + 1) % count;
    while (island->source == island->number && count > 1);
    pen__island_send(island, actions, PEN_RING_PULL,
                     pen_ring_bit(island->source))
        ->round = island->kept.record.round;
}

static void tick(struct pen_ring_island *island, int64_t now,
                 struct pen_ring_actions *actions)
{
    const struct pen_ring_limits *limits = &island->setting->limits;
    if (now < island->beat_at)
        return;
    island->beat_at = now + limits->beat;
    if (now - island->heard_at > limits->patience / 2) {
        island->coordinator =
            (island->coordinator + 1) % island->setting->num_coordinators;
        island->heard_at = now;
    }
    if (island->is_leaving)
        pen__island_send(island, actions, PEN_RING_LEAVE,
                         pen__island_coordinator(island));
    if (!pen__island_is_current(island) && island->kept.revision > 0)
        ask_for_state(island, actions);
    if (island->phase == PEN_RING_OUT) {
        /* A request to join may still be on its way. */
        if (island->is_leaving) {
            if (now - island->leaves_at > limits->patience &&
                island->kept.revision > 0 &&
                !pen_ring_has(island->kept.record.members, island->number))
                pen__island_end(island, actions);
            return;
        }
        pen__island_send(island, actions, PEN_RING_JOIN,
                         pen__island_coordinator(island));
        return;
    }
    beat(island, actions);
    if (island->phase == PEN_RING_OFFERED)
        offer(island, actions);
    fetch(island, actions);
}

void pen_ring_island_init(struct pen_ring_island *island,
                          const struct pen_ring_setting *setting,
                          uint32_t number, uint64_t incarnation,
                          const struct pen_ring_kept *kept)
{
    memset(island, 0, sizeof *island);
    island->setting = setting;
    island->number = number;
    island->phase = PEN_RING_OUT;
    island->source = number;
    if (kept != NULL)
        island->kept = *kept;
    island->kept.incarnation = incarnation;
}

void pen_ring_island_step(struct pen_ring_island *island,
                          const struct pen_ring_event *event,
                          struct pen_ring_actions *actions)
{
    actions->count = 0;
    if (island->phase == PEN_RING_ENDED)
        return;
    switch (event->kind) {
    case PEN_RING_TICK:
        tick(island, event->now, actions);
        break;
    case PEN_RING_MESSAGE:
        take_message(island, event, actions);
        break;
    case PEN_RING_TRAINED:
        trained(island, event, actions);
        break;
    case PEN_RING_SUMMED:
        pen__island_summed(island, event, actions);
        break;
    case PEN_RING_TOLD_TO_LEAVE:
        if (!island->is_leaving)
            island->leaves_at = event->now;
        island->is_leaving = true;
        island->beat_at = event->now;
        break;
    default:
        break;
    }
}
