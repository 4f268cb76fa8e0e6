/*
 * One rank: the trainer of the runtime with a timed network, watched from its
 * hooks. Ranks take turns, so what they share needs no lock.
 */
#include "sim/run.h"

#include "runtime/batches_internal.h"
#include "runtime/phantom.h"

#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <stdlib.h>

struct span {
    int64_t begin_ns;
    int64_t end_ns;
};

/* A rank waits after a pass for messages, sums and weights. */
enum { MOST_WAITS = 8 };

struct rank {
    struct pen__run *run;
    uint32_t number;
    const struct pen_row *row;
    const bool *is_fine; /* by position, see run.h */
    struct pen_timed_engine *timed;
    struct pen_trainer *trainer;
    struct pen_rank_seconds *told; /* of the result */
    uint64_t num_ops;

    /* Waits, of the op that runs and after the pass. */
    uint32_t waits_for;
    int64_t since_ns;
    uint32_t waited_for; /* longest, in this op */
    int64_t waited_ns;
    struct span waits[MOST_WAITS]; /* for all, since the op began */
    uint32_t num_waits;

    bool is_inside;     /* a message inside a layer is under way, */
    uint32_t sent_to;   /* with the rank that the last one went to */
    int64_t inside_ns;  /* that such messages took, in this op */
    int64_t for_all_ns; /* that it waited for all, in this op */
};

/* Returns the clock that the runtime sees. */
static int64_t now_ns(void)
{
    return (int64_t)(1e9 * simgrid_get_clock());
}

/* ---- samples that are never read ---- */

static void free_nothing(struct pen_batches *batches)
{
    (void)batches;
}

static uint64_t no_epoch(const struct pen_batches *batches)
{
    (void)batches;
    return UINT64_MAX;
}

static pen_status read_nothing(struct pen_batches *batches, uint64_t sample,
                               const struct pen_batch *to, struct pen_text *why)
{
    (void)sample;
    (void)why;
    for (uint32_t i = 0; to->ids != NULL && i < batches->shape.num_ids; i++)
        to->ids[i] = 0;
    for (uint32_t i = 0; i < batches->shape.num_targets; i++)
        to->targets[i] = 0;
    return PEN_OK;
}

static const struct pen__batches_ops nothing = {.unit = "tokens",
                                                .free = free_nothing,
                                                .epoch = no_epoch,
                                                .read = read_nothing};

/* ---- hooks ---- */

static void spend(void *context, double seconds)
{
    struct rank *rank = context;
    pen_trainer_sleep(rank->trainer, seconds);
}

static void exchange(void *context, const struct pen_message_round *round)
{
    struct rank *rank = context;
    int64_t since = now_ns();
    rank->is_inside = true;
    pen_trainer_exchange(rank->trainer, round);
    rank->is_inside = false;
    rank->inside_ns += now_ns() - since;
}

static void on_op(void *context, uint64_t pass, uint32_t position)
{
    struct rank *rank = context;
    const struct pen_simulation *simulation = rank->run->simulation;
    const struct pen_disturbances *all = simulation->disturbances;
    double factor =
        all == NULL ? 1
                    : pen_disturbances_factor(all, rank->number, rank->num_ops);
    (void)pass;
    rank->num_ops += pen_op_is_compute(rank->row->ops[position].kind);
    rank->waited_for = PEN_NO_RANK;
    rank->waited_ns = 0;
    rank->num_waits = 0;
    rank->inside_ns = rank->for_all_ns = 0;
    pen_timed_engine_begin(rank->timed, factor, rank->is_fine[position]);
}

/* A message on a link that has failed makes its sender wait for ever. */
static void on_send(void *context, uint32_t to, size_t length)
{
    struct rank *rank = context;
    const struct pen_disturbances *all = rank->run->simulation->disturbances;
    if (all != NULL && pen_disturbances_cut(all, rank->number, to)) {
        rank->run->result->waiting_for[rank->number] = to;
        sg_actor_suspend(sg_actor_self());
    }
    pen__link_load_add(rank->run->load, rank->number, to, (double)length);
    rank->sent_to = to;
    if (!rank->is_inside)
        return;
    rank->run->result->num_inside++;
    rank->run->result->inside_bytes += (double)length;
}

static void on_wait(void *context, uint32_t whom)
{
    struct rank *rank = context;
    rank->waits_for = whom;
    rank->since_ns = now_ns();
    rank->run->result->waiting_for[rank->number] =
        rank->is_inside ? rank->sent_to : whom;
}

static void note_neighbour(struct rank *rank, uint32_t whom, double seconds)
{
    struct pen_rank_seconds *told = rank->told;
    told->pipeline_sec += seconds;
    if (seconds > told->longest_sec) {
        told->longest_sec = seconds;
        told->longest_for = whom;
    }
}

static void note_wait(struct rank *rank)
{
    if (rank->num_waits < MOST_WAITS)
        rank->waits[rank->num_waits++] =
            (struct span){rank->since_ns, now_ns()};
}

/* Returns the part of the waits for all ranks that lies between two times. */
static double waited_between(const struct rank *rank, int64_t from, int64_t to)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < rank->num_waits; i++) {
        const struct span *wait = &rank->waits[i];
        int64_t begin = wait->begin_ns > from ? wait->begin_ns : from;
        int64_t end = wait->end_ns < to ? wait->end_ns : to;
        sum += end > begin ? end - begin : 0;
    }
    return 1e-9 * (double)sum;
}

static void on_resume(void *context)
{
    struct rank *rank = context;
    int64_t waited = now_ns() - rank->since_ns;
    rank->run->result->waiting_for[rank->number] = PEN_NO_RANK;
    if (rank->is_inside)
        return;
    if (rank->waits_for == PEN_NO_RANK) {
        note_wait(rank);
        rank->for_all_ns += waited;
        rank->told->sums_sec += 1e-9 * (double)waited;
        return;
    }
    note_neighbour(rank, rank->waits_for, 1e-9 * (double)waited);
    if (waited > rank->waited_ns) {
        rank->waited_ns = waited;
        rank->waited_for = rank->waits_for;
    }
}

static void record(struct rank *rank, uint64_t pass, uint32_t position,
                   int64_t begin, int64_t ready, int64_t end)
{
    struct pen_sim_result *result = rank->run->result;
    uint32_t line =
        pen__result_line(&rank->run->simulation->mesh, rank->number);
    if (result->trace == NULL || line == PEN__NO_LINE)
        return;
    struct pen_rank_trace *trace = &result->trace->ranks[line];
    uint64_t at = trace->head.num_events++;
    trace->events[at] = (struct pen_trace_event){.step = (uint32_t)pass,
                                                 .position = position,
                                                 .begin_ns = begin,
                                                 .ready_ns = ready,
                                                 .end_ns = end};
    result->waited_for[line][at] = rank->waited_for;
}

static void on_done(void *context, uint64_t pass, uint32_t position,
                    int64_t begin, int64_t ready, int64_t end)
{
    struct rank *rank = context;
    const struct pen_op *op = &rank->row->ops[position];
    if (pen_op_is_compute(op->kind)) /* weights of its layers may be late */
        rank->told->busy_sec -= 1e-9 * (double)rank->for_all_ns;
    if (pen_op_is_compute(op->kind) || op->kind == PEN_OP_STEP)
        rank->told->busy_sec += 1e-9 * (double)(end - ready - rank->inside_ns);
    rank->told->inside_sec += 1e-9 * (double)rank->inside_ns;
    if (op->kind == PEN_OP_STEP) { /* from the end of the pass to the norm */
        rank->told->all_sec +=
            1e-9 * (double)(ready - begin) - waited_between(rank, begin, ready);
        rank->told->busy_sec -= waited_between(rank, ready, end);
        rank->waited_for = PEN_NO_RANK;
    }
    record(rank, pass, position, begin, ready, end);
}

/* ---- making ---- */

static pen_status make_network(void *context, uint32_t part,
                               struct pen_network **out, struct pen_text *why)
{
    const struct rank *rank = context;
    const struct pen_simulation *simulation = rank->run->simulation;
    const struct pen_sim_part *from = &simulation->parts[part];
    struct pen_timed_part timed = {.forward_sec = from->forward_sec,
                                   .input_sec = from->input_sec,
                                   .weight_sec = from->weight_sec,
                                   .step_sec = from->step_sec,
                                   .first_layer = rank->run->ranges[part].first,
                                   .num_layers = from->num_layers,
                                   .num_parameters = from->num_parameters,
                                   .num_experts = from->num_experts,
                                   .expert_ranks = simulation->expert_ranks};
    if (simulation->layer_parameters != NULL)
        timed.layer_parameters =
            &simulation->layer_parameters[timed.first_layer];
    if (simulation->messages != NULL)
        timed.messages = &simulation->messages[timed.first_layer];
    return pen_timed_network_create(rank->timed, simulation->model->decoder,
                                    &timed, out, why);
}

/* Returns samples with as few tokens as there are chunks of a sequence. */
static struct pen_sample_shape
sample_of(const struct pen_simulation *simulation)
{
    uint32_t parts = simulation->mesh.sizes[PEN_AXIS_CONTEXT];
    uint32_t count = parts > 1 ? 2 * parts : 1;
    return (struct pen_sample_shape){.num_ids = count, .num_targets = count};
}

static pen_status train(struct rank *rank, struct pen_text *why)
{
    const struct pen_simulation *simulation = rank->run->simulation;
    struct pen_batches batches = {.ops = &nothing,
                                  .shape = sample_of(simulation)};
    double *ends = rank->run->ends;
    uint32_t count;
    struct pen_step *steps =
        calloc(pen_trainer_pass_steps(rank->trainer), sizeof *steps);
    pen_status status = steps == NULL ? PEN_NOMEM : PEN_OK;
    rank->run->progress->num_started++;
    for (uint32_t i = 0; i < simulation->num_steps && status == PEN_OK; i++) {
        status = pen_trainer_pass(rank->trainer, &batches, steps, &count, why);
        pen_timed_engine_begin(rank->timed, 1, false);
        pen_trainer_sleep(rank->trainer, simulation->other_sec);
        double now = simgrid_get_clock();
        ends[i] = now > ends[i] ? now : ends[i];
        rank->run->progress->num_steps++;
        rank->run->progress->simulated_sec = now;
    }
    if (status == PEN_OK)
        status = pen_trainer_settle(rank->trainer, steps, &count, why);
    free(steps);
    return status;
}

/*
 * Returns the micro-batches of a step in all pipelines; a pass may have several
 * steps.
 */
static size_t step_batch(const struct pen_simulation *simulation)
{
    const struct pen_schedule *schedule = simulation->schedule;
    size_t each =
        schedule->rules.period != 0
            ? (size_t)schedule->rules.period * schedule->shape.num_copies
            : schedule->shape.num_microbatches;
    return each * pen_mesh_num_groups(&simulation->mesh);
}

static pen_status run_trainer(struct rank *rank,
                              struct pen_transport *transport,
                              struct pen_text *why)
{
    const struct pen_simulation *simulation = rank->run->simulation;
    struct pen_network_maker maker = {.context = rank,
                                      .engine = pen_timed_engine(rank->timed),
                                      .message_bytes =
                                          simulation->message_bytes,
                                      .make = make_network};
    struct pen_phantom phantom = {simulation->gradient_size,
                                  simulation->value_size};
    struct pen_trainer_options options = {
        .model = simulation->model,
        .sample = sample_of(simulation),
        .micro_batch = 1,
        .global_batch = step_batch(simulation),
        .transport = transport,
        .tensor_size = simulation->mesh.sizes[PEN_AXIS_TENSOR],
        .logical_tensor = simulation->mesh.sizes[PEN_AXIS_TENSOR],
        .context_size = simulation->mesh.sizes[PEN_AXIS_CONTEXT],
        .expert_size = simulation->expert_ranks,
        .schedule = simulation->schedule,
        .parts = rank->run->ranges,
        .sharding = simulation->gathers_weights ? PEN_SHARDING_ZERO3
                    : simulation->is_sharded    ? PEN_SHARDING_ZERO1
                                                : PEN_SHARDING_NONE,
        .sharding_group = simulation->sharding_group,
        .maker = &maker,
        .phantom = &phantom,
        .is_verified = true,
        .has_late_sums = !simulation->overlaps_sums,
        .is_blocking = simulation->is_blocking,
        .joins_pairs = true,
        .watch = {.context = rank,
                  .op = on_op,
                  .wait = on_wait,
                  .resume = on_resume,
                  .done = on_done},
        .optimizer = {.kind = PEN_STEP_RULE_ADAM},
        .rates = {.rate = 1, .min_rate = 1}};
    pen_status status = pen_trainer_create(&options, &rank->trainer, why);
    if (status == PEN_OK)
        status = train(rank, why);
    pen_trainer_free(rank->trainer);
    return status;
}

static pen_status live(struct pen__run *run, struct pen_text *why)
{
    struct rank rank = {.run = run};
    struct pen_launch launch = {.launcher = PEN_LAUNCHER_NONE};
    struct pen_transport *transport = NULL;
    pen_status status = pen_transport_open(&launch, &transport, why);
    if (status != PEN_OK)
        return status;
    rank.number = pen_transport_rank(transport);
    pen_transport_watch(transport, on_send, &rank);
    rank.told = &run->result->ranks[rank.number];
    rank.told->longest_for = PEN_NO_RANK;
    const struct pen_schedule *schedule = run->simulation->schedule;
    uint32_t row = pen_mesh_row(&run->simulation->mesh, rank.number);
    rank.row = &schedule->rows[row];
    rank.is_fine = run->is_fine[row];
    status = pen_timed_engine_create(&rank.timed);
    if (status == PEN_OK) {
        pen_timed_engine_set_spend(rank.timed, spend, &rank);
        pen_timed_engine_set_exchange(rank.timed, exchange);
        status = run_trainer(&rank, transport, why);
        pen_engine_free(pen_timed_engine(rank.timed));
    }
    if (status == PEN_OK)
        pen_transport_close(transport);
    return status;
}

void pen__run_rank(int argc, char **argv)
{
    struct pen__run *run =
        argc > 1 ? (void *)(uintptr_t)strtoull(argv[1], NULL, 16) : NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (run == NULL)
        return;
    if (live(run, &why) == PEN_OK)
        run->num_finished++;
    else if (run->why.length == 0)
        pen_text_add(&run->why, "%s", pen_text_string(&why));
    pen_text_release(&why);
}
