/* The view of records of communication, as JSON. */
#include "cli/view/calls.h"

#include "cli/program/cli.h"

static json_t *call_json(const struct pen_call *call)
{
    if (call == NULL)
        return json_null();
    bool has_data = call->data.elements != PEN_CALL_NO_DATA;
    return json_pack(
        "{s:s, s:o, s:o}", "op", pen_call_op_info(call->op)->words, "elements",
        has_data ? json_integer((json_int_t)call->data.elements) : json_null(),
        "dtype",
        call->data.dtype[0] == '\0' ? json_null()
                                    : json_string(call->data.dtype));
}

static json_t *fault_json(const struct pen__calls_view *view,
                          const struct pen_call_fault *fault)
{
    struct pen_text words = PEN_TEXT_EMPTY;
    json_t *ranks = json_array();
    for (uint32_t i = 0; i < fault->num_ranks; i++)
        pen__json_append(&ranks, json_integer(fault->ranks[i]));
    pen_call_fault_add_words(&view->meetings, fault, &words);
    const struct pen_meeting *meeting = fault->meeting;
    const struct pen_message *message = fault->message;
    json_t *json = json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:b, s:s}", "kind",
        pen_call_fault_word(fault->kind), "ranks", ranks, "group",
        meeting == NULL ? json_null()
                        : json_string(view->calls.groups[meeting->group].name),
        "number",
        meeting != NULL   ? json_integer((json_int_t)meeting->number)
        : message != NULL ? json_integer(message->number)
                          : json_null(),
        "link",
        message == NULL
            ? json_null()
            : json_pack("{s:I, s:I}", "from", (json_int_t)message->from, "to",
                        (json_int_t)message->to),
        "called", call_json(fault->wrong), "expected", call_json(fault->right),
        "waiting_ranks", (json_int_t)fault->num_waiting, "is_consequence",
        (int)fault->is_explained, "words", pen_text_string(&words));
    pen_text_release(&words);
    return json;
}

static json_t *rank_json(const struct pen__calls_view *view, uint32_t line)
{
    const struct pen_call_rank *rank = &view->calls.ranks[line];
    const struct pen_call_rank_waits *waits = &view->waits.ranks[line];
    return json_pack("{s:I, s:s, s:o, s:I, s:f, s:f, s:I, s:f, s:I}", "rank",
                     (json_int_t)rank->rank, "file", rank->path, "host",
                     rank->host[0] == '\0' ? json_null()
                                           : json_string(rank->host),
                     "calls", (json_int_t)rank->count, "waited_sec",
                     waits->waited_sec, "others_waited_sec", waits->caused_sec,
                     "last_of", (json_int_t)waits->caused, "clock_shift_sec",
                     1e-9 * (double)rank->shift_ns, "lost_calls",
                     (json_int_t)rank->num_lost);
}

static json_t *link_json(const struct pen_call_link *link)
{
    return json_pack(
        "{s:I, s:I, s:I, s:f, s:o}", "from", (json_int_t)link->from, "to",
        (json_int_t)link->to, "messages", (json_int_t)link->count, "late_sec",
        link->late_sec, "transfer_sec",
        link->transfer_sec < 0 ? json_null() : json_real(link->transfer_sec));
}

json_t *pen__calls_json(const struct pen__calls_view *view)
{
    const struct pen_call_waits *waits = &view->waits;
    json_t *faults = json_array();
    json_t *ranks = json_array();
    json_t *links = json_array();
    for (size_t i = 0; i < view->faults.count; i++)
        pen__json_append(&faults, fault_json(view, &view->faults.list[i]));
    for (uint32_t i = 0; i < view->calls.num_ranks; i++)
        pen__json_append(&ranks, rank_json(view, i));
    for (size_t i = 0; i < waits->num_links; i++)
        pen__json_append(&links, link_json(&waits->links[i]));
    return json_pack(
        "{s:I, s:I, s:I, s:o, s:o, s:o, s:f, s:f, s:o, s:o}", "world",
        (json_int_t)view->calls.world, "collectives",
        (json_int_t)view->meetings.count, "messages",
        (json_int_t)view->meetings.num_messages, "faults", faults, "waited_for",
        waits->late_line == PEN_CALL_NOBODY
            ? json_null()
            : json_integer(view->calls.ranks[waits->late_line].rank),
        "slow_link",
        waits->slow_link == PEN_CALL_NOBODY
            ? json_null()
            : link_json(&waits->links[waits->slow_link]),
        "waited_sec", waits->total_sec, "span_sec", waits->span_sec, "ranks",
        ranks, "links", links);
}
