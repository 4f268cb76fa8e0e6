/*
 * The rules the list scheduler starts from, and how they vary.
 *
 *   backward first   I before F before W, later chunks first: what memory
 *                    allows runs ahead (1F1B, ZB-2p and ZB-V look like this)
 *   by age           every op has an intended time: that of its micro-batch,
 *                    were it alone, plus n periods (building blocks as in
 *                    V-Half: Qi et al., NeurIPS 2024, arXiv 2405.15362)
 */
#include "schedule/search_list.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void pen__rule_free(struct pen__rule *rule)
{
    if (rule == NULL)
        return;
    free(rule->offset);
    free(rule->reserve);
    free(rule);
}

pen_status pen__rule_create(const struct pen__problem *problem,
                            struct pen__rule **out)
{
    size_t types = (size_t)problem->num_ranks * problem->num_types;
    struct pen__rule *rule = calloc(1, sizeof *rule);
    if (rule == NULL)
        return PEN_NOMEM;
    rule->offset = calloc(types, sizeof *rule->offset);
    rule->reserve = calloc(problem->num_ranks, sizeof *rule->reserve);
    if (rule->offset == NULL || rule->reserve == NULL) {
        pen__rule_free(rule);
        return PEN_NOMEM;
    }
    *out = rule;
    return PEN_OK;
}

void pen__rule_copy(const struct pen__problem *problem, struct pen__rule *to,
                    const struct pen__rule *from)
{
    size_t types = (size_t)problem->num_ranks * problem->num_types;
    memcpy(to->offset, from->offset, types * sizeof *to->offset);
    memcpy(to->reserve, from->reserve,
           problem->num_ranks * sizeof *to->reserve);
    to->period = from->period;
    to->patience = from->patience;
    to->in_advance = from->in_advance;
}

/* Ticks of the busiest rank for one micro-batch. */
static double natural_period(const struct pen__problem *problem)
{
    int64_t most = 0;
    for (uint32_t rank = 0; rank < problem->num_ranks; rank++)
        most = problem->work[rank] > most ? problem->work[rank] : most;
    return (double)most / (double)problem->num_microbatches;
}

/*
 * Sets the start of every F and I of a micro-batch that is alone; W comes after
 * its I.
 */
static void set_by_age(const struct pen__problem *problem, double stretch,
                       double weight_lag, struct pen__rule *rule)
{
    uint32_t stages = problem->shape.num_stages;
    double at = 0;
    for (uint32_t i = 0; i < 2 * stages; i++) {
        bool is_forward = i < stages;
        uint32_t stage = is_forward ? i : 2 * stages - 1 - i;
        uint32_t rank = pen_shape_rank_of(&problem->shape, stage);
        uint32_t type = is_forward ? PEN__F : PEN__I;
        while (pen__task_of(problem, rank, type)->stage != stage)
            type += PEN__ROLES;
        const struct pen__task *task = pen__task_of(problem, rank, type);
        double *offset = rule->offset + (size_t)rank * problem->num_types;
        offset[type] = at;
        if (!is_forward)
            offset[type + 1] = at + weight_lag;
        at += stretch * (double)task->ticks;
        if (task->send != PEN__NONE)
            at += (double)(problem->latency[task->send] +
                           problem->transfer[task->send]);
    }
    rule->period = natural_period(problem);
}

/* Keys far apart by role; the age decides among equals. */
static void set_backward_first(const struct pen__problem *problem,
                               bool is_deepest_first, struct pen__rule *rule)
{
    double far = 4 * natural_period(problem) *
                 ((double)problem->num_microbatches + problem->num_ranks);
    set_by_age(problem, 1, 0, rule);
    for (uint32_t rank = 0; rank < problem->num_ranks; rank++) {
        double *offset = rule->offset + (size_t)rank * problem->num_types;
        for (uint32_t type = 0; type < problem->num_types; type++) {
            uint32_t role = type % PEN__ROLES;
            uint32_t chunk = type / PEN__ROLES;
            double level = role == PEN__F ? 1 : role == PEN__I ? 0 : 2;
            if (role == PEN__F && is_deepest_first)
                level -= 0.5 * chunk * PEN__ROLES / problem->num_types;
            offset[type] += far * level;
        }
    }
}

#define NUM_BASES 6u
#define NUM_PATIENCES 3u
#define NUM_RESERVES 4u
#define NUM_ADVANCES 2u

uint32_t pen__rule_count(const struct pen__problem *problem)
{
    uint32_t reserves = isfinite(problem->limit) ? NUM_RESERVES : 1;
    return NUM_BASES * NUM_PATIENCES * NUM_ADVANCES * reserves;
}

void pen__rule_set(const struct pen__problem *problem, uint32_t index,
                   struct pen__rule *rule)
{
    static const double patience[NUM_PATIENCES] = {0, 0.5, 1};
    uint32_t base = index % NUM_BASES;
    uint32_t rest = index / NUM_BASES;
    double period = natural_period(problem);
    if (base < 2)
        set_backward_first(problem, base == 0, rule);
    else
        set_by_age(problem, base < 4 ? 1 : 2,
                   base % 2 == 0 ? period : period * problem->num_microbatches,
                   rule);
    rule->patience = patience[rest % NUM_PATIENCES];
    rest /= NUM_PATIENCES;
    rule->in_advance = rest % NUM_ADVANCES;
    rest /= NUM_ADVANCES;
    for (uint32_t rank = 0; rank < problem->num_ranks; rank++)
        rule->reserve[rank] =
            rest == 0 ? 0 : problem->limit * rest / (2 * NUM_RESERVES);
}

/* Draws a number that is zero on average, and now and then large. */
static double jolt(struct pen_random *random)
{
    double unit = 2 * pen_random_unit(random) - 1;
    return unit * unit * unit * 3;
}

static void vary_offsets(const struct pen__problem *problem,
                         struct pen__rule *rule, double strength,
                         struct pen_random *random)
{
    uint32_t rank = pen_random_below(random, problem->num_ranks);
    uint32_t type = pen_random_below(random, problem->num_types);
    double change = jolt(random) * strength * rule->period;
    bool is_everywhere = pen_random_below(random, 4) == 0;
    double slope = pen_random_below(random, 2) * 1.0;
    uint32_t first = is_everywhere ? 0 : rank;
    uint32_t behind = is_everywhere ? problem->num_ranks : rank + 1;
    for (uint32_t i = first; i < behind; i++)
        rule->offset[(size_t)i * problem->num_types + type] +=
            change * (1 - slope * (is_everywhere ? 2.0 * i / behind : 0));
}

void pen__rule_vary(const struct pen__problem *problem, struct pen__rule *rule,
                    double strength, struct pen_random *random)
{
    uint32_t changes = 1 + pen_random_below(random, 3);
    for (uint32_t i = 0; i < changes; i++) {
        uint32_t what = pen_random_below(random, 16);
        uint32_t rank = pen_random_below(random, problem->num_ranks);
        if (what == 0) {
            rule->patience = pen_random_unit(random) * 1.2;
        } else if (what == 1) {
            rule->in_advance = 1 - rule->in_advance;
        } else if (what < 5 && isfinite(problem->limit)) {
            double unit = pen__task_of(problem, rank, PEN__F)->memory;
            double change = (pen_random_below(random, 2) * 2.0 - 1) * unit;
            rule->reserve[rank] = fmax(0, rule->reserve[rank] + change);
        } else {
            vary_offsets(problem, rule, strength, random);
        }
    }
}
