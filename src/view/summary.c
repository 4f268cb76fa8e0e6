#include "view/summary.h"

#include "base/median.h"

#include <math.h>
#include <stdlib.h>

static void take_validation(const struct pen_run_step *step,
                            struct pen_summary *out)
{
    if (!isfinite(step->val_loss))
        return;
    out->val_loss = step->val_loss;
    if (step->val_loss >= out->best_val_loss)
        return;
    out->best_val_loss = step->val_loss;
    out->best_val_step = step->step;
}

static pen_status take_log(const struct pen_run *log, struct pen_summary *out)
{
    size_t count = log->num_steps;
    if (count == 0)
        return PEN_OK;
    double *values = malloc(2 * count * sizeof *values);
    if (values == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < count; i++) {
        values[i] = log->steps[i].tokens_per_sec;
        values[count + i] = log->steps[i].share_of_peak;
        take_validation(&log->steps[i], out);
    }
    const struct pen_run_step *last = &log->steps[count - 1];
    out->num_steps = count;
    out->last_step = last->step;
    out->tokens = last->tokens;
    out->elapsed_sec = last->elapsed_sec;
    out->loss = last->loss;
    out->peak_bytes = last->memory_bytes;
    out->tokens_per_sec = pen_median(values, count);
    out->share_of_peak = pen_median(values + count, count);
    free(values);
    return PEN_OK;
}

static void take_ranks(const struct pen_run_ranks *ranks,
                       struct pen_summary *out)
{
    out->num_ranks = ranks->count;
    out->peak_bytes = 0;
    for (uint32_t i = 0; i < ranks->count; i++) {
        if (ranks->ranks[i].peak_bytes <= out->peak_bytes)
            continue;
        out->peak_bytes = ranks->ranks[i].peak_bytes;
        out->predicted_bytes = ranks->ranks[i].predicted_bytes;
        out->fullest = i;
    }
}

/* Steps that were done twice have one line, that of the second time. */
static void take_events(const struct pen_run_parts *parts,
                        struct pen_summary *out)
{
    double steps_sec = 0;
    out->wall_sec = parts->events->end_sec - parts->events->begin_sec;
    if (parts->log == NULL || !(out->wall_sec > 0))
        return;
    for (size_t i = 0; i < parts->log->num_steps; i++)
        if (isfinite(parts->log->steps[i].step_ms))
            steps_sec += 1e-3 * parts->log->steps[i].step_ms;
    out->goodput = fmin(steps_sec / out->wall_sec, 1);
}

pen_status pen_summary_make(const struct pen_run_parts *parts,
                            struct pen_summary *out)
{
    const double unknown = (double)NAN;
    *out = (struct pen_summary){.elapsed_sec = unknown,
                                .loss = unknown,
                                .val_loss = unknown,
                                .best_val_loss = INFINITY,
                                .tokens_per_sec = unknown,
                                .share_of_peak = unknown,
                                .step_sec = unknown,
                                .predicted_step_sec = unknown,
                                .bubble = unknown,
                                .predicted_bubble = unknown,
                                .wall_sec = unknown,
                                .goodput = unknown};
    pen_status status = parts->log == NULL ? PEN_OK : take_log(parts->log, out);
    if (isinf(out->best_val_loss))
        out->best_val_loss = unknown;
    if (parts->spent != NULL) {
        out->num_ranks = parts->spent->num_ranks;
        out->step_sec = parts->spent->sec;
        out->predicted_step_sec = parts->spent->predicted_sec;
        out->bubble = parts->spent->bubble;
        out->predicted_bubble = parts->spent->predicted_bubble;
    }
    if (parts->ranks != NULL)
        take_ranks(parts->ranks, out);
    if (parts->events != NULL)
        take_events(parts, out);
    return status;
}
