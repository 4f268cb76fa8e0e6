/* The reaction of an island to a new record, and to the sum of a round. */
#include "ring/island.h"

void pen__island_end(struct pen_ring_island *island,
                     struct pen_ring_actions *actions)
{
    island->phase = PEN_RING_ENDED;
    pen__ring_add(actions, PEN_RING_END);
}

/* Continues as the record says, whether or not the island holds its state. */
static void settle(struct pen_ring_island *island,
                   struct pen_ring_actions *actions)
{
    const struct pen_ring_record *record = &island->kept.record;
    uint64_t newest = record->incarnations[island->number];
    if (pen_ring_has(record->revoked, island->number) ||
        newest > island->kept.incarnation) {
        pen__island_end(island, actions);
        return;
    }
    if (pen__island_is_member(island)) {
        if (pen__island_is_current(island))
            pen__island_begin_round(island, actions);
        else
            island->phase = PEN_RING_BEHIND;
        return;
    }
    if (newest == island->kept.incarnation && newest > 0) {
        if (island->is_leaving) {
            pen__island_end(island, actions);
            return;
        }
        island->kept.incarnation++; /* dropped: asks again as a new one */
        pen__ring_add(actions, PEN_RING_KEEP);
    }
    island->phase = PEN_RING_OUT;
}

void pen__island_adopt(struct pen_ring_island *island,
                       const struct pen_ring_message *message,
                       struct pen_ring_actions *actions)
{
    struct pen_ring_kept *kept = &island->kept;
    if (message->revision <= kept->revision)
        return;
    kept->revision = message->revision;
    kept->record = message->record;
    island->proposed = 0;
    island->is_summed = false;
    pen__ring_add(actions, PEN_RING_KEEP);
    if (pen__island_can_sum(island, &kept->record, kept->record.round_epoch)) {
        struct pen_ring_action *action = pen__ring_add(actions, PEN_RING_SUM);
        action->set = kept->record.contributors;
        action->round = kept->record.round;
    }
    settle(island, actions);
}

/* Acknowledges a proposal, of which the parts survive a restart (A6). */
void pen__island_ack(struct pen_ring_island *island,
                     struct pen_ring_actions *actions)
{
    pen__ring_add(actions, PEN_RING_KEEP);
    struct pen_ring_message *message = pen__island_send(
        island, actions, PEN_RING_ACK, pen__island_coordinator(island));
    message->round = island->kept.round + 1;
    message->set = island->proposed;
    message->hash = island->sum;
}

void pen__island_summed(struct pen_ring_island *island,
                        const struct pen_ring_event *event,
                        struct pen_ring_actions *actions)
{
    struct pen_ring_kept *kept = &island->kept;
    const struct pen_ring_record *record = &kept->record;
    if (event->round != kept->round + 1)
        return;
    if (record->round == event->round && record->contributors == event->set &&
        pen_ring_same_hash(&record->hash, &event->hash)) {
        kept->round = event->round;
        kept->hash = event->hash;
        pen__ring_add(actions, PEN_RING_KEEP);
        if (pen__island_is_member(island))
            pen__island_begin_round(island, actions);
        return;
    }
    if (island->proposed != event->set || island->proposed == 0 ||
        event->round != record->round + 1)
        return;
    island->is_summed = true;
    island->sum = event->hash;
    pen__island_ack(island, actions);
}
