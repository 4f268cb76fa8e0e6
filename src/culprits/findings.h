#ifndef PEN_CULPRITS_FINDINGS_H
#define PEN_CULPRITS_FINDINGS_H

#include "culprits/roots.h"

/*
 * Where measured and predicted differ, and why. Without a prediction the
 * predicted figures are NAN and there are neither slow ops nor late links.
 */

#define PEN__NOBODY UINT32_MAX

struct pen__line_facts {
    double computing_sec;
    double waiting_sec;
    double total_sec; /* to the end of its last op */
    double predicted_computing_sec;
    double predicted_waiting_sec;
    double predicted_total_sec;
    double waited_sec[PEN__ROOT_LINK + 1]; /* of it, by what held it up */
    uint32_t waits_for; /* line that it waits for longest, or PEN__NOBODY */
    double waits_for_sec;
    /*
     * The root that makes the line end later than predicted or, without a
     * prediction, the root of its waiting; and its share among all roots.
     */
    uint32_t root; /* or PEN__NOBODY */
    double root_share;
};

/* Ops of one kind and stage on one line that differ from their prediction. */
struct pen__slow_ops {
    uint32_t line;
    uint32_t stage;
    unsigned kind;
    double ratio;      /* the median of measured / predicted */
    double excess_sec; /* of all of them together */
};

struct pen__late_link {
    uint32_t link;
    uint32_t count;       /* messages that were waited for */
    double transit_sec;   /* their median */
    double expected_sec;  /* its prediction */
    double most_late_sec; /* of one */
    double all_late_sec;  /* of all */
};

struct pen__findings {
    struct pen__line_facts *lines;
    uint32_t num_lines;
    double scale; /* by which all ranks alike are slower; 1: not at all */
    struct pen__blame chain_blame; /* of the chain that decided the step */
    /*
     * The waiting of all lines together: `sec` is the waiting itself,
     * `excess_sec` the part of it that exceeds the prediction.
     */
    struct pen__blame wait_blame;
    struct pen__chain chain;
    struct pen__slow_ops *slow; /* by excess, the largest first */
    size_t num_slow;
    struct pen__late_link *late; /* by lateness, the largest first */
    size_t num_late;
};

/* Chooses matter->scale; the rest of it is given. */
pen_status pen__findings_init(struct pen__findings *findings,
                              struct pen__case *matter);
void pen__findings_release(struct pen__findings *findings);

/* Adds the links whose messages came late. */
pen_status pen__find_late(struct pen__findings *findings,
                          const struct pen__case *matter);

/*
 * Returns the root with the largest excess, or seconds; PEN__NOBODY: none has
 * any.
 */
uint32_t pen__largest_root(const struct pen__blame *blame, bool by_excess);

#endif
