#ifndef PEN_CLI_JOBS_H
#define PEN_CLI_JOBS_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The words of a command line, each a copy. */
struct pen__words {
    char **at; /* the last is NULL; NULL when memory ran out */
    size_t count;
    bool is_lost; /* memory ran out */
};

void pen__words_add(struct pen__words *words, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds what blanks separate. */
void pen__words_split(struct pen__words *words, const char *text);
void pen__words_release(struct pen__words *words);

/*
 * Commands of Penstock that run one after the other, as children, each alone or
 * on ranks that a launcher starts. The output of a job goes to
 * FOLDER/NAME.txt. A line on stderr says how many are done and how long the
 * rest will take, by the weights of the jobs.
 */
struct pen__jobs {
    const char *folder;   /* exists; borrowed */
    const char *launcher; /* "mpirun"; may include arguments; borrowed */
    double total_weight;
    uint32_t num_jobs;
    uint32_t num_done;
    double weight_done; /* by jobs that ran, not by those that were there */
    double weight_kept;
    int64_t begin_ns;
    struct pen_text commands; /* as a user types them, a line each */
};

void pen__jobs_init(struct pen__jobs *jobs, const char *folder,
                    const char *launcher, uint32_t num_jobs,
                    double total_weight);
void pen__jobs_release(struct pen__jobs *jobs);

/*
 * Runs `penstock WORDS`; num_ranks 0: without a launcher. Takes the words. When
 * the command fails `why` has its line, its exit code and the end of what it
 * printed.
 */
pen_status pen__jobs_run(struct pen__jobs *jobs, const char *name,
                         uint32_t num_ranks, double weight,
                         struct pen__words *words, struct pen_text *why);

/* Counts a job that ran before, and takes its words. */
void pen__jobs_keep(struct pen__jobs *jobs, uint32_t num_ranks, double weight,
                    struct pen__words *words);

#endif
