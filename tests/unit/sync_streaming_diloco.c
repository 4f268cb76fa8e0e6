/* Streaming DiLoCo against plain loops over all replicas in one array. */
#include "support/support.h"

#include "support/sync_run.h"

#include <stdlib.h>
#include <string.h>

enum { REPLICAS = 4, STEPS = 50, FRAGMENTS = 3, INTERVAL = 10, DELAY = 3 };

static const struct sync_run base = {
    .method = "streaming-diloco",
    .interval = INTERVAL,
    .options = {"fragments=3", "delay=3"},
    .num_replicas = REPLICAS,
    .num_steps = STEPS,
    .problem = {.seed = 3, .noise = 0.5},
    .optimizer = {.is_adam = true},
    .rate = 0.05,
};

/* The tensors have 48, 7, 20 and 108 weights: nearest to thirds of them. */
static const size_t firsts[FRAGMENTS + 1] = {0, 48 + 7, 48 + 7 + 20,
                                             SYNC_COUNT};

/* The first step at which each is applied; it sets out three before. */
static const uint64_t offsets[FRAGMENTS] = {10, 3, 6};

/* All replicas in one array, written down from the equations. */
struct model {
    float x[REPLICAS][SYNC_COUNT];
    struct sync_moments moments[REPLICAS];
    float theta[SYNC_COUNT];
    float velocity[SYNC_COUNT];
    float moved[SYNC_COUNT];
    bool is_under_way[FRAGMENTS];
};

static void send_fragment(struct model *it, int f)
{
    it->is_under_way[f] = true;
    for (size_t k = firsts[f]; k < firsts[f + 1]; k++) {
        it->moved[k] = 0;
        for (int i = 0; i < REPLICAS; i++)
            it->moved[k] += (it->theta[k] - it->x[i][k]) / REPLICAS;
    }
}

static void apply_fragment(struct model *it, int f)
{
    const float lr = 0.4f, mu = 0.9f, alpha = 0.5f;
    it->is_under_way[f] = false;
    for (size_t k = firsts[f]; k < firsts[f + 1]; k++) {
        it->velocity[k] = mu * it->velocity[k] + it->moved[k];
        it->theta[k] -= lr * (it->moved[k] + mu * it->velocity[k]);
        for (int i = 0; i < REPLICAS; i++)
            it->x[i][k] = alpha * it->x[i][k] + (1 - alpha) * it->theta[k];
    }
}

static void reference(const struct sync_run *run, float *weights, float *model)
{
    static struct model it;
    float g[SYNC_COUNT];
    memset(&it, 0, sizeof it);
    sync_start(&run->problem, it.theta);
    for (int i = 0; i < REPLICAS; i++)
        memcpy(it.x[i], it.theta, sizeof it.theta);
    for (uint64_t step = 1; step <= STEPS; step++) {
        for (uint32_t i = 0; i < REPLICAS; i++) {
            sync_gradient(&run->problem, i, step, it.x[i], g);
            sync_optimizer_step(&run->optimizer, run->rate, step, g,
                                &it.moments[i], it.x[i]);
        }
        for (int f = 0; f < FRAGMENTS; f++) {
            if ((step + DELAY) % INTERVAL == offsets[f] % INTERVAL)
                send_fragment(&it, f);
            else if (step % INTERVAL == offsets[f] % INTERVAL &&
                     it.is_under_way[f])
                apply_fragment(&it, f);
        }
        memcpy(weights + (step - 1) * REPLICAS * SYNC_COUNT, it.x, sizeof it.x);
    }
    memcpy(model, it.theta, sizeof it.theta);
}

static void follows_its_equations(void **state)
{
    (void)state;
    float *weights = malloc(sizeof(float) * STEPS * REPLICAS * SYNC_COUNT);
    float model[SYNC_COUNT];
    assert_non_null(weights);
    reference(&base, weights, model);
    sync_expect_trajectory(&base, weights, model, 2e-6);
    free(weights);
}

static void with_one_fragment_and_no_delay_it_is_diloco(void **state)
{
    (void)state;
    struct sync_run diloco = base, run = base;
    diloco.method = "diloco";
    diloco.options[0] = "lr=0.4";
    diloco.options[1] = NULL;
    run.options[0] = "fragments=1";
    run.options[1] = "delay=0";
    run.options[2] = "mix=0";
    sync_expect_same_bits(&diloco, &run);
    diloco.compress = run.compress = "random-block:1";
    sync_expect_same_bits(&diloco, &run);
}

static void slow_replicas_change_no_number(void **state)
{
    (void)state;
    struct sync_run slow = base;
    slow.slow_ns[1] = 2000000;
    slow.slow_ns[2] = 500000;
    sync_expect_same_bits(&base, &slow);
}

/* Behind 18 fragment 0 is under way, behind 11 and 15 the others are. */
static void resumes_in_the_middle_of_a_fragment(void **state)
{
    (void)state;
    const uint64_t at[] = {1, 11, 15, 18, 20};
    struct sync_run run = base;
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        sync_expect_resumable(&run, at[i]);
    run.compress = "random-block:1";
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        sync_expect_resumable(&run, at[i]);
    run.compress = "sign";
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        sync_expect_resumable(&run, at[i]);
}

static void more_fragments_than_tensors_leave_some_empty(void **state)
{
    (void)state;
    struct sync_run run = base;
    run.interval = 11;
    run.options[0] = "fragments=10";
    run.options[1] = "delay=1";
    sync_expect_resumable(&run, 13);
}

/* Each of three fragments five times in 50 steps. */
static void sends_what_its_cost_says(void **state)
{
    (void)state;
    struct sync_run run = base;
    sync_expect_cost(&run, 15);
    run.options[1] = "delay=0";
    sync_expect_cost(&run, 15);
    run.compress = "random-block:1";
    sync_expect_cost(&run, 15);
}

static void a_delay_beyond_the_next_fragment_is_refused(void **state)
{
    (void)state;
    const char *options[] = {"fragments=5", "delay=2"};
    struct pen_sync_choice choice;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_sync *sync = NULL;
    assert_int_equal(
        pen_sync_choose(base.method, 10, options, 2, NULL, &choice, &why),
        PEN_OK);
    struct pen_sync_setting setting = {.interval = choice.interval,
                                       .options = choice.options};
    assert_int_equal(pen_sync_create(choice.method, &setting, &sync, &why),
                     PEN_INVALID);
    assert_non_null(strstr(pen_text_string(&why), "interval above 10"));
    assert_null(sync);
    pen_text_release(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_equations),
        cmocka_unit_test(with_one_fragment_and_no_delay_it_is_diloco),
        cmocka_unit_test(slow_replicas_change_no_number),
        cmocka_unit_test(resumes_in_the_middle_of_a_fragment),
        cmocka_unit_test(more_fragments_than_tensors_leave_some_empty),
        cmocka_unit_test(sends_what_its_cost_says),
        cmocka_unit_test(a_delay_beyond_the_next_fragment_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
