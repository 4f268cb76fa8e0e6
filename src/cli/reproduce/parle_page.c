/* Figures of penstock reproduce parle, its verdict and its page. */
#include "cli/reproduce/parle.h"

#include "base/table.h"
#include "cli/program/cli.h"

#include <math.h>
#include <stdlib.h>

struct results {
    const struct pen__parle *parle;
    struct pen_interval sooner[PEN__PARLE_CONTENDERS][PEN__PARLE_LINKS];
    struct pen_interval lower[PEN__PARLE_CONTENDERS];
    struct pen_interval error[PEN__PARLE_CONTENDERS];
};

/* ---- figures ---- */

struct question {
    const struct pen__parle *parle;
    uint32_t contender;
    uint32_t link;
};

/* Returns the mean over some seeds of the error at an evaluation. */
static double mean_error(const struct pen__parle *parle, uint32_t contender,
                         uint32_t point, const uint32_t *seeds, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += parle->errors[contender][seeds[i]][point];
    return sum / count;
}

/* Steps until the mean error of some seeds is at most `target`. */
static double steps_to(const struct pen__parle *parle, uint32_t contender,
                       double target, const uint32_t *seeds, uint32_t count)
{
    uint32_t every = parle->scale.num_steps / parle->scale.num_points;
    double before = 90;
    for (uint32_t i = 0; i < parle->scale.num_points; i++) {
        double error = mean_error(parle, contender, i, seeds, count);
        if (error <= target)
            return every *
                   (i + (before > error ? (before - target) / (before - error)
                                        : 1));
        before = error;
    }
    return (double)INFINITY;
}

/* Returns how many times sooner than SGD it has SGD's final error; 0: never. */
static double sooner(void *context, const uint32_t *seeds, uint32_t count)
{
    const struct question *it = context;
    const struct pen__parle *parle = it->parle;
    double target = mean_error(parle, PEN__PARLE_SGD,
                               parle->scale.num_points - 1, seeds, count);
    double sgd = steps_to(parle, PEN__PARLE_SGD, target, seeds, count) *
                 parle->step_sec[PEN__PARLE_SGD][it->link];
    double own = steps_to(parle, it->contender, target, seeds, count) *
                 parle->step_sec[it->contender][it->link];
    return isinf(own) ? 0 : sgd / own;
}

/* Points of percent by which its final error is lower than SGD's. */
static double lower(void *context, const uint32_t *seeds, uint32_t count)
{
    const struct question *it = context;
    uint32_t last = it->parle->scale.num_points - 1;
    return mean_error(it->parle, PEN__PARLE_SGD, last, seeds, count) -
           mean_error(it->parle, it->contender, last, seeds, count);
}

/* Returns its final error. */
static double final_error(void *context, const uint32_t *seeds, uint32_t count)
{
    const struct question *it = context;
    return mean_error(it->parle, it->contender, it->parle->scale.num_points - 1,
                      seeds, count);
}

static pen_status judge(struct results *results)
{
    pen_status status = PEN_OK;
    uint32_t seeds = results->parle->scale.num_seeds;
    for (uint32_t i = 0; i < PEN__PARLE_CONTENDERS && status == PEN_OK; i++) {
        struct question it = {results->parle, i, 0};
        status = pen_bootstrap(final_error, &it, seeds, 1, &results->error[i]);
        if (status == PEN_OK)
            status = pen_bootstrap(lower, &it, seeds, 1, &results->lower[i]);
        for (; it.link < PEN__PARLE_LINKS && status == PEN_OK; it.link++)
            status = pen_bootstrap(sooner, &it, seeds, 1,
                                   &results->sooner[i][it.link]);
    }
    return status;
}

/* ---- words ---- */

/* "shown", "refuted" or "not decided": whether `no effect` is in between. */
static const char *verdict_of(const struct pen_interval *interval,
                              double no_effect)
{
    return interval->low > no_effect    ? "shown"
           : interval->high < no_effect ? "refuted"
                                        : "not decided";
}

static void print_verdict(const struct results *results, struct pen_text *out)
{
    const struct pen_interval *faster =
        &results->sooner[PEN__PARLE_PARLE][PEN__PARLE_LINKS / 2];
    const struct pen_interval *better = &results->lower[PEN__PARLE_PARLE];
    pen_text_add(out, "Sooner: %s. On %g Gbit/s Parle has SGD's final error ",
                 verdict_of(faster, 1), pen__parle_links[PEN__PARLE_LINKS / 2]);
    pen__interval_print(faster, 2, out);
    pen_text_add(out, " times as soon. Lower: %s. Its final error is lower by ",
                 verdict_of(better, 0));
    pen__interval_print(better, 2, out);
    pen_text_add_string(out, " points of percent. In brackets: 95 % intervals "
                             "over seeds.");
    if (results->parle->args->is_short)
        pen_text_add_string(out, " A short run decides nothing.");
}

static const struct pen_column columns[] = {
    {"contender", false, false},
    {"replicas", true, false},
    {"rate", true, false},
    {"test error, %", true, false},
    {"lower than SGD", true, false},
    {"sooner, 1 Gbit/s", true, false},
    {"sooner, 10 Gbit/s", true, false},
    {"sooner, 100 Gbit/s", true, false}};

static void fill_table(const struct results *results, struct pen_table *table)
{
    pen_table_init(table, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < PEN__PARLE_CONTENDERS; i++) {
        bool is_alone = pen__parle_contenders[i].method == NULL;
        pen_table_add(table, "%s", pen__parle_contenders[i].name);
        pen_table_add(table, "%d", is_alone ? 1 : PEN__PARLE_REPLICAS);
        pen_table_add(table, "%g", results->parle->rate[i]);
        pen__interval_cell(&results->error[i], 2, table);
        pen__interval_cell(&results->lower[i], 2, table);
        for (uint32_t k = 0; k < PEN__PARLE_LINKS; k++)
            pen__interval_cell(&results->sooner[i][k], 2, table);
    }
}

static json_t *results_json(const struct results *results, const char *verdict)
{
    json_t *rows = json_array();
    for (uint32_t i = 0; i < PEN__PARLE_CONTENDERS; i++) {
        json_t *links = json_object();
        for (uint32_t k = 0; k < PEN__PARLE_LINKS; k++) {
            char name[32];
            snprintf(name, sizeof name, "%gGbit/s", pen__parle_links[k]);
            json_object_set_new(links, name,
                                pen__interval_json(&results->sooner[i][k]));
        }
        pen__json_append(
            &rows,
            json_pack("{s:s, s:f, s:o, s:o, s:o}", "contender",
                      pen__parle_contenders[i].key, "rate",
                      results->parle->rate[i], "test_error_percent",
                      pen__interval_json(&results->error[i]), "lower_than_sgd",
                      pen__interval_json(&results->lower[i]), "times_sooner",
                      links));
    }
    return json_pack("{s:s, s:s, s:b, s:i, s:f, s:o}", "experiment", "parle",
                     "verdict", verdict, "is_short",
                     results->parle->args->is_short, "seeds",
                     (int)results->parle->scale.num_seeds, "step_sec",
                     results->parle->compute_sec, "contenders", rows);
}

/* ---- the page ---- */

/* Larger errors are not drawn, so that the last ones can be distinguished. */
#define MOST_DRAWN 8

/* Mean and spread of a contender over the seconds on the middle link. */
struct curves {
    double x[PEN__PARLE_CONTENDERS][PEN__PARLE_POINTS];
    double y[PEN__PARLE_CONTENDERS][3][PEN__PARLE_POINTS];
    struct pen_report_curve all[3 * PEN__PARLE_CONTENDERS];
};

static double drawn(const struct pen__parle *parle, double error)
{
    return error > MOST_DRAWN && !parle->args->is_short ? (double)NAN : error;
}

static void fill_curves(const struct pen__parle *parle, struct curves *out)
{
    uint32_t every = parle->scale.num_steps / parle->scale.num_points;
    for (uint32_t i = 0; i < PEN__PARLE_CONTENDERS; i++) {
        double sec = parle->step_sec[i][PEN__PARLE_LINKS / 2];
        for (uint32_t k = 0; k < parle->scale.num_points; k++) {
            double sum = 0, least = 100, most = 0;
            for (uint32_t s = 0; s < parle->scale.num_seeds; s++) {
                double error = parle->errors[i][s][k];
                sum += error;
                least = fmin(least, error);
                most = fmax(most, error);
            }
            out->x[i][k] = sec * every * (k + 1);
            out->y[i][0][k] = drawn(parle, sum / parle->scale.num_seeds);
            out->y[i][1][k] = drawn(parle, least);
            out->y[i][2][k] = drawn(parle, most);
        }
        for (uint32_t k = 0; k < 3; k++)
            out->all[3 * i + k] = (struct pen_report_curve){
                .name = k == 0 ? pen__parle_contenders[i].name : NULL,
                .x = out->x[i],
                .y = out->y[i][k],
                .count = parle->scale.num_points,
                .colour = i,
                .has_marks = k == 0};
    }
}

static const char claim[] =
    "Chaudhari et al. (Parle: parallelizing stochastic gradient descent, 2017, "
    "arXiv:1707.00424) claim that three replicas which synchronise every 25 "
    "steps reach the error of SGD 2 to 4 times sooner in wall-clock time, and "
    "end with a lower error.";

static void describe(const struct pen__parle *parle, struct pen_text *out)
{
    const struct pen__parle_scale *scale = &parle->scale;
    pen_text_add(out,
                 "A network with 8 and 16 channels learns %u images of MNIST "
                 "in %u steps. A step has 128 images per replica. The network "
                 "is tested on %u images, with %u seeds. The learning rate of "
                 "each contender is the best of 0.01, 0.03 and 0.1 on %u other "
                 "training images; it falls to a hundredth along a cosine. "
                 "Unlike the paper's network, this one has no dropout. A step "
                 "takes %.1f ms, the median of SGD alone on a core, plus the "
                 "stall that `penstock sync compare` predicts for the link. "
                 "The seconds of the replicas themselves are not used, because "
                 "they share the cores of this machine.",
                 scale->num_train, scale->num_steps, scale->num_test,
                 scale->num_seeds, scale->num_held, 1e3 * parle->compute_sec);
}

pen_status pen__parle_report(const struct pen__parle *parle,
                             struct pen_text *why)
{
    struct pen_text verdict = PEN_TEXT_EMPTY, setup = PEN_TEXT_EMPTY;
    struct pen_text printed = PEN_TEXT_EMPTY;
    struct results *results = calloc(1, sizeof *results);
    struct curves *curves = calloc(1, sizeof *curves);
    struct pen_table table;
    pen_status status = PEN_NOMEM;
    if (results != NULL && curves != NULL) {
        results->parle = parle;
        status = judge(results);
    }
    if (status == PEN_OK) {
        fill_table(results, &table);
        fill_curves(parle, curves);
        print_verdict(results, &verdict);
        describe(parle, &setup);
        pen_table_print(&table, pen__page_width(), &printed);
        pen_text_add(&printed, "\n%s\n", pen_text_string(&verdict));
        pen__print(&printed);
        const struct pen_report_curves chart = {
            .x_name = "seconds on 10 Gbit/s",
            .y_name = "test error, %",
            .curves = curves->all,
            .num_curves = sizeof curves->all / sizeof *curves->all};
        const struct pen_report_section sections[] = {
            {.title = "The claim", .text = claim},
            {.title = "The experiment", .text = pen_text_string(&setup)},
            {.title = "The verdict", .text = pen_text_string(&verdict)},
            {.title = "Test error",
             .text = "Means over seeds, with the least and the most; errors "
                     "above 15 % "
                     "are left out.",
             .curves = &chart,
             .num_curves = 1},
            {.title = "Contenders",
             .table = &table,
             .note = "Times sooner: how many times as soon as SGD a contender "
                     "has SGD's final error; 0: never. Points lower: of the "
                     "final error. 95 % bootstrap intervals over seeds."},
            {.title = "To repeat a piece",
             .commands = pen_text_string(&parle->jobs.commands)}};
        const struct pen_report page = {
            .title = "Parle: do replicas that rarely talk learn sooner?",
            .sections = sections,
            .num_sections = sizeof sections / sizeof *sections};
        json_t *json = results_json(results, pen_text_string(&verdict));
        status = pen__reproduce_write(parle->args->output, &page, json, why);
        json_decref(json);
        pen_table_release(&table);
    }
    free(results);
    free(curves);
    pen_text_release(&printed);
    pen_text_release(&setup);
    pen_text_release(&verdict);
    return status;
}
