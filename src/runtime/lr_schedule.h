#ifndef PEN_RUNTIME_LR_SCHEDULE_H
#define PEN_RUNTIME_LR_SCHEDULE_H

#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

/*
 * The learning rate of a step, by the formulas of Megatron-LM
 * (megatron/core/optimizer_param_scheduler.py). A function of the number of
 * steps done before and of nothing else, so a resumed run continues as if it
 * had never stopped.
 *
 *   rate       .-----.            constant stays, linear and cosine fall
 *             /       \           from the end of the warm-up to decay_iters,
 *            /         \____ min  WSD falls during its last wsd_decay_iters
 *   0 ------'
 *     warm-up  stable  decay
 */

#define PEN_LR_STYLE_TABLE(X)                                                  \
    X(CONSTANT, "constant")                                                    \
    X(LINEAR, "linear")                                                        \
    X(COSINE, "cosine")                                                        \
    X(WSD, "WSD")

enum pen_lr_style {
#define PEN_LR_STYLE_ENUM(name, text) PEN_LR_##name,
    PEN_LR_STYLE_TABLE(PEN_LR_STYLE_ENUM)
#undef PEN_LR_STYLE_ENUM
        PEN_LR_STYLES
};

/* How the rate falls at the end of warm-up/stable/decay. */
#define PEN_WSD_STYLE_TABLE(X)                                                 \
    X(EXPONENTIAL, "exponential")                                              \
    X(LINEAR, "linear")                                                        \
    X(COSINE, "cosine")                                                        \
    X(MINUS_SQRT, "minus_sqrt")

enum pen_wsd_style {
#define PEN_WSD_STYLE_ENUM(name, text) PEN_WSD_##name,
    PEN_WSD_STYLE_TABLE(PEN_WSD_STYLE_ENUM)
#undef PEN_WSD_STYLE_ENUM
        PEN_WSD_STYLES
};

struct pen_lr_schedule {
    enum pen_lr_style style;
    enum pen_wsd_style wsd_style;
    double rate; /* the highest */
    double min_rate;
    uint64_t warmup_iters;
    uint64_t decay_iters;     /* the step at which min_rate is reached */
    uint64_t wsd_decay_iters; /* of those, the last that fall; WSD only */
};

/* Refuses numbers that contradict each other, in the words of the options. */
pen_status pen_lr_schedule_check(const struct pen_lr_schedule *schedule,
                                 struct pen_text *why);

/*
 * The rate of the step before which `done` steps were made. With a warm-up the
 * first step has rate 0, as in Megatron-LM.
 */
double pen_lr_schedule_rate(const struct pen_lr_schedule *schedule,
                            uint64_t done);

#endif
