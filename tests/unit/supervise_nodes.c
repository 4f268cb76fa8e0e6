/* Lists of nodes, programs that print them, and launches that fit on them. */
#include "support/support.h"

#include "supervise/family.h"
#include "supervise/fleet.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define MS INT64_C(1000000)

static struct pen_nodes nodes_of(const char *text)
{
    struct pen_nodes nodes;
    assert_int_equal(pen_nodes_parse(text, strlen(text), &nodes, NULL), PEN_OK);
    return nodes;
}

static void lines_become_nodes(void **state)
{
    (void)state;
    struct pen_text hosts = PEN_TEXT_EMPTY;
    struct pen_nodes nodes =
        nodes_of("# hosts\n\na 2\r\n  n-1.x_y:3 \nc\t 0\nd: 1");
    assert_int_equal(nodes.count, 4);
    assert_int_equal(pen_nodes_slots(&nodes), 6);
    pen_nodes_print(&nodes, &hosts);
    assert_string_equal(pen_text_string(&hosts), "a:2,n-1.x_y:3,d:1");
    pen_text_release(&hosts);
    pen_nodes_release(&nodes);
    nodes = nodes_of("");
    assert_int_equal(pen_nodes_slots(&nodes), 0);
    pen_nodes_release(&nodes);
}

static void wrong_lines_are_named(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a 1\nb", "line 2, \"b\": after the name"},
        {"a one", "line 1, \"a one\": its slots"},
        {"a 1 2", "its slots"},
        {"a -1", "its slots"},
        {"a 1048577", "its slots"},
        {"a 99999999999999999999", "its slots"},
        {"a", "after the name"},
        {"a:", "its slots"},
        {"a;b 1", "after the name"},
        {"$(x) 1", "\"$(x) 1\": it does not begin"},
        {"-a 1", "it does not begin"},
        {":1", "it does not begin"},
        {"\x01 1", "\"? 1\""},
        {"a 1048576\nb 1", "line 2, \"b 1\": there are more than 1048576"},
        {"a 1\nb 1\na 1", "the host a is listed twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_text why = PEN_TEXT_EMPTY;
        struct pen_nodes nodes;
        assert_int_equal(
            pen_nodes_parse(cases[i][0], strlen(cases[i][0]), &nodes, &why),
            PEN_INVALID);
        if (strstr(pen_text_string(&why), cases[i][1]) == NULL)
            fail_msg("%s: %s", cases[i][0], pen_text_string(&why));
        pen_text_release(&why);
    }
}

static void expect_long(char letter, size_t length, size_t lines,
                        pen_status expected)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_nodes nodes = {NULL, 0};
    for (size_t i = 0; i < lines; i++) {
        pen_text_add_repeat(&text, letter, length);
        pen_text_add(&text, "%zu 1\n", i);
    }
    assert_int_equal(pen_nodes_parse(text.bytes, text.length, &nodes, NULL),
                     expected);
    pen_nodes_release(&nodes);
    pen_text_release(&text);
}

static void what_is_too_long_is_refused(void **state)
{
    (void)state;
    expect_long('x', PEN_NODE_NAME_SIZE - 2, 1, PEN_OK);
    expect_long('x', PEN_NODE_NAME_SIZE - 1, 1, PEN_INVALID);
    expect_long(' ', 100000, 1, PEN_OK); /* blanks are no part of a line */
    expect_long('x', 100000, 1, PEN_INVALID);
    expect_long('x', 1, PEN_NODES_MOST, PEN_OK);
    expect_long('x', 1, PEN_NODES_MOST + 1, PEN_INVALID);
}

static void a_slot_that_is_used_may_be_missing(void **state)
{
    (void)state;
    struct pen_nodes used;
    struct pen_nodes all = nodes_of("a 2\nz 0\nb 2");
    assert_int_equal(pen_nodes_take(&all, 3, &used), PEN_OK);
    assert_int_equal(used.count, 2);
    assert_int_equal(used.items[1].num_slots, 1);
    static const struct {
        const char *list;
        const char *missing;
    } cases[] = {
        {"a 2\nb 2", NULL}, {"b 1\na 2", NULL}, {"c 9\nb 1\na 3", NULL},
        {"a 2", "b"},       {"b 4", "a"},       {"b 1\na 1", "a"},
        {"a 2\nb 0", "b"},  {"", "a"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_nodes nodes = nodes_of(cases[i].list);
        const struct pen_node *missing = pen_nodes_missing(&nodes, &used);
        if (cases[i].missing == NULL)
            assert_null(missing);
        else
            assert_string_equal(missing->name, cases[i].missing);
        pen_nodes_release(&nodes);
    }
    pen_nodes_release(&used);
    pen_nodes_release(&all);
}

/* ---- programs ---- */

static pen_status ask(const char *command, int64_t limit_ns,
                      struct pen_text *answer, struct pen_text *why)
{
    struct pen_asker asker;
    pen_status status;
    pen_asker_init(&asker, command, limit_ns);
    assert_int_equal(pen_asker_tend(&asker, why), PEN_BUSY);
    assert_int_equal(pen_asker_start(&asker, why), PEN_OK);
    while ((status = pen_asker_tend(&asker, why)) == PEN_BUSY)
        poll(NULL, 0, 2);
    pen_text_add_string(answer, pen_text_string(&asker.answer));
    assert_int_equal(asker.pid, 0);
    pen_asker_release(&asker);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* not a zombie, either */
    return status;
}

static void a_program_answers_or_not(void **state)
{
    (void)state;
    assert_int_equal(pen_family_adopt(NULL), PEN_OK);
    static const struct {
        const char *command;
        int64_t limit_ms;
        pen_status status;
        const char *text;
    } cases[] = {
        {"echo a 1; echo b 2", 60000, PEN_OK, "a 1\nb 2\n"},
        {"(sleep 0.1; echo late) &", 60000, PEN_OK, "late\n"},
        {"true", 60000, PEN_OK, ""},
        {"echo a 1; exit 3", 60000, PEN_INVALID, "exit code 3"},
        {"kill -9 $$", 60000, PEN_INVALID, "signal 9"},
        {"yes", 60000, PEN_INVALID, "more than 4 MiB"},
        {"echo a 1; sleep 600", 100, PEN_LATE, "within 0.1 s"},
        {"exec >&-; sleep 600", 100, PEN_LATE, "within 0.1 s"},
        {"sh -c 'sleep 600; true' & wait", 100, PEN_LATE, "within 0.1 s"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_text answer = PEN_TEXT_EMPTY, why = PEN_TEXT_EMPTY;
        assert_int_equal(
            ask(cases[i].command, cases[i].limit_ms * MS, &answer, &why),
            cases[i].status);
        if (cases[i].status == PEN_OK)
            assert_string_equal(pen_text_string(&answer), cases[i].text);
        else
            assert_non_null(strstr(pen_text_string(&why), cases[i].text));
        pen_text_release(&answer);
        pen_text_release(&why);
    }
}

/* ---- launches ---- */

static void answer(struct pen_fleet *fleet)
{
    uint64_t before = fleet->num_answers;
    pen_fleet_ask(fleet);
    while (fleet->num_answers == before) {
        poll(NULL, 0, 2);
        pen_fleet_tend(fleet);
    }
}

static void the_largest_plan_that_fits_is_taken(void **state)
{
    (void)state;
    char word[] = "-n={ranks},{hosts},{plan}{ranks}{", plain[] = "x";
    char *words[] = {word, plain, NULL};
    static const struct pen_sized_plan plans[] = {
        {"two", 2}, {"four", 4}, {"also-four", 4}};
    const struct pen_fleet_options options = {.command =
                                                  "echo \"$PEN_TEST_NODES\"",
                                              .interval_sec = 1e6,
                                              .plans = plans,
                                              .num_plans = 3};
    static const struct {
        const char *list;
        uint32_t num_ranks;
        enum pen_fleet_verdict verdict; /* after a launch with "a 1\nb 2" */
    } cases[] = {
        {"a 1\nb 2", 2, PEN_FLEET_SAME}, {"a 1\nb 3", 4, PEN_FLEET_MORE},
        {"b 1\na 1", 2, PEN_FLEET_SAME}, {"c 2", 2, PEN_FLEET_GONE},
        {"a 1", 0, PEN_FLEET_GONE},      {"c 20", 4, PEN_FLEET_GONE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_fleet fleet;
        pen_fleet_init(&fleet, &options);
        setenv("PEN_TEST_NODES", "a 1\nb 2", 1);
        answer(&fleet);
        assert_int_equal(pen_fleet_place(&fleet, words), PEN_OK);
        assert_string_equal(fleet.words[0], "-n=2,a:1,b:1,two2{");
        assert_string_equal(fleet.words[1], "x");
        assert_null(fleet.words[2]);
        setenv("PEN_TEST_NODES", "nonsense", 1);
        answer(&fleet);
        assert_int_equal(fleet.verdict, PEN_FLEET_SAME);
        setenv("PEN_TEST_NODES", "", 1);
        answer(&fleet);
        assert_int_equal(pen_fleet_size(&fleet), 2);
        assert_int_equal(fleet.verdict, PEN_FLEET_SAME);
        setenv("PEN_TEST_NODES", cases[i].list, 1);
        answer(&fleet);
        assert_int_equal(pen_fleet_size(&fleet), cases[i].num_ranks);
        assert_int_equal(fleet.verdict, cases[i].verdict);
        pen_fleet_release(&fleet);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_become_nodes),
        cmocka_unit_test(wrong_lines_are_named),
        cmocka_unit_test(what_is_too_long_is_refused),
        cmocka_unit_test(a_slot_that_is_used_may_be_missing),
        cmocka_unit_test(a_program_answers_or_not),
        cmocka_unit_test(the_largest_plan_that_fits_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
