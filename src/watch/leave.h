#ifndef PEN_WATCH_LEAVE_H
#define PEN_WATCH_LEAVE_H

#include "watch/board.h"

/*
 * Ends this process with this exit code in such a way that the launcher takes
 * it for the code of the job; all ranks of the node must call this at about the
 * same time. Takes about a tenth of a second; under MPICH's launcher another
 * process, which keeps the files open, ends within another second. Calls
 * neither malloc() nor MPI. For any thread.
 */
_Noreturn void pen__leave_together(const struct pen_board *board, int code);

#endif
