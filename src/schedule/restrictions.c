/*
 * The table of restrictions. A row is a function that returns true when a
 * training keeps the restriction and otherwise writes the reason, and the
 * remedy in the words of `penstock train`, or NULL where the reason has it.
 */
#include "schedule/restrictions.h"

#include <inttypes.h>

/* ---- layout ---- */

/* Sequences are cut into two chunks for each rank (network/context.h). */
static bool cuts_sequences_in_chunks(const struct pen_training_facts *facts,
                                     struct pen_text *why)
{
    uint32_t cp = facts->degrees[PEN_DEGREE_CP];
    const struct pen_model *model = facts->model;
    const char *needs = NULL;
    if (cp <= 1)
        return true;
    if ((cp & (cp - 1)) != 0) {
        pen_why(why, "cp %u is not a power of two", cp);
        return false;
    }
    if (facts->is_asynchronous)
        needs = "a synchronous schedule";
    else if (facts->num_slices > 1)
        needs = "sequences without token slices";
    else if (facts->has_uneven_shares)
        needs = "replicas with equal shares of the batch";
    else if (model != NULL &&
             (model->num_experts > 0 || model->kv_lora_rank > 0))
        needs = "a model without experts and latent attention";
    else if (facts->sequence % (2 * cp) != 0)
        needs = "a sequence length that twice this number divides";
    if (needs == NULL)
        return true;
    pen_why(why, "cp %u needs %s", cp, needs);
    return false;
}

/* Experts are dealt out over replicas that follow each other, whose sums are a
 * subtree (network/experts.h, runtime/layout.h). */
static bool deals_out_experts(const struct pen_training_facts *facts,
                              struct pen_text *why)
{
    uint32_t ep = facts->degrees[PEN_DEGREE_EP];
    uint32_t num_copies =
        facts->num_parts == 0 ? 1 : facts->num_stages / facts->num_parts;
    const struct pen_model *model = facts->model;
    if (ep <= 1)
        return true;
    if (model != NULL && model->num_experts == 0)
        pen_why(why, "ep %u: the model has no experts", ep);
    else if ((ep & (ep - 1)) != 0)
        pen_why(why, "ep %u is not a power of two", ep);
    else if (facts->num_slices > 1)
        pen_why(why, "ep %u needs sequences without token slices", ep);
    else if (model != NULL && model->num_experts % ep != 0)
        pen_why(why, "ep %u does not divide the %u experts of the model", ep,
                model->num_experts);
    else if (facts->is_asynchronous)
        pen_why(why, "ep %u needs a synchronous schedule", ep);
    else if (num_copies > 1)
        pen_why(why, "ep %u needs a schedule with one copy of the model", ep);
    else if (facts->has_uneven_shares)
        pen_why(why, "ep %u needs replicas with equal shares of the batch", ep);
    else if (facts->num_members % ep != 0)
        pen_why(why, "ep %u does not divide the %u replicas", ep,
                facts->num_members);
    else
        return true;
    return false;
}

/* Pieces are equal but for the last one, which needs a word, too. */
static bool has_idle_piece(uint32_t vocab, uint32_t pieces)
{
    uint64_t each = ((uint64_t)vocab + pieces - 1) / pieces;
    return each * (pieces - 1) >= vocab;
}

/* Sums of pieces have the order of a tree (network/network.h). */
static bool shares_layers_in_a_tree(const struct pen_training_facts *facts,
                                    struct pen_text *why)
{
    uint32_t tp = facts->degrees[PEN_DEGREE_TP];
    if (tp <= 1)
        return true;
    if ((tp & (tp - 1)) != 0)
        pen_why(why, "tp %u is not a power of two", tp);
    else if (facts->is_asynchronous)
        pen_why(why, "tp %u needs a synchronous schedule", tp);
    else if (facts->num_slices > 1)
        pen_why(why, "tp %u goes without token slices", tp);
    else if (facts->model != NULL && has_idle_piece(facts->model->vocab, tp))
        pen_why(why, "tp %u leaves a rank without any of the %u words", tp,
                facts->model->vocab);
    else
        return true;
    return false;
}

/* Owners send weights ahead of each layer: all replicas come to the same layers
 * in the same order (runtime/gather.h). */
static bool gathers_alike(const struct pen_training_facts *facts,
                          struct pen_text *why)
{
    const char *needs = NULL;
    if (facts->sharding < PEN_SHARDING_ZERO3)
        return true;
    if (facts->has_uneven_shares)
        needs = "equal replicas: leave out --replica-shares";
    else if (facts->shape != NULL && facts->shape->num_copies > 1)
        needs = "a schedule with one copy of the model";
    else if (facts->shape != NULL &&
             facts->shape->placement == PEN_PLACEMENT_REPLICATED)
        needs = "stages that all have as many ranks";
    if (needs == NULL)
        return true;
    pen_why(why, "%s needs %s", pen_sharding_names[facts->sharding], needs);
    return false;
}

/* Latent attention (network/latent.h). */
static bool has_whole_sequences(const struct pen_training_facts *facts,
                                struct pen_text *why)
{
    const struct pen_model *model = facts->model;
    if (model == NULL || facts->num_slices <= 1 || model->kv_lora_rank == 0)
        return true;
    pen_why(why, "penstock train cannot cut sequences of models with latent "
                 "attention into token slices");
    return false;
}

static bool has_even_slices(const struct pen_training_facts *facts,
                            struct pen_text *why)
{
    uint32_t slices = facts->num_slices;
    if (slices <= 1 || facts->sequence % slices == 0)
        return true;
    pen_why(why,
            "--seq-length %" PRIu32 " cannot be cut into %u equal token slices",
            facts->sequence, slices);
    return false;
}

static bool slices_one_step(const struct pen_training_facts *facts,
                            struct pen_text *why)
{
    if (facts->num_slices <= 1 || !facts->is_asynchronous)
        return true;
    pen_why(why,
            "token slices need a synchronous schedule, but steps of %s overlap",
            facts->schedule);
    return false;
}

/* ---- model ---- */

static bool has_a_trained_family(const struct pen_training_facts *facts,
                                 struct pen_text *why)
{
    return facts->model == NULL ||
           pen_model_check_trainable(facts->model, why) == PEN_OK;
}

static bool has_enough_positions(const struct pen_training_facts *facts,
                                 struct pen_text *why)
{
    if (facts->model == NULL || facts->sequence <= facts->model->max_positions)
        return true;
    pen_why(why,
            "--seq-length %" PRIu32 " is more than the model's %" PRIu32
            " positions",
            facts->sequence, facts->model->max_positions);
    return false;
}

static bool has_a_known_number(const struct pen_training_facts *facts,
                               struct pen_text *why)
{
    if (facts->number == PEN_NUMBER_F32 || facts->number == PEN_NUMBER_BF16)
        return true;
    pen_why(why, "penstock train computes in f32 or bf16, not in %s",
            pen_number_names[facts->number]);
    return false;
}

/* ---- batch ---- */

static bool is_power_of_two(uint32_t number)
{
    return number > 0 && (number & (number - 1)) == 0;
}

/* Returns whether each member sums a node of the tree, or all of it. */
static bool is_summed_in_order(const struct pen_training_facts *facts,
                               uint32_t members)
{
    return members == 1 || is_power_of_two(facts->num_logical / members);
}

static bool has_even_replicas(const struct pen_training_facts *facts,
                              struct pen_text *why)
{
    uint32_t members = facts->num_members;
    if (members == 0 || facts->has_uneven_shares)
        return true;
    if (facts->num_logical % members != 0) {
        pen_why(why,
                "--logical-replicas %u is not a multiple of the %u copies of "
                "the model",
                facts->num_logical, members);
        return false;
    }
    uint32_t parts = facts->shape == NULL ? 1 : pen_shape_parts(facts->shape);
    for (uint32_t part = 0; part < parts; part++) {
        uint32_t users =
            facts->shape == NULL ? 1 : pen_shape_users(facts->shape, part);
        if (is_summed_in_order(facts, members / users))
            continue;
        pen_why(why,
                "--logical-replicas %u for %u copies of %s are %u each; this "
                "must be a power of two, because sums have a fixed order",
                facts->num_logical, members / users,
                users == 1 ? "the model" : "a stage",
                facts->num_logical / (members / users));
        return false;
    }
    return true;
}

static bool shares_one_copy(const struct pen_training_facts *facts,
                            struct pen_text *why)
{
    const char *needs = NULL;
    if (!facts->has_uneven_shares)
        return true;
    if (facts->shape != NULL && facts->shape->num_copies > 1)
        needs = "a schedule with one copy of the model";
    else if (facts->is_asynchronous)
        needs = "a synchronous schedule";
    else if (facts->has_tied_embeddings && facts->num_parts > 1)
        needs = "a model whose embeddings are not tied over stages";
    if (needs == NULL)
        return true;
    pen_why(why, "--replica-shares needs %s", needs);
    return false;
}

static bool has_an_even_batch(const struct pen_training_facts *facts,
                              struct pen_text *why)
{
    uint64_t unit = facts->micro_batch * facts->num_logical;
    if (unit == 0 || facts->global_batch % unit == 0)
        return true;
    pen_why(why,
            "--global-batch-size %" PRIu64 " is not a multiple of "
            "--micro-batch-size %" PRIu64 " times %u logical replicas",
            facts->global_batch, facts->micro_batch, facts->num_logical);
    return false;
}

/* ---- schedules whose steps overlap ---- */

static bool has_one_replica_per_copy(const struct pen_training_facts *facts,
                                     struct pen_text *why)
{
    if (!facts->is_asynchronous || facts->num_logical == facts->num_members)
        return true;
    pen_why(why,
            "--logical-replicas %u: this --schedule needs one per replica, %u",
            facts->num_logical, facts->num_members);
    return false;
}

static bool steps_when_a_batch_is_done(const struct pen_training_facts *facts,
                                       struct pen_text *why)
{
    uint64_t wanted = facts->micro_batch * facts->period * facts->num_members;
    if (!facts->is_asynchronous || wanted == facts->global_batch)
        return true;
    pen_why(why,
            "%s makes a step after %u micro-batch%s in each of %u replicas: "
            "--global-batch-size must be %" PRIu64 ", not %" PRIu64,
            facts->schedule, facts->period, facts->period == 1 ? "" : "es",
            facts->num_members, wanted, facts->global_batch);
    return false;
}

static bool clips_with_a_known_norm(const struct pen_training_facts *facts,
                                    struct pen_text *why)
{
    if (!facts->is_asynchronous || facts->is_joint || facts->clip_norm <= 0)
        return true;
    pen_why(why,
            "--clip-grad %g: in --schedule %s a stage steps before the norm of "
            "all gradients is known",
            facts->clip_norm, facts->schedule);
    return false;
}

static bool steps_whole_stages(const struct pen_training_facts *facts,
                               struct pen_text *why)
{
    if (!facts->is_asynchronous || facts->sharding == PEN_SHARDING_NONE)
        return true;
    pen_why(why, "%s needs a synchronous schedule, and %s is asynchronous",
            pen_sharding_names[facts->sharding], facts->schedule);
    return false;
}

static const char *optimizer_for(const struct pen_training_facts *facts)
{
    switch (facts->correction) {
    case PEN_CORRECTION_MOMENTUM:
    case PEN_CORRECTION_SPIKE:
        if (facts->is_adam)
            return "--optimizer sgd";
        if (facts->momentum == 0)
            return "a --sgd-momentum above 0";
        return facts->is_nesterov ? "SGD without --sgd-nesterov" : NULL;
    case PEN_CORRECTION_ADAM:
        return facts->is_adam ? NULL : "--optimizer adam";
    case PEN_CORRECTION_AVERAGE:
    case PEN_CORRECTION_AHEAD:
    case PEN_CORRECTION_NONE:
        break;
    }
    return NULL;
}

static bool corrects_with_its_optimizer(const struct pen_training_facts *facts,
                                        struct pen_text *why)
{
    const char *needs = facts->has_optimizer ? optimizer_for(facts) : NULL;
    if (!facts->is_asynchronous || needs == NULL)
        return true;
    pen_why(why,
            "%s corrects its delays with the optimizer's state and needs %s",
            facts->schedule, needs);
    return false;
}

/* Versions and corrections know the moments of AdamW and SGD. */
static bool steps_muon_at_once(const struct pen_training_facts *facts,
                               struct pen_text *why)
{
    if (!facts->is_muon || !facts->is_asynchronous)
        return true;
    pen_why(why,
            "--optimizer muon needs a synchronous schedule, and %s is "
            "asynchronous",
            facts->schedule);
    return false;
}

/* Methods that correct by themselves have a discount, or no need of one. */
static bool corrects_once(const struct pen_training_facts *facts,
                          struct pen_text *why)
{
    if (facts->discount_steps == 0 || facts->correction == PEN_CORRECTION_NONE)
        return true;
    pen_why(why,
            "--stale-discount %" PRIu64 ": %s corrects its delays by itself",
            facts->discount_steps, facts->schedule);
    return false;
}

static bool predicts_one_step(const struct pen_training_facts *facts,
                              struct pen_text *why)
{
    const char *needs = NULL;
    if (!facts->predicts)
        return true;
    if (!facts->is_asynchronous || facts->num_versions != 2 ||
        facts->is_stale || facts->num_stages != facts->num_ranks ||
        facts->correction != PEN_CORRECTION_NONE)
        needs = "--schedule pipedream-2bw";
    else if (facts->has_optimizer && !facts->is_adam && facts->momentum == 0)
        needs = "a --sgd-momentum above 0";
    else if (facts->has_tied_embeddings && facts->num_parts > 1)
        needs = "a model whose embeddings are not tied over stages";
    if (needs == NULL)
        return true;
    pen_why(why, "--predict-weights needs %s", needs);
    return false;
}

static bool corrects_one_stage(const struct pen_training_facts *facts,
                               struct pen_text *why)
{
    if (!facts->is_asynchronous || facts->correction == PEN_CORRECTION_NONE ||
        facts->num_stages == facts->num_ranks)
        return true;
    pen_why(why,
            "the correction of delays supports one stage per rank, but the "
            "schedule has %u stages on %u ranks",
            facts->num_stages, facts->num_ranks);
    return false;
}

static bool joins_plain_steps(const struct pen_training_facts *facts,
                              struct pen_text *why)
{
    const char *what = NULL;
    if (!facts->is_joint)
        return true;
    if (facts->num_stages != facts->num_ranks)
        what = "one stage per rank";
    else if (facts->correction != PEN_CORRECTION_NONE)
        what = "a method that does not correct delays by itself";
    if (what == NULL)
        return true;
    pen_why(why, "a schedule with joint steps needs %s", what);
    return false;
}

static bool ties_inside_a_stage(const struct pen_training_facts *facts,
                                struct pen_text *why)
{
    if (!facts->is_asynchronous || facts->is_joint ||
        !facts->has_tied_embeddings || facts->num_parts <= 1)
        return true;
    pen_why(why,
            "embedding and head are tied but step at different times in %s",
            facts->schedule);
    return false;
}

static bool recomputes_with_its_weights(const struct pen_training_facts *facts,
                                        struct pen_text *why)
{
    if (!facts->is_stale || !facts->recomputes)
        return true;
    pen_why(why,
            "in %s a backward has other weights than its forward and cannot "
            "recompute it",
            facts->schedule);
    return false;
}

/*
 * Returns whether R has the weights of its F, which some methods do not keep.
 */
static bool has_weights_to_recompute(const struct pen_training_facts *facts,
                                     struct pen_text *why)
{
    if (!facts->has_recomputed ||
        (!facts->is_stale && facts->correction == PEN_CORRECTION_NONE))
        return true;
    pen_why(why,
            "the schedule recomputes stages (R), but %s does not keep the "
            "weights of a forward",
            facts->schedule);
    return false;
}

static bool recomputes_once(const struct pen_training_facts *facts,
                            struct pen_text *why)
{
    if (!facts->computes_twice)
        return true;
    pen_why(why,
            "--recompute-granularity full: the schedule %s recomputes whole "
            "stages (R) already",
            facts->schedule);
    return false;
}

static bool replicates_plain_steps(const struct pen_training_facts *facts,
                                   struct pen_text *why)
{
    if (facts->shape == NULL || !facts->is_asynchronous ||
        facts->shape->placement != PEN_PLACEMENT_REPLICATED)
        return true;
    pen_why(why,
            "stages with ranks of their own need a synchronous schedule, but "
            "steps of %s overlap",
            facts->schedule);
    return false;
}

/* A stage learns from its own loss, or from that of the stages after it
 * (network/local.c). */
static bool learns_in_every_stage(const struct pen_training_facts *facts,
                                  struct pen_text *why)
{
    uint32_t sections = facts->model == NULL ? 0 : facts->model->num_sections;
    if (facts->num_parts == 1 || facts->is_local == (sections > 1))
        return true;
    if (facts->is_local)
        pen_why(why,
                "no stage of %s sends a gradient, so that each needs a loss of "
                "its own; give penstock train --local-updates N",
                facts->schedule);
    else
        pen_why(why,
                "--local-updates %u: sections need no gradients of each other, "
                "but stages of %s wait for them; use --schedule local",
                sections, facts->schedule);
    return false;
}

/* ---- the table ---- */

static const struct {
    bool (*is_kept)(const struct pen_training_facts *facts,
                    struct pen_text *why);
    const char *remedy;
} restrictions[] = {
    {cuts_sequences_in_chunks, "use another --context-parallel-size, with "
                               "--schedule 1f1b"},
    {deals_out_experts,
     "use another --expert-model-parallel-size and --schedule 1f1b"},
    {shares_layers_in_a_tree, "use --tp 2, 4 or 8 with --schedule 1f1b"},
    {gathers_alike, "or use --sharding zero1"},
    {has_whole_sequences, NULL},
    {learns_in_every_stage, NULL},
    {has_a_known_number, "plan with another --dtype"},
    {has_a_trained_family, NULL},
    {has_enough_positions, NULL},
    {has_even_slices, "give a number of --slices that divides it"},
    {slices_one_step, "use --schedule seq1f1b"},
    {has_even_replicas, NULL},
    {shares_one_copy, "use --schedule 1f1b, or leave it out"},
    {has_an_even_batch, NULL},
    {replicates_plain_steps, NULL},
    {has_one_replica_per_copy, NULL},
    {steps_when_a_batch_is_done, NULL},
    {clips_with_a_known_norm,
     "give --clip-grad 0, or --schedule pipedream-2bw"},
    {steps_whole_stages, "leave out --sharding and "
                         "--use-distributed-optimizer"},
    {steps_muon_at_once, "use --schedule 1f1b, or --optimizer adam"},
    {corrects_with_its_optimizer, NULL},
    {corrects_one_stage, NULL},
    {corrects_once, "leave it out"},
    {predicts_one_step, NULL},
    {joins_plain_steps, NULL},
    {ties_inside_a_stage, "use --schedule pipedream-2bw, or a model with "
                          "\"tie_word_embeddings\": false"},
    {recomputes_with_its_weights, "leave out --recompute-granularity"},
    {has_weights_to_recompute, "use a schedule without R"},
    {recomputes_once, "leave it out, or use a schedule without R"}};

pen_status pen_restrictions_check(const struct pen_training_facts *facts,
                                  enum pen_restriction_words words,
                                  struct pen_text *why)
{
    for (size_t i = 0; i < sizeof restrictions / sizeof *restrictions; i++) {
        if (restrictions[i].is_kept(facts, why))
            continue;
        if (words == PEN_REASON_AND_REMEDY && restrictions[i].remedy != NULL)
            pen_why(why, "; %s", restrictions[i].remedy);
        return PEN_INVALID;
    }
    return PEN_OK;
}

/* ---- rows ---- */

/*
 * Checks the order of weight gradients. They are added as they come: to be
 * bit-identical to one process, they must come in the order of the
 * micro-batches, and the slices of one from the last to the first.
 */
static pen_status check_order(const struct pen_row *row, uint32_t stage,
                              struct pen_text *why)
{
    const struct pen_op *before = NULL;
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        if (op->stage != stage ||
            (op->kind != PEN_OP_BACKWARD && op->kind != PEN_OP_BACKWARD_WEIGHT))
            continue;
        if (before != NULL && op->microbatch < before->microbatch) {
            pen_why(
                why,
                "stage %u has the weight gradient of micro-batch %u after that "
                "of %u: they must be in order, because sums depend on it",
                stage, op->microbatch, before->microbatch);
            return PEN_INVALID;
        }
        if (before != NULL && op->microbatch == before->microbatch &&
            op->slice > before->slice) {
            pen_why(why,
                    "stage %u has the weight gradient of slice %u of "
                    "micro-batch %u after that of slice %u: they must go from "
                    "the last slice to the first, because sums depend on it",
                    stage, op->slice, op->microbatch, before->slice);
            return PEN_INVALID;
        }
        before = op;
    }
    return PEN_OK;
}

/*
 * Returns the next op of this kind from a position on; the row's length if
 * none.
 */
static uint32_t next_of(const struct pen_row *row, enum pen_op_kind kind,
                        uint32_t from)
{
    while (from < row->count && row->ops[from].kind != kind)
        from++;
    return from;
}

/*
 * Checks that one stage evicts, and that stashes come back in the order of
 * leaving.
 */
static pen_status check_evictions(const struct pen_row *row, uint32_t slices,
                                  struct pen_text *why)
{
    uint32_t first = next_of(row, PEN_OP_EVICT, 0);
    uint32_t back = next_of(row, PEN_OP_LOAD, 0);
    if (first < row->count && slices > 1) {
        pen_why(why, "stashes of token slices cannot be evicted (EV); use a "
                     "schedule with slices or with EV");
        return PEN_INVALID;
    }
    for (uint32_t left = first; left < row->count;
         left = next_of(row, PEN_OP_EVICT, left + 1)) {
        if (back == row->count ||
            row->ops[left].stage != row->ops[back].stage ||
            row->ops[left].microbatch != row->ops[back].microbatch ||
            row->ops[left].stage != row->ops[first].stage) {
            pen_why(why, "stashes must be loaded (LD) in the order of their "
                         "eviction (EV), all from one stage of the rank");
            return PEN_INVALID;
        }
        back = next_of(row, PEN_OP_LOAD, back + 1);
    }
    return PEN_OK;
}

pen_status pen_restrictions_check_row(const struct pen_schedule *schedule,
                                      uint32_t rank, struct pen_text *why)
{
    const struct pen_row *row = &schedule->rows[rank];
    pen_status status = check_evictions(row, schedule->shape.num_slices, why);
    for (uint32_t s = 0; s < schedule->shape.num_stages && status == PEN_OK;
         s++)
        if (pen_shape_rank_of(&schedule->shape, s) == rank)
            status = check_order(row, s, why);
    return status;
}
