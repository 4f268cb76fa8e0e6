/* Whatever is accepted as Piper's profile has figures for each of its edges. */
#include "core/piper_profile.h"
#include "base/bug.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_node(const struct pen_piper_profile *profile, uint32_t node)
{
    const struct pen_graph *graph = &profile->graph;
    const struct pen_piper_node *it = &profile->nodes[node];
    PEN_BUG_UNLESS(it->num_modes > 0);
    for (uint32_t i = 0; i < it->num_modes; i++) {
        const struct pen_piper_mode *mode = &it->modes[i];
        PEN_BUG_UNLESS(mode->degree >= 1 && mode->compute_sec >= 0);
        PEN_BUG_UNLESS(i == 0 || mode[-1].degree <= mode->degree);
        for (uint32_t j = 0;
             j < graph->in_begin[node + 1] - graph->in_begin[node]; j++)
            PEN_BUG_UNLESS(mode->in_bytes[j] >= 0);
        for (uint32_t j = 0;
             j < graph->out_begin[node + 1] - graph->out_begin[node]; j++)
            PEN_BUG_UNLESS(mode->out_bytes[j] >= 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_piper_profile *profile = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_piper_profile_parse((const char *)data, size, &profile, &why) ==
        PEN_OK) {
        for (uint32_t i = 0; i < profile->graph.num_nodes; i++)
            check_node(profile, i);
        pen_piper_profile_free(profile);
    } else {
        PEN_BUG_UNLESS(profile == NULL && why.length > 0);
    }
    pen_text_release(&why);
    return 0;
}
