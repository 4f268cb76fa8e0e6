#ifndef PEN_VIEW_SPENT_H
#define PEN_VIEW_SPENT_H

#include "schedule/op.h"
#include "view/view.h"

/*
 * The use of a traced step's seconds: per rank by its ops and waits, and over
 * all ranks by kind of operation, with the prediction.
 */

/* The parts of a rank's time. */
#define PEN_SPENT_TABLE(X)                                                     \
    X(FORWARD, "forward")                                                      \
    X(BACKWARD, "backward")                                                    \
    X(RECOMPUTE, "recomputation")                                              \
    X(STEP, "optimizer")                                                       \
    X(SYNC, "sums of gradients")                                               \
    X(MESSAGE, "sending and receiving")                                        \
    X(MOVE, "moving stashes")                                                  \
    X(WAIT_WORK, "waiting for a rank that computes")                           \
    X(WAIT_BETWEEN, "waiting for a rank between its operations")               \
    X(WAIT_SYNC, "waiting for sums of gradients")                              \
    X(WAIT_LINK, "waiting for messages in flight")                             \
    X(REST, "other, and idle at the end")

enum pen_spent_part {
#define PEN_SPENT_ENUM(name, words) PEN_SPENT_##name,
    PEN_SPENT_TABLE(PEN_SPENT_ENUM)
#undef PEN_SPENT_ENUM
        PEN_SPENTS
};

extern const char *const pen_spent_names[PEN_SPENTS];

struct pen_spent_rank {
    const char *host;               /* borrowed from the view */
    double sec[PEN_SPENTS];         /* together the step */
    double computing_sec;           /* of them: forward to optimizer */
    double predicted_computing_sec; /* NAN: not predicted */
};

/* Operations of one kind of all ranks; of those that take part in a step. */
struct pen_spent_kind {
    uint64_t count;
    double sec;           /* of work */
    double waiting_sec;   /* before it */
    double predicted_sec; /* of work; NAN: not predicted */
};

/*
 * The cause for which a step took longer than predicted, or for which ranks
 * waited most.
 */
enum pen_spent_cause {
    PEN_CAUSE_NONE,
    PEN_CAUSE_WORK,    /* of a rank */
    PEN_CAUSE_BETWEEN, /* a rank between its operations */
    PEN_CAUSE_SYNC,
    PEN_CAUSE_LINK
};

struct pen_spent {
    const char *schedule; /* its name; borrowed from the view */
    uint32_t step;
    size_t num_steps; /* whole ones, of which it is the median */
    double sec;
    double predicted_sec; /* NAN: not predicted, as below */
    double bubble;        /* idle share of all ranks' time */
    double predicted_bubble;
    double scale; /* by which all ranks alike work slower; 1: they do not */
    uint64_t num_lost; /* events that found no room */
    uint32_t num_replicas;
    struct pen_spent_rank *ranks; /* by number; owned */
    uint32_t num_ranks;
    struct pen_spent_kind kinds[PEN_OP_KINDS];
    enum pen_spent_cause cause;
    double cause_sec;            /* that it makes the step later; else waited */
    struct pen_text cause_words; /* "rank 2 computing"; owned */
};

/*
 * Computes where the seconds went. PEN_NOMEM is the only failure. Release the
 * result.
 */
pen_status pen_spent_init(struct pen_spent *spent, const struct pen_view *view);
void pen_spent_release(struct pen_spent *spent);

#endif
