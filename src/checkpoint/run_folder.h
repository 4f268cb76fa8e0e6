#ifndef PEN_CHECKPOINT_RUN_FOLDER_H
#define PEN_CHECKPOINT_RUN_FOLDER_H

#include "checkpoint/checkpoint.h"

/*
 * The folder of a run has one owner while the run trains. The leader of the
 * ranks holds a lock on a file in it, which the kernel gives back however the
 * process ends:
 *
 *   RUN/.lock            "RUN-ID HOST PROCESS", empty after a regular end
 *   RUN/step-00001000/   all steps have the id of this run
 */
struct pen_run_folder {
    char run[PEN_RUN_ID_SIZE];
    bool has_lock; /* false: the file system has no locks */
    int handle;    /* of the lock; -1: none */
};

#define PEN_RUN_FOLDER_NONE ((struct pen_run_folder){.handle = -1})

/*
 * Takes the folder for a run, on its leader; makes it (mode 0700) when it is
 * missing. Refused when another process has it, when a file cannot be written
 * there, or when it holds steps that the run would be mixed with:
 *
 *   loaded   folder               id
 *   NULL     no step              a new one
 *   NULL     any step             refused
 *   a step   no step              a new one; that of the run, if the step is
 *                                 in memory
 *   a step   steps of its run     that of the run, unless the folder has a
 *                                 newer whole step than the one that is loaded
 *   a step   of another run       refused
 *
 * On success end with pen_run_folder_release().
 */
pen_status pen_run_folder_claim(const char *folder,
                                const struct pen_checkpoint *loaded,
                                struct pen_run_folder *out,
                                struct pen_text *why);

/*
 * Checks, on every other process that writes there, that it sees the folder
 * that the leader has claimed for this run, and can write a file in it.
 */
pen_status pen_run_folder_join(const char *folder,
                               const char run[PEN_RUN_ID_SIZE],
                               struct pen_text *why);

/* Releases the folder. PEN_RUN_FOLDER_NONE is fine. */
void pen_run_folder_release(struct pen_run_folder *folder);

#endif
