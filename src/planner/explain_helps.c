#include "planner/explain_helps.h"

#include "base/sort.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct work {
    const struct pen_setting *setting;
    const struct pen_candidate_filter *filter;
    const struct pen_plan_found *found;
    struct pen_explanation *out;
};

/* A search as that of the plan, on its devices, with another recipe. */
static struct pen_plan_search_options
options_of(const struct work *work, const struct pen_recipe *recipe,
           double seconds)
{
    struct pen_plan_search_options options = {
        .filter = *work->filter, .top = 1, .seconds = seconds};
    options.filter.recipe = *recipe;
    options.filter.max_devices =
        pen_candidate_num_devices(&work->found->candidate);
    return options;
}

/* ---- one thing twice as large or fast ---- */

/* A copy of the cluster that may be changed; shares the matrices. */
struct changed {
    struct pen_cluster cluster;
    struct pen_setting setting;
};

static bool open_change(const struct work *work, struct changed *changed)
{
    const struct pen_cluster *cluster = work->setting->cluster;
    size_t groups = cluster->num_groups * sizeof *cluster->groups;
    size_t levels = cluster->num_levels * sizeof *cluster->levels;
    changed->cluster = *cluster;
    changed->cluster.groups = malloc(groups);
    changed->cluster.levels = malloc(levels);
    if (changed->cluster.groups == NULL || changed->cluster.levels == NULL) {
        free(changed->cluster.groups);
        free(changed->cluster.levels);
        return false;
    }
    memcpy(changed->cluster.groups, cluster->groups, groups);
    memcpy(changed->cluster.levels, cluster->levels, levels);
    changed->setting = *work->setting;
    changed->setting.cluster = &changed->cluster;
    return true;
}

static void close_change(struct changed *changed)
{
    free(changed->cluster.groups);
    free(changed->cluster.levels);
}

/*
 * Seconds of the plan itself after the change; 0 when it is not possible any
 * more.
 */
static double keep_plan(const struct work *work, const struct changed *changed)
{
    struct pen_plan plan = *work->found->plan;
    struct pen_prediction prediction;
    uint64_t before = work->setting->global_batch;
    plan.num_microbatches = (uint32_t)(plan.num_microbatches *
                                       changed->setting.global_batch / before);
    if (pen_predict(&changed->setting, &plan, &prediction, NULL) != PEN_OK)
        return 0;
    double tokens_per_sec = prediction.fits ? prediction.tokens_per_sec : 0;
    pen_prediction_release(&prediction);
    return tokens_per_sec;
}

/* Searches again, and notes what the best plan does then. */
static void add_help(struct work *work, const struct changed *changed,
                     double seconds, const char *format, const char *name)
{
    const struct pen_plan_search_options options =
        options_of(work, &work->filter->recipe, seconds);
    struct pen_plan_ranking *ranking = NULL;
    double kept = keep_plan(work, changed);
    pen_status status =
        pen_plan_search(&changed->setting, &options, &ranking, NULL);
    if (status != PEN_OK && kept == 0)
        return;
    struct pen_help *help = &work->out->helps[work->out->num_helps++];
    /* The format is one of those below. */
    if (name != NULL)
        snprintf(help->what, sizeof help->what, "%s %s", format, name);
    else
        snprintf(help->what, sizeof help->what, "%s", format);
    help->tokens_per_sec = kept;
    help->candidate = work->found->candidate;
    help->is_cut_short = status == PEN_OK && !ranking->is_complete;
    if (status == PEN_OK &&
        ranking->found[0].prediction.tokens_per_sec > kept) {
        help->tokens_per_sec = ranking->found[0].prediction.tokens_per_sec;
        help->candidate = ranking->found[0].candidate;
    }
    pen_plan_ranking_free(ranking);
}

static void try_memory(struct work *work, double seconds)
{
    struct changed changed;
    if (!open_change(work, &changed))
        return;
    for (uint32_t i = 0; i < changed.cluster.num_groups; i++)
        changed.cluster.groups[i].device.memory_bytes *= 2;
    changed.setting.memory_limit *= 2;
    add_help(work, &changed, seconds, "memory", NULL);
    close_change(&changed);
}

static void try_flops(struct work *work, double seconds)
{
    struct changed changed;
    if (!open_change(work, &changed))
        return;
    for (uint32_t i = 0; i < changed.cluster.num_groups; i++)
        for (int j = 0; j < PEN_NUMBERS; j++)
            changed.cluster.groups[i].device.flops[j] *= 2;
    add_help(work, &changed, seconds, "arithmetic", NULL);
    close_change(&changed);
}

static void try_link(struct work *work, uint32_t level, double seconds)
{
    struct changed changed;
    if (!open_change(work, &changed))
        return;
    changed.cluster.levels[level].bytes_per_sec *= 2;
    changed.cluster.levels[level].latency_sec /= 2;
    add_help(work, &changed, seconds,
             "links:", changed.cluster.levels[level].name);
    close_change(&changed);
}

static void try_batch(struct work *work, double seconds)
{
    struct changed changed;
    if (!open_change(work, &changed))
        return;
    changed.setting.global_batch *= 2;
    add_help(work, &changed, seconds, "batch", NULL);
    close_change(&changed);
}

static int compare_helps(const void *left, const void *right)
{
    const struct pen_help *a = left;
    const struct pen_help *b = right;
    if (a->tokens_per_sec != b->tokens_per_sec)
        return a->tokens_per_sec > b->tokens_per_sec ? -1 : 1;
    return strcmp(a->what, b->what);
}

static void find_doubled(struct work *work, double seconds)
{
    try_memory(work, seconds);
    try_flops(work, seconds);
    try_batch(work, seconds);
    for (uint32_t i = 0; i < work->setting->cluster->num_levels; i++)
        try_link(work, i, seconds);
    pen_sort_few(work->out->helps, work->out->num_helps,
                 sizeof *work->out->helps, compare_helps);
}

/* ---- options of the recipe ---- */

#define LEAST_GAIN 1.005

/* Notes the best plan with a changed recipe, if it is faster. */
static void try_option(struct work *work, const char *option,
                       const struct pen_recipe *recipe, double seconds)
{
    const struct pen_plan_search_options options =
        options_of(work, recipe, seconds);
    struct pen_plan_ranking *ranking = NULL;
    if (pen_plan_search(work->setting, &options, &ranking, NULL) != PEN_OK)
        return;
    const struct pen_plan_found *best = &ranking->found[0];
    if (best->prediction.tokens_per_sec >
        LEAST_GAIN * work->found->prediction.tokens_per_sec) {
        struct pen_help *help = &work->out->options[work->out->num_options++];
        snprintf(help->what, sizeof help->what, "%s", option);
        help->tokens_per_sec = best->prediction.tokens_per_sec;
        help->candidate = best->candidate;
        help->is_cut_short = !ranking->is_complete;
    }
    pen_plan_ranking_free(ranking);
}

/* Options that change neither results nor devices, each by itself. */
static void find_options(struct work *work, double seconds)
{
    const struct pen_recipe *own = &work->filter->recipe;
    if (work->setting->target != PEN_TARGET_MEGATRON ||
        work->setting->model->num_experts == 0)
        return;
    struct pen_recipe recipe = *own;
    if (own->dispatcher == PEN_DISPATCHER_ALLTOALL) {
        recipe.dispatcher = PEN_DISPATCHER_DEEPEP;
        try_option(work, "--dispatcher deepep", &recipe, seconds);
        recipe.dispatcher = PEN_DISPATCHER_HYBRIDEP;
        try_option(work, "--dispatcher hybridep", &recipe, seconds);
    }
    recipe = *own;
    recipe.overlaps_experts = true;
    if (!own->overlaps_experts)
        try_option(work, "--overlap-moe-expert-parallel-comm", &recipe,
                   seconds);
    recipe = *own;
    recipe.graphs = PEN_GRAPHS_MODULES;
    if (own->graphs == PEN_GRAPHS_NONE)
        try_option(work, "--graphs modules", &recipe, seconds);
    pen_sort_few(work->out->options, work->out->num_options,
                 sizeof *work->out->options, compare_helps);
}

void pen__helps_find(const struct pen_setting *setting,
                     const struct pen_candidate_filter *filter,
                     const struct pen_plan_found *found, double seconds,
                     struct pen_explanation *out)
{
    struct work work = {setting, filter, found, out};
    find_doubled(&work, seconds);
    find_options(&work, seconds);
}
