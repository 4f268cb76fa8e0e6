/*
 * The SHA-256 that takes OpenSSL's place: the examples of FIPS 180-4, and the
 * same digests as OpenSSL's of any length, however the bytes are handed over.
 */
#include "support/support.h"

#include "base/digest.h"
#include "base/hash.h"

#include <string.h>
#ifdef PEN_HAS_OPENSSL
#include <openssl/evp.h>
#endif

static void expect(const char *bytes, size_t length, const char *expected)
{
    char found[PEN_HASH_SIZE];
    assert_int_equal(PEN_OK, pen_hash_bytes(bytes, length, found, NULL));
    assert_string_equal(expected, found);
}

static void examples_of_the_standard_hold(void **state)
{
    (void)state;
    static char many[1000000];
    memset(many, 'a', sizeof many);
    expect("", 0,
           "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect("abc", 3,
           "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    expect(many, sizeof many,
           "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* In parts that end anywhere in a block. */
static void add_in_parts(struct pen__digest *digest, const unsigned char *bytes,
                         size_t length, size_t part)
{
    for (size_t at = 0; at < length; at += part)
        assert_true(pen__digest_add(digest, bytes + at,
                                    length - at < part ? length - at : part));
}

static void parts_make_no_difference(void **state)
{
    (void)state;
    static const size_t parts[] = {1, 3, 55, 63, 64, 65, 127, 300};
    unsigned char bytes[300];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * i + 7 * i);
    for (size_t length = 0; length <= sizeof bytes; length++) {
        unsigned char whole[PEN__DIGEST_BYTES];
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            unsigned char found[PEN__DIGEST_BYTES];
            struct pen__digest *digest = pen__digest_create();
            assert_non_null(digest);
            add_in_parts(digest, bytes, length, parts[i]);
            assert_true(pen__digest_finish(digest, found));
            pen__digest_free(digest);
            if (i == 0)
                memcpy(whole, found, sizeof whole);
            assert_memory_equal(whole, found, sizeof whole);
        }
#ifdef PEN_HAS_OPENSSL
        unsigned char theirs[EVP_MAX_MD_SIZE];
        assert_int_equal(
            1, EVP_Digest(bytes, length, theirs, NULL, EVP_sha256(), NULL));
        assert_memory_equal(theirs, whole, sizeof whole);
#endif
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_of_the_standard_hold),
        cmocka_unit_test(parts_make_no_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
