#ifndef PEN_PROFILER_PROFILER_H
#define PEN_PROFILER_PROFILER_H

#include "core/profile.h"
#include "engine/registry.h"

/*
 * Measures the layers of a model on this machine as a training runs them: one
 * layer after the other, with forward, backward and optimizer in turn, so that
 * caches are as warm as in a training. Every round runs every pass once; the
 * result is the median of the rounds.
 */

enum { PEN_PROFILER_LEAST_ROUNDS = 5 };

struct pen_profiler_options {
    const struct pen_model *model; /* borrowed */
    const struct pen_engine_kind *engine;
    const char *device; /* of it; NULL: its choice; borrowed */
    bool is_bf16;
    int threads;
    uint32_t micro_batch; /* sequences */
    uint32_t sequence;
    uint32_t num_rounds;        /* at least PEN_PROFILER_LEAST_ROUNDS */
    bool modes[PEN_RECOMPUTES]; /* those to measure; at least one */

    /*
     * Return the resident bytes of this process, now and at the peak since the
     * last call. If the first is NULL, program_bytes is not reported; if the
     * second is, passing_bytes comes from the engine.
     */
    size_t (*resident_bytes)(void);
    size_t (*peak_bytes)(void);

    /* Called after every round; may be NULL. */
    void (*progress)(void *context, uint32_t done, uint32_t total);
    void *context;
};

/*
 * Fills *out but for what only others know and which is left alone: the machine
 * (cpu, num_cores, memory_bytes), num_ranks and the link. On failure *out is
 * untouched.
 */
pen_status pen_profiler_run(const struct pen_profiler_options *options,
                            struct pen_profile *out, struct pen_text *why);

/*
 * Returns the bytes that a profile of a text model takes at least, in one
 * process: the parameters of the longest chain that it measures, with gradients
 * and moments. 0 for a network for images.
 */
uint64_t pen_profiler_least_bytes(const struct pen_profiler_options *options);

/*
 * Measures a larger micro-batch: adds its layers to a profile that has all the
 * rest.
 */
pen_status pen_profiler_run_more(const struct pen_profiler_options *options,
                                 struct pen_profile *profile,
                                 struct pen_text *why);

#endif
