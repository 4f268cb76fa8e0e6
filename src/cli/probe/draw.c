/*
 * The picture of penstock probe diff: the relative difference along the layers,
 * a line per pass, of the step with the first difference or of the first step.
 */
#include "cli/probe/probe.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* Equal numbers are drawn here, since the axis is logarithmic. */
#define LEAST 1e-9
#define MOST 1.0

static double drawn(double difference)
{
    return fmin(fmax(difference, LEAST), MOST);
}

static uint32_t num_layers(const struct pen_probe_diff *diff)
{
    uint32_t count = 1;
    for (size_t i = 0; i < diff->num_pairs; i++)
        if (diff->pairs[i].a->layer >= count)
            count = diff->pairs[i].a->layer + 1;
    return count;
}

/*
 * Fills in the largest difference of each layer in a pass; returns how many
 * there are.
 */
static size_t fill(const struct pen_probe_diff *diff, uint64_t step,
                   enum pen_probe_pass pass, uint32_t layers,
                   struct pen_chart_point *points)
{
    size_t count = 0;
    for (uint32_t k = 0; k < layers; k++)
        points[k] = (struct pen_chart_point){k, (double)NAN};
    for (size_t i = 0; i < diff->num_pairs; i++) {
        const struct pen_probe_pair *pair = &diff->pairs[i];
        if (pair->a->step == step && pair->a->pass == pass)
            points[pair->a->layer].y =
                fmax(points[pair->a->layer].y, drawn(pair->difference));
    }
    for (uint32_t k = 0; k < layers; k++)
        if (!isnan(points[k].y))
            points[count++] = points[k];
    return count;
}

static void add_title(const struct pen_probe_diff *diff, uint64_t step,
                      struct pen_text *out)
{
    if (diff->first == diff->num_pairs) {
        pen_text_add(out, "No difference in step %" PRIu64, step);
        return;
    }
    pen_text_add_string(out, "First difference: ");
    pen__probe_add_place(diff->pairs[diff->first].a, out);
}

pen_status pen__probe_draw(const struct pen__probe_answer *answer,
                           const char *path, struct pen_text *why)
{
    const struct pen_probe_diff *diff = &answer->diff;
    size_t shown = diff->first < diff->num_pairs ? diff->first : 0;
    uint64_t step = diff->pairs[shown].a->step;
    uint32_t layers = num_layers(diff);
    struct pen_text title = PEN_TEXT_EMPTY;
    struct pen_chart_line lines[PEN_PROBE_PASSES + 1];
    struct pen_chart_point limit[] = {{0, drawn(answer->tolerance)},
                                      {layers - 1, drawn(answer->tolerance)}};
    size_t num_lines = 0;
    struct pen_chart_point *points =
        calloc((size_t)layers * PEN_PROBE_PASSES, sizeof *points);
    if (points == NULL) {
        pen_why(why, "no memory for a picture of %u layers", layers);
        return PEN_NOMEM;
    }
    for (int pass = 0; pass < PEN_PROBE_PASSES; pass++) {
        struct pen_chart_point *at = points + (size_t)pass * layers;
        size_t count = fill(diff, step, (enum pen_probe_pass)pass, layers, at);
        if (count > 0 && pass != PEN_PROBE_LOSS)
            lines[num_lines++] =
                (struct pen_chart_line){pen_probe_pass_names[pass], at, count};
    }
    lines[num_lines++] = (struct pen_chart_line){"tolerance", limit, 2};
    add_title(diff, step, &title);
    const struct pen_chart chart = {.title = pen_text_string(&title),
                                    .x_name = "layer",
                                    .y_name =
                                        "relative difference, at least 1e-9",
                                    .lines = lines,
                                    .num_lines = num_lines,
                                    .has_log_y = true};
    pen_status status = pen_chart_draw(&chart, path, why);
    free(points);
    pen_text_release(&title);
    return status;
}
