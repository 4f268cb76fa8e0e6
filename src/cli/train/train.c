/*
 * penstock train: trains a network on text or images, in one process or as one
 * rank of many.
 */
#include "cli/program/cli.h"

#include "base/log.h"
#include "cli/train/check.h"
#include "cli/train/checkpoint.h"
#include "cli/train/data.h"
#include "cli/train/folder.h"
#include "cli/train/held.h"
#include "cli/train/lost.h"
#include "cli/train/memory.h"
#include "cli/train/replicas.h"
#include "cli/train/report.h"
#include "cli/train/signals.h"
#include "cli/train/sizes.h"
#include "cli/train/start.h"
#include "cli/train/text.h"
#include "cli/train/watch.h"
#include "host/peak.h"
#include "host/threads.h"
#include "runtime/agree.h"
#include "runtime/replicas_checkpoint.h"
#include "runtime/verifier.h"
#include "watch/watchdog.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* What a training holds; all may be NULL. */
struct training {
    struct pen__train_args args;
    struct pen_launch launch;
    struct pen_transport *transport; /* of all ranks */
    struct pen__train_replicas replicas;
    bool is_first; /* of the ranks: this one talks */
    struct pen_pretrained pretrained;
    struct pen_checkpoint *resumed; /* beside --model: of --load, or found */
    struct pen__train_held held;    /* steps in memory */
    struct pen_run_folder folder;   /* of --save */
    struct pen_batches *batches;
    struct pen_batches *validation;
    struct pen__train_layout layout; /* that it begins with */
    struct pen__train_moves moves;   /* to others */
    struct pen_launch_identity identity;
    struct pen__train_watch watch;
    struct pen_trainer *trainer;
    struct pen_verifier *verifier; /* NULL: replicas are not compared */
    struct pen_checkpointer *checkpointer;
    struct pen_commits *commits; /* NULL: no step is kept in memory */
    struct pen_step *steps;      /* that a pass tells */
    double last_sec;             /* of a step of the pass before */
    int threads;
    double peak_flops; /* of this rank; NaN: not measured */
    struct pen__train_metrics metrics;
    struct pen__train_report report;
    struct pen__train_signals signals;
    size_t predicted_bytes; /* of memory, with the layout that it has */
    bool is_stopped;        /* before the last step */
};

/* ---- making ready ---- */

static pen_status open_data(struct training *training, struct pen_text *why)
{
    struct pen__train_args *args = &training->args;
    const struct pen_any_model *model = &training->pretrained.model;
    struct pen__data_wish wish = {.data_path = &args->data_path,
                                  .token_ids = args->token_ids,
                                  .split = args->split,
                                  .seq_length = args->seq_length,
                                  .seed = args->seed};
    pen_status status = pen__data_open(model, &wish, &training->batches, why);
    /* What was not given is a setting of the run, too. */
    if (status == PEN_OK && model->decoder != NULL && args->token_ids == NULL)
        args->seq_length = pen_batches_shape(training->batches).num_ids;
    if (status != PEN_OK || args->eval_interval == 0)
        return status;
    wish.is_evaluation = true;
    return pen__data_open(model, &wish, &training->validation, why);
}

static const struct pen_checkpoint *
checkpoint_of(const struct training *training)
{
    if (training->resumed != NULL)
        return training->resumed;
    return training->args.load == NULL ? NULL : training->pretrained.checkpoint;
}

/* Those of this replica. */
static struct pen_transport *own_ranks(const struct training *training)
{
    return pen__train_replicas_transport(&training->replicas,
                                         training->transport);
}

/* Steps of the checkpoint from which the run resumes; 0: it begins. */
static uint64_t steps_before(const struct training *training)
{
    const struct pen_checkpoint *checkpoint = checkpoint_of(training);
    return checkpoint == NULL ? 0 : checkpoint->manifest.step;
}

/* Logical replicas of the checkpoint; 0: nothing is resumed. */
static uint64_t kept_replicas(const struct training *training)
{
    const struct pen_checkpoint *checkpoint = checkpoint_of(training);
    return checkpoint == NULL ? 0 : checkpoint->manifest.num_replicas;
}

/* Sums are made of these parts: another number of them has other bits. */
static void report_replicas(const struct training *training, uint64_t kept)
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

/* Where all ranks can leave out the same step. */
static pen_status check_skipping(const struct training *training,
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

static pen_status make_layout(struct training *training, struct pen_text *why)
{
    bool is_clipping_open = isnan(training->args.numbers.clip_norm);
    uint64_t kept = kept_replicas(training);
    bool is_open = training->args.logical_replicas == 0;
    if (is_open)
        training->args.logical_replicas = kept;
    uint32_t num_ranks = pen_transport_size(training->transport);
    pen_status status = pen__train_moves_read(&training->moves, &training->args,
                                              steps_before(training), why);
    if (status == PEN_OK && training->pretrained.model.decoder != NULL)
        status = pen__train_take_sizes(&training->args, &num_ranks, why);
    if (status == PEN_OK)
        status = pen__train_replicas_init(&training->replicas, &training->args,
                                          &training->pretrained.model,
                                          training->transport, why);
    if (status == PEN_OK && training->replicas.has_method)
        num_ranks = pen_transport_size(own_ranks(training));
    if (status == PEN_OK)
        status = pen__train_layout_init(
            &training->layout, &training->args, &training->pretrained.model,
            pen_batches_shape(training->batches).num_ids, num_ranks, why);
    if (status == PEN_OK)
        status = check_skipping(training, why);
    if (status == PEN_OK && kept != 0 && is_open)
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

/* A check of one process may be of more ranks than there are. */
static bool stands_alone(const struct training *training)
{
    return pen__train_check_stands_alone(&training->layout,
                                         own_ranks(training));
}

/* The last step that is kept counts from here on. */
static void finish_commit(struct training *training)
{
    uint64_t step = 0;
    if (training->commits != NULL)
        step = pen_commits_finish(training->commits);
    if (step > 0)
        pen__train_metrics_set(&training->metrics, PEN_METRIC_MEMORY_STEP,
                               (double)step);
}

/* What this rank wants after the step, or after those that overlap. */
static void vote(void *context)
{
    struct training *training = context;
    struct pen_trainer *trainer = training->trainer;
    double limit_sec = 60 * training->args.exit_minutes;
    finish_commit(training);
    if (pen__train_signal_to_stop() != 0)
        pen_trainer_vote(trainer, PEN_VOTE_STOP);
    if (training->is_first &&
        pen__train_report_clock(&training->report) >= limit_sec)
        pen_trainer_vote(trainer, PEN_VOTE_STOP);
    if (pen__train_signal_to_save())
        pen_trainer_vote(trainer, PEN_VOTE_SAVE);
    if (training->checkpointer != NULL &&
        pen_checkpointer_is_busy(training->checkpointer) &&
        pen_checkpointer_is_over(training->checkpointer))
        pen_trainer_vote(trainer, PEN_VOTE_SAVED);
}

static struct pen_trainer_options
options_of(struct training *training, const struct pen__train_layout *layout,
           const struct pen__train_args *args)
{
    struct pen_trainer_options options =
        pen__train_layout_options(layout, args, &training->pretrained.model,
                                  pen_batches_shape(training->batches));
    options.threads = training->threads;
    options.transport = own_ranks(training);
    options.world = training->replicas.has_method ? training->transport : NULL;
    options.watch = pen__train_watch_hooks(&training->watch);
    options.vote = vote;
    options.voter = training;
    return options;
}

static struct pen_trainer_options trainer_options(struct training *training)
{
    return options_of(training, &training->layout, &training->args);
}

/* As far as one rank can see that without the others. */
static pen_status check_move(struct training *training,
                             const struct pen__train_move *move,
                             struct pen_text *why)
{
    struct pen_trainer_options from = trainer_options(training);
    struct pen_trainer_options to =
        options_of(training, &move->layout, &move->args);
    pen_status status = pen_trainer_check_move(&from, &to, why);
    if (status == PEN_OK)
        status = pen_trainer_check(&to, pen_transport_rank(to.transport),
                                   to.num_ranks, why);
    if (status != PEN_OK)
        pen__train_move_name(move, status, why);
    return status;
}

static struct pen__train_facts facts_of(const struct training *training)
{
    return (struct pen__train_facts){
        .args = &training->args,
        .layout = &training->layout,
        .moves = &training->moves,
        .model = &training->pretrained.model,
        .sequence = pen_batches_shape(training->batches).num_ids};
}

/* Before the plans are read: whether the run could move anywhere. */
static pen_status make_moves(struct training *training, struct pen_text *why)
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

static pen_status check_ranks(struct training *training, struct pen_text *why)
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

static pen_status make_trainer(struct training *training, struct pen_text *why)
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

static pen_status set_weights(struct training *training, struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    const struct pen_weights *weights = training->pretrained.weights;
    if (checkpoint_of(training) != NULL)
        return pen__train_resume(args, checkpoint_of(training),
                                 training->trainer, training->is_first, why);
    if (weights == NULL || args->has_random_weights)
        return pen_trainer_initialize(training->trainer, args->seed);
    pen_status status =
        pen_trainer_load_weights(training->trainer, weights, why);
    if (status == PEN_OK && training->is_first)
        pen__train_tell_loaded(&training->pretrained);
    return status;
}

/* What was remembered when the command line was read. */
static pen_status recall(struct training *training, struct pen_text *why)
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

/* The model of --model, or else the one that the checkpoint has. */
static pen_status open_model(struct training *training, struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    const char *source = args->model != NULL ? args->model : args->load;
    pen_status status = pen_pretrained_open(&training->pretrained, source, why);
    if (status == PEN_OK && args->load != NULL && args->model != NULL)
        status = pen_checkpoint_open(args->load, NULL, &training->resumed, why);
    if (training->is_first) {
        pen__warn_skipped(training->pretrained.checkpoint);
        pen__warn_skipped(training->resumed);
    }
    return status;
}

/* A checkpoint that is the holder's is closed with what it holds. */
static void close_resumed(struct training *training)
{
    if (training->resumed != training->held.kept.checkpoint)
        pen_checkpoint_close(training->resumed);
    training->resumed = NULL;
}

static pen_status find_held(struct training *training, struct pen_text *why)
{
    struct pen_checkpoint *found = NULL;
    if (training->args.is_check)
        return PEN_OK;
    pen_status status = pen__train_held_find(&training->held, &training->args,
                                             checkpoint_of(training),
                                             training->transport, &found, why);
    if (found == NULL)
        return status;
    close_resumed(training);
    training->resumed = found;
    if (training->is_first)
        pen__warn_skipped(found);
    return status;
}

/* First of all, since this may start the program again to bind its threads. */
static pen_status start_threads(struct training *training, struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    struct pen_threads_options options =
        pen__train_threads(args, &training->launch);
    struct pen_threads threads = {.count = 0};
    if (!args->engine->uses_threads)
        return PEN_OK;
    pen_status status = pen_threads_start(&options, &threads, why);
    training->threads = threads.count;
    return status;
}

/* The peak is measured before there is anything in memory beside it. */
static pen_status measure_peak(struct training *training, struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    training->peak_flops = 1e12 * args->peak_tflops;
    if (!args->engine->uses_threads || args->is_check ||
        isfinite(training->peak_flops))
        return PEN_OK;
    return pen_peak_flops(args->is_bf16 ? PEN_PRECISION_BF16
                                        : PEN_PRECISION_F32,
                          training->threads, why, &training->peak_flops);
}

/* After the ranks were compared: all of them have to have the option. */
static pen_status add_checksums(struct training *training, struct pen_text *why)
{
    if (!training->args.has_checksums)
        return PEN_OK;
    pen_status status = pen_transport_add_checksums(training->transport, why);
    if (status == PEN_OK)
        status = pen_transport_add_checksums(own_ranks(training), why);
    return status;
}

static pen_status check_room(struct training *training,
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
        .rank = pen_transport_rank(own_ranks(training)),
        .num_ranks = layout->num_ranks};
    return stands_alone(training) ? pen__train_check_fullest(&question, why)
                                  : pen__train_check_memory(&question, why);
}

/* Before anything large is allocated. */
static pen_status check_memory(struct training *training, struct pen_text *why)
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

static pen_status make_verifier(struct training *training, struct pen_text *why)
{
    const struct pen_layout *layout = pen_trainer_layout(training->trainer);
    bool has_moved = layout->mesh.epoch > 0;
    if (training->args.verify_interval == 0 ||
        (has_moved && pen_layout_copies(layout) == 1))
        return PEN_OK;
    return pen_verifier_create(training->trainer, &training->verifier, why);
}

/* A rank that writes to the run folder, and did not claim it, joins it. */
static pen_status join_folder(const struct training *training,
                              struct pen_text *why)
{
    if (training->is_first ||
        !pen_checkpointer_is_writing(training->checkpointer))
        return PEN_OK;
    return pen_run_folder_join(training->args.save, training->folder.run, why);
}

static pen_status make_checkpointer(struct training *training,
                                    struct pen_text *why)
{
    const char *folder = training->args.save;
    if (folder == NULL || training->args.is_check)
        return PEN_OK;
    const struct pen__train_saver_wish wish = {
        .args = &training->args,
        .pretrained = &training->pretrained,
        .loaded = checkpoint_of(training),
        .run_id = training->folder.run};
    pen_status status = pen__train_saver_create(&wish, training->trainer,
                                                &training->checkpointer, why);
    return status == PEN_OK ? join_folder(training, why) : status;
}

static pen_status connect_holder(struct training *training,
                                 struct pen_text *why)
{
    if (training->args.is_check)
        return PEN_OK;
    return pen__train_held_connect(&training->held, training->transport, why);
}

static const char *without_commits(const struct training *training)
{
    return training->replicas.has_method ? "--sync"
           : training->moves.count > 0   ? "--move"
                                         : NULL;
}

static pen_status make_commits(struct training *training, struct pen_text *why)
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

/* The status of one rank becomes that of all; see runtime/agree.h. */
static pen_status agree(struct training *training, pen_status status,
                        const char *doing, struct pen_text *why)
{
    enum pen_board_state before = training->watch.state;
    if (status == PEN_LOST)
        return status;
    pen__train_watch_note(&training->watch, PEN_BOARD_COLLECTIVE);
    status = pen_agree(training->transport, status, doing,
                       pen__train_patience(&training->args), why);
    if (status != PEN_LOST) /* or others read that this rank goes on */
        pen__train_watch_note(&training->watch, before);
    return status;
}

static pen_status open_metrics(struct training *training, struct pen_text *why)
{
    return pen__train_metrics_open(&training->metrics, &training->args, why);
}

/* Other ranks read the files once all agree that they are there. */
static pen_status make_tokens(struct training *training, struct pen_text *why)
{
    if (training->args.texts.count == 0 || !training->is_first)
        return PEN_OK;
    return pen__train_text_make(&training->args, why);
}

static pen_status make_run(struct training *training, struct pen_text *why)
{
    return pen__train_make_run(&training->args, training->is_first, why);
}

static pen_status describe_run(struct training *training, struct pen_text *why)
{
    const struct pen__train_facts facts = facts_of(training);
    return pen__train_describe(&facts, training->transport, &training->identity,
                               why);
}

static pen_status compare_ranks(struct training *training, struct pen_text *why)
{
    return pen__train_compare(&training->identity, training->transport, why);
}

static pen_status claim_folder(struct training *training, struct pen_text *why)
{
    if (training->args.is_check)
        return PEN_OK;
    return pen__train_folder_claim(&training->args, checkpoint_of(training),
                                   training->transport, &training->folder, why);
}

static pen_status set_watch(struct training *training, struct pen_text *why)
{
    return pen__train_watch_init(&training->watch, &training->args,
                                 &training->layout, training->transport, why);
}

static pen_status join_replicas(struct training *training, struct pen_text *why)
{
    return pen__train_replicas_join(&training->replicas, &training->args,
                                    training->batches, training->trainer, why);
}

static pen_status load_replicas(struct training *training, struct pen_text *why)
{
    if (!training->replicas.has_method || checkpoint_of(training) == NULL)
        return PEN_OK;
    return pen_replicas_load(training->trainer, checkpoint_of(training), why);
}

/* Replicas send each other what follows from it, so all must have loaded. */
static pen_status restore_replicas(struct training *training,
                                   struct pen_text *why)
{
    (void)why;
    if (!training->replicas.has_method || checkpoint_of(training) == NULL)
        return PEN_OK;
    return pen_replicas_restored(pen_trainer_replicas(training->trainer),
                                 checkpoint_of(training)->manifest.step);
}

/* All ranks agree after each phase, and begin the next one together. */
static const struct phase {
    pen_status (*run)(struct training *training, struct pen_text *why);
    const char *doing;
    bool needs_ranks; /* all of them */
} phases[] = {{connect_holder, "reaching the holder", false},
              {recall, "reading the options of --load", false},
              {open_metrics, "opening --metrics-port", false},
              {make_tokens, "making tokens of the text", false},
              {make_run, "making the folder of --run", false},
              {open_model, "opening the model", false},
              {find_held, "looking for steps in memory", false},
              {open_data, "opening the data", false},
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
              {make_verifier, "making ready for --verify-interval", true},
              {set_weights, "setting the weights", true},
              {join_replicas, "joining the replicas", true},
              {load_replicas, "loading the replicas", true},
              {restore_replicas, "restoring the replicas", true},
              {make_checkpointer, "making room for checkpoints", true},
              {make_commits, "making room for steps in memory", true}};

static pen_status make_ready(struct training *training, struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (size_t i = 0; i < sizeof phases / sizeof *phases && status == PEN_OK;
         i++)
        if (!phases[i].needs_ranks || !stands_alone(training))
            status = agree(training, phases[i].run(training, why),
                           phases[i].doing, why);
    pen_pretrained_close_weights(&training->pretrained);
    close_resumed(training);
    pen__train_held_drop(&training->held);
    return status;
}

static void release(struct training *training, bool is_done)
{
    pen__train_metrics_close(&training->metrics);
    pen_checkpointer_free(training->checkpointer);
    pen_commits_free(training->commits);
    pen_verifier_free(training->verifier);
    pen_trainer_free(training->trainer);
    pen__train_watch_release(&training->watch);
    free(training->steps);
    pen__train_moves_release(&training->moves);
    pen__train_layout_release(&training->layout);
    pen_batches_free(training->batches);
    pen_batches_free(training->validation);
    pen_run_folder_release(&training->folder);
    pen_pretrained_release(&training->pretrained);
    pen__train_args_release(&training->args);
    pen__train_signals_release(&training->signals);
    pen__train_replicas_release(&training->replicas);
    pen__train_held_release(&training->held, is_done);
    pen_transport_close(training->transport);
}

/* ---- memory ---- */

static void predict_memory(struct training *training,
                           struct pen_trainer_memory *memory)
{
    const struct pen_checkpointer *checkpointer = training->checkpointer;
    size_t kept = 0, passing = 0;
    if (checkpointer != NULL) {
        kept = pen_checkpointer_bytes(checkpointer);
        passing = pen_checkpointer_passing_bytes(checkpointer);
    }
    if (training->commits != NULL)
        kept += pen_commits_bytes(training->commits);
    pen_trainer_predict_memory(training->trainer, kept, passing, memory);
    training->predicted_bytes = memory->total;
}

static void tell_memory(const struct training *training,
                        const struct pen_trainer_memory *memory)
{
    if (!training->is_first)
        return;
    pen_log(PEN_LOG_INFO,
            "%.1f M parameters; memory will be %.1f MB: parameters, "
            "gradients and moments %.1f, activations %.1f (logits %.1f), "
            "sums %.1f, snapshot %.1f, program %.1f, temporary %.1f",
            1e-6 * (double)pen_any_model_num_parameters(
                       &training->pretrained.model),
            PEN__MB(memory->total), PEN__MB(memory->parameters),
            PEN__MB(memory->activations), PEN__MB(memory->logits),
            PEN__MB(memory->exchange), PEN__MB(memory->snapshot),
            PEN__MB(memory->program), PEN__MB(memory->passing));
    if (memory->loading > memory->total)
        pen_log(PEN_LOG_INFO, "the setup used up to %.1f MB",
                PEN__MB(memory->loading));
}

static void warn_of_engine(const struct training *training)
{
    if (training->is_first && training->args.engine->is_for_tests)
        pen_log(PEN_LOG_WARN,
                "--engine %s is for tests of this program; use onednn or "
                "reference to train",
                training->args.engine_name);
}

static void warn_of_bf16(const struct training *training)
{
    if (training->is_first && training->args.is_bf16 &&
        training->args.engine->uses_threads && !pen_engine_onednn_has_bf16())
        pen_log(PEN_LOG_WARN,
                "this processor has no bf16 and emulates it, many times slower "
                "than f32; leave out --bf16, or see penstock doctor");
}

/* ---- training ---- */

/* Each sample of the validation part once at most. */
static pen_status evaluate(struct training *training,
                           struct pen_evaluation *out, struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    uint64_t count = pen_batches_epoch(training->validation);
    uint64_t wanted = args->eval_iters * args->global_batch_size;
    pen__train_watch_note(&training->watch, PEN_BOARD_COMPUTING);
    return pen_trainer_evaluate(training->trainer, training->validation,
                                wanted < count ? wanted : count, out, why);
}

static bool is_due(uint64_t step, uint64_t interval)
{
    return interval > 0 && step % interval == 0;
}

static void note_checkpoint(struct training *training)
{
    uint64_t step = 0;
    if (training->checkpointer != NULL)
        step = pen_checkpointer_durable_step(training->checkpointer);
    if (step > 0)
        pen__train_metrics_set(&training->metrics, PEN_METRIC_CHECKPOINT_STEP,
                               (double)step);
}

static pen_status report_step(struct training *training,
                              const struct pen_step *step, double sec,
                              struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    struct pen_evaluation validation = {(double)NAN, (double)NAN};
    pen_status status = PEN_OK;
    if (training->validation != NULL &&
        (is_due(step->step, args->eval_interval) ||
         step->step == args->train_iters))
        status = evaluate(training, &validation, why);
    note_checkpoint(training);
    if (status == PEN_OK)
        pen__train_report_step(&training->report, step, sec, &validation);
    return status;
}

static pen_status set_pass(struct training *training, uint64_t done,
                           struct pen_text *why)
{
    const struct pen_schedule *schedule;
    pen_status status = pen__train_layout_set_pass(
        &training->layout, &training->args, done, &schedule, why);
    if (status != PEN_OK || schedule == NULL)
        return status;
    pen__train_watch_set_schedule(&training->watch, schedule);
    return pen_trainer_set_schedule(training->trainer, schedule, why);
}

/* Whether something needs the parameters of a step, or this one ends it all. */
static bool is_pause(const struct training *training, uint64_t step)
{
    const struct pen__train_args *args = &training->args;
    return step >= args->train_iters ||
           (training->validation != NULL &&
            is_due(step, args->eval_interval)) ||
           (training->checkpointer != NULL &&
            is_due(step, args->save_interval)) ||
           (training->verifier != NULL &&
            is_due(step, args->verify_interval)) ||
           pen__train_moves_are_due(&training->moves, step);
}

/* Whether ranks want to stop or to save, or have saved. */
static bool has_wishes(const struct training *training,
                       const struct pen_step *step)
{
    return step->votes[PEN_VOTE_STOP] > 0 || step->votes[PEN_VOTE_SAVE] > 0 ||
           (training->checkpointer != NULL &&
            pen_checkpointer_is_busy(training->checkpointer) &&
            step->votes[PEN_VOTE_SAVED] ==
                pen_transport_size(training->transport));
}

/*
 * Waits until the last step is validated, where something needs that. Wishes of
 * the step before are then those of the last one.
 */
static pen_status settle_step(struct training *training, uint32_t *count,
                              struct pen_text *why)
{
    uint64_t done = pen_trainer_progress(training->trainer).steps;
    const struct pen_step *before = &training->steps[0];
    struct pen_step *last = &training->steps[*count];
    uint32_t more = 0;
    bool is_wished = *count > 0 && has_wishes(training, before);
    if (!is_wished && !is_pause(training, done))
        return PEN_OK;
    pen_status status = pen_trainer_settle(training->trainer, last, &more, why);
    for (int i = 0; i < PEN_VOTES && more > 0 && is_wished; i++)
        last->votes[i] = fmax(last->votes[i], before->votes[i]);
    *count += more;
    return status;
}

/* `done` steps were taken before the pass, which took so long for each. */
static pen_status report_steps(struct training *training, uint32_t count,
                               uint64_t done, double sec, struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < count && status == PEN_OK; i++) {
        const struct pen_step *step = &training->steps[i];
        status = report_step(training, step,
                             step->step > done ? sec : training->last_sec, why);
    }
    training->last_sec = sec;
    return status;
}

/*
 * One step, or as many as overlap before the pipeline has to be empty; those
 * that are known then are in training->steps.
 */
static pen_status train_pass(struct training *training, uint32_t *count,
                             struct pen_text *why)
{
    struct pen__train_report *report = &training->report;
    uint64_t done = pen_trainer_progress(training->trainer).steps;
    pen_status status = set_pass(training, done, why);
    double begin = pen__train_report_clock(report);
    if (status != PEN_OK)
        return status;
    pen__train_watch_begin(&training->watch, done + 1);
    status = pen_trainer_pass(training->trainer, training->batches,
                              training->steps, count, why);
    if (status == PEN_OK)
        status = settle_step(training, count, why);
    if (pen_trainer_has_failed_alone(training->trainer) &&
        pen_transport_size(training->transport) > 1)
        pen_agree_alone(training->transport, status, "training", why);
    if (status != PEN_OK)
        return status;
    double sec = (pen__train_report_clock(report) - begin) /
                 (double)(pen_trainer_progress(training->trainer).steps - done);
    pen__train_watch_end(&training->watch,
                         sec * training->layout.overlapping_steps);
    return report_steps(training, *count, done, sec, why);
}

/* Before a checkpoint, so that none is written of what is damaged. */
static pen_status verify(struct training *training, uint64_t done,
                         uint64_t step, struct pen_text *why)
{
    uint64_t interval = training->args.verify_interval;
    if (training->verifier == NULL || done / interval == step / interval)
        return PEN_OK;
    pen__train_watch_note(&training->watch, PEN_BOARD_COMPUTING);
    return pen_verifier_check(training->verifier, step, why);
}

/* All ranks do the same here: they know the same votes. */
static pen_status look_after_checkpoints(struct training *training,
                                         const struct pen_step *step,
                                         bool is_last)
{
    struct pen_checkpointer *checkpointer = training->checkpointer;
    double size = pen_transport_size(training->transport);
    pen_status status = PEN_OK;
    if (checkpointer == NULL)
        return PEN_OK;
    bool is_wanted = is_last || step->votes[PEN_VOTE_SAVE] > 0 ||
                     is_due(step->step, training->args.save_interval);
    pen__train_watch_note(&training->watch, PEN_BOARD_SAVING);
    if (pen_checkpointer_is_busy(checkpointer) &&
        step->votes[PEN_VOTE_SAVED] == size &&
        step->step - step->vote_delay > pen_checkpointer_step(checkpointer))
        status = pen_checkpointer_collect(checkpointer);
    if (status == PEN_OK && is_wanted &&
        pen_checkpointer_is_busy(checkpointer)) {
        struct pen_text why = PEN_TEXT_EMPTY;
        status =
            pen_checkpointer_settle(checkpointer, &why); /* which prints it */
        pen_text_release(&why);
    }
    if (is_wanted && status != PEN_LOST)
        status = pen_checkpointer_begin(checkpointer);
    if (status == PEN_LOST)
        return status;
    pen__train_watch_note(&training->watch, PEN_BOARD_COMPUTING);
    return PEN_OK;
}

/* Behind every step that is known to be right. */
static pen_status keep_step(struct training *training, struct pen_text *why)
{
    if (training->commits == NULL)
        return PEN_OK;
    pen__train_watch_note(&training->watch, PEN_BOARD_SAVING);
    pen_status status = pen_commits_take(training->commits, why);
    if (status == PEN_LOST && !pen_transport_has_lost(training->transport)) {
        pen_commits_free(training->commits);
        training->commits = NULL;
        status = pen__train_held_missed(&training->held, why);
    }
    pen__train_watch_note(&training->watch, PEN_BOARD_COMPUTING);
    return status;
}

static pen_status settle(struct training *training, struct pen_text *why)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    if (training->checkpointer == NULL)
        return PEN_OK;
    pen__train_watch_note(&training->watch, PEN_BOARD_SAVING);
    pen_status status =
        pen_checkpointer_settle(training->checkpointer, &reason);
    if (status != PEN_OK && status != PEN_LOST)
        pen_why(why, "the last checkpoint was not written: %s",
                reason.length > 0 ? pen_text_string(&reason)
                                  : pen_status_text(status));
    pen_text_release(&reason);
    return status;
}

static void set_predictions(struct training *training)
{
    struct pen__train_metrics *metrics = &training->metrics;
    const struct pen__train_report *report = &training->report;
    pen__train_metrics_set(metrics, PEN_METRIC_RANKS,
                           pen_transport_size(training->transport));
    pen__train_metrics_set(metrics, PEN_METRIC_MEMORY_PREDICTED,
                           (double)training->predicted_bytes);
    pen__train_metrics_set(metrics, PEN_METRIC_BUBBLE_PREDICTED,
                           report->has_bubble ? report->predicted_bubble
                                              : (double)NAN);
    if (training->held.settings.epoch == 0)
        return;
    pen__train_metrics_set(metrics, PEN_METRIC_EPOCH,
                           (double)training->held.settings.epoch);
    pen__train_metrics_set(metrics, PEN_METRIC_RESTARTS,
                           (double)training->held.settings.epoch - 1);
}

/* ---- moving ---- */

/* All that depends on the layout, on this rank alone. */
static pen_status follow_move(struct training *training,
                              const struct pen__train_move *move,
                              struct pen_text *why)
{
    pen_status status = make_verifier(training, why);
    if (status == PEN_OK && training->checkpointer != NULL)
        status = pen_checkpointer_reload(training->checkpointer, why);
    if (status == PEN_OK && training->checkpointer != NULL)
        status = join_folder(training, why);
    pen__train_watch_move(&training->watch, &move->layout,
                          pen_transport_rank(training->transport));
    return status;
}

static void report_move(struct training *training,
                        const struct pen__train_move *move,
                        const struct pen_move_cost *cost)
{
    struct pen__train_report *report = &training->report;
    struct pen_trainer_memory memory;
    predict_memory(training, &memory);
    report->predicted_bubble = move->layout.predicted_bubble;
    report->peak_flops = training->peak_flops * move->layout.num_ranks;
    set_predictions(training);
    pen__train_report_move(report, cost);
    if (!training->is_first)
        return;
    pen__train_report_clear(report);
    pen__train_move_tell(move, cost);
}

/* All ranks come here after the same step. */
static pen_status move_on(struct training *training, uint64_t done,
                          struct pen_text *why)
{
    struct pen__train_move *move =
        pen__train_moves_take(&training->moves, done);
    struct pen_text reason = PEN_TEXT_EMPTY;
    struct pen_move_cost cost;
    if (move == NULL)
        return PEN_OK;
    pen__train_watch_note(&training->watch, PEN_BOARD_SAVING);
    pen_status settled = PEN_OK;
    if (training->checkpointer != NULL)
        settled = pen_checkpointer_settle(training->checkpointer, &reason);
    pen_text_release(&reason); /* settling has printed it */
    if (settled == PEN_LOST)
        return settled;
    if (training->checkpointer != NULL)
        pen_checkpointer_unload(training->checkpointer);
    pen_verifier_free(training->verifier);
    training->verifier = NULL;
    pen__train_watch_note(&training->watch, PEN_BOARD_PREPARING);
    struct pen_trainer_options to =
        options_of(training, &move->layout, &move->args);
    pen_status status = pen_trainer_move(training->trainer, &to, &cost, why);
    if (status == PEN_OK)
        status = agree(training, follow_move(training, move, why),
                       "following a move", why);
    if (status == PEN_OK)
        report_move(training, move, &cost);
    return status;
}

/* Steps until the end or a signal, with checkpoints between and behind. */
static pen_status run_steps(struct training *training, struct pen_text *why)
{
    uint64_t last = training->args.train_iters;
    pen_status status = PEN_OK;
    while (pen_trainer_progress(training->trainer).steps < last &&
           status == PEN_OK && !training->is_stopped) {
        uint32_t count = 0;
        uint64_t done = pen_trainer_progress(training->trainer).steps;
        status = train_pass(training, &count, why);
        const struct pen_step *step =
            &training->steps[count > 0 ? count - 1 : 0];
        bool is_settled =
            count > 0 &&
            step->step == pen_trainer_progress(training->trainer).steps;
        if (status == PEN_OK && is_settled)
            status = verify(training, done, step->step, why);
        if (status == PEN_OK && is_settled)
            status = keep_step(training, why);
        if (status != PEN_OK)
            return status;
        if (!is_settled)
            continue;
        training->is_stopped =
            step->votes[PEN_VOTE_STOP] > 0 && step->step < last;
        status = look_after_checkpoints(
            training, step, training->is_stopped || step->step == last);
        if (status == PEN_OK && !training->is_stopped)
            status = move_on(training, step->step, why);
    }
    finish_commit(training);
    if (status == PEN_OK && pen_trainer_replicas(training->trainer) != NULL)
        status = pen_replicas_leave(pen_trainer_replicas(training->trainer));
    return status;
}

static pen_status tell_end(struct training *training)
{
    const struct pen__train_args *args = &training->args;
    uint64_t done = pen_trainer_progress(training->trainer).steps;
    pen_status status = pen__train_tell_peaks(args, training->transport,
                                              training->predicted_bytes);
    if (status == PEN_OK && training->is_first)
        pen__train_replicas_tell(training->trainer,
                                 done - training->report.first_step);
    if (status == PEN_OK)
        status = pen__train_tell_sent(training->transport);
    if (status != PEN_OK)
        return status;
    if (training->is_first && training->commits != NULL)
        pen_log(PEN_LOG_INFO,
                "each step was kept in memory, for which the next one waited "
                "%.1f ms",
                1e3 * pen_commits_seconds(training->commits));
    uint64_t redone = pen_trainer_num_redone(training->trainer);
    if (training->is_first && redone > 0)
        pen_log(PEN_LOG_INFO,
                "%" PRIu64 " steps were undone and done again, because their "
                "gradients had to be clipped",
                redone);
    if (training->is_first && args->texts.count > 0)
        pen_log(PEN_LOG_INFO,
                "to write with it: penstock generate --model %s --prompt A",
                args->save);
    if (!training->is_stopped || !training->is_first)
        return PEN_OK;
    if (args->save != NULL)
        pen_log(PEN_LOG_INFO,
                "stopped after step %" PRIu64
                "; to resume: penstock train --load %s",
                done, args->save);
    else
        pen_log(PEN_LOG_WARN,
                "stopped after step %" PRIu64
                "; no checkpoint was written, because --save is not given",
                done);
    return PEN_OK;
}

static pen_status open_report(struct training *training, uint64_t done,
                              struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    struct pen__train_report *report = &training->report;
    pen_status status = pen__train_report_open(report, args, done, why);
    if (status != PEN_OK)
        return status;
    report->is_quiet = !training->is_first;
    report->unit = pen_batches_unit(training->batches);
    report->step_tokens = args->global_batch_size *
                          pen_batches_shape(training->batches).num_targets;
    uint64_t num_replicas = args->global_batch_size / args->replica_batch;
    report->step_flops =
        pen_trainer_step_flops(training->trainer) * (double)num_replicas;
    report->peak_flops =
        training->peak_flops * (training->replicas.has_method
                                    ? pen_transport_size(training->transport)
                                    : training->layout.num_ranks);
    report->has_bubble = pen_transport_size(training->transport) > 1;
    report->predicted_bubble = training->layout.predicted_bubble;
    report->metrics = &training->metrics;
    return PEN_OK;
}

/*
 * The step that the run goes on from may have been lost on its way to the disk,
 * and another may not be due for long.
 */
static pen_status save_kept(struct training *training)
{
    const struct pen__train_args *args = &training->args;
    uint64_t done = pen_trainer_progress(training->trainer).steps;
    if (!training->held.is_unsaved || training->checkpointer == NULL ||
        (done < args->train_iters && !is_due(done, args->save_interval)))
        return PEN_OK;
    pen__train_watch_note(&training->watch, PEN_BOARD_SAVING);
    pen_status status = pen_checkpointer_begin(training->checkpointer);
    return status == PEN_LOST ? status : PEN_OK; /* settle() tells others */
}

/* All steps were done before. */
static pen_status finish(struct training *training, struct pen_text *why)
{
    if (training->is_first)
        pen_log(PEN_LOG_INFO,
                "nothing to do: the checkpoint has all %" PRIu64
                " steps of --train-iters; give more to train further",
                training->args.train_iters);
    pen_status status = save_kept(training);
    if (status == PEN_OK)
        status = settle(training, why);
    return agree(training, status, "writing the last checkpoint", why);
}

static pen_status train(struct training *training, struct pen_text *why)
{
    const struct pen__train_args *args = &training->args;
    struct pen_trainer_memory memory;
    uint64_t done = pen_trainer_progress(training->trainer).steps;
    if (done >= args->train_iters)
        return finish(training, why);
    pen_status status = agree(training, open_report(training, done, why),
                              "opening the log", why);
    if (status != PEN_OK) {
        pen__train_report_close(&training->report);
        return status;
    }
    predict_memory(training, &memory);
    tell_memory(training, &memory);
    warn_of_engine(training);
    warn_of_bf16(training);
    set_predictions(training);
    training->signals.is_quiet = !training->is_first;
    status = agree(training, pen__train_signals_watch(&training->signals),
                   "making ready for signals", why);
    pen__train_watch_expect(&training->watch, training->report.step_flops,
                            training->report.peak_flops);
    if (status == PEN_OK)
        status = save_kept(training);
    if (status == PEN_OK)
        status = agree(training, run_steps(training, why), "training", why);
    if (status == PEN_OK)
        status = agree(training, settle(training, why),
                       "writing the last checkpoint", why);
    pen__train_report_close(&training->report);
    return status == PEN_OK ? tell_end(training) : status;
}

/* ---- the command ---- */

static int tell_check(const struct training *training)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    uint32_t size = pen_transport_size(training->transport);
    if (!training->is_first)
        return PEN__EXIT_OK;
    pen__train_check_print(
        &training->args, &training->layout,
        stands_alone(training) ? training->layout.num_ranks : size, &text);
    int code = pen__print(&text);
    pen_text_release(&text);
    return code;
}

/* Before ranks can agree the launcher ends all with one; it knows no reason. */
static pen_status fail_early(const struct training *training, pen_status status,
                             struct pen_text *why)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    uint32_t rank = training->launch.rank;
    /* One rank reports a wrong launcher; a late rank has been named. */
    if (status == PEN_INVALID || status == PEN_LATE)
        return status;
    if (rank != PEN_LAUNCH_UNKNOWN)
        pen_text_add(&reason, "rank %" PRIu32 ": ", rank);
    pen_text_add(&reason, "%s",
                 why->length > 0 ? pen_text_string(why)
                                 : pen_status_text(status));
    pen_text_release(why);
    *why = reason;
    return status;
}

/*
 * All ranks of the node meet at the board before MPI_Init. An engine that does
 * not start is told to the other ranks after that.
 */
static pen_status start(struct training *training, struct pen_text *why)
{
    pen_status started = start_threads(training, why);
    pen_status status = pen__train_watch_start(
        &training->watch, &training->args, &training->launch, why);
    if (status != PEN_OK)
        return fail_early(training, status, why);
    if (started == PEN_OK)
        started = measure_peak(training, why);
    pen__train_watch_note(&training->watch, PEN_BOARD_JOINING);
    status = pen_transport_open(&training->launch, &training->transport, why);
    if (status != PEN_OK)
        return fail_early(training, status, why);
    if (started == PEN_OK)
        started =
            pen__train_watch_join(&training->watch, &training->args,
                                  &training->launch, training->transport, why);
    training->is_first = pen_transport_rank(training->transport) == 0;
    training->args.num_ranks = pen_transport_size(training->transport);
    if (!training->is_first)
        training->args.log = training->args.tensorboard_dir =
            training->args.metrics_port = NULL;
    status = agree(training, started, "starting the engine", why);
    return status == PEN_OK ? make_ready(training, why) : status;
}

/* The first rank has the reason. */
static int refuse(pen_status status, const struct pen_text *why)
{
    int code = pen__refuse(why);
    return status == PEN_DAMAGED ? PEN_EXIT_DAMAGED : code;
}

static int run(int argc, char **argv)
{
    struct training training = {.launch = pen_launch_read_own(),
                                .folder = PEN_RUN_FOLDER_NONE,
                                .held = PEN__TRAIN_HELD_NONE};
    struct pen_text why = PEN_TEXT_EMPTY;
    uint32_t num_ranks = training.launch.launcher == PEN_LAUNCHER_NONE ? 1
                         : training.launch.size == PEN_LAUNCH_UNKNOWN
                             ? 0
                             : training.launch.size;
    int code = pen__train_args_parse(&training.args, num_ranks, argc, argv);
    if (code != PEN__EXIT_OK)
        return code;
    pen_status status = start(&training, &why);
    if (status == PEN_OK && training.args.is_check)
        code = tell_check(&training);
    else if (status == PEN_OK)
        status = train(&training, &why);
    if (status == PEN_LOST)
        pen__end_lost(training.transport, training.watch.board,
                      training.watch.watchdog);
    if (status != PEN_OK)
        code = refuse(status, &why);
    if (status == PEN_LATE)
        code = PEN_EXIT_HANG;
    else if (status == PEN_OK && training.is_stopped &&
             pen__train_signal_to_stop() == SIGINT)
        code = PEN__EXIT_STOPPED;
    release(&training, status == PEN_OK && !training.args.is_check);
    pen_text_release(&why);
    return code;
}

static int help(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    pen__train_help();
    return PEN__EXIT_OK;
}

const struct pen__command pen__train = {
    "train", "trains a network on text or images", run, help};
