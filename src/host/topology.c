/* The machine in numbers: processors and caches by hwloc, the rest by Linux. */
#include "host/topology.h"

#include "host/kernel.h"
#include "host/machine.h"

#include <stdio.h>

static struct pen_processors count(const struct pen__machine *machine,
                                   hwloc_const_cpuset_t set)
{
    struct pen_processors counted = {
        .hardware_threads = pen__machine_count(machine, HWLOC_OBJ_PU, set),
        .numa_nodes = pen__machine_count(machine, HWLOC_OBJ_NUMANODE, set)};
    hwloc_obj_t core = NULL;
    while ((core = pen__machine_next_core(machine, set, core)) != NULL)
        counted.cores++;
    return counted;
}

static void read_caches(hwloc_topology_t topology, struct pen_cache *caches)
{
    static const hwloc_obj_type_t types[PEN_CACHE_LEVELS] = {
        HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE};
    for (int level = 0; level < PEN_CACHE_LEVELS; level++) {
        hwloc_obj_t first = hwloc_get_obj_by_type(topology, types[level], 0);
        if (first == NULL)
            continue;
        caches[level].bytes = first->attr->cache.size;
        caches[level].count =
            (uint32_t)hwloc_get_nbobjs_by_type(topology, types[level]);
    }
}

static void read_name(hwloc_topology_t topology, struct pen_topology *out)
{
    hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    const char *name = package == NULL
                           ? NULL
                           : hwloc_obj_get_info_by_name(package, "CPUModel");
    snprintf(out->cpu_name, sizeof out->cpu_name, "%s",
             name != NULL ? name : "unknown processor");
}

pen_status pen_topology_read(struct pen_topology *out, struct pen_text *why)
{
    struct pen__machine machine;
    struct pen_topology read = {.cpu_quota = 0};
    pen_status status = pen__machine_init(&machine, why);
    if (status != PEN_OK)
        return status;
    hwloc_topology_t topology = machine.topology;
    read.machine =
        count(&machine, hwloc_topology_get_topology_cpuset(topology));
    read.allowed = count(&machine, machine.allowed);
    read.usable = count(&machine, machine.usable);
    read_caches(topology, read.caches);
    read_name(topology, &read);
    pen__machine_release(&machine);
    pen__kernel_read("", &read);
    *out = read;
    return PEN_OK;
}
