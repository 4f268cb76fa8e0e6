/* Routing in float, and rows on their way to experts and back. */
#define REAL float
#include "engine/routing_of_real.h"
#undef REAL

static float product_of(const ELEMENT *x, const float *weight, size_t width)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < width; i++)
        sum += LOAD(x, i) * weight[i];
    return sum;
}

static void route_forward(struct pen_engine *engine,
                          const struct pen_router *router, const void *x,
                          void *logits, void *gates, int32_t *choice)
{
    size_t experts = router->weight->shape.rows;
    size_t width = router->weight->shape.columns;
    const float *weight = router->weight->parts[PEN_PART_VALUE];
    const float *bias =
        router->bias == NULL ? NULL : router->bias->parts[PEN_PART_VALUE];
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t row = 0; row < router->rows; row++) {
        float *logit = (float *)logits + row * experts;
        for (size_t e = 0; e < experts; e++)
            logit[e] = product_of((const ELEMENT *)x + row * width,
                                  weight + e * width, width) +
                       (bias == NULL ? 0 : bias[e]);
        route_row(router, logit, (float *)gates + row * router->chosen,
                  choice + row * router->chosen);
    }
}

/* dx += slopes W, column by column in one order. */
static void add_product(const float *slopes, const float *weight,
                        size_t experts, size_t width, ELEMENT *dx)
{
    for (size_t first = 0; first < width; first += COLUMNS) {
        size_t count = width - first > COLUMNS ? COLUMNS : width - first;
        float sums[COLUMNS];
        for (size_t i = 0; i < count; i++)
            sums[i] = LOAD(dx, first + i);
        for (size_t e = 0; e < experts; e++) {
            const float *in = weight + e * width + first;
#pragma omp simd
            for (size_t i = 0; i < count; i++)
                sums[i] += slopes[e] * in[i];
        }
        for (size_t i = 0; i < count; i++)
            STORE(dx, first + i, sums[i]);
    }
}

static void route_backward_input(struct pen_engine *engine,
                                 const struct pen_router *router,
                                 const struct pen_route *route,
                                 const void *dgates, void *dlogits, void *dx)
{
    size_t experts = router->weight->shape.rows;
    size_t width = router->weight->shape.columns;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t row = 0; row < router->rows; row++) {
        float *slopes = (float *)dlogits + row * experts;
        size_t first = row * router->chosen;
        unroute_row(router, (const float *)route->logits + row * experts,
                    (const float *)route->gates + first, route->choice + first,
                    (const float *)dgates + first, route->tokens, slopes);
        if (dx != NULL)
            add_product(slopes, router->weight->parts[PEN_PART_VALUE], experts,
                        width, (ELEMENT *)dx + row * width);
    }
}

static void add_router_bias(const struct pen_router *router,
                            const float *dlogits)
{
    size_t experts = router->weight->shape.rows;
    float *gradient = pen__gradient(router->bias);
    for (size_t row = 0; row < router->rows; row++)
        for (size_t e = 0; e < experts; e++)
            gradient[e] += dlogits[row * experts + e];
}

static void route_backward_weight(struct pen_engine *engine,
                                  const struct pen_router *router,
                                  const void *x, const void *dlogits)
{
    size_t experts = router->weight->shape.rows;
    size_t width = router->weight->shape.columns;
    float *gradient = pen__gradient(router->weight);
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t e = 0; e < experts; e++)
        for (size_t row = 0; row < router->rows; row++) {
            float slope = ((const float *)dlogits)[row * experts + e];
            const ELEMENT *in = (const ELEMENT *)x + row * width;
            float *out = gradient + e * width;
#pragma omp simd
            for (size_t i = 0; i < width; i++)
                out[i] += slope * LOAD(in, i);
        }
    if (router->bias != NULL)
        add_router_bias(router, dlogits);
}

/* Copies one group, or the sum of all. */
static void copy_group(const struct pen_columns *columns, size_t groups,
                       const ELEMENT *in, ELEMENT *out)
{
    for (size_t i = 0; i < columns->width; i++) {
        float sum = LOAD(in, i);
        for (size_t group = 1; group < groups; group++)
            sum += LOAD(in, group * columns->from_step + i);
        STORE(out, i, sum);
    }
    for (size_t i = 0; i < columns->zeros; i++)
        STORE(out, columns->width + i, 0);
}

static void copy_columns(struct pen_engine *engine,
                         const struct pen_columns *columns, const void *x,
                         void *y)
{
    bool is_sum = columns->to_step == 0;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t row = 0; row < columns->rows; row++) {
        const ELEMENT *in = (const ELEMENT *)x + row * columns->from_stride;
        ELEMENT *out = (ELEMENT *)y + row * columns->to_stride;
        for (size_t group = 0; group < (is_sum ? 1 : columns->groups); group++)
            copy_group(columns, is_sum ? columns->groups : 1,
                       in + group * columns->from_step,
                       out + group * columns->to_step);
    }
}

static void dispatch_rows(struct pen_engine *engine,
                          const struct pen_dispatch *dispatch, const void *x,
                          void *y)
{
    size_t count = dispatch->rows * dispatch->chosen;
    size_t width = dispatch->width;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t p = 0; p < count; p++)
        memcpy((ELEMENT *)y + p * width,
               (const ELEMENT *)x +
                   (size_t)dispatch->order[p] / dispatch->chosen * width,
               width * sizeof(ELEMENT));
}

static void collect_row(const struct pen_dispatch *dispatch, size_t row,
                        const ELEMENT *x, const ELEMENT *add, ELEMENT *y)
{
    size_t width = dispatch->width;
    for (size_t first = 0; first < width; first += COLUMNS) {
        size_t count = width - first > COLUMNS ? COLUMNS : width - first;
        float sums[COLUMNS] = {0};
        for (size_t i = 0; i < count && add != NULL; i++)
            sums[i] = LOAD(add, row * width + first + i);
        for (size_t k = 0; k < dispatch->chosen; k++) {
            const ELEMENT *in =
                x + (size_t)dispatch->at[row * dispatch->chosen + k] * width +
                first;
#pragma omp simd
            for (size_t i = 0; i < count; i++)
                sums[i] += LOAD(in, i);
        }
        for (size_t i = 0; i < count; i++)
            STORE(y, row * width + first + i, sums[i]);
    }
}

static void collect_rows(struct pen_engine *engine,
                         const struct pen_dispatch *dispatch, const void *x,
                         const void *add, void *y)
{
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t row = 0; row < dispatch->rows; row++)
        collect_row(dispatch, row, x, add, y);
}

static void gate_forward(struct pen_engine *engine,
                         const struct pen_dispatch *dispatch, const void *gates,
                         const void *x, void *y)
{
    size_t width = dispatch->width;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t p = 0; p < dispatch->rows * dispatch->chosen; p++) {
        float gate = ((const float *)gates)[dispatch->order[p]];
        const ELEMENT *in = (const ELEMENT *)x + p * width;
        ELEMENT *out = (ELEMENT *)y + p * width;
#pragma omp simd
        for (size_t i = 0; i < width; i++)
            STORE(out, i, gate * LOAD(in, i));
    }
}

static void gate_backward(struct pen_engine *engine,
                          const struct pen_dispatch *dispatch,
                          const void *gates, const void *x, const void *dy,
                          void *dgates, void *dx)
{
    size_t width = dispatch->width;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t p = 0; p < dispatch->rows * dispatch->chosen; p++) {
        float gate = ((const float *)gates)[dispatch->order[p]];
        const ELEMENT *in = (const ELEMENT *)x + p * width;
        const ELEMENT *slope = (const ELEMENT *)dy + p * width;
        ELEMENT *out = (ELEMENT *)dx + p * width;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (size_t i = 0; i < width; i++)
            sum += LOAD(in, i) * LOAD(slope, i);
#pragma omp simd
        for (size_t i = 0; i < width; i++)
            STORE(out, i, gate * LOAD(slope, i));
        ((float *)dgates)[dispatch->order[p]] = sum;
    }
}

static void gated_bias_forward(struct pen_engine *engine,
                               const struct pen_gated_bias *bias,
                               const void *gates, void *y)
{
    const struct pen_dispatch *dispatch = &bias->dispatch;
    const float *add = bias->bias->parts[PEN_PART_VALUE];
    size_t width = dispatch->width;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t p = 0; p < dispatch->rows * dispatch->chosen; p++) {
        float gate = ((const float *)gates)[dispatch->order[p]];
        ELEMENT *out = (ELEMENT *)y + p * width;
#pragma omp simd
        for (size_t i = 0; i < width; i++)
            STORE(out, i, LOAD(out, i) + gate * add[i]);
    }
}

static void gated_bias_backward_input(struct pen_engine *engine,
                                      const struct pen_gated_bias *bias,
                                      const void *dy, void *dgates)
{
    const struct pen_dispatch *dispatch = &bias->dispatch;
    const float *add = bias->bias->parts[PEN_PART_VALUE];
    size_t width = dispatch->width;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t p = 0; p < dispatch->rows * dispatch->chosen; p++)
        ((float *)dgates)[dispatch->order[p]] +=
            product_of((const ELEMENT *)dy + p * width, add, width);
}

/* Column by column in the order of copies, whatever the number of threads. */
static void gated_bias_backward_weight(struct pen_engine *engine,
                                       const struct pen_gated_bias *bias,
                                       const void *gates, const void *dy)
{
    const struct pen_dispatch *dispatch = &bias->dispatch;
    float *gradient = pen__gradient(bias->bias);
    size_t width = dispatch->width;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t first = 0; first < width; first += COLUMNS) {
        size_t end = first + COLUMNS < width ? first + COLUMNS : width;
        for (size_t p = 0; p < dispatch->rows * dispatch->chosen; p++) {
            float gate = ((const float *)gates)[dispatch->order[p]];
            const ELEMENT *slope = (const ELEMENT *)dy + p * width;
#pragma omp simd
            for (size_t i = first; i < end; i++)
                gradient[i] += gate * LOAD(slope, i);
        }
    }
}
