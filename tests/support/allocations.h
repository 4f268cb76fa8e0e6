#ifndef PEN_TESTS_ALLOCATIONS_H
#define PEN_TESTS_ALLOCATIONS_H

#include <stddef.h>

/*
 * Counts every allocation of the process, by who asked for it. A program that
 * links this has its own malloc() and mmap(), which all libraries call, too;
 * they lead to those of glibc.
 */
enum allocation_owner {
    ALLOCATION_OURS,   /* the program, with our libraries in it */
    ALLOCATION_ONEDNN, /* libdnnl */
    ALLOCATION_OTHER,  /* the OpenMP runtime, jansson... */
    ALLOCATION_OWNERS
};

struct allocation_count {
    size_t calls;
    size_t bytes;   /* of all calls together */
    size_t largest; /* bytes */
};

struct allocations {
    struct allocation_count by[ALLOCATION_OWNERS];
};

/* From here on, in all threads. */
void allocations_begin(void);

/* What came since. */
struct allocations allocations_end(void);

#endif
