/* Which records of two probes belong together, and how far they are apart. */
#include "core/probe_diff.h"

#include "base/bug.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * A tensor whose numbers are this much smaller than the largest of its pass is
 * measured as if they were not: gradients that should be zero are rounding.
 */
#define LEAST_SHARE 1e-3

/* ---- order ---- */

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare(const struct pen_probe_record *a,
                   const struct pen_probe_record *b)
{
    int order = compare_numbers(a->step, b->step);
    if (order == 0)
        order = compare_numbers(a->pass, b->pass);
    if (order == 0)
        order = pen_probe_goes_back(a->pass)
                    ? compare_numbers(b->layer, a->layer)
                    : compare_numbers(a->layer, b->layer);
    return order == 0 ? strcmp(a->name, b->name) : order;
}

static int compare_places(const void *a, const void *b)
{
    return compare(*(const struct pen_probe_record *const *)a,
                   *(const struct pen_probe_record *const *)b);
}

/* Sorts; on success the caller frees *out. */
static pen_status sort(const struct pen_probe *probe, const char *which,
                       const struct pen_probe_record ***out,
                       struct pen_text *why)
{
    size_t count = probe->num_records;
    const struct pen_probe_record **sorted = calloc(count, sizeof *sorted);
    if (sorted == NULL) {
        pen_why(why, "no memory for %zu records", count);
        return PEN_NOMEM;
    }
    for (size_t i = 0; i < count; i++)
        sorted[i] = &probe->records[i];
    qsort(sorted, count, sizeof *sorted, compare_places);
    for (size_t i = 1; i < count; i++) {
        const struct pen_probe_record *it = sorted[i];
        if (compare(sorted[i - 1], it) != 0)
            continue;
        pen_why(why,
                "the %s file has two records of step %" PRIu64
                ", %s, layer %" PRIu32 ", %s",
                which, it->step, pen_probe_pass_names[it->pass], it->layer,
                it->name);
        free(sorted);
        return PEN_INVALID;
    }
    *out = sorted;
    return PEN_OK;
}

/* ---- pairs ---- */

static void pair_up(struct pen_probe_diff *diff,
                    const struct pen_probe_record **a, size_t num_a,
                    const struct pen_probe_record **b, size_t num_b)
{
    size_t i = 0, k = 0;
    while (i < num_a && k < num_b) {
        int order = compare(a[i], b[k]);
        if (order == 0)
            diff->pairs[diff->num_pairs++] =
                (struct pen_probe_pair){.a = a[i], .b = b[k]};
        i += order <= 0;
        k += order >= 0;
    }
    diff->num_only_a = num_a - diff->num_pairs;
    diff->num_only_b = num_b - diff->num_pairs;
}

/* ---- differences ---- */

/* Returns the root of the mean square of the larger of two tensors. */
static double size_of(const struct pen_probe_pair *pair)
{
    return fmax(pair->a->is.norm, pair->b->is.norm) /
           sqrt((double)pair->a->is.count);
}

static double sketched(const struct pen_tally_result *a,
                       const struct pen_tally_result *b)
{
    double squares = 0;
    for (int j = 0; j < PEN_TALLY_SKETCHES; j++)
        squares +=
            (a->sketch[j] - b->sketch[j]) * (a->sketch[j] - b->sketch[j]);
    return sqrt(squares / PEN_TALLY_SKETCHES);
}

/*
 * Returns the difference; `least` is the least size that numbers are taken to
 * have.
 */
static double difference(const struct pen_probe_pair *pair, double least)
{
    const struct pen_tally_result *a = &pair->a->is;
    const struct pen_tally_result *b = &pair->b->is;
    double root = sqrt((double)a->count);
    double scale = fmax(size_of(pair), least) * root;
    if (a->count != b->count || a->nonfinite != b->nonfinite)
        return INFINITY;
    if (a->hash == b->hash || scale == 0)
        return 0;
    double of_norm = fabs(a->norm - b->norm) / scale;
    double of_sum = fabs(a->sum - b->sum) / (scale * root);
    double of_max = fabs(a->max - b->max) / fmax(fmax(a->max, b->max), least);
    return fmax(fmax(of_norm, of_sum), fmax(of_max, sketched(a, b) / scale));
}

static bool is_same_pass(const struct pen_probe_pair *a,
                         const struct pen_probe_pair *b)
{
    PEN_BUG_UNLESS(a->a != NULL && b->a != NULL);
    return a->a->step == b->a->step && a->a->pass == b->a->pass;
}

/* Pass by pass, since each has its own size. */
static void measure(struct pen_probe_diff *diff)
{
    size_t next;
    for (size_t i = 0; i < diff->num_pairs; i = next) {
        double largest = 0;
        for (next = i; next < diff->num_pairs &&
                       is_same_pass(&diff->pairs[i], &diff->pairs[next]);
             next++)
            largest = fmax(largest, size_of(&diff->pairs[next]));
        for (size_t k = i; k < next; k++)
            diff->pairs[k].difference =
                difference(&diff->pairs[k], LEAST_SHARE * largest);
    }
}

static bool is_identical(const struct pen_probe_pair *pair)
{
    return pair->a->is.hash == pair->b->is.hash &&
           pair->a->is.count == pair->b->is.count;
}

static void judge(struct pen_probe_diff *diff, double tolerance)
{
    diff->first = diff->num_pairs;
    for (size_t i = diff->num_pairs; i-- > 0;) {
        const struct pen_probe_pair *pair = &diff->pairs[i];
        diff->num_identical += is_identical(pair);
        if (tolerance > 0 ? pair->difference > tolerance : !is_identical(pair))
            diff->first = i;
    }
}

pen_status pen_probe_diff_init(struct pen_probe_diff *diff,
                               const struct pen_probe *a,
                               const struct pen_probe *b, double tolerance,
                               struct pen_text *why)
{
    const struct pen_probe_record **sorted_a = NULL;
    const struct pen_probe_record **sorted_b = NULL;
    *diff = (struct pen_probe_diff){.first = 0};
    pen_status status = sort(a, "first", &sorted_a, why);
    if (status == PEN_OK)
        status = sort(b, "second", &sorted_b, why);
    if (status == PEN_OK) {
        diff->pairs = calloc(a->num_records, sizeof *diff->pairs);
        status = diff->pairs == NULL ? PEN_NOMEM : PEN_OK;
    }
    if (status == PEN_OK)
        pair_up(diff, sorted_a, a->num_records, sorted_b, b->num_records);
    free(sorted_a);
    free(sorted_b);
    if (status == PEN_OK && diff->num_pairs == 0) {
        pen_why(why, "the two files have no record in common: no step, pass, "
                     "layer and name of one is in the other");
        status = PEN_INVALID;
    }
    if (status != PEN_OK) {
        pen_probe_diff_release(diff);
        return status;
    }
    measure(diff);
    judge(diff, tolerance);
    return PEN_OK;
}

void pen_probe_diff_release(struct pen_probe_diff *diff)
{
    free(diff->pairs);
    *diff = (struct pen_probe_diff){.first = 0};
}
