#ifndef PEN_CLI_TRAIN_METRICS_H
#define PEN_CLI_TRAIN_METRICS_H

#include "cli/train/options.h"
#include "core/run_log.h"
#include "runtime/metrics_server.h"

/*
 * The figures of a training that --metrics-port shows. Without the option there
 * is no server, and the figures are only kept.
 */
struct pen__train_metrics {
    struct pen_metrics figures;
    struct pen_metrics_server *server; /* NULL: none */
};

/* Says where the page is. On success end with pen__train_metrics_close(). */
pen_status pen__train_metrics_open(struct pen__train_metrics *metrics,
                                   const struct pen__train_args *args,
                                   struct pen_text *why);
void pen__train_metrics_close(struct pen__train_metrics *metrics);

/* A figure that the page has from the next step on; NaN: not known. */
void pen__train_metrics_set(struct pen__train_metrics *metrics,
                            enum pen_metric metric, double value);

/* A step, with what is not in its line: NaN where not known. */
void pen__train_metrics_step(struct pen__train_metrics *metrics,
                             const struct pen_run_step *step, double bubble,
                             double left_sec);

#endif
