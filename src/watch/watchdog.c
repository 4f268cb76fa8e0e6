/*
 * The watchdog of one rank: a thread that looks up some forty times a second.
 * All watchdogs of a node share a board, whose words they use to agree on the
 * end of the job.
 *
 *              own rank waits, chain still, idle for warn_ns
 *   WATCHING ---------------------------------------------> WARNED
 *      |  ^                                                  |  |
 *      |  +--------------------------------------------------+  |
 *      |        a rank of the chain moves, or the wait ends     |
 *      |                                                        |
 *      +-- the word HANG is set, or this rank sets it: ---------+
 *      |   a patience of stall.h is over, or the next rank has  |
 *      |   been stopped for stopped_ns                          |
 *      |                                                        v
 *      |                                                     HANGING: reports,
 *      |                                                     marks the root of
 *      |   a rank died that is not FINISHED                  the wait as lost
 *      +-- in WATCHING or WARNED -------------------------> BEREAVED: one rank
 *      |                                                     reports, all mark
 *      |   pen_watchdog_free(), in any state                 the rank as lost
 *      +--------------------------------------------------> ENDED
 *
 *   HANGING, BEREAVED --- pen_watchdog_leave(), or the main thread does neither
 *                         for *_MAIN_NS ---> the process ends (76, 69)
 *
 * In every state:
 *   1. The thread calls neither MPI nor malloc(), and takes no lock that the
 *      main thread holds.
 *   2. Time in which this process did not run counts for at most
 *      LONGEST_TICK_NS per look: a job that is suspended does not hang.
 *   3. A rank that says FINISHED is never reported as dead or stopped.
 *   4. A report is one write(), and comes before the process ends.
 *   5. HANGING and BEREAVED look at nothing any more: what becomes of the
 *      process is up to the main thread, whose waits return PEN_LOST. One that
 *      computes for ever, or blocks inside MPI, is not waited for.
 *   6. The word HANG is set once, by the rank that saw the hang first; each
 * rank that can reports exactly once after that. The rank that set it wakes up
 *      stopped ranks, which leave without a report: a launcher passes on the
 *      exit code only if it had to kill no rank.
 *   7. The end of the next rank is awaited with its lock on the board, which
 *      the kernel gives back before a launcher can notice: so each death is
 *      reported by a rank that is certain to be in time. The ends of all other
 *      ranks are seen at the next look (pidfd).
 *   8. This process holds a copy of the next rank's socket to MPICH's launcher,
 *      which ends all ranks as soon as such a socket closes: it closes after
 *      the report.
 *   9. Each rank looks whether the next one is stopped; a node of n ranks costs
 *      n reads of /proc per look at stops, not n times n.
 */
#include "watch/watchdog.h"

#include "base/bug.h"
#include "base/clock.h"
#include "base/median.h"
#include "watch/watchdog_end.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    TICK_MS = 25,
    STEPS_KEPT = 31,
    OUTSIDE_FACTOR = 10, /* more patience outside a row */
    SAMPLES = 4          /* looks at /proc, in the shortest patience */
};

#define NO_RANK UINT32_MAX
#define NS_PER_SEC INT64_C(1000000000)

/*
 * A longer tick counts as this much: the process, or the machine, was halted
 * meanwhile.
 */
#define LONGEST_TICK_NS (NS_PER_SEC / 10)

/* Time between looks at the processes of others, while this rank waits. */
#define LONGEST_SAMPLE_NS (NS_PER_SEC / 4)
#define STOP_SAMPLE_NS (NS_PER_SEC / 10)

/* A stopped rank is warned of after this time where it does not end the job. */
#define STOP_WARN_NS (8 * NS_PER_SEC / 5)

#define UNKNOWN_STEP_SEC 10.0

/*
 * Time for the main thread to react to a loss; one that hangs itself never
 * does.
 */
#define DEATH_MAIN_NS (12 * NS_PER_SEC)
#define HANG_MAIN_NS NS_PER_SEC

enum loss { NOTHING_LOST, HANGING, BEREAVED };

struct pen_watchdog {
    struct pen_watchdog_options options;
    pthread_t thread;
    int wake;             /* eventfd, written when the thread is to end */
    struct pollfd *polls; /* by local rank, of the others; then wake */
    struct pen__reporter reporter;
    _Atomic double step_sec;  /* expected or measured seconds of a step */
    _Atomic double least_sec; /* the least time that idle ranks are given */
    _Atomic(const struct pen_schedule *) schedule;
    _Atomic bool is_leaving; /* the main thread wants the process to end */

    /* Only the executor's thread uses these. */
    double steps[STEPS_KEPT];
    uint64_t num_steps;

    /* Only the watchdog's thread uses these. */
    struct pen__patience patience;
    enum loss loss;
    uint32_t dead; /* local rank; set in BEREAVED */
    uint32_t next; /* local rank whose end it waits for; NO_RANK: none */
    int socket;    /* copy of its socket to the launcher, or -1 */
    int64_t last_look_ns;
    int64_t wait_since_ns; /* identifies the wait that is counted */
    int64_t waited_ns;     /* time that this rank has waited */
    int64_t unsampled_ns;  /* the part of it since the last look at others */
    struct pen__stall stall;
    bool has_warned;         /* for this stall */
    int64_t next_stopped_ns; /* how long the next rank has been stopped */
    int64_t since_stop_look_ns;
};

/* ---- patience ---- */

void pen_watchdog_add_step(struct pen_watchdog *watchdog, double sec)
{
    if (watchdog == NULL)
        return;
    double sorted[STEPS_KEPT];
    watchdog->steps[watchdog->num_steps++ % STEPS_KEPT] = sec;
    size_t count = watchdog->num_steps < STEPS_KEPT
                       ? (size_t)watchdog->num_steps
                       : (size_t)STEPS_KEPT;
    memcpy(sorted, watchdog->steps, count * sizeof *sorted);
    pen_sort(sorted, count);
    atomic_store(&watchdog->step_sec, sorted[count / 2]);
}

void pen_watchdog_expect(struct pen_watchdog *watchdog, double step_sec,
                         double least_sec)
{
    if (watchdog == NULL)
        return;
    if (watchdog->num_steps == 0)
        atomic_store(&watchdog->step_sec,
                     step_sec > 0 ? step_sec : UNKNOWN_STEP_SEC);
    atomic_store(&watchdog->least_sec, least_sec);
}

static void update_patience(struct pen_watchdog *watchdog)
{
    watchdog->patience = pen__patience_of(watchdog->options.hang_timeout_sec,
                                          atomic_load(&watchdog->step_sec),
                                          atomic_load(&watchdog->least_sec));
}

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns the time between looks: several of them fit into any patience. */
static int64_t sample_ns(const struct pen__patience *patience)
{
    int64_t shortest_ns =
        least_of(least_of(patience->warn_ns, patience->idle_ns),
                 least_of(patience->either_ns, patience->stopped_ns));
    return least_of(shortest_ns / SAMPLES, LONGEST_SAMPLE_NS);
}

/* ---- hangs ---- */

/* Invariant 6. */
static void hang(struct pen_watchdog *watchdog)
{
    struct pen_board *board = watchdog->options.board;
    if (watchdog->loss != NOTHING_LOST)
        return;
    pen_board_claim(board, PEN_BOARD_HANG, pen_board_own(board) + 1);
    PEN_BUG_UNLESS(pen_board_word(board, PEN_BOARD_HANG) != 0);
    watchdog->loss = HANGING;
    pen__report_hang(&watchdog->reporter);
}

/* Once a rank has reported that the job hangs, all ranks stop. */
static void look_for_hang(struct pen_watchdog *watchdog)
{
    struct pen_board *board = watchdog->options.board;
    if (pen_board_word(board, PEN_BOARD_HANG) == 0)
        return;
    if (pen_board_word(board, PEN_BOARD_HANG_OVER) != 0)
        pen__leave_after_hang(&watchdog->reporter);
    hang(watchdog);
}

/*
 * Adds to the wait only time that this process has seen pass: a pause of the
 * process is not a wait.
 */
static void count_wait(struct pen_watchdog *watchdog,
                       const struct pen_board_entry *own, int64_t passed_ns)
{
    if (!pen__state_is_waiting(own->state) ||
        own->since_ns != watchdog->wait_since_ns) {
        watchdog->waited_ns = 0;
        watchdog->unsampled_ns = 0;
        watchdog->has_warned = false;
        pen__stall_reset(&watchdog->stall);
    } else {
        watchdog->waited_ns += passed_ns;
        watchdog->unsampled_ns += passed_ns;
    }
    watchdog->wait_since_ns = own->since_ns;
}

static bool is_outside(const struct pen__rank_view *rank)
{
    return rank->entry.position == PEN_BOARD_NO_OP ||
           rank->entry.state == PEN_BOARD_SAVING ||
           rank->entry.state <= PEN_BOARD_PREPARING;
}

static int64_t factor_of(const struct pen__node_view *view, uint32_t own,
                         const struct pen__root *end)
{
    const struct pen__rank_view *root = &view->ranks[end->local_rank];
    bool is_long = is_outside(&view->ranks[own]) ||
                   (end->kind == PEN__ROOT_HERE && is_outside(root) &&
                    !pen__process_is_halted(&root->process));
    return is_long && end->kind != PEN__ROOT_LEFT ? OUTSIDE_FACTOR : 1;
}

/*
 * Reads the work of a rank. The root of a wait may compute in any of its
 * threads but the watchdog's.
 */
static void read_work(const struct pen__node_view *view,
                      const struct pen__root *root)
{
    for (uint32_t i = 0; i < root->num_chain; i++) {
        uint32_t at = view->chain[i];
        struct pen__rank_view *rank = &view->ranks[at];
        bool is_root = root->kind == PEN__ROOT_HERE && at == root->local_rank;
        rank->work = is_root ? pen__process_read_work(rank->entry.pid,
                                                      rank->entry.watcher)
                             : pen__process_read_main(rank->entry.pid);
    }
}

static const char *warning_of(const struct pen__stall *stall)
{
    if (stall->kind == PEN__ROOT_ELSEWHERE)
        return "the job ends if this lasts for long (--hang-timeout)";
    return stall->busy_ns > stall->idle_ns
               ? "it is on a core, so it may be slow or in an endless loop; "
                 "the "
                 "job ends if this lasts for long (--hang-timeout)"
               : "it sleeps and waits for no core; the job ends if this lasts "
                 "for long (--hang-timeout)";
}

/*
 * Judges the wait of this rank. Nothing has moved only if no rank on the way to
 * the root has moved, either: a rank may wait long for another that executes
 * many ops, or may have received its message a moment ago.
 */
static void look_at_wait(struct pen_watchdog *watchdog)
{
    int64_t between_ns = sample_ns(&watchdog->patience);
    if (watchdog->waited_ns < between_ns || watchdog->unsampled_ns < between_ns)
        return;
    uint32_t own = pen_board_own(watchdog->options.board);
    struct pen__node_view view = pen__report_view(&watchdog->reporter);
    struct pen__root root = pen__wait_root(&view, own);
    if (root.kind == PEN__ROOT_HERE &&
        view.ranks[root.local_rank].entry.state == PEN_BOARD_ISLANDS) {
        pen__stall_reset(&watchdog->stall);
        watchdog->unsampled_ns = 0;
        return; /* other islands may take as long as they need */
    }
    read_work(&view, &root);
    if (root.moved_ns != watchdog->stall.moved_ns)
        watchdog->has_warned = false;
    pen__stall_add(&watchdog->stall, &view, &root, watchdog->unsampled_ns);
    watchdog->unsampled_ns = 0;
    switch (pen__stall_judge(&watchdog->stall, &watchdog->patience,
                             factor_of(&view, own, &root))) {
    case PEN__HANGS:
        hang(watchdog);
        break;
    case PEN__WARN:
        if (!watchdog->has_warned)
            pen__report_warning(&watchdog->reporter, &view,
                                warning_of(&watchdog->stall));
        watchdog->has_warned = true;
        break;
    case PEN__MOVES:
        break;
    }
}

/* A stopped rank is stuck, whether or not another waits for it yet. */
static void look_at_next(struct pen_watchdog *watchdog, int64_t passed_ns)
{
    const struct pen_board *board = watchdog->options.board;
    watchdog->since_stop_look_ns += passed_ns;
    if (watchdog->next == NO_RANK ||
        watchdog->patience.stopped_ns == PEN__FOREVER ||
        watchdog->since_stop_look_ns <
            least_of(STOP_SAMPLE_NS, watchdog->patience.stopped_ns / SAMPLES))
        return;
    struct pen_board_entry entry = pen_board_read(board, watchdog->next);
    bool is_stopped = entry.state != PEN_BOARD_FINISHED &&
                      pen__process_read(entry.pid).state == 'T';
    int64_t before_ns = watchdog->next_stopped_ns;
    watchdog->next_stopped_ns =
        is_stopped ? before_ns + watchdog->since_stop_look_ns : 0;
    watchdog->since_stop_look_ns = 0;
    if (watchdog->next_stopped_ns >= watchdog->patience.stopped_ns)
        hang(watchdog);
    else if (before_ns < STOP_WARN_NS &&
             watchdog->next_stopped_ns >= STOP_WARN_NS) {
        struct pen__node_view view = pen__report_view(&watchdog->reporter);
        pen__report_warning(&watchdog->reporter, &view,
                            "the job ends unless it continues (kill -CONT) "
                            "before --hang-timeout is over");
    }
}

/* ---- deaths ---- */

static void bereave(struct pen_watchdog *watchdog, uint32_t dead)
{
    if (watchdog->loss != NOTHING_LOST)
        return;
    watchdog->loss = BEREAVED;
    watchdog->dead = dead;
    pen__report_death(&watchdog->reporter, dead);
}

/* Reacts to a rank that any watchdog of this node has marked as lost. */
static void look_at_lost(struct pen_watchdog *watchdog)
{
    const struct pen_board *board = watchdog->options.board;
    uint32_t lost = pen_board_word(board, PEN_BOARD_LOST);
    for (uint32_t i = 0; i < pen_board_count(board) && lost != 0; i++)
        if (pen_board_read(board, i).rank + 1 == lost)
            bereave(watchdog, i);
}

/* Invariant 3. */
static void look_at_ends(struct pen_watchdog *watchdog)
{
    const struct pen_board *board = watchdog->options.board;
    for (uint32_t i = 0; i < pen_board_count(board); i++) {
        struct pollfd *poll_of = &watchdog->polls[i];
        bool has_ended = poll_of->fd >= 0 ? (poll_of->revents & POLLIN) != 0
                                          : !pen_board_is_alive(board, i);
        if (!has_ended)
            continue;
        if (pen_board_read(board, i).state != PEN_BOARD_FINISHED)
            bereave(watchdog, i);
        if (poll_of->fd >= 0) {
            close(poll_of->fd);
            poll_of->fd = -1;
        }
    }
}

/*
 * Copies the socket of the next rank (invariant 8). Where the kernel does not
 * allow it, the launcher may be faster.
 */
static void copy_socket(struct pen_watchdog *watchdog)
{
    if (watchdog->next == NO_RANK)
        return;
    int process = watchdog->polls[watchdog->next].fd;
    int socket = pen_board_read(watchdog->options.board, watchdog->next).socket;
    if (process >= 0 && socket > 0)
        watchdog->socket = (int)syscall(SYS_pidfd_getfd, process, socket, 0);
}

static void close_socket(struct pen_watchdog *watchdog)
{
    if (watchdog->socket >= 0)
        close(watchdog->socket);
    watchdog->socket = -1;
}

/* Sleeps until the next look, or until the next rank dies (invariant 7). */
static void await_next(struct pen_watchdog *watchdog)
{
    struct pen_board *board = watchdog->options.board;
    uint32_t next = watchdog->next;
    enum pen_board_fate fate = pen_board_await_end(board, next, TICK_MS);
    if (fate == PEN_BOARD_LIVES)
        return;
    watchdog->next = NO_RANK;
    if (fate == PEN_BOARD_DIED && pen_board_word(board, PEN_BOARD_HANG) == 0 &&
        pen_board_read(board, next).state != PEN_BOARD_FINISHED)
        bereave(watchdog, next);
    else
        close_socket(watchdog);
}

/* ---- the thread ---- */

/* Invariant 2. */
static void look(struct pen_watchdog *watchdog)
{
    const struct pen_board *board = watchdog->options.board;
    struct pen_board_entry own = pen_board_read(board, pen_board_own(board));
    int64_t now = pen_clock_ns();
    int64_t passed_ns = least_of(now - watchdog->last_look_ns, LONGEST_TICK_NS);
    watchdog->last_look_ns = now;
    watchdog->reporter.schedule = atomic_load(&watchdog->schedule);
    look_at_ends(watchdog);
    look_at_lost(watchdog);
    if (watchdog->loss != NOTHING_LOST)
        return;
    update_patience(watchdog);
    count_wait(watchdog, &own, passed_ns);
    look_at_wait(watchdog);
    if (watchdog->loss == NOTHING_LOST)
        look_at_next(watchdog, passed_ns);
}

/*
 * Returns how long the main thread is given: no time in MPI_Init, where nothing
 * reaches it.
 */
static int64_t main_ns(const struct pen_watchdog *watchdog)
{
    const struct pen_board *board = watchdog->options.board;
    if (pen_board_read(board, pen_board_own(board)).state <= PEN_BOARD_JOINING)
        return 0;
    return watchdog->loss == HANGING ? HANG_MAIN_NS : DEATH_MAIN_NS;
}

/*
 * Ends the process, unless the main thread continues without the others
 * (invariant 5).
 */
static void await_main(struct pen_watchdog *watchdog)
{
    struct pollfd wake = {.fd = watchdog->wake, .events = POLLIN};
    int64_t left_ms = main_ns(watchdog) / 1000000;
    int ready = poll(&wake, 1, (int)left_ms);
    if (ready > 0 && !atomic_load(&watchdog->is_leaving))
        return;
    if (watchdog->loss == HANGING)
        pen__leave_hang(&watchdog->reporter);
    pen__leave_dead(&watchdog->reporter, watchdog->dead);
}

static void *watch(void *context)
{
    struct pen_watchdog *watchdog = context;
    uint32_t count = pen_board_count(watchdog->options.board);
    const struct pollfd *wake = &watchdog->polls[count];
    pen_board_set_watcher(watchdog->options.board, (int)syscall(SYS_gettid));
    watchdog->last_look_ns = pen_clock_ns();
    for (;;) {
        bool has_next = watchdog->next != NO_RANK;
        if (has_next)
            await_next(watchdog);
        int ready = poll(watchdog->polls, count + 1, has_next ? 0 : TICK_MS);
        if (ready < 0 && errno != EINTR)
            return NULL;
        look_for_hang(watchdog);
        if (ready > 0 && (wake->revents & POLLIN) != 0 &&
            !atomic_load(&watchdog->is_leaving))
            return NULL;
        if (watchdog->loss == NOTHING_LOST)
            look(watchdog);
        if (watchdog->loss != NOTHING_LOST) {
            await_main(watchdog);
            return NULL;
        }
    }
}

void pen_watchdog_set_schedule(struct pen_watchdog *watchdog,
                               const struct pen_schedule *schedule)
{
    if (watchdog != NULL)
        atomic_store(&watchdog->schedule, schedule);
}

/* ---- beginning and end ---- */

/*
 * Opens a process. Its number may have been given out again: it is the rank's
 * own if the rank is still alive after the process was opened.
 */
static int open_process(const struct pen_board *board, uint32_t local_rank)
{
    int pid = pen_board_read(board, local_rank).pid;
    int handle = (int)syscall(SYS_pidfd_open, pid, 0);
    if (handle >= 0 && !pen_board_is_alive(board, local_rank)) {
        close(handle);
        return -1;
    }
    return handle;
}

static void open_processes(struct pen_watchdog *watchdog)
{
    const struct pen_board *board = watchdog->options.board;
    uint32_t count = pen_board_count(board);
    for (uint32_t i = 0; i < count; i++)
        watchdog->polls[i] = (struct pollfd){
            .fd = i == pen_board_own(board) ? -1 : open_process(board, i),
            .events = POLLIN};
    watchdog->polls[count] =
        (struct pollfd){.fd = watchdog->wake, .events = POLLIN};
}

static void close_processes(struct pen_watchdog *watchdog)
{
    for (uint32_t i = 0; i < pen_board_count(watchdog->options.board); i++)
        if (watchdog->polls[i].fd >= 0)
            close(watchdog->polls[i].fd);
    close_socket(watchdog);
}

/* The main thread takes the signals. */
static int start_thread(struct pen_watchdog *watchdog)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&watchdog->thread, NULL, watch, watchdog);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void release(struct pen_watchdog *watchdog)
{
    if (watchdog->wake >= 0)
        close(watchdog->wake);
    pen_text_release(&watchdog->reporter.line);
    free(watchdog->reporter.ranks);
    free(watchdog->reporter.chain);
    free(watchdog->stall.samples);
    free(watchdog->polls);
    free(watchdog);
}

/* Allocates all that the thread will need. */
static pen_status allocate(struct pen_watchdog *watchdog, uint32_t count)
{
    struct pen__reporter *reporter = &watchdog->reporter;
    watchdog->wake = eventfd(0, EFD_CLOEXEC);
    watchdog->polls = calloc((size_t)count + 1, sizeof *watchdog->polls);
    watchdog->stall.samples = calloc(count, sizeof *watchdog->stall.samples);
    reporter->ranks = calloc(count, sizeof *reporter->ranks);
    reporter->chain = calloc(count, sizeof *reporter->chain);
    pen_text_add_repeat(&reporter->line, ' ', 4096);
    return watchdog->wake < 0 || watchdog->polls == NULL ||
                   watchdog->stall.samples == NULL || reporter->ranks == NULL ||
                   reporter->chain == NULL || reporter->line.has_failed
               ? PEN_NOMEM
               : PEN_OK;
}

pen_status pen_watchdog_create(const struct pen_watchdog_options *options,
                               struct pen_watchdog **out, struct pen_text *why)
{
    uint32_t count = pen_board_count(options->board);
    struct pen_watchdog *watchdog = calloc(1, sizeof *watchdog);
    if (watchdog == NULL)
        return PEN_NOMEM;
    watchdog->options = *options;
    watchdog->next =
        count > 1 ? (pen_board_own(options->board) + 1) % count : NO_RANK;
    watchdog->socket = -1;
    watchdog->reporter.board = options->board;
    watchdog->reporter.num_ranks = options->num_ranks;
    watchdog->reporter.schedule = options->schedule;
    atomic_init(&watchdog->step_sec, 0);
    atomic_init(&watchdog->least_sec, 0);
    atomic_init(&watchdog->schedule, options->schedule);
    atomic_init(&watchdog->is_leaving, false);
    pen_status status = allocate(watchdog, count);
    if (status != PEN_OK) {
        release(watchdog);
        return status;
    }
    update_patience(watchdog);
    open_processes(watchdog);
    copy_socket(watchdog);
    int error = start_thread(watchdog);
    if (error != 0) {
        pen_why(why, "cannot start the watchdog thread: %s", strerror(error));
        close_processes(watchdog);
        release(watchdog);
        return PEN_IO;
    }
    *out = watchdog;
    return PEN_OK;
}

static void wake(const struct pen_watchdog *watchdog)
{
    const uint64_t one = 1;
    ssize_t written = write(watchdog->wake, &one, sizeof one);
    (void)written;
}

/*
 * The thread has reported, or will do so at its next look, and ends the
 * process.
 */
_Noreturn void pen_watchdog_leave(struct pen_watchdog *watchdog)
{
    atomic_store(&watchdog->is_leaving, true);
    wake(watchdog);
    for (;;)
        pause();
}

void pen_watchdog_free(struct pen_watchdog *watchdog)
{
    if (watchdog == NULL)
        return;
    wake(watchdog);
    pthread_join(watchdog->thread, NULL);
    close_processes(watchdog);
    release(watchdog);
}
