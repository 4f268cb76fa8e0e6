/*
 * BitPipe: Wu et al., 2024, arXiv 2410.19367: two copies of the model, each
 * folded into a V, one starting at rank 0 and one at rank p-1.
 *
 *   rank 0  0F0 0F1 ... copy 0 enters here, copy 1 turns here
 *   rank 3  8F2 8F3 ... copy 1 enters here, copy 0 turns here
 *
 * Ordered greedily: the paper's own table of slots is not known to us.
 */
#include "schedule/generators/greedy.h"
#include "schedule/generators/require.h"

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    pen_status status = pen__require_even_stages("bitpipe", args, why);
    if (status == PEN_OK)
        status = pen__require_multiple("bitpipe", args, 2, why);
    if (status == PEN_OK)
        status = pen__require_chunks("bitpipe", args, 4, why);
    if (status != PEN_OK)
        return status;
    struct pen_shape shape =
        pen__shape(PEN_PLACEMENT_BIDIRECTIONAL_V, args->ranks, 4 * args->ranks,
                   args->microbatches);
    shape.num_copies = 2;
    return pen__greedy_generate(args, "bitpipe", &shape, out, why);
}

const struct pen_generator pen__bitpipe = {
    .name = "bitpipe",
    .title = "BitPipe: two copies, each folded into a V",
    .paper = "Wu et al., 2024, arXiv 2410.19367",
    .placement = PEN_PLACEMENT_BIDIRECTIONAL_V,
    .constraints = "p and m even",
    .versions = "1, of 2 copies",
    .bubble = "about half of chimera at m = p",
    .peak = "at most p at m = p",
    .is_synchronous = true,
    .has_limit = true,
    .uses_costs = true,
    .note = "ordered greedily, because the paper's slot table is not "
            "published; idle time at m = p is about half of chimera's, as "
            "published",
    .generate = generate,
};
