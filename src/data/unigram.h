#ifndef PEN_DATA_UNIGRAM_H
#define PEN_DATA_UNIGRAM_H

#include "data/hold.h"
#include "data/token_list.h"
#include "data/trie.h"
#include "data/vocab.h"

/*
 * The unigram language model, Kudo, ACL 2018: the cut of a text into pieces
 * that has the largest sum of scores, found by Viterbi's algorithm.
 *
 * Sums decide, so they are rounded as the reference rounds them: SentencePiece
 * keeps float, the tokenizers package double. Among equal sums, the cut whose
 * last piece begins first stays.
 */
struct pen__unigram {
    struct pen__trie trie; /* value: id */
    double *scores;        /* (num_ids) */
    bool has_float_sums;   /* SentencePiece */
    size_t longest_piece;  /* bytes, of those in the trie, at least 4 */
    double unknown_score;
    uint32_t unknown;
    bool has_fallback;
    uint32_t byte_ids[256]; /* of the fallback tokens */
};

/* The buffers of one thread: the best way to each place of the text. */
struct pen__unigram_work {
    struct pen__unigram_node *nodes;
    uint8_t *marks; /* as many; 0 between calls */
    size_t capacity;
    size_t window;        /* bytes; 0: as is usual */
    struct pen_text held; /* of a text that comes in blocks */
    size_t reached;       /* all pieces that begin before it were offered */
    bool was_unknown;     /* the last piece in front of held */
    bool is_stuck;        /* no place to cut was found in too long a text */
};

void pen__unigram_release(struct pen__unigram *unigram);
void pen__unigram_work_release(struct pen__unigram_work *work);
void pen__unigram_work_reset(struct pen__unigram_work *work);

/* UTF-8 was checked. */
void pen__unigram_encode(const struct pen__unigram *unigram,
                         struct pen__unigram_work *work, const char *text,
                         size_t length, struct pen_token_list *out);

/*
 * The same for a text that comes in blocks. Call it for all of them and for
 * nothing else in between.
 */
void pen__unigram_feed(const struct pen__unigram *unigram,
                       struct pen__unigram_work *work,
                       const struct pen__block *block,
                       struct pen_token_list *out);

#endif
