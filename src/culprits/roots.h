#ifndef PEN_CULPRITS_ROOTS_H
#define PEN_CULPRITS_ROOTS_H

#include "culprits/sources.h"

/*
 * The roots of lost time. A rank that waits is held up by whatever the rank
 * that it waits for does in the same time; if that rank waits as well, by the
 * next one, and so on to a root, which is one of
 *
 *   a rank that works               a message that is on its way
 *   a rank between two of its ops   a synchronisation that all ranks came to
 */
enum pen__root_kind {
    PEN__ROOT_WORK,
    PEN__ROOT_BETWEEN,
    PEN__ROOT_SYNC,
    PEN__ROOT_LINK
};

struct pen__root {
    double sec;
    double excess_sec; /* over the prediction; chains alone */
};

/* The two courses that are compared; everything is borrowed. */
struct pen__case {
    const struct pen__sources *sources;
    const struct pen__course *measured;
    const struct pen__course *predicted; /* NULL: nothing was predicted */
    const struct pen_cost_table *costs;  /* NULL likewise */
    double scale; /* by which all ranks alike work slower than predicted */
};

struct pen__blame {
    struct pen__root *roots; /* of the kinds in order, per line or link */
    uint32_t num_lines;
    uint32_t num_roots;
};

pen_status pen__blame_init(struct pen__blame *blame,
                           const struct pen__case *matter);
void pen__blame_clear(struct pen__blame *blame);
void pen__blame_release(struct pen__blame *blame);

enum pen__root_kind pen__root_kind_of(const struct pen__blame *blame,
                                      uint32_t root);
/* Returns the line, or the link. */
uint32_t pen__root_index(const struct pen__blame *blame, uint32_t root);

/* Adds the time that this op waited, from begin to ready, to the roots. */
void pen__blame_wait(struct pen__blame *blame, const struct pen__case *matter,
                     uint32_t line, uint32_t position);

/* One op of the chain that decided how long the step took. */
struct pen__chain_op {
    uint32_t line;
    uint32_t position;
};

struct pen__chain {
    struct pen__chain_op *ops; /* in time order */
    uint64_t count;
    uint64_t capacity;
};

/* Returns the line whose last op ends last of all. */
uint32_t pen__last_line(const struct pen__course *course);

/* Makes room for any chain; free chain->ops with free(). */
pen_status pen__chain_init(struct pen__chain *chain,
                           const struct pen__course *course);

/*
 * Finds the chain of ops, from the end of the line back to the first work, in
 * which each waited for nothing but the one before, and adds its seconds to
 * the roots.
 */
void pen__blame_chain(struct pen__blame *blame, const struct pen__case *matter,
                      uint32_t line, struct pen__chain *chain);

/*
 * Returns the seconds that the op should have worked; NAN when nothing was
 * predicted.
 */
double pen__expected_sec(const struct pen__case *matter, uint32_t line,
                         uint32_t position);

/*
 * Returns the seconds that the message for which this op waits should take; NAN
 * when nothing was predicted.
 */
double pen__expected_transit_sec(const struct pen__case *matter, uint32_t line,
                                 uint32_t position, uint32_t link);

#endif
