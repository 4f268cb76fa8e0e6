#ifndef PEN_CORE_DTYPE_H
#define PEN_CORE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The types of numbers that tensors on disk have, with the names safetensors
 * gives them and their width in bits.
 *
 * The order is that of the reference writer, which puts tensors of a later
 * type first: it goes by alignment.
 */
#define PEN_DTYPE_TABLE(X)                                                     \
    X(BOOL, 8)                                                                 \
    X(F4, 4)                                                                   \
    X(F6_E2M3, 6)                                                              \
    X(F6_E3M2, 6)                                                              \
    X(U8, 8)                                                                   \
    X(I8, 8)                                                                   \
    X(F8_E5M2, 8)                                                              \
    X(F8_E4M3, 8)                                                              \
    X(F8_E8M0, 8)                                                              \
    X(F8_E4M3FNUZ, 8)                                                          \
    X(F8_E5M2FNUZ, 8)                                                          \
    X(I16, 16)                                                                 \
    X(U16, 16)                                                                 \
    X(F16, 16)                                                                 \
    X(BF16, 16)                                                                \
    X(I32, 32)                                                                 \
    X(U32, 32)                                                                 \
    X(F32, 32)                                                                 \
    X(C64, 64)                                                                 \
    X(F64, 64)                                                                 \
    X(I64, 64)                                                                 \
    X(U64, 64)

enum pen_dtype {
#define PEN_DTYPE_ENUM(name, bits) PEN_DTYPE_##name,
    PEN_DTYPE_TABLE(PEN_DTYPE_ENUM)
#undef PEN_DTYPE_ENUM
        PEN_DTYPES
};

/* Returns "BF16" or the like; a constant. */
const char *pen_dtype_name(enum pen_dtype dtype);

/* Returns the width of one number. */
uint32_t pen_dtype_bits(enum pen_dtype dtype);

/* PEN_DTYPES when there is no such name. */
enum pen_dtype pen_dtype_find(const char *name);

/*
 * Conversions between a float and the two half types, exact where the target
 * can say the number, else rounded to the nearest, ties to even. A number
 * beyond the largest becomes infinity. A NaN stays a NaN with its sign and the
 * head of its payload, made quiet.
 */
uint16_t pen_bf16_from_float(float value);
float pen_bf16_to_float(uint16_t bits);
uint16_t pen_f16_from_float(float value);
float pen_f16_to_float(uint16_t bits);

/*
 * Convert `count` numbers of a tensor to or from float, each rounded once. Only
 * for dtypes of which pen_dtype_is_float() is true: BF16, F16, F32 and F64. The
 * tensor's bytes need no alignment: files do not promise any.
 */
bool pen_dtype_is_float(enum pen_dtype dtype);
void pen_dtype_to_float(enum pen_dtype dtype, const void *from, size_t count,
                        float *to);
void pen_dtype_from_float(enum pen_dtype dtype, const float *from, size_t count,
                          void *to);

/*
 * Returns the index of the first of `count` numbers that is infinite or NaN;
 * `count` where all are finite. Only BF16, F32 and F64, aligned.
 */
size_t pen_dtype_first_nonfinite(enum pen_dtype dtype, const void *numbers,
                                 size_t count);

#endif
