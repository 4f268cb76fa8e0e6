#ifndef PEN_SCHEDULE_MACHINE_H
#define PEN_SCHEDULE_MACHINE_H

#include "schedule/channels.h"
#include "schedule/costs.h"
#include "schedule/schedule.h"

/*
 * The waiting rules, in one place. Verifier and timer run the same machine:
 *
 *   1. a send or receive posts and returns at once;
 *   2. a compute op waits for the receives that feed it;
 *   3. a send completes only when its receive has been posted;
 *   4. at most K sends of a channel are outstanding, the next post waits.
 *
 * A channel is (source rank, destination rank, activation or gradient), first
 * in first out, so a message is known by its number on the channel and the
 * instructions need no micro-batch. That makes repetition visible: a row is
 * kept as stretches of instructions, each with the times that it runs. The
 * longest is the loop, the steady state of the schedule.
 *
 * Time is counted in integer ticks, so that sums do not depend on their order
 * and "equal" means equal.
 */

enum pen__instr_kind { PEN__RUN, PEN__SYNC, PEN__STEP };

/* Posts a receive, waits for a message, computes, sends: each optional. */
struct pen__instr {
    uint32_t op; /* position in the row of the op that computes (or is alone) */
    uint32_t cost; /* index into the ticks; SYNC, STEP: the stage */
    int32_t recv;  /* channel, or PEN__NONE */
    int32_t wait;
    int32_t send;
    uint32_t back; /* receives posted on `wait` after the one waited for */
    uint8_t kind;  /* enum pen__instr_kind */
    /* a send or receive without a compute op: op is its place */
    uint8_t is_end;
};

/* Instructions [first, first + length) of the row, run count times. */
struct pen__stretch {
    uint32_t first;
    uint32_t length;
    uint32_t count;
};

struct pen__instr_row {
    struct pen__instr *instrs; /* of each stretch, once */
    struct pen__stretch *stretches;
    uint32_t num_stretches;
    uint32_t loop;    /* the stretch of the steady state, or PEN__NO_LOOP */
    uint32_t num_ops; /* of the row of the schedule */
};

#define PEN__NO_LOOP UINT32_MAX

struct pen__program {
    struct pen_shape shape;
    uint32_t window;
    struct pen__channel_index index;
    uint32_t num_channels; /* of the index, for brevity */
    const struct pen__channel *channels;
    struct pen__instr_row *rows;
    uint32_t *syncs; /* per stage: number of SYNC */
    bool has_twins;  /* a STEP waits for the SYNC of other stages, too */
    uint32_t stride; /* from one of these stages to the next */
};

/*
 * Compiles a lowered schedule that has passed V1, V2, V3 and V8: every compute
 * op comes after the receive that feeds it. `window` 0 means the schedule's.
 */
pen_status pen__program_create(const struct pen_schedule *schedule,
                               uint32_t window, bool with_loops,
                               struct pen__program **out, struct pen_text *why);
void pen__program_free(struct pen__program *program);

/* Slots of a stage in the ticks; the last index of all is zero. */
enum pen__cost_slot {
    PEN__COST_FORWARD, /* the first five in the order of enum pen_op_kind */
    PEN__COST_BACKWARD,
    PEN__COST_INPUT,
    PEN__COST_WEIGHT,
    PEN__COST_RECOMPUTE,
    PEN__COST_KEPT,      /* a forward that has an R */
    PEN__COST_PAIR_REST, /* overlapped pair, less the forward before it */
    PEN__COST_SLOTS
};

struct pen__ticks {
    double per_sec;
    int64_t *of; /* num_stages * PEN__COST_SLOTS + 1 */
    int64_t *sync;
    int64_t *step;
    int64_t *latency;  /* per channel */
    int64_t *transfer; /* per channel */
    bool is_blocking;
};

/*
 * Makes the ticks of a program. costs NULL: everything takes no time, as the
 * verifier needs it.
 */
pen_status pen__ticks_init(struct pen__ticks *ticks,
                           const struct pen__program *program,
                           const struct pen_cost_table *costs);
void pen__ticks_release(struct pen__ticks *ticks);

/*
 * Ticks of a second: a power of ten, so that 18.522 s is a whole number of
 * them, and so many that `bound_sec` are at most `most`.
 */
double pen__ticks_per_sec(double most, double bound_sec);

/* A rank and a channel fill a line of the cache each: a run hops a lot. */
struct pen__rank_state {
    int64_t clock;
    int64_t first; /* start of the first op that takes time, -1: none */
    int64_t last;  /* end of the last one */
    int64_t busy;
    const struct pen__instr *instrs; /* of the stretch */
    uint32_t length;
    uint32_t count;
    uint32_t stretch;
    uint32_t iteration; /* of the stretch */
    uint32_t instr;     /* next, of the stretch */
    uint8_t done;       /* 1: receive posted, 2: computed, send is left */
    bool is_finished;
};

struct pen__op_time {
    int64_t start;
    int64_t end;
};

/* Both ends look at both times, so they share a line of the cache. */
struct pen__message {
    int64_t arrival;
    int64_t posted; /* of its receive */
};

/*
 * A channel. Only recent messages matter: a ring keeps those that a window or a
 * receive posted ahead may ask for.
 */
struct pen__channel_state {
    struct pen__message *messages; /* message n at n & mask */
    int64_t wire_free;
    int64_t latency;
    int64_t transfer;
    uint32_t mask;
    uint32_t sent;
    uint32_t received;
    uint32_t source;
    uint32_t destination;
    bool is_lane;
    bool is_receiver_waiting;
    bool is_sender_waiting;
};

/* Times of messages that a run is asked to remember. */
struct pen__watch {
    uint32_t sent_from;     /* number of the first whose arrival is kept */
    uint32_t received_from; /* and of the first whose receive is */
    uint32_t count;
    int64_t *arrivals;
    int64_t *posts;
};

/*
 * Messages to watch on a channel: `count` of them, counted back from the last
 * one.
 */
struct pen__zone {
    uint64_t sent_behind;
    uint64_t received_behind;
    uint64_t count;
};

struct pen__run_options {
    uint32_t cut;           /* iterations left out of every row's loop */
    const uint32_t *factor; /* per rank: loop runs per iteration; NULL: 1 */
    const struct pen__zone *zones; /* per channel, or NULL */
    uint32_t watched; /* last iterations whose clocks are kept in loop_clock */
    bool with_ops;    /* times of all ops and all messages, without loops */
};

struct pen__run {
    const struct pen__program *program;
    const struct pen__ticks *ticks;
    struct pen__run_options options;
    struct pen__rank_state *ranks;
    struct pen__channel_state *channels;
    struct pen__message *messages; /* of all channels */
    struct pen__watch *watches;    /* per channel, or NULL */
    int64_t *watched;
    int64_t *sync_time;
    uint64_t *sync_first; /* per stage: index of its first SYNC */
    uint32_t *sync_done;
    uint32_t *step_done;
    int64_t **loop_clock; /* per rank: ends of its last iterations, or NULL */
    struct pen__op_time **ops; /* per rank, or NULL: not recorded */
    uint32_t *stack;
    uint32_t stacked;
    uint8_t *is_stacked;
};

/*
 * Prepare and run to the end, or until no rank can move. `options` may be NULL.
 */
pen_status pen__run_init(struct pen__run *run,
                         const struct pen__program *program,
                         const struct pen__ticks *ticks,
                         const struct pen__run_options *options);
bool pen__run_all(struct pen__run *run); /* true when all ranks finished */
void pen__run_release(struct pen__run *run);

/* Returns the instruction of a rank that has not finished. */
const struct pen__instr *pen__run_instr(const struct pen__run *run,
                                        uint32_t rank);

#endif
