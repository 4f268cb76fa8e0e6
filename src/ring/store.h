#ifndef PEN_RING_STORE_H
#define PEN_RING_STORE_H

#include "base/status.h"
#include "base/text.h"
#include "ring/ring.h"

/*
 * A store: it keeps the record. Revisions begin at 1, with a record without
 * members, and grow by one. A call that fails had no answer, for the reason in
 * why: a swap may have been done all the same, which a later read shows.
 */
struct pen_ring_store {
    void *target; /* of the backend */
    pen_status (*read)(void *target, struct pen_ring_record *out,
                       uint64_t *revision, struct pen_text *why);
    /* Writes the record if the store still has that revision. */
    pen_status (*swap)(void *target, uint64_t revision,
                       const struct pen_ring_record *record, bool *is_done,
                       struct pen_text *why);
    /* Finds whether there is a later revision than this one. */
    pen_status (*watch)(void *target, uint64_t revision, bool *is_later,
                        struct pen_text *why);
    /* Grants or renews the one lease, for a duration on the store's clock. */
    pen_status (*lease)(void *target, uint32_t holder, int64_t duration,
                        bool *is_granted, struct pen_text *why);
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
