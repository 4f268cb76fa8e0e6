#ifndef PEN_HOST_PEAK_H
#define PEN_HOST_PEAK_H

#include "engine/engine.h"
#include "host/topology.h"

/*
 * The measured peak of this machine: the best of several short runs. A call
 * takes a tenth of a second, or half a second where other work disturbs it.
 * Every "share of peak" refers to these figures.
 */

/*
 * Measures a large dense product through the engine, operands in the layout it
 * likes best. INVALID where the engine has no products of that kind.
 */
pen_status pen_peak_flops(enum pen_precision dtype, int threads,
                          struct pen_text *why, double *flops_per_sec);

/*
 * Measures a = b + s c over arrays of four times the last cache, as far as a
 * quarter of the free memory allows; counts the bytes of all three.
 */
pen_status pen_peak_bandwidth(const struct pen_topology *topology, int threads,
                              struct pen_text *why, double *bytes_per_sec);

#endif
