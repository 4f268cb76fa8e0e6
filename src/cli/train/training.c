#include "cli/train/training.h"

#include "base/log.h"
#include "cli/train/check.h"
#include "cli/train/start.h"
#include "runtime/agree.h"
#include "watch/watchdog.h"

#include <stdlib.h>

const struct pen_checkpoint *
pen__training_checkpoint(const struct pen__training *training)
{
    if (training->resumed != NULL)
        return training->resumed;
    return training->args.load == NULL ? NULL : training->pretrained.checkpoint;
}

struct pen_transport *
pen__training_own_ranks(const struct pen__training *training)
{
    return pen__train_replicas_transport(&training->replicas,
                                         training->transport);
}

bool pen__training_stands_alone(const struct pen__training *training)
{
    return pen__train_check_stands_alone(&training->layout,
                                         pen__training_own_ranks(training));
}

void pen__training_finish_commit(struct pen__training *training)
{
    uint64_t step = 0;
    if (training->commits != NULL)
        step = pen_commits_finish(training->commits);
    if (step > 0)
        pen__train_metrics_set(&training->metrics, PEN_METRIC_MEMORY_STEP,
                               (double)step);
}

/* The votes of this rank after the step, or after the steps that overlap. */
static void vote(void *context)
{
    struct pen__training *training = context;
    struct pen_trainer *trainer = training->trainer;
    double limit_sec = 60 * training->args.exit_minutes;
    pen__training_finish_commit(training);
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

struct pen_trainer_options
pen__training_options(struct pen__training *training,
                      const struct pen__train_layout *layout,
                      const struct pen__train_args *args)
{
    struct pen_trainer_options options =
        pen__train_layout_options(layout, args, &training->pretrained.model,
                                  pen_batches_shape(training->batches));
    options.threads = training->threads;
    options.transport = pen__training_own_ranks(training);
    options.world = training->replicas.has_method ? training->transport : NULL;
    options.watch = pen__train_watch_hooks(&training->watch);
    options.vote = vote;
    options.voter = training;
    if (args->probe != NULL)
        options.probe =
            pen__train_probe_sink(&training->probe, args->probe_steps);
    return options;
}

pen_status pen__training_make_verifier(struct pen__training *training,
                                       struct pen_text *why)
{
    const struct pen_layout *layout = pen_trainer_layout(training->trainer);
    bool has_moved = layout->mesh.epoch > 0;
    if (training->args.verify_interval == 0 ||
        (has_moved && pen_layout_copies(layout) == 1))
        return PEN_OK;
    return pen_verifier_create(training->trainer, &training->verifier, why);
}

pen_status pen__training_join_folder(const struct pen__training *training,
                                     struct pen_text *why)
{
    if (training->is_first ||
        !pen_checkpointer_is_writing(training->checkpointer))
        return PEN_OK;
    return pen_run_folder_join(training->args.save, training->folder.run, why);
}

pen_status pen__training_agree(struct pen__training *training,
                               pen_status status, const char *doing,
                               struct pen_text *why)
{
    enum pen_board_state before = training->watch.state;
    if (status == PEN_LOST)
        return status;
    pen__train_watch_note(&training->watch, PEN_BOARD_COLLECTIVE);
    status = pen_agree(training->transport, status, doing,
                       pen__train_patience(&training->args), why);
    if (status != PEN_LOST) /* a lost rank does not note it: others would read
                               that this rank continues */
        pen__train_watch_note(&training->watch, before);
    return status;
}

void pen__training_release(struct pen__training *training, bool is_done)
{
    pen__train_metrics_close(&training->metrics);
    pen_checkpointer_free(training->checkpointer);
    pen__train_ring_release(&training->ring);
    pen_commits_free(training->commits);
    pen_verifier_free(training->verifier);
    pen_trainer_free(training->trainer);
    pen__train_probe_close(&training->probe);
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
