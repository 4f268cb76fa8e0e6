#ifndef PEN_DATA_TRIE_H
#define PEN_DATA_TRIE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Finds all strings of a set that begin at a place of a text, in one step per
 * byte: a double array (Aoe, 1989). The child of a node for a byte is at the
 * node's base xor the byte, if that place names the node as its parent.
 *
 *   "a" 3, "he" 7     node 0 (root) base 256
 *                     node 353 = 256^'a'  parent 0, value 3
 *                     node 360 = 256^'h'  parent 0, base 512
 *                     node 613 = 512^'e'  parent 360, value 7
 */

struct pen__trie_key {
    const char *bytes; /* borrowed while the trie is built */
    size_t length;     /* at least 1 */
    uint32_t value;
};

struct pen__trie_node {
    uint32_t base;
    uint32_t parent;
    uint32_t value; /* PEN__TRIE_NONE: no string ends here */
};

#define PEN__TRIE_NONE UINT32_MAX

struct pen__trie {
    struct pen__trie_node *nodes; /* in blocks of 256 */
    uint32_t num_nodes;           /* 0: no strings */
    uint32_t root[256];           /* child of node 0 for each byte; 0: none */
};

/* Builds the trie; sorts the keys. One of two equal keys stays. */
pen_status pen__trie_init(struct pen__trie *trie, struct pen__trie_key *keys,
                          size_t count);
void pen__trie_release(struct pen__trie *trie);

/*
 * The child of a node (0: the root) for a byte; 0 when there is none. Here, for
 * it is called for every byte of a text several times.
 */
static inline uint32_t pen__trie_step(const struct pen__trie *trie,
                                      uint32_t node, uint8_t byte)
{
    if (node == 0)
        return trie->root[byte];
    uint32_t child = trie->nodes[node].base ^ byte;
    return trie->nodes[child].parent == node ? child : 0;
}

/* The longest string at the beginning of text; 0 when there is none. */
size_t pen__trie_longest(const struct pen__trie *trie, const char *text,
                         size_t length, uint32_t *value);

#endif
