#ifndef PEN_RING_ISLAND_H
#define PEN_RING_ISLAND_H

#include "ring/ring.h"

/* A contribution as far as it has arrived. */
struct pen_ring_part {
    uint64_t epoch; /* that it was sent in */
    uint64_t round;
    uint64_t fragments; /* those that are here */
    struct pen_ring_offer offer;
};

/* What survives a restart: the driver copies it at every KEEP. */
struct pen_ring_kept {
    uint64_t incarnation;
    uint64_t revision;
    struct pen_ring_record record;
    uint64_t round; /* of the state that it holds */
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
    int64_t leaves_at; /* when it was told to */
    struct pen_ring_kept kept;
    uint64_t proposed; /* contributors of the last proposal; 0: none */
    bool is_summed;
    struct pen_ring_hash sum; /* of that proposal */
    uint32_t coordinator;     /* that it talks to */
    uint32_t source;          /* island that it pulls from */
    int64_t heard_at;         /* when that coordinator last answered */
    int64_t beat_at;          /* next sign of life */
};

/*
 * An island that starts (kept is NULL) or starts again. Incarnations of an
 * island must grow with each start.
 */
void pen_ring_island_init(struct pen_ring_island *island,
                          const struct pen_ring_setting *setting,
                          uint32_t number, uint64_t incarnation,
                          const struct pen_ring_kept *kept);

void pen_ring_island_step(struct pen_ring_island *island,
                          const struct pen_ring_event *event,
                          struct pen_ring_actions *actions);

/* Contributions of the open round that are here whole. */
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
/* Whether it holds the state of its record. */
bool pen__island_is_current(const struct pen_ring_island *island);
bool pen__island_is_member(const struct pen_ring_island *island);
/* Whether all that this record's last round is summed from is here. */
bool pen__island_can_sum(const struct pen_ring_island *island,
                         const struct pen_ring_record *record, uint64_t epoch);
/* A message to these nodes, with what every message of an island has. */
struct pen_ring_message *pen__island_send(const struct pen_ring_island *island,
                                          struct pen_ring_actions *actions,
                                          enum pen_ring_kind kind, uint64_t to);
uint64_t pen__island_coordinator(const struct pen_ring_island *island);
uint64_t pen__island_peers(const struct pen_ring_island *island);

#endif
