#ifndef PEN_ENGINE_DEVICE_SYMBOLS_H
#define PEN_ENGINE_DEVICE_SYMBOLS_H

#include "base/status.h"
#include "base/text.h"

#include <stddef.h>

/* A function of a library that is loaded when it is asked for. */
struct pen__symbol {
    const char *name;
    void *place; /* of the pointer to the function */
};

/* The library of a driver, and how its refusals speak of it. */
struct pen__symbol_library {
    const char *file;
    const char *engine;  /* of --engine */
    const char *source;  /* follows the file: where it comes from */
    const char *version; /* the least one that has all symbols */
};

/*
 * Loads a library and finds all symbols. The library stays loaded, because
 * drivers leave threads and handlers running. INVALID, with what to install,
 * when it cannot be loaded or lacks a symbol.
 */
pen_status pen__symbols_find(const struct pen__symbol_library *library,
                             const struct pen__symbol *symbols, size_t count,
                             struct pen_text *why);

#endif
