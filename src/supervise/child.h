#ifndef PEN_SUPERVISE_CHILD_H
#define PEN_SUPERVISE_CHILD_H

#include "supervise/last_words.h"
#include "supervise/leftovers.h"

/*
 * One start of the command: the process itself, which is a launcher or the
 * only rank, and what it printed.
 */
struct pen_child {
    pid_t pid;      /* 0: none */
    int words_end;  /* stderr of all its processes; -1 when closed */
    bool is_silent; /* its words are kept, no longer passed on */
    bool has_ended;
    int status; /* as waitpid() gives it, once it has ended */
    int64_t start_ns;
    int64_t deadline_ns; /* of one that tidies up */
    struct pen_last_words words;
    struct pen_leftovers leftovers;
};

/*
 * Starts the words, the last NULL, in a process group of their own, with the
 * epoch and, unless NULL, the path of the holder in the environment. When this
 * process ends, the child gets SIGTERM. A command that is not there ends with
 * exit code 127.
 */
pen_status pen_child_start(struct pen_child *child, char *const *words,
                           uint64_t epoch, const char *holder,
                           struct pen_text *why);

/* Takes what was printed so far, and passes it on. Does not wait. */
void pen_child_read(struct pen_child *child);

/* Collects the process if it has ended. Does not wait. */
void pen_child_collect(struct pen_child *child);

/* Releases a child that was collected and whose processes are all gone. */
void pen_child_release(struct pen_child *child);

#endif
