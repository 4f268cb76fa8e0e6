#ifndef PEN_CLI_SIMULATE_OPTIONS_H
#define PEN_CLI_SIMULATE_OPTIONS_H

#include "base/text.h"
#include "cli/program/fields.h"
#include "sim/disturbance.h"
#include "sim/platform.h"

/* The quantity that a sweep varies: its name and its option. */
#define PEN_SWEEP_TABLE(X)                                                     \
    X(RANK, "slow-rank") /* factor of a rank, RANK@ before the numbers */      \
    X(LINK, "slow-link") /* factor of a link, NAME@ before the numbers */      \
    X(JITTER, "jitter")  /* share */

enum pen__sweep_kind {
#define PEN_SWEEP_ENUM(name, words) PEN__SWEEP_##name,
    PEN_SWEEP_TABLE(PEN_SWEEP_ENUM)
#undef PEN_SWEEP_ENUM
        PEN__SWEEPS
};

#define PEN__SWEEP_MAX_RUNS 1000u
#define PEN__SWEEP_NAME_SIZE 64

/* Runs with one disturbance of many strengths: from, from + step, ... to. */
struct pen__sweep {
    bool is_there;
    enum pen__sweep_kind kind;
    char name[PEN__SWEEP_NAME_SIZE]; /* of the rank or link; "" of a jitter */
    double from;
    double step;
    uint32_t count;
};

/* Reads "slow-rank=17@1.0:3.0:0.25". */
pen_status pen__sweep_read(const char *text, struct pen__sweep *out,
                           struct pen_text *why);

/* Returns the strength of a run. */
double pen__sweep_at(const struct pen__sweep *sweep, uint32_t run);

/* The command line of penstock simulate; texts are NULL where not given. */
struct pen__simulate_args {
    const char *plan;
    const char *cluster;
    const char *model;
    const char *profile;
    const char *costs;
    const char *trace;
    const char *topology_text;
    const char *jitter;
    const char *sweep_text;
    const char *plot;
    uint64_t steps;
    uint64_t seed;
    unsigned mapping; /* enum pen_mapping_kind */
    bool is_pipeline_first;
    bool is_uncontended;
    struct pen__list slow_ranks;
    struct pen__list slow_links;
    struct pen__list failures;
    struct pen__list background;
    /* The values of the words above. */
    struct pen_disturbances disturbances;
    struct pen_sim_topology topology;
    struct pen__sweep sweep;
};

/*
 * Parses the command line; a wrong one ends the program with exit code 2.
 * Release in any case.
 */
int pen__simulate_args_parse(struct pen__simulate_args *args, int argc,
                             char **argv);
void pen__simulate_args_release(struct pen__simulate_args *args);

#endif
