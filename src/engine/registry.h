#ifndef PEN_ENGINE_REGISTRY_H
#define PEN_ENGINE_REGISTRY_H

#include "engine/engine.h"

/*
 * The engines that there are: a row of registry.c each. Commands and tests that
 * let the user choose one go over the rows.
 */
struct pen_engine_choice {
    enum pen_precision dtype;
    int threads;        /* 0: as many as OpenMP would take */
    const char *device; /* of a kind that has some; NULL: the kind's choice */
};

struct pen_engine_kind {
    const char *name; /* of --engine */
    bool is_for_tests;
    bool has_devices;    /* --engine NAME:DEVICE */
    bool has_images;     /* operations of image networks */
    bool uses_threads;   /* of OpenMP */
    unsigned precisions; /* see pen_engine_has() */

    /* On failure *out is untouched. */
    pen_status (*create)(const struct pen_engine_choice *choice,
                         struct pen_text *why, struct pen_engine **out);

    /*
     * Adds the device, driver and library with their versions, which are part
     * of a run's identity; NULL: there are none.
     */
    void (*describe)(const char *device, struct pen_text *out);
};

size_t pen_engine_num_kinds(void);

/* Number 0 is the engine of a run that names none. */
const struct pen_engine_kind *pen_engine_kind_at(size_t index);

/* Returns the kind of this name, or NULL. */
const struct pen_engine_kind *pen_engine_find(const char *name);

/*
 * NAME, or NAME:DEVICE where the kind has devices. *device is NULL or a part of
 * the text. NULL for what is neither.
 */
const struct pen_engine_kind *pen_engine_read(const char *text,
                                              const char **device);

/* Returns whether the engine computes in this type. */
bool pen_engine_has(const struct pen_engine_kind *kind,
                    enum pen_precision dtype);

#endif
