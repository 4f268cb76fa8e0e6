/*
 * penstock view FILE...: records of another program's communication. Names the
 * fault of a hang and the rank that the others waited for.
 */
#include "cli/view/calls.h"

#include "base/log.h"
#include "base/table.h"
#include "cli/program/cli.h"
#include "view/calls_draw.h"

#include <string.h>

#define MOST_RANKS 32u
#define MOST_SENTENCES 4u

static void add_seconds(double sec, struct pen_text *out)
{
    if (sec >= 1)
        pen_text_add(out, "%.3g s", sec);
    else if (sec >= 1e-3)
        pen_text_add(out, "%.3g ms", 1e3 * sec);
    else
        pen_text_add(out, "%.3g us", 1e6 * sec);
}

static size_t count_calls(const struct pen_calls *calls)
{
    size_t count = 0;
    for (uint32_t i = 0; i < calls->num_ranks; i++)
        count += calls->ranks[i].count;
    return count;
}

/* ---- sentences, each ended by a newline */

static void add_faults(const struct pen__calls_view *view, struct pen_text *out)
{
    const struct pen_call_faults *faults = &view->faults;
    if (faults->count == 0)
        pen_text_add(out, "no fault: all ranks made the same calls\n");
    for (size_t i = 0; i < faults->count; i++) {
        pen_text_add(out, "%s: ", i == 0 ? "fault" : "also");
        pen_call_fault_add_words(&view->meetings, &faults->list[i], out);
        pen_text_add(out, "\n");
    }
}

static void add_late(const struct pen__calls_view *view, struct pen_text *out)
{
    const struct pen_call_waits *waits = &view->waits;
    if (waits->late_line == PEN_CALL_NOBODY) {
        pen_text_add(out, "no rank causes most of the waiting\n");
        return;
    }
    const struct pen_call_rank_waits *late = &waits->ranks[waits->late_line];
    pen_text_add(out, "slow: the others waited for rank %u: ",
                 view->calls.ranks[waits->late_line].rank);
    add_seconds(late->caused_sec, out);
    pen_text_add(out, " of ");
    add_seconds(waits->total_sec, out);
    pen_text_add(out, " that all ranks waited, within ");
    add_seconds(waits->span_sec, out);
    pen_text_add(out, "\n");
}

static void add_link(const struct pen__calls_view *view, struct pen_text *out)
{
    const struct pen_call_waits *waits = &view->waits;
    if (waits->slow_link == PEN_CALL_NOBODY)
        return;
    const struct pen_call_link *link = &waits->links[waits->slow_link];
    pen_text_add(out, "slow: the link from rank %u to rank %u takes ",
                 link->from, link->to);
    add_seconds(link->transfer_sec, out);
    pen_text_add(out, " per message, in the mean of %llu\n",
                 (unsigned long long)link->count);
}

static void add_sentences(const struct pen__calls_view *view,
                          struct pen_text *out)
{
    add_faults(view, out);
    if (view->calls.num_ranks < 2)
        return;
    add_late(view, out);
    add_link(view, out);
}

static void print_ranks(const struct pen__calls_view *view, bool with_all_ranks,
                        struct pen_text *out)
{
    static const struct pen_column columns[] = {
        {"rank", true, false},     {"calls", true, false},
        {"waited s", true, false}, {"others waited s", true, false},
        {"last of", true, false},  {"file", false, false}};
    struct pen_table table;
    uint32_t count = view->calls.num_ranks;
    uint32_t shown = with_all_ranks || count <= MOST_RANKS ? count : MOST_RANKS;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < shown; i++) {
        const struct pen_call_rank *rank = &view->calls.ranks[i];
        const struct pen_call_rank_waits *waits = &view->waits.ranks[i];
        pen_table_add(&table, "%u", rank->rank);
        pen_table_add(&table, "%zu", rank->count);
        pen_table_add(&table, "%.3f", waits->waited_sec);
        pen_table_add(&table, "%.3f", waits->caused_sec);
        pen_table_add(&table, "%llu", (unsigned long long)waits->caused);
        pen_table_add(&table, "%s", rank->path);
    }
    pen_text_add(out, "\n");
    pen_table_print(&table, pen__page_width(), out);
    pen_table_release(&table);
    if (shown < count)
        pen_text_add(out, "and %u more ranks; --all-ranks shows them\n",
                     count - shown);
}

void pen__calls_print(const struct pen__calls_view *view, bool with_all_ranks,
                      struct pen_text *out)
{
    pen_text_add(out,
                 "%u of %u ranks, %zu calls, %zu collectives, %zu "
                 "messages\n",
                 view->calls.num_ranks, view->calls.world,
                 count_calls(&view->calls), view->meetings.count,
                 view->meetings.num_messages);
    add_sentences(view, out);
    print_ranks(view, with_all_ranks, out);
}

/* Lists the assumptions, on stderr and for "notes". */
static void tell_notes(const struct pen_calls *calls)
{
    for (uint32_t i = 0; i < calls->num_ranks; i++) {
        const struct pen_call_rank *rank = &calls->ranks[i];
        if (rank->shift_ns != 0)
            pen_log(PEN_LOG_WARN,
                    "the clock of rank %u differs by %.3f s from that of rank "
                    "%u; its times are moved",
                    rank->rank, 1e-9 * (double)rank->shift_ns,
                    calls->ranks[0].rank);
        if (rank->num_lost > 0)
            pen_log(PEN_LOG_WARN,
                    "the record of rank %u lost its first %llu calls; its "
                    "sends and receives are not judged",
                    rank->rank, (unsigned long long)rank->num_lost);
    }
}

static pen_status load(char *const *paths, size_t count,
                       struct pen__calls_view *out, struct pen_text *why)
{
    pen_status status = pen_calls_load(paths, count, &out->calls, why);
    if (status == PEN_OK)
        status = pen_meetings_init(&out->calls, &out->meetings, why);
    if (status == PEN_OK)
        status = pen_calls_align(&out->calls, &out->meetings, why);
    if (status == PEN_OK)
        status = pen_call_faults_find(&out->meetings, &out->faults, why);
    if (status == PEN_OK)
        status = pen_call_waits_init(&out->meetings, &out->waits, why);
    return status;
}

/* ---- the picture */

static pen_status draw(const struct pen__calls_view *view, const char *output,
                       struct pen_text *why)
{
    const char *sentences[MOST_SENTENCES];
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_calls_picture picture = {.meetings = &view->meetings,
                                        .faults = &view->faults,
                                        .waits = &view->waits,
                                        .sentences = sentences};
    add_sentences(view, &text);
    for (char *at = text.bytes;
         at != NULL && *at != '\0' && picture.num_sentences < MOST_SENTENCES;) {
        sentences[picture.num_sentences++] = at;
        at = strchr(at, '\n');
        *at++ = '\0';
    }
    pen_status status = pen_calls_draw(&picture, output, why);
    if (status == PEN_OK)
        pen_log(PEN_LOG_INFO, "wrote %s", output);
    pen_text_release(&text);
    return status;
}

static int show(const struct pen__calls_view *view, bool with_all_ranks,
                bool is_json)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    tell_notes(&view->calls);
    if (is_json)
        return pen__print_json("view-calls", pen__calls_json(view));
    pen__calls_print(view, with_all_ranks, &text);
    return pen__print(&text);
}

int pen__view_calls(char *const *paths, size_t count, const char *output,
                    bool with_all_ranks, bool is_json)
{
    struct pen__calls_view view = {.calls.ranks = NULL};
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = load(paths, count, &view, &why);
    if (status == PEN_OK && output != NULL)
        status = draw(&view, output, &why);
    int code = status == PEN_OK ? show(&view, with_all_ranks, is_json)
                                : pen__refuse_as(status, &why);
    pen_call_waits_release(&view.waits);
    pen_call_faults_release(&view.faults);
    pen_meetings_release(&view.meetings);
    pen_calls_release(&view.calls);
    pen_text_release(&why);
    return code;
}
