#ifndef PEN_RING_RING_H
#define PEN_RING_RING_H

#include <stdbool.h>
#include <stdint.h>

struct pen_text;

/*
 * The agreement of islands on their membership (by epochs) and on which rounds
 * are committed. Everything that must be agreed is one record in a store,
 * changed by compare-and-swap on its revision. Coordinators keep nothing else,
 * so that any of them can take over from another.
 *
 * Islands and coordinators are pure: step(state, event) -> actions. They have
 * no clock (events carry the time of their node), no sockets, no threads and no
 * allocation; they return a list of actions for their driver to carry out.
 *
 *     island        OUT ──admitted──► TRAINING ──trained──► OFFERED ─┐
 *                    ▲  ▲                ▲  ▲                        │
 *       restart ─────┘  └──dropped───────┘  └──commit, epoch─────────┤
 *                                     BEHIND ◄──commit that it lacks─┘
 *                   ENDED: evicted, left, or replaced by a newer incarnation
 *
 *     one round     offers ─► fragments to all members ─► quorum, then grace ─►
 *                   proposal ─► acknowledgements ─► compare-and-swap ─► record
 *
 * Invariants; the model tests/ring/agreement.pml has the first six as well:
 *   A1 A round is committed once, and rounds grow by one.
 *   A2 Nothing of another epoch or round is accepted.
 *   A3 An island acknowledges, and sums, only contributions that it has whole.
 *   A4 A commit has the quorum of contributors, and more than half of the
 *      members of its epoch acknowledged it before.
 *   A5 Neither a revoked key nor an older incarnation becomes a member.
 *   A6 A member holds the state of the last committed round, or all that it is
 *      summed from.
 *   A7 Islands that hold the state of a round have the same hash.
 *   A8 A contribution begins where the last committed one of its island ended:
 *      no batch is lost, and none is used twice.
 */

/* Islands and coordinators are nodes: coordinators come after all islands. */
#define PEN_RING_ISLANDS 16u
#define PEN_RING_COORDINATORS 4u
#define PEN_RING_NODES (PEN_RING_ISLANDS + PEN_RING_COORDINATORS)
#define PEN_RING_FRAGMENTS 64u /* of a contribution, at most */

/* A set of islands, or of fragments. */
static inline uint64_t pen_ring_bit(uint32_t index)
{
    return (uint64_t)1 << index;
}
static inline bool pen_ring_has(uint64_t set, uint32_t index)
{
    return (set >> index & 1) != 0;
}
uint32_t pen_ring_count(uint64_t set);
/* Adds "0, 2", or "none". */
void pen_ring_add_set(uint64_t set, struct pen_text *out);
/* Returns whether `set` has more than half of `of`. */
bool pen_ring_is_most(uint64_t set, uint64_t of);

struct pen_ring_hash {
    uint64_t words[4];
};
bool pen_ring_same_hash(const struct pen_ring_hash *a,
                        const struct pen_ring_hash *b);

/*
 * The contribution of an island to a round: the change that it made from its
 * batches `first` to `last` (not included). It stays the same within an epoch.
 */
struct pen_ring_offer {
    uint64_t first;
    uint64_t last;
    uint64_t tokens; /* its weight in the sum */
    uint32_t num_fragments;
    struct pen_ring_hash hash;
};
bool pen_ring_same_offer(const struct pen_ring_offer *a,
                         const struct pen_ring_offer *b);

/* The record: everything that is agreed. */
struct pen_ring_record {
    uint64_t epoch;
    uint64_t members;
    uint64_t revoked; /* islands whose keys are revoked */
    uint64_t incarnations[PEN_RING_ISLANDS]; /* the newest admitted */
    uint64_t cursors[PEN_RING_ISLANDS];      /* batches committed */
    /* The last committed round. */
    uint64_t round;
    uint64_t round_epoch; /* the epoch in which it was committed */
    uint64_t contributors;
    struct pen_ring_offer offers[PEN_RING_ISLANDS]; /* of contributors */
    struct pen_ring_hash hash;                      /* of the state after it */
};

/* All time limits, derived from the patience. In nanoseconds. */
struct pen_ring_limits {
    int64_t patience; /* a node that is silent for this long counts as gone */
    int64_t beat;     /* between signs of life, and before a repetition */
    int64_t grace_least;
    int64_t grace_most;
    int64_t proposal; /* after which a proposal is void */
    int64_t lease;    /* of the coordinator that serves */
};
void pen_ring_limits_init(struct pen_ring_limits *limits, int64_t patience);

/* The grace window is this share of the median round, within its limits. */
#define PEN_RING_GRACE_SHARE 4 /* a quarter */

/*
 * Rounds of another run, from the first one on. They are committed again with
 * the same contributors, and only with the same contributions and states.
 */
struct pen_ring_past {
    struct pen_ring_record *rounds; /* that of round n is rounds[n - 1] */
    uint64_t count;
};

struct pen_ring_setting {
    struct pen_ring_limits limits;
    struct pen_ring_past past; /* no rounds: all rounds are new */
    uint32_t num_islands;
    uint32_t num_coordinators;
    uint32_t quorum; /* contributors, at least */
};

/* ---- messages, events, actions */

enum pen_ring_kind {
    /* From an island to a coordinator. */
    PEN_RING_JOIN,  /* with held round and hash */
    PEN_RING_BEAT,  /* the same, and the contributions that it has whole */
    PEN_RING_OFFER, /* the island's contribution */
    PEN_RING_ACK,   /* contributors and the hash of their sum */
    PEN_RING_LEAVE,
    /* From a coordinator to islands. */
    PEN_RING_RECORD,
    PEN_RING_PROPOSE, /* the next record, without its hash */
    /* Between islands. */
    PEN_RING_FRAGMENT, /* one fragment of the sender's contribution */
    PEN_RING_FETCH,    /* asks for fragments */
    PEN_RING_PULL,     /* asks for the state of a round */
    PEN_RING_STATE
};

/* A message. The transport proves the sender: `from` is the node of its key. */
struct pen_ring_message {
    enum pen_ring_kind kind;
    uint32_t from;        /* node */
    uint64_t incarnation; /* of an island that sends */
    uint64_t revision;    /* of the newest record that the sender knows */
    uint64_t epoch;       /* of that record */
    uint64_t round;       /* held, or the round that the message is about */
    uint64_t set;         /* of islands, or of fragments */
    uint32_t fragment;
    struct pen_ring_hash hash;
    struct pen_ring_offer offer;
    struct pen_ring_record record; /* of RECORD and PROPOSE */
};

enum pen_ring_event_kind {
    PEN_RING_TICK, /* at least every half beat */
    PEN_RING_MESSAGE,
    /* To an island. */
    PEN_RING_TRAINED, /* round, offer */
    PEN_RING_SUMMED,  /* round, set, hash */
    PEN_RING_TOLD_TO_LEAVE,
    /* To a coordinator. */
    PEN_RING_STORED, /* the record of the store after a read or a swap */
    PEN_RING_LEASED, /* is_granted */
    PEN_RING_TOLD_TO_EVICT
};

struct pen_ring_event {
    enum pen_ring_event_kind kind;
    int64_t now;                            /* of this node's clock */
    const struct pen_ring_message *message; /* borrowed during the step */
    const struct pen_ring_record *record;   /* of STORED; borrowed */
    uint64_t revision;                      /* of STORED */
    bool is_granted;                        /* of LEASED */
    bool is_refused;                        /* of STORED: a swap that lost */
    uint64_t round;
    uint64_t set;
    uint32_t island; /* of TOLD_TO_EVICT */
    struct pen_ring_offer offer;
    struct pen_ring_hash hash;
};

enum pen_ring_action_kind {
    PEN_RING_SEND,  /* message, to every node of `to` */
    PEN_RING_GIVE,  /* fragments `set` of the island's contribution, to `to` */
    PEN_RING_KEEP,  /* what an island keeps must be durable before the rest */
    PEN_RING_TRAIN, /* for round, from the batch `first`; fold or discard */
    PEN_RING_SUM,   /* contributors `set` of round */
    PEN_RING_END,   /* the process ends: the island takes part no more */
    PEN_RING_READ,
    PEN_RING_SWAP, /* record, where the store has `revision` */
    PEN_RING_LEASE
};

struct pen_ring_action {
    enum pen_ring_action_kind kind;
    uint64_t to; /* nodes */
    uint64_t set;
    uint64_t round;
    uint64_t first;
    uint64_t revision;
    struct pen_ring_message message;
    struct pen_ring_record record;
};

/* Actions of one step, in their order. */
#define PEN_RING_MOST_ACTIONS 12u
struct pen_ring_actions {
    uint32_t count;
    struct pen_ring_action list[PEN_RING_MOST_ACTIONS];
};

/* Adds an action of this kind; its message's kind is not set yet. */
struct pen_ring_action *pen__ring_add(struct pen_ring_actions *actions,
                                      enum pen_ring_action_kind kind);

#endif
