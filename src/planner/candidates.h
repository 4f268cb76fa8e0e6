#ifndef PEN_PLANNER_CANDIDATES_H
#define PEN_PLANNER_CANDIDATES_H

#include "planner/candidate.h"

/*
 * All candidates of a setting. First those that differ in degrees (without
 * vpp), micro-batch and recomputation, each with seconds that none of its
 * layouts can beat; then, of one of those, all schedules, chunks and
 * shardings.
 */

struct pen__base {
    struct pen_candidate candidate; /* without schedule, vpp and sharding */
    double floor_sec;               /* all layers, evenly on all ranks */
    double parameters; /* of all blocks of the most frequent class, and */
    double stash;      /* bytes of a micro-batch in them; on one rank */
};

struct pen__bases {
    struct pen__base *items;
    size_t count;
    size_t capacity;
};

/*
 * Sorted, quickest first. False when memory runs out. Release the items with
 * free().
 */
bool pen__bases_list(const struct pen_setting *setting,
                     const struct pen_candidate_filter *filter,
                     struct pen__bases *out);

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
 * Whether its blocks have room, however they are cut: a rank that holds k
 * micro-batches has room for no more than a share of them. `held` is that of
 * its schedule, `bytes` what a device offers; *least is set to what it would
 * have to offer.
 */
bool pen__candidate_has_room(const struct pen_setting *setting,
                             const struct pen__base *base,
                             const struct pen_candidate *candidate, double held,
                             double bytes, double *least);

/*
 * What ranks hold at least under a schedule, as a share of what they do under
 * 1F1B: 1, or a third for those that hold less, since V-Min, the leanest, does.
 */
double pen__held_share(const struct pen_generator *generator);

/*
 * Whether a forward and a whole backward take turns in one direction, as in
 * what Megatron runs: then ranks fill, drain and hold as 1F1B does. Weight
 * gradients of their own fill gaps, and a second direction starts at the other
 * end.
 */
bool pen__is_plain(const struct pen_generator *generator);

#endif
