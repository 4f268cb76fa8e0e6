#include "cli/train/engine_word.h"

const struct pen_engine_kind *pen__engine_word(const char *text,
                                               const char **device,
                                               const struct argp_state *state)
{
    const struct pen_engine_kind *kind =
        pen_engine_read(text != NULL ? text : "onednn", device);
    if (kind == NULL || kind->is_for_tests)
        argp_error(state,
                   "--engine must be onednn, reference, opencl[:DEVICE] or "
                   "cuda[:DEVICE], not '%s'",
                   text);
    return kind;
}
