/* What Linux tells in files is read right, and need not be there. */
#include "support/support.h"

#include "host/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A root folder of our own. */
struct folder {
    char path[64];
};

static struct folder new_folder(void)
{
    struct folder folder = {"/tmp/pen-kernel-XXXXXX"};
    assert_non_null(mkdtemp(folder.path));
    return folder;
}

static void shell(const char *command)
{
    if (system(command) != 0)
        fail_msg("cannot run %s", command);
}

static void put(const struct folder *folder, const char *path, const char *text)
{
    char command[512];
    snprintf(command, sizeof command, "mkdir -p $(dirname %s%s)", folder->path,
             path);
    shell(command);
    snprintf(command, sizeof command, "%s%s", folder->path, path);
    FILE *file = fopen(command, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static struct pen_topology read_and_remove(const struct folder *folder)
{
    char command[128];
    struct pen_topology topology = {.cpu_quota = 0};
    pen__kernel_read(folder->path, &topology);
    snprintf(command, sizeof command, "rm -r %s", folder->path);
    shell(command);
    return topology;
}

static void nothing_there_is_no_limit(void **state)
{
    (void)state;
    struct folder folder = new_folder();
    struct pen_topology topology = read_and_remove(&folder);
    expect_close(0, topology.cpu_quota, "quota");
    assert_int_equal(topology.memory_limit_bytes, 0);
    assert_int_equal(topology.memory_bytes, 0);
    assert_string_equal(topology.huge_pages, "");
    assert_string_equal(topology.governor, "");
    assert_false(topology.has_avx2 || topology.has_avx512 ||
                 topology.has_avx512_bf16 || topology.has_amx_bf16);
}

static void the_smallest_limit_above_a_group_holds(void **state)
{
    (void)state;
    struct folder folder = new_folder();
    put(&folder, "/proc/self/cgroup", "0::/a/b/c\n");
    put(&folder, "/sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
    put(&folder, "/sys/fs/cgroup/a/b/c/memory.max", "2147483648\n");
    put(&folder, "/sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
    put(&folder, "/sys/fs/cgroup/a/b/memory.max", "max\n");
    put(&folder, "/sys/fs/cgroup/a/cpu.max", "400000 100000\n");
    put(&folder, "/sys/fs/cgroup/a/memory.max", "1073741824\n");
    struct pen_topology topology = read_and_remove(&folder);
    expect_close(1.5, topology.cpu_quota, "quota");
    assert_int_equal(topology.memory_limit_bytes, 1073741824);
}

static void a_container_sees_its_limit_at_the_root(void **state)
{
    (void)state;
    struct folder folder = new_folder();
    put(&folder, "/proc/self/cgroup", "0::/\n");
    put(&folder, "/sys/fs/cgroup/cpu.max", "50000 100000\n");
    struct pen_topology topology = read_and_remove(&folder);
    expect_close(0.5, topology.cpu_quota, "quota");
}

static void the_first_generation_is_read_too(void **state)
{
    (void)state;
    struct folder folder = new_folder();
    put(&folder, "/proc/self/cgroup",
        "9:cpuset:/x\n4:cpu,cpuacct:/docker/1\n2:memory:/docker/1\n0::/\n");
    put(&folder, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n");
    put(&folder, "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    put(&folder, "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "9223372036854771712\n");
    put(&folder, "/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes",
        "536870912\n");
    struct pen_topology topology = read_and_remove(&folder);
    expect_close(3, topology.cpu_quota, "quota");
    assert_int_equal(topology.memory_limit_bytes, 536870912);
}

static void no_quota_is_minus_one_in_the_first_generation(void **state)
{
    (void)state;
    struct folder folder = new_folder();
    put(&folder, "/proc/self/cgroup", "4:cpu:/\n");
    put(&folder, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put(&folder, "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    struct pen_topology topology = read_and_remove(&folder);
    expect_close(0, topology.cpu_quota, "quota");
}

static void words_and_flags_are_whole_words(void **state)
{
    (void)state;
    struct folder folder = new_folder();
    put(&folder, "/proc/cpuinfo",
        "processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512bw avx512_bf16x "
        "amx_bf16\n\nprocessor\t: 1\nbugs: avx512_bf16\n");
    put(&folder, "/proc/meminfo",
        "MemTotal:       16384 kB\nMemFree: 1 kB\nMemAvailable:    8192 kB\n");
    put(&folder, "/sys/kernel/mm/transparent_hugepage/enabled",
        "always [madvise] never\n");
    put(&folder, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
        "powersave\n");
    struct pen_topology topology = read_and_remove(&folder);
    assert_true(topology.has_avx2);
    assert_true(topology.has_avx512);
    assert_false(topology.has_avx512_bf16);
    assert_true(topology.has_amx_bf16);
    assert_int_equal(topology.memory_bytes, 16 << 20);
    assert_int_equal(topology.memory_free_bytes, 8 << 20);
    assert_string_equal(topology.huge_pages, "madvise");
    assert_string_equal(topology.governor, "powersave");
}

static void odd_files_do_no_harm(void **state)
{
    (void)state;
    struct folder folder = new_folder();
    put(&folder, "/proc/self/cgroup", "\n:\n0:\n0::\n::\n:cpu:\n4:cpu");
    put(&folder, "/sys/fs/cgroup/cpu.max", "");
    put(&folder, "/sys/fs/cgroup/memory.max", "-7\n");
    put(&folder, "/proc/cpuinfo", "flags");
    put(&folder, "/proc/meminfo", "MemTotal\nMemAvailable:\n");
    put(&folder, "/sys/kernel/mm/transparent_hugepage/enabled",
        "[averyverylongwordthatdoesnotfit]");
    struct pen_topology topology = read_and_remove(&folder);
    expect_close(0, topology.cpu_quota, "quota");
    assert_int_equal(topology.memory_limit_bytes, 0);
    assert_int_equal(topology.memory_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_there_is_no_limit),
        cmocka_unit_test(the_smallest_limit_above_a_group_holds),
        cmocka_unit_test(a_container_sees_its_limit_at_the_root),
        cmocka_unit_test(the_first_generation_is_read_too),
        cmocka_unit_test(no_quota_is_minus_one_in_the_first_generation),
        cmocka_unit_test(words_and_flags_are_whole_words),
        cmocka_unit_test(odd_files_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
