#ifndef PEN_SCHEDULE_GENERATORS_H
#define PEN_SCHEDULE_GENERATORS_H

#include "schedule/correction.h"
#include "schedule/costs.h"
#include "schedule/schedule.h"
#include "schedule/verify.h"

/*
 * Every published schedule that Penstock knows, one file per paper in
 * generators/. A generator is a pure function of its arguments and writes
 * compute ops only (asynchronous ones also SYNC and STEP).
 */

struct pen_generator_args {
    uint32_t ranks;           /* p */
    uint32_t microbatches;    /* m; asynchronous: per batch */
    uint32_t chunks;          /* v; 0: the generator's own choice */
    uint32_t slices;          /* n; 0: the generator's own choice */
    uint32_t batches;         /* asynchronous ones; 0: the generator's own */
    uint32_t warmup;          /* k of kfkb, 0: own choice */
    const uint32_t *replicas; /* ranks of each stage, or NULL: one each */
    uint32_t num_replicated;  /* stages that `replicas` has */
    double memory_limit;      /* in A; 0: the generator's own */
    bool has_memory;          /* the user named the memory of the ops */
    bool has_vertical_sync;   /* pipedream: one version in all stages */
    bool recomputes;          /* R before the backwards; see schedule.h */
    const struct pen_costs *costs; /* never NULL */
};

struct pen_generator {
    const char *name;
    const char *title; /* in words */
    const char *paper; /* authors, venue, identifier */
    enum pen_placement_kind placement;
    const char *constraints; /* what it needs, in words; "none" */
    const char *versions;    /* weight versions held, in words */
    const char *bubble;      /* idle seconds per rank and step, as published */
    const char *peak;        /* activations of rank s in A */
    bool is_synchronous;
    bool steps_each; /* asynchronous: after every micro-batch, not after m */
    bool is_stale;   /* a backward may use other weights than its forward */
    bool has_chunks; /* --chunks means something to it */
    bool has_slices;
    bool has_limit;         /* --memory-limit */
    bool has_group_size;    /* --group-size */
    bool has_replicas;      /* --stage-replicas */
    bool has_vertical_sync; /* --vertical-sync */
    bool uses_costs;        /* the order depends on the costs */
    bool splits_backward;   /* I and W apart, in some places at least */
    bool moves_activations; /* ranks keep activations for others */
    bool stashes_all;       /* a rank holds all m at once */
    bool is_local; /* stages have losses of their own, for a model with as many
                      sections: no gradient goes from stage to stage */
    bool divides;  /* p has to divide m */
    uint32_t least_rounds; /* m is at least this multiple of p */
    bool joins_steps; /* steps that overlap can wait for all stages: for a norm
                         over them, or a matrix of two of them */
    bool is_optimistic; /* steps do not wait for the norm of all gradients, on
                           several ranks; see schedule.h */
    enum pen_correction correction; /* that its method computes with */
    const char *note;    /* where it is ours rather than the paper's; or NULL */
    const char *finding; /* what our experiment on it found; or NULL */
    pen_status (*generate)(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why);
};

/* Returns NULL after the last one. */
const struct pen_generator *pen_generator_at(size_t index);

/* Returns the generator of this name, or NULL. */
const struct pen_generator *pen_generator_find(const char *name);

/*
 * Generates and lowers. On failure *out is untouched and why says what would
 * work.
 */
pen_status pen_generator_make(const struct pen_generator *generator,
                              const struct pen_generator_args *args,
                              struct pen_schedule **out, struct pen_text *why);

/*
 * Generates, lowers and verifies. Besides refusals of the arguments and of the
 * memory limit, PEN_INVALID reports a generator whose schedule breaks a rule.
 */
pen_status pen_generator_make_verified(const struct pen_generator *generator,
                                       const struct pen_generator_args *args,
                                       const struct pen_verify_options *options,
                                       struct pen_schedule **out,
                                       struct pen_text *why);

#endif
