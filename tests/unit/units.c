/*
 * Numbers with units are read as people write them, and what is printed reads
 * back as the same number.
 */
#include "support/support.h"

#include "base/units.h"

static void expect_reading(enum pen_unit unit, const char *text,
                           double expected)
{
    double found = -1;
    if (!pen_unit_parse(unit, text, &found))
        fail_msg("'%s' is refused", text);
    if (found != expected)
        fail_msg("'%s' is %.17g, expected %.17g", text, found, expected);
}

static void expect_refusal(enum pen_unit unit, const char *text)
{
    double found = -1;
    if (pen_unit_parse(unit, text, &found))
        fail_msg("'%s' is read as %g", text, found);
    assert_true(found == -1);
}

static void expect_text(enum pen_unit unit, double value, const char *expected)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_unit_print(unit, value, &text);
    assert_string_equal(expected, pen_text_string(&text));
    pen_text_release(&text);
}

static void numbers_have_the_unit_that_follows(void **state)
{
    (void)state;
    expect_reading(PEN_UNIT_BYTES, "80 GiB", 80.0 * 1073741824);
    expect_reading(PEN_UNIT_BYTES, "80GiB", 80.0 * 1073741824);
    expect_reading(PEN_UNIT_BYTES, "1.5 GB", 1.5e9);
    expect_reading(PEN_UNIT_BYTES, "123", 123);
    expect_reading(PEN_UNIT_BYTES_PER_SEC, "450 GB/s", 450e9);
    expect_reading(PEN_UNIT_BYTES_PER_SEC, "25 Gbit/s", 3.125e9);
    expect_reading(PEN_UNIT_SECONDS, "3 us", 3e-6);
    expect_reading(PEN_UNIT_SECONDS, "7 ns", 7e-9);
    expect_reading(PEN_UNIT_SECONDS, "0.1 ms", 1e-4);
    expect_reading(PEN_UNIT_FLOPS, "989 TFLOP/s", 989e12);
    expect_reading(PEN_UNIT_FLOPS, "1e3 GFLOP/s", 1e12);
    expect_reading(PEN_UNIT_FLOPS, "2.5E+2TFLOP/s", 250e12);
}

static void anything_else_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",       "GiB",   "80 GB/s", "80  GiB", "80 gib", "80 GiB ",
        "-1 GB",  "+1 GB", ".5 GB",   "5. GB",   "1e GB",  "1e+ GB",
        "0x10",   "nan",   "inf GB",  "80 ",     "1e999",  "1e308 TiB",
        "1,5 GB", " 1 GB", "1 G",     "1 3 GB"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_refusal(PEN_UNIT_BYTES, wrong[i]);
    expect_refusal(PEN_UNIT_SECONDS, "3 min");
    expect_refusal(PEN_UNIT_BYTES_PER_SEC, "450 GB");
    expect_refusal(PEN_UNIT_FLOPS, "989 TFLOPS");
}

static void the_largest_unit_is_printed(void **state)
{
    (void)state;
    expect_text(PEN_UNIT_BYTES, 80.0 * 1073741824, "80 GiB");
    expect_text(PEN_UNIT_BYTES, 1000, "1000 B");
    expect_text(PEN_UNIT_BYTES_PER_SEC, 3.35e12, "3.35 TB/s");
    expect_text(PEN_UNIT_BYTES_PER_SEC, 450e9, "450 GB/s");
    expect_text(PEN_UNIT_BYTES_PER_SEC, 0.5, "0.5 B/s");
    expect_text(PEN_UNIT_SECONDS, 3e-6, "3 us");
    expect_text(PEN_UNIT_SECONDS, 4e-5, "40 us");
    expect_text(PEN_UNIT_SECONDS, 5.73e-7, "573 ns");
    expect_text(PEN_UNIT_FLOPS, 2500e12, "2500 TFLOP/s");
    expect_text(PEN_UNIT_SECONDS, 0, "0 s");
    expect_text(PEN_UNIT_FLOPS, 0, "0 FLOP/s");
    expect_text(PEN_UNIT_FLOPS, 191.5e12, "191.5 TFLOP/s");
}

static void what_is_printed_reads_back(void **state)
{
    (void)state;
    double value = 1e-12;
    for (int i = 0; i < 4000; i++) {
        value *= 1.017;
        for (int unit = 0; unit < PEN_UNITS; unit++) {
            struct pen_text text = PEN_TEXT_EMPTY;
            pen_unit_print((enum pen_unit)unit, value, &text);
            expect_reading((enum pen_unit)unit, pen_text_string(&text), value);
            pen_text_release(&text);
        }
    }
    assert_true(value > 1e16);
}

static void examples_are_right(void **state)
{
    (void)state;
    for (int unit = 0; unit < PEN_UNITS; unit++) {
        double value = 0;
        assert_true(pen_unit_parse((enum pen_unit)unit,
                                   pen_unit_example((enum pen_unit)unit),
                                   &value));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_the_unit_that_follows),
        cmocka_unit_test(anything_else_is_refused),
        cmocka_unit_test(the_largest_unit_is_printed),
        cmocka_unit_test(what_is_printed_reads_back),
        cmocka_unit_test(examples_are_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
