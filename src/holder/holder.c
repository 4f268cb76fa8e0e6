/* The parent's side of a holder. */
#include "holder/holder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define BACKLOG 1024
#define ANSWER_SEC 10

/* ---- starting ---- */

/*
 * Refuses a folder that others can write to: it could have another socket
 * tomorrow.
 */
static pen_status check_folder(const char *path, struct pen_text *why)
{
    struct stat info;
    struct pen_text folder = PEN_TEXT_EMPTY;
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        pen_text_add_string(&folder, ".");
    else
        pen_text_add_bytes(&folder, path, (size_t)(slash - path));
    bool is_own = lstat(pen_text_string(&folder), &info) == 0 &&
                  S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
                  (info.st_mode & 077u) == 0;
    if (!is_own)
        pen_why(why,
                "the folder %s of the holder's socket must exist, belong to "
                "this user and have the mode 0700",
                pen_text_string(&folder));
    pen_text_release(&folder);
    return is_own ? PEN_OK : PEN_INVALID;
}

static pen_status listen_at(const char *path, int *out, struct pen_text *why)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        pen_why(why, "the path of a socket has at most %zu bytes: %s",
                sizeof address.sun_path - 1, path);
        return PEN_INVALID;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    int listener =
        socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener >= 0 &&
        bind(listener, (struct sockaddr *)&address, sizeof address) == 0 &&
        chmod(path, 0600) == 0 && listen(listener, BACKLOG) == 0) {
        *out = listener;
        return PEN_OK;
    }
    pen_why(why, "cannot listen on %s: %s", path, strerror(errno));
    if (listener >= 0)
        close(listener);
    return PEN_IO;
}

static bool is_among(int wanted, const int *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == wanted)
            return true;
    return false;
}

/* Files and sockets of the parent must not live as long as the holder. */
static void close_others(const int *kept, size_t count)
{
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return;
    for (struct dirent *it; (it = readdir(folder)) != NULL;) {
        int descriptor = atoi(it->d_name);
        if (descriptor > STDERR_FILENO && descriptor != dirfd(folder) &&
            !is_among(descriptor, kept, count))
            close(descriptor);
    }
    closedir(folder);
}

static _Noreturn void be_holder(const struct pen__holder_ends *ends,
                                uint64_t epoch, int64_t limit_ns)
{
    static const int ignored[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                  SIGUSR1, SIGUSR2, SIGPIPE, SIGCHLD};
    const int kept[] = {ends->listener, ends->control, ends->events};
    sigset_t none;
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_NAME, "pen-holder");
    prctl(PR_SET_DUMPABLE, 0);
    close_others(kept, sizeof kept / sizeof *kept);
    int empty = open("/dev/null", O_RDWR);
    if (empty >= 0) {
        dup2(empty, STDIN_FILENO);
        dup2(empty, STDOUT_FILENO);
        if (ends->control < 0) /* a launcher waits for the end of stderr */
            dup2(empty, STDERR_FILENO);
    }
    pen__holder_serve(ends, epoch, limit_ns);
    _exit(0);
}

static pen_status make_pairs(int control[2], int events[2],
                             struct pen_text *why)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) == 0) {
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
                       0, events) == 0)
            return PEN_OK;
        close(control[0]);
        close(control[1]);
    }
    pen_why(why, "cannot make sockets: %s", strerror(errno));
    return PEN_IO;
}

static pen_status start(int listener, uint64_t epoch, struct pen_holder *out,
                        struct pen_text *why)
{
    int control[2];
    int events[2];
    pen_status status = make_pairs(control, events, why);
    if (status != PEN_OK)
        return status;
    pid_t pid = fork();
    if (pid == 0) {
        const struct pen__holder_ends ends = {listener, control[1], events[1]};
        be_holder(&ends, epoch, 0);
    }
    close(control[1]);
    close(events[1]);
    if (pid < 0) {
        pen_why(why, "cannot start a process: %s", strerror(errno));
        close(control[0]);
        close(events[0]);
        return PEN_IO;
    }
    struct timeval limit = {.tv_sec = ANSWER_SEC};
    setsockopt(control[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(control[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    *out = (struct pen_holder){pid, control[0], events[0]};
    return PEN_OK;
}

pen_status pen_holder_start(const char *path, uint64_t epoch,
                            struct pen_holder *out, struct pen_text *why)
{
    int listener = -1;
    pen_status status = check_folder(path, why);
    if (status == PEN_OK)
        status = listen_at(path, &listener, why);
    if (status != PEN_OK)
        return status;
    status = start(listener, epoch, out, why);
    close(listener);
    if (status != PEN_OK)
        unlink(path);
    return status;
}

/* ---- without a parent ---- */

static bool is_served(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return false;
    memcpy(address.sun_path, path, strlen(path) + 1);
    int it = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    bool is_there = it >= 0 && connect(it, (struct sockaddr *)&address,
                                       sizeof address) == 0;
    if (it >= 0)
        close(it);
    return is_there;
}

/*
 * Returns the descriptor of the folder, locked; of two ranks that start a
 * holder one waits.
 */
static pen_status enter_folder(const char *path, int *out, struct pen_text *why)
{
    struct pen_text folder = PEN_TEXT_EMPTY;
    const char *slash = strrchr(path, '/');
    pen_text_add_bytes(&folder, path,
                       slash == NULL ? 0 : (size_t)(slash - path));
    if (folder.length > 0)
        mkdir(pen_text_string(&folder), 0700); /* checked below */
    pen_status status = check_folder(path, why);
    if (status == PEN_OK) {
        *out = open(folder.length > 0 ? pen_text_string(&folder) : ".",
                    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (*out >= 0)
            flock(*out, LOCK_EX);
    }
    pen_text_release(&folder);
    return status;
}

/*
 * Forks twice: this process waits for the first child alone; the second is the
 * holder.
 */
static pen_status leave_behind(int listener, double idle_sec,
                               struct pen_text *why)
{
    pid_t pid = fork();
    if (pid == 0) {
        const struct pen__holder_ends ends = {listener, -1, -1};
        setsid();
        if (fork() != 0)
            _exit(0);
        if (chdir("/") == 0)
            be_holder(&ends, 0, (int64_t)(idle_sec * 1e9));
        _exit(1);
    }
    if (pid < 0) {
        pen_why(why, "cannot start a process: %s", strerror(errno));
        return PEN_IO;
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return PEN_OK;
}

pen_status pen_holder_start_alone(const char *path, double idle_sec,
                                  struct pen_text *why)
{
    int folder = -1, listener = -1;
    pen_status status = enter_folder(path, &folder, why);
    if (status != PEN_OK)
        return status;
    if (!is_served(path)) {
        unlink(path);
        status = listen_at(path, &listener, why);
        if (status == PEN_OK)
            status = leave_behind(listener, idle_sec, why);
    }
    if (listener >= 0)
        close(listener);
    if (folder >= 0)
        close(folder);
    return status;
}

/* ---- asking ---- */

static pen_status ask(struct pen_holder *holder,
                      const struct pen_holder_message *question,
                      struct pen_holder_message *answer, struct pen_text *why)
{
    int descriptor = -1;
    pen_status status = pen_holder_send(holder->control, question, -1);
    if (status == PEN_OK)
        status = pen_holder_receive(holder->control, answer, &descriptor, why);
    if (descriptor >= 0)
        close(descriptor);
    if (status == PEN_LOST || status == PEN_BUSY) {
        pen_why(why, "the holder (process %d) does not answer",
                (int)holder->pid);
        return PEN_LOST;
    }
    if (status == PEN_OK && answer->kind == PEN_HOLDER_REFUSED) {
        pen_why(why, "%s", answer->text);
        return PEN_INVALID;
    }
    return status;
}

pen_status pen_holder_set_epoch(struct pen_holder *holder, uint64_t epoch,
                                struct pen_text *why)
{
    struct pen_holder_message answer;
    struct pen_holder_message question =
        pen_holder_message_of(PEN_HOLDER_EPOCH);
    question.epoch = epoch;
    return ask(holder, &question, &answer, why);
}

pen_status pen_holder_entry(struct pen_holder *holder, uint32_t index,
                            struct pen_holder_message *out,
                            struct pen_text *why)
{
    struct pen_holder_message question = pen_holder_message_of(PEN_HOLDER_LIST);
    question.index = index;
    return ask(holder, &question, out, why);
}

pen_status pen_holder_next_event(struct pen_holder *holder,
                                 struct pen_holder_message *out)
{
    int descriptor = -1;
    pen_status status =
        pen_holder_receive(holder->events, out, &descriptor, NULL);
    if (descriptor >= 0)
        close(descriptor);
    return status;
}

void pen_holder_stop(struct pen_holder *holder)
{
    if (holder->pid > 0) {
        close(holder->control); /* it ends by itself */
        close(holder->events);
        while (waitpid(holder->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    *holder = PEN_HOLDER_EMPTY;
}
