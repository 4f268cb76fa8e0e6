/* The check is that of RFC 3720, whose section B.4 has these examples. */
#include "support/support.h"

#include "base/crc32c.h"
#include "base/random.h"

#include <stdlib.h>

static void the_examples_of_the_rfc_hold(void **state)
{
    (void)state;
    unsigned char zeros[32];
    unsigned char ones[32];
    unsigned char up[32];
    unsigned char down[32];
    for (unsigned i = 0; i < 32; i++) {
        zeros[i] = 0;
        ones[i] = 0xff;
        up[i] = (unsigned char)i;
        down[i] = (unsigned char)(31 - i);
    }
    assert_int_equal(0x8a9136aa, pen_crc32c(zeros, sizeof zeros));
    assert_int_equal(0x62a8ab43, pen_crc32c(ones, sizeof ones));
    assert_int_equal(0x46dd794e, pen_crc32c(up, sizeof up));
    assert_int_equal(0x113fdb5c, pen_crc32c(down, sizeof down));
}

static void short_texts_have_their_known_checks(void **state)
{
    (void)state;
    assert_int_equal(0, pen_crc32c("", 0));
    assert_int_equal(0xe3069283, pen_crc32c("123456789", 9));
}

static void both_ways_agree_for_any_length(void **state)
{
    (void)state;
    enum { MOST = 40000 };
    unsigned char *bytes = malloc(MOST);
    struct pen_random random = {.state = 3};
    assert_non_null(bytes);
    for (size_t i = 0; i < MOST; i++)
        bytes[i] = (unsigned char)pen_random_next(&random);
    for (size_t i = 0; i < 2000; i++) {
        size_t first = (size_t)pen_random_below(&random, 64);
        size_t length =
            i < 100 ? i : (size_t)pen_random_below(&random, MOST - 64);
        assert_int_equal(pen_crc32c_portable(bytes + first, length),
                         pen_crc32c(bytes + first, length));
    }
    free(bytes);
}

static void one_flipped_bit_changes_the_check(void **state)
{
    (void)state;
    enum { LENGTH = 3 * 4096 + 40 };
    static unsigned char bytes[LENGTH];
    uint32_t right = pen_crc32c(bytes, LENGTH);
    for (size_t i = 0; i < LENGTH; i += 5) {
        bytes[i] ^= (unsigned char)(1u << i % 8);
        assert_int_not_equal(right, pen_crc32c(bytes, LENGTH));
        bytes[i] ^= (unsigned char)(1u << i % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_rfc_hold),
        cmocka_unit_test(short_texts_have_their_known_checks),
        cmocka_unit_test(both_ways_agree_for_any_length),
        cmocka_unit_test(one_flipped_bit_changes_the_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
