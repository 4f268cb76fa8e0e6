/* Tables line up: numbers right, words left, long cells on several lines. */
#include "support/support.h"

#include "base/table.h"

static const struct pen_column columns[] = {
    {.title = "name"},
    {.title = "span", .is_number = true},
    {.title = "needs", .may_wrap = true}};

static void expect_table(const struct pen_table *table, size_t width,
                         const char *expected)
{
    struct pen_text found = PEN_TEXT_EMPTY;
    pen_table_print(table, width, &found);
    assert_string_equal(expected, pen_text_string(&found));
    pen_text_release(&found);
}

static struct pen_table example(void)
{
    struct pen_table table;
    pen_table_init(&table, columns, 3);
    pen_table_add(&table, "zb");
    pen_table_add(&table, "%d", 27);
    pen_table_add(&table, "at least p micro-batches");
    pen_table_add(&table, "Dürer");
    pen_table_add(&table, "%.1f", 1234.5);
    pen_table_add(&table, "%s", "");
    return table;
}

static void columns_line_up(void **state)
{
    (void)state;
    struct pen_table table = example();
    expect_table(&table, 0,
                 "name     span  needs\n"
                 "-----  ------  ------------------------\n"
                 "zb         27  at least p micro-batches\n"
                 "Dürer  1234.5\n");
    pen_table_release(&table);
}

static void a_narrow_page_wraps_words(void **state)
{
    (void)state;
    struct pen_table table = example();
    expect_table(&table, 30,
                 "name     span  needs\n"
                 "-----  ------  ---------------\n"
                 "zb         27  at least p\n"
                 "               micro-batches\n"
                 "Dürer  1234.5\n");
    pen_table_release(&table);
}

static void a_word_is_never_broken(void **state)
{
    (void)state;
    struct pen_table table;
    pen_table_init(&table, columns + 2, 1);
    pen_table_add(&table, "a bidirectional-placement b");
    expect_table(&table, 5,
                 "needs\n"
                 "------------\n"
                 "a\n"
                 "bidirectional-placement\n"
                 "b\n");
    pen_table_release(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_line_up),
        cmocka_unit_test(a_narrow_page_wraps_words),
        cmocka_unit_test(a_word_is_never_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
