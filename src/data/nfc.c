/*
 * Unicode normalization form C (UAX #15): decompose, order the marks after each
 * starter by their class, compose again. Hangul by arithmetic.
 *
 * Most characters are calm: form C neither replaces them nor joins them to the
 * one before. A text is cut before them, and only a calm character that others
 * follow is worked on.
 */
#include "data/nfc.h"

#include "data/nfc_table.h"
#include "data/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_UNEASY 0x300u

/* Hangul: L + V + T make S = base + (l * 21 + v) * 28 + t. */
#define S_BASE 0xac00u
#define L_BASE 0x1100u
#define V_BASE 0x1161u
#define T_BASE 0x11a7u
#define L_COUNT 19u
#define V_COUNT 21u
#define T_COUNT 28u
#define S_COUNT (L_COUNT * V_COUNT * T_COUNT)

/* Characters of one stretch, decomposed. */
struct stretch {
    uint32_t *characters;
    size_t count;
    size_t capacity;
    bool has_failed;
};

static int compare_run(const void *key, const void *item)
{
    uint32_t character = *(const uint32_t *)key;
    const struct pen__nfc_class_run *run = item;
    return (character > run->last) - (character < run->first);
}

static const struct pen__nfc_class_run *run_of(uint32_t character)
{
    if (character < FIRST_UNEASY)
        return NULL;
    return bsearch(&character, pen__nfc_class_runs, pen__nfc_num_class_runs,
                   sizeof *pen__nfc_class_runs, compare_run);
}

static uint8_t class_of(uint32_t character)
{
    const struct pen__nfc_class_run *run = run_of(character);
    return run == NULL ? 0 : run->value;
}

static int compare_split(const void *key, const void *item)
{
    uint32_t character = *(const uint32_t *)key;
    uint32_t whole = ((const struct pen__nfc_split *)item)->whole;
    return (character > whole) - (character < whole);
}

static const struct pen__nfc_split *split_of(uint32_t character)
{
    return bsearch(&character, pen__nfc_splits, pen__nfc_num_splits,
                   sizeof(struct pen__nfc_split), compare_split);
}

static void add(struct stretch *stretch, uint32_t character)
{
    if (stretch->count == stretch->capacity) {
        size_t capacity = stretch->capacity * 2 + 64;
        uint32_t *characters =
            realloc(stretch->characters, capacity * sizeof *characters);
        if (characters == NULL) {
            stretch->has_failed = true;
            return;
        }
        stretch->characters = characters;
        stretch->capacity = capacity;
    }
    stretch->characters[stretch->count++] = character;
}

static void decompose(struct stretch *stretch, uint32_t character)
{
    if (character - S_BASE < S_COUNT) {
        uint32_t index = character - S_BASE;
        add(stretch, L_BASE + index / (V_COUNT * T_COUNT));
        add(stretch, V_BASE + index / T_COUNT % V_COUNT);
        if (index % T_COUNT != 0)
            add(stretch, T_BASE + index % T_COUNT);
        return;
    }
    const struct pen__nfc_split *split = split_of(character);
    if (split == NULL) {
        add(stretch, character);
        return;
    }
    /* At most four deep: the database has no longer chain. */
    decompose(stretch, split->first);
    if (split->second != 0)
        decompose(stretch, split->second);
}

/*
 * Sorts by insertion, which keeps equal classes in their order, as the standard
 * demands.
 */
static void insert_marks(uint32_t *marks, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        uint32_t mark = marks[i];
        uint8_t value = class_of(mark);
        size_t at = i;
        while (at > 0 && class_of(marks[at - 1]) > value) {
            marks[at] = marks[at - 1];
            at--;
        }
        marks[at] = mark;
    }
}

/* Sorts by counting, which takes no longer for a million marks. */
static bool count_marks(uint32_t *marks, size_t count)
{
    size_t places[257] = {0};
    uint32_t *ordered = malloc(count * sizeof *ordered);
    if (ordered == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        places[class_of(marks[i]) + 1]++;
    for (size_t i = 1; i < 257; i++)
        places[i] += places[i - 1];
    for (size_t i = 0; i < count; i++)
        ordered[places[class_of(marks[i])]++] = marks[i];
    memcpy(marks, ordered, count * sizeof *marks);
    free(ordered);
    return true;
}

#define INSERT_MOST 32u

static void order_marks(struct stretch *stretch)
{
    uint32_t *characters = stretch->characters;
    for (size_t begin = 0; begin < stretch->count;) {
        size_t end = begin;
        while (end < stretch->count && class_of(characters[end]) != 0)
            end++;
        if (end - begin <= INSERT_MOST)
            insert_marks(characters + begin, end - begin);
        else if (!count_marks(characters + begin, end - begin))
            stretch->has_failed = true;
        begin = end + 1;
    }
}

static int compare_join(const void *key, const void *item)
{
    const struct pen__nfc_join *a = key;
    const struct pen__nfc_join *b = item;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return (a->second > b->second) - (a->second < b->second);
}

/* Returns the composition of two characters, or 0. */
static uint32_t join_of(uint32_t first, uint32_t second)
{
    if (first - L_BASE < L_COUNT && second - V_BASE < V_COUNT)
        return S_BASE +
               ((first - L_BASE) * V_COUNT + second - V_BASE) * T_COUNT;
    if (first - S_BASE < S_COUNT && (first - S_BASE) % T_COUNT == 0 &&
        second - T_BASE - 1 < T_COUNT - 1)
        return first + (second - T_BASE);
    const struct pen__nfc_join key = {.first = first, .second = second};
    const struct pen__nfc_join *found = bsearch(
        &key, pen__nfc_joins, pen__nfc_num_joins, sizeof key, compare_join);
    return found == NULL ? 0 : found->whole;
}

static void compose(struct stretch *stretch)
{
    uint32_t *characters = stretch->characters;
    size_t starter = SIZE_MAX;
    size_t kept = 0;
    uint8_t before = 0; /* class of the last mark kept after the starter */
    for (size_t i = 0; i < stretch->count; i++) {
        uint32_t character = characters[i];
        uint8_t value = class_of(character);
        bool is_next = starter != SIZE_MAX && kept == starter + 1;
        bool is_free = is_next || (before != 0 && before < value);
        uint32_t whole = 0;
        if (starter != SIZE_MAX && is_free)
            whole = join_of(characters[starter], character);
        if (whole != 0) {
            characters[starter] = whole;
            continue;
        }
        if (value == 0)
            starter = kept;
        before = value;
        characters[kept++] = character;
    }
    stretch->count = kept;
}

static void put(struct stretch *stretch, struct pen_text *out)
{
    order_marks(stretch);
    compose(stretch);
    for (size_t i = 0; i < stretch->count; i++) {
        char bytes[4];
        size_t size = pen__utf8_write(stretch->characters[i], bytes);
        pen_text_add_bytes(out, bytes, size);
    }
    stretch->count = 0;
}

/* Counts the bytes up to the next calm (or uneasy) character. */
static size_t count_while(bool is_calm, const char *text, size_t length)
{
    size_t size;
    size_t at = 0;
    for (; at < length; at += size) {
        uint32_t character = pen__utf8_read(text + at, &size);
        if ((run_of(character) == NULL) != is_calm)
            break;
    }
    return at;
}

size_t pen__nfc_calm(const char *text, size_t length)
{
    size_t calm = count_while(true, text, length);
    return calm == length || calm == 0 ? calm : pen__utf8_before(text, calm);
}

void pen__nfc_add(struct pen_text *out, const char *text, size_t length)
{
    struct stretch stretch = {.count = 0};
    for (size_t at = 0; at < length;) {
        size_t calm = count_while(true, text + at, length - at);
        size_t end = at + calm;
        if (end < length && calm > 0)
            calm = pen__utf8_before(text + at, calm);
        pen_text_add_bytes(out, text + at, calm);
        at += calm;
        end += count_while(false, text + end, length - end);
        for (size_t size = 0; at < end; at += size)
            decompose(&stretch, pen__utf8_read(text + at, &size));
        put(&stretch, out);
    }
    out->has_failed |= stretch.has_failed;
    free(stretch.characters);
}

size_t pen__nfc_decided(const char *text, size_t length)
{
    for (size_t at = length; at > 0;) {
        size_t size;
        at = pen__utf8_before(text, at);
        if (run_of(pen__utf8_read(text + at, &size)) == NULL)
            return at;
    }
    return 0;
}
