#include "engine/registry.h"

#include "base/bug.h"

#include <string.h>

#define HAS(precision) (1u << PEN_PRECISION_##precision)

static pen_status create_onednn(const struct pen_engine_choice *choice,
                                struct pen_text *why, struct pen_engine **out)
{
    return pen_engine_onednn_create(choice->dtype, choice->threads, why, out);
}

static void describe_onednn(const char *device, struct pen_text *out)
{
    (void)device;
    pen_engine_onednn_describe(out);
}

static pen_status create_reference(const struct pen_engine_choice *choice,
                                   struct pen_text *why,
                                   struct pen_engine **out)
{
    return pen_engine_reference_create(choice->dtype, why, out);
}

static pen_status create_opencl(const struct pen_engine_choice *choice,
                                struct pen_text *why, struct pen_engine **out)
{
    return pen_engine_opencl_create(choice->dtype, choice->device, why, out);
}

static pen_status create_cuda(const struct pen_engine_choice *choice,
                              struct pen_text *why, struct pen_engine **out)
{
    return pen_engine_cuda_create(choice->dtype, choice->device, why, out);
}

static pen_status create_distant(const struct pen_engine_choice *choice,
                                 struct pen_text *why, struct pen_engine **out)
{
    return pen_engine_distant_create(choice->dtype, choice->threads, why, out);
}

static const struct pen_engine_kind kinds[] = {
    {.name = "onednn",
     .has_images = true,
     .uses_threads = true,
     .precisions = HAS(F32) | HAS(BF16),
     .create = create_onednn,
     .describe = describe_onednn},
    {.name = "reference",
     .has_images = true,
     .precisions = HAS(F32) | HAS(F64),
     .create = create_reference},
    {.name = "opencl",
     .has_devices = true,
     .precisions = HAS(F32) | HAS(BF16),
     .create = create_opencl,
     .describe = pen_engine_opencl_describe},
    {.name = "cuda",
     .has_devices = true,
     .precisions = HAS(F32) | HAS(BF16),
     .create = create_cuda,
     .describe = pen_engine_cuda_describe},
    {.name = "distant",
     .is_for_tests = true,
     .has_images = true,
     .precisions = HAS(F32) | HAS(F64),
     .create = create_distant},
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

const struct pen_engine_kind *pen_engine_read(const char *text,
                                              const char **device)
{
    *device = NULL;
    for (size_t i = 0; i < pen_engine_num_kinds(); i++) {
        size_t length = strlen(kinds[i].name);
        if (strncmp(text, kinds[i].name, length) != 0 ||
            !kinds[i].has_devices || text[length] != ':' ||
            text[length + 1] == '\0')
            continue;
        *device = text + length + 1;
        return &kinds[i];
    }
    return pen_engine_find(text);
}

bool pen_engine_has(const struct pen_engine_kind *kind,
                    enum pen_precision dtype)
{
    return (kind->precisions & 1u << dtype) != 0;
}
