/* Operations of mixtures of experts as trials, and the step of Muon. */
#include "support/engine.h"

#define OPS (trial->engine->ops)
#define ENGINE (trial->engine)

static struct pen_router random_router(struct trial *trial, size_t *experts)
{
    struct pen_random *random = &trial->random;
    struct pen_router router = {.rows = 8 + trial_size(trial),
                                .is_sigmoid = pen_random_below(random, 2),
                                .scale = 1.5,
                                .aux = 0.5,
                                .z = 0.25};
    size_t groups = 1 + pen_random_below(random, 3);
    size_t each = 2 + pen_random_below(random, 3);
    *experts = groups * each;
    router.groups = groups > 1 ? groups : 0;
    router.chosen_groups = groups > 1 ? groups - 1 : 0;
    router.chosen = 1 + pen_random_below(random, 2);
    /* A normal gate of one expert is constant, and its slope rounding. */
    router.is_normal = router.chosen > 1 && pen_random_below(random, 2);
    return router;
}

/* Slots in the order of their experts, as the layer of experts sorts them. */
static struct pen_dispatch sort_rows(struct trial *trial,
                                     const struct pen_router *router,
                                     const int32_t *choice, size_t experts,
                                     int32_t *tokens)
{
    size_t slots = router->rows * router->chosen, next = 0;
    int32_t *order = trial_stat_room(trial, slots);
    int32_t *at = trial_stat_room(trial, slots);
    for (size_t e = 0; e < experts; e++) {
        size_t first = next;
        for (size_t slot = 0; slot < slots; slot++)
            if (choice[slot] == (int32_t)e) {
                at[slot] = (int32_t)next;
                order[next++] = (int32_t)slot;
            }
        tokens[e] = (int32_t)(next - first);
    }
    assert_int_equal(next, slots);
    return (struct pen_dispatch){.rows = router->rows,
                                 .chosen = router->chosen,
                                 .order = order,
                                 .at = at};
}

/* Gates are stats; their derivatives are those of unit/network_experts. */
static void run_router(struct trial *trial)
{
    size_t experts, width = 8 + trial_size(trial);
    struct pen_router router = random_router(trial, &experts);
    size_t slots = router.rows * router.chosen;
    bool has_bias = pen_random_below(&trial->random, 2);
    bool has_offset = pen_random_below(&trial->random, 2);
    int x_id, unused;
    void *x = trial_input(trial, router.rows * width, &x_id);
    router.weight =
        trial_parameter(trial, PEN_PARAMETER_VECTORS, experts, width, &unused);
    if (has_bias)
        router.bias =
            trial_parameter(trial, PEN_PARAMETER_VECTORS, 1, experts, &unused);
    if (has_offset)
        router.offset =
            trial_parameter(trial, PEN_PARAMETER_VECTORS, 1, experts, &unused);
    void *logits = trial_stat_room(trial, router.rows * experts);
    void *dlogits = trial_stat_room(trial, router.rows * experts);
    void *gates = trial_stat_room(trial, slots);
    void *dgates = trial_stat_slopes(trial, slots);
    int32_t *choice = trial_stat_room(trial, slots);
    int32_t *tokens = trial_stat_room(trial, experts);
    void *dx = trial_slopes(trial, router.rows * width);
    OPS->route_forward(ENGINE, &router, x, logits, gates, choice);
    trial_stats(trial, "logits", router.rows * experts, logits);
    trial_stats(trial, "gates", slots, gates);
    (void)sort_rows(trial, &router, choice, experts, tokens);
    const struct pen_route route = {logits, gates, choice, tokens};
    OPS->route_backward_input(ENGINE, &router, &route, dgates, dlogits, dx);
    trial_stats(trial, "dlogits", router.rows * experts, dlogits);
    trial_gradient(trial, "dx", -1, router.rows * width, dx);
    OPS->route_backward_weight(ENGINE, &router, x, dlogits);
    trial_parameter_part(trial, "dw", -1, router.weight, PEN_PART_GRADIENT);
    if (has_bias)
        trial_parameter_part(trial, "dbias", -1, router.bias,
                             PEN_PART_GRADIENT);
}

/* Copies of rows, their gates, and the sums of what becomes of them. */
static void run_slots(struct trial *trial)
{
    size_t experts = 1 + pen_random_below(&trial->random, 5);
    /* The gates of a row may cancel, and those of few rows together. */
    struct pen_router router = {.rows = 8 + trial_size(trial), .chosen = 1};
    router.chosen += pen_random_below(&trial->random, (uint32_t)experts);
    size_t slots = router.rows * router.chosen, width = trial_size(trial);
    size_t count = slots * width;
    int32_t *tokens = trial_stat_room(trial, experts);
    int32_t *choice = trial_ids(trial, slots, experts);
    struct pen_dispatch dispatch =
        sort_rows(trial, &router, choice, experts, tokens);
    dispatch.width = width;
    int x_id, past_id;
    void *x = trial_input(trial, router.rows * width, &x_id);
    void *past = trial_input(trial, router.rows * width, &past_id);
    void *dy = trial_slopes(trial, router.rows * width);
    void *gates = trial_stat_slopes(trial, slots);
    void *dgates = trial_stat_room(trial, slots);
    void *copies = trial_room(trial, count),
         *dcopies = trial_room(trial, count);
    void *gated = trial_room(trial, count);
    void *y = trial_room(trial, router.rows * width);
    OPS->dispatch_rows(ENGINE, &dispatch, x, copies);
    OPS->gate_forward(ENGINE, &dispatch, gates, copies, gated);
    OPS->collect_rows(ENGINE, &dispatch, gated, past, y);
    trial_output(trial, "y", router.rows * width, y, dy);
    trial_gradient(trial, "gated", -1, count, gated);
    OPS->dispatch_rows(ENGINE, &dispatch, dy, dcopies);
    OPS->gate_backward(ENGINE, &dispatch, gates, copies, dcopies, dgates,
                       dcopies);
    trial_stats(trial, "dgates", slots, dgates);
    OPS->collect_rows(ENGINE, &dispatch, dcopies, NULL, y);
    trial_gradient(trial, "dx", x_id, router.rows * width, y);
}

/* Two steps of the rows of a parameter that are one matrix. */
static void run_muon(struct trial *trial)
{
    size_t rows = trial_size(trial), columns = trial_size(trial);
    struct pen_muon muon = {.first_row = pen_random_below(&trial->random, 3),
                            .num_rows = rows,
                            .learning_rate = 1e-2,
                            .adjusted_rate = 2e-2,
                            .momentum = 0.75,
                            .is_nesterov = pen_random_below(&trial->random, 2),
                            .weight_decay = 0.1,
                            .gradient_scale = 0.5};
    int unused;
    size_t whole = muon.first_row + rows + 1;
    struct pen_linear linear = {.rows = 3};
    linear.weight =
        trial_parameter(trial, PEN_PARAMETER_DENSE, whole, columns, &unused);
    trial_prepare(trial, &linear);
    assert_int_equal(OPS->muon_prepare(ENGINE, rows, columns, NULL), PEN_OK);
    void *x = trial_slopes(trial, linear.rows * columns);
    for (int step = 0; step < 2; step++) {
        OPS->linear_backward_weight(ENGINE, &linear, x,
                                    trial_slopes(trial, linear.rows * whole));
        OPS->muon_step(ENGINE, linear.weight, &muon);
    }
    OPS->parameter_value_changed(ENGINE, linear.weight);
    trial_parameter_part(trial, "value", -1, linear.weight, PEN_PART_VALUE);
    trial_parameter_part(trial, "moment", -1, linear.weight, PEN_PART_MOMENT1);
    void *y = trial_room(trial, linear.rows * whole);
    OPS->linear_forward(ENGINE, &linear, x, NULL, y);
    trial_gradient(trial, "y of the new weight", -1, linear.rows * whole, y);
}

/* Gates with clamps, the bias of the last product, and its gates. */
static void run_clamped(struct trial *trial)
{
    size_t rows = trial_size(trial), width = trial_size(trial);
    size_t count = rows * width;
    const struct pen_clamped_gate gate = {rows, width, 1.702, 0.7};
    int x_id, bias_id;
    void *x = trial_input(trial, 2 * count, &x_id);
    void *dy = trial_slopes(trial, count), *y = trial_room(trial, count);
    void *dx = trial_room(trial, 2 * count);
    void *gates = trial_stat_slopes(trial, rows);
    void *dgates = trial_stat_slopes(trial, rows);
    int32_t *order = trial_ids(trial, rows, 1);
    for (size_t i = 0; i < rows; i++)
        order[i] = (int32_t)(rows - 1 - i);
    const struct pen_gated_bias bias = {
        .dispatch = {.rows = rows, .chosen = 1, .width = width, .order = order},
        .bias =
            trial_parameter(trial, PEN_PARAMETER_VECTORS, 1, width, &bias_id)};
    OPS->clamped_gate_forward(ENGINE, &gate, x, y);
    OPS->gated_bias_forward(ENGINE, &bias, gates, y);
    trial_output(trial, "y", count, y, dy);
    OPS->gated_bias_backward_input(ENGINE, &bias, dy, dgates);
    trial_stats(trial, "dgates", rows, dgates);
    OPS->gated_bias_backward_weight(ENGINE, &bias, gates, dy);
    trial_parameter_part(trial, "dbias", bias_id, bias.bias, PEN_PART_GRADIENT);
    OPS->clamped_gate_backward(ENGINE, &gate, x, dy, dx);
    trial_gradient(trial, "dx", x_id, 2 * count, dx);
}

static void run_sinks(struct trial *trial)
{
    struct pen_sinks sinks = {.batch = 1 + pen_random_below(&trial->random, 2),
                              .sequence = trial_size(trial),
                              .heads = 1 + pen_random_below(&trial->random, 5),
                              .head_size = trial_size(trial)};
    size_t rows = sinks.batch * sinks.sequence;
    size_t count = rows * sinks.heads * sinks.head_size;
    int unused;
    void *out = trial_input(trial, count, &unused);
    void *dout = trial_slopes(trial, count);
    void *lse = trial_stat_slopes(trial, rows * sinks.heads);
    void *slopes = trial_stat_room(trial, sinks.heads);
    sinks.logits =
        trial_parameter(trial, PEN_PARAMETER_VECTORS, 1, sinks.heads, &unused);
    OPS->sinks_forward(ENGINE, &sinks, out, lse);
    trial_gradient(trial, "out", -1, count, out);
    trial_stats(trial, "lse", rows * sinks.heads, lse);
    /* Results near their slopes: a sum that does not cancel. */
    OPS->add(ENGINE, count, out, dout, dout);
    OPS->sinks_backward_input(ENGINE, &sinks, out, lse, dout, slopes);
    OPS->sinks_backward_weight(ENGINE, &sinks, slopes);
    trial_parameter_part(trial, "dsinks", -1, sinks.logits, PEN_PART_GRADIENT);
}

/* Groups to their places, with zeros behind them, and their sum to one place;
 * neighbours that turn at the end of each group. */
static void run_columns(struct trial *trial)
{
    struct pen_columns columns = {.rows = trial_size(trial),
                                  .groups =
                                      1 + pen_random_below(&trial->random, 4),
                                  .width = 2 * trial_size(trial),
                                  .zeros = pen_random_below(&trial->random, 3)};
    columns.from_step = columns.width;
    columns.from_stride = columns.groups * columns.width;
    columns.to_step = columns.width + columns.zeros;
    columns.to_stride = columns.groups * columns.to_step + 1;
    size_t in = columns.rows * columns.from_stride;
    size_t out = columns.rows * columns.to_stride;
    int x_id;
    void *x = trial_input(trial, in, &x_id);
    void *y = trial_room(trial, out);
    void *sums = trial_room(trial, columns.rows * columns.width);
    size_t half = 1 + pen_random_below(&trial->random, 4);
    char *tables = trial_stat_slopes(trial, 2 * columns.rows * half);
    size_t bytes = pen_precision_bytes(ENGINE->dtype);
    size_t stat = pen_precision_bytes(pen_precision_master(ENGINE->dtype));
    OPS->copy_columns(ENGINE, &columns, x, y);
    trial_gradient(trial, "copies", -1, out, y);
    struct pen_columns all = columns;
    all.zeros = all.to_step = 0;
    all.to_stride = columns.width;
    OPS->copy_columns(ENGINE, &all, x, sums);
    trial_gradient(trial, "sums", -1, columns.rows * columns.width, sums);
    if (2 * half > columns.width)
        half = columns.width / 2;
    const struct pen_rotary rotary = {.rows = columns.rows,
                                      .sequence = columns.rows,
                                      .heads = columns.groups,
                                      .head_size = 2 * half,
                                      .stride = columns.from_stride,
                                      .step = columns.from_step,
                                      .has_neighbours = true,
                                      .cosines = tables,
                                      .sines =
                                          tables + columns.rows * half * stat};
    OPS->rotary_forward(ENGINE, &rotary,
                        (char *)x + (columns.width - 2 * half) * bytes);
    trial_gradient(trial, "turned", -1, in, x);
}

const struct trial_op expert_trial_ops[] = {
    {"router", run_router}, {"slots", run_slots},     {"clamped", run_clamped},
    {"sinks", run_sinks},   {"columns", run_columns}, {"muon", run_muon}};
const size_t num_expert_trial_ops =
    sizeof expert_trial_ops / sizeof expert_trial_ops[0];
