/* Blocks of few bits with two-sided error feedback, in plain loops. */
#include "support/support.h"

#include "support/compress_run.h"
#include "support/sync_run.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 4, STEPS = 50, MOST = 2600 };

/* Shares of them end within a block, and at odd numbers. */
static const size_t shapes[][2] = {{37, 53}, {1, 7}, {1, 2}, {22, 20}};

static const struct compress_run base = {.compress = "int8",
                                         .num_members = MEMBERS,
                                         .num_steps = STEPS,
                                         .shapes = shapes,
                                         .num_shapes = 4};

static const struct {
    const char *compress;
    size_t block;
    float levels; /* 0: numbers have 8 significant bits each */
} kinds[] = {{"int8", 256, 127}, {"int8:72", 72, 127}, {"int8:64", 64, 127},
             {"int4", 128, 7},   {"int4:72", 72, 7},   {"int4:256", 256, 7},
             {"bf16", 1024, 0}};

enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- plain loops over all members in one array ---- */

/* The nearest number with 8 significant bits, and the even one of two. */
static float with_eight_bits(float value)
{
    int exponent;
    float part = frexpf(value, &exponent);
    return ldexpf(rintf(ldexpf(part, 8)), exponent - 8);
}

/* Scales have their last seven bits cut off, and are not too small. */
static float cut(float scale)
{
    uint32_t bits;
    memcpy(&bits, &scale, sizeof bits);
    bits &= ~UINT32_C(127);
    memcpy(&scale, &bits, sizeof scale);
    return fmaxf(scale, FLT_MIN);
}

/* What is left of c, which becomes what its code says. */
static void take_block(float levels, float *c, float *error, size_t count)
{
    float largest = 0;
    for (size_t k = 0; k < count; k++)
        largest = fmaxf(largest, fabsf(c[k]));
    float scale = levels == 0 ? 0 : cut(largest / levels);
    for (size_t k = 0; k < count; k++) {
        float code = levels == 0 ? with_eight_bits(c[k])
                                 : scale * rintf(c[k] * (1 / scale));
        error[k] = c[k] - code;
        c[k] = code;
    }
}

static void take_chunk(size_t kind, float *c, float *error, size_t count)
{
    for (size_t k = 0; k < count; k += kinds[kind].block)
        take_block(kinds[kind].levels, c + k, error + k,
                   count - k < kinds[kind].block ? count - k
                                                 : kinds[kind].block);
}

struct reference {
    float c[MEMBERS][MOST]; /* what they give */
    float worker[MEMBERS][MOST];
    float server[MOST];
    float mean[MOST];
};

static void mean_of_chunk(size_t kind, struct reference *it, size_t first,
                          size_t end)
{
    size_t count = end - first;
    for (int i = 0; i < MEMBERS; i++) {
        for (size_t k = first; k < end; k++)
            it->c[i][k] += it->worker[i][k];
        take_chunk(kind, it->c[i] + first, it->worker[i] + first, count);
    }
    for (size_t k = first; k < end; k++) {
        it->mean[k] = 0;
        for (int i = 0; i < MEMBERS; i++)
            it->mean[k] += it->c[i][k] / MEMBERS;
        it->mean[k] += it->server[k];
    }
    take_chunk(kind, it->mean + first, it->server + first, count);
}

static void mean_of_all(size_t kind, struct reference *it)
{
    size_t first = 0;
    for (size_t t = 0; t < base.num_shapes; t++) {
        size_t count = shapes[t][0] * shapes[t][1];
        for (size_t k = 0; k < MEMBERS; k++)
            mean_of_chunk(kind, it, first + count * k / MEMBERS,
                          first + count * (k + 1) / MEMBERS);
        first += count;
    }
}

static void follow(size_t kind)
{
    struct compress_run run = base;
    struct compress_trace traces[MEMBERS];
    static struct reference it;
    memset(&it, 0, sizeof it);
    run.compress = kinds[kind].compress;
    compress_threads_run(&run, traces);
    size_t count = traces[0].count;
    assert_in_range(count, 1, MOST);
    for (size_t step = 0; step < STEPS; step++) {
        for (int i = 0; i < MEMBERS; i++)
            memcpy(it.c[i], traces[i].given + step * count,
                   count * sizeof(float));
        mean_of_all(kind, &it);
        for (size_t k = 0; k < count; k++)
            if (fabsf(it.mean[k] - traces[0].delivered[step * count + k]) >
                2e-6f)
                fail_msg("%s: step %zu, value %zu: expected %.9g, found %.9g",
                         run.compress, step + 1, k, (double)it.mean[k],
                         (double)traces[0].delivered[step * count + k]);
    }
    compress_traces_release(traces, MEMBERS);
}

static void follow_their_equations(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < KINDS; kind++)
        follow(kind);
}

/* ---- promises ---- */

static void keep_what_they_leave_out(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < KINDS; kind++)
        for (uint32_t members = 1; members <= MEMBERS; members++) {
            struct compress_run run = base;
            run.compress = kinds[kind].compress;
            run.num_members = members;
            compress_expect_same_bits(&run);
            compress_expect_nothing_lost(&run, "error", "owner_error");
            compress_expect_bytes(&run);
        }
}

static void send_what_they_say(void **state)
{
    (void)state;
    const size_t square[][2] = {{64, 64}};
    struct compress_run run = base;
    struct pen_mean_cost cost;
    run.shapes = square;
    run.num_shapes = 1;
    compress_cost(&run, &cost);
    assert_true(cost.bytes == 2.0 * 3 * (1024 + 4 * 4.0 + 8));
    run.compress = "int4";
    compress_cost(&run, &cost);
    assert_true(cost.bytes == 2.0 * 3 * (512 + 8 * 4.0 + 8));
}

/* Whole numbers up to 127 or 7, the largest of them in every block. */
static void give_whole(size_t count, float *out, uint64_t seed, int most)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (float)((int)((i * 31 + seed * 17) % (size_t)(2 * most + 1)) -
                         most);
    for (size_t i = 0; i < count; i++)
        if (i % 32 == 0 || i + 16 > count || (i >= 1961 && i < 1970))
            out[i] = (float)most;
}

static void give_bytes(uint32_t member, uint64_t step, size_t count, float *out)
{
    (void)member;
    give_whole(count, out, step, 127);
}

static void give_nibbles(uint32_t member, uint64_t step, size_t count,
                         float *out)
{
    (void)member;
    give_whole(count, out, step, 7);
}

static void numbers_that_fit_have_an_exact_mean(void **state)
{
    (void)state;
    struct compress_run run = base;
    run.give = give_bytes;
    run.compress = "int8:64";
    compress_expect_exact(&run, 0);
    run.give = give_nibbles;
    run.compress = "int4:64";
    compress_expect_exact(&run, 0);
}

/* Of a scale, or of the last bit, where no value is larger than 1. */
static float half_of(size_t kind)
{
    float levels = kinds[kind].levels == 0 ? 256 : kinds[kind].levels;
    return 0.50001f / levels;
}

static void errors_are_half_a_scale_at_most(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < KINDS; kind++) {
        struct compress_run run = base;
        struct compress_trace traces[MEMBERS];
        size_t count;
        run.compress = kinds[kind].compress;
        run.num_steps = 1;
        compress_threads_run(&run, traces);
        for (int i = 0; i < MEMBERS; i++) {
            const float *kept = compress_kept(&traces[i], "error", &count);
            for (size_t k = 0; k < count; k++)
                assert_true(fabsf(kept[k]) <= half_of(kind));
        }
        compress_traces_release(traces, MEMBERS);
    }
}

static void give_tiny(uint32_t member, uint64_t step, size_t count, float *out)
{
    (void)member, (void)step;
    for (size_t i = 0; i < count; i++)
        out[i] = (float)(i % 5) * 1e-42f;
}

static void what_is_too_small_is_kept(void **state)
{
    (void)state;
    struct compress_run run = base;
    struct compress_trace traces[MEMBERS];
    size_t count;
    run.give = give_tiny;
    run.num_steps = 1;
    compress_threads_run(&run, traces);
    assert_memory_equal(traces[0].given,
                        compress_kept(&traces[0], "error", &count),
                        traces[0].count * sizeof(float));
    compress_traces_release(traces, MEMBERS);
}

static void blocks_are_multiples_of_8(void **state)
{
    (void)state;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_sync_choice choice;
    struct pen_compression setting = {0};
    void *made = NULL;
    assert_int_equal(PEN_OK, pen_sync_choose("allreduce", 0, NULL, 0, "int8:65",
                                             &choice, &why));
    setting.options = choice.compressor_options;
    assert_int_equal(PEN_INVALID,
                     choice.compressor->create(&setting, &made, &why));
    assert_string_equal("a block must have a multiple of 8 values, not 65",
                        pen_text_string(&why));
    assert_null(made);
    pen_text_release(&why);
}

static void resume(void **state)
{
    (void)state;
    struct sync_run run = {
        .method = "diloco",
        .interval = 7,
        .num_replicas = MEMBERS,
        .num_steps = STEPS,
        .problem = {.seed = 3, .noise = 0.5},
        .rate = 0.05,
    };
    for (size_t kind = 0; kind < KINDS; kind++) {
        run.compress = kinds[kind].compress;
        sync_expect_resumable(&run, 17);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follow_their_equations),
        cmocka_unit_test(keep_what_they_leave_out),
        cmocka_unit_test(send_what_they_say),
        cmocka_unit_test(numbers_that_fit_have_an_exact_mean),
        cmocka_unit_test(errors_are_half_a_scale_at_most),
        cmocka_unit_test(blocks_are_multiples_of_8),
        cmocka_unit_test(what_is_too_small_is_kept),
        cmocka_unit_test(resume)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
