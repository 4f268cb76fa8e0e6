/* Pickles are data: values are read as they were written, and an opcode that
 * would do anything is refused. */
#include "support/support.h"

#include "calls/pickle.h"

#include <stdlib.h>
#include <string.h>

#define PROTO "\x80\x02"

static json_t *read_ok(const char *bytes, size_t length)
{
    json_t *value = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen__pickle_read(bytes, length, &value, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return value;
}

static void refused(const char *bytes, size_t length, const char *reason)
{
    json_t *value = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = pen__pickle_read(bytes, length, &value, &why);
    if (status != PEN_INVALID || strstr(pen_text_string(&why), reason) == NULL)
        fail_msg("status %d, '%s' lacks '%s'", (int)status,
                 pen_text_string(&why), reason);
    assert_null(value);
    pen_text_release(&why);
}

#define BYTES(text) text, sizeof text - 1

static void assert_reads(const char *bytes, size_t length, const char *json)
{
    json_t *value = read_ok(bytes, length);
    char *found = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    assert_string_equal(json, found);
    free(found);
    json_decref(value);
}

static void values_are_read_as_they_were_written(void **state)
{
    (void)state;
    assert_reads(BYTES(PROTO "N."), "null");
    assert_reads(BYTES(PROTO "\x88."), "true");
    assert_reads(BYTES(PROTO "K\xff."), "255");
    assert_reads(BYTES(PROTO "M\x01\x02."), "513");
    assert_reads(BYTES(PROTO "J\xff\xff\xff\xff."), "-1");
    assert_reads(BYTES(PROTO "\x8a\x02\x00\x80."), "-32768");
    assert_reads(BYTES(PROTO "\x8a\x00."), "0");
    assert_reads(BYTES(PROTO "\x8a\x09"
                             "123456789."),
                 "null");
    assert_reads(BYTES(PROTO "G\x3f\xf8\x00\x00\x00\x00\x00\x00."), "1.5");
    assert_reads(BYTES(PROTO "G\x7f\xf0\x00\x00\x00\x00\x00\x00."), "null");
    assert_reads(BYTES(PROTO "X\x02\x00\x00\x00ok."), "\"ok\"");
    assert_reads(BYTES(PROTO "](K\x01K\x02"
                             "e."),
                 "[1,2]");
    assert_reads(BYTES(PROTO "](e."), "[]");
    assert_reads(BYTES(PROTO "K\x01K\x02\x86."), "[1,2]");
    assert_reads(BYTES(PROTO "(K\x01K\x02t."), "[1,2]");
    assert_reads(BYTES(PROTO ")."), "[]");
    assert_reads(BYTES(PROTO "}(X\x01\x00\x00\x00"
                             "aK\x01K\x05K\x02u."),
                 "{\"a\":1,\"5\":2}");
    assert_reads(BYTES("\x80\x04\x95\x04\x00\x00\x00\x00\x00\x00\x00\x8c\x01"
                       "a\x94."),
                 "\"a\"");
    /* A list that two places share. */
    assert_reads(BYTES(PROTO "](]q\x00K\x01"
                             "ah\x00"
                             "e."),
                 "[[1],[1]]");
}

static void opcodes_that_act_are_refused_by_name(void **state)
{
    (void)state;
    refused(BYTES(PROTO "cos\nsystem\n."), "opcode GLOBAL");
    refused(BYTES(PROTO "K\x01\x93."), "opcode STACK_GLOBAL");
    refused(BYTES(PROTO "K\x01)R."), "opcode REDUCE");
    refused(BYTES(PROTO "}}b."), "opcode BUILD");
    refused(BYTES(PROTO "(ios\nsystem\n."), "opcode INST");
    refused(BYTES(PROTO "(o."), "opcode OBJ");
    refused(BYTES(PROTO "\x81."), "opcode NEWOBJ");
    refused(BYTES(PROTO "\x92."), "opcode NEWOBJ_EX");
    refused(BYTES(PROTO "\x82\x01."), "opcode EXT1");
    refused(BYTES(PROTO "Pid\n."), "opcode PERSID");
    refused(BYTES(PROTO "Q."), "opcode BINPERSID");
    refused(BYTES(PROTO "I5\n."), "opcode 0x49");
}

static void a_pickle_that_is_cut_is_refused_at_every_byte(void **state)
{
    (void)state;
    static const char whole[] =
        PROTO "}q\x00(X\x01\x00\x00\x00"
              "aq\x01](K\x01M\x02\x00J\x03\x00\x00\x00\x8a\x01\x04"
              "G\x3f\xf8\x00\x00\x00\x00\x00\x00"
              "e\x8c\x01"
              "bh\x01u.";
    json_decref(read_ok(BYTES(whole)));
    for (size_t length = 0; length < sizeof whole - 1; length++)
        refused(whole, length, "");
}

static void values_out_of_place_are_refused(void **state)
{
    (void)state;
    refused(BYTES(PROTO "."), "not one value");
    refused(BYTES(PROTO "K\x01K\x02."), "not one value");
    refused(BYTES(PROTO "(."), "not one value");
    refused(BYTES(PROTO "K\x01"
                        "e."),
            "a mark is missing");
    refused(BYTES(PROTO "K\x01(K\x02"
                        "e."),
            "else than a new list");
    refused(BYTES(PROTO "](K\x01u."), "else than a new dict");
    refused(BYTES(PROTO "}(K\x01u."), "else than a new dict");
    refused(BYTES(PROTO "}(]K\x01u."), "neither a text nor a number");
    refused(BYTES(PROTO "a."), "a list lacks its value");
    refused(BYTES(PROTO "\x87."), "a tuple lacks values");
    refused(BYTES(PROTO "h\x05."), "not remembered");
    refused(BYTES(PROTO "q\x05."), "cannot be remembered");
    refused(BYTES(PROTO "K\x01r\xff\xff\xff\x7f."), "number too large");
    refused(BYTES(PROTO "X\x02\x00\x00\x00\xff\xff."), "not UTF-8");
    refused(BYTES(PROTO "X\xff\xff\xff\xff"
                        "a."),
            "cut short");
    refused(BYTES(PROTO "\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
                        "a."),
            "cut short");
}

static void a_container_never_holds_itself(void **state)
{
    (void)state;
    refused(BYTES(PROTO "]q\x00h\x00"
                        "a."),
            "else than a new");
    refused(BYTES(PROTO "]q\x00]h\x00"
                        "aa."),
            "else than a new");
    refused(BYTES(PROTO "}q\x00K\x01h\x00s."), "else than a new");
    /* One that came from the memo cannot grow. */
    refused(BYTES(PROTO "]q\x00"
                        "0h\x00K\x01"
                        "a."),
            "else than a new list");
}

static void depth_has_a_limit(void **state)
{
    (void)state;
    struct pen_text bytes = PEN_TEXT_EMPTY;
    pen_text_add(&bytes, "%s", PROTO);
    pen_text_add_repeat(&bytes, ']', 2000);
    pen_text_add_repeat(&bytes, 'a', 1999);
    pen_text_add(&bytes, ".");
    refused(bytes.bytes, bytes.length, "nested too deep");
    /* Also where each list is taken from the memo. */
    pen_text_clear(&bytes);
    pen_text_add(&bytes, "\x80\x04]\x94"
                         "0");
    for (unsigned i = 0; i < 2000; i++) {
        const char get[] = {
            ']', (char)0x94, 'j', (char)(i & 255), (char)(i >> 8), 0,
            0,   'a',        '0'};
        pen_text_add_bytes(&bytes, get, sizeof get);
    }
    refused(bytes.bytes, bytes.length, "nested too deep");
    pen_text_release(&bytes);
}

static void the_number_of_containers_has_a_limit(void **state)
{
    (void)state;
    struct pen_text bytes = PEN_TEXT_EMPTY;
    pen_text_add(&bytes, "%s](", PROTO);
    pen_text_add_repeat(&bytes, ']', PEN__PICKLE_MOST_CONTAINERS);
    pen_text_add(&bytes, "e.");
    refused(bytes.bytes, bytes.length, "too many lists and dicts");
    pen_text_release(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read_as_they_were_written),
        cmocka_unit_test(opcodes_that_act_are_refused_by_name),
        cmocka_unit_test(a_pickle_that_is_cut_is_refused_at_every_byte),
        cmocka_unit_test(values_out_of_place_are_refused),
        cmocka_unit_test(a_container_never_holds_itself),
        cmocka_unit_test(depth_has_a_limit),
        cmocka_unit_test(the_number_of_containers_has_a_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
