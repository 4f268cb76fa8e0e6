#ifndef PEN_RUNTIME_VERSIONS_H
#define PEN_RUNTIME_VERSIONS_H

#include "runtime/corrections.h"
#include "runtime/lr_schedule.h"
#include "schedule/schedule.h"

/*
 * The weights of a stage whose steps overlap. The value of a parameter is
 * always the newest version. Older versions that ops of the row will still read
 * are kept in copies of the engine and change places with the value while such
 * an op runs:
 *
 *   STEP        value -> a free copy, if a later op reads it; then the
 *               optimizer makes the next version of the value
 *   use, unuse  value <-> the copy with the version of the op
 *
 * Weights that a correction predicts have a copy of their own.
 */
struct pen_versions;

struct pen_versions_options {
    struct pen_network *network;
    uint32_t stage; /* in the schedule */
    bool is_stale;  /* a backward may read another version than its forward */
    struct pen_correction_setup correction;
    const struct pen_lr_schedule *rates; /* borrowed */
};

/* Copies of the weights of a stage in addition to its newest ones. */
struct pen_version_needs {
    uint32_t copies;      /* of older versions */
    uint32_t predictions; /* of predicted weights */
    bool has_average;     /* of the changes of the weights, in float */
};

/* Copies that a row needs; the network of the options is not looked at. */
pen_status pen_versions_count_needs(const struct pen_versions_options *options,
                                    const struct pen_row *row,
                                    struct pen_version_needs *out);

/*
 * Makes the copies that a row needs. Moments have to be there already. On
 * failure *out is untouched.
 */
pen_status pen_versions_create(const struct pen_versions_options *options,
                               const struct pen_row *row,
                               struct pen_versions **out, struct pen_text *why);
void pen_versions_free(struct pen_versions *versions);

/* From here on another row, which must not need more than the first. */
pen_status pen_versions_set_row(struct pen_versions *versions,
                                const struct pen_row *row);

/* Bytes besides the engine's copies. */
size_t pen_versions_bytes(const struct pen_versions *versions);

/* Versions that are held at once, the newest included, as the row asks. */
uint32_t pen_versions_count(const struct pen_versions *versions);

/* Most that were held at once since the first pass. */
uint32_t pen_versions_most(const struct pen_versions *versions);

/* True when there is a copy for predicted weights, too. */
bool pen_versions_predicts(const struct pen_versions *versions);

/* Before a pass, `steps` steps into the run: the value is version 0. */
void pen_versions_begin(struct pen_versions *versions, uint64_t steps);

/*
 * Around a compute op. `version` is what the forward of the micro-batch used,
 * asked at a backward. Returns the version that is used.
 */
uint32_t pen_versions_use(struct pen_versions *versions,
                          const struct pen_op *op, uint32_t version);
void pen_versions_unuse(struct pen_versions *versions);

/* The newest version in the pass: as many as the steps made in it. */
uint32_t pen_versions_newest(const struct pen_versions *versions);

/*
 * Steps by the gradients that the parameters have. `norm` is that of all
 * stages, where gradients are clipped. Parameters that another stage trains
 * keep their value, until the caller sets it.
 */
void pen_versions_step(struct pen_versions *versions, uint32_t version,
                       double norm);

#endif
