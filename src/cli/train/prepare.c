#include "cli/train/training.h"

#include "base/log.h"
#include "cli/program/cli.h"
#include "cli/train/check.h"
#include "cli/train/checkpoint.h"
#include "cli/train/data.h"
#include "cli/train/folder.h"
#include "cli/train/memory.h"
#include "cli/train/sizes.h"
#include "cli/train/start.h"
#include "cli/train/text.h"
#include "runtime/replicas_checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static pen_status open_data(struct pen__training *training,
                            struct pen_text *why)
{
    struct pen__train_args *args = &training->args;
    const struct pen_any_model *model = &training->pretrained.model;
    struct pen__data_wish wish = {.data_path = &args->data_path,
                                  .token_ids = args->token_ids,
                                  .split = args->split,
                                  .seq_length = args->seq_length,
                                  .seed = args->seed};
    pen_status status = pen__data_open(model, &wish, &training->batches, why);
    /* An option that was not given is a setting of the run, too. */
    if (status == PEN_OK && model->decoder != NULL && args->token_ids == NULL)
        args->seq_length = pen_batches_shape(training->batches).num_ids;
    if (status != PEN_OK || args->eval_interval == 0)
        return status;
    wish.is_evaluation = true;
    return pen__data_open(model, &wish, &training->validation, why);
}

/* Steps of the checkpoint from which the run resumes; 0: it begins. */
static uint64_t steps_before(const struct pen__training *training)
{
    const struct pen_checkpoint *checkpoint =
        pen__training_checkpoint(training);
    return checkpoint == NULL ? 0 : checkpoint->manifest.step;
}

/* Logical replicas of the checkpoint; 0: nothing is resumed. */
static uint64_t kept_replicas(const struct pen__training *training)
{
    const struct pen_checkpoint *checkpoint =
        pen__training_checkpoint(training);
    return checkpoint == NULL ? 0 : checkpoint->manifest.num_replicas;
}

/*
 * Reports a change of logical replicas: sums of another number of parts are not
 * bit-identical.
 */
static void report_replicas(const struct pen__training *training, uint64_t kept)
{
    uint64_t used = training->args.logical_replicas;
    if (kept != 0 && used != kept && training->is_first)
        pen_log(PEN_LOG_INFO,
                "gradients are now summed in %" PRIu64
                " parts, not in the %" PRIu64
                " of the checkpoint: from here on the weights differ in their "
                "last bits from a run that keeps its layout "
                "(--logical-replicas)",
                used, kept);
}

/*
 * Takes the number of pieces from the checkpoint where the command does not say
 * it.
 */
static void take_pieces(struct pen__training *training)
{
    const struct pen_checkpoint *checkpoint =
        pen__training_checkpoint(training);
    uint64_t kept = checkpoint == NULL ? 0 : checkpoint->manifest.num_pieces;
    uint64_t *used = &training->args.logical_tensor;
    uint64_t ranks = training->args.tensor_size;
    if (*used == 0)
        *used = kept >= ranks ? kept : ranks;
    if (kept != 0 && *used != kept && training->is_first)
        pen_log(PEN_LOG_INFO,
                "products are now computed in %" PRIu64
                " pieces, not in the %" PRIu64
                " of the checkpoint: from here on the weights differ in their "
                "last bits (--logical-tensor)",
                *used, kept);
}

static bool is_power_of_two(uint64_t number)
{
    return number > 0 && (number & (number - 1)) == 0;
}

/* Refuses what cannot train a model whose pieces are on several ranks. */
static pen_status check_group(const struct pen__training *training,
                              struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    uint64_t ranks = args->tensor_size, pieces = args->logical_tensor;
    if (training->pretrained.model.decoder == NULL)
        pen_why(why, "--tensor-model-parallel-size is for text models only");
    else if (!is_power_of_two(ranks))
        pen_why(why,
                "--tensor-model-parallel-size %" PRIu64
                " is not a power of two. Use 2, 4 or 8",
                ranks);
    else if (pieces % ranks != 0 || !is_power_of_two(pieces / ranks))
        pen_why(why,
                "--logical-tensor %" PRIu64 " cannot be shared by the %" PRIu64
                " ranks of --tensor-model-parallel-size: each has to have one "
                "piece, 2, 4 or a higher power of two. Use --logical-tensor "
                "%" PRIu64,
                pieces, ranks, ranks);
    else if (args->replica_shares != NULL)
        pen_why(why, "--replica-shares and --tensor-model-parallel-size "
                     "exclude each other. Drop one of them");
    else if (args->slices > 1)
        pen_why(why, "--slices and --tensor-model-parallel-size exclude each "
                     "other. Drop one of them");
    else
        return PEN_OK;
    return PEN_INVALID;
}

/* Refuses what cannot train a model that is cut into pieces. */
static pen_status check_pieces(const struct pen__training *training,
                               struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    const struct pen_model *model = training->pretrained.model.decoder;
    uint32_t pieces = (uint32_t)args->logical_tensor;
    if (args->tensor_size > 1) {
        pen_status status = check_group(training, why);
        if (status != PEN_OK)
            return status;
    }
    if (pieces == 1 && args->is_sequence_parallel) {
        pen_why(why, "--sequence-parallel needs products that are cut. Use "
                     "--tensor-model-parallel-size or --logical-tensor with 2 "
                     "or more, or drop --sequence-parallel");
        return PEN_INVALID;
    }
    if (model == NULL)
        return PEN_OK;
    if (pieces == 1)
        return pen_network_check_pieces(model, pieces, why);
    if (args->is_sleeping && args->tensor_size == 1)
        pen_why(why, "--logical-tensor needs an engine that computes; --engine "
                     "sleep only waits. Drop --logical-tensor");
    else if (training->layout.is_asynchronous)
        pen_why(why,
                "--logical-tensor needs a synchronous schedule; %s is "
                "asynchronous. Use --schedule 1f1b, or drop --logical-tensor",
                training->layout.schedule->name);
    else if (training->replicas.has_method)
        pen_why(why,
                "--logical-tensor needs replicas that sum gradients at every "
                "step, not --sync %s. Drop one of them",
                args->sync);
    else if (args->moves.count > 0)
        pen_why(why, "--move cannot move tensors that --logical-tensor cuts. "
                     "Drop one of them");
    else
        return pen_network_check_pieces(model, pieces, why);
    return PEN_INVALID;
}

/*
 * Checks shares: uneven ones need a schedule for each replica, and sums in a
 * fixed order.
 */
static pen_status check_shares(const struct pen__training *training,
                               bool is_open, struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    uint32_t num_logical = training->layout.num_logical;
    const char *other = NULL;
    if (args->replica_shares == NULL)
        return PEN_OK;
    if (args->plan != NULL)
        other = "plan";
    else if (args->moves.count > 0)
        other = "move";
    else if (args->trace != NULL)
        other = "trace";
    else if (args->has_fast_sums)
        other = "fast-sums";
    else if (args->has_sparse_sums)
        other = "sparse-embedding";
    else if (args->context_size > 1)
        other = "context-parallel-size";
    if (other != NULL)
        pen_why(why,
                "--replica-shares and --%s exclude each other; drop one of "
                "them",
                other);
    else if (training->replicas.has_method)
        pen_why(why,
                "--replica-shares needs replicas that sum gradients at every "
                "step, not --sync %s. Drop one of them",
                args->sync);
    else if (!is_open && args->logical_replicas != num_logical)
        pen_why(why,
                "--logical-replicas %" PRIu64
                " is not a multiple of the %u shares of --replica-shares %s",
                args->logical_replicas, num_logical, args->replica_shares);
    else
        return PEN_OK;
    return PEN_INVALID;
}

/* Checks options of routers, which need routers. */
static pen_status check_router(const struct pen__training *training,
                               struct pen_text *why)
{
    const struct pen_model *model = training->pretrained.model.decoder;
    const struct pen_router_settings *router = &training->args.router;
    bool has_experts = model != NULL && model->num_experts > 0;
    bool has_offset =
        has_experts && model->has_router_bias && model->has_sigmoid_gates;
    bool moves_offset = training->args.numbers.router_bias_rate > 0;
    const char *option = router->aux > 0        ? "--moe-aux-loss-coeff"
                         : router->z > 0        ? "--moe-z-loss-coeff"
                         : router->capacity > 0 ? "--moe-expert-capacity-factor"
                                                : NULL;
    if (!has_experts && option != NULL)
        pen_why(why,
                "%s is for models with experts, and this one has none. Drop it",
                option);
    else if (moves_offset && !has_offset)
        pen_why(why,
                "--moe-router-bias-update-rate is for models whose routers "
                "have a balancing bias, as DeepSeek V3. Drop it, or use "
                "--moe-aux-loss-coeff");
    else if (moves_offset && training->replicas.has_method)
        pen_why(why,
                "--moe-router-bias-update-rate counts the tokens of all "
                "replicas at every step, which --sync %s does not. Drop one of "
                "them",
                training->args.sync);
    else
        return PEN_OK;
    return PEN_INVALID;
}

/*
 * Checks Muon, which steps whole matrices of text models, in all replicas
 * alike.
 */
static pen_status check_muon(const struct pen__training *training,
                             struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    if (args->numbers.kind != PEN_STEP_RULE_MUON)
        return PEN_OK;
    if (training->pretrained.model.decoder == NULL)
        pen_why(why, "--optimizer muon is for text models only. Use "
                     "--optimizer adam or sgd");
    else if (args->logical_tensor > 1)
        pen_why(why, "--optimizer muon steps whole matrices, which "
                     "--logical-tensor cuts. Drop one of them");
    else if (training->replicas.has_method)
        pen_why(why,
                "--optimizer muon needs replicas that sum gradients at every "
                "step, not --sync %s. Drop one of them",
                args->sync);
    else if (args->is_sleeping)
        pen_why(why, "--optimizer muon needs an engine that computes; --engine "
                     "sleep only waits. Drop --optimizer muon");
    else
        return PEN_OK;
    return PEN_INVALID;
}

/* Checks ranks that only wait: they have no weights, and no gates. */
static pen_status check_sleeping(const struct pen__training *training,
                                 struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    const struct pen_model *model = training->pretrained.model.decoder;
    bool has_experts = model != NULL && model->num_experts > 0;
    if (!args->is_sleeping)
        return PEN_OK;
    if (args->save != NULL)
        pen_why(why, "--save needs weights, and --engine sleep only waits. "
                     "Drop --save, or use --engine onednn");
    else if (args->tensor_size > 1 && has_experts)
        pen_why(why, "--tensor-model-parallel-size of a model with experts "
                     "needs an engine that computes: --engine sleep does not "
                     "know its messages. Use --engine onednn");
    else
        return PEN_OK;
    return PEN_INVALID;
}

/* Checks --on-nan skip, which needs all ranks to leave out the same step. */
static pen_status check_skipping(const struct pen__training *training,
                                 struct pen_text *why)
{
    if (training->args.on_nan != PEN_ON_NAN_SKIP)
        return PEN_OK;
    if (training->layout.is_asynchronous)
        pen_why(why,
                "--on-nan skip needs a synchronous schedule: stages of %s step "
                "before the step is known to be finite. Use --schedule 1f1b, "
                "or drop --on-nan",
                training->layout.schedule->name);
    else if (training->replicas.has_method)
        pen_why(why,
                "--on-nan skip needs replicas that sum gradients at every "
                "step: those of --sync %s would disagree about a step that one "
                "of them leaves out. Drop --sync, or --on-nan",
                training->args.sync);
    else
        return PEN_OK;
    return PEN_INVALID;
}

/*
 * Checks engines. Copies of a parameter are bit-identical as long as the same
 * engine steps them: those of replicas are, where the engine belongs to a rank
 * of the pipeline.
 */
static pen_status check_engines(const struct pen__training *training,
                                struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    const struct pen__train_layout *layout = &training->layout;
    uint32_t num_rows =
        layout->schedule == NULL ? 1 : pen_mesh_num_rows(&layout->mesh);
    if (args->moves.count > 0)
        pen_why(why, "--move needs the same engine on all ranks. Name one with "
                     "--engine, or drop --move");
    else if (num_rows != args->num_engines)
        pen_why(why,
                "--engine names %" PRIu32 " engines for %" PRIu32
                " ranks per pipeline. Name one for each of them, or one for "
                "all",
                args->num_engines, num_rows);
    else if (layout->schedule->shape.num_copies > 1)
        pen_why(why,
                "--engine with several engines: %s has each stage on two ranks "
                "of a pipeline, whose weights would differ. Use --schedule "
                "1f1b, or one engine",
                layout->schedule->name);
    else if (layout->is_tied)
        pen_why(why, "--engine with several engines: the model's head is its "
                     "token table, whose two copies would differ. Use one "
                     "engine, or a model with a head of its own");
    else
        return PEN_OK;
    return PEN_INVALID;
}

static pen_status choose_engine(struct pen__training *training,
                                struct pen_text *why)
{
    struct pen__train_args *args = &training->args;
    const struct pen__train_layout *layout = &training->layout;
    if (args->num_engines == 1)
        return PEN_OK;
    pen_status status = check_engines(training, why);
    if (status != PEN_OK)
        return status;
    uint32_t rank = pen_transport_rank(pen__training_own_ranks(training));
    uint32_t row =
        rank < layout->num_ranks ? pen_mesh_row(&layout->mesh, rank) : 0;
    args->engine = args->engines[row].kind;
    args->engine_device = args->engines[row].device;
    return PEN_OK;
}

static pen_status make_layout(struct pen__training *training,
                              struct pen_text *why)
{
    bool is_clipping_open = isnan(training->args.numbers.clip_norm);
    uint64_t kept = kept_replicas(training);
    bool is_open = training->args.logical_replicas == 0;
    if (is_open)
        training->args.logical_replicas = kept;
    uint32_t num_ranks = pen_transport_size(training->transport);
    training->args.rank = pen_transport_rank(training->transport);
    pen_status status = pen__train_moves_read(&training->moves, &training->args,
                                              steps_before(training), why);
    if (status == PEN_OK)
        status = pen__train_take_sizes(&training->args, &num_ranks, why);
    if (status == PEN_OK)
        status = pen__train_replicas_init(
            &training->replicas, &training->args, &training->pretrained.model,
            pen__train_ring_island(&training->ring), training->transport, why);
    if (status == PEN_OK && training->replicas.has_method)
        num_ranks = pen_transport_size(pen__training_own_ranks(training));
    if (status == PEN_OK)
        status = pen__train_layout_init(
            &training->layout, &training->args, &training->pretrained.model,
            pen_batches_shape(training->batches).num_ids, num_ranks, why);
    if (status == PEN_OK)
        status = choose_engine(training, why);
    if (status == PEN_OK)
        status = check_skipping(training, why);
    if (status == PEN_OK)
        take_pieces(training);
    if (status == PEN_OK)
        status = check_pieces(training, why);
    if (status == PEN_OK)
        status = check_muon(training, why);
    if (status == PEN_OK)
        status = check_sleeping(training, why);
    if (status == PEN_OK)
        status = check_shares(training, is_open, why);
    if (status == PEN_OK)
        status = check_router(training, why);
    bool has_shares = training->args.replica_shares != NULL;
    if (status == PEN_OK && is_open && (kept != 0 || has_shares))
        training->args.logical_replicas =
            pen__train_layout_replicas(&training->layout, kept);
    if (status == PEN_OK)
        report_replicas(training, kept);
    if (status == PEN_OK && is_clipping_open && training->is_first &&
        training->args.numbers.clip_norm == 0)
        pen_log(PEN_LOG_INFO,
                "gradients are not clipped: a stage of %s steps before the "
                "norm of all gradients is known",
                training->layout.schedule->name);
    return status;
}

static struct pen_trainer_options
trainer_options(struct pen__training *training)
{
    return pen__training_options(training, &training->layout, &training->args);
}

/* Checks a move as far as one rank can without the others. */
static pen_status check_move(struct pen__training *training,
                             const struct pen__train_move *move,
                             struct pen_text *why)
{
    struct pen_trainer_options from = trainer_options(training);
    struct pen_trainer_options to =
        pen__training_options(training, &move->layout, &move->args);
    pen_status status = pen_trainer_check_move(&from, &to, why);
    if (status == PEN_OK)
        status = pen_trainer_check(&to, pen_transport_rank(to.transport),
                                   to.num_ranks, why);
    if (status != PEN_OK)
        pen__train_move_name(move, status, why);
    return status;
}

static struct pen__train_facts facts_of(const struct pen__training *training)
{
    return (struct pen__train_facts){
        .args = &training->args,
        .layout = &training->layout,
        .moves = &training->moves,
        .model = &training->pretrained.model,
        .sequence = pen_batches_shape(training->batches).num_ids};
}

/*
 * Makes the moves to come. Refuses, before plans are read, a run that could
 * move nowhere.
 */
static pen_status make_moves(struct pen__training *training,
                             struct pen_text *why)
{
    struct pen__train_moves *moves = &training->moves;
    struct pen_trainer_options own = trainer_options(training);
    const struct pen__train_facts run = facts_of(training);
    pen_status status = PEN_OK;
    if (moves->next < moves->count) {
        status = pen_trainer_check_move(&own, &own, why);
        if (status != PEN_OK)
            pen__train_move_name(&moves->items[moves->next], status, why);
    }
    if (status == PEN_OK)
        status = pen__train_moves_make(
            moves, &run, pen_transport_size(training->transport), why);
    for (size_t i = moves->next; i < moves->count && status == PEN_OK; i++)
        status = check_move(training, &moves->items[i], why);
    return status;
}

static pen_status check_ranks(struct pen__training *training,
                              struct pen_text *why)
{
    const struct pen_schedule *unused;
    struct pen_trainer_options options = trainer_options(training);
    if (!training->args.is_check)
        return PEN_OK;
    pen_status status = pen__train_layout_set_pass(
        &training->layout, &training->args, 0, &unused, why);
    if (status == PEN_OK)
        status = pen__train_check_ranks(&options, &training->layout, why);
    return status;
}

static pen_status make_trainer(struct pen__training *training,
                               struct pen_text *why)
{
    struct pen_trainer_options options = trainer_options(training);
    pen_status status = pen_trainer_create(&options, &training->trainer, why);
    if (status != PEN_OK)
        return status;
    training->steps =
        calloc((size_t)pen_trainer_pass_steps(training->trainer) + 1,
               sizeof *training->steps);
    return training->steps == NULL ? PEN_NOMEM : PEN_OK;
}

static pen_status set_weights(struct pen__training *training,
                              struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    const struct pen_weights *weights = training->pretrained.weights;
    if (pen__training_checkpoint(training) != NULL)
        return pen__train_resume(args, pen__training_checkpoint(training),
                                 training->trainer, training->is_first, why);
    if (weights == NULL || args->has_random_weights)
        return pen_trainer_initialize(training->trainer, args->seed);
    pen_status status =
        args->local_updates > 1 /* heads that no file of the model has */
            ? pen_trainer_initialize(training->trainer, args->seed)
            : PEN_OK;
    if (status == PEN_OK)
        status = pen_trainer_load_weights(training->trainer, weights, why);
    if (status == PEN_OK && training->is_first)
        pen__train_tell_loaded(&training->pretrained);
    return status;
}

/*
 * Reports the settings that were remembered when the command line was read, or
 * why they could not be.
 */
static pen_status recall(struct pen__training *training, struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    if (args->load != NULL &&
        pen_checkpoint_kind_of(args->load) == PEN_CHECKPOINT_NONE) {
        pen_why(why,
                "--load: there is no checkpoint in %s; leave out --load to "
                "start a run",
                args->load);
        return PEN_INVALID;
    }
    if (args->recall_status != PEN_OK && args->recall_why.length > 0)
        pen_why(why, "%s", pen_text_string(&args->recall_why));
    if (training->is_first && args->recalled.length > 0)
        pen_log(PEN_LOG_INFO, "remembered from %s:%s",
                pen_text_string(&args->recall.from),
                pen_text_string(&args->recalled));
    return args->recall_status;
}

static pen_status add_local_heads(struct pen__training *training,
                                  struct pen_text *why)
{
    struct pen_model *model = training->pretrained.model.decoder;
    uint32_t sections = (uint32_t)training->args.local_updates;
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = PEN_INVALID;
    if (model == NULL)
        pen_text_add(&reason, "is for text models only; drop it");
    else
        status = pen_model_add_local_heads(model, sections, &reason);
    if (status != PEN_OK)
        pen_why(why, "--local-updates %u: %s", sections,
                pen_text_string(&reason));
    pen_text_release(&reason);
    return status;
}

/* The model of --model, or else the one that the checkpoint has. */
static pen_status open_model(struct pen__training *training,
                             struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    const char *source = args->model != NULL ? args->model : args->load;
    pen_status status = pen_pretrained_open(&training->pretrained, source, why);
    if (status == PEN_OK && args->local_updates > 1)
        status = add_local_heads(training, why);
    if (status == PEN_OK && args->load != NULL && args->model != NULL)
        status = pen_checkpoint_open(args->load, NULL, &training->resumed, why);
    if (training->is_first) {
        pen__warn_skipped(training->pretrained.checkpoint);
        pen__warn_skipped(training->resumed);
    }
    return status;
}

/* A checkpoint that is the holder's is closed with what it holds. */
static void close_resumed(struct pen__training *training)
{
    if (training->resumed != training->held.kept.checkpoint)
        pen_checkpoint_close(training->resumed);
    training->resumed = NULL;
}

static pen_status find_held(struct pen__training *training,
                            struct pen_text *why)
{
    struct pen_checkpoint *found = NULL;
    if (training->args.is_check)
        return PEN_OK;
    pen_status status = pen__train_held_find(&training->held, &training->args,
                                             pen__training_checkpoint(training),
                                             training->transport, &found, why);
    if (found == NULL)
        return status;
    close_resumed(training);
    training->resumed = found;
    if (training->is_first)
        pen__warn_skipped(found);
    return status;
}

/* After the ranks were compared: all of them have to have the option. */
static pen_status add_checksums(struct pen__training *training,
                                struct pen_text *why)
{
    if (!training->args.has_checksums)
        return PEN_OK;
    pen_status status = pen_transport_add_checksums(training->transport, why);
    if (status == PEN_OK)
        status =
            pen_transport_add_checksums(pen__training_own_ranks(training), why);
    return status;
}

static pen_status check_room(struct pen__training *training,
                             const struct pen__train_layout *layout,
                             const struct pen__train_args *args,
                             struct pen_text *why)
{
    const struct pen__train_memory_question question = {
        .args = args,
        .layout = layout,
        .model = &training->pretrained.model,
        .sample = pen_batches_shape(training->batches),
        .transport = training->transport,
        .rank = pen_transport_rank(pen__training_own_ranks(training)),
        .num_ranks = layout->num_ranks};
    return pen__training_stands_alone(training)
               ? pen__train_check_fullest(&question, why)
               : pen__train_check_memory(&question, why);
}

/* Checks memory before anything large is allocated. */
static pen_status check_memory(struct pen__training *training,
                               struct pen_text *why)
{
    const struct pen__train_moves *moves = &training->moves;
    pen_status status =
        check_room(training, &training->layout, &training->args, why);
    for (size_t i = moves->next; i < moves->count && status == PEN_OK; i++) {
        const struct pen__train_move *move = &moves->items[i];
        status = check_room(training, &move->layout, &move->args, why);
        if (status != PEN_OK)
            pen__train_move_name(move, status, why);
    }
    return status;
}

static pen_status make_checkpointer(struct pen__training *training,
                                    struct pen_text *why)
{
    const char *folder = training->args.save;
    if (folder == NULL || training->args.is_check)
        return PEN_OK;
    const struct pen__train_saver_wish wish = {
        .args = &training->args,
        .pretrained = &training->pretrained,
        .loaded = pen__training_checkpoint(training),
        .run_id = training->folder.run};
    pen_status status = pen__train_saver_create(&wish, training->trainer,
                                                &training->checkpointer, why);
    return status == PEN_OK ? pen__training_join_folder(training, why) : status;
}

static pen_status connect_holder(struct pen__training *training,
                                 struct pen_text *why)
{
    if (training->args.is_check)
        return PEN_OK;
    return pen__train_held_connect(&training->held, training->transport, why);
}

static const char *without_commits(const struct pen__training *training)
{
    return training->replicas.has_method     ? "--sync"
           : training->moves.count > 0       ? "--move"
           : training->args.tensor_size > 1  ? "--tensor-model-parallel-size"
           : training->args.context_size > 1 ? "--context-parallel-size"
           : training->args.expert_size > 1  ? "--expert-model-parallel-size"
           : training->args.sparsity > 0     ? "--sparsity"
                                             : NULL;
}

static pen_status make_commits(struct pen__training *training,
                               struct pen_text *why)
{
    const char *option = without_commits(training);
    if (!training->held.is_everywhere || training->args.is_check)
        return PEN_OK;
    if (option != NULL) {
        if (training->is_first)
            pen_log(PEN_LOG_INFO,
                    "with %s no step is kept in memory: a restart resumes from "
                    "the last checkpoint of --save",
                    option);
        return PEN_OK;
    }
    const struct pen_commits_options options = {
        .trainer = training->trainer,
        .transport = training->transport,
        .nodes = &training->held.nodes,
        .client = &training->held.client,
        .run_id = training->folder.run,
        .describe = pen__train_fill_manifest,
        .context = &training->args};
    return pen_commits_create(&options, &training->commits, why);
}

static pen_status open_metrics(struct pen__training *training,
                               struct pen_text *why)
{
    return pen__train_metrics_open(&training->metrics, &training->args, why);
}

/* Other ranks read the files once all agree that they are there. */
static pen_status make_tokens(struct pen__training *training,
                              struct pen_text *why)
{
    if (training->args.texts.count == 0 || !training->is_first)
        return PEN_OK;
    return pen__train_text_make(&training->args, why);
}

static pen_status make_run(struct pen__training *training, struct pen_text *why)
{
    return pen__train_make_run(&training->args, training->is_first, why);
}

static pen_status describe_run(struct pen__training *training,
                               struct pen_text *why)
{
    const struct pen__train_facts facts = facts_of(training);
    return pen__train_describe(&facts, training->transport, &training->identity,
                               why);
}

static pen_status compare_ranks(struct pen__training *training,
                                struct pen_text *why)
{
    return pen__train_compare(&training->identity, training->transport, why);
}

static pen_status claim_folder(struct pen__training *training,
                               struct pen_text *why)
{
    if (training->args.is_check)
        return PEN_OK;
    return pen__train_folder_claim(&training->args,
                                   pen__training_checkpoint(training),
                                   training->transport, &training->folder, why);
}

static pen_status set_watch(struct pen__training *training,
                            struct pen_text *why)
{
    return pen__train_watch_init(&training->watch, &training->args,
                                 &training->layout, training->transport, why);
}

static pen_status find_ring(struct pen__training *training,
                            struct pen_text *why)
{
    return pen__train_ring_find(&training->ring, &training->args,
                                training->transport, why);
}

static pen_status describe_ring(struct pen__training *training,
                                struct pen_text *why)
{
    const struct pen__train_ring_facts facts = {
        .args = &training->args,
        .model = &training->pretrained.model,
        .choice = &training->replicas.choice,
        .batches = training->batches};
    return pen__train_ring_describe(&training->ring, &facts, why);
}

static pen_status join_replicas(struct pen__training *training,
                                struct pen_text *why)
{
    return pen__train_replicas_join(&training->replicas, &training->args,
                                    training->batches, training->trainer, why);
}

static pen_status load_replicas(struct pen__training *training,
                                struct pen_text *why)
{
    if (!training->replicas.has_method ||
        pen__training_checkpoint(training) == NULL)
        return PEN_OK;
    return pen_replicas_load(training->trainer,
                             pen__training_checkpoint(training), why);
}

/*
 * Restores replicas. They send each other what follows from it, so all must
 * have loaded.
 */
static pen_status restore_replicas(struct pen__training *training,
                                   struct pen_text *why)
{
    const struct pen_checkpoint *checkpoint =
        pen__training_checkpoint(training);
    uint64_t done = checkpoint == NULL ? 0 : checkpoint->manifest.step;
    bool is_island = training->replicas.island != NULL;
    if (!training->replicas.has_method || (checkpoint == NULL && !is_island) ||
        (is_island && training->args.is_check))
        return PEN_OK;
    pen_status status =
        pen_replicas_restored(pen_trainer_replicas(training->trainer), done);
    pen__train_ring_explain(&training->ring, why);
    if (status == PEN_OK && done < training->args.train_iters &&
        pen_replicas_are_over(pen_trainer_replicas(training->trainer)))
        training->held.is_unsaved = true;
    return status;
}

/* All ranks agree after each phase, and begin the next one together. */
static const struct phase {
    pen_status (*run)(struct pen__training *training, struct pen_text *why);
    const char *doing;
    bool needs_ranks; /* all of them */
} phases[] = {
    {connect_holder, "reaching the holder", false},
    {recall, "reading the options of --load", false},
    {open_metrics, "opening --metrics-port", false},
    {make_tokens, "making tokens of the text", false},
    {make_run, "making the folder of --run", false},
    {open_model, "opening the model", false},
    {find_held, "looking for steps in memory", false},
    {open_data, "opening the data", false},
    {find_ring, "reading the keys of --ring", false},
    {make_layout, "laying out the ranks", false},
    {make_moves, "reading the plans of --move", false},
    {claim_folder, "claiming the folder of --save", false},
    {describe_run, "describing the run", true},
    {compare_ranks, "comparing the ranks", true},
    {add_checksums, "making ready for --checksum-messages", true},
    {check_memory, "comparing memory with its limits", false},
    {set_watch, "opening the trace", false},
    {check_ranks, "checking the ranks", false},
    {make_trainer, "making the network", true},
    {pen__training_make_verifier, "making ready for --verify-interval", true},
    {set_weights, "setting the weights", true},
    {describe_ring, "describing the run to other islands", true},
    {join_replicas, "joining the replicas", true},
    {load_replicas, "loading the replicas", true},
    {restore_replicas, "restoring the replicas", true},
    {make_checkpointer, "making room for checkpoints", true},
    {make_commits, "making room for steps in memory", true}};

pen_status pen__training_prepare(struct pen__training *training,
                                 struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (size_t i = 0; i < sizeof phases / sizeof *phases && status == PEN_OK;
         i++)
        if (!phases[i].needs_ranks || !pen__training_stands_alone(training))
            status = pen__training_agree(training, phases[i].run(training, why),
                                         phases[i].doing, why);
    pen_pretrained_close_weights(&training->pretrained);
    close_resumed(training);
    pen__train_held_drop(&training->held);
    return status;
}
