#ifndef PEN_ENGINE_HOST_MEMORY_H
#define PEN_ENGINE_HOST_MEMORY_H

#include "engine/engine.h"

/*
 * Memory of the table for engines whose memory is the host's (is_host): both
 * places are the heap. engine may be NULL.
 */
void *pen_host_take(struct pen_engine *engine, enum pen_place place,
                    size_t bytes);
void pen_host_give(struct pen_engine *engine, enum pen_place place, void *block,
                   size_t bytes);

void pen_host_copy(struct pen_engine *engine, const void *from, void *to,
                   size_t bytes);

/*
 * Marks of an engine on the host, where every call is finished when it returns.
 */
uint64_t pen_host_mark(struct pen_engine *engine);
bool pen_host_is_reached(struct pen_engine *engine, uint64_t mark);
const char *pen_host_fault(struct pen_engine *engine);

/* Writes a part of a parameter that was changed in place, or elsewhere. */
void pen_host_parameter_write(struct pen_engine *engine,
                              struct pen_parameter *parameter,
                              enum pen_parameter_part part, size_t first,
                              size_t count, const void *from);

#endif
