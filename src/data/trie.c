#include "data/trie.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int compare_keys(const void *left, const void *right)
{
    const struct pen__trie_key *a = left;
    const struct pen__trie_key *b = right;
    size_t shorter = a->length < b->length ? a->length : b->length;
    int order = memcmp(a->bytes, b->bytes, shorter);
    if (order != 0)
        return order;
    return (a->length > b->length) - (a->length < b->length);
}

#define BLOCK 256u    /* nodes; the children of a node are in one block */
#define TRIES_MAX 16u /* failures to place a node before a block is closed */
#define NODES_MAX (1u << 28)

/* Keys [begin, end) agree in their first `depth` bytes, the way to a node. */
struct range {
    size_t begin;
    size_t end;
    size_t depth;
    uint32_t node;
};

struct builder {
    struct pen__trie *trie;
    const struct pen__trie_key *keys;
    struct range *ranges; /* nodes to be given children, in order */
    size_t num_ranges;
    uint32_t first_open; /* block */
    unsigned num_tries;  /* of the first open block */
};

static bool add_block(struct pen__trie *trie)
{
    uint32_t count = trie->num_nodes + BLOCK;
    if (count > NODES_MAX)
        return false;
    struct pen__trie_node *nodes =
        realloc(trie->nodes, count * sizeof *trie->nodes);
    if (nodes == NULL)
        return false;
    for (uint32_t i = trie->num_nodes; i < count; i++)
        nodes[i] = (struct pen__trie_node){.parent = PEN__TRIE_NONE,
                                           .value = PEN__TRIE_NONE};
    trie->nodes = nodes;
    trie->num_nodes = count;
    return true;
}

/* The root is not a child, but its place is taken. */
static bool is_free(const struct pen__trie *trie, uint32_t node)
{
    return node != 0 && trie->nodes[node].parent == PEN__TRIE_NONE;
}

/* Finds a base in this block under which all bytes are free; false: none. */
static bool find_base(const struct pen__trie *trie, uint32_t block,
                      const uint8_t *bytes, size_t count, uint32_t *base)
{
    for (uint32_t i = 0; i < BLOCK; i++) {
        uint32_t tried = block * BLOCK + i;
        size_t fitting = 0;
        while (fitting < count && is_free(trie, tried ^ bytes[fitting]))
            fitting++;
        if (fitting == count) {
            *base = tried;
            return true;
        }
    }
    return false;
}

static bool place(struct builder *builder, const uint8_t *bytes, size_t count,
                  uint32_t *base)
{
    struct pen__trie *trie = builder->trie;
    uint32_t block = builder->first_open;
    while (block * BLOCK < trie->num_nodes &&
           !find_base(trie, block, bytes, count, base)) {
        if (block == builder->first_open && ++builder->num_tries == TRIES_MAX) {
            builder->first_open++;
            builder->num_tries = 0;
        }
        block++;
    }
    if (block * BLOCK < trie->num_nodes)
        return true;
    return add_block(trie) && find_base(trie, block, bytes, count, base);
}

/* Notes the children of a node as ranges without a node; their number. */
static size_t split_range(struct builder *builder, struct range range,
                          uint8_t bytes[BLOCK])
{
    const struct pen__trie_key *keys = builder->keys;
    size_t count = 0;
    size_t at = range.begin;
    while (at < range.end && keys[at].length == range.depth)
        builder->trie->nodes[range.node].value = keys[at++].value;
    while (at < range.end) {
        char byte = keys[at].bytes[range.depth];
        size_t begin = at;
        while (at < range.end && keys[at].bytes[range.depth] == byte)
            at++;
        bytes[count] = (uint8_t)byte;
        builder->ranges[builder->num_ranges + count++] =
            (struct range){.begin = begin, .end = at, .depth = range.depth + 1};
    }
    return count;
}

static bool add_children(struct builder *builder, struct range range)
{
    uint8_t bytes[BLOCK];
    uint32_t base = 0;
    size_t count = split_range(builder, range, bytes);
    if (count == 0)
        return true;
    if (!place(builder, bytes, count, &base))
        return false;
    builder->trie->nodes[range.node].base = base;
    for (size_t i = 0; i < count; i++) {
        uint32_t child = base ^ bytes[i];
        builder->trie->nodes[child].parent = range.node;
        builder->ranges[builder->num_ranges++].node = child;
        if (range.node == 0)
            builder->trie->root[bytes[i]] = child;
    }
    return true;
}

pen_status pen__trie_init(struct pen__trie *trie, struct pen__trie_key *keys,
                          size_t count)
{
    size_t most = 1;
    for (size_t i = 0; i < count; i++)
        most += keys[i].length;
    *trie = (struct pen__trie){.num_nodes = 0};
    if (count == 0)
        return PEN_OK;
    qsort(keys, count, sizeof *keys, compare_keys);
    struct builder builder = {.trie = trie, .keys = keys, .num_ranges = 1};
    builder.ranges = malloc(most * sizeof *builder.ranges);
    bool is_good = builder.ranges != NULL && add_block(trie);
    if (is_good)
        builder.ranges[0] = (struct range){.end = count};
    for (size_t i = 0; is_good && i < builder.num_ranges; i++)
        is_good = add_children(&builder, builder.ranges[i]);
    free(builder.ranges);
    if (!is_good) {
        pen__trie_release(trie);
        return PEN_NOMEM;
    }
    return PEN_OK;
}

void pen__trie_release(struct pen__trie *trie)
{
    free(trie->nodes);
    *trie = (struct pen__trie){.nodes = NULL};
}

size_t pen__trie_longest(const struct pen__trie *trie, const char *text,
                         size_t length, uint32_t *value)
{
    size_t longest = 0;
    uint32_t node = 0;
    for (size_t i = 0; i < length; i++) {
        node = pen__trie_step(trie, node, (uint8_t)text[i]);
        if (node == 0)
            break;
        if (trie->nodes[node].value != PEN__TRIE_NONE) {
            *value = trie->nodes[node].value;
            longest = i + 1;
        }
    }
    return longest;
}
