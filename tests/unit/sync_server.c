/*
 * Methods on a parameter server, where numbers depend on speeds: for each
 * server there is an order of all pushes that explains every weight which any
 * worker ever got, bit for bit.
 */
#include "support/support.h"

#include "support/sync_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REPLICAS = 4, STEPS = 50 };

static const struct sync_run base = {
    .method = "asgd",
    .num_replicas = REPLICAS,
    .num_steps = STEPS,
    .problem = {.seed = 13, .noise = 0.5},
    .optimizer = {.momentum = 0.5},
    .rate = 0.02,
    .slow_ns = {300000, 500000, 1500000, 400000},
};

/* What a push does to the share of a server. */
struct push {
    float scale;
    float lambda;
    bool is_adaptive;
};

/* A share, written down from the equations. */
struct share {
    size_t first;
    size_t count;
    float w[SYNC_COUNT];
    float velocity[SYNC_COUNT];
    float square[SYNC_COUNT];
    uint64_t clocks[REPLICAS];
};

/* What worker `i` computed its next gradient with. */
static const float *known_by(const struct share *share,
                             const struct sync_trace *traces, uint32_t i,
                             const float *start)
{
    return share->clocks[i] == 0 ? start
                                 : sync_trace_at(&traces[i], share->clocks[i]);
}

static void apply(const struct sync_run *run, const struct push *push,
                  const float *gradient, const float *known,
                  struct share *share)
{
    float mu = (float)run->optimizer.momentum;
    for (size_t n = 0; n < share->count; n++) {
        size_t k = share->first + n;
        float g = gradient[k] + (float)run->weight_decay * known[k];
        float lambda = push->lambda, moved = g;
        if (push->is_adaptive) {
            share->square[n] = 0.95f * share->square[n] + (1 - 0.95f) * g * g;
            lambda = lambda / sqrtf(share->square[n] + 1e-7f);
        }
        if (lambda > 0)
            moved = g + lambda * g * g * (share->w[n] - known[k]);
        moved *= push->scale;
        if (mu > 0) {
            share->velocity[n] = mu * share->velocity[n] + moved;
            moved = run->optimizer.is_nesterov ? moved + mu * share->velocity[n]
                                               : share->velocity[n];
        }
        share->w[n] -= (float)run->rate * moved;
    }
}

/* The next push of a worker, if the weights that he got say it is next. */
static bool try_push(const struct sync_run *run, const struct push *push,
                     const struct sync_trace *traces, uint32_t i,
                     struct share *share)
{
    struct share next = *share;
    float start[SYNC_COUNT], g[SYNC_COUNT];
    if (share->clocks[i] == run->num_steps)
        return false;
    sync_start(&run->problem, start);
    const float *known = known_by(share, traces, i, start);
    next.clocks[i]++;
    sync_gradient(&run->problem, i, next.clocks[i], known, g);
    apply(run, push, g, known, &next);
    if (memcmp(next.w, sync_trace_at(&traces[i], next.clocks[i]) + next.first,
               next.count * sizeof(float)) != 0)
        return false;
    *share = next;
    return true;
}

/* The most by which clocks differed. */
static uint64_t lead_of(const struct share *share, uint32_t count)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t i = 0; i < count; i++) {
        least = share->clocks[i] < least ? share->clocks[i] : least;
        most = share->clocks[i] > most ? share->clocks[i] : most;
    }
    return most - least;
}

static uint64_t replay(const struct sync_run *run, const struct push *push,
                       const struct sync_trace *traces, struct share *share)
{
    uint64_t lead = 0;
    for (uint64_t n = 0; n < run->num_steps * run->num_replicas; n++) {
        uint32_t i = 0;
        while (i < run->num_replicas && !try_push(run, push, traces, i, share))
            i++;
        if (i == run->num_replicas)
            fail_msg("%s: no push explains what server %zu did behind %llu",
                     run->method, share->first, (unsigned long long)n);
        uint64_t now = lead_of(share, run->num_replicas);
        lead = now > lead ? now : lead;
    }
    return lead;
}

static void expect_replay(const struct sync_run *run, const struct push *push)
{
    struct sync_trace traces[REPLICAS];
    uint64_t lead = 0;
    float start[SYNC_COUNT];
    sync_start(&run->problem, start);
    sync_threads_run(run, traces);
    for (uint32_t k = 0; k < run->num_replicas; k++) {
        struct share share = {.first = SYNC_COUNT * k / run->num_replicas};
        share.count = SYNC_COUNT * (k + 1) / run->num_replicas - share.first;
        memcpy(share.w, start + share.first, share.count * sizeof(float));
        uint64_t now = replay(run, push, traces, &share);
        lead = now > lead ? now : lead;
        for (uint32_t i = 0; i < run->num_replicas; i++)
            assert_memory_equal(share.w, traces[i].consistent + share.first,
                                share.count * sizeof(float));
    }
    /* They were not in step. */
    assert_true(run->num_replicas == 1 || lead > 1);
    sync_trace_release(traces, run->num_replicas);
}

/* Also across a restart: what the servers keep comes back. */
static void expect_replays(const struct sync_run *run, const struct push *push)
{
    struct sync_run resumed = *run;
    resumed.resume_at = 17;
    expect_replay(run, push);
    expect_replay(&resumed, push);
}

static void asgd_applies_pushes_as_they_come(void **state)
{
    (void)state;
    struct sync_run run = base;
    const struct push push = {.scale = 1};
    expect_replays(&run, &push);
    run.optimizer.is_nesterov = true;
    run.weight_decay = 0.1;
    run.num_replicas = 3;
    expect_replays(&run, &push);
}

static void dc_asgd_corrects_what_is_old(void **state)
{
    (void)state;
    struct sync_run run = base;
    run.method = "dc-asgd";
    expect_replays(&run, &(struct push){1, 2, true});
    run.options[0] = "adaptive=0";
    run.options[1] = "lambda=0.04";
    run.optimizer.momentum = 0;
    expect_replays(&run, &(struct push){1, 0.04f, false});
}

static void without_lambda_dc_asgd_is_asgd(void **state)
{
    (void)state;
    struct sync_run run = base;
    run.method = "dc-asgd";
    run.options[0] = "lambda=0";
    expect_replays(&run, &(struct push){.scale = 1});
}

static void without_a_bound_ssp_is_asgd(void **state)
{
    (void)state;
    struct sync_run run = base;
    run.method = "ssp";
    run.options[0] = "s=1000000";
    expect_replays(&run, &(struct push){.scale = 1.0f / REPLICAS});
}

static void one_worker_is_sgd(void **state)
{
    (void)state;
    static const char *const methods[] = {"asgd", "dc-asgd", "ssp", "dssp"};
    for (int i = 0; i < 4; i++) {
        struct sync_run run = base, alone = base;
        run.method = methods[i];
        alone.method = "allreduce";
        run.num_replicas = alone.num_replicas = 1;
        run.optimizer.is_nesterov = alone.optimizer.is_nesterov = true;
        run.slow_ns[0] = alone.slow_ns[0] = 0;
        sync_expect_same_bits(&alone, &run);
        sync_expect_resumable(&run, 17);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asgd_applies_pushes_as_they_come),
        cmocka_unit_test(dc_asgd_corrects_what_is_old),
        cmocka_unit_test(without_lambda_dc_asgd_is_asgd),
        cmocka_unit_test(without_a_bound_ssp_is_asgd),
        cmocka_unit_test(one_worker_is_sgd)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
