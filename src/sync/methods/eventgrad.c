/*
 * EventGraD: gossip on a ring as d_psgd.c has it, but a tensor is sent only
 * when it changed enough, and mixed as it came last:
 *
 *   x_i <- (x~_{i-1} + x_i + x~_{i+1}) / 3 - eta U(g_i(x_i))
 *
 * After step k, for every tensor w, last sent as w_l at step l:
 *
 *   thr <- thr * horizon           (or a constant)
 *   if | ||w|| - ||w_l|| | >= thr or k < warmup:
 *       put w into the memory of both neighbours
 *       slope = | ||w|| - ||w_l|| | / (k - l)
 *       thr <- mean of the last two slopes
 *
 * No replica waits for another: the result depends on speeds. With wait = 1
 * each step waits for the puts of the neighbours' last step, which makes it
 * deterministic. Copies begin with the common start, so nothing has to be sent
 * at first. The model is the mean of all.
 *
 * Published: horizon about 1 (below it, a threshold that nothing reaches wears
 * off), warm-up of 30 steps; about 70 % (MNIST) and 60 % (CIFAR-10) of the
 * messages are saved.
 *
 * With wait = 1 and a threshold or a horizon of 0 it is D-PSGD, bit for bit.
 *
 * Memory that a neighbour writes, for each side:
 *
 *   | steps done | slot 0: stamps, weights | slot 1 (wait = 1) |
 *
 * A tensor's stamp, the step of the weights, is put after it. A replica that
 * waits may be one step later than its neighbour: hence two slots, in turn.
 */
#include "sync/neighbours.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HORIZON, THRESHOLD, WARMUP, WAIT };

static const struct pen_sync_option options[] = {
    [HORIZON] = {"horizon", 0.95, 0, 10, false,
                 "factor of a tensor's threshold at each step"},
    [THRESHOLD] = {"threshold", -1, -1, 1e30, false,
                   "constant threshold; below 0: from the last slopes"},
    [WARMUP] = {"warmup", 30, 0, 1e9, true,
                "first steps, which send all tensors"},
    [WAIT] = {"wait", 0, 0, 1, true, "1: wait for the neighbours' last puts"},
};

enum { MEAN_CHANNEL };

/* The numbers kept for a tensor, as floats for a checkpoint. */
enum { SENT_NORM, SENT_AT, LEVEL, SLOPE, NUM_KEPT };

/* Share of the messages that were sent on CIFAR-10; other trainings differ. */
static const double published_rate = 0.4;

struct pen_sync {
    const struct pen_sync_setting *setting;
    struct pen_average *plain;
    struct pen_group_window *window;
    uint32_t degree;
    uint32_t num_slots;
    size_t slot_bytes;
    float *copies[2]; /* of the neighbours */
    uint64_t *stamps; /* of the copies: 2 x tensors */
    float *kept;      /* NUM_KEPT of every tensor */
    size_t *firsts;
    uint64_t step; /* the last that was taken */
    uint64_t from; /* steps that were taken before this object was made */
};

/* ---- memory that neighbours write ---- */

static size_t side_bytes(const struct pen_sync *sync)
{
    return sizeof(uint64_t) + sync->num_slots * sync->slot_bytes;
}

static size_t stamp_at(const struct pen_sync *sync, uint32_t side,
                       uint64_t step, size_t tensor)
{
    return side * side_bytes(sync) + sizeof(uint64_t) +
           step % sync->num_slots * sync->slot_bytes +
           tensor * sizeof(uint64_t);
}

static size_t weights_at(const struct pen_sync *sync, uint32_t side,
                         uint64_t step, size_t tensor)
{
    return stamp_at(sync, side, step, sync->setting->num_tensors) +
           sync->setting->tensors[tensor].first * sizeof(float);
}

static const unsigned char *arrived(const struct pen_sync *sync)
{
    return sync->setting->peers->ops->window_bytes(sync->window);
}

static uint64_t number_at(const unsigned char *bytes)
{
    uint64_t number;
    memcpy(&number, bytes, sizeof number);
    return number;
}

static void put(struct pen_sync *sync, uint32_t side, size_t first,
                const void *bytes, size_t length)
{
    struct pen_group *peers = sync->setting->peers;
    pen_group_put(peers, sync->window, pen_neighbours_at(peers, side), first,
                  bytes, length);
}

static void put_tensor(struct pen_sync *sync, size_t tensor, uint64_t step)
{
    const struct pen_sync_tensor *it = &sync->setting->tensors[tensor];
    for (uint32_t side = 0; side < sync->degree; side++) {
        uint32_t there = pen_neighbours_side_there(sync->setting->peers, side);
        put(sync, side, weights_at(sync, there, step, tensor), it->value,
            it->count * sizeof(float));
        put(sync, side, stamp_at(sync, there, step, tensor), &step,
            sizeof step);
    }
}

/* Puts the number of steps done, after all puts of these steps. */
static void put_step(struct pen_sync *sync)
{
    for (uint32_t side = 0; side < sync->degree; side++) {
        uint32_t there = pen_neighbours_side_there(sync->setting->peers, side);
        put(sync, side, there * side_bytes(sync), &sync->step,
            sizeof sync->step);
    }
}

static bool have_neighbours_come(void *context)
{
    const struct pen_sync *sync = context;
    const unsigned char *bytes = arrived(sync);
    for (uint32_t side = 0; side < sync->degree; side++)
        if (number_at(bytes + side * side_bytes(sync)) < sync->step)
            return false;
    return true;
}

static void wait_for_neighbours(struct pen_sync *sync)
{
    if (sync->degree > 0)
        pen_group_wait(sync->setting->peers, have_neighbours_come, sync);
}

/*
 * Returns whether a tensor is to be taken. A replica that waits takes the puts
 * of the last step; any other takes those it has not taken yet.
 */
static bool is_new(const struct pen_sync *sync, uint64_t came, uint64_t taken)
{
    return came != 0 &&
           (sync->num_slots == 2 ? came == sync->step : came != taken);
}

/* Copies the tensors that have come since. */
static void take(struct pen_sync *sync)
{
    const struct pen_sync_setting *setting = sync->setting;
    const unsigned char *bytes = arrived(sync);
    for (uint32_t side = 0; side < sync->degree; side++)
        for (size_t i = 0; i < setting->num_tensors; i++) {
            uint64_t *stamp = &sync->stamps[side * setting->num_tensors + i];
            uint64_t came =
                number_at(bytes + stamp_at(sync, side, sync->step, i));
            if (!is_new(sync, came, *stamp))
                continue;
            *stamp = came;
            memcpy(sync->copies[side] + setting->tensors[i].first,
                   bytes + weights_at(sync, side, sync->step, i),
                   setting->tensors[i].count * sizeof(float));
        }
}

/* ---- making ---- */

static void cost(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    double weights = of->num_weights * sizeof(float);
    double stamps = (double)(of->num_shapes * sizeof(uint64_t));
    uint32_t degree = pen_neighbours_count(of->num_replicas);
    bool waits = of->options[WAIT] > 0;
    bool sends_all = of->options[THRESHOLD] == 0 ||
                     (of->options[THRESHOLD] < 0 && of->options[HORIZON] == 0);
    double rate = sends_all ? 1 : published_rate;
    out->bytes =
        degree * (rate * (weights + stamps) + (waits ? sizeof(uint64_t) : 0));
    out->is_estimate = !sends_all;
    out->legs = degree > 0 ? 1 : 0;
    out->hidden = 1;
    out->extra = mean->extra + (waits ? 6 : 4) * weights;
    out->staleness = waits && sends_all ? 0 : INFINITY;
    out->waits_for_slowest = waits;
}

static void release(struct pen_sync *sync)
{
    struct pen_group *peers = sync->setting->peers;
    if (sync->window != NULL)
        peers->ops->close(peers, sync->window);
    pen_average_free(sync->plain);
    free(sync->copies[0]);
    free(sync->copies[1]);
    free(sync->stamps);
    free(sync->kept);
    free(sync->firsts);
}

static pen_status make_room(struct pen_sync *sync)
{
    const struct pen_sync_setting *setting = sync->setting;
    size_t num = setting->num_tensors;
    sync->stamps = calloc(2 * num + 1, sizeof *sync->stamps);
    sync->kept = calloc(NUM_KEPT * num + 1, sizeof *sync->kept);
    sync->firsts = calloc(num + 1, sizeof *sync->firsts);
    if (sync->stamps == NULL || sync->kept == NULL || sync->firsts == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i <= num; i++)
        sync->firsts[i] = NUM_KEPT * i;
    return pen_sync_vectors(
        setting, PEN_SYNC_VECTORS(&sync->copies[0], &sync->copies[1]));
}

static float norm_of(const struct pen_sync_tensor *tensor)
{
    double sum = 0;
    for (size_t i = 0; i < tensor->count; i++)
        sum += (double)tensor->value[i] * (double)tensor->value[i];
    return (float)sqrt(sum);
}

static pen_status init(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    struct pen_group *peers = setting->peers;
    sync->setting = setting;
    sync->degree = pen_neighbours_count(peers->size);
    sync->num_slots = setting->options.at[WAIT] > 0 ? 2 : 1;
    sync->slot_bytes = setting->num_tensors * sizeof(uint64_t) +
                       (setting->count + 1) / 2 * 2 * sizeof(float);
    pen_status status = make_room(sync);
    if (status == PEN_OK)
        status =
            pen_sync_plain_average(setting, MEAN_CHANNEL, &sync->plain, why);
    if (status == PEN_OK && sync->degree > 0)
        status = peers->ops->expose(peers, sync->degree * side_bytes(sync),
                                    &sync->window);
    if (status == PEN_INVALID)
        pen_why(why,
                "eventgrad writes into its neighbours' memory, which this MPI "
                "does not support between these hosts; use Open MPI 4 with "
                "--mca osc pt2pt");
    if (status != PEN_OK)
        return status;
    for (int side = 0; side < 2; side++)
        pen_sync_read_weights(setting, sync->copies[side]);
    for (size_t i = 0; i < setting->num_tensors; i++)
        sync->kept[NUM_KEPT * i + SENT_NORM] = norm_of(&setting->tensors[i]);
    return PEN_OK;
}

static size_t bytes(const struct pen_sync *sync)
{
    const struct pen_sync_setting *setting = sync->setting;
    return 2 * setting->count * sizeof(float) +
           sync->degree * side_bytes(sync) +
           setting->num_tensors *
               (2 * sizeof *sync->stamps + NUM_KEPT * sizeof *sync->kept +
                sizeof *sync->firsts) +
           pen_average_bytes(sync->plain);
}

/* ---- events ---- */

static bool is_event(const struct pen_sync *sync, const float *kept,
                     float change, uint64_t step)
{
    const double *option = sync->setting->options.at;
    float level =
        option[THRESHOLD] >= 0 ? (float)option[THRESHOLD] : kept[LEVEL];
    return change >= level || (double)step < option[WARMUP];
}

static void look_at(struct pen_sync *sync, size_t tensor)
{
    float *kept = &sync->kept[NUM_KEPT * tensor];
    float norm = norm_of(&sync->setting->tensors[tensor]);
    float change = fabsf(norm - kept[SENT_NORM]);
    kept[LEVEL] *= (float)sync->setting->options.at[HORIZON];
    if (!is_event(sync, kept, change, sync->step))
        return;
    put_tensor(sync, tensor, sync->step);
    float slope = change / ((float)sync->step - kept[SENT_AT]);
    kept[LEVEL] = (slope + kept[SLOPE]) / 2;
    kept[SLOPE] = slope;
    kept[SENT_NORM] = norm;
    kept[SENT_AT] = (float)sync->step;
}

/* ---- hooks ---- */

static bool waits(const struct pen_sync *sync)
{
    return sync->setting->options.at[WAIT] > 0;
}

/* Puts of the others arrive when one looks after messages. */
static void poll(struct pen_sync *sync)
{
    struct pen_group_request none = {0};
    (void)pen_group_is_done(sync->setting->peers, &none, 1);
}

static void before_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    (void)at;
    if (sync->degree == 0)
        return;
    if (waits(sync) && sync->step > sync->from)
        wait_for_neighbours(sync);
    else
        poll(sync);
    take(sync);
    pen_neighbours_mix(sync->setting, sync->copies);
}

static void after_step(struct pen_sync *sync, const struct pen_sync_step *at)
{
    sync->step = at->step;
    if (sync->degree == 0 || at->step >= sync->setting->total_steps)
        return;
    for (size_t i = 0; i < sync->setting->num_tensors; i++)
        look_at(sync, i);
    if (waits(sync))
        put_step(sync);
}

/* Completes all puts: afterwards their tensors are in the copies. */
static void settle(struct pen_sync *sync)
{
    if (sync->degree == 0)
        return;
    put_step(sync);
    wait_for_neighbours(sync);
    take(sync);
}

static void states(struct pen_sync *sync, struct pen_sync_states *out)
{
    const struct pen_sync_setting *setting = sync->setting;
    size_t count = setting->count;
    struct pen_sync_state kept = {.name = "events",
                                  .kind = PEN_STATE_PER_TENSOR,
                                  .floats = sync->kept,
                                  .firsts = sync->firsts,
                                  .count = NUM_KEPT * setting->num_tensors};
    pen_sync_states_add_vector(out, "before", false, sync->copies[0], count);
    pen_sync_states_add_vector(out, "behind", false, sync->copies[1], count);
    pen_sync_states_add(out, &kept);
}

static void restored(struct pen_sync *sync, uint64_t steps)
{
    sync->step = sync->from = steps;
}

static void consistent(struct pen_sync *sync, float *out)
{
    pen_sync_mean_weights(sync->setting, sync->plain, out);
}

const struct pen_sync_method pen_sync_eventgrad = {
    .name = "eventgrad",
    .title = "gossip on a ring, of tensors that changed enough",
    .paper = "Ghosh et al., EventGraD: Event-Triggered Communication in "
             "Parallel Machine Learning, 2021, arXiv:2103.07454",
    .is = PEN_SYNC_IS_FREE,
    .interval = 1,
    .options = options,
    .num_options = sizeof options / sizeof *options,
    .cost = cost,
    .size = sizeof(struct pen_sync),
    .init = init,
    .release = release,
    .bytes = bytes,
    .before_step = before_step,
    .after_step = after_step,
    .poll = poll,
    .settle = settle,
    .states = states,
    .restored = restored,
    .consistent = consistent,
};
