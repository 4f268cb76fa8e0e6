#include "calls/tensors.h"

#include "calls/reader.h"

#include <math.h>
#include <string.h>

#define MOST_ELEMENTS ((uint64_t)1 << 60)
#define MOST_LEVELS 4

static uint64_t cap(double count)
{
    return count >= 0 && count < (double)MOST_ELEMENTS ? (uint64_t)count
                                                       : MOST_ELEMENTS;
}

/* Counts elements: a list of numbers is a product, a list of lists a sum. */
static uint64_t count_elements(const json_t *sizes, uint64_t scalar, int levels)
{
    size_t count = json_array_size(sizes);
    if (!json_is_array(sizes) || levels == 0)
        return 0;
    if (count == 0)
        return scalar;
    bool is_sum = json_is_array(json_array_get(sizes, 0));
    double total = is_sum ? 0 : 1;
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(sizes, i);
        if (is_sum)
            total += (double)count_elements(item, scalar, levels - 1);
        else
            total *= (double)json_integer_value(item);
    }
    return cap(total);
}

void pen__read_tensors(const json_t *sizes, const json_t *types,
                       uint64_t scalar, struct pen_call_data *out)
{
    if (!json_is_array(sizes))
        return;
    out->elements = json_array_size(sizes) == 0
                        ? 0
                        : count_elements(sizes, scalar, MOST_LEVELS);
    const char *type = json_string_value(json_array_get(types, 0));
    if (type != NULL)
        pen__copy_word(type, out->dtype, sizeof out->dtype);
}

int64_t pen__time_ns(const json_t *value)
{
    int64_t time = pen__whole(value);
    return time > 0 && time <= PEN__MOST_NS ? time : 0;
}

int64_t pen__micros_ns(const json_t *value)
{
    double micros = json_number_value(value);
    return fabs(micros) * 1000 <= (double)PEN__MOST_NS
               ? (int64_t)llround(micros * 1000)
               : 0;
}
