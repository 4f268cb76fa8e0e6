/*
 * Only what runs is proposed: every plan of the rankings of random questions,
 * asynchronous schedules included, passes what `penstock train --check` checks,
 * on all of its ranks; and a long asynchronous run has the predicted step.
 */
#include "support/folder.h"
#include "support/question.h"
#include "support/support.h"

#include "cli/train/check.h"
#include "planner/relax.h"
#include "support/seed.h"

#include <math.h>
#include <stdio.h>

enum { NUM_QUESTIONS = 20, ALL_QUESTIONS = 500, MOST_RANKS = 12 };
enum { STEPS = 40 }; /* of the shorter of two runs */

static struct {
    unsigned plans;
    unsigned asynchronous;
    unsigned mixed; /* recompute in some of their stages only */
    unsigned unanswered;
    double most_off;
} counts;

static void path_of(const char *name, char out[64])
{
    snprintf(out, 64, "%s/%s", folder, name);
}

/* ---- one plan, as `penstock train` takes it ---- */

struct command {
    struct pen__train_args args;
    struct pen__train_layout layout;
};

static pen_status open_command(const struct question *question, unsigned steps,
                               struct command *out, struct pen_text *why)
{
    char config[64], ids[64], plan[64], profile[64], number[16], clip[16];
    path_of("config.json", config);
    path_of("ids.txt", ids);
    path_of("plan.json", plan);
    path_of("profile.json", profile);
    snprintf(number, sizeof number, "%u", steps);
    snprintf(clip, sizeof clip, "%g", question->setting.clip_norm);
    char *words[] = {"train",
                     "--model",
                     config,
                     "--token-ids",
                     ids,
                     "--plan",
                     plan,
                     "--train-iters",
                     number,
                     "--lr",
                     "1e-3",
                     "--engine",
                     "sleep:profile",
                     "--profile",
                     profile,
                     "--check",
                     "--clip-grad",
                     clip,
                     NULL};
    int count = question->setting.clip_norm > 0 ? 18 : 16;
    words[count] = NULL;
    const struct pen_any_model model = {.decoder = question->model};
    assert_int_equal(0, pen__train_args_parse(&out->args, 1, count, words));
    pen_status status = pen__train_layout_init(
        &out->layout, &out->args, &model, question->setting.sequence, 1, why);
    /* The words end with this function. */
    out->args.model = out->args.token_ids = out->args.plan = NULL;
    out->args.profile = NULL;
    return status;
}

static void close_command(struct command *command)
{
    pen__train_layout_release(&command->layout);
    pen__train_args_release(&command->args);
}

static pen_status check_command(const struct question *question,
                                const struct command *command,
                                struct pen_text *why)
{
    const struct pen_any_model model = {.decoder = question->model};
    const struct pen_sample_shape sample = {
        .num_ids = question->setting.sequence,
        .num_targets = question->setting.sequence};
    struct pen_trainer_options options = pen__train_layout_options(
        &command->layout, &command->args, &model, sample);
    assert_int_equal(PEN_OK, pen_transport_open_alone(&options.transport));
    pen_status status = pen__train_check_ranks(&options, &command->layout, why);
    pen_transport_close(options.transport);
    return status;
}

static void expect_passed(const struct question *question, unsigned number,
                          const struct pen_plan_found *found)
{
    struct command command;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_text name = PEN_TEXT_EMPTY;
    pen_candidate_print(&found->candidate, &name);
    pen_status status = open_command(question, STEPS, &command, &why);
    if (status == PEN_OK) {
        status = check_command(question, &command, &why);
        close_command(&command);
    }
    if (status != PEN_OK)
        fail_msg("question %u, %s: %s", number, pen_text_string(&name),
                 pen_text_string(&why));
    pen_text_release(&name);
    counts.plans++;
}

/* ---- its step, where steps overlap ---- */

/* Seconds of a run of so many steps, by the trainer's own schedule. */
static double run_sec(const struct question *question, unsigned steps)
{
    struct command command;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (open_command(question, steps, &command, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    struct pen_costs *costs = &command.layout.costs;
    for (uint32_t i = 0; i < costs->num_items; i++) {
        costs->items[i].step_sec += costs->items[i].sync_sec;
        costs->items[i].sync_sec = 0; /* the trainer waits for a sum */
    }
    struct pen_timing *timing = time_of(command.layout.schedule, costs);
    double seconds = timing->makespan_sec;
    pen_timing_free(timing);
    close_command(&command);
    return seconds;
}

static void expect_step(const struct question *question, unsigned number,
                        const struct pen_plan_found *found)
{
    if (found->candidate.generator->is_synchronous)
        return;
    double step_sec =
        (run_sec(question, 2 * STEPS) - run_sec(question, STEPS)) / STEPS;
    double off = found->prediction.step_sec / step_sec - 1;
    counts.asynchronous++;
    counts.most_off = fmax(counts.most_off, fabs(off));
    if (fabs(off) <= 0.01)
        return;
    struct pen_text name = PEN_TEXT_EMPTY;
    pen_candidate_print(&found->candidate, &name);
    fail_msg("question %u, %s: predicted %.6f s, %.6f s in a long run, %+.1f "
             "%%",
             number, pen_text_string(&name), found->prediction.step_sec,
             step_sec, 100 * off);
}

/* ---- questions ---- */

static void ask(struct pen_random *random, unsigned number)
{
    struct question question;
    struct pen_plan_ranking *ranking = NULL;
    char path[64];
    question_make(random, MOST_RANKS, &question);
    pen_status status =
        pen_plan_search(&question.setting, &question.options, &ranking, NULL);
    if (status != PEN_OK) {
        assert_int_equal(PEN_INFEASIBLE, status);
        counts.unanswered++;
        question_release(&question);
        return;
    }
    pen_plan_ranking_relax(&question.setting, &question.options, ranking);
    question_save(&question, folder);
    path_of("plan.json", path);
    for (uint32_t i = 0; i < ranking->num_found; i++) {
        const struct pen_plan *made = ranking->found[i].plan;
        struct pen_text why = PEN_TEXT_EMPTY;
        if (made->stages[0].recompute !=
            made->stages[made->num_stages - 1].recompute)
            counts.mixed++;
        question_name_plan(&question, ranking->found[i].plan);
        if (pen_plan_save(ranking->found[i].plan, path, &why) != PEN_OK)
            fail_msg("%s", pen_text_string(&why));
        expect_passed(&question, number, &ranking->found[i]);
        expect_step(&question, number, &ranking->found[i]);
    }
    pen_plan_ranking_free(ranking);
    question_release(&question);
}

static void every_ranked_plan_passes_the_trainers_checks(void **state)
{
    uint64_t seeds[MOST_SEEDS];
    size_t num_seeds = seeds_of("property/runtime_proposed", seeds);
    unsigned count = is_long_run() ? ALL_QUESTIONS : NUM_QUESTIONS;
    (void)state;
    for (size_t i = 0; i < num_seeds; i++) {
        struct pen_random random = {.state = seeds[i]};
        for (unsigned number = 0; number < count; number++)
            ask(&random, number);
    }
    print_message("%u questions, %u without an answer; %u plans passed, %u of "
                  "them mixed, %u asynchronous and at most %.3f %% off\n",
                  count * (unsigned)num_seeds, counts.unanswered, counts.plans,
                  counts.mixed, counts.asynchronous, 100 * counts.most_off);
    assert_true(counts.unanswered < count * num_seeds / 4);
    assert_true(counts.asynchronous > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_ranked_plan_passes_the_trainers_checks)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
