#include "data/unigram.h"

#include "base/bug.h"
#include "data/utf8.h"

#include <stdlib.h>
#include <string.h>

#define NOWHERE UINT32_MAX

/* Bytes of a text in blocks: before a cut is looked for, and the most held. */
#define WINDOW ((size_t)64 << 10)
#define HELD_MAX ((size_t)8 << 20)

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
    free(work->marks);
    pen_text_release(&work->held);
    *work = (struct pen__unigram_work){.nodes = NULL};
}

void pen__unigram_work_reset(struct pen__unigram_work *work)
{
    pen_text_clear(&work->held);
    work->reached = 0;
    work->was_unknown = work->is_stuck = false;
}

/* Makes room, and nodes `first` to `length` places that no piece has reached.
 */
static bool prepare(struct pen__unigram_work *work, size_t first, size_t length)
{
    if (work->capacity <= length) {
        size_t capacity = length + length / 4 + 64;
        struct pen__unigram_node *nodes =
            realloc(work->nodes, capacity * sizeof *nodes);
        if (nodes == NULL)
            return false;
        work->nodes = nodes;
        uint8_t *marks = realloc(work->marks, capacity);
        if (marks == NULL)
            return false;
        memset(marks + work->capacity, 0, capacity - work->capacity);
        work->marks = marks;
        work->capacity = capacity;
    }
    for (size_t i = first; i <= length; i++)
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
 * Turns the best way round: it is known from its end, and afterwards a node has
 * the end of the piece that begins there.
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
                       struct pen__unigram_work *work, const char *text,
                       size_t length, struct pen_token_list *out)
{
    const struct pen__unigram_node *nodes = work->nodes;
    bool was_unknown = work->was_unknown;
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
    work->was_unknown = was_unknown;
}

/*
 * Floats are fine only near zero. When a sum passes this, it is taken away from
 * all that is still open. Found by measuring sentencepiece 0.2.2 on long texts,
 * not read anywhere: other versions may round otherwise.
 */
#define SUM_LEAST (-100000.0)

/* Nodes beyond the longest piece have not been reached. */
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

/* Offers the pieces that begin at the places up to `end`. */
static void extend_to(const struct pen__unigram *unigram,
                      struct pen__unigram_work *work, const char *text,
                      size_t length, size_t end)
{
    size_t at = work->reached;
    while (at < end) {
        size_t size = pen__utf8_size(text[at]);
        rebase(unigram, work->nodes, length, at);
        extend(unigram, work->nodes, text, length, at, size);
        at += size;
    }
    work->reached = at;
}

void pen__unigram_encode(const struct pen__unigram *unigram,
                         struct pen__unigram_work *work, const char *text,
                         size_t length, struct pen_token_list *out)
{
    size_t window = work->window > 0 ? work->window : WINDOW;
    if (length / 2 > window) {
        struct pen__block block = {text, length, true};
        pen__unigram_feed(unigram, work, &block, out);
        return;
    }
    PEN_BUG_UNLESS(length < NOWHERE);
    if (!prepare(work, 0, length)) {
        out->has_failed = 1;
        return;
    }
    extend_to(unigram, work, text, length, length);
    turn_round(work->nodes, length);
    put_pieces(unigram, work, text, length, out);
    pen__unigram_work_reset(work);
}

/*
 * Returns the last place that is on the best way to every place that was
 * reached, so that the best way to any later one leads through it as well. The
 * farthest of the candidate places is replaced by the beginning of its last
 * piece, until one place is left.
 */
static size_t common_place(const struct pen__unigram *unigram,
                           struct pen__unigram_work *work)
{
    size_t count = 0;
    size_t last = work->reached;
    for (size_t i = work->reached;
         i <= work->held.length && i - work->reached <= unigram->longest_piece;
         i++) {
        if (work->nodes[i].begin == NOWHERE)
            continue;
        work->marks[i] = 1;
        last = i;
        count++;
    }
    for (; count > 1; last--) {
        if (work->marks[last] == 0)
            continue;
        work->marks[last] = 0;
        uint8_t *begin = &work->marks[work->nodes[last].begin];
        count -= *begin;
        *begin = 1;
    }
    while (work->marks[last] == 0)
        last--;
    work->marks[last] = 0;
    return last;
}

/* Writes the pieces up to a common place, which becomes the first one. */
static void put_front(const struct pen__unigram *unigram,
                      struct pen__unigram_work *work, size_t end,
                      struct pen_token_list *out)
{
    struct pen__unigram_node *nodes = work->nodes;
    size_t left = work->held.length - end;
    turn_round(nodes, end);
    put_pieces(unigram, work, work->held.bytes, end, out);
    memmove(nodes, nodes + end, (left + 1) * sizeof *nodes);
    for (size_t i = 0; i <= left; i++) {
        if (nodes[i].begin != NOWHERE)
            nodes[i].begin =
                nodes[i].begin < end ? NOWHERE : nodes[i].begin - (uint32_t)end;
    }
    memmove(work->held.bytes, work->held.bytes + end, left);
    work->held.length = left;
    work->held.bytes[left] = '\0';
    work->reached -= end;
}

/* Takes a part of a block that is short enough. */
static void feed_part(const struct pen__unigram *unigram,
                      struct pen__unigram_work *work,
                      const struct pen__block *part, struct pen_token_list *out)
{
    size_t before = work->held.length;
    pen_text_add_bytes(&work->held, part->text, part->length);
    size_t length = work->held.length;
    const char *text = work->held.bytes;
    if (work->held.has_failed ||
        !prepare(work, before == 0 ? 0 : before + 1, length)) {
        out->has_failed = 1;
        return;
    }
    /* Pieces that may continue in later text must wait. */
    size_t margin = part->is_end ? 0 : unigram->longest_piece;
    if (length > margin)
        extend_to(unigram, work, text, length, length - margin);
    if (part->is_end) {
        turn_round(work->nodes, length);
        put_pieces(unigram, work, text, length, out);
        pen__unigram_work_reset(work);
        return;
    }
    size_t end = work->reached > 0 ? common_place(unigram, work) : 0;
    if (end > 0)
        put_front(unigram, work, end, out);
    work->is_stuck = work->held.length > HELD_MAX;
}

void pen__unigram_feed(const struct pen__unigram *unigram,
                       struct pen__unigram_work *work,
                       const struct pen__block *block,
                       struct pen_token_list *out)
{
    size_t most = work->window > 0 ? work->window : WINDOW;
    struct pen__block rest = *block;
    while (rest.length > most && !work->is_stuck && !out->has_failed) {
        size_t size = pen__utf8_before(rest.text, most + 1);
        size = size > 0 ? size : pen__utf8_size(rest.text[0]);
        struct pen__block part = {rest.text, size, false};
        feed_part(unigram, work, &part, out);
        rest.text += size;
        rest.length -= size;
    }
    if (!work->is_stuck && !out->has_failed)
        feed_part(unigram, work, &rest, out);
}
