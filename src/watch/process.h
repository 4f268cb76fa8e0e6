#ifndef PEN_WATCH_PROCESS_H
#define PEN_WATCH_PROCESS_H

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/* What Linux tells of another process. */
struct pen__process {
    char state;      /* the letter of /proc/PID/stat; 0: there is none */
    bool has_status; /* it ends or has, nobody has collected it yet */
    int status;      /* as waitpid() gives it */
    uint64_t start;  /* when it began, in ticks since the machine did */
    int parent;
};

/* Does not allocate and never fails. */
struct pen__process pen__process_read(int pid);

/* Of the text of /proc/PID/stat. */
struct pen__process pen__process_parse(const char *text);

/* It will not go on by itself: stopped, traced or dead. */
bool pen__process_is_halted(const struct pen__process *process);

/* "stopped", "running" ... */
const char *pen__process_words(const struct pen__process *process);

/* "signal 9", "exit code 1" or "signal or exit unknown". */
void pen__process_add_end(const struct pen__process *process,
                          struct pen_text *out);

/*
 * Time that threads of a process have spent on a core, and ready to run without
 * one. A thread that waits for a core now is counted when it gets one.
 */
struct pen__process_work {
    bool is_known; /* the kernel tells it, and the process is there */
    int64_t cpu_ns;
    int64_t queue_ns;
};

/* Of the text of /proc/PID/schedstat. */
struct pen__process_work pen__process_work_parse(const char *text);

/* Of the main thread alone. Neither allocates, and neither fails. */
struct pen__process_work pen__process_read_main(int pid);

/* Of all threads but one; `except` is its number, or 0. */
struct pen__process_work pen__process_read_work(int pid, int except);

#endif
