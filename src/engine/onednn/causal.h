#ifndef PEN_ENGINE_ONEDNN_CAUSAL_H
#define PEN_ENGINE_ONEDNN_CAUSAL_H

#include "engine/engine.h"

#include <float.h>

/*
 * Which keys a query sees. Attention goes through blocks of queries:
 *
 *            keys 0 ......... first query ... last query
 *   queries  [ seen by all of the block     | a triangle ]
 */

enum { PEN__QUERIES = 64, PEN__LANES = 16 }; /* of a block, of a vector */

/* The scores of a block of queries against a range of keys. */
struct pen__scores {
    size_t queries;
    size_t keys;
    size_t stride;      /* from a query's scores to those of the next */
    size_t first_row;   /* of the first query, among those of its sequence */
    size_t first_query; /* its position */
    size_t begin;       /* position of the first key */
    size_t window;      /* as in pen_attention */
    float scale;
};

/* The queries of a block and the keys that any of them sees. */
static inline struct pen__scores pen__block(const struct pen_attention *shape,
                                            size_t number)
{
    struct pen__scores block = {.first_row = number * PEN__QUERIES,
                                .first_query =
                                    shape->first + number * PEN__QUERIES,
                                .window = shape->window,
                                .scale = (float)shape->scale};
    size_t left = shape->sequence - block.first_row;
    block.queries = left < PEN__QUERIES ? left : PEN__QUERIES;
    if (shape->window > 0 && block.first_query + 1 > shape->window)
        block.begin = block.first_query + 1 - shape->window;
    block.keys = block.first_query + block.queries - block.begin;
    block.stride = block.keys;
    return block;
}

/*
 * A row of a block: the columns that its query sees, low..high - 1, and the end
 * of the last vector that has one of them, if the row is as long. Columns from
 * high to end are computed in vain rather than one by one, and come out zero.
 */
struct pen__visible {
    size_t low;
    size_t high;
    size_t end;
};

static inline struct pen__visible pen__visible(const struct pen__scores *block,
                                               size_t query)
{
    size_t position = block->first_query + query;
    size_t begin = block->begin;
    if (block->window > 0 && position + 1 > block->window + begin)
        begin = position + 1 - block->window;
    struct pen__visible row = {begin - block->begin,
                               position + 1 - block->begin, 0};
    size_t vectors = (row.high - row.low + PEN__LANES - 1) / PEN__LANES;
    row.end = row.low + vectors * PEN__LANES;
    if (row.end > block->keys)
        row.end = block->keys;
    return row;
}

/* Gives the columns in vain a score that comes out as zero. */
static inline void pen__blind(const struct pen__visible *row, float *score)
{
    for (size_t i = row->high; i < row->end; i++)
        score[i] = -FLT_MAX;
}

#endif
