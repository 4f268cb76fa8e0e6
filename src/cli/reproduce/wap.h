#ifndef PEN_CLI_REPRODUCE_WAP_H
#define PEN_CLI_REPRODUCE_WAP_H

#include "cli/reproduce/reproduce.h"

enum {
    PEN__WAP_WORKLOADS = 24,
    PEN__WAP_DEVICES = 8, /* at most */
    PEN__WAP_ROUNDS = 7,  /* at most */
    PEN__WAP_RANKS = 2
};

/* The fewest devices within this share of the fastest are chosen. */
#define PEN__WAP_WITHIN 0.05

/* A network with a batch on one node of devices. */
struct pen__wap_workload {
    const char *name;  /* of the network */
    const char *model; /* --model */
    const char *kind;  /* of the devices */
    const char *dtype; /* --dtype */
    uint32_t sequence; /* 0: images */
    uint32_t batch;    /* of a step */
};

/* The best layout of replicas on a number of devices. */
struct pen__wap_point {
    double step_sec; /* 0: the number does not divide the batch, or no memory */
    double joules;   /* of a sample */
};

struct pen__wap_answer {
    struct pen__wap_point points[PEN__WAP_DEVICES]; /* by devices - 1 */
    uint32_t fastest;                               /* devices */
    uint32_t chosen;
    uint32_t leanest; /* in joules */
};

/* Seconds of a step on 1 and on 2 ranks of this machine, by round. */
struct pen__wap_measured {
    uint32_t num_rounds;
    double predicted[PEN__WAP_RANKS][PEN__WAP_ROUNDS];
    double measured[PEN__WAP_RANKS][PEN__WAP_ROUNDS];
    /* Medians over the rounds. */
    double predicted_sec[PEN__WAP_RANKS];
    double measured_sec[PEN__WAP_RANKS];
    double error[PEN__WAP_RANKS]; /* of the medians, as a share */
    double load; /* processes that wanted a core, mean of the last minute */
};

struct pen__wap {
    const struct pen__reproduce_args *args;
    struct pen__jobs jobs;
    struct pen__wap_answer answers[PEN__WAP_WORKLOADS];
    struct pen__wap_measured measured;
};

extern const struct pen__wap_workload pen__wap_workloads[PEN__WAP_WORKLOADS];

/* Predicts all workloads on 1 to 8 devices, and chooses. */
pen_status pen__wap_plan(struct pen__wap *wap, struct pen_text *why);

/* Profiles, predicts and trains a small network on 1 and on 2 ranks. */
pen_status pen__wap_measure(struct pen__wap *wap, struct pen_text *why);

/* Writes verdict, tables on stdout and page. */
pen_status pen__wap_report(const struct pen__wap *wap, struct pen_text *why);

#endif
