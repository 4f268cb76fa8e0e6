#ifndef PEN_RING_COORDINATOR_H
#define PEN_RING_COORDINATOR_H

#include "ring/ring.h"

/* An island as a coordinator knows it from its last messages. */
struct pen_ring_seen {
    int64_t at;
    bool is_there; /* heard at least once since this coordinator serves */
    uint64_t incarnation;
    uint64_t revision; /* of its record */
    uint64_t epoch;
    uint64_t round; /* of its state */
    struct pen_ring_hash hash;
    uint64_t whole; /* contributions that it has whole */
    /* The island's offer, and when it was made. */
    uint64_t offer_epoch;
    uint64_t offer_round; /* 0: none */
    struct pen_ring_offer offer;
    /* The island's acknowledgement of the open proposal. */
    bool has_acked;
    struct pen_ring_hash sum;
};

#define PEN_RING_MEDIAN_OF 8u

/*
 * A coordinator. Nothing in it needs to be agreed: another coordinator that
 * reads the record and listens for a beat knows as much.
 */
struct pen_ring_coordinator {
    const struct pen_ring_setting *setting; /* borrowed */
    uint32_t number;
    bool is_serving;
    int64_t lease_at;  /* when to ask for the lease again */
    int64_t lease_end; /* of the lease that it has */
    int64_t serving_since;
    uint64_t revision; /* 0: not read yet */
    struct pen_ring_record record;
    int64_t read_at; /* when to read again, if no answer came */
    bool is_swapping;
    struct pen_ring_seen seen[PEN_RING_ISLANDS];
    uint64_t to_evict;
    uint64_t to_leave;
    /* The open round. */
    int64_t round_began_at;
    int64_t quorum_at; /* when the quorum was reached; 0: not yet */
    bool has_proposal;
    struct pen_ring_record proposal;
    int64_t proposed_at;
    int64_t repeat_at;
    /* In a replay: how the open round differs from the past. */
    uint64_t others;     /* islands whose contribution differs */
    bool is_other_state; /* the same contributions give another state */
    int64_t lengths[PEN_RING_MEDIAN_OF]; /* of the last rounds */
    uint32_t num_lengths;
};

void pen_ring_coordinator_init(struct pen_ring_coordinator *coordinator,
                               const struct pen_ring_setting *setting,
                               uint32_t number);

void pen_ring_coordinator_step(struct pen_ring_coordinator *coordinator,
                               const struct pen_ring_event *event,
                               struct pen_ring_actions *actions);

/* ---- between the files of a coordinator */

struct pen_ring_message *
pen__coordinator_send(const struct pen_ring_coordinator *coordinator,
                      struct pen_ring_actions *actions, enum pen_ring_kind kind,
                      uint64_t to);
void pen__coordinator_swap(struct pen_ring_coordinator *coordinator,
                           const struct pen_ring_record *next, int64_t now,
                           struct pen_ring_actions *actions);
/*
 * Returns whether the island is a member, of this incarnation, heard within the
 * patience.
 */
bool pen__coordinator_hears(const struct pen_ring_coordinator *coordinator,
                            uint32_t island, int64_t now);

/* Returns the open round as it was in the past; NULL: it is new. */
const struct pen_ring_record *
pen_ring_coordinator_past(const struct pen_ring_coordinator *coordinator);

/* Changes the membership by one island if a change is due. */
void pen__coordinator_members(struct pen_ring_coordinator *coordinator,
                              int64_t now, struct pen_ring_actions *actions);

/* Advances the open round: quorum, grace, proposal, commit. */
void pen__coordinator_round(struct pen_ring_coordinator *coordinator,
                            int64_t now, struct pen_ring_actions *actions);
void pen__coordinator_offer(struct pen_ring_coordinator *coordinator,
                            const struct pen_ring_message *message);
void pen__coordinator_ack(struct pen_ring_coordinator *coordinator,
                          const struct pen_ring_message *message);

#endif
