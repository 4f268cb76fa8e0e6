#include "runtime/lr_schedule.h"

#include "base/bug.h"

#include <inttypes.h>
#include <math.h>

#define PI 3.14159265358979323846

pen_status pen_lr_schedule_check(const struct pen_lr_schedule *schedule,
                                 struct pen_text *why)
{
    if (!(schedule->min_rate >= 0 && schedule->rate >= schedule->min_rate)) {
        pen_why(why, "--min-lr %g must be between 0 and --lr %g",
                schedule->min_rate, schedule->rate);
        return PEN_INVALID;
    }
    if (schedule->style == PEN_LR_CONSTANT)
        return PEN_OK;
    if (schedule->warmup_iters >= schedule->decay_iters) {
        pen_why(why,
                "--lr-warmup-iters %" PRIu64 " must be less than the %" PRIu64
                " iterations of --lr-decay-iters",
                schedule->warmup_iters, schedule->decay_iters);
        return PEN_INVALID;
    }
    uint64_t room = schedule->decay_iters - schedule->warmup_iters;
    if (schedule->style == PEN_LR_WSD &&
        (schedule->wsd_decay_iters == 0 || schedule->wsd_decay_iters > room)) {
        pen_why(why,
                "WSD needs --lr-wsd-decay-iters from 1 to %" PRIu64
                ", the iterations after the warm-up",
                room);
        return PEN_INVALID;
    }
    return PEN_OK;
}

/* 1 at the beginning of the fall, 0 at its end. */
static double wsd_height(enum pen_wsd_style style, double fraction)
{
    switch (style) {
    case PEN_WSD_LINEAR:
        return 1 - fraction;
    case PEN_WSD_COSINE:
        return 0.5 * (cos(PI * fraction) + 1);
    case PEN_WSD_MINUS_SQRT:
        return 1 - sqrt(fraction);
    default: /* exponential */
        break;
    }
    return 2 * pow(0.5, fraction) - 1;
}

/* The height of the curve between min_rate and rate, after the warm-up. */
static double height(const struct pen_lr_schedule *schedule, uint64_t done)
{
    double fraction = (double)(done - schedule->warmup_iters) /
                      (double)(schedule->decay_iters - schedule->warmup_iters);
    if (schedule->style == PEN_LR_LINEAR)
        return 1 - fraction;
    if (schedule->style == PEN_LR_COSINE)
        return 0.5 * (cos(PI * fraction) + 1);
    uint64_t fall = schedule->decay_iters - schedule->wsd_decay_iters;
    if (done <= fall)
        return 1;
    return wsd_height(schedule->wsd_style,
                      (double)(done - fall) /
                          (double)schedule->wsd_decay_iters);
}

double pen_lr_schedule_rate(const struct pen_lr_schedule *schedule,
                            uint64_t done)
{
    if (schedule->warmup_iters > 0 && done <= schedule->warmup_iters)
        return schedule->rate * (double)done / (double)schedule->warmup_iters;
    if (schedule->style == PEN_LR_CONSTANT)
        return schedule->rate;
    if (done > schedule->decay_iters)
        return schedule->min_rate;
    return schedule->min_rate +
           height(schedule, done) * (schedule->rate - schedule->min_rate);
}
