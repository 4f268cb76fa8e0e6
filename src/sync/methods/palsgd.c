/*
 * PALSGD, pseudo-asynchronous local SGD: DiLoCo with a longer interval, and
 * between two synchronisations pulls that need no message. At each inner step,
 * with probability p and for each replica by itself,
 *
 *   x_i <- x_i - c (x_i - theta)        c = alpha eta / p, at most 1
 *
 * takes the place of the optimizer's step; theta are the common weights as the
 * last outer step left them, eta is the learning rate. That is the published
 * algorithm, which computes no gradient then. Here the gradient exists already:
 * with instead=0 the optimizer uses it, and the pull follows. Whether a replica
 * is pulled follows from the seed, the step and its number, so that nothing is
 * kept. The outer step is DiLoCo's.
 *
 * p = 0 is DiLoCo. The standard p, alpha and H are choices made here.
 */
#include "base/random.h"
#include "sync/outer_method.h"

enum { PROB, ALPHA, INSTEAD, LR, MOMENTUM };

static const struct pen_sync_option options[] = {
    [PROB] = {"prob", 0.1, 0, 1, false,
              "probability of a pull at each inner step"},
    [ALPHA] = {"alpha", 1, 0, 1e6, false, "strength of the pull"},
    [INSTEAD] = {"instead", 1, 0, 1, true,
                 "1: pull as part of the step; 0: after it"},
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

static bool is_pulled(const struct pen_sync_setting *setting, uint32_t replica,
                      uint64_t step)
{
    struct pen_random random = {setting->seed};
    random.state ^= pen_random_next(&(struct pen_random){step});
    random.state ^= pen_random_next(&(struct pen_random){~replica});
    return pen_random_unit(&random) < setting->options.at[PROB];
}

static void pull(const struct pen_sync_setting *setting, const float *common,
                 double learning_rate)
{
    double wanted =
        setting->options.at[ALPHA] * learning_rate / setting->options.at[PROB];
    float c = wanted < 1 ? (float)wanted : 1;
    for (size_t i = 0; i < setting->num_tensors; i++) {
        const struct pen_sync_tensor *tensor = &setting->tensors[i];
        const float *theta = common + tensor->first;
        for (size_t k = 0; k < tensor->count; k++)
            tensor->value[k] -= c * (tensor->value[k] - theta[k]);
    }
}

static void step_of(const struct pen_sync_setting *setting, uint32_t replica,
                    const float *theta, const struct pen_sync_step *at)
{
    bool pulled = is_pulled(setting, replica, at->step);
    if (!pulled || setting->options.at[INSTEAD] == 0)
        pen_sync_local_step(setting, at);
    if (pulled)
        pull(setting, theta, at->learning_rate);
}

static void local_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    const struct pen_sync_setting *setting = sync->outer.setting;
    step_of(setting, setting->peers->self, sync->outer.theta, at);
}

static void island_step(struct pen_sync_island *it,
                        const struct pen_sync_step *at)
{
    step_of(it->setting, it->number, it->theta, at);
}

static void take(const struct pen_sync_values *values, bool are_changes,
                 const float *merged, size_t count, float *const *state)
{
    (void)are_changes;
    pen_outer_take((float)values->at[LR], (float)values->at[MOMENTUM], merged,
                   count, state[0], state[1]);
}

static const struct pen_sync_islands islands = {.num_vectors = 2, /* theta, v */
                                                .local_step = island_step,
                                                .give = pen_outer_island_give,
                                                .take = take};

const struct pen_sync_method pen_sync_palsgd = {
    .name = "palsgd",
    .title = "DiLoCo with random pulls to the common weights between "
             "synchronisations",
    .paper = "Naganuma et al., Pseudo-Asynchronous Local SGD: Robust and "
             "Efficient Data-Parallel Training, 2025, arXiv:2504.18454",
    .is = PEN_SYNC_COMPRESSES,
    .interval = 500,
    .options = options,
    .num_options = sizeof options / sizeof *options,
    .cost = pen_outer_cost,
    .init = init,
    PEN_OUTER_HOOKS,
    .after_step = pen_outer_method_after_step,
    .states = pen_outer_method_states,
    .local_step = local_step,
    .islands = &islands,
};
