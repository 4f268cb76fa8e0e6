/*
 * Cyclic data parallelism: how far apart the workers run, what they hold
 * together, and what a step costs.
 */
#include "support/support.h"

/* A part takes 1 in both directions, a SYNC `sync`. */
static struct pen_timing *time_cyclic(const struct pen_schedule *schedule,
                                      double sync)
{
    struct pen_costs costs = unit_costs();
    costs.uniform.weight_sec = 0;
    costs.uniform.sync_sec = sync;
    struct pen_time_options options = {.with_ops = true};
    struct pen_timing *timing = NULL;
    assert_int_equal(
        PEN_OK, pen_schedule_time(schedule, &costs, &options, &timing, NULL));
    return timing;
}

static struct pen_op_time find_time(const struct pen_schedule *schedule,
                                    const struct pen_timing *timing,
                                    uint32_t worker, enum pen_op_kind kind,
                                    uint32_t part, uint32_t step)
{
    const struct pen_shape *shape = &schedule->shape;
    const struct pen_row *row = &schedule->rows[worker];
    uint32_t stage = pen_shape_stage_at(shape, worker, worker, part);
    uint32_t steps = shape->num_microbatches / shape->num_copies;
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        if (op->kind == kind && op->stage == stage &&
            op->microbatch == worker * steps + step)
            return timing->ops[worker][i];
    }
    fail_msg("worker %u has no such op in step %u", worker, step);
    return (struct pen_op_time){0, 0};
}

/* Stashes of parts, over all workers, that exist at this time. */
static uint32_t stashes_at(const struct pen_schedule *schedule,
                           const struct pen_timing *timing, double at)
{
    uint32_t count = 0;
    for (uint32_t worker = 0; worker < schedule->shape.num_ranks; worker++) {
        const struct pen_row *row = &schedule->rows[worker];
        for (uint32_t i = 0; i < row->count; i++) {
            const struct pen_op_time *time = &timing->ops[worker][i];
            count += row->ops[i].kind == PEN_OP_FORWARD && time->start_sec < at;
            count -= row->ops[i].kind == PEN_OP_BACKWARD && time->end_sec < at;
        }
    }
    return count;
}

static void expect_stagger(uint32_t n)
{
    const double sync = 0.25;
    const uint32_t settled = 8 * (n - 1) + 2; /* a slot each four steps */
    struct pen_schedule *schedule = make("cyclic", n, n * (settled + 6), 0);
    struct pen_timing *timing = time_cyclic(schedule, sync);
    for (uint32_t step = settled; step < settled + 4; step++) {
        for (uint32_t worker = 0; worker < n; worker++) {
            double now = find_time(schedule, timing, worker, PEN_OP_BACKWARD,
                                   n - 1, step)
                             .start_sec;
            double later = find_time(schedule, timing, worker, PEN_OP_BACKWARD,
                                     n - 1, step + 1)
                               .start_sec;
            double last =
                find_time(schedule, timing, n - 1, PEN_OP_BACKWARD, n - 1, step)
                    .start_sec;
            expect_close(2 * n + sync, later - now, "step of a worker");
            expect_close(2 * (n - 1 - worker), last - now, "lead of a worker");
        }
        for (uint32_t part = 0; part < n; part++) {
            double middle =
                find_time(schedule, timing, n - 1, PEN_OP_FORWARD, part, step)
                    .start_sec +
                0.5;
            assert_int_equal(n * (n + 1) / 2,
                             stashes_at(schedule, timing, middle));
            middle =
                find_time(schedule, timing, n - 1, PEN_OP_BACKWARD, part, step)
                    .start_sec +
                0.5;
            assert_int_equal(n * (n + 1) / 2,
                             stashes_at(schedule, timing, middle));
        }
    }
    pen_timing_free(timing);
    pen_schedule_free(schedule);
}

/* The waits for fresh parts pull the workers two slots apart and keep them
 * there, with N(N+1)/2 stashes at any time; a step costs its SYNC only. */
static void cyclic_workers_settle_two_slots_apart(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 6; n++)
        expect_stagger(n);
}

static void cyclic_workers_never_wait_for_instant_gradients(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 8; n++) {
        struct pen_schedule *schedule = make("cyclic", n, 5 * n, 0);
        struct pen_timing *timing = time_cyclic(schedule, 0);
        for (uint32_t worker = 0; worker < n; worker++) {
            expect_close(0, timing->ranks[worker].idle_sec, "idle seconds");
            expect_close(n, timing->ranks[worker].peak, "peak");
            assert_int_equal(worker + 1 < n ? 2 : 1,
                             timing->ranks[worker].versions);
        }
        pen_timing_free(timing);
        pen_schedule_free(schedule);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cyclic_workers_settle_two_slots_apart),
        cmocka_unit_test(cyclic_workers_never_wait_for_instant_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
