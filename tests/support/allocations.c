/*
 * Who asked is the first caller on the stack that is neither a C nor a C++
 * library: strdup() and operator new ask for somebody else.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): for dladdr() */
#include "support/allocations.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DEPTH = 24 };

/* What glibc calls its own ones. NOLINTBEGIN(bugprone-reserved-identifier) */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
/* NOLINTEND(bugprone-reserved-identifier) */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards counts */
static struct allocations counts;
static volatile bool is_counting;
static _Thread_local bool is_looking; /* backtrace() may itself allocate */

static bool starts_with(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    return strncmp(slash == NULL ? path : slash + 1, name, strlen(name)) == 0;
}

static bool asks_for_others(const char *object)
{
    static const char *const names[] = {"libc.so",    "libc-",    "libstdc++",
                                        "libpthread", "ld-linux", "libgcc_s"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (starts_with(object, names[i]))
            return true;
    return false;
}

/* Frames 0 and 1 are note() and the function below that called it. */
static enum allocation_owner owner_of(void *const *frames, int depth)
{
    Dl_info own;
    Dl_info caller;
    if (dladdr(&counts, &own) == 0)
        return ALLOCATION_OTHER;
    for (int i = 2; i < depth; i++) {
        if (dladdr(frames[i], &caller) == 0 ||
            asks_for_others(caller.dli_fname))
            continue;
        if (caller.dli_fbase == own.dli_fbase)
            return ALLOCATION_OURS;
        return starts_with(caller.dli_fname, "libdnnl") ? ALLOCATION_ONEDNN
                                                        : ALLOCATION_OTHER;
    }
    return ALLOCATION_OTHER;
}

__attribute__((noinline)) static void note(size_t bytes)
{
    if (!is_counting || is_looking)
        return;
    void *frames[DEPTH];
    is_looking = true;
    enum allocation_owner owner = owner_of(frames, backtrace(frames, DEPTH));
    pthread_mutex_lock(&lock);
    struct allocation_count *count = &counts.by[owner];
    count->calls++;
    count->bytes += bytes;
    if (bytes > count->largest)
        count->largest = bytes;
    pthread_mutex_unlock(&lock);
    is_looking = false;
}

void allocations_begin(void)
{
    void *frame;
    (void)backtrace(&frame, 1); /* loads what it needs */
    counts = (struct allocations){0};
    is_counting = true;
}

struct allocations allocations_end(void)
{
    is_counting = false;
    return counts;
}

void *malloc(size_t bytes)
{
    note(bytes);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    note(count * bytes);
    return __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes)
{
    note(bytes);
    return __libc_realloc(block, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
    note(bytes);
    return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    note(bytes);
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    note(bytes);
    void *block = __libc_memalign(alignment, bytes);
    if (block == NULL)
        return ENOMEM;
    *out = block;
    return 0;
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file,
           off_t offset)
{
    note(bytes);
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file,
                           offset);
}
