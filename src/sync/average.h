#ifndef PEN_SYNC_AVERAGE_H
#define PEN_SYNC_AVERAGE_H

#include "sync/compressor.h"

/*
 * The mean of a vector over all peers, exact or through a compressor, computed
 * while other work continues. It is bit-identical on all members.
 */
struct pen_average;

/*
 * Creates an average. `compressor` may be NULL. Takes PEN_COLLECTIVE_CHANNELS
 * from `channel` on. On failure *out is untouched.
 */
pen_status pen_average_create(const struct pen_compression *setting,
                              const struct pen_compressor *compressor,
                              uint32_t channel, struct pen_average **out,
                              struct pen_text *why);
void pen_average_free(struct pen_average *average);

size_t pen_average_bytes(const struct pen_average *average);

/*
 * Begins the mean of setting->count floats, in place. The vector may not be
 * touched until it is over.
 */
void pen_average_start(struct pen_average *average, uint64_t step,
                       float *vector);

/* Returns true when nothing is under way. Never waits. */
bool pen_average_poll(struct pen_average *average);
void pen_average_wait(struct pen_average *average);

/*
 * Returns the state that this compressor created; it has to be the one of the
 * average.
 */
void *pen_average_state(const struct pen_average *average,
                        const struct pen_compressor *compressor);

/* Adds the states of the compressor; only while nothing is under way. */
void pen_average_states(struct pen_average *average,
                        struct pen_sync_states *out);

/*
 * Computes the cost of one mean; `of` has the options of the compressor, which
 * may be NULL.
 */
void pen_average_cost(const struct pen_compressor *compressor,
                      const struct pen_sync_case *of,
                      struct pen_mean_cost *out);

#endif
