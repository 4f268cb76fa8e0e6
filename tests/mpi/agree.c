/*
 * One rank's error is every rank's: ranks that agree return together with the
 * same outcome and one reason; ranks that do not come end the job in time.
 *
 *   mpi_agree            the cases in which all come
 *   mpi_agree missing R  rank R never comes
 *   mpi_agree alone R    rank R fails while all others wait for it elsewhere
 */
#include "runtime/agree.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEADLINE_SEC 60.0

static struct pen_transport *transport;
static uint32_t rank, size;

static pen_status agree(pen_status status, const char *reason,
                        struct pen_text *why)
{
    pen_text_clear(why);
    if (reason != NULL)
        pen_text_add(why, "%s", reason);
    return pen_agree(transport, status, "testing", DEADLINE_SEC, why);
}

/* What rank 0 is told of this rank and these words. */
static const char *told_of(uint32_t failed, const char *words)
{
    static char line[256];
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    snprintf(line, sizeof line, "rank %u on %s: %s", failed, host, words);
    return line;
}

static void all_are_fine_when_all_are(void **state)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(agree(PEN_OK, NULL, &why), PEN_OK);
    assert_int_equal(why.length, 0);
    pen_text_release(&why);
}

static void the_failure_of_any_rank_is_that_of_all(void **state)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    (void)state;
    for (uint32_t failed = 0; failed < size; failed++) {
        bool is_own = failed == rank;
        pen_status status = agree(is_own ? PEN_IO : PEN_OK,
                                  is_own ? "the disk is full" : NULL, &why);
        assert_int_equal(status, PEN_IO);
        assert_string_equal(pen_text_string(&why),
                            rank == 0 ? told_of(failed, "the disk is full")
                                      : "");
    }
    pen_text_release(&why);
}

static void an_empty_reason_is_filled_in(void **state)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    (void)state;
    assert_int_equal(agree(rank == 1 ? PEN_NOMEM : PEN_OK, NULL, &why),
                     PEN_NOMEM);
    assert_string_equal(pen_text_string(&why),
                        rank == 0 ? told_of(1, "out of memory while testing")
                                  : "");
    pen_text_release(&why);
}

static void the_lowest_of_several_ranks_is_named(void **state)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    (void)state;
    pen_status own = rank == 0 ? PEN_OK : rank == 1 ? PEN_IO : PEN_NOMEM;
    assert_int_equal(agree(own, own == PEN_OK ? NULL : "no", &why),
                     rank == 0 ? PEN_IO : own);
    assert_string_equal(pen_text_string(&why),
                        rank == 0 ? told_of(1, "no") : "");
    pen_text_release(&why);
}

static void what_all_have_is_told_without_a_rank(void **state)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    (void)state;
    assert_int_equal(agree(PEN_INVALID, "the model is missing", &why),
                     PEN_INVALID);
    assert_string_equal(pen_text_string(&why),
                        rank == 0 ? "the model is missing" : "");
    pen_text_release(&why);
}

static void a_reason_that_names_a_rank_stays_as_it_is(void **state)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    (void)state;
    assert_int_equal(
        agree(rank == 1 ? PEN_IO : PEN_OK, "rank 7 on moon is late", &why),
        PEN_IO);
    assert_string_equal(pen_text_string(&why),
                        rank == 0 ? "rank 7 on moon is late" : "");
    pen_text_release(&why);
}

static void a_long_reason_is_cut(void **state)
{
    static char words[5000];
    struct pen_text why = PEN_TEXT_EMPTY;
    (void)state;
    memset(words, 'x', sizeof words - 1);
    assert_int_equal(agree(rank == 1 ? PEN_IO : PEN_OK, words, &why), PEN_IO);
    assert_true(rank == 0 ? why.length > 1000 && why.length < 2000
                          : why.length == 0);
    pen_text_release(&why);
}

/* ---- ranks that do not come ---- */

static int miss(uint32_t who)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (rank == who)
        for (;;)
            sleep(1);
    pen_status status = pen_agree(transport, PEN_OK, "testing", 1, &why);
    fprintf(stderr, "rank %u came back: %s\n", rank, pen_status_text(status));
    return 0;
}

static int fail_alone(uint32_t who)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    if (rank != who)
        status = pen_transport_meet(transport);
    pen_text_add(&why, "the disk is full");
    if (status == PEN_OK)
        status = pen_agree(transport, PEN_IO, "testing", DEADLINE_SEC, &why);
    fprintf(stderr, "rank %u came back: %s\n", rank, pen_status_text(status));
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_fine_when_all_are),
        cmocka_unit_test(the_failure_of_any_rank_is_that_of_all),
        cmocka_unit_test(an_empty_reason_is_filled_in),
        cmocka_unit_test(the_lowest_of_several_ranks_is_named),
        cmocka_unit_test(what_all_have_is_told_without_a_rank),
        cmocka_unit_test(a_reason_that_names_a_rank_stays_as_it_is),
        cmocka_unit_test(a_long_reason_is_cut),
    };
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_launch launch = pen_launch_read_own();
    if (pen_transport_open(&launch, &transport, &why) != PEN_OK) {
        fprintf(stderr, "%s\n", pen_text_string(&why));
        return 1;
    }
    rank = pen_transport_rank(transport);
    size = pen_transport_size(transport);
    if (argc == 3 && strcmp(argv[1], "missing") == 0)
        return miss((uint32_t)atoi(argv[2]));
    if (argc == 3)
        return fail_alone((uint32_t)atoi(argv[2]));
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    if (failures > 0)
        pen_transport_abort(transport, 1); /* others may wait for ever */
    pen_transport_close(transport);
    return 0;
}
