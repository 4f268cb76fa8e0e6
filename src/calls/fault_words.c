/* Faults as sentences. */
#include "calls/faults.h"

#include <string.h>

const char *pen_call_fault_word(enum pen_call_fault_kind kind)
{
    static const char *const words[PEN_CALL_FAULTS] = {
#define FAULT_WORD(name, word) [PEN_CALL_FAULT_##name] = word,
        PEN_CALL_FAULT_TABLE(FAULT_WORD)
#undef FAULT_WORD
    };
    return words[kind];
}

#define MOST_NAMED 6u

/* "rank 2", "ranks 2 and 3", "ranks 0, 1, 2, 3, 4, 5 and 58 more". */
static void add_ranks(const uint32_t *ranks, uint32_t count,
                      struct pen_text *out)
{
    uint32_t named = count <= MOST_NAMED + 1 ? count : MOST_NAMED;
    pen_text_add(out, count == 1 ? "rank" : "ranks");
    for (uint32_t i = 0; i < named; i++)
        pen_text_add(out, "%s%u",
                     i == 0                             ? " "
                     : i + 1 == named && named == count ? " and "
                                                        : ", ",
                     ranks[i]);
    if (named < count)
        pen_text_add(out, " and %u more", count - named);
}

static void add_site(const struct pen_meetings *meetings, uint32_t rank,
                     const struct pen_call *call, struct pen_text *out)
{
    const struct pen_call_rank *found = pen_calls_find(meetings->calls, rank);
    if (call->site != 0 && found != NULL)
        pen_text_add(out, " (%s)", found->texts.bytes + call->site);
}

static void add_call(const struct pen_meetings *meetings, uint32_t rank,
                     const struct pen_call *call, struct pen_text *out)
{
    pen_call_add_words(call, out);
    add_site(meetings, rank, call, out);
}

/* "#17 of group 0". */
static void add_place(const struct pen_meetings *meetings,
                      const struct pen_meeting *meeting, struct pen_text *out)
{
    pen_text_add(out, "#%llu of group %s", (unsigned long long)meeting->number,
                 meetings->calls->groups[meeting->group].name);
}

static void add_verb(const struct pen_call_fault *fault, const char *one,
                     const char *several, struct pen_text *out)
{
    add_ranks(fault->ranks, fault->num_ranks, out);
    pen_text_add(out, " %s ", fault->num_ranks == 1 ? one : several);
}

static void add_others(const struct pen_call_fault *fault, const char *one,
                       const char *several, struct pen_text *out)
{
    if (fault->num_waiting == 1)
        pen_text_add(out, "rank %u %s", fault->right_rank, one);
    else
        pen_text_add(out, "%u others %s", fault->num_waiting, several);
}

static void add_skipped(const struct pen_meetings *meetings,
                        const struct pen_call_fault *fault,
                        struct pen_text *out)
{
    add_verb(fault, "skipped", "skipped", out);
    add_place(meetings, fault->meeting, out);
    pen_text_add(out, ", ");
    add_call(meetings, fault->right_rank, fault->right, out);
    pen_text_add(out, ". %s next call, ",
                 fault->num_ranks == 1 ? "Its" : "Their");
    add_call(meetings, fault->ranks[0], fault->wrong, out);
    pen_text_add(out, ", meets the call that ");
    add_others(fault, "made", "made", out);
    pen_text_add(out, " before it");
}

static const char *difference(const struct pen_call *a,
                              const struct pen_call *b)
{
    if (a->op != b->op && !pen_call_op_is_message(a->op))
        return "another operation";
    return strcmp(a->data.dtype, b->data.dtype) != 0 ? "another type"
                                                     : "another shape";
}

static void add_mismatched(const struct pen_meetings *meetings,
                           const struct pen_call_fault *fault,
                           struct pen_text *out)
{
    add_verb(fault, "called", "called", out);
    if (fault->message != NULL)
        pen_text_add(out, "message %u to rank %u", fault->message->number,
                     fault->message->to);
    else
        add_place(meetings, fault->meeting, out);
    pen_text_add(out, " with %s: ", difference(fault->wrong, fault->right));
    add_call(meetings, fault->ranks[0], fault->wrong, out);
    pen_text_add(out, ", where ");
    add_others(fault, "called", "called", out);
    pen_text_add(out, " ");
    add_call(meetings, fault->right_rank, fault->right, out);
    if (fault->is_even)
        pen_text_add(out, ". As many ranks made one call as the other: either "
                          "may be wrong");
}

static void add_absent(const struct pen_meetings *meetings,
                       const struct pen_call_fault *fault, struct pen_text *out)
{
    add_verb(fault, "left no record:", "left no record:", out);
    pen_text_add(out, "%s died, or %s not given",
                 fault->num_ranks == 1 ? "it" : "they",
                 fault->num_ranks == 1 ? "its file was" : "their files were");
    if (fault->meeting == NULL)
        return;
    pen_text_add(out, ". The others came as far as ");
    add_place(meetings, fault->meeting, out);
    pen_text_add(out, ", ");
    add_call(meetings, fault->right_rank, fault->right, out);
}

static void add_stopped(const struct pen_meetings *meetings,
                        const struct pen_call_fault *fault,
                        struct pen_text *out)
{
    add_verb(fault, "never called", "never called", out);
    add_place(meetings, fault->meeting, out);
    pen_text_add(out, ", ");
    add_call(meetings, fault->right_rank, fault->right, out);
    pen_text_add(out, ", in which ");
    add_others(fault, "waits", "wait", out);
    if (fault->before == NULL) {
        pen_text_add(out, "; the record of rank %u is empty", fault->ranks[0]);
        return;
    }
    pen_text_add(out, "; the record of rank %u ends with ", fault->ranks[0]);
    if (!pen_call_op_is_message(fault->before->op))
        pen_text_add(out, "#%llu of group %s, ",
                     (unsigned long long)fault->before->number,
                     meetings->calls->groups[fault->before->group].name);
    add_call(meetings, fault->ranks[0], fault->before, out);
}

static void add_alone(const struct pen_meetings *meetings,
                      const struct pen_call_fault *fault, struct pen_text *out)
{
    bool is_unsent = fault->kind == PEN_CALL_FAULT_UNSENT;
    pen_text_add(out, "rank %u never %s message %u %s rank %u, which waits in ",
                 fault->ranks[0], is_unsent ? "sent" : "received",
                 fault->message->number, is_unsent ? "to" : "from",
                 fault->right_rank);
    add_call(meetings, fault->right_rank, fault->right, out);
}

static void add_stuck(const struct pen_meetings *meetings,
                      const struct pen_call_fault *fault, struct pen_text *out)
{
    pen_text_add(out, "all ranks made call ");
    add_place(meetings, fault->meeting, out);
    pen_text_add(out, ", ");
    pen_call_add_words(fault->right, out);
    pen_text_add(out,
                 ", alike, and it did not end on %u of them: look at links and "
                 "devices",
                 fault->num_waiting);
}

void pen_call_fault_add_words(const struct pen_meetings *meetings,
                              const struct pen_call_fault *fault,
                              struct pen_text *out)
{
    typedef void adder(const struct pen_meetings *,
                       const struct pen_call_fault *, struct pen_text *);
    static adder *const adders[PEN_CALL_FAULTS] = {
        [PEN_CALL_FAULT_SKIPPED] = add_skipped,
        [PEN_CALL_FAULT_MISMATCHED] = add_mismatched,
        [PEN_CALL_FAULT_ABSENT] = add_absent,
        [PEN_CALL_FAULT_STOPPED] = add_stopped,
        [PEN_CALL_FAULT_UNSENT] = add_alone,
        [PEN_CALL_FAULT_UNRECEIVED] = add_alone,
        [PEN_CALL_FAULT_STUCK] = add_stuck};
    adders[fault->kind](meetings, fault, out);
}
