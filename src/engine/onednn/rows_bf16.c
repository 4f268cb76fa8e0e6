/* Row operations on bf16, computed in float. */
#include "engine/bf16.h"

#define ELEMENT uint16_t
#define LOAD(array, i) pen_bf16_to_float((array)[i])
#define STORE(array, i, number) ((array)[i] = pen_bf16_from_float(number))
#define ROWS_NAME pen__rows_bf16
#include "engine/onednn/rows_of_element.h"
