#include "cli/train/metrics.h"

#include "base/log.h"
#include "cli/program/program.h"

#include <math.h>
#include <time.h>

pen_status pen__train_metrics_open(struct pen__train_metrics *metrics,
                                   const struct pen__train_args *args,
                                   struct pen_text *why)
{
    *metrics = (struct pen__train_metrics){
        .figures = {.version = pen__program_version()}};
    pen__train_metrics_set(metrics, PEN_METRIC_STEPS_PLANNED,
                           (double)args->train_iters);
    pen__train_metrics_set(metrics, PEN_METRIC_STEPS_REPEATED, 0);
    pen__train_metrics_set(metrics, PEN_METRIC_STEPS_SKIPPED, 0);
    if (args->metrics_port == NULL)
        return PEN_OK;
    pen_status status = pen_metrics_server_create(
        args->metrics_port_number, &metrics->figures, &metrics->server, why);
    if (status == PEN_OK)
        pen_log(PEN_LOG_INFO, "metrics are at http://127.0.0.1:%u/metrics",
                (unsigned)pen_metrics_server_port(metrics->server));
    return status;
}

void pen__train_metrics_close(struct pen__train_metrics *metrics)
{
    pen_metrics_server_free(metrics->server);
    metrics->server = NULL;
}

void pen__train_metrics_set(struct pen__train_metrics *metrics,
                            enum pen_metric metric, double value)
{
    if (!isnan(value))
        pen_metrics_set(&metrics->figures, metric, value);
}

static double wall_time_sec(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void pen__train_metrics_step(struct pen__train_metrics *metrics,
                             const struct pen_run_step *step, double bubble,
                             double left_sec)
{
    struct pen_metrics *figures = &metrics->figures;
    if (metrics->server == NULL)
        return;
    pen_metrics_set(figures, PEN_METRIC_STEP, (double)step->step);
    pen_metrics_set(figures, PEN_METRIC_LOSS, step->loss);
    pen_metrics_set(figures, PEN_METRIC_GRAD_NORM, step->grad_norm);
    pen_metrics_set(figures, PEN_METRIC_LEARNING_RATE, step->lr);
    pen_metrics_set(figures, PEN_METRIC_TOKENS, (double)step->tokens);
    pen_metrics_set(figures, PEN_METRIC_TOKENS_PER_SECOND,
                    step->tokens_per_sec);
    pen_metrics_add_step(figures, 1e-3 * step->step_ms);
    pen_metrics_set(figures, PEN_METRIC_MEMORY_PEAK,
                    (double)step->memory_bytes);
    pen_metrics_set(figures, PEN_METRIC_LAST_STEP_TIME, wall_time_sec());
    figures->values[PEN_METRIC_STEPS_REPEATED] += step->repeated > 0;
    figures->values[PEN_METRIC_STEPS_SKIPPED] += step->skipped > 0;
    pen__train_metrics_set(metrics, PEN_METRIC_VALIDATION_LOSS, step->val_loss);
    pen__train_metrics_set(metrics, PEN_METRIC_VALIDATION_ACCURACY,
                           step->val_accuracy);
    pen__train_metrics_set(metrics, PEN_METRIC_SHARE_OF_PEAK,
                           step->share_of_peak);
    pen__train_metrics_set(metrics, PEN_METRIC_BUBBLE, bubble);
    pen__train_metrics_set(metrics, PEN_METRIC_LEFT, left_sec);
    pen_metrics_server_publish(metrics->server, figures);
}
