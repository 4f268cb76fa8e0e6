/*
 * Returns that a path is not a run, where folders do not exist, as in a
 * browser.
 */
#include "checkpoint/checkpoint.h"

enum pen_checkpoint_kind pen_checkpoint_kind_of(const char *path)
{
    (void)path;
    return PEN_CHECKPOINT_NONE;
}
