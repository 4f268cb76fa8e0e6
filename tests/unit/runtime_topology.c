/* Processors are counted as they are, on machines that hwloc makes up. */
#include "support/support.h"

#include "host/threads.h"

#include <stdlib.h>
#include <unistd.h>

static struct pen_topology read_synthetic(const char *description)
{
    struct pen_topology topology;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(setenv("HWLOC_SYNTHETIC", description, 1), 0);
    pen_status status = pen_topology_read(&topology, &why);
    unsetenv("HWLOC_SYNTHETIC");
    if (status != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return topology;
}

static void expect_processors(struct pen_processors found, uint32_t cores,
                              uint32_t hardware_threads, uint32_t numa_nodes)
{
    assert_int_equal(found.cores, cores);
    assert_int_equal(found.hardware_threads, hardware_threads);
    assert_int_equal(found.numa_nodes, numa_nodes);
}

static void hardware_threads_are_not_cores(void **state)
{
    (void)state;
    struct pen_topology topology =
        read_synthetic("pack:2 [numa] l3:1(size=33554432) l2:8(size=2097152) "
                       "l1:1(size=49152) core:1 pu:2");
    expect_processors(topology.machine, 16, 32, 2);
    expect_processors(topology.usable, 16, 32, 2);
    assert_int_equal(topology.caches[0].bytes, 48 << 10);
    assert_int_equal(topology.caches[0].count, 16);
    assert_int_equal(topology.caches[1].bytes, 2 << 20);
    assert_int_equal(topology.caches[2].bytes, 32 << 20);
    assert_int_equal(topology.caches[2].count, 2);
}

static void without_cores_each_processor_is_one(void **state)
{
    (void)state;
    struct pen_topology topology = read_synthetic("pack:1 pu:6");
    expect_processors(topology.machine, 6, 6, 1);
}

static void this_machine_has_what_the_kernel_counts(void **state)
{
    (void)state;
    struct pen_topology topology;
    assert_int_equal(pen_topology_read(&topology, NULL), PEN_OK);
    assert_int_equal(topology.machine.hardware_threads,
                     sysconf(_SC_NPROCESSORS_ONLN));
    assert_true(topology.allowed.cores <= topology.machine.cores);
    assert_true(topology.usable.cores <= topology.allowed.cores);
    assert_true(topology.usable.cores >= 1);
    assert_int_equal(topology.memory_bytes / 4096,
                     sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 4096);
    assert_true(topology.memory_free_bytes <= topology.memory_bytes);
}

static void one_thread_per_core_within_the_quota(void **state)
{
    (void)state;
    struct pen_topology topology = {.usable = {8, 16, 1}};
    assert_int_equal(pen_threads_default(&topology), 8);
    topology.cpu_quota = 2.5; /* a third thread still has half of its time */
    assert_int_equal(pen_threads_default(&topology), 3);
    topology.cpu_quota = 0.25;
    assert_int_equal(pen_threads_default(&topology), 1);
    topology.cpu_quota = 64;
    assert_int_equal(pen_threads_default(&topology), 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hardware_threads_are_not_cores),
        cmocka_unit_test(without_cores_each_processor_is_one),
        cmocka_unit_test(this_machine_has_what_the_kernel_counts),
        cmocka_unit_test(one_thread_per_core_within_the_quota),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
