#include "data/vocab.h"

#include "base/bug.h"

#include <stdlib.h>
#include <string.h>

#define HASH_FACTOR 0x9e3779b97f4a7c15u /* 2^64 over the golden ratio */

uint64_t pen__hash(const char *bytes, size_t length)
{
    uint64_t hash = length * HASH_FACTOR;
    while (length >= 8) {
        uint64_t eight;
        memcpy(&eight, bytes, sizeof eight);
        hash = (hash ^ eight) * HASH_FACTOR;
        hash ^= hash >> 29;
        bytes += 8;
        length -= 8;
    }
    uint64_t rest = 0;
    memcpy(&rest, bytes, length);
    hash = (hash ^ rest) * HASH_FACTOR;
    return hash ^ hash >> 32;
}

void pen__vocab_init(struct pen__vocab *vocab)
{
    *vocab = (struct pen__vocab){.num_ids = 0};
    pen_text_init(&vocab->bytes);
}

void pen__vocab_release(struct pen__vocab *vocab)
{
    pen_text_release(&vocab->bytes);
    free(vocab->strings);
    free(vocab->slots);
    pen__vocab_init(vocab);
}

static pen_status reserve(struct pen__vocab *vocab, uint32_t id)
{
    if (id < vocab->capacity)
        return PEN_OK;
    uint32_t capacity = vocab->capacity < 256 ? 256 : vocab->capacity;
    while (capacity <= id)
        capacity *= 2;
    struct pen__string *strings =
        realloc(vocab->strings, capacity * sizeof *strings);
    if (strings == NULL)
        return PEN_NOMEM;
    memset(strings + vocab->capacity, 0,
           (capacity - vocab->capacity) * sizeof *strings);
    vocab->strings = strings;
    vocab->capacity = capacity;
    return PEN_OK;
}

pen_status pen__vocab_set(struct pen__vocab *vocab, uint32_t id,
                          const char *bytes, size_t length)
{
    PEN_BUG_UNLESS(id < PEN__VOCAB_MAX && !pen__vocab_has(vocab, id));
    if (reserve(vocab, id) != PEN_OK)
        return PEN_NOMEM;
    vocab->strings[id] = (struct pen__string){.offset = vocab->bytes.length,
                                              .length = (uint32_t)length,
                                              .is_set = true};
    pen_text_add_bytes(&vocab->bytes, bytes, length);
    if (vocab->bytes.has_failed)
        return PEN_NOMEM;
    if (id >= vocab->num_ids)
        vocab->num_ids = id + 1;
    return PEN_OK;
}

/* Returns the slot that holds the string, or the free one where it would go. */
static uint32_t slot_of(const struct pen__vocab *vocab, const char *bytes,
                        size_t length)
{
    uint32_t mask = vocab->num_slots - 1;
    uint32_t slot = (uint32_t)pen__hash(bytes, length) & mask;
    for (; vocab->slots[slot] != 0; slot = (slot + 1) & mask) {
        size_t found_length;
        const char *found =
            pen__vocab_string(vocab, vocab->slots[slot] - 1, &found_length);
        if (found_length == length && memcmp(found, bytes, length) == 0)
            break;
    }
    return slot;
}

static pen_status grow_slots(struct pen__vocab *vocab)
{
    uint32_t *old = vocab->slots;
    uint32_t num_old = vocab->num_slots;
    uint32_t count = num_old == 0 ? 512 : num_old * 2;
    vocab->slots = calloc(count, sizeof *vocab->slots);
    if (vocab->slots == NULL) {
        vocab->slots = old;
        return PEN_NOMEM;
    }
    vocab->num_slots = count;
    for (uint32_t i = 0; i < num_old; i++) {
        if (old[i] == 0)
            continue;
        size_t length;
        const char *bytes = pen__vocab_string(vocab, old[i] - 1, &length);
        vocab->slots[slot_of(vocab, bytes, length)] = old[i];
    }
    free(old);
    return PEN_OK;
}

pen_status pen__vocab_publish(struct pen__vocab *vocab, uint32_t id)
{
    if (2 * vocab->num_found >= vocab->num_slots && grow_slots(vocab) != PEN_OK)
        return PEN_NOMEM;
    size_t length;
    const char *bytes = pen__vocab_string(vocab, id, &length);
    uint32_t slot = slot_of(vocab, bytes, length);
    if (vocab->slots[slot] == 0) {
        vocab->slots[slot] = id + 1;
        vocab->num_found++;
    }
    return PEN_OK;
}

uint32_t pen__vocab_find(const struct pen__vocab *vocab, const char *bytes,
                         size_t length)
{
    if (vocab->num_slots == 0)
        return PEN__NO_ID;
    uint32_t held = vocab->slots[slot_of(vocab, bytes, length)];
    return held == 0 ? PEN__NO_ID : held - 1;
}

bool pen__vocab_has(const struct pen__vocab *vocab, uint32_t id)
{
    return id < vocab->num_ids && vocab->strings[id].is_set;
}

const char *pen__vocab_string(const struct pen__vocab *vocab, uint32_t id,
                              size_t *length)
{
    PEN_BUG_UNLESS(pen__vocab_has(vocab, id));
    *length = vocab->strings[id].length;
    return vocab->bytes.bytes + vocab->strings[id].offset;
}
