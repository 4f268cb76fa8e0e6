#ifndef PEN_VIEW_SUMMARY_H
#define PEN_VIEW_SUMMARY_H

#include "core/run_events.h"
#include "core/run_log.h"
#include "core/run_ranks.h"
#include "view/spent.h"

/* The files of a training that exist; all borrowed, each may be NULL. */
struct pen_run_parts {
    const struct pen_run *log;
    const struct pen_spent *spent; /* of its trace */
    const struct pen_run_ranks *ranks;
    const struct pen_run_events *events; /* of its supervisor */
};

/* The figures that runs are compared by. Reals are NAN where not known. */
struct pen_summary {
    uint64_t num_steps; /* that were logged */
    uint64_t last_step;
    uint64_t tokens;
    double elapsed_sec;
    double loss;     /* of the last step */
    double val_loss; /* the last one */
    double best_val_loss;
    uint64_t best_val_step;
    double tokens_per_sec; /* the median of the steps, as below */
    double share_of_peak;
    uint64_t peak_bytes; /* of the fullest rank; of the first without ranks */
    uint64_t predicted_bytes; /* of the same; 0: not known */
    uint32_t fullest;         /* rank */
    uint32_t num_ranks;       /* 0: not known */
    double step_sec;          /* of the trace's median step */
    double predicted_step_sec;
    double bubble;
    double predicted_bubble;
    double wall_sec; /* of a supervised run, from its first launch on */
    double goodput;  /* share of that in steps that are committed; with a log */
};

/* Summarises a training. PEN_NOMEM is the only failure. */
pen_status pen_summary_make(const struct pen_run_parts *parts,
                            struct pen_summary *out);

#endif
