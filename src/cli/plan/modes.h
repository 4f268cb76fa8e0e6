#ifndef PEN_CLI_PLAN_MODES_H
#define PEN_CLI_PLAN_MODES_H

#include "cli/plan/options.h"

/*
 * Questions to `penstock plan` that are answered instead of the ranking. Each
 * prints its answer and returns the exit code.
 */

/*
 * --from-megatron: plans a command line, and prints the best plan and the way
 * to it.
 */
int pen__plan_yours(struct pen__plan_args *args);

/*
 * --why: compares the best plan with some settings with the best of all plans.
 */
int pen__plan_why(const struct pen__plan_args *args);

/* --compare-targets: prints the best plan of each target. */
int pen__plan_targets(const struct pen__plan_args *args);

/*
 * Reads "tp=8,pp=4,recompute=full"; INVALID, and why names the word that is
 * wrong.
 */
pen_status pen__plan_why_parse(const char *text,
                               struct pen_candidate_filter *out,
                               struct pen_text *why);

/* Writes FILE of -o: the plan, or a picture of its step. */
pen_status pen__plan_write(const struct pen__plan_args *args,
                           const struct pen__planning *planning,
                           const struct pen_plan_found *found,
                           struct pen_text *why);

/* Runs the search of a mode: the best plan by --objective, named. */
pen_status pen__plan_find_best(const struct pen__plan_args *args,
                               const struct pen__planning *planning,
                               const struct pen_candidate_filter *filter,
                               struct pen_plan_ranking **out,
                               struct pen_text *why);

#endif
