#include "planner/replica_compare.h"

#include "base/bug.h"
#include "base/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Predictions are good to a tenth: what differs by less does not differ, and
 * what gains less does not pay for another training.
 */
#define TENTH 0.1

const char *const pen_replica_verdict_keys[PEN_REPLICA_NUM_VERDICTS + 1] = {
#define VERDICT_KEY(name, key, words) key,
    PEN_REPLICA_VERDICTS(VERDICT_KEY) NULL};

const char *const pen_replica_verdict_words[PEN_REPLICA_NUM_VERDICTS + 1] = {
#define VERDICT_WORDS(name, key, words) words,
    PEN_REPLICA_VERDICTS(VERDICT_WORDS) NULL};

void pen_replica_name(const struct pen_replica_time *time, struct pen_text *out)
{
    pen_text_add_string(out, time->choice.method->name);
    if (time->choice.compressor != NULL)
        pen_text_add(out, "+%s", time->choice.compressor->name);
}

/* An all-reduce of whole gradients with the whole optimizer everywhere. */
static bool is_reference(const struct pen_sync_choice *choice)
{
    PEN_BUG_UNLESS(choice->method != NULL);
    return (choice->method->is & PEN_SYNC_IS_NATIVE) != 0 &&
           (choice->method->is & PEN_SYNC_IS_SHARDED) == 0 &&
           choice->compressor == NULL;
}

/* ---- what is compared ---- */

static pen_status add_row(struct pen_replica_comparison *comparison,
                          const struct pen_replica_wish *wish,
                          const struct pen_sync_method *method,
                          const char *compress, struct pen_text *why)
{
    uint64_t interval = method->interval == 1 ? 0 : wish->interval;
    struct pen_sync_choice choice;
    pen_status status = pen_sync_choose(method->name, interval, NULL, 0,
                                        compress, &choice, why);
    if (status != PEN_OK)
        return status;
    struct pen_replica_time *time = &comparison->rows[comparison->count++].time;
    pen_replica_predict(&comparison->setting, &choice, time);
    if (wish->failures != NULL)
        pen_replica_fail(&comparison->setting, wish->failures, time);
    return PEN_OK;
}

static bool is_wanted(const struct pen_replica_wish *wish, const char *name)
{
    bool is_named = wish->num_methods == 0;
    for (size_t i = 0; i < wish->num_methods; i++)
        is_named = is_named || strcmp(wish->methods[i], name) == 0;
    return is_named;
}

/* A method without a compressor, then with those that are asked for. */
static pen_status add_method(struct pen_replica_comparison *comparison,
                             const struct pen_replica_wish *wish,
                             const struct pen_sync_method *method,
                             struct pen_text *why)
{
    const char *compress = wish->compress;
    pen_status status = add_row(comparison, wish, method, NULL, why);
    bool is_first = (method->is & PEN_SYNC_IS_NATIVE) != 0;
    if ((method->is & PEN_SYNC_COMPRESSES) == 0 ||
        (compress == NULL && !is_first) ||
        (compress != NULL && strcmp(compress, "none") == 0))
        return status;
    if (compress != NULL && strcmp(compress, "all") != 0)
        return status != PEN_OK
                   ? status
                   : add_row(comparison, wish, method, compress, why);
    for (size_t i = 0; i < pen_sync_num_compressors() && status == PEN_OK; i++)
        status = add_row(comparison, wish, method,
                         pen_sync_compressor_at(i)->name, why);
    return status;
}

static pen_status check_names(const struct pen_replica_wish *wish,
                              struct pen_text *why)
{
    struct pen_sync_choice choice;
    for (size_t i = 0; i < wish->num_methods; i++) {
        pen_status status =
            pen_sync_choose(wish->methods[i], 0, NULL, 0, NULL, &choice, why);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

/* The reference is there in any case. */
static pen_status add_rows(struct pen_replica_comparison *comparison,
                           const struct pen_replica_wish *wish,
                           struct pen_text *why)
{
    pen_status status = check_names(wish, why);
    for (size_t i = 0; i < pen_sync_num_methods() && status == PEN_OK; i++) {
        const struct pen_sync_method *method = pen_sync_method_at(i);
        if (is_wanted(wish, method->name))
            status = add_method(comparison, wish, method, why);
        else if (is_reference(&(struct pen_sync_choice){.method = method}))
            status = add_row(comparison, wish, method, NULL, why);
    }
    return status;
}

/* ---- factors ---- */

static double factor_of(const struct pen_replica_factors *factors,
                        const struct pen_replica_time *time)
{
    struct pen_text name = PEN_TEXT_EMPTY;
    double factor = is_reference(&time->choice) ? 1 : 0;
    pen_replica_name(time, &name);
    for (size_t i = 0; i < factors->count; i++)
        if (strcmp(factors->items[i].name, pen_text_string(&name)) == 0)
            factor = factors->items[i].factor;
    pen_text_release(&name);
    return factor;
}

/* Seconds that order the rows: of a step, or of as many as a loss takes. */
static double seconds_of(const struct pen_replica_comparison *comparison,
                         const struct pen_replica_time *time)
{
    double seconds = pen_replica_kept_sec(time);
    if (!comparison->has_factors)
        return seconds;
    return time->factor > 0 ? seconds * time->factor : INFINITY;
}

/* ---- verdicts ---- */

static const struct pen_replica_time *
find_plain(const struct pen_replica_comparison *comparison,
           const struct pen_sync_method *method)
{
    for (size_t i = 0; i < comparison->count; i++) {
        const struct pen_replica_time *time = &comparison->rows[i].time;
        if (time->choice.method == method && time->choice.compressor == NULL)
            return time;
    }
    return NULL;
}

static bool gains(double from_sec, double to_sec)
{
    return to_sec < (1 - TENTH) * from_sec;
}

/* Why `time` does not gain a tenth over `other`. */
static enum pen_replica_verdict blame(const struct pen_replica_setting *setting,
                                      const struct pen_replica_time *other,
                                      const struct pen_replica_time *time)
{
    double latency = pen_replica_latency(setting, &time->cost);
    double saved = other->stall_sec - time->stall_sec;
    if (other->stall_sec <= TENTH * other->step_sec)
        return PEN_REPLICA_HIDDEN;
    if (time->step_bytes >= other->step_bytes && saved <= 0)
        return PEN_REPLICA_MORE_BYTES;
    if (time->encode_sec > 0 && gains(other->step_sec, other->step_sec - saved))
        return PEN_REPLICA_ENCODE;
    if (latency > time->sync_sec / 2)
        return PEN_REPLICA_LATENCY;
    if (time->choice.method->interval > 1 &&
        time->stall_sec > TENTH * time->step_sec)
        return PEN_REPLICA_INTERVAL;
    return PEN_REPLICA_LITTLE;
}

static enum pen_replica_verdict
judge(const struct pen_replica_comparison *comparison,
      const struct pen_replica_time *reference,
      const struct pen_replica_time *time)
{
    const struct pen_replica_time *plain = reference;
    if (time == reference)
        return PEN_REPLICA_REFERENCE;
    if (time->cost.bytes <= 0)
        return PEN_REPLICA_APART;
    if (time->choice.compressor != NULL)
        plain = find_plain(comparison, time->choice.method);
    PEN_BUG_UNLESS(plain != NULL);
    if (!gains(pen_replica_kept_sec(plain), pen_replica_kept_sec(time)))
        return blame(&comparison->setting, plain, time);
    if (!gains(pen_replica_kept_sec(reference), pen_replica_kept_sec(time)))
        return blame(&comparison->setting, reference, time);
    if (comparison->has_factors && time->factor > 0 &&
        !gains(seconds_of(comparison, reference), seconds_of(comparison, time)))
        return PEN_REPLICA_LOSS;
    return PEN_REPLICA_PAYS;
}

/* ---- order and advice ---- */

static int compare_rows(const void *left, const void *right)
{
    const struct pen_replica_row *a = left;
    const struct pen_replica_row *b = right;
    double first = pen_replica_kept_sec(&a->time);
    double second = pen_replica_kept_sec(&b->time);
    if (a->time.factor > 0 && b->time.factor > 0) {
        first *= a->time.factor;
        second *= b->time.factor;
    } else if (a->time.factor != b->time.factor)
        return a->time.factor > 0 ? -1 : 1;
    if (first != second)
        return first < second ? -1 : 1;
    return (a->time.cost.bytes > b->time.cost.bytes) -
           (a->time.cost.bytes < b->time.cost.bytes);
}

/*
 * Whether a method has an optimizer of its own: not all facts of the run's hold
 * for it.
 */
static bool has_own_step(const struct pen_replica_time *time)
{
    return (time->choice.method->is & PEN_SYNC_OWN_STEP) != 0;
}

static bool is_milder(const struct pen_replica_time *a,
                      const struct pen_replica_time *b)
{
    bool is_plain = a->choice.compressor == NULL;
    bool is_other_plain = b->choice.compressor == NULL;
    if (is_reference(&a->choice) || is_reference(&b->choice))
        return is_reference(&a->choice);
    if (has_own_step(a) != has_own_step(b))
        return has_own_step(b);
    if (a->cost.staleness != b->cost.staleness)
        return a->cost.staleness < b->cost.staleness;
    if (is_plain != is_other_plain)
        return is_plain;
    return !is_plain && a->step_bytes > b->step_bytes;
}

/*
 * Among the methods as quick as the quickest, to a tenth, the one that changes
 * the training least.
 */
static size_t choose(const struct pen_replica_comparison *comparison)
{
    double least = INFINITY;
    size_t best = comparison->reference;
    for (size_t i = 0; i < comparison->count; i++)
        if (comparison->rows[i].verdict != PEN_REPLICA_APART)
            least =
                fmin(least, seconds_of(comparison, &comparison->rows[i].time));
    bool is_found = false;
    for (size_t i = 0; i < comparison->count; i++) {
        const struct pen_replica_row *row = &comparison->rows[i];
        if (row->verdict == PEN_REPLICA_APART ||
            gains(seconds_of(comparison, &row->time), least))
            continue;
        if (!is_found || is_milder(&row->time, &comparison->rows[best].time))
            best = i;
        is_found = true;
    }
    return best;
}

static void finish(struct pen_replica_comparison *comparison)
{
    pen_sort_few(comparison->rows, comparison->count, sizeof *comparison->rows,
                 compare_rows);
    for (size_t i = 0; i < comparison->count; i++)
        if (is_reference(&comparison->rows[i].time.choice))
            comparison->reference = i;
    const struct pen_replica_time *reference =
        &comparison->rows[comparison->reference].time;
    for (size_t i = 0; i < comparison->count; i++)
        comparison->rows[i].verdict =
            judge(comparison, reference, &comparison->rows[i].time);
    comparison->advice = choose(comparison);
}

pen_status pen_replica_compare(const struct pen_replica_setting *setting,
                               const struct pen_replica_wish *wish,
                               struct pen_replica_comparison **out,
                               struct pen_text *why)
{
    size_t most = pen_sync_num_methods() * (1 + pen_sync_num_compressors());
    struct pen_replica_comparison *comparison = calloc(1, sizeof *comparison);
    pen_status status = PEN_NOMEM;
    if (comparison != NULL)
        comparison->rows = calloc(most, sizeof *comparison->rows);
    if (comparison != NULL && comparison->rows != NULL) {
        comparison->setting = *setting;
        comparison->has_factors = wish->factors != NULL;
        if (wish->failures != NULL)
            comparison->mtbf_sec = wish->failures->job.mtbf_sec;
        status = add_rows(comparison, wish, why);
    } else
        pen_why(why, "no memory for a comparison");
    if (status != PEN_OK) {
        pen_replica_comparison_free(comparison);
        return status;
    }
    for (size_t i = 0; i < comparison->count && wish->factors != NULL; i++)
        comparison->rows[i].time.factor =
            factor_of(wish->factors, &comparison->rows[i].time);
    finish(comparison);
    *out = comparison;
    return PEN_OK;
}

void pen_replica_comparison_free(struct pen_replica_comparison *comparison)
{
    if (comparison == NULL)
        return;
    free(comparison->rows);
    free(comparison);
}
