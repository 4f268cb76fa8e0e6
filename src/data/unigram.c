#include "data/unigram.h"

#include "base/bug.h"
#include "data/utf8.h"

#include <stdlib.h>

#define NOWHERE UINT32_MAX

/* The best way to a place: its last piece, and where that begins. */
struct pen__unigram_node {
    double sum;
    uint32_t begin;
    uint32_t id;
};

void pen__unigram_release(struct pen__unigram *unigram)
{
    pen__trie_release(&unigram->trie);
    free(unigram->scores);
    unigram->scores = NULL;
}

void pen__unigram_work_release(struct pen__unigram_work *work)
{
    free(work->nodes);
    *work = (struct pen__unigram_work){.nodes = NULL};
}

static bool prepare(struct pen__unigram_work *work, size_t length)
{
    if (work->capacity <= length) {
        struct pen__unigram_node *nodes =
            realloc(work->nodes, (length + 1) * sizeof *nodes);
        if (nodes == NULL)
            return false;
        work->nodes = nodes;
        work->capacity = length + 1;
    }
    for (size_t i = 0; i <= length; i++)
        work->nodes[i] = (struct pen__unigram_node){.begin = NOWHERE};
    return true;
}

static void offer(const struct pen__unigram *unigram,
                  struct pen__unigram_node *node, double sum, uint32_t begin,
                  uint32_t id)
{
    if (unigram->has_float_sums)
        sum = (double)(float)sum;
    if (node->begin != NOWHERE && !(sum > node->sum))
        return;
    node->sum = sum;
    node->begin = begin;
    node->id = id;
}

/* Offers all pieces that begin at `begin`. */
static void extend(const struct pen__unigram *unigram,
                   struct pen__unigram_node *nodes, const char *text,
                   size_t length, size_t begin, size_t size)
{
    const struct pen__trie *trie = &unigram->trie;
    double sum = nodes[begin].sum;
    bool has_single = false;
    uint32_t node = 0;
    for (size_t at = begin; at < length;) {
        node = pen__trie_step(trie, node, (uint8_t)text[at++]);
        if (node == 0)
            break;
        uint32_t id = trie->nodes[node].value;
        if (id == PEN__TRIE_NONE)
            continue;
        offer(unigram, &nodes[at], sum + unigram->scores[id], (uint32_t)begin,
              id);
        has_single |= at - begin == size;
    }
    if (!has_single)
        offer(unigram, &nodes[begin + size], sum + unigram->unknown_score,
              (uint32_t)begin, unigram->unknown);
}

static void put_unknown(const struct pen__unigram *unigram, const char *text,
                        size_t length, bool is_fused,
                        struct pen_token_list *out)
{
    if (unigram->has_fallback) {
        for (size_t i = 0; i < length; i++)
            pen_token_list_add_one(out, unigram->byte_ids[(uint8_t)text[i]]);
    } else if (!is_fused && unigram->unknown != PEN__NO_ID) {
        pen_token_list_add_one(out, unigram->unknown);
    }
}

/*
 * The best way is known from its end; turned round, a node tells where the
 * piece that begins there ends.
 */
static void turn_round(struct pen__unigram_node *nodes, size_t length)
{
    uint32_t end = (uint32_t)length;
    uint32_t id = nodes[end].id;
    uint32_t begin = nodes[end].begin;
    while (end > 0) {
        struct pen__unigram_node before = nodes[begin];
        nodes[begin].begin = end;
        nodes[begin].id = id;
        end = begin;
        begin = before.begin;
        id = before.id;
    }
}

static void put_pieces(const struct pen__unigram *unigram,
                       const struct pen__unigram_node *nodes, const char *text,
                       size_t length, struct pen_token_list *out)
{
    bool was_unknown = false;
    for (size_t at = 0; at < length;) {
        size_t end = nodes[at].begin;
        bool is_unknown = nodes[at].id == unigram->unknown;
        if (is_unknown)
            put_unknown(unigram, text + at, end - at, was_unknown, out);
        else
            pen_token_list_add_one(out, nodes[at].id);
        was_unknown = is_unknown;
        at = end;
    }
}

/*
 * Floats are fine only near zero. When a sum passes this, it is taken away from
 * all that is still open. Found by measuring sentencepiece 0.2.2 on long texts,
 * not read anywhere: other versions may round otherwise.
 */
#define SUM_LEAST (-100000.0)

/* Nodes behind the longest piece have not been reached. */
static void rebase(const struct pen__unigram *unigram,
                   struct pen__unigram_node *nodes, size_t length, size_t begin)
{
    double base = nodes[begin].sum;
    if (!unigram->has_float_sums || base >= SUM_LEAST)
        return;
    for (size_t i = begin; i <= length && i - begin <= unigram->longest_piece;
         i++) {
        if (nodes[i].begin != NOWHERE)
            nodes[i].sum = (double)(float)(nodes[i].sum - base);
    }
}

void pen__unigram_encode(const struct pen__unigram *unigram,
                         struct pen__unigram_work *work, const char *text,
                         size_t length, struct pen_token_list *out)
{
    PEN_BUG_UNLESS(length < NOWHERE);
    if (!prepare(work, length)) {
        out->has_failed = 1;
        return;
    }
    for (size_t at = 0; at < length;) {
        size_t size = pen__utf8_size(text[at]);
        rebase(unigram, work->nodes, length, at);
        extend(unigram, work->nodes, text, length, at, size);
        at += size;
    }
    turn_round(work->nodes, length);
    put_pieces(unigram, work->nodes, text, length, out);
}
