#include "cli/train/report.h"

#include "base/log.h"
#include "cli/train/files.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define TERMINAL_SEC 0.2 /* between two of the terminal's lines */

double pen__train_report_clock(const struct pen__train_report *report)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - report->start.tv_sec) +
           1e-9 * (double)(now.tv_nsec - report->start.tv_nsec);
}

static pen_status open_log(struct pen__train_report *report,
                           const struct pen__train_args *args,
                           uint64_t last_step, struct pen_text *why)
{
    json_t *settings = pen__train_args_print(args);
    if (settings == NULL)
        return PEN_NOMEM;
    struct pen_run_head head = {args->model != NULL ? args->model : args->load,
                                settings};
    pen_status status =
        pen_run_log_open(&report->log, args->log, &head, last_step, why);
    report->has_log = status == PEN_OK;
    json_decref(settings);
    return status;
}

pen_status pen__train_report_open(struct pen__train_report *report,
                                  const struct pen__train_args *args,
                                  uint64_t last_step, struct pen_text *why)
{
    *report = (struct pen__train_report){
        .first_step = last_step,
        .train_iters = args->train_iters,
        .log_interval = args->log_interval,
        .step_flops = (double)NAN,
        .peak_flops = (double)NAN,
        .loss_spikes = pen_spikes_make(PEN_SPIKES_LOSS),
        .norm_spikes = pen_spikes_make(PEN_SPIKES_GRAD_NORM),
        .is_terminal = isatty(STDERR_FILENO) != 0};
    clock_gettime(CLOCK_MONOTONIC, &report->start);
    pen_status status = PEN_OK;
    if (args->log != NULL)
        status =
            pen__train_file_opened(PEN__FILE_LOG, args->log,
                                   open_log(report, args, last_step, why), why);
    if (status == PEN_OK && args->tensorboard_dir != NULL)
        status = pen__train_file_opened(
            PEN__FILE_TENSORBOARD, args->tensorboard_dir,
            pen_tensorboard_create(args->tensorboard_dir, last_step,
                                   &report->board, why),
            why);
    if (status != PEN_OK)
        pen__train_report_close(report);
    return status;
}

void pen__train_report_close(struct pen__train_report *report)
{
    pen__train_report_clear(report);
    if (report->has_log)
        pen_run_log_close(&report->log);
    report->has_log = false;
    pen_tensorboard_free(report->board);
    report->board = NULL;
}

void pen__train_report_clear(struct pen__train_report *report)
{
    if (report->is_shown)
        fputs("\r\033[K", stderr);
    report->is_shown = false;
}

static void add_duration(struct pen_text *line, double sec)
{
    uint64_t whole = (uint64_t)(sec + 0.5);
    if (whole >= 86400)
        pen_text_add(line, "%" PRIu64 " d ", whole / 86400);
    if (whole >= 3600)
        pen_text_add(line, "%02" PRIu64 ":", whole % 86400 / 3600);
    pen_text_add(line, "%02" PRIu64 ":%02" PRIu64, whole % 3600 / 60,
                 whole % 60);
}

/*
 * Seconds until the end, should the steps to come take as long as those of this
 * run.
 */
static double left_sec(const struct pen__train_report *report, uint64_t step)
{
    return report->spent_sec / (double)(step - report->first_step) *
           (double)(report->train_iters - step);
}

/* step 20/100 | loss 3.2114 | grad norm 0.812 | lr 6.00e-04 | ... */
static void add_line(const struct pen__train_report *report,
                     const struct pen_run_step *step, struct pen_text *line)
{
    pen_text_add(line,
                 "step %" PRIu64 "/%" PRIu64
                 " | loss %.4f | grad norm %.3f | lr %.3e | %.0f %s/s",
                 step->step, report->train_iters, step->loss, step->grad_norm,
                 step->lr, step->tokens_per_sec, report->unit);
    if (!isnan(step->share_of_peak))
        pen_text_add(line, " | %.0f %% of peak", 100 * step->share_of_peak);
    if (report->has_bubble)
        pen_text_add(line, " | bubble %.1f %%",
                     100 * report->bubble_sum / (double)report->line_steps);
    if (report->has_bubble && !isnan(report->predicted_bubble))
        pen_text_add(line, " (predicted %.1f %%)",
                     100 * report->predicted_bubble);
    pen_text_add(line, " | %.2f GB | ", 1e-9 * (double)step->memory_bytes);
    if (!isnan(step->val_loss))
        pen_text_add(line, "validation loss %.4f | ", step->val_loss);
    if (!isnan(step->val_accuracy))
        pen_text_add(line, "validation accuracy %.2f %% | ",
                     100 * step->val_accuracy);
    add_duration(line, left_sec(report, step->step));
    pen_text_add(line, " left");
}

/* Prints a line on stdout to stay, or on the terminal until the next one. */
static void print_line(struct pen__train_report *report,
                       const struct pen_run_step *step, bool stays)
{
    struct pen_text line = PEN_TEXT_EMPTY;
    pen__train_report_clear(report);
    add_line(report, step, &line);
    if (stays) {
        puts(pen_text_string(&line));
        fflush(stdout);
    } else {
        fprintf(stderr, "\r\033[K%s", pen_text_string(&line));
        fflush(stderr);
        report->is_shown = true;
    }
    report->shown_sec = pen__train_report_clock(report);
    pen_text_release(&line);
}

/* Prints the same numbers, but speed over all steps since the last line. */
static void tell(struct pen__train_report *report, struct pen_run_step step)
{
    bool stays = step.step % report->log_interval == 0 ||
                 step.step == report->train_iters || !isnan(step.val_loss);
    double per_sec = (double)report->line_steps / report->line_sec;
    step.tokens_per_sec = per_sec * (double)report->step_tokens;
    step.share_of_peak = per_sec * report->step_flops / report->peak_flops;
    double since = pen__train_report_clock(report) - report->shown_sec;
    if (report->is_quiet)
        return;
    if (stays || (report->is_terminal && since >= TERMINAL_SEC))
        print_line(report, &step, stays);
    if (stays) {
        report->line_sec = 0;
        report->bubble_sum = 0;
        report->line_steps = 0;
    }
}

/*
 * Warns of both kinds of spikes in one line, since they mostly come together.
 */
static void warn_of_spikes(struct pen__train_report *report,
                           const struct pen_run_step *step)
{
    struct pen_text line = PEN_TEXT_EMPTY;
    bool is_loss = !isnan(step->loss_usual);
    bool is_norm = !isnan(step->grad_norm_usual);
    if (report->is_quiet || (!is_loss && !is_norm))
        return;
    pen__train_report_clear(report);
    pen_text_add(&line, "step %" PRIu64 ": ", step->step);
    if (is_loss)
        pen_text_add(&line, "the loss jumped to %.4g, usual is %.4g",
                     step->loss, step->loss_usual);
    if (is_loss && is_norm)
        pen_text_add(&line, "; ");
    if (is_norm)
        pen_text_add(&line, "the gradient norm jumped to %.4g, usual is %.4g",
                     step->grad_norm, step->grad_norm_usual);
    pen_log(PEN_LOG_WARN,
            "%s (medians of the last steps). If the loss does not come back, "
            "lower --lr or --clip-grad, or raise --lr-warmup-iters",
            pen_text_string(&line));
    pen_text_release(&line);
}

static void write_files(struct pen__train_report *report,
                        const struct pen_run_step *line)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (line->step <= report->logged) /* of a round that begins again */
        return;
    report->logged = line->step;
    if (report->has_log)
        pen__train_file_written(PEN__FILE_LOG,
                                pen_run_log_append(&report->log, line, &why),
                                &report->is_log_told, &why);
    if (report->board != NULL)
        pen__train_file_written(PEN__FILE_TENSORBOARD,
                                pen_tensorboard_add(report->board, line, &why),
                                &report->is_board_told, &why);
    pen_text_release(&why);
}

void pen__train_report_move(struct pen__train_report *report,
                            const struct pen_move_cost *cost)
{
    report->has_moved = true;
    report->move = *cost;
}

void pen__train_report_round(struct pen__train_report *report,
                             const struct pen_island_turn *next)
{
    report->turn = *next;
}

static void add_round(struct pen__train_report *report,
                      struct pen_run_step *line)
{
    bool has_round = report->turn.num_islands > 0;
    const struct pen_island_turn *next = &report->turn;
    line->round = has_round ? (double)next->round - 1 : (double)NAN;
    line->round_islands = has_round ? next->num_islands : (double)NAN;
    line->round_epoch = has_round ? (double)next->epoch : (double)NAN;
    line->round_wait_sec = has_round ? next->waited_sec : (double)NAN;
    report->turn = (struct pen_island_turn){.round = 0};
}

void pen__train_report_step(struct pen__train_report *report,
                            const struct pen_step *step, double sec,
                            const struct pen_evaluation *validation)
{
    struct pen_run_step line = {
        .step = step->step,
        .loss = step->loss,
        .grad_norm = step->gradient_norm,
        .lr = step->learning_rate,
        .tokens = step->step * report->step_tokens,
        .tokens_per_sec = (double)report->step_tokens / sec,
        .share_of_peak = report->step_flops / sec / report->peak_flops,
        .step_ms = 1e3 * sec,
        .memory_bytes = pen_memory_peak(),
        .elapsed_sec = pen__train_report_clock(report) +
                       (report->has_log ? report->log.elapsed_sec : 0),
        .val_loss = validation->loss,
        .val_accuracy = validation->accuracy,
        .loss_usual = pen_spikes_take(&report->loss_spikes, step->loss),
        .grad_norm_usual =
            pen_spikes_take(&report->norm_spikes, step->gradient_norm),
        .move_sec = report->has_moved ? report->move.sec : (double)NAN,
        .move_bytes =
            report->has_moved ? (double)report->move.sent_bytes : (double)NAN,
        .repeated = step->is_repeated ? 1 : (double)NAN,
        .skipped = step->is_skipped ? 1 : (double)NAN,
        .expert_imbalance = step->expert_imbalance,
        .dropped_tokens = step->dropped_tokens};
    add_round(report, &line);
    report->has_moved = false;
    report->spent_sec += sec;
    report->line_sec += sec;
    report->line_steps++;
    report->bubble_sum += step->wait_share;
    tell(report, line);
    warn_of_spikes(report, &line);
    if (report->metrics != NULL)
        pen__train_metrics_step(report->metrics, &line,
                                report->has_bubble ? step->wait_share
                                                   : (double)NAN,
                                left_sec(report, line.step));
    write_files(report, &line);
}
