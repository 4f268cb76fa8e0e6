#include "base/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A number of this unit is times and over that number of the plain one; both
 * are exact, so that "3 us" is the double nearest to 3e-6.
 */
struct scale {
    const char *name;
    double times;
    double over;
    bool is_printed; /* others are only read */
};

/* The largest first, the plain one last. */
static const struct scale bytes[] = {{"TiB", 1099511627776.0, 1, true},
                                     {"GiB", 1073741824.0, 1, true},
                                     {"MiB", 1048576.0, 1, true},
                                     {"KiB", 1024.0, 1, true},
                                     {"TB", 1e12, 1, false},
                                     {"GB", 1e9, 1, false},
                                     {"MB", 1e6, 1, false},
                                     {"kB", 1e3, 1, false},
                                     {"KB", 1e3, 1, false},
                                     {"B", 1, 1, true},
                                     {NULL, 0, 0, false}};

/*
 * Bits as people write them: a small b is a bit, a large B a byte. A link of
 * "1 Gbit" or "1 Gb" has that rate in a second; "1 GB" alone may be a size.
 */
#define BITS(prefix, times)                                                    \
    {prefix "bit/s", times, 8, false}, {prefix "bits/s", times, 8, false},     \
        {prefix "b/s", times, 8, false}, {prefix "bps", times, 8, false},      \
        {prefix "bit", times, 8, false},                                       \
    {                                                                          \
        prefix "b", times, 8, false                                            \
    }

static const struct scale rates[] = {{"TB/s", 1e12, 1, true},
                                     {"GB/s", 1e9, 1, true},
                                     {"MB/s", 1e6, 1, true},
                                     {"kB/s", 1e3, 1, true},
                                     {"KB/s", 1e3, 1, false},
                                     {"TBps", 1e12, 1, false},
                                     {"GBps", 1e9, 1, false},
                                     {"MBps", 1e6, 1, false},
                                     {"TiB/s", 1099511627776.0, 1, false},
                                     {"GiB/s", 1073741824.0, 1, false},
                                     {"MiB/s", 1048576.0, 1, false},
                                     {"KiB/s", 1024.0, 1, false},
                                     BITS("T", 1e12),
                                     BITS("G", 1e9),
                                     BITS("M", 1e6),
                                     BITS("k", 1e3),
                                     BITS("K", 1e3),
                                     BITS("", 1),
                                     {"GbE", 1e9, 8, false},
                                     {"B/s", 1, 1, true},
                                     {NULL, 0, 0, false}};

static const struct scale seconds[] = {
    {"ms", 1, 1e3, true},  {"us", 1, 1e6, true},  {"ns", 1, 1e9, true},
    {"min", 60, 1, false}, {"h", 3600, 1, false}, {"d", 86400, 1, false},
    {"s", 1, 1, true},     {NULL, 0, 0, false}};

static const struct scale flops[] = {
    {"PFLOP/s", 1e15, 1, false}, {"TFLOP/s", 1e12, 1, true},
    {"GFLOP/s", 1e9, 1, true},   {"MFLOP/s", 1e6, 1, true},
    {"FLOP/s", 1, 1, true},      {NULL, 0, 0, false}};

static const struct {
    const struct scale *scales;
    const char *example;
} units[PEN_UNITS] = {[PEN_UNIT_BYTES] = {bytes, "80 GiB"},
                      [PEN_UNIT_BYTES_PER_SEC] = {rates, "450 GB/s"},
                      [PEN_UNIT_SECONDS] = {seconds, "3 us"},
                      [PEN_UNIT_FLOPS] = {flops, "989 TFLOP/s"}};

const char *pen_unit_example(enum pen_unit unit)
{
    return units[unit].example;
}

/* Letters of a decimal number at the beginning; 0 when there is none. */
static size_t number_length(const char *text)
{
    static const char digits[] = "0123456789";
    size_t whole = strspn(text, digits);
    size_t length = whole;
    if (whole > 0 && text[length] == '.') {
        size_t part = strspn(text + length + 1, digits);
        if (part == 0)
            return 0;
        length += 1 + part;
    }
    if (whole > 0 && (text[length] == 'e' || text[length] == 'E')) {
        size_t sign = text[length + 1] == '+' || text[length + 1] == '-';
        size_t power = strspn(text + length + 1 + sign, digits);
        if (power == 0)
            return 0;
        length += 1 + sign + power;
    }
    return length;
}

bool pen_unit_parse(enum pen_unit unit, const char *text, double *out)
{
    static const struct scale plain = {"", 1, 1, false};
    const struct scale *scale = units[unit].scales;
    size_t length = number_length(text);
    if (length == 0)
        return false;
    const char *name = text + length;
    if (*name == '\0')
        scale = &plain;
    else if (*name == ' ')
        name++;
    while (scale->name != NULL && strcmp(scale->name, name) != 0)
        scale++;
    if (scale->name == NULL)
        return false;
    double value = strtod(text, NULL) * scale->times / scale->over;
    if (!isfinite(value))
        return false;
    *out = value;
    return true;
}

static bool print_as(const struct scale *scale, enum pen_unit unit,
                     double value, struct pen_text *out)
{
    char text[PEN_REAL_SIZE + 16];
    for (int digits = 6; digits <= 17; digits++) {
        double again = -1;
        snprintf(text, sizeof text, "%.*g %s", digits,
                 value * scale->over / scale->times, scale->name);
        if (!pen_unit_parse(unit, text, &again) || again != value)
            continue;
        pen_text_add_string(out, text);
        return true;
    }
    return false;
}

void pen_unit_print(enum pen_unit unit, double value, struct pen_text *out)
{
    const struct scale *scale = units[unit].scales;
    for (; scale[1].name != NULL; scale++)
        if (scale->is_printed && value * scale->over / scale->times >= 1 &&
            print_as(scale, unit, value, out))
            return;
    pen_text_add_real(out, value);
    pen_text_add(out, " %s", scale->name);
}
