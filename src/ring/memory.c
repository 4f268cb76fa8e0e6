#include "ring/store.h"

#include <string.h>

static pen_status read_record(void *target, struct pen_ring_record *out,
                              uint64_t *revision, struct pen_text *why)
{
    (void)why;
    const struct pen_ring_memory *memory = target;
    *out = memory->record;
    *revision = memory->revision;
    return PEN_OK;
}

static pen_status swap(void *target, uint64_t revision,
                       const struct pen_ring_record *record, bool *is_done,
                       struct pen_text *why)
{
    (void)why;
    struct pen_ring_memory *memory = target;
    *is_done = memory->revision == revision;
    if (*is_done) {
        memory->record = *record;
        memory->revision++;
    }
    return PEN_OK;
}

static pen_status watch(void *target, uint64_t revision, bool *is_later,
                        struct pen_text *why)
{
    (void)why;
    const struct pen_ring_memory *memory = target;
    *is_later = memory->revision > revision;
    return PEN_OK;
}

static pen_status lease(void *target, uint32_t holder, int64_t duration,
                        bool *is_granted, struct pen_text *why)
{
    (void)why;
    struct pen_ring_memory *memory = target;
    *is_granted = !memory->is_leased || memory->holder == holder ||
                  memory->now >= memory->lease_end;
    if (*is_granted) {
        memory->is_leased = true;
        memory->holder = holder;
        memory->lease_end = memory->now + duration;
    }
    return PEN_OK;
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
