#ifndef PEN_HOST_KERNEL_H
#define PEN_HOST_KERNEL_H

#include "host/topology.h"

/*
 * Fills in the facts that Linux shows in files: limits of the cgroup, memory,
 * instruction sets, huge pages, governor. `root` is put before every path: ""
 * except in tests.
 */
void pen__kernel_read(const char *root, struct pen_topology *out);

#endif
