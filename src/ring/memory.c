#include "ring/store.h"

#include <string.h>

static uint64_t read_record(void *target, struct pen_ring_record *out)
{
    const struct pen_ring_memory *memory = target;
    *out = memory->record;
    return memory->revision;
}

static bool swap(void *target, uint64_t revision,
                 const struct pen_ring_record *record)
{
    struct pen_ring_memory *memory = target;
    if (memory->revision != revision)
        return false;
    memory->record = *record;
    memory->revision++;
    return true;
}

static bool watch(void *target, uint64_t revision)
{
    const struct pen_ring_memory *memory = target;
    return memory->revision > revision;
}

static bool lease(void *target, uint32_t holder, int64_t duration)
{
    struct pen_ring_memory *memory = target;
    if (memory->is_leased && memory->holder != holder &&
        memory->now < memory->lease_end)
        return false;
    memory->is_leased = true;
    memory->holder = holder;
    memory->lease_end = memory->now + duration;
    return true;
}

static void close_memory(void *target)
{
    memset(target, 0, sizeof(struct pen_ring_memory));
}

void pen_ring_memory_init(struct pen_ring_memory *memory,
                          struct pen_ring_store *store)
{
    memset(memory, 0, sizeof *memory);
    memory->revision = 1;
    *store = (struct pen_ring_store){.target = memory,
                                     .read = read_record,
                                     .swap = swap,
                                     .watch = watch,
                                     .lease = lease,
                                     .close = close_memory};
}
