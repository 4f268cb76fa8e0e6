/*
 * The rule for spikes. Values are compared as logarithms, since a loss near
 * zero and a gradient norm scatter by factors. For the last 64 values let m be
 * the median, s the median distance from m times 1.4826 (the standard
 * deviation, if they were normally distributed), and M the largest. A value x
 * is a spike if
 *
 *   log x  >  m + 6 s              far outside of the usual scatter, and
 *   log x  >  m + 1.5 (M - m)      well above everything recent, and
 *   x      >  1.5 exp(m)           a loss that matters,
 *   x      >  10 exp(m)            or a gradient norm that does.
 *
 * The second line keeps trainings with heavy tails quiet (a batch of one image
 * now and then has a hundred times the usual loss), and a training that stays
 * high: a spike becomes part of the window, so a series of spikes is reported
 * at its beginning and where it grows further.
 *
 * Before there are 16 values their scatter is hardly known. A spike must then
 * be more than 3 times (loss) or 30 times (gradient norm) the largest so far
 * instead of the last two lines. Therefore a learning rate that is far too high
 * is reported at the second step. While the loss falls, after the start or in
 * the warm-up, m and M are above the present values and nothing is reported.
 */
#include "core/spikes.h"

#include "base/median.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#define SCATTER 6.0
#define ABOVE_LARGEST 1.5
#define NORMAL 1.4826 /* standard deviation over median distance */
#define FEW 16u
#define SMALLEST 1e-12 /* values below count as this; zero has no logarithm */

static const struct limits {
    double usual;   /* factor of the median */
    double largest; /* factor of the largest, while there are few */
} limits[] = {[PEN_SPIKES_LOSS] = {1.5, 3}, [PEN_SPIKES_GRAD_NORM] = {10, 30}};

struct pen_spikes pen_spikes_make(enum pen_spikes_kind kind)
{
    return (struct pen_spikes){.kind = kind};
}

static size_t num_recent(const struct pen_spikes *spikes)
{
    return spikes->count < PEN_SPIKES_WINDOW ? (size_t)spikes->count
                                             : PEN_SPIKES_WINDOW;
}

/*
 * Returns the median distance from the median; `room` has place for all values.
 */
static double scatter_of(const struct pen_spikes *spikes, double median,
                         double room[PEN_SPIKES_WINDOW])
{
    size_t count = num_recent(spikes);
    for (size_t i = 0; i < count; i++)
        room[i] = fabs(spikes->logs[i] - median);
    return NORMAL * pen_median(room, count);
}

/* Returns the logarithm above which the next value is a spike. */
static double limit_of(const struct pen_spikes *spikes, double *median)
{
    const struct limits *limit = &limits[spikes->kind];
    double room[PEN_SPIKES_WINDOW];
    size_t count = num_recent(spikes);
    double largest = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        room[i] = spikes->logs[i];
        largest = fmax(largest, spikes->logs[i]);
    }
    *median = pen_median(room, count);
    double above = fmax(SCATTER * scatter_of(spikes, *median, room),
                        ABOVE_LARGEST * (largest - *median));
    if (count < FEW)
        return fmax(*median + above, largest + log(limit->largest));
    return *median + fmax(above, log(limit->usual));
}

double pen_spikes_take(struct pen_spikes *spikes, double value)
{
    double median = 0;
    if (!isfinite(value))
        return (double)NAN;
    double log_value = log(fmax(value, SMALLEST));
    bool is_spike = spikes->count > 0 && log_value > limit_of(spikes, &median);
    spikes->logs[spikes->count++ % PEN_SPIKES_WINDOW] = log_value;
    return is_spike ? exp(median) : (double)NAN;
}
