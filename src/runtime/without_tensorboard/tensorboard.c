/* Replaces tensorboard.c where this library was built without it. */
#include "runtime/tensorboard.h"

#include "base/bug.h"

#include <stddef.h>

pen_status pen_tensorboard_create(const char *directory, uint64_t last_step,
                                  struct pen_tensorboard **out,
                                  struct pen_text *why)
{
    (void)last_step;
    (void)out;
    pen_why(why,
            "cannot write events to %s: penstock was built without "
            "protobuf-c; install libprotobuf-c-dev and protobuf-c-compiler "
            "and build again",
            directory);
    return PEN_INVALID;
}

/* There is never a board: the rest only has to link. */

pen_status pen_tensorboard_add(struct pen_tensorboard *board,
                               const struct pen_run_step *step,
                               struct pen_text *why)
{
    (void)step;
    (void)why;
    PEN_BUG_UNLESS(board == NULL);
    return PEN_OK;
}

const char *pen_tensorboard_path(const struct pen_tensorboard *board)
{
    PEN_BUG_UNLESS(board == NULL);
    return "";
}

void pen_tensorboard_free(struct pen_tensorboard *board)
{
    PEN_BUG_UNLESS(board == NULL);
}
