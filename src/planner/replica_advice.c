/* The meaning of a comparison of methods, in words. */
#include "planner/replica_compare.h"

#include <math.h>

/* Share of waiting for which it does not pay to change a training. */
#define SMALL_SHARE 0.1

/* Share of the seconds on the link; less counts as none. */
#define LEAST_HIDDEN 0.005

static double share_of(const struct pen_replica_time *time)
{
    return 100 * time->stall_sec / time->step_sec;
}

/* Seconds with a unit that suits them. */
static void add_seconds(struct pen_text *out, double seconds)
{
    if (seconds < 1e-3)
        pen_text_add(out, "%.3g us", 1e6 * seconds);
    else if (seconds < 1)
        pen_text_add(out, "%.3g ms", 1e3 * seconds);
    else if (seconds < 1000)
        pen_text_add(out, "%.3g s", seconds);
    else
        pen_text_add(out, "%.4g min", seconds / 60);
}

static void tell_reference(const struct pen_replica_comparison *comparison,
                           const struct pen_replica_time *reference,
                           struct pen_text *out)
{
    pen_replica_name(reference, out);
    double hidden = reference->sync_sec - reference->stall_sec;
    pen_text_add(out, " takes ");
    add_seconds(out, reference->sync_sec);
    pen_text_add(out, " on the link, computing takes ");
    add_seconds(out, comparison->setting.compute_sec);
    if (hidden > LEAST_HIDDEN * reference->sync_sec) {
        pen_text_add(out, "; ");
        add_seconds(out, hidden);
        pen_text_add(out, " of the link's time overlap with computing");
    }
    pen_text_add(out, ": ");
    add_seconds(out, reference->stall_sec);
    pen_text_add(out, ", %.1f %% of the step, would be waiting\n",
                 share_of(reference));
}

static void tell_choice(const struct pen_replica_comparison *comparison,
                        const struct pen_replica_time *reference,
                        const struct pen_replica_time *best,
                        struct pen_text *out)
{
    pen_text_add(out, "advice: ");
    pen_replica_name(best, out);
    if (best == reference) {
        pen_text_add(out, "; nothing else is faster by a tenth%s\n",
                     comparison->has_factors ? " to a loss" : "");
        return;
    }
    if (best->choice.method->interval > 1)
        pen_text_add(out, " with an interval of %u", best->choice.interval);
    pen_text_add(out, ", a step %.3g times as fast as with ",
                 reference->step_sec / best->step_sec);
    pen_replica_name(reference, out);
    if (comparison->mtbf_sec > 0)
        pen_text_add(out, ", a step that stays %.3g times",
                     pen_replica_kept_sec(reference) /
                         pen_replica_kept_sec(best));
    if (comparison->has_factors)
        pen_text_add(out, ", a loss %.3g times",
                     pen_replica_kept_sec(reference) * reference->factor /
                         (pen_replica_kept_sec(best) * best->factor));
    pen_text_add(
        out, "; among equally fast methods it changes the training least\n");
}

/* The quickest with a compressor under the method of the reference. */
static const struct pen_replica_row *
find_compressed(const struct pen_replica_comparison *comparison,
                const struct pen_replica_time *reference)
{
    const struct pen_replica_row *found = NULL;
    for (size_t i = 0; i < comparison->count; i++) {
        const struct pen_replica_row *row = &comparison->rows[i];
        if (row->time.choice.method != reference->choice.method ||
            row->time.choice.compressor == NULL)
            continue;
        if (found == NULL || row->time.step_sec < found->time.step_sec)
            found = row;
    }
    return found;
}

static void tell_compression(const struct pen_replica_comparison *comparison,
                             const struct pen_replica_time *reference,
                             struct pen_text *out)
{
    const struct pen_replica_row *row = find_compressed(comparison, reference);
    if (row == NULL)
        return;
    if (row->verdict == PEN_REPLICA_PAYS)
        pen_text_add(
            out, "compression pays: at best a step %.3g times as fast, with ",
            reference->step_sec / row->time.step_sec);
    else
        pen_text_add(out, "compression does not pay: %s; at best ",
                     pen_replica_verdict_words[row->verdict]);
    pen_replica_name(&row->time, out);
    pen_text_add(out, " (");
    add_seconds(out, reference->stall_sec - row->time.stall_sec);
    pen_text_add(out, " of waiting saved, ");
    add_seconds(out, row->time.encode_sec);
    pen_text_add(out, " of encoding, which does not overlap with computing)\n");
}

/*
 * The interval from which waiting is less than computing, and the one from
 * which it is small. Messages of rare synchronisation do not overlap with a
 * backward.
 */
static void tell_interval(const struct pen_replica_comparison *comparison,
                          const struct pen_replica_time *reference,
                          struct pen_text *out)
{
    double ratio = reference->sync_sec / comparison->setting.compute_sec;
    if (reference->stall_sec <= SMALL_SHARE * reference->step_sec) {
        pen_text_add(
            out,
            "rare synchronisation does not pay: it could save at most the "
            "%.1f %% of waiting\n",
            share_of(reference));
        return;
    }
    pen_text_add(out,
                 "rare synchronisation: with an interval of %.0f or more, "
                 "waiting takes less than computing; with %.0f or more, less "
                 "than a tenth of it\n",
                 floor(ratio) + 1, fmax(1, ceil(ratio / SMALL_SHARE)));
}

static void tell_latency(const struct pen_replica_comparison *comparison,
                         const struct pen_replica_time *reference,
                         struct pen_text *out)
{
    double latency =
        pen_replica_latency(&comparison->setting, &reference->cost);
    if (latency <= reference->sync_sec / 2 ||
        reference->stall_sec <= SMALL_SHARE * reference->step_sec)
        return;
    pen_text_add(out,
                 "%.0f %% of a synchronisation is latency: fewer bytes do "
                 "not help, fewer synchronisations do\n",
                 100 * latency / reference->sync_sec);
}

/* Compares the best method that runs between islands with one job. */
static void tell_failures(const struct pen_replica_comparison *comparison,
                          const struct pen_replica_time *reference,
                          struct pen_text *out)
{
    const struct pen_replica_time *found = NULL;
    if (comparison->mtbf_sec <= 0)
        return;
    for (size_t i = 0; i < comparison->count; i++) {
        const struct pen_replica_time *time = &comparison->rows[i].time;
        if (time->islands > 0 &&
            (found == NULL ||
             pen_replica_kept_sec(time) < pen_replica_kept_sec(found)))
            found = time;
    }
    pen_text_add_string(out, "failures, one per ");
    add_seconds(out, comparison->mtbf_sec);
    pen_text_add(out, ": one job keeps %.1f %% of its time",
                 100 * reference->goodput);
    if (found != NULL) {
        pen_text_add(out, ", %u islands with ", found->islands);
        pen_replica_name(found, out);
        pen_text_add(out, " %.1f %%", 100 * found->goodput);
    }
    pen_text_add_string(out, "\n");
}

void pen_replica_advise(const struct pen_replica_comparison *comparison,
                        struct pen_text *out)
{
    const struct pen_replica_time *reference =
        &comparison->rows[comparison->reference].time;
    const struct pen_replica_time *best =
        &comparison->rows[comparison->advice].time;
    tell_choice(comparison, reference, best, out);
    tell_reference(comparison, reference, out);
    tell_compression(comparison, reference, out);
    tell_interval(comparison, reference, out);
    tell_latency(comparison, reference, out);
    tell_failures(comparison, reference, out);
    if (comparison->has_factors)
        pen_text_add(
            out, "the time to reach a loss is the time of a step times your "
                 "factors; methods without a factor are not recommended\n");
    else
        pen_text_add(
            out, "the time of a step is not the time to reach a loss: all "
                 "methods but exact sums need more steps; give their number "
                 "with --factors\n");
}
