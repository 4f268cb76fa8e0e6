#ifndef PEN_DATA_BPE_H
#define PEN_DATA_BPE_H

#include "data/hold.h"
#include "data/token_list.h"
#include "data/trie.h"
#include "data/vocab.h"

/*
 * Byte-pair encoding, Sennrich et al., ACL 2016: a word begins as single
 * symbols; the adjacent pair with the lowest rank, the leftmost of equals, is
 * joined until no pair is in the table.
 *
 * Three dialects share it. Byte-level (GPT-2): a symbol is a byte. Characters
 * with byte fallback (tokenizer.json of Llama-2): an unknown character becomes
 * its bytes before joining. SentencePiece: it becomes its bytes after joining.
 */

struct pen__pair {
    uint64_t key;  /* left id << 32 | right id */
    uint32_t rank; /* lower goes first */
    uint32_t id;   /* what the pair becomes */
};

struct pen__bpe {
    const struct pen__vocab *vocab; /* borrowed */
    struct pen__pair *pairs; /* open addressing; key PEN__NO_PAIR: free */
    uint32_t num_slots;
    uint32_t num_pairs;
    uint32_t num_ids; /* ids from here on are characters without a token */
    bool is_byte_level;
    bool falls_back_late; /* SentencePiece */
    bool fuses_unknown;
    bool ignores_merges; /* a whole word in the vocabulary is one token */
    bool splits_at_meta; /* no token joins over the place before a new U+2581 */
    uint32_t unknown;    /* PEN__NO_ID: unknown characters vanish */
    uint32_t byte_ids[256];  /* of bytes, or of the fallback tokens */
    bool has_fallback;       /* all of byte_ids are there */
    struct pen__trie frozen; /* user-defined pieces, never joined */
    uint32_t *least_right;   /* (vocab->num_ids) lowest rank of a pair with
                                this id on its left; UINT32_MAX: none */
    uint32_t num_right;      /* ids in least_right */
    size_t longest;          /* bytes of a token */
};

#define PEN__META "\xe2\x96\x81" /* U+2581, written for a space */

/*
 * The buffers with which one thread encodes; recent words are not encoded anew.
 */
struct pen__bpe_work;

pen_status pen__bpe_work_create(struct pen__bpe_work **out);
void pen__bpe_work_free(struct pen__bpe_work *work);

/*
 * Prepares an empty table. The vocabulary must outlive it. The caller sets the
 * other fields.
 */
void pen__bpe_init(struct pen__bpe *bpe, const struct pen__vocab *vocab);
void pen__bpe_release(struct pen__bpe *bpe);

/* Adds a pair unless it is there. */
pen_status pen__bpe_add_pair(struct pen__bpe *bpe, uint32_t left,
                             uint32_t right, uint32_t rank, uint32_t id);

/*
 * Completes the table after all pairs are in: finds out which joins can be
 * faster.
 */
pen_status pen__bpe_finish(struct pen__bpe *bpe);

/* Encodes one word (byte-level) or any text; UTF-8 was checked. */
void pen__bpe_encode(const struct pen__bpe *bpe, struct pen__bpe_work *work,
                     const char *text, size_t length,
                     struct pen_token_list *out);

/*
 * Encodes a text that comes in blocks. Call it for all of them and for nothing
 * else in between.
 */
void pen__bpe_feed(const struct pen__bpe *bpe, struct pen__bpe_work *work,
                   const struct pen__block *block, struct pen_token_list *out);

/*
 * Returns whether no place to cut was found in too long a text; then reset it.
 */
bool pen__bpe_work_is_stuck(const struct pen__bpe_work *work);
void pen__bpe_work_reset(struct pen__bpe_work *work);

/* Sets the window; see pen__encoder_set_window(). */
void pen__bpe_work_set_window(struct pen__bpe_work *work, size_t window);

#endif
