#ifndef PEN_RING_ISLAND_H
#define PEN_RING_ISLAND_H

#include "ring/ring.h"

/* A contribution as far as it has arrived. */
struct pen_ring_part {
    uint64_t epoch; /* that it was sent in */
    uint64_t round;
    uint64_t fragments; /* those that have arrived */
    struct pen_ring_offer offer;
};

/*
 * The part of an island that survives a restart: the driver copies it at every
 * KEEP.
 */
struct pen_ring_kept {
    uint64_t incarnation;
    uint64_t revision;
    struct pen_ring_record record;
    uint64_t round; /* round of the state that it holds */
    struct pen_ring_hash hash;
    struct pen_ring_part parts[PEN_RING_ISLANDS];
};

enum pen_ring_phase {
    PEN_RING_OUT,      /* asks to join */
    PEN_RING_BEHIND,   /* a member that lacks the state of its record */
    PEN_RING_TRAINING, /* a member that computes its contribution */
    PEN_RING_OFFERED,  /* a member that waits for the commit */
    PEN_RING_ENDED
};

struct pen_ring_island {
    const struct pen_ring_setting *setting; /* borrowed */
    uint32_t number;
    enum pen_ring_phase phase;
    bool is_leaving;
    int64_t leaves_at; /* when it received the order to leave; 0: not yet */
    struct pen_ring_kept kept;
    uint64_t proposed; /* contributors of the last proposal; 0: none */
    bool is_summed;
    struct pen_ring_hash sum; /* hash of that proposal's sum */
    uint32_t coordinator;     /* the coordinator that it talks to */
    uint32_t source;          /* the island that it pulls from */
    int64_t heard_at;         /* when that coordinator last answered */
    int64_t beat_at;          /* when to send the next sign of life */
};

/*
 * Starts an island (kept is NULL) or restarts it. Incarnations of an island
 * must grow with each start.
 */
void pen_ring_island_init(struct pen_ring_island *island,
                          const struct pen_ring_setting *setting,
                          uint32_t number, uint64_t incarnation,
                          const struct pen_ring_kept *kept);

void pen_ring_island_step(struct pen_ring_island *island,
                          const struct pen_ring_event *event,
                          struct pen_ring_actions *actions);

/* Returns the contributions of the open round that are here whole. */
uint64_t pen_ring_island_whole(const struct pen_ring_island *island);

/* ---- between the files of an island */

void pen__island_begin_round(struct pen_ring_island *island,
                             struct pen_ring_actions *actions);
void pen__island_adopt(struct pen_ring_island *island,
                       const struct pen_ring_message *message,
                       struct pen_ring_actions *actions);
void pen__island_summed(struct pen_ring_island *island,
                        const struct pen_ring_event *event,
                        struct pen_ring_actions *actions);
void pen__island_ack(struct pen_ring_island *island,
                     struct pen_ring_actions *actions);
void pen__island_end(struct pen_ring_island *island,
                     struct pen_ring_actions *actions);
/* Returns whether the island holds the state of its record. */
bool pen__island_is_current(const struct pen_ring_island *island);
bool pen__island_is_member(const struct pen_ring_island *island);
/*
 * Returns whether all contributions to this record's last round are here, so
 * that the island can sum them.
 */
bool pen__island_can_sum(const struct pen_ring_island *island,
                         const struct pen_ring_record *record, uint64_t epoch);
/*
 * Adds a message to these nodes, with the fields that every message of an
 * island has.
 */
struct pen_ring_message *pen__island_send(const struct pen_ring_island *island,
                                          struct pen_ring_actions *actions,
                                          enum pen_ring_kind kind, uint64_t to);
uint64_t pen__island_coordinator(const struct pen_ring_island *island);
uint64_t pen__island_peers(const struct pen_ring_island *island);

#endif
