#ifndef PEN_DATA_CHARSMAP_H
#define PEN_DATA_CHARSMAP_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The rules "these characters become those" inside a SentencePiece model:
 *
 *   u32 size of the trie | trie: u32 units | strings, each ended by NUL
 *
 * The trie is a double array as darts-clone writes it; the value of a key is
 * the offset of its string. A unit holds a label and where its children are:
 *
 *   bit 31: a value, the rest is it     bits 0-7: label   bit 8: a value is
 *   below the node   bit 9: offset is to be shifted by 8   bits 10-30: offset
 *
 * Every step is checked against the bounds, so that any bytes may be opened.
 */
struct pen__charsmap {
    uint32_t *units;
    size_t num_units; /* 0: no rules */
    char *strings;
    size_t strings_length;
};

pen_status pen__charsmap_init(struct pen__charsmap *map, const uint8_t *bytes,
                              size_t length, struct pen_text *why);
void pen__charsmap_release(struct pen__charsmap *map);

/*
 * Finds the rule with the shortest key for the beginning of text. Returns the
 * bytes of the key and sets *to, borrowed from the map; 0 without a rule.
 */
size_t pen__charsmap_find(const struct pen__charsmap *map, const char *text,
                          size_t length, const char **to);

/*
 * Finds the entry with the longest key; *is_open when later text could make it
 * longer.
 */
size_t pen__charsmap_find_longest(const struct pen__charsmap *map,
                                  const char *text, size_t length,
                                  const char **to, bool *is_open);

#endif
