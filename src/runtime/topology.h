#ifndef PEN_RUNTIME_TOPOLOGY_H
#define PEN_RUNTIME_TOPOLOGY_H

#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

/* What the machine has, and the part of it that this process may use. */
struct pen_topology {
    uint32_t num_cores;      /* that the process may use */
    uint32_t num_processors; /* likewise; hardware threads */
};

pen_status pen_topology_read(struct pen_topology *out, struct pen_text *why);

#endif
