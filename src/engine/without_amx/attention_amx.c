/* Replaces onednn/attention_amx.c where the compiler has no AMX. */
#include "engine/onednn/attention_amx.h"

#include "base/bug.h"

bool pen__amx_is_usable(void)
{
    return false;
}

bool pen__amx_is_for(const struct pen_attention *shape)
{
    (void)shape;
    return false;
}

size_t pen__amx_bytes(const struct pen_attention *shape)
{
    (void)shape;
    return 0;
}

/* NOLINTBEGIN(readability-non-const-parameter): the others write. */
void pen__amx_forward(const struct pen__amx_task *task, uint16_t *out)
{
    (void)task;
    (void)out;
    PEN_BUG_UNLESS(false);
}

void pen__amx_backward(const struct pen__amx_task *task, const uint16_t *dout,
                       uint16_t *dq, uint16_t *dk, uint16_t *dv)
{
    (void)task;
    (void)dout;
    (void)dq;
    (void)dk;
    (void)dv;
    PEN_BUG_UNLESS(false);
}
/* NOLINTEND(readability-non-const-parameter) */
