/*
 * SparseLoCo: DiLoCo whose replicas send of each chunk of their change only the
 * k values of largest size, in 2 bits each, and keep the rest
 * (compress/chunk_top_k.c):
 *
 *   D_i = theta - x_i       e_i <- beta e_i + D_i
 *   S_i = Q(top-k of e_i)   e_i <- e_i - S_i
 *   theta <- theta - lr mean S_i        x_i <- theta
 *
 * The memory e_i, which forgets, takes the place of the outer momentum.
 * Published: 2 bits, 1 to 3 % of the values sent; k = 64 of 4096 is 1.6 %. Not
 * confirmed are beta 0.95, lr 1 and H = 30. An outer momentum, which the paper
 * has none of, may be set.
 *
 * With k = chunk and 32 bits nothing is left out, and it is DiLoCo with the
 * same lr and momentum, whatever beta is.
 */
#include "sync/outer_method.h"

extern const struct pen_compressor pen_compressor_chunk_top_k;

/* The first are those of the compressor. */
enum { K, CHUNK, BITS, BETA, LR, MOMENTUM };

static const struct pen_sync_option options[] = {
    [K] = {"k", 64, 1, 65536, true, "values that are sent of each chunk"},
    [CHUNK] = {"chunk", 4096, 8, 65536, true, "values of a chunk"},
    [BITS] = {"bits", 2, 2, 32, true, "bits of a value: 2 or 32"},
    [BETA] = {"beta", 0.95, 0, 1, false,
              "share of what was not sent that is kept"},
    [LR] = {"lr", 1, 0, 10, false, "outer learning rate"},
    [MOMENTUM] = {"momentum", 0, 0, 0.9999, false, "outer momentum"},
};

static void cost(const struct pen_sync_case *of,
                 const struct pen_mean_cost *mean, struct pen_sync_cost *out)
{
    struct pen_mean_cost sparse;
    (void)mean;
    pen_average_cost(&pen_compressor_chunk_top_k, of, &sparse);
    pen_outer_cost(of, &sparse, out);
}

static pen_status init(struct pen_sync *sync,
                       const struct pen_sync_setting *setting,
                       struct pen_text *why)
{
    sync->setting = *setting;
    sync->setting.compressor = &pen_compressor_chunk_top_k;
    sync->setting.compressor_options = setting->options;
    return pen_outer_init(&sync->outer, &sync->setting, 1,
                          setting->options.at[LR],
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
                                                .compressor =
                                                    &pen_compressor_chunk_top_k,
                                                .give = pen_outer_island_give,
                                                .take = take};

const struct pen_sync_method pen_sync_sparse_loco = {
    .name = "sparse-loco",
    .title = "DiLoCo that sends the largest values of each chunk in 2 bits",
    .paper = "Sarfi et al., Communication Efficient LLM Pre-training with "
             "SparseLoCo, 2025, arXiv:2508.15706",
    .is = PEN_SYNC_ONLY_WHEN_DUE,
    .interval = 30,
    .options = options,
    .num_options = sizeof options / sizeof *options,
    .cost = cost,
    .init = init,
    PEN_OUTER_HOOKS,
    .after_step = pen_outer_method_after_step,
    .states = pen_outer_method_states,
    .islands = &islands,
};
