#include "planner/explain.h"

#include "planner/target_rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_NEIGHBOURS 96u

struct work {
    const struct pen_setting *setting;
    const struct pen_plan_found *found;
    struct pen_explanation *out;
};

/* ---- neighbours ---- */

/* As many replicas as the devices of the winner and the batch allow. */
static void fit_replicas(const struct work *work,
                         struct pen_candidate *candidate)
{
    uint32_t *degrees = candidate->degrees;
    uint64_t share = (uint64_t)degrees[PEN_DEGREE_TP] * degrees[PEN_DEGREE_CP] *
                     degrees[PEN_DEGREE_PP];
    uint64_t devices = pen_candidate_num_devices(&work->found->candidate);
    uint64_t batches = work->setting->global_batch / candidate->micro_batch;
    uint64_t dp = devices / share;
    dp = dp < batches ? dp : batches;
    while (dp > 1 && batches % dp != 0)
        dp--;
    degrees[PEN_DEGREE_DP] = dp > 1 ? (uint32_t)dp : 1;
    candidate->num_microbatches = (uint32_t)(batches / degrees[PEN_DEGREE_DP]);
}

static void predict_neighbour(const struct work *work,
                              struct pen_neighbour *neighbour)
{
    struct pen_plan *plan = NULL;
    struct pen_prediction prediction;
    const struct pen_candidate *candidate = &neighbour->candidate;
    neighbour->is_allowed = pen_target_check(work->setting, candidate,
                                             &neighbour->reason) == PEN_OK;
    /* A schedule of others is predicted all the same: what would it save? */
    bool is_foreign =
        !pen_target_has_schedule(work->setting->target, candidate->generator);
    struct pen_text *reason = neighbour->is_allowed ? &neighbour->reason : NULL;
    if ((!neighbour->is_allowed && !is_foreign) ||
        pen_candidate_predict(work->setting, candidate, true, &plan,
                              &prediction, reason) != PEN_OK)
        return;
    neighbour->is_predicted = true;
    neighbour->fits = prediction.fits;
    neighbour->step_sec = prediction.step_sec;
    neighbour->peak_bytes = prediction.peak_bytes;
    if (!prediction.fits)
        pen_text_add(
            &neighbour->reason, "%sneeds %.1f GiB on rank %u of the pipeline",
            neighbour->is_allowed ? "" : "; ",
            (double)prediction.peak_bytes / 0x1p30, prediction.fullest);
    pen_prediction_release(&prediction);
    pen_plan_free(plan);
}

static void add_neighbour(struct work *work, const char *choice,
                          const struct pen_candidate *candidate)
{
    struct pen_explanation *out = work->out;
    if (out->num_neighbours == MOST_NEIGHBOURS)
        return;
    struct pen_neighbour *neighbour = &out->neighbours[out->num_neighbours++];
    *neighbour = (struct pen_neighbour){
        .choice = choice, .candidate = *candidate, .reason = PEN_TEXT_EMPTY};
    predict_neighbour(work, neighbour);
}

/* Chunks of a schedule: those of the winner where it can have them. */
static void set_schedule(const struct pen_generator *generator,
                         struct pen_candidate *candidate)
{
    uint32_t *vpp = &candidate->degrees[PEN_DEGREE_VPP];
    candidate->generator = generator;
    if (pen_target_has_chunks(generator, *vpp))
        return;
    *vpp = pen_target_has_chunks(generator, 1) ? 1 : 2;
}

static void try_degree(struct work *work, const char *choice,
                       enum pen_degree degree, uint32_t value)
{
    struct pen_candidate candidate = work->found->candidate;
    if (value == 0 || value == candidate.degrees[degree])
        return;
    candidate.degrees[degree] = value;
    if (candidate.degrees[PEN_DEGREE_PP] == 1)
        set_schedule(pen_generator_find("1f1b"), &candidate);
    fit_replicas(work, &candidate);
    add_neighbour(work, choice, &candidate);
}

static void try_degrees(struct work *work)
{
    static const struct {
        enum pen_degree degree;
        const char *choice;
    } rows[] = {{PEN_DEGREE_TP, "tp"},
                {PEN_DEGREE_PP, "pp"},
                {PEN_DEGREE_CP, "cp"},
                {PEN_DEGREE_EP, "ep"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t value = work->found->candidate.degrees[rows[i].degree];
        bool is_there = rows[i].degree != PEN_DEGREE_EP ||
                        work->setting->model->num_experts > 0;
        if (!is_there)
            continue;
        try_degree(work, rows[i].choice, rows[i].degree, value / 2);
        try_degree(work, rows[i].choice, rows[i].degree, value * 2);
    }
    const struct pen_candidate *winner = &work->found->candidate;
    uint32_t vpp = winner->degrees[PEN_DEGREE_VPP];
    if (vpp > 1 && winner->generator->has_chunks) {
        try_degree(work, "vpp", PEN_DEGREE_VPP, vpp - 1);
        try_degree(work, "vpp", PEN_DEGREE_VPP, vpp + 1);
    }
}

static void try_micro_batches(struct work *work)
{
    struct pen_candidate candidate = work->found->candidate;
    const uint32_t values[] = {candidate.micro_batch / 2,
                               candidate.micro_batch * 2};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        if (values[i] == 0)
            continue;
        candidate.micro_batch = values[i];
        fit_replicas(work, &candidate);
        add_neighbour(work, "micro-batch", &candidate);
    }
}

static void try_modes(struct work *work)
{
    struct pen_candidate candidate = work->found->candidate;
    for (int i = 0; i < PEN_RECOMPUTES; i++) {
        candidate.recompute = (enum pen_recompute)i;
        if (candidate.recompute != work->found->candidate.recompute)
            add_neighbour(work, "recomputation", &candidate);
    }
    candidate = work->found->candidate;
    uint32_t replicas =
        candidate.degrees[PEN_DEGREE_DP] * candidate.degrees[PEN_DEGREE_CP];
    for (int i = 0; i < PEN_SHARDINGS && replicas > 1; i++) {
        candidate.sharding = (enum pen_sharding)i;
        if (candidate.sharding != work->found->candidate.sharding)
            add_neighbour(work, "sharding", &candidate);
    }
}

static void try_schedules(struct work *work)
{
    if (work->found->candidate.degrees[PEN_DEGREE_PP] == 1)
        return;
    for (size_t i = 0; pen_generator_at(i) != NULL; i++) {
        struct pen_candidate candidate = work->found->candidate;
        const struct pen_generator *generator = pen_generator_at(i);
        if (generator == candidate.generator || !generator->is_synchronous)
            continue;
        set_schedule(generator, &candidate);
        add_neighbour(work, "schedule", &candidate);
    }
}

/* ---- what limits ---- */

/* Devices that talk to each other in what the seconds go into. */
static uint64_t devices_in(const struct pen_candidate *candidate,
                           enum pen_spending spending)
{
    const uint32_t *degrees = candidate->degrees;
    uint64_t tp = degrees[PEN_DEGREE_TP];
    uint64_t cp = degrees[PEN_DEGREE_CP];
    uint64_t dp = degrees[PEN_DEGREE_DP];
    switch (spending) {
    case PEN_SPENDING_TENSOR:
        return tp;
    case PEN_SPENDING_CONTEXT:
        return tp * cp;
    case PEN_SPENDING_EXPERT:
        return (uint64_t)pen_expert_tp(degrees, candidate->expert_tp) *
               degrees[PEN_DEGREE_EP];
    case PEN_SPENDING_REDUCTION:
    case PEN_SPENDING_GATHER:
        return tp * cp * dp;
    case PEN_SPENDING_FORWARD:
    case PEN_SPENDING_BACKWARD:
    case PEN_SPENDING_RECOMPUTE:
    case PEN_SPENDING_BUBBLE:
    case PEN_SPENDING_UPDATE:
    case PEN_SPENDING_OTHER:
    case PEN_SPENDINGS:
        break;
    }
    return 1;
}

/* Forward and backward are one: computing. */
static void find_limit(struct work *work)
{
    const double *spent = work->found->prediction.spent;
    struct pen_explanation *out = work->out;
    double most = spent[PEN_SPENDING_FORWARD] + spent[PEN_SPENDING_BACKWARD];
    out->limit = PEN_SPENDING_FORWARD;
    for (int i = PEN_SPENDING_RECOMPUTE; i < PEN_SPENDINGS; i++)
        if (spent[i] > most) {
            most = spent[i];
            out->limit = (enum pen_spending)i;
        }
    uint64_t devices = devices_in(&work->found->candidate, out->limit);
    if (devices > 1)
        out->limit_link =
            pen_cluster_level(work->setting->cluster, devices)->name;
    out->stale_sec = spent[PEN_SPENDING_BUBBLE];
    out->local_sec = spent[PEN_SPENDING_REDUCTION] + spent[PEN_SPENDING_GATHER];
}

/* ---- what helps ---- */

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

/* The plan itself after the change; 0 when it cannot be any more. */
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
    struct pen_plan_search_options options = {.top = 1, .seconds = seconds};
    struct pen_plan_ranking *ranking = NULL;
    options.filter.max_devices =
        pen_candidate_num_devices(&work->found->candidate);
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

static void find_helps(struct work *work, double seconds)
{
    try_memory(work, seconds);
    try_flops(work, seconds);
    try_batch(work, seconds);
    for (uint32_t i = 0; i < work->setting->cluster->num_levels; i++)
        try_link(work, i, seconds);
    qsort(work->out->helps, work->out->num_helps, sizeof *work->out->helps,
          compare_helps);
}

pen_status pen_explain(const struct pen_setting *setting,
                       const struct pen_plan_found *found, double seconds,
                       struct pen_explanation **out, struct pen_text *why)
{
    struct work work = {
        .setting = setting, .found = found, .out = calloc(1, sizeof *work.out)};
    if (work.out != NULL)
        work.out->neighbours =
            calloc(MOST_NEIGHBOURS, sizeof *work.out->neighbours);
    if (work.out == NULL || work.out->neighbours == NULL) {
        free(work.out);
        pen_why(why, "no memory for the neighbours of a plan");
        return PEN_NOMEM;
    }
    try_degrees(&work);
    try_micro_batches(&work);
    try_modes(&work);
    try_schedules(&work);
    find_limit(&work);
    if (seconds > 0)
        find_helps(&work, seconds);
    *out = work.out;
    return PEN_OK;
}

void pen_explanation_free(struct pen_explanation *explanation)
{
    if (explanation == NULL)
        return;
    for (uint32_t i = 0; i < explanation->num_neighbours; i++)
        pen_text_release(&explanation->neighbours[i].reason);
    free(explanation->neighbours);
    free(explanation);
}
