/*
 * Three sets of processors, each inside the one before: the machine's, those
 * of the container's cpuset, and those of the mask this process was started
 * with (taskset, mpirun, srun).
 */
#include "host/machine.h"

#include <omp.h>
#include <stdlib.h>

/*
 * Adds the processors of OpenMP's places. OpenMP may have bound this thread to
 * its first place before main() began; then the places, not the mask, show
 * which processors the process was given.
 */
static void add_places(hwloc_cpuset_t set)
{
    for (int place = 0; place < omp_get_num_places(); place++) {
        int count = omp_get_place_num_procs(place);
        int *processors = calloc((size_t)count + 1, sizeof *processors);
        if (processors == NULL)
            return;
        omp_get_place_proc_ids(place, processors);
        for (int i = 0; i < count; i++)
            hwloc_bitmap_set(set, (unsigned)processors[i]);
        free(processors);
    }
}

static void find_usable(struct pen__machine *machine)
{
    hwloc_cpuset_t mask = machine->usable;
    if (hwloc_topology_is_thissystem(machine->topology))
        add_places(mask);
    if (hwloc_bitmap_iszero(mask) &&
        hwloc_get_cpubind(machine->topology, mask, HWLOC_CPUBIND_PROCESS) != 0)
        hwloc_bitmap_copy(mask, machine->allowed);
    hwloc_bitmap_and(mask, mask, machine->allowed);
    if (hwloc_bitmap_iszero(mask))
        hwloc_bitmap_copy(mask, machine->allowed);
}

pen_status pen__machine_init(struct pen__machine *machine, struct pen_text *why)
{
    machine->usable = hwloc_bitmap_alloc();
    if (machine->usable == NULL)
        return PEN_NOMEM;
    if (hwloc_topology_init(&machine->topology) != 0)
        goto fail_usable;
    if (hwloc_topology_set_flags(machine->topology,
                                 HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) != 0 ||
        hwloc_topology_load(machine->topology) != 0)
        goto fail_topology;
    machine->allowed = hwloc_topology_get_allowed_cpuset(machine->topology);
    find_usable(machine);
    return PEN_OK;

fail_topology:
    hwloc_topology_destroy(machine->topology);
fail_usable:
    hwloc_bitmap_free(machine->usable);
    pen_why(why, "hwloc cannot read the topology of this machine");
    return PEN_IO;
}

void pen__machine_release(struct pen__machine *machine)
{
    hwloc_topology_destroy(machine->topology);
    hwloc_bitmap_free(machine->usable);
}

uint32_t pen__machine_count(const struct pen__machine *machine,
                            hwloc_obj_type_t type, hwloc_const_cpuset_t set)
{
    uint32_t count = 0;
    hwloc_obj_t object = NULL;
    while ((object = hwloc_get_next_obj_by_type(machine->topology, type,
                                                object)) != NULL)
        count += hwloc_bitmap_intersects(object->cpuset, set) != 0;
    return count;
}

hwloc_obj_t pen__machine_next_core(const struct pen__machine *machine,
                                   hwloc_const_cpuset_t set, hwloc_obj_t before)
{
    /* Where the kernel shows no cores, each processor counts as one. */
    int depth =
        hwloc_get_type_or_below_depth(machine->topology, HWLOC_OBJ_CORE);
    hwloc_obj_t core = before;
    do {
        core = hwloc_get_next_obj_by_depth(machine->topology, depth, core);
    } while (core != NULL && !hwloc_bitmap_intersects(core->cpuset, set));
    return core;
}
