#include "planner/shortage.h"

#include "planner/candidates.h"
#include "planner/measured.h"
#include "planner/target_rules.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* ---- the leanest layout ---- */

struct leanest {
    const struct pen_setting *setting;
    const struct pen_candidate_filter *filter;
    struct pen__candidate_list candidates;
    struct pen_shortage *out;
    double share; /* of its device that the leanest needs; infinite: none */
    struct pen_candidate lowest; /* the one with the lowest bound */
    double lowest_bound;
    uint64_t ops_left; /* of schedules that may still be timed */
};

/*
 * Operations of all schedules that are timed to learn their bytes: more would
 * take seconds. Candidates beyond them are left out.
 */
#define MOST_OPS (1u << 21)

/*
 * Bytes of the stages of a plain schedule are known without timing it, except
 * that interleaved stages are guessed.
 */
static bool is_known(const struct pen_candidate *candidate)
{
    return pen__is_plain(candidate->generator) &&
           candidate->degrees[PEN_DEGREE_VPP] == 1;
}

/* Whether the schedule may be timed; takes its operations from what is left. */
static bool may_time(struct leanest *leanest,
                     const struct pen_candidate *candidate)
{
    uint64_t ops = (uint64_t)candidate->degrees[PEN_DEGREE_PP] *
                   candidate->degrees[PEN_DEGREE_VPP] *
                   candidate->num_microbatches * 3;
    if (ops > leanest->ops_left)
        return false;
    leanest->ops_left -= ops;
    return true;
}

static void try_candidate(struct leanest *leanest,
                          const struct pen_candidate *candidate)
{
    struct pen_plan *plan = NULL;
    struct pen_prediction it;
    bool is_timed = !is_known(candidate);
    if ((is_timed && !may_time(leanest, candidate)) ||
        pen_candidate_predict(leanest->setting, candidate, is_timed, &plan, &it,
                              NULL) != PEN_OK)
        return;
    double share = (double)it.tight_bytes / (double)it.offered_bytes;
    if (share < leanest->share) {
        leanest->share = share;
        leanest->out->candidate = *candidate;
        leanest->out->needed_bytes = it.tight_bytes;
        leanest->out->offered_bytes = it.offered_bytes;
        leanest->out->margin = it.memory_margin;
    }
    pen_prediction_release(&it);
    pen_plan_free(plan);
}

/* A share of the largest device that a candidate cannot undercut. */
static double least_share(const struct leanest *leanest,
                          const struct pen__base *base,
                          const struct pen_candidate *candidate)
{
    const struct pen_setting *setting = leanest->setting;
    uint64_t most = 0;
    double least = 0;
    if (pen__is_measured(setting))
        return 0;
    for (uint32_t i = 0; i < setting->cluster->num_groups; i++)
        if (setting->cluster->groups[i].device.memory_bytes > most)
            most = setting->cluster->groups[i].device.memory_bytes;
    if (setting->memory_limit != 0 && setting->memory_limit < most)
        most = setting->memory_limit;
    pen__candidate_has_room(setting, base, candidate,
                            pen__is_plain(candidate->generator) ? 1.0 : 1.0 / 3,
                            INFINITY, &least);
    return least / (double)most;
}

typedef void visitor(struct leanest *leanest, const struct pen__base *base,
                     const struct pen_candidate *candidate);

/* Visits every candidate; false when memory runs out. */
static bool visit_all(struct leanest *leanest, const struct pen__bases *bases,
                      visitor *visit)
{
    for (size_t i = 0; i < bases->count; i++) {
        const struct pen__base *base = &bases->items[i];
        if (!pen__base_expand(leanest->setting, leanest->filter, base,
                              &leanest->candidates))
            return false;
        for (size_t j = 0; j < leanest->candidates.count; j++)
            visit(leanest, base, &leanest->candidates.items[j]);
    }
    return true;
}

/* Notes the candidate with the lowest bound: it will rule out most others. */
static void note_lowest(struct leanest *leanest, const struct pen__base *base,
                        const struct pen_candidate *candidate)
{
    double bound = least_share(leanest, base, candidate);
    if (bound >= leanest->lowest_bound)
        return;
    leanest->lowest_bound = bound;
    leanest->lowest = *candidate;
}

static void try_known(struct leanest *leanest, const struct pen__base *base,
                      const struct pen_candidate *candidate)
{
    if (is_known(candidate) &&
        least_share(leanest, base, candidate) < leanest->share)
        try_candidate(leanest, candidate);
}

static void try_others(struct leanest *leanest, const struct pen__base *base,
                       const struct pen_candidate *candidate)
{
    if (!is_known(candidate) &&
        least_share(leanest, base, candidate) < leanest->share)
        try_candidate(leanest, candidate);
}

/*
 * Fewer replicas share less and have more micro-batches under way, so those
 * with the most, which the bases have, are the leanest.
 */
static bool find_leanest(struct leanest *leanest)
{
    struct pen__bases bases;
    if (!pen__bases_list(leanest->setting, leanest->filter, PEN_OBJECTIVE_TIME,
                         &bases))
        return false;
    bool is_done = visit_all(leanest, &bases, note_lowest);
    if (is_done && leanest->lowest.generator != NULL)
        try_candidate(leanest, &leanest->lowest);
    is_done = is_done && visit_all(leanest, &bases, try_known) &&
              visit_all(leanest, &bases, try_others);
    free(leanest->candidates.items);
    free(bases.items);
    return is_done && !isinf(leanest->share) &&
           leanest->share * (1 + leanest->out->margin) > 1;
}

/* ---- devices that are enough ---- */

#define MOST_TIMES 64u       /* the devices there are */
#define MOST_TRIED 65536u    /* devices */
#define FIRST_ANSWER_SEC 0.1 /* of work: any plan that fits will do */

static bool has_plan(const struct pen_setting *setting,
                     const struct pen_candidate_filter *filter,
                     uint64_t num_devices)
{
    const struct pen_plan_search_options options = {
        .filter = *filter, .top = 1, .seconds = FIRST_ANSWER_SEC};
    struct pen_setting more = *setting;
    struct pen_cluster *cluster = NULL;
    struct pen_plan_ranking *ranking = NULL;
    if (pen_cluster_resize(setting->cluster, num_devices, &cluster, NULL) !=
        PEN_OK)
        return false;
    more.cluster = cluster;
    more.timings = NULL;
    bool is_found = pen_plan_search(&more, &options, &ranking, NULL) == PEN_OK;
    pen_plan_ranking_free(ranking);
    pen_cluster_free(cluster);
    return is_found;
}

/* Doubles what there is until a plan fits, and halves the gap after it. */
static void find_enough(const struct pen_setting *setting,
                        const struct pen_candidate_filter *filter,
                        struct pen_shortage *out)
{
    uint64_t few = pen_cluster_num_devices(setting->cluster);
    uint64_t node = pen_cluster_system_size(setting->cluster);
    uint64_t most = few * MOST_TIMES;
    uint64_t many = few;
    bool is_found = false;
    most = most < MOST_TRIED ? most : MOST_TRIED;
    while (!is_found && 2 * many <= most) {
        few = many;
        many *= 2;
        if (many > node)
            many = (many + node - 1) / node * node;
        is_found = has_plan(setting, filter, many);
    }
    out->most_devices = many;
    if (!is_found)
        return;
    uint64_t unit = many > node ? node : 1;
    for (few = few / unit * unit; many - few > unit;) {
        uint64_t middle = few + (many - few) / unit / 2 * unit;
        if (has_plan(setting, filter, middle))
            many = middle;
        else
            few = middle;
    }
    out->enough_devices = many;
}

/* Whether the target can have the optimizer's state on the host. */
static bool may_offload(const struct pen_setting *setting,
                        const struct pen_recipe *recipe)
{
    bool is_bf16 = pen_number_beside(setting->number) == PEN_NUMBER_BF16;
    return !recipe->offloads_optimizer && !recipe->gathers_narrow &&
           recipe->optimizer == PEN_OPTIMIZER_ADAM &&
           setting->model->images == NULL && !pen__is_measured(setting) &&
           is_bf16 && setting->target == PEN_TARGET_MEGATRON;
}

static void try_offload(const struct pen_setting *setting,
                        const struct pen_candidate_filter *filter,
                        struct pen_shortage *out)
{
    struct pen_plan_search_options options = {
        .filter = *filter, .top = 1, .seconds = FIRST_ANSWER_SEC};
    struct pen_plan_ranking *ranking = NULL;
    options.filter.recipe.offloads_optimizer = true;
    if (!may_offload(setting, &filter->recipe) ||
        pen_plan_search(setting, &options, &ranking, NULL) != PEN_OK)
        return;
    out->offloaded_sec = ranking->found[0].prediction.step_sec;
    pen_plan_ranking_free(ranking);
}

bool pen_shortage_find(const struct pen_setting *setting,
                       const struct pen_candidate_filter *filter,
                       struct pen_shortage *out)
{
    struct pen_shortage found = {.needed_bytes = 0};
    struct leanest leanest = {.lowest_bound = INFINITY,
                              .setting = setting,
                              .filter = filter,
                              .out = &found,
                              .share = INFINITY,
                              .ops_left = MOST_OPS};
    if (!find_leanest(&leanest))
        return false;
    if (setting->cluster->num_groups == 1)
        find_enough(setting, filter, &found);
    try_offload(setting, filter, &found);
    *out = found;
    return true;
}

void pen_shortage_print_sum(uint64_t needed_bytes, double margin,
                            uint64_t offered_bytes, struct pen_text *out)
{
    double needed = (double)needed_bytes / 0x1p30;
    pen_text_add(out, "%.1f GiB + %.0f %% = %.1f GiB > %.1f GiB of a device",
                 needed, 100 * margin, needed * (1 + margin),
                 (double)offered_bytes / 0x1p30);
}

void pen_shortage_print(const struct pen_shortage *shortage,
                        struct pen_text *out)
{
    pen_text_add_string(out, "no layout fits: the leanest, ");
    pen_candidate_print(&shortage->candidate, out);
    pen_text_add_string(out, ", needs ");
    pen_shortage_print_sum(shortage->needed_bytes, shortage->margin,
                           shortage->offered_bytes, out);
    if (shortage->enough_devices > 0)
        pen_text_add(out, "; %" PRIu64 " devices would fit",
                     shortage->enough_devices);
    else if (shortage->most_devices > 0)
        pen_text_add(out, "; none fits on up to %" PRIu64 " devices, either",
                     shortage->most_devices);
    if (shortage->offloaded_sec > 0)
        pen_text_add(out,
                     "; with --optimizer-cpu-offload a plan fits here, with "
                     "%.4g s a step",
                     shortage->offloaded_sec);
}
