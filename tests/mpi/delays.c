/*
 * A training with overlapping steps, on as many ranks as this is started on,
 * has the weights, moments and losses of an explicit trace that applies the
 * published delay of every stage, bit for bit; and each stage holds the number
 * of versions that the table of schedules tells.
 */
#include "mpi/delay_trace.h"

#include "runtime/trainer.h"
#include "runtime/versions.h"
#include "schedule/generators.h"
#include "schedule/memory.h"
#include "support/span.h"
#include "watch/launch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VOCAB = 61,
    SEQUENCE = 8,
    SAMPLES = 64,
    MICRO = 2,
    FIRST = 9, /* steps until the pipeline drains, and after it */
    SECOND = 4,
    SEED = 11,
    MOST_STAGES = 16
};

#define LLAMA(tied)                                                            \
    "{\"model_type\":\"llama\",\"vocab_size\":61,\"hidden_size\":16,"          \
    "\"intermediate_size\":24,\"num_hidden_layers\":8,"                        \
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,"                     \
    "\"max_position_embeddings\":8,\"rms_norm_eps\":1e-5,"                     \
    "\"rope_theta\":10000.0,\"tie_word_embeddings\":" tied ","                 \
    "\"hidden_act\":\"silu\"}"

static const char *const llamas[] = {LLAMA("false"), LLAMA("true")};

struct example {
    const char *schedule;
    enum delay_mode mode;
    uint32_t period;
    uint32_t replicas;
    enum pen_step_rule optimizer;
    bool is_bf16;
    bool is_tied;
    double clip_norm;     /* 0: no clipping */
    uint32_t stale_after; /* as struct pen_cures has it, as below */
    uint32_t discount_steps;
    bool predicts;
};

static const struct example examples[] = {
    {"pipedream", DELAY_STASHING, 1, 1, PEN_STEP_RULE_SGD, false, false, 0, 0,
     0, false},
    {"pipedream", DELAY_STASHING, 1, 1, PEN_STEP_RULE_ADAM, false, false, 0, 0,
     0, false},
    {"pipedream", DELAY_STASHING, 1, 1, PEN_STEP_RULE_ADAM, true, false, 0, 0,
     0, false},
    {"pipedream", DELAY_STASHING, 1, 2, PEN_STEP_RULE_ADAM, false, false, 0, 0,
     0, false},
    {"pipedream", DELAY_VERTICAL_SYNC, 1, 1, PEN_STEP_RULE_SGD, false, false, 0,
     0, 0, false},
    {"pipedream", DELAY_VERTICAL_SYNC, 1, 1, PEN_STEP_RULE_ADAM, false, false,
     0, 0, 0, false},
    {"pipedream-2bw", DELAY_DOUBLE_BUFFER, 3, 1, PEN_STEP_RULE_SGD, false,
     false, 0, 0, 0, false},
    {"pipedream-2bw", DELAY_DOUBLE_BUFFER, 4, 1, PEN_STEP_RULE_ADAM, false,
     false, 0, 0, 0, false},
    {"pipedream-2bw", DELAY_DOUBLE_BUFFER, 4, 1, PEN_STEP_RULE_ADAM, true,
     false, 0, 0, 0, false},
    {"pipedream-2bw", DELAY_DOUBLE_BUFFER, 4, 2, PEN_STEP_RULE_ADAM, false,
     false, 0, 0, 0, false},
    {"pipedream-2bw", DELAY_DOUBLE_BUFFER, 3, 1, PEN_STEP_RULE_SGD, false,
     false, 0.3, 0, 0, false},
    {"pipedream-2bw", DELAY_DOUBLE_BUFFER, 4, 1, PEN_STEP_RULE_ADAM, false,
     false, 0.3, 0, 0, false},
    {"pipedream-2bw", DELAY_DOUBLE_BUFFER, 4, 2, PEN_STEP_RULE_SGD, false,
     false, 0.3, 0, 0, false},
    {"pipedream-2bw", DELAY_DOUBLE_BUFFER, 3, 1, PEN_STEP_RULE_ADAM, false,
     true, 0, 0, 0, false},
    {"pipedream-2bw", DELAY_DOUBLE_BUFFER, 4, 1, PEN_STEP_RULE_SGD, false, true,
     0.3, 0, 0, false},
    {"pipedream-2bw", DELAY_DOUBLE_BUFFER, 7, 1, PEN_STEP_RULE_ADAM, false,
     true, 1e3, 0, 0, false},
    {"pipedream-2bw", DELAY_DOUBLE_BUFFER, 4, 1, PEN_STEP_RULE_ADAM, true, true,
     0.3, 0, 0, false},
    {"pipedream-2bw", DELAY_DOUBLE_BUFFER, 4, 2, PEN_STEP_RULE_SGD, false, true,
     0.3, 0, 0, false},
    {"wpipe", DELAY_TWO_GROUPS, 4, 1, PEN_STEP_RULE_SGD, false, false, 0, 0, 0,
     false},
    {"wpipe", DELAY_TWO_GROUPS, 4, 1, PEN_STEP_RULE_ADAM, false, false, 0, 0, 0,
     false},
    {"wpipe", DELAY_TWO_GROUPS, 4, 2, PEN_STEP_RULE_ADAM, false, false, 0, 0, 0,
     false},
    {"spectrain", DELAY_MOMENTUM, 1, 1, PEN_STEP_RULE_SGD, false, false, 0, 0,
     0, false},
    {"spectrain", DELAY_MOMENTUM, 1, 1, PEN_STEP_RULE_SGD, true, false, 0, 0, 0,
     false},
    {"spectrain", DELAY_MOMENTUM, 1, 2, PEN_STEP_RULE_SGD, false, false, 0, 0,
     0, false},
    {"xpipe", DELAY_ADAM, 1, 1, PEN_STEP_RULE_ADAM, false, false, 0, 0, 0,
     false},
    {"xpipe", DELAY_ADAM, 2, 1, PEN_STEP_RULE_ADAM, false, false, 0, 0, 0,
     false},
    {"xpipe", DELAY_ADAM, 4, 1, PEN_STEP_RULE_ADAM, false, false, 0, 0, 0,
     false},
    {"xpipe", DELAY_ADAM, 4, 1, PEN_STEP_RULE_ADAM, true, false, 0, 0, 0,
     false},
    {"pipemare", DELAY_AVERAGE, 1, 1, PEN_STEP_RULE_ADAM, false, false, 0, 0, 0,
     false},
    {"pipemare", DELAY_AVERAGE, 2, 1, PEN_STEP_RULE_ADAM, false, false, 0, 0, 0,
     false},
    {"pipemare", DELAY_AVERAGE, 2, 1, PEN_STEP_RULE_SGD, false, false, 0, 0, 0,
     false},
    {"pb", DELAY_SPIKE, 1, 1, PEN_STEP_RULE_SGD, false, false, 0, 0, 0, false},
    {"pb", DELAY_SPIKE, 1, 1, PEN_STEP_RULE_SGD, true, false, 0, 0, 0, false},
    {"timeprest", DELAY_NEWEST, 1, 1, PEN_STEP_RULE_SGD, false, false, 0, 0, 0,
     false},
    {"timeprest", DELAY_NEWEST, 2, 1, PEN_STEP_RULE_ADAM, false, false, 0, 2, 0,
     false},
    {"timeprest", DELAY_NEWEST, 4, 1, PEN_STEP_RULE_ADAM, true, false, 0, 0, 0,
     false},
    {"timeprest", DELAY_NEWEST, 3, 2, PEN_STEP_RULE_ADAM, false, false, 0, 0, 0,
     false},
    {"cyclic", DELAY_CYCLIC, 1, 1, PEN_STEP_RULE_SGD, false, false, 0, 0, 0,
     false},
    {"cyclic", DELAY_CYCLIC, 1, 1, PEN_STEP_RULE_ADAM, false, false, 0, 0, 0,
     false},
    {"pipedream-2bw", DELAY_DOUBLE_BUFFER, 4, 1, PEN_STEP_RULE_ADAM, false,
     true, 0.3, 3, 0, false},
    {"pipedream-2bw", DELAY_DOUBLE_BUFFER, 4, 1, PEN_STEP_RULE_SGD, false,
     false, 0.3, 2, 6, false},
    {"pipedream-2bw", DELAY_DOUBLE_BUFFER, 3, 1, PEN_STEP_RULE_ADAM, false,
     false, 0, 0, 11, false},
    {"pipedream", DELAY_STASHING, 1, 1, PEN_STEP_RULE_ADAM, false, false, 0, 2,
     5, false},
    {"wpipe", DELAY_TWO_GROUPS, 4, 1, PEN_STEP_RULE_SGD, false, false, 0, 1, 20,
     false},
    {"spectrain", DELAY_MOMENTUM, 1, 1, PEN_STEP_RULE_SGD, false, false, 0, 3,
     0, false},
    {"pipemare", DELAY_AVERAGE, 1, 1, PEN_STEP_RULE_ADAM, false, false, 0, 3, 0,
     false},
    {"pb", DELAY_SPIKE, 1, 1, PEN_STEP_RULE_SGD, false, false, 0, 3, 0, false},
    {"pipedream-2bw", DELAY_DOUBLE_BUFFER, 4, 1, PEN_STEP_RULE_ADAM, false,
     false, 0, 0, 0, true},
    {"pipedream-2bw", DELAY_DOUBLE_BUFFER, 3, 1, PEN_STEP_RULE_SGD, false,
     false, 0, 0, 0, true},
    {"pipedream-2bw", DELAY_DOUBLE_BUFFER, 4, 1, PEN_STEP_RULE_ADAM, true,
     false, 0.3, 2, 5, true},
    {"pipedream-2bw", DELAY_DOUBLE_BUFFER, 3, 2, PEN_STEP_RULE_SGD, false,
     false, 0.3, 0, 0, true},
};

/* What an example becomes on the ranks that there are. */
struct run {
    const struct example *example;
    struct pen_transport *transport;
    struct pen_any_model models[2]; /* untied and tied */
    const struct pen_any_model *model;
    struct pen_batches *batches;
    uint32_t num_ranks; /* of a pipeline */
    uint32_t num_parts;
    uint32_t num_members;
    struct pen_layer_range parts[MOST_STAGES];
    struct pen_optimizer optimizer;
    struct pen_lr_schedule rates;
    uint32_t num_wrong;
};

static void need(const struct run *run, pen_status status,
                 const struct pen_text *why)
{
    if (status == PEN_OK)
        return;
    fprintf(stderr, "%s: %s\n", run->example->schedule,
            why == NULL ? pen_status_text(status) : pen_text_string(why));
    pen_transport_abort(run->transport, 1);
}

/* ---- what both need ---- */

static void make_models(struct run *run)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    for (int i = 0; i < 2; i++)
        need(run,
             pen_model_parse(llamas[i], strlen(llamas[i]),
                             &run->models[i].decoder, &why),
             &why);
    pen_text_release(&why);
}

static void make_batches(struct run *run)
{
    struct pen_text text = PEN_TEXT_EMPTY, why = PEN_TEXT_EMPTY;
    for (uint32_t i = 0; i < SAMPLES; i++)
        for (uint32_t k = 0; k <= SEQUENCE; k++)
            pen_text_add(&text, "%u%s", (i * 7 + k * (i % 5 + 3)) % VOCAB,
                         k == SEQUENCE ? "\n" : " ");
    need(run,
         pen_batches_parse("samples", &text, SEQUENCE, VOCAB, &run->batches,
                           &why),
         &why);
    pen_text_release(&text);
    pen_text_release(&why);
}

/* Uneven on purpose. */
static void cut_layers(struct run *run)
{
    uint32_t left = run->model->decoder->num_layers;
    uint32_t next = 0;
    for (uint32_t i = 0; i < run->num_parts; i++) {
        uint32_t count = left / (run->num_parts - i);
        run->parts[i] = (struct pen_layer_range){.first = next, .count = count};
        next += count;
        left -= count;
    }
}

static void plan(struct run *run, const struct example *example)
{
    bool is_cyclic = example->mode == DELAY_CYCLIC;
    run->example = example;
    run->model = &run->models[example->is_tied];
    run->num_ranks = pen_transport_size(run->transport) / example->replicas;
    run->num_parts =
        run->num_ranks * (example->mode == DELAY_TWO_GROUPS ? 2 : 1);
    run->num_members = is_cyclic ? run->num_ranks : example->replicas;
    run->optimizer = (struct pen_optimizer){.kind = example->optimizer,
                                            .beta1 = 0.9,
                                            .beta2 = 0.95,
                                            .epsilon = 1e-8,
                                            .momentum = 0.9,
                                            .weight_decay = 0.1,
                                            .clip_norm = example->clip_norm};
    run->rates = (struct pen_lr_schedule){
        .style = PEN_LR_LINEAR, .rate = 1e-2, .decay_iters = 40};
    cut_layers(run);
}

/* Steps need the gradients of all stages. */
static bool is_joint(const struct example *example)
{
    return example->is_tied || example->clip_norm > 0;
}

static struct pen_schedule *make_schedule(const struct run *run, uint32_t steps)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    struct pen_costs costs;
    pen_costs_init(&costs);
    struct pen_generator_args args = {
        .ranks = run->num_ranks,
        .microbatches = run->example->mode == DELAY_CYCLIC
                            ? run->num_ranks
                            : run->example->period,
        .batches = steps,
        .has_vertical_sync = run->example->mode == DELAY_VERTICAL_SYNC,
        .costs = &costs};
    need(run,
         pen_generator_make(pen_generator_find(run->example->schedule), &args,
                            &schedule, &why),
         &why);
    if (is_joint(run->example)) {
        struct pen_schedule *alone = schedule;
        need(run, pen_schedule_join_steps(alone, &schedule, &why), &why);
        pen_schedule_free(alone);
    }
    pen_costs_release(&costs);
    pen_text_release(&why);
    return schedule;
}

static struct pen_cures cures_of(const struct example *example)
{
    return (struct pen_cures){.stale_after = example->stale_after,
                              .discount_steps = example->discount_steps,
                              .predicts = example->predicts};
}

static size_t global_batch(const struct run *run)
{
    return (size_t)MICRO * run->example->period * run->num_members;
}

static struct pen_trainer *make_trainer(const struct run *run,
                                        const struct pen_schedule *schedule)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_trainer *trainer = NULL;
    struct pen_trainer_options options = {
        .model = run->model,
        .sample = pen_batches_shape(run->batches),
        .engine = pen_engine_find("onednn"),
        .is_bf16 = run->example->is_bf16,
        .threads = 1,
        .micro_batch = MICRO,
        .global_batch = global_batch(run),
        .transport = run->transport,
        .schedule = schedule,
        .parts = run->parts,
        .correction = pen_generator_find(run->example->schedule)->correction,
        .optimizer = run->optimizer,
        .cures = cures_of(run->example),
        .rates = run->rates};
    need(run, pen_trainer_create(&options, &trainer, &why), &why);
    need(run, pen_trainer_initialize(trainer, SEED), NULL);
    pen_text_release(&why);
    return trainer;
}

static struct delay_trace *make_trace(const struct run *run)
{
    struct delay_options options = {.mode = run->example->mode,
                                    .model = run->model->decoder,
                                    .is_bf16 = run->example->is_bf16,
                                    .parts = run->parts,
                                    .num_parts = run->num_parts,
                                    .num_ranks = run->num_ranks,
                                    .micro_batch = MICRO,
                                    .period = run->example->period,
                                    .num_members = run->num_members,
                                    .most_steps = FIRST,
                                    .optimizer = run->optimizer,
                                    .rates = run->rates,
                                    .cures = cures_of(run->example),
                                    .batches = run->batches,
                                    .seed = SEED};
    return delay_trace_create(&options);
}

/* ---- comparing ---- */

static void tell(struct run *run, const char *what, uint32_t part, double found,
                 double expected)
{
    if (run->num_wrong++ == 0)
        fprintf(stderr,
                "%s, mode %d, %u ranks, rank %u: %s %u is %.9g, the "
                "trace has %.9g\n",
                run->example->schedule, (int)run->example->mode, run->num_ranks,
                pen_transport_rank(run->transport), what, part, found,
                expected);
}

static void compare_part(struct run *run, uint32_t stage,
                         struct pen_network *found,
                         struct pen_network *expected,
                         enum pen_parameter_part part)
{
    struct pen_engine *left = pen_network_engine(found);
    struct pen_engine *right = pen_network_engine(expected);
    for (size_t i = 0; i < pen_network_num_parameters(found); i++) {
        size_t count;
        if (part != PEN_PART_VALUE &&
            pen_network_parameter(found, i)->is_value_only)
            continue;
        const float *a = span_of_part(
            left, pen_network_parameter(found, i)->parameter, part, &count);
        const float *b = span_of_part(
            right, pen_network_parameter(expected, i)->parameter, part, &count);
        for (size_t k = 0; k < count; k++)
            if (memcmp(&a[k], &b[k], sizeof *a) != 0)
                tell(run,
                     part == PEN_PART_VALUE ? "a weight of stage"
                                            : "a moment of stage",
                     stage, (double)a[k], (double)b[k]);
    }
}

static uint32_t part_of(const struct run *run, const struct pen_layout *layout,
                        uint32_t index)
{
    uint32_t chunks = pen_shape_chunks(&layout->shape);
    uint32_t copy = run->example->mode == DELAY_CYCLIC ? layout->row : 0;
    uint32_t stage =
        pen_shape_stage_at(&layout->shape, layout->row, copy, index % chunks);
    return pen_shape_part_of_stage(&layout->shape, stage);
}

static void compare_weights(struct run *run, struct pen_trainer *trainer,
                            struct delay_trace *trace)
{
    int moments = pen_optimizer_moments(&run->optimizer);
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++) {
        uint32_t part = part_of(run, pen_trainer_layout(trainer), s);
        struct pen_network *found = pen_trainer_network(trainer, s);
        struct pen_network *expected = delay_trace_network(trace, part);
        compare_part(run, part, found, expected, PEN_PART_VALUE);
        if (moments > 0)
            compare_part(run, part, found, expected, PEN_PART_MOMENT1);
        if (moments > 1)
            compare_part(run, part, found, expected, PEN_PART_MOMENT2);
    }
}

/* ---- versions ---- */

/* The table of schedules; a predicted copy is not a version. */
static uint32_t versions_of(const struct run *run, uint32_t rank, uint32_t part)
{
    uint32_t p = run->num_ranks;
    switch (run->example->mode) {
    case DELAY_STASHING:
        return p - part;
    case DELAY_VERTICAL_SYNC:
        return p;
    case DELAY_DOUBLE_BUFFER: /* a last stage that steps late needs no second */
        return is_joint(run->example) && part + 1 == p &&
                       run->example->period == p - 1
                   ? 1
                   : 2;
    case DELAY_TWO_GROUPS:
        return part < p ? 2 : 1;
    case DELAY_CYCLIC: /* the oldest part is fresh on the last worker alone */
        return part + rank + 1 >= p ? 1 : 2;
    default:
        return 1;
    }
}

static bool predicts(const struct run *run, uint32_t part)
{
    switch (run->example->mode) {
    case DELAY_MOMENTUM: /* behind the end of the pipeline, too */
        return part / 2 + run->num_ranks - 1 - part > 0;
    case DELAY_ADAM:
    case DELAY_AVERAGE:
    case DELAY_SPIKE:
        return part + 1 < run->num_ranks;
    default:
        return false;
    }
}

static void compare_versions(struct run *run, struct pen_trainer *trainer,
                             const struct pen_schedule *schedule)
{
    const struct pen_layout *layout = pen_trainer_layout(trainer);
    uint32_t most = 1;
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++) {
        uint32_t part = part_of(run, layout, s);
        const struct pen_versions *versions = pen_trainer_versions(trainer, s);
        uint32_t copy = pen_versions_predicts(versions);
        uint32_t held = pen_versions_count(versions);
        uint32_t expected = versions_of(run, layout->row, part);
        if (held != expected)
            tell(run, "the versions of stage", part, held, expected);
        if (pen_versions_most(versions) != expected)
            tell(run, "the versions held of stage", part,
                 pen_versions_most(versions), expected);
        if ((bool)copy != predicts(run, part))
            tell(run, "the predictions of stage", part, copy,
                 predicts(run, part));
        /* To a row a prediction that outlives a STEP is a version. */
        if (run->example->mode == DELAY_ADAM &&
            (run->num_ranks - 1 - part) % run->example->period != 0)
            held += copy;
        most = held > most ? held : most;
    }
    if (most != pen__row_versions(schedule, layout->row))
        tell(run, "the versions of row", layout->row, most,
             pen__row_versions(schedule, layout->row));
}

/* ---- running ---- */

static void compare_pass(struct run *run, struct pen_trainer *trainer,
                         struct delay_trace *trace)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_step steps[FIRST];
    double losses[FIRST], norms[FIRST];
    uint32_t count = pen_trainer_pass_steps(trainer);
    need(run, pen_trainer_pass(trainer, run->batches, steps, &count, &why),
         &why);
    delay_trace_run(trace, count, losses, norms);
    for (uint32_t i = 0; i < count; i++)
        if (steps[i].loss != losses[i])
            tell(run, "the loss of step", i, steps[i].loss, losses[i]);
    for (uint32_t i = 0; i < count && is_joint(run->example); i++)
        if (steps[i].gradient_norm != norms[i])
            tell(run, "the norm of step", i, steps[i].gradient_norm, norms[i]);
    compare_weights(run, trainer, trace);
    pen_text_release(&why);
}

static uint32_t run_example(struct run *run, const struct example *example)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    plan(run, example);
    struct pen_schedule *schedule = make_schedule(run, FIRST);
    struct pen_schedule *shorter = make_schedule(run, SECOND);
    struct pen_schedule *single = make_schedule(run, 1);
    struct pen_trainer *trainer = make_trainer(run, schedule);
    struct delay_trace *trace = make_trace(run);
    if (example->stale_after > 0)
        need(run, pen_trainer_set_schedule(trainer, single, &why), &why);
    for (uint32_t i = 0; i < example->stale_after; i++)
        compare_pass(run, trainer, trace);
    if (example->stale_after > 0)
        need(run, pen_trainer_set_schedule(trainer, schedule, &why), &why);
    compare_pass(run, trainer, trace);
    if (!example->predicts)
        compare_versions(run, trainer, schedule);
    need(run, pen_trainer_set_schedule(trainer, shorter, &why), &why);
    compare_pass(run, trainer, trace);
    pen_trainer_free(trainer);
    delay_trace_free(trace);
    pen_schedule_free(schedule);
    pen_schedule_free(shorter);
    pen_schedule_free(single);
    pen_text_release(&why);
    uint32_t wrong = run->num_wrong;
    run->num_wrong = 0;
    return wrong > 0;
}

static bool fits(const struct example *example, uint32_t size)
{
    uint32_t ranks = size / example->replicas;
    return size % example->replicas == 0 && ranks > 1 &&
           (strcmp(example->schedule, "wpipe") != 0 ||
            example->period >= ranks);
}

int main(void)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_launch launch = pen_launch_read_own();
    struct run run = {.example = &examples[0]};
    uint32_t count = 0, num_wrong = 0;
    if (pen_transport_open(&launch, &run.transport, &why) != PEN_OK) {
        fprintf(stderr, "%s\n", pen_text_string(&why));
        return 1;
    }
    make_models(&run);
    make_batches(&run);
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        if (!fits(&examples[i], pen_transport_size(run.transport)))
            continue;
        num_wrong += run_example(&run, &examples[i]);
        count++;
    }
    if (num_wrong > 0)
        pen_transport_abort(run.transport, 1);
    if (pen_transport_rank(run.transport) == 0)
        printf("%u asynchronous trainings on %u ranks equal their traces\n",
               count, pen_transport_size(run.transport));
    pen_batches_free(run.batches);
    for (int i = 0; i < 2; i++)
        pen_any_model_release(&run.models[i]);
    pen_transport_close(run.transport);
    pen_text_release(&why);
    return 0;
}
