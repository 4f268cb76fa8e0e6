#ifndef PEN_LINT_RULES_H
#define PEN_LINT_RULES_H

#include "lint/config.h"

/* The rules, by theme; each files its findings. */
typedef void pen__lint_rule(struct pen__lint_judge *judge);

pen__lint_rule pen__lint_megatron_names;    /* unknown and repeated options */
pen__lint_rule pen__lint_megatron_values;   /* one value at a time */
pen__lint_rule pen__lint_megatron_batch;    /* ranks, batches, experts */
pen__lint_rule pen__lint_megatron_model;    /* heads and sequences */
pen__lint_rule pen__lint_megatron_pipeline; /* layers and stages */
pen__lint_rule pen__lint_megatron_needs;    /* options with others */
pen__lint_rule pen__lint_torchtitan;
pen__lint_rule pen__lint_deepspeed;
pen__lint_rule pen__lint_accelerate;
pen__lint_rule pen__lint_nanotron;

/* Options of Megatron whose value is judged, as its own words. */
#define PEN__LINT_TP "tensor-model-parallel-size"
#define PEN__LINT_PP "pipeline-model-parallel-size"
#define PEN__LINT_CP "context-parallel-size"
#define PEN__LINT_EP "expert-model-parallel-size"
#define PEN__LINT_ETP "expert-tensor-parallel-size"
#define PEN__LINT_LAYERS "num-layers"
#define PEN__LINT_HIDDEN "hidden-size"
#define PEN__LINT_HEADS "num-attention-heads"
#define PEN__LINT_GROUPS "num-query-groups"
#define PEN__LINT_EXPERTS "num-experts"
#define PEN__LINT_SEQUENCE "seq-length"
#define PEN__LINT_MICRO "micro-batch-size"
#define PEN__LINT_GLOBAL "global-batch-size"
#define PEN__LINT_CHUNKS "num-virtual-stages-per-pipeline-rank"
#define PEN__LINT_CHUNK_LAYERS "num-layers-per-virtual-pipeline-stage"
#define PEN__LINT_LAYOUT "pipeline-model-parallel-layout"
#define PEN__LINT_FIRST "decoder-first-pipeline-num-layers"
#define PEN__LINT_LAST "decoder-last-pipeline-num-layers"

/*
 * Returns the largest number up to `most` that divides the count; at least 1.
 */
uint64_t pen__lint_divisor(uint64_t count, uint64_t most);

/* Files the finding about the setting with this key, if it is there. */
void pen__lint_file_at(struct pen__lint_judge *judge,
                       enum pen_lint_rule_id rule, const char *key);

#endif
