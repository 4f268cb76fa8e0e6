#ifndef PEN_SUPERVISE_LEFTOVERS_H
#define PEN_SUPERVISE_LEFTOVERS_H

#include "supervise/family.h"

/*
 * Files that a killed MPI leaves on this node: its shared memory under
 * /dev/shm, and the session folder of a launcher of Open MPI. Shared memory
 * counts only by names of MPI libraries, and only if a rank of the launch, or
 * another process of the same job, had the file mapped: a user's own files
 * stay.
 */
struct pen_leftovers {
    struct pen_text names; /* of files in /dev/shm, each ends with a newline */
};

/* Notes what the living ranks have mapped. */
void pen_leftovers_note(struct pen_leftovers *leftovers,
                        const struct pen_family *family);

/* Adds the names in the text of /proc/PID/maps, each once. */
void pen_leftovers_read(struct pen_leftovers *leftovers, const char *maps);

/* Returns whether a file of Open MPI names the job of a noted file. */
bool pen_leftovers_is_kin(const struct pen_leftovers *leftovers,
                          const char *name);

/*
 * Removes the files after all processes of the launch are gone. Failures are
 * not reported.
 */
void pen_leftovers_remove(struct pen_leftovers *leftovers, pid_t launcher);

#endif
