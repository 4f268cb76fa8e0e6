/*
 * The thread looks up some forty times a second. Between two looks it waits for
 * the end of the next rank of this node, which so has somebody who tells its
 * death at once; the ends of all others are seen at the next look (pidfd), by
 * when they have been told. What it has to say is written with one write(),
 * since the launcher may take everybody down a millisecond later.
 * MPICH's would be faster than a thread that waits for a core; so this process
 * has a copy of the next rank's socket to it, and the launcher hears nothing
 * before this process has told the death and ended.
 *
 *   hang: the first whose own wait is too long says so on the board. All ranks
 *   then tell what they wait for and leave together, so that no line is lost
 *   when the launcher sees the first one go. A launcher tells the exit code of
 *   the job only if it had to kill nobody, so a stopped rank is woken up to
 *   leave, too (leave.c).
 */
#include "runtime/watchdog.h"

#include "runtime/leave.h"
#include "runtime/wait_chain.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    TICK_MS = 25,
    STEPS_KEPT = 31,
    OUTSIDE_FACTOR = 10 /* patience outside a row */
};

#define NO_RANK UINT32_MAX
#define NS_PER_SEC INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

/* Of a look that comes later: the process, or the machine, stood meanwhile. */
#define LONGEST_TICK_NS (NS_PER_SEC / 10)

#define LEAST_SEC 2.0     /* a hang is told within max(this, */
#define STEPS_GIVEN 5.0   /* so many steps), */
#define WAITING_SHARE 0.8 /* the rest is for noticing and telling */
#define UNKNOWN_STEP_SEC 150.0

/* How long a rank that leaves gives the others to tell their part. */
#define GRACE_NS (NS_PER_SEC / 2)
#define TELLER_NS (NS_PER_SEC / 5)
#define PAUSE_NS (2 * NS_PER_MS)

struct pen_watchdog {
    struct pen_watchdog_options options;
    pthread_t thread;
    int wake;             /* eventfd: the thread is to end */
    struct pollfd *polls; /* of the other ranks, by local rank; then wake */
    struct pen__rank_view *ranks; /* for the view */
    struct pen_text line;         /* made large before it is needed */
    _Atomic int64_t patience_ns;  /* INT64_MAX: for ever */
    _Atomic(const struct pen_schedule *) schedule;

    /* Of the executor's thread. */
    double steps[STEPS_KEPT];
    uint64_t num_steps;

    /* Of the watchdog's thread. */
    uint32_t next; /* local rank whose end it waits for; NO_RANK: none */
    int socket;    /* copy of its socket to the launcher, or -1 */
    int64_t last_look_ns;
    int64_t wait_since_ns; /* which wait is counted */
    int64_t waited_ns;
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_SEC + now.tv_nsec;
}

static void pause_a_little(void)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    nanosleep(&pause, NULL);
}

/* ---- patience ---- */

double pen_watchdog_patience(double median_step_sec)
{
    return WAITING_SHARE * fmax(LEAST_SEC, STEPS_GIVEN * median_step_sec);
}

static int64_t to_ns(double sec)
{
    double ns = sec * (double)NS_PER_SEC;
    return ns < 1e18 ? (int64_t)ns : INT64_MAX;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

void pen_watchdog_add_step(struct pen_watchdog *watchdog, double sec)
{
    if (watchdog == NULL ||
        watchdog->options.hang_timeout_sec >= PEN_HANG_TIMEOUT_NEVER)
        return;
    double sorted[STEPS_KEPT];
    watchdog->steps[watchdog->num_steps++ % STEPS_KEPT] = sec;
    size_t count = watchdog->num_steps < STEPS_KEPT
                       ? (size_t)watchdog->num_steps
                       : (size_t)STEPS_KEPT;
    memcpy(sorted, watchdog->steps, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_size);
    atomic_store(&watchdog->patience_ns,
                 to_ns(pen_watchdog_patience(sorted[count / 2])));
}

static int64_t first_patience_ns(const struct pen_watchdog_options *options)
{
    if (options->hang_timeout_sec > PEN_HANG_TIMEOUT_NEVER)
        return to_ns(options->hang_timeout_sec);
    if (options->hang_timeout_sec == PEN_HANG_TIMEOUT_NEVER)
        return INT64_MAX;
    return to_ns(pen_watchdog_patience(options->expected_step_sec > 0
                                           ? options->expected_step_sec
                                           : UNKNOWN_STEP_SEC));
}

/* ---- telling and leaving ---- */

static void write_line(const struct pen_text *line)
{
    ssize_t written = write(STDERR_FILENO, line->bytes, line->length);
    (void)written; /* there is nobody left to tell */
}

static struct pen__node_view read_view(struct pen_watchdog *watchdog)
{
    const struct pen_board *board = watchdog->options.board;
    struct pen__node_view view = {.schedule = atomic_load(&watchdog->schedule),
                                  .host = pen_board_host(board),
                                  .now_ns = now_ns(),
                                  .num_ranks = pen_board_count(board),
                                  .ranks = watchdog->ranks};
    for (uint32_t i = 0; i < view.num_ranks; i++) {
        struct pen__rank_view *rank = &view.ranks[i];
        rank->entry = pen_board_read(board, i);
        rank->process = pen__process_read(rank->entry.pid);
        /* In another container it has another number. */
        if (rank->process.state == 0 && pen_board_is_alive(board, i))
            rank->process.state = '?';
    }
    return view;
}

static bool is_stopped(const struct pen__rank_view *rank)
{
    return rank->process.state == 'T' &&
           rank->entry.state != PEN_BOARD_FINISHED;
}

static bool can_tell(const struct pen__rank_view *rank)
{
    return !pen__process_is_halted(&rank->process) &&
           rank->entry.state != PEN_BOARD_FINISHED;
}

static uint32_t count_ranks(const struct pen__node_view *view,
                            bool (*is_meant)(const struct pen__rank_view *rank))
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < view->num_ranks; i++)
        count += is_meant(&view->ranks[i]);
    return count;
}

static void await_told(const struct pen_board *board, uint32_t count)
{
    int64_t end = now_ns() + GRACE_NS;
    while (now_ns() < end && pen_board_word(board, PEN_BOARD_HANG_TOLD) < count)
        pause_a_little();
}

/* A rank that is stopped wakes up and leaves, too: with its own exit code. */
static void wake_stopped(struct pen_board *board,
                         const struct pen__node_view *view)
{
    pen_board_claim(board, PEN_BOARD_HANG_OVER, 1);
    for (uint32_t i = 0; i < view->num_ranks; i++)
        if (is_stopped(&view->ranks[i]) && pen_board_is_alive(board, i))
            kill(view->ranks[i].entry.pid, SIGCONT);
}

static _Noreturn void tell_hang(struct pen_watchdog *watchdog)
{
    struct pen_board *board = watchdog->options.board;
    struct pen__node_view view = read_view(watchdog);
    struct pen_text *line = &watchdog->line;
    pen_text_clear(line);
    pen_text_add_string(line, "penstock: ");
    pen__wait_tell(&view, pen_board_own(board), line);
    pen_text_add_string(line, "\n");
    write_line(line);
    pen_board_count_up(board, PEN_BOARD_HANG_TOLD);
    await_told(board, count_ranks(&view, can_tell));
    if (pen_board_word(board, PEN_BOARD_HANG) == pen_board_own(board) + 1)
        wake_stopped(board, &view);
    /* Those of other nodes cannot be seen, only given time. */
    bool is_whole_job = watchdog->options.num_ranks == view.num_ranks;
    await_told(board, is_whole_job ? count_ranks(&view, can_tell) +
                                         count_ranks(&view, is_stopped)
                                   : UINT32_MAX);
    pen__leave_together(board, PEN_EXIT_HANG);
}

static void tell_death(struct pen_watchdog *watchdog, uint32_t dead)
{
    struct pen_board *board = watchdog->options.board;
    struct pen_board_entry entry = pen_board_read(board, dead);
    struct pen__process process = pen__process_read(entry.pid);
    struct pen_text *line = &watchdog->line;
    pen_text_clear(line);
    pen_text_add(line, "penstock: rank %u on %s died (", entry.rank,
                 pen_board_host(board));
    pen__process_add_end(&process, line);
    pen_text_add_string(line, ") ");
    pen__place_tell(atomic_load(&watchdog->schedule), &entry, line);
    pen_text_add_string(line, "; the job ends\n");
    write_line(line);
    pen_board_claim(board, PEN_BOARD_DEATH_TOLD, 1);
}

/* The one who tells may die before it has: then somebody else does. */
static _Noreturn void end_by_death(struct pen_watchdog *watchdog, uint32_t dead)
{
    struct pen_board *board = watchdog->options.board;
    uint32_t own = pen_board_own(board) + 1;
    int64_t end = now_ns() + TELLER_NS;
    if (pen_board_claim(board, PEN_BOARD_DEATH_TELLER, own))
        tell_death(watchdog, dead);
    while (pen_board_word(board, PEN_BOARD_DEATH_TOLD) == 0 && now_ns() < end)
        pause_a_little();
    if (pen_board_word(board, PEN_BOARD_DEATH_TOLD) == 0)
        tell_death(watchdog, dead);
    _exit(PEN_EXIT_PEER_DIED);
}

/* ---- looking ---- */

/* Whoever leaves on purpose is not watched any more. */
static void look_at_others(struct pen_watchdog *watchdog)
{
    const struct pen_board *board = watchdog->options.board;
    for (uint32_t i = 0; i < pen_board_count(board); i++) {
        struct pollfd *poll_of = &watchdog->polls[i];
        bool has_ended = poll_of->fd >= 0 ? (poll_of->revents & POLLIN) != 0
                                          : !pen_board_is_alive(board, i);
        if (!has_ended)
            continue;
        if (pen_board_read(board, i).state != PEN_BOARD_FINISHED)
            end_by_death(watchdog, i);
        if (poll_of->fd >= 0) {
            close(poll_of->fd);
            poll_of->fd = -1;
        }
    }
}

/* Counts only time that this process has seen pass: a pause is not a wait. */
static void count_wait(struct pen_watchdog *watchdog,
                       const struct pen_board_entry *own, int64_t seen_ns)
{
    bool is_waiting =
        own->state == PEN_BOARD_WAITING || own->state == PEN_BOARD_COLLECTIVE;
    if (!is_waiting || own->since_ns != watchdog->wait_since_ns)
        watchdog->waited_ns = 0;
    else
        watchdog->waited_ns += seen_ns;
    watchdog->wait_since_ns = own->since_ns;
}

static bool is_outside(const struct pen__rank_view *rank)
{
    return rank->entry.position == PEN_BOARD_NO_OP ||
           rank->entry.state == PEN_BOARD_SAVING ||
           rank->entry.state == PEN_BOARD_STARTING;
}

/*
 * Nothing has moved only if nobody on the way to the root has, either: a rank
 * may wait long for another that goes through many ops, or have been given what
 * it waits for a moment ago.
 */
static bool has_waited_too_long(struct pen_watchdog *watchdog)
{
    int64_t patience_ns = atomic_load(&watchdog->patience_ns);
    if (watchdog->waited_ns < patience_ns)
        return false;
    struct pen__node_view view = read_view(watchdog);
    uint32_t own = pen_board_own(watchdog->options.board);
    struct pen__root end = pen__wait_root(&view, own);
    const struct pen__rank_view *root = &view.ranks[end.local_rank];
    bool is_wait_outside =
        is_outside(&view.ranks[own]) ||
        (is_outside(root) && !pen__process_is_halted(&root->process));
    int64_t least_ns = view.now_ns - end.moved_ns;
    if (watchdog->waited_ns < least_ns)
        least_ns = watchdog->waited_ns;
    return least_ns / (is_wait_outside ? OUTSIDE_FACTOR : 1) >= patience_ns;
}

/* Once somebody has said that the job hangs, nobody goes on. */
static void look_for_hang(struct pen_watchdog *watchdog)
{
    struct pen_board *board = watchdog->options.board;
    if (pen_board_word(board, PEN_BOARD_HANG) == 0)
        return;
    if (pen_board_word(board, PEN_BOARD_HANG_OVER) == 0)
        tell_hang(watchdog);
    pen_board_count_up(board, PEN_BOARD_HANG_TOLD); /* of this rank */
    pen__leave_together(board, PEN_EXIT_HANG);
}

static void look(struct pen_watchdog *watchdog)
{
    struct pen_board *board = watchdog->options.board;
    uint32_t number = pen_board_own(board);
    struct pen_board_entry own = pen_board_read(board, number);
    int64_t now = now_ns();
    int64_t passed_ns = now - watchdog->last_look_ns;
    watchdog->last_look_ns = now;
    look_at_others(watchdog);
    count_wait(watchdog, &own,
               passed_ns < LONGEST_TICK_NS ? passed_ns : LONGEST_TICK_NS);
    if (has_waited_too_long(watchdog)) {
        pen_board_claim(board, PEN_BOARD_HANG, number + 1);
        tell_hang(watchdog);
    }
}

/* Where the kernel does not let us have it, the launcher may be faster. */
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

/* Until the next look; ends at once when the next rank dies. */
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
        end_by_death(watchdog, next);
    close_socket(watchdog);
}

static void *watch(void *context)
{
    struct pen_watchdog *watchdog = context;
    uint32_t count = pen_board_count(watchdog->options.board);
    const struct pollfd *wake = &watchdog->polls[count];
    watchdog->last_look_ns = now_ns();
    for (;;) {
        bool has_next = watchdog->next != NO_RANK;
        if (has_next)
            await_next(watchdog);
        int ready = poll(watchdog->polls, count + 1, has_next ? 0 : TICK_MS);
        if (ready < 0 && errno != EINTR)
            return NULL;
        look_for_hang(watchdog);
        if (ready > 0 && (wake->revents & POLLIN) != 0)
            return NULL;
        look(watchdog);
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
 * A process number may be given out again: this is the rank's own if the rank
 * still lives after its process was opened.
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

/* Signals are for the main thread. */
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
    pen_text_release(&watchdog->line);
    free(watchdog->ranks);
    free(watchdog->polls);
    free(watchdog);
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
    watchdog->wake = eventfd(0, EFD_CLOEXEC);
    watchdog->polls = calloc((size_t)count + 1, sizeof *watchdog->polls);
    watchdog->ranks = calloc(count, sizeof *watchdog->ranks);
    atomic_init(&watchdog->patience_ns, first_patience_ns(options));
    atomic_init(&watchdog->schedule, options->schedule);
    /* When it is used, the main thread may hold the lock of malloc(). */
    pen_text_add_repeat(&watchdog->line, ' ', 4096);
    if (watchdog->wake < 0 || watchdog->polls == NULL ||
        watchdog->ranks == NULL || watchdog->line.has_failed)
        goto fail;
    open_processes(watchdog);
    copy_socket(watchdog);
    int error = start_thread(watchdog);
    if (error != 0) {
        pen_why(why, "a thread beside the executor: %s", strerror(error));
        close_processes(watchdog);
        release(watchdog);
        return PEN_IO;
    }
    *out = watchdog;
    return PEN_OK;

fail:
    release(watchdog);
    return PEN_NOMEM;
}

void pen_watchdog_free(struct pen_watchdog *watchdog)
{
    if (watchdog == NULL)
        return;
    const uint64_t one = 1;
    ssize_t written = write(watchdog->wake, &one, sizeof one);
    (void)written;
    pthread_join(watchdog->thread, NULL);
    close_processes(watchdog);
    release(watchdog);
}
