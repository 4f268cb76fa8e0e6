#ifndef PEN_HOST_MEMORY_LIMIT_H
#define PEN_HOST_MEMORY_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * How much more memory this process may take, and what limits it: ulimit -v
 * and -d, the memory controller of its control groups (version 1 and 2, with
 * all groups above), and what the machine has free.
 */
enum pen_memory_scope {
    PEN_MEMORY_PROCESS, /* this process alone */
    PEN_MEMORY_GROUP,   /* all processes of its control group */
    PEN_MEMORY_MACHINE, /* all processes of the machine */
    PEN_MEMORY_SCOPES
};

struct pen_memory_limit {
    uint64_t free_bytes; /* that may still be taken; UINT64_MAX: no limit */
    uint64_t limit_bytes;
    char source[1024]; /* "ulimit -v", or the file that has the limit */
};

/*
 * Reads the tightest limit of each scope. `root` is put before /proc and /sys:
 * "" except in tests. A file that cannot be read sets no limit.
 */
void pen_memory_limits_read(const char *root,
                            struct pen_memory_limit out[PEN_MEMORY_SCOPES]);

/* Returns a number that is the same for processes of the same control group. */
uint32_t pen_memory_group_key(const char *root);

#endif
