/* Routers, and rows on their way to experts and back: kernels and products. */
#include "engine/device/device.h"

static struct pen__route_sizes route_sizes(const struct pen_router *router)
{
    double rows = (double)router->rows;
    double experts = (double)router->weight->shape.rows;
    return (struct pen__route_sizes){
        .rows = (long)router->rows,
        .experts = (long)router->weight->shape.rows,
        .chosen = (long)router->chosen,
        .groups = router->groups > 1 ? (long)router->groups : 1,
        .chosen_groups = (long)router->chosen_groups,
        .scale = router->scale > 0 ? (float)router->scale : 1,
        .aux = (float)(router->aux * experts /
                       ((double)router->chosen * rows * rows)),
        .z = (float)(2 * router->z / rows),
        .is_normal = router->is_normal,
        .is_sigmoid = router->is_sigmoid,
        .has_offset = router->offset != NULL};
}

static void route_forward(
    struct pen_engine *engine, const struct pen_router *router, const void *x,
    void *logits, void *gates,
    /* NOLINTNEXTLINE(readability-non-const-parameter): kernels write there */
    int32_t *choice)
{
    const struct pen__route_sizes sizes = route_sizes(router);
    const long groups = pen__groups(router->rows, PEN__LANES);
    size_t width = router->weight->shape.columns;
    struct pen__product_sizes product =
        pen__plain_product(router->rows, router->weight->shape.rows, width);
    product.a_row = product.b_row = (long)width;
    product.a_depth = product.b_depth = 1;
    product.b_is_master = product.c_is_master = 1;
    product.has_bias = router->bias != NULL;
    pen__launch(engine, PEN__KERNEL_product, pen__tiles_of(&product),
                PEN__AT(x, pen__value_of(router->weight),
                        pen__value_of(router->bias), NULL, logits),
                &product);
    pen__launch(engine, PEN__KERNEL_route_choose, groups,
                PEN__AT(logits, pen__value_of(router->offset), choice), &sizes);
    pen__launch(engine, PEN__KERNEL_route_gates, groups,
                PEN__AT(logits, choice, gates), &sizes);
}

static void route_backward_input(struct pen_engine *engine,
                                 const struct pen_router *router,
                                 const struct pen_route *route,
                                 const void *dgates, void *dlogits, void *dx)
{
    const struct pen__route_sizes sizes = route_sizes(router);
    size_t width = router->weight->shape.columns;
    size_t experts = router->weight->shape.rows;
    pen__launch(engine, PEN__KERNEL_route_slopes,
                pen__groups(router->rows, PEN__LANES),
                PEN__AT(route->logits, route->gates, route->choice,
                        route->tokens, dgates, dlogits),
                &sizes);
    if (dx == NULL)
        return;
    struct pen__product_sizes product =
        pen__plain_product(router->rows, width, experts);
    product.a_row = (long)experts;
    product.a_depth = 1;
    product.b_row = 1;
    product.b_depth = (long)width;
    product.a_is_master = product.b_is_master = 1;
    product.is_added = 1;
    pen__launch(engine, PEN__KERNEL_product, pen__tiles_of(&product),
                PEN__AT(dlogits, pen__value_of(router->weight), NULL, NULL, dx),
                &product);
}

static void route_backward_weight(struct pen_engine *engine,
                                  const struct pen_router *router,
                                  const void *x, const void *dlogits)
{
    size_t width = router->weight->shape.columns;
    size_t experts = router->weight->shape.rows;
    struct pen__product_sizes product =
        pen__plain_product(experts, width, router->rows);
    product.a_row = product.b_row = 1;
    product.a_depth = (long)experts;
    product.b_depth = (long)width;
    product.a_is_master = product.c_is_master = product.is_added = 1;
    pen__launch(
        engine, PEN__KERNEL_product, pen__tiles_of(&product),
        PEN__AT(dlogits, x, NULL, NULL, pen__gradient_of(router->weight)),
        &product);
    if (router->bias == NULL)
        return;
    const struct pen__columns_sizes columns = {
        .rows = (long)router->rows, .columns = (long)experts, .is_master = 1};
    pen__launch(engine, PEN__KERNEL_column_sums,
                pen__groups(experts, PEN__LANES),
                PEN__AT(dlogits, pen__gradient_of(router->bias)), &columns);
}

static struct pen__dispatch_sizes
dispatch_sizes(const struct pen_dispatch *dispatch)
{
    return (struct pen__dispatch_sizes){.rows = (long)dispatch->rows,
                                        .chosen = (long)dispatch->chosen,
                                        .width = (long)dispatch->width};
}

/* Groups of a kernel that goes over the elements of all copies. */
static long groups_of_copies(const struct pen_dispatch *dispatch)
{
    return pen__groups(dispatch->rows * dispatch->chosen * dispatch->width,
                       PEN__SHARE);
}

static void dispatch_rows(struct pen_engine *engine,
                          const struct pen_dispatch *dispatch, const void *x,
                          void *y)
{
    const struct pen__dispatch_sizes sizes = dispatch_sizes(dispatch);
    pen__launch(engine, PEN__KERNEL_dispatch_rows, groups_of_copies(dispatch),
                PEN__AT(dispatch->order, x, y), &sizes);
}

static void collect_rows(struct pen_engine *engine,
                         const struct pen_dispatch *dispatch, const void *x,
                         const void *add, void *y)
{
    struct pen__dispatch_sizes sizes = dispatch_sizes(dispatch);
    sizes.has_add = add != NULL;
    pen__launch(engine, PEN__KERNEL_collect_rows,
                pen__groups(dispatch->rows * dispatch->width, PEN__SHARE),
                PEN__AT(dispatch->at, x, add, y), &sizes);
}

static void gate_forward(struct pen_engine *engine,
                         const struct pen_dispatch *dispatch, const void *gates,
                         const void *x, void *y)
{
    const struct pen__dispatch_sizes sizes = dispatch_sizes(dispatch);
    pen__launch(engine, PEN__KERNEL_gate_forward, groups_of_copies(dispatch),
                PEN__AT(dispatch->order, gates, x, y), &sizes);
}

static void gate_backward(struct pen_engine *engine,
                          const struct pen_dispatch *dispatch,
                          const void *gates, const void *x, const void *dy,
                          void *dgates, void *dx)
{
    const struct pen__dispatch_sizes sizes = dispatch_sizes(dispatch);
    pen__launch(engine, PEN__KERNEL_gate_backward,
                (long)(dispatch->rows * dispatch->chosen),
                PEN__AT(dispatch->order, gates, x, dy, dgates, dx), &sizes);
}

static struct pen__clamped_sizes
clamped_sizes(const struct pen_clamped_gate *gate)
{
    return (struct pen__clamped_sizes){.count =
                                           (long)(gate->rows * gate->width),
                                       .alpha = (float)gate->alpha,
                                       .limit = (float)gate->limit};
}

static void clamped_gate_forward(struct pen_engine *engine,
                                 const struct pen_clamped_gate *gate,
                                 const void *x, void *y)
{
    const struct pen__clamped_sizes sizes = clamped_sizes(gate);
    pen__launch(engine, PEN__KERNEL_clamped_forward,
                pen__groups(gate->rows * gate->width, PEN__SHARE),
                PEN__AT(x, y), &sizes);
}

static void clamped_gate_backward(struct pen_engine *engine,
                                  const struct pen_clamped_gate *gate,
                                  const void *x, const void *dy, void *dx)
{
    const struct pen__clamped_sizes sizes = clamped_sizes(gate);
    pen__launch(engine, PEN__KERNEL_clamped_backward,
                pen__groups(gate->rows * gate->width, PEN__SHARE),
                PEN__AT(x, dy, dx), &sizes);
}

static void gated_bias_forward(struct pen_engine *engine,
                               const struct pen_gated_bias *bias,
                               const void *gates, void *y)
{
    const struct pen__dispatch_sizes sizes = dispatch_sizes(&bias->dispatch);
    pen__launch(
        engine, PEN__KERNEL_gated_bias_forward,
        groups_of_copies(&bias->dispatch),
        PEN__AT(bias->dispatch.order, gates, pen__value_of(bias->bias), y),
        &sizes);
}

static void gated_bias_backward_input(struct pen_engine *engine,
                                      const struct pen_gated_bias *bias,
                                      const void *dy, void *dgates)
{
    const struct pen_dispatch *dispatch = &bias->dispatch;
    const struct pen__dispatch_sizes sizes = dispatch_sizes(dispatch);
    pen__launch(engine, PEN__KERNEL_gated_bias_slopes,
                (long)(dispatch->rows * dispatch->chosen),
                PEN__AT(dispatch->order, pen__value_of(bias->bias), dy, dgates),
                &sizes);
}

static void gated_bias_backward_weight(struct pen_engine *engine,
                                       const struct pen_gated_bias *bias,
                                       const void *gates, const void *dy)
{
    const struct pen__dispatch_sizes sizes = dispatch_sizes(&bias->dispatch);
    pen__launch(
        engine, PEN__KERNEL_gated_bias_weight,
        pen__groups(bias->dispatch.width, PEN__LANES),
        PEN__AT(bias->dispatch.order, gates, dy, pen__gradient_of(bias->bias)),
        &sizes);
}

void pen__device_set_experts(struct pen_engine_ops *ops)
{
    ops->route_forward = route_forward;
    ops->route_backward_input = route_backward_input;
    ops->route_backward_weight = route_backward_weight;
    ops->dispatch_rows = dispatch_rows;
    ops->collect_rows = collect_rows;
    ops->gate_forward = gate_forward;
    ops->gate_backward = gate_backward;
    ops->clamped_gate_forward = clamped_gate_forward;
    ops->clamped_gate_backward = clamped_gate_backward;
    ops->gated_bias_forward = gated_bias_forward;
    ops->gated_bias_backward_input = gated_bias_backward_input;
    ops->gated_bias_backward_weight = gated_bias_backward_weight;
}
