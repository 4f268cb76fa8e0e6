#include "planner/changes.h"

#include "planner/target_rules.h"

#include <string.h>

struct work {
    const struct pen_setting *setting;
    const struct pen_plan *plan;
    const struct pen_plan_found *found;
    struct pen_changes *out;
};

static unsigned bit(enum pen_choice choice)
{
    return 1u << choice;
}

static const struct {
    enum pen_choice choice;
    enum pen_degree degree;
} degree_choices[] = {{PEN_CHOICE_TP, PEN_DEGREE_TP},
                      {PEN_CHOICE_CP, PEN_DEGREE_CP},
                      {PEN_CHOICE_PP, PEN_DEGREE_PP},
                      {PEN_CHOICE_VPP, PEN_DEGREE_VPP},
                      {PEN_CHOICE_EP, PEN_DEGREE_EP}};

#define NUM_DEGREE_CHOICES (sizeof degree_choices / sizeof *degree_choices)

/* ---- one layout ---- */

struct pen_setting pen_setting_with_overlaps(const struct pen_setting *setting,
                                             const struct pen_overlaps *own)
{
    struct pen_setting changed = *setting;
    changed.practice.overlaps_gradients = own->gradients;
    changed.practice.overlaps_parameters = own->parameters;
    changed.practice.has_fused_loss = own->loss;
    changed.memo = NULL; /* which is of the other practice */
    return changed;
}

static void keep(const struct pen_prediction *prediction,
                 struct pen_change *change)
{
    change->step_sec = prediction->step_sec;
    change->peak_bytes = prediction->peak_bytes;
    change->fits = prediction->fits;
}

/* Predicts the row; false when the target does not run it. */
static bool predict(const struct work *work, struct pen_change *change)
{
    struct pen_setting setting =
        pen_setting_with_overlaps(work->setting, &change->overlaps);
    struct pen_prediction prediction;
    struct pen_plan *plan = NULL;
    if (pen_target_check(&setting, &change->candidate, NULL) != PEN_OK ||
        pen_candidate_predict(&setting, &change->candidate, true, &plan,
                              &prediction, NULL) != PEN_OK)
        return false;
    pen_status status = PEN_OK;
    if (plan->has_sequence_parallel && !change->has_sequence_parallel) {
        plan->has_sequence_parallel = false;
        pen_prediction_release(&prediction);
        status = pen_predict(&setting, plan, &prediction, NULL);
    }
    if (status == PEN_OK) {
        keep(&prediction, change);
        pen_prediction_release(&prediction);
    }
    pen_plan_free(plan);
    return status == PEN_OK;
}

/* Replicas on all devices that the row may use; false if some are left over. */
static bool fit_replicas(const struct work *work, uint64_t devices,
                         struct pen_candidate *candidate)
{
    uint32_t *degrees = candidate->degrees;
    uint64_t share = (uint64_t)degrees[PEN_DEGREE_TP] * degrees[PEN_DEGREE_CP] *
                     degrees[PEN_DEGREE_PP];
    if (devices % share != 0)
        return false;
    uint64_t dp = devices / share;
    degrees[PEN_DEGREE_DP] = (uint32_t)dp;
    candidate->num_microbatches =
        (uint32_t)(work->setting->global_batch / (dp * candidate->micro_batch));
    return candidate->num_microbatches > 0;
}

static void recompute_as(const struct pen_candidate *best,
                         struct pen_candidate *candidate)
{
    candidate->recompute = best->recompute;
    candidate->recipe.modules = best->recipe.modules;
}

/* Takes these choices of the found plan into the row before. */
static bool apply(const struct work *work, const struct pen_change *before,
                  unsigned choices, struct pen_change *out)
{
    const struct pen_candidate *best = &work->found->candidate;
    struct pen_candidate *candidate = &out->candidate;
    uint64_t devices = pen_candidate_num_devices(
        (choices & bit(PEN_CHOICE_DEVICES)) != 0 ? best : &before->candidate);
    *out = *before;
    out->choices = choices;
    for (size_t i = 0; i < NUM_DEGREE_CHOICES; i++)
        if ((choices & bit(degree_choices[i].choice)) != 0)
            candidate->degrees[degree_choices[i].degree] =
                best->degrees[degree_choices[i].degree];
    if ((choices & bit(PEN_CHOICE_VPP)) != 0)
        candidate->generator = best->generator;
    if ((choices & bit(PEN_CHOICE_MICRO_BATCH)) != 0)
        candidate->micro_batch = best->micro_batch;
    if ((choices & bit(PEN_CHOICE_RECOMPUTE)) != 0)
        recompute_as(best, candidate);
    if ((choices & bit(PEN_CHOICE_SHARDING)) != 0) {
        candidate->sharding = best->sharding;
        candidate->sharding_group = best->sharding_group;
    }
    if ((choices & bit(PEN_CHOICE_SEQUENCE)) != 0)
        out->has_sequence_parallel = true;
    if ((choices & bit(PEN_CHOICE_OVERLAP)) != 0)
        out->overlaps =
            (struct pen_overlaps){work->setting->practice.overlaps_gradients,
                                  work->setting->practice.overlaps_parameters,
                                  work->setting->practice.has_fused_loss};
    return fit_replicas(work, devices, candidate);
}

/* ---- what differs ---- */

static struct pen_candidate candidate_of(const struct pen_plan *plan)
{
    struct pen_candidate candidate = {
        .micro_batch = plan->micro_batch,
        .num_microbatches = plan->num_microbatches,
        .recompute = plan->stages[0].recompute,
        .sharding = plan->sharding,
        .sharding_group = plan->sharding_group,
        .generator = pen_generator_find(plan->schedule.name),
        .expert_tp = plan->expert_tp,
        .recipe = plan->recipe};
    memcpy(candidate.degrees, plan->degrees, sizeof candidate.degrees);
    return candidate;
}

static bool has_stages_of(const struct pen_plan *plan,
                          const struct pen_plan *other)
{
    if (plan->num_stages != other->num_stages)
        return false;
    for (uint32_t i = 0; i < plan->num_stages; i++)
        if (plan->stages[i].count != other->stages[i].count ||
            plan->stages[i].recompute != other->stages[i].recompute)
            return false;
    return true;
}

/* Whether the search would cut the layers of the plan in another way. */
static bool is_cut_otherwise(const struct work *work,
                             const struct pen_change *first)
{
    struct pen_setting setting =
        pen_setting_with_overlaps(work->setting, &first->overlaps);
    struct pen_prediction prediction;
    struct pen_plan *other = NULL;
    if (pen_candidate_predict(&setting, &first->candidate, true, &other,
                              &prediction, NULL) != PEN_OK)
        return true;
    bool is_same = has_stages_of(work->plan, other);
    pen_prediction_release(&prediction);
    pen_plan_free(other);
    return !is_same;
}

/* Without replicas there is nothing to overlap, without shards no weights. */
static bool has_overlaps(const struct work *work,
                         const struct pen_overlaps *overlaps)
{
    const struct pen_practice *practice = &work->setting->practice;
    const struct pen_candidate *best = &work->found->candidate;
    if (overlaps->loss != practice->has_fused_loss)
        return false;
    if (best->degrees[PEN_DEGREE_DP] * best->degrees[PEN_DEGREE_CP] == 1)
        return true;
    return overlaps->gradients == practice->overlaps_gradients &&
           (overlaps->parameters == practice->overlaps_parameters ||
            best->sharding == PEN_SHARDING_NONE);
}

static unsigned find_differences(const struct work *work,
                                 const struct pen_change *first)
{
    const struct pen_candidate *own = &first->candidate;
    const struct pen_candidate *best = &work->found->candidate;
    unsigned choices = 0;
    for (size_t i = 0; i < NUM_DEGREE_CHOICES; i++)
        if (own->degrees[degree_choices[i].degree] !=
            best->degrees[degree_choices[i].degree])
            choices |= bit(degree_choices[i].choice);
    if (own->generator != best->generator)
        choices |= bit(PEN_CHOICE_VPP);
    if (own->micro_batch != best->micro_batch)
        choices |= bit(PEN_CHOICE_MICRO_BATCH);
    if (own->recompute != best->recompute ||
        (own->recompute == PEN_RECOMPUTE_SELECTIVE &&
         own->recipe.modules != best->recipe.modules))
        choices |= bit(PEN_CHOICE_RECOMPUTE);
    if (own->sharding != best->sharding)
        choices |= bit(PEN_CHOICE_SHARDING);
    if (pen_candidate_num_devices(own) != pen_candidate_num_devices(best))
        choices |= bit(PEN_CHOICE_DEVICES);
    if (!first->has_sequence_parallel && best->degrees[PEN_DEGREE_TP] > 1)
        choices |= bit(PEN_CHOICE_SEQUENCE);
    if (!has_overlaps(work, &first->overlaps))
        choices |= bit(PEN_CHOICE_OVERLAP);
    if (is_cut_otherwise(work, first))
        choices |= bit(PEN_CHOICE_STAGES);
    return choices;
}

/* ---- the way ---- */

static bool is_better(const struct pen_change *change,
                      const struct pen_change *best)
{
    if (best->choices == 0 || change->fits != best->fits)
        return best->choices == 0 || change->fits;
    return change->step_sec < best->step_sec;
}

static void try_choices(const struct work *work,
                        const struct pen_change *before, unsigned choices,
                        struct pen_change *best)
{
    struct pen_change change;
    if (apply(work, before, choices, &change) && predict(work, &change) &&
        is_better(&change, best))
        *best = change;
}

/*
 * The next row: layers cut as the search cuts them, where all other choices
 * agree; else the best of single choices; else of pairs. Its choices are 0
 * where no pair is possible either.
 */
static struct pen_change next_change(const struct work *work,
                                     const struct pen_change *before,
                                     unsigned left)
{
    struct pen_change best = {.choices = 0};
    unsigned cut = left & bit(PEN_CHOICE_STAGES);
    if (cut != 0)
        try_choices(work, before, cut, &best);
    if (best.choices != 0)
        return best;
    for (unsigned i = 0; i < PEN_CHOICES; i++)
        if ((left & ~cut & 1u << i) != 0)
            try_choices(work, before, cut | 1u << i, &best);
    for (unsigned i = 0; i < PEN_CHOICES && best.choices == 0; i++)
        for (unsigned j = i + 1; j < PEN_CHOICES; j++)
            if ((left & 1u << i) != 0 && (left & 1u << j) != 0)
                try_choices(work, before, cut | 1u << i | 1u << j, &best);
    return best;
}

static void add_last(const struct work *work, unsigned left)
{
    struct pen_changes *out = work->out;
    const struct pen_practice *practice = &work->setting->practice;
    struct pen_change last = {.choices = left,
                              .candidate = work->found->candidate,
                              .has_sequence_parallel = true,
                              .overlaps = {practice->overlaps_gradients,
                                           practice->overlaps_parameters,
                                           practice->has_fused_loss}};
    keep(&work->found->prediction, &last);
    out->list[out->count++] = last;
}

static void find_way(const struct work *work)
{
    struct pen_changes *out = work->out;
    unsigned left = find_differences(work, &out->list[0]);
    while (left != 0) {
        struct pen_change next =
            next_change(work, &out->list[out->count - 1], left);
        if (next.choices == 0 || (left & ~next.choices) == 0) {
            add_last(work, left);
            return;
        }
        left &= ~next.choices;
        out->list[out->count++] = next;
    }
}

void pen_changes_find(const struct pen_setting *setting,
                      const struct pen_plan_imported *from,
                      const struct pen_plan_found *found,
                      struct pen_changes *out)
{
    const struct pen_plan *plan = from->plan;
    const struct work work = {setting, plan, found, out};
    struct pen_change *first = &out->list[0];
    *first = (struct pen_change){.candidate = candidate_of(plan),
                                 .has_sequence_parallel =
                                     plan->has_sequence_parallel ||
                                     plan->degrees[PEN_DEGREE_TP] == 1,
                                 .overlaps = from->overlaps};
    keep(from->prediction, first);
    out->count = 1;
    find_way(&work);
}
