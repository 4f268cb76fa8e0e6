#include "engine/registry.h"

#include "base/bug.h"

#include <string.h>

#define HAS(precision) (1u << PEN_PRECISION_##precision)

static pen_status create_reference(enum pen_precision dtype, int threads,
                                   struct pen_text *why,
                                   struct pen_engine **out)
{
    (void)threads;
    return pen_engine_reference_create(dtype, why, out);
}

static const struct pen_engine_kind kinds[] = {
    {.name = "onednn",
     .uses_threads = true,
     .precisions = HAS(F32) | HAS(BF16),
     .create = pen_engine_onednn_create,
     .describe = pen_engine_onednn_describe},
    {.name = "reference",
     .precisions = HAS(F32) | HAS(F64),
     .create = create_reference},
    {.name = "distant",
     .is_for_tests = true,
     .precisions = HAS(F32) | HAS(F64),
     .create = pen_engine_distant_create},
};

size_t pen_engine_num_kinds(void)
{
    return sizeof kinds / sizeof *kinds;
}

const struct pen_engine_kind *pen_engine_kind_at(size_t index)
{
    PEN_BUG_UNLESS(index < pen_engine_num_kinds());
    return &kinds[index];
}

const struct pen_engine_kind *pen_engine_find(const char *name)
{
    for (size_t i = 0; i < pen_engine_num_kinds(); i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

bool pen_engine_has(const struct pen_engine_kind *kind,
                    enum pen_precision dtype)
{
    return (kind->precisions & 1u << dtype) != 0;
}
