/*
 * Attention by blocks of queries: products, and kernels between them. The
 * scratch has, one after the other,
 *
 *   scores   [batch][heads][queries][keys], of one block
 *   slopes   the same, in the backward
 *   averages [batch][heads][sequence]
 *   dk, dv   [batch][sequence][kv_heads][head_size], sums of all blocks
 *
 * The heads that share a key's head add to dk and dv one after the other.
 */
#include "engine/device/device.h"

struct parts {
    float *scores;
    float *slopes;
    float *averages;
    float *dk;
    float *dv;
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t num_scores(const struct pen_attention *attention)
{
    return attention->batch * attention->heads *
           smaller(attention->sequence, PEN__QUERIES) * attention->sequence;
}

static size_t num_averages(const struct pen_attention *attention)
{
    return attention->batch * attention->heads * attention->sequence;
}

static size_t num_sums(const struct pen_attention *attention)
{
    return attention->batch * attention->sequence * attention->kv_heads *
           attention->head_size;
}

static struct parts parts_of(struct pen_engine *engine,
                             const struct pen_attention *attention)
{
    struct parts parts = {.scores = pen__device_of(engine)->scratch};
    parts.slopes = parts.scores + num_scores(attention);
    parts.averages = parts.slopes + num_scores(attention);
    parts.dk = parts.averages + num_averages(attention);
    parts.dv = parts.dk + num_sums(attention);
    return parts;
}

static pen_status attention_prepare(struct pen_engine *engine,
                                    const struct pen_attention *attention,
                                    struct pen_text *why)
{
    size_t count = 2 * num_scores(attention) + num_averages(attention) +
                   2 * num_sums(attention);
    return pen__device_need_scratch(
        engine, count * sizeof(float),
        "attention needs; use a smaller --micro-batch-size", why);
}

/* A block of queries: the sizes that its kernels have. */
static struct pen__attention_sizes
block_at(const struct pen_attention *attention, size_t first)
{
    size_t queries = smaller(attention->sequence - first, PEN__QUERIES);
    size_t first_key = attention->window > 0 && first + 1 > attention->window
                           ? first + 1 - attention->window
                           : 0;
    return (struct pen__attention_sizes){
        .batch = (long)attention->batch,
        .sequence = (long)attention->sequence,
        .heads = (long)attention->heads,
        .head_size = (long)attention->head_size,
        .window = (long)attention->window,
        .first_query = (long)first,
        .queries = (long)queries,
        .first_key = (long)first_key,
        .keys = (long)(first + queries - first_key),
        .scale = (float)attention->scale};
}

/* Groups of a kernel that has a group per query of each head. */
static long rows_of(const struct pen__attention_sizes *block)
{
    return block->batch * block->heads * block->queries;
}

/* Matrices of a product, one per head of each sequence (sizes.h). */
struct matrices {
    const void *at;
    long row;
    long depth; /* of a result: not used */
    long batch;
    long head;
    long share;
    int is_master;
};

struct products {
    long rows;
    long columns;
    long depth;
    long heads;
    float scale;
    int is_added;
    struct matrices a;
    struct matrices b;
    struct matrices c;
};

static void multiply(struct pen_engine *engine, long batch,
                     const struct products *p)
{
    const struct pen__product_sizes sizes = {.rows = p->rows,
                                             .columns = p->columns,
                                             .depth = p->depth,
                                             .a_row = p->a.row,
                                             .a_depth = p->a.depth,
                                             .b_row = p->b.row,
                                             .b_depth = p->b.depth,
                                             .c_row = p->c.row,
                                             .heads = p->heads,
                                             .a_batch = p->a.batch,
                                             .a_head = p->a.head,
                                             .a_share = p->a.share,
                                             .b_batch = p->b.batch,
                                             .b_head = p->b.head,
                                             .b_share = p->b.share,
                                             .c_batch = p->c.batch,
                                             .c_head = p->c.head,
                                             .scale = p->scale,
                                             .a_is_master = p->a.is_master,
                                             .b_is_master = p->b.is_master,
                                             .c_is_master = p->c.is_master,
                                             .is_added = p->is_added};
    pen__launch(engine, PEN__KERNEL_product,
                batch * p->heads * pen__groups((size_t)p->rows, PEN__TILE) *
                    pen__groups((size_t)p->columns, PEN__TILE),
                PEN__AT(p->a.at, p->b.at, NULL, NULL, p->c.at), &sizes);
}

/* Element number `first` of an array of elements. */
static const void *element_at(const struct pen_engine *engine, const void *at,
                              size_t first)
{
    return (const char *)at + first * pen_precision_bytes(engine->dtype);
}

/* The scores of a block, or what lies as they do. */
static struct matrices of_scores(const struct pen__attention_sizes *block,
                                 const float *scores)
{
    return (struct matrices){.at = scores,
                             .row = block->keys,
                             .depth = 1,
                             .batch =
                                 block->heads * block->queries * block->keys,
                             .head = block->queries * block->keys,
                             .share = 1,
                             .is_master = 1};
}

/* Heads in rows with a stride, from a row on. */
static struct matrices of_heads(const struct pen_engine *engine,
                                const struct pen__attention_sizes *block,
                                const void *at, size_t stride, long first)
{
    return (struct matrices){.at =
                                 element_at(engine, at, (size_t)first * stride),
                             .row = (long)stride,
                             .depth = 1,
                             .batch = block->sequence * (long)stride,
                             .head = block->head_size,
                             .share = 1};
}

/* The matrices with rows and columns exchanged. */
static struct matrices turned(struct matrices matrices)
{
    long row = matrices.row;
    matrices.row = matrices.depth;
    matrices.depth = row;
    return matrices;
}

/* scores = scale * a b^T: a are the block's queries, b its keys. */
static void score(struct pen_engine *engine,
                  const struct pen__attention_sizes *block,
                  const struct matrices *a, const struct matrices *b,
                  float *scores)
{
    struct products products = {.rows = block->queries,
                                .columns = block->keys,
                                .depth = block->head_size,
                                .heads = block->heads,
                                .scale = block->scale,
                                .a = *a,
                                .b = *b,
                                .c = of_scores(block, scores)};
    multiply(engine, block->batch, &products);
}

/* to = scores * rows: a mean of the rows of keys, for every query. */
static void gather(struct pen_engine *engine,
                   const struct pen__attention_sizes *block,
                   const float *scores, const struct matrices *rows,
                   const struct matrices *to)
{
    struct products products = {.rows = block->queries,
                                .columns = block->head_size,
                                .depth = block->keys,
                                .heads = block->heads,
                                .scale = 1,
                                .a = of_scores(block, scores),
                                .b = turned(*rows),
                                .c = *to};
    multiply(engine, block->batch, &products);
}

/*
 * sums += scores^T * rows, for every key: the heads of a group one after the
 * other.
 */
static void spread(struct pen_engine *engine,
                   const struct pen__attention_sizes *block,
                   const float *scores, const struct matrices *rows,
                   const struct matrices *sums)
{
    long kv_heads = sums->row / block->head_size;
    long group = block->heads / kv_heads;
    struct products products = {.rows = block->keys,
                                .columns = block->head_size,
                                .depth = block->queries,
                                .heads = kv_heads,
                                .scale = 1,
                                .is_added = 1,
                                .a = turned(of_scores(block, scores)),
                                .b = turned(*rows),
                                .c = *sums};
    products.a.head *= group;
    products.b.head *= group;
    for (long i = 0; i < group; i++) {
        products.a.at = scores + i * block->queries * block->keys;
        products.b.at =
            element_at(engine, rows->at, (size_t)(i * block->head_size));
        multiply(engine, block->batch, &products);
    }
}

/* The rows of k or v that a block sees, for all heads of queries. */
static struct matrices of_keys(const struct pen_engine *engine,
                               const struct pen__attention_sizes *block,
                               const void *at,
                               const struct pen_attention *attention)
{
    struct matrices keys =
        of_heads(engine, block, at, attention->kv_stride, block->first_key);
    keys.share = (long)(attention->heads / attention->kv_heads);
    return keys;
}

static void attention_forward(struct pen_engine *engine,
                              const struct pen_attention *attention,
                              const void *q, const void *k, const void *v,
                              void *out, void *lse)
{
    struct parts parts = parts_of(engine, attention);
    size_t width = attention->heads * attention->head_size;
    for (size_t first = 0; first < attention->sequence; first += PEN__QUERIES) {
        const struct pen__attention_sizes block = block_at(attention, first);
        struct matrices queries =
            of_heads(engine, &block, q, attention->q_stride, block.first_query);
        struct matrices keys = of_keys(engine, &block, k, attention);
        struct matrices values = of_keys(engine, &block, v, attention);
        struct matrices to =
            of_heads(engine, &block, out, width, block.first_query);
        score(engine, &block, &queries, &keys, parts.scores);
        pen__launch(engine, PEN__KERNEL_attention_softmax, rows_of(&block),
                    PEN__AT(parts.scores, lse), &block);
        gather(engine, &block, parts.scores, &values, &to);
    }
}

/* Sums of keys or values in float, from the first key of a block on. */
static struct matrices of_sums(
    const struct pen__attention_sizes *block,
    const struct pen_attention *attention,
    /* NOLINTNEXTLINE(readability-non-const-parameter): kernels write there */
    float *sums)
{
    long width = (long)(attention->kv_heads * attention->head_size);
    return (struct matrices){.at = sums + block->first_key * width,
                             .row = width,
                             .batch = block->sequence * width,
                             .head = block->head_size,
                             .share = 1,
                             .is_master = 1};
}

/* The rows that the backward of a block reads and writes. */
struct rows {
    struct matrices q;
    struct matrices k;
    struct matrices v;
    struct matrices dout;
    struct matrices dq;
    struct matrices dk;
    struct matrices dv;
};

/*
 * With p the probabilities: dv += p^T dout, ds = scale p (dout v^T - average),
 * dq = ds k, dk += ds^T q.
 */
static void block_backward(struct pen_engine *engine,
                           const struct pen__attention_sizes *block,
                           const struct parts *parts, const struct rows *rows,
                           const void *lse)
{
    struct pen__attention_sizes unscaled = *block;
    unscaled.scale = 1;
    score(engine, block, &rows->q, &rows->k, parts->scores);
    score(engine, &unscaled, &rows->dout, &rows->v, parts->slopes);
    pen__launch(engine, PEN__KERNEL_attention_slopes, rows_of(block),
                PEN__AT(parts->scores, parts->slopes, lse, parts->averages),
                block);
    gather(engine, block, parts->slopes, &rows->k, &rows->dq);
    spread(engine, block, parts->slopes, &rows->q, &rows->dk);
    spread(engine, block, parts->scores, &rows->dout, &rows->dv);
}

static void round_sums(struct pen_engine *engine,
                       const struct pen_attention *attention, const float *sums,
                       void *to)
{
    const struct pen__attention_sizes sizes = {
        .batch = (long)attention->batch,
        .sequence = (long)attention->sequence,
        .heads = (long)attention->kv_heads,
        .head_size = (long)attention->head_size,
        .stride = (long)attention->kv_stride};
    pen__launch(engine, PEN__KERNEL_attention_round,
                pen__groups(num_sums(attention), PEN__SHARE), PEN__AT(sums, to),
                &sizes);
}

static void attention_backward(struct pen_engine *engine,
                               const struct pen_attention *attention,
                               const void *q, const void *k, const void *v,
                               const void *out, const void *lse,
                               const void *dout, void *dq, void *dk, void *dv)
{
    struct pen__driver *driver = pen__device_of(engine)->driver;
    struct parts parts = parts_of(engine, attention);
    size_t width = attention->heads * attention->head_size;
    const struct pen__attention_sizes whole = block_at(attention, 0);
    driver->ops->clear(driver, parts.dk,
                       2 * num_sums(attention) * sizeof(float));
    pen__launch(engine, PEN__KERNEL_attention_average,
                pen__groups(num_averages(attention), PEN__LANES),
                PEN__AT(out, dout, parts.averages), &whole);
    for (size_t first = 0; first < attention->sequence; first += PEN__QUERIES) {
        const struct pen__attention_sizes block = block_at(attention, first);
        const struct rows rows = {
            .q = of_heads(engine, &block, q, attention->q_stride,
                          block.first_query),
            .k = of_keys(engine, &block, k, attention),
            .v = of_keys(engine, &block, v, attention),
            .dout = of_heads(engine, &block, dout, width, block.first_query),
            .dq = of_heads(engine, &block, dq, attention->q_stride,
                           block.first_query),
            .dk = of_sums(&block, attention, parts.dk),
            .dv = of_sums(&block, attention, parts.dv)};
        block_backward(engine, &block, &parts, &rows, lse);
    }
    round_sums(engine, attention, parts.dk, dk);
    round_sums(engine, attention, parts.dv, dv);
}

static struct pen__sinks_sizes sinks_sizes(const struct pen_sinks *sinks)
{
    return (struct pen__sinks_sizes){.rows =
                                         (long)(sinks->batch * sinks->sequence),
                                     .sequence = (long)sinks->sequence,
                                     .heads = (long)sinks->heads,
                                     .head_size = (long)sinks->head_size};
}

static void sinks_forward(struct pen_engine *engine,
                          const struct pen_sinks *sinks, void *out, void *lse)
{
    const struct pen__sinks_sizes sizes = sinks_sizes(sinks);
    pen__launch(engine, PEN__KERNEL_sinks_forward, sizes.rows * sizes.heads,
                PEN__AT(pen__value_of(sinks->logits), out, lse), &sizes);
}

static void sinks_backward_input(struct pen_engine *engine,
                                 const struct pen_sinks *sinks, const void *out,
                                 const void *lse, const void *dout,
                                 void *slopes)
{
    const struct pen__sinks_sizes sizes = sinks_sizes(sinks);
    pen__launch(engine, PEN__KERNEL_sinks_slopes, sizes.heads,
                PEN__AT(pen__value_of(sinks->logits), out, lse, dout, slopes),
                &sizes);
}

static void sinks_backward_weight(struct pen_engine *engine,
                                  const struct pen_sinks *sinks,
                                  const void *slopes)
{
    const struct pen__sinks_sizes sizes = sinks_sizes(sinks);
    pen__launch(engine, PEN__KERNEL_sinks_weight,
                pen__groups(sinks->heads, PEN__LANES),
                PEN__AT(slopes, pen__gradient_of(sinks->logits)), &sizes);
}

void pen__device_set_attention(struct pen_engine_ops *ops)
{
    ops->attention_prepare = attention_prepare;
    ops->attention_forward = attention_forward;
    ops->attention_backward = attention_backward;
    ops->sinks_forward = sinks_forward;
    ops->sinks_backward_input = sinks_backward_input;
    ops->sinks_backward_weight = sinks_backward_weight;
}
