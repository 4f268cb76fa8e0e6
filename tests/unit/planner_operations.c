/*
 * Operations take as long as the slower of computing and memory, small and
 * ragged ones relatively longer, and lists are sums.
 */
#include "support/support.h"

#include "planner/operations.h"

#include <string.h>

/* Round figures: one unit, 1 TFLOP/s and 1 TB/s, nothing lost. */
static struct pen_device ideal_device(void)
{
    struct pen_device device = {.kind = "ideal",
                                .memory_bytes = 1u << 30,
                                .memory_bytes_per_sec = 1e12};
    device.flops[PEN_NUMBER_F32] = 1e12;
    device.flops[PEN_NUMBER_BF16] = 2e12;
    device.constants[PEN_CONSTANT_UNITS] = 1;
    device.constants[PEN_CONSTANT_PRODUCT_SHARE] = 1;
    device.constants[PEN_CONSTANT_PRODUCT_SHARE_FP8] = 1;
    device.constants[PEN_CONSTANT_PRODUCT_SHARE_MXFP8] = 0.5;
    device.constants[PEN_CONSTANT_PRODUCT_SHARE_FP4] = 0.25;
    device.constants[PEN_CONSTANT_ATTENTION_SHARE] = 0.5;
    device.constants[PEN_CONSTANT_BYTES_SHARE] = 1;
    device.constants[PEN_CONSTANT_LAUNCH] = 1e-5;
    return device;
}

static struct pen_device a100(void)
{
    const struct pen_device *preset = pen_device_find("a100-80");
    assert_non_null(preset);
    struct pen_device device = *preset;
    pen_device_default_constants(&device);
    return device;
}

static double product_time(const struct pen_device *device,
                           enum pen_number number, double m, double n, double k)
{
    struct pen_operation_list list = {.count = 0};
    pen_operations_add_product(&list, 1, m, n, k);
    return pen_operation_time(device, number, &list.items[0]);
}

static void whole_tiles_take_their_flops(void **state)
{
    (void)state;
    struct pen_device device = ideal_device();
    double flops = 2.0 * 1024 * 1024 * 4096;
    expect_close(flops / 1e12,
                 product_time(&device, PEN_NUMBER_F32, 1024, 1024, 4096),
                 "in 32 bits");
    expect_close(flops / 2e12,
                 product_time(&device, PEN_NUMBER_BF16, 1024, 1024, 4096),
                 "in 16 bits");
    /* A device without 8 bits computes in 16. */
    expect_close(flops / 2e12,
                 product_time(&device, PEN_NUMBER_FP8, 1024, 1024, 4096),
                 "in 8 bits");
}

static void numbers_that_a_device_lacks_run_as_the_next_wider(void **state)
{
    (void)state;
    struct pen_device device = ideal_device();
    expect_close(2e12, pen_device_peak(&device, PEN_NUMBER_NVFP4), "bf16");
    device.flops[PEN_NUMBER_FP8] = 4e12;
    expect_close(4e12, pen_device_peak(&device, PEN_NUMBER_NVFP4), "fp8");
    expect_close(4e12, pen_device_peak(&device, PEN_NUMBER_MXFP8), "fp8");
    device.flops[PEN_NUMBER_MXFP8] = 5e12;
    expect_close(5e12, pen_device_peak(&device, PEN_NUMBER_NVFP4), "mxfp8");
    expect_close(4e12, pen_device_peak(&device, PEN_NUMBER_FP8), "its own");
    device.flops[PEN_NUMBER_NVFP4] = 8e12;
    expect_close(8e12, pen_device_peak(&device, PEN_NUMBER_NVFP4), "its own");
}

static void narrow_products_have_shares_of_their_own(void **state)
{
    (void)state;
    struct pen_device device = ideal_device();
    double flops = 2.0 * 4096 * 4096 * 4096;
    device.flops[PEN_NUMBER_FP8] = device.flops[PEN_NUMBER_MXFP8] = 4e12;
    device.flops[PEN_NUMBER_NVFP4] = 8e12;
    expect_close(flops / 4e12,
                 product_time(&device, PEN_NUMBER_FP8, 4096, 4096, 4096),
                 "one scale");
    expect_close(flops / 2e12,
                 product_time(&device, PEN_NUMBER_MXFP8, 4096, 4096, 4096),
                 "a scale for each 32");
    expect_close(flops / 2e12,
                 product_time(&device, PEN_NUMBER_NVFP4, 4096, 4096, 4096),
                 "4 bits");
    assert_true(pen_number_is_narrow(PEN_NUMBER_MXFP8));
    assert_int_equal(PEN_NUMBER_BF16, pen_number_beside(PEN_NUMBER_NVFP4));
    assert_int_equal(PEN_NUMBER_FP16, pen_number_beside(PEN_NUMBER_FP16));
}

static void a_part_of_a_tile_costs_a_whole_one(void **state)
{
    (void)state;
    struct pen_device device = ideal_device();
    expect_close(product_time(&device, PEN_NUMBER_F32, 64, 64, 4096),
                 product_time(&device, PEN_NUMBER_F32, 1, 33, 4096),
                 "the smallest tile");
    expect_close(product_time(&device, PEN_NUMBER_F32, 1088, 1024, 4096),
                 product_time(&device, PEN_NUMBER_F32, 1025, 1024, 4096),
                 "one row more");
}

static void a_last_round_is_rounded_up_by_its_share(void **state)
{
    (void)state;
    struct pen_device device = ideal_device();
    device.constants[PEN_CONSTANT_UNITS] = 4;
    double whole = product_time(&device, PEN_NUMBER_F32, 512, 512, 4096);
    /* Tiles of 64 by 64: 64 + 1 of them, 16.25 rounds of 4. */
    struct pen_operation_list list = {.count = 0};
    pen_operations_add_product(&list, 65, 64, 64, 4096);
    expect_close(whole * 65 / 64,
                 pen_operation_time(&device, PEN_NUMBER_F32, &list.items[0]),
                 "filled along k");
    device.constants[PEN_CONSTANT_ROUNDING] = 1;
    expect_close(whole * 17 / 16,
                 pen_operation_time(&device, PEN_NUMBER_F32, &list.items[0]),
                 "not filled");
}

static void thin_products_wait_for_memory(void **state)
{
    (void)state;
    struct pen_device device = ideal_device();
    double bytes = 4 * (4096.0 + 4096.0 * 64 + 64);
    device.memory_bytes_per_sec = 1e9;
    expect_close(bytes / 1e9,
                 product_time(&device, PEN_NUMBER_F32, 1, 64, 4096),
                 "a vector by a matrix");
}

static void rows_and_attention_take_bytes_and_flops(void **state)
{
    (void)state;
    struct pen_device device = ideal_device();
    struct pen_operation_list list = {.count = 0};
    pen_operations_add_rows(&list, 5e9, 3);
    pen_operations_add_attention(&list, 2e9);
    expect_close(5e-3, pen_operation_time(&device, PEN_NUMBER_F32, list.items),
                 "rows");
    expect_close(4e-3,
                 pen_operation_time(&device, PEN_NUMBER_F32, list.items + 1),
                 "attention at half the peak");
    expect_close(2e-3,
                 pen_operation_time(&device, PEN_NUMBER_FP8, list.items + 1),
                 "attention stays in 16 bits");
    expect_close(9e-3, pen_operations_busy(&device, PEN_NUMBER_F32, &list),
                 "both");
    expect_close(4e-5, pen_operations_host(&device, &list), "four launches");
}

static void larger_products_are_never_faster(void **state)
{
    (void)state;
    struct pen_device device = a100();
    for (double size = 16; size < 9000; size *= 1.37) {
        double once = product_time(&device, PEN_NUMBER_BF16, size, 512, 1024);
        double more =
            product_time(&device, PEN_NUMBER_BF16, 1.37 * size, 512, 1024);
        if (more < once)
            fail_msg("%g rows take %g s, %g take %g s", size, once, 1.37 * size,
                     more);
    }
}

/* No product is faster than the best share of the peak that was measured. */
static void no_product_beats_the_best_measured_share(void **state)
{
    (void)state;
    struct pen_device device = a100();
    for (double size = 64; size < 40000; size *= 1.7) {
        double sec = product_time(&device, PEN_NUMBER_BF16, size, size, size);
        double share =
            2 * size * size * size / (sec * device.flops[PEN_NUMBER_BF16]);
        if (share > 0.87)
            fail_msg("a product of %g has %g of the peak", size, share);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_tiles_take_their_flops),
        cmocka_unit_test(numbers_that_a_device_lacks_run_as_the_next_wider),
        cmocka_unit_test(narrow_products_have_shares_of_their_own),
        cmocka_unit_test(a_part_of_a_tile_costs_a_whole_one),
        cmocka_unit_test(a_last_round_is_rounded_up_by_its_share),
        cmocka_unit_test(thin_products_wait_for_memory),
        cmocka_unit_test(rows_and_attention_take_bytes_and_flops),
        cmocka_unit_test(larger_products_are_never_faster),
        cmocka_unit_test(no_product_beats_the_best_measured_share)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
