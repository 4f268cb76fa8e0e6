#ifndef PEN_CLI_PLAN_OPTIONS_H
#define PEN_CLI_PLAN_OPTIONS_H

#include "cli/plan/failure_options.h"
#include "cli/plan/recipe_options.h"
#include "cli/program/cli.h"
#include "planner/search.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The options of `penstock plan`, `penstock plan check` and `penstock predict`,
 * one row each, and what they open.
 */
enum pen__plan_verb {
    PEN__PLAN_SEARCH = 1 << 0,
    PEN__PLAN_CHECK = 1 << 1,
    PEN__PLAN_PREDICT = 1 << 2
};

/* Options not given are 0, NULL or false, words the number of their words. */
struct pen__plan_args {
    const char *model;
    const char *cluster;
    const char *profile;
    const char *memory_limit;
    const char *output;
    const char *html;
    const char *layout;
    const char *stages;
    const char *schedule;
    const char *megatron_line;
    const char *peers;     /* "6:3" */
    const char *peer_link; /* "200Mbit/s" */
    const char *why;       /* "tp=8,pp=4" */
    const char *file;      /* of plan check */
    uint64_t sequence;
    uint64_t global_batch;
    uint64_t tokens; /* of the whole training */
    uint64_t micro_batch;
    uint64_t degrees[PEN_DEGREES];
    uint64_t top;
    uint64_t lost_peers;
    double seconds;
    double clip_norm;
    const char *within; /* "5%" */
    double tolerance;   /* the same as a share */
    unsigned objective;
    unsigned target;
    unsigned number;
    unsigned recompute;
    unsigned sharding;
    uint64_t sharding_group;   /* 0: not given */
    bool is_sharded;           /* --use-distributed-optimizer */
    bool is_sequence_parallel; /* --sequence-parallel, which is the default */
    bool allows_stale;
    bool allows_local;
    bool is_explained;
    bool compares_targets;
    enum pen__plan_verb verb;
    /* words other than options: model and cluster, or file */
    struct pen__rest words;
    struct pen__failure_args failures;
    struct pen__recipe_args recipe_args;
    struct pen_recipe recipe; /* what they say, or a command line */
    uint32_t expert_tp;       /* as the recipe */
};

/* Sets all options to not given. */
void pen__plan_args_init(struct pen__plan_args *args);

/* Reads the command line; a wrong one ends the program with exit code 2. */
void pen__plan_args_parse(enum pen__plan_verb verb, int argc, char **argv,
                          struct pen__plan_args *args);
void pen__plan_args_help(enum pen__plan_verb verb);

/*
 * Returns whether its devices are processors, on which penstock itself trains.
 */
bool pen__cluster_is_processors(const struct pen_cluster *cluster);

/* Files opened and a setting made of them. */
struct pen__planning {
    struct pen_model *model;
    struct pen_cluster *cluster;
    struct pen_profile *profile;
    struct pen_setting setting;
    struct pen_text model_name; /* what plans call it */
};

/*
 * Opens what the options name. A model that is there already is taken over,
 * whether this succeeds or not; the name is that of --model then, too. End with
 * pen__planning_close() in either case.
 */
pen_status pen__planning_open(const struct pen__plan_args *args,
                              struct pen_model *model,
                              struct pen__planning *planning,
                              struct pen_text *why);

/* Loads the model inside the plan of a file, unless --model names another. */
pen_status pen__plan_load_model(const char *model, const struct pen_plan *plan,
                                const char *file, struct pen_model **out,
                                struct pen_text *why);

/*
 * Opens the question of a plan, which replaces options that are not given:
 * model, cluster and workload. args->file is its name in messages.
 */
pen_status pen__planning_open_plan(const struct pen__plan_args *args,
                                   const struct pen_plan *plan,
                                   struct pen__planning *planning,
                                   struct pen_text *why);
void pen__planning_close(struct pen__planning *planning);

/* Names model and cluster in a plan that was found or made for the setting. */
pen_status pen__planning_name(const struct pen__planning *planning,
                              struct pen_plan *plan, struct pen_text *why);

#endif
