#ifndef PEN_DATA_TRIE_H
#define PEN_DATA_TRIE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Finds all strings of a set that begin at a place of a text. The children of
 * a node lie side by side, ordered by their byte:
 *
 *   node 0 (root)  first 1, count 2     "he" 7, "a" 3
 *   node 1 'a'     value 3
 *   node 2 'h'     first 3, count 1
 *   node 3 'e'     value 7
 */

struct pen__trie_key {
    const char *bytes; /* borrowed while the trie is built */
    size_t length;     /* at least 1 */
    uint32_t value;
};

struct pen__trie_node {
    uint32_t first;
    uint32_t value; /* PEN__TRIE_NONE: no string ends here */
    uint16_t count;
    uint8_t byte;
};

#define PEN__TRIE_NONE UINT32_MAX

struct pen__trie {
    struct pen__trie_node *nodes;
    uint32_t num_nodes;
    uint32_t root[256]; /* child of node 0 for each byte; 0: none */
};

/* Sorts the keys. Of two equal keys one stays. */
pen_status pen__trie_init(struct pen__trie *trie, struct pen__trie_key *keys,
                          size_t count);
void pen__trie_release(struct pen__trie *trie);

/* The child of a node (0: the root) for a byte; 0 when there is none. */
uint32_t pen__trie_step(const struct pen__trie *trie, uint32_t node,
                        uint8_t byte);

/* The longest string at the beginning of text; 0 when there is none. */
size_t pen__trie_longest(const struct pen__trie *trie, const char *text,
                         size_t length, uint32_t *value);

#endif
