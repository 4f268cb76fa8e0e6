#include "cli/view/plan.h"

#include "base/log.h"
#include "cli/plan/report.h"
#include "view/timeline.h"

#include <stdlib.h>

#define PAGE_WIDTH 100u /* when stdout is not a terminal */

static void print_picture(const struct pen__plan_picture *picture,
                          struct pen_text *out)
{
    size_t width = pen__page_width();
    bool with_colour = width > 0 && getenv("NO_COLOR") == NULL;
    pen_text_add(out, "\n");
    if (picture->schedule != NULL)
        pen_timeline_print(&picture->item, 1, with_colour,
                           width > 0 ? (unsigned)width : PAGE_WIDTH, out);
    if (picture->note.length > 0)
        pen_text_add(out, "%s\n", pen_text_string(&picture->note));
}

/*
 * Draws. A picture that cannot be drawn is refused only where a file was
 * wanted.
 */
static pen_status draw(const struct pen__plan_picture *picture,
                       const char *output, struct pen_text *why)
{
    if (picture->schedule == NULL) {
        pen_why(why, "%s is not written. %s", output,
                pen_text_string(&picture->note));
        return PEN_INVALID;
    }
    pen_status status = pen_timeline_draw(&picture->item, 1, output, why);
    if (status == PEN_OK)
        pen_log(PEN_LOG_INFO, "wrote %s", output);
    return status;
}

static int show(const struct pen__planning *planning,
                const struct pen_plan_found *found, const char *output,
                bool is_json)
{
    struct pen__plan_picture picture;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    int code = PEN__EXIT_OK;
    pen__plan_picture_init(&planning->setting, found, &picture);
    if (output != NULL && draw(&picture, output, &why) != PEN_OK)
        code = pen__refuse(&why);
    else if (is_json)
        code = pen__print_json("view-plan",
                               pen__plan_json(found->plan, &found->prediction));
    else {
        pen__plan_print(found->plan, &found->prediction, &text);
        if (output == NULL)
            print_picture(&picture, &text);
        code = pen__print(&text);
    }
    pen__plan_picture_release(&picture);
    pen_text_release(&text);
    pen_text_release(&why);
    return code;
}

static pen_status find_generator(const struct pen_plan *plan, const char *path,
                                 const struct pen_generator **out,
                                 struct pen_text *why)
{
    const char *name = plan->schedule.name;
    *out = name == NULL ? NULL : pen_generator_find(name);
    if (*out != NULL)
        return PEN_OK;
    pen_why(why,
            "%s has its schedule in a file; `penstock schedule draw` draws "
            "that, and `penstock plan check %s` predicts the plan",
            path, path);
    return PEN_INVALID;
}

int pen__view_plan(const char *path, const char *output, bool is_json)
{
    const struct pen__plan_args args = {.file = path,
                                        .target = PEN_TARGETS,
                                        .number = PEN_NUMBERS,
                                        .sharding = PEN_SHARDINGS};
    struct pen__planning planning = {.model = NULL};
    struct pen_plan_found found = {.plan = NULL};
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = pen_plan_load(path, &found.plan, &why);
    if (status == PEN_OK)
        status =
            find_generator(found.plan, path, &found.candidate.generator, &why);
    if (status == PEN_OK)
        status = pen__planning_open_plan(&args, found.plan, &planning, &why);
    if (status == PEN_OK)
        status = pen_plan_fits(found.plan, planning.model, &why);
    if (status == PEN_OK)
        status =
            pen_predict(&planning.setting, found.plan, &found.prediction, &why);
    int code = status == PEN_OK ? show(&planning, &found, output, is_json)
                                : pen__refuse_as(status, &why);
    pen_prediction_release(&found.prediction);
    pen__planning_close(&planning);
    pen_plan_free(found.plan);
    pen_text_release(&why);
    return code;
}
