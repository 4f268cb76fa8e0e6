#ifndef PEN_RING_STORE_H
#define PEN_RING_STORE_H

#include "ring/ring.h"

/*
 * Where the record lives. Revisions begin at 1, with a record without members.
 * Calls may be late or get lost on the way; the driver then sees no answer.
 */
struct pen_ring_store {
    void *target; /* of the backend */
    /* Copies the record; returns its revision. */
    uint64_t (*read)(void *target, struct pen_ring_record *out);
    /* Writes it where the store still has that revision. */
    bool (*swap)(void *target, uint64_t revision,
                 const struct pen_ring_record *record);
    /* Whether there is a later revision than this one. */
    bool (*watch)(void *target, uint64_t revision);
    /* Grants or renews the one lease, for a time of the store's clock. */
    bool (*lease)(void *target, uint32_t holder, int64_t duration);
    void (*close)(void *target);
};

/* The backend in memory, for the simulator. Its clock is set from outside. */
struct pen_ring_memory {
    uint64_t revision;
    struct pen_ring_record record;
    int64_t now;
    bool is_leased;
    uint32_t holder;
    int64_t lease_end;
};

void pen_ring_memory_init(struct pen_ring_memory *memory,
                          struct pen_ring_store *store);

#endif
