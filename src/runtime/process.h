#ifndef PEN_RUNTIME_PROCESS_H
#define PEN_RUNTIME_PROCESS_H

#include "base/text.h"

#include <stdbool.h>

/* What Linux tells of another process. */
struct pen__process {
    char state;      /* the letter of /proc/PID/stat; 0: there is none */
    bool has_status; /* it ends or has, nobody has collected it yet */
    int status;      /* as waitpid() gives it */
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

#endif
