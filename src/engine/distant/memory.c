/* Two ranges of addresses: one without access for the host, one with bytes. */
#include "base/bug.h"
#include "engine/distant/distant.h"
#include "engine/host_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Addresses are not used twice, and cost nothing until they are used. */
#define RANGE_BYTES ((size_t)1 << 36)

enum { PAGE = 1 << 16 };

bool pen__distant_map(struct pen__distant *self)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *shown = mmap(NULL, RANGE_BYTES, PROT_NONE, flags, -1, 0);
    void *held = mmap(NULL, RANGE_BYTES, PROT_NONE, flags, -1, 0);
    if (shown != MAP_FAILED)
        self->shown = shown;
    if (held != MAP_FAILED)
        self->held = held;
    return self->shown != NULL && self->held != NULL;
}

void pen__distant_unmap(struct pen__distant *self)
{
    if (self->shown != NULL)
        munmap(self->shown, RANGE_BYTES);
    if (self->held != NULL)
        munmap(self->held, RANGE_BYTES);
    free(self->staged);
}

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Takes a block, which a page without access follows. */
static void *take_own(struct pen__distant *self, size_t bytes)
{
    size_t length = whole_pages(bytes);
    size_t at = self->used;
    if (length + PAGE > RANGE_BYTES - at ||
        mprotect(self->held + at, length, PROT_READ | PROT_WRITE) != 0)
        return NULL;
    memset(self->held + at, 0, bytes);
    self->used += length + PAGE;
    return self->shown + at;
}

static void *take_staging(struct pen__distant *self, size_t bytes)
{
    if (self->num_staged == self->capacity) {
        size_t capacity = 2 * self->capacity + 64;
        struct pen__staged *grown =
            realloc(self->staged, capacity * sizeof *grown);
        if (grown == NULL)
            return NULL;
        self->staged = grown;
        self->capacity = capacity;
    }
    char *block = pen_host_take(NULL, PEN_PLACE_STAGING, bytes);
    if (block != NULL)
        self->staged[self->num_staged++] = (struct pen__staged){block, bytes};
    return block;
}

void *pen__distant_take(struct pen_engine *engine, enum pen_place place,
                        size_t bytes)
{
    struct pen__distant *self = (struct pen__distant *)engine;
    void *block = place == PEN_PLACE_ENGINE ? take_own(self, bytes)
                                            : take_staging(self, bytes);
    if (block != NULL)
        engine->taken[place] += bytes;
    return block;
}

void pen__distant_give(struct pen_engine *engine, enum pen_place place,
                       void *block, size_t bytes)
{
    struct pen__distant *self = (struct pen__distant *)engine;
    pen__distant_drain(engine);
    engine->taken[place] -= bytes;
    if (place == PEN_PLACE_ENGINE) {
        char *held = self->held + ((char *)block - self->shown);
        (void)madvise(held, whole_pages(bytes), MADV_DONTNEED);
        (void)mprotect(held, whole_pages(bytes), PROT_NONE);
        return;
    }
    size_t i = 0;
    while (i < self->num_staged && self->staged[i].block != block)
        i++;
    PEN_BUG_UNLESS(i < self->num_staged && self->staged[i].bytes == bytes);
    self->staged[i] = self->staged[--self->num_staged];
    pen_host_give(NULL, place, block, bytes);
}

static bool is_staged(const struct pen__distant *self, const char *address)
{
    for (size_t i = 0; i < self->num_staged; i++)
        if (address >= self->staged[i].block &&
            address < self->staged[i].block + self->staged[i].bytes)
            return true;
    return false;
}

void *pen__distant_reach(struct pen_engine *engine, const void *address)
{
    struct pen__distant *self = (struct pen__distant *)engine;
    const char *at = address;
    if (at == NULL)
        return NULL;
    if (at >= self->shown && at < self->shown + self->used)
        return self->held + (at - self->shown);
    if (!is_staged(self, at)) {
        pthread_mutex_lock(&self->lock);
        self->fault = "an operation got an address that is neither the "
                      "engine's nor in staging";
        pthread_mutex_unlock(&self->lock);
    }
    return (void *)at;
}
