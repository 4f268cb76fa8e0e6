#ifndef PEN_CLI_REPRODUCE_H
#define PEN_CLI_REPRODUCE_H

#include "base/bootstrap.h"
#include "cli/program/line.h"
#include "cli/reproduce/jobs.h"
#include "core/run_log.h"
#include "view/report.h"

#include <jansson.h>

/* penstock reproduce: the experiment of a paper, from data to a verdict. */
struct pen__reproduce_args {
    const char *output; /* a folder */
    const char *data;
    const char *launcher;
    bool is_short;
    struct pen__rest names;
    const char *name; /* of them, the only one */
};

pen_status pen__reproduce_parle(const struct pen__reproduce_args *args,
                                struct pen_text *why);
pen_status pen__reproduce_2bw(const struct pen__reproduce_args *args,
                              struct pen_text *why);
pen_status pen__reproduce_wap(const struct pen__reproduce_args *args,
                              struct pen_text *why);

/* Prints "1.83 (1.52 to 2.11)". */
void pen__interval_print(const struct pen_interval *interval, int digits,
                         struct pen_text *out);
void pen__interval_cell(const struct pen_interval *interval, int digits,
                        struct pen_table *table);
json_t *pen__interval_json(const struct pen_interval *interval);

/* A training of an experiment. */
struct pen__reproduce_job {
    const char *name; /* of its log and its output in the folder of the jobs */
    uint32_t num_ranks; /* 0: without a launcher */
    uint32_t num_steps;
    double weight; /* of its time among the jobs */
};

/*
 * Trains, unless the log is there, and reads the log: release it. A training
 * that diverged is a result, too; its log is short. Takes the words, and adds
 * --log to them.
 */
pen_status pen__reproduce_train(struct pen__jobs *jobs,
                                const struct pen__reproduce_job *job,
                                struct pen__words *words, struct pen_run **out,
                                struct pen_text *why);

/*
 * Returns the median step without the first `skipped`; NAN: none, or no memory.
 */
double pen__reproduce_median_sec(const struct pen_run *run, size_t skipped);

/* Writes FOLDER/index.html and FOLDER/results.json, and says so. */
pen_status pen__reproduce_write(const char *folder,
                                const struct pen_report *page, json_t *results,
                                struct pen_text *why);

#endif
