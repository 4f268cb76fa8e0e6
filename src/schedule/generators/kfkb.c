/*
 * kFkB: Ada-Grouper, Wang et al., 2023, arXiv 2303.01675.
 *
 *   rank 0  F0 F1 F2 F3 F4 F5 F6 F7 ... B0 B1 F8 F9 B2 B3 ...     (k = 2)
 *   rank 3  ... F0 F1 B0 B1 F2 F3 B2 B3 ...
 *
 * 1F1B over groups of k micro-batches: k forwards, then k backwards. While one
 * message of a group travels the others are computed, at the price of k times
 * the memory. k = 1 is 1F1B; a last group may be smaller.
 *
 * Two neighbours send a whole group to each other before they receive, one
 * forwards and one backwards: that needs a send window of k.
 */
#include "schedule/generators/generator.h"

#define DEFAULT_GROUP 2u

struct groups {
    struct pen__builder *builder;
    uint32_t rank;
    uint32_t size; /* k */
    uint32_t microbatches;
};

static void put_group(const struct groups *groups, enum pen_op_kind kind,
                      uint32_t group)
{
    uint32_t first = group * groups->size;
    uint32_t count = pen__min(groups->size, groups->microbatches - first);
    for (uint32_t i = 0; i < count; i++)
        pen__put(groups->builder, groups->rank, kind, groups->rank, first + i);
}

static void put_row(const struct groups *groups, uint32_t ranks)
{
    uint32_t count = (groups->microbatches - 1) / groups->size + 1;
    uint32_t warmup = pen__min(ranks - 1 - groups->rank, count);
    for (uint32_t i = 0; i < warmup; i++)
        put_group(groups, PEN_OP_FORWARD, i);
    for (uint32_t i = warmup; i < count; i++) {
        put_group(groups, PEN_OP_FORWARD, i);
        put_group(groups, PEN_OP_BACKWARD, i - warmup);
    }
    for (uint32_t i = count - warmup; i < count; i++)
        put_group(groups, PEN_OP_BACKWARD, i);
}

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    uint32_t k = args->warmup == 0 ? DEFAULT_GROUP : args->warmup;
    k = pen__min(k, args->microbatches);
    struct pen_shape shape = pen__shape(PEN_PLACEMENT_LINEAR, args->ranks,
                                        args->ranks, args->microbatches);
    struct pen__builder builder;
    pen__builder_init(&builder, "kfkb", &shape, why);
    for (uint32_t rank = 0; rank < args->ranks; rank++) {
        struct groups groups = {&builder, rank, k, args->microbatches};
        put_row(&groups, args->ranks);
    }
    if (builder.status == PEN_OK && k > PEN_DEFAULT_SEND_WINDOW)
        builder.schedule->rules.send_window = k;
    return pen__builder_finish(&builder, out, why);
}

const struct pen_generator pen__kfkb = {
    .name = "kfkb",
    .title = "kFkB: k forwards, then k backwards",
    .paper = "Wang et al. (Ada-Grouper), 2023, arXiv 2303.01675",
    .placement = PEN_PLACEMENT_LINEAR,
    .constraints = "a send window of k; k is --group-size, 2 when not given",
    .versions = "1",
    .bubble = "(p-1)T",
    .peak = "min(k(p-s), m)",
    .is_synchronous = true,
    .has_group_size = true,
    .note = "the warm-up in whole groups is our reading of the published "
            "abstract",
    .generate = generate,
};
