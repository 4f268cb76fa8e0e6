#ifndef PEN_CULPRITS_BLAME_INTERNAL_H
#define PEN_CULPRITS_BLAME_INTERNAL_H

#include "culprits/blame.h"

/* A step that is longer by less than this share of it is not longer. */
#define PEN__NOT_LONGER 1e-3

/*
 * Finds the blame from the seconds of the ranks alone; blame->longer_sec is
 * known.
 */
void pen__blame_ranks(const struct pen_run_figures *disturbed,
                      const struct pen_run_figures *plain,
                      struct pen_blame *blame);

/*
 * Returns the rank whose wait for sums grew most over the undisturbed run, and
 * by how much.
 */
uint32_t pen__slowest_sums(const struct pen_run_figures *disturbed,
                           const struct pen_run_figures *plain,
                           double *most_sec);

#endif
