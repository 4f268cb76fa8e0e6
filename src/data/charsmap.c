#include "data/charsmap.h"

#include "data/map.h"
#include "data/utf8.h"

#include <stdlib.h>
#include <string.h>

pen_status pen__charsmap_init(struct pen__charsmap *map, const uint8_t *bytes,
                              size_t length, struct pen_text *why)
{
    struct pen__charsmap opened = {.num_units = 0};
    size_t size = length >= 4 ? pen__load_u32(bytes) : 0;
    if (length < 4 || size > length - 4 || size % 4 != 0 || size == 0 ||
        length - 4 - size == 0 || bytes[length - 1] != '\0') {
        pen_why(why,
                "the normalization rules (precompiled_charsmap) of %zu "
                "bytes are damaged",
                length);
        return PEN_INVALID;
    }
    opened.strings_length = length - 4 - size;
    const char *strings = (const char *)bytes + 4 + size;
    size_t bad = pen__utf8_check(strings, opened.strings_length);
    if (bad != opened.strings_length) {
        pen_why(why, "byte %zu of the normalization rules is not UTF-8",
                4 + size + bad);
        return PEN_INVALID;
    }
    opened.num_units = size / 4;
    opened.units = malloc(size);
    opened.strings = malloc(opened.strings_length);
    if (opened.units == NULL || opened.strings == NULL) {
        pen__charsmap_release(&opened);
        return PEN_NOMEM;
    }
    for (size_t i = 0; i < opened.num_units; i++)
        opened.units[i] = pen__load_u32(bytes + 4 + 4 * i);
    memcpy(opened.strings, strings, opened.strings_length);
    *map = opened;
    return PEN_OK;
}

void pen__charsmap_release(struct pen__charsmap *map)
{
    free(map->units);
    free(map->strings);
    *map = (struct pen__charsmap){.num_units = 0};
}

static uint32_t offset_of(uint32_t unit)
{
    return unit >> 10 << ((unit & 1u << 9) >> 6);
}

/* A rule may begin inside a character's string, never inside a character. */
static const char *string_at(const struct pen__charsmap *map, uint32_t value)
{
    if (value >= map->strings_length ||
        ((uint8_t)map->strings[value] & 0xc0) == 0x80)
        return NULL;
    return map->strings + value;
}

/* *seen: bytes of the text that are the beginning of a key. */
static size_t find(const struct pen__charsmap *map, const char *text,
                   size_t length, bool is_longest, const char **to,
                   size_t *seen)
{
    size_t found = 0;
    size_t i = 0;
    *seen = 0;
    if (map->num_units == 0)
        return 0;
    size_t node = offset_of(map->units[0]);
    for (; i < length; i++) {
        uint8_t byte = (uint8_t)text[i];
        node ^= byte;
        if (byte == 0 || node >= map->num_units)
            break;
        uint32_t unit = map->units[node];
        if ((unit & (1u << 31 | 0xff)) != byte)
            break;
        node ^= offset_of(unit);
        if ((unit & 1u << 8) == 0)
            continue;
        if (node >= map->num_units)
            break;
        const char *string = string_at(map, map->units[node] & 0x7fffffff);
        /* A key that ends inside a character would leave half of it. */
        bool is_whole =
            i + 1 == length || ((uint8_t)text[i + 1] & 0xc0) != 0x80;
        if (string == NULL || !is_whole)
            continue;
        *to = string;
        found = i + 1;
        if (!is_longest)
            break;
    }
    *seen = i;
    return found;
}

size_t pen__charsmap_find(const struct pen__charsmap *map, const char *text,
                          size_t length, const char **to)
{
    size_t seen;
    return find(map, text, length, false, to, &seen);
}

size_t pen__charsmap_find_longest(const struct pen__charsmap *map,
                                  const char *text, size_t length,
                                  const char **to, bool *is_open)
{
    size_t seen;
    size_t found = find(map, text, length, true, to, &seen);
    *is_open = seen == length;
    return found;
}
