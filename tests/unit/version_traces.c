/*
 * The op lists, executed with their weight versions, are the delayed SGD that
 * the papers write down, bit for bit.
 *
 * The model is a chain of parts y = tanh(w x) with the loss (y - target)^2 / 2.
 * `execute` follows the ops of a schedule; `trace` follows a formula and knows
 * nothing of schedules.
 */
#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STAGES 36
#define MICROBATCHES 64
#define VERSIONS 64
#define RATE 0.3

struct weights {
    double of[STAGES][VERSIONS]; /* by stage and version */
};

static double first_weight(uint32_t part)
{
    return 0.9 + 0.07 * part;
}

static double sample(uint32_t microbatch)
{
    return 0.5 + 0.4 * sin(1.7 * microbatch);
}

static double target(uint32_t microbatch)
{
    return 0.3 * cos(0.9 * microbatch);
}

static double unit(double w, double x)
{
    return tanh(w * x);
}

/* dy: gradient of the output; gives those of the input and of the weight. */
static void unit_backward(double w, double x, double dy, double *dx, double *dw)
{
    double y = unit(w, x);
    double inner = dy * (1 - y * y);
    *dx = inner * w;
    *dw = inner * x;
}

/* What the ranks have done so far. */
struct machine {
    const struct pen_schedule *schedule;
    struct weights weights;
    double input[STAGES][MICROBATCHES];
    double gradient[STAGES][MICROBATCHES]; /* of the output */
    uint32_t used[STAGES][MICROBATCHES];   /* version of the forward */
    bool has_input[STAGES][MICROBATCHES];
    bool has_gradient[STAGES][MICROBATCHES];
    double sum[STAGES]; /* weight gradients since the last SYNC */
    double synced[STAGES][VERSIONS];
    uint32_t syncs[STAGES];
    uint32_t steps[STAGES]; /* also the newest version */
    uint32_t at[STAGES];    /* per rank: next op */
};

static uint32_t version_read(const struct machine *machine,
                             const struct pen_op *op)
{
    return op->version == PEN_OP_CURRENT ? machine->steps[op->stage]
                                         : op->version;
}

static bool run_forward(struct machine *machine, const struct pen_op *op)
{
    const struct pen_shape *shape = &machine->schedule->shape;
    uint32_t s = op->stage, i = op->microbatch;
    if (pen_shape_previous_stage(shape, s) == PEN_NO_STAGE)
        machine->input[s][i] = sample(i);
    else if (!machine->has_input[s][i])
        return false;
    uint32_t version = version_read(machine, op);
    assert_true(version <= machine->steps[s]);
    machine->used[s][i] = version;
    double y = unit(machine->weights.of[s][version], machine->input[s][i]);
    uint32_t next = pen_shape_next_stage(shape, s);
    if (next == PEN_NO_STAGE) {
        machine->gradient[s][i] = y - target(i);
        machine->has_gradient[s][i] = true;
    } else {
        machine->input[next][i] = y;
        machine->has_input[next][i] = true;
    }
    return true;
}

static bool run_backward(struct machine *machine, const struct pen_op *op)
{
    const struct pen_shape *shape = &machine->schedule->shape;
    uint32_t s = op->stage, i = op->microbatch;
    if (!machine->has_gradient[s][i])
        return false;
    assert_int_equal(machine->used[s][i], version_read(machine, op));
    double dx = 0, dw = 0;
    unit_backward(machine->weights.of[s][machine->used[s][i]],
                  machine->input[s][i], machine->gradient[s][i], &dx, &dw);
    machine->sum[s] += dw;
    uint32_t previous = pen_shape_previous_stage(shape, s);
    if (previous != PEN_NO_STAGE) {
        machine->gradient[previous][i] = dx;
        machine->has_gradient[previous][i] = true;
    }
    return true;
}

/* The mean over all copies of the part, in their order. */
static bool run_step(struct machine *machine, uint32_t s)
{
    const struct pen_shape *shape = &machine->schedule->shape;
    uint32_t period = machine->schedule->rules.period;
    uint32_t parts = pen_shape_parts(shape);
    uint32_t number = machine->steps[s];
    double sum = 0;
    for (uint32_t twin = s % parts; twin < shape->num_stages; twin += parts) {
        if (machine->syncs[twin] <= number)
            return false;
        sum += machine->synced[twin][number];
    }
    if (period == 0)
        period = shape->num_microbatches / shape->num_copies;
    double *w = machine->weights.of[s];
    w[number + 1] = w[number] - RATE * sum / (period * shape->num_copies);
    machine->steps[s]++;
    return true;
}

static bool run_op(struct machine *machine, const struct pen_op *op)
{
    switch (op->kind) {
    case PEN_OP_FORWARD:
        return run_forward(machine, op);
    case PEN_OP_BACKWARD:
        return run_backward(machine, op);
    case PEN_OP_STEP:
        return run_step(machine, op->stage);
    case PEN_OP_SYNC_GRAD:
        machine->synced[op->stage][machine->syncs[op->stage]++] =
            machine->sum[op->stage];
        machine->sum[op->stage] = 0;
        return true;
    default:
        return true; /* values travel by themselves */
    }
}

/* Runs to the end; *weights holds version 0 and receives all others. */
static void execute(const struct pen_schedule *schedule,
                    struct weights *weights)
{
    struct machine *machine = calloc(1, sizeof *machine);
    assert_non_null(machine);
    assert_true(schedule->shape.num_stages <= STAGES);
    assert_true(schedule->shape.num_microbatches <= MICROBATCHES);
    machine->schedule = schedule;
    machine->weights = *weights;
    bool has_moved = true;
    while (has_moved) {
        has_moved = false;
        for (uint32_t rank = 0; rank < schedule->shape.num_ranks; rank++) {
            const struct pen_row *row = &schedule->rows[rank];
            uint32_t *at = &machine->at[rank];
            while (*at < row->count && run_op(machine, &row->ops[*at])) {
                ++*at;
                has_moved = true;
            }
        }
    }
    for (uint32_t rank = 0; rank < schedule->shape.num_ranks; rank++)
        assert_int_equal(schedule->rows[rank].count, machine->at[rank]);
    *weights = machine->weights;
    free(machine);
}

/*
 * Delayed SGD: update u takes the mean gradient of its micro-batches, the k-th
 * of which reads part s at version reads(s, k, u).
 */
struct delay {
    uint32_t parts;
    uint32_t ranks;
    uint32_t batch; /* micro-batches per update */
    uint32_t updates;
    bool is_dealt; /* the k-th micro-batches of all updates are neighbours */
    uint32_t (*reads)(const struct delay *delay, uint32_t part, uint32_t k,
                      uint32_t update);
};

static uint32_t late(uint32_t update, uint32_t by)
{
    return update > by ? update - by : 0;
}

static uint32_t reads_newest(const struct delay *d, uint32_t s, uint32_t k,
                             uint32_t u)
{
    (void)d, (void)s, (void)k;
    return u;
}

static uint32_t reads_stashed(const struct delay *d, uint32_t s, uint32_t k,
                              uint32_t u)
{
    (void)k;
    return late(u, d->ranks - 1 - s);
}

static uint32_t reads_vertical(const struct delay *d, uint32_t s, uint32_t k,
                               uint32_t u)
{
    (void)s, (void)k;
    return late(u, d->ranks - 1);
}

static uint32_t reads_one_late(const struct delay *d, uint32_t s, uint32_t k,
                               uint32_t u)
{
    (void)d, (void)s, (void)k;
    return late(u, 1);
}

static uint32_t reads_two_groups(const struct delay *d, uint32_t s, uint32_t k,
                                 uint32_t u)
{
    (void)k;
    return s < d->ranks ? late(u, 1) : u;
}

/* Fournier and Oyallon count from 1: fresh when s >= N - k + 1. */
static uint32_t reads_cyclic(const struct delay *d, uint32_t s, uint32_t k,
                             uint32_t u)
{
    return (s + 1) >= d->ranks - (k + 1) + 1 ? u : late(u, 1);
}

static void add_gradients(const struct delay *delay, uint32_t microbatch,
                          const double *w, double *sums)
{
    double input[STAGES];
    double x = sample(microbatch);
    for (uint32_t s = 0; s < delay->parts; s++) {
        input[s] = x;
        x = unit(w[s], x);
    }
    double dy = x - target(microbatch);
    for (uint32_t s = delay->parts; s-- > 0;) {
        double dw = 0;
        unit_backward(w[s], input[s], dy, &dy, &dw);
        sums[s] += dw;
    }
}

static void trace(const struct delay *delay, struct weights *weights)
{
    for (uint32_t u = 0; u < delay->updates; u++) {
        double sums[STAGES] = {0};
        for (uint32_t k = 0; k < delay->batch; k++) {
            uint32_t microbatch =
                delay->is_dealt ? k * delay->updates + u : u * delay->batch + k;
            double w[STAGES];
            for (uint32_t s = 0; s < delay->parts; s++)
                w[s] = weights->of[s][delay->reads(delay, s, k, u)];
            add_gradients(delay, microbatch, w, sums);
        }
        for (uint32_t s = 0; s < delay->parts; s++)
            weights->of[s][u + 1] =
                weights->of[s][u] - RATE * sums[s] / delay->batch;
    }
}

static void init_weights(struct weights *weights, uint32_t stages,
                         uint32_t parts)
{
    memset(weights, 0, sizeof *weights);
    for (uint32_t s = 0; s < stages; s++)
        weights->of[s][0] = first_weight(s % parts);
}

static void expect_same(const struct pen_schedule *schedule,
                        const struct weights *expected,
                        const struct weights *found, const struct delay *delay)
{
    for (uint32_t s = 0; s < schedule->shape.num_stages; s++) {
        for (uint32_t u = 0; u <= delay->updates; u++) {
            double a = expected->of[s % delay->parts][u];
            double b = found->of[s][u];
            if (memcmp(&a, &b, sizeof a) != 0)
                fail_msg("%s p=%u m=%u: stage %u version %u: expected %.17g, "
                         "found %.17g",
                         schedule->name, schedule->shape.num_ranks,
                         delay->batch, s, u, a, b);
        }
    }
}

/* Executes the generator's ops and compares all versions of all stages. */
static void expect_trace(const char *name,
                         const struct pen_generator_args *args,
                         const struct delay *delay)
{
    struct pen_schedule *schedule = make_with(name, args);
    assert_int_equal(delay->parts, pen_shape_parts(&schedule->shape));
    struct weights expected, found;
    init_weights(&expected, delay->parts, delay->parts);
    init_weights(&found, schedule->shape.num_stages, delay->parts);
    trace(delay, &expected);
    execute(schedule, &found);
    expect_same(schedule, &expected, &found, delay);
    pen_schedule_free(schedule);
}

static void flush_is_gradient_accumulation(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    struct pen_generator_args args = {
        .ranks = 4, .microbatches = 8, .costs = &costs};
    struct delay delay = {.parts = 4,
                          .ranks = 4,
                          .batch = 8,
                          .updates = 1,
                          .reads = reads_newest};
    expect_trace("1f1b", &args, &delay);
}

static void expect_pipedream(uint32_t p, bool has_vertical_sync)
{
    struct pen_costs costs = unit_costs();
    struct pen_generator_args args = {.ranks = p,
                                      .microbatches = 24,
                                      .has_vertical_sync = has_vertical_sync,
                                      .costs = &costs};
    struct delay delay = {.parts = p,
                          .ranks = p,
                          .batch = 1,
                          .updates = 24,
                          .reads = has_vertical_sync ? reads_vertical
                                                     : reads_stashed};
    expect_trace("pipedream", &args, &delay);
}

static void stashing_delays_stage_s_by_p_minus_1_minus_s(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 8; p++)
        expect_pipedream(p, false);
}

static void vertical_sync_delays_all_stages_by_p_minus_1(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 8; p++)
        expect_pipedream(p, true);
}

static void expect_batches(const char *name, uint32_t p, uint32_t parts,
                           uint32_t m,
                           uint32_t (*reads)(const struct delay *, uint32_t,
                                             uint32_t, uint32_t))
{
    struct pen_costs costs = unit_costs();
    struct pen_generator_args args = {
        .ranks = p, .microbatches = m, .batches = 6, .costs = &costs};
    struct delay delay = {
        .parts = parts, .ranks = p, .batch = m, .updates = 6, .reads = reads};
    expect_trace(name, &args, &delay);
}

static void two_buffers_delay_all_stages_by_one_batch(void **state)
{
    (void)state;
    expect_batches("pipedream-2bw", 4, 4, 3, reads_one_late);
    expect_batches("pipedream-2bw", 4, 4, 4, reads_one_late);
    expect_batches("pipedream-2bw", 4, 4, 8, reads_one_late);
    expect_batches("pipedream-2bw", 1, 1, 2, reads_one_late);
}

static void wpipe_delays_its_first_group_only(void **state)
{
    (void)state;
    expect_batches("wpipe", 4, 8, 4, reads_two_groups);
    expect_batches("wpipe", 4, 8, 8, reads_two_groups);
    expect_batches("wpipe", 1, 2, 1, reads_two_groups);
}

static void cyclic_workers_read_the_published_mixture(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    for (uint32_t n = 1; n <= 6; n++) {
        struct pen_generator_args args = {
            .ranks = n, .microbatches = 8 * n, .costs = &costs};
        struct delay delay = {.parts = n,
                              .ranks = n,
                              .batch = n,
                              .updates = 8,
                              .is_dealt = true,
                              .reads = reads_cyclic};
        expect_trace("cyclic", &args, &delay);
    }
}

/* Otherwise the equalities above would say nothing. */
static void a_delay_changes_the_weights(void **state)
{
    (void)state;
    struct delay fresh = {.parts = 4,
                          .ranks = 4,
                          .batch = 4,
                          .updates = 6,
                          .reads = reads_newest};
    struct delay late_one = fresh;
    late_one.reads = reads_one_late;
    struct weights a, b;
    init_weights(&a, 4, 4);
    init_weights(&b, 4, 4);
    trace(&fresh, &a);
    trace(&late_one, &b);
    for (uint32_t s = 0; s < 4; s++) {
        assert_true(a.of[s][1] == b.of[s][1]);
        assert_true(fabs(a.of[s][2] - b.of[s][2]) > 1e-6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flush_is_gradient_accumulation),
        cmocka_unit_test(stashing_delays_stage_s_by_p_minus_1_minus_s),
        cmocka_unit_test(vertical_sync_delays_all_stages_by_p_minus_1),
        cmocka_unit_test(two_buffers_delay_all_stages_by_one_batch),
        cmocka_unit_test(wpipe_delays_its_first_group_only),
        cmocka_unit_test(cyclic_workers_read_the_published_mixture),
        cmocka_unit_test(a_delay_changes_the_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
