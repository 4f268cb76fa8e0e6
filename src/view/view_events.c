/*
 * A view as events, on rank 0's clock:
 *
 *   process "rank 3"   thread 1 "predicted"   F0 F1   B0 ...
 *                      thread 2 "measured"    F0  F1    B0 ...
 *                      thread 3 "waiting"         ..  ..
 */
#include "view/view_internal.h"

#include "view/cells.h"
#include "view/events.h"

enum track { TRACK_PREDICTED = 1, TRACK_MEASURED, TRACK_WAITING };

static void add_process(struct pen__events *events, const struct pen_view *view,
                        const struct pen_trace_head *head)
{
    struct pen_text name = PEN_TEXT_EMPTY;
    pen_text_add(&name, "rank %u on ", head->rank);
    pen__add_clean(head->host, &name);
    if (pen__view_replicas(view) > 1)
        pen_text_add(&name, ", replica %u", head->replica);
    pen__events_add_process(events, pen_text_string(&name));
    pen_text_release(&name);
    if (view->timing != NULL)
        pen__events_name_track(events, TRACK_PREDICTED, "predicted");
    pen__events_name_track(events, TRACK_MEASURED, "measured");
    pen__events_name_track(events, TRACK_WAITING, "waiting");
}

static void add_wait(struct pen__events *events, const struct pen_view *view,
                     uint32_t line, uint32_t position)
{
    const struct pen__span *span = &view->measured.spans[line][position];
    if (!(span->ready_sec > span->begin_sec))
        return;
    struct pen__source source =
        pen__source_of(&view->sources, &view->measured, line, position);
    pen__events_begin_slice(events, TRACK_WAITING, span->begin_sec,
                            span->ready_sec);
    if (source.kind == PEN__SOURCE_NONE)
        pen_text_add_string(events->out, ",\"name\":\"waits\"}");
    else
        pen_text_add(events->out, ",\"name\":\"waits for rank %u\"}",
                     view->lines.ranks[source.line]);
}

static void add_rank(struct pen__events *events, const struct pen_view *view,
                     uint32_t rank)
{
    const struct pen_trace_head *head = &view->trace->ranks[rank].head;
    const struct pen_row *row = &view->schedule->rows[head->row];
    struct pen_mesh mesh = pen__view_mesh(view);
    uint32_t line = pen_mesh_rank_at(&mesh, head->row, head->replica);
    add_process(events, view, head);
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen__span *span = &view->measured.spans[line][i];
        if (view->timing != NULL) {
            const struct pen__span *other =
                &view->predicted.spans[head->row][i];
            pen__events_add_op(events, TRACK_PREDICTED, view->schedule, rank,
                               &row->ops[i], other->ready_sec, other->end_sec);
        }
        add_wait(events, view, line, i);
        pen__events_add_op(events, TRACK_MEASURED, view->schedule, rank,
                           &row->ops[i], span->ready_sec, span->end_sec);
    }
}

void pen__view_print_events(const struct pen_view *view, struct pen_text *out)
{
    struct pen__events events = {.out = out};
    pen__events_open(&events);
    for (uint32_t rank = 0; rank < view->trace->num_ranks; rank++)
        add_rank(&events, view, rank);
    pen__events_close(&events);
}
