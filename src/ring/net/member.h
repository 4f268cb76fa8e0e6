#ifndef PEN_RING_NET_MEMBER_H
#define PEN_RING_NET_MEMBER_H

#include "base/status.h"
#include "base/text.h"
#include "ring/ring.h"

#include <stddef.h>

/*
 * An island of a ring: the driver of ring/island.h. It holds the committed
 * state as bytes, exchanges contributions with other islands, and keeps in a
 * folder what must survive a restart. One thread calls all of it.
 *
 *     train() ──► pen_ring_member_offer() ──► sum() ──► commit() ──► train()
 */
struct pen_ring_member;

struct pen_ring_bytes {
    uint8_t *bytes; /* of malloc() */
    size_t length;
};

/* Whose contribution it is, in the order of islands. */
struct pen_ring_contribution {
    uint32_t island;
    uint64_t tokens;
    const uint8_t *bytes;
    size_t length;
};

/* Those of one round. */
struct pen_ring_contributions {
    uint64_t round;
    const struct pen_ring_contribution *list;
    size_t count;
};

/* Who this key is among those of the folder. */
struct pen_ring_identity {
    uint32_t number; /* of the island */
    uint32_t count;  /* of islands: the last one's number and 1 */
};

/*
 * INVALID where the key is that of no island, or `name` is neither its number
 * nor what follows the number in the name of its file. NULL is any name.
 */
pen_status pen_ring_identify(const char *key, const char *keys,
                             const char *name, struct pen_ring_identity *out,
                             struct pen_text *why);

struct pen_ring_member_options {
    const char *key;       /* file of the private key */
    const char *keys;      /* folder of public keys; it says where to listen */
    const char *folder;    /* its own, of mode 0700; made where it is not */
    const char *address;   /* of a coordinator; NULL: as the folder says */
    const uint8_t *config; /* 32 bytes, the same on all islands */
    int64_t patience;      /* that of the coordinators */
    size_t most_bytes;     /* of a contribution, and of a state */
    void *context;         /* of these: */
    /*
     * Begin to train for this round, from the batch `first`. Comes again when
     * what was begun is of no use any more.
     */
    void (*train)(void *context, uint64_t round, uint64_t first);
    /*
     * The state after these contributions, for which `out` gets memory. All
     * islands must get the same bytes. Before the first round `state` is empty.
     */
    pen_status (*sum)(void *context, const struct pen_ring_bytes *state,
                      const struct pen_ring_contributions *given,
                      struct pen_ring_bytes *out);
    /* The state after this round; borrowed until the next call. */
    void (*commit)(void *context, uint64_t round,
                   const struct pen_ring_bytes *state);
};

/*
 * Starts, or starts again with what the folder has: then commit() comes first.
 * Options are borrowed. On success end with pen_ring_member_free().
 */
pen_status pen_ring_member_create(const struct pen_ring_member_options *options,
                                  struct pen_ring_member **out,
                                  struct pen_text *why);
void pen_ring_member_free(struct pen_ring_member *member);

/*
 * What was trained for a round. Bytes are copied. One that comes too late is
 * dropped: train() has said what is wanted meanwhile.
 */
pen_status pen_ring_member_offer(struct pen_ring_member *member, uint64_t round,
                                 const struct pen_ring_offer *offer,
                                 const void *bytes, size_t length);

/* Does what there is to do, and waits until then (of pen_clock_ns()) at most.
 */
pen_status pen_ring_member_turn(struct pen_ring_member *member, int64_t until,
                                struct pen_text *why);

/* Leaves the ring; pen_ring_member_has_ended() says when that is agreed. */
void pen_ring_member_leave(struct pen_ring_member *member);

/* It takes part no more: it left, was evicted, or a newer one runs. */
bool pen_ring_member_has_ended(const struct pen_ring_member *member);

/* The newest that it knows; borrowed until the next call. */
const struct pen_ring_record *
pen_ring_member_record(const struct pen_ring_member *member);

/* It is the only member, and holds what is committed: no island needs it. */
bool pen_ring_member_is_last(const struct pen_ring_member *member);

#endif
