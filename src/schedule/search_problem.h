#ifndef PEN_SCHEDULE_SEARCH_PROBLEM_H
#define PEN_SCHEDULE_SEARCH_PROBLEM_H

#include "base/random.h"
#include "schedule/channels.h"
#include "schedule/costs.h"
#include "schedule/schedule.h"

/*
 * The common part of the search: the problem for one shape in flat arrays,
 * candidates, and their evaluation.
 *
 * Micro-batches are alike, so every stage may take them in ascending order:
 * sort the F of a stage by start and call the n-th one micro-batch n, and do so
 * for I and W; every op still comes after the ops that it needs. A candidate is
 * therefore only, for each rank, a word over its types (F, I, W of each chunk),
 * in which every type occurs m times; the n-th time it means micro-batch n.
 */

enum pen__role { PEN__F, PEN__I, PEN__W, PEN__ROLES };

/* One letter of the alphabet of one rank. */
struct pen__task {
    int64_t ticks;
    double memory;    /* added to the rank's stash, in A */
    int32_t recv;     /* channel it waits for, or PEN__NONE */
    int32_t send;     /* channel it sends on, or PEN__NONE */
    int32_t before;   /* type of the same rank that must come first */
    uint32_t expects; /* stage that sends what it waits for */
    uint32_t stage;
};

/* The share by which the verifier lets a limit be exceeded. */
#define PEN__LIMIT_SLACK 1e-9

struct pen__problem {
    struct pen_shape shape;
    uint32_t num_ranks;
    uint32_t num_microbatches;
    uint32_t num_types; /* of one rank: chunks * PEN__ROLES */
    uint32_t length;    /* ops of one rank */
    uint32_t window;
    bool is_blocking;
    double limit; /* in A, with the verifier's slack; INFINITY: none */
    double per_sec;
    struct pen__task *tasks; /* rank * num_types + type */
    struct pen__channel_index channels;
    int64_t *latency;  /* per channel */
    int64_t *transfer; /* per channel */
    uint64_t *first;   /* per channel: of its messages; one more at the end */
    int64_t *sync;     /* per stage */
    int64_t *step;     /* per stage */
    int64_t *work;     /* per rank: all its ops, steps included */
    int64_t *head;     /* per rank: when its first op starts, always */
};

/* Prepares a problem. `limit` 0: none; `window` 0: the default. */
pen_status pen__problem_init(struct pen__problem *problem,
                             const struct pen_shape *shape,
                             const struct pen_costs *costs, double limit,
                             uint32_t window, struct pen_text *why);
void pen__problem_release(struct pen__problem *problem);

static inline const struct pen__task *
pen__task_of(const struct pen__problem *problem, uint32_t rank, uint32_t type)
{
    return &problem->tasks[(size_t)rank * problem->num_types + type];
}

static inline uint32_t pen__type(uint32_t chunk, enum pen__role role)
{
    return chunk * PEN__ROLES + (uint32_t)role;
}

/* Returns the bytes of a candidate: rows of `length` types, rank by rank. */
static inline size_t pen__order_size(const struct pen__problem *problem)
{
    return (size_t)problem->num_ranks * problem->length;
}

/*
 * Returns whether the row keeps the order of its own rank and the limit.
 * Demands of other ranks show in the evaluation.
 */
bool pen__row_is_legal(const struct pen__problem *problem, uint32_t rank,
                       const uint8_t *row);

/* Makes the compute-only schedule of a candidate. */
pen_status pen__order_to_schedule(const struct pen__problem *problem,
                                  const uint8_t *order, const char *name,
                                  struct pen_schedule **out,
                                  struct pen_text *why);

/*
 * Makes the candidate that a schedule of the same shape is; B becomes I and W.
 * False when types cannot express it: recomputation, moves, or micro-batches in
 * another order. Overlap groups are taken as their ops one after the other.
 */
bool pen__order_from_schedule(const struct pen__problem *problem,
                              const struct pen_schedule *schedule,
                              uint8_t *order);

/* Smaller is better; the fields in this order. */
struct pen__score {
    int64_t span;
    int64_t makespan;
    int64_t sum; /* of the spans of all ranks: guides where the others tie */
};

static inline bool pen__score_is_less(const struct pen__score *a,
                                      const struct pen__score *b)
{
    if (a->span != b->span)
        return a->span < b->span;
    return a->makespan < b->makespan;
}

/* One op on the critical path; the op before it on the rank holds it up. */
struct pen__place {
    uint32_t rank;
    uint32_t position;
};

/* The machine of machine.h for candidates: no allocation, early refusal. */
struct pen__evaluator;

pen_status pen__evaluator_create(const struct pen__problem *problem,
                                 struct pen__evaluator **out);
void pen__evaluator_free(struct pen__evaluator *evaluator);

/*
 * Evaluates a candidate. False when it deadlocks, mixes up a channel, or cannot
 * end with a span of at most `cap`; *score is then untouched.
 */
bool pen__evaluate(struct pen__evaluator *evaluator, const uint8_t *order,
                   int64_t cap, struct pen__score *score);

/*
 * Ops on the critical path of the candidate evaluated last that wait for the
 * op before them on their rank; `places` has room for all ops of the problem.
 */
uint32_t pen__critical_places(const struct pen__evaluator *evaluator,
                              const uint8_t *order, struct pen__place *places);

/* Ops evaluated since the creation: the search's measure of work. */
uint64_t pen__evaluator_steps(const struct pen__evaluator *evaluator);

#endif
