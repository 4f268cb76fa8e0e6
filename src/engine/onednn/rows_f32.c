/* Row operations on float. */
#define ELEMENT float
#define LOAD(array, i) ((array)[i])
#define STORE(array, i, number) ((array)[i] = (number))
#define ROWS_NAME pen__rows_f32
#include "engine/onednn/rows_of_element.h"
