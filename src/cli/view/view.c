/*
 * penstock view: a traced training compared with its prediction; the prediction
 * of a plan; or faults in the records of other programs.
 */
#include "cli/program/cli.h"

#include "base/log.h"
#include "cli/program/answer.h"
#include "cli/program/field_rows.h"
#include "cli/program/kind.h"
#include "cli/program/line.h"
#include "cli/view/calls.h"
#include "cli/view/plan.h"
#include "view/view.h"

#include <stdbool.h>
#include <stdlib.h>

struct args {
    struct pen__rest paths;
    const char *output;
    uint64_t step; /* NO_STEP: not given */
    const char *ranks_text;
    struct pen_view_ranks ranks; /* of ranks_text */
    bool with_all_ranks;
};

#define AT(member) offsetof(struct args, member)
#define NO_STEP UINT64_MAX

static const struct pen__field fields[] = {
    TEXT("output", "FILE", output,
         "draw to FILE: .svg, .png, .pdf, or .json for Perfetto"),
    COUNT("step", step, 0, UINT32_MAX,
          "the step to show; the step of median duration when not given"),
    TEXT("ranks", "FIRST-LAST", ranks_text,
         "draw these ranks, one narrow row each, with waiting in colour"),
    FLAG("all-ranks", with_all_ranks,
         "print a line for every rank, also of a long pipeline"),
    JSON("print JSON")};

/* "0-63" or "17". */
static struct pen_view_ranks read_ranks(const char *text,
                                        const struct argp_state *state)
{
    char *end;
    const char *given = text;
    long long first = strtoll(text, &end, 10);
    bool is_right = end != text && first >= 0;
    long long last = first;
    if (is_right && *end == '-') {
        text = end + 1;
        last = strtoll(text, &end, 10);
        is_right = end != text;
    }
    if (!is_right || *end != '\0' || last < first || last > UINT32_MAX)
        argp_error(state,
                   "--ranks must be a range as 0-63 or a rank as 17, not '%s'",
                   given);
    return (struct pen_view_ranks){(uint32_t)first, (uint32_t)last};
}

static void check(void *context, const struct argp_state *state)
{
    struct args *args = context;
    if (args->ranks_text == NULL)
        return;
    args->ranks = read_ranks(args->ranks_text, state);
    if (args->output == NULL)
        argp_error(state,
                   "--ranks needs a file to draw to; give --output FILE");
}

static const struct pen__line command_line = {
    .name = "penstock view",
    .fields = fields,
    .num_fields = sizeof fields / sizeof *fields,
    .usage = "DIR\nPLAN\nFILE...",
    .expected = "DIR, PLAN or FILE...",
    .words_offset = AT(paths),
    .least_words = 1,
    .most_words = SIZE_MAX,
    .doc = "Shows one step of a traced training and its prediction, where "
           "they differ and why; or what is predicted of a plan; or the fault "
           "of a hang and the rank that others waited for, in records of "
           "another program.\vDIR is a "
           "folder that penstock train --trace or --run wrote. If it has no "
           "prediction, view shows the measured step only. PLAN is a file of "
           "penstock plan -o. FILE is the record of one rank: PyTorch's "
           "Flight Recorder (JSON, pickle), torch.profiler, Chrome's JSON.",
    .check = check};

static pen_status draw(const struct args *args, const struct pen_view *view,
                       struct pen_text *why)
{
    return args->ranks_text != NULL
               ? pen_view_draw_ranks(view, &args->ranks, args->output, why)
               : pen_view_draw(view, args->output, why);
}

static int show(const struct args *args, const struct pen_view *view)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    int code = PEN__EXIT_OK;
    pen_status status = args->output == NULL ? PEN_OK : draw(args, view, &why);
    if (status != PEN_OK)
        code = pen__refuse_as(status, &why);
    else if (args->output != NULL)
        pen_log(PEN_LOG_INFO, "wrote %s", args->output);
    if (code == PEN__EXIT_OK && pen__answer_is_json()) {
        code = pen__print_json("view", pen_view_json(view));
    } else if (code == PEN__EXIT_OK) {
        if (pen_view_print(view, pen__page_width(), args->with_all_ranks,
                           &text) != PEN_OK)
            text.has_failed = 1;
        code = pen__print(&text);
    }
    pen_text_release(&text);
    pen_text_release(&why);
    return code;
}

/* Finds the folder of the trace: that of a run has one in it. */
static pen_status find_trace(const char *path, struct pen_text *out,
                             struct pen_text *why)
{
    enum pen__kind kind = pen__kind_of(path);
    pen_text_add(out, "%s", path);
    if (kind == PEN__KIND_UNKNOWN || kind == PEN__KIND_TRACE)
        return out->has_failed ? PEN_NOMEM : PEN_OK;
    bool has_trace = kind == PEN__KIND_RUN &&
                     pen__find_in(path, "trace/schedule.pen", out) &&
                     pen__find_in(path, "trace", out);
    if (has_trace)
        return PEN_OK;
    pen__kind_tell(path, kind, why);
    if (kind == PEN__KIND_RUN)
        pen_why(why, ". It has no trace, which `penstock train --run` and "
                     "--trace record");
    return PEN_INVALID;
}

/* Views several paths, which are records; refuses the first that is not. */
static int view_calls(const struct args *args)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    const char *wrong = args->step != NO_STEP      ? "--step"
                        : args->ranks_text != NULL ? "--ranks"
                                                   : NULL;
    for (size_t i = 0; i < args->paths.count && why.length == 0; i++) {
        const char *path = args->paths.words[i];
        enum pen__kind kind = pen__kind_of(path);
        if (kind == PEN__KIND_CALLS || kind == PEN__KIND_UNKNOWN)
            continue;
        pen_why(&why, "several files must be records of one job, one of each "
                      "rank; ");
        pen__kind_tell(path, kind, &why);
    }
    if (wrong != NULL && why.length == 0)
        pen_why(&why, "%s is for traces of penstock train; leave it out",
                wrong);
    int code = why.length > 0
                   ? pen__refuse_as(PEN_INVALID, &why)
                   : pen__view_calls(args->paths.words, args->paths.count,
                                     args->output, args->with_all_ranks,
                                     pen__answer_is_json());
    pen_text_release(&why);
    return code;
}

static int view_plan(const struct args *args)
{
    const char *wrong = args->step != NO_STEP      ? "--step"
                        : args->ranks_text != NULL ? "--ranks"
                        : args->with_all_ranks     ? "--all-ranks"
                                                   : NULL;
    if (wrong == NULL)
        return pen__view_plan(args->paths.words[0], args->output,
                              pen__answer_is_json());
    pen_log(PEN_LOG_ERROR, "%s is for traces, and %s is a plan; leave it out",
            wrong, args->paths.words[0]);
    return PEN__EXIT_NO;
}

static int run(int argc, char **argv)
{
    struct args args = {.step = NO_STEP};
    if (!pen__line_read(&command_line, argc, argv, &args))
        return PEN__EXIT_USAGE;
    enum pen__kind kind = pen__kind_of(args.paths.words[0]);
    if (kind == PEN__KIND_CALLS || args.paths.count > 1)
        return view_calls(&args);
    if (kind == PEN__KIND_PLAN)
        return view_plan(&args);
    struct pen_view *view = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_text folder = PEN_TEXT_EMPTY;
    uint32_t step = (uint32_t)args.step;
    pen_status status = find_trace(args.paths.words[0], &folder, &why);
    if (status == PEN_OK)
        status =
            pen_view_load(pen_text_string(&folder),
                          args.step == NO_STEP ? NULL : &step, &view, &why);
    int code =
        status == PEN_OK ? show(&args, view) : pen__refuse_as(status, &why);
    pen_view_free(view);
    pen_text_release(&folder);
    pen_text_release(&why);
    return code;
}

const struct pen__command pen__view = {
    "view", "shows where the time of a traced training went", run, NULL};
