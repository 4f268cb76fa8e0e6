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
 * Returns the members that are here with the state. A restarted member counts
 * before it is admitted again: its state survived, and otherwise two members,
 * one of which restarts, would wait for ever.
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

enum change { EVICTED, LEFT, JOINED, DROPPED, NUM_CHANGES };

/* Returns whether this change is due for the island. */
static bool is_wanted(const struct pen_ring_coordinator *coordinator,
                      enum change change, uint32_t island, int64_t now)
{
    uint64_t members = coordinator->record.members;
    uint64_t evicted = coordinator->to_evict;
    uint64_t leaving = coordinator->to_leave;
    switch (change) {
    case EVICTED:
        return pen_ring_has(evicted, island);
    case LEFT:
        return pen_ring_has(leaving & members, island);
    case JOINED:
        return !pen_ring_has(evicted | leaving, island) &&
               may_join(coordinator, island, now);
    default:
        return pen_ring_has(members, island) &&
               !pen__coordinator_hears(coordinator, island, now);
    }
}

/*
 * An eviction is an order, so that a member that never comes back cannot block
 * the others for ever: it needs no majority, only one that stays. Where all
 * members are to be evicted, an island with the state joins without them.
 */
static bool is_allowed(const struct pen_ring_coordinator *coordinator,
                       enum change change, uint64_t members, int64_t now)
{
    uint64_t before = coordinator->record.members;
    uint64_t here = present(coordinator, now);
    if (before == 0)
        return true;
    if (change == JOINED && (before & ~coordinator->to_evict) == 0)
        return true;
    return (here & members) != 0 &&
           (change == EVICTED || pen_ring_is_most(here, before));
}

static bool try_to_change(struct pen_ring_coordinator *coordinator,
                          enum change change, uint32_t island, int64_t now,
                          struct pen_ring_actions *actions)
{
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
    if (!is_allowed(coordinator, change, next.members, now))
        return false;
    pen__coordinator_swap(coordinator, &next, now, actions);
    return true;
}

/* Makes the first change that is wanted and allowed. */
void pen__coordinator_members(struct pen_ring_coordinator *coordinator,
                              int64_t now, struct pen_ring_actions *actions)
{
    for (enum change change = EVICTED; change < NUM_CHANGES; change++)
        for (uint32_t i = 0; i < coordinator->setting->num_islands; i++)
            if (is_wanted(coordinator, change, i, now) &&
                try_to_change(coordinator, change, i, now, actions))
                return;
}
