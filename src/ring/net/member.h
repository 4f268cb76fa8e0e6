#ifndef PEN_RING_NET_MEMBER_H
#define PEN_RING_NET_MEMBER_H

#include "base/status.h"
#include "base/text.h"
#include "ring/ring.h"

#include <stddef.h>

/*
 * An island of a ring: the driver of ring/island.h. The driver holds the
 * committed state as bytes, exchanges contributions with other islands, and
 * keeps in a folder the files that must survive a restart. One thread makes all
 * calls.
 *
 *     train() ──► pen_ring_member_offer() ──► sum() ──► commit() ──► train()
 */
struct pen_ring_member;

struct pen_ring_bytes {
    uint8_t *bytes; /* allocated by malloc() */
    size_t length;
};

/* One contribution of a round; lists of them are in the order of islands. */
struct pen_ring_contribution {
    uint32_t island;
    uint64_t tokens;
    const uint8_t *bytes;
    size_t length;
};

/* All contributions to one round. */
struct pen_ring_contributions {
    uint64_t round;
    const struct pen_ring_contribution *list;
    size_t count;
};

/* The island that a key belongs to. */
struct pen_ring_identity {
    uint32_t number; /* of the island */
    uint32_t count;  /* of islands: the number of the last one, plus 1 */
};

/*
 * Finds the island of a key. INVALID where no island has the key, or `name` is
 * neither its number nor the text after the number in the name of its file.
 * NULL matches any name.
 */
pen_status pen_ring_identify(const char *key, const char *keys,
                             const char *name, struct pen_ring_identity *out,
                             struct pen_text *why);

struct pen_ring_member_options {
    const char *key;       /* file of the private key */
    const char *keys;      /* folder of public keys, with its own address */
    const char *folder;    /* its own, of mode 0700; created if missing */
    const char *address;   /* of a coordinator; NULL: from the folder of keys */
    const uint8_t *config; /* 32 bytes, the same on all islands */
    int64_t patience;      /* must be that of the coordinators */
    size_t most_bytes;     /* of a contribution, and of a state */
    void *context;         /* of these: */
    /*
     * Begins to train for this round, from the batch `first`. Called again when
     * the training under way has become useless.
     */
    void (*train)(void *context, uint64_t round, uint64_t first);
    /*
     * Makes the state after these contributions, and allocates it in `out`. All
     * islands must get the same bytes. Before the first round `state` is empty.
     */
    pen_status (*sum)(void *context, const struct pen_ring_bytes *state,
                      const struct pen_ring_contributions *given,
                      struct pen_ring_bytes *out);
    /* Takes the state after this round; borrowed until the next call. */
    void (*commit)(void *context, uint64_t round,
                   const struct pen_ring_bytes *state);
};

/*
 * Starts, or restarts from the folder: then commit() is called first. Options
 * are borrowed. On success end with pen_ring_member_free().
 */
pen_status pen_ring_member_create(const struct pen_ring_member_options *options,
                                  struct pen_ring_member **out,
                                  struct pen_text *why);
void pen_ring_member_free(struct pen_ring_member *member);

/*
 * Offers the result of the training for a round. Bytes are copied. An offer
 * that comes too late is dropped: train() has meanwhile been called for another
 * one.
 */
pen_status pen_ring_member_offer(struct pen_ring_member *member, uint64_t round,
                                 const struct pen_ring_offer *offer,
                                 const void *bytes, size_t length);

/*
 * Does all that is due, and waits until this time (of pen_clock_ns()) at most.
 */
pen_status pen_ring_member_turn(struct pen_ring_member *member, int64_t until,
                                struct pen_text *why);

/*
 * Leaves the ring; pen_ring_member_has_ended() returns whether that is agreed.
 */
void pen_ring_member_leave(struct pen_ring_member *member);

/*
 * Returns whether the island has left, was evicted, or was replaced by a newer
 * incarnation.
 */
bool pen_ring_member_has_ended(const struct pen_ring_member *member);

/*
 * Returns the newest record that the island knows; borrowed until the next
 * call.
 */
const struct pen_ring_record *
pen_ring_member_record(const struct pen_ring_member *member);

/*
 * Returns whether the island is the only member, and holds the committed state:
 * no other island needs it.
 */
bool pen_ring_member_is_last(const struct pen_ring_member *member);

#endif
