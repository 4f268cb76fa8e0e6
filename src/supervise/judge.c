/* Whether a launch is over or has to be ended, and for which cause. */
#include "supervise/supervisor_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "watch/watchdog.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define WORDS_NS (60 * MS)   /* for the last words of the other ranks */
#define DYING_NS (500 * MS)  /* for the end of a launcher that is killed */
#define REASON_NS (200 * MS) /* for the reason of an end that is unknown */
#define STOPPED_NS (1 * SEC) /* a stopped process is certain */
#define ENDING_NS (5 * SEC)  /* for the launcher after a rank's bad end */
#define DESERTED_NS                                                            \
    (30 * SEC) /* for the launcher after the last rank's end                   \
                */

static void add_words(struct pen_fault *fault,
                      const struct pen_last_words *words)
{
    const struct pen_fault *told = &words->fault;
    if (!words->is_told)
        return;
    if (fault->rank == PEN_UNKNOWN)
        fault->rank = told->rank;
    if (fault->rank != told->rank)
        return;
    if (fault->signal == PEN_UNKNOWN)
        fault->signal = told->signal;
    if (fault->exit_code == PEN_UNKNOWN && fault->signal == PEN_UNKNOWN)
        fault->exit_code = told->exit_code;
    fault->step = told->step;
    memcpy(fault->op, told->op, sizeof fault->op);
}

/* Gives the other ranks a moment to report where it happened. */
static void await_words(struct pen__supervisor *s)
{
    int64_t end = pen_clock_ns() + WORDS_NS;
    while (!s->now.words.is_told && !s->now.has_ended && pen_clock_ns() < end)
        pen__supervisor_wait(s, 5);
}

/*
 * Returns whether the launcher was killed. A dying launcher closes its
 * connections before its end is seen, which may have killed ranks by then: a
 * launcher that is neither asleep nor gone is given a moment.
 */
static bool is_launcher_killed(struct pen__supervisor *s)
{
    int64_t end = pen_clock_ns() + DYING_NS;
    while (!s->now.has_ended && pen_clock_ns() < end &&
           pen__process_read(s->now.pid).state != 'S')
        pen__supervisor_wait(s, 5);
    return s->now.has_ended && WIFSIGNALED(s->now.status);
}

static bool judge_end(struct pen__supervisor *s, struct pen_fault *fault)
{
    if (!s->now.has_ended)
        return false;
    pen_child_read(&s->now);
    pen_fault_read_status(fault, s->now.status, s->now.words.error);
    if (fault->cause == PEN_CAUSE_RANK_DIED || fault->cause == PEN_CAUSE_HANG)
        add_words(fault, &s->now.words);
    return true;
}

/*
 * Judges by the last words of ranks or their watchdogs; an error ends the
 * launch by itself.
 */
static bool judge_words(struct pen__supervisor *s, struct pen_fault *fault)
{
    const struct pen_last_words *words = &s->now.words;
    if (!words->is_told || words->error[0] != '\0')
        return false;
    if (words->fault.signal == PEN_UNKNOWN && s->ending_ns == 0)
        s->ending_ns = pen_clock_ns(); /* an exit, whose reason may follow */
    if (words->fault.signal == PEN_UNKNOWN &&
        words->fault.cause == PEN_CAUSE_RANK_DIED &&
        (words->fault.exit_code != PEN_UNKNOWN ||
         pen_clock_ns() - s->ending_ns < REASON_NS))
        return false;
    fault->cause = words->fault.cause;
    add_words(fault, words);
    return true;
}

/*
 * Returns whether a rank has ended, or said why it ends, for a reason of its
 * own.
 */
static bool has_reason(const struct pen__supervisor *s)
{
    for (size_t i = 0; i < s->family.count; i++) {
        const struct pen_member *member = &s->family.members[i];
        if (member->rank == PEN_UNKNOWN || !member->has_ended ||
            !member->has_status || !WIFEXITED(member->status))
            continue;
        int code = WEXITSTATUS(member->status);
        if (code != 0 && code != PEN_EXIT_PEER_DIED && code != PEN_EXIT_HANG)
            return true;
    }
    return s->now.words.error[0] != '\0';
}

/*
 * Judges the end of a member. A launcher kills the other ranks of one that ends
 * with an error.
 */
static bool judge_member(struct pen__supervisor *s, struct pen_member *member,
                         struct pen_fault *fault)
{
    if (member->rank == PEN_UNKNOWN || !member->has_ended || member->is_noted)
        return false;
    member->is_noted = true;
    if (!member->has_status || member->pid == s->now.pid ||
        (WIFEXITED(member->status) && WEXITSTATUS(member->status) == 0))
        return false;
    if (WIFEXITED(member->status)) {
        if (s->ending_ns == 0)
            s->ending_ns = pen_clock_ns();
        return false;
    }
    await_words(s);
    if (is_launcher_killed(s))
        return judge_end(s, fault);
    if (has_reason(s)) {
        if (s->ending_ns == 0)
            s->ending_ns = pen_clock_ns();
        return false;
    }
    fault->cause = PEN_CAUSE_RANK_DIED;
    fault->rank = member->rank;
    fault->signal = WTERMSIG(member->status);
    add_words(fault, &s->now.words);
    return true;
}

/*
 * Judges by the holder. Ranks that refuse to resume end like this, too, and say
 * so.
 */
static bool judge_memory(struct pen__supervisor *s, struct pen_fault *fault)
{
    if (s->held.is_lost) {
        fault->cause = PEN_CAUSE_HOLDER_DIED;
        return true;
    }
    if (s->held.gone == PEN_UNKNOWN || s->ending_ns != 0)
        return false;
    await_words(s);
    if (s->now.has_ended)
        return judge_end(s, fault);
    /* The others report a death at once; ranks that all end have a reason. */
    if (s->now.words.error[0] != '\0' || !s->now.words.is_told ||
        s->now.words.fault.exit_code != PEN_UNKNOWN) {
        s->ending_ns = pen_clock_ns();
        return false;
    }
    fault->cause = PEN_CAUSE_RANK_DIED;
    fault->rank = s->held.gone;
    add_words(fault, &s->now.words);
    return true;
}

/* Judges stopped ranks. A job that was stopped as a whole is left alone. */
static bool judge_stopped(const struct pen__supervisor *s,
                          struct pen_fault *fault)
{
    const struct pen_member *stopped = NULL;
    bool has_others = false;
    for (size_t i = 0; i < s->family.count; i++) {
        const struct pen_member *member = &s->family.members[i];
        if (member->has_ended ||
            (member->rank == PEN_UNKNOWN && member->pid != s->now.pid))
            continue;
        if (member->stopped_ns == 0)
            has_others |= member->rank != PEN_UNKNOWN;
        else if (s->look_ns - member->stopped_ns >= STOPPED_NS &&
                 (stopped == NULL || member->rank != PEN_UNKNOWN))
            stopped = member;
    }
    if (stopped == NULL || !has_others)
        return false;
    fault->cause = stopped->rank == PEN_UNKNOWN ? PEN_CAUSE_LAUNCHER_STOPPED
                                                : PEN_CAUSE_RANK_STOPPED;
    fault->rank = stopped->rank;
    return true;
}

/* Judges a launcher that does not end although its ranks have. */
static bool judge_deserted(struct pen__supervisor *s, struct pen_fault *fault)
{
    int64_t now_ns = pen_clock_ns();
    bool is_deserted = s->num_ranks > 0 && pen_family_ranks(&s->family) == 0;
    if (!is_deserted)
        s->deserted_ns = 0;
    else if (s->deserted_ns == 0)
        s->deserted_ns = now_ns;
    if ((s->ending_ns == 0 || now_ns - s->ending_ns < ENDING_NS) &&
        (s->deserted_ns == 0 || now_ns - s->deserted_ns < DESERTED_NS))
        return false;
    fault->rank = s->held.gone;
    fault->cause =
        fault->rank == PEN_UNKNOWN ? PEN_CAUSE_HANG : PEN_CAUSE_RANK_DIED;
    return true;
}

static bool judge_progress(struct pen__supervisor *s, struct pen_fault *fault)
{
    switch (pen_progress_judge(&s->progress, pen_clock_ns())) {
    case PEN_PROGRESS_WARN:
        pen_log(PEN_LOG_WARN, "no process of the training has used processor "
                              "time for a minute");
        return false;
    case PEN_PROGRESS_STUCK:
        fault->cause = PEN_CAUSE_NO_PROGRESS;
        fault->step = s->committed;
        return true;
    default:
        return false;
    }
}

/*
 * Returns whether a step was committed since the first call: in memory if that
 * has all ranks, else on the disk, where the ranks are asked to save one.
 */
static bool has_new_commit(struct pen__supervisor *s)
{
    /* A commit is reported only where all ranks have a holder on their node. */
    bool is_held =
        s->held.committed != PEN_UNKNOWN ||
        (s->held.num_joined > 0 && s->held.num_joined == s->held.num_ranks);
    int64_t step = is_held ? s->held.committed : pen_steps_newest(&s->steps);
    if (s->awaits_commit)
        return step > s->more_step;
    s->awaits_commit = true;
    s->more_step = step;
    if (!is_held)
        pen__supervisor_forward(s, SIGUSR1);
    return false;
}

static bool judge_nodes(struct pen__supervisor *s, struct pen_fault *fault)
{
    if (s->fleet.verdict == PEN_FLEET_GONE) {
        fault->cause = PEN_CAUSE_NODE_GONE;
        return true;
    }
    if (s->fleet.verdict == PEN_FLEET_SAME)
        s->awaits_commit = false;
    /* Ranks that start do not handle SIGUSR1 yet. */
    else if (s->has_progress && has_new_commit(s)) {
        fault->cause = PEN_CAUSE_MORE_SLOTS;
        return true;
    }
    return false;
}

bool pen__supervisor_judge(struct pen__supervisor *s, struct pen_fault *fault)
{
    *fault = (struct pen_fault)PEN_FAULT_UNKNOWN;
    if (judge_end(s, fault))
        return true;
    if (s->asked != 0)
        return false;
    for (size_t i = 0; i < s->family.count; i++)
        if (judge_member(s, &s->family.members[i], fault))
            return true;
    return judge_words(s, fault) || judge_memory(s, fault) ||
           judge_stopped(s, fault) || judge_deserted(s, fault) ||
           judge_progress(s, fault) || judge_nodes(s, fault);
}
