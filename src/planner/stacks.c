#include "planner/stacks.h"

#include "base/bug.h"

#include <stdlib.h>
#include <string.h>

/* ---- holders of shards ---- */

static bool has_difference(const struct pen_stacks *stacks, uint32_t count,
                           uint32_t difference)
{
    uint32_t size = stacks->num_groups;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < count; k++)
            if (i != k &&
                (stacks->offsets[i] + size - stacks->offsets[k]) % size ==
                    difference)
                return true;
    return false;
}

/* Whether this offset makes no difference twice, and none of 1: neighbours,
 * which may fail together, share no shard. */
static bool is_apart(const struct pen_stacks *stacks, uint32_t count,
                     uint32_t offset)
{
    uint32_t size = stacks->num_groups;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t forth = (offset + size - stacks->offsets[i]) % size;
        if (forth <= 1 || forth == size - 1 || 2 * forth == size ||
            has_difference(stacks, count, forth) ||
            has_difference(stacks, count, size - forth))
            return false;
        for (uint32_t k = 0; k < i; k++) {
            uint32_t other = (offset + size - stacks->offsets[k]) % size;
            if (forth == other || forth + other == size)
                return false;
        }
    }
    return true;
}

static bool is_taken(const struct pen_stacks *stacks, uint32_t count,
                     uint32_t offset)
{
    for (uint32_t i = 0; i < count; i++)
        if (stacks->offsets[i] == offset)
            return true;
    return false;
}

/* The smallest offset that is apart from those before it, or that is free. */
static uint32_t next_offset(const struct pen_stacks *stacks, uint32_t count)
{
    for (uint32_t offset = 0; offset < stacks->num_groups; offset++)
        if (is_apart(stacks, count, offset))
            return offset;
    uint32_t offset = 0;
    while (is_taken(stacks, count, offset))
        offset++;
    return offset;
}

uint32_t pen_stacks_shard(const struct pen_stacks *stacks, uint32_t group,
                          uint32_t place)
{
    return (group + stacks->offsets[place]) % stacks->num_groups;
}

uint32_t pen_stacks_holder(const struct pen_stacks *stacks, uint32_t shard,
                           uint32_t place)
{
    return (shard + stacks->num_groups - stacks->offsets[place]) %
           stacks->num_groups;
}

/* ---- creating ---- */

pen_status pen_stacks_init(struct pen_stacks *stacks, uint32_t num_groups,
                           uint32_t height)
{
    PEN_BUG_UNLESS(height > 0 && height <= num_groups &&
                   height <= PEN_STACKS_MAX_HEIGHT &&
                   num_groups <= PEN_STACKS_MAX_GROUPS);
    *stacks =
        (struct pen_stacks){.num_groups = num_groups,
                            .height = height,
                            .owners = calloc(num_groups, sizeof(uint32_t)),
                            .loads = calloc(num_groups, sizeof(uint32_t)),
                            .is_lost = calloc(num_groups, sizeof(bool)),
                            .queue = calloc(num_groups, sizeof(uint32_t)),
                            .from = calloc(num_groups, sizeof(uint32_t)),
                            .marks = calloc(num_groups, sizeof(uint32_t))};
    if (stacks->owners == NULL || stacks->loads == NULL ||
        stacks->is_lost == NULL || stacks->queue == NULL ||
        stacks->from == NULL || stacks->marks == NULL) {
        pen_stacks_release(stacks);
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; i < height; i++)
        stacks->offsets[i] = next_offset(stacks, i);
    pen_stacks_reset(stacks);
    return PEN_OK;
}

void pen_stacks_release(struct pen_stacks *stacks)
{
    free(stacks->owners);
    free(stacks->loads);
    free(stacks->is_lost);
    free(stacks->queue);
    free(stacks->from);
    free(stacks->marks);
}

void pen_stacks_reset(struct pen_stacks *stacks)
{
    stacks->depth = 1;
    stacks->num_lost = 0;
    for (uint32_t i = 0; i < stacks->num_groups; i++) {
        stacks->owners[i] = i;
        stacks->loads[i] = 1;
        stacks->is_lost[i] = false;
    }
}

/* ---- the step in flight ---- */

/* Gives shards[at..] to survivors, up to `most` new ones each. */
static bool give_late(const struct pen_stacks *stacks, const uint32_t *shards,
                      uint32_t count, uint32_t at, uint32_t most,
                      uint32_t *picks)
{
    if (at == count)
        return true;
    for (uint32_t i = 0; i < stacks->height; i++) {
        uint32_t group = pen_stacks_holder(stacks, shards[at], i);
        uint32_t taken = 0;
        for (uint32_t k = 0; k < at; k++)
            taken += picks[k] == group;
        if (stacks->is_lost[group] || taken == most)
            continue;
        picks[at] = group;
        if (give_late(stacks, shards, count, at + 1, most, picks))
            return true;
    }
    return false;
}

static uint32_t late_shards(const struct pen_stacks *stacks,
                            const uint32_t *shards, uint32_t count)
{
    uint32_t picks[PEN_STACKS_MAX_HEIGHT];
    uint32_t most = count > 0 ? 1 : 0;
    while (!give_late(stacks, shards, count, 0, most, picks))
        most++;
    return most;
}

/* ---- dealing again ---- */

/* Hands shards on, from the group at the end of a way back to its begin. */
static void hand_on(struct pen_stacks *stacks, uint32_t group)
{
    stacks->loads[group]++;
    for (;;) {
        uint32_t shard = stacks->from[group];
        uint32_t before = stacks->owners[shard];
        stacks->owners[shard] = group;
        if (before == PEN_STACKS_NONE)
            return;
        group = before;
    }
}

/*
 * Finds a group for a shard that has none: a holder with room, or one that can
 * hand on a shard to another holder of that one, and so forth. False if there
 * is none; then no dealing has this depth.
 */
static bool find_owner(struct pen_stacks *stacks, uint32_t shard)
{
    uint32_t first = 0;
    uint32_t last = 0;
    stacks->mark++;
    stacks->queue[last++] = shard;
    while (first < last) {
        uint32_t at = stacks->queue[first++];
        for (uint32_t i = 0; i < stacks->height; i++) {
            uint32_t group = pen_stacks_holder(stacks, at, i);
            if (stacks->is_lost[group] || stacks->marks[group] == stacks->mark)
                continue;
            stacks->marks[group] = stacks->mark;
            stacks->from[group] = at;
            if (stacks->loads[group] < stacks->depth) {
                hand_on(stacks, group);
                return true;
            }
            for (uint32_t k = 0; k < stacks->height; k++) {
                uint32_t held = pen_stacks_shard(stacks, group, k);
                if (stacks->owners[held] == group)
                    stacks->queue[last++] = held;
            }
        }
    }
    return false;
}

static bool has_holder(const struct pen_stacks *stacks, uint32_t shard)
{
    for (uint32_t i = 0; i < stacks->height; i++)
        if (!stacks->is_lost[pen_stacks_holder(stacks, shard, i)])
            return true;
    return false;
}

bool pen_stacks_fail(struct pen_stacks *stacks, uint32_t group, uint32_t *late)
{
    uint32_t orphans[PEN_STACKS_MAX_HEIGHT];
    uint32_t count = 0;
    PEN_BUG_UNLESS(group < stacks->num_groups && !stacks->is_lost[group]);
    stacks->is_lost[group] = true;
    stacks->num_lost++;
    for (uint32_t i = 0; i < stacks->height; i++) {
        uint32_t shard = pen_stacks_shard(stacks, group, i);
        if (!has_holder(stacks, shard))
            return false;
        if (stacks->owners[shard] == group) {
            stacks->owners[shard] = PEN_STACKS_NONE;
            orphans[count++] = shard;
        }
    }
    stacks->loads[group] = 0;
    *late = late_shards(stacks, orphans, count);
    for (uint32_t i = 0; i < count; i++)
        while (!find_owner(stacks, orphans[i]))
            stacks->depth++;
    return true;
}
