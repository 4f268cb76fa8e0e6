#ifndef PEN_HOST_KERNEL_H
#define PEN_HOST_KERNEL_H

#include "host/topology.h"

/*
 * Fills in what Linux tells in files: limits of the cgroup, memory,
 * instruction sets, huge pages, governor. `root` stands before every path: ""
 * but in tests.
 */
void pen__kernel_read(const char *root, struct pen_topology *out);

#endif
