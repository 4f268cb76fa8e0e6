#include "data/trie.h"

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

/* Keys [begin, end) agree in their first `depth` bytes, the way to a node. */
struct range {
    size_t begin;
    size_t end;
    size_t depth;
};

struct builder {
    struct pen__trie *trie;
    const struct pen__trie_key *keys;
    struct range *ranges; /* of each node */
};

/* Adds the children of a node; there is room for all. */
static void add_children(struct builder *builder, uint32_t node)
{
    struct pen__trie *trie = builder->trie;
    const struct pen__trie_key *keys = builder->keys;
    struct range range = builder->ranges[node];
    size_t at = range.begin;
    while (at < range.end && keys[at].length == range.depth)
        trie->nodes[node].value = keys[at++].value;
    trie->nodes[node].first = trie->num_nodes;
    while (at < range.end) {
        char byte = keys[at].bytes[range.depth];
        size_t begin = at;
        while (at < range.end && keys[at].bytes[range.depth] == byte)
            at++;
        uint32_t child = trie->num_nodes++;
        trie->nodes[child] = (struct pen__trie_node){.value = PEN__TRIE_NONE,
                                                     .byte = (uint8_t)byte};
        builder->ranges[child] = (struct range){begin, at, range.depth + 1};
        trie->nodes[node].count++;
    }
}

pen_status pen__trie_init(struct pen__trie *trie, struct pen__trie_key *keys,
                          size_t count)
{
    size_t most = 1;
    for (size_t i = 0; i < count; i++)
        most += keys[i].length;
    *trie = (struct pen__trie){.num_nodes = 1};
    trie->nodes = malloc(most * sizeof *trie->nodes);
    struct range *ranges = malloc(most * sizeof *ranges);
    if (trie->nodes == NULL || ranges == NULL || most > UINT32_MAX) {
        free(ranges);
        pen__trie_release(trie);
        return PEN_NOMEM;
    }
    if (count > 0)
        qsort(keys, count, sizeof *keys, compare_keys);
    struct builder builder = {.trie = trie, .keys = keys, .ranges = ranges};
    trie->nodes[0] = (struct pen__trie_node){.value = PEN__TRIE_NONE};
    ranges[0] = (struct range){0, count, 0};
    for (uint32_t node = 0; node < trie->num_nodes; node++)
        add_children(&builder, node);
    for (uint32_t i = 0; i < trie->nodes[0].count; i++) {
        uint32_t child = trie->nodes[0].first + i;
        trie->root[trie->nodes[child].byte] = child;
    }
    free(ranges);
    return PEN_OK;
}

void pen__trie_release(struct pen__trie *trie)
{
    free(trie->nodes);
    *trie = (struct pen__trie){.nodes = NULL};
}

uint32_t pen__trie_step(const struct pen__trie *trie, uint32_t node,
                        uint8_t byte)
{
    if (node == 0)
        return trie->root[byte];
    uint32_t low = trie->nodes[node].first;
    uint32_t high = low + trie->nodes[node].count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (trie->nodes[middle].byte < byte)
            low = middle + 1;
        else
            high = middle;
    }
    uint32_t end = trie->nodes[node].first + trie->nodes[node].count;
    return low < end && trie->nodes[low].byte == byte ? low : 0;
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
