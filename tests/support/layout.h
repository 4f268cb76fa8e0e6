#ifndef PEN_TESTS_LAYOUT_H
#define PEN_TESTS_LAYOUT_H

#include "planner/predict.h"

/* A plan with the model and the cluster that it is predicted for; all owned. */
struct layout {
    struct pen_model *model;
    struct pen_cluster *cluster;
    struct pen_plan *plan;
    struct pen_setting setting;
};

/*
 * Model and cluster are "preset:..." or the text of a file. The plan has pp
 * ranks with vpp stages each, as equal as they can be, under "1f1b" (with
 * several stages "interleaved"); one sequence of 2048 tokens in bf16 makes a
 * micro-batch, and 2 pp of them a step of Megatron-LM. What is then set by hand
 * is not told to the setting. The test fails when something does not load.
 */
void layout_init(struct layout *out, const char *model, const char *cluster,
                 uint32_t pp, uint32_t vpp);
void layout_release(struct layout *layout);

/* Predicts, or fails the test with the words of the planner. */
void layout_predict(const struct layout *layout, struct pen_prediction *out);
void layout_bound(const struct layout *layout, struct pen_prediction *out);

/* The seconds of a step alone, and the most bytes of a rank. */
double layout_step(const struct layout *layout);
uint64_t layout_peak(const struct layout *layout);

/* Layers of the stages, in order, as many as the plan has. */
void layout_cut(struct layout *layout, const uint32_t *counts);

/* Of all stages. */
void layout_recompute(struct layout *layout, enum pen_recompute recompute);

#endif
