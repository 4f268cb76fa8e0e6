/*
 * penstock schedule draw: one or several schedules, published ones by their
 * names or files, over one time axis.
 */
#include "cli/schedule/schedule.h"

#include "base/log.h"
#include "schedule/verify.h"
#include "view/timeline.h"

#include <stdlib.h>
#include <unistd.h>

#define PAGE_WIDTH 100u /* of the grid when stdout is not a terminal */

struct drawing {
    struct pen_picture_item item;
    struct pen_schedule *schedule;
    struct pen_timing *timing;
    struct pen_text label;
};

/*
 * The schedule of this name, or NULL for a file. Without sizes a file that is
 * called like a schedule is meant.
 */
static const struct pen_generator *
generator_of(const struct pen__schedule_args *args, const char *word)
{
    bool has_sizes = args->stages != 0 || args->microbatches != 0;
    if (!has_sizes && access(word, F_OK) == 0)
        return NULL;
    return pen_generator_find(word);
}

/* Sizes are given with names, and with nothing else. */
static int check_words(const struct pen__schedule_args *args)
{
    const struct pen_generator *named = NULL;
    for (size_t i = 0; i < args->words.count && named == NULL; i++)
        named = generator_of(args, args->words.words[i]);
    if (named != NULL && (args->stages == 0 || args->microbatches == 0)) {
        pen_log(PEN_LOG_ERROR,
                "%s is a published schedule, which needs --stages P and "
                "--microbatches M",
                named->name);
        return PEN__EXIT_USAGE;
    }
    bool has_sizes = args->stages != 0 || args->microbatches != 0 ||
                     args->chunks != 0 || args->slices != 0 ||
                     args->batches != 0 || args->memory_limit != 0 ||
                     args->recomputes;
    if (named != NULL || !has_sizes)
        return PEN__EXIT_OK;
    if (access(args->words.words[0], F_OK) != 0)
        pen__find_generator(args->words.words[0]);
    else
        pen_log(PEN_LOG_ERROR,
                "%s is a file, which has its own sizes; --stages and the "
                "like are for names of `penstock schedule list`",
                args->words.words[0]);
    return PEN__EXIT_USAGE;
}

static pen_status make(const struct pen__schedule_args *args,
                       const struct pen_generator *generator,
                       struct pen_schedule **out, struct pen_text *why)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status =
        pen__make_verified(args, generator, args->memory_limit, out, &reason);
    if (status != PEN_OK)
        pen_why(why, "%s: %s", generator->name, pen_text_string(&reason));
    pen_text_release(&reason);
    return status;
}

/* Loads a schedule of a file, which may be wrong. */
static pen_status load(const struct pen__schedule_args *args, const char *path,
                       struct pen_schedule **out, struct pen_text *why)
{
    const struct pen_verify_options rules = {.send_window = args->send_window};
    pen_status status = pen__load_lowered(path, out, why);
    return status == PEN_OK ? pen_schedule_verify(*out, &rules, NULL, why)
                            : status;
}

/*
 * Prepares a drawing. The names of the files distinguish schedules of one name.
 */
static pen_status prepare(const struct pen__schedule_args *args, size_t index,
                          struct drawing *drawing, struct pen_text *why)
{
    const char *word = args->words.words[index];
    const struct pen_generator *generator = generator_of(args, word);
    const struct pen_time_options times = {.with_ops = true,
                                           .send_window = args->send_window};
    pen_status status = generator != NULL
                            ? make(args, generator, &drawing->schedule, why)
                            : load(args, word, &drawing->schedule, why);
    if (status == PEN_OK)
        status = pen_schedule_time(drawing->schedule, &args->costs, &times,
                                   &drawing->timing, why);
    if (status != PEN_OK)
        return status;
    pen_text_add_string(&drawing->label, drawing->schedule->name);
    if (args->words.count > 1 && generator == NULL)
        pen_text_add(&drawing->label, " (%s)", word);
    drawing->item =
        (struct pen_picture_item){.schedule = drawing->schedule,
                                  .timing = drawing->timing,
                                  .label = pen_text_string(&drawing->label),
                                  .note = pen__costs_words(args)};
    return PEN_OK;
}

static int print_on_terminal(const struct pen_picture_item *items, size_t count)
{
    size_t width = pen__page_width();
    bool with_colour = width > 0 && getenv("NO_COLOR") == NULL;
    struct pen_text grid = PEN_TEXT_EMPTY;
    pen_timeline_print(items, count, with_colour,
                       width > 0 ? (unsigned)width : PAGE_WIDTH, &grid);
    return pen__print(&grid);
}

static int draw(const struct pen__schedule_args *args, struct drawing *drawings,
                struct pen_picture_item *items)
{
    size_t count = args->words.count;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    for (size_t i = 0; i < args->words.count && status == PEN_OK; i++) {
        status = prepare(args, i, &drawings[i], &why);
        items[i] = drawings[i].item;
    }
    if (status == PEN_OK && args->output != NULL)
        status = pen_timeline_draw(items, count, args->output, &why);
    int code = PEN__EXIT_OK;
    if (status != PEN_OK)
        code = pen__refuse_as(status, &why);
    else if (args->output == NULL)
        code = print_on_terminal(items, count);
    else
        pen_log(PEN_LOG_INFO, "wrote %s", args->output);
    pen_text_release(&why);
    return code;
}

int pen__schedule_draw(const struct pen__schedule_args *args)
{
    int wrong = check_words(args);
    if (wrong != PEN__EXIT_OK)
        return wrong;
    size_t count = args->words.count;
    struct drawing *drawings = calloc(count, sizeof *drawings);
    struct pen_picture_item *items = calloc(count, sizeof *items);
    int code = PEN__EXIT_NO;
    if (drawings != NULL && items != NULL)
        code = draw(args, drawings, items);
    else
        pen_log(PEN_LOG_ERROR, "out of memory");
    for (size_t i = 0; drawings != NULL && i < count; i++) {
        pen_timing_free(drawings[i].timing);
        pen_schedule_free(drawings[i].schedule);
        pen_text_release(&drawings[i].label);
    }
    free(items);
    free(drawings);
    return code;
}
