#ifndef PEN_TESTS_BUFFER_DRIVER_H
#define PEN_TESTS_BUFFER_DRIVER_H

#include "engine/engine.h"

/*
 * The device engine on any device of OpenCL 1.2, slowly: memory is the host's,
 * and a kernel gets a buffer for each address, from there to the end of the
 * block that it is in. A tool that watches kernels, as oclgrind does, then
 * knows where each array ends.
 *
 * `fault` is planted in the text of the kernels: "barrier" takes one away,
 * "bounds" reads one element too many; NULL: none. NULL, with the reason
 * printed, where there is no device.
 */
struct pen_engine *buffer_engine(enum pen_precision dtype, const char *fault);

#endif
