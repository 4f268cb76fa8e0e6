/* Describes which oneDNN this is. */
#include "engine/engine.h"

#include <oneapi/dnnl/dnnl.h>

static const char *runtime_name(unsigned runtime)
{
    switch (runtime) {
    case DNNL_RUNTIME_OMP:
        return "OpenMP";
    case DNNL_RUNTIME_SEQ:
        return "one thread only";
    case DNNL_RUNTIME_TBB:
        return "TBB";
    default:
        return "threads of another kind";
    }
}

void pen_engine_onednn_describe(struct pen_text *out)
{
    const dnnl_version_t *version = dnnl_version();
    pen_text_add(out, "%d.%d.%d, %s", version->major, version->minor,
                 version->patch, runtime_name(version->cpu_runtime));
}

void pen_engine_onednn_instructions(struct pen_text *out)
{
    pen_text_add(out, "%#x", (unsigned)dnnl_get_effective_cpu_isa());
}
