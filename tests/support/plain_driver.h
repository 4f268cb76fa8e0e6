#ifndef PEN_TESTS_PLAIN_DRIVER_H
#define PEN_TESTS_PLAIN_DRIVER_H

#include "engine/device/driver.h"

/*
 * A driver that runs the kernels as plain C, late: nothing of its queue runs
 * before the host asks for a mark, so a host that does not wait for one reads
 * what was there before, in every run.
 */
typedef void (*plain_kernel)(char *const *at, const void *sizes, long group);

extern const plain_kernel plain_kernels_f32[PEN__KERNELS];
extern const plain_kernel plain_kernels_bf16[PEN__KERNELS];

/* Lanes run from the last to the first: no result may change. */
extern bool plain_is_descending;

/* Fails the test when there is no memory. */
struct pen__driver *plain_driver(enum pen_precision dtype);

/* A device engine on it. */
struct pen_engine *plain_engine(enum pen_precision dtype);

#endif
