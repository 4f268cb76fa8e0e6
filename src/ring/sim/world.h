#ifndef PEN_RING_SIM_WORLD_H
#define PEN_RING_SIM_WORLD_H

#include "base/random.h"
#include "ring/coordinator.h"
#include "ring/island.h"
#include "ring/sim/sim.h"
#include "ring/store.h"

#define SECOND ((int64_t)1000000000)
#define PATIENCE (4 * SECOND)
#define FAULT_TIME (40 * SECOND)  /* then everything heals */
#define HEAL_TIME (60 * PATIENCE) /* within which rounds must continue */
#define MOST_EVENTS 8192u
#define MOST_ROUNDS 512u
#define MOST_ACKS 16u

enum pen__thing {
    PEN__TICK,
    PEN__DELIVER,
    PEN__TRAINED,
    PEN__REQUEST, /* at the store */
    PEN__ANSWER,  /* of the store */
    PEN__FAULT,
    PEN__RESTART,
    PEN__MEND, /* a cut, an outage */
    PEN__HEAL
};

enum pen__fault {
    PEN__CRASH,
    PEN__PAUSE,
    PEN__CUT,
    PEN__ONE_WAY,
    PEN__OUTAGE,
    PEN__LOSE_LEASE,
    PEN__EVICT,
    PEN__LEAVE,
    PEN__NUM_FAULTS
};

/* A future event. */
struct pen__due {
    int64_t at;
    uint64_t serial; /* orders events of the same time: the first drawn comes
                        first */
    enum pen__thing thing;
    uint32_t node;
    uint64_t life; /* the life of the node for which it is meant */
    int64_t began_at;
    enum pen__fault fault;
    int64_t length; /* of the fault */
    enum pen_ring_action_kind request;
    uint64_t revision;
    bool is_granted;
    bool is_refused;
    uint64_t round;
    struct pen_ring_offer offer;
    struct pen_ring_message message; /* its record also for requests */
};

/* A contribution as an island really has it, whatever its messages say. */
struct pen__real {
    struct pen_ring_hash of;
    uint64_t fragments;
};

struct pen__ack {
    uint64_t epoch, round, set;
    struct pen_ring_hash hash;
};

struct pen__node {
    bool is_up;
    bool has_ended; /* evicted or left: it does not come back */
    uint64_t life;  /* counts starts */
    int64_t paused_until;
    double rate; /* of its clock */
    int64_t offset;
    double slowness; /* of its training */
};

struct pen_ring_world {
    struct pen_random random;
    const struct pen_ring_run *run;
    struct pen_ring_outcome *outcome;
    int64_t now;
    uint64_t serial;
    bool is_healed;
    int64_t healed_at;
    uint64_t healed_round;
    const char *broken; /* the invariant; NULL: none */
    /* The rates that this seed drew. */
    double loss, duplicate, corrupt;
    int64_t delay_least, delay_most;
    bool is_folding;
    struct pen_ring_setting setting;
    struct pen__node nodes[PEN_RING_NODES];
    struct pen_ring_island islands[PEN_RING_ISLANDS];
    struct pen_ring_coordinator coordinators[PEN_RING_COORDINATORS];
    struct pen_ring_kept kept[PEN_RING_ISLANDS]; /* on disk */
    struct pen__real real[PEN_RING_ISLANDS][PEN_RING_ISLANDS];
    struct pen__real disk[PEN_RING_ISLANDS][PEN_RING_ISLANDS];
    uint64_t incarnations[PEN_RING_ISLANDS];
    struct {
        bool is_on;
        uint64_t round, first, serial;
        struct pen_ring_offer late; /* trained but not committed */
    } training[PEN_RING_ISLANDS];
    /*
     * The nodes on one side of a cut: they and the others do not hear each
     * other.
     */
    uint64_t cut;
    bool is_one_way;
    bool is_out; /* whether the store is out */
    struct pen_ring_store store;
    struct pen_ring_memory memory;
    /* Everything that was committed, for the checks. */
    struct pen_ring_record last; /* as last checked */
    uint64_t last_revision;
    struct pen_ring_hash hashes[MOST_ROUNDS];
    struct pen__ack acks[PEN_RING_ISLANDS][MOST_ACKS];
    uint32_t num_acks[PEN_RING_ISLANDS];
    bool has_wiped; /* whether a disk was wiped, which happens at most once */
    /* The queue: a heap of indices into the pool. */
    uint32_t heap[MOST_EVENTS];
    uint32_t heap_size;
    uint32_t unused[MOST_EVENTS];
    uint32_t num_unused;
    struct pen__due pool[MOST_EVENTS];
};

/* ---- queue.c */
void pen__world_queue_clear(struct pen_ring_world *world);
/* Makes an event, for the caller to fill in before pen__world_queue_push(). */
struct pen__due *pen__world_queue_new(struct pen_ring_world *world);
void pen__world_queue_push(struct pen_ring_world *world, struct pen__due *due,
                           int64_t at);
/*
 * Returns the next event, which stays until pen__world_queue_done(); NULL:
 * none.
 */
struct pen__due *pen__world_queue_pop(struct pen_ring_world *world);
void pen__world_queue_done(struct pen_ring_world *world, struct pen__due *due);

/* ---- drive.c: steps of nodes, and their actions */
bool pen__world_chance(struct pen_ring_world *world, double share);
int64_t pen__world_between(struct pen_ring_world *world, int64_t least,
                           int64_t most);
uint32_t pen__world_num_nodes(const struct pen_ring_world *world);
/* Returns the number of a node from its place in the rows of a cluster. */
uint32_t pen__world_node_at(const struct pen_ring_world *world, uint32_t index);
int64_t pen__world_clock_of(const struct pen_ring_world *world, uint32_t node);
void pen__world_step(struct pen_ring_world *world, uint32_t node,
                     struct pen_ring_event *event);
void pen__world_start(struct pen_ring_world *world, uint32_t node);
void pen__world_request(struct pen_ring_world *world, struct pen__due *due);
bool pen__world_can_hear(const struct pen_ring_world *world, uint32_t from,
                         uint32_t to);
void pen__world_mark(const struct pen_ring_world *world,
                     const struct pen_ring_mark_at *mark);

/* ---- faults.c */
void pen__world_draw_faults(struct pen_ring_world *world);
void pen__world_fault(struct pen_ring_world *world, const struct pen__due *due);
void pen__world_evict(struct pen_ring_world *world, uint32_t island);
void pen__world_mend(struct pen_ring_world *world, const struct pen__due *due);
void pen__world_restart(struct pen_ring_world *world, uint32_t node);
void pen__world_heal(struct pen_ring_world *world);

/* ---- check.c */
void pen__world_break(struct pen_ring_world *world, const char *invariant);
/* Computes the state after a round, from these offers as they really are. */
void pen__world_sum(const struct pen_ring_hash *before, uint64_t set,
                    const struct pen_ring_offer *offers,
                    const struct pen__real *real, struct pen_ring_hash *out);
void pen__world_check_record(struct pen_ring_world *world);
/* Returns the members that hold the last committed state, or can sum it. */
uint64_t pen__world_holders(const struct pen_ring_world *world);
void pen__world_check_kept(struct pen_ring_world *world);
void pen__world_check_node(struct pen_ring_world *world, uint32_t node);
bool pen__world_is_done(const struct pen_ring_world *world);

#endif
