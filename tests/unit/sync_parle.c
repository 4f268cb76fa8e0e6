/* Both forms of Parle against plain loops, and their special cases. */
#include "support/support.h"

#include "support/sync_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_REPLICAS = 4, STEPS = 50, EPOCH = 10 };

static const struct sync_run base = {
    .method = "parle",
    .interval = 7,
    .options = {"gamma=2", "rho=3", "gamma_least=1.8", "rho_least=2.7"},
    .num_replicas = MOST_REPLICAS,
    .num_steps = STEPS,
    .problem = {.seed = 17, .noise = 0.5},
    .rate = 0.01,
    .weight_decay = 0.01,
    .epoch_steps = 3, /* not what the forces follow */
    .epoch_batches = EPOCH,
};

static const struct sync_run code = {
    .method = "parle-code",
    .interval = 7,
    .options = {"gamma=0.4", "gamma_most=1.5", "rho_most=2"},
    .num_replicas = MOST_REPLICAS,
    .num_steps = STEPS,
    .problem = {.seed = 19, .noise = 0.5},
    .rate = 0.01,
    .weight_decay = 0.01,
    .epoch_steps = EPOCH,
};

/* All replicas, with the letters of the papers. */
struct parle {
    uint32_t n;
    float y[MOST_REPLICAS][SYNC_COUNT];
    float z[MOST_REPLICAS][SYNC_COUNT];
    float xa[MOST_REPLICAS][SYNC_COUNT];
    float u[MOST_REPLICAS][SYNC_COUNT];
    float v[MOST_REPLICAS][SYNC_COUNT];
    float g[MOST_REPLICAS][SYNC_COUNT];
    float xbar[SYNC_COUNT];
    double gamma, rho;
    uint64_t t;
    float *weights; /* (STEPS, n, SYNC_COUNT) */
};

static struct parle *parle_create(const struct sync_run *run)
{
    struct parle *it = calloc(1, sizeof *it);
    assert_non_null(it);
    it->n = run->num_replicas;
    it->weights = malloc(sizeof(float) * STEPS * it->n * SYNC_COUNT);
    assert_non_null(it->weights);
    sync_start(&run->problem, it->xbar);
    for (uint32_t i = 0; i < it->n; i++) {
        memcpy(it->y[i], it->xbar, sizeof it->xbar);
        memcpy(it->z[i], it->xbar, sizeof it->xbar);
        memcpy(it->xa[i], it->xbar, sizeof it->xbar);
    }
    return it;
}

static void parle_free(struct parle *it)
{
    free(it->weights);
    free(it);
}

static void gradients(struct parle *it, const struct sync_run *run,
                      uint64_t step)
{
    for (uint32_t i = 0; i < it->n; i++) {
        sync_gradient(&run->problem, i, step, it->y[i], it->g[i]);
        for (size_t k = 0; k < SYNC_COUNT; k++)
            it->g[i][k] += (float)run->weight_decay * it->y[i][k];
    }
}

static void average(struct parle *it, float (*of)[SYNC_COUNT])
{
    for (size_t k = 0; k < SYNC_COUNT; k++) {
        it->xbar[k] = 0;
        for (uint32_t i = 0; i < it->n; i++)
            it->xbar[k] += of[i][k] / (float)it->n;
    }
}

static void write_row(struct parle *it, uint64_t step)
{
    for (uint32_t i = 0; i < it->n; i++)
        memcpy(it->weights + ((step - 1) * it->n + i) * SYNC_COUNT, it->y[i],
               sizeof it->y[i]);
}

/* ---- the paper's form ---- */

static void paper_inner(struct parle *it, float eta)
{
    for (uint32_t i = 0; i < it->n; i++)
        for (size_t k = 0; k < SYNC_COUNT; k++) {
            float g =
                it->g[i][k] + (it->y[i][k] - it->xa[i][k]) / (float)it->gamma;
            it->u[i][k] = 0.9f * it->u[i][k] + g;
            it->y[i][k] -= eta * (g + 0.9f * it->u[i][k]);
            it->z[i][k] = 0.75f * it->z[i][k] + 0.25f * it->y[i][k];
        }
}

static void paper_outer(struct parle *it, float eta)
{
    for (uint32_t i = 0; i < it->n; i++)
        for (size_t k = 0; k < SYNC_COUNT; k++) {
            float x = it->xa[i][k];
            it->xa[i][k] = x - eta * (x - it->z[i][k]) -
                           fminf(eta / (float)it->rho, 1) * (x - it->xbar[k]);
            it->y[i][k] = it->z[i][k] = it->xa[i][k];
        }
    average(it, it->xa);
}

/* rho falls from `rho` to `least`. */
static void expect_paper(struct sync_run run, double rho, double least)
{
    struct parle *it = parle_create(&run);
    run.options[4] = "eta=0.8";
    it->gamma = 2;
    it->rho = rho;
    for (uint64_t step = 1; step <= STEPS; step++) {
        gradients(it, &run, step);
        paper_inner(it, (float)run.rate);
        if (step % run.interval == 0) {
            paper_outer(it, 0.8f);
            it->gamma = fmax(it->gamma * (1 - 1.0 / (2 * EPOCH)), 1.8);
            it->rho = fmax(it->rho * (1 - 1.0 / (2 * EPOCH)), least);
        }
        write_row(it, step);
    }
    sync_expect_trajectory(&run, it->weights, it->xbar, 2e-6);
    parle_free(it);
}

static void the_papers_form_follows_its_equations(void **state)
{
    (void)state;
    expect_paper(base, 3, 2.7);
}

/* eta / rho is 1.07, 1.12, ... here. */
static void anchors_do_not_move_beyond_their_mean(void **state)
{
    (void)state;
    struct sync_run run = base;
    run.options[1] = "rho=0.75";
    run.options[3] = "rho_least=0.1";
    expect_paper(run, 0.75, 0.1);
}

/* ---- the code's form, with its quirks ---- */

static double code_growth(const struct parle *it, uint64_t interval)
{
    return pow(1 + 0.5 / EPOCH, (double)(it->t / interval));
}

static void code_inner(struct parle *it, const struct sync_run *run)
{
    float gamma = (float)fmin(0.4 * code_growth(it, run->interval), 1.5);
    for (uint32_t i = 0; i < it->n; i++)
        for (size_t k = 0; k < SYNC_COUNT; k++) {
            float g = it->g[i][k] + gamma * (it->y[i][k] - it->xa[i][k]);
            it->u[i][k] = 0.9f * it->u[i][k] + g;
            g += it->u[i][k];
            it->y[i][k] -= (float)run->rate * g;
            it->z[i][k] = 0.75f * it->z[i][k] + 0.25f * it->y[i][k];
        }
    it->t += SYNC_TENSORS;
}

static void code_outer(struct parle *it, const struct sync_run *run)
{
    double rho = 0.01 * (double)(run->interval * it->n);
    rho = fmin(rho * code_growth(it, run->interval), 2);
    average(it, it->z);
    for (uint32_t i = 0; i < it->n; i++)
        for (size_t k = 0; k < SYNC_COUNT; k++) {
            float x = it->xa[i][k];
            float g = x - it->z[i][k] + (float)rho * (x - it->xbar[k]);
            it->v[i][k] = 0.9f * it->v[i][k] + g;
            g += it->v[i][k];
            it->y[i][k] -= (float)run->rate * g;
            it->xa[i][k] = it->y[i][k];
        }
    average(it, it->xa);
}

static void the_codes_form_follows_its_code(void **state)
{
    (void)state;
    struct parle *it = parle_create(&code);
    for (uint64_t step = 1; step <= STEPS; step++) {
        gradients(it, &code, step);
        code_inner(it, &code);
        if (step % code.interval == 0)
            code_outer(it, &code);
        write_row(it, step);
    }
    sync_expect_trajectory(&code, it->weights, it->xbar, 2e-6);
    parle_free(it);
}

/* ---- special cases ---- */

static void without_forces_the_papers_form_is_sgd(void **state)
{
    (void)state;
    struct sync_run run = base, sgd = base;
    run.num_replicas = sgd.num_replicas = 1;
    run.interval = 1;
    run.weight_decay = sgd.weight_decay = 0;
    memcpy(run.options,
           (const char *[]){"gamma=0", "rho=0", "alpha=0", "eta=1", NULL},
           5 * sizeof *run.options);
    sgd.method = "allreduce";
    sgd.interval = 0;
    sgd.options[0] = NULL;
    sgd.optimizer.momentum = 0.9;
    sgd.optimizer.is_nesterov = true;
    sync_expect_close(&sgd, &run, 2e-6);
}

/* g = 1 / gamma grows by 1 / (1 - 1/(2B)) = 1 + 1/19. */
static void alone_the_papers_form_is_entropy_sgd(void **state)
{
    (void)state;
    struct sync_run run = base, entropy = base;
    run.num_replicas = entropy.num_replicas = 1;
    run.weight_decay = entropy.weight_decay = 0;
    run.rate = 0.1;
    memcpy(run.options,
           (const char *[]){"gamma=4", "rho=0", "eta=0.7", "momentum=0", NULL},
           5 * sizeof *run.options);
    memcpy(entropy.options,
           (const char *[]){"g0=0.25", "g1=0.05263157894736842", "llr=0.1",
                            "momentum=0", "noise=0", NULL},
           6 * sizeof *entropy.options);
    entropy.method = "entropy-sgd";
    entropy.rate = 0.7;
    sync_expect_close(&entropy, &run, 2e-6);
}

static void with_l_1_the_papers_form_is_elastic_sgd(void **state)
{
    (void)state;
    struct sync_run run = base;
    struct parle *it = parle_create(&run);
    run.interval = 1;
    run.weight_decay = 0;
    memcpy(run.options,
           (const char *[]){"gamma=0", "rho=4", "rho_least=4", "alpha=0",
                            "eta=1", "momentum=0", NULL},
           7 * sizeof *run.options);
    for (uint64_t step = 1; step <= STEPS; step++) {
        gradients(it, &run, step);
        for (uint32_t i = 0; i < it->n; i++)
            for (size_t k = 0; k < SYNC_COUNT; k++)
                it->y[i][k] -= (float)run.rate * it->g[i][k] +
                               (it->y[i][k] - it->xbar[k]) / 4;
        average(it, it->y);
        write_row(it, step);
    }
    sync_expect_trajectory(&run, it->weights, it->xbar, 2e-6);
    parle_free(it);
}

/* SGD in the code's own form of momentum, y -= lr (g + u). */
static void unsynchronised_the_codes_form_is_sgd(void **state)
{
    (void)state;
    struct sync_run run = code;
    run.num_replicas = 1;
    run.interval = STEPS + 1;
    run.options[0] = "gamma=0";
    run.options[1] = "rho=0";
    run.options[2] = NULL;
    struct parle *it = parle_create(&run);
    for (uint64_t step = 1; step <= STEPS; step++) {
        gradients(it, &run, step);
        for (size_t k = 0; k < SYNC_COUNT; k++) {
            it->u[0][k] = 0.9f * it->u[0][k] + it->g[0][k];
            it->y[0][k] -= (float)run.rate * (it->g[0][k] + it->u[0][k]);
        }
        write_row(it, step);
    }
    sync_expect_trajectory(&run, it->weights, NULL, 0);
    parle_free(it);
}

/* Each tensor counts: with T given it does not matter how many there are. */
static void the_forces_of_the_code_grow_with_its_tensors(void **state)
{
    (void)state;
    struct sync_run run = code;
    run.options[3] = "tensors=4";
    sync_expect_same_bits(&code, &run);
    struct sync_trace slow[MOST_REPLICAS], fast[MOST_REPLICAS];
    sync_threads_run(&run, fast);
    run.options[3] = "tensors=1";
    sync_threads_run(&run, slow);
    assert_memory_not_equal(sync_trace_at(fast, STEPS),
                            sync_trace_at(slow, STEPS),
                            SYNC_COUNT * sizeof(float));
    sync_trace_release(slow, MOST_REPLICAS);
    sync_trace_release(fast, MOST_REPLICAS);
}

/* ---- the rest ---- */

static void with_a_compressor_that_keeps_all_it_is_the_same(void **state)
{
    (void)state;
    struct sync_run run = base;
    run.compress = "random-block:100";
    sync_expect_close(&base, &run, 2e-6);
}

static void a_slow_replica_changes_nothing(void **state)
{
    (void)state;
    struct sync_run run = base;
    run.interval = 3;
    struct sync_run slow = run;
    slow.slow_ns[2] = 500000;
    sync_expect_same_bits(&run, &slow);
}

static void resumes_between_synchronisations(void **state)
{
    (void)state;
    struct sync_run run = base;
    sync_expect_resumable(&run, 17);
    sync_expect_resumable(&run, 21); /* a mean is under way */
    run.compress = "random-block:1";
    sync_expect_resumable(&run, 17);
    sync_expect_resumable(&code, 17);
    sync_expect_resumable(&code, 21);
}

static void sends_what_it_says(void **state)
{
    (void)state;
    struct sync_run run = base;
    sync_expect_cost(&run, 7);
    run.compress = "random-block:1";
    sync_expect_cost(&run, 7);
    sync_expect_cost(&code, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_papers_form_follows_its_equations),
        cmocka_unit_test(anchors_do_not_move_beyond_their_mean),
        cmocka_unit_test(the_codes_form_follows_its_code),
        cmocka_unit_test(without_forces_the_papers_form_is_sgd),
        cmocka_unit_test(alone_the_papers_form_is_entropy_sgd),
        cmocka_unit_test(with_l_1_the_papers_form_is_elastic_sgd),
        cmocka_unit_test(unsynchronised_the_codes_form_is_sgd),
        cmocka_unit_test(the_forces_of_the_code_grow_with_its_tensors),
        cmocka_unit_test(with_a_compressor_that_keeps_all_it_is_the_same),
        cmocka_unit_test(a_slow_replica_changes_nothing),
        cmocka_unit_test(resumes_between_synchronisations),
        cmocka_unit_test(sends_what_it_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
