#ifndef PEN_ENGINE_DEVICE_KERNELS_SIZES_H
#define PEN_ENGINE_DEVICE_KERNELS_SIZES_H

/*
 * The numbers that kernels get in addition to their addresses, and the list of
 * all kernels. This header is part of the kernels' text, too: it knows no other
 * header. `long` has 64 bits here and on every device.
 *
 * A kernel is started as a number of groups of PEN__LANES lanes. It takes
 * PEN__ADDRESSES addresses, of which it uses some, and one of these structs.
 */
#define PEN__LANES 64
#define PEN__ADDRESSES 8

/* Elements that one group of an element-wise kernel has. */
#define PEN__SHARE 1024

/* A product computes PEN__TILE x PEN__TILE results in a group. */
#define PEN__TILE 64

/* Queries of a block of attention. */
#define PEN__QUERIES 64

/* Groups of the first pass of a sum over a whole parameter. */
#define PEN__SUM_GROUPS 64

/* kernel, its sizes */
#define PEN__KERNEL_TABLE(X)                                                   \
    X(add, flat)                                                               \
    X(relu_forward, flat)                                                      \
    X(relu_backward, flat)                                                     \
    X(gelu_forward, flat)                                                      \
    X(gelu_backward, flat)                                                     \
    X(swiglu_forward, swiglu)                                                  \
    X(swiglu_backward, swiglu)                                                 \
    X(rotary, rotary)                                                          \
    X(copy_columns, groups)                                                    \
    X(norm_forward, norm)                                                      \
    X(norm_backward_input, norm)                                               \
    X(norm_backward_weight, norm)                                              \
    X(product, product)                                                        \
    X(column_sums, columns)                                                    \
    X(attention_softmax, attention)                                            \
    X(attention_average, attention)                                            \
    X(attention_slopes, attention)                                             \
    X(attention_round, attention)                                              \
    X(sinks_forward, sinks)                                                    \
    X(sinks_slopes, sinks)                                                     \
    X(sinks_weight, sinks)                                                     \
    X(embedding_forward, embedding)                                            \
    X(embedding_backward, embedding)                                           \
    X(embedding_positions, embedding)                                          \
    X(entropy_measure, entropy)                                                \
    X(entropy_join, entropy)                                                   \
    X(entropy_finish, entropy)                                                 \
    X(route_choose, route)                                                     \
    X(route_gates, route)                                                      \
    X(route_slopes, route)                                                     \
    X(dispatch_rows, dispatch)                                                 \
    X(collect_rows, dispatch)                                                  \
    X(gate_forward, dispatch)                                                  \
    X(gate_backward, dispatch)                                                 \
    X(clamped_forward, clamped)                                                \
    X(clamped_backward, clamped)                                               \
    X(gated_bias_forward, dispatch)                                            \
    X(gated_bias_slopes, dispatch)                                             \
    X(gated_bias_weight, dispatch)                                             \
    X(sum_squares, sum)                                                        \
    X(sum_numbers, sum)                                                        \
    X(adamw, adamw)                                                            \
    X(sgd, sgd)                                                                \
    X(muon_move, muon)                                                         \
    X(muon_normalize, muon)                                                    \
    X(muon_step, muon)

struct pen__flat_sizes {
    long count;
};

struct pen__swiglu_sizes {
    long rows;
    long width;
    long stride;
};

struct pen__rotary_sizes {
    long rows;
    long sequence;
    long heads;
    long half_size;
    long stride;
    long step; /* from one head to the next */
    int has_neighbours;
    float direction; /* 1, or -1 for the turn back */
};

/* As struct pen_columns. */
struct pen__groups_sizes {
    long rows;
    long groups;
    long width;
    long zeros;
    long from_stride;
    long from_step;
    long to_stride;
    long to_step;
};

struct pen__norm_sizes {
    long rows;
    long width;
    float epsilon;
    int is_layer; /* or RMS */
    int has_bias;
    int has_add;
};

/*
 * c[i][j] (+)= scale * sum over d of a[i][d] b[j][d] + bias[j]
 *            + add_scale * add[i][j]
 *
 * for every head of every sequence of a batch. Steps are in elements; matrix
 * (batch, head) of a begins at batch * a_batch + head / a_share * a_head. `add`
 * is as c is. A master is of floats, any other matrix of elements.
 */
struct pen__product_sizes {
    long rows;
    long columns;
    long depth;
    long a_row;
    long a_depth;
    long b_row;
    long b_depth;
    long c_row;
    long heads;
    long a_batch;
    long a_head;
    long a_share;
    long b_batch;
    long b_head;
    long b_share;
    long c_batch;
    long c_head;
    float scale;
    float add_scale;
    int a_is_master;
    int b_is_master;
    int c_is_master;
    int has_bias;
    int has_add;
    int is_added;
};

/* Sums over the rows of rows x columns elements. */
struct pen__columns_sizes {
    long rows;
    long columns;
    int is_master; /* floats, not elements */
};

/*
 * A block of queries, first_query..first_query + queries - 1, against the keys
 * from first_key on; its scores are [batch * heads][queries][keys].
 */
struct pen__attention_sizes {
    long batch;
    long sequence;
    long heads;
    long head_size;
    long window;
    long stride; /* of the rows that attention_round() writes */
    long first_query;
    long queries;
    long first_key;
    long keys;
    float scale;
};

struct pen__sinks_sizes {
    long rows; /* batch * sequence */
    long sequence;
    long heads;
    long head_size;
};

struct pen__embedding_sizes {
    long rows;
    long sequence;
    long width;
    long words;
    long first;
    int has_positions;
    int is_master; /* of the rows that are added: floats, not elements */
};

struct pen__entropy_sizes {
    long rows;
    long classes;
    long first;
    long ignore;
    float count;
    int with_gradient;
    int with_loss;
};

struct pen__route_sizes {
    long rows;
    long experts;
    long chosen;
    long groups; /* 1: experts are not grouped */
    long chosen_groups;
    float scale;
    float aux; /* its slope for each token of an expert */
    float z;   /* its slope for the logarithm */
    int is_normal;
    int is_sigmoid;
    int has_offset;
};

struct pen__dispatch_sizes {
    long rows;
    long chosen;
    long width;
    int has_add;
};

struct pen__clamped_sizes {
    long count;
    float alpha;
    float limit;
};

struct pen__sum_sizes {
    long count;
    double divisor;
    int is_first; /* the total begins at zero */
};

struct pen__adamw_sizes {
    long count;
    float rate;       /* learning rate over 1 - beta1^step */
    float correction; /* 1 over the root of 1 - beta2^step */
    float keep;       /* what the decay leaves of a value */
    float beta1;
    float beta2;
    float epsilon;
    float gradient_scale;
};

struct pen__sgd_sizes {
    long count;
    float rate;
    float momentum;
    float decay;
    float gradient_scale;
    int has_moment;
    int is_nesterov;
};

/* x takes part in the matrix sign of the moment (engine/newton_schulz.h). */
struct pen__muon_sizes {
    long count;
    float fresh; /* of a slope in the moment */
    float ahead; /* of a slope in x, beyond that: Nesterov */
    float gradient_scale;
    float least; /* norm to divide by */
    float keep;  /* what the decay leaves of a value */
    float rate;
};

#endif
