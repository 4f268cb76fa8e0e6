/* Checks A1 to A8 from outside: the nodes themselves are not asked. */
#include "ring/sim/world.h"

#include <string.h>

void pen__world_break(struct pen_ring_world *world, const char *invariant)
{
    if (world->broken == NULL)
        world->broken = invariant;
}

static void mix(struct pen_ring_hash *hash, uint64_t word)
{
    for (uint32_t i = 0; i < 4; i++) {
        struct pen_random random = {hash->words[i] ^ (word + i)};
        hash->words[i] = pen_random_next(&random);
    }
}

void pen__world_sum(const struct pen_ring_hash *before, uint64_t set,
                    const struct pen_ring_offer *offers,
                    const struct pen__real *real, struct pen_ring_hash *out)
{
    *out = *before;
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++) {
        if (!pen_ring_has(set, i))
            continue;
        uint64_t all = pen_ring_bit(offers[i].num_fragments) - 1;
        mix(out, i);
        mix(out, offers[i].tokens);
        mix(out, real == NULL ? offers[i].hash.words[0] : real[i].of.words[0]);
        mix(out, real == NULL ? all : real[i].fragments);
    }
}

/* ---- the record */

static bool was_acknowledged(const struct pen_ring_world *world,
                             const struct pen_ring_record *record)
{
    uint64_t by = 0;
    for (uint32_t i = 0; i < world->setting.num_islands; i++)
        for (uint32_t j = 0; j < MOST_ACKS; j++) {
            const struct pen__ack *ack = &world->acks[i][j];
            if (ack->set == record->contributors &&
                ack->round == record->round &&
                ack->epoch == record->round_epoch &&
                pen_ring_same_hash(&ack->hash, &record->hash))
                by |= pen_ring_bit(i);
        }
    return pen_ring_is_most(by, world->last.members);
}

static void check_commit(struct pen_ring_world *world,
                         const struct pen_ring_record *record)
{
    const struct pen_ring_record *last = &world->last;
    struct pen_ring_hash sum;
    if (record->round != last->round + 1 || record->round >= MOST_ROUNDS ||
        record->members != last->members)
        pen__world_break(world, "A1: a round was committed twice, or left out");
    if (record->epoch != last->epoch || record->round_epoch != last->epoch)
        pen__world_break(world, "A2: a round of another epoch was committed");
    if (pen_ring_count(record->contributors) < world->setting.quorum)
        pen__world_break(world, "A4: a commit without the quorum");
    if (!was_acknowledged(world, record))
        pen__world_break(world,
                         "A4: a commit that most members did not acknowledge");
    if ((record->contributors & ~last->members) != 0)
        pen__world_break(world, "A5: a contributor that is not a member");
    for (uint32_t i = 0; i < world->setting.num_islands; i++) {
        bool gives = pen_ring_has(record->contributors, i);
        uint64_t end = gives ? record->offers[i].last : last->cursors[i];
        if (record->cursors[i] != end ||
            (gives && record->offers[i].first != last->cursors[i]))
            pen__world_break(world, "A8: a batch was lost or used twice");
    }
    pen__world_sum(&last->hash, record->contributors, record->offers, NULL,
                   &sum);
    if (!pen_ring_same_hash(&sum, &record->hash))
        pen__world_break(world,
                         "A3: a commit is not the sum of its contributions");
    if (world->broken == NULL)
        world->hashes[record->round] = record->hash;
    pen__world_mark(world,
                    &(struct pen_ring_mark_at){.mark = PEN_RING_MARK_COMMIT,
                                               .round = record->round,
                                               .set = record->contributors,
                                               .began_at = world->now,
                                               .at = world->now});
    world->outcome->num_rounds++;
}

static void check_members(struct pen_ring_world *world,
                          const struct pen_ring_record *record)
{
    const struct pen_ring_record *last = &world->last;
    if (record->round != last->round || record->epoch != last->epoch + 1 ||
        !pen_ring_same_hash(&record->hash, &last->hash) ||
        memcmp(record->cursors, last->cursors, sizeof last->cursors) != 0)
        pen__world_break(world, "A1: a new epoch changed what was committed");
    pen__world_mark(world,
                    &(struct pen_ring_mark_at){.mark = PEN_RING_MARK_EPOCH,
                                               .round = record->epoch,
                                               .set = record->members,
                                               .began_at = world->now,
                                               .at = world->now});
    world->outcome->num_epochs++;
}

void pen__world_check_record(struct pen_ring_world *world)
{
    const struct pen_ring_record *record = &world->memory.record;
    const struct pen_ring_record *last = &world->last;
    if (record->epoch == last->epoch)
        check_commit(world, record);
    else
        check_members(world, record);
    if ((record->members & record->revoked) != 0 ||
        (last->revoked & ~record->revoked) != 0)
        pen__world_break(world, "A5: a revoked key is a member");
    for (uint32_t i = 0; i < world->setting.num_islands; i++)
        if (record->incarnations[i] < last->incarnations[i] ||
            (pen_ring_has(record->members & ~last->members, i) &&
             record->incarnations[i] == last->incarnations[i]))
            pen__world_break(world, "A5: an older incarnation is a member");
    world->last = *record;
    world->last_revision = world->memory.revision;
    pen__world_check_kept(world);
}

uint64_t pen__world_holders(const struct pen_ring_world *world)
{
    const struct pen_ring_record *record = &world->memory.record;
    uint64_t set = 0;
    for (uint32_t i = 0; i < world->setting.num_islands; i++) {
        const struct pen_ring_island *island = &world->islands[i];
        const struct pen_ring_kept *kept = &island->kept;
        if (pen_ring_has(record->members, i) &&
            ((kept->round == record->round &&
              pen_ring_same_hash(&kept->hash, &record->hash)) ||
             pen__island_can_sum(island, record, record->round_epoch)))
            set |= pen_ring_bit(i);
    }
    return set;
}

void pen__world_check_kept(struct pen_ring_world *world)
{
    if (world->memory.record.round > 0 && pen__world_holders(world) == 0)
        pen__world_break(world, "A6: no member holds the last committed state");
}

/* ---- nodes */

static void check_island(struct pen_ring_world *world, uint32_t node)
{
    const struct pen_ring_kept *kept = &world->islands[node].kept;
    if (kept->round > world->last.round)
        pen__world_break(world, "A1: an island is ahead of the record");
    else if (!pen_ring_same_hash(&kept->hash, &world->hashes[kept->round]))
        pen__world_break(world, "A7: an island has another state of its round");
}

static void check_coordinator(struct pen_ring_world *world, uint32_t number)
{
    const struct pen_ring_coordinator *at = &world->coordinators[number];
    for (uint32_t i = 0; i < world->setting.num_islands; i++) {
        const struct pen_ring_seen *seen = &at->seen[i];
        if (seen->offer_round != 0 &&
            (seen->offer_round != at->record.round + 1 ||
             seen->offer_epoch != at->record.epoch))
            pen__world_break(world,
                             "A2: an offer of another epoch was accepted");
    }
}

void pen__world_check_node(struct pen_ring_world *world, uint32_t node)
{
    if (node < PEN_RING_ISLANDS)
        check_island(world, node);
    else
        check_coordinator(world, node - PEN_RING_ISLANDS);
}

/*
 * Returns whether all islands are back with the last state, and rounds
 * continue.
 */
bool pen__world_is_done(const struct pen_ring_world *world)
{
    const struct pen_ring_record *record = &world->memory.record;
    if (!world->is_healed || record->round < world->healed_round + 2)
        return false;
    for (uint32_t i = 0; i < world->setting.num_islands; i++)
        if (!world->nodes[i].has_ended &&
            (!pen_ring_has(record->members, i) ||
             world->islands[i].kept.round + 1 < record->round))
            return false;
    return true;
}
