#ifndef PEN_CLI_SIMULATE_PRINT_H
#define PEN_CLI_SIMULATE_PRINT_H

#include "cli/program/cli.h"
#include "cli/simulate/make.h"

/* A simulation that was run. */
struct pen__simulate_report {
    const struct pen__simulate_args *args;
    const struct pen__simulate_job *job;
    const struct pen_sim_result *result;
    const struct pen_sim_result *plain; /* undisturbed; NULL: `result` is */
    const char *waited_for; /* why that is faster, in words; "" unknown */
};

/* Print as text, and make the same as JSON (NULL: no memory). */
void pen__simulate_print(const struct pen__simulate_report *report,
                         struct pen_text *out);
json_t *pen__simulate_json(const struct pen__simulate_report *report);

/* Prints one line: the plan and the cluster. */
void pen__simulate_print_head(const struct pen__simulate_job *job,
                              const struct pen__simulate_args *args,
                              struct pen_text *out);
json_t *pen__simulate_head_json(const struct pen__simulate_job *job,
                                const struct pen__simulate_args *args);

/* Where the seconds of a step go. */
struct pen__simulate_share {
    const char *key;
    const char *words;
    double mean_sec; /* of a step, over all ranks */
    double most_sec;
    uint32_t worst; /* the rank with that */
};

/* Computing, four kinds of messages and waits, and the rest. */
enum { PEN__SIM_OTHER = 5, PEN__SIM_SPENDINGS };

void pen__simulate_shares(const struct pen_sim_result *result,
                          struct pen__simulate_share out[PEN__SIM_SPENDINGS]);

#endif
