/* Tallies do not depend on how a tensor is cut, and probes of them are read,
 * compared and refused as docs/formats.md says. */
#include "support/support.h"

#include "core/probe_diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 12, COLUMNS = 10, COUNT = ROWS * COLUMNS };

static const struct pen_tensor_piece whole = {0, ROWS, 0, COLUMNS};

static void fill(float *numbers)
{
    for (int i = 0; i < COUNT; i++)
        numbers[i] = ldexpf(sinf((float)i), i % 60 - 30);
}

/* The piece of the numbers, added to the tally. */
static void add_piece(struct pen_tally *tally, const float *numbers,
                      const struct pen_tensor_piece *piece)
{
    float dense[COUNT];
    size_t count = 0;
    for (uint64_t r = 0; r < piece->num_rows; r++)
        for (uint64_t c = 0; c < piece->num_columns; c++)
            dense[count++] = numbers[(piece->first_row + r) * COLUMNS +
                                     piece->first_column + c];
    pen_tally_add(tally, &whole, piece, dense);
}

static void tally_cut(const float *numbers, uint64_t rows, uint64_t columns,
                      bool is_reversed, struct pen_tally_result *out)
{
    uint64_t down = ROWS / rows, across = COLUMNS / columns;
    struct pen_tally total = {.count = 0};
    for (uint64_t i = 0; i < down * across; i++) {
        uint64_t at = is_reversed ? down * across - 1 - i : i;
        struct pen_tensor_piece piece = {at / across * rows, rows,
                                         at % across * columns, columns};
        struct pen_tally part = {.count = 0};
        add_piece(&part, numbers, &piece);
        pen_tally_join(&total, &part);
    }
    pen_tally_read(&total, out);
}

static void a_tally_does_not_depend_on_the_pieces(void **state)
{
    (void)state;
    float numbers[COUNT];
    struct pen_tally_result one, other;
    fill(numbers);
    tally_cut(numbers, ROWS, COLUMNS, false, &one);
    assert_int_equal(one.count, COUNT);
    for (uint64_t rows = 1; rows <= ROWS; rows++)
        for (uint64_t columns = 1; columns <= COLUMNS; columns++)
            if (ROWS % rows == 0 && COLUMNS % columns == 0)
                for (int way = 0; way < 2; way++) {
                    tally_cut(numbers, rows, columns, way == 1, &other);
                    assert_true(memcmp(&one, &other, sizeof one) == 0);
                }
}

static void a_tally_has_the_sums_of_its_numbers(void **state)
{
    (void)state;
    float numbers[COUNT];
    struct pen_tally_result is;
    long double sum = 0, squares = 0;
    float max = 0;
    fill(numbers);
    for (int i = 0; i < COUNT; i++) {
        sum += numbers[i];
        squares += (long double)numbers[i] * numbers[i];
        max = fmaxf(max, fabsf(numbers[i]));
    }
    tally_cut(numbers, ROWS, COLUMNS, false, &is);
    assert_true(fabs(is.sum - (double)sum) <= 1e-15 * fabs((double)sum));
    assert_true(fabs(is.norm - sqrt((double)squares)) <= 1e-15 * is.norm);
    assert_true(is.max == (double)max);
}

/* Sums that would vanish or overflow in floats are exact. */
static void a_tally_takes_the_ends_of_the_range(void **state)
{
    (void)state;
    float numbers[COUNT] = {3.4028235e38f, 1e-45f, -3.4028235e38f,
                            -1.1754944e-38f};
    struct pen_tally_result is;
    tally_cut(numbers, ROWS, COLUMNS, false, &is);
    assert_true(is.sum == (double)1e-45f - (double)1.1754944e-38f);
    assert_true(fabs(is.norm / (sqrt(2) * 3.4028234663852886e38) - 1) < 1e-14);
    numbers[4] = NAN;
    numbers[5] = -INFINITY;
    tally_cut(numbers, ROWS, COLUMNS, false, &is);
    assert_int_equal(is.nonfinite, 2);
    assert_true(is.sum == (double)1e-45f - (double)1.1754944e-38f);
}

/* Only the hash and the sketches see that two numbers changed places. */
static void a_permutation_is_seen(void **state)
{
    (void)state;
    float numbers[COUNT];
    struct pen_probe_record a = {
        1, PEN_PROBE_FORWARD, 2, "output", {.count = 0}};
    struct pen_probe_record b = a;
    fill(numbers);
    tally_cut(numbers, ROWS, COLUMNS, false, &a.is);
    float first = numbers[58];
    numbers[58] = numbers[59];
    numbers[59] = first;
    tally_cut(numbers, ROWS, COLUMNS, false, &b.is);
    assert_true(a.is.norm == b.is.norm && a.is.sum == b.is.sum);
    assert_true(a.is.hash != b.is.hash);
    struct pen_probe pa = {&a, 1}, pb = {&b, 1};
    struct pen_probe_diff diff;
    assert_int_equal(pen_probe_diff_init(&diff, &pa, &pb, 1e-4, NULL), PEN_OK);
    assert_int_equal(diff.first, 0);
    assert_true(diff.pairs[0].difference > 0.01);
    pen_probe_diff_release(&diff);
}

/* ---- files ---- */

/* Of a layer's output or gradient, with this norm. */
static struct pen_probe_record record_of(enum pen_probe_pass pass,
                                         uint32_t layer, double norm)
{
    struct pen_probe_record record = {.step = 3, .pass = pass, .layer = layer};
    strcpy(record.name, PEN_PROBE_OUTPUT);
    record.is = (struct pen_tally_result){
        .count = 4, .hash = 1000 + layer, .norm = norm, .max = norm};
    return record;
}

static void what_is_printed_is_read_again(void **state)
{
    (void)state;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_probe_record record = record_of(PEN_PROBE_GRADIENTS, 7, 0.1);
    struct pen_probe *probe = NULL;
    strcpy(record.name, "transformer.h.6.mlp.c_fc.weight");
    record.is.nonfinite = 1;
    record.is.sketch[5] = -1.0 / 3;
    record.is.hash = UINT64_MAX;
    pen_probe_print_head(&text);
    pen_probe_print(&record, &text);
    assert_int_equal(pen_probe_parse(text.bytes, text.length, &probe, NULL),
                     PEN_OK);
    assert_int_equal(probe->num_records, 1);
    assert_true(memcmp(&probe->records[0].is, &record.is, sizeof record.is) ==
                0);
    assert_string_equal(probe->records[0].name, record.name);
    assert_int_equal(probe->records[0].pass, PEN_PROBE_GRADIENTS);
    pen_probe_free(probe);
    pen_text_release(&text);
}

#define HEAD "{\"format\":\"penstock-probe\",\"version\":1}\n"
#define FIGURES                                                                \
    "\"count\":1,\"norm\":1,\"sum\":1,\"max\":1,"                              \
    "\"hash\":\"0000000000000000\",\"sketch\":[1,1,1,1,1,1,1,1]}\n"
#define LINE                                                                   \
    "{\"step\":1,\"pass\":\"forward\",\"layer\":0,\"name\":"                   \
    "\"output\"," FIGURES

static void bad_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *reason;
    } bad[] = {
        {"", "it has no records"},
        {HEAD, "it has no records"},
        {"{\"format\":\"penstock-probe\",\"version\":2}\n" LINE, "line 1: "},
        {LINE, "line 1: "},
        {HEAD "[]\n", "line 2: "},
        {HEAD
         "{\"step\":0,\"pass\":\"forward\",\"layer\":0,\"name\":\"a\"," FIGURES,
         "line 2: step"},
        {HEAD "{\"step\":1,\"pass\":\"sideways\",\"layer\":0,\"name\":"
              "\"a\"," FIGURES,
         "line 2: pass"},
        {HEAD
         "{\"step\":1,\"pass\":\"loss\",\"layer\":-1,\"name\":\"a\"," FIGURES,
         "line 2: layer"},
        {HEAD
         "{\"step\":1,\"pass\":\"loss\",\"layer\":0,\"name\":\"\\n\"," FIGURES,
         "line 2: name"},
        {HEAD "{\"step\":1,\"pass\":\"loss\",\"layer\":0,\"name\":\"a\","
              "\"more\":1," FIGURES,
         "line 2: "},
        {HEAD "{\"step\":1,\"pass\":\"loss\",\"layer\":0,\"name\":\"a\","
              "\"count\":1,\"norm\":1,\"sum\":1,\"max\":1,\"hash\":\"00\","
              "\"sketch\":[1,1,1,1,1,1,1,1]}\n",
         "line 2: hash"},
        {HEAD "{\"step\":1,\"pass\":\"loss\",\"layer\":0,\"name\":\"a\","
              "\"count\":1,\"norm\":1,\"sum\":1,\"max\":1,"
              "\"hash\":\"0000000000000000\",\"sketch\":[1]}\n",
         "line 2: sketch"},
        {HEAD "{\"step\":1,\"pass\":\"loss\",\"layer\":0,\"name\":\"a\"}\n",
         "line 2: "}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pen_text why = PEN_TEXT_EMPTY;
        struct pen_probe *probe = NULL;
        assert_int_equal(
            pen_probe_parse(bad[i].text, strlen(bad[i].text), &probe, &why),
            PEN_INVALID);
        assert_true(strncmp(pen_text_string(&why), bad[i].reason,
                            strlen(bad[i].reason)) == 0);
        pen_text_release(&why);
    }
}

static void a_line_that_was_cut_is_left_out(void **state)
{
    (void)state;
    const char *text = HEAD LINE "{\"step\":1,\"pa";
    struct pen_probe *probe = NULL;
    assert_int_equal(pen_probe_parse(text, strlen(text), &probe, NULL), PEN_OK);
    assert_int_equal(probe->num_records, 1);
    pen_probe_free(probe);
}

/* ---- differences ---- */

static void the_first_in_the_order_of_execution_is_found(void **state)
{
    (void)state;
    struct pen_probe_record a[] = {record_of(PEN_PROBE_GRADIENTS, 2, 1),
                                   record_of(PEN_PROBE_BACKWARD, 0, 1),
                                   record_of(PEN_PROBE_BACKWARD, 1, 1),
                                   record_of(PEN_PROBE_FORWARD, 1, 1),
                                   record_of(PEN_PROBE_FORWARD, 0, 1)};
    enum { NUM = sizeof a / sizeof *a };
    struct pen_probe_record b[NUM];
    struct pen_probe pa = {a, NUM}, pb = {b, NUM};
    struct pen_probe_diff diff;
    memcpy(b, a, sizeof b);
    for (size_t i = 0; i < 3; i++) { /* all gradients */
        b[i].is.norm = 1.5;
        b[i].is.hash++;
    }
    b[3].is.hash++; /* bits alone */
    assert_int_equal(pen_probe_diff_init(&diff, &pa, &pb, 1e-4, NULL), PEN_OK);
    assert_int_equal(diff.num_pairs, NUM);
    assert_int_equal(diff.num_identical, 1);
    assert_int_equal(diff.first, 2);
    assert_int_equal(diff.pairs[2].a->pass, PEN_PROBE_BACKWARD);
    assert_int_equal(diff.pairs[2].a->layer, 1);
    pen_probe_diff_release(&diff);
    assert_int_equal(pen_probe_diff_init(&diff, &pa, &pb, 0, NULL), PEN_OK);
    assert_int_equal(diff.first, 1);
    pen_probe_diff_release(&diff);
}

static void what_only_one_has_is_counted(void **state)
{
    (void)state;
    struct pen_probe_record a[] = {record_of(PEN_PROBE_FORWARD, 0, 1),
                                   record_of(PEN_PROBE_FORWARD, 1, 1)};
    struct pen_probe_record b[] = {record_of(PEN_PROBE_FORWARD, 1, 1),
                                   record_of(PEN_PROBE_FORWARD, 2, 1),
                                   record_of(PEN_PROBE_FORWARD, 3, 1)};
    struct pen_probe pa = {a, 2}, pb = {b, 3};
    struct pen_probe_diff diff;
    assert_int_equal(pen_probe_diff_init(&diff, &pa, &pb, 0, NULL), PEN_OK);
    assert_int_equal(diff.num_pairs, 1);
    assert_int_equal(diff.num_only_a, 1);
    assert_int_equal(diff.num_only_b, 2);
    assert_int_equal(diff.first, 1);
    pen_probe_diff_release(&diff);
    pb.num_records = 1;
    pa.num_records = 1;
    assert_int_equal(pen_probe_diff_init(&diff, &pa, &pb, 0, NULL),
                     PEN_INVALID);
    b[1] = b[0];
    pb.num_records = 2;
    assert_int_equal(pen_probe_diff_init(&diff, &pa, &pb, 0, NULL),
                     PEN_INVALID);
}

static void other_shapes_and_numbers_that_are_not_finite_differ(void **state)
{
    (void)state;
    struct pen_probe_record a = record_of(PEN_PROBE_FORWARD, 0, 1);
    struct pen_probe_record b = a;
    struct pen_probe pa = {&a, 1}, pb = {&b, 1};
    struct pen_probe_diff diff;
    b.is.nonfinite = 1;
    assert_int_equal(pen_probe_diff_init(&diff, &pa, &pb, 1, NULL), PEN_OK);
    assert_int_equal(diff.first, 0);
    pen_probe_diff_release(&diff);
    b = a;
    b.is.count++;
    assert_int_equal(pen_probe_diff_init(&diff, &pa, &pb, 1, NULL), PEN_OK);
    assert_true(isinf(diff.pairs[0].difference));
    pen_probe_diff_release(&diff);
}

/* A gradient that is zero but for rounding has no relative difference. */
static void rounding_of_zeros_is_no_difference(void **state)
{
    (void)state;
    struct pen_probe_record a[] = {record_of(PEN_PROBE_BACKWARD, 1, 1),
                                   record_of(PEN_PROBE_BACKWARD, 0, 1e-9)};
    struct pen_probe_record b[] = {a[0],
                                   record_of(PEN_PROBE_BACKWARD, 0, 2e-9)};
    struct pen_probe pa = {a, 2}, pb = {b, 2};
    struct pen_probe_diff diff;
    b[1].is.hash++;
    assert_int_equal(pen_probe_diff_init(&diff, &pa, &pb, 1e-4, NULL), PEN_OK);
    assert_int_equal(diff.first, 2);
    pen_probe_diff_release(&diff);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tally_does_not_depend_on_the_pieces),
        cmocka_unit_test(a_tally_has_the_sums_of_its_numbers),
        cmocka_unit_test(a_tally_takes_the_ends_of_the_range),
        cmocka_unit_test(a_permutation_is_seen),
        cmocka_unit_test(what_is_printed_is_read_again),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(a_line_that_was_cut_is_left_out),
        cmocka_unit_test(the_first_in_the_order_of_execution_is_found),
        cmocka_unit_test(what_only_one_has_is_counted),
        cmocka_unit_test(other_shapes_and_numbers_that_are_not_finite_differ),
        cmocka_unit_test(rounding_of_zeros_is_no_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
