#include "culprits/findings.h"

#include "base/median.h"

#include <math.h>
#include <stdlib.h>

#define ALIKE 0.03 /* ratios closer to 1 are noise */
#define DIFFERENT 0.05
#define LATE 0.02 /* of the step; less explains nothing */

static const struct pen_row *row_of(const struct pen__case *matter,
                                    uint32_t line)
{
    return &matter->measured->schedule
                ->rows[pen__row_of_line(matter->measured, line)];
}

/* Work, waiting and end of one line of a course. */
static void sum_line(const struct pen__course *course, uint32_t line,
                     double *computing_sec, double *waiting_sec,
                     double *total_sec)
{
    const struct pen_row *row =
        &course->schedule->rows[pen__row_of_line(course, line)];
    *computing_sec = 0;
    *waiting_sec = 0;
    *total_sec = 0;
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen__span *span = &course->spans[line][i];
        if (pen__is_work(row->ops[i].kind))
            *computing_sec += span->end_sec - span->ready_sec;
        *waiting_sec += span->ready_sec - span->begin_sec;
        *total_sec = span->end_sec;
    }
}

static void sum_lines(struct pen__findings *findings,
                      const struct pen__case *matter)
{
    for (uint32_t line = 0; line < findings->num_lines; line++) {
        struct pen__line_facts *facts = &findings->lines[line];
        facts->waits_for = PEN__NOBODY;
        facts->root = PEN__NOBODY;
        facts->predicted_computing_sec = NAN;
        facts->predicted_waiting_sec = NAN;
        facts->predicted_total_sec = NAN;
        sum_line(matter->measured, line, &facts->computing_sec,
                 &facts->waiting_sec, &facts->total_sec);
        if (matter->predicted != NULL)
            sum_line(
                matter->predicted, pen__row_of_line(matter->measured, line),
                &facts->predicted_computing_sec, &facts->predicted_waiting_sec,
                &facts->predicted_total_sec);
    }
}

/*
 * Chooses the scale: the median of the ratios of all ranks, which is common to
 * all of them.
 */
static pen_status choose_scale(struct pen__findings *findings,
                               struct pen__case *matter)
{
    findings->scale = 1;
    matter->scale = 1;
    if (matter->predicted == NULL)
        return PEN_OK;
    double *ratios = malloc(findings->num_lines * sizeof *ratios);
    if (ratios == NULL)
        return PEN_NOMEM;
    uint32_t count = 0;
    for (uint32_t line = 0; line < findings->num_lines; line++) {
        const struct pen__line_facts *facts = &findings->lines[line];
        if (facts->predicted_computing_sec > 0)
            ratios[count++] =
                facts->computing_sec / facts->predicted_computing_sec;
    }
    pen_sort(ratios, count);
    if (count > 0 && fabs(ratios[(count - 1) / 2] - 1) > ALIKE)
        findings->scale = ratios[(count - 1) / 2];
    matter->scale = findings->scale;
    free(ratios);
    return PEN_OK;
}

uint32_t pen__largest_root(const struct pen__blame *blame, bool by_excess)
{
    uint32_t best = PEN__NOBODY;
    double most_sec = 0;
    for (uint32_t i = 0; i < blame->num_roots; i++) {
        const struct pen__root *root = &blame->roots[i];
        double sec = by_excess ? root->excess_sec : root->sec;
        if (sec <= most_sec)
            continue;
        most_sec = sec;
        best = i;
    }
    return best;
}

/* Finds the line that this line waits for directly, whatever that one does. */
static void find_waits_for(struct pen__line_facts *facts,
                           const struct pen__case *matter, uint32_t line,
                           double *waits_sec)
{
    uint32_t num_lines = matter->measured->num_lines;
    for (uint32_t i = 0; i < num_lines; i++)
        waits_sec[i] = 0;
    for (uint32_t i = 0; i < row_of(matter, line)->count; i++) {
        const struct pen__span *span = &matter->measured->spans[line][i];
        if (!(span->ready_sec > span->begin_sec))
            continue;
        struct pen__source source =
            pen__source_of(matter->sources, matter->measured, line, i);
        if (source.kind != PEN__SOURCE_NONE)
            waits_sec[source.line] += span->ready_sec - span->begin_sec;
    }
    for (uint32_t i = 0; i < num_lines; i++) {
        if (waits_sec[i] <= facts->waits_for_sec)
            continue;
        facts->waits_for = i;
        facts->waits_for_sec = waits_sec[i];
    }
}

/* Chooses the largest root, if all roots together are worth reporting. */
static void choose_root(struct pen__line_facts *facts,
                        const struct pen__blame *blame, bool by_excess,
                        double all_sec, double least_sec)
{
    uint32_t root = pen__largest_root(blame, by_excess);
    if (root == PEN__NOBODY || all_sec < least_sec)
        return;
    facts->root = root;
    facts->root_share =
        (by_excess ? blame->roots[root].excess_sec : blame->roots[root].sec) /
        all_sec;
}

/* Finds what holds the line up while it waits. */
static void find_root_of_waiting(struct pen__findings *findings,
                                 const struct pen__case *matter, uint32_t line,
                                 struct pen__blame *blame)
{
    struct pen__line_facts *facts = &findings->lines[line];
    for (uint32_t i = 0; i < row_of(matter, line)->count; i++)
        pen__blame_wait(blame, matter, line, i);
    double all_sec = 0;
    for (uint32_t i = 0; i < blame->num_roots; i++) {
        findings->wait_blame.roots[i].sec += blame->roots[i].sec;
        facts->waited_sec[pen__root_kind_of(blame, i)] += blame->roots[i].sec;
        all_sec += blame->roots[i].sec;
    }
    if (matter->predicted == NULL)
        choose_root(facts, blame, false, all_sec, 0);
}

/*
 * Finds the reason why the line ends later than predicted. Lateness travels:
 * the ops in which a rank waits longer may come long after the cause, so the
 * search follows the chain that leads to the line's end.
 */
static void find_root_of_lateness(struct pen__findings *findings,
                                  const struct pen__case *matter, uint32_t line,
                                  struct pen__blame *blame,
                                  struct pen__chain *chain)
{
    struct pen__line_facts *facts = &findings->lines[line];
    pen__blame_chain(blame, matter, line, chain);
    double all_sec = 0;
    for (uint32_t i = 0; i < blame->num_roots; i++)
        all_sec += fmax(0, blame->roots[i].excess_sec);
    double more_sec =
        facts->waiting_sec - findings->scale * facts->predicted_waiting_sec;
    for (uint32_t i = 0; i < blame->num_roots && all_sec > 0; i++)
        findings->wait_blame.roots[i].excess_sec +=
            fmax(0, more_sec) * fmax(0, blame->roots[i].excess_sec) / all_sec;
    choose_root(facts, blame, true, all_sec, LATE * matter->measured->end_sec);
}

static pen_status find_roots(struct pen__findings *findings,
                             const struct pen__case *matter)
{
    struct pen__blame blame = {.roots = NULL};
    struct pen__chain chain = {.ops = NULL};
    double *waits_sec = malloc(findings->num_lines * sizeof *waits_sec);
    pen_status status = pen__blame_init(&blame, matter);
    if (status == PEN_OK)
        status = pen__chain_init(&chain, matter->measured);
    if (waits_sec == NULL)
        status = PEN_NOMEM;
    for (uint32_t i = 0; i < findings->num_lines && status == PEN_OK; i++) {
        find_waits_for(&findings->lines[i], matter, i, waits_sec);
        pen__blame_clear(&blame);
        find_root_of_waiting(findings, matter, i, &blame);
        pen__blame_clear(&blame);
        if (matter->predicted != NULL)
            find_root_of_lateness(findings, matter, i, &blame, &chain);
    }
    free(chain.ops);
    pen__blame_release(&blame);
    free(waits_sec);
    return status;
}

/* One op with a prediction. */
struct sample {
    uint32_t stage;
    unsigned kind;
    double ratio;
    double excess_sec;
};

static int by_op(const void *a, const void *b)
{
    const struct sample *x = a;
    const struct sample *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->stage != y->stage)
        return x->stage < y->stage ? -1 : 1;
    return (x->ratio > y->ratio) - (x->ratio < y->ratio);
}

static uint32_t take_samples(const struct pen__case *matter, uint32_t line,
                             struct sample *samples)
{
    const struct pen_row *row = row_of(matter, line);
    const struct pen__span *predicted =
        matter->predicted->spans[pen__row_of_line(matter->measured, line)];
    uint32_t count = 0;
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen__span *span = &matter->measured->spans[line][i];
        double expected_sec = predicted[i].end_sec - predicted[i].ready_sec;
        double sec = span->end_sec - span->ready_sec;
        if (expected_sec > 0)
            samples[count++] =
                (struct sample){row->ops[i].stage, row->ops[i].kind,
                                sec / expected_sec, sec - expected_sec};
    }
    qsort(samples, count, sizeof *samples, by_op);
    return count;
}

/* There is room for one entry per op. */
static void find_slow_of(struct pen__findings *findings, uint32_t line,
                         const struct sample *samples, uint32_t count)
{
    for (uint32_t first = 0; first < count;) {
        uint32_t end = first;
        double excess_sec = 0;
        while (end < count && samples[end].kind == samples[first].kind &&
               samples[end].stage == samples[first].stage)
            excess_sec += samples[end++].excess_sec;
        double ratio = samples[first + (end - first - 1) / 2].ratio;
        if (fabs(ratio - 1) > DIFFERENT)
            findings->slow[findings->num_slow++] =
                (struct pen__slow_ops){line, samples[first].stage,
                                       samples[first].kind, ratio, excess_sec};
        first = end;
    }
}

/* Compares by whole nanoseconds, since sums of equal numbers differ by less. */
static int by_excess_down(const void *a, const void *b)
{
    const struct pen__slow_ops *x = a;
    const struct pen__slow_ops *y = b;
    long long x_ns = llround(x->excess_sec * 1e9);
    long long y_ns = llround(y->excess_sec * 1e9);
    if (x_ns != y_ns)
        return x_ns > y_ns ? -1 : 1;
    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    return (x->kind > y->kind) - (x->kind < y->kind);
}

/* Slow ones are at most as many as stages times kinds. */
static size_t most_slow(const struct pen__case *matter)
{
    struct pen_mesh mesh = pen__course_mesh(matter->measured);
    return (size_t)matter->measured->schedule->shape.num_stages * PEN_OP_KINDS *
           pen_mesh_num_replicas(&mesh);
}

static pen_status find_slow(struct pen__findings *findings,
                            const struct pen__case *matter)
{
    uint32_t longest = 0;
    for (uint32_t line = 0; line < findings->num_lines; line++) {
        uint32_t count = row_of(matter, line)->count;
        longest = count > longest ? count : longest;
    }
    struct sample *samples = malloc(((size_t)longest + 1) * sizeof *samples);
    findings->slow = malloc(most_slow(matter) * sizeof *findings->slow);
    pen_status status = PEN_OK;
    if (samples == NULL || findings->slow == NULL)
        status = PEN_NOMEM;
    for (uint32_t line = 0; line < findings->num_lines && status == PEN_OK;
         line++) {
        uint32_t count = take_samples(matter, line, samples);
        find_slow_of(findings, line, samples, count);
    }
    if (status == PEN_OK)
        qsort(findings->slow, findings->num_slow, sizeof *findings->slow,
              by_excess_down);
    free(samples);
    return status;
}

pen_status pen__findings_init(struct pen__findings *findings,
                              struct pen__case *matter)
{
    *findings =
        (struct pen__findings){.num_lines = matter->measured->num_lines};
    findings->lines = calloc(findings->num_lines, sizeof *findings->lines);
    pen_status status = findings->lines == NULL ? PEN_NOMEM : PEN_OK;
    if (status == PEN_OK) {
        sum_lines(findings, matter);
        status = choose_scale(findings, matter);
    }
    if (status == PEN_OK)
        status = pen__blame_init(&findings->chain_blame, matter);
    if (status == PEN_OK)
        status = pen__blame_init(&findings->wait_blame, matter);
    if (status == PEN_OK)
        status = pen__chain_init(&findings->chain, matter->measured);
    if (status == PEN_OK) {
        pen__blame_chain(&findings->chain_blame, matter,
                         pen__last_line(matter->measured), &findings->chain);
        status = find_roots(findings, matter);
    }
    if (status == PEN_OK && matter->predicted != NULL)
        status = find_slow(findings, matter);
    if (status == PEN_OK && matter->predicted != NULL)
        status = pen__find_late(findings, matter);
    if (status != PEN_OK)
        pen__findings_release(findings);
    return status;
}

void pen__findings_release(struct pen__findings *findings)
{
    pen__blame_release(&findings->chain_blame);
    pen__blame_release(&findings->wait_blame);
    free(findings->chain.ops);
    free(findings->slow);
    free(findings->late);
    free(findings->lines);
    *findings = (struct pen__findings){.lines = NULL};
}
