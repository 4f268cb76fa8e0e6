#ifndef PEN_DATA_VOCAB_H
#define PEN_DATA_VOCAB_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Strings with ids, found both ways. Ids may have holes, and a string may have
 * only one of the two directions: an added token that the model must not
 * produce can be printed but not found.
 */

#define PEN__NO_ID UINT32_MAX
#define PEN__VOCAB_MAX (1u << 22) /* ids; the largest known has 2^18 */

struct pen__string {
    size_t offset; /* in vocab->bytes */
    uint32_t length;
    bool is_set;
};

struct pen__vocab {
    struct pen_text bytes;
    struct pen__string *strings; /* (num_ids) */
    uint32_t num_ids;            /* the highest id and one */
    uint32_t capacity;
    uint32_t *slots; /* id + 1; 0: free */
    uint32_t num_slots;
    uint32_t num_found; /* ids in slots */
};

void pen__vocab_init(struct pen__vocab *vocab);
void pen__vocab_release(struct pen__vocab *vocab);

/* Gives id its string, which must be below PEN__VOCAB_MAX and not set. */
pen_status pen__vocab_set(struct pen__vocab *vocab, uint32_t id,
                          const char *bytes, size_t length);

/* Makes the string of id one that pen__vocab_find() finds; the first wins. */
pen_status pen__vocab_publish(struct pen__vocab *vocab, uint32_t id);

/* PEN__NO_ID when there is none. */
uint32_t pen__vocab_find(const struct pen__vocab *vocab, const char *bytes,
                         size_t length);

bool pen__vocab_has(const struct pen__vocab *vocab, uint32_t id);

/* Borrowed until the next change; id must be set. */
const char *pen__vocab_string(const struct pen__vocab *vocab, uint32_t id,
                              size_t *length);

/* Spreads short strings well; the same on every machine of one byte order. */
uint64_t pen__hash(const char *bytes, size_t length);

#endif
