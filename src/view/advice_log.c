/* Advice from the log of a training: loss, validation, speed. */
#include "view/advice_internal.h"

#include "base/median.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define BINS 10u        /* a run is examined in N parts */
#define LEAST_STEPS 20u /* of fewer nothing is said about its course */
#define LOSS_RISE 1.05  /* of the best part */
#define VALIDATION_RISE 1.02
#define SPEED_FALL 0.9
#define LOW_SHARE 0.3 /* of the peak */
#define UNEVEN_EXPERTS 2.0

static size_t bin_begin(size_t count, size_t bin)
{
    return count * bin / BINS;
}

/* ---- loss ---- */

/* Returns the mean of the losses that are numbers; NAN: none is. */
static double mean_loss(const struct pen_run *run, size_t begin, size_t end)
{
    double sum = 0;
    size_t count = 0;
    for (size_t i = begin; i < end; i++) {
        if (!isfinite(run->steps[i].loss))
            continue;
        sum += run->steps[i].loss;
        count++;
    }
    return count == 0 ? (double)NAN : sum / (double)count;
}

void pen__advise_numbers(const struct pen_run_parts *parts,
                         struct pen_advices *out)
{
    const struct pen_run *run = parts->log;
    size_t count = 0;
    uint64_t first = 0;
    for (size_t i = 0; i < run->num_steps; i++) {
        if (isfinite(run->steps[i].loss) || run->steps[i].skipped > 0)
            continue;
        if (count++ == 0)
            first = run->steps[i].step;
    }
    if (count == 0)
        return;
    struct pen_advice *advice = pen__advice_add(out);
    pen_text_add(&advice->seen,
                 "The loss is not a number in %zu of %zu steps, first in step "
                 "%" PRIu64 ".",
                 count, run->num_steps, first);
    pen_text_add(&advice->todo,
                 "Resume from an earlier checkpoint (--load) with a lower --lr "
                 "or a longer --lr-warmup-iters; --clip-grad limits the effect "
                 "of a single batch.");
}

void pen__advise_repeats(const struct pen_run_parts *parts,
                         struct pen_advices *out)
{
    const struct pen_run *run = parts->log;
    size_t num_repeated = 0, num_skipped = 0;
    for (size_t i = 0; i < run->num_steps; i++) {
        num_skipped += run->steps[i].skipped > 0 ? 1 : 0;
        num_repeated += run->steps[i].repeated > 0 ? 1 : 0;
    }
    if (num_repeated > num_skipped) {
        struct pen_advice *advice = pen__advice_add(out);
        pen_text_add(&advice->seen,
                     "%zu of %zu steps were not finite when computed first, "
                     "and finite when computed again.",
                     num_repeated - num_skipped, run->num_steps);
        pen_text_add_string(&advice->todo,
                            "Test the memory and the processor of the rank "
                            "that the warnings of the training name.");
    }
    if (num_skipped > 0) {
        struct pen_advice *advice = pen__advice_add(out);
        pen_text_add(&advice->seen,
                     "%zu of %zu steps are not finite; their batches were left "
                     "out (--on-nan skip).",
                     num_skipped, run->num_steps);
        pen_text_add_string(&advice->todo,
                            "Look at the samples that the warnings of the "
                            "training name; --on-nan stop ends at the first.");
    }
}

/* The one furthest above what was usual is named. */
static const struct pen_run_step *worst_spike(const struct pen_run *run,
                                              bool is_norm, size_t *count)
{
    const struct pen_run_step *worst = NULL;
    double most = 0;
    for (size_t i = 0; i < run->num_steps; i++) {
        const struct pen_run_step *step = &run->steps[i];
        double ratio = is_norm ? step->grad_norm / step->grad_norm_usual
                               : step->loss / step->loss_usual;
        if (isnan(ratio))
            continue;
        *count += 1;
        if (ratio > most) {
            most = ratio;
            worst = step;
        }
    }
    return worst;
}

void pen__advise_spikes(const struct pen_run_parts *parts,
                        struct pen_advices *out)
{
    size_t num_losses = 0, num_norms = 0;
    const struct pen_run_step *loss =
        worst_spike(parts->log, false, &num_losses);
    const struct pen_run_step *norm = worst_spike(parts->log, true, &num_norms);
    if (loss == NULL && norm == NULL)
        return;
    struct pen_advice *advice = pen__advice_add(out);
    if (loss != NULL)
        pen_text_add(&advice->seen,
                     "The loss jumped %zu times, furthest in step %" PRIu64
                     ": %.4g, where %.4g was usual.",
                     num_losses, loss->step, loss->loss, loss->loss_usual);
    if (norm != NULL)
        pen_text_add(&advice->seen,
                     "%sThe gradient norm jumped %zu times, furthest in step "
                     "%" PRIu64 ": %.4g, where %.4g was usual.",
                     loss == NULL ? "" : " ", num_norms, norm->step,
                     norm->grad_norm, norm->grad_norm_usual);
    pen_text_add(&advice->todo,
                 "If the loss did not come back, load a checkpoint from before "
                 "that step (--load) and lower --lr or --clip-grad, or raise "
                 "--lr-warmup-iters. If it did, look at the samples of that "
                 "step.");
}

void pen__advise_loss(const struct pen_run_parts *parts,
                      struct pen_advices *out)
{
    const struct pen_run *run = parts->log;
    size_t count = run->num_steps;
    double least = INFINITY;
    size_t best = 0;
    if (count < LEAST_STEPS)
        return;
    for (size_t i = 0; i < BINS; i++) {
        double mean =
            mean_loss(run, bin_begin(count, i), bin_begin(count, i + 1));
        if (!(mean < least))
            continue;
        least = mean;
        best = i;
    }
    size_t last = bin_begin(count, BINS - 1);
    double now = mean_loss(run, last, count);
    if (best == BINS - 1 || !(now > LOSS_RISE * least))
        return;
    struct pen_advice *advice = pen__advice_add(out);
    pen_text_add(&advice->seen,
                 "The loss rose: its mean is %.4g over the last %zu steps, "
                 "after %.4g around step %" PRIu64 ".",
                 now, count - last, least,
                 run->steps[bin_begin(count, best)].step);
    pen_text_add(
        &advice->todo,
        "Resume from a checkpoint near that step (--load) with a lower "
        "--lr, or let the rate fall further with --min-lr or "
        "--lr-decay-style.");
}

void pen__advise_validation(const struct pen_run_parts *parts,
                            struct pen_advices *out)
{
    const struct pen_run *run = parts->log;
    const struct pen_run_step *best = NULL;
    const struct pen_run_step *last = NULL;
    for (size_t i = 0; i < run->num_steps; i++) {
        const struct pen_run_step *step = &run->steps[i];
        if (!isfinite(step->val_loss))
            continue;
        last = step;
        if (best == NULL || step->val_loss < best->val_loss)
            best = step;
    }
    if (last == NULL || last == best ||
        !(last->val_loss > VALIDATION_RISE * best->val_loss))
        return;
    size_t end = (size_t)(last - run->steps) + 1;
    size_t window = run->num_steps / BINS + 1;
    double loss = mean_loss(run, end > window ? end - window : 0, end);
    if (!(last->val_loss > loss))
        return;
    struct pen_advice *advice = pen__advice_add(out);
    pen_text_add(&advice->seen,
                 "The validation loss rose from %.4g in step %" PRIu64
                 " to %.4g in step %" PRIu64
                 ", where the training loss is %.4g: the network overfits.",
                 best->val_loss, best->step, last->val_loss, last->step, loss);
    pen_text_add(&advice->todo,
                 "Use the checkpoint nearest to step %" PRIu64
                 " (--save-interval writes them), train on more data "
                 "(--data-path), or raise --weight-decay.",
                 best->step);
}

/* Reads only the last part of the run, since routers are even at first. */
void pen__advise_experts(const struct pen_run_parts *parts,
                         struct pen_advices *out)
{
    const struct pen_run *run = parts->log;
    double sum = 0;
    size_t count = 0;
    for (size_t i = bin_begin(run->num_steps, BINS - 1); i < run->num_steps;
         i++) {
        if (!isfinite(run->steps[i].expert_imbalance))
            continue;
        sum += run->steps[i].expert_imbalance;
        count++;
    }
    if (count == 0 || !(sum / (double)count > UNEVEN_EXPERTS))
        return;
    struct pen_advice *advice = pen__advice_add(out);
    pen_text_add(&advice->seen,
                 "Routers are uneven: at the end the busiest expert of a block "
                 "takes %.1f times the tokens of a mean one.",
                 sum / (double)count);
    pen_text_add(&advice->todo,
                 "Raise --moe-aux-loss-coeff; 0.01 is usual. Experts without "
                 "tokens are not trained.");
}

/* Reads only the last part of the run, since routers are even at first. */
void pen__advise_dropped_tokens(const struct pen_run_parts *parts,
                                struct pen_advices *out)
{
    const struct pen_run *run = parts->log;
    double sum = 0;
    size_t count = 0;
    for (size_t i = bin_begin(run->num_steps, BINS - 1); i < run->num_steps;
         i++) {
        if (!isfinite(run->steps[i].dropped_tokens))
            continue;
        sum += run->steps[i].dropped_tokens;
        count++;
    }
    if (!(sum > 0))
        return;
    struct pen_advice *advice = pen__advice_add(out);
    pen_text_add(&advice->seen,
                 "Experts drop tokens: at the end %.0f in a mean step, over "
                 "all blocks.",
                 ceil(sum / (double)count));
    pen_text_add(&advice->todo,
                 "Raise --moe-expert-capacity-factor or --moe-aux-loss-coeff, "
                 "or train without a capacity: memory does not depend on it.");
}

/* ---- speed ---- */

static double median_speed(const struct pen_run *run, size_t begin, size_t end,
                           double *room)
{
    for (size_t i = begin; i < end; i++)
        room[i - begin] = run->steps[i].tokens_per_sec;
    return pen_median(room, end - begin);
}

/* Returns the first step of two that are closer to the later speed. */
static size_t find_edge(const struct pen_run *run, size_t begin, size_t end,
                        double limit)
{
    for (size_t i = begin; i + 1 < end; i++) {
        if (run->steps[i].tokens_per_sec < limit &&
            run->steps[i + 1].tokens_per_sec < limit)
            return i;
    }
    return end - 1;
}

/*
 * Returns whether all parts from this one on are slower than all before, except
 * the first part, in which one-time work is slow.
 */
static bool has_fallen(const double *medians, size_t bin)
{
    double least = INFINITY;
    for (size_t i = bin > 1 ? 1 : 0; i < bin; i++)
        least = fmin(least, medians[i]);
    for (size_t i = bin; i < BINS; i++) {
        if (!(medians[i] < SPEED_FALL * least))
            return false;
    }
    return true;
}

pen_status pen_speed_fall_find(const struct pen_run *run,
                               struct pen_speed_fall *out)
{
    size_t count = run->num_steps;
    double medians[BINS];
    *out = (struct pen_speed_fall){.index = 0};
    if (count < LEAST_STEPS)
        return PEN_OK;
    double *room = malloc(count * sizeof *room);
    if (room == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < BINS; i++)
        medians[i] = median_speed(run, bin_begin(count, i),
                                  bin_begin(count, i + 1), room);
    for (size_t bin = 1; bin + 1 < BINS && out->index == 0; bin++) {
        if (!has_fallen(medians, bin))
            continue;
        size_t begin = bin_begin(count, bin);
        double before = median_speed(run, 0, begin, room);
        double behind = median_speed(run, begin, count, room);
        size_t edge =
            find_edge(run, bin_begin(count, bin - 1), bin_begin(count, bin + 1),
                      (before + behind) / 2);
        *out = (struct pen_speed_fall){edge, before, behind};
    }
    free(room);
    return PEN_OK;
}

void pen__advise_speed(const struct pen_run_parts *parts,
                       struct pen_advices *out)
{
    struct pen_speed_fall fall;
    if (pen_speed_fall_find(parts->log, &fall) != PEN_OK) {
        pen__advice_add(out)->seen.has_failed = 1;
        return;
    }
    if (fall.index == 0)
        return;
    struct pen_advice *advice = pen__advice_add(out);
    pen_text_add(&advice->seen,
                 "The speed fell from %.0f to %.0f tokens/s at step %" PRIu64
                 " and stayed there.",
                 fall.before, fall.behind, parts->log->steps[fall.index].step);
    pen_text_add(&advice->todo,
                 "Look for other programs, heat or a full disk on the machines "
                 "(penstock doctor). A trace of both periods shows which rank "
                 "became slow: penstock view --step.");
}

void pen__advise_share(const struct pen_run_parts *parts,
                       const struct pen_summary *summary,
                       struct pen_advices *out)
{
    bool waits = parts->spent != NULL && summary->bubble > LOW_SHARE;
    if (!(summary->share_of_peak < LOW_SHARE))
        return;
    struct pen_advice *advice = pen__advice_add(out);
    pen_text_add(&advice->seen,
                 "The training used %.0f %% of the processors' peak.",
                 100 * summary->share_of_peak);
    if (waits)
        pen_text_add(&advice->todo,
                     "Ranks wait %.0f %% of a step: reduce waiting first.",
                     100 * summary->bubble);
    else
        pen_text_add(
            &advice->todo,
            "Matrices are too small, or there are too many threads: raise "
            "--micro-batch-size, try fewer --threads, and see in penstock "
            "doctor whether --bf16 is faster on this machine.");
}

void pen__advise_cut(const struct pen_run_parts *parts, struct pen_advices *out)
{
    if (!parts->log->is_cut)
        return;
    struct pen_advice *advice = pen__advice_add(out);
    pen_text_add(&advice->seen,
                 "The last line of the log is incomplete: the training is "
                 "writing it, or was killed.");
    pen_text_add(&advice->todo,
                 "If the training was killed, resume from its last checkpoint "
                 "with --load and the same --run.");
}
