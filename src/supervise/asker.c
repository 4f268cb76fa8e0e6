#include "supervise/asker.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_BYTES ((size_t)4 << 20)
#define STOP_NS INT64_C(1000000000)

enum { EXIT_NOT_FOUND = 127 };

void pen_asker_init(struct pen_asker *asker, const char *command,
                    int64_t limit_ns)
{
    *asker =
        (struct pen_asker){.command = command, .limit_ns = limit_ns, .end = -1};
}

static _Noreturn void become(const char *command, int end)
{
    sigset_t none;
    int empty = open("/dev/null", O_RDONLY);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    dup2(empty, STDIN_FILENO);
    dup2(end, STDOUT_FILENO);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(EXIT_NOT_FOUND);
}

static void close_end(struct pen_asker *asker)
{
    if (asker->end >= 0)
        close(asker->end);
    asker->end = -1;
}

/*
 * Kills the group and collects it: what the command started is given to this
 * process, a subreaper. One that is inside a system call is left to itself.
 */
static void stop(struct pen_asker *asker)
{
    int64_t end_ns = pen_clock_ns() + STOP_NS;
    close_end(asker);
    if (asker->pid <= 0)
        return;
    kill(-asker->pid, SIGKILL);
    while (pen_clock_ns() < end_ns) {
        pid_t ended = waitpid(-asker->pid, NULL, WNOHANG);
        if (ended < 0 && errno != EINTR)
            break;
        if (ended == 0)
            poll(NULL, 0, 1);
    }
    asker->pid = 0;
}

pen_status pen_asker_start(struct pen_asker *asker, struct pen_text *why)
{
    int ends[2];
    stop(asker);
    pen_text_clear(&asker->answer);
    if (pipe(ends) != 0) {
        pen_why(why, "cannot make a pipe: %s", strerror(errno));
        return PEN_IO;
    }
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    asker->start_ns = pen_clock_ns();
    asker->pid = fork();
    if (asker->pid == 0)
        become(asker->command, ends[1]);
    close(ends[1]);
    asker->end = ends[0];
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    if (asker->pid > 0) {
        setpgid(asker->pid, asker->pid); /* whichever of the two is first */
        return PEN_OK;
    }
    pen_why(why, "cannot start a process: %s", strerror(errno));
    asker->pid = 0;
    close_end(asker);
    return PEN_IO;
}

/* Returns false when the command prints without end. */
static bool read_answer(struct pen_asker *asker)
{
    char part[4096];
    ssize_t length = -1;
    while (asker->end >= 0 && asker->answer.length <= MOST_BYTES &&
           (length = read(asker->end, part, sizeof part)) > 0)
        pen_text_add_bytes(&asker->answer, part, (size_t)length);
    if (length == 0)
        close_end(asker);
    return asker->answer.length <= MOST_BYTES;
}

static pen_status judge_end(int status, struct pen_text *why)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return PEN_OK;
    if (WIFEXITED(status))
        pen_why(why, "it ended with exit code %d", WEXITSTATUS(status));
    else
        pen_why(why, "it ended by signal %d", WTERMSIG(status));
    return PEN_INVALID;
}

pen_status pen_asker_tend(struct pen_asker *asker, struct pen_text *why)
{
    int status;
    if (asker->pid == 0)
        return PEN_BUSY;
    if (!read_answer(asker)) {
        pen_why(why, "it printed more than 4 MiB");
        stop(asker);
        return PEN_INVALID;
    }
    /* Not its process alone: what it started may still print. */
    if (asker->end < 0 && waitpid(asker->pid, &status, WNOHANG) == asker->pid) {
        stop(asker); /* what it has started in the background */
        return asker->answer.has_failed ? PEN_NOMEM : judge_end(status, why);
    }
    if (pen_clock_ns() - asker->start_ns < asker->limit_ns)
        return PEN_BUSY;
    pen_why(why, "it did not end within %.3g s",
            1e-9 * (double)asker->limit_ns);
    stop(asker);
    return PEN_LATE;
}

void pen_asker_release(struct pen_asker *asker)
{
    stop(asker);
    pen_text_release(&asker->answer);
}
