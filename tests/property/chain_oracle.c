/*
 * A chain cut into stages on devices of one or several kinds, with replicas and
 * limits of memory, is as good as the best of all cuts.
 */
#include "support/support.h"

#include "base/random.h"
#include "planner/chain.h"

#include <math.h>
#include <string.h>

enum { MOST_LAYERS = 6, MOST_GROUPS = 3, MOST_DEVICES = 5, CASES = 500 };

struct drawing {
    struct pen_chain_problem problem;
    struct pen_chain_layer layers[MOST_LAYERS];
    struct pen_chain_group groups[MOST_GROUPS];
    struct pen_chain_seconds seconds[MOST_GROUPS][MOST_LAYERS];
    uint32_t in_flight[MOST_DEVICES + 1];
};

/* What a family of cases has. */
struct family {
    const char *name;
    uint32_t most_groups;
    uint32_t most_replicas;
    bool is_limited;
    bool may_idle;
};

static void draw(struct drawing *drawing, struct pen_random *random,
                 const struct family *family)
{
    memset(drawing, 0, sizeof *drawing);
    struct pen_chain_problem *problem = &drawing->problem;
    problem->layers = drawing->layers;
    problem->num_layers = 1 + pen_random_below(random, MOST_LAYERS);
    problem->groups = drawing->groups;
    problem->num_groups = 1 + pen_random_below(random, family->most_groups);
    problem->num_microbatches = 1 + pen_random_below(random, 8);
    problem->most_replicas = family->most_replicas;
    problem->may_idle = family->may_idle;
    problem->has_hidden_messages = pen_random_below(random, 2) == 0;
    for (uint32_t i = 0; i <= MOST_DEVICES; i++)
        drawing->in_flight[i] = 1 + 2 * i;
    if (pen_random_below(random, 3) == 0)
        problem->in_flight = drawing->in_flight;
    for (uint32_t i = 0; i < problem->num_layers; i++)
        drawing->layers[i] = (struct pen_chain_layer){
            .state_bytes = pen_random_below(random, 20),
            .gradient_bytes = pen_random_below(random, 40),
            .stash_bytes = pen_random_below(random, 8),
            .output_bytes = pen_random_below(random, 10)};
    uint32_t left = MOST_DEVICES - (problem->num_groups - 1);
    for (uint32_t g = 0; g < problem->num_groups; g++) {
        struct pen_chain_group *group = &drawing->groups[g];
        double slowness = 1 + pen_random_below(random, 3);
        group->seconds = drawing->seconds[g];
        group->num_devices = 1 + pen_random_below(random, left);
        left -= group->num_devices - 1;
        group->memory_bytes =
            family->is_limited ? 25 + pen_random_below(random, 80) : 0;
        group->latency_sec = pen_random_unit(random) * .1;
        group->bytes_per_sec = pen_random_below(random, 4) == 0
                                   ? 0
                                   : 2 + pen_random_below(random, 9);
        group->reduce_bytes_per_sec = pen_random_below(random, 4) == 0
                                          ? 0
                                          : 1 + pen_random_below(random, 9);
        for (uint32_t i = 0; i < problem->num_layers; i++)
            drawing->seconds[g][i] = (struct pen_chain_seconds){
                slowness * pen_random_below(random, 9),
                slowness * pen_random_below(random, 9),
                slowness * pen_random_unit(random)};
    }
}

/* The oracle: stages from the first on, judged when all are there. */
struct oracle {
    const struct pen_chain_problem *problem;
    const uint32_t *order; /* of the groups */
    struct pen_chain_stage stages[MOST_DEVICES];
    uint32_t num_stages;
    double least;
};

static double judge_stage(const struct oracle *oracle, uint32_t number,
                          uint32_t devices_behind, uint64_t *bytes)
{
    const struct pen_chain_problem *problem = oracle->problem;
    const struct pen_chain_stage *stage = &oracle->stages[number];
    const struct pen_chain_group *group = &problem->groups[stage->group];
    uint32_t r = stage->num_replicas;
    uint32_t end = stage->first_layer + stage->num_layers;
    uint32_t waves = problem->in_flight == NULL
                         ? devices_behind
                         : problem->in_flight[devices_behind];
    double sec = 0;
    double gradients = 0;
    double messages[2] = {0, 0};
    waves =
        waves < problem->num_microbatches ? waves : problem->num_microbatches;
    *bytes = 0;
    for (uint32_t i = stage->first_layer; i < end; i++) {
        const struct pen_chain_layer *layer = &problem->layers[i];
        sec += group->seconds[i].forward_sec + group->seconds[i].input_sec +
               group->seconds[i].weight_sec;
        gradients += (double)layer->gradient_bytes;
        *bytes += layer->state_bytes +
                  (uint64_t)ceil((double)waves / r) * layer->stash_bytes;
    }
    sec /= r;
    if (group->reduce_bytes_per_sec > 0)
        sec += 2 * (r - 1.0) / r * gradients / group->reduce_bytes_per_sec /
               problem->num_microbatches;
    if (group->bytes_per_sec > 0 && stage->first_layer > 0)
        messages[0] =
            2 / (double)r *
            (group->latency_sec +
             (double)problem->layers[stage->first_layer - 1].output_bytes /
                 group->bytes_per_sec);
    if (group->bytes_per_sec > 0 && end < problem->num_layers)
        messages[1] = 2 / (double)r *
                      (group->latency_sec +
                       (double)problem->layers[end - 1].output_bytes /
                           group->bytes_per_sec);
    return problem->has_hidden_messages
               ? fmax(sec, fmax(messages[0], messages[1]))
               : sec + messages[0] + messages[1];
}

/* INFINITY when a stage does not fit. */
static double judge(const struct oracle *oracle)
{
    uint32_t devices = 0;
    double most = 0;
    for (uint32_t i = oracle->num_stages; i-- > 0;) {
        uint64_t bytes;
        devices += oracle->stages[i].num_replicas;
        most = fmax(most, judge_stage(oracle, i, devices, &bytes));
        uint64_t memory =
            oracle->problem->groups[oracle->stages[i].group].memory_bytes;
        if (memory > 0 && bytes > memory)
            return INFINITY;
    }
    return most;
}

/* `left`: devices of the group at this place of the order. */
static void try_stages(struct oracle *oracle, uint32_t layer, uint32_t place,
                       uint32_t left)
{
    const struct pen_chain_problem *problem = oracle->problem;
    bool is_last = place + 1 == problem->num_groups;
    if (layer == problem->num_layers &&
        (problem->may_idle || (is_last && left == 0)))
        oracle->least = fmin(oracle->least, judge(oracle));
    if (!is_last && (left == 0 || problem->may_idle))
        try_stages(oracle, layer, place + 1,
                   problem->groups[oracle->order[place + 1]].num_devices);
    for (uint32_t end = layer + 1; end <= problem->num_layers; end++) {
        for (uint32_t r = 1; r <= left && r <= problem->most_replicas; r++) {
            oracle->stages[oracle->num_stages++] =
                (struct pen_chain_stage){.first_layer = layer,
                                         .num_layers = end - layer,
                                         .group = oracle->order[place],
                                         .num_replicas = r};
            try_stages(oracle, end, place, left - r);
            oracle->num_stages--;
        }
    }
}

static double least_of(const struct pen_chain_problem *problem,
                       const uint32_t *order)
{
    struct oracle oracle = {
        .problem = problem, .order = order, .least = INFINITY};
    try_stages(&oracle, 0, 0, problem->groups[order[0]].num_devices);
    return oracle.least;
}

static double least_of_orders(const struct pen_chain_problem *problem)
{
    static const uint32_t orders[][MOST_GROUPS] = {
        {0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    double least = INFINITY;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        bool is_order = true;
        for (uint32_t j = 0; j < problem->num_groups; j++)
            is_order = is_order && orders[i][j] < problem->num_groups;
        if (is_order)
            least = fmin(least, least_of(problem, orders[i]));
    }
    return least;
}

/* A plan is what it says: its own stages give its seconds and bytes. */
static void expect_true(const struct pen_chain_problem *problem,
                        const struct pen_chain_plan *plan)
{
    struct oracle oracle = {.problem = problem, .num_stages = plan->num_stages};
    uint32_t devices = 0;
    uint32_t layer = 0;
    assert_true(plan->num_stages <= MOST_DEVICES);
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        oracle.stages[i] = plan->stages[i];
        assert_int_equal(layer, plan->stages[i].first_layer);
        layer += plan->stages[i].num_layers;
    }
    assert_int_equal(problem->num_layers, layer);
    expect_close(plan->stage_sec, judge(&oracle), "its own seconds");
    for (uint32_t i = plan->num_stages; i-- > 0;) {
        uint64_t bytes;
        devices += plan->stages[i].num_replicas;
        double sec = judge_stage(&oracle, i, devices, &bytes);
        expect_close(sec, plan->stages[i].stage_sec, "seconds of a stage");
        assert_int_equal(bytes, plan->stages[i].bytes);
    }
}

static void compare(const struct family *family, bool is_any_order)
{
    static const uint32_t given[] = {0, 1, 2};
    struct pen_random random = {.state = 7 + is_any_order};
    int num_infeasible = 0;
    for (int i = 0; i < CASES; i++) {
        struct drawing drawing;
        struct pen_chain_plan *plan = NULL;
        draw(&drawing, &random, family);
        const struct pen_chain_problem *problem = &drawing.problem;
        double expected =
            is_any_order ? least_of_orders(problem) : least_of(problem, given);
        pen_status status =
            is_any_order ? pen_chain_solve_any_order(problem, 1, &plan, NULL)
                         : pen_chain_solve(problem, &plan, NULL);
        assert_int_equal(isinf(expected) ? PEN_INFEASIBLE : PEN_OK, status);
        num_infeasible += isinf(expected) ? 1 : 0;
        if (status != PEN_OK)
            continue;
        expect_close(expected, plan->stage_sec, family->name);
        assert_true(plan->is_exact);
        assert_true(plan->has_all_orders || !is_any_order);
        expect_true(problem, plan);
        pen_chain_plan_free(plan);
    }
    print_message("%s: %d cases equal to brute force, %d infeasible\n",
                  family->name, CASES, num_infeasible);
    assert_true(num_infeasible < CASES * 3 / 4);
    assert_true(!family->is_limited || num_infeasible > 0);
}

static void one_kind_is_cut_best(void **state)
{
    (void)state;
    compare(&(struct family){"chain", 1, 1, false, true}, false);
    compare(&(struct family){"chain, limited", 1, 1, true, true}, false);
}

static void replicas_are_chosen_best(void **state)
{
    (void)state;
    compare(&(struct family){"replicas", 1, MOST_DEVICES, false, false}, false);
    compare(&(struct family){"replicas, limited", 1, 3, true, true}, false);
}

static void several_kinds_are_used_best(void **state)
{
    (void)state;
    compare(&(struct family){"kinds", 3, MOST_DEVICES, false, false}, false);
    compare(&(struct family){"kinds, limited", 3, 2, true, true}, false);
}

static void several_kinds_find_their_order(void **state)
{
    (void)state;
    compare(&(struct family){"orders", 3, 2, false, true}, true);
    compare(&(struct family){"orders, limited", 3, MOST_DEVICES, true, true},
            true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_kind_is_cut_best),
        cmocka_unit_test(replicas_are_chosen_best),
        cmocka_unit_test(several_kinds_are_used_best),
        cmocka_unit_test(several_kinds_find_their_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
