/*
 * The open round of a coordinator. It closes when enough contributions are with
 * more than half of the members and the grace window is over, or when no more
 * can come. A proposal that is not acknowledged in time is void; its
 * contributions stay, and the next proposal is made of those present then.
 */
#include "ring/coordinator.h"

#include "ring/plant.h"

#include <stddef.h>

/* Returns whether a message is of the open round (A2). */
static bool is_open(const struct pen_ring_coordinator *coordinator,
                    const struct pen_ring_message *message)
{
    const struct pen_ring_record *record = &coordinator->record;
    return message->round == record->round + 1 &&
           (message->epoch == record->epoch ||
            PEN__IS_PLANTED(PEN__PLANT_STALE_EPOCH));
}

void pen__coordinator_offer(struct pen_ring_coordinator *coordinator,
                            const struct pen_ring_message *message)
{
    struct pen_ring_seen *seen = &coordinator->seen[message->from];
    const struct pen_ring_offer *offer = &message->offer;
    if (!is_open(coordinator, message) || offer->num_fragments == 0 ||
        offer->num_fragments > PEN_RING_FRAGMENTS ||
        offer->first != coordinator->record.cursors[message->from] ||
        offer->last < offer->first)
        return;
    seen->offer_epoch = message->epoch;
    seen->offer_round = message->round;
    seen->offer = *offer;
}

void pen__coordinator_ack(struct pen_ring_coordinator *coordinator,
                          const struct pen_ring_message *message)
{
    if (!coordinator->has_proposal || !is_open(coordinator, message) ||
        message->set != coordinator->proposal.contributors)
        return;
    coordinator->seen[message->from].has_acked = true;
    coordinator->seen[message->from].sum = message->hash;
}

const struct pen_ring_record *
pen_ring_coordinator_past(const struct pen_ring_coordinator *coordinator)
{
    const struct pen_ring_past *past = &coordinator->setting->past;
    uint64_t round = coordinator->record.round;
    return round < past->count ? &past->rounds[round] : NULL;
}

/* Returns the contributions that more than half of the members have whole. */
static uint64_t ready(const struct pen_ring_coordinator *coordinator)
{
    const struct pen_ring_record *record = &coordinator->record;
    uint32_t count = coordinator->setting->num_islands;
    uint64_t set = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t keepers = 0;
        if (!pen_ring_has(record->members, i) ||
            coordinator->seen[i].offer_round != record->round + 1)
            continue;
        for (uint32_t j = 0; j < count; j++)
            if (pen_ring_has(coordinator->seen[j].whole, i))
                keepers |= pen_ring_bit(j);
        if (pen_ring_is_most(keepers, record->members))
            set |= pen_ring_bit(i);
    }
    return set;
}

static int64_t grace(const struct pen_ring_coordinator *coordinator)
{
    const struct pen_ring_limits *limits = &coordinator->setting->limits;
    uint32_t count = coordinator->num_lengths < PEN_RING_MEDIAN_OF
                         ? coordinator->num_lengths
                         : PEN_RING_MEDIAN_OF;
    int64_t sorted[PEN_RING_MEDIAN_OF];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i;
        for (; at > 0 && sorted[at - 1] > coordinator->lengths[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = coordinator->lengths[i];
    }
    int64_t median = count == 0 ? limits->grace_most * PEN_RING_GRACE_SHARE
                                : sorted[count / 2];
    int64_t window = median / PEN_RING_GRACE_SHARE;
    if (window < limits->grace_least)
        return limits->grace_least;
    return window > limits->grace_most ? limits->grace_most : window;
}

static void propose(struct pen_ring_coordinator *coordinator, uint64_t set,
                    int64_t now)
{
    struct pen_ring_record *next = &coordinator->proposal;
    *next = coordinator->record;
    next->round++;
    next->round_epoch = next->epoch;
    next->contributors = set;
    for (uint32_t i = 0; i < coordinator->setting->num_islands; i++) {
        next->offers[i] = (struct pen_ring_offer){0};
        coordinator->seen[i].has_acked = false;
        if (!pen_ring_has(set, i))
            continue;
        next->offers[i] = coordinator->seen[i].offer;
        next->cursors[i] = next->offers[i].last;
    }
    coordinator->has_proposal = true;
    coordinator->proposed_at = now;
    coordinator->repeat_at = now;
}

/* Commits when more than half of the members have the same sum (A4). */
static void commit(struct pen_ring_coordinator *coordinator, int64_t now,
                   struct pen_ring_actions *actions)
{
    const struct pen_ring_record *record = &coordinator->record;
    uint32_t count = coordinator->setting->num_islands;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t same = 0;
        for (uint32_t j = 0; j < count; j++)
            if (coordinator->seen[i].has_acked &&
                coordinator->seen[j].has_acked &&
                pen_ring_same_hash(&coordinator->seen[i].sum,
                                   &coordinator->seen[j].sum))
                same |= pen_ring_bit(j);
        if (!pen_ring_is_most(same, record->members))
            continue;
        const struct pen_ring_record *past =
            pen_ring_coordinator_past(coordinator);
        coordinator->proposal.hash = coordinator->seen[i].sum;
        coordinator->is_other_state =
            past != NULL &&
            !pen_ring_same_hash(&past->hash, &coordinator->proposal.hash);
        if (coordinator->is_other_state)
            return;
        pen__coordinator_swap(coordinator, &coordinator->proposal, now,
                              actions);
        return;
    }
}

/*
 * Proposes a round of the past again, once all its contributors have given the
 * same contributions as then.
 */
static void try_to_repeat(struct pen_ring_coordinator *coordinator,
                          const struct pen_ring_record *past, uint64_t set,
                          int64_t now)
{
    uint32_t count = coordinator->setting->num_islands;
    for (uint32_t i = 0; i < count; i++)
        if (pen_ring_has(set & past->contributors, i) &&
            !pen_ring_same_offer(&coordinator->seen[i].offer, &past->offers[i]))
            coordinator->others |= pen_ring_bit(i);
    if (coordinator->others == 0 && (past->contributors & ~set) == 0)
        propose(coordinator, past->contributors, now);
}

/* Proposes the open round when quorum and grace allow. */
static void try_to_close(struct pen_ring_coordinator *coordinator, int64_t now)
{
    uint64_t set = ready(coordinator);
    const struct pen_ring_record *past = pen_ring_coordinator_past(coordinator);
    if (past != NULL) {
        try_to_repeat(coordinator, past, set, now);
        return;
    }
    uint32_t least = coordinator->setting->quorum;
    if (PEN__IS_PLANTED(PEN__PLANT_QUORUM))
        least--;
    if (pen_ring_count(set) < least) {
        coordinator->quorum_at = 0;
        return;
    }
    if (coordinator->quorum_at == 0)
        coordinator->quorum_at = now;
    if (set == coordinator->record.members ||
        now - coordinator->quorum_at >= grace(coordinator))
        propose(coordinator, set, now);
}

void pen__coordinator_round(struct pen_ring_coordinator *coordinator,
                            int64_t now, struct pen_ring_actions *actions)
{
    const struct pen_ring_limits *limits = &coordinator->setting->limits;
    if (coordinator->has_proposal &&
        now - coordinator->proposed_at > limits->proposal)
        coordinator->has_proposal = false;
    if (!coordinator->has_proposal)
        try_to_close(coordinator, now);
    if (!coordinator->has_proposal)
        return;
    commit(coordinator, now, actions);
    if (coordinator->is_swapping || now < coordinator->repeat_at)
        return;
    coordinator->repeat_at = now + limits->beat;
    struct pen_ring_message *message = pen__coordinator_send(
        coordinator, actions, PEN_RING_PROPOSE, coordinator->record.members);
    message->round = coordinator->proposal.round;
    message->record = coordinator->proposal;
}
