/*
 * PipeDream: Harlap et al., 2018, arXiv 1806.03377; Narayanan et al., SOSP
 * 2019.
 *
 *   rank 0  F0@0 F1@0 F2@0 F3@0 B0@0 F4@1 B1@0 F5@2 B2@0 F6@3 B3@0 F7@4 B4@1
 *   rank 2            F0@0 F1@0 B0@0 F2@1 B1@0 F3@2 B2@1 F4@3 B3@2 F5@4 B4@3
 *   rank 3                 F0@0 B0@0 F1@1 B1@1 F2@2 B2@2 F3@3 B3@3 F4@4 B4@4
 *
 * 1F1B over the whole run, a STEP after every backward (not drawn). A forward
 * reads the newest weights and its backward the same ones, so rank s stashes
 * p-s versions and its gradients are late by p-1-s updates. With vertical
 * synchronisation a micro-batch reads on all ranks the version that rank 0
 * had when it entered, p-1 updates late everywhere.
 */
#include "schedule/generators/asynchronous.h"

static uint32_t newest_at_forward(const struct pen__async *run, uint32_t stage,
                                  uint32_t microbatch)
{
    uint32_t ahead = run->ranks - 1 - stage;
    return microbatch > ahead ? microbatch - ahead : 0;
}

static uint32_t newest_at_entry(const struct pen__async *run, uint32_t stage,
                                uint32_t microbatch)
{
    (void)stage;
    return newest_at_forward(run, 0, microbatch);
}

static pen_status generate(const struct pen_generator_args *args,
                           struct pen_schedule **out, struct pen_text *why)
{
    struct pen__async run = {
        .name = "pipedream",
        .ranks = args->ranks,
        .period = 1,
        .versions = args->ranks,
        .forward = newest_at_forward,
        .backward = newest_at_forward,
    };
    if (args->has_vertical_sync) {
        run.forward = newest_at_entry;
        run.backward = newest_at_entry;
    }
    pen_status status = pen__async_total(args, 1, &run.microbatches, why);
    if (status != PEN_OK)
        return status;
    return pen__async_generate(&run, out, why);
}

const struct pen_generator pen__pipedream = {
    .name = "pipedream",
    .title = "PipeDream: 1F1B without a flush, stashed weights",
    .paper = "Harlap et al., 2018, arXiv 1806.03377; Narayanan et al., SOSP "
             "2019",
    .placement = PEN_PLACEMENT_LINEAR,
    .constraints = "none",
    .versions = "p-s; p with vertical synchronisation",
    .bubble = "0 in steady state",
    .peak = "min(p-s, m)",
    .steps_each = true,
    .has_vertical_sync = true,
    .generate = generate,
};
