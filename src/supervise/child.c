#include "supervise/child.h"

#include "base/clock.h"
#include "holder/place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_NOT_FOUND = 127 };

static _Noreturn void become(char *const *words, int words_end, uint64_t epoch,
                             const char *holder)
{
    char number[24];
    sigset_t none;
    int empty = open("/dev/null", O_RDONLY);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setpgid(0, 0);
    dup2(empty, STDIN_FILENO); /* a background group may not read a terminal */
    dup2(words_end, STDERR_FILENO);
    snprintf(number, sizeof number, "%" PRIu64, epoch);
    setenv(PEN_EPOCH_VARIABLE, number, 1);
    if (holder != NULL) {
        struct pen_text node = PEN_TEXT_EMPTY;
        pen_holder_node_name(&node);
        setenv(PEN_HOLDER_VARIABLE, holder, 1);
        setenv(PEN_HOLDER_NODE_VARIABLE, pen_text_string(&node), 1);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(words[0], words);
    fprintf(stderr, "penstock: error: cannot start %s: %s\n", words[0],
            strerror(errno));
    _exit(EXIT_NOT_FOUND);
}

pen_status pen_child_start(struct pen_child *child, char *const *words,
                           uint64_t epoch, const char *holder,
                           struct pen_text *why)
{
    int ends[2];
    memset(child, 0, sizeof *child);
    pen_last_words_init(&child->words);
    child->start_ns = pen_clock_ns();
    if (pipe(ends) != 0) {
        pen_why(why, "cannot make a pipe: %s", strerror(errno));
        return PEN_IO;
    }
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    child->pid = fork();
    if (child->pid == 0)
        become(words, ends[1], epoch, holder);
    close(ends[1]);
    child->words_end = ends[0];
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    if (child->pid > 0)
        return PEN_OK;
    pen_why(why, "cannot start a process: %s", strerror(errno));
    close(ends[0]);
    child->pid = 0;
    return PEN_IO;
}

static void pass_on(const char *bytes, ssize_t length)
{
    while (length > 0) {
        ssize_t done = write(STDERR_FILENO, bytes, (size_t)length);
        if (done < 0 && errno != EINTR)
            return; /* nothing reads the pipe */
        bytes += done < 0 ? 0 : done;
        length -= done < 0 ? 0 : done;
    }
}

void pen_child_read(struct pen_child *child)
{
    char part[4096];
    ssize_t length = -1;
    while (child->words_end >= 0 &&
           (length = read(child->words_end, part, sizeof part)) > 0) {
        pen_last_words_add(&child->words, part, (size_t)length);
        if (!child->is_silent)
            pass_on(part, length);
    }
    if (length == 0) {
        close(child->words_end);
        child->words_end = -1;
    }
}

void pen_child_collect(struct pen_child *child)
{
    if (!child->has_ended &&
        waitpid(child->pid, &child->status, WNOHANG) == child->pid)
        child->has_ended = true;
}

void pen_child_release(struct pen_child *child)
{
    if (child->words_end >= 0)
        close(child->words_end);
    pen_leftovers_remove(&child->leftovers, child->pid);
    memset(child, 0, sizeof *child);
    child->words_end = -1;
}
