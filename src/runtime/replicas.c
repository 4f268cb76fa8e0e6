/*
 * A training that a method of sync/ keeps together with others:
 *
 *              gradients are there          updated, or the method's own step
 *   COMPUTING ----before_step()----> STEPPING ----after_step()----> VOTING
 *    |  ^  ^                                                         |
 *    |  |  +------------ counts of votes, every few steps -----------+
 *    |  |
 *    |  +-- pen_replicas_hide() --+
 *    |                            |
 *    +-- pen_replicas_show() -> SHOWN: weights are those of the one model, for
 *    |                          an evaluation or a checkpoint
 *    +-- pen_replicas_leave() -> LEFT: peers know of it, and do not wait for it
 *
 * In COMPUTING the method's messages move with polls of the executor. An island
 * goes from VOTING to the round that its ring gives it (islands.c).
 */
#include "runtime/replicas.h"

#include "base/bug.h"
#include "network/images.h"
#include "runtime/islands_internal.h"
#include "runtime/replica_statistics.h"
#include "runtime/replicas_internal.h"
#include "runtime/trainer_internal.h"
#include "runtime/transport_group.h"
#include "sync/islands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Steps from one count of votes over all replicas to the next, at least. */
enum { VOTE_STEPS = 8 };

/* Batches with which each replica measures the statistics of the one model. */
enum { MEASURED_BATCHES = 16 };

/* The parts of a tensor that a method sees: its value, gradient and moments. */
enum { PARTS = PEN_PART_MOMENT2 + 1 };

/* Channels from here on are not the method's. */
enum { STATISTICS_CHANNEL = 4096 };

struct pen_replicas {
    struct pen_trainer *trainer;
    struct pen_transport *world;
    struct pen_sync_choice choice;
    uint32_t count;
    uint32_t number;                           /* of this one */
    const struct pen_island *island;           /* NULL: there are none */
    struct pen_sync_choice island_choice;      /* what the user chose */
    struct pen_sync_method island_method;      /* that `choice` has then */
    struct pen_group *peers;                   /* this rank of every replica */
    struct pen_replica_statistics *statistics; /* NULL: there are none */
    struct pen_batches *batches;
    struct pen_sync_setting setting;
    struct pen_sync *sync;
    struct pen_replicas_place *places;
    struct pen_mirror *mirrors;  /* PARTS per tensor */
    const struct pen_step *step; /* that is being taken */
    float *shown;                /* the own weights, while others are shown */
    bool is_shown;

    /* Votes on their way. */
    double given[PEN_VOTES];  /* since the last count */
    double counts[PEN_VOTES]; /* over all replicas */
    struct pen_request request;
    bool is_counting;
};

/* ---- parameters ---- */

static const struct pen_network_parameter *
parameter_of(const struct pen_replicas *replicas, size_t index)
{
    const struct pen_replicas_place *place = &replicas->places[index];
    return pen_network_parameter(
        pen_trainer_network(replicas->trainer, place->stage), place->parameter);
}

static bool is_kept(const struct pen_trainer *trainer, uint32_t stage,
                    size_t index)
{
    const struct pen_network_parameter *it = pen_network_parameter(
        pen_executor_stage(trainer->executor, stage)->network, index);
    return !it->is_value_only &&
           pen_exchange_owns(trainer->exchange, stage, index);
}

static size_t count_places(struct pen_trainer *trainer)
{
    size_t count = 0;
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++) {
        struct pen_network *network = pen_trainer_network(trainer, s);
        for (size_t i = 0; i < pen_network_num_parameters(network); i++)
            count += is_kept(trainer, s, i);
    }
    return count;
}

static size_t num_parts(const struct pen_replicas *replicas)
{
    int moments = pen_optimizer_moments(&replicas->trainer->options.optimizer);
    return (size_t)PEN_PART_MOMENT1 + (size_t)moments;
}

/* Shows the method what the engine has now. */
static void refresh(struct pen_replicas *replicas)
{
    for (size_t i = 0; i < replicas->setting.num_tensors; i++) {
        struct pen_sync_tensor *tensor = &replicas->setting.tensors[i];
        float *parts[PARTS] = {NULL};
        for (size_t part = 0; part < num_parts(replicas); part++) {
            const struct pen_mirror_piece piece = {
                .parameter = parameter_of(replicas, i)->parameter,
                .part = (enum pen_parameter_part)part,
                .count = tensor->count};
            parts[part] =
                pen_mirror_show(&replicas->mirrors[i * PARTS + part], &piece);
        }
        tensor->value = parts[PEN_PART_VALUE];
        tensor->gradient = parts[PEN_PART_GRADIENT];
        tensor->moments[0] = parts[PEN_PART_MOMENT1];
        tensor->moments[1] = parts[PEN_PART_MOMENT2];
    }
}

/* Gives the engine what the method has changed. */
static void put_back(struct pen_replicas *replicas)
{
    for (size_t i = 0; i < replicas->setting.num_tensors; i++)
        for (size_t part = 0; part < num_parts(replicas); part++)
            pen_mirror_put(&replicas->mirrors[i * PARTS + part]);
}

static pen_status make_mirrors(struct pen_replicas *replicas)
{
    const struct pen_sync_setting *setting = &replicas->setting;
    pen_status status = PEN_OK;
    replicas->mirrors =
        calloc(setting->num_tensors + 1, PARTS * sizeof *replicas->mirrors);
    if (replicas->mirrors == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < setting->num_tensors * PARTS; i++)
        if (status == PEN_OK)
            status = pen_mirror_init(&replicas->mirrors[i],
                                     replicas->trainer->engine,
                                     setting->tensors[i / PARTS].count);
    return status;
}

static pen_status lay_out(struct pen_replicas *replicas)
{
    struct pen_trainer *trainer = replicas->trainer;
    struct pen_sync_setting *setting = &replicas->setting;
    size_t num = count_places(trainer);
    replicas->places = calloc(num + 1, sizeof *replicas->places);
    setting->tensors = calloc(num + 1, sizeof *setting->tensors);
    if (replicas->places == NULL || setting->tensors == NULL)
        return PEN_NOMEM;
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++) {
        struct pen_network *network = pen_trainer_network(trainer, s);
        for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
            const struct pen_network_parameter *it =
                pen_network_parameter(network, i);
            size_t count = pen_network_count(it);
            if (!is_kept(trainer, s, i))
                continue;
            replicas->places[setting->num_tensors] =
                (struct pen_replicas_place){s, i};
            setting->tensors[setting->num_tensors++] =
                (struct pen_sync_tensor){.key = it->slices[0].tensor,
                                         .rows = it->rows,
                                         .columns = it->columns,
                                         .count = count,
                                         .first = setting->count};
            setting->count += count;
        }
    }
    pen_status status = make_mirrors(replicas);
    if (status == PEN_OK)
        refresh(replicas);
    return status;
}

/* Reports changed weights to the engine, whose products read copies of them. */
static void tell_change(struct pen_replicas *replicas)
{
    struct pen_engine *engine = replicas->trainer->engine;
    put_back(replicas);
    for (size_t i = 0; i < replicas->setting.num_tensors; i++)
        engine->ops->parameter_value_changed(
            engine, parameter_of(replicas, i)->parameter);
}

/* ---- making ---- */

static void local_step(void *context, const struct pen_sync_step *at)
{
    struct pen_replicas *replicas = context;
    struct pen_step step = *replicas->step;
    step.step = at->step;
    step.learning_rate = at->learning_rate;
    put_back(replicas);
    pen__trainer_optimize(replicas->trainer, &step);
    refresh(replicas);
}

static pen_status check(const struct pen_trainer *trainer,
                        const struct pen_sync_method *method,
                        struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    bool is_adam = options->optimizer.kind == PEN_STEP_RULE_ADAM;
    if (trainer->is_asynchronous || options->sleeps != NULL) {
        pen_why(why,
                "--sync %s needs a synchronous --schedule and an --engine that "
                "computes",
                method->name);
        return PEN_INVALID;
    }
    if (is_adam ? (method->is & PEN_SYNC_NEEDS_SGD) != 0
                : (method->is & PEN_SYNC_NEEDS_ADAM) != 0) {
        pen_why(why, "--sync %s needs --optimizer %s", method->name,
                is_adam ? "sgd" : "adam");
        return PEN_INVALID;
    }
    if (pen_layout_copies(&trainer->layout) > 1 &&
        options->sharding == PEN_SHARDING_NONE) {
        pen_why(why,
                "--sync %s with several copies of a stage in a replica needs "
                "--use-distributed-optimizer",
                method->name);
        return PEN_INVALID;
    }
    return PEN_OK;
}

static void fill_setting(struct pen_replicas *replicas,
                         const struct pen_replicas_options *options)
{
    const struct pen_optimizer *numbers = &replicas->trainer->options.optimizer;
    struct pen_sync_setting *setting = &replicas->setting;
    setting->peers = replicas->peers;
    setting->interval = replicas->choice.interval;
    setting->options = replicas->choice.options;
    setting->compressor = replicas->choice.compressor;
    setting->compressor_options = replicas->choice.compressor_options;
    setting->seed = options->seed;
    setting->epoch_steps = options->epoch_steps;
    setting->epoch_batches = options->epoch_batches;
    setting->total_steps = options->total_steps;
    setting->optimizer =
        (struct pen_sync_optimizer){.beta1 = numbers->beta1,
                                    .beta2 = numbers->beta2,
                                    .epsilon = numbers->epsilon,
                                    .momentum = numbers->momentum,
                                    .is_nesterov = numbers->is_nesterov,
                                    .weight_decay = numbers->weight_decay};
    setting->step = local_step;
    setting->context = replicas;
    if (replicas->island != NULL)
        setting->interval = pen_islands_steps(options->choice);
}

static pen_status make_peers(struct pen_replicas *replicas)
{
    struct pen_trainer *trainer = replicas->trainer;
    struct pen_mesh mesh = pen_mesh_of(
        PEN_MESH_PIPELINE_FIRST, pen_transport_size(trainer->options.transport),
        replicas->count);
    const struct pen_transport_group_options options = {
        .transport = replicas->world,
        .executor = trainer->executor,
        .first = {PEN_TAG_REPLICA, 0},
        .num_kinds = 1};
    if (replicas->island != NULL)
        return pen_transport_group_all(&options, &replicas->peers);
    return pen_transport_group_axis(&options, &mesh, PEN_AXIS_REPLICA,
                                    &replicas->peers);
}

static pen_status make_island(struct pen_replicas *replicas)
{
    const struct pen__island_facts facts = {
        .setting = &replicas->setting,
        .choice = &replicas->island_choice,
        .island = replicas->island,
        .executor = replicas->trainer->executor,
        .num_moments = (uint32_t)pen_optimizer_moments(
            &replicas->trainer->options.optimizer)};
    return pen__island_create(&facts, &replicas->sync);
}

static pen_status make(struct pen_replicas *replicas,
                       const struct pen_replicas_options *options,
                       struct pen_text *why)
{
    pen_status status = make_peers(replicas);
    if (status == PEN_OK)
        status = lay_out(replicas);
    if (status != PEN_OK)
        return status;
    fill_setting(replicas, options);
    struct pen_network *network = pen_trainer_network(replicas->trainer, 0);
    if (pen_network_image_model(network) != NULL)
        status = pen_replica_statistics_create(
            replicas->trainer->options.model, network, replicas->setting.peers,
            STATISTICS_CHANNEL, &replicas->statistics);
    if (status != PEN_OK)
        return status;
    replicas->shown = pen_sync_vector(&replicas->setting);
    if (replicas->shown == NULL)
        return PEN_NOMEM;
    if (replicas->island != NULL)
        return make_island(replicas);
    return pen_sync_create(replicas->choice.method, &replicas->setting,
                           &replicas->sync, why);
}

pen_status pen_trainer_join(struct pen_trainer *trainer,
                            const struct pen_replicas_options *options,
                            struct pen_text *why)
{
    PEN_BUG_UNLESS(trainer->options.world != NULL && trainer->replicas == NULL);
    pen_status status = check(trainer, options->choice->method, why);
    if (status != PEN_OK)
        return status;
    struct pen_replicas *replicas = calloc(1, sizeof *replicas);
    if (replicas == NULL)
        return PEN_NOMEM;
    uint32_t size = pen_transport_size(trainer->options.transport);
    replicas->trainer = trainer;
    replicas->world = trainer->options.world;
    replicas->choice = *options->choice;
    replicas->batches = options->batches;
    replicas->island = options->island;
    if (replicas->island != NULL) {
        replicas->island_choice = *options->choice;
        replicas->island_method = pen__island_method(options->choice->method);
        replicas->choice.method = &replicas->island_method;
    }
    replicas->count = pen_transport_size(replicas->world) / size;
    replicas->number = pen_transport_rank(replicas->world) / size;
    status = make(replicas, options, why);
    if (status == PEN_OK)
        trainer->replicas = replicas;
    else
        pen__replicas_free(replicas);
    return status;
}

void pen__replicas_free(struct pen_replicas *replicas)
{
    if (replicas == NULL)
        return;
    if (replicas->is_counting &&
        pen_transport_wait(replicas->world, &replicas->request) == PEN_OK)
        replicas->is_counting = false;
    pen_sync_free(replicas->choice.method, replicas->sync);
    pen_replica_statistics_free(replicas->statistics);
    pen_transport_group_free(replicas->peers);
    for (size_t i = 0;
         replicas->mirrors != NULL && i < replicas->setting.num_tensors * PARTS;
         i++)
        pen_mirror_release(&replicas->mirrors[i]);
    free(replicas->mirrors);
    free(replicas->shown);
    free(replicas->setting.tensors);
    free(replicas->places);
    free(replicas);
}

/* ---- asking ---- */

struct pen_replicas *pen_trainer_replicas(const struct pen_trainer *trainer)
{
    return trainer->replicas;
}

uint32_t pen_replicas_count(const struct pen_replicas *replicas)
{
    return replicas->count;
}

uint32_t pen_replicas_number(const struct pen_replicas *replicas)
{
    return replicas->number;
}

uint32_t pen_replicas_num_shares(const struct pen_replicas *replicas)
{
    return replicas->island != NULL ? replicas->island->count : replicas->count;
}

uint32_t pen_replicas_share(const struct pen_replicas *replicas)
{
    return replicas->island != NULL ? replicas->island->number
                                    : replicas->number;
}

const struct pen_island_turn *
pen_replicas_turn(const struct pen_replicas *replicas)
{
    return replicas->island != NULL ? pen__island_turn(replicas->sync) : NULL;
}

bool pen_replicas_are_over(const struct pen_replicas *replicas)
{
    return replicas->island != NULL &&
           pen__island_turn(replicas->sync)->is_over;
}

const struct pen_sync_choice *
pen_replicas_choice(const struct pen_replicas *replicas)
{
    return &replicas->choice;
}

size_t pen_replicas_bytes(const struct pen_replicas *replicas)
{
    size_t bytes = replicas->setting.count * sizeof(float) +
                   replicas->choice.method->bytes(replicas->sync);
    if (replicas->statistics != NULL)
        bytes += pen_replica_statistics_bytes(replicas->statistics);
    return bytes;
}

size_t pen_replicas_coming_bytes(const struct pen_replicas *replicas)
{
    const struct pen_sync_method *method = replicas->choice.method;
    return method->coming == NULL ? 0 : method->coming(replicas->sync);
}

void pen_replicas_sent(const struct pen_replicas *replicas, uint64_t *bytes,
                       uint64_t *messages)
{
    *bytes = replicas->setting.peers->num_bytes;
    *messages = replicas->setting.peers->num_messages;
}

size_t pen_replicas_num_places(const struct pen_replicas *replicas)
{
    return replicas->setting.num_tensors;
}

const struct pen_replicas_place *
pen_replicas_place(const struct pen_replicas *replicas, size_t index)
{
    return &replicas->places[index];
}

/* ---- steps ---- */

/* Whether what the method did counts. */
static pen_status status_of(const struct pen_replicas *replicas)
{
    return replicas->island != NULL ? pen__island_status(replicas->sync)
                                    : pen_group_status(replicas->setting.peers);
}

/* An island is where its ring wants it: a round that was lost begins again. */
static void go_to_turn(struct pen_replicas *replicas)
{
    const struct pen_island_turn *turn = pen__island_turn(replicas->sync);
    struct pen_trainer *trainer = replicas->trainer;
    if (turn->is_ending)
        return;
    uint64_t steps = pen__island_position(replicas->sync);
    trainer->progress = (struct pen_trainer_progress){
        steps, steps * pen__trainer_step_samples(trainer)};
}

/*
 * Layers take long, and one look at a connection takes a piece of what has
 * come: many looks at once keep a fast link busy until the next layer.
 */
static bool is_counted(void *context)
{
    struct pen_replicas *replicas = context;
    return pen_transport_test(replicas->world, &replicas->request) == PEN_OK;
}

void pen__replicas_poll(struct pen_replicas *replicas)
{
    enum { LOOKS = 64 };
    for (int i = 0; i < LOOKS && replicas->choice.method->poll != NULL; i++)
        replicas->choice.method->poll(replicas->sync);
    if (replicas->is_counting)
        (void)is_counted(replicas);
}

static struct pen_sync_step at_step(const struct pen_step *step)
{
    return (struct pen_sync_step){step->step, step->learning_rate};
}

pen_status pen__replicas_before_step(struct pen_replicas *replicas,
                                     const struct pen_step *step)
{
    struct pen_sync_step at = at_step(step);
    if (replicas->choice.method->before_step == NULL)
        return PEN_OK;
    refresh(replicas);
    replicas->choice.method->before_step(replicas->sync, &at);
    put_back(replicas);
    return pen_group_status(replicas->setting.peers);
}

/*
 * Clips gradients for a method with a step of its own; elsewhere the optimizer
 * does it.
 */
static void clip(struct pen_replicas *replicas, double norm)
{
    double scale =
        pen_optimizer_clip(&replicas->trainer->options.optimizer, norm);
    if (scale == 1)
        return;
    for (size_t i = 0; i < replicas->setting.num_tensors; i++) {
        const struct pen_sync_tensor *tensor = &replicas->setting.tensors[i];
        for (size_t k = 0; k < tensor->count; k++)
            tensor->gradient[k] *= (float)scale;
    }
}

pen_status pen__replicas_step(struct pen_replicas *replicas,
                              const struct pen_step *step)
{
    const struct pen_sync_method *method = replicas->choice.method;
    struct pen_sync_step at = at_step(step);
    bool has_own_step = method->local_step != NULL;
    replicas->step = step;
    if (!has_own_step)
        pen__trainer_optimize(replicas->trainer, step);
    refresh(replicas);
    if (has_own_step) {
        if ((method->is & PEN_SYNC_OWN_STEP) != 0)
            clip(replicas, step->gradient_norm);
        method->local_step(replicas->sync, &at);
    }
    if (method->after_step != NULL)
        method->after_step(replicas->sync, &at);
    if (has_own_step || (method->is & PEN_SYNC_ONLY_WHEN_DUE) == 0 ||
        pen_sync_is_due(&at, replicas->setting.interval))
        tell_change(replicas);
    replicas->step = NULL;
    return status_of(replicas);
}

/* ---- votes ---- */

/*
 * Counts begin every few steps and are read when the next begins, so that the
 * steps between hide the way there and back.
 */
pen_status pen__replicas_vote(struct pen_replicas *replicas,
                              struct pen_step *step)
{
    double *votes = step->votes;
    uint32_t size = pen_transport_size(replicas->trainer->options.transport);
    const struct pen_sync_step at = at_step(step);
    if (replicas->island != NULL) {
        if (pen_sync_is_due(&at, replicas->setting.interval))
            go_to_turn(replicas);
        return PEN_OK;
    }
    if (pen_sync_is_free(replicas->choice.method, &replicas->choice.options,
                         replicas->setting.peers->size)) {
        votes[PEN_VOTE_SAVE] = votes[PEN_VOTE_SAVED] = 0;
        return PEN_OK;
    }
    bool are_saved = votes[PEN_VOTE_SAVED] == size;
    for (int i = 0; i < PEN_VOTES; i++) {
        replicas->given[i] = fmax(replicas->given[i], votes[i] > 0);
        votes[i] = 0;
    }
    replicas->given[PEN_VOTE_SAVED] = are_saved;
    if (step->step % VOTE_STEPS != 0)
        return PEN_OK;
    if (replicas->is_counting) {
        pen_status status = pen_executor_wait(
            replicas->trainer->executor, is_counted, replicas, PEN_NO_RANK);
        if (status != PEN_OK)
            return status;
        memcpy(votes, replicas->counts, sizeof replicas->counts);
        step->vote_delay = VOTE_STEPS;
    }
    memcpy(replicas->counts, replicas->given, sizeof replicas->counts);
    memset(replicas->given, 0, sizeof replicas->given);
    replicas->is_counting = true;
    pen_transport_sum(replicas->world, replicas->counts, PEN_VOTES,
                      &replicas->request);
    return PEN_OK;
}

/* ---- the one model ---- */

pen_status pen_replicas_settle(struct pen_replicas *replicas)
{
    if (replicas->choice.method->settle != NULL)
        replicas->choice.method->settle(replicas->sync);
    return pen_group_status(replicas->setting.peers);
}

static pen_status exchange_shown(struct pen_replicas *replicas)
{
    for (size_t i = 0; i < replicas->setting.num_tensors; i++) {
        const struct pen_sync_tensor *tensor = &replicas->setting.tensors[i];
        float *other = replicas->shown + tensor->first;
        for (size_t k = 0; k < tensor->count; k++) {
            float own = tensor->value[k];
            tensor->value[k] = other[k];
            other[k] = own;
        }
    }
    tell_change(replicas);
    return pen_exchange_values(replicas->trainer->exchange);
}

/* A batch of each of the next steps; nothing depends on their losses. */
static uint32_t measure_statistics(void *context)
{
    const struct pen_replicas *replicas = context;
    struct pen_trainer *trainer = replicas->trainer;
    double loss = 0;
    struct pen_pass pass = {.batches = replicas->batches,
                            .is_evaluation = true,
                            .measures = true,
                            .num_targets = 1,
                            .losses = &loss};
    if (pen__trainer_make_evaluator(trainer, NULL) != PEN_OK)
        return 0;
    pass.first_sample =
        trainer->progress.samples + pen__trainer_sample_offset(trainer);
    for (uint32_t i = 0; i < MEASURED_BATCHES; i++) {
        pass.number = ++trainer->num_passes;
        pass.num_samples = pass.first_sample + trainer->options.micro_batch;
        if (pen_executor_run(trainer->evaluator, &pass, NULL) != PEN_OK)
            return 0;
        pass.first_sample += pen__trainer_step_samples(trainer);
    }
    return MEASURED_BATCHES;
}

pen_status pen_replicas_show(struct pen_replicas *replicas)
{
    PEN_BUG_UNLESS(!replicas->is_shown);
    pen_status status = pen_replicas_settle(replicas);
    if (status != PEN_OK)
        return status;
    refresh(replicas);
    replicas->choice.method->consistent(replicas->sync, replicas->shown);
    status = pen_group_status(replicas->setting.peers);
    if (status != PEN_OK)
        return status;
    status = exchange_shown(replicas);
    if (status == PEN_OK && replicas->statistics != NULL)
        status = pen_replica_statistics_show(replicas->statistics,
                                             measure_statistics, replicas);
    replicas->is_shown = true;
    return status;
}

pen_status pen_replicas_hide(struct pen_replicas *replicas)
{
    PEN_BUG_UNLESS(replicas->is_shown);
    refresh(replicas);
    pen_status status = exchange_shown(replicas);
    if (replicas->statistics != NULL)
        pen_replica_statistics_hide(replicas->statistics);
    replicas->is_shown = false;
    return status;
}

const float *pen_replicas_hidden(const struct pen_replicas *replicas)
{
    PEN_BUG_UNLESS(replicas->is_shown);
    return replicas->shown;
}

const void *pen_replicas_hidden_statistic(const struct pen_replicas *replicas,
                                          uint32_t tensor)
{
    PEN_BUG_UNLESS(replicas->is_shown && replicas->statistics != NULL);
    const void *shown = pen_network_statistic(
        pen_trainer_network(replicas->trainer, 0), tensor);
    const void *own = pen_replica_statistics_own(replicas->statistics, shown);
    return own != NULL ? own : shown;
}

void pen_replicas_states(struct pen_replicas *replicas,
                         struct pen_sync_states *out)
{
    if (replicas->choice.method->states != NULL)
        replicas->choice.method->states(replicas->sync, out);
}

pen_status pen_replicas_restored(struct pen_replicas *replicas, uint64_t steps)
{
    refresh(replicas);
    if (replicas->choice.method->restored != NULL)
        replicas->choice.method->restored(replicas->sync, steps);
    pen_status status = status_of(replicas);
    if (status != PEN_OK)
        return status;
    if (replicas->island != NULL)
        go_to_turn(replicas);
    tell_change(replicas);
    return pen_exchange_values(replicas->trainer->exchange);
}

pen_status pen_replicas_leave(struct pen_replicas *replicas)
{
    refresh(replicas);
    if (replicas->choice.method->leave != NULL)
        replicas->choice.method->leave(replicas->sync);
    return pen_group_status(replicas->setting.peers);
}
