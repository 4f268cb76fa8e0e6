#ifndef PEN_SYNC_TWO_SIDED_H
#define PEN_SYNC_TWO_SIDED_H

#include "sync/compressor.h"

/*
 * Means of vectors whose code cannot be added up: the owner of a chunk decodes
 * it, adds in float and codes the mean again. Both sides keep their coding
 * errors (Tang et al., DoubleSqueeze, ICML 2019, arXiv:1905.05957). Member k
 * owns share k of each tensor (pen_sum_share()):
 *
 *   scatter   c_i = g_i + e_i      sent: C(c_i)     e_i <- c_i - C(c_i)
 *   owner     c = mean C(c_i) + e                   e   <- c - C(c)
 *   gather    sent: C(c)           delivered: C(c)
 *
 * The sum of all delivered vectors, plus e, plus the mean of the e_i, is the
 * sum of the means of all given vectors.
 *
 * A share is coded in blocks, a multiple of 4 bytes each. A message is the 8
 * bytes of its length, then the codes of a member's shares in the order of the
 * tensors.
 */
struct pen_coding {
    /* INVALID where options do not go together; NULL: they do. */
    pen_status (*check)(const double *options, struct pen_text *why);

    /* Values of a block; the last of a share may have fewer. */
    size_t (*block)(const double *options);

    /* Bytes of the code of a block: a multiple of 4. */
    size_t (*length)(size_t count);

    /* Codes a = given + error; the error is what is lost then. */
    void (*encode)(const float *given, float *error, size_t count, void *to);

    /* Writes, or adds, `factor` times what the code says. */
    void (*decode)(const void *from, size_t count, float factor, bool is_added,
                   float *values);

    /* The time of all that a member does for a mean, in passes over it at
     * of->core_bytes_per_sec. Measured: bench/compress. */
    double passes;
};

enum { PEN_TWO_SIDED_ROUNDS = 2 };

/* Functions of a compressor, for the table of a coding. */
void pen_two_sided_cost(const struct pen_coding *coding,
                        const struct pen_sync_case *of,
                        struct pen_mean_cost *out);
void pen_two_sided_sizes(const struct pen_coding *coding,
                         const struct pen_compression *setting, size_t *sum,
                         size_t *gathered);
pen_status pen_two_sided_create(const struct pen_coding *coding,
                                const struct pen_compression *setting,
                                void **out, struct pen_text *why);
void pen_two_sided_free(void *state);
size_t pen_two_sided_bytes(const void *state);
void pen_two_sided_encode(void *state, uint32_t round, uint64_t step,
                          float *vector, struct pen_round *out);
void pen_two_sided_decode(void *state, uint32_t round, uint64_t step,
                          const struct pen_collective *received, float *vector);
void pen_two_sided_states(void *state, struct pen_sync_states *out);

/*
 * A compressor of a coding: three functions that hand it on, and all entries
 * of its table but its name, title, paper and options.
 */
#define PEN_TWO_SIDED_FUNCTIONS(coding)                                        \
    static void cost(const struct pen_sync_case *of,                           \
                     struct pen_mean_cost *out)                                \
    {                                                                          \
        pen_two_sided_cost(&(coding), of, out);                                \
    }                                                                          \
    static void sizes(const struct pen_compression *setting, size_t *sum,      \
                      size_t *gathered)                                        \
    {                                                                          \
        pen_two_sided_sizes(&(coding), setting, sum, gathered);                \
    }                                                                          \
    static pen_status create(const struct pen_compression *setting,            \
                             void **out, struct pen_text *why)                 \
    {                                                                          \
        return pen_two_sided_create(&(coding), setting, out, why);             \
    }

#define PEN_TWO_SIDED_TABLE                                                    \
    .num_rounds = PEN_TWO_SIDED_ROUNDS, .cost = cost, .sizes = sizes,          \
    .create = create, .free = pen_two_sided_free,                              \
    .bytes = pen_two_sided_bytes, .encode = pen_two_sided_encode,              \
    .decode = pen_two_sided_decode, .states = pen_two_sided_states

#endif
