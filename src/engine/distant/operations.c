/*
 * The table of the distant engine. Every operation becomes a command: its
 * description and its addresses, as the worker reaches them. Set-up drains the
 * queue and calls the reference engine at once.
 */
#include "base/bug.h"
#include "engine/distant/distant.h"

#include <string.h>

static struct pen_engine *inner_of(const struct pen_engine *engine)
{
    return ((const struct pen__distant *)engine)->inner;
}

static void reach_all(struct pen_engine *engine, struct pen__command *command,
                      const void *const *given, size_t count)
{
    for (size_t i = 0; i < count; i++)
        command->at[i] = pen__distant_reach(engine, given[i]);
}

/* Addresses of a command as arguments. */
#define AT1 c->at[0]
#define AT2 AT1, c->at[1]
#define AT3 AT2, c->at[2]
#define AT4 AT3, c->at[3]
#define AT5 AT4, c->at[4]
#define AT6 AT5, c->at[5]
#define AT9 AT6, c->at[6], c->at[7], c->at[8]

#define LIST(...) __VA_ARGS__

/*
 * An operation with a description: its name, the description's type and field,
 * parameters, the same as addresses, and the arguments of the call later.
 */
#define DESCRIBED(name, type, field, parameters, addresses, arguments)         \
    static void run_##name(struct pen_engine *inner,                           \
                           const struct pen__command *c)                       \
    {                                                                          \
        inner->ops->name(inner, &c->about.field, arguments);                   \
    }                                                                          \
    static void name(struct pen_engine *engine, const struct type *about,      \
                     parameters)                                               \
    {                                                                          \
        const void *const given[] = {addresses};                               \
        struct pen__command *c = pen__distant_begin(engine, run_##name);       \
        c->about.field = *about;                                               \
        reach_all(engine, c, given, sizeof given / sizeof *given);             \
        pen__distant_put(engine);                                              \
    }

/* An operation on a number of elements. */
#define COUNTED(name, parameters, addresses, arguments)                        \
    static void run_##name(struct pen_engine *inner,                           \
                           const struct pen__command *c)                       \
    {                                                                          \
        inner->ops->name(inner, c->count, arguments);                          \
    }                                                                          \
    static void name(struct pen_engine *engine, size_t count, parameters)      \
    {                                                                          \
        const void *const given[] = {addresses};                               \
        struct pen__command *c = pen__distant_begin(engine, run_##name);       \
        c->count = count;                                                      \
        reach_all(engine, c, given, sizeof given / sizeof *given);             \
        pen__distant_put(engine);                                              \
    }

/* An operation on a parameter alone, or with a number. */
#define ON_PARAMETER(name, parameters, note, arguments)                        \
    static void run_##name(struct pen_engine *inner,                           \
                           const struct pen__command *c)                       \
    {                                                                          \
        inner->ops->name(inner, c->parameter arguments);                       \
    }                                                                          \
    static void name(struct pen_engine *engine,                                \
                     struct pen_parameter *parameter parameters)               \
    {                                                                          \
        struct pen__command *c = pen__distant_begin(engine, run_##name);       \
        c->parameter = parameter;                                              \
        note;                                                                  \
        pen__distant_put(engine);                                              \
    }

/* ---- parameters ---- */

ON_PARAMETER(parameter_value_changed, , (void)c, )
ON_PARAMETER(gradient_clear, , (void)c, )
ON_PARAMETER(gradient_swap, , (void)c, )
ON_PARAMETER(parameter_swap, LIST(, int copy), c->number = copy,
             LIST(, c->number))
ON_PARAMETER(parameter_put, LIST(, int copy), c->number = copy,
             LIST(, c->number))
ON_PARAMETER(adamw_step, LIST(, const struct pen_adamw *adamw),
             c->about.adamw = *adamw, LIST(, &c->about.adamw))
ON_PARAMETER(sgd_step, LIST(, const struct pen_sgd *sgd), c->about.sgd = *sgd,
             LIST(, &c->about.sgd))
ON_PARAMETER(muon_step, LIST(, const struct pen_muon *muon),
             c->about.muon = *muon, LIST(, &c->about.muon))
ON_PARAMETER(gradient_sum_squares, LIST(, double *sum),
             c->at[0] = pen__distant_reach(engine, sum), LIST(, AT1))

static void run_gradient_add_rows(struct pen_engine *inner,
                                  const struct pen__command *c)
{
    inner->ops->gradient_add_rows(inner, c->parameter, (int32_t)c->number,
                                  c->count, AT2);
}

/* Adds rows; with no rows any address is fine. */
static void gradient_add_rows(struct pen_engine *engine,
                              struct pen_parameter *parameter, int32_t first,
                              size_t count, const int32_t *rows,
                              const void *from)
{
    const void *const given[] = {rows, from};
    if (count == 0)
        return;
    struct pen__command *c = pen__distant_begin(engine, run_gradient_add_rows);
    c->parameter = parameter;
    c->number = first;
    c->count = count;
    reach_all(engine, c, given, 2);
    pen__distant_put(engine);
}

static void run_copy(struct pen_engine *inner, const struct pen__command *c)
{
    inner->ops->copy(inner, c->at[0], c->at[1], c->count);
}

static void copy(struct pen_engine *engine, const void *from, void *to,
                 size_t bytes)
{
    const void *const given[] = {from, to};
    struct pen__command *c = pen__distant_begin(engine, run_copy);
    c->count = bytes;
    reach_all(engine, c, given, 2);
    pen__distant_put(engine);
}

static size_t stat_bytes(const struct pen_engine *engine, size_t count)
{
    return count * pen_precision_bytes(pen_precision_master(engine->dtype));
}

static void *span_of(struct pen_engine *inner, const struct pen__command *c)
{
    return inner->ops->parameter_read(inner, c->parameter, c->part, c->first,
                                      c->count, NULL);
}

static void run_read(struct pen_engine *inner, const struct pen__command *c)
{
    memcpy(c->at[0], span_of(inner, c), stat_bytes(inner, c->count));
}

static void run_write(struct pen_engine *inner, const struct pen__command *c)
{
    memcpy(span_of(inner, c), c->at[0], stat_bytes(inner, c->count));
}

static void *parameter_read(struct pen_engine *engine,
                            struct pen_parameter *parameter,
                            enum pen_parameter_part part, size_t first,
                            size_t count, void *staging)
{
    if (count == 0)
        return staging;
    struct pen__command *c = pen__distant_begin(engine, run_read);
    c->parameter = parameter;
    c->part = part;
    c->first = first;
    c->count = count;
    c->at[0] = pen__distant_reach(engine, staging);
    PEN_BUG_UNLESS(staging != NULL);
    pen__distant_put(engine);
    return staging;
}

static void parameter_write(struct pen_engine *engine,
                            struct pen_parameter *parameter,
                            enum pen_parameter_part part, size_t first,
                            size_t count, const void *from)
{
    struct pen__command *c = pen__distant_begin(engine, run_write);
    c->parameter = parameter;
    c->part = part;
    c->first = first;
    c->count = count;
    c->at[0] = pen__distant_reach(engine, from);
    pen__distant_put(engine);
}

/* ---- layers ---- */

DESCRIBED(linear_forward, pen_linear, linear,
          LIST(const void *x, const void *past, void *y), LIST(x, past, y), AT3)
DESCRIBED(linear_backward_input, pen_linear, linear,
          LIST(const void *dy, void *dx), LIST(dy, dx), AT2)
DESCRIBED(linear_backward_weight, pen_linear, linear,
          LIST(const void *x, const void *dy), LIST(x, dy), AT2)
DESCRIBED(embedding_forward, pen_embedding, embedding,
          LIST(const int32_t *ids, void *y), LIST(ids, y), AT2)
DESCRIBED(embedding_backward, pen_embedding, embedding,
          LIST(const int32_t *ids, const void *dy), LIST(ids, dy), AT2)
DESCRIBED(norm_forward, pen_norm, norm,
          LIST(const void *x, void *y, void *mean, void *rstd),
          LIST(x, y, mean, rstd), AT4)
DESCRIBED(norm_backward_input, pen_norm, norm,
          LIST(const void *x, const void *mean, const void *rstd,
               const void *dy, const void *past, void *dx),
          LIST(x, mean, rstd, dy, past, dx), AT6)
DESCRIBED(norm_backward_weight, pen_norm, norm,
          LIST(const void *x, const void *mean, const void *rstd,
               const void *dy),
          LIST(x, mean, rstd, dy), AT4)
DESCRIBED(swiglu_forward, pen_swiglu, swiglu,
          LIST(const void *gate, const void *up, void *y), LIST(gate, up, y),
          AT3)
DESCRIBED(swiglu_backward, pen_swiglu, swiglu,
          LIST(const void *gate, const void *up, const void *dy, void *dgate,
               void *dup),
          LIST(gate, up, dy, dgate, dup), AT5)
DESCRIBED(attention_forward, pen_attention, attention,
          LIST(const void *q, const void *k, const void *v, void *out,
               void *lse),
          LIST(q, k, v, out, lse), AT5)
DESCRIBED(attention_backward, pen_attention, attention,
          LIST(const void *q, const void *k, const void *v, const void *out,
               const void *lse, const void *dout, void *dq, void *dk, void *dv),
          LIST(q, k, v, out, lse, dout, dq, dk, dv), AT9)
DESCRIBED(convolution_forward, pen_convolution, convolution,
          LIST(const void *x, void *y), LIST(x, y), AT2)
DESCRIBED(convolution_backward_input, pen_convolution, convolution,
          LIST(const void *dy, void *dx), LIST(dy, dx), AT2)
DESCRIBED(convolution_backward_weight, pen_convolution, convolution,
          LIST(const void *x, const void *dy), LIST(x, dy), AT2)
DESCRIBED(pool_forward, pen_pool, pool, LIST(const void *x, void *y),
          LIST(x, y), AT2)
DESCRIBED(pool_backward, pen_pool, pool,
          LIST(const void *x, const void *dy, void *dx), LIST(x, dy, dx), AT3)
DESCRIBED(batch_norm_forward, pen_batch_norm, batch_norm,
          LIST(const void *x, const void *mean, const void *rstd, void *y),
          LIST(x, mean, rstd, y), AT4)
DESCRIBED(batch_norm_backward_input, pen_batch_norm, batch_norm,
          LIST(const void *x, const void *mean, const void *rstd,
               const void *dy, void *dx),
          LIST(x, mean, rstd, dy, dx), AT5)
DESCRIBED(batch_norm_backward_weight, pen_batch_norm, batch_norm,
          LIST(const void *x, const void *mean, const void *rstd,
               const void *dy),
          LIST(x, mean, rstd, dy), AT4)

COUNTED(gelu_forward, LIST(const void *x, void *y), LIST(x, y), AT2)
COUNTED(gelu_backward, LIST(const void *x, const void *dy, void *dx),
        LIST(x, dy, dx), AT3)
COUNTED(relu_forward, LIST(const void *x, void *y), LIST(x, y), AT2)
COUNTED(relu_backward, LIST(const void *y, const void *dy, void *dx),
        LIST(y, dy, dx), AT3)
COUNTED(add, LIST(const void *a, const void *b, void *sum), LIST(a, b, sum),
        AT3)

/* Descriptions with addresses in them get those of the worker, too. */
DESCRIBED(rotary_forward, pen_rotary, rotary, LIST(void *x), LIST(x), AT1)
DESCRIBED(rotary_backward, pen_rotary, rotary, LIST(void *dx), LIST(dx), AT1)
DESCRIBED(batch_norm_measure, pen_batch_norm, batch_norm,
          LIST(const void *x, void *mean, void *rstd), LIST(x, mean, rstd), AT3)
DESCRIBED(batch_norm_recall, pen_batch_norm, batch_norm,
          LIST(void *mean, void *rstd), LIST(mean, rstd), AT2)

static struct pen_rotary reached_rotary(struct pen_engine *engine,
                                        const struct pen_rotary *rotary)
{
    struct pen_rotary reached = *rotary;
    reached.cosines = pen__distant_reach(engine, rotary->cosines);
    reached.sines = pen__distant_reach(engine, rotary->sines);
    return reached;
}

static void turn_forward(struct pen_engine *engine,
                         const struct pen_rotary *rotary, void *x)
{
    struct pen_rotary reached = reached_rotary(engine, rotary);
    rotary_forward(engine, &reached, x);
}

static void turn_backward(struct pen_engine *engine,
                          const struct pen_rotary *rotary, void *dx)
{
    struct pen_rotary reached = reached_rotary(engine, rotary);
    rotary_backward(engine, &reached, dx);
}

static struct pen_batch_norm reached_norm(struct pen_engine *engine,
                                          const struct pen_batch_norm *norm)
{
    struct pen_batch_norm reached = *norm;
    reached.running_mean = pen__distant_reach(engine, norm->running_mean);
    reached.running_variance =
        pen__distant_reach(engine, norm->running_variance);
    return reached;
}

static void measure(struct pen_engine *engine,
                    const struct pen_batch_norm *norm, const void *x,
                    void *mean, void *rstd)
{
    struct pen_batch_norm reached = reached_norm(engine, norm);
    batch_norm_measure(engine, &reached, x, mean, rstd);
}

static void recall(struct pen_engine *engine, const struct pen_batch_norm *norm,
                   void *mean, void *rstd)
{
    struct pen_batch_norm reached = reached_norm(engine, norm);
    batch_norm_recall(engine, &reached, mean, rstd);
}

static void run_cross_entropy(struct pen_engine *inner,
                              const struct pen__command *c)
{
    inner->ops->cross_entropy(inner, &c->about.entropy, c->at[0], c->at[1],
                              c->number != 0, c->at[2]);
}

/* NOLINTBEGIN(readability-non-const-parameter): the queue writes the loss. */
static void cross_entropy(struct pen_engine *engine,
                          const struct pen_cross_entropy *entropy,
                          const int32_t *targets, void *logits,
                          bool with_gradient, double *loss)
/* NOLINTEND(readability-non-const-parameter) */
{
    const void *const given[] = {targets, logits, loss};
    struct pen__command *c = pen__distant_begin(engine, run_cross_entropy);
    c->about.entropy = *entropy;
    c->number = with_gradient;
    reach_all(engine, c, given, 3);
    pen__distant_put(engine);
}

DESCRIBED(entropy_measure, pen_cross_entropy, entropy,
          LIST(const int32_t *targets, const void *logits, void *stats),
          LIST(targets, logits, stats), AT3)
COUNTED(entropy_join, LIST(const void *from, void *stats), LIST(from, stats),
        AT2)

static void run_entropy_finish(struct pen_engine *inner,
                               const struct pen__command *c)
{
    inner->ops->entropy_finish(inner, &c->about.entropy, c->at[0], c->at[1],
                               c->at[2], c->number != 0, c->at[3]);
}

/* NOLINTBEGIN(readability-non-const-parameter): the queue writes the loss. */
static void entropy_finish(struct pen_engine *engine,
                           const struct pen_cross_entropy *entropy,
                           const int32_t *targets, const void *stats,
                           void *logits, bool with_gradient, double *loss)
/* NOLINTEND(readability-non-const-parameter) */
{
    const void *const given[] = {targets, stats, logits, loss};
    struct pen__command *c = pen__distant_begin(engine, run_entropy_finish);
    c->about.entropy = *entropy;
    c->number = with_gradient;
    reach_all(engine, c, given, 4);
    pen__distant_put(engine);
}

/* ---- set-up ---- */

#define BYTES(name)                                                            \
    static size_t name(const struct pen_engine *engine)                        \
    {                                                                          \
        return inner_of(engine)->ops->name(inner_of(engine));                  \
    }

BYTES(memory_bytes)
BYTES(scratch_bytes)
BYTES(passing_bytes)

/* The queue is empty before each of these. */
#define SET_UP(name, parameters, arguments)                                    \
    static pen_status name(struct pen_engine *engine, parameters,              \
                           struct pen_text *why)                               \
    {                                                                          \
        pen__distant_drain(engine);                                            \
        return inner_of(engine)->ops->name(inner_of(engine), arguments, why);  \
    }

SET_UP(parameter_add_moments,
       LIST(struct pen_parameter *parameter, int moments),
       LIST(parameter, moments))
SET_UP(parameter_add_copy, struct pen_parameter *parameter, parameter)
SET_UP(gradient_add_second, struct pen_parameter *parameter, parameter)
SET_UP(gradient_place, LIST(struct pen_parameter *parameter, void *at),
       LIST(parameter, pen__distant_reach(engine, at)))
SET_UP(value_place, LIST(struct pen_parameter *parameter, void *at),
       LIST(parameter, pen__distant_reach(engine, at)))
SET_UP(linear_prepare, const struct pen_linear *linear, linear)
SET_UP(muon_prepare, LIST(size_t rows, size_t columns), LIST(rows, columns))
SET_UP(attention_prepare, const struct pen_attention *attention, attention)
SET_UP(convolution_prepare, const struct pen_convolution *convolution,
       convolution)

/* Its parameters are those of the reference engine, which the host never
 * looks into. */
static pen_status parameter_create(struct pen_engine *engine,
                                   const struct pen_parameter_shape *shape,
                                   struct pen_text *why,
                                   struct pen_parameter **out)
{
    pen__distant_drain(engine);
    return inner_of(engine)->ops->parameter_create(inner_of(engine), shape, why,
                                                   out);
}

static void parameter_free(struct pen_engine *engine,
                           struct pen_parameter *parameter)
{
    pen__distant_drain(engine);
    inner_of(engine)->ops->parameter_free(inner_of(engine), parameter);
}

static size_t value_bytes(const struct pen_engine *engine,
                          const struct pen_parameter *parameter)
{
    return inner_of(engine)->ops->value_bytes(inner_of(engine), parameter);
}

static void parameter_import(struct pen_engine *engine,
                             struct pen_parameter *parameter,
                             enum pen_parameter_part part,
                             enum pen_parameter_order order, const void *plain)
{
    pen__distant_drain(engine);
    inner_of(engine)->ops->parameter_import(inner_of(engine), parameter, part,
                                            order, plain);
}

static void parameter_export(struct pen_engine *engine,
                             struct pen_parameter *parameter,
                             enum pen_parameter_part part,
                             enum pen_parameter_order order, void *plain)
{
    pen__distant_drain(engine);
    inner_of(engine)->ops->parameter_export(inner_of(engine), parameter, part,
                                            order, plain);
}

/* parameter_shape is the reference engine's: see distant.c. */
const struct pen_engine_ops pen__distant_ops = {
    .name = "distant",
    .has_chunks = true,
    .free = pen__distant_free,
    .take = pen__distant_take,
    .give = pen__distant_give,
    .copy = copy,
    .mark = pen__distant_mark,
    .is_reached = pen__distant_is_reached,
    .fault = pen__distant_fault,
    .memory_bytes = memory_bytes,
    .scratch_bytes = scratch_bytes,
    .passing_bytes = passing_bytes,
    .parameter_create = parameter_create,
    .parameter_free = parameter_free,
    .parameter_add_moments = parameter_add_moments,
    .parameter_add_copy = parameter_add_copy,
    .parameter_swap = parameter_swap,
    .parameter_put = parameter_put,
    .parameter_import = parameter_import,
    .parameter_export = parameter_export,
    .parameter_read = parameter_read,
    .parameter_write = parameter_write,
    .parameter_value_changed = parameter_value_changed,
    .gradient_clear = gradient_clear,
    .gradient_place = gradient_place,
    .value_bytes = value_bytes,
    .value_place = value_place,
    .gradient_add_second = gradient_add_second,
    .gradient_swap = gradient_swap,
    .gradient_add_rows = gradient_add_rows,
    .gradient_sum_squares = gradient_sum_squares,
    .adamw_step = adamw_step,
    .sgd_step = sgd_step,
    .muon_prepare = muon_prepare,
    .muon_step = muon_step,
    .linear_prepare = linear_prepare,
    .linear_forward = linear_forward,
    .linear_backward_input = linear_backward_input,
    .linear_backward_weight = linear_backward_weight,
    .embedding_forward = embedding_forward,
    .embedding_backward = embedding_backward,
    .norm_forward = norm_forward,
    .norm_backward_input = norm_backward_input,
    .norm_backward_weight = norm_backward_weight,
    .gelu_forward = gelu_forward,
    .gelu_backward = gelu_backward,
    .swiglu_forward = swiglu_forward,
    .swiglu_backward = swiglu_backward,
    .rotary_forward = turn_forward,
    .rotary_backward = turn_backward,
    .attention_prepare = attention_prepare,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .cross_entropy = cross_entropy,
    .entropy_measure = entropy_measure,
    .entropy_join = entropy_join,
    .entropy_finish = entropy_finish,
    .add = add,
    .relu_forward = relu_forward,
    .relu_backward = relu_backward,
    .convolution_prepare = convolution_prepare,
    .convolution_forward = convolution_forward,
    .convolution_backward_input = convolution_backward_input,
    .convolution_backward_weight = convolution_backward_weight,
    .pool_forward = pool_forward,
    .pool_backward = pool_backward,
    .batch_norm_measure = measure,
    .batch_norm_recall = recall,
    .batch_norm_forward = batch_norm_forward,
    .batch_norm_backward_input = batch_norm_backward_input,
    .batch_norm_backward_weight = batch_norm_backward_weight,
};
