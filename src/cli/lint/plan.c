/*
 * penstock lint --cluster: what the planner predicts of a training with
 * Megatron-LM, as findings. It predicts what `penstock plan --from-megatron`
 * predicts of the same words.
 */
#include "cli/lint/lint.h"

#include "base/log.h"
#include "cli/plan/yours.h"
#include "planner/shortage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_GAIN 1.05 /* times as fast, to be worth a note */

static void add_finding(struct pen__linted *file,
                        const struct pen_lint_job *job,
                        enum pen_lint_rule_id rule, struct pen_text texts[3])
{
    struct pen_lint_finding finding = {
        .rule = &pen_lint_rules[rule],
        .severity = pen_lint_rules[rule].severity,
        .begin = job->begin,
        .end = job->begin,
        .what = strdup(pen_text_string(&texts[0])),
        .why = strdup(pen_text_string(&texts[1])),
        .todo = strdup(pen_text_string(&texts[2]))};
    pen_lint_add(&file->report, &finding);
    for (int i = 0; i < 3; i++)
        pen_text_release(&texts[i]);
}

/* Adds the changes to make, where a plan was found. */
static void say_changes(const struct pen__yours *yours, struct pen_text *out)
{
    const struct pen_prediction *best = &yours->ranking->found[0].prediction;
    pen_text_add_string(out, "Change ");
    pen__yours_print_way(yours, out);
    pen_text_add(out, ": %.4g s a step (9 of 10: %.4g to %.4g s).",
                 best->step_sec, best->low_sec, best->high_sec);
}

static void judge_memory(struct pen__linted *file,
                         const struct pen_lint_job *job,
                         const struct pen__yours *yours)
{
    struct pen_text texts[3] = {PEN_TEXT_EMPTY, PEN_TEXT_EMPTY, PEN_TEXT_EMPTY};
    const struct pen_prediction *mine = &yours->prediction;
    if (mine->fits)
        return;
    pen_text_add_string(&texts[0], "the training does not fit: ");
    pen_shortage_print_sum(mine->tight_bytes, mine->memory_margin,
                           mine->offered_bytes, &texts[0]);
    pen_text_add(&texts[1],
                 "The prediction counts weights, gradients, optimizer and "
                 "activations; its memory is typically %.0f %% off.",
                 100 * mine->memory_error);
    if (yours->ranking == NULL)
        pen_text_add_string(&texts[2], "Use more devices: no layout of this "
                                       "training fits here.");
    else
        say_changes(yours, &texts[2]);
    add_finding(file, job, PEN_LINT_RULE_DOES_NOT_FIT, texts);
}

static void judge_speed(struct pen__linted *file,
                        const struct pen_lint_job *job,
                        const struct pen__yours *yours)
{
    struct pen_text texts[3] = {PEN_TEXT_EMPTY, PEN_TEXT_EMPTY, PEN_TEXT_EMPTY};
    const struct pen_prediction *mine = &yours->prediction;
    if (!mine->fits || yours->ranking == NULL)
        return;
    double faster =
        mine->step_sec / yours->ranking->found[0].prediction.step_sec;
    if (faster < LEAST_GAIN)
        return;
    pen_text_add(&texts[0],
                 "another layout is predicted to be %.2f times as "
                 "fast",
                 faster);
    pen_text_add(&texts[1],
                 "This one takes %.4g s a step (9 of 10: %.4g to %.4g s) on "
                 "the same devices, with the same batch.",
                 mine->step_sec, mine->low_sec, mine->high_sec);
    say_changes(yours, &texts[2]);
    add_finding(file, job, PEN_LINT_RULE_SLOWER, texts);
}

static void judge_job(struct pen__linted *file, const struct pen_lint_job *job,
                      const char *cluster)
{
    struct pen__plan_args args;
    struct pen__yours yours = {.plan = NULL};
    struct pen_text why = PEN_TEXT_EMPTY;
    pen__plan_args_init(&args);
    args.cluster = cluster;
    args.megatron_line = job->line;
    pen_status status = pen__yours_predict(&args, &yours, &why);
    if (status == PEN_OK) {
        /* Without a layout that fits there is none to compare with. */
        pen__yours_search(&args, &yours, NULL);
        judge_memory(file, job, &yours);
        judge_speed(file, job, &yours);
    } else {
        pen_log(PEN_LOG_WARN, "%s: no prediction: %s", file->path,
                pen_text_string(&why));
    }
    pen__yours_release(&yours);
    pen_text_release(&why);
}

void pen__lint_predict(struct pen__linted *file, const char *cluster,
                       uint64_t num_devices)
{
    bool has_errors = false;
    for (uint32_t i = 0; i < file->report.num_findings; i++)
        has_errors =
            has_errors || file->report.findings[i].severity == PEN_LINT_ERROR;
    for (uint32_t i = 0; i < file->report.num_jobs; i++) {
        const struct pen_lint_job *job = &file->report.jobs[i];
        const char *reason = job->dialect != PEN_LINT_MEGATRON
                                 ? "only options of Megatron-LM are predicted"
                             : job->line == NULL
                                 ? "some of its values are unknown"
                             : has_errors ? "it has errors"
                                          : NULL;
        if (reason != NULL)
            pen_log(PEN_LOG_WARN, "%s: no prediction: %s", file->path, reason);
        else if (job->world > 0 && job->world != num_devices)
            pen_log(PEN_LOG_WARN,
                    "%s: no prediction: it starts %" PRIu64
                    " ranks, but the cluster has %" PRIu64 " devices",
                    file->path, job->world, num_devices);
        else
            judge_job(file, job, cluster);
    }
}
