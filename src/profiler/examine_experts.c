/* The operations of mixtures of experts, and the step of Muon, as cases. */
#include "profiler/attempt.h"

#include <stdlib.h>

#define OPS (attempt->engine->ops)
#define ENGINE (attempt->engine)

static void *array(const struct pen__attempt *attempt, int number)
{
    return attempt->arrays[number].at;
}

static void keep_stats(struct pen__attempt *attempt, const void *at,
                       size_t count)
{
    pen__attempt_keep(attempt, at, count, pen_precision_master(ENGINE->dtype));
}

static void *draw_stats(struct pen__attempt *attempt, size_t count)
{
    void *stats = pen__attempt_stats(attempt, count);
    for (size_t i = 0; i < count && stats != NULL; i++)
        if (ENGINE->dtype == PEN_PRECISION_F64)
            ((double *)stats)[i] = pen__attempt_draw(attempt);
        else
            ((float *)stats)[i] = (float)pen__attempt_draw(attempt);
    return stats;
}

/* ---- router: x, logits, gates, choice, tokens, dgates, dlogits, dx ---- */

/*
 * Multiples of 2^-4 with x and of 2^-8 with the weight: float has every sum of
 * their products, so that no choice hangs on rounding.
 */
static double coarse(struct pen__attempt *attempt)
{
    return ((double)pen_random_below(&attempt->random, 33) - 16) / 16;
}

static void set_coarse_input(struct pen__attempt *attempt, size_t count)
{
    void *x = pen__attempt_output(attempt, count);
    for (size_t i = 0; i < count && x != NULL; i++) {
        double number = coarse(attempt);
        if (ENGINE->dtype == PEN_PRECISION_F64)
            ((double *)x)[i] = number;
        else if (ENGINE->dtype == PEN_PRECISION_F32)
            ((float *)x)[i] = (float)number;
        else
            ((uint16_t *)x)[i] = pen_bf16_from_float((float)number);
    }
}

static void set_coarse_weight(struct pen__attempt *attempt,
                              struct pen_parameter *weight, size_t count)
{
    double *plain = malloc(count * sizeof *plain);
    if (plain == NULL)
        attempt->status = PEN_NOMEM;
    if (plain == NULL || weight == NULL) {
        free(plain);
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (ENGINE->dtype == PEN_PRECISION_F64)
            plain[i] = coarse(attempt) / 16;
        else
            ((float *)(void *)plain)[i] = (float)coarse(attempt) / 16;
    OPS->parameter_import(ENGINE, weight, PEN_PART_VALUE, PEN_ORDER_ROWS,
                          plain);
    OPS->parameter_value_changed(ENGINE, weight);
    free(plain);
}

void pen__set_up_router(struct pen__attempt *attempt)
{
    const struct pen__case *it = attempt->it;
    const struct pen_model *model = it->options->model;
    size_t chosen = model->experts_per_token, slots = it->rows * chosen;
    struct pen_router *router = &attempt->of.router;
    *router = (struct pen_router){.rows = it->rows,
                                  .chosen = chosen,
                                  .is_normal = !model->has_plain_gates,
                                  .is_sigmoid = model->has_sigmoid_gates,
                                  .groups = model->num_expert_groups,
                                  .chosen_groups = model->chosen_groups,
                                  .scale = model->gate_scale,
                                  .aux = 0.01,
                                  .z = 0.001};
    set_coarse_input(attempt, it->rows * it->in);
    void *logits = pen__attempt_stats(attempt, it->rows * it->out);
    void *gates = pen__attempt_stats(attempt, slots);
    pen__attempt_ids(attempt, slots, it->out);
    pen__attempt_ids(attempt, it->out, it->rows);
    draw_stats(attempt, slots);
    void *dlogits = pen__attempt_stats(attempt, it->rows * it->out);
    void *dx = pen__attempt_input(attempt, it->rows * it->in);
    router->weight =
        pen__attempt_parameter(attempt, PEN_PARAMETER_VECTORS, it->out, it->in);
    set_coarse_weight(attempt, router->weight, it->out * it->in);
    keep_stats(attempt, logits, it->rows * it->out);
    keep_stats(attempt, gates, slots);
    keep_stats(attempt, dlogits, it->rows * it->out);
    pen__attempt_keep(attempt, dx, it->rows * it->in, ENGINE->dtype);
    pen__attempt_keep_part(attempt, router->weight, PEN_PART_GRADIENT);
}

void pen__call_router(struct pen__attempt *attempt)
{
    const struct pen_router *router = &attempt->of.router;
    const struct pen_route route = {array(attempt, 1), array(attempt, 2),
                                    array(attempt, 3), array(attempt, 4)};
    OPS->route_forward(ENGINE, router, array(attempt, 0), array(attempt, 1),
                       array(attempt, 2), array(attempt, 3));
    OPS->route_backward_input(ENGINE, router, &route, array(attempt, 5),
                              array(attempt, 6), array(attempt, 7));
    OPS->route_backward_weight(ENGINE, router, array(attempt, 0),
                               array(attempt, 6));
}

/* ---- rows: x, gates, order, copies, gated, y, dgates, dcopies ---- */

/* Copies are in the reverse order of slots, which is its own inverse. */
void pen__set_up_slots(struct pen__attempt *attempt)
{
    const struct pen__case *it = attempt->it;
    size_t chosen = it->options->model->experts_per_token;
    size_t slots = it->rows * chosen;
    pen__attempt_input(attempt, it->rows * it->in);
    draw_stats(attempt, slots);
    int32_t *order = pen__attempt_ids(attempt, slots, slots);
    for (size_t slot = 0; slot < slots && order != NULL; slot++)
        order[slot] = (int32_t)(slots - 1 - slot);
    pen__attempt_output(attempt, slots * it->in);
    pen__attempt_output(attempt, slots * it->in);
    void *y = pen__attempt_output(attempt, it->rows * it->in);
    void *dgates = pen__attempt_stats(attempt, slots);
    void *dcopies = pen__attempt_output(attempt, slots * it->in);
    attempt->of.dispatch = (struct pen_dispatch){.rows = it->rows,
                                                 .chosen = chosen,
                                                 .width = it->in,
                                                 .order = order,
                                                 .at = order};
    pen__attempt_keep(attempt, y, it->rows * it->in, ENGINE->dtype);
    keep_stats(attempt, dgates, slots);
    pen__attempt_keep(attempt, dcopies, slots * it->in, ENGINE->dtype);
}

void pen__call_slots(struct pen__attempt *attempt)
{
    const struct pen_dispatch *dispatch = &attempt->of.dispatch;
    void *gates = array(attempt, 1), *copies = array(attempt, 3);
    void *gated = array(attempt, 4), *y = array(attempt, 5);
    OPS->dispatch_rows(ENGINE, dispatch, array(attempt, 0), copies);
    OPS->gate_forward(ENGINE, dispatch, gates, copies, gated);
    OPS->collect_rows(ENGINE, dispatch, gated, array(attempt, 0), y);
    OPS->gate_backward(ENGINE, dispatch, gates, copies, gated,
                       array(attempt, 6), array(attempt, 7));
}

/* ---- gates with clamps: x, dy, y, dx ---- */

void pen__set_up_clamped(struct pen__attempt *attempt)
{
    const struct pen_model *model = attempt->it->options->model;
    size_t rows = attempt->it->rows, width = attempt->it->in;
    attempt->of.clamped = (struct pen_clamped_gate){
        rows, width, model->gate_alpha, model->gate_limit};
    pen__attempt_input(attempt, 2 * rows * width);
    pen__attempt_input(attempt, rows * width);
    void *y = pen__attempt_output(attempt, rows * width);
    void *dx = pen__attempt_output(attempt, 2 * rows * width);
    pen__attempt_keep(attempt, y, rows * width, ENGINE->dtype);
    pen__attempt_keep(attempt, dx, 2 * rows * width, ENGINE->dtype);
}

void pen__call_clamped(struct pen__attempt *attempt)
{
    const struct pen_clamped_gate *gate = &attempt->of.clamped;
    OPS->clamped_gate_forward(ENGINE, gate, array(attempt, 0),
                              array(attempt, 2));
    OPS->clamped_gate_backward(ENGINE, gate, array(attempt, 0),
                               array(attempt, 1), array(attempt, 3));
}

/* ---- sinks: out, dout, lse, slopes ---- */

void pen__set_up_sinks(struct pen__attempt *attempt)
{
    const struct pen__case *it = attempt->it;
    const struct pen_model *model = it->options->model;
    size_t heads = model->num_heads;
    struct pen_sinks *sinks = &attempt->of.sinks;
    void *out = pen__attempt_input(attempt, it->rows * it->in);
    pen__attempt_input(attempt, it->rows * it->in);
    void *lse = draw_stats(attempt, it->rows * heads);
    void *slopes = pen__attempt_stats(attempt, heads);
    *sinks = (struct pen_sinks){.batch = it->options->batch,
                                .sequence = it->options->sequence,
                                .heads = heads,
                                .head_size = model->head_dim,
                                .logits = pen__attempt_parameter(
                                    attempt, PEN_PARAMETER_VECTORS, 1, heads)};
    pen__attempt_keep(attempt, out, it->rows * it->in, ENGINE->dtype);
    keep_stats(attempt, lse, it->rows * heads);
    keep_stats(attempt, slopes, heads);
    pen__attempt_keep_part(attempt, sinks->logits, PEN_PART_GRADIENT);
}

void pen__call_sinks(struct pen__attempt *attempt)
{
    const struct pen_sinks *sinks = &attempt->of.sinks;
    OPS->sinks_forward(ENGINE, sinks, array(attempt, 0), array(attempt, 2));
    OPS->sinks_backward_input(ENGINE, sinks, array(attempt, 0),
                              array(attempt, 2), array(attempt, 1),
                              array(attempt, 3));
    OPS->sinks_backward_weight(ENGINE, sinks, array(attempt, 3));
}

/* ---- Muon: a matrix ---- */

void pen__set_up_muon(struct pen__attempt *attempt)
{
    const struct pen__case *it = attempt->it;
    struct pen_parameter *matrix =
        pen__attempt_parameter(attempt, PEN_PARAMETER_DENSE, it->rows, it->in);
    double side = (double)(it->rows < it->in ? it->rows : it->in);
    double other = (double)(it->rows < it->in ? it->in : it->rows);
    if (attempt->status == PEN_OK)
        attempt->status = OPS->muon_prepare(ENGINE, it->rows, it->in, NULL);
    pen__attempt_keep_part(attempt, matrix, PEN_PART_VALUE);
    pen__attempt_keep_part(attempt, matrix, PEN_PART_MOMENT1);
    attempt->flops = 10 * side * side * (2 * other + side);
}

void pen__call_muon(struct pen__attempt *attempt)
{
    const struct pen_muon muon = {.num_rows = attempt->it->rows,
                                  .learning_rate = 1e-2,
                                  .adjusted_rate = 1e-2,
                                  .momentum = 0.95,
                                  .is_nesterov = true,
                                  .weight_decay = 0.1,
                                  .gradient_scale = 0.5};
    OPS->muon_step(ENGINE, attempt->parameters[0], &muon);
}
