/* Routing, and rows on their way to experts and back. */
#include "engine/routing_of_real.h"

static void route_forward(struct pen_engine *engine,
                          const struct pen_router *router, const void *x,
                          void *logits, void *gates, int32_t *choice)
{
    (void)engine;
    size_t experts = router->weight->shape.rows;
    size_t width = router->weight->shape.columns;
    const REAL *weight = router->weight->parts[PEN_PART_VALUE];
    for (size_t row = 0; row < router->rows; row++) {
        REAL *logit = (REAL *)logits + row * experts;
        for (size_t e = 0; e < experts; e++) {
            logit[e] = router->bias == NULL
                           ? 0
                           : router->bias->parts[PEN_PART_VALUE][e];
            for (size_t i = 0; i < width; i++)
                logit[e] +=
                    ((const REAL *)x)[row * width + i] * weight[e * width + i];
        }
        route_row(router, logit, (REAL *)gates + row * router->chosen,
                  choice + row * router->chosen);
    }
}

static void route_backward_input(struct pen_engine *engine,
                                 const struct pen_router *router,
                                 const struct pen_route *route,
                                 const void *dgates, void *dlogits, void *dx)
{
    (void)engine;
    size_t experts = router->weight->shape.rows;
    size_t width = router->weight->shape.columns;
    const REAL *weight = router->weight->parts[PEN_PART_VALUE];
    for (size_t row = 0; row < router->rows; row++) {
        REAL *slope = (REAL *)dlogits + row * experts;
        size_t first = row * router->chosen;
        unroute_row(router, (const REAL *)route->logits + row * experts,
                    (const REAL *)route->gates + first, route->choice + first,
                    (const REAL *)dgates + first, route->tokens, slope);
        for (size_t e = 0; e < experts && dx != NULL; e++)
            for (size_t i = 0; i < width; i++)
                ((REAL *)dx)[row * width + i] +=
                    slope[e] * weight[e * width + i];
    }
}

static void route_backward_weight(struct pen_engine *engine,
                                  const struct pen_router *router,
                                  const void *x, const void *dlogits)
{
    (void)engine;
    size_t experts = router->weight->shape.rows;
    size_t width = router->weight->shape.columns;
    REAL *gradient = router->weight->parts[PEN_PART_GRADIENT];
    for (size_t row = 0; row < router->rows; row++)
        for (size_t e = 0; e < experts; e++)
            for (size_t i = 0; i < width; i++)
                gradient[e * width + i] +=
                    ((const REAL *)dlogits)[row * experts + e] *
                    ((const REAL *)x)[row * width + i];
    for (size_t e = 0; e < experts && router->bias != NULL; e++)
        for (size_t row = 0; row < router->rows; row++)
            router->bias->parts[PEN_PART_GRADIENT][e] +=
                ((const REAL *)dlogits)[row * experts + e];
}

static void copy_columns(struct pen_engine *engine,
                         const struct pen_columns *columns, const void *x,
                         void *y)
{
    (void)engine;
    bool is_sum = columns->to_step == 0;
    for (size_t row = 0; row < columns->rows; row++)
        for (size_t group = 0; group < columns->groups; group++) {
            const REAL *in = (const REAL *)x + row * columns->from_stride +
                             group * columns->from_step;
            REAL *out =
                (REAL *)y + row * columns->to_stride + group * columns->to_step;
            for (size_t i = 0; i < columns->width; i++)
                out[i] = (is_sum && group > 0 ? out[i] : 0) + in[i];
            for (size_t i = 0; i < columns->zeros; i++)
                out[columns->width + i] = 0;
        }
}

static void dispatch_rows(struct pen_engine *engine,
                          const struct pen_dispatch *dispatch, const void *x,
                          void *y)
{
    (void)engine;
    size_t count = dispatch->rows * dispatch->chosen;
    size_t bytes = dispatch->width * sizeof(REAL);
    for (size_t p = 0; p < count; p++)
        memcpy((char *)y + p * bytes,
               (const char *)x +
                   (size_t)dispatch->order[p] / dispatch->chosen * bytes,
               bytes);
}

static void collect_rows(struct pen_engine *engine,
                         const struct pen_dispatch *dispatch, const void *x,
                         const void *add, void *y)
{
    (void)engine;
    size_t width = dispatch->width;
    for (size_t row = 0; row < dispatch->rows; row++)
        for (size_t i = 0; i < width; i++) {
            REAL sum = add == NULL ? 0 : ((const REAL *)add)[row * width + i];
            for (size_t k = 0; k < dispatch->chosen; k++)
                sum +=
                    ((const REAL *)
                         x)[(size_t)dispatch->at[row * dispatch->chosen + k] *
                                width +
                            i];
            ((REAL *)y)[row * width + i] = sum;
        }
}

static void gate_forward(struct pen_engine *engine,
                         const struct pen_dispatch *dispatch, const void *gates,
                         const void *x, void *y)
{
    (void)engine;
    size_t width = dispatch->width;
    for (size_t p = 0; p < dispatch->rows * dispatch->chosen; p++)
        for (size_t i = 0; i < width; i++)
            ((REAL *)y)[p * width + i] =
                ((const REAL *)gates)[dispatch->order[p]] *
                ((const REAL *)x)[p * width + i];
}

static void gate_backward(struct pen_engine *engine,
                          const struct pen_dispatch *dispatch,
                          const void *gates, const void *x, const void *dy,
                          void *dgates, void *dx)
{
    (void)engine;
    size_t width = dispatch->width;
    for (size_t p = 0; p < dispatch->rows * dispatch->chosen; p++) {
        REAL gate = ((const REAL *)gates)[dispatch->order[p]];
        REAL sum = 0;
        for (size_t i = 0; i < width; i++) {
            REAL slope = ((const REAL *)dy)[p * width + i];
            sum += ((const REAL *)x)[p * width + i] * slope;
            ((REAL *)dx)[p * width + i] = gate * slope;
        }
        ((REAL *)dgates)[dispatch->order[p]] = sum;
    }
}

static void gated_bias_forward(struct pen_engine *engine,
                               const struct pen_gated_bias *bias,
                               const void *gates, void *y)
{
    (void)engine;
    const struct pen_dispatch *dispatch = &bias->dispatch;
    const REAL *add = bias->bias->parts[PEN_PART_VALUE];
    for (size_t p = 0; p < dispatch->rows * dispatch->chosen; p++)
        for (size_t i = 0; i < dispatch->width; i++)
            ((REAL *)y)[p * dispatch->width + i] +=
                ((const REAL *)gates)[dispatch->order[p]] * add[i];
}

static void gated_bias_backward_input(struct pen_engine *engine,
                                      const struct pen_gated_bias *bias,
                                      const void *dy, void *dgates)
{
    (void)engine;
    const struct pen_dispatch *dispatch = &bias->dispatch;
    const REAL *add = bias->bias->parts[PEN_PART_VALUE];
    for (size_t p = 0; p < dispatch->rows * dispatch->chosen; p++)
        for (size_t i = 0; i < dispatch->width; i++)
            ((REAL *)dgates)[dispatch->order[p]] +=
                ((const REAL *)dy)[p * dispatch->width + i] * add[i];
}

static void gated_bias_backward_weight(struct pen_engine *engine,
                                       const struct pen_gated_bias *bias,
                                       const void *gates, const void *dy)
{
    (void)engine;
    const struct pen_dispatch *dispatch = &bias->dispatch;
    REAL *gradient = bias->bias->parts[PEN_PART_GRADIENT];
    for (size_t p = 0; p < dispatch->rows * dispatch->chosen; p++)
        for (size_t i = 0; i < dispatch->width; i++)
            gradient[i] += ((const REAL *)gates)[dispatch->order[p]] *
                           ((const REAL *)dy)[p * dispatch->width + i];
}
