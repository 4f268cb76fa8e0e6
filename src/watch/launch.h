#ifndef PEN_WATCH_LAUNCH_H
#define PEN_WATCH_LAUNCH_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The launcher that started this process, as the environment shows it. Where
 * launcher and MPI library do not know each other, N processes run that each
 * believe to be rank 0 of 1, do the same work N times and write over each
 * other's files. These functions notice that.
 */

/* Each launcher: its name, and its name in a sentence. */
#define PEN_LAUNCHER_TABLE(X)                                                  \
    X(NONE, "no launcher")                                                     \
    X(OPENMPI, "mpirun of Open MPI")                                           \
    X(HYDRA, "mpiexec of MPICH")                                               \
    X(MVAPICH, "mpirun of MVAPICH")                                            \
    X(SRUN, "srun")                                                            \
    X(PMIX, "a launcher with PMIx")

enum pen_launcher {
#define PEN_LAUNCHER_ENUM(name, words) PEN_LAUNCHER_##name,
    PEN_LAUNCHER_TABLE(PEN_LAUNCHER_ENUM)
#undef PEN_LAUNCHER_ENUM
};

#define PEN_LAUNCH_UNKNOWN UINT32_MAX

struct pen_launch {
    enum pen_launcher launcher;
    const char *plugin; /* a constant: what follows --mpi= of srun, or NULL */
    uint32_t size;      /* this and the next two: or PEN_LAUNCH_UNKNOWN */
    uint32_t rank;
    uint32_t local_size; /* on this node */
    uint32_t local_rank;
    int socket; /* shows the launcher when this process ends; 0: none */
};

/*
 * Returns the launcher nearest to this process: mpirun inside srun is mpirun.
 * `get` is a getenv() with a context; it returns NULL when there is no such
 * name.
 */
struct pen_launch pen_launch_read(const char *(*get)(void *context,
                                                     const char *name),
                                  void *context);

/*
 * Reads the environment of this process. Call it before MPI_Init(), which adds
 * to the environment.
 */
struct pen_launch pen_launch_read_own(void);

/*
 * Returns whether the launcher is MPICH's process manager, or derived from it.
 */
bool pen_launcher_is_hydra(enum pen_launcher launcher);

/*
 * Refuses, in one line with a remedy, when the launcher started several
 * processes and MPI knows only this one. mpi_size is the size of the world and
 * library what MPI_Get_library_version() gives.
 */
pen_status pen_launch_check(const struct pen_launch *launch, uint32_t mpi_size,
                            const char *library, struct pen_text *why);

/*
 * Returns whether this process is the launcher's first. When each of N
 * processes believes to be rank 0, only that one is to print.
 */
bool pen_launch_is_first(const struct pen_launch *launch);

#endif
