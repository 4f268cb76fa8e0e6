/* The check is that of RFC 3720, whose section B.4 has these examples. */
#include "support/support.h"

#include "base/crc32c.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_rfc_hold),
        cmocka_unit_test(short_texts_have_their_known_checks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
