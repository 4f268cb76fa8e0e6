#ifndef PEN_HOST_THREADS_H
#define PEN_HOST_THREADS_H

#include "host/topology.h"

#include <stdbool.h>

/* How the threads were placed: name, word and sentence. */
#define PEN_BINDING_TABLE(X)                                                   \
    X(CORES, "cores", "bound, one core each")                                  \
    X(USER, "user", "placed by OMP_PROC_BIND or OMP_PLACES")                   \
    X(MASK, "mask", "not bound within the affinity mask of this process")      \
    X(SHARED, "shared",                                                        \
      "not bound, because there are more cores than threads")                  \
    X(OFF, "off", "not bound, as requested")                                   \
    X(REFUSED, "refused", "not bound: the program cannot restart itself")

enum pen_binding {
#define PEN_BINDING_ENUM(name, word, sentence) PEN_BINDING_##name,
    PEN_BINDING_TABLE(PEN_BINDING_ENUM)
#undef PEN_BINDING_ENUM
};

const char *pen_binding_word(enum pen_binding binding);
const char *pen_binding_sentence(enum pen_binding binding);

struct pen_threads_options {
    int count;       /* 0: OMP_NUM_THREADS, else the default */
    bool is_unbound; /* threads may wander */
};

struct pen_threads {
    int count;
    enum pen_binding binding;
};

/*
 * Decides how many threads compute and has OpenMP bind them, each to one core.
 * Nothing is bound where the user chose already: in the environment, by a mask
 * that is narrower than the machine, or by taking fewer threads than there are
 * cores, which leaves the others to other programs.
 *
 * OpenMP reads its places when a program starts, so this function may *start
 * the program again* in the same process, with the same words: call it first,
 * before anything is read, written or created. Threads that are made by other
 * means inherit the core of the thread that makes them.
 */
pen_status pen_threads_start(const struct pen_threads_options *options,
                             struct pen_threads *out, struct pen_text *why);

/* Returns one per core, but no more than the cgroup grants time for. */
int pen_threads_default(const struct pen_topology *topology);

#endif
