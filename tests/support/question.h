#ifndef PEN_TESTS_QUESTION_H
#define PEN_TESTS_QUESTION_H

#include "base/random.h"
#include "planner/search.h"

/*
 * A question to the planner by dice: a tiny model, tied or not, a profile of it
 * that nobody measured, up to so many cores, a batch, a limit of memory and
 * what the search may choose. Its target is this runtime. Blocks take
 * milliseconds, so that ranks that only sleep can be compared with a
 * prediction.
 */
struct question {
    struct pen_model *model;
    struct pen_cluster *cluster;
    struct pen_profile profile;
    struct pen_text cluster_text;
    struct pen_setting setting; /* borrows from those above */
    struct pen_plan_search_options options;
};

/* The program ends, or the test fails, when memory does. */
void question_make(struct pen_random *random, uint32_t most_ranks,
                   struct question *out);
void question_release(struct question *question);

/* Names the model in a plan of the ranking, so that it can be saved. */
void question_name_plan(const struct question *question, struct pen_plan *plan);

/* Writes config.json, profile.json, cluster.yaml and ids.txt to a folder. */
void question_save(const struct question *question, const char *folder);

#endif
