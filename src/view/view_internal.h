#ifndef PEN_VIEW_VIEW_INTERNAL_H
#define PEN_VIEW_VIEW_INTERNAL_H

#include "culprits/findings.h"
#include "view/view.h"

struct pen_view {
    struct pen_trace *trace;
    struct pen_schedule *schedule;
    struct pen_costs costs;
    struct pen_cost_table table;
    struct pen_timing *timing; /* predicted; NULL: there are no costs */
    struct pen__lines lines;
    size_t num_steps; /* that are whole */
    uint32_t step;
    bool is_median;
    struct pen__course measured;
    struct pen__course predicted;
    struct pen__sources sources;
    struct pen__case matter;
    struct pen__findings findings;
};

static inline struct pen_mesh pen__view_mesh(const struct pen_view *view)
{
    return pen__lines_mesh(&view->schedule->shape, view->lines.count);
}

static inline uint32_t pen__view_replicas(const struct pen_view *view)
{
    struct pen_mesh mesh = pen__view_mesh(view);
    return pen_mesh_num_replicas(&mesh);
}

static inline const struct pen_trace_head *
pen__view_head(const struct pen_view *view, uint32_t line)
{
    return &view->trace->ranks[view->lines.ranks[line]].head;
}

/* Adds the name of a root: "rank 2 computing", "gradients from rank 1 to 0". */
void pen__view_add_root(const struct pen_view *view, uint32_t root,
                        struct pen_text *out);

/* Prints Chrome's trace event format, one process per rank. */
void pen__view_print_events(const struct pen_view *view, struct pen_text *out);

#endif
