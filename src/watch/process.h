#ifndef PEN_WATCH_PROCESS_H
#define PEN_WATCH_PROCESS_H

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/* A process, as /proc shows it. */
struct pen__process {
    char state; /* the letter of /proc/PID/stat; 0: there is no such process */
    bool has_status; /* it is ending or has ended, and its parent has not
                        collected it */
    int status;      /* as waitpid() gives it */
    uint64_t start;  /* when it began, in ticks since the machine did */
    int parent;
};

/* Reads the process of this number. Does not allocate and never fails. */
struct pen__process pen__process_read(int pid);

/* Parses the text of /proc/PID/stat. */
struct pen__process pen__process_parse(const char *text);

/* Returns whether the process cannot run by itself: stopped, traced or dead. */
bool pen__process_is_halted(const struct pen__process *process);

/* Returns "stopped", "running" ... */
const char *pen__process_words(const struct pen__process *process);

/* Adds "signal 9", "exit code 1" or "signal or exit unknown". */
void pen__process_add_end(const struct pen__process *process,
                          struct pen_text *out);

/*
 * Time that the threads of a process have spent on a core, and ready to run
 * without one. The time for which a thread has been waiting for a core is
 * counted when it gets one.
 */
struct pen__process_work {
    bool is_known; /* the kernel shows it, and the process exists */
    int64_t cpu_ns;
    int64_t queue_ns;
};

/* Parses the text of /proc/PID/schedstat. */
struct pen__process_work pen__process_work_parse(const char *text);

/* Reads the work of the main thread alone. Neither allocates nor fails. */
struct pen__process_work pen__process_read_main(int pid);

/*
 * Reads the work of all threads but one; `except` is its number, or 0. Neither
 * allocates nor fails.
 */
struct pen__process_work pen__process_read_work(int pid, int except);

#endif
