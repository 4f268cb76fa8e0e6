#include "base/sort.h"

static void swap(char *a, char *b, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        char byte = a[i];
        a[i] = b[i];
        b[i] = byte;
    }
}

/* Sorts by insertion. */
void pen_sort_few(void *items, size_t count, size_t size,
                  int (*compare)(const void *, const void *))
{
    char *first = items;
    for (size_t i = 1; i < count; i++)
        for (char *at = first + i * size;
             at > first && compare(at - size, at) > 0; at -= size)
            swap(at - size, at, size);
}
