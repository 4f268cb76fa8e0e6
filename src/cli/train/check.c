#include "cli/train/check.h"

#include <inttypes.h>
#include <math.h>

bool pen__train_check_stands_alone(const struct pen__train_layout *layout,
                                   const struct pen_transport *transport)
{
    return layout->num_ranks > pen_transport_size(transport);
}

pen_status pen__train_check_ranks(const struct pen_trainer_options *options,
                                  const struct pen__train_layout *layout,
                                  struct pen_text *why)
{
    uint32_t rank = pen_transport_rank(options->transport);
    if (!pen__train_check_stands_alone(layout, options->transport))
        return pen_trainer_check(options, rank, layout->num_ranks, why);
    pen_status status = PEN_OK;
    /* Where shares are uneven the schedule is that of the first replica. */
    for (uint32_t i = 0; i < layout->num_ranks && status == PEN_OK; i++)
        if (layout->num_shares == 0 || pen_mesh_replica(&layout->mesh, i) == 0)
            status = pen_trainer_check(options, i, layout->num_ranks, why);
    return status;
}

pen_status
pen__train_check_fullest(const struct pen__train_memory_question *question,
                         struct pen_text *why)
{
    struct pen__train_memory_question one = *question, fullest = *question;
    uint64_t most = 0;
    for (one.rank = 0; one.rank < one.num_ranks; one.rank++) {
        uint64_t bytes = pen__train_predict(&one);
        if (bytes <= most)
            continue;
        most = bytes;
        fullest.rank = one.rank;
    }
    return pen__train_check_memory(&fullest, why);
}

void pen__train_check_print(const struct pen__train_args *args,
                            const struct pen__train_layout *layout,
                            uint32_t num_ranks, struct pen_text *out)
{
    pen_text_add(out, "checked: the training would start on %u rank%s",
                 num_ranks, num_ranks == 1 ? "" : "s");
    if (layout->schedule != NULL)
        pen_text_add(out, " with %s", layout->schedule->name);
    pen_text_add(out, ", %" PRIu64 " steps of %" PRIu64 " samples",
                 args->train_iters, args->global_batch_size);
    if (!isnan(layout->predicted_sec))
        pen_text_add(out, ", predicted %.4g ms each",
                     1e3 * layout->predicted_sec);
    pen_text_add(out, "\n");
}
