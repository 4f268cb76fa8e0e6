/*
 * An island that starts again with any file whose check sum is right refuses
 * it, or goes on by it: it asks to join, takes records, and its own file reads
 * back as the same. The input is what the file keeps; missing bytes are 0.
 */
#include "base/bug.h"
#include "ring/net/kept.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_actions(const struct pen_ring_actions *actions)
{
    PEN_BUG_UNLESS(actions->count <= PEN_RING_MOST_ACTIONS);
    for (uint32_t i = 0; i < actions->count; i++)
        PEN_BUG_UNLESS(actions->list[i].to >> PEN_RING_NODES == 0);
}

static void go_on(const struct pen_ring_kept *kept)
{
    static struct pen_ring_setting setting = {
        .num_islands = PEN_RING_ISLANDS, .num_coordinators = 2, .quorum = 1};
    static struct pen_ring_island island;
    static struct pen_ring_actions actions;
    pen_ring_limits_init(&setting.limits, INT64_C(1000000000));
    pen_ring_island_init(&island, &setting, 1, kept->incarnation + 1, kept);
    (void)pen_ring_island_whole(&island);
    for (uint32_t turn = 0; turn < 4; turn++) {
        struct pen_ring_message message = {.kind = PEN_RING_RECORD,
                                           .from = PEN_RING_ISLANDS,
                                           .revision = kept->revision + turn,
                                           .record = kept->record};
        message.record.incarnations[1] = kept->incarnation + 1;
        message.record.members |= turn == 2 ? 2 : 0;
        struct pen_ring_event event = {.kind = PEN_RING_TICK,
                                       .now = (int64_t)turn * 1000000000};
        pen_ring_island_step(&island, &event, &actions);
        check_actions(&actions);
        event.kind = PEN_RING_MESSAGE;
        event.message = &message;
        pen_ring_island_step(&island, &event, &actions);
        check_actions(&actions);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct pen_ring_kept kept, again;
    static struct pen__kept_file file;
    memset(&kept, 0, sizeof kept);
    memcpy(&kept, data, size < sizeof kept ? size : sizeof kept);
    pen__kept_write(&kept, &file);
    if (pen__kept_read(&file, sizeof file, &again)) {
        PEN_BUG_UNLESS(memcmp(&kept, &again, sizeof kept) == 0);
        go_on(&again);
        /* One bit that was changed is found. */
        ((uint8_t *)&file)[size % sizeof file] ^= (uint8_t)(1u << size % 8);
        PEN_BUG_UNLESS(!pen__kept_read(&file, sizeof file, &again));
    }
    PEN_BUG_UNLESS(!pen__kept_read(data, size, &again) || size == sizeof file);
    return 0;
}
