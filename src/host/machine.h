#ifndef PEN_HOST_MACHINE_H
#define PEN_HOST_MACHINE_H

#include "base/status.h"
#include "base/text.h"

#include <hwloc.h>
#include <stdint.h>

/* The machine as hwloc has it, with what this process may use of it. */
struct pen__machine {
    hwloc_topology_t topology;
    hwloc_const_cpuset_t allowed; /* borrowed from the topology */
    hwloc_cpuset_t usable;        /* owned; never empty */
};

/* Reads the machine. On success end with pen__machine_release(). */
pen_status pen__machine_init(struct pen__machine *machine,
                             struct pen_text *why);
void pen__machine_release(struct pen__machine *machine);

/* Objects that have a processor in the set. */
uint32_t pen__machine_count(const struct pen__machine *machine,
                            hwloc_obj_type_t type, hwloc_const_cpuset_t set);

/* Returns the next core with a processor in the set; NULL begins, and ends. */
hwloc_obj_t pen__machine_next_core(const struct pen__machine *machine,
                                   hwloc_const_cpuset_t set,
                                   hwloc_obj_t before);

#endif
