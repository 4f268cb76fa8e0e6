#include "planner/explain.h"

#include "planner/explain_helps.h"
#include "planner/module_sets.h"
#include "planner/target_rules.h"

#include <stdlib.h>

#define MOST_NEIGHBOURS 96u

struct work {
    const struct pen_setting *setting;
    const struct pen_candidate_filter *filter; /* of the search */
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
    /*
     * A schedule of another runtime is predicted, too, to show what it would
     * save.
     */
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

static void try_recompute(struct work *work, enum pen_recompute recompute,
                          unsigned modules)
{
    struct pen_candidate candidate = work->found->candidate;
    candidate.recompute = recompute;
    candidate.recipe.modules = modules;
    if (!pen_candidate_is_same(&candidate, &work->found->candidate))
        add_neighbour(work, "recomputation", &candidate);
}

static void try_recomputes(struct work *work)
{
    unsigned modules = work->filter->recipe.modules;
    struct pen__module_sets sets;
    pen__module_sets_find(work->setting, &work->filter->recipe, &sets);
    try_recompute(work, PEN_RECOMPUTE_NONE, modules);
    for (uint32_t i = 0; i < sets.count; i++)
        try_recompute(work, PEN_RECOMPUTE_SELECTIVE, sets.items[i]);
    try_recompute(work, PEN_RECOMPUTE_FULL, modules);
}

static void try_shardings(struct work *work)
{
    struct pen_candidate candidate = work->found->candidate;
    uint32_t replicas =
        candidate.degrees[PEN_DEGREE_DP] * candidate.degrees[PEN_DEGREE_CP];
    candidate.sharding_group = 0;
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

/* Devices that exchange the messages of this spending; 1: it has none. */
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

/*
 * Finds what limits the step. Forward and backward count together, as
 * computing.
 */
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

pen_status pen_explain(const struct pen_setting *setting,
                       const struct pen_candidate_filter *filter,
                       const struct pen_plan_found *found, double seconds,
                       struct pen_explanation **out, struct pen_text *why)
{
    struct work work = {.setting = setting,
                        .filter = filter,
                        .found = found,
                        .out = calloc(1, sizeof *work.out)};
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
    try_recomputes(&work);
    try_shardings(&work);
    try_schedules(&work);
    find_limit(&work);
    if (seconds > 0)
        pen__helps_find(setting, filter, found, seconds, work.out);
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
