/*
 * penstock plot: the curves of trainings, from their run logs.
 */
#include "cli/program/cli.h"

#include "base/log.h"
#include "cli/program/field_rows.h"
#include "cli/program/kind.h"
#include "cli/program/line.h"
#include "view/plot.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_WIDTH 100u /* when stdout is not a terminal */
#define SMOOTH_MAX 1000000

struct args {
    const char *output;
    unsigned x; /* enum pen_plot_x */
    struct pen_plot_options options;
    struct pen__rest runs;
};

#define AT(member) offsetof(struct args, member)

static const struct pen__field fields[] = {
    TEXT("output", "FILE", output,
         "draw to FILE: .svg, .png or .pdf; to the terminal when not given"),
    WORD("x", x, pen_plot_x_names,
         "horizontal axis: step, tokens or time; step when not given"),
    FIELD("smooth", "N", options.smooth, SMALL, 1, SMOOTH_MAX, NULL,
          "draw means over N steps, with the logged values in the background"),
    FLAG("log-y", options.has_log_loss, "a logarithmic axis for the loss"),
    TEXT("title", "TEXT", options.title,
         "title of the plot; the model's name when not given")};

static const struct pen__line command_line = {
    .name = "penstock plot",
    .fields = fields,
    .num_fields = sizeof fields / sizeof *fields,
    .usage = "RUN...",
    .words_offset = AT(runs),
    .least_words = 1,
    .most_words = SIZE_MAX,
    .doc = "Draws loss and speed of one or several trainings.\vEach RUN "
           "is a folder that penstock train --run wrote, or a file of --log; "
           "the training may still be running."};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* Names of files are enough, unless two runs have the same. */
static bool have_distinct_names(const struct args *args)
{
    for (size_t i = 0; i < args->runs.count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(base_name(args->runs.words[i]),
                       base_name(args->runs.words[j])) == 0)
                return false;
        }
    }
    return true;
}

static int print_on_terminal(const struct args *args,
                             const struct pen_plot_item *items)
{
    size_t width = pen__page_width();
    bool with_colour = width > 0 && getenv("NO_COLOR") == NULL;
    struct pen_text plot = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status =
        pen_plot_print(items, args->runs.count, &args->options, with_colour,
                       width > 0 ? (unsigned)width : PAGE_WIDTH, &plot, &why);
    int code =
        status == PEN_OK ? pen__print(&plot) : pen__refuse_as(status, &why);
    pen_text_release(&plot);
    pen_text_release(&why);
    return code;
}

static int draw_to_file(const struct args *args,
                        const struct pen_plot_item *items)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    int code = PEN__EXIT_OK;
    if (pen_plot_draw(items, args->runs.count, &args->options, args->output,
                      &why) == PEN_OK)
        pen_log(PEN_LOG_INFO, "wrote %s", args->output);
    else
        code = pen__refuse(&why);
    pen_text_release(&why);
    return code;
}

static pen_status load(const char *path, struct pen_run **out,
                       struct pen_text *why)
{
    struct pen_text log = PEN_TEXT_EMPTY;
    enum pen__kind kind = pen__kind_of(path);
    pen_status status = PEN_INVALID;
    if (kind == PEN__KIND_UNKNOWN || kind == PEN__KIND_LOG)
        status = pen_run_load(path, out, why);
    else if (pen__find_in(path, "log.jsonl", &log))
        status = pen_run_load(pen_text_string(&log), out, why);
    else
        pen__kind_tell(path, kind, why);
    pen_text_release(&log);
    return status;
}

static int plot(const struct args *args, struct pen_run **runs,
                struct pen_plot_item *items)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    bool is_short = have_distinct_names(args);
    pen_status status = PEN_OK;
    for (size_t i = 0; i < args->runs.count && status == PEN_OK; i++) {
        const char *path = args->runs.words[i];
        status = load(path, &runs[i], &why);
        items[i] =
            (struct pen_plot_item){runs[i], is_short ? base_name(path) : path};
    }
    int code = PEN__EXIT_OK;
    if (status != PEN_OK)
        code = pen__refuse_as(status, &why);
    else if (args->output != NULL)
        code = draw_to_file(args, items);
    else
        code = print_on_terminal(args, items);
    pen_text_release(&why);
    return code;
}

static int run(int argc, char **argv)
{
    struct args args = {.x = PEN_PLOT_STEP};
    if (!pen__line_read(&command_line, argc, argv, &args))
        return PEN__EXIT_USAGE;
    args.options.x = (enum pen_plot_x)args.x;
    struct pen_run **runs = calloc(args.runs.count, sizeof *runs);
    struct pen_plot_item *items = calloc(args.runs.count, sizeof *items);
    int code = PEN__EXIT_NO;
    if (runs != NULL && items != NULL)
        code = plot(&args, runs, items);
    else
        pen_log(PEN_LOG_ERROR, "out of memory");
    for (size_t i = 0; runs != NULL && i < args.runs.count; i++)
        pen_run_free(runs[i]);
    free(items);
    free(runs);
    return code;
}

const struct pen__command pen__plot = {
    "plot", "draws loss and speed of trainings", run, NULL};
