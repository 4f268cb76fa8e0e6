/*
 * The interpreter of PTX (device/ptx.h) finds what it is there for: each
 * barrier of our kernels that is taken away, a barrier that some lanes do not
 * reach, accesses outside of memory and beside their line; and it refuses
 * instructions that it does not know.
 */
#include "support/support.h"

#include "engine/device/cuda.h"
#include "engine/device/kernels/sizes.h"
#include "ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 10000, BARRIERS = 40 };

static float numbers[PEN__ADDRESSES][COUNT];

static bool find_numbers(const void *context, uint64_t address, uint64_t *begin,
                         uint64_t *end)
{
    (void)context;
    *begin = (uint64_t)(uintptr_t)numbers;
    *end = *begin + sizeof numbers;
    return address >= *begin && address < *end;
}

static const struct ptx_memory memory = {.find = find_numbers};

static bool run(const char *text, const char *name, uint32_t groups,
                const void *sizes, size_t bytes, char fault[PTX_FAULT])
{
    char parameters[512];
    struct ptx_module *module = ptx_read(text, fault);
    if (module == NULL)
        fail_msg("%s", fault);
    const struct ptx_kernel *kernel = ptx_find(module, name);
    assert_non_null(kernel);
    assert_int_equal(kernel->num_parameters, PEN__ADDRESSES + 1);
    for (int i = 0; i < PEN__ADDRESSES; i++) {
        float *at = numbers[i];
        memcpy(parameters + kernel->parameters[i].at, &at, sizeof at);
    }
    assert_int_equal(kernel->parameters[PEN__ADDRESSES].bytes, bytes);
    memcpy(parameters + kernel->parameters[PEN__ADDRESSES].at, sizes, bytes);
    bool is_good = ptx_run(kernel, groups, parameters, &memory, fault);
    ptx_free(module);
    return is_good;
}

/* The barrier number `index` of a kernel; NULL: it has fewer. */
static char *barrier_of(char *text, const char *name, int index)
{
    char entry[80];
    snprintf(entry, sizeof entry, ".entry %s(", name);
    char *at = strstr(text, entry);
    assert_non_null(at);
    const char *end = strstr(at, "\n}");
    for (int i = 0; at != NULL && i <= index; i++)
        at = strstr(at + 1, "bar.sync");
    return at != NULL && at < end ? at : NULL;
}

static void expect_all_found(const char *name, uint32_t groups,
                             const void *sizes, size_t bytes, int least)
{
    char fault[PTX_FAULT];
    int count = 0;
    if (!run(pen__cuda_text_f32, name, groups, sizes, bytes, fault))
        fail_msg("%s", fault);
    for (; count < BARRIERS; count++) {
        char *text = strdup(pen__cuda_text_f32);
        assert_non_null(text);
        char *barrier = barrier_of(text, name, count);
        if (barrier == NULL) {
            free(text);
            break;
        }
        barrier[0] = barrier[1] = '/';
        bool is_good = run(text, name, groups, sizes, bytes, fault);
        free(text);
        if (is_good)
            fail_msg("%s runs without its barrier %d", name, count);
        if (strstr(fault, "since the last barrier") == NULL)
            fail_msg("another fault: %s", fault);
    }
    print_message("%s: %d barriers\n", name, count);
    assert_in_range(count, least, BARRIERS - 1);
}

static void every_missing_barrier_is_found(void **state)
{
    (void)state;
    if (pen__cuda_text_f32[0] == '\0')
        skip();
    const struct pen__norm_sizes norm = {
        .rows = 2, .width = 100, .epsilon = 1, .is_layer = 1};
    expect_all_found("norm_forward", 2, &norm, sizeof norm, 3);
    const struct pen__product_sizes product = {.rows = 70,
                                               .columns = 60,
                                               .depth = 40,
                                               .a_row = 40,
                                               .a_depth = 1,
                                               .b_row = 40,
                                               .b_depth = 1,
                                               .c_row = 60,
                                               .heads = 1,
                                               .a_share = 1,
                                               .b_share = 1,
                                               .scale = 1};
    expect_all_found("product", 2, &product, sizeof product, 2);
    const struct pen__attention_sizes attention = {.batch = 1,
                                                   .sequence = 200,
                                                   .heads = 1,
                                                   .first_query = 99,
                                                   .queries = 2,
                                                   .keys = 100,
                                                   .scale = 1};
    expect_all_found("attention_softmax", 2, &attention, sizeof attention, 4);
}

/* A kernel with a body of its own, on numbers[0]. */
static void expect_fault(const char *body, const char *expected)
{
    char text[2000], fault[PTX_FAULT] = "";
    uint64_t address = (uint64_t)(uintptr_t)numbers[0];
    snprintf(text, sizeof text,
             ".visible .entry kernel(\n.param .u64 at\n)\n{\n"
             ".reg .b64 %%rd<9>;\n.reg .b32 %%r<9>;\n.reg .pred %%p<9>;\n"
             "ld.param.u64 %%rd1, [at];\nmov.u32 %%r1, %%tid.x;\n"
             "mul.wide.s32 %%rd2, %%r1, 4;\nadd.s64 %%rd3, %%rd1, %%rd2;\n"
             "setp.lt.s32 %%p1, %%r1, 9;\n%s\nEND:\nret;\n}\n",
             body);
    struct ptx_module *module = ptx_read(text, fault);
    if (module != NULL)
        assert_true(ptx_run(ptx_find(module, "kernel"), 1, &address, &memory,
                            fault) == (expected == NULL));
    ptx_free(module);
    if (expected != NULL && strstr(fault, expected) == NULL)
        fail_msg("no \"%s\" in \"%s\" of %s", expected, fault, body);
}

static void faults_are_found(void **state)
{
    (void)state;
    expect_fault("ld.global.u32 %r2, [%rd3];\nst.global.u32 [%rd3], %r1;",
                 NULL);
    assert_memory_equal(&numbers[0][8], (&(uint32_t){8}), sizeof(uint32_t));
    expect_fault("@%p1 bra END;\nst.global.u32 [%rd3+252], %r1;", NULL);
    expect_fault("ld.global.u32 %r2, [%rd3+-4];", "outside of every block");
    expect_fault("ld.global.u32 %r2, [%rd3+2];", "not aligned");
    expect_fault("ld.global.v2.u32 {%r2, %r3}, [%rd3];", "not aligned");
    expect_fault("@%p1 bra END;\nbar.sync 0;", "does not come to the barrier");
    expect_fault("@!%p1 bra END;\nbar.sync 0;", "does not come to the barrier");
    expect_fault(".shared .align 4 .b8 own[256];\nmov.u64 %rd4, own;\n"
                 "st.shared.u32 [%rd4], %r1;",
                 "since the last barrier");
    expect_fault(".shared .align 4 .b8 own[256];\nmov.u64 %rd4, own;\n"
                 "ld.shared.u32 %r2, [%rd4+256];",
                 "outside of every array");
    expect_fault("popc.b32 %r2, %r1;", "an unknown instruction");
    expect_fault("bra NOWHERE;", "a label");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_missing_barrier_is_found),
        cmocka_unit_test(faults_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
