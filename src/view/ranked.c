#include "view/ranked.h"

#include <stdlib.h>

static int by_key_down(const void *a, const void *b)
{
    const struct pen_ranked *x = a;
    const struct pen_ranked *y = b;
    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

void pen_ranked_sort(struct pen_ranked *ranks, size_t count)
{
    qsort(ranks, count, sizeof *ranks, by_key_down);
}
