#ifndef PEN_TESTS_COMPRESS_RUN_H
#define PEN_TESTS_COMPRESS_RUN_H

#include "sync/registry.h"

/* Members, as threads, that find means through a compressor, and no method. */
struct compress_run {
    const char *compress; /* "name:VALUE,option=VALUE" */
    uint32_t num_members;
    uint64_t num_steps;
    const size_t (*shapes)[2]; /* NULL: those of sync_problem.h */
    size_t num_shapes;
    uint64_t seed;
    /* What a member gives at a step; NULL: random numbers near 0. */
    void (*give)(uint32_t member, uint64_t step, size_t count, float *out);
};

/* What came of a member; rows of `count`, one for each step. */
struct compress_trace {
    size_t count;
    float *given;
    float *delivered;
    uint64_t num_bytes;
    struct pen_sync_states states; /* behind the last step, owned */
};

void compress_threads_run(const struct compress_run *run,
                          struct compress_trace *out);
void compress_traces_release(struct compress_trace *traces, uint32_t count);

/* A vector that is kept, of a name; fails when there is none. */
const float *compress_kept(const struct compress_trace *trace, const char *name,
                           size_t *count);

/* Random numbers as given by default. */
void compress_give(uint32_t member, uint64_t step, size_t count, float *out);

/* What a mean should cost, by the compressor itself. */
void compress_cost(const struct compress_run *run, struct pen_mean_cost *out);

/* ---- what all compressors promise ---- */

/* Every member has the same bits at every step. */
void compress_expect_same_bits(const struct compress_run *run);

/* What is sent is what cost() says, in all members and steps together. */
void compress_expect_bytes(const struct compress_run *run);

/* What all members deliver is near the mean of what they gave: within
 * `tolerance` of the largest. */
void compress_expect_exact(const struct compress_run *run, double tolerance);

/*
 * All delivered, plus the mean of `kept` over members (and what owners keep of
 * their shares, where `owner` is not NULL), is the sum of all means given.
 */
void compress_expect_nothing_lost(const struct compress_run *run,
                                  const char *kept, const char *owner);

#endif
