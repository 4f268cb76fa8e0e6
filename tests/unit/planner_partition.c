/* A cut has the least maximum of all cuts, is even, and keeps limits. */
#include "support/support.h"

#include "base/random.h"
#include "planner/partition.h"

#include <stdlib.h>

enum { MOST_LAYERS = 11, MOST_PARTS = 6, CASES = 3000 };

/* The oracle: tries every cut, with whole numbers. */
struct oracle {
    const double *costs;
    const uint64_t *bytes; /* NULL: no limits */
    const uint64_t *limits;
    uint32_t num_layers;
    uint32_t num_parts;
    double least;   /* the least maximum so far; negative: none */
    double squares; /* the least sum of squares with it */
};

static void try_parts(struct oracle *oracle, uint32_t first, uint32_t part,
                      double most, double squares)
{
    if (part == oracle->num_parts) {
        bool is_better = oracle->least < 0 || most < oracle->least ||
                         (most == oracle->least && squares < oracle->squares);
        if (first == oracle->num_layers && is_better) {
            oracle->least = most;
            oracle->squares = squares;
        }
        return;
    }
    double sum = 0;
    uint64_t bytes = 0;
    for (uint32_t end = first; end < oracle->num_layers; end++) {
        sum += oracle->costs[end];
        bytes += oracle->bytes == NULL ? 0 : oracle->bytes[end];
        if (oracle->bytes != NULL && bytes > oracle->limits[part])
            return;
        try_parts(oracle, end + 1, part + 1, sum > most ? sum : most,
                  squares + sum * sum);
    }
}

/* Maximum and sum of squares of a cut; checks that it is one. */
static void judge(const struct pen_partition_problem *problem,
                  const uint32_t *counts, double *most, double *squares)
{
    uint32_t layer = 0;
    *most = *squares = 0;
    for (uint32_t part = 0; part < problem->num_parts; part++) {
        double sum = 0;
        uint64_t bytes = 0;
        assert_true(counts[part] >= 1);
        assert_true(counts[part] <= problem->num_layers - layer);
        for (uint32_t i = 0; i < counts[part]; i++, layer++) {
            sum += problem->costs[layer];
            bytes += problem->bytes == NULL ? 0 : problem->bytes[layer];
        }
        if (problem->limits != NULL)
            assert_true(bytes <= problem->limits[part]);
        *most = sum > *most ? sum : *most;
        *squares += sum * sum;
    }
    assert_int_equal(problem->num_layers, layer);
}

static void compare_with_oracle(bool has_limits)
{
    struct pen_random random = {.state = has_limits ? 2 : 1};
    uint32_t num_infeasible = 0;
    for (int i = 0; i < CASES; i++) {
        double costs[MOST_LAYERS];
        uint64_t bytes[MOST_LAYERS];
        uint64_t limits[MOST_PARTS];
        uint32_t n = 1 + pen_random_below(&random, MOST_LAYERS);
        uint32_t k =
            1 + pen_random_below(&random, n < MOST_PARTS ? n : MOST_PARTS);
        for (uint32_t j = 0; j < n; j++) {
            costs[j] = pen_random_below(&random, 20);
            bytes[j] = pen_random_below(&random, 9);
        }
        for (uint32_t j = 0; j < k; j++)
            limits[j] = 4 + pen_random_below(&random, 30);
        const struct pen_partition_problem problem = {
            .costs = costs,
            .num_layers = n,
            .num_parts = k,
            .bytes = has_limits ? bytes : NULL,
            .limits = has_limits ? limits : NULL};
        struct oracle oracle = {.costs = costs,
                                .bytes = problem.bytes,
                                .limits = problem.limits,
                                .num_layers = n,
                                .num_parts = k,
                                .least = -1};
        try_parts(&oracle, 0, 0, 0, 0);
        uint32_t counts[MOST_PARTS] = {0};
        pen_status status = pen_partition(&problem, counts, NULL);
        if (oracle.least < 0) {
            assert_int_equal(PEN_INFEASIBLE, status);
            num_infeasible++;
            continue;
        }
        assert_int_equal(PEN_OK, status);
        double most;
        double squares;
        judge(&problem, counts, &most, &squares);
        expect_close(oracle.least, most, "the slowest part");
        expect_close(oracle.squares, squares, "the sum of squares");
    }
    assert_true(has_limits ? num_infeasible > CASES / 50 : num_infeasible == 0);
}

static void a_cut_is_the_best_of_all(void **state)
{
    (void)state;
    compare_with_oracle(false);
}

static void a_cut_is_the_best_that_keeps_the_limits(void **state)
{
    (void)state;
    compare_with_oracle(true);
}

static void expect_counts(const double *costs, uint32_t n, uint32_t k,
                          const uint32_t *expected)
{
    uint32_t counts[MOST_LAYERS] = {0};
    const struct pen_partition_problem problem = {
        .costs = costs, .num_layers = n, .num_parts = k};
    assert_int_equal(PEN_OK, pen_partition(&problem, counts, NULL));
    for (uint32_t i = 0; i < k; i++)
        assert_int_equal(expected[i], counts[i]);
}

static void earlier_parts_are_not_larger(void **state)
{
    (void)state;
    /* A number that has no exact sum in binary. */
    const double equal[] = {.1, .1, .1, .1, .1, .1, .1, .1, .1, .1, .1};
    expect_counts(equal, 11, 5, (const uint32_t[]){2, 2, 2, 2, 3});
    expect_counts(equal, 11, 4, (const uint32_t[]){2, 3, 3, 3});
    expect_counts(equal, 11, 3, (const uint32_t[]){3, 4, 4});
    expect_counts(equal, 11, 1, (const uint32_t[]){11});
    expect_counts(equal, 5, 5, (const uint32_t[]){1, 1, 1, 1, 1});
    const double nothing[] = {0, 0, 0, 0};
    expect_counts(nothing, 4, 2, (const uint32_t[]){1, 3});
}

static void a_heavy_end_is_left_alone(void **state)
{
    (void)state;
    const double costs[] = {0, 1, 1, 1, 1, 1, 1, 3};
    expect_counts(costs, 8, 3, (const uint32_t[]){4, 3, 1});
}

static void a_thousand_layers_are_cut(void **state)
{
    (void)state;
    enum { LAYERS = 1002, PARTS = 128 };
    static double costs[LAYERS];
    static uint32_t counts[PARTS];
    for (int i = 1; i < LAYERS - 1; i++)
        costs[i] = 1;
    const struct pen_partition_problem problem = {
        .costs = costs, .num_layers = LAYERS, .num_parts = PARTS};
    double most;
    double squares;
    assert_int_equal(PEN_OK, pen_partition(&problem, counts, NULL));
    judge(&problem, counts, &most, &squares);
    expect_close(8, most, "layers of the largest part");
}

static void expect_refusal(const struct pen_partition_problem *problem,
                           pen_status status, const char *expected)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    uint32_t counts[4] = {42, 42, 42, 42};
    assert_int_equal(status, pen_partition(problem, counts, &why));
    assert_string_equal(expected, pen_text_string(&why));
    assert_int_equal(42, counts[0]);
    pen_text_release(&why);
}

static void what_cannot_be_cut_is_told(void **state)
{
    (void)state;
    const double costs[] = {1, 1};
    const double wrong[] = {1, -1};
    const uint64_t bytes[] = {5, 5};
    const uint64_t limits[] = {5, 4};
    struct pen_partition_problem problem = {
        .costs = costs, .num_layers = 2, .num_parts = 3};
    expect_refusal(&problem, PEN_INVALID,
                   "2 layers cannot be cut into 3 stages");
    problem.num_parts = 0;
    expect_refusal(&problem, PEN_INVALID,
                   "2 layers cannot be cut into 0 stages");
    problem.num_parts = 2;
    problem.bytes = bytes;
    problem.limits = limits;
    expect_refusal(&problem, PEN_INFEASIBLE,
                   "no cut of 2 layers into 2 stages fits into memory");
    problem.costs = wrong;
    expect_refusal(&problem, PEN_INVALID, "layer 1 has the cost -1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_is_the_best_of_all),
        cmocka_unit_test(a_cut_is_the_best_that_keeps_the_limits),
        cmocka_unit_test(earlier_parts_are_not_larger),
        cmocka_unit_test(a_heavy_end_is_left_alone),
        cmocka_unit_test(a_thousand_layers_are_cut),
        cmocka_unit_test(what_cannot_be_cut_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
