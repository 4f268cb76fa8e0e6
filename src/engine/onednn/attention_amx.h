#ifndef PEN_ENGINE_ONEDNN_ATTENTION_AMX_H
#define PEN_ENGINE_ONEDNN_ATTENTION_AMX_H

#include "engine/onednn/rows.h"

/*
 * Attention in bf16 on tiles of AMX, for one key/value head of one sequence and
 * the query heads of its group, in one thread. The products are small and many:
 * a call of the library for each costs more than the product.
 */

/* Returns whether this machine has AMX, and the library uses it as well. */
bool pen__amx_is_usable(void);

/* Returns whether heads of this size fill tiles. */
bool pen__amx_is_for(const struct pen_attention *shape);

/* Scratch of one thread. */
size_t pen__amx_bytes(const struct pen_attention *shape);

/* Where a task begins: every array at the first row of its sequence. */
struct pen__amx_task {
    const struct pen__rows *rows;
    const struct pen_attention *shape;
    size_t kv_head;
    char *room; /* pen__amx_bytes(), aligned to 64 */
    const uint16_t *q;
    const uint16_t *k;
    const uint16_t *v;
    float *lse; /* [heads][sequence] */
    bool adds;  /* the backward adds to dk and dv */
};

void pen__amx_forward(const struct pen__amx_task *task, uint16_t *out);
void pen__amx_backward(const struct pen__amx_task *task, const uint16_t *dout,
                       uint16_t *dq, uint16_t *dk, uint16_t *dv);

#endif
