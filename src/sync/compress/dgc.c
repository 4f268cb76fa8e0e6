/*
 * Deep gradient compression: top-k with the momentum of SGD before the choice,
 * so that what waits gathers momentum as if it had been sent,
 *
 *   u_i <- mu u_i + g_i     v_i <- v_i + u_i
 *   sent: the k largest |v_i|, where u_i and v_i become 0
 *
 * The optimizer of the run should be SGD without momentum then. In epoch e of
 * the `warmup` first ones (0 for the first) ratio^((e + 1) / (warmup + 1)) of
 * the values are sent, later `ratio`: with 0.001 and 5 epochs 32 %, 10 %, 3.2
 * %, 1 %, 0.32 %, then 0.1 %. Clipping, which the paper does on each replica,
 * is the run's. With momentum 0 and no warm-up it is top-k.
 */
#include "sync/sparse.h"

#include <math.h>
#include <stdlib.h>

enum { RATIO, MOMENTUM, WARMUP };

static const struct pen_sync_option options[] = {
    [RATIO] = {"ratio", 0.001, 1e-6, 1, false,
               "share of the values that is sent"},
    [MOMENTUM] = {"momentum", 0.9, 0, 1, false, "mu, momentum of each replica"},
    [WARMUP] = {"warmup", 5, 0, 1000, true,
                "warm-up epochs, which send more values"},
};

/*
 * Passes over the gradient, without the picked values. Measured by
 * bench/compress.
 */
static const double passes = 1;

struct dgc {
    struct pen_sparse sparse;
    float *velocity; /* u */
    float *waiting;  /* v */
};

static double ratio_of_epoch(const double *values, double epoch)
{
    if (epoch >= values[WARMUP])
        return values[RATIO];
    return pow(values[RATIO], (epoch + 1) / (values[WARMUP] + 1));
}

static double ratio_at(const struct pen_compression *setting, uint64_t step)
{
    uint64_t epoch =
        setting->epoch_steps > 0 ? (step - 1) / setting->epoch_steps : 0;
    return ratio_of_epoch(setting->options.at, (double)epoch);
}

/* Computes the cost of steps after the warm-up; memory is that of all steps. */
static void cost(const struct pen_sync_case *of, struct pen_mean_cost *out)
{
    pen_sparse_cost(of, of->options[RATIO], ratio_of_epoch(of->options, 0),
                    passes, out);
    out->extra += 2 * of->num_weights * sizeof(float);
}

static void sizes(const struct pen_compression *setting, size_t *sum,
                  size_t *gathered)
{
    *sum = 0;
    *gathered =
        pen_sparse_length(setting, ratio_of_epoch(setting->options.at, 0));
}

static void release(void *state)
{
    struct dgc *it = state;
    pen_sparse_release(&it->sparse);
    free(it->velocity);
    free(it->waiting);
    free(it);
}

static pen_status create(const struct pen_compression *setting, void **out,
                         struct pen_text *why)
{
    (void)why;
    struct dgc *it = calloc(1, sizeof *it);
    if (it == NULL)
        return PEN_NOMEM;
    it->velocity = calloc(setting->count + 1, sizeof *it->velocity);
    it->waiting = calloc(setting->count + 1, sizeof *it->waiting);
    if (it->velocity == NULL || it->waiting == NULL ||
        pen_sparse_init(&it->sparse, setting,
                        ratio_of_epoch(setting->options.at, 0)) != PEN_OK) {
        release(it);
        return PEN_NOMEM;
    }
    *out = it;
    return PEN_OK;
}

static size_t bytes(const void *state)
{
    const struct dgc *it = state;
    return 2 * it->sparse.setting.count * sizeof(float) +
           pen_sparse_bytes(&it->sparse);
}

static void encode(void *state, uint32_t round, uint64_t step, float *vector,
                   struct pen_round *out)
{
    struct dgc *it = state;
    const struct pen_compression *setting = &it->sparse.setting;
    (void)round;
    struct pen_sparse_waiting waiting = {it->waiting, it->velocity,
                                         (float)setting->options.at[MOMENTUM]};
    pen_sparse_encode(&it->sparse, ratio_at(setting, step), vector, &waiting,
                      out);
}

static void decode(void *state, uint32_t round, uint64_t step,
                   const struct pen_collective *received, float *vector)
{
    struct dgc *it = state;
    (void)round;
    pen_sparse_decode(&it->sparse, ratio_at(&it->sparse.setting, step),
                      received, vector);
}

static size_t sent(const void *state, uint64_t step)
{
    const struct dgc *it = state;
    return pen_sparse_length(&it->sparse.setting,
                             ratio_at(&it->sparse.setting, step));
}

static bool add(void *state, uint64_t step, const void *message, float share,
                float *vector)
{
    const struct dgc *it = state;
    return pen_sparse_add(&it->sparse, ratio_at(&it->sparse.setting, step),
                          message, share, vector);
}

static void states(void *state, struct pen_sync_states *out)
{
    struct dgc *it = state;
    const struct pen_compression *setting = &it->sparse.setting;
    pen_sync_compression_state(setting, "velocity", it->velocity, out);
    pen_sync_compression_state(setting, "waiting", it->waiting, out);
}

const struct pen_compressor pen_compressor_dgc = {
    .name = "dgc",
    .title = "the values of largest size, with momentum before the choice",
    .paper = "Lin et al., Deep Gradient Compression, 2017, arXiv:1712.01887",
    .options = options,
    .num_options = sizeof options / sizeof *options,
    .num_rounds = 1,
    .cost = cost,
    .sizes = sizes,
    .create = create,
    .free = release,
    .bytes = bytes,
    .encode = encode,
    .decode = decode,
    .states = states,
    .sent = sent,
    .add = add,
};
