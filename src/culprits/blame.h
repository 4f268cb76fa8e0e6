#ifndef PEN_CULPRITS_BLAME_H
#define PEN_CULPRITS_BLAME_H

#include "core/mesh.h"
#include "core/trace.h"
#include "schedule/schedule.h"

/*
 * Blame: why a disturbed run took longer than the same run undisturbed. With
 * traces of both, the cause is found on the chain of ops that decided how long
 * the run took: from the op that ends last back to the first, where each op
 * waited only for the one before it. Whatever takes longer on that chain than
 * it did undisturbed is the cause. Without traces, the seconds of the ranks are
 * compared.
 */

/* Where the seconds of a rank went, all steps together. */
struct pen_rank_seconds {
    double busy_sec;     /* operations and the optimizer */
    double pipeline_sec; /* waiting for a neighbour in the pipeline */
    double sums_sec;     /* waiting for sums of gradients and for weights */
    double all_sec;      /* waiting for all ranks, to know the norm */
    double inside_sec;   /* in messages inside layers, waiting included */
    uint32_t
        longest_for; /* the neighbour it waited for longest, or UINT32_MAX */
    double longest_sec;
};

/* The figures of a run that are compared with another run's; all borrowed. */
struct pen_run_figures {
    const double *step_sec; /* of each step */
    uint32_t num_steps;
    const struct pen_rank_seconds *ranks; /* NULL: unknown */
    uint32_t num_ranks;
    uint32_t tensor_ranks;  /* neighbouring ranks that form a tensor group;
                               0: one */
    uint32_t context_ranks; /* likewise, a context group */
    bool sends_inside;      /* ranks that compute a layer together exchange
                               messages: their traces are not read, since a trace
                               does not show whose seconds these are */
    const struct pen_trace *trace; /* likewise */
    uint32_t *const *waited_for; /* per rank and event of the trace: the rank it
                                    waited for, or UINT32_MAX */
};

enum pen_blame_kind {
    PEN_BLAME_NOBODY, /* the steps are not longer */
    PEN_BLAME_RANK,   /* its ops take longer */
    PEN_BLAME_LINK,   /* messages from one rank to another take longer */
    PEN_BLAME_SUMS    /* sums take longer after all ranks have come */
};

/* One op of the chain. */
struct pen_blame_op {
    uint32_t rank;
    uint64_t event; /* of the rank's trace */
};

struct pen_blame {
    enum pen_blame_kind kind; /* of the largest cause */
    uint32_t rank;            /* LINK: the sender; SUMS: one that sums */
    uint32_t to;              /* LINK: the receiver */
    double longer_sec;        /* by which a step is longer, on average */
    double seconds;           /* the part of it due to the largest cause */
    double share;         /* of the largest cause among all causes, 0 to 1 */
    double factor;        /* ratio to the undisturbed time; 0: that was 0 */
    uint32_t num_alike;   /* causes of this kind, including the largest */
    double alike_share;   /* of all of them together */
    uint32_t end;         /* LINK: the rank at one end of most slow links */
    double end_share;     /* share of these links */
    struct pen_mesh mesh; /* of the ranks */
    struct pen_blame_op *chain; /* in time order; NULL without traces */
    uint64_t num_chain;
};

/*
 * Finds the blame. `schedule` is the one that both runs executed. PEN_NOMEM is
 * the only failure. On success release with pen_blame_release().
 */
pen_status pen_blame_find(const struct pen_run_figures *disturbed,
                          const struct pen_run_figures *plain,
                          const struct pen_schedule *schedule,
                          struct pen_blame *out);
void pen_blame_release(struct pen_blame *blame);

/* Adds the blame in one or two sentences that end with a newline. */
void pen_blame_tell(const struct pen_run_figures *disturbed,
                    const struct pen_run_figures *plain,
                    const struct pen_schedule *schedule, struct pen_text *out);
void pen_blame_print(const struct pen_blame *blame, struct pen_text *out);

#endif
