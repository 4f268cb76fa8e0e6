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
