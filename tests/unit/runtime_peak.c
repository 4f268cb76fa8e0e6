/* The measured peak is a speed that a machine can have, and beats loops. */
#include "support/support.h"

#include "host/peak.h"
#include "host/threads.h"

#include <string.h>
#include <time.h>

/* Products per second of plain loops, without vectors: a floor. */
static double loop_flops(void)
{
    enum { COUNT = 1000000 };
    volatile float sum = 0;
    struct timespec before;
    struct timespec after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    for (int i = 0; i < COUNT; i++)
        sum = sum + 0.5f * (float)i;
    clock_gettime(CLOCK_MONOTONIC, &after);
    return 2.0 * COUNT /
           ((double)(after.tv_sec - before.tv_sec) +
            1e-9 * (double)(after.tv_nsec - before.tv_nsec));
}

static double peak_of(enum pen_precision dtype, int threads)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    double flops = 0;
    if (pen_peak_flops(dtype, threads, &why, &flops) != PEN_OK)
        fail_msg("%s: %s", pen_precision_text(dtype), pen_text_string(&why));
    pen_text_release(&why);
    print_message("%s, %d threads: %.1f Gflop/s\n", pen_precision_text(dtype),
                  threads, 1e-9 * flops);
    return flops;
}

static void products_are_faster_than_loops(void **state)
{
    (void)state;
    struct pen_topology topology;
    assert_int_equal(pen_topology_read(&topology, NULL), PEN_OK);
    int threads = pen_threads_default(&topology);
    double floor = loop_flops();
    double one = peak_of(PEN_PRECISION_F32, 1);
    double all = peak_of(PEN_PRECISION_F32, threads);
    /* No core has more than 1e12 products a second in f32. */
    assert_true(one > 4 * floor && one < 1e12);
    assert_true(all > 4 * floor && all < threads * 1e12);
    if (topology.has_avx512_bf16 || topology.has_amx_bf16)
        assert_true(peak_of(PEN_PRECISION_BF16, 1) > 4 * floor);
}

static void memory_has_a_speed(void **state)
{
    (void)state;
    struct pen_topology topology;
    double bytes_per_sec = 0;
    assert_int_equal(pen_topology_read(&topology, NULL), PEN_OK);
    assert_int_equal(pen_peak_bandwidth(&topology, 1, NULL, &bytes_per_sec),
                     PEN_OK);
    print_message("one thread: %.1f GB/s\n", 1e-9 * bytes_per_sec);
    assert_true(bytes_per_sec > 1e8 && bytes_per_sec < 1e13);
}

static void there_is_no_peak_in_double(void **state)
{
    (void)state;
    struct pen_text why = PEN_TEXT_EMPTY;
    double flops = -1;
    assert_int_equal(pen_peak_flops(PEN_PRECISION_F64, 1, &why, &flops),
                     PEN_INVALID);
    assert_non_null(strstr(pen_text_string(&why), "f64"));
    expect_close(-1, flops, "untouched");
    pen_text_release(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_faster_than_loops),
        cmocka_unit_test(memory_has_a_speed),
        cmocka_unit_test(there_is_no_peak_in_double),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
