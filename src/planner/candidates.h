#ifndef PEN_PLANNER_CANDIDATES_H
#define PEN_PLANNER_CANDIDATES_H

#include "planner/candidate.h"
#include "planner/objective.h"

/*
 * All candidates of a setting. A base is a choice of degrees (without vpp),
 * micro-batch and recomputation, with a value that none of its layouts can
 * beat. The candidates of a base are all its schedules, chunks and shardings.
 *
 * Only the base with the most replicas is listed. Bases with fewer replicas are
 * made from it one by one by pen__base_next(), and seldom all of them.
 */

struct pen__base {
    struct pen_candidate candidate; /* without schedule, vpp and sharding */
    double seconds;     /* of a micro-batch: all layers on the best group */
    double path;        /* of it, there and back; 0: slices go ahead */
    double busy_joules; /* of a step: its computing, above waiting */
    double floor_sec;   /* all layers, evenly on all ranks */
    double key;         /* no value of it or with fewer replicas is less */
    double parameters;  /* of all blocks of the most frequent class, and */
    double stash;       /* bytes of a micro-batch in them; on one rank */
};

#define PEN__MOST_VALUES 512u /* most values of a degree that are tried */

struct pen__values {
    uint32_t items[PEN__MOST_VALUES];
    size_t count;
};

struct pen__bases {
    struct pen__base *items;
    size_t count;
    size_t capacity;
    uint64_t num_choices; /* with all numbers of replicas */
    const struct pen_setting *setting;
    enum pen_objective objective;
    uint32_t fixed_replicas;     /* 0: open */
    struct pen__values replicas; /* divisors of the batch, in order */
};

/*
 * Lists all bases, sorted by their keys. False when memory runs out. Release
 * the items with free().
 */
bool pen__bases_list(const struct pen_setting *setting,
                     const struct pen_candidate_filter *filter,
                     enum pen_objective objective, struct pen__bases *out);

/* The same with the next smaller number of replicas; false: there is none. */
bool pen__base_next(const struct pen__bases *bases, struct pen__base *base);

/* Sets the key of a base anew. */
void pen__base_set_key(const struct pen__bases *bases, struct pen__base *base);

/*
 * The value that no layout of the base can beat if it takes at least `seconds`.
 */
double pen__base_value(const struct pen__bases *bases,
                       const struct pen__base *base, double seconds);

/* Candidates of one base, in a list that is used again and again. */
struct pen__candidate_list {
    struct pen_candidate *items;
    size_t count;
    size_t capacity;
};

/* Replaces what the list has. False when memory runs out. */
bool pen__base_expand(const struct pen_setting *setting,
                      const struct pen_candidate_filter *filter,
                      const struct pen__base *base,
                      struct pen__candidate_list *out);

/*
 * Whether the blocks of a candidate have room, however they are cut: a rank
 * that holds k micro-batches has room for no more than a share of them. `held`
 * is the share that its schedule holds, `bytes` what a device offers; *least is
 * set to the bytes that it would have to offer.
 */
bool pen__candidate_has_room(const struct pen_setting *setting,
                             const struct pen__base *base,
                             const struct pen_candidate *candidate, double held,
                             double bytes, double *least);

/*
 * The least that ranks hold under a schedule, as a share of what they hold
 * under 1F1B: 1, or a third for schedules that hold less, as V-Min does, the
 * leanest.
 */
double pen__held_share(const struct pen_generator *generator);

/*
 * Whether a forward and a whole backward take turns in one direction, as in
 * what Megatron runs: then ranks fill, drain and hold as 1F1B does. Weight
 * gradients of their own fill gaps, and a second direction starts at the other
 * end.
 */
bool pen__is_plain(const struct pen_generator *generator);

/*
 * Seconds that a timed candidate cannot beat. `bound` is what
 * pen_candidate_predict() says of it without timing it.
 */
double pen__candidate_floor(const struct pen__base *base,
                            const struct pen_candidate *candidate,
                            const struct pen_prediction *bound);

#endif
