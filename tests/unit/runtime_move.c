/*
 * A trainer goes over to another schedule with the same bits, and what belongs
 * to the layout before is refused. One process; tests/mpi/run_moves has ranks.
 */
#include "support/support.h"

#include "runtime/checkpointer.h"
#include "runtime/trainer_internal.h"
#include "schedule/generators.h"
#include "support/folder.h"

#include <stdlib.h>
#include <string.h>

enum { VOCAB = 31, SEQUENCE = 8, BATCH = 4, STEPS = 3 };

static const char config[] =
    "{\"model_type\":\"gpt2\",\"vocab_size\":31,\"n_positions\":8,"
    "\"n_embd\":16,\"n_layer\":2,\"n_head\":2}";

/* Two stages on one rank, whose forwards come first. */
static const struct pen_layer_range halves[] = {{.first = 0, .count = 2},
                                                {.first = 2, .count = 2}};

struct run {
    struct pen_any_model model;
    struct pen_batches *batches;
    struct pen_schedule *schedule;
    struct pen_trainer *trainer;
};

static void require(pen_status status, const struct pen_text *why)
{
    if (status != PEN_OK)
        fail_msg("%s", why->length > 0 ? pen_text_string(why)
                                       : pen_status_text(status));
}

static struct pen_batches *make_batches(void)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_batches *batches = NULL;
    for (unsigned line = 0; line < 8; line++) {
        for (unsigned i = 0; i <= SEQUENCE; i++)
            pen_text_add(&text, "%u ", (i * i + 7 * line) % VOCAB);
        pen_text_add(&text, "\n");
    }
    require(pen_batches_parse("lines", &text, SEQUENCE, VOCAB, &batches, &why),
            &why);
    pen_text_release(&text);
    return batches;
}

static struct pen_schedule *make_schedule(void)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    struct pen_costs costs;
    pen_costs_init(&costs);
    const struct pen_generator_args args = {.ranks = 1,
                                            .microbatches = BATCH,
                                            .chunks = 2,
                                            .slices = 1,
                                            .costs = &costs};
    require(pen_generator_make(pen_generator_find("interleaved"), &args,
                               &schedule, &why),
            &why);
    pen_costs_release(&costs);
    return schedule;
}

static struct pen_trainer_options options_of(const struct run *run)
{
    return (struct pen_trainer_options){
        .model = &run->model,
        .sample = pen_batches_shape(run->batches),
        .engine = pen_engine_find("reference"),
        .micro_batch = 1,
        .global_batch = BATCH,
        .logical_replicas = 2,
        .optimizer = {.kind = PEN_STEP_RULE_ADAM,
                      .beta1 = 0.9,
                      .beta2 = 0.99,
                      .epsilon = 1e-8,
                      .clip_norm = 1},
        .rates = {.rate = 1e-2, .style = PEN_LR_CONSTANT}};
}

static void start(struct run *run)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    *run = (struct run){.batches = make_batches(), .schedule = make_schedule()};
    require(pen_model_parse(config, strlen(config), &run->model.decoder, &why),
            &why);
    struct pen_trainer_options options = options_of(run);
    require(pen_trainer_create(&options, &run->trainer, &why), &why);
    require(pen_trainer_initialize(run->trainer, 1), &why);
}

static void end(struct run *run)
{
    pen_trainer_free(run->trainer);
    pen_schedule_free(run->schedule);
    pen_batches_free(run->batches);
    pen_model_free(run->model.decoder);
}

static double train(struct run *run)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_step step = {.loss = 0};
    uint32_t count;
    for (int i = 0; i < STEPS; i++)
        require(
            pen_trainer_pass(run->trainer, run->batches, &step, &count, &why),
            &why);
    return step.loss;
}

/* To the two stages, or back to one. */
static void move(struct run *run, bool has_halves)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_move_cost cost = {.sec = -1, .sent_bytes = 1};
    struct pen_trainer_options to = options_of(run);
    if (has_halves) {
        to.schedule = run->schedule;
        to.parts = halves;
    }
    require(pen_trainer_move(run->trainer, &to, &cost, &why), &why);
    assert_true(cost.sec >= 0);
    assert_int_equal(cost.sent_bytes, 0); /* nobody to send to */
    assert_int_equal(pen_trainer_num_stages(run->trainer), has_halves ? 2 : 1);
}

static void bits_are_those_of_a_run_that_stayed(void **state)
{
    (void)state;
    struct run stays, moves;
    start(&stays);
    start(&moves);
    for (int i = 0; i < 4; i++) {
        double expected = train(&stays), found = train(&moves);
        assert_memory_equal(&expected, &found, sizeof found);
        move(&moves, i % 2 == 0);
        assert_int_equal(pen_trainer_layout(moves.trainer)->mesh.epoch, i + 1);
        assert_int_equal(pen_trainer_progress(moves.trainer).steps,
                         pen_trainer_progress(stays.trainer).steps);
    }
    end(&stays);
    end(&moves);
}

static pen_status describe(void *context, struct pen_manifest *manifest,
                           struct pen_text *why)
{
    (void)context;
    (void)manifest;
    (void)why;
    return PEN_OK;
}

static void a_share_of_an_older_epoch_is_refused(void **state)
{
    (void)state;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_checkpointer *checkpointer = NULL;
    struct run run;
    start(&run);
    const struct pen_checkpointer_options options = {.trainer = run.trainer,
                                                     .run = folder,
                                                     .run_id =
                                                         "0123456789abcdef",
                                                     .max_shard_bytes = 1 << 20,
                                                     .describe = describe};
    require(pen_checkpointer_create(&options, &checkpointer, &why), &why);
    (void)train(&run);
    move(&run, true);
    assert_int_equal(pen_checkpointer_begin(checkpointer), PEN_OK);
    assert_int_not_equal(pen_checkpointer_settle(checkpointer, &why), PEN_OK);
    assert_non_null(strstr(pen_text_string(&why),
                           "rank 0 is in epoch 0 of the layout, but the run "
                           "is in epoch 1"));
    pen_text_clear(&why);
    pen_checkpointer_unload(checkpointer);
    require(pen_checkpointer_reload(checkpointer, &why), &why);
    assert_int_equal(pen_checkpointer_begin(checkpointer), PEN_OK);
    require(pen_checkpointer_settle(checkpointer, &why), &why);
    assert_int_equal(pen_checkpointer_durable_step(checkpointer), STEPS);
    pen_checkpointer_free(checkpointer);
    end(&run);
    pen_text_release(&why);
}

static void what_cannot_move_is_refused(void **state)
{
    (void)state;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_move_cost cost;
    struct run run;
    start(&run);
    struct pen_trainer_options to = options_of(&run);
    to.micro_batch = 2;
    assert_int_equal(pen_trainer_move(run.trainer, &to, &cost, &why),
                     PEN_INVALID);
    assert_non_null(strstr(pen_text_string(&why), "both must stay"));
    pen_text_release(&why);
    end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_of_a_run_that_stayed),
        cmocka_unit_test(a_share_of_an_older_epoch_is_refused),
        cmocka_unit_test(what_cannot_move_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
