/*
 * The launcher is known by what it leaves in the environment, and processes
 * that each believe to be alone are refused with the remedy.
 */
#include "support/support.h"

#include "watch/launch.h"
#include "watch/launch_job.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define OPEN_MPI "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4"
#define MPICH "MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7 2022"

/* "NAME=value" until NULL. */
static const char *get(void *context, const char *name)
{
    const char *const *list = context;
    size_t length = strlen(name);
    for (; *list != NULL; list++)
        if (strncmp(*list, name, length) == 0 && (*list)[length] == '=')
            return *list + length + 1;
    return NULL;
}

/* As seen on Debian 12: rank 1 of 4, two on this node. */
static const char *const alone[] = {"HOME=/root", NULL};
static const char *const mpirun_openmpi[] = {"OMPI_COMM_WORLD_SIZE=4",
                                             "OMPI_COMM_WORLD_RANK=1",
                                             "OMPI_COMM_WORLD_LOCAL_SIZE=2",
                                             "OMPI_COMM_WORLD_LOCAL_RANK=1",
                                             "PMIX_RANK=1",
                                             NULL};
static const char *const mpirun_in_slurm[] = {"OMPI_COMM_WORLD_SIZE=4",
                                              "OMPI_COMM_WORLD_RANK=1",
                                              "OMPI_COMM_WORLD_LOCAL_SIZE=2",
                                              "OMPI_COMM_WORLD_LOCAL_RANK=1",
                                              "PMIX_RANK=1",
                                              "SLURM_STEP_NUM_TASKS=2",
                                              "SLURM_PROCID=0",
                                              NULL};
static const char *const mpiexec_mpich[] = {
    "PMI_SIZE=4",        "PMI_RANK=1",     "PMI_FD=5", "MPI_LOCALNRANKS=2",
    "MPI_LOCALRANKID=1", "SLURM_PROCID=0", NULL};
static const char *const mpirun_mvapich[] = {"MV2_COMM_WORLD_SIZE=4",
                                             "MV2_COMM_WORLD_RANK=1",
                                             "MV2_COMM_WORLD_LOCAL_SIZE=2",
                                             "MV2_COMM_WORLD_LOCAL_RANK=1",
                                             "PMI_SIZE=4",
                                             NULL};
static const char *const srun_pmix[] = {"SLURM_STEP_NUM_TASKS=4",
                                        "SLURM_NTASKS=4",
                                        "SLURM_PROCID=1",
                                        "SLURM_LOCALID=1",
                                        "PMIX_RANK=1",
                                        "SLURM_NODEID=1",
                                        "SLURM_JOB_ID=77",
                                        "SLURM_STEP_ID=3",
                                        "SLURM_STEP_TASKS_PER_NODE=1(x2),2",
                                        NULL};
static const char *const srun_pmi2[] = {"SLURM_STEP_NUM_TASKS=4",
                                        "SLURM_PROCID=1",
                                        "SLURM_LOCALID=1",
                                        "PMI_RANK=1",
                                        "PMI_FD=5",
                                        "PMI_SIZE=4",
                                        NULL};
static const char *const srun_none[] = {
    "SLURM_STEP_NUM_TASKS=4", "SLURM_PROCID=1", "SLURM_LOCALID=1", NULL};
static const char *const batch_script[] = {"SLURM_NTASKS=4", "SLURM_PROCID=0",
                                           "SLURM_LOCALID=0", NULL};

static struct pen_launch read_from(const char *const *list)
{
    return pen_launch_read(get, (void *)list);
}

static void expect_launch(const char *const *list, enum pen_launcher launcher,
                          const char *plugin, uint32_t local_size)
{
    struct pen_launch launch = read_from(list);
    assert_int_equal(launch.launcher, launcher);
    assert_int_equal(launch.size, 4);
    assert_int_equal(launch.rank, 1);
    assert_int_equal(launch.local_rank, 1);
    assert_int_equal(launch.local_size, local_size);
    if (plugin == NULL)
        assert_null(launch.plugin);
    else
        assert_string_equal(launch.plugin, plugin);
    assert_false(pen_launch_is_first(&launch));
}

static void the_nearest_launcher_is_known(void **state)
{
    (void)state;
    expect_launch(mpirun_openmpi, PEN_LAUNCHER_OPENMPI, NULL, 2);
    expect_launch(mpirun_in_slurm, PEN_LAUNCHER_OPENMPI, NULL, 2);
    expect_launch(mpiexec_mpich, PEN_LAUNCHER_HYDRA, NULL, 2);
    expect_launch(mpirun_mvapich, PEN_LAUNCHER_MVAPICH, NULL, 2);
    expect_launch(srun_pmix, PEN_LAUNCHER_SRUN, "pmix", 1);
    expect_launch(srun_pmi2, PEN_LAUNCHER_SRUN, "pmi2", PEN_LAUNCH_UNKNOWN);
    expect_launch(srun_none, PEN_LAUNCHER_SRUN, "none", PEN_LAUNCH_UNKNOWN);
}

static void the_socket_of_mpich_is_known(void **state)
{
    (void)state;
    assert_int_equal(read_from(mpiexec_mpich).socket, 5);
    assert_int_equal(read_from(mpirun_openmpi).socket, 0);
    assert_int_equal(read_from(srun_pmi2).socket, 0);
    assert_int_equal(read_from(alone).socket, 0);
}

static void expect_no_launcher(const char *const *list)
{
    struct pen_launch launch = read_from(list);
    assert_int_equal(launch.launcher, PEN_LAUNCHER_NONE);
    assert_int_equal(launch.size, PEN_LAUNCH_UNKNOWN);
    assert_true(pen_launch_is_first(&launch));
    assert_int_equal(pen_launch_check(&launch, 1, OPEN_MPI, NULL), PEN_OK);
}

static void a_batch_script_is_no_launcher(void **state)
{
    (void)state;
    expect_no_launcher(alone);
    expect_no_launcher(batch_script);
}

static void what_is_no_number_is_unknown(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",   "-1",          "4x",
                                        " 4", "99999999999", "four"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char size[64] = "OMPI_COMM_WORLD_SIZE=";
        strcat(size, wrong[i]);
        const char *const list[] = {size, NULL};
        struct pen_launch launch = read_from(list);
        assert_int_equal(launch.size, PEN_LAUNCH_UNKNOWN);
        assert_int_equal(pen_launch_check(&launch, 1, MPICH, NULL), PEN_OK);
    }
}

static void expect_refusal(const char *const *list, const char *library,
                           const char *expected)
{
    struct pen_launch launch = read_from(list);
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(pen_launch_check(&launch, 1, library, &why), PEN_INVALID);
    assert_string_equal(pen_text_string(&why), expected);
    assert_int_equal(pen_launch_check(&launch, 4, library, NULL), PEN_OK);
    pen_text_release(&why);
}

static void processes_that_believe_to_be_alone_are_refused(void **state)
{
    (void)state;
    expect_refusal(srun_pmix, MPICH,
                   "srun --mpi=pmix started 4 processes that do not find each "
                   "other: penstock was built with MPICH; use srun --mpi=pmi2");
    expect_refusal(
        srun_none, OPEN_MPI,
        "srun --mpi=none started 4 processes that do not find each "
        "other: penstock was built with Open MPI; use srun --mpi=pmix");
    expect_refusal(srun_pmix, OPEN_MPI,
                   "srun --mpi=pmix started 4 processes that do not find each "
                   "other: penstock was built with Open MPI; this Open MPI was "
                   "built without support for it; use mpirun of Open MPI "
                   "(mpirun.openmpi)");
    expect_refusal(
        mpirun_openmpi, MPICH,
        "mpirun of Open MPI started 4 processes that do not find each "
        "other: penstock was built with MPICH; use mpiexec of MPICH "
        "(mpiexec.mpich)");
    expect_refusal(
        mpiexec_mpich, OPEN_MPI,
        "mpiexec of MPICH started 4 processes that do not find each "
        "other: penstock was built with Open MPI; use mpirun of Open "
        "MPI (mpirun.openmpi)");
    expect_refusal(
        mpirun_openmpi, "Unheard-of 1.0",
        "mpirun of Open MPI started 4 processes that do not find each "
        "other: penstock was built with another MPI; use its own mpirun");
}

static void one_process_of_a_launcher_is_fine(void **state)
{
    (void)state;
    static const char *const one[] = {"SLURM_STEP_NUM_TASKS=1",
                                      "SLURM_PROCID=0", NULL};
    struct pen_launch launch = read_from(one);
    assert_int_equal(pen_launch_check(&launch, 1, MPICH, NULL), PEN_OK);
    assert_true(pen_launch_is_first(&launch));
}

static uint32_t tasks_on(const char *list, const char *node)
{
    char tasks[64], number[64];
    snprintf(tasks, sizeof tasks, "SLURM_STEP_TASKS_PER_NODE=%s", list);
    snprintf(number, sizeof number, "SLURM_NODEID=%s", node);
    const char *const step[] = {"SLURM_STEP_NUM_TASKS=8", tasks, number, NULL};
    return read_from(step).local_size;
}

static void srun_tells_the_tasks_of_a_node(void **state)
{
    (void)state;
    assert_int_equal(tasks_on("4", "0"), 4);
    assert_int_equal(tasks_on("2(x3),1", "0"), 2);
    assert_int_equal(tasks_on("2(x3),1", "2"), 2);
    assert_int_equal(tasks_on("2(x3),1", "3"), 1);
    static const char *const wrong[] = {"",     "x",      "2(x3",     "2(y3)",
                                        ",4",   "-4",     "2(x3)1,1", "(x3)",
                                        "2,,1", "2(x0),", "none",     "2(x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(tasks_on(wrong[i], "3"), PEN_LAUNCH_UNKNOWN);
    assert_int_equal(tasks_on("2(x3),1", "4"), PEN_LAUNCH_UNKNOWN);
    assert_int_equal(tasks_on("2(x3),1", "one"), PEN_LAUNCH_UNKNOWN);
}

static void expect_job(const char *const *list, const char *expected)
{
    struct pen_text job = PEN_TEXT_EMPTY;
    struct pen_launch launch = read_from(list);
    pen_launch_job(&launch, get, (void *)list, &job);
    assert_string_equal(pen_text_string(&job), expected);
    pen_text_release(&job);
}

static void a_job_is_known_by_its_launcher(void **state)
{
    (void)state;
    static const char *const openmpi[] = {
        "OMPI_COMM_WORLD_SIZE=4", "PMIX_NAMESPACE=1703084033",
        "PMIX_SERVER_URI21=1703084032.0;tcp4://127.0.0.1:52427",
        "SLURM_JOB_ID=77", NULL};
    static const char *const older_openmpi[] = {
        "OMPI_COMM_WORLD_SIZE=4", "OMPI_MCA_ess_base_jobid=17", NULL};
    static const char *const ports[] = {"PMI_SIZE=4", "PMI_PORT=node1:4711",
                                        NULL};
    expect_job(openmpi,
               "PMIX_NAMESPACE=1703084033 "
               "PMIX_SERVER_URI21=1703084032.0;tcp4://127.0.0.1:52427");
    expect_job(older_openmpi, "OMPI_MCA_ess_base_jobid=17");
    expect_job(srun_pmix, "SLURM_JOB_ID=77 SLURM_STEP_ID=3");
    expect_job(ports, "PMI_PORT=node1:4711");
    expect_job(mpirun_openmpi, "");
    expect_job(srun_none, "");
    expect_job(alone, "");
}

/* The same for all ranks that one process has started, and for no file. */
static void a_job_of_mpich_is_known_by_the_maker_of_its_sockets(void **state)
{
    (void)state;
    struct pen_text job[2] = {PEN_TEXT_EMPTY, PEN_TEXT_EMPTY};
    char prefix[64];
    snprintf(prefix, sizeof prefix, "launcher %d of ", (int)getpid());
    for (int i = 0; i < 2; i++) {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        struct pen_launch launch = {.launcher = PEN_LAUNCHER_HYDRA,
                                    .socket = pair[1]};
        pen_launch_job(&launch, get, (void *)alone, &job[i]);
        close(pair[0]);
        close(pair[1]);
        assert_int_equal(
            strncmp(pen_text_string(&job[i]), prefix, strlen(prefix)), 0);
    }
    assert_string_equal(pen_text_string(&job[0]), pen_text_string(&job[1]));
    int link[2];
    assert_int_equal(pipe(link), 0);
    struct pen_launch piped = {.launcher = PEN_LAUNCHER_HYDRA,
                               .socket = link[1]};
    pen_text_clear(&job[0]);
    pen_launch_job(&piped, get, (void *)alone, &job[0]);
    assert_int_equal(job[0].length, 0);
    close(link[0]);
    close(link[1]);
    pen_text_release(&job[0]);
    pen_text_release(&job[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_launcher_is_known),
        cmocka_unit_test(the_socket_of_mpich_is_known),
        cmocka_unit_test(a_batch_script_is_no_launcher),
        cmocka_unit_test(what_is_no_number_is_unknown),
        cmocka_unit_test(processes_that_believe_to_be_alone_are_refused),
        cmocka_unit_test(one_process_of_a_launcher_is_fine),
        cmocka_unit_test(srun_tells_the_tasks_of_a_node),
        cmocka_unit_test(a_job_is_known_by_its_launcher),
        cmocka_unit_test(a_job_of_mpich_is_known_by_the_maker_of_its_sockets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
