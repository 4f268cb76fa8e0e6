/*
 * Hanayo: Liu et al., SC 2023, arXiv 2308.15762: the model as waves over the
 * ranks, two chunks per wave, so that every turn is local.
 *
 *   W=1   rank 0  0F0 0F1 0F2 0F3 ... 7F0 7B0 7F1 7B1 ... 0B0 0B1 0B2 0B3
 *         rank 3  ... 3F0 4F0 3F1 4F1 3F2 4F2 3F3 4F3 4B0 3B0 4B1 3B1 ...
 *
 * Ordered greedily: the paper's own order is not given in closed form.
 */
#include "schedule/generators/greedy.h"
#include "schedule/generators/require.h"

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    uint32_t chunks = args->chunks == 0 ? 2 : args->chunks;
    if (chunks % 2 != 0) {
        pen_why(why,
                "hanayo needs two chunks per wave: %u is odd, %u would work",
                chunks, chunks + 1);
        return PEN_INVALID;
    }
    pen_status status = pen__require_chunks("hanayo", args, chunks, why);
    if (status != PEN_OK)
        return status;
    struct pen_shape shape =
        pen__shape(PEN_PLACEMENT_WAVE, args->ranks, chunks * args->ranks,
                   args->microbatches);
    return pen__greedy_generate(args, "hanayo", &shape, out, why);
}

const struct pen_generator pen__hanayo = {
    .name = "hanayo",
    .title = "Hanayo: waves over the ranks",
    .paper = "Liu et al., SC 2023, arXiv 2308.15762",
    .placement = PEN_PLACEMENT_WAVE,
    .constraints = "even chunks, two per wave",
    .versions = "1",
    .bubble = "about 2(p-1)tF/W at m = p, W waves",
    .peak = "at most p at m = p",
    .is_synchronous = true,
    .has_chunks = true,
    .has_limit = true,
    .uses_costs = true,
    .note = "ordered greedily, because the paper's slot table is not "
            "published; at m = p the published idle time is met for one "
            "wave",
    .generate = generate,
};
