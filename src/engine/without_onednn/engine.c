/* Replaces onednn/ where this library was built without it. */
#include "engine/engine.h"

pen_status pen_engine_onednn_create(enum pen_precision dtype, int threads,
                                    struct pen_text *why,
                                    struct pen_engine **out)
{
    (void)dtype;
    (void)threads;
    (void)out;
    pen_why(why, "penstock was built without oneDNN; install libdnnl-dev and "
                 "build again");
    return PEN_INVALID;
}

void pen_engine_onednn_describe(struct pen_text *out)
{
    (void)out;
}

void pen_engine_onednn_instructions(struct pen_text *out)
{
    (void)out;
}

bool pen_engine_onednn_has_bf16(void)
{
    return false;
}
