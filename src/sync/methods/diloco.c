/*
 * DiLoCo: every replica takes H steps of the run's optimizer from the common
 * weights theta; then, with the mean of what they moved,
 *
 *   D = mean(theta - x_i)
 *   v <- mu v + D        theta <- theta - lr (D + mu v)        x_i <- theta
 *
 * (Nesterov's momentum over the outer steps). The state of the inner optimizer
 * stays with its replica. Published: H = 500, lr 0.7, mu 0.9, inner AdamW.
 *
 * Inner SGD with H = 1, lr = 1 and mu = 0 is synchronous SGD; lr = 1 and
 * mu = 0 with any H is local SGD.
 */
#include "sync/outer.h"

#include <stdlib.h>

enum { LR, MOMENTUM };

static const struct pen_sync_option options[] = {
    [LR] = {"lr", 0.7, 0, 10, false, "outer learning rate"},
    [MOMENTUM] = {"momentum", 0.9, 0, 0.9999, false, "outer momentum"},
};

struct pen_sync {
    struct pen_outer outer; /* of one part */
};

static pen_status create(const struct pen_sync_setting *setting,
                         struct pen_sync **out, struct pen_text *why)
{
    struct pen_sync *sync = calloc(1, sizeof *sync);
    if (sync == NULL)
        return PEN_NOMEM;
    pen_status status =
        pen_outer_init(&sync->outer, setting, 1, setting->options.at[LR],
                       setting->options.at[MOMENTUM], why);
    if (status == PEN_OK)
        *out = sync;
    else
        free(sync);
    return status;
}

static void release(struct pen_sync *sync)
{
    pen_outer_release(&sync->outer);
    free(sync);
}

static size_t bytes(const struct pen_sync *sync)
{
    return pen_outer_bytes(&sync->outer);
}

static void after_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    if (!pen_sync_is_due(at, sync->outer.setting->interval))
        return;
    pen_outer_start(&sync->outer, 0, at->step);
    pen_outer_apply(&sync->outer, 0, 0);
}

static void states(struct pen_sync *sync, struct pen_sync_states *out)
{
    pen_outer_states(&sync->outer, out);
}

static void consistent(struct pen_sync *sync, float *out)
{
    pen_outer_consistent(&sync->outer, out);
}

static void take(const struct pen_sync_values *values, bool are_changes,
                 const float *merged, size_t count, float *const *state)
{
    (void)are_changes;
    pen_outer_take((float)values->at[LR], (float)values->at[MOMENTUM], merged,
                   count, state[0], state[1]);
}

static const struct pen_sync_islands islands = {.num_vectors = 2, /* theta, v */
                                                .give = pen_outer_island_give,
                                                .take = take};

const struct pen_sync_method pen_sync_diloco = {
    .name = "diloco",
    .title = "H local steps, then an outer step with Nesterov's momentum",
    .paper = "Douillard et al., DiLoCo: Distributed Low-Communication Training "
             "of Language Models, 2023, arXiv:2311.08105",
    .is = PEN_SYNC_COMPRESSES | PEN_SYNC_ONLY_WHEN_DUE,
    .interval = 500,
    .options = options,
    .num_options = sizeof options / sizeof *options,
    .cost = pen_outer_cost,
    .create = create,
    .free = release,
    .bytes = bytes,
    .after_step = after_step,
    .states = states,
    .consistent = consistent,
    .islands = &islands,
};
