#include "engine/host_memory.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

/* The memory is touched here, so that a lack of it shows before a step. */
void *pen_host_take(struct pen_engine *engine, enum pen_place place,
                    size_t bytes)
{
    size_t whole = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *block = aligned_alloc(ALIGNMENT, whole);
    if (block == NULL)
        return NULL;
    memset(block, 0, bytes);
    if (engine != NULL)
        engine->taken[place] += bytes;
    return block;
}

void pen_host_give(struct pen_engine *engine, enum pen_place place, void *block,
                   size_t bytes)
{
    if (engine != NULL)
        engine->taken[place] -= bytes;
    free(block);
}

void pen_host_parameter_write(struct pen_engine *engine,
                              struct pen_parameter *parameter,
                              enum pen_parameter_part part, size_t first,
                              size_t count, const void *from)
{
    void *at = engine->ops->parameter_read(engine, parameter, part, first,
                                           count, NULL);
    size_t stat = pen_precision_bytes(pen_precision_master(engine->dtype));
    if (at != from)
        memcpy(at, from, count * stat);
}

void pen_host_copy(struct pen_engine *engine, const void *from, void *to,
                   size_t bytes)
{
    (void)engine;
    memcpy(to, from, bytes);
}

uint64_t pen_host_mark(struct pen_engine *engine)
{
    (void)engine;
    return 0;
}

bool pen_host_is_reached(struct pen_engine *engine, uint64_t mark)
{
    (void)engine;
    (void)mark;
    return true;
}

const char *pen_host_fault(struct pen_engine *engine)
{
    (void)engine;
    return NULL;
}
