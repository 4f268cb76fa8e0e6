#ifndef PEN_ENGINE_ONEDNN_ISA_H
#define PEN_ENGINE_ONEDNN_ISA_H

#include "engine/onednn/rows.h"

/*
 * The levels that rows_*.c and update.c are compiled for; CMakeLists.txt gives
 * each its compiler flags and the word in PEN_ISA.
 */
#define PEN__PASTE_WORDS(a, b) a##_##b
#define PEN__PASTE(a, b) PEN__PASTE_WORDS(a, b)

/* The name of this level's copy. */
#define PEN__FOR_ISA(name) PEN__PASTE(name, PEN_ISA)

#define PEN__DECLARE_ISA(isa)                                                  \
    extern const struct pen__rows pen__rows_f32_##isa;                         \
    extern const struct pen__rows pen__rows_bf16_##isa;                        \
    void pen__update_fill_##isa(struct pen_engine_ops *ops);

PEN__DECLARE_ISA(base)
#ifdef PEN_ENGINE_X86
PEN__DECLARE_ISA(v3)
PEN__DECLARE_ISA(v4)
#endif

#endif
