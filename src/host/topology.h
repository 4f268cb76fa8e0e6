#ifndef PEN_HOST_TOPOLOGY_H
#define PEN_HOST_TOPOLOGY_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/* Cores, the hardware threads on them, and their nodes of memory. */
struct pen_processors {
    uint32_t cores;
    uint32_t hardware_threads;
    uint32_t numa_nodes;
};

/* The caches of one level: the bytes of one, and how many there are. */
struct pen_cache {
    uint64_t bytes;
    uint32_t count;
};

#define PEN_CACHE_LEVELS 3

/*
 * The hardware of the machine, and the part of it that this process may use. A
 * file of the kernel that cannot be read leaves its number 0 and its word
 * empty.
 */
struct pen_topology {
    char cpu_name[96];
    struct pen_processors machine;
    struct pen_processors allowed; /* by the cgroup's cpuset */
    struct pen_processors usable;  /* and by the mask of this process */
    double cpu_quota; /* processors whose time the cgroup grants; 0: all */
    struct pen_cache caches[PEN_CACHE_LEVELS]; /* level 1 (data) first */

    uint64_t memory_bytes;
    uint64_t memory_free_bytes;  /* without swapping */
    uint64_t memory_limit_bytes; /* of the cgroup; 0: none */

    bool has_avx2;
    bool has_avx512;
    bool has_avx512_bf16;
    bool has_amx_bf16;

    char huge_pages[16]; /* transparent ones: always, madvise, never */
    char governor[24];   /* of the clock frequency */
};

pen_status pen_topology_read(struct pen_topology *out, struct pen_text *why);

#endif
