/*
 * Membership: one island per change, each change a new epoch. A change needs
 * that more than half of the members are present with the state of the record,
 * and that one of them stays; so a minority that is cut off changes nothing,
 * and the state is never lost (A6).
 */
#include "ring/coordinator.h"

#include "ring/plant.h"

static bool is_current(const struct pen_ring_coordinator *coordinator,
                       uint32_t island, int64_t now)
{
    const struct pen_ring_seen *seen = &coordinator->seen[island];
    return seen->is_there && pen__coordinator_hears(coordinator, island, now) &&
           seen->round == coordinator->record.round &&
           seen->revision == coordinator->revision &&
           pen_ring_same_hash(&seen->hash, &coordinator->record.hash);
}

/*
 * Members that are here with the state. One that restarted counts before it is
 * admitted again: its state survived, and else two members of which one
 * restarts would wait for ever.
 */
static uint64_t present(const struct pen_ring_coordinator *coordinator,
                        int64_t now)
{
    uint64_t set = 0;
    for (uint32_t i = 0; i < coordinator->setting->num_islands; i++)
        if (pen_ring_has(coordinator->record.members, i) &&
            is_current(coordinator, i, now))
            set |= pen_ring_bit(i);
    return set;
}

static bool may_join(const struct pen_ring_coordinator *coordinator,
                     uint32_t island, int64_t now)
{
    const struct pen_ring_record *record = &coordinator->record;
    bool has_key = !pen_ring_has(record->revoked, island) ||
                   PEN__IS_PLANTED(PEN__PLANT_EVICTED_KEY);
    return has_key && is_current(coordinator, island, now) &&
           coordinator->seen[island].incarnation > record->incarnations[island];
}

enum change { NO_CHANGE, EVICTED, LEFT, JOINED, DROPPED };

/* What is to change next, and for which island. */
static enum change find(const struct pen_ring_coordinator *coordinator,
                        int64_t now, uint32_t *out)
{
    const struct pen_ring_record *record = &coordinator->record;
    uint32_t count = coordinator->setting->num_islands;
    uint64_t evicted = coordinator->to_evict;
    for (*out = 0; *out < count; ++*out) /* the last member stays */
        if (pen_ring_has(evicted, *out) &&
            record->members != pen_ring_bit(*out))
            return EVICTED;
    for (*out = 0; *out < count; ++*out)
        if (pen_ring_has(coordinator->to_leave & record->members, *out) &&
            record->members != pen_ring_bit(*out))
            return LEFT;
    for (*out = 0; *out < count; ++*out)
        if (!pen_ring_has(evicted | coordinator->to_leave, *out) &&
            may_join(coordinator, *out, now))
            return JOINED;
    for (*out = 0; *out < count; ++*out)
        if (pen_ring_has(record->members, *out) &&
            !pen__coordinator_hears(coordinator, *out, now))
            return DROPPED;
    return NO_CHANGE;
}

/*
 * An eviction is an order, so that a member that never comes back cannot block
 * the others for ever: it needs no majority, only one that stays.
 */
static bool is_allowed(const struct pen_ring_coordinator *coordinator,
                       enum change change, uint64_t members, int64_t now)
{
    uint64_t here = present(coordinator, now);
    /* Nobody is left to ask: one that has the state itself may join. */
    if ((coordinator->record.members & ~coordinator->to_evict) == 0 &&
        (change == JOINED || coordinator->record.members == 0))
        return change == JOINED || change == EVICTED;
    return (here & members) != 0 &&
           (change == EVICTED ||
            pen_ring_is_most(here, coordinator->record.members));
}

void pen__coordinator_members(struct pen_ring_coordinator *coordinator,
                              int64_t now, struct pen_ring_actions *actions)
{
    uint32_t island;
    enum change change = find(coordinator, now, &island);
    if (change == NO_CHANGE)
        return;
    struct pen_ring_record next = coordinator->record;
    next.epoch++;
    if (change == JOINED) {
        next.members |= pen_ring_bit(island);
        next.incarnations[island] = coordinator->seen[island].incarnation;
    } else {
        next.members &= ~pen_ring_bit(island);
    }
    if (change == EVICTED)
        next.revoked |= pen_ring_bit(island);
    if (is_allowed(coordinator, change, next.members, now))
        pen__coordinator_swap(coordinator, &next, now, actions);
}
