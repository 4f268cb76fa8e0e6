#ifndef PEN_RUNTIME_ISLANDS_INTERNAL_H
#define PEN_RUNTIME_ISLANDS_INTERNAL_H

#include "runtime/executor.h"
#include "runtime/islands.h"
#include "sync/registry.h"

/*
 * The method of replicas.h that an island follows, in place of `of`, whose name
 * and options it has. The peers of its setting are the ranks of the island.
 */
struct pen_sync_method pen__island_method(const struct pen_sync_method *of);

/* In place of its create(). All is borrowed. */
pen_status pen__island_create(const struct pen_sync_setting *setting,
                              const struct pen_sync_method *of,
                              const struct pen_island *island,
                              struct pen_executor *executor,
                              struct pen_sync **out);

/* The same on all ranks. */
pen_status pen__island_status(const struct pen_sync *sync) PEN_MUST_CHECK;
const struct pen_island_turn *pen__island_turn(const struct pen_sync *sync);

/* island_moments.c: those of this rank, after so many steps. */
pen_status pen__island_keep_moments(const struct pen_sync_setting *setting,
                                    const struct pen_island *island,
                                    uint64_t steps, struct pen_text *why);
void pen__island_clear_moments(const struct pen_sync_setting *setting);
/* False: they are not there, and nothing has changed. */
bool pen__island_recall_moments(const struct pen_sync_setting *setting,
                                const struct pen_island *island,
                                uint64_t steps);

#endif
