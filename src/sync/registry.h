#ifndef PEN_SYNC_REGISTRY_H
#define PEN_SYNC_REGISTRY_H

#include "sync/method.h"

/* Lists all methods and compressors. */
size_t pen_sync_num_methods(void);
const struct pen_sync_method *pen_sync_method_at(size_t index);

size_t pen_sync_num_compressors(void);
const struct pen_compressor *pen_sync_compressor_at(size_t index);

/* Find a method or compressor by name; NULL when there is none. */
const struct pen_sync_method *pen_sync_find_method(const char *name);
const struct pen_compressor *pen_sync_find_compressor(const char *name);

/*
 * A method with its options, and a compressor as "name" or
 * "name:VALUE,option=VALUE,...", where VALUE is of its first option.
 */
struct pen_sync_choice {
    const struct pen_sync_method *method;
    uint32_t interval;
    struct pen_sync_values options;
    const struct pen_compressor *compressor; /* NULL: none */
    struct pen_sync_values compressor_options;
};

/*
 * Chooses a method. `interval` 0 is the default one; `options` are
 * "name=number"; `compress` may be NULL. INVALID when there is no such method,
 * compressor or option, or when they do not go together; why lists the existing
 * ones.
 */
pen_status pen_sync_choose(const char *method, uint64_t interval,
                           const char *const *options, size_t num_options,
                           const char *compress, struct pen_sync_choice *out,
                           struct pen_text *why);

/* Computes the cost of a choice; `of` needs no interval and no options. */
void pen_sync_choice_cost(const struct pen_sync_choice *choice,
                          const struct pen_sync_case *of,
                          struct pen_sync_cost *out);

#endif
