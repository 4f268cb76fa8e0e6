/*
 * How the ranks of a node end with an exit code that the launcher passes on.
 *
 * MPICH's launcher (hydra) learns of the end of a rank from a socket that
 * closes, and at once kills all others; a killed rank makes the code of the job
 * 9, whatever the others say. Therefore no file of any rank may close before
 * every rank has its exit code. A keeper ensures that: a process with a copy of
 * all open files of its rank, which outlives the rank.
 *
 *   rank     waits for the moment, _exit
 *   keeper   waits for the end of all ranks, closes all but the standard files
 *            (hydra: the first socket closes, kills keepers), waits, ends
 *
 * Standard files come last since hydra looks for exit codes only as long as one
 * of them is open, or makes 0 of them. Launchers that wait for the processes
 * themselves (Open MPI, Slurm) see all of them go in the same moment; there a
 * rank has no keeper, since Open MPI waits for the end of the standard files.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): clone */
#include "watch/leave.h"

#include "watch/launch.h"

#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { STACK_BYTES = 1 << 16 };

#define NS_PER_SEC INT64_C(1000000000)
#define PAUSE_NS (NS_PER_SEC / 500)

/*
 * Time between the moments of leaving, which all ranks read off the node's
 * clock.
 */
#define MOMENT_NS (NS_PER_SEC / 20)

/*
 * How long to wait for ranks that end late: a stopped rank, a loaded machine.
 */
#define GRACE_NS (3 * NS_PER_SEC)

/*
 * How long standard files stay open, for the launcher to notice closed sockets.
 */
#define NOTICE_NS (NS_PER_SEC / 5)

struct keeper {
    const struct pen_board *board;
    pid_t rank; /* the process whose files are kept */
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_SEC + now.tv_nsec;
}

static void sleep_until(int64_t ns)
{
    const struct timespec moment = {.tv_sec = (time_t)(ns / NS_PER_SEC),
                                    .tv_nsec = (long)(ns % NS_PER_SEC)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL);
}

static bool has_rank_left(const struct keeper *keeper)
{
    if (getppid() == keeper->rank)
        return true;
    for (uint32_t i = 0; i < pen_board_count(keeper->board); i++)
        if (i != pen_board_own(keeper->board) &&
            pen_board_is_alive(keeper->board, i))
            return true;
    return false;
}

static int keep_files(void *context)
{
    const struct keeper *keeper = context;
    int64_t end = now_ns() + 2 * MOMENT_NS + GRACE_NS;
    while (now_ns() < end && has_rank_left(keeper))
        sleep_until(now_ns() + PAUSE_NS);
    if (close_range(STDERR_FILENO + 1, ~0U, 0) == 0)
        sleep_until(now_ns() + NOTICE_NS);
    return 0;
}

/*
 * Starts the keeper. It shares the memory of its rank, which may be too large
 * to copy, and the caller's errno, which neither reads. If it cannot be
 * started, the ranks still leave at one moment.
 */
static void start_keeper(struct keeper *keeper)
{
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack != MAP_FAILED)
        clone(keep_files, stack + STACK_BYTES, CLONE_VM, keeper);
}

_Noreturn void pen__leave_together(const struct pen_board *board, int code)
{
    struct keeper keeper = {.board = board, .rank = getpid()};
    int64_t moment = now_ns() / MOMENT_NS * MOMENT_NS + MOMENT_NS;
    if (pen_launcher_is_hydra(pen_launch_read_own().launcher)) {
        start_keeper(&keeper);
        /* Gives the launcher time to forward what the ranks have printed. */
        moment += MOMENT_NS;
    }
    sleep_until(moment);
    _exit(code);
}
