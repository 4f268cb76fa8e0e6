/* From a folder to one step, measured and predicted, and what differs. */
#include "view/view_internal.h"

#include "schedule/verify.h"

#include <stdlib.h>
#include <unistd.h>

static pen_status load_schedule(struct pen_view *view, const char *folder,
                                struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/schedule.pen", folder);
    pen_status status =
        pen_schedule_load(pen_text_string(&path), &view->schedule, why);
    if (status == PEN_OK) {
        const struct pen_verify_options rules = {.send_window = 0};
        status = pen_schedule_verify(view->schedule, &rules, NULL, &reason);
        if (status != PEN_OK)
            pen_why(why, "%s: %s", pen_text_string(&path),
                    pen_text_string(&reason));
    }
    pen_text_release(&path);
    pen_text_release(&reason);
    return status;
}

static pen_status predict(struct pen_view *view, struct pen_text *why)
{
    const struct pen_time_options options = {.with_ops = true};
    pen_status status = pen_schedule_time(view->schedule, &view->costs,
                                          &options, &view->timing, why);
    if (status == PEN_OK)
        status = pen_cost_table_init(&view->table, &view->costs,
                                     &view->schedule->shape, why);
    if (status == PEN_OK)
        status = pen__course_predict(&view->predicted, view->timing,
                                     view->schedule, why);
    return status;
}

static pen_status load_costs(struct pen_view *view, const char *folder,
                             struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/costs.json", folder);
    pen_status status = PEN_OK;
    if (access(pen_text_string(&path), F_OK) == 0) {
        status = pen_costs_read(pen_text_string(&path), &view->costs, why);
        if (status == PEN_OK) {
            status = predict(view, &reason);
            if (status != PEN_OK)
                pen_why(why, "%s: %s", pen_text_string(&path),
                        pen_text_string(&reason));
        }
    }
    pen_text_release(&path);
    pen_text_release(&reason);
    return status;
}

static pen_status refuse_step(const struct pen__step *steps, size_t count,
                              uint32_t step, struct pen_text *why)
{
    uint32_t first = steps[0].number;
    uint32_t last = steps[count - 1].number;
    pen_why(why, "step %u was not recorded completely; ", step);
    if (count == 1)
        pen_why(why, "only step %u was", first);
    else
        pen_why(why, "%zu steps from %u to %u were", count, first, last);
    return PEN_INVALID;
}

static pen_status choose_step(struct pen_view *view, const uint32_t *step,
                              struct pen_text *why)
{
    struct pen__step *steps = NULL;
    size_t count = 0;
    pen_status status =
        pen__steps_find(view->trace, view->schedule, &steps, &count, why);
    if (status != PEN_OK)
        return status;
    view->num_steps = count;
    view->is_median = step == NULL;
    if (step == NULL) {
        view->step = pen__steps_median(steps, count);
    } else {
        size_t i = 0;
        while (i < count && steps[i].number != *step)
            i++;
        view->step = *step;
        if (i == count)
            status = refuse_step(steps, count, *step, why);
    }
    free(steps);
    return status;
}

static pen_status judge(struct pen_view *view, struct pen_text *why)
{
    bool has_costs = view->timing != NULL;
    pen_status status = pen__sources_init(&view->sources, view->schedule);
    view->matter =
        (struct pen__case){.sources = &view->sources,
                           .measured = &view->measured,
                           .predicted = has_costs ? &view->predicted : NULL,
                           .costs = has_costs ? &view->table : NULL};
    if (status == PEN_OK)
        status = pen__findings_init(&view->findings, &view->matter);
    if (status != PEN_OK)
        pen_why(why, "out of memory for a view of %u ranks", view->lines.count);
    return status;
}

static pen_status load(struct pen_view *view, const char *folder,
                       const uint32_t *step, struct pen_text *why)
{
    pen_status status = load_schedule(view, folder, why);
    if (status == PEN_OK)
        status = pen_trace_load(folder, &view->trace, why);
    if (status == PEN_OK)
        status =
            pen__lines_init(&view->lines, view->trace, view->schedule, why);
    if (status == PEN_OK)
        status = load_costs(view, folder, why);
    if (status == PEN_OK)
        status = choose_step(view, step, why);
    if (status == PEN_OK)
        status = pen__course_measure(&view->measured, view->trace, &view->lines,
                                     view->schedule, view->step, why);
    if (status == PEN_OK) {
        pen__course_await_groups(&view->measured);
        status = judge(view, why);
    }
    return status;
}

pen_status pen_view_load(const char *folder, const uint32_t *step,
                         struct pen_view **out, struct pen_text *why)
{
    struct pen_view *view = calloc(1, sizeof *view);
    if (view == NULL) {
        pen_why(why, "out of memory for a view");
        return PEN_NOMEM;
    }
    pen_costs_init(&view->costs);
    pen_status status = load(view, folder, step, why);
    if (status == PEN_OK)
        *out = view;
    else
        pen_view_free(view);
    return status;
}

void pen_view_free(struct pen_view *view)
{
    if (view == NULL)
        return;
    pen__findings_release(&view->findings);
    pen__sources_release(&view->sources);
    pen__course_release(&view->measured);
    pen__course_release(&view->predicted);
    pen__lines_release(&view->lines);
    pen_timing_free(view->timing);
    pen_cost_table_release(&view->table);
    pen_costs_release(&view->costs);
    pen_schedule_free(view->schedule);
    pen_trace_free(view->trace);
    free(view);
}
