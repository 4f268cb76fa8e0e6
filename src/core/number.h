#ifndef PEN_CORE_NUMBER_H
#define PEN_CORE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Number formats in which products are computed: name, key of files. With those
 * narrower than 16 bits everything else is bf16.
 */
#define PEN_NUMBER_TABLE(X)                                                    \
    X(F32, "f32")                                                              \
    X(BF16, "bf16")                                                            \
    X(FP16, "fp16")                                                            \
    X(FP8, "fp8")     /* 8 bits, one scale for each tensor */                  \
    X(MXFP8, "mxfp8") /* 8 bits, one scale for each 32 of them */              \
    X(NVFP4, "nvfp4") /* 4 bits, one scale for each 16 of them */

enum pen_number {
#define PEN_NUMBER_ENUM(name, key) PEN_NUMBER_##name,
    PEN_NUMBER_TABLE(PEN_NUMBER_ENUM)
#undef PEN_NUMBER_ENUM
        PEN_NUMBERS
};

/* The keys, NULL after the last one. */
extern const char *const pen_number_names[PEN_NUMBERS + 1];

/* Returns the bytes of one weight or activation in memory: 4, otherwise 2. */
uint32_t pen_number_bytes(enum pen_number number);

/* Returns the bytes of one input of a product, with its share of the scale. */
double pen_number_product_bytes(enum pen_number number);

/* Returns whether products have inputs narrower than 16 bits. */
bool pen_number_is_narrow(enum pen_number number);

/*
 * Returns the number format of everything but products: the number itself, or
 * bf16 if that is narrow.
 */
enum pen_number pen_number_beside(enum pen_number number);

#endif
