#ifndef PEN_ENGINE_ENGINE_H
#define PEN_ENGINE_ENGINE_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The engine: parameters, and the operations that layers are made of.
 *
 * An engine is a table of functions and a context. reference/ is plain loops
 * (the truth, also in double), onednn/ is the speed; registry.h has their list.
 * Layers are written against this file alone, so that a simulator can put
 * another one in their place.
 *
 * Two kinds of data:
 *
 *   activations  plain arrays of the engine's dtype, row-major, in memory that
 *                the caller takes from the engine; `rows` counts tokens
 *                (batch x sequence).
 *   parameters   objects of the engine: value, gradient and the optimizer's
 *                moments as plain arrays of the master type, and in addition a
 *                copy in the layout that its products like best, which the
 *                optimizer writes, so that no step reorders anything.
 *
 * Statistics (mean, 1/deviation, log-sum-exp) and parameters are of the master
 * type whatever the dtype: float, or double for an engine of PEN_PRECISION_F64.
 * "stat" below is that type.
 *
 * Set-up may fail and allocate: create, prepare. Everything else does neither,
 * so a step allocates nothing; calling an operation that was not prepared is a
 * bug of ours and aborts. Pointers do not overlap unless a comment allows it.
 * One engine runs one operation at a time, called from one thread.
 *
 * Memory is in one of two places:
 *
 *   engine    the engine's own. Its addresses may be added to; only the
 *             engine reads and writes there.
 *   staging   host memory that the engine reaches, too. The host reads what
 *             an operation wrote, and changes what an operation reads, once a
 *             mark after that operation is reached.
 *
 * Operations take addresses of either place, and no others: ids, targets and
 * results for the host are in staging. Descriptions (struct pen_linear and the
 * like) are read before the call returns. Where `is_host` holds, both places
 * are plain host memory and every call is finished when it returns.
 *
 * Gradients of parameters are *added*, in the order of the calls: the sum over
 * micro-batches has one order. Gradients of activations are overwritten.
 */

#define PEN_PRECISION_TABLE(X)                                                 \
    X(F32, "f32", 4)                                                           \
    X(BF16, "bf16", 2)                                                         \
    X(F64, "f64", 8)

enum pen_precision {
#define PEN_PRECISION_ENUM(name, text, bytes) PEN_PRECISION_##name,
    PEN_PRECISION_TABLE(PEN_PRECISION_ENUM)
#undef PEN_PRECISION_ENUM
};

size_t pen_precision_bytes(enum pen_precision dtype);
const char *pen_precision_text(enum pen_precision dtype);

/* F64 for F64, F32 for all others. */
enum pen_precision pen_precision_master(enum pen_precision dtype);

struct pen_engine;
struct pen_parameter; /* opaque; each engine has its own */

/* The use of a parameter, which decides how it is kept. */
enum pen_parameter_use {
    PEN_PARAMETER_VECTORS, /* gains, biases, tables that only embed */
    PEN_PARAMETER_DENSE,   /* the weight of a dense layer (may embed, too) */
    PEN_PARAMETER_FILTERS  /* the weight of a convolution */
};

/*
 * A matrix of rows x columns. A dense weight maps `columns` inputs to `rows`
 * outputs: y = x W^T. A vector has one row. Filters have one row per channel
 * that comes out; a row is [channels in][kernel height][kernel width].
 */
struct pen_parameter_shape {
    enum pen_parameter_use use;
    size_t rows;
    size_t columns;
    int moments;        /* kept for the optimizer: 0, 1 (SGD), 2 (AdamW) */
    bool is_value_only; /* no gradient either: another member trains it */
    bool has_no_room;   /* its gradient gets memory by gradient_place() */
    bool has_no_value;  /* its value gets memory by value_place() */
};

enum pen_parameter_part {
    PEN_PART_VALUE,
    PEN_PART_GRADIENT,
    PEN_PART_MOMENT1,
    PEN_PART_MOMENT2
};

/* How a parameter lies in the plain array of an import or export. */
enum pen_parameter_order {
    PEN_ORDER_ROWS,      /* [rows][columns] */
    PEN_ORDER_TRANSPOSED /* [columns][rows], as GPT-2's files have it */
};

/*
 * The dense layer y = x W^T + bias + add; rows x inputs to rows x outputs.
 * bias and add may be NULL; add has the shape of y and is not y.
 */
struct pen_linear {
    size_t rows;
    struct pen_parameter *weight; /* outputs x inputs */
    struct pen_parameter *bias;   /* 1 x outputs */
    bool is_ragged; /* rows differ from call to call; prepared for the most */
};

enum { PEN_MOST_EXPERT_GROUPS = 64 };

/*
 * Which experts take a token, and with which gates. Logits are x W^T, of stats
 * and with the master values of W whatever the dtype. Each row chooses the
 * experts of its largest logits, of equal ones the first; their gates are the
 * softmax over all logits, or over those chosen where `is_normal`, times
 * `scale`. Gates of sigmoid scores are the scores, divided by their sum
 * where `is_normal`. A group counts as much as its largest logit, or as its two
 * largest sigmoids with their offsets.
 *
 * Two losses keep experts busy alike and logits small, with p the softmax over
 * all, `tokens` the number of rows that chose an expert, means over rows:
 *
 *   aux * experts / chosen * sum over experts of mean(p) * tokens / rows
 *   z * mean(log(sum(exp(logits)))^2)
 *
 * Only their gradients are computed; `tokens` counts as a constant.
 */
struct pen_router {
    size_t rows;
    size_t chosen;
    bool is_normal;
    bool is_sigmoid; /* scores are sigmoids of logits; gates are scores */
    size_t groups;   /* experts come from `chosen_groups` of these; 0: one */
    size_t chosen_groups;
    double scale;                       /* of gates; 0: 1 */
    const struct pen_parameter *offset; /* 1 x experts, added to scores for
                                           the choice alone; may be NULL */
    double aux;
    double z;
    struct pen_parameter *weight; /* vectors: experts x inputs */
    struct pen_parameter *bias;   /* 1 x experts, of logits; may be NULL */
};

/* The forward of a router leaves these arrays for its backward. */
struct pen_route {
    const void *logits;    /* rows x experts stats */
    const void *gates;     /* rows x chosen stats */
    const int32_t *choice; /* likewise; ascending in a row */
    const int32_t *tokens; /* of each expert */
};

/*
 * Copies groups of `width` neighbours of each row to another place, with
 * `zeros` zeros after each group. With a from_step of 0 all groups get the same
 * elements; with a to_step of 0 and several groups their sum is written.
 */
struct pen_columns {
    size_t rows;
    size_t groups;
    size_t width;
    size_t zeros;
    size_t from_stride; /* elements from row to row, and from group to group */
    size_t from_step;
    size_t to_stride;
    size_t to_step;
};

/*
 * Rows on their way to experts. Row r has `chosen` slots from r * chosen on,
 * one for each of its experts; sorted by expert, they are copies of rows, and
 * slot s is copy at[s], copy p is that of slot order[p].
 */
struct pen_dispatch {
    size_t rows;
    size_t chosen;
    size_t width;
    const int32_t *order;
    const int32_t *at;
};

enum pen_norm_kind {
    PEN_NORM_LAYER, /* (x - mean) / sqrt(variance + epsilon) * gain + bias */
    PEN_NORM_RMS    /* x / sqrt(mean square + epsilon) * gain */
};

struct pen_norm {
    enum pen_norm_kind kind;
    size_t rows;
    size_t width;
    double epsilon;
    struct pen_parameter *gain; /* 1 x width */
    struct pen_parameter *bias; /* 1 x width; NULL for none */
};

/* Token table, and a position table that is NULL where rotary does its work. */
struct pen_embedding {
    size_t rows;
    size_t sequence; /* row r is at position first_position + r % sequence */
    size_t first_position;
    int32_t first; /* id of the first row of the token table */
    struct pen_parameter *tokens;
    struct pen_parameter *positions;
};

static inline size_t
pen_embedding_position(const struct pen_embedding *embedding, size_t row)
{
    return embedding->first_position + row % embedding->sequence;
}

/*
 * Rotary position embedding of `heads` heads that begin each row, in place:
 * of each head the pair (i, i + head_size / 2) turns by the angle of position
 * r % sequence. The tables are [sequence][head_size / 2], of the stat type.
 */
struct pen_rotary {
    size_t rows;
    size_t sequence;
    size_t heads;
    size_t head_size;
    size_t stride;       /* elements from one row to the next */
    size_t step;         /* from one head to the next; 0: head_size */
    bool has_neighbours; /* the pair is (2 i, 2 i + 1) */
    const void *cosines;
    const void *sines;
};

/*
 * Causal attention: query head h reads key/value head h / (heads / kv_heads)
 * at positions p with query - window < p <= query (all up to the query when
 * window is 0). Strides let q, k and v be parts of one wide row; the output is
 * dense, heads * head_size wide.
 *
 * Queries may begin at a position after the first one, a multiple of
 * `sequence`, and then see the keys before them, too. Rows of keys are
 * [chunk][batch][sequence], where chunk c has the positions from c * sequence
 * on; q, out, lse and their gradients are of the last chunk alone.
 */
struct pen_attention {
    size_t batch;
    size_t sequence;
    size_t heads;
    size_t kv_heads; /* divides heads */
    size_t head_size;
    size_t window;
    double scale;     /* usually 1 / sqrt(head_size) */
    size_t q_stride;  /* elements from one row to the next; dq has it too */
    size_t kv_stride; /* of k and v, dk and dv */
    size_t first;     /* position of the first query */
    bool adds;        /* the backward adds to dk and dv */
};

/* Positions of keys. */
static inline size_t pen_attention_keys(const struct pen_attention *attention)
{
    return attention->first + attention->sequence;
}

/* The row of a key, counted from that of the first key of its sequence. */
static inline size_t
pen_attention_key_row(const struct pen_attention *attention, size_t key)
{
    size_t chunk = key / attention->sequence;
    return chunk * attention->batch * attention->sequence +
           key % attention->sequence;
}

/* out = silu(gate) * up; gate, up and their gradients have one stride. */
struct pen_swiglu {
    size_t rows;
    size_t width;
    size_t stride;
};

/*
 * out = g sigmoid(alpha g) (u + 1), where g is at most `limit` and u from
 * -limit to limit. Gates and ups take turns in a row of 2 * width numbers.
 * Clamped elements have no gradient.
 */
struct pen_clamped_gate {
    size_t rows;
    size_t width;
    double alpha;
    double limit;
};

/*
 * One more logit of each head, which belongs to no position: attention weights
 * add up to less than one. It is applied after an attention without it, and its
 * backward before that of the attention, which needs no change: with the lse of
 * all logits it finds the right weights, for the sink has no value.
 */
struct pen_sinks {
    size_t batch;
    size_t sequence;
    size_t heads;
    size_t head_size;
    struct pen_parameter *logits; /* 1 x heads */
};

/* A bias of copies of rows that is multiplied by the gates of their slots. */
struct pen_gated_bias {
    struct pen_dispatch dispatch; /* `rows` times `chosen` copies */
    struct pen_parameter *bias;   /* 1 x width */
};

/*
 * A window that slides over images. Images are [batch][channels][height]
 * [width]; pairs below are {height, width}. Outside the image, where padding
 * lets the window reach, pixels are zero (to a maximum: less than any).
 */
struct pen_image_window {
    size_t batch;
    size_t channels;
    size_t image[2];
    size_t kernel[2]; /* at most image + 2 * padding */
    size_t stride[2];
    size_t padding[2]; /* on both sides; to a pool less than the kernel */
};

/* Height (axis 0) or width (axis 1) of what comes out. */
static inline size_t
pen_image_window_steps(const struct pen_image_window *window, int axis)
{
    return (window->image[axis] + 2 * window->padding[axis] -
            window->kernel[axis]) /
               window->stride[axis] +
           1;
}

struct pen_convolution {
    struct pen_image_window window;
    struct pen_parameter *weight; /* filters: outputs x channels * kernel */
    struct pen_parameter *bias;   /* 1 x outputs; NULL for none */
};

enum pen_pool_kind {
    PEN_POOL_MAX,
    PEN_POOL_AVERAGE /* padding counts; the whole image is a kernel, too */
};

struct pen_pool {
    enum pen_pool_kind kind;
    struct pen_image_window window;
};

/*
 * Batch normalisation: (x - mean) * rstd * gain + bias, with statistics of a
 * channel over all images and positions. The running ones are what evaluation
 * uses; they are stats, one per channel, and belong to the caller.
 */
struct pen_batch_norm {
    size_t batch;
    size_t channels;
    size_t positions; /* of one channel of one image */
    double epsilon;
    double momentum; /* share of a new statistic in the running one */
    struct pen_parameter *gain; /* 1 x channels */
    struct pen_parameter *bias; /* 1 x channels */
    void *running_mean;
    void *running_variance;
};

/*
 * Rows whose target is `ignore` cost nothing and get a zero gradient. Losses
 * are divided by `count`, which a caller with several micro-batches knows best.
 */
struct pen_cross_entropy {
    size_t rows;
    size_t classes;
    int32_t first; /* class of the first logit: 0 where no others have some */
    int32_t ignore;
    double count;
};

/* As torch.optim.AdamW: the decay does not go through the moments. */
struct pen_adamw {
    double learning_rate;
    double beta1;
    double beta2;
    double epsilon;
    double weight_decay;
    uint64_t step;         /* 1 for the first */
    double gradient_scale; /* multiplies the gradient first: clipping */
};

/* As torch.optim.SGD without dampening. momentum > 0 needs one moment. */
struct pen_sgd {
    double learning_rate;
    double momentum;
    bool is_nesterov;
    double weight_decay;
    double gradient_scale;
};

/*
 * As torch.optim.Muon, of some rows of a parameter that are one matrix; needs
 * one moment. The products are those of engine/newton_schulz.h.
 */
struct pen_muon {
    size_t first_row;
    size_t num_rows;
    double learning_rate; /* what the decay is multiplied by */
    double adjusted_rate; /* the step, for the shape of the matrix */
    double momentum;
    bool is_nesterov;
    double weight_decay;
    double gradient_scale;
};

enum pen_place { PEN_PLACE_ENGINE, PEN_PLACE_STAGING };
enum { PEN_PLACES = 2 };

struct pen_engine_ops {
    const char *name;
    bool is_host;    /* see above */
    bool has_chunks; /* attention may begin after the first position, too */

    void (*free)(struct pen_engine *engine);

    /*
     * Memory, zeroed and resident, on a line of 64 bytes; NULL when there is
     * none. It is given back, with the same numbers, before the engine is
     * freed. Neither is for the step. See pen_engine_take().
     */
    void *(*take)(struct pen_engine *engine, enum pen_place place,
                  size_t bytes);
    void (*give)(struct pen_engine *engine, enum pen_place place, void *block,
                 size_t bytes);

    /* Copies between any two addresses of either place that do not overlap. */
    void (*copy)(struct pen_engine *engine, const void *from, void *to,
                 size_t bytes);

    /*
     * A mark is reached when all that was called before it is finished;
     * is_reached() never waits. fault() is the reason why marks are not
     * reached any more, or NULL. See pen_engine_await().
     */
    uint64_t (*mark)(struct pen_engine *engine);
    bool (*is_reached)(struct pen_engine *engine, uint64_t mark);
    const char *(*fault)(struct pen_engine *engine);

    /* Bytes the engine holds: parameters, scratch. */
    size_t (*memory_bytes)(const struct pen_engine *engine);

    /*
     * Bytes of these that belong to no parameter: one scratch serves all
     * operations.
     */
    size_t (*scratch_bytes)(const struct pen_engine *engine);

    /*
     * Most bytes besides these that an operation of those prepared takes and
     * gives back: what a library allocates inside its calls.
     */
    size_t (*passing_bytes)(const struct pen_engine *engine);

    /*
     * Creates a parameter; all parts are zero at first. On failure *out is
     * untouched. Parameters are freed before their engine.
     */
    pen_status (*parameter_create)(struct pen_engine *engine,
                                   const struct pen_parameter_shape *shape,
                                   struct pen_text *why,
                                   struct pen_parameter **out);
    void (*parameter_free)(struct pen_engine *engine,
                           struct pen_parameter *parameter);
    void (*parameter_shape)(const struct pen_parameter *parameter,
                            struct pen_parameter_shape *out);

    /*
     * Allocates moments for a parameter that has none yet: where replicas share
     * out the optimizer, the replica that keeps a parameter's moments is known
     * only when all parameters are.
     */
    pen_status (*parameter_add_moments)(struct pen_engine *engine,
                                        struct pen_parameter *parameter,
                                        int moments, struct pen_text *why);

    /*
     * Further copies of the value, numbered from 0 in the order in which they
     * are added; zero at first. A swap exchanges the value and a copy, with
     * all that products read of them: afterwards operations, import, export
     * and the optimizer see what the copy was. A put writes the value to the
     * copy.
     */
    pen_status (*parameter_add_copy)(struct pen_engine *engine,
                                     struct pen_parameter *parameter,
                                     struct pen_text *why);
    void (*parameter_swap)(struct pen_engine *engine,
                           struct pen_parameter *parameter, int copy);
    void (*parameter_put)(struct pen_engine *engine,
                          struct pen_parameter *parameter, int copy);

    /*
     * Copies from and to a plain array of rows * columns stats. Not for the
     * step.
     */
    void (*parameter_import)(struct pen_engine *engine,
                             struct pen_parameter *parameter,
                             enum pen_parameter_part part,
                             enum pen_parameter_order order, const void *plain);
    void (*parameter_export)(struct pen_engine *engine,
                             struct pen_parameter *parameter,
                             enum pen_parameter_part part,
                             enum pen_parameter_order order, void *plain);

    /*
     * `count` stats of one part from number `first` on, row after row, for the
     * host: the address where it finds them. Where is_host holds that is where
     * they lie, and they may be changed there until the parameter is freed or
     * the part changes places with another; `staging` may be NULL. Elsewhere
     * it is `staging`, which has them once a later mark is reached; what is
     * changed there is written back by a parameter_write(). After a change of
     * the value call parameter_value_changed(). See engine/mirror.h.
     */
    void *(*parameter_read)(struct pen_engine *engine,
                            struct pen_parameter *parameter,
                            enum pen_parameter_part part, size_t first,
                            size_t count, void *staging);
    void (*parameter_write)(struct pen_engine *engine,
                            struct pen_parameter *parameter,
                            enum pen_parameter_part part, size_t first,
                            size_t count, const void *from);
    void (*parameter_value_changed)(struct pen_engine *engine,
                                    struct pen_parameter *parameter);

    void (*gradient_clear)(struct pen_engine *engine,
                           struct pen_parameter *parameter);

    /*
     * Memory for a gradient that was made without: `at`, in the engine's
     * memory, where it stays the caller's and other gradients may lie, too; or
     * NULL for memory of its own. Once, and not for the step. Gradients in the
     * same memory take turns: each is cleared before it is written. Where the
     * memory is the host's, a gradient that has such memory may get other one
     * at any time, and then has the numbers that are there.
     */
    pen_status (*gradient_place)(struct pen_engine *engine,
                                 struct pen_parameter *parameter, void *at,
                                 struct pen_text *why);

    /*
     * The same for a value that was made without, in value_bytes() of memory:
     * the value and all that products read in its place. Values in the same
     * memory take turns: each is written whole before it is read, and
     * parameter_value_changed() is called in between.
     */
    size_t (*value_bytes)(const struct pen_engine *engine,
                          const struct pen_parameter *parameter);
    pen_status (*value_place)(struct pen_engine *engine,
                              struct pen_parameter *parameter, void *at,
                              struct pen_text *why);

    /*
     * A second gradient, zero at first, for a parameter that is trained. A swap
     * exchanges the two: everything else reads and writes the first.
     */
    pen_status (*gradient_add_second)(struct pen_engine *engine,
                                      struct pen_parameter *parameter,
                                      struct pen_text *why);
    void (*gradient_swap)(struct pen_engine *engine,
                          struct pen_parameter *parameter);

    /*
     * Adds the rows of `from`, count x columns stats, to the given rows of the
     * gradient of `parameter`, in their order: what an embedding gathered for
     * the words it saw joins the gradient of the head that it is tied to. The
     * first row of the parameter has the number `first`; rows that it does not
     * have are left out.
     */
    void (*gradient_add_rows)(struct pen_engine *engine,
                              struct pen_parameter *parameter, int32_t first,
                              size_t count, const int32_t *rows,
                              const void *from);

    /*
     * Sum of squares, to a number in staging; its order depends on the shape
     * only, not on threads.
     */
    void (*gradient_sum_squares)(struct pen_engine *engine,
                                 struct pen_parameter *parameter, double *sum);

    /* Leaves the gradient as it is. */
    void (*adamw_step)(struct pen_engine *engine,
                       struct pen_parameter *parameter,
                       const struct pen_adamw *adamw);
    void (*sgd_step)(struct pen_engine *engine, struct pen_parameter *parameter,
                     const struct pen_sgd *sgd);

    /*
     * Call muon_prepare() for every shape of a matrix before the first step;
     * again is fine. After the last step of a parameter call
     * parameter_value_changed(). Both are NULL in an engine without Muon.
     */
    pen_status (*muon_prepare)(struct pen_engine *engine, size_t rows,
                               size_t columns, struct pen_text *why);
    void (*muon_step)(struct pen_engine *engine,
                      struct pen_parameter *parameter,
                      const struct pen_muon *muon);

    /*
     * Call linear_prepare() for every (weight, rows) before the first step;
     * again is fine.
     */
    pen_status (*linear_prepare)(struct pen_engine *engine,
                                 const struct pen_linear *linear,
                                 struct pen_text *why);
    void (*linear_forward)(struct pen_engine *engine,
                           const struct pen_linear *linear, const void *x,
                           const void *add, void *y);
    void (*linear_backward_input)(struct pen_engine *engine,
                                  const struct pen_linear *linear,
                                  const void *dy, void *dx);
    void (*linear_backward_weight)(struct pen_engine *engine,
                                   const struct pen_linear *linear,
                                   const void *x, const void *dy);

    /* An id that the token table does not have is a row of zeros, and has no
     * gradient. */
    void (*embedding_forward)(struct pen_engine *engine,
                              const struct pen_embedding *embedding,
                              const int32_t *ids, void *y);
    void (*embedding_backward)(struct pen_engine *engine,
                               const struct pen_embedding *embedding,
                               const int32_t *ids, const void *dy);

    /*
     * mean and rstd hold one stat per row, for the backward; RMS norm has no
     * mean. add (may be NULL) is the gradient that comes past the norm:
     * dx = norm'(dy) + add; dx may be add or dy.
     */
    void (*norm_forward)(struct pen_engine *engine, const struct pen_norm *norm,
                         const void *x, void *y, void *mean, void *rstd);
    void (*norm_backward_input)(struct pen_engine *engine,
                                const struct pen_norm *norm, const void *x,
                                const void *mean, const void *rstd,
                                const void *dy, const void *add, void *dx);
    void (*norm_backward_weight)(struct pen_engine *engine,
                                 const struct pen_norm *norm, const void *x,
                                 const void *mean, const void *rstd,
                                 const void *dy);

    /* The tanh form. y may be x; dx may be dy. */
    void (*gelu_forward)(struct pen_engine *engine, size_t count, const void *x,
                         void *y);
    void (*gelu_backward)(struct pen_engine *engine, size_t count,
                          const void *x, const void *dy, void *dx);

    void (*swiglu_forward)(struct pen_engine *engine,
                           const struct pen_swiglu *swiglu, const void *gate,
                           const void *up, void *y);
    void (*swiglu_backward)(struct pen_engine *engine,
                            const struct pen_swiglu *swiglu, const void *gate,
                            const void *up, const void *dy, void *dgate,
                            void *dup);

    /*
     * These seven functions are NULL in an engine without experts. The backward
     * of the input writes dlogits, which the backward of the weight reads, and
     * adds to dx where there is one.
     */
    void (*route_forward)(struct pen_engine *engine,
                          const struct pen_router *router, const void *x,
                          void *logits, void *gates, int32_t *choice);
    void (*route_backward_input)(struct pen_engine *engine,
                                 const struct pen_router *router,
                                 const struct pen_route *route,
                                 const void *dgates, void *dlogits, void *dx);
    void (*route_backward_weight)(struct pen_engine *engine,
                                  const struct pen_router *router,
                                  const void *x, const void *dlogits);

    /* Copies, and sums of copies; add may be NULL or y. */
    void (*dispatch_rows)(struct pen_engine *engine,
                          const struct pen_dispatch *dispatch, const void *x,
                          void *y);
    void (*collect_rows)(struct pen_engine *engine,
                         const struct pen_dispatch *dispatch, const void *x,
                         const void *add, void *y);

    /* Copies times the gates of their slots. y may be x, dx may be dy. */
    void (*gate_forward)(struct pen_engine *engine,
                         const struct pen_dispatch *dispatch, const void *gates,
                         const void *x, void *y);
    void (*gate_backward)(struct pen_engine *engine,
                          const struct pen_dispatch *dispatch,
                          const void *gates, const void *x, const void *dy,
                          void *dgates, void *dx);

    /* These nine functions are NULL in an engine without experts, too. */
    void (*clamped_gate_forward)(struct pen_engine *engine,
                                 const struct pen_clamped_gate *gate,
                                 const void *x, void *y);
    void (*clamped_gate_backward)(struct pen_engine *engine,
                                  const struct pen_clamped_gate *gate,
                                  const void *x, const void *dy, void *dx);

    /* Adds to y, or to dgates. */
    void (*gated_bias_forward)(struct pen_engine *engine,
                               const struct pen_gated_bias *bias,
                               const void *gates, void *y);
    void (*gated_bias_backward_input)(struct pen_engine *engine,
                                      const struct pen_gated_bias *bias,
                                      const void *dy, void *dgates);
    void (*gated_bias_backward_weight)(struct pen_engine *engine,
                                       const struct pen_gated_bias *bias,
                                       const void *gates, const void *dy);

    /*
     * Changes out and lse of attention. slopes: one stat per head, for the
     * backward of the weight.
     */
    void (*sinks_forward)(struct pen_engine *engine,
                          const struct pen_sinks *sinks, void *out, void *lse);
    void (*sinks_backward_input)(struct pen_engine *engine,
                                 const struct pen_sinks *sinks, const void *out,
                                 const void *lse, const void *dout,
                                 void *slopes);
    void (*sinks_backward_weight)(struct pen_engine *engine,
                                  const struct pen_sinks *sinks,
                                  const void *slopes);

    void (*copy_columns)(struct pen_engine *engine,
                         const struct pen_columns *columns, const void *x,
                         void *y);

    /* Turns in place; the backward of a turn is the turn back. */
    void (*rotary_forward)(struct pen_engine *engine,
                           const struct pen_rotary *rotary, void *x);
    void (*rotary_backward)(struct pen_engine *engine,
                            const struct pen_rotary *rotary, void *dx);

    /*
     * lse: one stat per (batch, head, position), log of the sum of the
     * exponentials. No T x T matrix outlives a block of queries.
     */
    pen_status (*attention_prepare)(struct pen_engine *engine,
                                    const struct pen_attention *attention,
                                    struct pen_text *why);
    void (*attention_forward)(struct pen_engine *engine,
                              const struct pen_attention *attention,
                              const void *q, const void *k, const void *v,
                              void *out, void *lse);
    void (*attention_backward)(struct pen_engine *engine,
                               const struct pen_attention *attention,
                               const void *q, const void *k, const void *v,
                               const void *out, const void *lse,
                               const void *dout, void *dq, void *dk, void *dv);

    /*
     * Sum of losses / count, to a number in staging. With a gradient the
     * logits are replaced by it, divided by count likewise.
     */
    void (*cross_entropy)(struct pen_engine *engine,
                          const struct pen_cross_entropy *entropy,
                          const int32_t *targets, void *logits,
                          bool with_gradient, double *loss);

    /*
     * The same where the classes are cut into pieces. Each piece is measured:
     * three stats per row, the largest logit, the sum of the exponentials of
     * the logits less that, and the logit of the target, or 0 where another
     * piece has it. Two pieces join; the order of the two does not matter.
     * With the stats of all pieces each of them gets its gradient. loss may be
     * NULL.
     */
    void (*entropy_measure)(struct pen_engine *engine,
                            const struct pen_cross_entropy *entropy,
                            const int32_t *targets, const void *logits,
                            void *stats);
    void (*entropy_join)(struct pen_engine *engine, size_t rows,
                         const void *from, void *stats);
    void (*entropy_finish)(struct pen_engine *engine,
                           const struct pen_cross_entropy *entropy,
                           const int32_t *targets, const void *stats,
                           void *logits, bool with_gradient, double *loss);

    /* sum = a + b; sum may be either. */
    void (*add)(struct pen_engine *engine, size_t count, const void *a,
                const void *b, void *sum);

    /* y may be x. The backward reads y; dx may be dy. */
    void (*relu_forward)(struct pen_engine *engine, size_t count, const void *x,
                         void *y);
    void (*relu_backward)(struct pen_engine *engine, size_t count,
                          const void *y, const void *dy, void *dx);

    /*
     * Call convolution_prepare() for every shape before the first step; again
     * is fine.
     */
    pen_status (*convolution_prepare)(struct pen_engine *engine,
                                      const struct pen_convolution *convolution,
                                      struct pen_text *why);
    void (*convolution_forward)(struct pen_engine *engine,
                                const struct pen_convolution *convolution,
                                const void *x, void *y);
    void (*convolution_backward_input)(
        struct pen_engine *engine, const struct pen_convolution *convolution,
        const void *dy, void *dx);
    void (*convolution_backward_weight)(
        struct pen_engine *engine, const struct pen_convolution *convolution,
        const void *x, const void *dy);

    /* Where maxima are equal, the first one gets the gradient. An average needs
     * no x. */
    void (*pool_forward)(struct pen_engine *engine, const struct pen_pool *pool,
                         const void *x, void *y);
    void (*pool_backward)(struct pen_engine *engine,
                          const struct pen_pool *pool, const void *x,
                          const void *dy, void *dx);

    /*
     * mean and rstd, one stat per channel each, come from measure() in
     * training, which also moves the running statistics (the variance without
     * bias, so a channel needs two numbers), or from recall() in evaluation.
     * The backward is that of training.
     */
    void (*batch_norm_measure)(struct pen_engine *engine,
                               const struct pen_batch_norm *norm, const void *x,
                               void *mean, void *rstd);
    void (*batch_norm_recall)(struct pen_engine *engine,
                              const struct pen_batch_norm *norm, void *mean,
                              void *rstd);
    void (*batch_norm_forward)(struct pen_engine *engine,
                               const struct pen_batch_norm *norm, const void *x,
                               const void *mean, const void *rstd, void *y);
    void (*batch_norm_backward_input)(struct pen_engine *engine,
                                      const struct pen_batch_norm *norm,
                                      const void *x, const void *mean,
                                      const void *rstd, const void *dy,
                                      void *dx);
    void (*batch_norm_backward_weight)(struct pen_engine *engine,
                                       const struct pen_batch_norm *norm,
                                       const void *x, const void *mean,
                                       const void *rstd, const void *dy);
};

/* The head of every engine's own struct. */
struct pen_engine {
    const struct pen_engine_ops *ops;
    enum pen_precision dtype;
    int threads;
    size_t taken[PEN_PLACES]; /* bytes that take() handed out */
};

/* Frees an engine. NULL is fine. */
void pen_engine_free(struct pen_engine *engine);

/*
 * take() and give() of an engine that may be NULL, for stages that only wait:
 * then memory is the host's. Nothing is taken for 0 bytes; give(NULL) is fine.
 */
void *pen_engine_take(struct pen_engine *engine, enum pen_place place,
                      size_t bytes);
void pen_engine_give(struct pen_engine *engine, enum pen_place place,
                     void *block, size_t bytes);

/* Asks is_reached() of the engine; a fault ends the process with its reason. */
bool pen_engine_is_reached(struct pen_engine *engine, uint64_t mark);

/* Waits until everything that was called is finished. */
void pen_engine_await(struct pen_engine *engine);

/* F32 or F64; one thread. */
pen_status pen_engine_reference_create(enum pen_precision dtype,
                                       struct pen_text *why,
                                       struct pen_engine **out);

/*
 * F32 or BF16. threads 0: as many as OpenMP would take (OMP_NUM_THREADS).
 *
 * Results are bit-identical for any number of threads in every row operation,
 * the optimizer, gradient_sum_squares and the bias gradient. Products are the
 * library's: they are reproducible only for a fixed number of threads. INVALID
 * when this library was built without oneDNN.
 */
pen_status pen_engine_onednn_create(enum pen_precision dtype, int threads,
                                    struct pen_text *why,
                                    struct pen_engine **out);

/*
 * F32 or F64: the reference engine behaving as a device would, for tests of
 * code that uses engines (engine/distant/distant.h). threads does not matter.
 */
pen_status pen_engine_distant_create(enum pen_precision dtype, int threads,
                                     struct pen_text *why,
                                     struct pen_engine **out);

/*
 * F32 or BF16, on a device of OpenCL (engine/device/): its number, a part of
 * its name, or NULL for the first accelerator. INVALID, with what to install,
 * where there is none.
 */
pen_status pen_engine_opencl_create(enum pen_precision dtype,
                                    const char *device, struct pen_text *why,
                                    struct pen_engine **out);

/* Adds driver and device with their versions; nothing where there is none. */
void pen_engine_opencl_describe(const char *device, struct pen_text *out);

/*
 * F32 or BF16, on a device of CUDA (engine/device/): its number, a part of its
 * name, or NULL for the first one. INVALID, with what is missing, where there
 * is none, or where this library was built without kernels for CUDA.
 */
pen_status pen_engine_cuda_create(enum pen_precision dtype, const char *device,
                                  struct pen_text *why,
                                  struct pen_engine **out);

/* As pen_engine_opencl_describe(). */
void pen_engine_cuda_describe(const char *device, struct pen_text *out);

/* Whether the processor multiplies bf16 itself, or oneDNN has to pretend. */
bool pen_engine_onednn_has_bf16(void);

/*
 * Adds the version of the oneDNN that is linked and what runs its threads:
 * "2.6.3, OpenMP". Adds nothing when this library was built without.
 */
void pen_engine_onednn_describe(struct pen_text *out);

/* Adds a number for the instructions that it uses on this machine. */
void pen_engine_onednn_instructions(struct pen_text *out);

#endif
