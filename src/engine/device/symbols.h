#ifndef PEN_ENGINE_DEVICE_SYMBOLS_H
#define PEN_ENGINE_DEVICE_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>

/* A function of a library that is loaded when it is asked for. */
struct pen__symbol {
    const char *name;
    void *place; /* of the pointer to the function */
};

/*
 * Loads a library and finds all symbols. The library stays loaded, because
 * drivers leave threads and handlers behind. On failure *missing is the symbol
 * that it lacks, or NULL when it cannot be loaded; then dlerror() says why.
 */
bool pen__symbols_find(const char *library, const struct pen__symbol *symbols,
                       size_t count, const char **missing);

#endif
