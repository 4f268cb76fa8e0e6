#ifndef PEN_CLI_TRAIN_MEMORY_H
#define PEN_CLI_TRAIN_MEMORY_H

#include "cli/train/layout.h"

/*
 * Memory of a training before anything of it is allocated: the prediction,
 * from shapes and schedule alone, against what the machine allows.
 */
struct pen__train_memory_question {
    const struct pen__train_args *args;
    const struct pen__train_layout *layout;
    const struct pen_any_model *model;
    struct pen_sample_shape sample;
    struct pen_transport *transport; /* all ranks */
    uint32_t rank;                   /* of this replica's ranks, as the next */
    uint32_t num_ranks;
};

/*
 * Bytes that this rank will take for parameters and their versions, gradients,
 * moments, activations and the snapshot of a checkpoint. Buffers for sums and
 * messages are left out, and activations of networks for images in one process.
 */
uint64_t pen__train_predict(const struct pen__train_memory_question *question);

/*
 * By all ranks at the same time. INVALID on a rank whose limit the prediction
 * surely exceeds, with what is needed, what there is and what to change; a
 * warning where the prediction exceeds it by less than it may be wrong.
 */
pen_status
pen__train_check_memory(const struct pen__train_memory_question *question,
                        struct pen_text *why);

#endif
