#include "watch/watchdog_end.h"

#include "base/clock.h"
#include "watch/launch.h"
#include "watch/leave.h"
#include "watch/watchdog.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SEC INT64_C(1000000000)
#define PAUSE_NS (NS_PER_SEC / 500)

/* Time for the other ranks to report; a loaded machine needs some of it. */
#define GRACE_NS (3 * NS_PER_SEC)

/* Time for the rank that reports a death, while it is alive. */
#define REPORT_NS (3 * NS_PER_SEC)

/* Time for the launcher to learn of a death before it learns of other ends. */
#define COLLECT_NS (2 * NS_PER_SEC)

#define WARNING_SEC 60

static void pause_a_little(void)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    nanosleep(&pause, NULL);
}

static void write_line(const struct pen_text *line)
{
    ssize_t written = write(STDERR_FILENO, line->bytes, line->length);
    (void)written; /* A failed write cannot be reported anywhere else. */
}

struct pen__node_view pen__report_view(struct pen__reporter *reporter)
{
    const struct pen_board *board = reporter->board;
    struct pen__node_view view = {.schedule = reporter->schedule,
                                  .host = pen_board_host(board),
                                  .now_ns = pen_clock_ns(),
                                  .num_ranks = pen_board_count(board),
                                  .ranks = reporter->ranks,
                                  .is_whole_job = reporter->num_ranks ==
                                                  pen_board_count(board),
                                  .chain = reporter->chain};
    for (uint32_t i = 0; i < view.num_ranks; i++) {
        struct pen__rank_view *rank = &view.ranks[i];
        rank->entry = pen_board_read(board, i);
        rank->process = pen__process_read(rank->entry.pid);
        rank->work = (struct pen__process_work){.is_known = false};
        /* In another container the rank has another process number. */
        if (rank->process.state == 0 && pen_board_is_alive(board, i))
            rank->process.state = '?';
    }
    return view;
}

/* ---- a warning ---- */

void pen__report_warning(struct pen__reporter *reporter,
                         const struct pen__node_view *view, const char *end)
{
    struct pen_board *board = reporter->board;
    struct pen_text *line = &reporter->line;
    uint32_t now = (uint32_t)(view->now_ns / NS_PER_SEC) + 1;
    uint32_t last = pen_board_word(board, PEN_BOARD_WARNED);
    if ((last != 0 && now - last < WARNING_SEC) ||
        !pen_board_replace(board, PEN_BOARD_WARNED, last, now))
        return;
    pen_text_clear(line);
    pen_text_add_string(line, "penstock: warning: ");
    pen__wait_describe(view, pen_board_own(board), line);
    pen_text_add(line, "; %s\n", end);
    write_line(line);
}

/* ---- a hang ---- */

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

static void await_told(const struct pen_board *board, uint32_t count,
                       int64_t limit_ns)
{
    int64_t end = pen_clock_ns() + limit_ns;
    while (pen_clock_ns() < end &&
           pen_board_word(board, PEN_BOARD_HANG_REPORTED) < count)
        pause_a_little();
}

/*
 * Returns whether to wake a stopped rank, which then leaves with its own exit
 * code. A rank in MPI_Init under mpirun of Open MPI must stay stopped: it would
 * proceed to connect to the launcher, which waits for ever when that connection
 * breaks. There the launcher ends it, after it has the exit codes of the
 * others.
 */
static bool is_to_wake(const struct pen__rank_view *rank)
{
    return is_stopped(rank) &&
           (rank->entry.state > PEN_BOARD_JOINING ||
            pen_launcher_is_hydra(pen_launch_read_own().launcher));
}

static void wake_stopped(struct pen_board *board,
                         const struct pen__node_view *view)
{
    pen_board_claim(board, PEN_BOARD_HANG_OVER, 1);
    for (uint32_t i = 0; i < view->num_ranks; i++)
        if (is_to_wake(&view->ranks[i]) && pen_board_is_alive(board, i))
            kill(view->ranks[i].entry.pid, SIGCONT);
}

/* The first mark stays: later ranks see its consequences. */
static void mark_lost(struct pen_board *board, uint32_t rank)
{
    pen_board_claim(board, PEN_BOARD_LOST, rank + 1);
}

/*
 * Marks the root as lost only after all have reported: waits that end change
 * the board.
 */
void pen__report_hang(struct pen__reporter *reporter)
{
    struct pen_board *board = reporter->board;
    struct pen__node_view view = pen__report_view(reporter);
    struct pen__root root = pen__wait_root(&view, pen_board_own(board));
    struct pen_text *line = &reporter->line;
    pen_text_clear(line);
    pen_text_add_string(line, "penstock: ");
    pen__wait_describe(&view, pen_board_own(board), line);
    pen_text_add_string(line, "\n");
    write_line(line);
    pen_board_count_up(board, PEN_BOARD_HANG_REPORTED);
    await_told(board, count_ranks(&view, can_tell), GRACE_NS);
    mark_lost(board, root.kind == PEN__ROOT_HERE
                         ? view.ranks[root.local_rank].entry.rank
                         : PEN_BOARD_NOBODY);
}

_Noreturn void pen__leave_hang(struct pen__reporter *reporter)
{
    struct pen_board *board = reporter->board;
    struct pen__node_view view = pen__report_view(reporter);
    if (pen_board_word(board, PEN_BOARD_HANG) == pen_board_own(board) + 1)
        wake_stopped(board, &view);
    uint32_t num_all =
        count_ranks(&view, can_tell) + count_ranks(&view, is_to_wake);
    await_told(board, num_all, GRACE_NS);
    /* The reports of other nodes cannot be seen, only given time. */
    if (!view.is_whole_job)
        await_told(board, UINT32_MAX, NS_PER_SEC / 2);
    pen__leave_together(board, PEN_EXIT_HANG);
}

_Noreturn void pen__leave_after_hang(struct pen__reporter *reporter)
{
    pen_board_count_up(reporter->board, PEN_BOARD_HANG_REPORTED);
    pen__leave_together(reporter->board, PEN_EXIT_HANG);
}

/* ---- a death ---- */

/*
 * Returns whether the rank has ended because of another rank, and has reported
 * that itself.
 */
static bool has_reported_itself(const struct pen__process *process)
{
    return process->has_status && WIFEXITED(process->status) &&
           (WEXITSTATUS(process->status) == PEN_EXIT_HANG ||
            WEXITSTATUS(process->status) == PEN_EXIT_PEER_DIED);
}

static void report_death(struct pen__reporter *reporter, uint32_t dead)
{
    struct pen_board *board = reporter->board;
    struct pen_board_entry entry = pen_board_read(board, dead);
    struct pen__process process = pen__process_read(entry.pid);
    struct pen_text *line = &reporter->line;
    if (has_reported_itself(&process)) {
        pen_board_claim(board, PEN_BOARD_DEATH_REPORTED, 1);
        return;
    }
    pen_text_clear(line);
    pen_text_add(line, "penstock: rank %u on %s died (", entry.rank,
                 pen_board_host(board));
    pen__process_add_end(&process, line);
    pen_text_add_string(line, ") ");
    pen__place_describe(reporter->schedule, &entry, line);
    pen_text_add_string(line, "; the job ends\n");
    write_line(line);
    pen_board_claim(board, PEN_BOARD_DEATH_REPORTED, 1);
}

/* If the rank that reports dies before it has done so, another one reports. */
void pen__report_death(struct pen__reporter *reporter, uint32_t dead)
{
    struct pen_board *board = reporter->board;
    uint32_t own = pen_board_own(board) + 1;
    int64_t end = pen_clock_ns() + REPORT_NS;
    if (pen_board_claim(board, PEN_BOARD_DEATH_REPORTER, own))
        report_death(reporter, dead);
    uint32_t reporter_rank =
        pen_board_word(board, PEN_BOARD_DEATH_REPORTER) - 1;
    while (pen_board_word(board, PEN_BOARD_DEATH_REPORTED) == 0 &&
           pen_clock_ns() < end && pen_board_is_alive(board, reporter_rank))
        pause_a_little();
    if (pen_board_word(board, PEN_BOARD_DEATH_REPORTED) == 0)
        report_death(reporter, dead);
    mark_lost(board, pen_board_read(board, dead).rank);
}

/*
 * Waits until the launcher has collected the dead rank. Launchers that wait for
 * their processes take the first bad end that they see as the exit code of the
 * job. Until the dead rank is collected, its number stays in /proc.
 */
static void await_collected(int pid)
{
    int64_t end = pen_clock_ns() + COLLECT_NS;
    while (pen_clock_ns() < end && pen__process_read(pid).state != 0)
        pause_a_little();
}

/*
 * Makes sure that the death of a rank has one exit code. MPICH's launcher looks
 * at sockets, and notices nothing before this process has ended; then it kills
 * all ranks, some of which have ended by themselves, and makes a code of all
 * these ends. They are all the same if each rank is killed.
 */
_Noreturn void pen__leave_dead(struct pen__reporter *reporter, uint32_t dead)
{
    int pid = pen_board_read(reporter->board, dead).pid;
    enum pen_launcher launcher = pen_launch_read_own().launcher;
    if (pen_launcher_is_hydra(launcher))
        raise(SIGKILL);
    if (launcher != PEN_LAUNCHER_NONE)
        await_collected(pid);
    _exit(PEN_EXIT_PEER_DIED);
}
