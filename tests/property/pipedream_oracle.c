/* PipeDream's recurrence gives what trying all stages and replicas gives. */
#include "support/support.h"

#include "base/random.h"
#include "planner/pipedream.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_NODES = 6, CASES = 400 };

struct oracle {
    const struct pen_pipedream_problem *problem;
    uint32_t num_nodes;
    uint32_t before[MOST_NODES]; /* sets of nodes */
    uint32_t around[MOST_NODES]; /* neighbours */
};

static uint32_t all_nodes(const struct oracle *oracle)
{
    return (1u << oracle->num_nodes) - 1;
}

/* Downward closed, with node 0, and in one piece. */
static bool is_state(const struct oracle *oracle, uint32_t set)
{
    uint32_t reached = set & 1;
    for (uint32_t i = 0; i < oracle->num_nodes; i++)
        if ((set >> i & 1) != 0 && (oracle->before[i] & ~set) != 0)
            return false;
    for (uint32_t round = 0; round < oracle->num_nodes; round++)
        for (uint32_t i = 0; i < oracle->num_nodes; i++)
            if ((reached >> i & 1) != 0)
                reached |= oracle->around[i] & set;
    return reached == set;
}

static double sum(const struct oracle *oracle, uint32_t set, char what)
{
    double total = 0;
    for (uint32_t i = 0; i < oracle->num_nodes; i++) {
        const struct pen_pipedream_node *node =
            &oracle->problem->profile->nodes[i];
        if ((set >> i & 1) == 0)
            continue;
        if (what == 't')
            total += node->forward_sec + node->backward_sec;
        else
            total +=
                what == 'w' ? node->parameter_bytes : node->activation_bytes;
    }
    return total;
}

static bool reads(const struct oracle *oracle, uint32_t from, uint32_t to)
{
    const struct pen_graph *graph = &oracle->problem->profile->graph;
    for (uint32_t i = graph->out_begin[from]; i < graph->out_begin[from + 1];
         i++)
        if (graph->out[i] == to)
            return true;
    return false;
}

/* What leaves a state: last nodes, and before each what others read, too. */
static double output_of(const struct oracle *oracle, uint32_t set)
{
    uint32_t output = 0;
    for (uint32_t last = 0; last < oracle->num_nodes; last++) {
        bool is_last = (set >> last & 1) != 0;
        for (uint32_t i = 0; i < oracle->num_nodes; i++)
            if ((set >> i & 1) != 0 && (oracle->before[i] >> last & 1) != 0)
                is_last = false;
        if (!is_last)
            continue;
        output |= 1u << last;
        for (uint32_t a = 0; a < oracle->num_nodes; a++)
            for (uint32_t b = 0; b < oracle->num_nodes; b++)
                if ((oracle->before[last] >> a & 1) != 0 && b != last &&
                    reads(oracle, a, b) && (oracle->before[last] >> b & 1) == 0)
                    output |= 1u << a;
    }
    return sum(oracle, output, 'a');
}

static double best(const struct oracle *oracle, uint32_t level, uint32_t from,
                   uint32_t to, uint32_t devices);

static double one_device(const struct oracle *oracle, uint32_t level,
                         uint32_t from, uint32_t to)
{
    if (level == 0)
        return sum(oracle, to & ~from, 't');
    return best(oracle, level - 1, from, to,
                oracle->problem->levels[level - 1].num_devices);
}

static bool is_too_much(const struct oracle *oracle, uint32_t set, double waves)
{
    double memory = oracle->problem->memory_bytes;
    return memory > 0 &&
           ceil(waves) * (sum(oracle, set, 'a') + sum(oracle, set, 'w')) >
               memory;
}

static double try_last(const struct oracle *oracle, uint32_t level,
                       const uint32_t cut[3], uint32_t devices,
                       uint32_t replicas)
{
    const struct pen_pipedream_problem *problem = oracle->problem;
    double rate = problem->levels[level].bytes_per_sec;
    uint32_t all = problem->levels[level].num_devices;
    uint32_t set = cut[2] & ~cut[1];
    if (is_too_much(oracle, set, (double)(all - devices) / replicas))
        return INFINITY;
    double sec =
        (one_device(oracle, level, cut[1], cut[2]) +
         4 * (replicas - 1) * sum(oracle, set, 'w') / (rate * replicas)) /
        replicas;
    if (problem->has_transfers) {
        sec = fmax(sec, 2 * output_of(oracle, cut[1]) / (rate * replicas));
        if (cut[2] != all_nodes(oracle))
            sec = fmax(sec, 2 * output_of(oracle, cut[2]) / (rate * replicas));
    }
    return fmax(sec, best(oracle, level, cut[0], cut[1], devices - replicas));
}

static double best(const struct oracle *oracle, uint32_t level, uint32_t from,
                   uint32_t to, uint32_t devices)
{
    const struct pen_pipedream_problem *problem = oracle->problem;
    uint32_t all = problem->levels[level].num_devices;
    double within = level == 0 ? 1 : problem->levels[level - 1].num_devices;
    double least = INFINITY;
    if ((devices == 1 || !problem->is_straight) &&
        !is_too_much(oracle, to & ~from, (double)(all - devices) / devices))
        least =
            (one_device(oracle, level, from, to) +
             4 * (devices - 1) * sum(oracle, to & ~from, 'w') /
                 (problem->levels[level].bytes_per_sec * devices) / within) /
            devices;
    for (uint32_t k = 1; k < all_nodes(oracle); k++) {
        if (k == from || k == to || (from & ~k) != 0 || (k & ~to) != 0 ||
            !is_state(oracle, k))
            continue;
        for (uint32_t r = 1; r < devices; r++) {
            const uint32_t cut[] = {from, k, to};
            if (r == 1 || !problem->is_straight)
                least = fmin(least, try_last(oracle, level, cut, devices, r));
        }
    }
    return least;
}

/* A graph of one piece: every node but the first has one before or behind. */
static struct pen_pipedream_profile *draw(struct pen_random *random,
                                          struct oracle *oracle)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text edges = PEN_TEXT_EMPTY;
    struct pen_pipedream_profile *profile = NULL;
    uint32_t n = 2 + pen_random_below(random, MOST_NODES - 1);
    memset(oracle, 0, sizeof *oracle);
    oracle->num_nodes = n;
    for (uint32_t i = 0; i < n; i++)
        pen_text_add(
            &text,
            "n%u -- Layer -- forward_compute_time=%u, "
            "backward_compute_time=%u.5, activation_size=%u, "
            "parameter_size=%u\n",
            i, pen_random_below(random, 30), pen_random_below(random, 30),
            pen_random_below(random, 2000), pen_random_below(random, 2000));
    for (uint32_t b = 1; b < n; b++) {
        bool is_source = b + 1 < n && pen_random_below(random, 6) == 0;
        uint32_t must = pen_random_below(random, b);
        for (uint32_t a = 0; a < b && !is_source; a++) {
            if (a != must && pen_random_below(random, 3) != 0)
                continue;
            pen_text_add(&edges, "\tn%u -- n%u\n", a, b);
            oracle->before[b] |= oracle->before[a] | 1u << a;
            oracle->around[a] |= 1u << b;
            oracle->around[b] |= 1u << a;
        }
    }
    pen_text_add_string(&text, pen_text_string(&edges));
    assert_int_equal(PEN_OK, pen_pipedream_profile_parse(
                                 text.bytes, text.length, &profile, NULL));
    pen_text_release(&text);
    pen_text_release(&edges);
    return profile;
}

static void compare(uint32_t num_levels, uint32_t most_devices, bool is_limited)
{
    struct pen_random random = {.state = num_levels * 2 + is_limited};
    int num_compared = 0;
    int num_infeasible = 0;
    while (num_compared < CASES) {
        struct oracle oracle;
        struct pen_pipedream_level levels[2];
        struct pen_pipedream_profile *profile = draw(&random, &oracle);
        for (uint32_t i = 0; i < 2; i++)
            levels[i] = (struct pen_pipedream_level){
                1 + pen_random_below(&random, most_devices),
                1e4 + 1e5 * pen_random_unit(&random)};
        const struct pen_pipedream_problem problem = {
            .profile = profile,
            .levels = levels,
            .num_levels = num_levels,
            .memory_bytes =
                is_limited ? 1000 + pen_random_below(&random, 9000) : 0,
            .has_transfers = pen_random_below(&random, 4) != 0,
            .is_straight = pen_random_below(&random, 4) == 0};
        struct pen_pipedream_plan *plan = NULL;
        oracle.problem = &problem;
        if (is_state(&oracle, all_nodes(&oracle))) {
            double expected =
                best(&oracle, num_levels - 1, 0, all_nodes(&oracle),
                     levels[num_levels - 1].num_devices);
            pen_status status = pen_pipedream_solve(&problem, &plan, NULL);
            assert_int_equal(isinf(expected) ? PEN_INFEASIBLE : PEN_OK, status);
            if (status == PEN_OK)
                expect_close(expected, plan->stage_sec, "the slowest stage");
            num_infeasible += isinf(expected) ? 1 : 0;
            num_compared++;
        }
        pen_pipedream_plan_free(plan);
        pen_pipedream_profile_free(profile);
    }
    print_message("%d cases equal to brute force, %d of them infeasible\n",
                  num_compared, num_infeasible);
    assert_true(num_infeasible < CASES / 2);
}

static void one_level_is_the_best_of_all(void **state)
{
    (void)state;
    compare(1, 4, false);
}

static void one_level_is_the_best_that_fits(void **state)
{
    (void)state;
    compare(1, 4, true);
}

static void two_levels_are_the_best_of_all(void **state)
{
    (void)state;
    compare(2, 3, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_level_is_the_best_of_all),
        cmocka_unit_test(one_level_is_the_best_that_fits),
        cmocka_unit_test(two_levels_are_the_best_of_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
