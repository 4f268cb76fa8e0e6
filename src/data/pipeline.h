#ifndef PEN_DATA_PIPELINE_H
#define PEN_DATA_PIPELINE_H

#include "data/bpe.h"
#include "data/charsmap.h"
#include "data/pattern.h"
#include "data/tokenizer.h"
#include "data/unigram.h"

/*
 * The stations of a tokenizer, whatever file it came from:
 *
 *   text ─► added tokens cut out ─► normalized ─► added tokens again
 *                                                  └─► split ─► model ─► ids
 */

enum pen__normal_kind {
    PEN__NORMAL_NFC,
    PEN__NORMAL_PREPEND,      /* to */
    PEN__NORMAL_REPLACE,      /* from, to */
    PEN__NORMAL_PATTERN,      /* pattern, to */
    PEN__NORMAL_CHARSMAP,     /* as the tokenizers package applies it */
    PEN__NORMAL_SENTENCEPIECE /* charsmap and spaces, all in one */
};

struct pen__normal_step {
    enum pen__normal_kind kind;
    struct pen_text from;
    struct pen_text to;
    struct pen__pattern *pattern; /* CHARSMAP: of graphemes */
    struct pen__charsmap charsmap;
};

enum pen__split_kind {
    PEN__SPLIT_PATTERN, /* matches, and what is between them */
    PEN__SPLIT_PREFIX,  /* a space in front, unless there is one */
    PEN__SPLIT_META     /* U+2581 for spaces, and in front */
};

enum pen__meta_scheme {
    PEN__META_NEVER,
    PEN__META_FIRST, /* only at the beginning of the text */
    PEN__META_ALWAYS
};

struct pen__split_step {
    enum pen__split_kind kind;
    struct pen__pattern *pattern;
    bool drops_matches;
    bool drops_rest;
    enum pen__meta_scheme scheme;
    bool is_split; /* META: before every U+2581 */
};

/* The treatment, in decoding, of the space that encoding puts in front. */
enum pen__prefix_rule {
    PEN__PREFIX_KEPT,
    PEN__PREFIX_SPACE, /* one space at the beginning of the text goes */
    PEN__PREFIX_FIRST, /* every U+2581 in the first token goes */
    PEN__PREFIX_ONCE,  /* U+2581 in front of the first text goes */
    PEN__PREFIX_ALL    /* so does each one until there is text */
};

/* SentencePiece's normalizer_spec. */
struct pen__spaces {
    bool adds_prefix;
    bool adds_suffix; /* the prefix, at the other end */
    bool removes_extra;
    bool escapes;
};

#define PEN__STEPS_MAX 8

struct pen__added {
    uint32_t id;
    bool strips_left;
    bool strips_right;
};

/* Added tokens of one kind; the value in the trie is an index. */
struct pen__added_set {
    struct pen__added *items;
    size_t count;
    struct pen__trie trie;
    size_t longest;   /* bytes */
    bool strips_left; /* one of them does */
};

enum pen__model_kind { PEN__MODEL_BPE, PEN__MODEL_UNIGRAM };

struct pen_tokenizer {
    struct pen__vocab vocab;
    uint32_t num_ids;     /* the vocabulary may hold more, for bpe alone */
    size_t longest_token; /* bytes */

    struct pen__added_set raw;        /* found before normalization */
    struct pen__added_set normalized; /* found after it */
    bool *is_added;                   /* (num_ids) */
    bool *is_silent;                  /* (num_ids): decodes to nothing */

    struct pen__normal_step normal[PEN__STEPS_MAX];
    size_t num_normal;
    struct pen__spaces spaces;
    struct pen__split_step splits[PEN__STEPS_MAX];
    size_t num_splits;

    enum pen__model_kind model;
    struct pen__bpe bpe;
    struct pen__unigram unigram;

    bool decodes_meta; /* U+2581 is a space again */
    enum pen__prefix_rule prefix_rule;
    uint32_t renamed; /* the token that decodes to `surface`, if any */
    struct pen_text surface;
    uint16_t *byte_of;  /* (num_ids) byte of a fallback token, else 256 */
    bool has_safe_cuts; /* see pen_tokenizer_cut() */
    uint32_t end_of_document;
};

/*
 * Creates an empty tokenizer, whose parts the readers fill; NULL without
 * memory.
 */
struct pen_tokenizer *pen__tokenizer_create(void);

/*
 * Completes a tokenizer whose vocabulary is complete: makes the derived parts
 * (tokens of bytes, the end of a document, tables by id).
 */
pen_status pen__tokenizer_finish(struct pen_tokenizer *tokenizer);

/* Does pen_encoder_feed() for a text that is known to be UTF-8. */
pen_status pen__encoder_feed(struct pen_encoder *encoder,
                             struct pen__block block,
                             struct pen_token_list *out, struct pen_text *why);

/*
 * Sets the bytes of a piece that a model works on at once, when it is longer;
 * for tests, to have many windows in a short text, or one in a long one
 * (SIZE_MAX).
 */
void pen__encoder_set_window(struct pen_encoder *encoder, size_t window);

/* Returns whether a text such as <0x41> is the name of a byte. */
bool pen__is_byte_token(const char *text, size_t length, uint8_t *byte);

/* Parses encoder.json + vocab.bpe, or vocab.json + merges.txt. */
pen_status pen__parse_gpt2(const char *vocab, size_t vocab_length,
                           const char *merges, size_t merges_length,
                           struct pen_tokenizer **out, struct pen_text *why);

#endif
