/* Which level of the instruction set this machine has. */
#include "engine/onednn/isa.h"

#ifdef PEN_ENGINE_X86
static int has_v4(void)
{
    return __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

static int has_v3(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2");
}
#endif

const struct pen__rows *pen__rows_choose(enum pen_precision dtype)
{
    int is_half = dtype == PEN_PRECISION_BF16;
#ifdef PEN_ENGINE_X86
    if (has_v4())
        return is_half ? &pen__rows_bf16_v4 : &pen__rows_f32_v4;
    if (has_v3())
        return is_half ? &pen__rows_bf16_v3 : &pen__rows_f32_v3;
#endif
    return is_half ? &pen__rows_bf16_base : &pen__rows_f32_base;
}

void pen__update_choose(struct pen_engine_ops *ops)
{
#ifdef PEN_ENGINE_X86
    if (has_v4()) {
        pen__update_fill_v4(ops);
        return;
    }
    if (has_v3()) {
        pen__update_fill_v3(ops);
        return;
    }
#endif
    pen__update_fill_base(ops);
}

bool pen_engine_onednn_has_bf16(void)
{
#ifdef PEN_ENGINE_X86
    return __builtin_cpu_supports("avx512bf16");
#else
    return true; /* assumed: only x86 is asked */
#endif
}
