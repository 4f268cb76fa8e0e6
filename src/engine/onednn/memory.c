/*
 * Where parameters and scratch lie. Large blocks are mapped one by one, not
 * taken from the heap: there, the gaps between blocks that begin on huge pages
 * would in time be filled by what oneDNN takes and gives back in every product,
 * and the process would grow by all of them.
 */
#include "engine/onednn/onednn.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64, HUGE_PAGE = 2 << 20 };

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/*
 * Maps memory from one huge page to another. The rest of the last one is never
 * touched.
 */
static void *map_large(size_t bytes)
{
    size_t length = round_up(bytes, HUGE_PAGE);
    char *room = mmap(NULL, length + HUGE_PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    size_t before = round_up((uintptr_t)room, HUGE_PAGE) - (uintptr_t)room;
    char *block = room + before;
    if (before > 0)
        munmap(room, before);
    munmap(block + length, HUGE_PAGE - before);
#ifdef MADV_HUGEPAGE
    /* Whole huge pages only, and a system without them does without. */
    (void)madvise(block, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#endif
    return block;
}

void *pen__zeroed(size_t bytes)
{
    void *block = bytes < HUGE_PAGE
                      ? aligned_alloc(ALIGNMENT, round_up(bytes, ALIGNMENT))
                      : map_large(bytes);
    if (block != NULL)
        memset(block, 0, bytes); /* touches it, too */
    return block;
}

void pen__zeroed_free(void *block, size_t bytes)
{
    if (block != NULL && bytes >= HUGE_PAGE)
        munmap(block, round_up(bytes, HUGE_PAGE));
    else
        free(block);
}
