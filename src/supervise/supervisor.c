/*
 * One loop around the launches of a command.
 *
 *   start ─► running ─ ended with 0 ─────────────────────────────► end
 *     ▲         │  a rank or the launcher died, was stopped, hangs
 *     │         ▼
 *     │      fence: SIGKILL to all processes of the launch; wait for each
 *     │         ▼
 *     ├─ yes ─ policy: is it worth a restart? ─ no ──────────────► give up
 *     │
 *     └─ with --nodes-from: asks for nodes, and waits until there is a slot
 *
 * S1. A launch begins when no process of the one before lives on this node,
 *     but for a launcher that tidies up: it has no ranks and gets no new ones.
 * S2. Epochs only grow, also from one supervisor of a run to the next.
 * S3. Nothing is left when the supervisor ends: no process, session folder or
 *     shared memory of a launch.
 * S4. Nothing in the loop waits without a limit, but for the first slot.
 * S5. A launch ends for more ranks only after a commit, so that no step is
 *     computed again.
 */
#include "supervise/supervisor_internal.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define TICK_MS 50
#define SCAN_YOUNG_NS (100 * MS) /* while a launch starts its ranks */
#define SCAN_NS (2 * SEC)
#define YOUNG_NS (10 * SEC)
#define LOOK_NS (200 * MS)
#define WORK_NS (5 * SEC)
#define TIDY_NS (10 * SEC)
#define KILL_NS (60 * SEC)
/* without a new process for this time, all have started */
#define SETTLED_NS (1 * SEC)

enum { NUM_FIXED_ENDS = 4 };
/* ---- processes ---- */

static void update_others(struct pen__supervisor *s)
{
    s->others[0] = s->held.holder.pid;
    s->others[1] = s->fleet.asker.pid;
    s->family.num_others = 2;
    for (size_t i = 0; i < s->num_old; i++)
        s->others[s->family.num_others++] = s->old[i].pid;
    s->family.others = s->others;
}

/* Launchers that tidy up: reads, collects, and ends those that are late. */
static void tend_old(struct pen__supervisor *s)
{
    int64_t now_ns = pen_clock_ns();
    for (size_t i = 0; i < s->num_old;) {
        struct pen_child *child = &s->old[i];
        pen_child_read(child);
        pen_child_collect(child);
        if (!child->has_ended && now_ns > child->deadline_ns)
            kill(child->pid, SIGKILL);
        if (!child->has_ended) {
            i++;
            continue;
        }
        pen_child_release(child);
        s->old[i] = s->old[--s->num_old];
        update_others(s);
    }
}

/* Orphans that were given to this process, and have ended. */
static void collect_orphans(const struct pen__supervisor *s)
{
    for (size_t i = 0; i < s->family.count; i++)
        if (s->family.members[i].has_ended &&
            s->family.members[i].pid != s->now.pid)
            waitpid(s->family.members[i].pid, NULL, WNOHANG);
}

static void scan(struct pen__supervisor *s, int64_t now_ns)
{
    size_t before = s->family.count;
    if (pen_family_scan(&s->family) != PEN_OK)
        return;
    if (s->family.count > before)
        s->grown_ns = now_ns;
    int64_t ranks = (int64_t)pen_family_ranks(&s->family);
    if (ranks > s->num_ranks)
        s->num_ranks = ranks;
    pen_leftovers_note(&s->now.leftovers, &s->family);
    s->scan_ns = now_ns;
}

static void read_work(struct pen__supervisor *s, int64_t now_ns)
{
    int64_t sum_ns = 0;
    for (size_t i = 0; i < s->family.count; i++) {
        const struct pen_member *member = &s->family.members[i];
        if (member->has_ended)
            continue;
        struct pen__process_work work = pen__process_read_work(member->pid, 0);
        sum_ns += work.cpu_ns + work.queue_ns;
    }
    pen_progress_work(&s->progress, sum_ns, now_ns);
    s->work_ns = now_ns;
}

/* Takes in everything that is due now, without judging it. */
static void look(struct pen__supervisor *s)
{
    int64_t now_ns = pen_clock_ns();
    /* This process was stopped itself: its earlier observations are old. */
    if (now_ns - s->tick_ns > SEC)
        for (size_t i = 0; i < s->family.count; i++)
            s->family.members[i].stopped_ns = 0;
    s->tick_ns = now_ns;
    int64_t pause_ns =
        now_ns - s->now.start_ns < YOUNG_NS || now_ns - s->grown_ns < SETTLED_NS
            ? SCAN_YOUNG_NS
            : SCAN_NS;
    if (now_ns - s->scan_ns >= pause_ns)
        scan(s, now_ns);
    if (now_ns - s->look_ns >= LOOK_NS) {
        pen_family_look(&s->family, now_ns);
        s->look_ns = now_ns;
    }
    if (now_ns - s->work_ns >= WORK_NS)
        read_work(s, now_ns);
    pen__supervisor_note_commits(s);
}

/* ---- signals ---- */

static void kill_all(struct pen__supervisor *s, pid_t spared)
{
    scan(s, pen_clock_ns());
    if (!pen_family_kill(&s->family, spared, KILL_NS))
        pen_log(PEN_LOG_WARN, "a process of the training does not end, it is "
                              "in a system call that does not return");
    collect_orphans(s);
}

/*
 * Forwards a signal. Ranks save and agree on the end; launchers would kill them
 * after a second.
 */
void pen__supervisor_forward(struct pen__supervisor *s, int number)
{
    bool has_ranks = false;
    for (size_t i = 0; i < s->family.count; i++) {
        const struct pen_member *member = &s->family.members[i];
        if (member->rank == PEN_UNKNOWN || member->has_ended)
            continue;
        has_ranks = true;
        kill(member->pid, number);
    }
    if (!has_ranks && s->now.pid > 0 && !s->now.has_ended)
        kill(s->now.pid, number);
}

static void take_signals(struct pen__supervisor *s)
{
    struct signalfd_siginfo info;
    while (read(s->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        int number = (int)info.ssi_signo;
        if (number == SIGCHLD)
            continue;
        if (number == SIGINT && s->asked == SIGINT) {
            kill_all(s, 0);
            continue;
        }
        if (number == SIGHUP)
            number = SIGTERM;
        if (number != SIGUSR1)
            s->asked = number;
        scan(s, pen_clock_ns());
        pen__supervisor_forward(s, number);
    }
}

/* ---- waiting ---- */

static void note_ends(struct pen__supervisor *s, const struct pollfd *ends)
{
    for (size_t i = 0; i < s->family.count; i++)
        if (!s->family.members[i].has_ended && (ends[i].revents & POLLIN))
            pen_member_note_end(&s->family.members[i]);
}

/* Waits until something happens, or until the limit. */
void pen__supervisor_wait(struct pen__supervisor *s, int limit_ms)
{
    size_t count = s->family.count, others = 0;
    struct pollfd *ends =
        calloc(count + NUM_FIXED_ENDS + PEN__MOST_OLD, sizeof *ends);
    if (ends == NULL) {
        poll(NULL, 0, limit_ms);
        return;
    }
    for (size_t i = 0; i < count; i++)
        ends[i] = (struct pollfd){
            s->family.members[i].has_ended ? -1 : s->family.members[i].handle,
            POLLIN, 0};
    ends[count + others++] = (struct pollfd){s->signals, POLLIN, 0};
    if (s->now.pid > 0)
        ends[count + others++] = (struct pollfd){s->now.words_end, POLLIN, 0};
    ends[count + others++] = (struct pollfd){
        s->held.is_lost ? -1 : s->held.holder.events, POLLIN, 0};
    ends[count + others++] = (struct pollfd){s->fleet.asker.end, POLLIN, 0};
    for (size_t i = 0; i < s->num_old; i++)
        ends[count + others++] =
            (struct pollfd){s->old[i].words_end, POLLIN, 0};
    if (poll(ends, (nfds_t)(count + others), limit_ms) > 0)
        note_ends(s, ends);
    free(ends);
    if (s->now.pid > 0) {
        pen_child_read(&s->now);
        pen_child_collect(&s->now);
    }
    pen_held_read(&s->held);
    tend_old(s);
    pen_fleet_tend(&s->fleet);
    update_others(s);
    collect_orphans(s);
    take_signals(s);
}

/* ---- one launch ---- */

/* Asks which nodes there are, until there is a slot or the end is asked for. */
static void await_slots(struct pen__supervisor *s)
{
    uint64_t num_answers = s->fleet.num_answers;
    pen_fleet_ask(&s->fleet);
    while (s->asked == 0 && s->fleet.num_answers == num_answers)
        pen__supervisor_wait(s, TICK_MS);
    if (s->asked == 0 && pen_fleet_size(&s->fleet) == 0)
        pen_log(PEN_LOG_WARN,
                "--nodes-from lists too few slots for a launch; waiting for "
                "more");
    while (s->asked == 0 && pen_fleet_size(&s->fleet) == 0)
        pen__supervisor_wait(s, TICK_MS);
}

/* Chooses the nodes and the number of ranks of the next launch. */
static pen_status place(struct pen__supervisor *s)
{
    uint32_t before = s->fleet.num_ranks;
    s->from_ranks = PEN_UNKNOWN;
    if (s->options->fleet.command == NULL)
        return PEN_OK;
    await_slots(s);
    if (s->asked != 0)
        return PEN_OK;
    pen_status status = pen_fleet_place(&s->fleet, s->options->command);
    if (status != PEN_OK || before == 0 || before == s->fleet.num_ranks)
        return status;
    struct pen_fault reason = PEN_FAULT_UNKNOWN;
    reason.cause = s->fault.cause;
    s->from_ranks = before;
    pen__supervisor_tell(s, PEN_EVENT_REPLAN, &reason, NAN, NULL);
    return PEN_OK;
}

static pen_status begin(struct pen__supervisor *s, struct pen_text *why)
{
    pen_status status = PEN_OK;
    if (s->epoch > s->held.epoch)
        status = pen_held_advance(&s->held, s->epoch, why);
    if (status != PEN_OK)
        return status;
    update_others(s);
    s->num_ranks = 0;
    s->has_progress = s->awaits_commit = false;
    s->ending_ns = s->deserted_ns = 0;
    status = pen_child_start(
        &s->now, s->fleet.words != NULL ? s->fleet.words : s->options->command,
        s->epoch, pen_text_string(&s->held.path), why);
    int64_t now_ns = pen_clock_ns();
    s->tick_ns = s->look_ns = s->work_ns = s->grown_ns = now_ns;
    s->scan_ns = 0;
    pen_progress_start(&s->progress, now_ns);
    return status;
}

/*
 * Returns whether the launcher may clean up by itself: it will start nothing
 * more.
 */
static bool may_tidy(const struct pen__supervisor *s,
                     const struct pen_fault *fault)
{
    bool is_launcher = fault->cause == PEN_CAUSE_LAUNCHER_STOPPED ||
                       fault->cause == PEN_CAUSE_LAUNCHER_DIED;
    for (size_t i = 0; i < s->family.count; i++)
        if (s->family.members[i].pid == s->now.pid &&
            (s->family.members[i].state == 'T' ||
             s->family.members[i].rank != PEN_UNKNOWN))
            return false;
    return !is_launcher && !s->now.has_ended && s->num_old < PEN__MOST_OLD &&
           pen_clock_ns() - s->grown_ns > SETTLED_NS && s->num_ranks > 0;
}

/* Ends all of a launch; when it returns no rank of it lives (S1). */
static void fence(struct pen__supervisor *s, const struct pen_fault *fault)
{
    bool tidies = may_tidy(s, fault);
    s->now.is_silent = true;
    kill_all(s, tidies ? s->now.pid : 0);
    pen_child_collect(&s->now);
    if (!tidies)
        while (!s->now.has_ended)
            pen__supervisor_wait(s, 5);
    pen_family_release(&s->family);
    if (s->now.has_ended) {
        pen_child_release(&s->now);
        return;
    }
    s->now.deadline_ns = pen_clock_ns() + TIDY_NS;
    s->old[s->num_old++] = s->now;
    memset(&s->now, 0, sizeof s->now);
    s->now.words_end = -1;
    update_others(s);
}

static void watch_launch(struct pen__supervisor *s, struct pen_fault *fault)
{
    do {
        pen__supervisor_wait(s, TICK_MS);
        look(s);
    } while (!pen__supervisor_judge(s, fault));
}

/* ---- between launches ---- */

static int code_of(const struct pen_fault *fault)
{
    enum { BY_SIGNAL = 128 };
    if (fault->exit_code > 0)
        return (int)fault->exit_code;
    if (fault->exit_code == 0)
        return 0;
    return fault->signal > 0 ? BY_SIGNAL + (int)fault->signal : 1;
}

static void give_up(struct pen__supervisor *s, const struct pen_fault *fault,
                    enum pen_cause cause, const struct pen_last_words *words)
{
    struct pen_text line = PEN_TEXT_EMPTY;
    struct pen_fault final = *fault;
    final.cause = cause;
    pen_fault_print(fault, &line);
    if (cause != fault->cause)
        pen_text_add(&line, "; %s", pen_cause_words(cause));
    if (fault->signal != PEN_UNKNOWN && fault->exit_code != PEN_UNKNOWN)
        pen_text_add(&line, "; exit code %" PRId64, fault->exit_code);
    pen_log(PEN_LOG_ERROR, "%s: not restarted", pen_text_string(&line));
    for (size_t i = 0; words != NULL && i < pen_last_words_count(words); i++)
        if (cause == PEN_CAUSE_SAME_STEP || cause == PEN_CAUSE_TOO_MANY)
            pen_log(PEN_LOG_INFO, "last words: %s",
                    pen_last_words_line(words, i));
    pen_text_release(&line);
    pen__supervisor_tell(s, PEN_EVENT_GIVING_UP, &final, NAN, words);
}

static void wait_before_restart(struct pen__supervisor *s, double delay_sec)
{
    int64_t end = pen_clock_ns() + (int64_t)(delay_sec * 1e9);
    while (s->asked == 0 && pen_clock_ns() < end)
        pen__supervisor_wait(s, TICK_MS);
}

/* Returns false when the supervision is over; *code is the exit code then. */
static bool follow(struct pen__supervisor *s, const struct pen_fault *fault,
                   const struct pen_last_words *words, int *code)
{
    *code = code_of(fault);
    if (fault->cause == PEN_CAUSE_DONE || s->asked != 0) {
        struct pen_fault end = *fault;
        if (s->asked != 0)
            end.cause = PEN_CAUSE_ASKED;
        pen__supervisor_tell(s, PEN_EVENT_END, &end, NAN, NULL);
        return false;
    }
    if (fault->cause == PEN_CAUSE_MORE_SLOTS)
        return true;
    struct pen_decision decision = pen_policy_decide(
        &s->policy, fault, s->has_progress, 1e-9 * (double)pen_clock_ns());
    pen__supervisor_tell(s, PEN_EVENT_FAULT, fault, NAN, NULL);
    if (!decision.restarts) {
        give_up(s, fault, decision.cause, words);
        return false;
    }
    wait_before_restart(s, decision.delay_sec);
    if (s->asked != 0)
        pen__supervisor_tell(s, PEN_EVENT_END, NULL, NAN, NULL);
    return s->asked == 0;
}

/*
 * Remembers a fault. With several faults without a commit between them, time is
 * lost since the first.
 */
static void remember(struct pen__supervisor *s, const struct pen_fault *fault,
                     int64_t end_ns)
{
    if (fault->step == PEN_UNKNOWN && s->fault.step != PEN_UNKNOWN &&
        s->has_fault)
        s->fault.cause = fault->cause;
    else
        s->fault = *fault;
    if (fault->cause == PEN_CAUSE_MORE_SLOTS)
        s->fault.step = s->committed;
    if (!s->has_fault) {
        s->fault_ns = end_ns;
        s->fault_step = s->committed;
    }
    s->has_fault = true;
}

static pen_status run(struct pen__supervisor *s, int *code,
                      struct pen_text *why)
{
    bool goes_on = true;
    enum pen_event_kind kind = PEN_EVENT_START;
    while (goes_on) {
        struct pen_fault fault;
        pen_status status = place(s);
        if (status == PEN_OK && s->asked != 0) {
            *code = 0;
            pen__supervisor_tell(s, PEN_EVENT_END, NULL, NAN, NULL);
            break;
        }
        if (status == PEN_OK)
            status = begin(s, why);
        if (status != PEN_OK)
            return status;
        pen__supervisor_tell(s, kind, NULL, NAN, NULL);
        kind = PEN_EVENT_RESTART;
        watch_launch(s, &fault);
        int64_t end_ns = pen_clock_ns();
        struct pen_last_words words = s->now.words;
        fence(s, &fault);
        /*
         * The last commit of this launch may have come meanwhile; it does not
         * belong to the next.
         */
        pen_held_settle(&s->held);
        pen__supervisor_note_commits(s);
        if (fault.cause != PEN_CAUSE_DONE)
            remember(s, &fault, end_ns);
        goes_on = follow(s, &fault, &words, code);
        if (goes_on)
            s->epoch++;
    }
    while (s->num_old > 0)
        pen__supervisor_wait(s, TICK_MS);
    return PEN_OK;
}

static pen_status take_over_signals(struct pen__supervisor *s,
                                    struct pen_text *why)
{
    static const int taken[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        sigaddset(&set, taken[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->signals >= 0)
        return PEN_OK;
    pen_why(why, "cannot read signals: %s", strerror(errno));
    return PEN_IO;
}

/*
 * Opens the events, in the folder of the run, which is made for them: train
 * accepts a folder without steps.
 */
static pen_status open_events(struct pen__supervisor *s, struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    const char *name = s->options->events;
    pen_status status = PEN_OK;
    if (name == NULL && s->steps.folder != NULL) {
        status = pen_file_make_folder(s->steps.folder, 0777, why);
        pen_text_add(&path, "%s/supervise.jsonl", s->steps.folder);
        name = pen_text_string(&path);
    }
    if (path.has_failed)
        status = PEN_NOMEM;
    if (status == PEN_OK)
        status = pen_events_open(&s->events, name, why);
    pen_text_release(&path);
    s->epoch = s->events.last_epoch + 1;
    return status;
}

pen_status pen_supervise(const struct pen_supervisor_options *options,
                         int *code, struct pen_text *why)
{
    struct pen__supervisor *s = calloc(1, sizeof *s);
    if (s == NULL)
        return PEN_NOMEM;
    s->options = options;
    s->signals = -1;
    s->now.words_end = -1;
    s->held.holder = PEN_HOLDER_EMPTY;
    pen_fleet_init(&s->fleet, &options->fleet);
    s->steps.folder = pen_steps_find_folder(options->command);
    s->fault = (struct pen_fault)PEN_FAULT_UNKNOWN;
    pen_status status = open_events(s, why);
    s->committed = pen_steps_newest(&s->steps);
    if (status == PEN_OK && !pen_policy_init(&s->policy, options->max_restarts,
                                             options->window_sec))
        status = PEN_NOMEM;
    if (status == PEN_OK)
        status = pen_family_adopt(why);
    if (status == PEN_OK)
        status = take_over_signals(s, why);
    if (status == PEN_OK)
        status = pen_held_start(&s->held, s->epoch, why);
    if (status == PEN_OK)
        status = run(s, code, why);
    pen_held_stop(&s->held);
    pen_fleet_release(&s->fleet);
    if (s->signals >= 0)
        close(s->signals);
    pen_policy_release(&s->policy);
    pen_events_close(&s->events);
    free(s);
    return status;
}
