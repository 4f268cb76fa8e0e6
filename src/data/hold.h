#ifndef PEN_DATA_HOLD_H
#define PEN_DATA_HOLD_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/*
 * Text comes in blocks, and a step of the pipeline cannot decide about the end
 * of a block before it has seen what follows. It holds that end back and puts
 * it in front of the next block:
 *
 *   block 1: the cat s|      held: "s"
 *   block 2:          |at    decided: "sat"
 *
 * A block begins and ends between two characters.
 */
struct pen__block {
    const char *text; /* never NULL */
    size_t length;
    bool is_end; /* nothing follows */
};

/* The most that a step holds back: text without a safe place to cut. */
#define PEN__HOLD_MAX ((size_t)16 << 20)

/*
 * Returns the held text followed by the block; the block when nothing is held.
 */
static inline struct pen__block pen__hold_join(struct pen_text *held,
                                               struct pen__block block)
{
    if (held->length == 0)
        return block;
    pen_text_add_bytes(held, block.text, block.length);
    return (struct pen__block){held->bytes, held->length, block.is_end};
}

/*
 * Holds the bytes that follow the first `done` ones of a joined block. False
 * when they are more than PEN__HOLD_MAX.
 */
static inline bool pen__hold_keep(struct pen_text *held,
                                  struct pen__block joined, size_t done)
{
    size_t rest = joined.length - done;
    if (held->length > 0)
        memmove(held->bytes, joined.text + done, rest);
    else if (rest > 0)
        pen_text_add_bytes(held, joined.text + done, rest);
    if (held->bytes != NULL && !held->has_failed) {
        held->length = rest;
        held->bytes[rest] = '\0';
    }
    return rest <= PEN__HOLD_MAX;
}

#endif
