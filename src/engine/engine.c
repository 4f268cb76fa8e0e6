#include "engine/engine.h"

size_t pen_dtype_bytes(enum pen_dtype dtype)
{
    static const size_t sizes[] = {
#define PEN_DTYPE_SIZE(name, text, bytes) bytes,
        PEN_DTYPE_TABLE(PEN_DTYPE_SIZE)
#undef PEN_DTYPE_SIZE
    };
    return sizes[dtype];
}

const char *pen_dtype_text(enum pen_dtype dtype)
{
    static const char *const texts[] = {
#define PEN_DTYPE_WORD(name, text, bytes) text,
        PEN_DTYPE_TABLE(PEN_DTYPE_WORD)
#undef PEN_DTYPE_WORD
    };
    return texts[dtype];
}

enum pen_dtype pen_dtype_master(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_F64 ? PEN_DTYPE_F64 : PEN_DTYPE_F32;
}

void pen_engine_free(struct pen_engine *engine)
{
    if (engine != NULL)
        engine->ops->free(engine);
}
