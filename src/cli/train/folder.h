#ifndef PEN_CLI_TRAIN_FOLDER_H
#define PEN_CLI_TRAIN_FOLDER_H

#include "checkpoint/run_folder.h"
#include "cli/train/options.h"
#include "runtime/transport.h"

/*
 * The folder of --save, before the first step. All ranks call it: rank 0 claims
 * the folder, and every rank gets the id of the run. Fails on rank 0 when it is
 * refused, and on another rank that has loaded another checkpoint than rank 0;
 * all ranks agree on that afterwards. Without --save there is only the
 * comparison. loaded is NULL without --load. Release in any case.
 */
pen_status pen__train_folder_claim(const struct pen__train_args *args,
                                   const struct pen_checkpoint *loaded,
                                   struct pen_transport *transport,
                                   struct pen_run_folder *out,
                                   struct pen_text *why);

#endif
