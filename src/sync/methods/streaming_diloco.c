/*
 * Streaming DiLoCo: the weights are cut into P fragments of whole tensors, and
 * each has outer steps of its own, every H steps, at another time than the
 * others. The move of a fragment f is sent tau steps before it is needed, and
 * travels during the inner steps in between:
 *
 *   step t - tau   D_f = mean(theta_f - x_i,f) sets out
 *   step t         v_f <- mu v_f + D_f
 *                  theta_f <- theta_f - lr (D_f + mu v_f)
 *                  x_i,f <- alpha x_i,f + (1 - alpha) theta_f
 *
 * Fragment f is due where t - f H / P is a multiple of H. One of them is under
 * way at a time: tau < H / P. The most that is sent at once is a P-th of
 * DiLoCo's; --compress makes the numbers on the wire small, too.
 *
 * Published: H = 100, tau up to 5, alpha 0.5, outer rate about 0.4, momentum
 * 0.9, 4-bit numbers, fragments of a few layers.
 *
 * P = 1, tau = 0 and alpha = 0 is DiLoCo.
 */
#include "sync/outer_method.h"

enum { FRAGMENTS, DELAY, MIX, LR, MOMENTUM };

static const struct pen_sync_option options[] = {
    [FRAGMENTS] = {"fragments", 4, 1, 32, true, "parts of the weights"},
    [DELAY] = {"delay", 1, 0, 1e6, true, "steps from sending to applying"},
    [MIX] = {"mix", 0.5, 0, 1, false,
             "share of the local weights that is kept"},
    [LR] = {"lr", 0.4, 0, 10, false, "outer learning rate"},
    [MOMENTUM] = {"momentum", 0.9, 0, 0.9999, false, "outer momentum"},
};

/*
 * Computes the cost without the heads of a compressor's messages, of which
 * there are P times as many.
 */
static void cost(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    double fragments = of->options[FRAGMENTS];
    pen_outer_cost(of, mean, out);
    out->bytes /= fragments;
    out->encode_sec /= fragments;
    out->interval = of->interval / fragments;
    out->hidden = of->options[DELAY];
    out->staleness += of->options[DELAY];
}

static pen_status check(const struct pen_sync_setting *setting,
                        struct pen_text *why)
{
    double fragments = setting->options.at[FRAGMENTS];
    double delay = setting->options.at[DELAY];
    if (delay * fragments < setting->interval)
        return PEN_OK;
    pen_why(why,
            "a delay of %.0f with %.0f fragments needs an interval above %.0f, "
            "not %u",
            delay, fragments, delay * fragments, setting->interval);
    return PEN_INVALID;
}

static pen_status init(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    const double *at = setting->options.at;
    pen_status status = check(setting, why);
    return status == PEN_OK
               ? pen_outer_init(&sync->outer, setting, (uint32_t)at[FRAGMENTS],
                                at[LR], at[MOMENTUM], why)
               : status;
}

static bool is_due(const struct pen_sync *sync, uint32_t fragment,
                   uint64_t step)
{
    uint64_t interval = sync->outer.setting->interval;
    uint64_t offset = fragment * interval / sync->outer.num_parts;
    return step % interval == offset;
}

/* Skips fragments that were due before the first step could send them. */
static void after_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    const double *options_at = sync->outer.setting->options.at;
    uint64_t delayed = (uint64_t)options_at[DELAY];
    for (uint32_t i = 0; i < sync->outer.num_parts; i++) {
        if (is_due(sync, i, at->step + delayed))
            pen_outer_start(&sync->outer, i, at->step);
        if (is_due(sync, i, at->step) && at->step > delayed)
            pen_outer_apply(&sync->outer, i, (float)options_at[MIX]);
    }
}

static void poll(struct pen_sync *sync)
{
    pen_outer_poll(&sync->outer);
}

static void settle(struct pen_sync *sync)
{
    pen_outer_settle(&sync->outer);
}

/*
 * Adds the states. A fragment that was under way has its D in moved[], and
 * waits no more.
 */
static void states(struct pen_sync *sync, struct pen_sync_states *out)
{
    pen_sync_states_add_vector(out, "moved", true, sync->outer.moved,
                               sync->outer.setting->count);
    pen_outer_states(&sync->outer, out);
}

/* ---- between islands: a round is of one fragment ---- */

static uint32_t num_fragments(const struct pen_sync_values *values)
{
    return (uint32_t)values->at[FRAGMENTS];
}

static uint32_t delay(const struct pen_sync_values *values)
{
    return (uint32_t)values->at[DELAY];
}

static void take(const struct pen_sync_values *values, bool are_changes,
                 const float *merged, size_t count, float *const *state)
{
    (void)are_changes;
    pen_outer_take((float)values->at[LR], (float)values->at[MOMENTUM], merged,
                   count, state[0], state[1]);
}

static void mix(const struct pen_sync_values *values, const float *theta,
                size_t count, float *weights)
{
    float share = (float)values->at[MIX];
    for (size_t k = 0; k < count; k++)
        weights[k] = theta[k] + share * (weights[k] - theta[k]);
}

static const char *refuse(const struct pen_sync_values *values,
                          uint32_t interval)
{
    if (interval % num_fragments(values) != 0)
        return "give a --sync-interval that is a multiple of fragments: a "
               "round is of one fragment";
    return values->at[DELAY] * values->at[FRAGMENTS] < interval
               ? NULL
               : "give a --sync-interval above delay times fragments";
}

static const struct pen_sync_islands islands = {.num_vectors = 2, /* theta, v */
                                                .keeps_weights = true,
                                                .num_fragments = num_fragments,
                                                .delay = delay,
                                                .give = pen_outer_island_give,
                                                .take = take,
                                                .mix = mix,
                                                .refuse = refuse};

const struct pen_sync_method pen_sync_streaming_diloco = {
    .name = "streaming-diloco",
    .title = "DiLoCo in fragments that are sent during the inner steps",
    .paper = "Douillard et al., Streaming DiLoCo with overlapping "
             "communication, 2025, arXiv:2501.18512",
    .is = PEN_SYNC_COMPRESSES,
    .interval = 100,
    .options = options,
    .num_options = sizeof options / sizeof *options,
    .cost = cost,
    .init = init,
    PEN_OUTER_HOOKS,
    .after_step = after_step,
    .poll = poll,
    .settle = settle,
    .states = states,
    .islands = &islands,
};
