/*
 * The values that distinguish one start of a job from another, by launcher:
 *
 *   mpirun of Open MPI   PMIX_NAMESPACE: a number made from host and process of
 *                        mpirun, of which 16 bits differ; so the address of the
 *                        server of this node is added
 *   srun                 SLURM_JOB_ID, SLURM_STEP_ID
 *   mpiexec of MPICH     nothing in the environment. PMI_FD is a socket made by
 *                        the launcher's process on this node, whose pid the
 *                        kernel gives; pids are used again,
 *                        so the time when it began is added
 *   mpiexec -launcher    PMI_PORT, the address of that process
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): ucred */
#include "watch/launch_job.h"

#include "watch/process.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/socket.h>

struct environment {
    const char *(*get)(void *context, const char *name);
    void *context;
};

/* Variables whose values together identify a job; the second may be missing. */
static const struct parts {
    enum pen_launcher launcher; /* NONE: any launcher */
    const char *name;
    const char *more;
} table[] = {
    {PEN_LAUNCHER_SRUN, "SLURM_JOB_ID", "SLURM_STEP_ID"},
    {PEN_LAUNCHER_OPENMPI, "PMIX_NAMESPACE", "PMIX_SERVER_URI21"},
    {PEN_LAUNCHER_PMIX, "PMIX_NAMESPACE", "PMIX_SERVER_URI21"},
    {PEN_LAUNCHER_OPENMPI, "OMPI_MCA_ess_base_jobid",
     "OMPI_MCA_orte_local_daemon_uri"},
    {PEN_LAUNCHER_HYDRA, "PMI_PORT", NULL},
    {PEN_LAUNCHER_MVAPICH, "PMI_PORT", NULL},
};

static const char *value(const struct environment *environment,
                         const char *name)
{
    const char *text = environment->get(environment->context, name);
    return text != NULL && *text != '\0' ? text : NULL;
}

static bool add_parts(const struct environment *environment,
                      const struct parts *parts, struct pen_text *out)
{
    const char *name = value(environment, parts->name);
    const char *more =
        parts->more == NULL ? NULL : value(environment, parts->more);
    if (name == NULL)
        return false;
    pen_text_add(out, "%s=%s", parts->name, name);
    if (more != NULL)
        pen_text_add(out, " %s=%s", parts->more, more);
    return true;
}

static void add_peer(int socket, struct pen_text *out)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
        peer.pid <= 0)
        return;
    uint64_t start = pen__process_read(peer.pid).start;
    if (start > 0)
        pen_text_add(out, "launcher %d of %" PRIu64, (int)peer.pid, start);
}

void pen_launch_job(const struct pen_launch *launch,
                    const char *(*get)(void *context, const char *name),
                    void *context, struct pen_text *out)
{
    const struct environment environment = {get, context};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].launcher == launch->launcher &&
            add_parts(&environment, &table[i], out))
            return;
    if (launch->socket > 0)
        add_peer(launch->socket, out);
}

static const char *get_own(void *context, const char *name)
{
    (void)context;
    return getenv(name);
}

void pen_launch_job_own(const struct pen_launch *launch, struct pen_text *out)
{
    pen_launch_job(launch, get_own, NULL, out);
}
