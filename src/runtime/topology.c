/* The machine as hwloc sees it. */
#include "runtime/topology.h"

#include <hwloc.h>

static uint32_t count(hwloc_topology_t topology, hwloc_obj_type_t type)
{
    int found = hwloc_get_nbobjs_by_type(topology, type);
    return found < 1 ? 1 : (uint32_t)found;
}

pen_status pen_topology_read(struct pen_topology *out, struct pen_text *why)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0)
        return PEN_NOMEM;
    if (hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        pen_why(why, "hwloc cannot read the topology of this machine");
        return PEN_IO;
    }
    out->num_cores = count(topology, HWLOC_OBJ_CORE);
    out->num_processors = count(topology, HWLOC_OBJ_PU);
    hwloc_topology_destroy(topology);
    return PEN_OK;
}
