#ifndef PEN_VIEW_ADVICE_H
#define PEN_VIEW_ADVICE_H

#include "view/summary.h"

/*
 * Advice: a notable finding in a training, and a remedy. Each follows from
 * figures, which it names, and names an option or a command that exists.
 */
struct pen_advice {
    struct pen_text seen; /* "Ranks wait 38 % of the step, predicted 21 %..." */
    struct pen_text todo;
};

#define PEN_ADVICE_MAX 16u /* more than there are kinds of it */

struct pen_advices {
    struct pen_advice items[PEN_ADVICE_MAX]; /* what matters most is first */
    size_t count;
};

/* Collects advice. PEN_NOMEM is the only failure; release in any case. */
pen_status pen_advices_init(struct pen_advices *advices,
                            const struct pen_run_parts *parts);
void pen_advices_release(struct pen_advices *advices);

/*
 * The place where the speed of a training fell for good: the index of the first
 * slow step, 0 when there is none, and the medians before and after it.
 */
struct pen_speed_fall {
    size_t index;
    double before; /* tokens per second */
    double behind;
};

pen_status pen_speed_fall_find(const struct pen_run *run,
                               struct pen_speed_fall *out);

#endif
