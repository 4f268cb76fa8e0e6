/*
 * The latency of a step of m micro-batches over stages 0, 1, ...
 *
 *   L  =  (m - 1) * block  +  sum of t_i  +  sum over cuts of messages
 *         +  most over i of  max( 0, reduction_i - i * block )
 *
 * with t_i the time of a micro-batch in stage i and block the slowest of them:
 * the last stages end first, and have i blocks to reduce their gradients in.
 */
#include "planner/dapple.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define MAX_STEPS 2e8 /* plans that are looked at: seconds */

/* ---- devices ---- */

/* Whether the policy would rather take a device of a than of b. */
static bool is_rather(enum pen_dapple_policy policy, uint32_t all,
                      uint32_t free_a, uint32_t free_b)
{
    if (policy == PEN_DAPPLE_FRESH_FIRST)
        return free_a == all && free_b != all;
    if (policy == PEN_DAPPLE_APPEND_FIRST)
        return free_a != all && free_b == all;
    return free_a > free_b;
}

pen_status pen_dapple_take(enum pen_dapple_policy policy, uint32_t count,
                           const struct pen_dapple_problem *problem,
                           uint32_t *spare, uint32_t *used)
{
    uint32_t left = 0;
    uint32_t before[PEN_DAPPLE_MAX_MACHINES];
    for (uint32_t i = 0; i < problem->num_machines; i++)
        left += spare[i];
    if (left < count)
        return PEN_INFEASIBLE;
    memcpy(before, spare, problem->num_machines * sizeof *before);
    memset(used, 0, problem->num_machines * sizeof *used);
    while (count > 0) {
        uint32_t best = UINT32_MAX;
        for (uint32_t i = 0; i < problem->num_machines; i++)
            if (spare[i] > 0 &&
                (best == UINT32_MAX ||
                 is_rather(policy, problem->num_devices,
                           policy == PEN_DAPPLE_SCATTER_FIRST ? spare[i]
                                                              : before[i],
                           policy == PEN_DAPPLE_SCATTER_FIRST ? spare[best]
                                                              : before[best])))
                best = i;
        /* One machine after the other, or one device after the other. */
        uint32_t taken = policy == PEN_DAPPLE_SCATTER_FIRST ? 1 : spare[best];
        taken = taken < count ? taken : count;
        spare[best] -= taken;
        used[best] += taken;
        count -= taken;
    }
    return PEN_OK;
}

static uint32_t count_machines(const struct pen_dapple_problem *problem,
                               const uint32_t *a, const uint32_t *b)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < problem->num_machines; i++)
        count += a[i] > 0 || b[i] > 0 ? 1 : 0;
    return count;
}

static double rate_between(const struct pen_dapple_problem *problem,
                           const struct pen_dapple_stage *a,
                           const struct pen_dapple_stage *b)
{
    return count_machines(problem, a->used, b->used) > 1
               ? problem->outer_bytes_per_sec
               : problem->inner_bytes_per_sec;
}

/* ---- latency ---- */

static double compute_sec(const struct pen_dapple_problem *problem,
                          const struct pen_dapple_stage *stage)
{
    double sec = 0;
    for (uint32_t i = 0; i < stage->num_layers; i++)
        sec += problem->layers[stage->first_layer + i].compute_sec;
    return sec / stage->num_replicas;
}

static double reduce_sec(const struct pen_dapple_problem *problem,
                         const struct pen_dapple_stage *stage)
{
    double bytes = 0;
    double r = stage->num_replicas;
    for (uint32_t i = 0; i < stage->num_layers; i++)
        bytes += problem->layers[stage->first_layer + i].gradient_bytes;
    return 2 * (r - 1) / r * bytes / rate_between(problem, stage, stage);
}

double pen_dapple_latency(const struct pen_dapple_problem *problem,
                          const struct pen_dapple_stage *stages,
                          uint32_t num_stages)
{
    double block = 0;
    double sum = 0;
    double late = 0;
    for (uint32_t i = 0; i < num_stages; i++) {
        double sec = compute_sec(problem, &stages[i]);
        block = sec > block ? sec : block;
        sum += sec;
    }
    for (uint32_t i = 0; i < num_stages; i++) {
        double rest = reduce_sec(problem, &stages[i]) - i * block;
        late = rest > late ? rest : late;
        if (i + 1 == num_stages)
            continue;
        const struct pen_dapple_stage *next = &stages[i + 1];
        sum += 2 * problem->layers[next->first_layer - 1].output_bytes /
               rate_between(problem, &stages[i], next);
    }
    return (problem->num_microbatches - 1) * block + sum + late;
}

/* ---- search ---- */

struct search {
    const struct pen_dapple_problem *problem;
    struct pen_dapple_plan plan; /* that is looked at */
    struct pen_dapple_plan best;
};

static void try_stages(struct search *search, uint32_t layer,
                       const uint32_t *spare, uint32_t left);

static void try_stage(struct search *search, struct pen_dapple_stage *stage,
                      const uint32_t *spare, uint32_t left)
{
    uint32_t rest[PEN_DAPPLE_MAX_MACHINES];
    memcpy(rest, spare, search->problem->num_machines * sizeof *rest);
    (void)pen_dapple_take(stage->policy, stage->num_replicas, search->problem,
                          rest, stage->used);
    try_stages(search, stage->first_layer + stage->num_layers, rest,
               left - stage->num_replicas);
}

static void try_stages(struct search *search, uint32_t layer,
                       const uint32_t *spare, uint32_t left)
{
    const struct pen_dapple_problem *problem = search->problem;
    struct pen_dapple_plan *plan = &search->plan;
    if (layer == problem->num_layers && left == 0) {
        plan->latency_sec =
            pen_dapple_latency(problem, plan->stages, plan->num_stages);
        if (plan->latency_sec < search->best.latency_sec)
            search->best = *plan;
        return;
    }
    if (left == 0 || layer == problem->num_layers ||
        plan->num_stages == problem->most_stages)
        return;
    struct pen_dapple_stage *stage = &plan->stages[plan->num_stages++];
    bool is_last = plan->num_stages == problem->most_stages;
    uint32_t first = is_last ? problem->num_layers : layer + 1;
    for (uint32_t end = first; end <= problem->num_layers; end++) {
        /* The last stage takes what is left, and no more layers follow it. */
        uint32_t least = end == problem->num_layers ? left : 1;
        for (uint32_t r = least; r <= left; r++) {
            for (int policy = 0; policy < PEN_DAPPLE_POLICIES; policy++) {
                stage->first_layer = layer;
                stage->num_layers = end - layer;
                stage->num_replicas = r;
                stage->policy = (enum pen_dapple_policy)policy;
                try_stage(search, stage, spare, left);
            }
        }
    }
    plan->num_stages--;
}

/* Cuts times replicas times policies, of all stages but the last. */
static double count_steps(const struct pen_dapple_problem *problem)
{
    double devices = (double)problem->num_machines * problem->num_devices;
    double steps = 1;
    for (uint32_t i = 1; i < problem->most_stages; i++)
        steps *= problem->num_layers * devices * PEN_DAPPLE_POLICIES / i / i;
    return steps;
}

pen_status pen_dapple_solve(const struct pen_dapple_problem *problem,
                            struct pen_dapple_plan *out, struct pen_text *why)
{
    uint32_t spare[PEN_DAPPLE_MAX_MACHINES];
    if (problem->num_layers == 0 || problem->num_devices == 0 ||
        problem->num_microbatches == 0 || problem->num_machines == 0 ||
        problem->num_machines > PEN_DAPPLE_MAX_MACHINES ||
        problem->most_stages == 0 ||
        problem->most_stages > PEN_DAPPLE_MAX_STAGES ||
        count_steps(problem) > MAX_STEPS) {
        pen_why(why,
                "%u layers on %u machines of %u devices in %u stages cannot "
                "be searched",
                problem->num_layers, problem->num_machines,
                problem->num_devices, problem->most_stages);
        return PEN_INVALID;
    }
    struct search search = {.problem = problem,
                            .best = {.latency_sec = INFINITY}};
    for (uint32_t i = 0; i < problem->num_machines; i++)
        spare[i] = problem->num_devices;
    try_stages(&search, 0, spare, problem->num_machines * problem->num_devices);
    *out = search.best;
    return PEN_OK;
}
