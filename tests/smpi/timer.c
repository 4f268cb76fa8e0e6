/*
 * The planner's timer against the simulated runtime: every generator, from 2
 * to 64 ranks, with seconds that differ from stage to stage and messages that
 * take some percent of them.
 *
 *   smpi_timer              no message slows another: they agree within 1 %
 *   smpi_timer --shared     large messages, up to 16 ranks: nothing is slower
 *                           than the timer until messages share links, and
 *                           then a link is full
 *   smpi_timer --moved N    up to 8 ranks, N times: sends and receives moved to
 *                           other places that are as legal, and half of
 *                           them with recomputation, by PEN_SEED
 *   smpi_timer [NAME...]    these generators alone
 *
 * A line for each run: schedule, ranks, micro-batches, seconds by the timer and
 * in the simulation, difference; shared also the difference then, and the
 * fullest link.
 */
#include "base/random.h"
#include "schedule/generators.h"
#include "schedule/time.h"
#include "schedule/verify.h"
#include "sim/simulation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOLERANCE 0.01
#define MAX_RANKS 64u
#define ROUNDS 24u         /* micro-batches of stages with ranks of their own */
#define LAYERS 2u          /* of a part */
#define ENVELOPE_BYTES 80u /* that runtime and MPI add to a message */
#define FULL 0.25          /* of a link for which messages wait */

/* Whose schedules the runtime does not run. */
static const char *const refused[] = {"seq1f1b", NULL};

static const uint32_t rank_counts[] = {2, 4, 8, 16, 64};

static const char cluster_text[] =
    "name: test\ndevices:\n  - kind: card\n    count: 64\n"
    "    flops: {f32: 1 TFLOP/s}\n    memory: 1 GB\n    bandwidth: 1 TB/s\n"
    "    constants: {link_share: 1, link_half: 0, link_sec: 0, "
    "message_share: 1, network_share: 1, network_sec: 0}\n"
    "links:\n  - {level: all, bandwidth: 10 GB/s, latency: 5 us}\n";

/* What is asked, and what was found so far. */
struct campaign {
    bool is_shared;
    struct pen_random *moves; /* or NULL: messages stay where they are */
    uint32_t num_moved;       /* runs that take another time than unmoved */
    struct pen_cluster *cluster;
    uint64_t devices[MAX_RANKS];
    uint32_t num_runs;
    uint32_t num_failures;
    uint32_t num_slower; /* on shared links, by more than the tolerance */
    double largest;      /* difference */
};

/* One schedule, timed and simulated. */
struct run {
    const char *name;
    uint32_t ranks;
    uint32_t microbatches;
    bool recomputes;
    const uint32_t *replicas; /* of its stages, or NULL: one rank each */
    uint32_t num_replicated;
    struct pen_costs costs;
    struct pen_schedule *schedule;
    struct pen_sim_part *parts;
    struct pen_any_model model;
    double timer_sec;
    double busiest_sec;    /* what the busiest rank computes in a step */
    double simulation_sec; /* no message slows another */
    double shared_sec;     /* links are shared */
    struct pen_sim_link fullest;
};

static void give_up(const char *name, const struct pen_text *why)
{
    fprintf(stderr, "%s: %s\n", name, pen_text_string(why));
    exit(EXIT_FAILURE);
}

/* ---- costs ---- */

/* Seconds of a part, 1 to 3 ms for each thing; nothing else takes time. */
static void fill_costs(struct pen_costs *costs, uint32_t num_parts,
                       double bytes)
{
    struct pen_random random = {num_parts};
    pen_costs_init(costs);
    costs->latency_sec = 5e-6;
    costs->bytes_per_sec = 1e10;
    costs->bytes = bytes;
    if (num_parts == 0)
        return;
    costs->scope = PEN_COST_PER_STAGE;
    costs->num_items = num_parts;
    costs->items = calloc(num_parts, sizeof *costs->items);
    for (uint32_t i = 0; i < num_parts; i++) {
        struct pen_cost *cost = &costs->items[i];
        *cost = costs->uniform;
        cost->memory = -1;
        cost->forward_sec = 1e-3 * (1 + 2 * pen_random_unit(&random));
        cost->input_sec = 1e-3 * (1 + 2 * pen_random_unit(&random));
        cost->weight_sec = 1e-3 * (1 + 2 * pen_random_unit(&random));
    }
}

/* ---- making ---- */

static pen_status make_schedule(struct run *run,
                                const struct pen_generator *generator,
                                struct pen_text *why)
{
    struct pen_generator_args args = {.ranks = run->ranks,
                                      .microbatches = run->microbatches,
                                      .chunks = generator->has_chunks ? 2 : 0,
                                      .slices = generator->has_slices ? 2 : 0,
                                      .batches =
                                          generator->is_synchronous ? 0 : 2,
                                      .recomputes = run->recomputes,
                                      .replicas = run->replicas,
                                      .num_replicated = run->num_replicated,
                                      .costs = &run->costs};
    return pen_generator_make(generator, &args, &run->schedule, why);
}

/*
 * Once to know its parts, once with their costs: an order may depend on them.
 * Twice the ranks are micro-batches enough for all; of many ranks, for speed,
 * as many where that will do.
 */
static void make_order(struct run *run, const struct pen_generator *generator,
                       double bytes)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_text few = PEN_TEXT_EMPTY;
    fill_costs(&run->costs, 0, bytes);
    run->microbatches = run->replicas != NULL ? ROUNDS : run->ranks;
    if ((run->ranks < MAX_RANKS && run->replicas == NULL) ||
        make_schedule(run, generator, &few) != PEN_OK) {
        run->microbatches = 2 * run->ranks;
        if (make_schedule(run, generator, &why) != PEN_OK)
            give_up(run->name, &why);
    }
    pen_text_release(&few);
    uint32_t num_parts = pen_shape_parts(&run->schedule->shape);
    pen_schedule_free(run->schedule);
    fill_costs(&run->costs, num_parts, bytes);
    if (make_schedule(run, generator, &why) != PEN_OK)
        give_up(run->name, &why);
    pen_text_release(&why);
}

/* ---- moving messages ---- */

/* The rank that a send or receive is for. */
static uint32_t peer_of(const struct pen_shape *shape, const struct pen_op *op)
{
    bool is_out = pen_op_info(op->kind)->op_class == PEN_OP_CLASS_SEND;
    bool is_act = pen_op_info(op->kind)->direction == PEN_DIRECTION_ACT;
    return pen_shape_rank_of(
        shape, is_act == is_out ? pen_shape_next_stage(shape, op->stage)
                                : pen_shape_previous_stage(shape, op->stage));
}

/*
 * A send goes back, a receive forward, but not past one of its channel. Nor
 * past a STEP: the runtime takes those of a synchronous schedule behind the
 * row.
 */
static bool may_pass(const struct pen_shape *shape, const struct pen_op *op,
                     const struct pen_op *other)
{
    return other->kind != PEN_OP_STEP &&
           (other->kind != op->kind ||
            peer_of(shape, op) != peer_of(shape, other));
}

/* Moves one message by up to 8 places; undoes what is not legal. */
static void move_one(struct run *run, struct pen_random *random)
{
    const struct pen_shape *shape = &run->schedule->shape;
    struct pen_row *row =
        &run->schedule->rows[pen_random_below(random, shape->num_ranks)];
    uint32_t at = pen_random_below(random, row->count);
    uint32_t distance = 1 + pen_random_below(random, 8);
    const struct pen_op moved = row->ops[at];
    unsigned class = pen_op_info(moved.kind)->op_class;
    bool is_send = class == PEN_OP_CLASS_SEND;
    if (!is_send && class != PEN_OP_CLASS_RECV)
        return;
    struct pen_op *before = malloc(row->count * sizeof *before);
    memcpy(before, row->ops, row->count * sizeof *before);
    for (; distance > 0; distance--) {
        uint32_t next = is_send ? at + 1 : at - 1;
        if (next >= row->count || !may_pass(shape, &moved, &row->ops[next]))
            break;
        row->ops[at] = row->ops[next];
        row->ops[next] = moved;
        at = next;
    }
    struct pen_verify_options options = {.needs_sync = false};
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_schedule_verify(run->schedule, &options, NULL, &why) != PEN_OK)
        memcpy(row->ops, before, row->count * sizeof *before);
    pen_text_release(&why);
    free(before);
}

/* As many layers as the parts have; the embedding and the head are two. */
static void make_parts(struct run *run)
{
    uint32_t num_parts = run->costs.num_items;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    run->parts = calloc(num_parts, sizeof *run->parts);
    for (uint32_t i = 0; i < num_parts; i++)
        run->parts[i] = (struct pen_sim_part){
            .forward_sec = run->costs.items[i].forward_sec,
            .input_sec = run->costs.items[i].input_sec,
            .weight_sec = run->costs.items[i].weight_sec,
            .num_layers = LAYERS,
            .num_parameters = 2 * LAYERS};
    pen_text_add(&text,
                 "{\"model_type\": \"gpt2\", \"n_embd\": 8, \"n_layer\": %u, "
                 "\"n_head\": 1, \"n_positions\": 8, \"vocab_size\": 8, "
                 "\"tie_word_embeddings\": false}",
                 LAYERS * num_parts - 2);
    if (pen_model_parse(pen_text_string(&text), text.length,
                        &run->model.decoder, &why) != PEN_OK)
        give_up(run->name, &why);
    pen_text_release(&text);
}

static void release(struct run *run)
{
    pen_any_model_release(&run->model);
    pen_schedule_free(run->schedule);
    pen_costs_release(&run->costs);
    free(run->parts);
}

/* ---- seconds ---- */

/*
 * The simulation takes a second step, which the first one may not reach into;
 * the first alone where steps overlap, and where there is much to simulate.
 */
static bool has_one_step(const struct run *run)
{
    return run->schedule->rules.period != 0 || run->ranks == MAX_RANKS;
}

/* With `more` sends under way than the schedule's window. */
static double time_with(const struct run *run, uint32_t more,
                        double *busiest_sec)
{
    struct pen_time_options options = {
        .send_window = pen_schedule_window(run->schedule) + more};
    struct pen_timing *timing = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_schedule_time(run->schedule, &run->costs, &options, &timing,
                          &why) != PEN_OK)
        give_up(run->name, &why);
    double sec = has_one_step(run) ? timing->makespan_sec : timing->step_sec;
    *busiest_sec = timing->span_sec * (1 - timing->bubble);
    pen_timing_free(timing);
    return sec;
}

static void ask_timer(struct run *run)
{
    run->timer_sec = time_with(run, 0, &run->busiest_sec);
}

static pen_status ask_simulation(struct run *run,
                                 const struct campaign *campaign,
                                 bool is_shared, struct pen_text *why)
{
    struct pen_sim_result result;
    struct pen_simulation simulation = {
        .model = &run->model,
        .schedule = run->schedule,
        .parts = run->parts,
        .mesh = pen_mesh_of(PEN_MESH_PIPELINE_FIRST, run->ranks, 1),
        .message_bytes = (size_t)run->costs.bytes - ENVELOPE_BYTES,
        .gradient_size = 4,
        .value_size = 4,
        .num_steps = has_one_step(run) ? 1 : 2,
        .platform = {.cluster = campaign->cluster,
                     .is_uncontended = !is_shared,
                     .devices = campaign->devices,
                     .num_ranks = run->ranks}};
    pen_status status = pen_simulate(&simulation, &result, why);
    if (status != PEN_OK)
        return status;
    if (result.is_stuck) {
        pen_why(why, "the simulation is stuck");
        status = PEN_INVALID;
    }
    *(is_shared ? &run->shared_sec : &run->simulation_sec) =
        result.step_sec[result.num_steps - 1];
    if (result.num_links > 0)
        run->fullest = result.links[0];
    pen_sim_result_release(&result);
    return status;
}

/* ---- judging ---- */

static void fail(struct campaign *campaign, const char *what)
{
    printf("  FAILED: %s", what);
    campaign->num_failures++;
}

/* What is slower on shared links, and there alone, waits for one of them. */
static void judge_shared(struct campaign *campaign, const struct run *run)
{
    double longer = run->shared_sec / run->timer_sec - 1;
    double full = run->fullest.utilisation;
    printf("  %+8.3f %%  %s is %.0f %% full", 100 * longer, run->fullest.name,
           100 * full);
    campaign->num_slower += longer > TOLERANCE;
    if (longer > TOLERANCE && full < FULL)
        fail(campaign, "no link is full");
    if (longer < -TOLERANCE)
        fail(campaign, "faster on shared links");
}

/*
 * The timer has one message at a time between two ranks, so where messages take
 * longer than operations a simulation in which none slows another is faster.
 * And it posts receives where they stand, the runtime some ahead: where a full
 * window holds a sender back, the runtime may be as fast as without a window.
 * Where steps are optimistic, rows of ranks that differ may close gaps between
 * them: the span is the most that a step takes, and the work of the busiest
 * rank the least.
 */
static bool may_be_faster(const struct campaign *campaign,
                          const struct run *run)
{
    double least_sec = run->busiest_sec;
    double unused_sec;
    if (!run->schedule->rules.is_optimistic)
        least_sec =
            time_with(run, run->schedule->shape.num_microbatches, &unused_sec);
    return campaign->is_shared ||
           run->simulation_sec >= (1 - TOLERANCE) * least_sec;
}

static void judge(struct campaign *campaign, const struct run *run)
{
    double difference = run->simulation_sec / run->timer_sec - 1;
    printf("%-18s %3u %4u %s %12.6f %12.6f %+8.3f %%", run->name, run->ranks,
           run->microbatches, run->recomputes ? "R" : " ", run->timer_sec,
           run->simulation_sec, 100 * difference);
    if (!(difference <= TOLERANCE) ||
        (difference < -TOLERANCE && !may_be_faster(campaign, run)))
        fail(campaign, "timer and simulation differ");
    if (campaign->is_shared)
        judge_shared(campaign, run);
    printf("\n");
    fflush(stdout);
    campaign->num_runs++;
    campaign->largest = fmax(campaign->largest, fabs(difference));
}

static bool is_in(const char *name, const char *const *names)
{
    while (*names != NULL && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

static void tell_refusal(struct campaign *campaign, const char *name,
                         const struct pen_text *why)
{
    printf("%-18s refused: %s", name, pen_text_string(why));
    if (!is_in(name, refused))
        fail(campaign, "it is to be run");
    printf("\n");
}

static void move_messages(struct campaign *campaign, struct run *run)
{
    uint64_t count = pen_schedule_count(run->schedule);
    ask_timer(run);
    double unmoved_sec = run->timer_sec;
    for (uint64_t i = 0; i < count; i++)
        move_one(run, campaign->moves);
    ask_timer(run);
    campaign->num_moved += fabs(run->timer_sec / unmoved_sec - 1) > TOLERANCE;
}

/* Half of the moved schedules recompute, where they can. */
static bool draw_recomputation(const struct campaign *campaign,
                               const struct pen_generator *generator)
{
    return campaign->moves != NULL && !generator->is_stale &&
           !generator->moves_activations &&
           pen_random_unit(campaign->moves) < 0.5;
}

/* False when the runtime refuses what the generator makes. */
static bool compare_run(struct campaign *campaign,
                        const struct pen_generator *generator, struct run run)
{
    run.recomputes = draw_recomputation(campaign, generator);
    struct pen_text why = PEN_TEXT_EMPTY;
    make_order(&run, generator, campaign->is_shared ? 3e7 : 1e6);
    make_parts(&run);
    if (campaign->moves != NULL)
        move_messages(campaign, &run);
    ask_timer(&run);
    pen_status status = ask_simulation(&run, campaign, false, &why);
    if (status == PEN_OK && campaign->is_shared)
        status = ask_simulation(&run, campaign, true, &why);
    if (status == PEN_OK)
        judge(campaign, &run);
    else
        tell_refusal(campaign, run.name, &why);
    pen_text_release(&why);
    release(&run);
    return status == PEN_OK;
}

static bool compare(struct campaign *campaign,
                    const struct pen_generator *generator, uint32_t ranks)
{
    return compare_run(campaign, generator,
                       (struct run){.name = generator->name, .ranks = ranks});
}

/* Stages with ranks of their own. */
static void compare_replicated(struct campaign *campaign,
                               const struct pen_generator *generator)
{
    static const uint32_t lists[][3] = {
        {3, 1, 0}, {1, 2, 0}, {2, 1, 1}, {4, 2, 2}, {1, 3, 3}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct run run = {.name = generator->name, .replicas = lists[i]};
        while (run.num_replicated < 3 && lists[i][run.num_replicated] > 0)
            run.ranks += lists[i][run.num_replicated++];
        compare_run(campaign, generator, run);
    }
}

static void compare_all(struct campaign *campaign,
                        const struct pen_generator *generator)
{
    bool is_run = true;
    if (generator->has_replicas)
        compare_replicated(campaign, generator);
    for (size_t i = 0; i < sizeof rank_counts / sizeof *rank_counts; i++)
        if (is_run && (rank_counts[i] < MAX_RANKS || !campaign->is_shared))
            is_run = compare(campaign, generator, rank_counts[i]);
}

static bool is_run(const struct pen_generator *generator)
{
    return !is_in(generator->name, refused);
}

static void compare_moved(struct campaign *campaign, uint32_t count)
{
    const char *seed = getenv("PEN_SEED");
    struct pen_random random = {seed == NULL ? 1 : strtoull(seed, NULL, 10)};
    size_t num_generators = 0;
    campaign->moves = &random;
    while (pen_generator_at(num_generators) != NULL)
        num_generators++;
    for (uint32_t i = 0; i < count;) {
        const struct pen_generator *generator = pen_generator_at(
            pen_random_below(&random, (uint32_t)num_generators));
        if (!is_run(generator))
            continue;
        compare(campaign, generator, rank_counts[pen_random_below(&random, 3)]);
        i++;
    }
    printf("%u of them take another time than unmoved\n", campaign->num_moved);
    if (campaign->num_moved == 0)
        fail(campaign, "no move changes a time\n");
}

static void compare_generators(struct campaign *campaign,
                               const char *const *names)
{
    for (size_t i = 0; pen_generator_at(i) != NULL; i++)
        if (*names == NULL || is_in(pen_generator_at(i)->name, names))
            compare_all(campaign, pen_generator_at(i));
}

int main(int argc, char **argv)
{
    struct campaign campaign = {.is_shared = false};
    struct pen_text why = PEN_TEXT_EMPTY;
    if (argc > 1 && strcmp(argv[1], "--shared") == 0) {
        campaign.is_shared = true;
        argc--;
        argv++;
    }
    if (pen_cluster_parse(cluster_text, strlen(cluster_text), &campaign.cluster,
                          &why) != PEN_OK)
        give_up("cluster", &why);
    for (uint32_t i = 0; i < MAX_RANKS; i++)
        campaign.devices[i] = i;
    if (argc == 3 && strcmp(argv[1], "--moved") == 0)
        compare_moved(&campaign, (uint32_t)strtoul(argv[2], NULL, 10));
    else
        compare_generators(&campaign, (const char *const *)argv + 1);
    printf("%u runs: timer and simulation differ by %.3f %% at most; %u are "
           "slower on shared links; %u failures\n",
           campaign.num_runs, 100 * campaign.largest, campaign.num_slower,
           campaign.num_failures);
    pen_cluster_free(campaign.cluster);
    return campaign.num_failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
