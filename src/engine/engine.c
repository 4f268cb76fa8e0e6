#include "engine/engine.h"

#include "base/log.h"
#include "engine/host_memory.h"

#include <sched.h>
#include <stdlib.h>

size_t pen_precision_bytes(enum pen_precision dtype)
{
    static const size_t sizes[] = {
#define PEN_PRECISION_SIZE(name, text, bytes) bytes,
        PEN_PRECISION_TABLE(PEN_PRECISION_SIZE)
#undef PEN_PRECISION_SIZE
    };
    return sizes[dtype];
}

const char *pen_precision_text(enum pen_precision dtype)
{
    static const char *const texts[] = {
#define PEN_PRECISION_WORD(name, text, bytes) text,
        PEN_PRECISION_TABLE(PEN_PRECISION_WORD)
#undef PEN_PRECISION_WORD
    };
    return texts[dtype];
}

enum pen_precision pen_precision_master(enum pen_precision dtype)
{
    return dtype == PEN_PRECISION_F64 ? PEN_PRECISION_F64 : PEN_PRECISION_F32;
}

void pen_engine_free(struct pen_engine *engine)
{
    if (engine != NULL)
        engine->ops->free(engine);
}

void *pen_engine_take(struct pen_engine *engine, enum pen_place place,
                      size_t bytes)
{
    if (bytes == 0)
        return NULL;
    return engine == NULL ? pen_host_take(NULL, place, bytes)
                          : engine->ops->take(engine, place, bytes);
}

void pen_engine_give(struct pen_engine *engine, enum pen_place place,
                     void *block, size_t bytes)
{
    if (block == NULL)
        return;
    if (engine == NULL)
        pen_host_give(NULL, place, block, bytes);
    else
        engine->ops->give(engine, place, block, bytes);
}

bool pen_engine_is_reached(struct pen_engine *engine, uint64_t mark)
{
    if (engine->ops->is_host || engine->ops->is_reached(engine, mark))
        return true;
    const char *fault = engine->ops->fault(engine);
    if (fault != NULL) {
        pen_log(PEN_LOG_ERROR, "engine %s: %s", engine->ops->name, fault);
        abort();
    }
    return false;
}

void pen_engine_await(struct pen_engine *engine)
{
    if (engine->ops->is_host)
        return;
    uint64_t mark = engine->ops->mark(engine);
    while (!pen_engine_is_reached(engine, mark))
        sched_yield();
}
