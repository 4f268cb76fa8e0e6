/* A view as a picture: the prediction, and under it what was measured. */
#include "view/view_internal.h"

#include "base/file.h"
#include "view/picture.h"
#include "view/timeline.h"

#include <stdlib.h>

/* One picture per replica, and after each its prediction if there is one. */
struct items {
    struct pen_picture_item *items;
    struct pen_timing **timings; /* measured, per replica */
    struct pen_text *labels;     /* likewise, and one for the prediction */
    size_t count;
    uint32_t num_replicas;
};

/* Adds the replica's ops of the chain that decided the step. */
static pen_status add_path(const struct pen_view *view, uint32_t replica,
                           struct pen_timing *timing)
{
    const struct pen__chain *chain = &view->findings.chain;
    struct pen_mesh mesh = pen__view_mesh(view);
    timing->path = malloc(((size_t)chain->count + 1) * sizeof *timing->path);
    if (timing->path == NULL)
        return PEN_NOMEM;
    for (uint64_t i = 0; i < chain->count; i++) {
        const struct pen__chain_op *op = &chain->ops[i];
        struct pen_mesh_place place = pen_mesh_place_of(&mesh, op->line);
        if (place.at[PEN_AXIS_REPLICA] == replica)
            timing->path[timing->path_count++] = (struct pen_path_step){
                .rank = place.at[PEN_AXIS_PIPELINE], .position = op->position};
    }
    return PEN_OK;
}

static pen_status add_replica(struct items *items, const struct pen_view *view,
                              uint32_t replica, struct pen_text *why)
{
    struct pen_mesh mesh = pen__view_mesh(view);
    struct pen_text *label = &items->labels[replica];
    pen_status status = pen__course_timing(&view->measured, replica,
                                           &items->timings[replica], why);
    if (status == PEN_OK)
        status = add_path(view, replica, items->timings[replica]);
    if (status != PEN_OK)
        return status;
    pen_text_add(label, "%s, step %u", view->schedule->name, view->step);
    if (pen__view_replicas(view) > 1)
        pen_text_add(label, ", replica %u", replica);
    items->items[items->count++] = (struct pen_picture_item){
        .schedule = view->schedule,
        .timing = items->timings[replica],
        .label = pen_text_string(label),
        .ranks = view->lines.ranks + pen_mesh_rank_at(&mesh, 0, replica)};
    return PEN_OK;
}

/* Makes the items of the chosen replicas; NULL: of all. */
static pen_status fill_items(struct items *items, const struct pen_view *view,
                             const bool *is_chosen, struct pen_text *why)
{
    uint32_t count = pen__view_replicas(view);
    items->num_replicas = count;
    items->items = calloc((size_t)count + 1, sizeof *items->items);
    items->timings = calloc((size_t)count + 1, sizeof *items->timings);
    items->labels = calloc((size_t)count + 1, sizeof *items->labels);
    if (items->items == NULL || items->timings == NULL ||
        items->labels == NULL) {
        pen_why(why, "out of memory for a picture of %u replicas", count);
        return PEN_NOMEM;
    }
    if (view->timing != NULL) {
        pen_text_add(&items->labels[count], "%s, predicted",
                     view->schedule->name);
        items->items[items->count++] = (struct pen_picture_item){
            .schedule = view->schedule,
            .timing = view->timing,
            .label = pen_text_string(&items->labels[count]),
            .row_label = "predicted"};
    }
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < count && status == PEN_OK; i++) {
        if (is_chosen == NULL || is_chosen[i])
            status = add_replica(items, view, i, why);
    }
    return status;
}

static void release_items(struct items *items)
{
    for (uint32_t i = 0; i < items->num_replicas && items->timings != NULL; i++)
        pen_timing_free(items->timings[i]);
    for (uint32_t i = 0; i <= items->num_replicas && items->labels != NULL; i++)
        pen_text_release(&items->labels[i]);
    free(items->items);
    free(items->timings);
    free(items->labels);
}

static pen_status write_events(const struct pen_view *view, const char *path,
                               struct pen_text *why)
{
    struct pen_text bytes = PEN_TEXT_EMPTY;
    pen__view_print_events(view, &bytes);
    pen_status status = PEN_NOMEM;
    if (bytes.has_failed)
        pen_why(why, "out of memory for %s", path);
    else
        status = pen_file_write(path, bytes.bytes, bytes.length, why);
    pen_text_release(&bytes);
    return status;
}

pen_status pen_view_draw(const struct pen_view *view, const char *path,
                         struct pen_text *why)
{
    struct items items = {.items = NULL};
    if (pen__ends_in(path, ".json"))
        return write_events(view, path, why);
    pen_status status = fill_items(&items, view, NULL, why);
    if (status == PEN_OK)
        status = pen_timeline_draw_rows(items.items, items.count, path, why);
    release_items(&items);
    return status;
}

/* Counts the ops of each replica in the chain that decided the step. */
static uint64_t *count_chain(const struct pen_view *view)
{
    const struct pen__chain *chain = &view->findings.chain;
    struct pen_mesh mesh = pen__view_mesh(view);
    uint64_t *counts = calloc(pen__view_replicas(view), sizeof *counts);
    for (uint64_t i = 0; i < chain->count && counts != NULL; i++)
        counts[pen_mesh_replica(&mesh, chain->ops[i].line)]++;
    return counts;
}

/* Chooses the replicas that have most of the chain. NULL: no memory. */
static bool *choose_replicas(const struct pen_view *view, uint32_t count)
{
    uint32_t all = pen__view_replicas(view);
    uint64_t *counts = count_chain(view);
    bool *is_chosen = calloc(all, sizeof *is_chosen);
    for (uint32_t k = 0; k < count && counts != NULL && is_chosen != NULL;
         k++) {
        uint32_t best = all;
        for (uint32_t i = 0; i < all; i++) {
            if (!is_chosen[i] && (best == all || counts[i] > counts[best]))
                best = i;
        }
        is_chosen[best] = true;
    }
    if (counts == NULL) {
        free(is_chosen);
        is_chosen = NULL;
    }
    free(counts);
    return is_chosen;
}

pen_status pen_view_print_svg(const struct pen_view *view, uint64_t most_ops,
                              struct pen_text *out, uint32_t *num_drawn,
                              struct pen_text *why)
{
    struct items items = {.items = NULL};
    uint64_t ops = pen_schedule_count(view->schedule);
    uint64_t most = most_ops / ops;
    uint32_t count = pen__view_replicas(view);
    most -= most > 0 && view->timing != NULL;
    if (most == 0) {
        pen_why(why, "a step of %llu operations is too long to draw",
                (unsigned long long)ops);
        return PEN_INVALID;
    }
    count = most < count ? (uint32_t)most : count;
    bool *is_chosen = choose_replicas(view, count);
    if (is_chosen == NULL) {
        pen_why(why, "out of memory for a picture");
        return PEN_NOMEM;
    }
    pen_status status = fill_items(&items, view, is_chosen, why);
    if (status == PEN_OK)
        status =
            pen_timeline_print_rows_svg(items.items, items.count, out, why);
    if (status == PEN_OK)
        *num_drawn = count;
    release_items(&items);
    free(is_chosen);
    return status;
}
