/*
 * penstock reproduce 2bw. The claim: double-buffered weights make pipelines up
 * to 20 times as fast as model parallelism without a pipeline and up to 3.2
 * times as fast as GPipe, and the training ends as well as a synchronous one.
 *
 * The last part is trained: a small GPT learns letters with synchronous steps,
 * with gradients that are late by one step, and with each cure of the delay.
 * The delay of pipedream-2bw is one step in every stage at every depth, so one
 * process trains; pipelines of two and four ranks must have the same losses.
 * Each contender first tries each rate, judged on text that is neither trained
 * on nor tested on.
 */
#include "cli/reproduce/2bw.h"

#include "base/bug.h"
#include "base/file.h"
#include "cli/program/cli.h"
#include "core/run_log.h"

#include <math.h>
#include <stdlib.h>

enum { MICRO_BATCH = 4, GLOBAL_BATCH = 16 };

const struct pen__2bw_contender pen__2bw_contenders[PEN__2BW_CONTENDERS] = {
    {"synchronous", "synchronous (1f1b)"},
    {"2bw", "pipedream-2bw"},
    {"stale-after", "with --stale-after"},
    {"stale-discount", "with --stale-discount"},
    {"predict-weights", "with --predict-weights"}};

const double pen__2bw_rates[PEN__2BW_RATES] = {2e-3, 1e-3, 4e-3, 8e-3};

static const struct pen__2bw_scale full = {.num_steps = 1500,
                                           .num_warmup = 75,
                                           .num_synchronous = 150,
                                           .num_discounted = 375,
                                           .num_points = PEN__2BW_POINTS,
                                           .eval_batches = 50,
                                           .num_rates = PEN__2BW_RATES,
                                           .num_seeds = PEN__2BW_SEEDS,
                                           .num_layouts = PEN__2BW_BATCHES,
                                           .num_memories = PEN__2BW_MEMORIES,
                                           .num_pipelines =
                                               PEN__2BW_CONTENDERS};
static const struct pen__2bw_scale brief = {.num_steps = 12,
                                            .num_warmup = 2,
                                            .num_synchronous = 3,
                                            .num_discounted = 4,
                                            .num_points = 2,
                                            .eval_batches = 2,
                                            .num_rates = 1,
                                            .num_seeds = 2,
                                            .num_layouts = 1,
                                            .num_memories = 3,
                                            .num_pipelines = 2};

/* ---- trainings ---- */

struct training {
    uint32_t contender;
    uint32_t seed;
    double rate;
    bool is_tuning;
    uint32_t num_ranks; /* 0: one process */
    uint32_t num_steps;
};

static void fill_method(const struct pen__2bw *it, uint32_t contender,
                        struct pen__words *out)
{
    pen__words_add(out, "--schedule");
    pen__words_add(out, contender == PEN__2BW_SYNCHRONOUS ? "1f1b"
                                                          : "pipedream-2bw");
    if (contender == PEN__2BW_AFTER) {
        pen__words_add(out, "--stale-after");
        pen__words_add(out, "%u", it->scale.num_synchronous);
    } else if (contender == PEN__2BW_DISCOUNT) {
        pen__words_add(out, "--stale-discount");
        pen__words_add(out, "%u", it->scale.num_discounted);
    } else if (contender == PEN__2BW_PREDICT) {
        pen__words_add(out, "--predict-weights");
    }
}

static void fill_data(const struct pen__2bw *it, const struct training *of,
                      struct pen__words *out)
{
    pen__words_add(out, "--data-path");
    pen__words_add(out, "%s/%s", pen_text_string(&it->text),
                   of->is_tuning ? "held" : "test");
    pen__words_add(out, "--split");
    pen__words_add(out, "%zu,%zu", it->train_bytes,
                   of->is_tuning ? it->held_bytes : it->test_bytes);
}

static void fill_words(const struct pen__2bw *it, const struct training *of,
                       struct pen__words *out)
{
    pen__words_add(out, "train");
    pen__words_add(out, "--model");
    pen__words_add(out, "%s", pen_text_string(&it->model));
    fill_data(it, of, out);
    fill_method(it, of->contender, out);
    if (of->num_ranks > 0) {
        pen__words_add(out, "--pipeline-model-parallel-size");
        pen__words_add(out, "%u", of->num_ranks);
    }
    pen__words_split(out, "--lr-decay-style cosine --threads 1 "
                          "--log-interval 1000000");
    pen__words_add(out, "--micro-batch-size");
    pen__words_add(out, "%d", MICRO_BATCH);
    pen__words_add(out, "--global-batch-size");
    pen__words_add(out, "%d", GLOBAL_BATCH);
    pen__words_add(out, "--train-iters");
    pen__words_add(out, "%u", of->num_steps);
    pen__words_add(out, "--lr-decay-iters");
    pen__words_add(out, "%u", it->scale.num_steps);
    pen__words_add(out, "--lr-warmup-iters");
    pen__words_add(out, "%u", it->scale.num_warmup);
    pen__words_add(out, "--eval-interval");
    pen__words_add(out, "%u", it->scale.num_steps / it->scale.num_points);
    pen__words_add(out, "--eval-iters");
    pen__words_add(out, "%u", it->scale.eval_batches);
    pen__words_add(out, "--lr");
    pen__words_add(out, "%g", of->rate);
    pen__words_add(out, "--min-lr");
    pen__words_add(out, "%g", of->rate / 10);
    pen__words_add(out, "--seed");
    pen__words_add(out, "%u", of->seed);
}

static void name_training(const struct training *of, struct pen_text *out)
{
    pen_text_add(out, "%s-lr%g-seed%u", pen__2bw_contenders[of->contender].key,
                 of->rate, of->seed);
    if (of->num_ranks > 0)
        pen_text_add(out, "-ranks%u", of->num_ranks);
}

static pen_status train(struct pen__2bw *it, const struct training *of,
                        struct pen_run **out, struct pen_text *why)
{
    struct pen_text name = PEN_TEXT_EMPTY;
    struct pen__words words = {0};
    name_training(of, &name);
    fill_words(it, of, &words);
    const struct pen__reproduce_job job = {
        .name = pen_text_string(&name),
        .num_ranks = of->num_ranks,
        .num_steps = of->num_steps,
        .weight = (double)of->num_steps * (of->num_ranks > 1 ? 2 : 1)};
    pen_status status = pen__reproduce_train(&it->jobs, &job, &words, out, why);
    pen_text_release(&name);
    return status;
}

/*
 * Reads the loss at each evaluation; infinite where a run broke. Returns the
 * last.
 */
static double read_losses(const struct pen__2bw *it, const struct pen_run *run,
                          double *out)
{
    uint32_t count = 0;
    double last = (double)INFINITY;
    for (uint32_t i = 0; i < PEN__2BW_POINTS; i++)
        out[i] = (double)INFINITY;
    for (size_t i = 0; i < run->num_steps; i++)
        if (!isnan(run->steps[i].val_loss) && count < it->scale.num_points)
            last = out[count++] = run->steps[i].val_loss;
    return count < it->scale.num_points ? (double)INFINITY : last;
}

static pen_status choose_rate(struct pen__2bw *it, uint32_t contender,
                              struct pen_text *why)
{
    double least = (double)INFINITY;
    PEN_BUG_UNLESS(it->scale.num_rates <= PEN__2BW_RATES);
    it->rate[contender] = pen__2bw_rates[0];
    for (uint32_t i = 0; i < it->scale.num_rates; i++) {
        struct training of = {.contender = contender,
                              .rate = pen__2bw_rates[i],
                              .is_tuning = true,
                              .num_steps = it->scale.num_steps};
        double losses[PEN__2BW_POINTS];
        struct pen_run *run;
        pen_status status = train(it, &of, &run, why);
        if (status != PEN_OK)
            return status;
        double last = read_losses(it, run, losses);
        it->held_loss[contender][i] = last;
        pen_run_free(run);
        if (last < least) {
            least = last;
            it->rate[contender] = pen__2bw_rates[i];
        }
    }
    return PEN_OK;
}

/* ---- pipelines ---- */

/* Returns the steps of a pipeline, which trains until the second evaluation. */
static uint32_t pipeline_steps(const struct pen__2bw *it)
{
    return 2 * (it->scale.num_steps / it->scale.num_points);
}

/* Losses of all steps of `some`, which may be fewer, are those of `all`. */
static bool is_same(const struct pen_run *some, const struct pen_run *all)
{
    for (size_t i = 0; i < some->num_steps; i++) {
        const struct pen_run_step *a = &some->steps[i];
        if (i >= all->num_steps)
            return false;
        const struct pen_run_step *b = &all->steps[i];
        bool is_evaluated = !isnan(a->val_loss);
        if (a->step != b->step || a->loss != b->loss ||
            (is_evaluated && a->val_loss != b->val_loss))
            return false;
    }
    return some->num_steps > 0;
}

/* Checks that a pipeline of some ranks begins as the process did. */
static pen_status check_pipeline(struct pen__2bw *it,
                                 const struct training *whole,
                                 const struct pen_run *run, uint32_t num_ranks,
                                 struct pen_text *why)
{
    struct training part = *whole;
    struct pen_run *some;
    part.num_ranks = num_ranks;
    part.num_steps = pipeline_steps(it);
    pen_status status = train(it, &part, &some, why);
    if (status != PEN_OK)
        return status;
    if (!is_same(some, run)) {
        pen_why(why,
                "%s: a pipeline of %u ranks has other losses than one process",
                pen__2bw_contenders[whole->contender].name, num_ranks);
        status = PEN_INVALID;
    }
    pen_run_free(some);
    return status;
}

static pen_status run_seed(struct pen__2bw *it, uint32_t contender,
                           uint32_t seed, struct pen_text *why)
{
    struct training of = {.contender = contender,
                          .seed = seed + 1,
                          .rate = it->rate[contender],
                          .num_steps = it->scale.num_steps};
    struct pen_run *run;
    pen_status status = train(it, &of, &run, why);
    if (status != PEN_OK)
        return status;
    read_losses(it, run, it->losses[contender][seed]);
    if (seed == 0 && contender < it->scale.num_pipelines)
        status = check_pipeline(it, &of, run, 2, why);
    if (seed == 0 && contender == PEN__2BW_PLAIN && status == PEN_OK)
        status = check_pipeline(it, &of, run, 4, why);
    pen_run_free(run);
    return status;
}

static pen_status run_all(struct pen__2bw *it, struct pen_text *why)
{
    pen_status status = PEN_OK;
    PEN_BUG_UNLESS(it->scale.num_seeds <= PEN__2BW_SEEDS);
    for (uint32_t i = 0; i < PEN__2BW_CONTENDERS && status == PEN_OK; i++)
        status = choose_rate(it, i, why);
    for (uint32_t seed = 0; seed < it->scale.num_seeds; seed++)
        for (uint32_t i = 0; i < PEN__2BW_CONTENDERS && status == PEN_OK; i++)
            status = run_seed(it, i, seed, why);
    return status;
}

/* ---- the command ---- */

enum { NUM_TOKENIZE = 3 };

static pen_status prepare(struct pen__2bw *it, struct pen_text *why)
{
    const char *folder = it->args->output;
    uint32_t runs =
        PEN__2BW_CONTENDERS * (it->scale.num_rates + it->scale.num_seeds);
    uint32_t pipelines = it->scale.num_pipelines + 1;
    pen__jobs_init(&it->jobs, folder, it->args->launcher,
                   NUM_TOKENIZE + runs + pipelines + it->scale.num_memories,
                   (double)runs * it->scale.num_steps +
                       2.0 * pipelines * pipeline_steps(it));
    pen_text_add(&it->model, "%s/config.json", folder);
    pen_text_add(&it->text, "%s/text", folder);
    pen_status status = pen_file_make_folder(folder, 0777, why);
    return status == PEN_OK ? pen__2bw_write_text(it, why) : status;
}

static pen_status run(struct pen__2bw *it, struct pen_text *why)
{
    pen_status status = prepare(it, why);
    if (status == PEN_OK)
        status = pen__2bw_predict(it, why);
    if (status == PEN_OK)
        status = pen__2bw_measure(it, why);
    if (status == PEN_OK)
        status = run_all(it, why);
    if (status == PEN_OK)
        status = pen__2bw_report(it, why);
    return status;
}

pen_status pen__reproduce_2bw(const struct pen__reproduce_args *args,
                              struct pen_text *why)
{
    struct pen__2bw *it = calloc(1, sizeof *it);
    pen_status status = PEN_NOMEM;
    if (it != NULL) {
        it->args = args;
        it->scale = args->is_short ? brief : full;
        status = run(it, why);
        pen__jobs_release(&it->jobs);
        pen_text_release(&it->text);
        pen_text_release(&it->model);
    }
    free(it);
    return status;
}
