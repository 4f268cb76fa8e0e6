/*
 * Threads are bound to one core each and stay there when teams shrink and
 * grow; where somebody chose already, nothing changes.
 *
 * Each case runs this program again with the word "report", for binding is a
 * matter of a process from its start on. The report is one line: number of
 * threads, binding, and the processors of each thread.
 */
#include "support/support.h"

#include "host/machine.h"
#include "host/threads.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MAX_LENGTH = 4096 };

/* The processors of every thread of a team, "0 1 " or "0-1 0-1 ". */
static void print_team(hwloc_topology_t topology, int threads)
{
#pragma omp parallel for ordered schedule(static, 1) num_threads(threads)
    for (int i = 0; i < threads; i++) {
        hwloc_bitmap_t mask = hwloc_bitmap_alloc();
        char *text = NULL;
        hwloc_get_cpubind(topology, mask, HWLOC_CPUBIND_THREAD);
        hwloc_bitmap_list_asprintf(&text, mask);
#pragma omp ordered
        printf(" %s", text);
        free(text);
        hwloc_bitmap_free(mask);
    }
}

/* report THREADS yes|no: whether threads are to be bound. */
static int report(char **words)
{
    struct pen_threads_options options = {
        .count = atoi(words[0]), .is_unbound = strcmp(words[1], "no") == 0};
    struct pen_threads threads;
    hwloc_topology_t topology;
    if (pen_threads_start(&options, &threads, NULL) != PEN_OK ||
        hwloc_topology_init(&topology) != 0 ||
        hwloc_topology_load(topology) != 0)
        return 1;
    printf("%d %d:", threads.count, (int)threads.binding);
    print_team(topology, threads.count);
    /* A smaller team makes OpenMP end threads, which it needs again. */
    if (threads.count > 2) {
        print_team(topology, 2);
        print_team(topology, threads.count);
    }
    putchar('\n');
    hwloc_topology_destroy(topology);
    return 0;
}

/* The report of this program under these settings of the environment. */
static void run(const char *settings, const char *words, char *line)
{
    char path[512];
    char command[1024];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_true(length > 0);
    path[length] = '\0';
    snprintf(command, sizeof command,
             "env -u OMP_NUM_THREADS -u OMP_PROC_BIND -u OMP_PLACES "
             "-u GOMP_CPU_AFFINITY -u KMP_AFFINITY %s '%s' report %s",
             settings, path, words);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    char *got = fgets(line, LINE_MAX_LENGTH, pipe);
    int code = pclose(pipe);
    if (got == NULL || code != 0)
        fail_msg("%s: exit code %d", command, code);
    line[strcspn(line, "\n")] = '\0';
}

/* Of this machine: its cores and all of it, as lists of processors. */
struct cores {
    int count;
    char *lists[1024];
    char *all;
    char first[16]; /* processor */
};

static void cores_init(struct cores *cores)
{
    struct pen__machine machine;
    hwloc_obj_t core = NULL;
    assert_int_equal(pen__machine_init(&machine, NULL), PEN_OK);
    cores->count = 0;
    while ((core = pen__machine_next_core(&machine, machine.usable, core)) !=
           NULL) {
        hwloc_bitmap_t set = hwloc_bitmap_dup(core->cpuset);
        hwloc_bitmap_and(set, set, machine.usable);
        hwloc_bitmap_list_asprintf(&cores->lists[cores->count++], set);
        hwloc_bitmap_free(set);
    }
    hwloc_bitmap_list_asprintf(&cores->all, machine.usable);
    snprintf(cores->first, sizeof cores->first, "%d",
             hwloc_bitmap_first(machine.usable));
    bool is_narrow = !hwloc_bitmap_isequal(machine.usable, machine.allowed);
    pen__machine_release(&machine);
    if (is_narrow) {
        print_message("this process has a part of the machine; skipped\n");
        skip();
    }
}

static void cores_release(struct cores *cores)
{
    for (int i = 0; i < cores->count; i++)
        free(cores->lists[i]);
    free(cores->all);
}

static void add_team(char *line, const struct cores *cores, int threads)
{
    /* OpenMP puts what is left over after even shares on the first places. */
    int share = threads / cores->count;
    int rest = threads % cores->count;
    for (int core = 0; core < cores->count; core++)
        for (int i = 0; i < share + (core < rest); i++) {
            strcat(line, " ");
            strcat(line, cores->lists[core]);
        }
}

static void each_thread_has_one_core(void **state)
{
    (void)state;
    struct cores cores;
    char found[LINE_MAX_LENGTH];
    char expected[LINE_MAX_LENGTH];
    cores_init(&cores);
    int count = cores.count;
    run("", "0 yes", found);
    snprintf(expected, sizeof expected, "%d %d:", count, PEN_BINDING_CORES);
    add_team(expected, &cores, count);
    if (count > 2) {
        for (int core = 0; core < 2; core++) {
            strcat(expected, " ");
            strcat(expected, cores.lists[core]);
        }
        add_team(expected, &cores, count);
    }
    assert_string_equal(found, expected);
    cores_release(&cores);
}

static void threads_that_come_again_have_one_core_too(void **state)
{
    (void)state;
    struct cores cores;
    char found[LINE_MAX_LENGTH];
    char words[32];
    cores_init(&cores);
    snprintf(words, sizeof words, "%d yes", 2 * cores.count);
    run("", words, found);
    char *teams = strchr(found, ':') + 1;
    for (char *list = strtok(teams, " "); list != NULL;
         list = strtok(NULL, " ")) {
        bool is_core = false;
        for (int i = 0; i < cores.count; i++)
            is_core = is_core || strcmp(list, cores.lists[i]) == 0;
        if (!is_core)
            fail_msg("a thread may use %s, which is not a core", list);
    }
    cores_release(&cores);
}

/* The report begins with this; `list` is that of the first thread. */
static void expect_report(const char *settings, const char *words, int count,
                          enum pen_binding binding, const char *list)
{
    char found[LINE_MAX_LENGTH];
    char expected[256];
    run(settings, words, found);
    snprintf(expected, sizeof expected, "%d %d: %s", count, (int)binding, list);
    if (strncmp(found, expected, strlen(expected)) != 0)
        fail_msg("%s: found '%s', expected '%s'", settings, found, expected);
}

static void who_chose_already_is_left_alone(void **state)
{
    (void)state;
    struct cores cores;
    cores_init(&cores);
    int count = cores.count;
    expect_report("OMP_PROC_BIND=false", "0 yes", count, PEN_BINDING_USER,
                  cores.all);
    char settings[64];
    snprintf(settings, sizeof settings, "OMP_PROC_BIND=true OMP_PLACES={%s}",
             cores.first);
    expect_report(settings, "0 yes", 1, PEN_BINDING_USER, cores.first);
    expect_report("", "0 no", count, PEN_BINDING_OFF, cores.all);
    if (count > 1) {
        snprintf(settings, sizeof settings, "taskset -c %s", cores.first);
        expect_report(settings, "0 yes", 1, PEN_BINDING_MASK, cores.first);
        expect_report("", "1 yes", 1, PEN_BINDING_SHARED, cores.all);
    }
    cores_release(&cores);
}

static void the_option_comes_before_the_environment(void **state)
{
    (void)state;
    expect_report("OMP_NUM_THREADS=3", "0 no", 3, PEN_BINDING_OFF, "");
    expect_report("OMP_NUM_THREADS=3", "5 no", 5, PEN_BINDING_OFF, "");
    expect_report("OMP_NUM_THREADS=3,2", "0 no", 3, PEN_BINDING_OFF, "");
    expect_report("OMP_THREAD_LIMIT=2", "5 no", 2, PEN_BINDING_OFF, "");
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "report") == 0)
        return report(argv + 2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_thread_has_one_core),
        cmocka_unit_test(threads_that_come_again_have_one_core_too),
        cmocka_unit_test(who_chose_already_is_left_alone),
        cmocka_unit_test(the_option_comes_before_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
