/*
 * Advice from the trace and the memory of a training; advice from its log is in
 * advice_log.c.
 */
#include "view/advice_internal.h"

#include "base/bug.h"
#include "view/cells.h"

#include <inttypes.h>
#include <math.h>

#define BUBBLE_MORE 0.05 /* than predicted */
#define BUBBLE_LARGE 0.25
#define SCALE_OFF 0.1     /* all ranks alike, from the prediction */
#define UNEVEN 1.15       /* the busiest rank, of the mean */
#define SUMS_LARGE 0.15   /* of the ranks' time */
#define FAULTS_MANY 3     /* of one rank */
#define FAULTS_SHARE 0.5  /* of all faults, likewise */
#define LOST_LARGE 0.05   /* of the run, to faults */
#define MEMORY_OVER 1.05  /* of the prediction */
#define MEMORY_UNDER 0.85 /* the rank that is nearest to it */

struct pen_advice *pen__advice_add(struct pen_advices *advices)
{
    PEN_BUG_UNLESS(advices->count < PEN_ADVICE_MAX);
    return &advices->items[advices->count++];
}

/* ---- the trace ---- */

static void add_duration(struct pen_text *out, double sec)
{
    struct pen__unit unit = pen__unit_of(sec);
    pen_text_add(out, "%.3g %s", sec * unit.per_sec, unit.name);
}

static const char *todo_for(enum pen_spent_cause cause)
{
    switch (cause) {
    case PEN_CAUSE_WORK:
        return "Run penstock doctor on its machine to find the cause. If the "
               "machine stays slow, measure it with penstock profile; "
               "--profile then gives this rank fewer layers.";
    case PEN_CAUSE_BETWEEN:
        return "Another program uses that rank's processor: leave a core free "
               "with fewer --threads, and check the machine with penstock "
               "doctor.";
    case PEN_CAUSE_SYNC:
        return "Send fewer bytes between replicas with --compress powersgd:4, "
               "or synchronise rarely with --sync local-sgd.";
    case PEN_CAUSE_LINK:
        return "Send fewer bytes between stages with --compress-stages int8; "
               "penstock profile measures the link.";
    default:
        return "Use more micro-batches to fill the gaps: a larger "
               "--global-batch-size or a smaller --micro-batch-size. penstock "
               "schedule compare lists other schedules.";
    }
}

static void advise_bubble(const struct pen_spent *spent,
                          struct pen_advices *out)
{
    bool is_more = spent->bubble > spent->predicted_bubble + BUBBLE_MORE;
    if (!is_more && !(spent->bubble > BUBBLE_LARGE))
        return;
    struct pen_advice *advice = pen__advice_add(out);
    bool has_prediction = !isnan(spent->predicted_bubble);
    bool has_cause =
        spent->cause != PEN_CAUSE_NONE && (is_more || !has_prediction);
    pen_text_add(&advice->seen, "Ranks wait %.0f %% of the step",
                 100 * spent->bubble);
    if (has_prediction)
        pen_text_add(&advice->seen, ", predicted %.0f %%",
                     100 * spent->predicted_bubble);
    if (has_cause && is_more) {
        pen_text_add_string(&advice->seen, "; ");
        add_duration(&advice->seen, spent->cause_sec);
        pen_text_add(&advice->seen, " of it are lost to %s",
                     pen_text_string(&spent->cause_words));
    } else if (has_cause) {
        pen_text_add(&advice->seen, ", most of it for %s",
                     pen_text_string(&spent->cause_words));
    }
    pen_text_add_string(&advice->seen, ".");
    pen_text_add_string(&advice->todo,
                        todo_for(is_more ? spent->cause : PEN_CAUSE_NONE));
}

static void advise_scale(const struct pen_spent *spent, struct pen_advices *out)
{
    if (isnan(spent->predicted_sec) || fabs(spent->scale - 1) < SCALE_OFF)
        return;
    struct pen_advice *advice = pen__advice_add(out);
    pen_text_add(&advice->seen,
                 "Operations take %.2f times as long as predicted%s.",
                 spent->scale, spent->num_ranks > 1 ? ", on all ranks" : "");
    pen_text_add_string(
        &advice->todo,
        spent->scale > 1
            ? "Measure again with penstock profile, with as many ranks per "
              "machine and the same --threads, or find the cause with "
              "penstock doctor."
            : "The profile was measured on a slower or busier machine: "
              "measure again with penstock profile, and plan with the new "
              "profile.");
}

static void advise_balance(const struct pen_spent *spent,
                           struct pen_advices *out)
{
    double sum_sec = 0;
    uint32_t busiest = 0;
    for (uint32_t i = 0; i < spent->num_ranks; i++) {
        sum_sec += spent->ranks[i].computing_sec;
        if (spent->ranks[i].computing_sec > spent->ranks[busiest].computing_sec)
            busiest = i;
    }
    double ratio = spent->ranks[busiest].computing_sec * spent->num_ranks /
                   fmax(sum_sec, 1e-30);
    if (!(ratio > UNEVEN))
        return;
    struct pen_advice *advice = pen__advice_add(out);
    pen_text_add(&advice->seen,
                 "Rank %" PRIu32
                 " computes %.0f %% longer than the average rank.",
                 busiest, 100 * (ratio - 1));
    pen_text_add_string(
        &advice->todo,
        "Move layers to other ranks: penstock plan with --profile cuts "
        "them evenly, and penstock train --plan uses the cut.");
}

static void advise_sums(const struct pen_spent *spent, struct pen_advices *out)
{
    double sums_sec = 0;
    for (uint32_t i = 0; i < spent->num_ranks; i++)
        sums_sec += spent->ranks[i].sec[PEN_SPENT_SYNC] +
                    spent->ranks[i].sec[PEN_SPENT_WAIT_SYNC];
    double share = sums_sec / (spent->sec * spent->num_ranks);
    if (!(share > SUMS_LARGE))
        return;
    struct pen_advice *advice = pen__advice_add(out);
    pen_text_add(&advice->seen,
                 "Sums of gradients over replicas take %.0f %% of the step.",
                 100 * share);
    pen_text_add_string(
        &advice->todo,
        "Use a larger --global-batch-size to sum less often, or make "
        "sums cheaper with --fast-sums, --compress powersgd:4 or "
        "--sync local-sgd; see penstock sync compare.");
}

static void advise_lost(const struct pen_spent *spent, struct pen_advices *out)
{
    if (spent->num_lost == 0)
        return;
    struct pen_advice *advice = pen__advice_add(out);
    pen_text_add(&advice->seen,
                 "The trace lacks %" PRIu64
                 " events that could not be written.",
                 spent->num_lost);
    pen_text_add_string(
        &advice->todo,
        "The disk was full: write the trace to another disk (--trace, "
        "--run).");
}

/* ---- memory ---- */

static double memory_ratio(const struct pen_run_rank *rank)
{
    return (double)rank->peak_bytes / (double)rank->predicted_bytes;
}

static void advise_memory(const struct pen_run_ranks *ranks,
                          struct pen_advices *out)
{
    uint32_t worst = 0;
    for (uint32_t i = 0; i < ranks->count; i++) {
        if (memory_ratio(&ranks->ranks[i]) > memory_ratio(&ranks->ranks[worst]))
            worst = i;
    }
    double ratio = memory_ratio(&ranks->ranks[worst]);
    if (ratio <= MEMORY_OVER && ratio >= MEMORY_UNDER)
        return;
    struct pen_advice *advice = pen__advice_add(out);
    if (ratio > 1) {
        pen_text_add(&advice->seen,
                     "Rank %" PRIu32
                     " used %.1f %% more memory than predicted.",
                     worst, 100 * (ratio - 1));
        pen_text_add_string(
            &advice->todo,
            "Leave that much memory free: with a lower --memory-limit of "
            "penstock plan, with --recompute-granularity, or with a "
            "smaller --micro-batch-size.");
    } else {
        pen_text_add(&advice->seen,
                     "No rank used more than %.0f %% of its predicted memory.",
                     100 * ratio);
        pen_text_add_string(
            &advice->todo, "A larger --micro-batch-size, or less recomputation "
                           "(--recompute-granularity), may fit.");
    }
}

/* ---- faults ---- */

/* Returns the rank that failed most often, *count times. */
static int64_t worst_rank(const struct pen_run_events *events, size_t *count)
{
    int64_t worst = -1;
    *count = 0;
    for (size_t i = 0; i < events->num_faults; i++) {
        size_t times = 0;
        for (size_t k = 0; k <= i; k++)
            times += events->faults[k].rank == events->faults[i].rank;
        if (events->faults[i].rank < 0 || times <= *count)
            continue;
        *count = times;
        worst = events->faults[i].rank;
    }
    return worst;
}

static void advise_faults(const struct pen_run_events *events,
                          const struct pen_summary *summary,
                          struct pen_advices *out)
{
    size_t count;
    int64_t rank = worst_rank(events, &count);
    double share = events->lost_sec / summary->wall_sec;
    if (rank >= 0 && count >= FAULTS_MANY &&
        FAULTS_SHARE * (double)events->num_faults <= (double)count) {
        struct pen_advice *advice = pen__advice_add(out);
        pen_text_add(&advice->seen,
                     "%zu of %zu faults are of rank %" PRId64 ".", count,
                     events->num_faults, rank);
        pen_text_add_string(&advice->todo,
                            "Run penstock doctor on its machine, or leave that "
                            "machine out of the job.");
    }
    if (share > LOST_LARGE) {
        struct pen_advice *advice = pen__advice_add(out);
        pen_text_add(&advice->seen,
                     "%zu fault%s cost %.3g s, %.0f %% of the run.",
                     events->num_faults, events->num_faults == 1 ? "" : "s",
                     events->lost_sec, 100 * share);
        pen_text_add_string(
            &advice->todo,
            "A smaller --save-interval leaves fewer steps to compute again; "
            "--peak-tflops shortens the start.");
    }
}

/* ---- all ---- */

static void advise(const struct pen_run_parts *parts,
                   const struct pen_summary *summary, struct pen_advices *out)
{
    bool has_log = parts->log != NULL && parts->log->num_steps > 0;
    if (has_log) {
        pen__advise_numbers(parts, out);
        pen__advise_repeats(parts, out);
        pen__advise_spikes(parts, out);
        pen__advise_loss(parts, out);
        pen__advise_validation(parts, out);
        pen__advise_experts(parts, out);
        pen__advise_dropped_tokens(parts, out);
    }
    if (parts->events != NULL)
        advise_faults(parts->events, summary, out);
    if (parts->spent != NULL) {
        advise_bubble(parts->spent, out);
        advise_scale(parts->spent, out);
        advise_balance(parts->spent, out);
        advise_sums(parts->spent, out);
    }
    if (has_log) {
        pen__advise_speed(parts, out);
        pen__advise_share(parts, summary, out);
    }
    if (parts->ranks != NULL)
        advise_memory(parts->ranks, out);
    if (parts->log != NULL)
        pen__advise_cut(parts, out);
    if (parts->spent != NULL)
        advise_lost(parts->spent, out);
}

pen_status pen_advices_init(struct pen_advices *advices,
                            const struct pen_run_parts *parts)
{
    struct pen_summary summary;
    *advices = (struct pen_advices){.count = 0};
    pen_status status = pen_summary_make(parts, &summary);
    if (status != PEN_OK)
        return status;
    advise(parts, &summary, advices);
    for (size_t i = 0; i < advices->count; i++) {
        if (advices->items[i].seen.has_failed ||
            advices->items[i].todo.has_failed)
            return PEN_NOMEM;
    }
    return PEN_OK;
}

void pen_advices_release(struct pen_advices *advices)
{
    for (size_t i = 0; i < advices->count; i++) {
        pen_text_release(&advices->items[i].seen);
        pen_text_release(&advices->items[i].todo);
    }
    advices->count = 0;
}
