#include "support/sync_run.h"

#include "base/bug.h"
#include "base/clock.h"
#include "support/support.h"
#include "support/thread_group.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A replica: its weights, and the method that it takes part in. */
struct replica {
    const struct sync_run *run;
    struct sync_trace *trace;
    struct pen_sync_choice choice;
    struct pen_sync_setting setting;
    struct pen_sync *sync;
    struct pen_sync_tensor tensors[SYNC_TENSORS];
    float weights[SYNC_COUNT];
    float gradients[SYNC_COUNT];
    struct sync_moments moments;
};

static void *must(void *memory)
{
    PEN_BUG_UNLESS(memory != NULL);
    return memory;
}

/* ---- making ---- */

static void choose(const struct sync_run *run, struct pen_sync_choice *out)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    size_t count = 0;
    while (run->options[count] != NULL)
        count++;
    if (pen_sync_choose(run->method, run->interval, run->options, count,
                        run->compress, out, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
}

struct pen_sync_cost sync_run_cost(const struct sync_run *run)
{
    struct pen_sync_case of = {.num_replicas = run->num_replicas,
                               .shapes = sync_shapes,
                               .num_shapes = SYNC_TENSORS,
                               .num_weights = SYNC_COUNT,
                               .core_bytes_per_sec = 1e9};
    struct pen_sync_choice choice;
    struct pen_sync_cost cost;
    choose(run, &choice);
    pen_sync_choice_cost(&choice, &of, &cost);
    return cost;
}

static void local_step(void *context, const struct pen_sync_step *at)
{
    struct replica *it = context;
    sync_optimizer_step(&it->run->optimizer, at->learning_rate, at->step,
                        it->gradients, &it->moments, it->weights);
}

static void lay_out(struct replica *it)
{
    size_t first = 0;
    for (size_t i = 0; i < SYNC_TENSORS; i++) {
        size_t count = sync_shapes[i][0] * sync_shapes[i][1];
        it->tensors[i] = (struct pen_sync_tensor){
            .key = i,
            .rows = sync_shapes[i][0],
            .columns = sync_shapes[i][1],
            .count = count,
            .first = first,
            .value = it->weights + first,
            .gradient = it->gradients + first,
            .moments = {it->moments.first + first,
                        it->run->optimizer.is_adam ? it->moments.second + first
                                                   : NULL}};
        first += count;
    }
    PEN_BUG_UNLESS(first == SYNC_COUNT);
}

static void make_method(struct replica *it)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_sync_create(it->choice.method, &it->setting, &it->sync, &why) !=
        PEN_OK) {
        fprintf(stderr, "%s\n", pen_text_string(&why));
        abort();
    }
    pen_text_release(&why);
}

static void make_replica(struct replica *it, const struct sync_run *run,
                         struct pen_group *peers, struct sync_trace *trace)
{
    *it = (struct replica){.run = run, .trace = trace};
    choose(run, &it->choice);
    sync_start(&run->problem, it->weights);
    lay_out(it);
    it->setting = (struct pen_sync_setting){
        .peers = peers,
        .tensors = it->tensors,
        .num_tensors = SYNC_TENSORS,
        .count = SYNC_COUNT,
        .interval = it->choice.interval,
        .options = it->choice.options,
        .compressor = it->choice.compressor,
        .compressor_options = it->choice.compressor_options,
        .seed = run->problem.seed,
        .epoch_steps = run->epoch_steps == 0 ? 10 : run->epoch_steps,
        .epoch_batches = run->epoch_batches == 0 ? 10 : run->epoch_batches,
        .total_steps = run->num_steps,
        .optimizer = {.beta1 = 0.9,
                      .beta2 = 0.95,
                      .epsilon = 1e-8,
                      .momentum = run->optimizer.momentum,
                      .is_nesterov = run->optimizer.is_nesterov,
                      .weight_decay = run->weight_decay},
        .step = local_step,
        .context = it};
    make_method(it);
}

/* ---- what a checkpoint would do ---- */

static size_t state_bytes(const struct pen_sync_state *state)
{
    return state->count *
           (state->kind == PEN_STATE_NUMBERS ? sizeof(double) : sizeof(float));
}

static void *state_place(const struct pen_sync_state *state)
{
    return state->kind == PEN_STATE_NUMBERS ? (void *)state->numbers
                                            : (void *)state->floats;
}

static void copy_states(struct replica *it, struct pen_sync_states *states,
                        void **copies)
{
    it->choice.method->states(it->sync, states);
    for (size_t i = 0; i < states->count; i++) {
        size_t bytes = state_bytes(&states->items[i]);
        copies[i] = must(malloc(bytes + 1));
        memcpy(copies[i], state_place(&states->items[i]), bytes);
    }
}

static void put_states(struct replica *it, const struct pen_sync_states *kept,
                       void **copies)
{
    struct pen_sync_states states = {0};
    it->choice.method->states(it->sync, &states);
    PEN_BUG_UNLESS(states.count == kept->count);
    for (size_t i = 0; i < states.count; i++) {
        PEN_BUG_UNLESS(strcmp(states.items[i].name, kept->items[i].name) == 0);
        memcpy(state_place(&states.items[i]), copies[i],
               state_bytes(&states.items[i]));
        free(copies[i]);
    }
}

static void settle(struct replica *it)
{
    if (it->choice.method->settle != NULL)
        it->choice.method->settle(it->sync);
}

static void resume(struct replica *it, uint64_t step)
{
    const struct pen_sync_method *method = it->choice.method;
    struct pen_sync_states states = {0};
    void *copies[PEN_SYNC_MAX_STATES];
    settle(it);
    if (method->states != NULL)
        copy_states(it, &states, copies);
    pen_sync_free(method, it->sync);
    make_method(it);
    if (method->states != NULL)
        put_states(it, &states, copies);
    if (method->restored != NULL)
        method->restored(it->sync, step);
}

/* ---- steps ---- */

static void sleep_in(struct replica *it, int64_t ns)
{
    const struct timespec nap = {.tv_nsec = 200000};
    int64_t end = pen_clock_ns() + ns;
    while (pen_clock_ns() < end) {
        if (it->choice.method->poll != NULL)
            it->choice.method->poll(it->sync);
        nanosleep(&nap, NULL);
    }
}

static void one_step(struct replica *it, uint64_t step)
{
    const struct pen_sync_method *method = it->choice.method;
    bool is_still = it->run->still_from > 0 && step >= it->run->still_from;
    struct pen_sync_step at = {step, is_still ? 0 : it->run->rate};
    uint32_t self = it->setting.peers->self;
    if (it->run->watch != NULL)
        it->run->watch(it->run->context, self, step, it->sync);
    if (self < 8 && it->run->slow_ns[self] > 0)
        sleep_in(it, it->run->slow_ns[self]);
    sync_gradient(&it->run->problem, self, step, it->weights, it->gradients);
    if (method->poll != NULL)
        method->poll(it->sync);
    if (method->before_step != NULL)
        method->before_step(it->sync, &at);
    if (method->local_step != NULL)
        method->local_step(it->sync, &at);
    else
        local_step(it, &at);
    if (method->after_step != NULL)
        method->after_step(it->sync, &at);
    memcpy(it->trace->weights + (step - 1) * SYNC_COUNT, it->weights,
           sizeof it->weights);
}

void sync_replica_run(const struct sync_run *run, struct pen_group *peers,
                      struct sync_trace *out)
{
    struct replica *it = must(calloc(1, sizeof *it));
    out->weights = must(calloc(run->num_steps * SYNC_COUNT, sizeof(float)));
    out->consistent = must(calloc(SYNC_COUNT, sizeof(float)));
    make_replica(it, run, peers, out);
    int64_t begin = pen_clock_ns();
    uint64_t bytes = peers->num_bytes, messages = peers->num_messages;
    for (uint64_t step = 1; step <= run->num_steps; step++) {
        one_step(it, step);
        if (step == run->resume_at)
            resume(it, step);
    }
    out->busy_ns = pen_clock_ns() - begin;
    if (!pen_sync_is_free(it->choice.method, &it->choice.options, peers->size))
        settle(it);
    out->num_bytes = peers->num_bytes - bytes;
    out->num_messages = peers->num_messages - messages;
    if (it->choice.method->leave != NULL)
        it->choice.method->leave(it->sync);
    settle(it);
    it->choice.method->consistent(it->sync, out->consistent);
    pen_sync_free(it->choice.method, it->sync);
    free(it);
}

/* ---- threads ---- */

struct thread {
    pthread_t handle;
    const struct sync_run *run;
    struct pen_group *peers;
    struct sync_trace *trace;
};

static void *run_thread(void *argument)
{
    struct thread *it = argument;
    sync_replica_run(it->run, it->peers, it->trace);
    return NULL;
}

void sync_threads_run(const struct sync_run *run, struct sync_trace *out)
{
    struct thread_world *world = thread_world_create(run->num_replicas);
    struct thread *threads = must(calloc(run->num_replicas, sizeof *threads));
    struct pen_sync_choice choice;
    choose(run, &choice); /* here a test may fail, in threads it may not */
    for (uint32_t i = 0; i < run->num_replicas; i++) {
        threads[i] = (struct thread){.run = run,
                                     .peers = thread_world_group(world, i),
                                     .trace = &out[i]};
        PEN_BUG_UNLESS(pthread_create(&threads[i].handle, NULL, run_thread,
                                      &threads[i]) == 0);
    }
    for (uint32_t i = 0; i < run->num_replicas; i++)
        pthread_join(threads[i].handle, NULL);
    free(threads);
    thread_world_free(world);
}

void sync_trace_release(struct sync_trace *traces, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        free(traces[i].weights);
        free(traces[i].consistent);
    }
}

const float *sync_trace_at(const struct sync_trace *trace, uint64_t step)
{
    return trace->weights + (step - 1) * SYNC_COUNT;
}

/* ---- comparing ---- */

static void compare(const char *what, uint64_t step, uint32_t replica,
                    const float *expected, const float *found, double tolerance)
{
    double largest = 0;
    for (size_t k = 0; k < SYNC_COUNT; k++)
        largest = fmax(largest, fabs((double)expected[k]));
    for (size_t k = 0; k < SYNC_COUNT; k++)
        if (!(fabs((double)expected[k] - (double)found[k]) <=
              tolerance * largest))
            fail_msg("%s: step %llu, replica %u, weight %zu: expected %.9g, "
                     "found %.9g",
                     what, (unsigned long long)step, replica, k,
                     (double)expected[k], (double)found[k]);
}

static void expect_like(const struct sync_run *a, const struct sync_run *b,
                        double tolerance)
{
    struct sync_trace *one = must(calloc(a->num_replicas, sizeof *one));
    struct sync_trace *two = must(calloc(b->num_replicas, sizeof *two));
    assert_int_equal(a->num_replicas, b->num_replicas);
    assert_int_equal(a->num_steps, b->num_steps);
    sync_threads_run(a, one);
    sync_threads_run(b, two);
    for (uint32_t i = 0; i < a->num_replicas; i++) {
        for (uint64_t step = 1; step <= a->num_steps; step++)
            compare(b->method, step, i, sync_trace_at(&one[i], step),
                    sync_trace_at(&two[i], step), tolerance);
        compare(b->method, a->num_steps, i, one[i].consistent,
                two[i].consistent, tolerance);
    }
    sync_trace_release(one, a->num_replicas);
    sync_trace_release(two, b->num_replicas);
    free(one);
    free(two);
}

void sync_expect_same_bits(const struct sync_run *a, const struct sync_run *b)
{
    expect_like(a, b, 0);
}

void sync_expect_close(const struct sync_run *a, const struct sync_run *b,
                       double tolerance)
{
    expect_like(a, b, tolerance);
}

void sync_expect_resumable(const struct sync_run *run, uint64_t at)
{
    struct sync_run resumed = *run;
    resumed.resume_at = at;
    expect_like(run, &resumed, 0);
}

void sync_expect_cost(const struct sync_run *run, uint64_t num_syncs)
{
    struct pen_sync_case of = {.num_replicas = run->num_replicas,
                               .shapes = sync_shapes,
                               .num_shapes = SYNC_TENSORS,
                               .num_weights = SYNC_COUNT,
                               .num_moments = run->optimizer.is_adam ? 2 : 1,
                               .core_bytes_per_sec = 1e9};
    struct sync_trace *found = must(calloc(run->num_replicas, sizeof *found));
    struct pen_sync_choice choice;
    struct pen_sync_cost cost;
    uint64_t sent = 0;
    choose(run, &choice);
    pen_sync_choice_cost(&choice, &of, &cost);
    sync_threads_run(run, found);
    for (uint32_t i = 0; i < run->num_replicas; i++)
        sent += found[i].num_bytes;
    assert_int_equal(
        llround(cost.bytes * run->num_replicas * (double)num_syncs), sent);
    sync_trace_release(found, run->num_replicas);
    free(found);
}

void sync_expect_trajectory(const struct sync_run *run, const float *expected,
                            const float *expected_model, double tolerance)
{
    struct sync_trace *found = must(calloc(run->num_replicas, sizeof *found));
    sync_threads_run(run, found);
    for (uint32_t i = 0; i < run->num_replicas; i++) {
        for (uint64_t step = 1; step <= run->num_steps; step++)
            compare(run->method, step, i,
                    expected +
                        ((step - 1) * run->num_replicas + i) * SYNC_COUNT,
                    sync_trace_at(&found[i], step), tolerance);
        if (expected_model != NULL)
            compare(run->method, run->num_steps, i, expected_model,
                    found[i].consistent, tolerance);
    }
    sync_trace_release(found, run->num_replicas);
    free(found);
}
