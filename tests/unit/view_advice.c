/*
 * Advice is given where a figure asks for it and nowhere else, and names the
 * figure.
 */
#include "support/support.h"

#include "base/median.h"
#include "view/advice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 100u

/* A training as it should be: 100 steps, the loss falls from 5 to 3. */
struct sample {
    struct pen_run_step steps[STEPS];
    struct pen_run log;
    struct pen_spent_rank spent_ranks[2];
    struct pen_spent spent;
    struct pen_run_rank memory[2];
    struct pen_run_ranks ranks;
    struct pen_run_parts parts;
};

static void init_sample(struct sample *sample)
{
    *sample = (struct sample){.log = {.num_steps = STEPS}};
    for (size_t i = 0; i < STEPS; i++)
        sample->steps[i] =
            (struct pen_run_step){.step = i + 1,
                                  .loss = 5 - 0.02 * (double)(i + 1),
                                  .tokens_per_sec = 1000 + (double)(i % 7),
                                  .share_of_peak = 0.6,
                                  .memory_bytes = 500,
                                  .val_loss = NAN,
                                  .loss_usual = NAN,
                                  .grad_norm_usual = NAN};
    sample->log.steps = sample->steps;
    for (size_t i = 0; i < 2; i++) {
        sample->spent_ranks[i].computing_sec = 0.9;
        sample->memory[i] = (struct pen_run_rank){1000, 1010};
    }
    sample->spent = (struct pen_spent){.sec = 1,
                                       .predicted_sec = 1,
                                       .bubble = 0.1,
                                       .predicted_bubble = 0.1,
                                       .scale = 1,
                                       .num_replicas = 1,
                                       .ranks = sample->spent_ranks,
                                       .num_ranks = 2};
    sample->ranks = (struct pen_run_ranks){sample->memory, 2};
    sample->parts = (struct pen_run_parts){
        .log = &sample->log, .spent = &sample->spent, .ranks = &sample->ranks};
}

/* The one advice that there is; "" for none. */
static void expect_seen(const struct sample *sample, const char *seen,
                        const char *todo)
{
    struct pen_advices advices;
    assert_int_equal(PEN_OK, pen_advices_init(&advices, &sample->parts));
    assert_int_equal(seen[0] == '\0' ? 0 : 1, advices.count);
    if (advices.count == 1) {
        assert_string_equal(seen, pen_text_string(&advices.items[0].seen));
        if (strstr(pen_text_string(&advices.items[0].todo), todo) == NULL)
            fail_msg("%s is not in: %s", todo,
                     pen_text_string(&advices.items[0].todo));
    }
    pen_advices_release(&advices);
}

static void a_training_as_it_should_be_gets_none(void **state)
{
    (void)state;
    struct sample sample;
    init_sample(&sample);
    expect_seen(&sample, "", "");
    sample.parts = (struct pen_run_parts){.log = &sample.log};
    expect_seen(&sample, "", "");
    sample.log.num_steps = 0;
    expect_seen(&sample, "", "");
    sample.parts = (struct pen_run_parts){.log = NULL};
    expect_seen(&sample, "", "");
}

static void a_loss_that_is_no_number_is_counted(void **state)
{
    (void)state;
    struct sample sample;
    init_sample(&sample);
    sample.steps[40].loss = NAN;
    sample.steps[50].loss = INFINITY;
    expect_seen(&sample,
                "The loss is not a number in 2 of 100 steps, first in step 41.",
                "--lr-warmup-iters");
}

static void the_worst_spike_is_named(void **state)
{
    (void)state;
    struct sample sample;
    init_sample(&sample);
    sample.steps[40].loss = 9.5;
    sample.steps[40].loss_usual = 4.25;
    sample.steps[50].loss = 19105;
    sample.steps[50].loss_usual = 4;
    sample.steps[50].grad_norm = 3e21;
    sample.steps[50].grad_norm_usual = 2;
    expect_seen(&sample,
                "The loss jumped 2 times, furthest in step 51: 1.91e+04, where "
                "4 was usual. The gradient norm jumped 1 times, furthest in "
                "step 51: 3e+21, where 2 was usual.",
                "--clip-grad");
}

static void a_loss_that_rises_is_told(void **state)
{
    (void)state;
    struct sample sample;
    init_sample(&sample);
    for (size_t i = 60; i < STEPS; i++)
        sample.steps[i].loss = 4.5;
    expect_seen(&sample,
                "The loss rose: its mean is 4.5 over the last 10 steps, after "
                "3.89 around step 51.",
                "--min-lr");
    for (size_t i = 60; i < STEPS; i++)
        sample.steps[i].loss = 3.89 * 1.049;
    expect_seen(&sample, "", "");
}

static void validation_that_rises_is_told(void **state)
{
    (void)state;
    struct sample sample;
    init_sample(&sample);
    sample.steps[19].val_loss = 4.7;
    sample.steps[59].val_loss = 4.0;
    sample.steps[99].val_loss = 4.079;
    expect_seen(&sample, "", "");
    sample.steps[99].val_loss = 4.2;
    expect_seen(&sample,
                "The validation loss rose from 4 in step 60 to 4.2 in step "
                "100, where the training loss is 3.1: the network overfits.",
                "nearest to step 60");
    /* Noise of a run that still learns: training is no better. */
    for (size_t i = 80; i < STEPS; i++)
        sample.steps[i].loss = 4.3;
    struct pen_advices advices;
    assert_int_equal(PEN_OK, pen_advices_init(&advices, &sample.parts));
    for (size_t i = 0; i < advices.count; i++)
        assert_null(strstr(pen_text_string(&advices.items[i].seen), "heart"));
    pen_advices_release(&advices);
}

static void a_fall_of_the_speed_is_found_to_the_step(void **state)
{
    (void)state;
    struct sample sample;
    static const size_t places[] = {20, 37, 55, 79};
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        struct pen_speed_fall fall;
        init_sample(&sample);
        for (size_t i = places[k]; i < STEPS; i++)
            sample.steps[i].tokens_per_sec *= 0.8;
        assert_int_equal(PEN_OK, pen_speed_fall_find(&sample.log, &fall));
        assert_int_equal(places[k], fall.index);
        assert_in_range((long)fall.before, 1000, 1007);
        assert_in_range((long)fall.behind, 800, 806);
    }
    expect_seen(&sample,
                "The speed fell from 1003 to 802 tokens/s at step 80 and "
                "stayed there.",
                "penstock doctor");
}

static void noise_and_single_slow_steps_are_no_fall(void **state)
{
    (void)state;
    struct sample sample;
    init_sample(&sample);
    for (size_t i = 0; i < STEPS; i++) {
        if (i % 4 == 0 || i < 10)
            sample.steps[i].tokens_per_sec = 300;
    }
    expect_seen(&sample, "", "");
    /* Up and down, the last part down. */
    for (size_t i = 0; i < STEPS; i++)
        sample.steps[i].tokens_per_sec = i / 10 % 2 == 1 ? 700 : 1000;
    expect_seen(&sample, "", "");
}

static void uneven_experts_are_told(void **state)
{
    (void)state;
    struct sample sample;
    init_sample(&sample);
    for (size_t i = 0; i < STEPS; i++)
        sample.steps[i].expert_imbalance = 1.9;
    expect_seen(&sample, "", "");
    for (size_t i = 0; i < STEPS; i++)
        sample.steps[i].expert_imbalance = i < STEPS / 2 ? 1 : 3.25;
    expect_seen(&sample,
                "Routers are uneven: at the end the busiest expert of a block "
                "takes 3.2 times the tokens of a mean one.",
                "--moe-aux-loss-coeff");
}

static void dropped_tokens_are_told(void **state)
{
    (void)state;
    struct sample sample;
    init_sample(&sample);
    for (size_t i = 0; i < STEPS; i++)
        sample.steps[i].dropped_tokens = i < STEPS / 2 ? 9 : 0;
    expect_seen(&sample, "", "");
    for (size_t i = 0; i < STEPS; i++)
        sample.steps[i].dropped_tokens = i < STEPS / 2 ? 0 : 41;
    expect_seen(&sample,
                "Experts drop tokens: at the end 41 in a mean step, over all "
                "blocks.",
                "--moe-expert-capacity-factor");
}

static void a_low_share_of_the_peak_is_told(void **state)
{
    (void)state;
    struct sample sample;
    init_sample(&sample);
    for (size_t i = 0; i < STEPS; i++)
        sample.steps[i].share_of_peak = 0.12;
    expect_seen(&sample, "The training used 12 % of the processors' peak.",
                "--micro-batch-size");
}

/* Each cause has its own answer. */
static void a_bubble_above_the_prediction_names_the_cause(void **state)
{
    (void)state;
    static const struct {
        enum pen_spent_cause cause;
        const char *todo;
    } cases[] = {{PEN_CAUSE_WORK, "--profile"},
                 {PEN_CAUSE_BETWEEN, "--threads"},
                 {PEN_CAUSE_SYNC, "--sync local-sgd"},
                 {PEN_CAUSE_LINK, "--compress-stages"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sample sample;
        init_sample(&sample);
        sample.spent.bubble = 0.2;
        sample.spent.cause = cases[i].cause;
        sample.spent.cause_sec = 0.05;
        pen_text_add(&sample.spent.cause_words, "the cause");
        expect_seen(&sample,
                    "Ranks wait 20 % of the step, predicted 10 %; 50 ms of it "
                    "are lost to the cause.",
                    cases[i].todo);
        pen_text_release(&sample.spent.cause_words);
    }
}

static void a_bubble_as_predicted_is_told_when_it_is_large(void **state)
{
    (void)state;
    struct sample sample;
    init_sample(&sample);
    sample.spent.bubble = 0.4;
    sample.spent.predicted_bubble = 0.39;
    expect_seen(&sample, "Ranks wait 40 % of the step, predicted 39 %.",
                "--global-batch-size");
    sample.spent.predicted_bubble = NAN;
    sample.spent.predicted_sec = NAN;
    expect_seen(&sample, "Ranks wait 40 % of the step.", "schedule compare");
}

static void ranks_that_differ_from_their_prediction_are_told(void **state)
{
    (void)state;
    struct sample sample;
    init_sample(&sample);
    sample.spent.scale = 1.3;
    expect_seen(&sample,
                "Operations take 1.30 times as long as predicted, on all "
                "ranks.",
                "penstock profile");
    init_sample(&sample);
    sample.spent_ranks[1].computing_sec = 1.5;
    expect_seen(&sample, "Rank 1 computes 25 % longer than the average rank.",
                "--plan");
    init_sample(&sample);
    sample.spent_ranks[0].sec[PEN_SPENT_WAIT_SYNC] = 0.3;
    sample.spent_ranks[1].sec[PEN_SPENT_SYNC] = 0.2;
    expect_seen(&sample,
                "Sums of gradients over replicas take 25 % of the step.",
                "--fast-sums");
}

static void memory_off_its_prediction_is_told(void **state)
{
    (void)state;
    struct sample sample;
    init_sample(&sample);
    sample.memory[1].peak_bytes = 1082;
    expect_seen(&sample, "Rank 1 used 8.2 % more memory than predicted.",
                "--recompute-granularity");
    sample.memory[0].peak_bytes = 700;
    sample.memory[1].peak_bytes = 800;
    expect_seen(&sample, "No rank used more than 80 % of its predicted memory.",
                "--micro-batch-size");
    sample.memory[1].peak_bytes = 900;
    expect_seen(&sample, "", "");
}

static void a_killed_training_is_told(void **state)
{
    (void)state;
    struct sample sample;
    init_sample(&sample);
    sample.log.is_cut = true;
    expect_seen(&sample,
                "The last line of the log is incomplete: the training is "
                "writing it, or was killed.",
                "--load");
    init_sample(&sample);
    sample.spent.num_lost = 3;
    expect_seen(&sample, "The trace lacks 3 events that could not be written.",
                "--trace");
}

/* There is room for all of them at once. */
static void everything_at_once_is_told(void **state)
{
    (void)state;
    struct sample sample;
    struct pen_advices advices;
    init_sample(&sample);
    for (size_t i = 0; i < STEPS; i++) {
        sample.steps[i].loss = i == 1 ? NAN : (double)i + 1;
        sample.steps[i].val_loss = (double)i + 200;
        sample.steps[i].loss_usual = 1;
        sample.steps[i].share_of_peak = 0.1;
        sample.steps[i].tokens_per_sec = i < 50 ? 100 : 10;
    }
    sample.log.is_cut = true;
    sample.spent.bubble = 0.9;
    sample.spent.scale = 2;
    sample.spent.num_lost = 1;
    sample.spent_ranks[0].computing_sec = 3;
    sample.spent_ranks[0].sec[PEN_SPENT_SYNC] = 1;
    sample.memory[0].peak_bytes = 2000;
    assert_int_equal(PEN_OK, pen_advices_init(&advices, &sample.parts));
    assert_int_equal(13, advices.count);
    pen_advices_release(&advices);
}

static void a_summary_has_the_figures_of_the_log(void **state)
{
    (void)state;
    struct sample sample;
    struct pen_summary summary;
    init_sample(&sample);
    sample.steps[30].val_loss = 3.5;
    sample.steps[80].val_loss = 3.6;
    assert_int_equal(PEN_OK, pen_summary_make(&sample.parts, &summary));
    assert_int_equal(100, summary.num_steps);
    expect_close(3.0, summary.loss, "loss");
    expect_close(3.5, summary.best_val_loss, "best validation loss");
    assert_int_equal(31, summary.best_val_step);
    expect_close(3.6, summary.val_loss, "validation loss");
    expect_close(1003, summary.tokens_per_sec, "median of the speed");
    assert_int_equal(1010, summary.peak_bytes);
    assert_int_equal(2, summary.num_ranks);
    sample.parts.ranks = NULL;
    assert_int_equal(PEN_OK, pen_summary_make(&sample.parts, &summary));
    assert_int_equal(500, summary.peak_bytes);
    double values[] = {NAN, 3, INFINITY, 1, 2, 9};
    expect_close(2, pen_median(values, 6), "median");
    assert_true(isnan(pen_median(values, 0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_training_as_it_should_be_gets_none),
        cmocka_unit_test(a_loss_that_is_no_number_is_counted),
        cmocka_unit_test(the_worst_spike_is_named),
        cmocka_unit_test(a_loss_that_rises_is_told),
        cmocka_unit_test(validation_that_rises_is_told),
        cmocka_unit_test(a_fall_of_the_speed_is_found_to_the_step),
        cmocka_unit_test(noise_and_single_slow_steps_are_no_fall),
        cmocka_unit_test(uneven_experts_are_told),
        cmocka_unit_test(dropped_tokens_are_told),
        cmocka_unit_test(a_low_share_of_the_peak_is_told),
        cmocka_unit_test(a_bubble_above_the_prediction_names_the_cause),
        cmocka_unit_test(a_bubble_as_predicted_is_told_when_it_is_large),
        cmocka_unit_test(ranks_that_differ_from_their_prediction_are_told),
        cmocka_unit_test(memory_off_its_prediction_is_told),
        cmocka_unit_test(a_killed_training_is_told),
        cmocka_unit_test(everything_at_once_is_told),
        cmocka_unit_test(a_summary_has_the_figures_of_the_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
