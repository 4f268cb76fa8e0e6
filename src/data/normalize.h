#ifndef PEN_DATA_NORMALIZE_H
#define PEN_DATA_NORMALIZE_H

#include "data/pipeline.h"

/*
 * Normalization of a text that comes in blocks: each step has the text that it
 * holds back, and what it made of the last block.
 */

/* Why a text cannot be encoded, where that is not a lack of memory. */
enum pen__fault {
    PEN__FAULT_STEPS,  /* a pattern needs too many steps */
    PEN__FAULT_GROWTH, /* normalization makes it too long */
    PEN__FAULT_UNCUT   /* no safe place to cut within PEN__HOLD_MAX */
};

/* A normalized document may be N times as long, and this much more. */
#define PEN__GROWTH_MAX 32u
#define PEN__GROWTH_FREE ((uint64_t)64 << 10)

struct pen__normal_state {
    struct pen_text held;
    struct pen_text out; /* of the last block */
    uint64_t made;       /* bytes, of this document */
    uint64_t room;       /* bytes that out may have */
    size_t behind;       /* PATTERN: held bytes that are done with */
    size_t ahead;        /* PATTERN: bytes in which no match begins */
    size_t num_spaces;   /* SENTENCEPIECE: at the end, not yet in out */
    bool has_begun;      /* PREPEND, SENTENCEPIECE */
    bool was_space;      /* SENTENCEPIECE */
};

struct pen__normalizer {
    const struct pen_tokenizer *tokenizer;
    struct pen__matcher *matcher; /* borrowed */
    struct pen__normal_state steps[PEN__STEPS_MAX];
    uint64_t taken; /* bytes of this document */
    enum pen__fault fault;
};

void pen__normalizer_init(struct pen__normalizer *normalizer,
                          const struct pen_tokenizer *tokenizer,
                          struct pen__matcher *matcher);
void pen__normalizer_release(struct pen__normalizer *normalizer);

/* Prepares for the next document, whose first block comes next. */
void pen__normalizer_reset(struct pen__normalizer *normalizer);

/*
 * Replaces the block by what is known of its normalized text, borrowed until
 * the next call. PEN_INVALID: see fault.
 */
pen_status pen__normalizer_feed(struct pen__normalizer *normalizer,
                                struct pen__block *block);

/*
 * Each function is one step: it appends to state->out and sets *done to the
 * bytes of the block that need not come again.
 */
pen_status pen__normalize_graphemes(const struct pen__normalizer *normalizer,
                                    const struct pen__normal_step *step,
                                    struct pen__normal_state *state,
                                    const struct pen__block *block,
                                    size_t *done);
void pen__normalize_sentencepiece(const struct pen__normalizer *normalizer,
                                  const struct pen__normal_step *step,
                                  struct pen__normal_state *state,
                                  const struct pen__block *block, size_t *done);

/* Returns whether the step has made more text than a document may become. */
bool pen__normalize_is_full(const struct pen__normal_state *state);

#endif
