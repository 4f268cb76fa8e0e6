/* The operations of a text model, at its shapes. */
#include "profiler/attempt.h"

#include <math.h>

#define OPS (attempt->engine->ops)
#define ENGINE (attempt->engine)

/* Arrays by number, in the order in which set_up() takes them. */
static void *array(const struct pen__attempt *attempt, int number)
{
    return attempt->arrays[number].at;
}

static void keep_elements(struct pen__attempt *attempt, const void *at,
                          size_t count)
{
    pen__attempt_keep(attempt, at, count, ENGINE->dtype);
}

static void keep_stats(struct pen__attempt *attempt, const void *at,
                       size_t count)
{
    pen__attempt_keep(attempt, at, count, pen_precision_master(ENGINE->dtype));
}

/* ---- products: x, dy, y, dx ---- */

static void set_up_linear(struct pen__attempt *attempt)
{
    const struct pen__case *it = attempt->it;
    struct pen_linear *linear = &attempt->of.linear;
    pen__attempt_input(attempt, it->rows * it->in);
    pen__attempt_input(attempt, it->rows * it->out);
    pen__attempt_output(attempt, it->rows * it->out);
    pen__attempt_output(attempt, it->rows * it->in);
    linear->rows = it->rows;
    linear->weight =
        pen__attempt_parameter(attempt, PEN_PARAMETER_DENSE, it->out, it->in);
    linear->bias =
        it->has_bias
            ? pen__attempt_parameter(attempt, PEN_PARAMETER_VECTORS, 1, it->out)
            : NULL;
    if (attempt->status == PEN_OK)
        attempt->status = OPS->linear_prepare(ENGINE, linear, NULL);
    attempt->flops = 2.0 * (double)it->rows * (double)it->in * (double)it->out;
}

static void set_up_forward(struct pen__attempt *attempt)
{
    set_up_linear(attempt);
    keep_elements(attempt, array(attempt, 2),
                  attempt->it->rows * attempt->it->out);
}

static void set_up_input(struct pen__attempt *attempt)
{
    set_up_linear(attempt);
    keep_elements(attempt, array(attempt, 3),
                  attempt->it->rows * attempt->it->in);
}

static void set_up_weight(struct pen__attempt *attempt)
{
    set_up_linear(attempt);
    pen__attempt_keep_part(attempt, attempt->of.linear.weight,
                           PEN_PART_GRADIENT);
    pen__attempt_keep_part(attempt, attempt->of.linear.bias, PEN_PART_GRADIENT);
}

static void call_forward(struct pen__attempt *attempt)
{
    OPS->linear_forward(ENGINE, &attempt->of.linear, array(attempt, 0), NULL,
                        array(attempt, 2));
}

static void call_input(struct pen__attempt *attempt)
{
    OPS->linear_backward_input(ENGINE, &attempt->of.linear, array(attempt, 1),
                               array(attempt, 3));
}

static void call_weight(struct pen__attempt *attempt)
{
    OPS->linear_backward_weight(ENGINE, &attempt->of.linear, array(attempt, 0),
                                array(attempt, 1));
}

/* ---- norms: x, dy, y, dx, mean, rstd ---- */

static void set_up_norm(struct pen__attempt *attempt)
{
    const struct pen__case *it = attempt->it;
    const struct pen_model *model = it->options->model;
    bool is_layer = model->norm == PEN_MODEL_NORM_LAYER;
    size_t count = it->rows * it->in;
    pen__attempt_input(attempt, count);
    pen__attempt_input(attempt, count);
    pen__attempt_output(attempt, count);
    pen__attempt_output(attempt, count);
    pen__attempt_stats(attempt, it->rows);
    pen__attempt_stats(attempt, it->rows);
    attempt->of.norm = (struct pen_norm){
        .kind = is_layer ? PEN_NORM_LAYER : PEN_NORM_RMS,
        .rows = it->rows,
        .width = it->in,
        .epsilon = model->norm_eps,
        .gain =
            pen__attempt_parameter(attempt, PEN_PARAMETER_VECTORS, 1, it->in),
        .bias = is_layer ? pen__attempt_parameter(
                               attempt, PEN_PARAMETER_VECTORS, 1, it->in)
                         : NULL};
    keep_elements(attempt, array(attempt, 2), count);
    keep_elements(attempt, array(attempt, 3), count);
    keep_stats(attempt, array(attempt, 5), it->rows);
    pen__attempt_keep_part(attempt, attempt->of.norm.gain, PEN_PART_GRADIENT);
    pen__attempt_keep_part(attempt, attempt->of.norm.bias, PEN_PART_GRADIENT);
}

static void call_norm(struct pen__attempt *attempt)
{
    const struct pen_norm *norm = &attempt->of.norm;
    void *x = array(attempt, 0), *dy = array(attempt, 1);
    void *mean = array(attempt, 4), *rstd = array(attempt, 5);
    OPS->norm_forward(ENGINE, norm, x, array(attempt, 2), mean, rstd);
    OPS->norm_backward_input(ENGINE, norm, x, mean, rstd, dy, NULL,
                             array(attempt, 3));
    OPS->norm_backward_weight(ENGINE, norm, x, mean, rstd, dy);
}

/* ---- activations: x, dy, y, dx ---- */

static void set_up_gelu(struct pen__attempt *attempt)
{
    size_t count = attempt->it->rows * attempt->it->in;
    pen__attempt_input(attempt, count);
    pen__attempt_input(attempt, count);
    keep_elements(attempt, pen__attempt_output(attempt, count), count);
    keep_elements(attempt, pen__attempt_output(attempt, count), count);
}

static void call_gelu(struct pen__attempt *attempt)
{
    size_t count = attempt->it->rows * attempt->it->in;
    OPS->gelu_forward(ENGINE, count, array(attempt, 0), array(attempt, 2));
    OPS->gelu_backward(ENGINE, count, array(attempt, 0), array(attempt, 1),
                       array(attempt, 3));
}

/* Prepares SwiGLU: gate and up are the halves of a row. */
static void set_up_swiglu(struct pen__attempt *attempt)
{
    size_t rows = attempt->it->rows, width = attempt->it->in;
    attempt->of.swiglu = (struct pen_swiglu){rows, width, 2 * width};
    pen__attempt_input(attempt, 2 * rows * width);
    pen__attempt_input(attempt, rows * width);
    keep_elements(attempt, pen__attempt_output(attempt, rows * width),
                  rows * width);
    keep_elements(attempt, pen__attempt_output(attempt, 2 * rows * width),
                  2 * rows * width);
}

static void call_swiglu(struct pen__attempt *attempt)
{
    const struct pen_swiglu *swiglu = &attempt->of.swiglu;
    size_t half = swiglu->width * pen_precision_bytes(ENGINE->dtype);
    char *x = array(attempt, 0), *dx = array(attempt, 3);
    OPS->swiglu_forward(ENGINE, swiglu, x, x + half, array(attempt, 2));
    OPS->swiglu_backward(ENGINE, swiglu, x, x + half, array(attempt, 1), dx,
                         dx + half);
}

/* ---- rotary: x, angles; turned one way and, by tables, back no further ----
 */

static void set_angles(struct pen__attempt *attempt, void *tables, size_t count)
{
    bool is_double = ENGINE->dtype == PEN_PRECISION_F64;
    for (size_t i = 0; i < count && tables != NULL; i++) {
        double angle = 7 * pen_random_unit(&attempt->random);
        float cosine = (float)cos(angle), sine = (float)sin(angle);
        if (is_double) {
            ((double *)tables)[i] = (double)cosine;
            ((double *)tables)[count + i] = (double)sine;
        } else {
            ((float *)tables)[i] = cosine;
            ((float *)tables)[count + i] = sine;
        }
    }
}

static void set_up_rotary(struct pen__attempt *attempt)
{
    const struct pen__case *it = attempt->it;
    const struct pen_model *model = it->options->model;
    size_t stat = pen_precision_bytes(pen_precision_master(ENGINE->dtype));
    size_t angles = it->options->sequence * (model->head_dim / 2);
    char *x = pen__attempt_input(attempt, it->rows * it->in);
    char *dx = pen__attempt_input(attempt, it->rows * it->in);
    char *tables = pen__attempt_stats(attempt, 2 * angles);
    set_angles(attempt, tables, angles);
    attempt->of.rotary = (struct pen_rotary){.rows = it->rows,
                                             .sequence = it->options->sequence,
                                             .heads = it->in / model->head_dim,
                                             .head_size = model->head_dim,
                                             .stride = it->in,
                                             .cosines = tables,
                                             .sines = tables + angles * stat};
    keep_elements(attempt, x, it->rows * it->in);
    keep_elements(attempt, dx, it->rows * it->in);
}

static void call_rotary(struct pen__attempt *attempt)
{
    OPS->rotary_forward(ENGINE, &attempt->of.rotary, array(attempt, 0));
    OPS->rotary_backward(ENGINE, &attempt->of.rotary, array(attempt, 1));
}

/* ---- attention: q k v in one row, dout, out, dqkv, lse ---- */

static void set_up_attention(struct pen__attempt *attempt)
{
    const struct pen__case *it = attempt->it;
    const struct pen_model *model = it->options->model;
    struct pen_attention *attention = &attempt->of.attention;
    size_t width = (size_t)model->num_heads * model->head_dim;
    *attention =
        (struct pen_attention){.batch = it->options->batch,
                               .sequence = it->options->sequence,
                               .heads = model->num_heads,
                               .kv_heads = model->num_kv_heads,
                               .head_size = model->head_dim,
                               .window = model->window,
                               .scale = 1 / sqrt((double)model->head_dim),
                               .q_stride = it->in,
                               .kv_stride = it->in};
    pen__attempt_input(attempt, it->rows * it->in);
    pen__attempt_input(attempt, it->rows * width);
    keep_elements(attempt, pen__attempt_output(attempt, it->rows * width),
                  it->rows * width);
    keep_elements(attempt, pen__attempt_output(attempt, it->rows * it->in),
                  it->rows * it->in);
    keep_stats(attempt,
               pen__attempt_stats(attempt, it->rows * model->num_heads),
               it->rows * model->num_heads);
    if (attempt->status == PEN_OK)
        attempt->status = OPS->attention_prepare(ENGINE, attention, NULL);
    /* Two products forward and five backward, each of half a square. */
    attempt->flops =
        7.0 * (double)it->rows * (double)it->options->sequence * (double)width;
}

static void call_attention(struct pen__attempt *attempt)
{
    const struct pen_attention *it = &attempt->of.attention;
    size_t bytes = pen_precision_bytes(ENGINE->dtype);
    size_t k = it->heads * it->head_size * bytes;
    size_t v = k + it->kv_heads * it->head_size * bytes;
    char *x = array(attempt, 0), *dx = array(attempt, 3);
    void *out = array(attempt, 2), *lse = array(attempt, 4);
    OPS->attention_forward(ENGINE, it, x, x + k, x + v, out, lse);
    OPS->attention_backward(ENGINE, it, x, x + k, x + v, out, lse,
                            array(attempt, 1), dx, dx + k, dx + v);
}

/* ---- embedding: ids, dy, y ---- */

static void set_up_embedding(struct pen__attempt *attempt)
{
    const struct pen__case *it = attempt->it;
    struct pen_embedding *embedding = &attempt->of.embedding;
    pen__attempt_ids(attempt, it->rows, it->out);
    pen__attempt_input(attempt, it->rows * it->in);
    keep_elements(attempt, pen__attempt_output(attempt, it->rows * it->in),
                  it->rows * it->in);
    *embedding = (struct pen_embedding){
        .rows = it->rows,
        .sequence = it->options->sequence,
        .tokens = pen__attempt_parameter(attempt, PEN_PARAMETER_VECTORS,
                                         it->out, it->in),
        .positions = it->has_bias ? pen__attempt_parameter(
                                        attempt, PEN_PARAMETER_VECTORS,
                                        it->options->sequence, it->in)
                                  : NULL};
    pen__attempt_keep_part(attempt, embedding->tokens, PEN_PART_GRADIENT);
    pen__attempt_keep_part(attempt, embedding->positions, PEN_PART_GRADIENT);
}

static void call_embedding(struct pen__attempt *attempt)
{
    const struct pen_embedding *embedding = &attempt->of.embedding;
    OPS->embedding_forward(ENGINE, embedding, array(attempt, 0),
                           array(attempt, 2));
    OPS->embedding_backward(ENGINE, embedding, array(attempt, 0),
                            array(attempt, 1));
}

/* ---- loss: logits, targets, loss ---- */

static void set_up_entropy(struct pen__attempt *attempt)
{
    const struct pen__case *it = attempt->it;
    keep_elements(attempt, pen__attempt_input(attempt, it->rows * it->in),
                  it->rows * it->in);
    pen__attempt_ids(attempt, it->rows, it->in);
    pen__attempt_keep(attempt, pen__attempt_number(attempt), 1,
                      PEN_PRECISION_F64);
    attempt->of.entropy = (struct pen_cross_entropy){
        .rows = it->rows, .classes = it->in, .ignore = -1, .count = 1};
}

static void call_entropy(struct pen__attempt *attempt)
{
    OPS->cross_entropy(ENGINE, &attempt->of.entropy, array(attempt, 1),
                       array(attempt, 0), true, array(attempt, 2));
}

/* ---- sums, and the optimizer on the widest matrix of a block ---- */

static void set_up_add(struct pen__attempt *attempt)
{
    size_t count = attempt->it->rows * attempt->it->in;
    pen__attempt_input(attempt, count);
    pen__attempt_input(attempt, count);
    keep_elements(attempt, pen__attempt_output(attempt, count), count);
}

static void call_add(struct pen__attempt *attempt)
{
    OPS->add(ENGINE, attempt->it->rows * attempt->it->in, array(attempt, 0),
             array(attempt, 1), array(attempt, 2));
}

static void set_up_squares(struct pen__attempt *attempt)
{
    const struct pen__case *it = attempt->it;
    pen__attempt_parameter(attempt, PEN_PARAMETER_DENSE, it->out, it->in);
    pen__attempt_keep(attempt, pen__attempt_number(attempt), 1,
                      PEN_PRECISION_F64);
    attempt->bytes = 4.0 * (double)it->in * (double)it->out;
}

static void call_squares(struct pen__attempt *attempt)
{
    OPS->gradient_sum_squares(ENGINE, attempt->parameters[0],
                              array(attempt, 0));
}

static void set_up_adamw(struct pen__attempt *attempt)
{
    const struct pen__case *it = attempt->it;
    pen__attempt_parameter(attempt, PEN_PARAMETER_DENSE, it->out, it->in);
    for (int part = PEN_PART_VALUE; part <= PEN_PART_MOMENT2; part++)
        if (part != PEN_PART_GRADIENT)
            pen__attempt_keep_part(attempt, attempt->parameters[0],
                                   (enum pen_parameter_part)part);
    /* Four are read, three written. */
    attempt->bytes = 28.0 * (double)it->in * (double)it->out;
}

static void call_adamw(struct pen__attempt *attempt)
{
    const struct pen_adamw adamw = {.learning_rate = 1e-3,
                                    .beta1 = 0.9,
                                    .beta2 = 0.95,
                                    .epsilon = 1e-8,
                                    .weight_decay = 0.1,
                                    .step = 3,
                                    .gradient_scale = 0.5};
    OPS->adamw_step(ENGINE, attempt->parameters[0], &adamw);
}

/* ---- the list ---- */

struct list {
    const struct pen_examine_options *options;
    struct pen__case *out;
    size_t count;
};

static void add(struct list *list, struct pen__case it)
{
    it.options = list->options;
    if (it.rows == 0)
        it.rows = list->options->batch * list->options->sequence;
    list->out[list->count++] = it;
}

/* rows: 0 for one of each token. */
static void add_product_of(struct list *list, const char *const names[3],
                           size_t rows, size_t in, size_t out, bool has_bias)
{
    static const struct {
        void (*set_up)(struct pen__attempt *attempt);
        void (*call)(struct pen__attempt *attempt);
    } passes[3] = {{set_up_forward, call_forward},
                   {set_up_input, call_input},
                   {set_up_weight, call_weight}};
    for (int i = 0; i < 3; i++)
        add(list, (struct pen__case){.name = names[i],
                                     .set_up = passes[i].set_up,
                                     .call = passes[i].call,
                                     .rows = rows,
                                     .in = in,
                                     .out = out,
                                     .has_bias = has_bias});
}

static void add_product(struct list *list, const char *const names[3],
                        size_t in, size_t out, bool has_bias)
{
    add_product_of(list, names, 0, in, out, has_bias);
}

#define NAMES(what)                                                            \
    (const char *const[3])                                                     \
    {                                                                          \
        what ", forward", what ", input", what ", weight"                      \
    }

static void add_rows(struct list *list, const char *name,
                     void (*set_up)(struct pen__attempt *),
                     void (*call)(struct pen__attempt *), size_t in, size_t out)
{
    add(list, (struct pen__case){.name = name,
                                 .set_up = set_up,
                                 .call = call,
                                 .in = in,
                                 .out = out});
}

static void add_mlp(struct list *list)
{
    const struct pen_model *model = list->options->model;
    bool is_gated = model->activation == PEN_ACTIVATION_SILU;
    size_t hidden = model->hidden, wide = model->intermediate;
    add_product(list, NAMES("first of MLP"), hidden, is_gated ? 2 * wide : wide,
                model->has_mlp_bias);
    if (is_gated)
        add_rows(list, "swiglu", set_up_swiglu, call_swiglu, wide, 0);
    else
        add_rows(list, "gelu", set_up_gelu, call_gelu, wide, 0);
    add_product(list, NAMES("second of MLP"), wide, hidden,
                model->has_mlp_bias);
}

/* An expert gets the rows of a mean one. */
static void add_experts(struct list *list)
{
    const struct pen_model *model = list->options->model;
    size_t hidden = model->hidden, wide = model->expert_intermediate;
    size_t tokens = list->options->batch * list->options->sequence;
    size_t rows = (tokens * model->experts_per_token + model->num_experts - 1) /
                  model->num_experts;
    add_rows(list, "router", pen__set_up_router, pen__call_router, hidden,
             model->num_experts);
    add_rows(list, "rows of experts", pen__set_up_slots, pen__call_slots,
             hidden, 0);
    add_product_of(list, NAMES("first of an expert"), rows, hidden, 2 * wide,
                   model->has_expert_bias);
    if (model->gate_limit > 0)
        add_rows(list, "clamped gates", pen__set_up_clamped, pen__call_clamped,
                 wide, 0);
    else
        add_rows(list, "gates of experts", set_up_swiglu, call_swiglu, wide, 0);
    add_product_of(list, NAMES("second of an expert"), rows, wide, hidden,
                   false);
}

/* At most, of a side: the plain loops take its third power. */
enum { MUON_SIDE = 256 };

static void add_muon(struct list *list)
{
    size_t side = list->options->model->hidden;
    side = side < MUON_SIDE ? side : MUON_SIDE;
    add(list, (struct pen__case){.name = "muon",
                                 .set_up = pen__set_up_muon,
                                 .call = pen__call_muon,
                                 .rows = side,
                                 .in = side});
}

static void add_mlps(struct list *list)
{
    const struct pen_model *model = list->options->model;
    uint32_t num_sparse = 0;
    for (uint32_t block = 0; block < model->num_blocks; block++)
        num_sparse += pen_model_block_is_sparse(model, block);
    if (num_sparse < model->num_blocks)
        add_mlp(list);
    if (num_sparse > 0)
        add_experts(list);
}

size_t pen__examine_cases(const struct pen_examine_options *options,
                          struct pen__case *out)
{
    const struct pen_model *model = options->model;
    struct list list = {.options = options, .out = out};
    bool has_positions = model->rope.kind == PEN_ROPE_NONE;
    size_t hidden = model->hidden, wide = model->intermediate;
    size_t q = (size_t)model->num_heads * model->head_dim;
    size_t qkv = q + 2 * (size_t)model->num_kv_heads * model->head_dim;
    add(&list, (struct pen__case){.name = "embedding",
                                  .set_up = set_up_embedding,
                                  .call = call_embedding,
                                  .in = hidden,
                                  .out = model->vocab,
                                  .has_bias = has_positions});
    add_rows(&list, "norm", set_up_norm, call_norm, hidden, 0);
    add_product(&list, NAMES("queries, keys, values"), hidden, qkv,
                model->has_qkv_bias);
    if (!has_positions)
        add_rows(&list, "rotary", set_up_rotary, call_rotary, q, 0);
    add_rows(&list, "attention", set_up_attention, call_attention, qkv, 0);
    if (model->has_attention_sinks)
        add_rows(&list, "sinks", pen__set_up_sinks, pen__call_sinks, q, 0);
    add_product(&list, NAMES("attention output"), q, hidden,
                model->has_attention_out_bias);
    add_rows(&list, "add", set_up_add, call_add, hidden, 0);
    add_mlps(&list);
    add_product(&list, NAMES("head"), hidden, model->vocab, false);
    add_rows(&list, "cross entropy", set_up_entropy, call_entropy, model->vocab,
             0);
    add_rows(&list, "sum of squares", set_up_squares, call_squares, hidden,
             wide);
    add_rows(&list, "adamw", set_up_adamw, call_adamw, hidden, wide);
    add_muon(&list);
    return list.count;
}
