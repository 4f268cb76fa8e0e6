/*
 * What ranks took reads back as it was written, and a file that says anything
 * else is refused by its place.
 */
#include "support/support.h"

#include "core/run_ranks.h"

#include <string.h>

#define HEAD "{\"format\":\"penstock-ranks\",\"version\":1,"
#define RANK "{\"predicted_bytes\":5,\"peak_bytes\":7}"

static void what_is_printed_reads_back(void **state)
{
    (void)state;
    struct pen_run_rank list[] = {{1, PEN_RUN_MAX_BYTES}, {123456789, 987}};
    struct pen_run_ranks ranks = {list, 2};
    struct pen_run_ranks *again = NULL;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_run_ranks_print(&ranks, &text);
    if (pen_run_ranks_parse(text.bytes, text.length, &again, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    assert_int_equal(2, again->count);
    assert_memory_equal(list, again->ranks, sizeof list);
    pen_run_ranks_free(again);
    pen_text_release(&text);
    pen_text_release(&why);
}

static void bad_files_are_refused_by_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *why; /* a part of it */
    } cases[] = {
        {"", "line 1"},
        {"[]", "object"},
        {"{\"format\":\"penstock-run\",\"version\":1}", "penstock-ranks"},
        {"{\"format\":\"penstock-ranks\",\"version\":2}", "version"},
        {HEAD "\"ranks\":[]}", "ranks must be a list of 1 to"},
        {HEAD "\"ranks\":5}", "ranks must be a list of 1 to"},
        {HEAD "\"more\":1,\"ranks\":[" RANK "]}", "more"},
        {HEAD "\"ranks\":[" RANK ",7]}", "ranks[1]"},
        {HEAD "\"ranks\":[" RANK ",{\"peak_bytes\":7}]}",
         "ranks[1].predicted_bytes"},
        {HEAD "\"ranks\":[{\"predicted_bytes\":0,\"peak_bytes\":7}]}",
         "ranks[0].predicted_bytes"},
        {HEAD "\"ranks\":[{\"predicted_bytes\":1,\"peak_bytes\":-7}]}",
         "ranks[0].peak_bytes"},
        {HEAD "\"ranks\":[{\"predicted_bytes\":1,\"peak_bytes\":1.5}]}",
         "ranks[0].peak_bytes"},
        {HEAD "\"ranks\":[{\"predicted_bytes\":1,"
              "\"peak_bytes\":9007199254740993}]}",
         "ranks[0].peak_bytes"},
        {HEAD "\"ranks\":[{\"predicted_bytes\":1,\"peak_bytes\":1,"
              "\"host\":\"a\"}]}",
         "host"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_run_ranks *ranks = NULL;
        struct pen_text why = PEN_TEXT_EMPTY;
        if (pen_run_ranks_parse(cases[i].text, strlen(cases[i].text), &ranks,
                                &why) == PEN_OK)
            fail_msg("accepted: %s", cases[i].text);
        if (strstr(pen_text_string(&why), cases[i].why) == NULL)
            fail_msg("%s: %s", cases[i].text, pen_text_string(&why));
        assert_null(ranks);
        pen_text_release(&why);
    }
}

static void a_file_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct pen_run_ranks *ranks = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_IO,
                     pen_run_ranks_load("/nowhere/ranks.json", &ranks, &why));
    assert_non_null(strstr(pen_text_string(&why), "/nowhere/ranks.json"));
    pen_text_release(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_printed_reads_back),
        cmocka_unit_test(bad_files_are_refused_by_their_place),
        cmocka_unit_test(a_file_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
