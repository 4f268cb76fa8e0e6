#ifndef PEN_RUNTIME_METRICS_H
#define PEN_RUNTIME_METRICS_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The figures of a training as Prometheus reads them: its text format 0.0.4,
 * https://prometheus.io/docs/instrumenting/exposition_formats. Units are
 * seconds, bytes and ratios (0 to 1). No label says where the training runs or
 * which files it has.
 */

/* The name after "penstock_", the type and the help of each metric. */
#define PEN_METRIC_TABLE(X)                                                    \
    X(STEP, "step", "gauge", "Completed steps.")                               \
    X(STEPS_PLANNED, "steps_planned", "gauge", "Total steps of the training.") \
    X(RANKS, "ranks", "gauge", "Number of processes of the training.")         \
    X(LOSS, "loss", "gauge", "Loss of the last step.")                         \
    X(VALIDATION_LOSS, "validation_loss", "gauge",                             \
      "Loss of the last evaluation.")                                          \
    X(VALIDATION_ACCURACY, "validation_accuracy_ratio", "gauge",               \
      "Accuracy of the last evaluation on images.")                            \
    X(GRAD_NORM, "grad_norm", "gauge",                                         \
      "Norm of the gradient of the last step, before clipping.")               \
    X(LEARNING_RATE, "learning_rate", "gauge",                                 \
      "Learning rate of the last step.")                                       \
    X(TOKENS, "tokens_total", "counter",                                       \
      "Tokens, or images, trained on since step 1.")                           \
    X(TOKENS_PER_SECOND, "tokens_per_second", "gauge",                         \
      "Tokens, or images, per second in the last step.")                       \
    X(STEP_SECONDS, "step_seconds", "gauge", "Duration of the last step.")     \
    X(SHARE_OF_PEAK, "share_of_peak_ratio", "gauge",                           \
      "Arithmetic of the last step, as a share of the peak.")                  \
    X(BUBBLE, "bubble_ratio", "gauge",                                         \
      "Share of the time that ranks waited in the last step.")                 \
    X(BUBBLE_PREDICTED, "bubble_predicted_ratio", "gauge",                     \
      "The same as predicted.")                                                \
    X(MEMORY_PEAK, "memory_peak_bytes", "gauge", "Peak memory of rank 0.")     \
    X(MEMORY_PREDICTED, "memory_predicted_bytes", "gauge",                     \
      "The same as predicted.")                                                \
    X(LEFT, "left_seconds", "gauge", "Predicted time until the last step.")    \
    X(CHECKPOINT_STEP, "checkpoint_step", "gauge",                             \
      "Step of the newest checkpoint that this run wrote.")                    \
    X(MEMORY_STEP, "memory_step", "gauge",                                     \
      "Newest step that is kept in memory for a restart.")                     \
    X(EPOCH, "epoch", "gauge", "Number of this launch under a supervisor.")    \
    X(RESTARTS, "restarts_total", "counter",                                   \
      "Restarts by a supervisor before this launch.")                          \
    X(STEPS_REPEATED, "steps_repeated_total", "counter",                       \
      "Steps of this launch that were not finite when computed first.")        \
    X(STEPS_SKIPPED, "steps_skipped_total", "counter",                         \
      "Steps of this launch that were left out by --on-nan skip.")             \
    X(LAST_STEP_TIME, "last_step_timestamp_seconds", "gauge",                  \
      "End of the last step, in seconds since 1970.")

enum pen_metric {
#define PEN_METRIC_ENUM(metric, name, type, help) PEN_METRIC_##metric,
    PEN_METRIC_TABLE(PEN_METRIC_ENUM)
#undef PEN_METRIC_ENUM
        PEN_NUM_METRICS
};

/* Durations are counted up to 1, 2 and 5 times a power of ten. */
#define PEN_METRICS_NUM_BOUNDS 16

/* Figures that start as zeros; at first only the version is known. */
struct pen_metrics {
    const char *version; /* a constant */
    double values[PEN_NUM_METRICS];
    bool is_known[PEN_NUM_METRICS]; /* what is not is left out of the page */
    uint64_t step_counts[PEN_METRICS_NUM_BOUNDS + 1]; /* the last: longer */
    double steps_sec;                                 /* all of these */
};

void pen_metrics_set(struct pen_metrics *metrics, enum pen_metric metric,
                     double value);

/* Sets the duration of the last step, and counts it among those of all. */
void pen_metrics_add_step(struct pen_metrics *metrics, double sec);

/*
 * The page. Numbers read back as they are; NaN and infinity are printed, too.
 */
void pen_metrics_print(const struct pen_metrics *metrics,
                       struct pen_text *page);

#define PEN_METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* The parts of a request that matter; all may come from anyone. */
struct pen_metrics_request {
    const char *method;
    const char *path; /* without the part after '?' */
    const char *host; /* the header; NULL: none */
};

/*
 * The code of HTTP that a request deserves. 200: the page; 404: all paths but
 * /metrics; 405: methods other than GET and HEAD. 403: the host is neither
 * 127.0.0.1 nor localhost, as when DNS gives a browser this machine for a name
 * on the internet.
 */
unsigned pen_metrics_judge(const struct pen_metrics_request *request);

#endif
