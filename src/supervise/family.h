#ifndef PEN_SUPERVISE_FAMILY_H
#define PEN_SUPERVISE_FAMILY_H

#include "base/status.h"
#include "watch/process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The processes of a launch on this node: all descendants of this process but
 * those below given ones. This process is their subreaper, so a rank whose
 * launcher died becomes its child and stays a descendant.
 */
struct pen_member {
    pid_t pid;
    int handle;     /* pidfd: readable once the process has ended */
    uint64_t start; /* with the pid, names the process for good */
    int64_t rank;   /* PEN_UNKNOWN: no rank of penstock train */
    char state;     /* letter of /proc/PID/stat */
    bool has_ended;
    bool is_noted;      /* its end was looked at */
    int status;         /* as waitpid() gives it; valid if has_status */
    bool has_status;    /* else the launcher was faster to collect it */
    int64_t stopped_ns; /* when it was first seen stopped; 0: it is not */
};

struct pen_family {
    struct pen_member *members;
    size_t count;
    size_t capacity;
    const pid_t *others; /* borrowed; the processes to leave out */
    size_t num_others;
};

#define PEN_FAMILY_EMPTY                                                       \
    {                                                                          \
        NULL, 0, 0, NULL, 0                                                    \
    }

/* Makes this process the one that orphans below it are given to. */
pen_status pen_family_adopt(struct pen_text *why);

/* Looks for new members and forgets none. PEN_NOMEM or PEN_OK. */
pen_status pen_family_scan(struct pen_family *family);

/* Reads the state of living members, and since when they are stopped. */
void pen_family_look(struct pen_family *family, int64_t now_ns);

/*
 * Notes that the process of this handle has ended, and how, if that is known.
 */
void pen_member_note_end(struct pen_member *member);

/* Returns the number of living ranks. */
size_t pen_family_ranks(const struct pen_family *family);

/* Sends a signal to all living members but one, which may be 0. */
void pen_family_signal(const struct pen_family *family, int number,
                       pid_t except);

/*
 * Kills all members but `spared`, which may be 0, and those that come up
 * meanwhile. Returns when all of them have ended, collected or not; false when
 * one has not after this long: it is inside a system call.
 */
bool pen_family_kill(struct pen_family *family, pid_t spared, int64_t limit_ns);

void pen_family_release(struct pen_family *family);

#endif
