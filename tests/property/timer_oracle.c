/*
 * The timer against a slow simulation written from the waiting rules: plain
 * doubles, a list of what has happened, and sweeps over the ranks until
 * nothing moves. Start and end of every op, the memory curve and the critical
 * path of random schedules under random costs must agree.
 */
#include "base/random.h"
#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Milliseconds, so that a sum is the same in ticks and in seconds. */
static double some_sec(struct pen_random *random, uint32_t most)
{
    return (double)pen_random_below(random, most + 1) / 1000;
}

/* ---- the slow simulation ---- */

struct simulated {
    double start;
    double end;
    double arrival; /* of a send or load: when its bytes are there */
    double begin;   /* of a send or load: when its bytes start to move */
    bool is_done;
};

struct simulation {
    const struct pen_schedule *schedule;
    const struct pen_cost_table *costs;
    uint32_t window;
    struct simulated **ops; /* per rank */
    uint32_t *at;
    double *clock;
};

struct place {
    uint32_t rank;
    uint32_t position;
};

static bool find(const struct pen_schedule *schedule, unsigned kind,
                 uint32_t stage, const struct pen_op *unit, struct place *out)
{
    uint32_t rank = pen_shape_rank_of(&schedule->shape, stage);
    const struct pen_row *row = &schedule->rows[rank];
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        if (op->kind == kind && op->stage == stage &&
            op->microbatch == unit->microbatch && op->slice == unit->slice) {
            *out = (struct place){rank, i};
            return true;
        }
    }
    return false;
}

static bool is_send(unsigned kind)
{
    return kind == PEN_OP_SEND_ACT || kind == PEN_OP_SEND_GRAD;
}

static uint32_t consumer_of(const struct pen_shape *shape,
                            const struct pen_op *send)
{
    return send->kind == PEN_OP_SEND_ACT
               ? pen_shape_next_stage(shape, send->stage)
               : pen_shape_previous_stage(shape, send->stage);
}

/* The send `back` messages before this one on the same channel. */
static bool earlier_send(const struct pen_schedule *schedule, struct place at,
                         uint32_t back, struct place *out)
{
    const struct pen_shape *shape = &schedule->shape;
    const struct pen_row *row = &schedule->rows[at.rank];
    const struct pen_op *send = &row->ops[at.position];
    uint32_t to = pen_shape_rank_of(shape, consumer_of(shape, send));
    for (uint32_t i = at.position; i-- > 0;) {
        const struct pen_op *op = &row->ops[i];
        if (op->kind != send->kind ||
            pen_shape_rank_of(shape, consumer_of(shape, op)) != to)
            continue;
        if (--back == 0) {
            *out = (struct place){at.rank, i};
            return true;
        }
    }
    return false;
}

static struct simulated *result_at(const struct simulation *sim,
                                   struct place place)
{
    return &sim->ops[place.rank][place.position];
}

/* Posts a send: false while the window is full. */
static bool run_send(struct simulation *sim, struct place at)
{
    const struct pen_shape *shape = &sim->schedule->shape;
    const struct pen_op *op = &sim->schedule->rows[at.rank].ops[at.position];
    struct simulated *result = result_at(sim, at);
    bool is_act = op->kind == PEN_OP_SEND_ACT;
    double post = sim->clock[at.rank];
    struct place before;
    if (earlier_send(sim->schedule, at, sim->window, &before)) {
        const struct pen_op *old =
            &sim->schedule->rows[before.rank].ops[before.position];
        struct place receive = {0, 0};
        assert_true(find(sim->schedule,
                         is_act ? PEN_OP_RECV_ACT : PEN_OP_RECV_GRAD,
                         consumer_of(shape, old), old, &receive));
        if (!result_at(sim, receive)->is_done)
            return false;
        post = fmax(post, result_at(sim, receive)->start);
    }
    double transfer = is_act ? sim->costs->transfer_sec[op->stage]
                             : sim->costs->transfer_back_sec[op->stage];
    double latency = is_act ? sim->costs->latency_sec[op->stage]
                            : sim->costs->latency_back_sec[op->stage];
    double begin = post;
    struct place last;
    if (earlier_send(sim->schedule, at, 1, &last))
        begin = fmax(begin, result_at(sim, last)->begin + transfer);
    double end = sim->costs->is_blocking ? begin + transfer : post;
    *result = (struct simulated){.start = post,
                                 .end = end,
                                 .begin = begin,
                                 .arrival = begin + transfer + latency,
                                 .is_done = true};
    sim->clock[at.rank] = end;
    return true;
}

/* When the message that feeds a compute op is there; false: not sent yet. */
static bool input_time(const struct simulation *sim, uint32_t rank,
                       const struct pen_op *op, double *time)
{
    const struct pen_shape *shape = &sim->schedule->shape;
    enum pen_direction direction = pen_op_info(op->kind)->direction;
    *time = 0;
    if (direction == PEN_DIRECTION_NONE ||
        (direction == PEN_DIRECTION_GRAD && shape->is_local))
        return true;
    bool is_act = direction == PEN_DIRECTION_ACT;
    uint32_t from = is_act ? pen_shape_previous_stage(shape, op->stage)
                           : pen_shape_next_stage(shape, op->stage);
    if (from == PEN_NO_STAGE || pen_shape_rank_of(shape, from) == rank)
        return true;
    struct place send = {0, 0};
    assert_true(find(sim->schedule, is_act ? PEN_OP_SEND_ACT : PEN_OP_SEND_GRAD,
                     from, op, &send));
    *time = result_at(sim, send)->arrival;
    return result_at(sim, send)->is_done;
}

/* When the last load of this stash is there; 0 when it was never away. */
static double load_time(const struct simulation *sim, struct place at)
{
    const struct pen_row *row = &sim->schedule->rows[at.rank];
    const struct pen_op *op = &row->ops[at.position];
    for (uint32_t i = at.position; i-- > 0;) {
        if (row->ops[i].kind == PEN_OP_LOAD && row->ops[i].stage == op->stage &&
            row->ops[i].microbatch == op->microbatch)
            return sim->ops[at.rank][i].arrival;
    }
    return 0;
}

static void run_move(struct simulation *sim, struct place at)
{
    const struct pen_row *row = &sim->schedule->rows[at.rank];
    double post = sim->clock[at.rank];
    double begin = post;
    for (uint32_t i = at.position; i-- > 0;) {
        if (row->ops[i].kind == PEN_OP_EVICT ||
            row->ops[i].kind == PEN_OP_LOAD) {
            begin = fmax(begin, sim->ops[at.rank][i].arrival);
            break;
        }
    }
    double move = sim->costs->stages[row->ops[at.position].stage].move_sec;
    *result_at(sim, at) = (struct simulated){.start = post,
                                             .end = post,
                                             .begin = begin,
                                             .arrival = begin + move,
                                             .is_done = true};
}

static bool run_step(struct simulation *sim, struct place at)
{
    const struct pen_schedule *schedule = sim->schedule;
    const struct pen_shape *shape = &schedule->shape;
    const struct pen_op *step = &schedule->rows[at.rank].ops[at.position];
    uint32_t number = 0; /* of this STEP of its stage */
    for (uint32_t i = 0; i < at.position; i++) {
        const struct pen_op *op = &schedule->rows[at.rank].ops[i];
        number += op->kind == PEN_OP_STEP && op->stage == step->stage;
    }
    double start = sim->clock[at.rank];
    uint32_t parts = pen_shape_parts(shape);
    for (uint32_t twin = step->stage % parts; twin < shape->num_stages;
         twin += parts) {
        uint32_t rank = pen_shape_rank_of(shape, twin);
        uint32_t syncs = 0;
        for (uint32_t i = 0; i < schedule->rows[rank].count; i++) {
            const struct pen_op *op = &schedule->rows[rank].ops[i];
            if (op->kind != PEN_OP_SYNC_GRAD || op->stage != twin ||
                syncs++ != number)
                continue;
            if (!sim->ops[rank][i].is_done)
                return false;
            start = fmax(start, sim->ops[rank][i].start +
                                    sim->costs->stages[twin].sync_sec);
        }
    }
    double end = start + sim->costs->stages[step->stage].step_sec;
    *result_at(sim, at) =
        (struct simulated){.start = start, .end = end, .is_done = true};
    sim->clock[at.rank] = end;
    return true;
}

/* Ops [from, to) of one overlap group, or a single one. */
static bool run_compute(struct simulation *sim, uint32_t rank, uint32_t from,
                        uint32_t to)
{
    const struct pen_row *row = &sim->schedule->rows[rank];
    double start = sim->clock[rank];
    for (uint32_t i = from; i < to; i++) {
        double input = 0;
        if (!input_time(sim, rank, &row->ops[i], &input))
            return false;
        start =
            fmax(start, fmax(input, load_time(sim, (struct place){rank, i})));
    }
    for (uint32_t i = from; i < to; i++) {
        const struct pen_op *op = &row->ops[i];
        double took = pen_cost_of(sim->costs, op->kind, op->stage);
        double pair = sim->costs->stages[op->stage].pair_sec;
        if (to - from == 2 && i == from + 1 && pair >= 0 &&
            row->ops[from].kind == PEN_OP_FORWARD &&
            op->kind == PEN_OP_BACKWARD)
            took = fmax(0, pair - sim->costs->stages[op->stage].forward_sec);
        sim->ops[rank][i] = (struct simulated){
            .start = start, .end = start + took, .is_done = true};
        start += took;
    }
    sim->clock[rank] = start;
    return true;
}

/* Runs the next op (or group) of a rank; false when it has to wait. */
static bool run_next(struct simulation *sim, uint32_t rank)
{
    const struct pen_row *row = &sim->schedule->rows[rank];
    uint32_t at = sim->at[rank];
    const struct pen_op *op = &row->ops[at];
    struct place place = {rank, at};
    uint32_t end = at + 1;
    bool has_gone = true;
    if (pen_op_is_compute(op->kind)) {
        while (op->group != 0 && end < row->count &&
               row->ops[end].group == op->group)
            end++;
        has_gone = run_compute(sim, rank, at, end);
    } else if (is_send(op->kind)) {
        has_gone = run_send(sim, place);
    } else if (op->kind == PEN_OP_STEP) {
        has_gone = run_step(sim, place);
    } else if (op->kind == PEN_OP_EVICT || op->kind == PEN_OP_LOAD) {
        run_move(sim, place);
    } else {
        *result_at(sim, place) = (struct simulated){.start = sim->clock[rank],
                                                    .end = sim->clock[rank],
                                                    .is_done = true};
    }
    if (has_gone)
        sim->at[rank] = end;
    return has_gone;
}

static void simulate(struct simulation *sim)
{
    uint32_t p = sim->schedule->shape.num_ranks;
    bool has_moved = true;
    sim->ops = calloc(p, sizeof *sim->ops);
    sim->at = calloc(p, sizeof *sim->at);
    sim->clock = calloc(p, sizeof *sim->clock);
    for (uint32_t rank = 0; rank < p; rank++)
        sim->ops[rank] =
            calloc(sim->schedule->rows[rank].count + 1, sizeof **sim->ops);
    while (has_moved) {
        has_moved = false;
        for (uint32_t rank = 0; rank < p; rank++) {
            while (sim->at[rank] < sim->schedule->rows[rank].count &&
                   run_next(sim, rank))
                has_moved = true;
        }
    }
    for (uint32_t rank = 0; rank < p; rank++)
        assert_int_equal(sim->schedule->rows[rank].count, sim->at[rank]);
}

static void simulation_release(struct simulation *sim)
{
    for (uint32_t rank = 0; rank < sim->schedule->shape.num_ranks; rank++)
        free(sim->ops[rank]);
    free(sim->ops);
    free(sim->at);
    free(sim->clock);
}

/* ---- comparisons ---- */

static void compare_ops(const struct simulation *sim,
                        const struct pen_timing *timing)
{
    for (uint32_t rank = 0; rank < timing->num_ranks; rank++) {
        const struct pen_row *row = &sim->schedule->rows[rank];
        double first = INFINITY;
        double last = 0;
        double busy = 0;
        for (uint32_t i = 0; i < row->count; i++) {
            const struct simulated *expected = &sim->ops[rank][i];
            const struct pen_op_time *found = &timing->ops[rank][i];
            expect_close(expected->start, found->start_sec, "start of an op");
            expect_close(expected->end, found->end_sec, "end of an op");
            if (expected->end - expected->start < 1e-9 ||
                is_send(row->ops[i].kind))
                continue;
            first = fmin(first, expected->start);
            last = fmax(last, expected->end);
            busy += expected->end - expected->start;
        }
        expect_close(isinf(first) ? 0 : first, timing->ranks[rank].start_sec,
                     "start of a rank");
        expect_close(last, timing->ranks[rank].end_sec, "end of a rank");
        expect_close(busy, timing->ranks[rank].busy_sec, "busy of a rank");
    }
}

/* Activations on this rank after all that happens at an instant. */
static double naive_level(const struct simulation *sim, uint32_t rank,
                          double at)
{
    const struct pen_schedule *schedule = sim->schedule;
    double level = 0;
    for (uint32_t r = 0; r < schedule->shape.num_ranks; r++) {
        bool is_guest =
            r != rank && pen_shape_partner(&schedule->shape, r) == rank;
        if (r != rank && !is_guest)
            continue;
        for (uint32_t i = 0; i < schedule->rows[r].count; i++) {
            const struct pen_op *op = &schedule->rows[r].ops[i];
            bool is_move = op->kind == PEN_OP_EVICT || op->kind == PEN_OP_LOAD;
            if (is_guest && !is_move)
                continue;
            double delta = pen_memory_of(sim->costs, op->kind, op->stage) *
                           (is_guest ? -1 : 1);
            const struct simulated *op_time = &sim->ops[r][i];
            double start = is_move ? op_time->begin : op_time->start;
            double end = is_move ? op_time->arrival : op_time->end;
            double when = delta > 0 ? start : end;
            if (when < at + 1e-9)
                level += delta;
        }
    }
    return level;
}

/* The level after all that happens at an instant is the curve's last one. */
static void compare_curve(const struct simulation *sim,
                          const struct pen_timing *timing, uint32_t rank)
{
    const struct pen_curve *curve = &timing->curves[rank];
    double peak = 0;
    for (uint32_t i = 0; i < curve->count; i++) {
        const struct pen_level *point = &curve->points[i];
        peak = fmax(peak, point->level);
        if (i + 1 < curve->count) {
            assert_true(point[1].at_sec >= point->at_sec);
            if (point[1].at_sec < point->at_sec + 1e-9)
                continue;
        }
        double expected = naive_level(sim, rank, point->at_sec);
        if (fabs(expected - point->level) > 1e-9)
            fail_msg("level of rank %u at %g s: expected %g, found %g", rank,
                     point->at_sec, expected, point->level);
    }
    expect_close(peak, timing->ranks[rank].peak, "peak");
}

static bool is_at(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

static bool leads_back(const struct simulation *sim, struct place from,
                       struct place to);

/* `to` waited for `cause`: is that, or what it waited for itself, `from`? */
static bool goes_on(const struct simulation *sim, struct place from,
                    struct place cause)
{
    if (cause.rank == from.rank && cause.position == from.position)
        return true;
    const struct simulated *op = result_at(sim, cause);
    return is_at(op->start, op->end) && leads_back(sim, from, cause);
}

/* The send, and those that kept its wire busy until it could begin. */
static bool goes_on_at_send(const struct simulation *sim, struct place from,
                            struct place send)
{
    for (;;) {
        const struct simulated *op = result_at(sim, send);
        if (is_at(op->begin, op->start) && goes_on(sim, from, send))
            return true;
        struct place last;
        if (!earlier_send(sim->schedule, send, 1, &last) ||
            op->begin - 1e-9 < op->start)
            return false;
        send = last;
    }
}

/* The load, and the moves that kept the lane busy until it could begin. */
static bool goes_on_at_move(const struct simulation *sim, struct place from,
                            struct place move)
{
    const struct pen_row *row = &sim->schedule->rows[move.rank];
    double begin = result_at(sim, move)->begin;
    for (;; move.position--) {
        unsigned kind = row->ops[move.position].kind;
        const struct simulated *op = result_at(sim, move);
        if (kind == PEN_OP_EVICT || kind == PEN_OP_LOAD) {
            if (is_at(op->begin, op->start) && goes_on(sim, from, move))
                return true;
            begin = op->begin;
        }
        if (move.position == 0 || begin - 1e-9 < op->start)
            return false;
    }
}

static bool waited_for_input(const struct simulation *sim, struct place from,
                             struct place to, double start)
{
    const struct pen_schedule *schedule = sim->schedule;
    const struct pen_op *op = &schedule->rows[to.rank].ops[to.position];
    bool is_act = op->kind == PEN_OP_FORWARD;
    uint32_t stage = is_act
                         ? pen_shape_previous_stage(&schedule->shape, op->stage)
                         : pen_shape_next_stage(&schedule->shape, op->stage);
    struct place cause;
    if (stage != PEN_NO_STAGE &&
        pen_op_info(op->kind)->direction != PEN_DIRECTION_NONE &&
        find(schedule, is_act ? PEN_OP_SEND_ACT : PEN_OP_SEND_GRAD, stage, op,
             &cause) &&
        is_at(result_at(sim, cause)->arrival, start) &&
        goes_on_at_send(sim, from, cause))
        return true;
    return find(schedule, PEN_OP_LOAD, op->stage, op, &cause) &&
           is_at(result_at(sim, cause)->arrival, start) &&
           goes_on_at_move(sim, from, cause);
}

static bool waited_for_sync(const struct simulation *sim, struct place from,
                            struct place to)
{
    const struct pen_schedule *schedule = sim->schedule;
    const struct pen_op *step = &schedule->rows[to.rank].ops[to.position];
    uint32_t parts = pen_shape_parts(&schedule->shape);
    for (uint32_t rank = 0; rank < schedule->shape.num_ranks; rank++) {
        for (uint32_t i = 0; i < schedule->rows[rank].count; i++) {
            const struct pen_op *op = &schedule->rows[rank].ops[i];
            if (op->kind == PEN_OP_SYNC_GRAD &&
                op->stage % parts == step->stage % parts &&
                is_at(sim->ops[rank][i].start +
                          sim->costs->stages[op->stage].sync_sec,
                      result_at(sim, to)->start) &&
                goes_on(sim, from, (struct place){rank, i}))
                return true;
        }
    }
    return false;
}

/*
 * Is there a chain of waits, each without slack, from one op back to another,
 * through ops that take no time?
 */
static bool leads_back(const struct simulation *sim, struct place from,
                       struct place to)
{
    const struct pen_schedule *schedule = sim->schedule;
    const struct pen_row *row = &schedule->rows[to.rank];
    const struct pen_op *op = &row->ops[to.position];
    double start = result_at(sim, to)->start;
    if (to.position > 0) {
        struct place before = {to.rank, to.position - 1};
        if (is_at(result_at(sim, before)->end, start) &&
            goes_on(sim, from, before))
            return true;
    }
    if (op->kind == PEN_OP_STEP)
        return waited_for_sync(sim, from, to);
    struct place old;
    if (is_send(op->kind) && earlier_send(schedule, to, sim->window, &old)) {
        const struct pen_op *sent = &row->ops[old.position];
        struct place receive = {0, 0};
        assert_true(find(schedule,
                         op->kind == PEN_OP_SEND_ACT ? PEN_OP_RECV_ACT
                                                     : PEN_OP_RECV_GRAD,
                         consumer_of(&schedule->shape, sent), sent, &receive));
        return is_at(result_at(sim, receive)->start, start) &&
               goes_on(sim, from, receive);
    }
    /* A group starts when its last member can. */
    for (struct place at = to; at.position < row->count; at.position++) {
        const struct pen_op *member = &row->ops[at.position];
        if (at.position > to.position &&
            (op->group == 0 || member->group != op->group))
            break;
        if (pen_op_is_compute(member->kind) &&
            waited_for_input(sim, from, at, start))
            return true;
    }
    return false;
}

static void check_path(const struct simulation *sim,
                       const struct pen_timing *timing, bool is_free)
{
    double sum = 0;
    double last = 0;
    for (uint32_t rank = 0; rank < timing->num_ranks; rank++)
        last = fmax(last, timing->ranks[rank].end_sec);
    if (timing->path_count == 0) {
        expect_close(0, timing->makespan_sec, "makespan without a path");
        return;
    }
    for (uint32_t i = 0; i < timing->path_count; i++) {
        const struct pen_path_step *step = &timing->path[i];
        struct place at = {step->rank, step->position};
        const struct simulated *op = result_at(sim, at);
        sum += op->end - op->start;
        if (i == 0) {
            expect_close(0, op->start, "start of the path");
            continue;
        }
        struct place from = {step[-1].rank, step[-1].position};
        double gap = op->start - result_at(sim, from)->end;
        if (!leads_back(sim, from, at) || (gap > 1e-9 && !step->is_message))
            fail_msg("path step %u of %u: rank %u position %u starts %g s "
                     "behind rank %u position %u (message: %d)",
                     i, timing->path_count, at.rank, at.position, gap,
                     from.rank, from.position, step->is_message);
    }
    const struct pen_path_step *end = &timing->path[timing->path_count - 1];
    struct place place = {end->rank, end->position};
    expect_close(last, result_at(sim, place)->end, "end of the path");
    if (is_free)
        expect_close(timing->makespan_sec, sum, "sum of the path");
}

/* ---- random cases ---- */

static struct pen_cost random_cost(struct pen_random *random)
{
    struct pen_cost cost = {.forward_sec = some_sec(random, 9) + 0.001,
                            .input_sec = some_sec(random, 9),
                            .weight_sec = some_sec(random, 9),
                            .recompute_sec = -1,
                            .pair_sec = -1,
                            .memory = 1};
    if (pen_random_below(random, 2) == 0)
        cost.pair_sec = some_sec(random, 25);
    return cost;
}

static void random_costs(struct pen_random *random,
                         const struct pen_shape *shape, bool is_free,
                         struct pen_costs *costs)
{
    pen_costs_init(costs);
    costs->scope = PEN_COST_PER_STAGE;
    costs->num_items = pen_shape_parts(shape);
    costs->items = calloc(costs->num_items, sizeof *costs->items);
    for (uint32_t i = 0; i < costs->num_items; i++) {
        costs->items[i] = random_cost(random);
        if (is_free)
            continue;
        costs->items[i].sync_sec = some_sec(random, 9);
        costs->items[i].step_sec = some_sec(random, 3);
        costs->items[i].move_sec = some_sec(random, 9);
    }
    if (is_free)
        return;
    costs->latency_sec = pen_random_below(random, 2) * some_sec(random, 5);
    costs->bytes =
        pen_random_below(random, 2) * (1 + pen_random_below(random, 8));
    costs->bytes_per_sec = 1000;
    costs->is_blocking = pen_random_below(random, 3) == 0;
    costs->num_links = pen_random_below(random, 3);
    costs->links = calloc(costs->num_links + 1, sizeof *costs->links);
    for (uint32_t i = 0; i < costs->num_links; i++)
        costs->links[i] = (struct pen_link){
            pen_random_below(random, shape->num_ranks),
            pen_random_below(random, shape->num_ranks), some_sec(random, 20),
            1000.0 / (1 + pen_random_below(random, 9))};
}

/* Exchanges neighbours in the rows as long as the verifier agrees. */
static void perturb(struct pen_schedule *schedule, struct pen_random *random)
{
    for (uint32_t n = pen_random_below(random, 40); n > 0; n--) {
        struct pen_row *row =
            &schedule
                 ->rows[pen_random_below(random, schedule->shape.num_ranks)];
        uint32_t i = pen_random_below(random, row->count - 1);
        struct pen_op op = row->ops[i];
        if (op.group != 0 || row->ops[i + 1].group != 0)
            continue;
        row->ops[i] = row->ops[i + 1];
        row->ops[i + 1] = op;
        if (pen_schedule_verify(schedule, NULL, NULL, NULL) == PEN_OK)
            continue;
        row->ops[i + 1] = row->ops[i];
        row->ops[i] = op;
    }
}

static const struct pen_generator *random_generator(struct pen_random *random)
{
    size_t count = 0;
    while (pen_generator_at(count) != NULL)
        count++;
    return pen_generator_at(pen_random_below(random, (uint32_t)count));
}

/* NULL when the generator refuses these numbers. */
static struct pen_schedule *random_schedule(struct pen_random *random)
{
    struct pen_costs costs = unit_costs();
    struct pen_schedule *schedule = NULL;
    const struct pen_generator *generator = random_generator(random);
    struct pen_generator_args args = {.ranks = 1 + pen_random_below(random, 6),
                                      .microbatches =
                                          1 + pen_random_below(random, 16),
                                      .chunks = pen_random_below(random, 3),
                                      .slices = pen_random_below(random, 3),
                                      .costs = &costs};
    const uint32_t replicas[] = {1 + pen_random_below(random, 3),
                                 1 + pen_random_below(random, 3)};
    if (generator->has_replicas && pen_random_below(random, 2) == 0) {
        args.replicas = replicas;
        args.num_replicated = 2;
        args.ranks = replicas[0] + replicas[1];
        args.microbatches *= replicas[0] * replicas[1];
    }
    if (pen_generator_make(generator, &args, &schedule, NULL) != PEN_OK)
        return NULL;
    schedule->rules.send_window =
        pen_schedule_window(schedule) + pen_random_below(random, 2);
    perturb(schedule, random);
    if (pen_random_below(random, 2) == 0) {
        uint32_t given = schedule->rules.send_window;
        schedule->rules.send_window = 1;
        if (pen_schedule_verify(schedule, NULL, NULL, NULL) != PEN_OK)
            schedule->rules.send_window = given;
    }
    return schedule;
}

static void compare(const struct pen_schedule *schedule,
                    struct pen_random *random, bool is_free)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_costs costs;
    struct pen_cost_table table;
    struct pen_timing *timing = NULL;
    const struct pen_time_options options = {.with_ops = true};
    random_costs(random, &schedule->shape, is_free, &costs);
    if (pen_cost_table_init(&table, &costs, &schedule->shape, &why) != PEN_OK ||
        pen_schedule_time(schedule, &costs, &options, &timing, &why) != PEN_OK)
        fail_msg("%s: %s", schedule->name, pen_text_string(&why));
    struct simulation sim = {.schedule = schedule,
                             .costs = &table,
                             .window = pen_schedule_window(schedule)};
    simulate(&sim);
    compare_ops(&sim, timing);
    for (uint32_t rank = 0; rank < timing->num_ranks; rank++)
        compare_curve(&sim, timing, rank);
    check_path(&sim, timing, is_free);
    simulation_release(&sim);
    pen_timing_free(timing);
    pen_cost_table_release(&table);
    pen_costs_release(&costs);
    pen_text_release(&why);
}

static void compare_many(uint64_t seed, unsigned times, bool is_free)
{
    struct pen_random random = {seed};
    unsigned compared = 0;
    for (unsigned i = 0; i < times; i++) {
        struct pen_schedule *schedule = random_schedule(&random);
        if (schedule == NULL)
            continue;
        compare(schedule, &random, is_free);
        pen_schedule_free(schedule);
        compared++;
    }
    print_message("%u schedules compared\n", compared);
    assert_true(compared > times / 3);
}

static void the_timer_agrees_with_a_slow_simulation(void **state)
{
    (void)state;
    compare_many(1, 1500, false);
}

static void without_communication_the_path_sums_to_the_makespan(void **state)
{
    (void)state;
    compare_many(2, 1500, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_timer_agrees_with_a_slow_simulation),
        cmocka_unit_test(without_communication_the_path_sums_to_the_makespan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
