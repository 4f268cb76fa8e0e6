/*
 * Reads the state, the work and the end of another process. Only a parent may
 * wait for a process, but until the parent does, /proc/PID/stat has the status
 * as its last field. Nothing here calls malloc(): the caller's main thread may
 * have been stopped inside of it.
 */
#include "watch/process.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    STAT_BYTES = 1024,
    WORK_BYTES = 128,
    LIST_BYTES = 4096,
    STATE_FIELD = 3, /* fields of proc(5), as are the next three */
    PARENT_FIELD = 4,
    START_FIELD = 22,
    STATUS_FIELD = 52
};

struct pen__process pen__process_parse(const char *text)
{
    struct pen__process process = {.state = 0};
    const char *at = strrchr(text, ')'); /* a name may have any letters */
    if (at == NULL || at[1] != ' ' || at[2] == '\0')
        return process;
    at += 2;
    process.state = *at;
    for (int field = STATE_FIELD; field < STATUS_FIELD; field++) {
        at = strchr(at, ' ');
        if (at == NULL)
            return process;
        at++;
        if (field + 1 == PARENT_FIELD)
            process.parent = (int)strtol(at, NULL, 10);
        if (field + 1 == START_FIELD)
            process.start = strtoull(at, NULL, 10);
    }
    /* A process that is being torn down has its status already. */
    process.status = (int)strtol(at, NULL, 10);
    process.has_status =
        process.status != 0 || process.state == 'Z' || process.state == 'X';
    return process;
}

/* Reads the beginning of a file as a string; false when it cannot be read. */
static bool read_text(const char *path, char *text, size_t size)
{
    int handle = open(path, O_RDONLY | O_CLOEXEC);
    if (handle < 0)
        return false;
    ssize_t length = read(handle, text, size - 1);
    close(handle);
    text[length < 0 ? 0 : length] = '\0';
    return length > 0;
}

struct pen__process pen__process_read(int pid)
{
    char path[32];
    char text[STAT_BYTES];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (!read_text(path, text, sizeof text))
        return (struct pen__process){.state = 0};
    return pen__process_parse(text);
}

/* ---- work ---- */

struct pen__process_work pen__process_work_parse(const char *text)
{
    struct pen__process_work work = {.is_known = false};
    work.is_known =
        sscanf(text, "%" SCNd64 " %" SCNd64, &work.cpu_ns, &work.queue_ns) == 2;
    return work;
}

static struct pen__process_work read_task(int pid, int task)
{
    char path[64];
    char text[WORK_BYTES];
    snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", pid, task);
    if (!read_text(path, text, sizeof text))
        return (struct pen__process_work){.is_known = false};
    return pen__process_work_parse(text);
}

struct pen__process_work pen__process_read_main(int pid)
{
    return read_task(pid, pid);
}

static void add_work(struct pen__process_work *sum,
                     const struct pen__process_work *work)
{
    if (!work->is_known)
        return;
    sum->is_known = true;
    sum->cpu_ns += work->cpu_ns;
    sum->queue_ns += work->queue_ns;
}

/* An entry as getdents64(2) lays it out; opendir() would allocate. */
struct listed {
    uint64_t inode;
    int64_t next;
    unsigned short length;
    unsigned char type;
    char name[];
};

struct pen__process_work pen__process_read_work(int pid, int except)
{
    struct pen__process_work sum = {.is_known = false};
    _Alignas(struct listed) char list[LIST_BYTES];
    char path[32];
    long length;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    int handle = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (handle < 0)
        return sum;
    while ((length = syscall(SYS_getdents64, handle, list, sizeof list)) > 0) {
        long at = 0;
        while (at < length) {
            const struct listed *entry = (const void *)&list[at];
            int task = atoi(entry->name);
            struct pen__process_work work = {.is_known = false};
            if (task > 0 && task != except)
                work = read_task(pid, task);
            add_work(&sum, &work);
            at += entry->length;
        }
    }
    close(handle);
    return sum;
}

/* ---- words ---- */

bool pen__process_is_halted(const struct pen__process *process)
{
    return process->state == 0 || strchr("TtZX", process->state) != NULL;
}

const char *pen__process_words(const struct pen__process *process)
{
    switch (process->state) {
    case 'T':
        return "stopped";
    case 't':
        return "held by a debugger";
    case 'D':
        return "in a system call that does not return";
    case 'R':
        return "running";
    case 'S':
    case 'I':
        return "sleeping";
    case 'Z':
    case 'X':
    case 0:
        return "dead";
    default:
        return "unknown";
    }
}

void pen__process_add_end(const struct pen__process *process,
                          struct pen_text *out)
{
    if (process->has_status && WIFSIGNALED(process->status))
        pen_text_add(out, "signal %d", WTERMSIG(process->status));
    else if (process->has_status && WIFEXITED(process->status))
        pen_text_add(out, "exit code %d", WEXITSTATUS(process->status));
    else
        pen_text_add_string(out, "signal or exit unknown");
}
