#include "planner/target_rules.h"

#include "schedule/restrictions.h"

#include <inttypes.h>
#include <string.h>

/* ---- schedules and sharding ---- */

/* Schedules that torchtitan has no name for, but reads as a CSV file. */
static bool torch_reads(const struct pen_generator *generator)
{
    return generator->is_synchronous && !generator->has_slices &&
           !generator->moves_activations && !generator->is_local &&
           (generator->placement == PEN_PLACEMENT_LINEAR ||
            generator->placement == PEN_PLACEMENT_LOOP ||
            generator->placement == PEN_PLACEMENT_V);
}

/* Several slices are what a generator that has them makes unless told not to.
 */
static uint32_t slices_of(const struct pen_generator *generator)
{
    return generator->has_slices ? 2 : 1;
}

static bool trainer_has(const struct pen_generator *generator)
{
    const struct pen_training_facts facts = {.schedule = generator->name,
                                             .num_slices = slices_of(generator),
                                             .is_local = generator->is_local};
    return pen_restrictions_check(&facts, PEN_REASON_ALONE, NULL) == PEN_OK;
}

bool pen_target_has_schedule(enum pen_target target,
                             const struct pen_generator *generator)
{
    bool is_1f1b = strcmp(generator->name, "1f1b") == 0;
    switch (target) {
    case PEN_TARGET_PENSTOCK:
        return trainer_has(generator);
    case PEN_TARGET_MEGATRON:
        return is_1f1b || strcmp(generator->name, "interleaved") == 0;
    case PEN_TARGET_TORCHTITAN:
        return torch_reads(generator);
    case PEN_TARGET_DEEPSPEED:
        return is_1f1b;
    case PEN_TARGETS:
        break;
    }
    return false;
}

bool pen_target_has_sharding(enum pen_target target, uint32_t pp,
                             enum pen_sharding sharding)
{
    switch (target) {
    case PEN_TARGET_PENSTOCK:
        return true;
    case PEN_TARGET_MEGATRON:
        return sharding <= PEN_SHARDING_ZERO1;
    case PEN_TARGET_TORCHTITAN:
        return sharding != PEN_SHARDING_ZERO1;
    case PEN_TARGET_DEEPSPEED:
        return sharding <= PEN_SHARDING_ZERO1 || pp == 1;
    case PEN_TARGETS:
        break;
    }
    return false;
}

bool pen_target_has_chunks(const struct pen_generator *generator, uint32_t vpp)
{
    bool is_loop = generator->placement == PEN_PLACEMENT_LOOP;
    if (is_loop && !generator->has_chunks)
        return vpp == 2;
    switch (generator->placement) {
    case PEN_PLACEMENT_V:
    case PEN_PLACEMENT_BIDIRECTIONAL_V:
        return vpp == 2;
    case PEN_PLACEMENT_WAVE:
        return vpp % 2 == 0;
    case PEN_PLACEMENT_LOOP:
        return vpp >= 2;
    case PEN_PLACEMENT_LINEAR:
    case PEN_PLACEMENT_BIDIRECTIONAL:
    case PEN_PLACEMENT_CYCLIC:
    case PEN_PLACEMENT_REPLICATED:
    case PEN_PLACEMENT_KINDS:
        break;
    }
    return vpp == 1;
}

bool pen_target_has_sequence_parallel(enum pen_target target)
{
    return target != PEN_TARGET_DEEPSPEED && target != PEN_TARGET_PENSTOCK;
}

bool pen_target_may_cut_rows(const struct pen_setting *setting,
                             const struct pen_candidate *candidate)
{
    uint32_t tp = candidate->degrees[PEN_DEGREE_TP];
    uint64_t rows = (uint64_t)candidate->micro_batch *
                    (setting->sequence / candidate->degrees[PEN_DEGREE_CP]);
    return setting->target == PEN_TARGET_PENSTOCK && tp > 1 && rows % tp == 0;
}

uint64_t pen_target_node_size(const struct pen_cluster *cluster)
{
    uint64_t all = pen_cluster_num_devices(cluster);
    uint64_t size = cluster->num_levels > 0 ? cluster->levels[0].size : 0;
    return size == 0 || size > all ? all : size;
}

/* ---- rules ---- */

static pen_status refuse_cut(struct pen_text *why, const char *degree,
                             uint32_t number, uint64_t whole, const char *what)
{
    pen_why(why, "%s %u does not divide %" PRIu64 " %s", degree, number, whole,
            what);
    return PEN_INVALID;
}

uint32_t pen_target_expert_tp(enum pen_target target, uint32_t tp, uint32_t ep)
{
    return target == PEN_TARGET_MEGATRON && tp > 1 && ep > 1 ? 1 : 0;
}

static uint32_t expert_ranks(const struct pen_candidate *candidate)
{
    return pen_expert_tp(candidate->degrees, candidate->expert_tp);
}

static uint64_t stage_ranks(const struct pen_candidate *candidate)
{
    const uint32_t *degrees = candidate->degrees;
    return (uint64_t)degrees[PEN_DEGREE_TP] * degrees[PEN_DEGREE_CP] *
           degrees[PEN_DEGREE_DP];
}

bool pen_target_shares_experts(enum pen_target target,
                               const struct pen_candidate *candidate,
                               uint32_t dp)
{
    uint32_t ep = candidate->degrees[PEN_DEGREE_EP];
    struct pen_candidate other = *candidate;
    if (target != PEN_TARGET_MEGATRON)
        return dp % ep == 0;
    other.degrees[PEN_DEGREE_DP] = dp;
    return stage_ranks(&other) % ((uint64_t)ep * expert_ranks(&other)) == 0;
}

static pen_status check_tensor(const struct pen_setting *setting,
                               const struct pen_candidate *candidate,
                               struct pen_text *why)
{
    const struct pen_model *model = setting->model;
    uint32_t tp = candidate->degrees[PEN_DEGREE_TP];
    uint64_t node = pen_target_node_size(setting->cluster);
    if (tp == 1)
        return PEN_OK;
    if (tp > node || node % tp != 0)
        return refuse_cut(why, "tp", tp, node, "devices of a node");
    if (model->num_heads % tp != 0)
        return refuse_cut(why, "tp", tp, model->num_heads, "attention heads");
    if (model->num_kv_heads % tp != 0)
        return refuse_cut(why, "tp", tp, model->num_kv_heads,
                          "heads of keys and values");
    if (model->hidden % tp != 0)
        return refuse_cut(why, "tp", tp, model->hidden, "hidden units");
    if (model->intermediate % tp != 0)
        return refuse_cut(why, "tp", tp, model->intermediate,
                          "units of the MLP");
    if (model->num_experts > 0 &&
        model->expert_intermediate % expert_ranks(candidate) != 0)
        return refuse_cut(why, "tp", expert_ranks(candidate),
                          model->expert_intermediate, "units of an expert");
    if (setting->target == PEN_TARGET_TORCHTITAN && model->vocab % tp != 0)
        return refuse_cut(why, "tp", tp, model->vocab, "words");
    return PEN_OK;
}

/* With context parallelism each rank has two pieces, for an even load. */
static pen_status check_sequence(const struct pen_setting *setting,
                                 const struct pen_candidate *candidate,
                                 struct pen_text *why)
{
    bool has_parts = pen_target_has_sequence_parallel(setting->target);
    uint32_t tp = has_parts ? candidate->degrees[PEN_DEGREE_TP] : 1;
    uint32_t cp = candidate->degrees[PEN_DEGREE_CP];
    if (cp > 1 && setting->target == PEN_TARGET_DEEPSPEED) {
        pen_why(why, "cp %u: %s does not split sequences in this layout", cp,
                pen_target_names[setting->target]);
        return PEN_INVALID;
    }
    uint64_t pieces = (uint64_t)tp * (cp > 1 ? 2 * (uint64_t)cp : 1);
    if (setting->target == PEN_TARGET_DEEPSPEED)
        pieces = 1;
    if (candidate->cuts_rows && !pen_target_may_cut_rows(setting, candidate)) {
        pen_why(why,
                "--sequence-parallel with tp %u: %s needs several ranks that "
                "share the %" PRIu64 " tokens of a micro-batch equally",
                candidate->degrees[PEN_DEGREE_TP],
                pen_target_names[setting->target],
                (uint64_t)candidate->micro_batch * (setting->sequence / cp));
        return PEN_INVALID;
    }
    if (setting->sequence % pieces == 0)
        return PEN_OK;
    pen_why(why,
            "tp %u and cp %u cut a sequence into %" PRIu64
            " pieces, which do not divide %u tokens",
            tp, cp, pieces, setting->sequence);
    return PEN_INVALID;
}

static pen_status check_experts(const struct pen_setting *setting,
                                const struct pen_candidate *candidate,
                                struct pen_text *why)
{
    uint32_t ep = candidate->degrees[PEN_DEGREE_EP];
    if (ep == 1)
        return PEN_OK;
    if (setting->model->num_experts == 0) {
        pen_why(why, "ep %u: the model has no experts", ep);
        return PEN_INVALID;
    }
    if (setting->model->num_experts % ep != 0)
        return refuse_cut(why, "ep", ep, setting->model->num_experts,
                          "experts");
    if (pen_target_shares_experts(setting->target, candidate,
                                  candidate->degrees[PEN_DEGREE_DP]))
        return PEN_OK;
    if (setting->target != PEN_TARGET_MEGATRON)
        return refuse_cut(why, "ep", ep, candidate->degrees[PEN_DEGREE_DP],
                          "replicas");
    pen_why(why,
            "ep %u of experts on %u ranks each does not divide the %" PRIu64
            " ranks of a stage",
            ep, expert_ranks(candidate), stage_ranks(candidate));
    return PEN_INVALID;
}

static pen_status check_batch(const struct pen_setting *setting,
                              const struct pen_candidate *candidate,
                              struct pen_text *why)
{
    uint64_t batch = (uint64_t)candidate->micro_batch *
                     candidate->num_microbatches *
                     candidate->degrees[PEN_DEGREE_DP];
    if (batch == setting->global_batch)
        return PEN_OK;
    pen_why(why,
            "%u replicas with micro-batches of %u do not divide the batch "
            "of %" PRIu64,
            candidate->degrees[PEN_DEGREE_DP], candidate->micro_batch,
            setting->global_batch);
    return PEN_INVALID;
}

static pen_status check_devices(const struct pen_setting *setting,
                                const struct pen_candidate *candidate,
                                struct pen_text *why)
{
    uint64_t wanted = pen_candidate_num_devices(candidate);
    uint64_t there = pen_cluster_num_devices(setting->cluster);
    if (wanted <= there)
        return PEN_OK;
    pen_why(why, "needs %" PRIu64 " devices, but there are %" PRIu64, wanted,
            there);
    return PEN_INVALID;
}

static pen_status check_stages(const struct pen_setting *setting,
                               const struct pen_candidate *candidate,
                               struct pen_text *why)
{
    uint64_t num_stages = (uint64_t)candidate->degrees[PEN_DEGREE_PP] *
                          candidate->degrees[PEN_DEGREE_VPP];
    uint32_t num_layers = setting->model->num_layers;
    if (num_stages <= num_layers && num_stages <= PEN_PLAN_MAX_STAGES)
        return PEN_OK;
    pen_why(why, "%" PRIu64 " stages are more than the %u layers", num_stages,
            num_layers);
    return PEN_INVALID;
}

/* As they are offered: for many devices before for one machine. */
static const enum pen_target offers[] = {
    PEN_TARGET_MEGATRON, PEN_TARGET_TORCHTITAN, PEN_TARGET_DEEPSPEED,
    PEN_TARGET_PENSTOCK};

#define NUM_OFFERS (sizeof offers / sizeof *offers)

/* Whether a target runs a candidate, with the first sharding that it has. */
static bool target_runs(const struct pen_setting *setting,
                        enum pen_target target, struct pen_candidate candidate)
{
    struct pen_setting other = *setting;
    other.target = target;
    candidate.sharding_group = 0;
    for (int i = 0; i < PEN_SHARDINGS; i++) {
        candidate.sharding = (enum pen_sharding)i;
        if (pen_target_check(&other, &candidate, NULL) == PEN_OK)
            return true;
    }
    return false;
}

static bool offer_target(const struct pen_setting *setting,
                         const struct pen_candidate *candidate,
                         struct pen_text *why)
{
    for (size_t i = 0; i < NUM_OFFERS; i++) {
        if (!target_runs(setting, offers[i], *candidate))
            continue;
        pen_why(why, "; --target %s does", pen_target_names[offers[i]]);
        return true;
    }
    return false;
}

/* A schedule whose name begins alike, as dualpipev for dualpipe. */
static bool is_variant(const struct pen_generator *generator,
                       const struct pen_generator *other)
{
    return other != generator &&
           strncmp(other->name, generator->name, strlen(generator->name)) == 0;
}

static void offer_variant(const struct pen_setting *setting,
                          const struct pen_candidate *candidate,
                          struct pen_text *why)
{
    struct pen_candidate other = *candidate;
    for (size_t i = 0; i < NUM_OFFERS; i++)
        for (size_t j = 0; pen_generator_at(j) != NULL; j++) {
            other.generator = pen_generator_at(j);
            other.degrees[PEN_DEGREE_VPP] =
                pen_target_has_chunks(other.generator, 1) ? 1 : 2;
            if (!is_variant(candidate->generator, other.generator) ||
                !target_runs(setting, offers[i], other))
                continue;
            pen_why(why, "; --target %s --schedule %s does",
                    pen_target_names[offers[i]], other.generator->name);
            return;
        }
}

/* No way out that the next check would close. */
static pen_status refuse_schedule(const struct pen_setting *setting,
                                  const struct pen_candidate *candidate,
                                  struct pen_text *why)
{
    const struct pen_generator *generator = candidate->generator;
    if (why == NULL)
        return PEN_INVALID;
    pen_why(why, "%s does not run %s", pen_target_names[setting->target],
            generator->name);
    if (offer_target(setting, candidate, why))
        return PEN_INVALID;
    pen_why(why, ", and no other target runs it in this layout");
    offer_variant(setting, candidate, why);
    return PEN_INVALID;
}

static pen_status check_schedule(const struct pen_setting *setting,
                                 const struct pen_candidate *candidate,
                                 struct pen_text *why)
{
    const struct pen_generator *generator = candidate->generator;
    uint32_t pp = candidate->degrees[PEN_DEGREE_PP];
    uint32_t vpp = candidate->degrees[PEN_DEGREE_VPP];
    if (!pen_target_has_schedule(setting->target, generator))
        return refuse_schedule(setting, candidate, why);
    if (!pen_target_has_chunks(generator, vpp)) {
        pen_why(why, "%s does not run with %u stages on a rank",
                generator->name, vpp);
        return PEN_INVALID;
    }
    if (vpp > 1 && pp == 1) {
        pen_why(why,
                "several stages on a rank need a pipeline of at least 2 ranks");
        return PEN_INVALID;
    }
    return PEN_OK;
}

/* This program's trainer keeps the partial sums of several micro-batches. */
static bool keeps_gradients(const struct pen_setting *setting,
                            const struct pen_candidate *candidate)
{
    return setting->target == PEN_TARGET_PENSTOCK &&
           candidate->sharding >= PEN_SHARDING_ZERO2 &&
           candidate->num_microbatches > 1;
}

/* Groups that have all weights together, and a copy in each further group. */
static pen_status check_sharding_group(const struct pen_setting *setting,
                                       const struct pen_candidate *candidate,
                                       struct pen_text *why)
{
    uint32_t group = candidate->sharding_group;
    uint64_t replicas = (uint64_t)candidate->degrees[PEN_DEGREE_DP] *
                        candidate->degrees[PEN_DEGREE_CP];
    if (group > 0 && setting->target != PEN_TARGET_PENSTOCK)
        pen_why(why,
                "groups of %u replicas that have all weights together are "
                "planned for penstock alone; drop --sharding-group, or use "
                "--target penstock",
                group);
    else
        return pen_sharding_group_check(candidate->sharding, group, replicas,
                                        why);
    return PEN_INVALID;
}

static pen_status check_sharding(const struct pen_setting *setting,
                                 const struct pen_candidate *candidate,
                                 struct pen_text *why)
{
    uint32_t pp = candidate->degrees[PEN_DEGREE_PP];
    if (keeps_gradients(setting, candidate)) {
        pen_why(why,
                "%s: penstock train keeps whole gradients where a rank has %u "
                "micro-batches in a step; use zero1, or micro-batches of "
                "%" PRIu64,
                pen_sharding_names[candidate->sharding],
                candidate->num_microbatches,
                (uint64_t)candidate->micro_batch * candidate->num_microbatches);
        return PEN_INVALID;
    }
    if (pen_target_has_sharding(setting->target, pp, candidate->sharding))
        return PEN_OK;
    pen_why(why, "%s has no %s%s", pen_target_names[setting->target],
            pen_sharding_names[candidate->sharding],
            pp > 1 ? " in a pipeline" : "");
    return PEN_INVALID;
}

/* Convolutions are not cut, and no layer is computed again. */
static pen_status check_images(const struct pen_setting *setting,
                               const struct pen_candidate *candidate,
                               struct pen_text *why)
{
    static const char *const names[PEN_DEGREES] = {
#define DEGREE_NAME(name, key) key,
        PEN_DEGREE_TABLE(DEGREE_NAME)
#undef DEGREE_NAME
    };
    if (setting->model->images == NULL)
        return PEN_OK;
    for (int i = 0; i < PEN_DEGREES; i++) {
        bool is_for_images =
            i == PEN_DEGREE_DP || i == PEN_DEGREE_PP || i == PEN_DEGREE_VPP;
        if (is_for_images || candidate->degrees[i] == 1)
            continue;
        pen_why(why, "%s %u: networks for images are cut by dp and pp only",
                names[i], candidate->degrees[i]);
        return PEN_INVALID;
    }
    if (candidate->recompute != PEN_RECOMPUTE_NONE) {
        pen_why(why, "recomputation is for text, but the model is for images");
        return PEN_INVALID;
    }
    if (setting->target != PEN_TARGET_PENSTOCK &&
        setting->target != PEN_TARGET_DEEPSPEED) {
        pen_why(why,
                "%s does not train networks for images; use --target penstock "
                "or deepspeed",
                pen_target_names[setting->target]);
        return PEN_INVALID;
    }
    if (candidate->degrees[PEN_DEGREE_PP] > 1 && setting->profile != NULL) {
        pen_why(why,
                "pp %u: a profile has only the mean of the layers between "
                "the first and the last, which differ in a network for "
                "images; predict a pipeline without --profile",
                candidate->degrees[PEN_DEGREE_PP]);
        return PEN_INVALID;
    }
    return PEN_OK;
}

/* A plan is for Adam: what it predicts is Adam's memory and time. */
static struct pen_training_facts facts_of(const struct pen_setting *setting,
                                          const struct pen_candidate *candidate)
{
    const struct pen_generator *generator = candidate->generator;
    uint32_t pp = candidate->degrees[PEN_DEGREE_PP];
    uint32_t copies = pen_placement_copies(generator->placement, pp);
    uint32_t parts = pp * candidate->degrees[PEN_DEGREE_VPP];
    uint32_t dp = candidate->degrees[PEN_DEGREE_DP];
    struct pen_training_facts facts = {
        .schedule = generator->name,
        .is_asynchronous = !generator->is_synchronous,
        .is_stale = generator->is_stale,
        .is_joint = generator->joins_steps,
        .period = generator->steps_each ? 1 : candidate->num_microbatches,
        .num_ranks = pp,
        .num_stages = parts * copies,
        .num_parts = parts,
        .num_slices = slices_of(generator),
        .correction = generator->correction,
        .sharding = candidate->sharding,
        .num_members = dp * copies,
        .num_logical = dp * copies,
        .micro_batch = candidate->micro_batch,
        .global_batch =
            (uint64_t)candidate->micro_batch * candidate->num_microbatches * dp,
        .model = setting->model,
        .sequence = setting->sequence,
        .number = setting->number,
        .has_tied_embeddings = setting->model->has_tied_embeddings,
        .recomputes = candidate->recompute != PEN_RECOMPUTE_NONE,
        .clip_norm = setting->clip_norm,
        .has_optimizer = true,
        .is_adam = true};
    memcpy(facts.degrees, candidate->degrees, sizeof facts.degrees);
    return facts;
}

static bool cuts_layers(const struct pen_candidate *candidate)
{
    return candidate->degrees[PEN_DEGREE_TP] > 1 ||
           candidate->degrees[PEN_DEGREE_CP] > 1 ||
           candidate->degrees[PEN_DEGREE_EP] > 1;
}

static pen_status check_trainer(const struct pen_setting *setting,
                                const struct pen_candidate *candidate,
                                struct pen_text *why)
{
    if (setting->target != PEN_TARGET_PENSTOCK)
        return PEN_OK;
    struct pen_training_facts facts = facts_of(setting, candidate);
    pen_status status = pen_restrictions_check(&facts, PEN_REASON_ALONE, why);
    if (status == PEN_INVALID && why != NULL && cuts_layers(candidate) &&
        !offer_target(setting, candidate, why))
        offer_variant(setting, candidate, why);
    return status;
}

pen_status pen_target_check(const struct pen_setting *setting,
                            const struct pen_candidate *candidate,
                            struct pen_text *why)
{
    pen_status (*const rules[])(const struct pen_setting *,
                                const struct pen_candidate *,
                                struct pen_text *) = {
        check_images,   check_trainer,        check_tensor, check_sequence,
        check_experts,  check_batch,          check_stages, check_schedule,
        check_sharding, check_sharding_group, check_devices};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        pen_status status = rules[i](setting, candidate, why);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}
