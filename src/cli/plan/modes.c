/* The search and the output that the modes of `penstock plan` share. */
#include "cli/plan/modes.h"

#include "cli/plan/report.h"
#include "planner/relax.h"
#include "view/timeline.h"

pen_status pen__plan_find_best(const struct pen__plan_args *args,
                               const struct pen__planning *planning,
                               const struct pen_candidate_filter *filter,
                               struct pen_plan_ranking **out,
                               struct pen_text *why)
{
    struct pen_plan_search_options options = {
        .objective = (enum pen_objective)args->objective,
        .within = args->tolerance,
        .top = 1,
        .seconds = args->seconds};
    if (filter != NULL)
        options.filter = *filter;
    options.filter.allows_stale = args->allows_stale;
    options.filter.expert_tp = args->expert_tp;
    options.filter.recipe = args->recipe;
    struct pen_plan_ranking *ranking = NULL;
    pen_status status =
        pen_plan_search(&planning->setting, &options, &ranking, why);
    if (status == PEN_OK)
        pen_plan_ranking_relax(&planning->setting, &options, ranking);
    if (status == PEN_OK)
        status = pen__planning_name(planning, ranking->found[0].plan, why);
    if (status == PEN_OK)
        *out = ranking;
    else
        pen_plan_ranking_free(ranking);
    return status;
}

/* ---- what -o gets ---- */

static void write_note(const struct pen_plan_found *found,
                       const struct pen__plan_picture *picture,
                       struct pen_text *out)
{
    pen_text_add(out, "%.4g s a step: ", found->prediction.step_sec);
    pen_candidate_print(&found->candidate, out);
    if (picture->note.length > 0)
        pen_text_add(out, ". %s", pen_text_string(&picture->note));
}

static pen_status draw(const struct pen__planning *planning,
                       const struct pen_plan_found *found, const char *path,
                       struct pen_text *why)
{
    struct pen__plan_picture picture;
    struct pen_text label = PEN_TEXT_EMPTY;
    struct pen_text note = PEN_TEXT_EMPTY;
    pen_status status = PEN_INVALID;
    pen__plan_picture_init(&planning->setting, found, &picture);
    if (picture.schedule == NULL) {
        pen_why(why, "%s: %s", path, pen_text_string(&picture.note));
    } else {
        pen_text_add(&label, "%s on ", pen_text_string(&planning->model_name));
        pen__add_counted(&label, pen_plan_num_ranks(found->plan), "device");
        write_note(found, &picture, &note);
        picture.item.label = pen_text_string(&label);
        picture.item.note = pen_text_string(&note);
        status = pen_timeline_draw(&picture.item, 1, path, why);
    }
    pen__plan_picture_release(&picture);
    pen_text_release(&label);
    pen_text_release(&note);
    return status;
}

pen_status pen__plan_write(const struct pen__plan_args *args,
                           const struct pen__planning *planning,
                           const struct pen_plan_found *found,
                           struct pen_text *why)
{
    if (args->output == NULL)
        return PEN_OK;
    if (pen_timeline_is_picture(args->output))
        return draw(planning, found, args->output, why);
    return pen_plan_save(found->plan, args->output, why);
}
