#include "support/compress_run.h"

#include "base/bug.h"
#include "base/random.h"
#include "support/support.h"
#include "support/sync_problem.h"
#include "support/thread_group.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *memory)
{
    PEN_BUG_UNLESS(memory != NULL);
    return memory;
}

/* ---- making ---- */

static const size_t (*shapes_of(const struct compress_run *run,
                                size_t *count))[2]
{
    *count = run->shapes == NULL ? SYNC_TENSORS : run->num_shapes;
    return run->shapes == NULL ? sync_shapes : run->shapes;
}

static size_t count_of(const struct compress_run *run)
{
    size_t num_shapes, sum = 0;
    const size_t(*shapes)[2] = shapes_of(run, &num_shapes);
    for (size_t i = 0; i < num_shapes; i++)
        sum += shapes[i][0] * shapes[i][1];
    return sum;
}

static void choose(const struct compress_run *run, struct pen_sync_choice *out)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_sync_choose("allreduce", 0, NULL, 0, run->compress, out, &why) !=
        PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
}

void compress_give(uint32_t member, uint64_t step, size_t count, float *out)
{
    struct pen_random random = {step * 64 + member};
    for (size_t i = 0; i < count; i++) {
        double unit = 2 * pen_random_unit(&random) - 1;
        out[i] = (float)(unit * unit * unit);
    }
}

/* ---- one member ---- */

struct thread {
    pthread_t handle;
    const struct compress_run *run;
    const struct pen_sync_choice *choice;
    struct pen_group *peers;
    struct compress_trace *trace;
};

static struct pen_sync_tensor *lay_out(const struct compress_run *run,
                                       size_t *num_tensors)
{
    const size_t(*shapes)[2] = shapes_of(run, num_tensors);
    struct pen_sync_tensor *tensors =
        must(calloc(*num_tensors, sizeof *tensors));
    size_t first = 0;
    for (size_t i = 0; i < *num_tensors; i++) {
        tensors[i] =
            (struct pen_sync_tensor){.key = 100 + i,
                                     .rows = shapes[i][0],
                                     .columns = shapes[i][1],
                                     .count = shapes[i][0] * shapes[i][1],
                                     .first = first};
        first += tensors[i].count;
    }
    return tensors;
}

/* The states with copies of what they point to. */
static void keep_states(struct pen_average *average,
                        struct pen_sync_states *out)
{
    pen_average_states(average, out);
    for (size_t i = 0; i < out->count; i++) {
        struct pen_sync_state *state = &out->items[i];
        bool is_numbers = state->kind == PEN_STATE_NUMBERS;
        size_t bytes =
            state->count * (is_numbers ? sizeof(double) : sizeof(float));
        void *copy = must(malloc(bytes + 1));
        memcpy(copy, is_numbers ? (void *)state->numbers : state->floats,
               bytes);
        state->floats = is_numbers ? NULL : copy;
        state->numbers = is_numbers ? copy : NULL;
        state->firsts = NULL;
    }
}

static void find_means(struct thread *it, struct pen_average *average)
{
    struct compress_trace *trace = it->trace;
    uint64_t bytes = it->peers->num_bytes;
    for (uint64_t step = 1; step <= it->run->num_steps; step++) {
        float *given = trace->given + (step - 1) * trace->count;
        float *vector = trace->delivered + (step - 1) * trace->count;
        (it->run->give == NULL ? compress_give : it->run->give)(
            it->peers->self, step, trace->count, given);
        memcpy(vector, given, trace->count * sizeof *vector);
        pen_average_start(average, step, vector);
        pen_average_wait(average);
    }
    trace->num_bytes = it->peers->num_bytes - bytes;
}

static void *run_thread(void *argument)
{
    struct thread *it = argument;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_average *average = NULL;
    size_t num_tensors;
    struct pen_sync_tensor *tensors = lay_out(it->run, &num_tensors);
    it->trace->count = count_of(it->run);
    size_t floats = it->run->num_steps * it->trace->count;
    it->trace->given = must(calloc(floats, sizeof(float)));
    it->trace->delivered = must(calloc(floats, sizeof(float)));
    struct pen_compression setting = {.peers = it->peers,
                                      .tensors = tensors,
                                      .num_tensors = num_tensors,
                                      .count = it->trace->count,
                                      .seed = it->run->seed,
                                      .options =
                                          it->choice->compressor_options};
    PEN_BUG_UNLESS(pen_average_create(&setting, it->choice->compressor, 0,
                                      &average, &why) == PEN_OK);
    find_means(it, average);
    keep_states(average, &it->trace->states);
    pen_average_free(average);
    pen_text_release(&why);
    free(tensors);
    return NULL;
}

/* ---- all members ---- */

void compress_threads_run(const struct compress_run *run,
                          struct compress_trace *out)
{
    struct pen_sync_choice choice;
    choose(run, &choice);
    struct thread_world *world = thread_world_create(run->num_members);
    struct thread *threads = must(calloc(run->num_members, sizeof *threads));
    for (uint32_t i = 0; i < run->num_members; i++) {
        out[i] = (struct compress_trace){0};
        threads[i] = (struct thread){.run = run,
                                     .choice = &choice,
                                     .peers = thread_world_group(world, i),
                                     .trace = &out[i]};
        PEN_BUG_UNLESS(pthread_create(&threads[i].handle, NULL, run_thread,
                                      &threads[i]) == 0);
    }
    for (uint32_t i = 0; i < run->num_members; i++)
        pthread_join(threads[i].handle, NULL);
    free(threads);
    thread_world_free(world);
}

void compress_traces_release(struct compress_trace *traces, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        free(traces[i].given);
        free(traces[i].delivered);
        for (size_t j = 0; j < traces[i].states.count; j++) {
            free(traces[i].states.items[j].floats);
            free(traces[i].states.items[j].numbers);
        }
    }
}

const float *compress_kept(const struct compress_trace *trace, const char *name,
                           size_t *count)
{
    for (size_t i = 0; i < trace->states.count; i++)
        if (strcmp(trace->states.items[i].name, name) == 0) {
            *count = trace->states.items[i].count;
            return trace->states.items[i].floats;
        }
    fail_msg("there is no state '%s'", name);
    return NULL;
}

void compress_cost(const struct compress_run *run, struct pen_mean_cost *out)
{
    struct pen_sync_choice choice;
    struct pen_sync_case of = {.num_replicas = run->num_members,
                               .interval = 1,
                               .num_weights = (double)count_of(run),
                               .core_bytes_per_sec = 1e9};
    choose(run, &choice);
    of.shapes = shapes_of(run, &of.num_shapes);
    of.options = choice.compressor_options.at;
    pen_average_cost(choice.compressor, &of, out);
}

/* ---- promises ---- */

static struct compress_trace *run_all(const struct compress_run *run)
{
    struct compress_trace *traces =
        must(calloc(run->num_members, sizeof *traces));
    compress_threads_run(run, traces);
    return traces;
}

static void release_all(const struct compress_run *run,
                        struct compress_trace *traces)
{
    compress_traces_release(traces, run->num_members);
    free(traces);
}

void compress_expect_same_bits(const struct compress_run *run)
{
    struct compress_trace *traces = run_all(run);
    size_t bytes = run->num_steps * traces[0].count * sizeof(float);
    for (uint32_t i = 1; i < run->num_members; i++)
        assert_memory_equal(traces[0].delivered, traces[i].delivered, bytes);
    release_all(run, traces);
}

void compress_expect_bytes(const struct compress_run *run)
{
    struct compress_trace *traces = run_all(run);
    struct pen_mean_cost cost;
    double sent = 0;
    compress_cost(run, &cost);
    for (uint32_t i = 0; i < run->num_members; i++)
        sent += (double)traces[i].num_bytes;
    double expected =
        cost.bytes * (double)run->num_members * (double)run->num_steps;
    if (fabs(sent - expected) > 1e-9 * expected)
        fail_msg("%s: sent %.17g bytes, expected %.17g", run->compress, sent,
                 expected);
    release_all(run, traces);
}

/* The mean of what was given at a step, in double. */
static double mean_given(const struct compress_run *run,
                         const struct compress_trace *traces, size_t at)
{
    double sum = 0;
    for (uint32_t i = 0; i < run->num_members; i++)
        sum += (double)traces[i].given[at];
    return sum / run->num_members;
}

static void expect_near(const struct compress_run *run, size_t at,
                        double expected, double found, double tolerance)
{
    if (!(fabs(expected - found) <= tolerance))
        fail_msg("%s: value %zu: expected %.9g, found %.9g", run->compress, at,
                 expected, found);
}

void compress_expect_exact(const struct compress_run *run, double tolerance)
{
    struct compress_trace *traces = run_all(run);
    size_t floats = run->num_steps * traces[0].count;
    double largest = 0;
    for (size_t at = 0; at < floats; at++)
        largest = fmax(largest, fabs((double)traces[0].given[at]));
    for (uint32_t i = 0; i < run->num_members; i++)
        for (size_t at = 0; at < floats; at++)
            expect_near(run, at, mean_given(run, traces, at),
                        (double)traces[i].delivered[at], tolerance * largest);
    release_all(run, traces);
}

/* Adds what owners keep of the shares of a vector with these tensors. */
static void add_owned(const struct compress_run *run,
                      const struct compress_trace *traces, const char *name,
                      double *sums)
{
    size_t num_shapes;
    const size_t(*shapes)[2] = shapes_of(run, &num_shapes);
    for (uint32_t k = 0; k < run->num_members; k++) {
        size_t length, at = 0, base = 0;
        const float *kept = compress_kept(&traces[k], name, &length);
        for (size_t i = 0; i < num_shapes; i++) {
            size_t count = shapes[i][0] * shapes[i][1];
            size_t end = count * (k + 1) / run->num_members;
            for (size_t j = count * k / run->num_members; j < end; j++)
                sums[base + j] += (double)kept[at++];
            base += count;
        }
        assert_int_equal(length, at);
    }
}

void compress_expect_nothing_lost(const struct compress_run *run,
                                  const char *kept, const char *owner)
{
    struct compress_trace *traces = run_all(run);
    size_t count = traces[0].count, length = 0;
    double *given = must(calloc(count, sizeof *given));
    double *found = must(calloc(count, sizeof *found));
    for (uint64_t step = 0; step < run->num_steps; step++)
        for (size_t k = 0; k < count; k++) {
            given[k] += mean_given(run, traces, step * count + k);
            found[k] += (double)traces[0].delivered[step * count + k];
        }
    for (uint32_t i = 0; i < run->num_members; i++) {
        const float *error = compress_kept(&traces[i], kept, &length);
        assert_int_equal(count, length);
        for (size_t k = 0; k < count; k++)
            found[k] += (double)error[k] / run->num_members;
    }
    if (owner != NULL)
        add_owned(run, traces, owner, found);
    for (size_t k = 0; k < count; k++)
        expect_near(run, k, given[k], found[k], 2e-6 * (double)run->num_steps);
    free(given);
    free(found);
    release_all(run, traces);
}
