/* The operations of an engine, each as a trial: forward and both backwards. */
#include "support/engine.h"

#include <math.h>
#include <string.h>

#define OPS (trial->engine->ops)
#define ENGINE (trial->engine)

/* The gradient is added twice: once would hide an engine that overwrites. */
static void run_linear(struct trial *trial)
{
    size_t rows = trial_size(trial);
    size_t inputs = trial_size(trial);
    size_t outputs = trial_size(trial);
    bool has_bias = pen_random_below(&trial->random, 2);
    bool has_add = pen_random_below(&trial->random, 2);
    int x_id, w_id, bias_id = -1, add_id = -1;
    void *x = trial_input(trial, rows * inputs, &x_id);
    struct pen_linear linear = {.rows = rows};
    linear.weight =
        trial_parameter(trial, PEN_PARAMETER_DENSE, outputs, inputs, &w_id);
    if (has_bias)
        linear.bias =
            trial_parameter(trial, PEN_PARAMETER_VECTORS, 1, outputs, &bias_id);
    void *add = has_add ? trial_input(trial, rows * outputs, &add_id) : NULL;
    void *dy = trial_slopes(trial, rows * outputs);
    void *y = trial_room(trial, rows * outputs);
    void *dx = trial_room(trial, rows * inputs);
    trial_prepare(trial, &linear);
    OPS->linear_forward(ENGINE, &linear, x, add, y);
    trial_output(trial, "y", rows * outputs, y, dy);
    OPS->linear_backward_input(ENGINE, &linear, dy, dx);
    trial_gradient(trial, "dx", x_id, rows * inputs, dx);
    OPS->linear_backward_weight(ENGINE, &linear, x, dy);
    trial_parameter_part(trial, "dw", w_id, linear.weight, PEN_PART_GRADIENT);
    if (has_bias)
        trial_parameter_part(trial, "dbias", bias_id, linear.bias,
                             PEN_PART_GRADIENT);
    OPS->linear_backward_weight(ENGINE, &linear, x, dy);
    trial_parameter_part(trial, "2 dw", -1, linear.weight, PEN_PART_GRADIENT);
    double *squares = trial_double(trial);
    OPS->gradient_sum_squares(ENGINE, linear.weight, squares);
    trial_number(trial, "|2 dw|^2", squares);
}

static void run_embedding(struct trial *trial)
{
    size_t sequence = trial_size(trial);
    size_t rows = sequence * (1 + pen_random_below(&trial->random, 3));
    size_t width = trial_size(trial);
    size_t words = trial_size(trial);
    bool is_tied = pen_random_below(&trial->random, 2);
    int tokens_id, positions_id = -1;
    struct pen_embedding embedding = {.rows = rows, .sequence = sequence};
    embedding.tokens = trial_parameter(
        trial, is_tied ? PEN_PARAMETER_DENSE : PEN_PARAMETER_VECTORS, words,
        width, &tokens_id);
    if (pen_random_below(&trial->random, 2))
        embedding.positions = trial_parameter(trial, PEN_PARAMETER_VECTORS,
                                              sequence, width, &positions_id);
    /* Some words are before or behind those of the table. */
    embedding.first = (int32_t)pen_random_below(&trial->random, 3);
    int32_t *ids = trial_ids(trial, rows, words + 4);
    void *dy = trial_slopes(trial, rows * width);
    void *y = trial_room(trial, rows * width);
    OPS->embedding_forward(ENGINE, &embedding, ids, y);
    trial_output(trial, "y", rows * width, y, dy);
    OPS->embedding_backward(ENGINE, &embedding, ids, dy);
    trial_parameter_part(trial, "dtokens", tokens_id, embedding.tokens,
                         PEN_PART_GRADIENT);
    if (embedding.positions != NULL)
        trial_parameter_part(trial, "dpositions", positions_id,
                             embedding.positions, PEN_PART_GRADIENT);
}

/* Rows gathered beside a table join its gradient; some of them twice. */
static void run_add_rows(struct trial *trial)
{
    size_t rows = trial_size(trial);
    size_t width = trial_size(trial);
    size_t words = trial_size(trial);
    int unused;
    struct pen_embedding tied = {.rows = rows, .sequence = rows};
    struct pen_embedding gathered = tied;
    tied.tokens =
        trial_parameter(trial, PEN_PARAMETER_DENSE, words, width, &unused);
    gathered.tokens =
        trial_parameter(trial, PEN_PARAMETER_VECTORS, rows + 1, width, &unused);
    int32_t *ids = trial_ids(trial, rows, rows);
    int32_t first = (int32_t)pen_random_below(&trial->random, 3);
    int32_t *to = trial_ids(trial, rows, words + 4);
    OPS->embedding_backward(ENGINE, &tied, to,
                            trial_slopes(trial, rows * width));
    OPS->embedding_backward(ENGINE, &gathered, ids,
                            trial_slopes(trial, rows * width));
    OPS->gradient_add_rows(
        ENGINE, tied.tokens, first, rows, to,
        OPS->parameter_read(ENGINE, gathered.tokens, PEN_PART_GRADIENT, 0,
                            rows * width,
                            trial_stat_room(trial, rows * width)));
    trial_parameter_part(trial, "dtokens", -1, tied.tokens, PEN_PART_GRADIENT);
}

static void run_norm(struct trial *trial, enum pen_norm_kind kind)
{
    size_t rows = trial_size(trial);
    /* Of two or three numbers a norm leaves little but rounding errors. */
    size_t width = 8 + trial_size(trial);
    size_t count = rows * width;
    int x_id, gain_id, bias_id = -1;
    struct pen_norm norm = {kind, rows, width, 1e-5, NULL, NULL};
    void *x = trial_input(trial, count, &x_id);
    norm.gain =
        trial_parameter(trial, PEN_PARAMETER_VECTORS, 1, width, &gain_id);
    if (kind == PEN_NORM_LAYER)
        norm.bias =
            trial_parameter(trial, PEN_PARAMETER_VECTORS, 1, width, &bias_id);
    void *dy = trial_slopes(trial, count);
    void *past = trial_slopes(trial, count);
    void *y = trial_room(trial, count);
    void *dx = trial_room(trial, count);
    void *mean = trial_stat_room(trial, rows);
    void *rstd = trial_stat_room(trial, rows);
    OPS->norm_forward(ENGINE, &norm, x, y, mean, rstd);
    trial_output(trial, "y", count, y, dy);
    OPS->norm_backward_input(ENGINE, &norm, x, mean, rstd, dy, NULL, dx);
    trial_gradient(trial, "dx", x_id, count, dx);
    OPS->norm_backward_weight(ENGINE, &norm, x, mean, rstd, dy);
    trial_parameter_part(trial, "dgain", gain_id, norm.gain, PEN_PART_GRADIENT);
    if (kind == PEN_NORM_LAYER)
        trial_parameter_part(trial, "dbias", bias_id, norm.bias,
                             PEN_PART_GRADIENT);
    OPS->norm_backward_input(ENGINE, &norm, x, mean, rstd, dy, past, past);
    trial_gradient(trial, "dx + past", -1, count, past);
}

static void run_layer_norm(struct trial *trial)
{
    run_norm(trial, PEN_NORM_LAYER);
}

static void run_rms_norm(struct trial *trial)
{
    run_norm(trial, PEN_NORM_RMS);
}

static void run_gelu(struct trial *trial)
{
    size_t count = trial_size(trial) * 3;
    int x_id;
    void *x = trial_input(trial, count, &x_id);
    void *dy = trial_slopes(trial, count);
    void *y = trial_room(trial, count);
    OPS->gelu_forward(ENGINE, count, x, y);
    trial_output(trial, "y", count, y, dy);
    OPS->gelu_backward(ENGINE, count, x, dy, dy);
    trial_gradient(trial, "dx", x_id, count, dy);
}

/* gate and up are the two halves of one wide row. */
static void run_swiglu(struct trial *trial)
{
    size_t rows = trial_size(trial);
    size_t width = trial_size(trial);
    size_t bytes = pen_precision_bytes(ENGINE->dtype);
    struct pen_swiglu swiglu = {rows, width, 2 * width};
    int x_id;
    char *x = trial_input(trial, rows * 2 * width, &x_id);
    void *dy = trial_slopes(trial, rows * width);
    void *y = trial_room(trial, rows * width);
    char *dx = trial_room(trial, rows * 2 * width);
    OPS->swiglu_forward(ENGINE, &swiglu, x, x + width * bytes, y);
    trial_output(trial, "y", rows * width, y, dy);
    OPS->swiglu_backward(ENGINE, &swiglu, x, x + width * bytes, dy, dx,
                         dx + width * bytes);
    trial_gradient(trial, "dx", x_id, rows * 2 * width, dx);
}

/* Tables of the stat type: cosines first, sines behind. */
static void *rotary_tables(struct trial *trial, size_t count)
{
    void *tables = trial_stat_room(trial, 2 * count);
    for (size_t i = 0; i < count; i++) {
        double angle = 7 * pen_random_unit(&trial->random);
        if (ENGINE->dtype == PEN_PRECISION_F64) {
            ((double *)tables)[i] = (double)(float)cos(angle);
            ((double *)tables)[count + i] = (double)(float)sin(angle);
        } else {
            ((float *)tables)[i] = (float)cos(angle);
            ((float *)tables)[count + i] = (float)sin(angle);
        }
    }
    return tables;
}

static void run_rotary(struct trial *trial)
{
    size_t sequence = trial_size(trial);
    size_t heads = 1 + pen_random_below(&trial->random, 3);
    size_t half = 1 + pen_random_below(&trial->random, 20);
    size_t stat = pen_precision_bytes(pen_precision_master(ENGINE->dtype));
    size_t extra = pen_random_below(&trial->random, 4);
    struct pen_rotary rotary = {.rows = 2 * sequence,
                                .sequence = sequence,
                                .heads = heads,
                                .head_size = 2 * half,
                                .stride = heads * 2 * half + extra};
    size_t count = rotary.rows * rotary.stride;
    int x_id;
    void *x = trial_input(trial, count, &x_id);
    void *dy = trial_slopes(trial, count);
    char *tables = rotary_tables(trial, sequence * half);
    rotary.cosines = tables;
    rotary.sines = tables + sequence * half * stat;
    OPS->rotary_forward(ENGINE, &rotary, x);
    trial_output(trial, "y", count, x, dy);
    OPS->rotary_backward(ENGINE, &rotary, dy);
    trial_gradient(trial, "dx", x_id, count, dy);
}

/* q, k and v lie side by side in one row, as a fused product gives them. */
static void run_heads(struct trial *trial, size_t head_size)
{
    struct pen_attention attention = {
        .batch = 1 + pen_random_below(&trial->random, 2),
        .sequence = trial_size(trial),
        .kv_heads = 1 + pen_random_below(&trial->random, 3),
        .head_size = head_size};
    attention.heads =
        attention.kv_heads * (1 + pen_random_below(&trial->random, 3));
    if (pen_random_below(&trial->random, 2))
        attention.window = trial_size(trial);
    attention.scale = 1 / sqrt((double)attention.head_size);
    size_t rows = attention.batch * attention.sequence;
    size_t q_width = attention.heads * attention.head_size;
    size_t kv_width = attention.kv_heads * attention.head_size;
    size_t stride = q_width + 2 * kv_width;
    size_t bytes = pen_precision_bytes(ENGINE->dtype);
    attention.q_stride = attention.kv_stride = stride;
    int x_id;
    char *x = trial_input(trial, rows * stride, &x_id);
    void *dout = trial_slopes(trial, rows * q_width);
    void *out = trial_room(trial, rows * q_width);
    char *dx = trial_room(trial, rows * stride);
    void *lse = trial_stat_room(trial, rows * attention.heads);
    struct pen_text why = PEN_TEXT_EMPTY;
    if (OPS->attention_prepare(ENGINE, &attention, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    char *k = x + q_width * bytes;
    char *v = k + kv_width * bytes;
    OPS->attention_forward(ENGINE, &attention, x, k, v, out, lse);
    trial_output(trial, "out", rows * q_width, out, dout);
    OPS->attention_backward(ENGINE, &attention, x, k, v, out, lse, dout, dx,
                            dx + q_width * bytes,
                            dx + (q_width + kv_width) * bytes);
    trial_gradient(trial, "dqkv", x_id, rows * stride, dx);
}

static void run_attention(struct trial *trial)
{
    run_heads(trial, 1 + pen_random_below(&trial->random, 20));
}

/* Heads of the sizes that models have, which may be computed in another way. */
static void run_wide_attention(struct trial *trial)
{
    run_heads(trial, 32 * (1 + pen_random_below(&trial->random, 4)));
}

static void run_cross_entropy(struct trial *trial)
{
    struct pen_cross_entropy entropy = {.rows = trial_size(trial),
                                        .classes = 1 + trial_size(trial),
                                        .ignore = -100,
                                        .count = 7};
    size_t count = entropy.rows * entropy.classes;
    int x_id;
    void *logits = trial_input(trial, count, &x_id);
    int32_t *targets = trial_ids(trial, entropy.rows, entropy.classes);
    if (entropy.rows > 2)
        targets[1] = entropy.ignore;
    double *alone = trial_double(trial);
    double *loss = trial_double(trial);
    OPS->cross_entropy(ENGINE, &entropy, targets, logits, false, alone);
    OPS->cross_entropy(ENGINE, &entropy, targets, logits, true, loss);
    trial_number(trial, "loss", loss);
    trial->loss = *loss;
    assert_true(*alone == *loss);
    trial_gradient(trial, "dlogits", x_id, count, logits);
}

/* Classes in three pieces, joined in another order than they lie in. */
static void run_cut_entropy(struct trial *trial)
{
    enum { PIECES = 3 };
    static const char *const names[PIECES] = {"dlogits 0", "dlogits 1",
                                              "dlogits 2"};
    struct pen_cross_entropy pieces[PIECES];
    size_t rows = trial_size(trial);
    size_t classes = 0;
    void *logits[PIECES], *stats[PIECES];
    int ids[PIECES];
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = (struct pen_cross_entropy){.rows = rows,
                                               .classes = trial_size(trial),
                                               .first = (int32_t)classes,
                                               .ignore = -100,
                                               .count = 7};
        classes += pieces[i].classes;
        logits[i] = trial_input(trial, rows * pieces[i].classes, &ids[i]);
        stats[i] = trial_stat_room(trial, rows * 3);
    }
    int32_t *targets = trial_ids(trial, rows, classes);
    if (rows > 2)
        targets[1] = pieces[0].ignore;
    double *loss = trial_double(trial);
    for (int i = 0; i < PIECES; i++)
        OPS->entropy_measure(ENGINE, &pieces[i], targets, logits[i], stats[i]);
    OPS->entropy_join(ENGINE, rows, stats[1], stats[2]);
    OPS->entropy_join(ENGINE, rows, stats[0], stats[2]);
    for (int i = 0; i < PIECES; i++)
        OPS->entropy_finish(ENGINE, &pieces[i], targets, stats[2], logits[i],
                            true, i == 1 ? loss : NULL);
    trial_number(trial, "loss", loss);
    trial->loss = *loss;
    for (int i = 0; i < PIECES; i++)
        trial_gradient(trial, names[i], ids[i], rows * pieces[i].classes,
                       logits[i]);
}

static void run_add(struct trial *trial)
{
    size_t count = trial_size(trial) * 3;
    int a_id, b_id;
    void *a = trial_input(trial, count, &a_id);
    void *b = trial_input(trial, count, &b_id);
    void *dy = trial_slopes(trial, count);
    OPS->add(ENGINE, count, a, b, a);
    trial_output(trial, "sum", count, a, dy);
    trial_gradient(trial, "da", a_id, count, dy);
}

/* Three steps of an optimizer, each with a new gradient. */
static void run_optimizer(struct trial *trial, bool is_adamw)
{
    size_t rows = trial_size(trial);
    size_t inputs = trial_size(trial);
    size_t outputs = trial_size(trial);
    int unused;
    struct pen_linear linear = {.rows = rows};
    linear.weight =
        trial_parameter(trial, PEN_PARAMETER_DENSE, outputs, inputs, &unused);
    trial_prepare(trial, &linear);
    void *x = trial_input(trial, rows * inputs, &unused);
    void *y = trial_room(trial, rows * outputs);
    struct pen_adamw adamw = {1e-2, 0.9, 0.95, 1e-8, 0.1, 0, 0.5};
    struct pen_sgd sgd = {1e-2, 0.9, pen_random_below(&trial->random, 2) == 1,
                          0.1, 0.5};
    for (int step = 1; step <= 3; step++) {
        adamw.step = (uint64_t)step;
        void *dy = trial_slopes(trial, rows * outputs);
        OPS->gradient_clear(ENGINE, linear.weight);
        OPS->linear_backward_weight(ENGINE, &linear, x, dy);
        if (is_adamw)
            OPS->adamw_step(ENGINE, linear.weight, &adamw);
        else
            OPS->sgd_step(ENGINE, linear.weight, &sgd);
    }
    trial_parameter_part(trial, "value", -1, linear.weight, PEN_PART_VALUE);
    trial_parameter_part(trial, "first", -1, linear.weight, PEN_PART_MOMENT1);
    trial_parameter_part(trial, "second", -1, linear.weight, PEN_PART_MOMENT2);
    OPS->linear_forward(ENGINE, &linear, x, NULL, y);
    trial_gradient(trial, "y of the new weight", -1, rows * outputs, y);
}

static void run_adamw(struct trial *trial)
{
    run_optimizer(trial, true);
}

static void run_sgd(struct trial *trial)
{
    run_optimizer(trial, false);
}

const struct trial_op trial_ops[] = {
    {"linear", run_linear},
    {"embedding", run_embedding},
    {"add rows", run_add_rows},
    {"layer norm", run_layer_norm},
    {"rms norm", run_rms_norm},
    {"gelu", run_gelu},
    {"swiglu", run_swiglu},
    {"rotary", run_rotary},
    {"attention", run_attention},
    {"attention of wide heads", run_wide_attention},
    {"cross entropy", run_cross_entropy},
    {"cross entropy of pieces", run_cut_entropy},
    {"add", run_add},
    {"adamw", run_adamw},
    {"sgd", run_sgd},
};
const size_t num_trial_ops = sizeof trial_ops / sizeof trial_ops[0];

const struct trial_op *text_trial_op(size_t index)
{
    if (index < num_trial_ops)
        return &trial_ops[index];
    index -= num_trial_ops;
    return index < num_expert_trial_ops ? &expert_trial_ops[index] : NULL;
}
