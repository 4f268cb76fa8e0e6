/* The reports of a supervisor: events, and a line for each fault. */
#include "supervise/supervisor_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <inttypes.h>

/* Returns the last step that was not computed again after the fault. */
static int64_t resumed_from(const struct pen__supervisor *s)
{
    int64_t step = s->fault_step > 0 ? s->fault_step : 0;
    int64_t before = s->held.first - 1;
    return s->held.first != PEN_UNKNOWN && before < step ? before : step;
}

void pen__supervisor_tell(struct pen__supervisor *s, enum pen_event_kind kind,
                          const struct pen_fault *fault, double lost_sec,
                          const struct pen_last_words *evidence)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct pen_event event = {
        .kind = kind,
        .time_sec = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec,
        .epoch = s->epoch,
        .step = s->committed,
        .fault = fault,
        .lost_sec = lost_sec,
        .redone_steps = PEN_UNKNOWN,
        .num_ranks = s->num_ranks > 0 ? s->num_ranks : PEN_UNKNOWN,
        .from_ranks = PEN_UNKNOWN,
        .evidence = evidence};
    if (kind == PEN_EVENT_RESUMED && s->fault.step != PEN_UNKNOWN)
        event.redone_steps = s->fault.step - resumed_from(s);
    if (kind == PEN_EVENT_REPLAN) {
        event.num_ranks = s->fleet.num_ranks;
        event.from_ranks = s->from_ranks;
    }
    pen_events_add(&s->events, &event);
}

static double seconds_since(int64_t begin_ns)
{
    return 1e-9 * (double)(pen_clock_ns() - begin_ns);
}

/* Prints one line per fault: the cause, the reaction, the time it took. */
static void tell_resumed(struct pen__supervisor *s)
{
    struct pen_text line = PEN_TEXT_EMPTY;
    double lost_sec = seconds_since(s->fault_ns);
    pen_fault_print(&s->fault, &line);
    if (s->from_ranks != PEN_UNKNOWN)
        pen_text_add(&line, "; %" PRIu32 " ranks instead of %" PRId64,
                     s->fleet.num_ranks, s->from_ranks);
    if (resumed_from(s) > 0)
        pen_text_add(&line, "; restarted from step %" PRId64, resumed_from(s));
    else
        pen_text_add_string(&line, "; restarted from the beginning");
    pen_log(PEN_LOG_INFO,
            "%s (epoch %" PRIu64 "), step %" PRId64 " was committed %.2f s "
            "after the %s",
            pen_text_string(&line), s->epoch, s->committed, lost_sec,
            s->fault.cause == PEN_CAUSE_MORE_SLOTS ? "end of the last launch"
                                                   : "fault");
    pen_text_release(&line);
    pen__supervisor_tell(s, PEN_EVENT_RESUMED, NULL, lost_sec, NULL);
    s->has_fault = false;
}

/* Notes commits in memory or on the disk. */
void pen__supervisor_note_commits(struct pen__supervisor *s)
{
    int64_t step = pen_steps_newest(&s->steps);
    if (s->held.committed > step)
        step = s->held.committed;
    if ((int64_t)s->held.num_joined > s->num_ranks)
        s->num_ranks = s->held.num_joined;
    if (step <= s->committed)
        return;
    s->committed = step;
    s->has_progress = true;
    pen_progress_commit(&s->progress, pen_clock_ns());
    if (s->has_fault)
        tell_resumed(s);
}
