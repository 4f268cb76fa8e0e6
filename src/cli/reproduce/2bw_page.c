/* Figures of penstock reproduce 2bw, its verdict and its page. */
#include "cli/reproduce/2bw.h"

#include "cli/program/cli.h"

#include <math.h>
#include <stdlib.h>

/* The paper's, over GPipe and over model parallelism without a pipeline. */
#define PAPER_GPIPE 3.2
#define PAPER_NONE 20.0

/* ---- figures ---- */

struct question {
    const struct pen__2bw *it;
    uint32_t contender;
};

static double mean_loss(const struct pen__2bw *it, uint32_t contender,
                        const uint32_t *seeds, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += it->losses[contender][seeds[i]][it->scale.num_points - 1];
    return sum / count;
}

static double final_loss(void *context, const uint32_t *seeds, uint32_t count)
{
    const struct question *it = context;
    return mean_loss(it->it, it->contender, seeds, count);
}

static double higher(void *context, const uint32_t *seeds, uint32_t count)
{
    const struct question *it = context;
    return mean_loss(it->it, it->contender, seeds, count) -
           mean_loss(it->it, PEN__2BW_SYNCHRONOUS, seeds, count);
}

static pen_status judge(struct pen__2bw_results *results)
{
    pen_status status = PEN_OK;
    uint32_t seeds = results->it->scale.num_seeds;
    for (uint32_t i = 0; i < PEN__2BW_CONTENDERS && status == PEN_OK; i++) {
        struct question it = {results->it, i};
        status = pen_bootstrap(final_loss, &it, seeds, 1, &results->loss[i]);
        if (status == PEN_OK)
            status = pen_bootstrap(higher, &it, seeds, 1, &results->higher[i]);
    }
    results->synchronous = results->loss[PEN__2BW_SYNCHRONOUS].middle;
    return status;
}

static double largest_ratio(const struct pen__2bw *it, uint32_t speed)
{
    double most = 0;
    for (uint32_t b = 0; b < it->scale.num_layouts; b++)
        most = fmax(most, pen__2bw_ratio(it, b, speed));
    return most;
}

/* ---- words ---- */

static void print_verdict(const struct pen__2bw_results *results,
                          struct pen_text *out)
{
    const struct pen__2bw *it = results->it;
    pen_text_add(out, "The same accuracy: %s. ",
                 pen__2bw_verdict(results, PEN__2BW_PLAIN));
    pen_text_add_string(out, "With 2BW the final loss is higher by ");
    pen__interval_print(&results->higher[PEN__2BW_PLAIN], 3, out);
    pen_text_add(out, " than %.3f with synchronous steps",
                 results->synchronous);
    for (uint32_t i = PEN__2BW_PLAIN + 1; i < PEN__2BW_CONTENDERS; i++) {
        pen_text_add(out, ", %s by ", pen__2bw_contenders[i].name);
        pen__interval_print(&results->higher[i], 3, out);
    }
    pen_text_add(out,
                 "; in brackets: 95 %% intervals over seeds. Faster: predicted "
                 "up to %.1f times GPipe (paper: %g) and up to %.1f times "
                 "model parallelism without a pipeline (paper: %g).",
                 largest_ratio(it, PEN__2BW_SPEED_GPIPE), PAPER_GPIPE,
                 largest_ratio(it, PEN__2BW_SPEED_NONE), PAPER_NONE);
    if (it->args->is_short)
        pen_text_add_string(out, " A short run decides nothing.");
}

static const char claim[] =
    "Narayanan et al. (Memory-efficient pipeline-parallel DNN training, ICML "
    "2021, arXiv:2006.09503) claim that a pipeline with two versions of the "
    "weights, without flushes, trains a GPT of 2.2 billion parameters on 64 "
    "V100 up to 20 times as fast as model parallelism without a pipeline and "
    "up to 3.2 times as fast as GPipe, with the same final accuracy and the "
    "same hyper-parameters, although each gradient is one step late.";

/* Describes the predicted ratios, and the reasons why the paper's differ. */
static void describe_speeds(const struct pen__2bw *it, struct pen_text *out)
{
    pen_text_add(
        out,
        "A GPT of 48 layers of 1920, sequences of 512 tokens in fp16, on eight "
        "servers of eight V100 with 16 GB and 25 Gbit/s between servers. Each "
        "schedule has its fastest layout that fits: 2 to 32 stages, "
        "micro-batches of 1 to 16, with or without recomputation, no tensor "
        "parallelism. 2BW sums gradients while the next batch computes, as in "
        "the paper's planner; the row below is without. Our ratios, up to "
        "%.1f and %.1f where the paper has %g and %g, are smaller because "
        "each contender has the depth that is best for it; with 2BW's depth "
        "they are up to %.1f and %.1f. The rest has no known cause: the paper "
        "gives neither the shape of its model nor the layouts of its "
        "baselines.",
        largest_ratio(it, PEN__2BW_SPEED_GPIPE),
        largest_ratio(it, PEN__2BW_SPEED_NONE), PAPER_GPIPE, PAPER_NONE,
        largest_ratio(it, PEN__2BW_SPEED_DEEP_GPIPE),
        largest_ratio(it, PEN__2BW_SPEED_DEEP_NONE));
}

static void describe(const struct pen__2bw *it, struct pen_text *out)
{
    const struct pen__2bw_scale *scale = &it->scale;
    pen_text_add(
        out,
        "A GPT of 4 layers of 64 learns the letters of a text: %u "
        "steps of 16 sequences of 32 letters, AdamW, gradients "
        "clipped to 1, %u steps of warm-up, cosine to a tenth. "
        "Rates of each contender: the best of 1, 2, 4 and 8 "
        "thousandths on held text of %zu letters; losses: on other "
        "text of %zu letters, %u seeds. --stale-after is %u steps, "
        "--stale-discount %u. The delay of 2BW is one step in each "
        "stage at any depth, so one process trains; pipelines of 2 "
        "ranks (and 4 for plain 2BW) had the same losses to the last "
        "bit for %u steps. An evaluation empties the pipeline every "
        "%u steps. Shown: the interval of the difference to "
        "synchronous steps is below %g %% of their loss; refuted: it "
        "is above.",
        scale->num_steps, scale->num_warmup, it->held_bytes, it->test_bytes,
        scale->num_seeds, scale->num_synchronous, scale->num_discounted,
        2 * (scale->num_steps / scale->num_points),
        scale->num_steps / scale->num_points, 100 * PEN__2BW_SAME_SHARE);
}

/* ---- the page ---- */

/* Mean, least and most of a contender over its steps. */
struct curves {
    double x[PEN__2BW_POINTS];
    double y[PEN__2BW_CONTENDERS][3][PEN__2BW_POINTS];
    struct pen_report_curve all[3 * PEN__2BW_CONTENDERS];
};

static void fill_point(const struct pen__2bw *it, uint32_t contender,
                       uint32_t point, struct curves *out)
{
    double sum = 0, least = (double)INFINITY, most = 0;
    for (uint32_t s = 0; s < it->scale.num_seeds; s++) {
        double loss = it->losses[contender][s][point];
        sum += loss;
        least = fmin(least, loss);
        most = fmax(most, loss);
    }
    out->y[contender][0][point] = sum / it->scale.num_seeds;
    out->y[contender][1][point] = least;
    out->y[contender][2][point] = most;
}

static void fill_curves(const struct pen__2bw *it, struct curves *out)
{
    uint32_t every = it->scale.num_steps / it->scale.num_points;
    for (uint32_t k = 0; k < it->scale.num_points; k++)
        out->x[k] = every * (k + 1);
    for (uint32_t i = 0; i < PEN__2BW_CONTENDERS; i++) {
        for (uint32_t k = 0; k < it->scale.num_points; k++)
            fill_point(it, i, k, out);
        for (uint32_t k = 0; k < 3; k++)
            out->all[3 * i + k] = (struct pen_report_curve){
                .name = k == 0 ? pen__2bw_contenders[i].name : NULL,
                .x = out->x,
                .y = out->y[i][k],
                .count = it->scale.num_points,
                .colour = i,
                .has_marks = k == 0};
    }
}

/* Tables and texts of the page. */
struct parts {
    struct pen_table losses;
    struct pen_table rates;
    struct pen_table speeds;
    struct pen_table memory;
    struct pen_text verdict;
    struct pen_text setup;
    struct pen_text speed;
    struct curves curves;
};

static void fill_parts(const struct pen__2bw_results *results,
                       struct parts *out)
{
    pen__2bw_table_losses(results, &out->losses);
    pen__2bw_table_rates(results->it, &out->rates);
    pen__2bw_table_speeds(results->it, &out->speeds);
    pen__2bw_table_memory(results->it, &out->memory);
    fill_curves(results->it, &out->curves);
    print_verdict(results, &out->verdict);
    describe(results->it, &out->setup);
    describe_speeds(results->it, &out->speed);
}

static void release_parts(struct parts *parts)
{
    pen_table_release(&parts->losses);
    pen_table_release(&parts->rates);
    pen_table_release(&parts->speeds);
    pen_table_release(&parts->memory);
    pen_text_release(&parts->verdict);
    pen_text_release(&parts->setup);
    pen_text_release(&parts->speed);
}

static void print_parts(const struct parts *parts)
{
    struct pen_text out = PEN_TEXT_EMPTY;
    pen_table_print(&parts->speeds, pen__page_width(), &out);
    pen_text_add_string(&out, "\n");
    pen_table_print(&parts->memory, pen__page_width(), &out);
    pen_text_add_string(&out, "\n");
    pen_table_print(&parts->losses, pen__page_width(), &out);
    pen_text_add(&out, "\n%s\n", pen_text_string(&parts->verdict));
    pen__print(&out);
}

static pen_status write_page(const struct pen__2bw_results *results,
                             const struct parts *parts, struct pen_text *why)
{
    const struct pen__2bw *it = results->it;
    const char *verdict = pen_text_string(&parts->verdict);
    const struct pen_report_curves chart = {
        .x_name = "steps",
        .y_name = "loss on other text",
        .curves = parts->curves.all,
        .num_curves = sizeof parts->curves.all / sizeof *parts->curves.all};
    const struct pen_report_section sections[] = {
        {.title = "The claim", .text = claim},
        {.title = "The verdict", .text = verdict},
        {.title = "Speed, predicted",
         .text = pen_text_string(&parts->speed),
         .table = &parts->speeds},
        {.title = "Memory of the first of two stages",
         .text = "The paper's formula: 2 W/d + A, with recomputation 2 W/d + "
                 "A/d + d I; W: weights, A: activations of a micro-batch, I: "
                 "input of a stage, d: stages. Gradients and AdamW's moments "
                 "are added to it; clipping needs a second gradient.",
         .table = &parts->memory,
         .note = "Counted: what the executor allocates. Its activations have "
                 "scratch and messages, too."},
        {.title = "Loss",
         .text = pen_text_string(&parts->setup),
         .curves = &chart,
         .num_curves = 1,
         .table = &parts->losses,
         .note = "Means over seeds, with the least and the most. 95 % "
                 "bootstrap intervals over seeds."},
        {.title = "Loss of each rate on held text",
         .text = "One seed. The row of the synchronous rate shows what "
                 "unchanged hyper-parameters give.",
         .table = &parts->rates,
         .is_folded = true},
        {.title = "To repeat a piece",
         .commands = pen_text_string(&it->jobs.commands)}};
    const struct pen_report page = {
        .title = "PipeDream-2BW: fast, lean and as accurate?",
        .sections = sections,
        .num_sections = sizeof sections / sizeof *sections};
    json_t *json = pen__2bw_json(results, verdict);
    pen_status status =
        pen__reproduce_write(it->args->output, &page, json, why);
    json_decref(json);
    return status;
}

pen_status pen__2bw_report(const struct pen__2bw *it, struct pen_text *why)
{
    struct pen__2bw_results results = {.it = it};
    struct parts *parts = calloc(1, sizeof *parts);
    pen_status status = parts == NULL ? PEN_NOMEM : judge(&results);
    if (status == PEN_OK) {
        fill_parts(&results, parts);
        print_parts(parts);
        status = write_page(&results, parts, why);
        release_parts(parts);
    }
    free(parts);
    return status;
}
