/*
 * Top-k: each replica sends the share `ratio` of each tensor's values, those of
 * largest size, with their places; the rest waits in the error e_i,
 *
 *   a_i = g_i + e_i     sent: the k largest |a_i|     e_i <- the rest
 *
 * The delivered vector is the mean of the sent ones: at each place, the values
 * of the members that sent one are added in the order of the members. Among
 * equal values the first are taken. With ratio 1 it is the exact mean. Less is
 * sent than for the mean itself while ratio is below 1 / replicas.
 */
#include "sync/sparse.h"

#include <stdlib.h>

enum { RATIO };

static const struct pen_sync_option options[] = {
    [RATIO] = {"ratio", 0.0074, 1e-6, 1, false,
               "share of the values that is sent"},
};

/*
 * Passes over the gradient, without the picked values. Measured by
 * bench/compress.
 */
static const double passes = 0.8;

struct top_k {
    struct pen_sparse sparse;
    float *error;
};

static void cost(const struct pen_sync_case *of, struct pen_mean_cost *out)
{
    pen_sparse_cost(of, of->options[RATIO], of->options[RATIO], passes, out);
    out->extra += of->num_weights * sizeof(float);
}

static void sizes(const struct pen_compression *setting, size_t *sum,
                  size_t *gathered)
{
    *sum = 0;
    *gathered = pen_sparse_length(setting, setting->options.at[RATIO]);
}

static void release(void *state)
{
    struct top_k *it = state;
    pen_sparse_release(&it->sparse);
    free(it->error);
    free(it);
}

static pen_status create(const struct pen_compression *setting, void **out,
                         struct pen_text *why)
{
    (void)why;
    struct top_k *it = calloc(1, sizeof *it);
    if (it == NULL)
        return PEN_NOMEM;
    it->error = calloc(setting->count + 1, sizeof *it->error);
    if (it->error == NULL ||
        pen_sparse_init(&it->sparse, setting, setting->options.at[RATIO]) !=
            PEN_OK) {
        release(it);
        return PEN_NOMEM;
    }
    *out = it;
    return PEN_OK;
}

static size_t bytes(const void *state)
{
    const struct top_k *it = state;
    return it->sparse.setting.count * sizeof(float) +
           pen_sparse_bytes(&it->sparse);
}

static void encode(void *state, uint32_t round, uint64_t step, float *vector,
                   struct pen_round *out)
{
    struct top_k *it = state;
    (void)round;
    (void)step;
    pen_sparse_encode(&it->sparse, it->sparse.setting.options.at[RATIO], vector,
                      &(struct pen_sparse_waiting){.values = it->error}, out);
}

static void decode(void *state, uint32_t round, uint64_t step,
                   const struct pen_collective *received, float *vector)
{
    struct top_k *it = state;
    (void)round;
    (void)step;
    pen_sparse_decode(&it->sparse, it->sparse.setting.options.at[RATIO],
                      received, vector);
}

static size_t sent(const void *state, uint64_t step)
{
    const struct top_k *it = state;
    (void)step;
    return pen_sparse_length(&it->sparse.setting,
                             it->sparse.setting.options.at[RATIO]);
}

static bool add(void *state, uint64_t step, const void *message, float share,
                float *vector)
{
    const struct top_k *it = state;
    (void)step;
    return pen_sparse_add(&it->sparse, it->sparse.setting.options.at[RATIO],
                          message, share, vector);
}

static void states(void *state, struct pen_sync_states *out)
{
    struct top_k *it = state;
    pen_sync_compression_state(&it->sparse.setting, "error", it->error, out);
}

const struct pen_compressor pen_compressor_top_k = {
    .name = "top-k",
    .title = "the values of largest size of each tensor",
    .paper = "Stich, Cordonnier and Jaggi, Sparsified SGD with Memory, 2018, "
             "arXiv:1809.07599",
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
