#ifndef PEN_CLI_REPRODUCE_PARLE_H
#define PEN_CLI_REPRODUCE_PARLE_H

#include "cli/reproduce/reproduce.h"

enum {
    PEN__PARLE_REPLICAS = 3,
    PEN__PARLE_SEEDS = 5, /* at most, as below */
    PEN__PARLE_POINTS = 16,
    PEN__PARLE_RATES = 3,
    PEN__PARLE_LINKS = 3
};

/* The contenders; the claim is about the first two. */
enum {
    PEN__PARLE_SGD,
    PEN__PARLE_PARLE,
    PEN__PARLE_SYNCHRONOUS,
    PEN__PARLE_LOCAL,
    PEN__PARLE_EASGD,
    PEN__PARLE_CODE,
    PEN__PARLE_CONTENDERS
};

struct pen__parle_contender {
    const char *key;
    const char *name;
    const char *words;  /* of the command */
    const char *method; /* that synchronises; NULL: one replica */
};

extern const struct pen__parle_contender
    pen__parle_contenders[PEN__PARLE_CONTENDERS];
extern const double pen__parle_rates[PEN__PARLE_RATES];
extern const double pen__parle_links[PEN__PARLE_LINKS]; /* Gbit/s */

struct pen__parle_scale {
    uint32_t num_train; /* images */
    uint32_t num_held;
    uint32_t num_test;
    uint32_t num_steps;
    uint32_t num_rates;
    uint32_t num_seeds;
    uint32_t num_points;    /* evaluations of a run */
    uint32_t sync_interval; /* 0: the default of each method */
};

struct pen__parle {
    const struct pen__reproduce_args *args;
    struct pen__parle_scale scale;
    struct pen__jobs jobs;
    struct pen_text model; /* paths */
    struct pen_text tune;
    struct pen_text test;
    double rate[PEN__PARLE_CONTENDERS];
    /* In percent, of the mean model. */
    double errors[PEN__PARLE_CONTENDERS][PEN__PARLE_SEEDS][PEN__PARLE_POINTS];
    double compute_sec; /* of a step of one replica */
    double step_sec[PEN__PARLE_CONTENDERS][PEN__PARLE_LINKS];
};

/* Writes intervals, verdict, table on stdout and page of the trainings. */
pen_status pen__parle_report(const struct pen__parle *parle,
                             struct pen_text *why);

#endif
