/*
 * Finds the first wrong or missing operation.
 *
 * In each group the meetings are looked at in order. The first one whose calls
 * differ is a fault of the ranks that differ from the majority; where there is
 * none, of those that differ from what the steps before repeat. A rank whose
 * record ends earlier than the others' is at fault only if no calls differ: a
 * record may be older than the hang, but two calls that differ are wrong in
 * any case. A collective that ended for any rank had all ranks.
 */
#include "calls/faults.h"

#include "base/room.h"
#include "base/sort.h"
#include "calls/history.h"

#include <stdlib.h>
#include <string.h>

/* The meetings of a group, and what its ranks recorded of it. */
struct course {
    const struct pen_meetings *meetings;
    const struct pen_call_group *group;
    const struct pen_meeting *list;
    size_t count;
    uint64_t *last; /* number of each line's last call; 0: none */
};

struct finder {
    const struct pen_meetings *meetings;
    struct pen_call_faults faults;
    size_t room;
};

static pen_status add_fault(struct finder *finder,
                            enum pen_call_fault_kind kind, size_t most_ranks,
                            struct pen_call_fault **out)
{
    if (finder->faults.count == finder->room) {
        size_t room = finder->room == 0 ? 8 : 2 * finder->room;
        struct pen_call_fault *again =
            pen_room_again(finder->faults.list, room, sizeof *again);
        if (again == NULL)
            return PEN_NOMEM;
        finder->faults.list = again;
        finder->room = room;
    }
    uint32_t *ranks = pen_room_zero(most_ranks + 1, sizeof *ranks);
    if (ranks == NULL)
        return PEN_NOMEM;
    *out = &finder->faults.list[finder->faults.count++];
    **out = (struct pen_call_fault){.kind = kind, .ranks = ranks};
    return PEN_OK;
}

static const struct pen_call *last_call(const struct pen_calls *calls,
                                        uint32_t rank)
{
    const struct pen_call_rank *found = pen_calls_find(calls, rank);
    return found == NULL || found->count == 0 ? NULL
                                              : &found->calls[found->count - 1];
}

/* ---- calls that differ */

static bool is_divided(const struct pen_meetings *meetings,
                       const struct pen_meeting *meeting)
{
    const struct pen_call *first = pen_meeting_call(meetings, meeting, 0);
    for (uint32_t i = 1; i < meeting->count; i++) {
        if (!pen__call_agrees(first, pen_meeting_call(meetings, meeting, i)))
            return true;
    }
    return false;
}

static uint32_t count_agreeing(const struct pen_meetings *meetings,
                               const struct pen_meeting *meeting,
                               const struct pen_call *call)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < meeting->count; i++)
        count += pen__call_agrees(call, pen_meeting_call(meetings, meeting, i));
    return count;
}

/* The next call, if the calls before this one, and then `more`, repeat. */
static const struct pen_call *expect(const struct course *course, size_t index,
                                     const struct pen_call *more)
{
    const struct pen_call *next = NULL;
    const struct pen_call **calls = pen_room(index + 1, sizeof *calls);
    if (calls == NULL)
        return NULL;
    for (size_t i = 0; i < index; i++)
        calls[i] = pen_meeting_call(course->meetings, &course->list[i], 0);
    calls[index] = more;
    next = pen__history_expect(calls, more == NULL ? index : index + 1);
    free(calls);
    return next;
}

/* The next call of the ranks that are right, as recorded or expected. */
static const struct pen_call *call_after(const struct course *course,
                                         size_t index, uint32_t right_rank,
                                         const struct pen_call *right)
{
    const struct pen_call *found = NULL;
    if (index + 1 < course->count)
        found = pen_meeting_find(course->meetings, &course->list[index + 1],
                                 right_rank);
    return found == NULL ? expect(course, index, right) : found;
}

static bool was_made(const struct course *course, size_t index,
                     const struct pen_call *call)
{
    for (size_t i = 0; i < index; i++) {
        if (pen__call_agrees(
                call, pen_meeting_call(course->meetings, &course->list[i], 0)))
            return true;
    }
    return false;
}

/*
 * Returns, where equally many ranks made each of two calls, whether the second
 * call is right. It is if earlier steps have it here, or have it before the
 * first call, so that the ranks of the first call skipped it; otherwise the
 * earlier call is.
 */
static bool is_second_right(const struct course *course, size_t index,
                            const struct pen_call *first,
                            const struct pen_call *second, bool *is_even)
{
    const struct pen_call *next = expect(course, index, NULL);
    *is_even = false;
    if (next != NULL && pen__call_agrees(next, first))
        return false;
    if (next != NULL && pen__call_agrees(next, second))
        return true;
    next = expect(course, index, first);
    if (next != NULL && pen__call_agrees(next, second))
        return false;
    next = expect(course, index, second);
    if (next != NULL && pen__call_agrees(next, first))
        return true;
    *is_even =
        was_made(course, index, first) == was_made(course, index, second);
    return !*is_even && was_made(course, index, second);
}

/* Finds the call that most ranks agree on. */
static uint32_t find_right(const struct course *course, size_t index,
                           bool *is_even)
{
    const struct pen_meetings *meetings = course->meetings;
    const struct pen_meeting *meeting = &course->list[index];
    const struct pen_call *best = pen_meeting_call(meetings, meeting, 0);
    uint32_t most = count_agreeing(meetings, meeting, best);
    uint32_t right = 0;
    *is_even = false;
    for (uint32_t i = 1; i < meeting->count; i++) {
        const struct pen_call *call = pen_meeting_call(meetings, meeting, i);
        if (pen__call_agrees(best, call))
            continue;
        uint32_t count = count_agreeing(meetings, meeting, call);
        if (count > most)
            *is_even = false;
        if (count > most ||
            (count == most &&
             is_second_right(course, index, best, call, is_even))) {
            best = call;
            most = count;
            right = i;
        }
    }
    return right;
}

static pen_status add_divided(struct finder *finder,
                              const struct course *course, size_t index)
{
    const struct pen_meetings *meetings = course->meetings;
    const struct pen_meeting *meeting = &course->list[index];
    struct pen_call_fault *fault;
    pen_status status =
        add_fault(finder, PEN_CALL_FAULT_MISMATCHED, meeting->count, &fault);
    if (status != PEN_OK)
        return status;
    uint32_t right = find_right(course, index, &fault->is_even);
    fault->meeting = meeting;
    fault->right = pen_meeting_call(meetings, meeting, right);
    fault->right_rank = pen_meeting_rank(meetings, meeting, right)->rank;
    for (uint32_t i = 0; i < meeting->count; i++) {
        const struct pen_call *call = pen_meeting_call(meetings, meeting, i);
        if (pen__call_agrees(fault->right, call)) {
            fault->num_waiting++;
            continue;
        }
        if (fault->num_ranks == 0)
            fault->wrong = call;
        fault->ranks[fault->num_ranks++] =
            pen_meeting_rank(meetings, meeting, i)->rank;
    }
    const struct pen_call *after =
        call_after(course, index, fault->right_rank, fault->right);
    if (after != NULL && pen__call_agrees(after, fault->wrong))
        fault->kind = PEN_CALL_FAULT_SKIPPED;
    return PEN_OK;
}

/* ---- calls that are not there */

/* Returns whether it ended for one rank, and thereby for all of them. */
static bool has_ended(const struct pen_meetings *meetings,
                      const struct pen_meeting *meeting)
{
    for (uint32_t i = 0; i < meeting->count; i++) {
        const struct pen_call *call = pen_meeting_call(meetings, meeting, i);
        if (call->state == PEN_CALL_DONE)
            return true;
    }
    return false;
}

/*
 * Returns whether a rank that lost calls, and has none of this group, may have
 * made them.
 */
static bool is_short(const struct course *course, uint32_t rank,
                     uint64_t number)
{
    const struct pen_calls *calls = course->meetings->calls;
    const struct pen_call_rank *found = pen_calls_find(calls, rank);
    if (found == NULL)
        return false;
    uint64_t last = course->last[found - calls->ranks];
    return last < number && (last > 0 || found->num_lost == 0);
}

/* Returns the first meeting that a rank never came to; false where all came. */
static bool find_short(const struct course *course, size_t *out)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < course->group->count; i++) {
        const struct pen_calls *calls = course->meetings->calls;
        uint32_t rank = course->group->ranks[i];
        const struct pen_call_rank *found = pen_calls_find(calls, rank);
        if (found != NULL && is_short(course, rank, UINT64_MAX) &&
            course->last[found - calls->ranks] < least)
            least = course->last[found - calls->ranks];
    }
    for (size_t i = 0; i < course->count; i++) {
        if (course->list[i].number <= least)
            continue;
        *out = i;
        return !has_ended(course->meetings, &course->list[i]);
    }
    return false;
}

static pen_status add_short(struct finder *finder, const struct course *course,
                            size_t index)
{
    const struct pen_meeting *meeting = &course->list[index];
    const struct pen_call_group *group = course->group;
    struct pen_call_fault *fault;
    pen_status status =
        add_fault(finder, PEN_CALL_FAULT_STOPPED, group->count, &fault);
    if (status != PEN_OK)
        return status;
    fault->meeting = meeting;
    fault->right = pen_meeting_call(course->meetings, meeting, 0);
    fault->right_rank = pen_meeting_rank(course->meetings, meeting, 0)->rank;
    fault->num_waiting = meeting->count;
    for (uint32_t i = 0; i < group->count; i++) {
        if (is_short(course, group->ranks[i], meeting->number))
            fault->ranks[fault->num_ranks++] = group->ranks[i];
    }
    fault->before = last_call(course->meetings->calls, fault->ranks[0]);
    return PEN_OK;
}

/*
 * Returns whether the recorder notes ends of calls at all; gloo's never does.
 */
static bool knows_ends(const struct course *course)
{
    for (size_t i = 0; i < course->count; i++) {
        if (has_ended(course->meetings, &course->list[i]))
            return true;
    }
    return false;
}

/* Adds a fault where all came to the last meeting, and none noted its end. */
static pen_status add_stuck(struct finder *finder, const struct course *course)
{
    const struct pen_meeting *meeting = &course->list[course->count - 1];
    struct pen_call_fault *fault;
    uint32_t pending = 0;
    for (uint32_t i = 0; i < meeting->count; i++)
        pending += pen_meeting_call(course->meetings, meeting, i)->state ==
                   PEN_CALL_PENDING;
    if (pending < meeting->count || !knows_ends(course))
        return PEN_OK;
    pen_status status = add_fault(finder, PEN_CALL_FAULT_STUCK, 0, &fault);
    if (status != PEN_OK)
        return status;
    fault->meeting = meeting;
    fault->num_waiting = pending;
    fault->right = pen_meeting_call(course->meetings, meeting, 0);
    return PEN_OK;
}

static pen_status look_at(struct finder *finder, const struct course *course)
{
    size_t index;
    for (index = 0; index < course->count; index++) {
        if (is_divided(course->meetings, &course->list[index]))
            return add_divided(finder, course, index);
    }
    if (find_short(course, &index))
        return add_short(finder, course, index);
    return add_stuck(finder, course);
}

static pen_status look_at_groups(struct finder *finder)
{
    const struct pen_meetings *meetings = finder->meetings;
    uint32_t num_ranks = meetings->calls->num_ranks;
    uint64_t *last = pen_room(num_ranks + 1u, sizeof *last);
    pen_status status = last == NULL ? PEN_NOMEM : PEN_OK;
    for (size_t i = 0; i < meetings->count && status == PEN_OK;) {
        struct course course = {
            .meetings = meetings,
            .group = &meetings->calls->groups[meetings->list[i].group],
            .list = &meetings->list[i],
            .last = last};
        memset(last, 0, num_ranks * sizeof *last);
        for (; i < meetings->count &&
               meetings->list[i].group == course.list->group;
             i++) {
            const struct pen_meeting *meeting = &meetings->list[i];
            for (uint32_t k = 0; k < meeting->count; k++)
                last[meetings->refs[meeting->first + k].line] = meeting->number;
            course.count++;
        }
        status = look_at(finder, &course);
    }
    free(last);
    return status;
}

static bool is_member(const struct pen_call_group *group, uint32_t rank)
{
    for (uint32_t i = 0; i < group->count; i++) {
        if (group->ranks[i] == rank)
            return true;
    }
    return false;
}

/* The first meeting with the rank that is the last of another. */
static const struct pen_meeting *find_last(const struct pen_meetings *meetings,
                                           uint32_t rank)
{
    const struct pen_call_group *groups = meetings->calls->groups;
    for (size_t i = 0; i < meetings->count; i++) {
        const struct pen_meeting *meeting = &meetings->list[i];
        bool is_last = i + 1 == meetings->count ||
                       meeting[1].group != meeting->group ||
                       meeting[1].count < meeting->count;
        if (is_last && is_member(&groups[meeting->group], rank))
            return meeting;
    }
    return NULL;
}

/* Judges ranks of the job that have no file. */
static pen_status look_at_absent(struct finder *finder)
{
    const struct pen_meetings *meetings = finder->meetings;
    const struct pen_calls *calls = meetings->calls;
    struct pen_call_fault *fault;
    if (calls->num_ranks >= calls->world)
        return PEN_OK;
    pen_status status = add_fault(finder, PEN_CALL_FAULT_ABSENT,
                                  calls->world - calls->num_ranks, &fault);
    if (status != PEN_OK)
        return status;
    for (uint32_t rank = 0; rank < calls->world; rank++) {
        if (pen_calls_find(calls, rank) == NULL)
            fault->ranks[fault->num_ranks++] = rank;
    }
    fault->meeting =
        fault->num_ranks == 0 ? NULL : find_last(meetings, fault->ranks[0]);
    if (fault->meeting != NULL) {
        fault->num_waiting = fault->meeting->count;
        fault->right = pen_meeting_call(meetings, fault->meeting, 0);
        fault->right_rank = pen_meeting_rank(meetings, fault->meeting, 0)->rank;
    }
    return PEN_OK;
}

/* ---- links */

static bool has_all(const struct pen_calls *calls, uint32_t rank)
{
    const struct pen_call_rank *found = pen_calls_find(calls, rank);
    return found != NULL && found->num_lost == 0;
}

/* Returns whether the two ends of a message do not fit, and how. */
static bool find_mismatch(const struct pen_message *message,
                          enum pen_call_fault_kind *kind)
{
    if (message->send != NULL && message->recv != NULL) {
        struct pen_call same = *message->recv;
        same.op = PEN_CALL_SEND;
        *kind = PEN_CALL_FAULT_MISMATCHED;
        return !pen__call_agrees(message->send, &same);
    }
    const struct pen_call *alone =
        message->send == NULL ? message->recv : message->send;
    *kind = message->send == NULL ? PEN_CALL_FAULT_UNSENT
                                  : PEN_CALL_FAULT_UNRECEIVED;
    return alone->state != PEN_CALL_DONE;
}

/* Adds a fault for the first mismatch of each link. */
static pen_status check_links(struct finder *finder)
{
    const struct pen_meetings *meetings = finder->meetings;
    const struct pen_message *last_fault = NULL;
    for (size_t i = 0; i < meetings->num_messages; i++) {
        const struct pen_message *message = &meetings->messages[i];
        enum pen_call_fault_kind kind;
        struct pen_call_fault *fault;
        if ((last_fault != NULL && last_fault->from == message->from &&
             last_fault->to == message->to) ||
            !has_all(meetings->calls, message->from) ||
            !has_all(meetings->calls, message->to) ||
            !find_mismatch(message, &kind))
            continue;
        pen_status status = add_fault(finder, kind, 1, &fault);
        if (status != PEN_OK)
            return status;
        last_fault = message;
        bool is_receiver = kind == PEN_CALL_FAULT_UNRECEIVED;
        fault->message = message;
        fault->ranks[fault->num_ranks++] =
            is_receiver ? message->to : message->from;
        fault->right_rank = is_receiver ? message->from : message->to;
        fault->num_waiting = 1;
        fault->wrong = is_receiver ? message->recv : message->send;
        fault->right = is_receiver ? message->send : message->recv;
        fault->before = last_call(meetings->calls, fault->ranks[0]);
    }
    return PEN_OK;
}

/* ---- the cause */

/* Returns whether this fault keeps the rank's last call from ending. */
static bool waits_in(const struct pen_meetings *meetings,
                     const struct pen_call_fault *fault, uint32_t rank)
{
    const struct pen_call *last = last_call(meetings->calls, rank);
    if (last == NULL || last->state == PEN_CALL_DONE)
        return false;
    if (fault->message != NULL)
        return last == fault->right;
    for (uint32_t i = 0; fault->meeting != NULL && i < fault->meeting->count;
         i++) {
        if (pen_meeting_call(meetings, fault->meeting, i) == last)
            return true;
    }
    return false;
}

static void explain(const struct finder *finder)
{
    const struct pen_call_faults *faults = &finder->faults;
    for (size_t i = 0; i < faults->count; i++) {
        struct pen_call_fault *fault = &faults->list[i];
        bool is_later = fault->kind > PEN_CALL_FAULT_ABSENT &&
                        fault->kind != PEN_CALL_FAULT_STUCK;
        for (size_t k = 0; is_later && k < faults->count; k++) {
            if (k != i &&
                waits_in(finder->meetings, &faults->list[k], fault->ranks[0]))
                fault->is_explained = true;
        }
    }
}

static int64_t begin_of(const struct pen_call_fault *fault)
{
    return fault->right == NULL ? INT64_MAX : fault->right->begin_ns;
}

static int compare_faults(const void *a, const void *b)
{
    const struct pen_call_fault *x = a;
    const struct pen_call_fault *y = b;
    bool x_differs = x->kind <= PEN_CALL_FAULT_MISMATCHED;
    bool y_differs = y->kind <= PEN_CALL_FAULT_MISMATCHED;
    if (x->is_explained != y->is_explained)
        return x->is_explained ? 1 : -1;
    if (!(x_differs && y_differs) && x->kind != y->kind)
        return x->kind > y->kind ? 1 : -1;
    return (begin_of(x) > begin_of(y)) - (begin_of(x) < begin_of(y));
}

pen_status pen_call_faults_find(const struct pen_meetings *meetings,
                                struct pen_call_faults *out,
                                struct pen_text *why)
{
    struct finder finder = {.meetings = meetings};
    pen_status status = look_at_groups(&finder);
    if (status == PEN_OK)
        status = look_at_absent(&finder);
    if (status == PEN_OK)
        status = check_links(&finder);
    if (status != PEN_OK) {
        pen_why(why, "out of memory for the faults of %u ranks",
                meetings->calls->num_ranks);
        pen_call_faults_release(&finder.faults);
        return status;
    }
    explain(&finder);
    pen_sort_few(finder.faults.list, finder.faults.count,
                 sizeof *finder.faults.list, compare_faults);
    *out = finder.faults;
    return PEN_OK;
}

void pen_call_faults_release(struct pen_call_faults *faults)
{
    for (size_t i = 0; i < faults->count; i++)
        free(faults->list[i].ranks);
    free(faults->list);
    *faults = (struct pen_call_faults){.list = NULL};
}
