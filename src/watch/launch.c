/*
 * Names that launchers leave in the environment, as seen with Open MPI 4.1,
 * MPICH 4.0 and Slurm 22.05:
 *
 *   mpirun of Open MPI  OMPI_COMM_WORLD_*, PMIX_RANK
 *   mpiexec of MPICH    PMI_*, MPI_LOCALNRANKS, MPI_LOCALRANKID
 *   srun --mpi=pmix     SLURM_STEP_NUM_TASKS, PMIX_RANK
 *   srun --mpi=pmi2     SLURM_STEP_NUM_TASKS, PMI_*
 *   srun --mpi=none     SLURM_STEP_NUM_TASKS
 *
 * srun gives the tasks of all nodes as "2(x3),1": two on each of three nodes
 * and one on a fourth.
 *
 * Under an mpirun inside of an allocation, SLURM_* are those of its daemons, so
 * they are read last. A batch script has SLURM_NTASKS but it is not a step and
 * lacks SLURM_STEP_NUM_TASKS: a program that it starts directly is one process.
 */
#include "watch/launch.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct environment {
    const char *(*get)(void *context, const char *name);
    void *context;
};

static bool has(const struct environment *environment, const char *name)
{
    return environment->get(environment->context, name) != NULL;
}

static uint32_t number(const struct environment *environment, const char *name)
{
    const char *text = environment->get(environment->context, name);
    if (text == NULL || *text < '0' || *text > '9')
        return PEN_LAUNCH_UNKNOWN;
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    return *end == '\0' && value < PEN_LAUNCH_UNKNOWN ? (uint32_t)value
                                                      : PEN_LAUNCH_UNKNOWN;
}

/*
 * The variables in which a launcher writes its numbers; NULL: it writes none.
 */
static const struct names {
    enum pen_launcher launcher;
    const char *sign; /* the launcher is present if this variable is */
    const char *size;
    const char *rank;
    const char *local_size;
    const char *local_rank;
} table[] = {
    {PEN_LAUNCHER_OPENMPI, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK"},
    {PEN_LAUNCHER_MVAPICH, "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE",
     "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_SIZE",
     "MV2_COMM_WORLD_LOCAL_RANK"},
    {PEN_LAUNCHER_HYDRA, "MPI_LOCALNRANKS", "PMI_SIZE", "PMI_RANK",
     "MPI_LOCALNRANKS", "MPI_LOCALRANKID"},
    {PEN_LAUNCHER_SRUN, "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_TASKS",
     "SLURM_PROCID", NULL, "SLURM_LOCALID"},
    {PEN_LAUNCHER_HYDRA, "PMI_SIZE", "PMI_SIZE", "PMI_RANK", NULL, NULL},
    {PEN_LAUNCHER_PMIX, "PMIX_RANK", NULL, "PMIX_RANK", NULL, NULL},
};

static uint32_t number_if(const struct environment *environment,
                          const char *name)
{
    return name == NULL ? PEN_LAUNCH_UNKNOWN : number(environment, name);
}

bool pen_launcher_is_hydra(enum pen_launcher launcher)
{
    return launcher == PEN_LAUNCHER_HYDRA || launcher == PEN_LAUNCHER_MVAPICH;
}

/*
 * Returns the socket of this process to MPICH's launcher (hydra), which makes
 * one for each of its processes.
 */
static int socket_of(const struct environment *environment,
                     enum pen_launcher launcher)
{
    uint32_t file = number(environment, "PMI_FD");
    return pen_launcher_is_hydra(launcher) && file <= INT_MAX ? (int)file : 0;
}

/* Returns the item of a node in "2(x3),1"; unknown for other texts. */
static uint32_t tasks_of(const char *list, uint32_t node)
{
    uint64_t begin = 0;
    while (list != NULL && *list >= '0' && *list <= '9') {
        char *at;
        unsigned long tasks = strtoul(list, &at, 10);
        unsigned long times = 1;
        if (at[0] == '(' && at[1] == 'x') {
            times = strtoul(at + 2, &at, 10);
            if (*at++ != ')')
                break;
        }
        begin += times;
        if (node < begin)
            return tasks < PEN_LAUNCH_UNKNOWN ? (uint32_t)tasks
                                              : PEN_LAUNCH_UNKNOWN;
        if (*at != ',')
            break;
        list = at + 1;
    }
    return PEN_LAUNCH_UNKNOWN;
}

static uint32_t local_size_of(const struct environment *environment,
                              const struct names *names)
{
    uint32_t node;
    if (names->launcher != PEN_LAUNCHER_SRUN)
        return number_if(environment, names->local_size);
    node = number(environment, "SLURM_NODEID");
    return node == PEN_LAUNCH_UNKNOWN
               ? PEN_LAUNCH_UNKNOWN
               : tasks_of(environment->get(environment->context,
                                           "SLURM_STEP_TASKS_PER_NODE"),
                          node);
}

static const char *plugin_of(const struct environment *environment)
{
    if (has(environment, "PMIX_RANK"))
        return "pmix";
    return has(environment, "PMI_RANK") ? "pmi2" : "none";
}

struct pen_launch pen_launch_read(const char *(*get)(void *context,
                                                     const char *name),
                                  void *context)
{
    const struct environment environment = {get, context};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct names *names = &table[i];
        if (!has(&environment, names->sign))
            continue;
        return (struct pen_launch){
            .launcher = names->launcher,
            .plugin = names->launcher == PEN_LAUNCHER_SRUN
                          ? plugin_of(&environment)
                          : NULL,
            .size = number_if(&environment, names->size),
            .rank = number_if(&environment, names->rank),
            .local_size = local_size_of(&environment, names),
            .local_rank = number_if(&environment, names->local_rank),
            .socket = socket_of(&environment, names->launcher)};
    }
    return (struct pen_launch){.launcher = PEN_LAUNCHER_NONE,
                               .size = PEN_LAUNCH_UNKNOWN,
                               .rank = PEN_LAUNCH_UNKNOWN,
                               .local_size = PEN_LAUNCH_UNKNOWN,
                               .local_rank = PEN_LAUNCH_UNKNOWN};
}

static const char *get_own(void *context, const char *name)
{
    (void)context;
    return getenv(name);
}

struct pen_launch pen_launch_read_own(void)
{
    return pen_launch_read(get_own, NULL);
}

/* MPI libraries by the words of their version strings, and their launchers. */
static const struct library {
    const char *sign;
    const char *name;
    enum pen_launcher launcher;
    const char *command;
    const char *plugin; /* for srun --mpi= */
} libraries[] = {
    {"MVAPICH", "MVAPICH", PEN_LAUNCHER_MVAPICH, "mpirun of MVAPICH", "pmi2"},
    {"Intel(R) MPI", "Intel MPI", PEN_LAUNCHER_HYDRA, "mpirun of Intel MPI",
     "pmi2"},
    {"Open MPI", "Open MPI", PEN_LAUNCHER_OPENMPI,
     "mpirun of Open MPI (mpirun.openmpi)", "pmix"},
    {"MPICH", "MPICH", PEN_LAUNCHER_HYDRA, "mpiexec of MPICH (mpiexec.mpich)",
     "pmi2"},
    {"", "another MPI", PEN_LAUNCHER_NONE, "its own mpirun", NULL},
};

static const struct library *find_library(const char *words)
{
    const struct library *library = libraries;
    while (strstr(words, library->sign) == NULL)
        library++;
    return library;
}

static void add_launcher(const struct pen_launch *launch, struct pen_text *out)
{
    static const char *const words[] = {
#define PEN_LAUNCHER_WORDS(name, text) [PEN_LAUNCHER_##name] = text,
        PEN_LAUNCHER_TABLE(PEN_LAUNCHER_WORDS)
#undef PEN_LAUNCHER_WORDS
    };
    pen_text_add_string(out, words[launch->launcher]);
    if (launch->plugin != NULL)
        pen_text_add(out, " --mpi=%s", launch->plugin);
}

static void add_remedy(const struct pen_launch *launch,
                       const struct library *library, struct pen_text *out)
{
    bool is_srun = launch->launcher == PEN_LAUNCHER_SRUN;
    bool is_right = is_srun && library->plugin != NULL
                        ? strcmp(launch->plugin, library->plugin) == 0
                        : launch->launcher == library->launcher;
    if (is_right)
        pen_text_add(out, "this %s was built without support for it; use %s",
                     library->name, library->command);
    else if (is_srun && library->plugin != NULL)
        pen_text_add(out, "use srun --mpi=%s", library->plugin);
    else
        pen_text_add(out, "use %s", library->command);
}

pen_status pen_launch_check(const struct pen_launch *launch, uint32_t mpi_size,
                            const char *library, struct pen_text *why)
{
    if (launch->size == PEN_LAUNCH_UNKNOWN || launch->size <= 1 || mpi_size > 1)
        return PEN_OK;
    const struct library *found = find_library(library);
    struct pen_text words = PEN_TEXT_EMPTY;
    add_launcher(launch, &words);
    pen_text_add(&words,
                 " started %u processes that do not find each other: penstock "
                 "was built with %s; ",
                 launch->size, found->name);
    add_remedy(launch, found, &words);
    pen_why(why, "%s", pen_text_string(&words));
    pen_text_release(&words);
    return PEN_INVALID;
}

bool pen_launch_is_first(const struct pen_launch *launch)
{
    return launch->rank == 0 || launch->rank == PEN_LAUNCH_UNKNOWN;
}
