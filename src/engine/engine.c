#include "engine/engine.h"

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
