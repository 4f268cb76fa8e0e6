/*
 * The state and the end of another process. A parent alone may wait for it,
 * but until the parent does, /proc/PID/stat has the status as its last field.
 */
#include "runtime/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    STAT_BYTES = 1024,
    STATE_FIELD = 3,  /* of proc(5) */
    STATUS_FIELD = 52 /* likewise */
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
    }
    /* A process that is being taken apart has its status already. */
    process.status = (int)strtol(at, NULL, 10);
    process.has_status =
        process.status != 0 || process.state == 'Z' || process.state == 'X';
    return process;
}

struct pen__process pen__process_read(int pid)
{
    char path[32];
    char text[STAT_BYTES];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int handle = open(path, O_RDONLY | O_CLOEXEC);
    if (handle < 0)
        return (struct pen__process){.state = 0};
    ssize_t length = read(handle, text, sizeof text - 1);
    close(handle);
    text[length < 0 ? 0 : length] = '\0';
    return pen__process_parse(text);
}

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
