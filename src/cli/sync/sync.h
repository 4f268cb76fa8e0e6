#ifndef PEN_CLI_SYNC_H
#define PEN_CLI_SYNC_H

#include "base/table.h"
#include "cli/program/cli.h"
#include "cli/program/line.h"
#include "planner/replica_compare.h"

/*
 * `penstock sync COMMAND`: options and commands (sync.c), what there is
 * (list.c), what it costs over a link (compare.c).
 */

/* Options not given are 0 or NULL. */
struct pen__sync_args {
    const char *model;
    const char *link;
    const char *latency;
    const char *step_time;
    const char *profile;
    const char *cluster;
    const char *compress;
    const char *encode_rate;
    const char *factors;
    const char *mtbf;
    uint64_t replicas;
    uint64_t microbatches;
    uint64_t sequence;
    uint64_t global_batch;
    uint64_t interval;
    uint64_t islands;
    double restart_sec; /* negative: not given */
    unsigned is_sgd;    /* --optimizer: the second of its words */
    bool is_comparison; /* not the list */
    struct pen__rest methods;
};

int pen__sync_list(const struct pen__sync_args *args);
int pen__sync_compare(const struct pen__sync_args *args);

/* The setting of a comparison; the shapes are owned. */
struct pen__sync_setting {
    struct pen_replica_setting setting;
    struct pen_replica_shapes shapes;
};

/*
 * Opens the model and finds out how long a step computes: as --step-time says,
 * as --profile measured, or as predicted for --cluster. On failure nothing is
 * left to release.
 */
pen_status pen__sync_setting_init(const struct pen__sync_args *args,
                                  struct pen__sync_setting *out,
                                  struct pen_text *why);
void pen__sync_setting_release(struct pen__sync_setting *setting);

/*
 * Make a table of the first `most` rows and the reference, which is to be
 * released, and JSON of all rows (NULL: no memory). Also for `penstock plan`.
 */
void pen__sync_table(const struct pen_replica_comparison *comparison,
                     size_t most, struct pen_table *out);
json_t *pen__sync_json(const struct pen_replica_comparison *comparison);

#endif
