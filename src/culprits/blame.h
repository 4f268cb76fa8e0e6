#ifndef PEN_CULPRITS_BLAME_H
#define PEN_CULPRITS_BLAME_H

#include "core/mesh.h"
#include "core/trace.h"
#include "schedule/schedule.h"

/*
 * What a disturbed run was waiting for, beside the same run undisturbed. With
 * traces of both it is found on the way that decided how long the run took:
 * from the op that ends last back to the first, each of which waited for
 * nothing but the one before. What is longer on that way than it was
 * undisturbed is why the run is longer. Without traces the seconds of the
 * ranks have to do.
 */

/* Where the seconds of a rank went, all steps together. */
struct pen_rank_seconds {
    double busy_sec;     /* operations and the optimizer */
    double pipeline_sec; /* waiting for a neighbour in the pipeline */
    double sums_sec;     /* waiting for sums of gradients and for weights */
    double all_sec;      /* waiting for all, to know the norm */
    double inside_sec;   /* in messages inside layers, waiting included */
    uint32_t
        longest_for; /* the neighbour it waited for longest, or UINT32_MAX */
    double longest_sec;
};

/* A run, as it is compared with another; all borrowed. */
struct pen_run_figures {
    const double *step_sec; /* of each step */
    uint32_t num_steps;
    const struct pen_rank_seconds *ranks; /* NULL: nobody knows */
    uint32_t num_ranks;
    uint32_t tensor_ranks; /* that are a group, of neighbours; 0: one */
    bool sends_inside; /* between ranks that compute a layer together: a trace
                          does not say whose seconds these are, and is not
                          looked at */
    const struct pen_trace *trace; /* likewise */
    uint32_t *const *waited_for;   /* as the trace: whom each event waited for,
                                      or UINT32_MAX */
};

enum pen_blame_kind {
    PEN_BLAME_NOBODY, /* the steps are not longer */
    PEN_BLAME_RANK,   /* its ops take longer */
    PEN_BLAME_LINK,   /* messages from one rank to another take longer */
    PEN_BLAME_SUMS    /* sums take longer when everybody has come */
};

/* One op of that way. */
struct pen_blame_op {
    uint32_t rank;
    uint64_t event; /* of the rank's trace */
};

struct pen_blame {
    enum pen_blame_kind kind; /* of the largest cause */
    uint32_t rank;            /* LINK: that sends; SUMS: one that sums */
    uint32_t to;              /* LINK: that receives */
    double longer_sec;        /* a step is, on average */
    double seconds;           /* of these, of the largest cause */
    double share;             /* of all causes, 0 to 1 */
    double factor;            /* by which it takes as long as undisturbed; 0: it
                                 took nothing */
    uint32_t num_alike;       /* causes of this kind, with the largest */
    double alike_share;       /* of all of them together */
    uint32_t end;             /* LINK: the rank at one end of most of them */
    double end_share;         /* of those */
    struct pen_mesh mesh;     /* of the ranks */
    struct pen_blame_op *chain; /* in time order; NULL without traces */
    uint64_t num_chain;
};

/*
 * `schedule` is the one that both ran. PEN_NOMEM is the only failure. On
 * success release with pen_blame_release().
 */
pen_status pen_blame_find(const struct pen_run_figures *disturbed,
                          const struct pen_run_figures *plain,
                          const struct pen_schedule *schedule,
                          struct pen_blame *out);
void pen_blame_release(struct pen_blame *blame);

/* The same in a sentence or two, with a newline behind. */
void pen_blame_tell(const struct pen_run_figures *disturbed,
                    const struct pen_run_figures *plain,
                    const struct pen_schedule *schedule, struct pen_text *out);
void pen_blame_print(const struct pen_blame *blame, struct pen_text *out);

#endif
