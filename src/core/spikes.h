#ifndef PEN_CORE_SPIKES_H
#define PEN_CORE_SPIKES_H

#include <stdint.h>

/*
 * Finds values that are far above the recent ones: spikes of the loss and of
 * the gradient norm of a training. The rule is at the top of spikes.c.
 */
#define PEN_SPIKES_WINDOW 64u /* steps that a value is compared with */

enum pen_spikes_kind { PEN_SPIKES_LOSS, PEN_SPIKES_GRAD_NORM };

struct pen_spikes {
    enum pen_spikes_kind kind;
    uint64_t count;                 /* values so far */
    double logs[PEN_SPIKES_WINDOW]; /* of the last values; a ring */
};

struct pen_spikes pen_spikes_make(enum pen_spikes_kind kind);

/*
 * Takes the value of the next step. Returns the median of the recent values if
 * this one is a spike, otherwise NAN. Values that are not finite are left out.
 * Does not allocate.
 */
double pen_spikes_take(struct pen_spikes *spikes, double value);

#endif
