/*
 * The tightest limit of memory is found in files as the kernel has them, for
 * both versions of control groups, with the groups above.
 */
#include "support/support.h"

#include "host/memory_limit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/penstock-limits-XXXXXX";

/* A file below the root, with its folders. */
static void put(const char *path, const char *text)
{
    char whole[400];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *at = whole + strlen(root) + 1; *at != '\0'; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        assert_true(mkdir(whole, 0700) == 0 || errno == EEXIST);
        *at = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_root(void **state)
{
    (void)state;
    strcpy(root + strlen(root) - 6, "XXXXXX");
    return mkdtemp(root) == NULL ? -1 : 0;
}

static int remove_root(void **state)
{
    char command[400];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static void expect(int scope, uint64_t free_bytes, uint64_t limit_bytes,
                   const char *source)
{
    struct pen_memory_limit limits[PEN_MEMORY_SCOPES];
    pen_memory_limits_read(root, limits);
    assert_int_equal(free_bytes, limits[scope].free_bytes);
    assert_int_equal(limit_bytes, limits[scope].limit_bytes);
    assert_string_equal(source, limits[scope].source);
}

static void version_2_counts_without_caches(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/job/step\n");
    put("/sys/fs/cgroup/job/step/memory.max", "max\n");
    put("/sys/fs/cgroup/job/step/memory.current", "700\n");
    put("/sys/fs/cgroup/job/memory.max", "1000\n");
    put("/sys/fs/cgroup/job/memory.current", "800\n");
    put("/sys/fs/cgroup/job/memory.stat",
        "anon 500\nfile 300\ninactive_file 200\nactive_file 50\n");
    expect(PEN_MEMORY_GROUP, 450, 1000, "/sys/fs/cgroup/job/memory.max");
    put("/sys/fs/cgroup/job/step/memory.max", "900\n");
    expect(PEN_MEMORY_GROUP, 200, 900, "/sys/fs/cgroup/job/step/memory.max");
}

static void version_1_is_found_among_others(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "5:devices:/\n4:memory:/a/b\n0::/\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "5\n");
    put("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "4000\n");
    put("/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "4100\n");
    put("/sys/fs/cgroup/memory/a/b/memory.stat",
        "inactive_file 1\ntotal_inactive_file 300\ntotal_active_file 0\n");
    expect(PEN_MEMORY_GROUP, 200, 4000,
           "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes");
}

/* A container sees its own group as the top. */
static void groups_that_are_not_there_are_passed_over(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "4:memory:/docker/1234\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4000\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n");
    expect(PEN_MEMORY_GROUP, 3000, 4000,
           "/sys/fs/cgroup/memory/memory.limit_in_bytes");
}

static void the_machine_has_what_is_available(void **state)
{
    (void)state;
    put("/proc/meminfo", "MemTotal:  100 kB\nMemFree: 3 kB\n"
                         "MemAvailable:   40 kB\n");
    expect(PEN_MEMORY_MACHINE, 40 * 1024, 100 * 1024,
           "the machine (MemAvailable)");
}

static void nothing_is_limited_where_nothing_can_be_read(void **state)
{
    (void)state;
    expect(PEN_MEMORY_GROUP, UINT64_MAX, UINT64_MAX, "");
    expect(PEN_MEMORY_MACHINE, UINT64_MAX, UINT64_MAX, "");
    put("/proc/self/cgroup", "");
    put("/proc/meminfo", "MemTotal: x\n");
    expect(PEN_MEMORY_GROUP, UINT64_MAX, UINT64_MAX, "");
    expect(PEN_MEMORY_MACHINE, UINT64_MAX, UINT64_MAX, "");
}

#define WITH_ROOT(test)                                                        \
    cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ROOT(version_2_counts_without_caches),
        WITH_ROOT(version_1_is_found_among_others),
        WITH_ROOT(groups_that_are_not_there_are_passed_over),
        WITH_ROOT(the_machine_has_what_is_available),
        WITH_ROOT(nothing_is_limited_where_nothing_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
