#ifndef PEN_SUPERVISE_STEPS_H
#define PEN_SUPERVISE_STEPS_H

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/*
 * The steps in the folder of a run. A step gets its name when all of it is on
 * the disk (checkpoint/checkpoint.h), so names are enough.
 */
struct pen_steps {
    const char *folder;      /* borrowed; NULL: none */
    struct timespec changed; /* of the folder, when it was last read */
    int64_t newest;          /* PEN_UNKNOWN: there is none */
};

/* Reads the folder if it has changed; returns the newest step. */
int64_t pen_steps_newest(struct pen_steps *steps);

/*
 * Returns the folder that follows --save among the words of a command; or NULL.
 */
const char *pen_steps_find_folder(char *const *words);

#endif
