/* What messages of activations and of rows become on their way, and back. */
#include "support/support.h"

#include "base/random.h"
#include "engine/bf16.h"
#include "group/sparse_rows.h"
#include "runtime/message_code.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 777 };

static const struct pen_block_code blocks[] = {{8, 64}, {4, 64}, {8, 1024}};

static void random_values(uint64_t seed, size_t count, float *out)
{
    struct pen_random random = {seed};
    for (size_t i = 0; i < count; i++)
        out[i] = (float)(2 * pen_random_unit(&random) - 1);
}

static void messages_without_a_code_keep_their_bytes(void **state)
{
    (void)state;
    const struct pen_message_code none = {{0, 0}, true};
    assert_int_equal(640, pen_message_code_bytes(&none, 640));
}

static void floats_travel_as_blocks_do(void **state)
{
    (void)state;
    float values[COUNT], found[COUNT], expected[COUNT];
    char coded[2][4 * COUNT];
    random_values(1, COUNT, values);
    for (size_t k = 0; k < 3; k++) {
        const struct pen_message_code code = {blocks[k], false};
        size_t bytes = pen_message_code_bytes(&code, sizeof values);
        assert_int_equal(pen_block_code_bytes(&blocks[k], COUNT), bytes);
        pen_message_encode(&code, values, sizeof values, coded[0]);
        pen_block_encode(&blocks[k], values, COUNT, coded[1]);
        assert_memory_equal(coded[0], coded[1], bytes);
        pen_message_decode(&code, coded[0], sizeof values, found);
        pen_block_decode(&blocks[k], coded[1], COUNT, expected);
        assert_memory_equal(found, expected, sizeof found);
    }
}

/* As floats of the same value would, and rounded when they are back. */
static void bf16_travels_as_blocks_do(void **state)
{
    (void)state;
    uint16_t values[COUNT], found[COUNT];
    float wide[COUNT], expected[COUNT];
    char coded[2][4 * COUNT];
    random_values(2, COUNT, wide);
    for (size_t i = 0; i < COUNT; i++) {
        values[i] = pen_bf16_from_float(wide[i]);
        wide[i] = pen_bf16_to_float(values[i]);
    }
    for (size_t k = 0; k < 3; k++) {
        const struct pen_message_code code = {blocks[k], true};
        size_t bytes = pen_message_code_bytes(&code, sizeof values);
        assert_int_equal(pen_block_code_bytes(&blocks[k], COUNT), bytes);
        pen_message_encode(&code, values, sizeof values, coded[0]);
        pen_block_encode(&blocks[k], wide, COUNT, coded[1]);
        assert_memory_equal(coded[0], coded[1], bytes);
        pen_message_decode(&code, coded[0], sizeof values, found);
        pen_block_decode(&blocks[k], coded[1], COUNT, expected);
        for (size_t i = 0; i < COUNT; i++)
            assert_int_equal(pen_bf16_from_float(expected[i]), found[i]);
    }
}

/* Rows with numbers in every 1/`share`-th of them, from the first on. */
static float *make_rows(size_t rows, size_t width, size_t share)
{
    float *values = calloc(rows * width, sizeof *values);
    assert_non_null(values);
    for (size_t row = 0; row < rows && share > 0; row += share)
        random_values(row, width, values + row * width);
    return values;
}

/* Returns the bytes of the message. */
static size_t there_and_back(const float *values, size_t rows, size_t width)
{
    size_t most = pen_sparse_rows_most(rows, width);
    char *message = malloc(most + 1);
    float *found = malloc((rows * width + 1) * sizeof *found);
    assert_non_null(message);
    assert_non_null(found);
    memset(found, 0x5a, (rows * width + 1) * sizeof *found);
    message[most] = 0x5a;
    size_t bytes = pen_sparse_rows_pack(values, rows, width, message);
    assert_true(bytes <= most);
    assert_int_equal(0x5a, message[most]);
    assert_int_equal(bytes, pen_sparse_rows_bytes(message, rows, width));
    pen_sparse_rows_unpack(message, rows, width, found);
    assert_memory_equal(values, found, rows * width * sizeof *found);
    free(message);
    free(found);
    return bytes;
}

static void rows_come_out_as_they_went_in(void **state)
{
    (void)state;
    for (size_t width = 1; width < 40; width += 3) {
        for (size_t share = 0; share < 12; share++) {
            float *values = make_rows(100, width, share);
            size_t sent = share == 0 ? 0 : (100 + share - 1) / share;
            size_t few = 4 + sent * (4 + 4 * width), all = 4 + 400 * width;
            assert_int_equal(few < all ? few : all,
                             there_and_back(values, 100, width));
            free(values);
        }
    }
}

/* A negative zero is no zero: summed with another it stays negative. */
static void negative_zeros_are_sent(void **state)
{
    (void)state;
    float *values = make_rows(50, 8, 0);
    values[13 * 8 + 5] = -0.0f;
    assert_int_equal(4 + 4 + 32, there_and_back(values, 50, 8));
    values[20 * 8] = NAN;
    assert_int_equal(4 + 2 * (4 + 32), there_and_back(values, 50, 8));
    free(values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_without_a_code_keep_their_bytes),
        cmocka_unit_test(floats_travel_as_blocks_do),
        cmocka_unit_test(bf16_travels_as_blocks_do),
        cmocka_unit_test(rows_come_out_as_they_went_in),
        cmocka_unit_test(negative_zeros_are_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
