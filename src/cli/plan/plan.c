/*
 * penstock plan: the fastest layouts that fit, and a plan predicted again.
 */
#include "cli/plan/failures.h"
#include "cli/plan/modes.h"
#include "cli/plan/report.h"

#include "base/file.h"
#include "cli/program/answer.h"
#include "cli/program/help.h"
#include "planner/relax.h"
#include "planner/shortage.h"

#include <math.h>
#include <string.h>

/* Points of the front, and numbers of devices, that are printed. */
#define MOST_POINTS 6u
#define MOST_FEWER 8u

/* ---- the search ---- */

/* All results that were asked for; the pointers of `report` point in here. */
struct answer {
    struct pen_plan_ranking *ranking;
    struct pen_plan_ranking *front;
    struct pen_plan_ranking *by_time; /* NULL: the ranking is */
    struct pen_explanation *explanation;
    struct pen_replica_plan replicas;
    struct pen_replica_comparison *sync;
    struct pen_text sync_reason;
    struct pen__failures failures; /* no rows: not asked for */
};

static void release(struct answer *answer)
{
    pen_plan_ranking_free(answer->ranking);
    pen_plan_ranking_free(answer->front);
    pen_plan_ranking_free(answer->by_time);
    pen_explanation_free(answer->explanation);
    pen_replica_comparison_free(answer->sync);
    pen_replica_plan_release(&answer->replicas);
    pen_text_release(&answer->sync_reason);
    pen__failures_release(&answer->failures);
}

/* Runs the searches for a report, each with less work than the main one. */
static pen_status find_more(const struct pen__planning *planning,
                            const struct pen_plan_search_options *options,
                            struct answer *answer, struct pen_text *why)
{
    const struct pen_setting *setting = &planning->setting;
    struct pen_plan_search_options side = *options;
    side.seconds = options->seconds / 15;
    side.top = MOST_POINTS;
    side.within = 0;
    side.num_fewer = 0;
    side.objective = PEN_OBJECTIVE_TIME;
    bool is_fastest =
        options->objective == PEN_OBJECTIVE_TIME && options->within == 0;
    pen_status status = pen_plan_search_front(
        setting, &side, is_fastest ? &answer->ranking->found[0] : NULL,
        &answer->front, why);
    if (status == PEN_OK)
        status =
            pen_explain(setting, &options->filter, &answer->ranking->found[0],
                        options->seconds / 5, &answer->explanation, why);
    return status;
}

/*
 * Returns the samples per second of the recommended method that are not lost to
 * failures.
 */
static double advised_samples(const struct pen_replica_comparison *sync)
{
    return sync == NULL
               ? 0
               : sync->setting.samples /
                     pen_replica_kept_sec(&sync->rows[sync->advice].time);
}

/*
 * Sets how often, and for how long, replicas of another number of ranks than
 * the best plan's stop, as a whole or as islands.
 */
static void set_failures(const struct pen__failures *failures,
                         const struct pen_replica_plan *replicas,
                         struct pen_replica_failures *out)
{
    const struct pen_recovery *recovery = &failures->rows[0].recovery;
    enum pen_recovery_way way = failures->way == PEN_RECOVERY_ISLANDS
                                    ? PEN_RECOVERY_RESTART
                                    : failures->way;
    uint32_t count = replicas->setting.num_replicas;
    uint64_t ranks = recovery->ranks;
    if (replicas->own != NULL)
        ranks = count * pen_plan_num_ranks(replicas->own->found[0].plan);
    double times = (double)ranks / (double)recovery->ranks;
    *out = (struct pen_replica_failures){
        .job = recovery->ways[way].job,
        .num_moments = PEN_REPLICA_NUM_MOMENTS,
        .islands = failures->wish.islands > 0 ? failures->wish.islands
                                              : pen_replica_most_islands(count),
        .seed = failures->wish.seed};
    if (count % out->islands != 0)
        out->islands = 1;
    out->job.mtbf_sec = pen_failure_mtbf(&failures->rate, ranks);
    out->job.save_sec /= times;
    out->job.num_nodes = (uint64_t)fmax(1, times * (double)out->job.num_nodes);
}

static double goodput_of_best(const struct pen__failures *failures)
{
    return failures->num_rows == 0
               ? 1
               : failures->rows[0].recovery.ways[failures->way].goodput.share;
}

/*
 * A method must gain a tenth to be recommended: predictions are not more exact.
 */
#define LEAST_GAIN 1.1

/* Takes replicas over, if what is advised for them does more than `least`. */
static pen_status offer_replicas(struct pen_replica_plan *replicas,
                                 double least, struct answer *answer,
                                 struct pen_text *why)
{
    struct pen_replica_failures failures;
    bool has_failures = answer->failures.num_rows > 0;
    const struct pen_replica_wish usual = {.failures =
                                               has_failures ? &failures : NULL};
    if (has_failures)
        set_failures(&answer->failures, replicas, &failures);
    struct pen_replica_comparison *sync = NULL;
    pen_status status =
        pen_replica_compare(&replicas->setting, &usual, &sync, why);
    if (status == PEN_OK && advised_samples(sync) > least) {
        pen_replica_comparison_free(answer->sync);
        pen_replica_plan_release(&answer->replicas);
        answer->sync = sync;
        answer->replicas = *replicas;
        return PEN_OK;
    }
    pen_replica_comparison_free(sync);
    pen_replica_plan_release(replicas);
    return status;
}

/*
 * Finds other methods to synchronise the replicas of the best plan; or of a
 * plan with one replica in each block of devices, where that is faster.
 */
static pen_status find_sync(const struct pen__planning *planning,
                            const struct pen_plan_search_options *options,
                            struct answer *answer, struct pen_text *why)
{
    const struct pen_setting *setting = &planning->setting;
    const struct pen_plan_found *best = &answer->ranking->found[0];
    struct pen_text reason = PEN_TEXT_EMPTY;
    struct pen_replica_plan replicas;
    double least = goodput_of_best(&answer->failures) *
                   (double)setting->global_batch / best->prediction.step_sec;
    pen_status status =
        pen_replica_plan_init(setting, best, &replicas, &answer->sync_reason);
    if (status == PEN_OK)
        status = offer_replicas(&replicas, 0, answer, why);
    least = fmax(least, advised_samples(answer->sync));
    if (status == PEN_OK || status == PEN_INVALID)
        status = pen_replica_plan_of_blocks(setting, options->seconds,
                                            &replicas, &reason);
    if (status == PEN_OK)
        status = offer_replicas(&replicas, LEAST_GAIN * least, answer, why);
    pen_text_release(&reason);
    return status == PEN_NOMEM ? status : PEN_OK;
}

/* Finds how time depends on the number of devices, whatever the objective. */
static pen_status find_by_time(const struct pen__planning *planning,
                               const struct pen_plan_search_options *options,
                               struct answer *answer, struct pen_text *why)
{
    struct pen_plan_search_options side = *options;
    if (options->objective == PEN_OBJECTIVE_TIME)
        return PEN_OK;
    side.objective = PEN_OBJECTIVE_TIME;
    side.within = 0;
    side.top = 1;
    side.num_fewer = MOST_FEWER;
    side.has_near_only = false;
    return pen_plan_search(&planning->setting, &side, &answer->by_time, why);
}

/*
 * Makes the JSON of the layout that needs least, its bytes, and a number of
 * devices that would do, or null where none is known.
 */
static json_t *shortage_json(const struct pen_shortage *shortage)
{
    struct pen_text layout = PEN_TEXT_EMPTY;
    pen_candidate_print(&shortage->candidate, &layout);
    json_t *object = json_pack(
        "{s:s, s:I, s:f, s:I, s:o}", "layout_text", pen_text_string(&layout),
        "tight_bytes", (json_int_t)shortage->needed_bytes, "memory_margin",
        shortage->margin, "offered_bytes", (json_int_t)shortage->offered_bytes,
        "enough_devices",
        shortage->enough_devices == 0
            ? json_null()
            : json_integer((json_int_t)shortage->enough_devices));
    pen_text_release(&layout);
    return object;
}

/* Replaces the reason, unless it is not memory that there is too little of. */
static void explain_shortage(const struct pen_setting *setting,
                             const struct pen_candidate_filter *filter,
                             struct pen_text *why)
{
    struct pen_shortage shortage;
    if (!pen_shortage_find(setting, filter, &shortage))
        return;
    pen_text_clear(why);
    pen_shortage_print(&shortage, why);
    pen__answer_add_to_error("shortage", shortage_json(&shortage));
}

static pen_status find_plans(const struct pen__plan_args *args,
                             const struct pen__planning *planning,
                             struct answer *answer, struct pen_text *why)
{
    struct pen_plan_search_options options = {
        .objective = (enum pen_objective)args->objective,
        .within = args->tolerance,
        .num_fewer = args->objective == PEN_OBJECTIVE_TIME ? MOST_FEWER : 0,
        .has_near_only =
            !args->is_explained && args->html == NULL && args->within == NULL,
        .top = (uint32_t)args->top,
        .seconds = args->seconds};
    options.filter.allows_stale = args->allows_stale;
    options.filter.expert_tp = args->expert_tp;
    options.filter.recipe = args->recipe;
    pen_status status =
        pen_plan_search(&planning->setting, &options, &answer->ranking, why);
    if (status == PEN_INFEASIBLE)
        explain_shortage(&planning->setting, &options.filter, why);
    if (status == PEN_OK)
        pen_plan_ranking_relax(&planning->setting, &options, answer->ranking);
    if (status == PEN_OK && pen__failure_args_are_given(&args->failures))
        status = pen__failures_rank(args, planning, answer->ranking,
                                    &answer->failures, why);
    if (status == PEN_OK)
        status = find_by_time(planning, &options, answer, why);
    if (status == PEN_OK)
        status =
            pen__planning_name(planning, answer->ranking->found[0].plan, why);
    if (status == PEN_OK)
        status =
            pen__plan_write(args, planning, &answer->ranking->found[0], why);
    if (status == PEN_OK && (args->is_explained || args->html != NULL))
        status = find_more(planning, &options, answer, why);
    if (status == PEN_OK && args->allows_local)
        status = find_sync(planning, &options, answer, why);
    return status;
}

static pen_status write_html(const struct pen__plan_args *args,
                             const struct pen__plan_report *report,
                             struct pen_text *why)
{
    struct pen_text html = PEN_TEXT_EMPTY;
    pen_status status = pen__plan_report_html(report, args->output, &html, why);
    if (status == PEN_OK)
        status = pen_file_write_text(args->html, &html, why);
    pen_text_release(&html);
    return status;
}

static int print_answer(const struct pen__plan_args *args,
                        const struct pen__planning *planning,
                        const struct answer *answer, struct pen_text *why)
{
    struct pen__plan_report report = {.planning = planning,
                                      .ranking = answer->ranking,
                                      .front = answer->front,
                                      .devices = answer->by_time,
                                      .explanation = answer->explanation,
                                      .replicas = &answer->replicas,
                                      .sync = answer->sync,
                                      .objective =
                                          (enum pen_objective)args->objective,
                                      .tolerance = args->tolerance,
                                      .tokens = (double)args->tokens,
                                      .allows_stale = args->allows_stale};
    if (report.devices == NULL)
        report.devices = answer->ranking;
    if (args->allows_local && answer->sync == NULL)
        report.sync_reason = pen_text_string(&answer->sync_reason);
    if (args->html != NULL && write_html(args, &report, why) != PEN_OK)
        return pen__refuse(why);
    bool has_failures = answer->failures.num_rows > 0;
    if (pen__answer_is_json()) {
        json_t *object = pen__plan_report_json(&report);
        if (has_failures)
            json_object_set_new(object, "failures",
                                pen__failures_json(&answer->failures));
        return pen__print_json("plan", object);
    }
    struct pen_text text = PEN_TEXT_EMPTY;
    pen__plan_report_print(&report, &text);
    if (has_failures)
        pen__failures_print(&answer->failures, &text);
    return pen__print(&text);
}

static int run_search(int argc, char **argv)
{
    struct pen__plan_args args;
    struct pen__planning planning;
    struct answer answer = {.ranking = NULL, .sync_reason = PEN_TEXT_EMPTY};
    struct pen_text why = PEN_TEXT_EMPTY;
    pen__plan_args_parse(PEN__PLAN_SEARCH, argc, argv, &args);
    if (args.megatron_line != NULL)
        return pen__plan_yours(&args);
    if (args.why != NULL)
        return pen__plan_why(&args);
    if (args.compares_targets)
        return pen__plan_targets(&args);
    pen_status status = pen__planning_open(&args, NULL, &planning, &why);
    if (status == PEN_OK)
        status = find_plans(&args, &planning, &answer, &why);
    int code = status == PEN_OK ? print_answer(&args, &planning, &answer, &why)
                                : pen__refuse_as(status, &why);
    release(&answer);
    pen__planning_close(&planning);
    pen_text_release(&why);
    return code;
}

/* ---- a plan of a file ---- */

static pen_status predict(const struct pen__plan_args *args,
                          const struct pen__planning *planning,
                          struct pen_plan *plan,
                          struct pen_prediction *prediction,
                          struct pen_text *why)
{
    pen_status status = pen_plan_fits(plan, planning->model, why);
    if (status == PEN_OK)
        status = pen_predict(&planning->setting, plan, prediction, why);
    if (status != PEN_OK || args->output == NULL)
        return status;
    if (!pen_prediction_store(prediction, plan)) {
        pen_why(why, "no memory for a prediction");
        return PEN_NOMEM;
    }
    return pen_plan_save(plan, args->output, why);
}

static void print_change(const struct pen_plan *plan, double before_sec,
                         const struct pen_prediction *prediction,
                         struct pen_text *out)
{
    if (plan->predicted.is_there && before_sec > 0)
        pen_text_add(out, "predicted before: %.4g s; difference %+.1f %%\n",
                     before_sec, 100 * (prediction->step_sec / before_sec - 1));
}

static json_t *check_json(const struct pen__plan_args *args,
                          const struct pen__planning *planning,
                          const struct pen_plan *plan, double before_sec,
                          const struct pen_prediction *prediction)
{
    json_t *object = pen__plan_json_with_run(planning, plan, prediction,
                                             (double)args->tokens);
    if (object != NULL && plan->predicted.is_there && before_sec > 0)
        json_object_set_new(object, "before_sec", json_real(before_sec));
    return object;
}

static int print_check(const struct pen__plan_args *args,
                       const struct pen__planning *planning,
                       const struct pen_plan *plan, double before_sec,
                       const struct pen_prediction *prediction)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    int code;
    if (pen__answer_is_json()) {
        code =
            pen__print_json("plan-check", check_json(args, planning, plan,
                                                     before_sec, prediction));
    } else {
        pen__plan_print(plan, prediction, &text);
        pen__plan_print_run(plan, prediction, (double)args->tokens, &text);
        print_change(plan, before_sec, prediction, &text);
        code = pen__print(&text);
    }
    pen_text_release(&text);
    return code == PEN__EXIT_OK && !prediction->fits ? PEN__EXIT_NO : code;
}

static int check_plan(const struct pen__plan_args *args, struct pen_plan *plan,
                      struct pen_text *why)
{
    struct pen__planning planning;
    struct pen_prediction prediction = {.step_sec = 0};
    double before_sec = plan->predicted.step_sec;
    pen_status status = pen__planning_open_plan(args, plan, &planning, why);
    if (status == PEN_OK)
        status = predict(args, &planning, plan, &prediction, why);
    int code = status == PEN_OK
                   ? print_check(args, &planning, plan, before_sec, &prediction)
                   : pen__refuse_as(status, why);
    pen_prediction_release(&prediction);
    pen__planning_close(&planning);
    return code;
}

static int run_check(int argc, char **argv)
{
    struct pen__plan_args args;
    struct pen_plan *plan = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen__plan_args_parse(PEN__PLAN_CHECK, argc, argv, &args);
    pen_status status = pen_plan_load(args.file, &plan, &why);
    int code = status == PEN_OK ? check_plan(&args, plan, &why)
                                : pen__refuse_as(status, &why);
    pen_plan_free(plan);
    pen_text_release(&why);
    return code;
}

/* ---- the command ---- */

static bool is_check(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "check") == 0;
}

static int run(int argc, char **argv)
{
    if (is_check(argc, argv))
        return run_check(argc - 1, argv + 1);
    return run_search(argc, argv);
}

static int help(int argc, char **argv)
{
    if (!is_check(argc, argv))
        pen__plan_args_help(PEN__PLAN_SEARCH);
    if (pen__help_is_collected() || is_check(argc, argv))
        pen__plan_args_help(PEN__PLAN_CHECK);
    return PEN__EXIT_OK;
}

const struct pen__command pen__plan = {
    "plan", "finds the fastest layouts of a training that fit", run, help};
