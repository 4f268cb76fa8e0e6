#include "core/number.h"

#include <stddef.h>

const char *const pen_number_names[PEN_NUMBERS + 1] = {
#define NUMBER_NAME(name, key) key,
    PEN_NUMBER_TABLE(NUMBER_NAME) NULL};

uint32_t pen_number_bytes(enum pen_number number)
{
    return number == PEN_NUMBER_F32 ? 4 : 2;
}

bool pen_number_is_narrow(enum pen_number number)
{
    return number == PEN_NUMBER_FP8 || number == PEN_NUMBER_MXFP8 ||
           number == PEN_NUMBER_NVFP4;
}

enum pen_number pen_number_beside(enum pen_number number)
{
    return pen_number_is_narrow(number) ? PEN_NUMBER_BF16 : number;
}

double pen_number_product_bytes(enum pen_number number)
{
    switch (number) {
    case PEN_NUMBER_FP8:
        return 1;
    case PEN_NUMBER_MXFP8:
        return 1 + 1.0 / 32;
    case PEN_NUMBER_NVFP4:
        return 0.5 + 1.0 / 16;
    default:
        return pen_number_bytes(number);
    }
}
