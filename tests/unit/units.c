/*
 * Numbers with units are read as people write them, and what is printed reads
 * back as the same number.
 */
#include "support/support.h"

#include "base/random.h"
#include "base/units.h"

#include <math.h>
#include <string.h>

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
    expect_reading(PEN_UNIT_SECONDS, "90 min", 5400);
    expect_reading(PEN_UNIT_SECONDS, "3h", 10800);
    expect_reading(PEN_UNIT_SECONDS, "1.5d", 129600);
    expect_reading(PEN_UNIT_FLOPS, "989 TFLOP/s", 989e12);
    expect_reading(PEN_UNIT_FLOPS, "1e3 GFLOP/s", 1e12);
    expect_reading(PEN_UNIT_FLOPS, "2.5E+2TFLOP/s", 250e12);
}

/* All of them are 1 Gbit/s. */
static void rates_of_links_are_read_as_people_write_them(void **state)
{
    (void)state;
    static const char *const same[] = {
        "1Gb/s",        "1 Gb/s",   "1Gbit/s",     "1 Gbit",   "1Gbit",
        "1Gbps",        "1Gb",      "1Gbits/s",    "1GbE",     "1000Mb/s",
        "1e3 Mbps",     "0.001 Tb", "1000000kb/s", "1e6 Kbps", "1000000000b/s",
        "1000000000 b", "125MB/s",  "125 MB/s",    "125MBps",  "0.125GB/s",
        "125000KB/s",   "1.25e8",   "125000000B/s"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        expect_reading(PEN_UNIT_BYTES_PER_SEC, same[i], 125e6);
    expect_reading(PEN_UNIT_BYTES_PER_SEC, "1 TiB/s", 1099511627776.0);
    expect_reading(PEN_UNIT_BYTES_PER_SEC, "4 KiB/s", 4096);
    static const char *const wrong[] = {
        "1Gb/s/s", "-1Gb/s",  "+1Gb/s",  "1e308Tb/s", "1e999Gb/s", "Gb/s",
        "",        " ",       "1 Gb /s", "1Gb/",      "1GB",       "1G",
        "1gb/s",   "1mb/s",   "1Gb/m",   "1Gb/s ",    "1  Gb/s",   "1,5Gb/s",
        "infGb/s", "nanGb/s", "0x1Gb/s", "1Gbit/s/s", "1GbpsGbps", "1Gbitt",
        "1.Gb/s",  "1e+Gb/s", "1Gb/s\n", "1 1Gb/s",   "1Gib/s",    "1Gbit//s"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_refusal(PEN_UNIT_BYTES_PER_SEC, wrong[i]);
}

/* Whatever is accepted is finite, not negative, and reads back. */
static void random_texts_are_numbers_or_refused(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "0", "1", "9", "308", ".", "e",   "E", "+", "-",  " ",  "k",   "K", "M",
        "G", "T", "i", "b",   "B", "bit", "s", "/", "/s", "ps", "GbE", "x"};
    struct pen_random random = {20261117};
    unsigned accepted = 0;
    for (int i = 0; i < 300000; i++) {
        char text[64] = "";
        for (uint32_t n = 1 + pen_random_below(&random, 6); n > 0; n--)
            strcat(text, pieces[pen_random_below(&random, sizeof pieces /
                                                              sizeof *pieces)]);
        for (int unit = 0; unit < PEN_UNITS; unit++) {
            double value = -1;
            if (!pen_unit_parse((enum pen_unit)unit, text, &value)) {
                assert_true(value == -1);
                continue;
            }
            accepted++;
            if (!isfinite(value) || value < 0 || strchr("+-.", text[0]))
                fail_msg("'%s' is read as %g", text, value);
            struct pen_text again = PEN_TEXT_EMPTY;
            pen_unit_print((enum pen_unit)unit, value, &again);
            expect_reading((enum pen_unit)unit, pen_text_string(&again), value);
            pen_text_release(&again);
        }
    }
    assert_true(accepted > 1000);
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
    expect_refusal(PEN_UNIT_SECONDS, "3 weeks");
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
        cmocka_unit_test(rates_of_links_are_read_as_people_write_them),
        cmocka_unit_test(random_texts_are_numbers_or_refused),
        cmocka_unit_test(anything_else_is_refused),
        cmocka_unit_test(the_largest_unit_is_printed),
        cmocka_unit_test(what_is_printed_reads_back),
        cmocka_unit_test(examples_are_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
