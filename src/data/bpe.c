#include "data/bpe.h"

#include "base/bug.h"
#include "data/utf8.h"

#include <stdlib.h>
#include <string.h>

#define NO_PAIR UINT64_MAX
#define NO_RANK UINT32_MAX
#define SCAN_MOST 64u /* symbols; above, a heap is faster than a scan */

/* One line of a processor's cache; most words are shorter. */
#define CACHE_TEXT 22u
#define CACHE_IDS 10u
#define CACHE_SLOTS 65536u

/* Symbols of a long word: at once, and the most that one decision takes. */
#define WINDOW 65536u
#define SYMBOLS_MAX ((size_t)2 << 20)

struct cached_word {
    uint8_t length; /* 0: free */
    uint8_t count;
    char text[CACHE_TEXT];
    uint32_t ids[CACHE_IDS];
};

struct symbol {
    uint32_t id;
    uint32_t before; /* index; UINT32_MAX at the edges */
    uint32_t behind;
    uint32_t span : 31; /* symbols at first that were joined to it */
    uint32_t is_frozen : 1;
};

/* A pair to join. Stale when its symbols have changed meanwhile. */
struct candidate {
    uint32_t rank;
    uint32_t at;
    uint32_t left;
    uint32_t right;
    uint32_t id;
};

struct pen__bpe_work {
    struct cached_word *cache; /* (CACHE_SLOTS) */
    struct symbol *symbols;
    size_t num_symbols;
    size_t symbols_capacity;
    struct candidate *heap;
    size_t heap_count;
    size_t heap_capacity;
    bool has_failed;

    size_t window;        /* symbols of a long word that are joined at once */
    struct pen_text held; /* of the text that comes in blocks */
    bool is_in_word;      /* symbols are those of a word that is under way */
    bool was_meta;        /* its last character so far */
    bool was_unknown;     /* its last id so far */
    bool is_stuck;
};

pen_status pen__bpe_work_create(struct pen__bpe_work **out)
{
    struct pen__bpe_work *work = calloc(1, sizeof *work);
    if (work == NULL)
        return PEN_NOMEM;
    work->window = WINDOW;
    work->cache = calloc(CACHE_SLOTS, sizeof *work->cache);
    if (work->cache == NULL) {
        free(work);
        return PEN_NOMEM;
    }
    *out = work;
    return PEN_OK;
}

void pen__bpe_work_free(struct pen__bpe_work *work)
{
    if (work == NULL)
        return;
    free(work->cache);
    free(work->symbols);
    free(work->heap);
    pen_text_release(&work->held);
    free(work);
}

void pen__bpe_work_reset(struct pen__bpe_work *work)
{
    pen_text_clear(&work->held);
    work->num_symbols = 0;
    work->is_in_word = work->is_stuck = work->has_failed = false;
}

bool pen__bpe_work_is_stuck(const struct pen__bpe_work *work)
{
    return work->is_stuck;
}

void pen__bpe_work_set_window(struct pen__bpe_work *work, size_t window)
{
    work->window = window;
}

void pen__bpe_init(struct pen__bpe *bpe, const struct pen__vocab *vocab)
{
    *bpe = (struct pen__bpe){.vocab = vocab, .unknown = PEN__NO_ID};
    for (size_t i = 0; i < 256; i++)
        bpe->byte_ids[i] = PEN__NO_ID;
}

void pen__bpe_release(struct pen__bpe *bpe)
{
    free(bpe->pairs);
    free(bpe->least_right);
    pen__trie_release(&bpe->frozen);
    bpe->pairs = NULL;
    bpe->least_right = NULL;
}

static uint64_t key_of(uint32_t left, uint32_t right)
{
    return (uint64_t)left << 32 | right;
}

static struct pen__pair *slot_of(const struct pen__bpe *bpe, uint64_t key)
{
    uint32_t mask = bpe->num_slots - 1;
    uint32_t slot = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32) & mask;
    while (bpe->pairs[slot].key != NO_PAIR && bpe->pairs[slot].key != key)
        slot = (slot + 1) & mask;
    return &bpe->pairs[slot];
}

static pen_status grow_pairs(struct pen__bpe *bpe)
{
    struct pen__pair *old = bpe->pairs;
    uint32_t num_old = bpe->num_slots;
    uint32_t count = num_old == 0 ? 1024 : num_old * 2;
    struct pen__pair *pairs = malloc(count * sizeof *pairs);
    if (pairs == NULL)
        return PEN_NOMEM;
    for (uint32_t i = 0; i < count; i++)
        pairs[i].key = NO_PAIR;
    bpe->pairs = pairs;
    bpe->num_slots = count;
    for (uint32_t i = 0; i < num_old; i++) {
        if (old[i].key != NO_PAIR)
            *slot_of(bpe, old[i].key) = old[i];
    }
    free(old);
    return PEN_OK;
}

pen_status pen__bpe_add_pair(struct pen__bpe *bpe, uint32_t left,
                             uint32_t right, uint32_t rank, uint32_t id)
{
    if (4 * (uint64_t)bpe->num_pairs >= bpe->num_slots &&
        grow_pairs(bpe) != PEN_OK)
        return PEN_NOMEM;
    struct pen__pair *slot = slot_of(bpe, key_of(left, right));
    if (slot->key == NO_PAIR) {
        *slot = (struct pen__pair){key_of(left, right), rank, id};
        bpe->num_pairs++;
    }
    return PEN_OK;
}

/* Finds the pair; NULL when the two are never joined. */
static const struct pen__pair *find_pair(const struct pen__bpe *bpe,
                                         uint32_t left, uint32_t right)
{
    if (bpe->num_slots == 0)
        return NULL;
    const struct pen__pair *pair = slot_of(bpe, key_of(left, right));
    return pair->key == NO_PAIR ? NULL : pair;
}

static bool starts_with_meta(const char *text, size_t length)
{
    return length >= 3 && memcmp(text, PEN__META, 3) == 0;
}

/*
 * Returns the length of a word, which begins at a U+2581 that follows another
 * character.
 */
static size_t word_length(const char *text, size_t length)
{
    size_t at = 0;
    while (starts_with_meta(text + at, length - at))
        at += 3;
    while (at < length) {
        const char *next = memchr(text + at, PEN__META[0], length - at);
        if (next == NULL)
            return length;
        at = (size_t)(next - text);
        if (starts_with_meta(next, length - at))
            return at;
        at++;
    }
    return at;
}

/*
 * Ranks of all pairs by id, as joining in windows needs them; see
 * join_window().
 */
static pen_status rank_ids(struct pen__bpe *bpe)
{
    uint32_t count = bpe->vocab->num_ids;
    bpe->least_right = malloc((count + (size_t)1) * sizeof *bpe->least_right);
    if (bpe->least_right == NULL)
        return PEN_NOMEM;
    bpe->num_right = count;
    for (uint32_t id = 0; id < count; id++) {
        const struct pen__string *string = &bpe->vocab->strings[id];
        if (string->is_set && string->length > bpe->longest)
            bpe->longest = string->length;
        bpe->least_right[id] = NO_RANK;
    }
    for (uint32_t i = 0; i < bpe->num_slots; i++) {
        const struct pen__pair *pair = &bpe->pairs[i];
        if (pair->key == NO_PAIR)
            continue;
        uint32_t *least = &bpe->least_right[pair->key >> 32];
        if (pair->rank < *least)
            *least = pair->rank;
    }
    return PEN_OK;
}

pen_status pen__bpe_finish(struct pen__bpe *bpe)
{
    bpe->has_fallback = true;
    for (size_t i = 0; i < 256; i++)
        bpe->has_fallback &= bpe->byte_ids[i] != PEN__NO_ID;
    bpe->splits_at_meta =
        !bpe->is_byte_level && !bpe->ignores_merges &&
        pen__vocab_find(bpe->vocab, PEN__META, 3) != PEN__NO_ID;
    for (uint32_t i = 0; i < bpe->num_slots && bpe->splits_at_meta; i++) {
        if (bpe->pairs[i].key == NO_PAIR)
            continue;
        size_t length;
        const char *text =
            pen__vocab_string(bpe->vocab, bpe->pairs[i].id, &length);
        bpe->splits_at_meta = word_length(text, length) == length;
    }
    /* A user-defined piece may hold anything. */
    if (bpe->frozen.num_nodes > 0)
        bpe->splits_at_meta = false;
    return rank_ids(bpe);
}

static void add_symbol(struct pen__bpe_work *work, uint32_t id, bool is_frozen)
{
    if (work->num_symbols == work->symbols_capacity) {
        size_t capacity = work->symbols_capacity * 2 + 256;
        struct symbol *symbols =
            realloc(work->symbols, capacity * sizeof *symbols);
        if (symbols == NULL) {
            work->has_failed = true;
            return;
        }
        work->symbols = symbols;
        work->symbols_capacity = capacity;
    }
    work->symbols[work->num_symbols++] =
        (struct symbol){.id = id, .span = 1, .is_frozen = is_frozen};
}

static void add_fallback(const struct pen__bpe *bpe, struct pen__bpe_work *work,
                         const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        add_symbol(work, bpe->byte_ids[(uint8_t)text[i]], false);
}

static void add_unknown(const struct pen__bpe *bpe, struct pen__bpe_work *work)
{
    size_t count = work->num_symbols;
    bool is_fused = bpe->fuses_unknown && count > 0 &&
                    work->symbols[count - 1].id == bpe->unknown;
    if (bpe->unknown != PEN__NO_ID && !is_fused)
        add_symbol(work, bpe->unknown, false);
}

static bool falls_back(const struct pen__bpe *bpe, const char *text,
                       size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bpe->byte_ids[(uint8_t)text[i]] == PEN__NO_ID)
            return false;
    }
    return true;
}

/* Adds the symbol at `text` and returns its bytes. */
static size_t add_character(const struct pen__bpe *bpe,
                            struct pen__bpe_work *work, const char *text,
                            size_t length)
{
    uint32_t id;
    size_t size = 0;
    if (bpe->frozen.num_nodes > 0)
        size = pen__trie_longest(&bpe->frozen, text, length, &id);
    if (size > 0) {
        add_symbol(work, id, true);
        return size;
    }
    size = pen__utf8_size(text[0]);
    id = pen__vocab_find(bpe->vocab, text, size);
    if (id != PEN__NO_ID)
        add_symbol(work, id, false);
    else if (bpe->falls_back_late && !bpe->has_fallback)
        add_symbol(work, bpe->unknown, false);
    else if (falls_back(bpe, text, size))
        add_fallback(bpe, work, text, size);
    else
        add_unknown(bpe, work);
    return size;
}

static void add_bytes(const struct pen__bpe *bpe, struct pen__bpe_work *work,
                      const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        uint32_t id = bpe->byte_ids[(uint8_t)text[i]];
        if (id != PEN__NO_ID)
            add_symbol(work, id, false);
        else
            add_unknown(bpe, work);
    }
}

static const struct pen__pair *pair_at(const struct pen__bpe *bpe,
                                       const struct symbol *left,
                                       const struct symbol *right)
{
    if (left->is_frozen || right->is_frozen)
        return NULL;
    return find_pair(bpe, left->id, right->id);
}

/* Joins by looking at all pairs again: the fastest way for a few symbols. */
static void join_by_scan(const struct pen__bpe *bpe, struct pen__bpe_work *work)
{
    const struct pen__pair *pairs[SCAN_MOST];
    struct symbol *symbols = work->symbols;
    size_t count = work->num_symbols;
    for (size_t i = 0; i + 1 < count; i++)
        pairs[i] = pair_at(bpe, &symbols[i], &symbols[i + 1]);
    for (;;) {
        size_t best = SIZE_MAX;
        uint32_t rank = NO_RANK;
        for (size_t i = 0; i + 1 < count; i++) {
            if (pairs[i] != NULL &&
                (best == SIZE_MAX || pairs[i]->rank < rank)) {
                rank = pairs[i]->rank;
                best = i;
            }
        }
        if (best == SIZE_MAX)
            break;
        symbols[best].id = pairs[best]->id;
        count--;
        for (size_t i = best + 1; i < count; i++)
            symbols[i] = symbols[i + 1];
        for (size_t i = best; i + 1 < count; i++)
            pairs[i] = pairs[i + 1];
        if (best > 0)
            pairs[best - 1] = pair_at(bpe, &symbols[best - 1], &symbols[best]);
        if (best + 1 < count)
            pairs[best] = pair_at(bpe, &symbols[best], &symbols[best + 1]);
    }
    work->num_symbols = count;
}

static bool goes_first(const struct candidate *a, const struct candidate *b)
{
    return a->rank < b->rank || (a->rank == b->rank && a->at < b->at);
}

static void heap_push(struct pen__bpe_work *work, struct candidate item)
{
    if (work->heap_count == work->heap_capacity) {
        size_t capacity = work->heap_capacity * 2 + 256;
        struct candidate *heap = realloc(work->heap, capacity * sizeof *heap);
        if (heap == NULL) {
            work->has_failed = true;
            return;
        }
        work->heap = heap;
        work->heap_capacity = capacity;
    }
    size_t at = work->heap_count++;
    while (at > 0 && goes_first(&item, &work->heap[(at - 1) / 2])) {
        work->heap[at] = work->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    work->heap[at] = item;
}

static struct candidate heap_pop(struct pen__bpe_work *work)
{
    struct candidate *heap = work->heap;
    struct candidate top = heap[0];
    struct candidate last = heap[--work->heap_count];
    size_t count = work->heap_count;
    size_t at = 0;
    for (size_t child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && goes_first(&heap[child + 1], &heap[child]))
            child++;
        if (!goes_first(&heap[child], &last))
            break;
        heap[at] = heap[child];
        at = child;
    }
    if (count > 0)
        heap[at] = last;
    return top;
}

static void push_pair(const struct pen__bpe *bpe, struct pen__bpe_work *work,
                      uint32_t at)
{
    const struct symbol *left = &work->symbols[at];
    if (left->behind == UINT32_MAX)
        return;
    const struct symbol *right = &work->symbols[left->behind];
    const struct pen__pair *pair = pair_at(bpe, left, right);
    if (pair == NULL)
        return;
    struct candidate item = {pair->rank, at, left->id, right->id, pair->id};
    heap_push(work, item);
}

/* A symbol that was joined to the one before it. */
#define GONE UINT32_MAX

/* Returns whether the symbols of a pair still exist. */
static bool is_current(const struct pen__bpe_work *work,
                       const struct candidate *item)
{
    const struct symbol *left = &work->symbols[item->at];
    return left->id == item->left && left->behind != UINT32_MAX &&
           work->symbols[left->behind].id == item->right;
}

static void join_candidate(const struct pen__bpe *bpe,
                           struct pen__bpe_work *work,
                           const struct candidate *item)
{
    struct symbol *left = &work->symbols[item->at];
    struct symbol *right = &work->symbols[left->behind];
    left->id = item->id;
    left->span += right->span;
    right->id = GONE;
    left->behind = right->behind;
    if (left->behind != UINT32_MAX)
        work->symbols[left->behind].before = item->at;
    push_pair(bpe, work, item->at);
    if (left->before != UINT32_MAX)
        push_pair(bpe, work, left->before);
}

/*
 * A word in windows. Text after the window may join the symbols at its end, so
 * the last symbols are open: those after `edge`. A pair is joined only where
 * the whole word would join it, too:
 *
 *   1. Before a pair of rank k is joined, the symbol at the edge becomes open
 *      while a pair with it on the left has a rank below k: it might have been
 *      joined to its right already. Among equal ranks the left one goes first.
 *   2. A pair at the edge becomes open, too, if what it is joined to could be
 *      joined to its right before other pairs of rank k: its right neighbour
 *      by then is unknown.
 *
 * A later join over the edge makes one token, no longer than the longest.
 * Symbols that are farther from the edge than that are therefore final, and the
 * open ones are as the whole word has them at some time.
 */
static uint32_t least_right(const struct pen__bpe *bpe, uint32_t id)
{
    return id < bpe->num_right ? bpe->least_right[id] : NO_RANK;
}

/*
 * Returns the edge when this pair's turn has come; false: it must not be
 * joined.
 */
static bool move_edge(const struct pen__bpe *bpe,
                      const struct pen__bpe_work *work,
                      const struct candidate *item, uint32_t *edge)
{
    const struct symbol *symbols = work->symbols;
    while (*edge != UINT32_MAX && !symbols[*edge].is_frozen &&
           least_right(bpe, symbols[*edge].id) < item->rank)
        *edge = symbols[*edge].before;
    uint32_t right = symbols[item->at].behind;
    if (*edge == UINT32_MAX || right > *edge)
        return false;
    if (right == *edge && least_right(bpe, item->id) < item->rank) {
        *edge = symbols[item->at].before;
        return false;
    }
    if (right == *edge)
        *edge = item->at;
    return true;
}

/*
 * Joins with a heap of candidates: n log n, for words of any length. Returns
 * how many of the symbols that are left are not open.
 */
static size_t join_by_heap(const struct pen__bpe *bpe,
                           struct pen__bpe_work *work, bool is_end)
{
    size_t count = work->num_symbols;
    uint32_t edge = (uint32_t)count - 1;
    for (size_t i = 0; i < count; i++) {
        work->symbols[i].before = i == 0 ? UINT32_MAX : (uint32_t)(i - 1);
        work->symbols[i].behind =
            i + 1 == count ? UINT32_MAX : (uint32_t)(i + 1);
    }
    work->heap_count = 0;
    for (size_t i = 0; i + 1 < count && bpe->num_pairs > 0; i++)
        push_pair(bpe, work, (uint32_t)i);
    while (work->heap_count > 0 && edge != UINT32_MAX) {
        struct candidate item = heap_pop(work);
        if (is_current(work, &item) &&
            (is_end || move_edge(bpe, work, &item, &edge)))
            join_candidate(bpe, work, &item);
    }
    size_t kept = 0;
    size_t num_safe = 0;
    for (size_t i = 0; i < count; i++) {
        if (work->symbols[i].id == GONE)
            continue;
        work->symbols[kept++] = work->symbols[i];
        if (edge != UINT32_MAX && i <= edge)
            num_safe = kept;
    }
    work->num_symbols = kept;
    return num_safe;
}

/*
 * Puts a character without a token, as SentencePiece does: bytes, or one
 * unknown.
 */
static void put_late(const struct pen__bpe *bpe, struct pen__bpe_work *work,
                     uint32_t id, struct pen_token_list *out)
{
    size_t length;
    if (id != bpe->unknown && bpe->has_fallback) {
        work->was_unknown = false;
        const char *text = pen__vocab_string(bpe->vocab, id, &length);
        for (size_t i = 0; i < length; i++)
            pen_token_list_add_one(out, bpe->byte_ids[(uint8_t)text[i]]);
        return;
    }
    if (!work->was_unknown)
        pen_token_list_add_one(out, bpe->unknown);
    work->was_unknown = true;
}

/* Writes the first symbols and takes them away. */
static void put_symbols(const struct pen__bpe *bpe, struct pen__bpe_work *work,
                        size_t count, struct pen_token_list *out)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t id = work->symbols[i].id;
        if (bpe->falls_back_late &&
            (id >= bpe->num_ids || id == bpe->unknown)) {
            put_late(bpe, work, id, out);
        } else {
            pen_token_list_add_one(out, id);
            work->was_unknown = false;
        }
    }
    work->num_symbols -= count;
    if (work->num_symbols > 0)
        memmove(work->symbols, work->symbols + count,
                work->num_symbols * sizeof *work->symbols);
}

/* Joins what is there of a long word and writes what is final of it. */
static void join_window(const struct pen__bpe *bpe, struct pen__bpe_work *work,
                        bool is_end, struct pen_token_list *out)
{
    size_t final = 0;
    if (work->num_symbols == 0 || work->has_failed)
        return;
    size_t num_safe = join_by_heap(bpe, work, is_end);
    if (is_end) {
        put_symbols(bpe, work, work->num_symbols, out);
        return;
    }
    final = num_safe;
    for (size_t span = 0; final > 0 && span < bpe->longest;)
        span += work->symbols[--final].span;
    /* An unknown character may be fused with the last one. */
    if (final == work->num_symbols && final > 0)
        final--;
    put_symbols(bpe, work, final, out);
    work->is_stuck = work->num_symbols > SYMBOLS_MAX;
}

static void begin_word(struct pen__bpe_work *work)
{
    work->num_symbols = 0;
    work->was_unknown = false;
    work->was_meta = true; /* a word may begin with several */
    work->is_in_word = true;
}

/*
 * Adds text of a long word and returns the bytes that were taken: all of them
 * when is_end, else those that do not depend on what follows.
 */
static size_t add_to_word(const struct pen__bpe *bpe,
                          struct pen__bpe_work *work, const char *text,
                          size_t length, bool is_end,
                          struct pen_token_list *out)
{
    size_t margin = is_end || bpe->frozen.num_nodes == 0 ? 0 : bpe->longest;
    size_t at = 0;
    while (length - at > margin && !work->is_stuck && !work->has_failed) {
        size_t most = work->num_symbols + work->window;
        while (length - at > margin && work->num_symbols < most) {
            if (bpe->is_byte_level)
                add_bytes(bpe, work, text + at++, 1);
            else
                at += add_character(bpe, work, text + at, length - at);
            if (work->has_failed)
                break;
        }
        if (length - at > margin)
            join_window(bpe, work, false, out);
    }
    join_window(bpe, work, is_end, out);
    if (is_end) {
        work->is_in_word = false;
        work->num_symbols = 0;
    }
    if (work->has_failed)
        out->has_failed = 1;
    return at;
}

/*
 * Returns whether a word is longer than any token, so that looking it up would
 * not help.
 */
static bool is_long(const struct pen__bpe *bpe,
                    const struct pen__bpe_work *work, size_t length)
{
    return length > work->window && length > bpe->longest;
}

static void encode_word(const struct pen__bpe *bpe, struct pen__bpe_work *work,
                        const char *text, size_t length,
                        struct pen_token_list *out)
{
    if (is_long(bpe, work, length)) {
        begin_word(work);
        add_to_word(bpe, work, text, length, true, out);
        return;
    }
    if (bpe->ignores_merges) {
        uint32_t id = pen__vocab_find(bpe->vocab, text, length);
        if (id != PEN__NO_ID) {
            pen_token_list_add_one(out, id);
            return;
        }
    }
    work->num_symbols = 0;
    if (bpe->is_byte_level)
        add_bytes(bpe, work, text, length);
    else
        for (size_t at = 0; at < length;)
            at += add_character(bpe, work, text + at, length - at);
    if (work->num_symbols <= SCAN_MOST)
        join_by_scan(bpe, work);
    else
        join_by_heap(bpe, work, true);
    work->was_unknown = false;
    put_symbols(bpe, work, work->num_symbols, out);
    if (work->has_failed)
        out->has_failed = 1;
}

static void encode_cached(const struct pen__bpe *bpe,
                          struct pen__bpe_work *work, const char *text,
                          size_t length, struct pen_token_list *out)
{
    if (length == 0 || length > CACHE_TEXT) {
        encode_word(bpe, work, text, length, out);
        return;
    }
    uint64_t hash = pen__hash(text, length);
    struct cached_word *word = &work->cache[hash % CACHE_SLOTS];
    if (word->length == length && memcmp(word->text, text, length) == 0) {
        pen_token_list_add(out, word->ids, word->count);
        return;
    }
    size_t before = out->count;
    encode_word(bpe, work, text, length, out);
    size_t count = out->count - before;
    if (count > CACHE_IDS || out->has_failed)
        return;
    word->length = (uint8_t)length;
    word->count = (uint8_t)count;
    memcpy(word->text, text, length);
    if (count > 0)
        memcpy(word->ids, out->ids + before, count * sizeof *word->ids);
}

void pen__bpe_encode(const struct pen__bpe *bpe, struct pen__bpe_work *work,
                     const char *text, size_t length,
                     struct pen_token_list *out)
{
    PEN_BUG_UNLESS(length < UINT32_MAX);
    if (!bpe->splits_at_meta) {
        encode_cached(bpe, work, text, length, out);
        return;
    }
    for (size_t at = 0; at < length;) {
        size_t word = word_length(text + at, length - at);
        encode_cached(bpe, work, text + at, word, out);
        at += word;
    }
}

/*
 * Returns the bytes up to the end of the word that is under way: a U+2581 that
 * follows another character. `length` when there is none; *is_found says
 * whether there is one.
 */
static size_t rest_of_word(const struct pen__bpe *bpe,
                           struct pen__bpe_work *work, const char *text,
                           size_t length, bool *is_found)
{
    *is_found = false;
    for (size_t at = 0; at < length && bpe->splits_at_meta;) {
        bool is_meta = starts_with_meta(text + at, length - at);
        *is_found = is_meta && !work->was_meta;
        if (*is_found)
            return at;
        work->was_meta = is_meta;
        at += pen__utf8_size(text[at]);
    }
    return length;
}

/* Takes one word, or more of a long one, and returns the bytes of it. */
static size_t feed_word(const struct pen__bpe *bpe, struct pen__bpe_work *work,
                        const char *text, size_t length, bool is_end,
                        struct pen_token_list *out)
{
    if (work->is_in_word) {
        bool is_found;
        size_t rest = rest_of_word(bpe, work, text, length, &is_found);
        return add_to_word(bpe, work, text, rest, is_found || is_end, out);
    }
    size_t word = bpe->splits_at_meta ? word_length(text, length) : length;
    if (word < length || is_end) {
        encode_cached(bpe, work, text, word, out);
        return word;
    }
    if (is_long(bpe, work, length))
        begin_word(work);
    return 0;
}

void pen__bpe_feed(const struct pen__bpe *bpe, struct pen__bpe_work *work,
                   const struct pen__block *block, struct pen_token_list *out)
{
    struct pen__block all = pen__hold_join(&work->held, *block);
    size_t at = 0;
    bool has_moved = true;
    while (has_moved && !work->is_stuck && !out->has_failed &&
           (at < all.length || (all.is_end && work->is_in_word))) {
        bool was_in_word = work->is_in_word;
        size_t taken = feed_word(bpe, work, all.text + at, all.length - at,
                                 all.is_end, out);
        has_moved = taken > 0 || was_in_word != work->is_in_word;
        at += taken;
    }
    if (all.is_end)
        pen_text_clear(&work->held);
    else
        pen__hold_keep(&work->held, all, at);
    if (work->held.has_failed)
        out->has_failed = 1;
}
