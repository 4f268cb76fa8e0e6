#ifndef PEN_ENGINE_DEVICE_DRIVER_H
#define PEN_ENGINE_DEVICE_DRIVER_H

#include "engine/device/kernels/sizes.h"
#include "engine/engine.h"

/*
 * A driver: a device's memory and its one queue of copies and kernels, as a
 * table of functions. The device engine (device.h) is written against this
 * file alone. A driver for OpenCL is in opencl.c; the tests have one that runs
 * the same kernels as plain C.
 *
 * Calls that enqueue return at once and run in their order. An operation that
 * fails is recorded as the queue's fault; marks are not reached after that.
 */
enum pen__kernel {
#define PEN__KERNEL_ENUM(name, sizes) PEN__KERNEL_##name,
    PEN__KERNEL_TABLE(PEN__KERNEL_ENUM)
#undef PEN__KERNEL_ENUM
        PEN__KERNELS
};

/* Name of a kernel in the text, and bytes of the struct that it takes. */
struct pen__kernel_row {
    const char *name;
    size_t sizes_bytes;
};

extern const struct pen__kernel_row pen__kernel_rows[PEN__KERNELS];

struct pen__driver;

struct pen__driver_ops {
    void (*close)(struct pen__driver *driver);

    /* As take() and give() of an engine; the memory is zeroed. */
    void *(*take)(struct pen__driver *driver, enum pen_place place,
                  size_t bytes);
    void (*give)(struct pen__driver *driver, enum pen_place place, void *block,
                 size_t bytes);

    /* Enqueue. Bytes are at least 1. */
    void (*copy)(struct pen__driver *driver, const void *from, void *to,
                 size_t bytes);
    void (*clear)(struct pen__driver *driver, void *at, size_t bytes);

    /*
     * `groups` groups of a kernel, at least 1, with PEN__ADDRESSES addresses,
     * none of them NULL, and its sizes, which are read before the call returns.
     */
    void (*launch)(struct pen__driver *driver, enum pen__kernel kernel,
                   long groups, const void *const *addresses,
                   const void *sizes);

    /* Marks, as those of an engine. */
    uint64_t (*mark)(struct pen__driver *driver);
    bool (*is_reached)(struct pen__driver *driver, uint64_t mark);
    const char *(*fault)(struct pen__driver *driver);
};

/* The head of every driver's own struct. */
struct pen__driver {
    const struct pen__driver_ops *ops;
    const char *name;         /* of the engine on it */
    size_t taken[PEN_PLACES]; /* bytes that it handed out */
};

#endif
