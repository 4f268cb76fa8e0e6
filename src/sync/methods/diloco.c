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
#include "sync/outer_method.h"

enum { LR, MOMENTUM };

static const struct pen_sync_option options[] = {
    [LR] = {"lr", 0.7, 0, 10, false, "outer learning rate"},
    [MOMENTUM] = {"momentum", 0.9, 0, 0.9999, false, "outer momentum"},
};

static pen_status init(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    return pen_outer_init(&sync->outer, setting, 1, setting->options.at[LR],
                          setting->options.at[MOMENTUM], why);
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
    .init = init,
    PEN_OUTER_HOOKS,
    .after_step = pen_outer_method_after_step,
    .states = pen_outer_method_states,
    .islands = &islands,
};
