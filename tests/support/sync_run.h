#ifndef PEN_TESTS_SYNC_RUN_H
#define PEN_TESTS_SYNC_RUN_H

#include "support/sync_problem.h"
#include "sync/registry.h"

/* A training with a method, on the problem of sync_problem.h. */
struct sync_run {
    const char *method;
    uint64_t interval;                             /* 0: the default one */
    const char *options[PEN_SYNC_MAX_OPTIONS + 1]; /* until NULL */
    const char *compress;                          /* or NULL */
    uint32_t num_replicas;
    uint64_t num_steps;
    struct sync_problem problem;
    struct sync_optimizer optimizer;
    double rate;
    double weight_decay;    /* of methods with a step of their own */
    uint64_t still_from;    /* from this step on the rate is 0; 0: it is not */
    uint64_t epoch_steps;   /* 0: 10 */
    uint64_t epoch_batches; /* 0: 10 */
    uint64_t resume_at;     /* behind it the method is freed, made anew and gets
                               its states back; 0: it is not */
    int64_t slow_ns[8];     /* per replica: how long a gradient takes */

    /* Told by a replica before each of its steps, or NULL. Other replicas may
     * tell at the same time. */
    void (*watch)(void *context, uint32_t replica, uint64_t step,
                  struct pen_sync *sync);
    void *context;
};

/* What came of a replica; rows of SYNC_COUNT, from sync_trace_make(). */
struct sync_trace {
    float *weights;     /* behind every step: steps x SYNC_COUNT */
    float *consistent;  /* behind the last */
    uint64_t num_bytes; /* that it sent in its steps and, where members wait
                           for each other, for what was under way then */
    uint64_t num_messages;
    int64_t busy_ns; /* all steps */
};

/* One replica, with its peers; allocates what it leaves in *out. */
void sync_replica_run(const struct sync_run *run, struct pen_group *peers,
                      struct sync_trace *out);

/* All replicas, as threads; out has a place for each. */
void sync_threads_run(const struct sync_run *run, struct sync_trace *out);
void sync_trace_release(struct sync_trace *traces, uint32_t count);

/* What the method of a run says that it costs. */
struct pen_sync_cost sync_run_cost(const struct sync_run *run);

/* Weights behind a step (1 for the first) of a trace. */
const float *sync_trace_at(const struct sync_trace *trace, uint64_t step);

/* Both runs, all replicas, all steps: the same bits. */
void sync_expect_same_bits(const struct sync_run *a, const struct sync_run *b);

/* The same within `tolerance` of the largest weight. */
void sync_expect_close(const struct sync_run *a, const struct sync_run *b,
                       double tolerance);

/* A run that is resumed behind step `at` has the bits of the one that is not.
 */
void sync_expect_resumable(const struct sync_run *run, uint64_t at);

/*
 * All replicas together send what the method says a synchronisation costs,
 * `num_syncs` times.
 */
void sync_expect_cost(const struct sync_run *run, uint64_t num_syncs);

/*
 * Runs, and compares all replicas at every step with expected[], which is
 * [step][replica][SYNC_COUNT], within `tolerance` of the largest (0: bits).
 * expected_model is the consistent one; NULL: it is not compared.
 */
void sync_expect_trajectory(const struct sync_run *run, const float *expected,
                            const float *expected_model, double tolerance);

#endif
