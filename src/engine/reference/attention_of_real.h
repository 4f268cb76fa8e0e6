/*
 * Causal attention, one query at a time. Even here no T x T matrix: scores are
 * computed again wherever they are needed, and the backward finds a
 * probability as exp(score - lse), as the fast engines do.
 */

static pen_status attention_prepare(struct pen_engine *engine,
                                    const struct pen_attention *attention,
                                    struct pen_text *why)
{
    (void)engine;
    (void)attention;
    (void)why;
    return PEN_OK;
}

/* One query of one head, and the keys it sees: begin..position. Its row is
 * number `at` of those of its sequence. */
struct query {
    size_t batch;
    size_t head;
    size_t position;
    size_t begin;
    size_t q_at;   /* its offset in q */
    size_t out_at; /* in out */
    size_t lse_at; /* in lse */
};

static struct query query_at(const struct pen_attention *attention,
                             size_t batch, size_t head, size_t at)
{
    size_t position = attention->first + at;
    struct query query = {.batch = batch, .head = head, .position = position};
    size_t row = batch * attention->sequence + at;
    if (attention->window > 0 && position + 1 > attention->window)
        query.begin = position + 1 - attention->window;
    query.q_at = row * attention->q_stride + head * attention->head_size;
    query.out_at = (row * attention->heads + head) * attention->head_size;
    query.lse_at = (batch * attention->heads + head) * attention->sequence + at;
    return query;
}

static size_t kv_at(const struct pen_attention *attention,
                    const struct query *query, size_t key)
{
    size_t group = attention->heads / attention->kv_heads;
    size_t row = query->batch * attention->sequence +
                 pen_attention_key_row(attention, key);
    return row * attention->kv_stride +
           query->head / group * attention->head_size;
}

static REAL dot(size_t count, const REAL *a, const REAL *b)
{
    REAL sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static void query_forward(const struct pen_attention *attention,
                          const struct query *query, const REAL *q,
                          const REAL *k, const REAL *v, REAL *out, REAL *lse)
{
    size_t size = attention->head_size;
    REAL largest = -(REAL)INFINITY;
    REAL sum = 0;
    memset(out + query->out_at, 0, size * sizeof *out);
    for (size_t key = query->begin; key <= query->position; key++)
        largest = FN(fmax)(largest, (REAL)attention->scale *
                                        dot(size, q + query->q_at,
                                            k + kv_at(attention, query, key)));
    for (size_t key = query->begin; key <= query->position; key++) {
        size_t at = kv_at(attention, query, key);
        REAL weight = FN(exp)((REAL)attention->scale *
                                  dot(size, q + query->q_at, k + at) -
                              largest);
        sum += weight;
        for (size_t i = 0; i < size; i++)
            out[query->out_at + i] += weight * v[at + i];
    }
    for (size_t i = 0; i < size; i++)
        out[query->out_at + i] /= sum;
    lse[query->lse_at] = largest + FN(log)(sum);
}

static void attention_forward(struct pen_engine *engine,
                              const struct pen_attention *attention,
                              const void *q, const void *k, const void *v,
                              void *out, void *lse)
{
    (void)engine;
    for (size_t batch = 0; batch < attention->batch; batch++)
        for (size_t head = 0; head < attention->heads; head++)
            for (size_t at = 0; at < attention->sequence; at++) {
                struct query query = query_at(attention, batch, head, at);
                query_forward(attention, &query, q, k, v, out, lse);
            }
}

/* Gradients of the inputs, as one argument. */
struct attention_slopes {
    REAL *dq;
    REAL *dk;
    REAL *dv;
};

/*
 * With p the probability and s the score:
 *   dv += p dout,  ds = p (dout . v - dout . out),  dq += ds k,  dk += ds q.
 */
static void query_backward(const struct pen_attention *attention,
                           const struct query *query, const REAL *q,
                           const REAL *k, const REAL *v, const REAL *out,
                           REAL lse, const REAL *dout,
                           const struct attention_slopes *to)
{
    size_t size = attention->head_size;
    REAL scale = (REAL)attention->scale;
    const REAL *slope = dout + query->out_at;
    REAL average = dot(size, slope, out + query->out_at);
    for (size_t key = query->begin; key <= query->position; key++) {
        size_t at = kv_at(attention, query, key);
        REAL weight = FN(exp)(scale * dot(size, q + query->q_at, k + at) - lse);
        REAL ds = scale * weight * (dot(size, slope, v + at) - average);
        for (size_t i = 0; i < size; i++) {
            to->dv[at + i] += weight * slope[i];
            to->dk[at + i] += ds * q[query->q_at + i];
            to->dq[query->q_at + i] += ds * k[at + i];
        }
    }
}

static void clear_rows(size_t rows, size_t width, size_t stride, REAL *x)
{
    for (size_t row = 0; row < rows; row++)
        memset(x + row * stride, 0, width * sizeof *x);
}

static void attention_backward(struct pen_engine *engine,
                               const struct pen_attention *attention,
                               const void *q, const void *k, const void *v,
                               const void *out, const void *lse,
                               const void *dout, void *dq, void *dk, void *dv)
{
    (void)engine;
    struct attention_slopes to = {dq, dk, dv};
    size_t rows = attention->batch * attention->sequence;
    size_t q_width = attention->heads * attention->head_size;
    size_t kv_width = attention->kv_heads * attention->head_size;
    clear_rows(rows, q_width, attention->q_stride, dq);
    size_t kv_rows = attention->batch * pen_attention_keys(attention);
    if (!attention->adds) {
        clear_rows(kv_rows, kv_width, attention->kv_stride, dk);
        clear_rows(kv_rows, kv_width, attention->kv_stride, dv);
    }
    for (size_t batch = 0; batch < attention->batch; batch++)
        for (size_t head = 0; head < attention->heads; head++)
            for (size_t at = 0; at < attention->sequence; at++) {
                struct query query = query_at(attention, batch, head, at);
                query_backward(attention, &query, q, k, v, out,
                               ((const REAL *)lse)[query.lse_at], dout, &to);
            }
}
