/*
 * Causal attention by blocks of queries.
 *
 *            keys 0 ......... first query ... last query
 *   queries  [ seen by all of the block     | a triangle ]
 *
 * A thread takes one key/value head of one sequence at a time, packs its k and
 * v, and goes through the query heads of its group and their blocks in order:
 * scores of a block against all keys up to its last query (no further), softmax
 * in place, product with v. Only the scores of one block per thread ever exist,
 * memory grows with T only, and nothing depends on the number of threads. The
 * backward computes the scores again and finds probabilities from the
 * log-sum-exp that the forward left (Dao et al., 2022, algorithm 4).
 *
 * In bf16 on a machine with AMX attention_amx.c does a thread's work; here are
 * the products of the library, for all others. Three serve both directions: S =
 * Q K^T and dP = dO V^T have one shape, O = P V and dQ = dS K another, dV +=
 * P^T dO and dK += dS^T Q a third.
 */
#include "base/bug.h"
#include "engine/bf16.h"
#include "engine/onednn/attention_amx.h"
#include "engine/onednn/carve.h"
#include "engine/onednn/onednn.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum kind { SCORES, ALONG, ACROSS, KINDS };

struct pen__attention {
    struct pen_attention shape;
    bool is_tiled; /* by AMX: there are no products */
    size_t num_blocks;
    size_t library_bytes;          /* scratch of the largest primitive */
    size_t num_products;           /* made so far */
    struct pen__product *products; /* [thread][block][kind] */
    struct pen__attention *next;
};

void pen__attention_free(struct pen__attention *attention)
{
    while (attention != NULL) {
        struct pen__attention *next = attention->next;
        for (size_t i = 0; i < attention->num_products; i++)
            pen__product_release(&attention->products[i]);
        free(attention->products);
        free(attention);
        attention = next;
    }
}

static bool is_same(const struct pen_attention *a,
                    const struct pen_attention *b)
{
    return a->batch == b->batch && a->sequence == b->sequence &&
           a->heads == b->heads && a->kv_heads == b->kv_heads &&
           a->head_size == b->head_size && a->window == b->window &&
           a->q_stride == b->q_stride && a->kv_stride == b->kv_stride &&
           a->scale == b->scale && a->first == b->first;
}

static struct pen__attention *prepared(struct pen__onednn *self,
                                       const struct pen_attention *shape)
{
    struct pen__attention *attention = self->attentions;
    while (attention != NULL && !is_same(&attention->shape, shape))
        attention = attention->next;
    return attention;
}

/* One thread's part of the scratch. */
struct room {
    char *q;    /* (PEN__QUERIES, D) of the dtype, as are the next four */
    char *dout; /* (PEN__QUERIES, D) */
    char *k;    /* (T, D) */
    char *v;    /* (T, D) */
    char *p;    /* (PEN__QUERIES, T): probabilities; in f32 the scores' place */
    char *ds;   /* (PEN__QUERIES, T): slopes of the scores, likewise */
    float *s;   /* (PEN__QUERIES, T): scores */
    float *dp;  /* (PEN__QUERIES, T): slopes of the probabilities */
    float *rows; /* (PEN__QUERIES, D): a product on its way out */
    float *dk;   /* (T, D) */
    float *dv;   /* (T, D) */
    char *library;
};

/* Returns the bytes; base may be NULL to learn them. */
static size_t room_init(struct room *room, const struct pen_engine *engine,
                        const struct pen__attention *attention, char *base)
{
    size_t used = 0;
    size_t unit = pen_precision_bytes(engine->dtype);
    size_t rows = PEN__QUERIES * attention->shape.head_size;
    size_t keys = pen_attention_keys(&attention->shape);
    size_t head = keys * attention->shape.head_size;
    size_t scores = PEN__QUERIES * keys;
    bool is_float = engine->dtype == PEN_PRECISION_F32;
    room->q = pen__carve(base, &used, rows * unit);
    room->dout = pen__carve(base, &used, rows * unit);
    room->k = pen__carve(base, &used, head * unit);
    room->v = pen__carve(base, &used, head * unit);
    room->s = pen__carve(base, &used, scores * sizeof(float));
    room->dp = pen__carve(base, &used, scores * sizeof(float));
    room->p =
        is_float ? (char *)room->s : pen__carve(base, &used, scores * unit);
    room->ds =
        is_float ? (char *)room->dp : pen__carve(base, &used, scores * unit);
    room->rows = pen__carve(base, &used, rows * sizeof(float));
    room->dk = pen__carve(base, &used, head * sizeof(float));
    room->dv = pen__carve(base, &used, head * sizeof(float));
    room->library = pen__carve(base, &used, attention->library_bytes);
    return used;
}

/* Dense matrices; is_turned: stored as its transpose. */
static dnnl_status_t matrix(struct pen__md *md, size_t rows, size_t columns,
                            bool is_turned, dnnl_data_type_t type)
{
    size_t sizes[] = {rows, columns};
    size_t strides[] = {is_turned ? 1 : columns, is_turned ? rows : 1};
    return pen__md_init(md, 2, sizes, type, strides);
}

static pen_status make_product(struct pen__onednn *self, enum kind kind,
                               const struct pen__scores *block, size_t size,
                               struct pen_text *why, struct pen__product *out)
{
    dnnl_data_type_t type =
        self->engine.dtype == PEN_PRECISION_F32 ? dnnl_f32 : dnnl_bf16;
    size_t rows = kind == ACROSS ? block->keys : block->queries;
    size_t inner = kind == SCORES  ? size
                   : kind == ALONG ? block->keys
                                   : block->queries;
    size_t columns = kind == SCORES ? block->keys : size;
    struct pen__product_shape shape = {0};
    dnnl_primitive_desc_t description;
    dnnl_status_t made =
        matrix(&shape.source, rows, inner, kind == ACROSS, type);
    if (made == dnnl_success)
        made = matrix(&shape.weight, inner, columns, kind == SCORES, type);
    if (made == dnnl_success)
        made = matrix(&shape.target, rows, columns, false, dnnl_f32);
    if (made == dnnl_success)
        made = pen__matmul(self->library, &shape, kind == ACROSS, &description);
    pen_status status = PEN_OK;
    if (made == dnnl_success) {
        const int ids[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
        PEN__MD const mds[] = {pen__md_of(&shape.source),
                               pen__md_of(&shape.weight),
                               pen__md_of(&shape.target)};
        status = pen__product_init(self, description, 3, ids, mds, why, out);
        dnnl_primitive_desc_destroy(description);
    } else {
        status = pen__refused(made, "a product of attention", why);
    }
    pen__md_release(&shape.source);
    pen__md_release(&shape.weight);
    pen__md_release(&shape.target);
    return status;
}

static pen_status make_products(struct pen__onednn *self,
                                struct pen__attention *attention,
                                struct pen_text *why)
{
    size_t size = attention->shape.head_size;
    attention->num_blocks =
        (attention->shape.sequence + PEN__QUERIES - 1) / PEN__QUERIES;
    attention->products =
        calloc((size_t)self->engine.threads * attention->num_blocks * KINDS,
               sizeof *attention->products);
    if (attention->products == NULL)
        return PEN_NOMEM;
    for (int thread = 0; thread < self->engine.threads; thread++)
        for (size_t number = 0; number < attention->num_blocks; number++)
            for (enum kind kind = 0; kind < KINDS; kind++) {
                struct pen__scores block =
                    pen__block(&attention->shape, number);
                struct pen__product *product =
                    &attention->products[attention->num_products];
                pen_status status =
                    make_product(self, kind, &block, size, why, product);
                if (status != PEN_OK)
                    return status;
                attention->num_products++;
                if (product->scratch_bytes > attention->library_bytes)
                    attention->library_bytes = product->scratch_bytes;
            }
    return PEN_OK;
}

/* Scratch of a thread. */
static size_t thread_bytes(const struct pen_engine *engine,
                           const struct pen__attention *attention)
{
    struct room room;
    return attention->is_tiled ? pen__amx_bytes(&attention->shape)
                               : room_init(&room, engine, attention, NULL);
}

static pen_status attention_prepare(struct pen_engine *engine,
                                    const struct pen_attention *shape,
                                    struct pen_text *why)
{
    struct pen__onednn *self = (struct pen__onednn *)engine;
    if (prepared(self, shape) != NULL)
        return PEN_OK;
    struct pen__attention *attention = calloc(1, sizeof *attention);
    if (attention == NULL)
        return PEN_NOMEM;
    attention->shape = *shape;
    attention->is_tiled = engine->dtype == PEN_PRECISION_BF16 &&
                          pen__amx_is_usable() && pen__amx_is_for(shape);
    pen_status status = PEN_OK;
    if (!attention->is_tiled) {
        /* Each product is one thread's; there are many heads to share out. */
        omp_set_num_threads(1);
        status = make_products(self, attention, why);
        omp_set_num_threads(engine->threads);
    }
    if (status == PEN_OK)
        status = pen__scratch_grow(
            self, (size_t)engine->threads * thread_bytes(engine, attention),
            why);
    if (status != PEN_OK) {
        pen__attention_free(attention);
        return status;
    }
    attention->next = self->attentions;
    self->attentions = attention;
    return PEN_OK;
}

/* The working set of one thread. */
struct worker {
    struct pen__onednn *self;
    const struct pen__rows *rows;
    const struct pen_attention *shape;
    struct pen__product *products; /* [block][kind] */
    struct room room;
    size_t unit; /* bytes of an element */
};

static struct worker worker_of(struct pen__onednn *self,
                               struct pen__attention *attention)
{
    PEN_BUG_UNLESS(self->scratch != NULL);
    size_t thread = (size_t)omp_get_thread_num();
    struct worker worker = {.self = self,
                            .rows = self->rows,
                            .shape = &attention->shape,
                            .unit = pen_precision_bytes(self->engine.dtype)};
    worker.products =
        attention->products + thread * attention->num_blocks * KINDS;
    room_init(&worker.room, &self->engine, attention,
              self->scratch + thread * thread_bytes(&self->engine, attention));
    return worker;
}

static void multiply(struct worker *worker, size_t number, enum kind kind,
                     const void *a, const void *b, void *c)
{
    const void *pointers[] = {a, b, c};
    pen__product_execute(worker->self, &worker->products[number * KINDS + kind],
                         pointers, worker->room.library);
}

/* Bytes into q (or out) at a row of a head; into k and v likewise. */
static size_t head_at(const struct worker *worker, size_t batch, size_t head,
                      size_t row_of_sequence, size_t stride)
{
    size_t row = batch * worker->shape->sequence + row_of_sequence;
    return (row * stride + head * worker->shape->head_size) * worker->unit;
}

/*
 * Gathers a head of keys or values, or of their gradients: dense, from all
 * chunks.
 */
static void gather_head(const struct worker *worker, size_t batch,
                        size_t kv_head, const char *from, char *to)
{
    const struct pen_attention *shape = worker->shape;
    size_t bytes = shape->sequence * shape->head_size * worker->unit;
    for (size_t key = 0; key <= shape->first; key += shape->sequence) {
        size_t at =
            head_at(worker, batch, kv_head, pen_attention_key_row(shape, key),
                    shape->kv_stride);
        worker->rows->gather(shape->sequence, shape->head_size,
                             shape->kv_stride, from + at,
                             to + key / shape->sequence * bytes);
    }
}

/* The way back. */
static void scatter_head(const struct worker *worker, size_t batch,
                         size_t kv_head, const float *from, char *to)
{
    const struct pen_attention *shape = worker->shape;
    for (size_t key = 0; key <= shape->first; key += shape->sequence) {
        size_t at =
            head_at(worker, batch, kv_head, pen_attention_key_row(shape, key),
                    shape->kv_stride);
        worker->rows->scatter(shape->sequence, shape->head_size,
                              shape->kv_stride, from + key * shape->head_size,
                              to + at);
    }
}

static void gather_kv(struct worker *worker, size_t batch, size_t kv_head,
                      const char *k, const char *v)
{
    gather_head(worker, batch, kv_head, k, worker->room.k);
    gather_head(worker, batch, kv_head, v, worker->room.v);
}

/* The sum that a gradient of keys or values begins with: `adds` of the shape.
 * The room of k is free still. */
static void begin_sum(struct worker *worker, size_t batch, size_t kv_head,
                      bool adds, const char *gradient, float *sum)
{
    size_t count = pen_attention_keys(worker->shape) * worker->shape->head_size;
    if (!adds) {
        memset(sum, 0, count * sizeof *sum);
        return;
    }
    if (worker->self->engine.dtype == PEN_PRECISION_F32) {
        gather_head(worker, batch, kv_head, gradient, (char *)sum);
        return;
    }
    const uint16_t *halves = (const uint16_t *)(const void *)worker->room.k;
    gather_head(worker, batch, kv_head, gradient, worker->room.k);
    for (size_t i = 0; i < count; i++)
        sum[i] = pen_bf16_to_float(halves[i]);
}

static void head_forward(struct worker *worker, size_t batch, size_t head,
                         const char *q, char *out, float *lse)
{
    const struct pen_attention *shape = worker->shape;
    struct room *room = &worker->room;
    size_t size = shape->head_size;
    size_t out_stride = shape->heads * size;
    lse += (batch * shape->heads + head) * shape->sequence;
    for (size_t number = 0; number * PEN__QUERIES < shape->sequence; number++) {
        struct pen__scores block = pen__block(shape, number);
        size_t first = block.first_row;
        size_t begin = block.begin * size * worker->unit;
        worker->rows->gather(
            block.queries, size, shape->q_stride,
            q + head_at(worker, batch, head, first, shape->q_stride), room->q);
        multiply(worker, number, SCORES, room->q, room->k + begin, room->s);
        worker->rows->softmax(&block, room->s, room->p, lse + first);
        multiply(worker, number, ALONG, room->p, room->v + begin, room->rows);
        worker->rows->scatter(
            block.queries, size, out_stride, room->rows,
            out + head_at(worker, batch, head, first, out_stride));
    }
}

/* A key/value head of a sequence, by number, for this thread. */
static struct pen__amx_task tiled_task(struct pen__onednn *self,
                                       const struct pen__attention *attention,
                                       size_t number, const uint16_t *q,
                                       const uint16_t *k, const uint16_t *v,
                                       float *lse)
{
    const struct pen_attention *shape = &attention->shape;
    size_t batch = number / shape->kv_heads;
    size_t row = batch * shape->sequence;
    size_t bytes = thread_bytes(&self->engine, attention);
    return (struct pen__amx_task){.rows = self->rows,
                                  .shape = shape,
                                  .kv_head = number % shape->kv_heads,
                                  .room = self->scratch +
                                          (size_t)omp_get_thread_num() * bytes,
                                  .q = q + row * shape->q_stride,
                                  .k = k + row * shape->kv_stride,
                                  .v = v + row * shape->kv_stride,
                                  .lse = lse + row * shape->heads};
}

static void tiled_forward(struct pen__onednn *self,
                          const struct pen__attention *attention,
                          const uint16_t *q, const uint16_t *k,
                          const uint16_t *v, uint16_t *out, float *lse)
{
    const struct pen_attention *shape = &attention->shape;
    size_t tasks = shape->batch * shape->kv_heads;
    size_t out_size = shape->sequence * shape->heads * shape->head_size;
#pragma omp parallel for num_threads(self->engine.threads) schedule(dynamic)
    for (size_t i = 0; i < tasks; i++) {
        struct pen__amx_task task =
            tiled_task(self, attention, i, q, k, v, lse);
        pen__amx_forward(&task, out + i / shape->kv_heads * out_size);
    }
}

static void attention_forward(struct pen_engine *engine,
                              const struct pen_attention *shape, const void *q,
                              const void *k, const void *v, void *out,
                              void *lse)
{
    struct pen__onednn *self = (struct pen__onednn *)engine;
    struct pen__attention *attention = prepared(self, shape);
    PEN_BUG_UNLESS(attention != NULL);
    if (attention->is_tiled) {
        tiled_forward(self, attention, q, k, v, out, lse);
        return;
    }
    size_t group = shape->heads / shape->kv_heads;
    size_t tasks = shape->batch * shape->kv_heads;
#pragma omp parallel num_threads(engine->threads)
    {
        struct worker worker = worker_of(self, attention);
#pragma omp for schedule(dynamic)
        for (size_t task = 0; task < tasks; task++) {
            size_t batch = task / shape->kv_heads;
            size_t kv_head = task % shape->kv_heads;
            gather_kv(&worker, batch, kv_head, k, v);
            for (size_t i = 0; i < group; i++)
                head_forward(&worker, batch, kv_head * group + i, q, out, lse);
        }
    }
}

/* Gradients on the query side; those of k and v are summed in the room. */
struct backward {
    const char *q;
    const float *lse;
    const char *dout;
    char *dq;
};

/* The gradients, as the operation has them. */
struct slopes {
    const uint16_t *dout;
    uint16_t *dq;
    uint16_t *dk;
    uint16_t *dv;
    bool adds; /* to dk and dv */
};

static void tiled_backward(struct pen__onednn *self,
                           const struct pen__attention *attention,
                           const uint16_t *q, const uint16_t *k,
                           const uint16_t *v, const float *lse,
                           const struct slopes *slopes)
{
    const struct pen_attention *shape = &attention->shape;
    size_t tasks = shape->batch * shape->kv_heads;
#pragma omp parallel for num_threads(self->engine.threads) schedule(dynamic)
    for (size_t i = 0; i < tasks; i++) {
        struct pen__amx_task task =
            tiled_task(self, attention, i, q, k, v, (float *)lse);
        task.adds = slopes->adds;
        size_t row = i / shape->kv_heads * shape->sequence;
        pen__amx_backward(&task,
                          slopes->dout + row * shape->heads * shape->head_size,
                          slopes->dq + row * shape->q_stride,
                          slopes->dk + row * shape->kv_stride,
                          slopes->dv + row * shape->kv_stride);
    }
}

static void head_backward(struct worker *worker, size_t batch, size_t head,
                          const struct backward *of)
{
    const struct pen_attention *shape = worker->shape;
    const struct pen__rows *rows = worker->rows;
    struct room *room = &worker->room;
    size_t size = shape->head_size;
    size_t out_stride = shape->heads * size;
    const float *lse =
        of->lse + (batch * shape->heads + head) * shape->sequence;
    for (size_t number = 0; number * PEN__QUERIES < shape->sequence; number++) {
        struct pen__scores block = pen__block(shape, number);
        size_t first = block.first_row;
        size_t begin = block.begin * size;
        size_t q_at = head_at(worker, batch, head, first, shape->q_stride);
        size_t out_at = head_at(worker, batch, head, first, out_stride);
        rows->gather(block.queries, size, shape->q_stride, of->q + q_at,
                     room->q);
        rows->gather(block.queries, size, out_stride, of->dout + out_at,
                     room->dout);
        multiply(worker, number, SCORES, room->q,
                 room->k + begin * worker->unit, room->s);
        multiply(worker, number, SCORES, room->dout,
                 room->v + begin * worker->unit, room->dp);
        rows->softmax_slope(&block, lse + first, room->s, room->dp, room->p,
                            room->ds);
        multiply(worker, number, ACROSS, room->p, room->dout, room->dv + begin);
        multiply(worker, number, ACROSS, room->ds, room->q, room->dk + begin);
        multiply(worker, number, ALONG, room->ds,
                 room->k + begin * worker->unit, room->rows);
        rows->scatter(block.queries, size, shape->q_stride, room->rows,
                      of->dq + q_at);
    }
}

static void attention_backward(struct pen_engine *engine,
                               const struct pen_attention *shape, const void *q,
                               const void *k, const void *v, const void *out,
                               const void *lse, const void *dout, void *dq,
                               void *dk, void *dv)
{
    struct pen__onednn *self = (struct pen__onednn *)engine;
    struct pen__attention *attention = prepared(self, shape);
    PEN_BUG_UNLESS(attention != NULL);
    (void)out; /* the probabilities have the same information, unrounded */
    if (attention->is_tiled) {
        tiled_backward(self, attention, q, k, v, lse,
                       &(struct slopes){dout, dq, dk, dv, shape->adds});
        return;
    }
    struct backward of = {q, lse, dout, dq};
    size_t group = shape->heads / shape->kv_heads;
    size_t tasks = shape->batch * shape->kv_heads;
#pragma omp parallel num_threads(engine->threads)
    {
        struct worker worker = worker_of(self, attention);
        struct room *room = &worker.room;
#pragma omp for schedule(dynamic)
        for (size_t task = 0; task < tasks; task++) {
            size_t batch = task / shape->kv_heads;
            size_t kv_head = task % shape->kv_heads;
            begin_sum(&worker, batch, kv_head, shape->adds, dk, room->dk);
            begin_sum(&worker, batch, kv_head, shape->adds, dv, room->dv);
            gather_kv(&worker, batch, kv_head, k, v);
            for (size_t i = 0; i < group; i++)
                head_backward(&worker, batch, kv_head * group + i, &of);
            scatter_head(&worker, batch, kv_head, room->dk, dk);
            scatter_head(&worker, batch, kv_head, room->dv, dv);
        }
    }
}

void pen__attention_ops(struct pen_engine_ops *ops)
{
    ops->attention_prepare = attention_prepare;
    ops->attention_forward = attention_forward;
    ops->attention_backward = attention_backward;
}
