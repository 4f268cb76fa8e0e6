/* Text of a shell is parted as bash parts it, and nothing is expanded. */
#include "support/support.h"

#include "base/shell.h"

#include <string.h>

/* Tokens of a text: words in [], operators in <>, / for the end of a line. */
static void expect(const char *text, bool has_commands, const char *expected)
{
    struct pen_shell_scanner scanner = {
        .text = text, .length = strlen(text), .has_commands = has_commands};
    struct pen_text found = PEN_TEXT_EMPTY;
    struct pen_shell_token token;
    while ((token = pen_shell_next(&scanner)).kind != PEN_SHELL_END) {
        if (token.kind == PEN_SHELL_BROKEN) {
            pen_text_add_string(&found, "broken");
            break;
        }
        pen_text_add_string(&found, token.kind == PEN_SHELL_WORD       ? "["
                                    : token.kind == PEN_SHELL_OPERATOR ? "<"
                                                                       : "/");
        if (token.kind == PEN_SHELL_WORD)
            pen_shell_unquote(text, &token, &found);
        if (token.kind == PEN_SHELL_OPERATOR)
            pen_text_add_bytes(&found, text + token.begin,
                               token.end - token.begin);
        pen_text_add_string(&found, token.kind == PEN_SHELL_WORD       ? "]"
                                    : token.kind == PEN_SHELL_OPERATOR ? ">"
                                                                       : "");
    }
    assert_string_equal(pen_text_string(&found), expected);
    pen_text_release(&found);
}

static void words_end_at_blanks_and_lines(void **state)
{
    (void)state;
    expect("a  b\tc\n d", false, "[a][b][c][d]");
    expect("a b\nc", true, "[a][b]/[c]");
    expect("a \\\n b", true, "[a][b]");
    expect("a#b # c d\ne", true, "[a#b]/[e]");
    expect("", true, "");
}

static void quotes_and_escapes_are_part_of_a_word(void **state)
{
    (void)state;
    expect("'a b' \"c d\"e\\ f", true, "[a b][c de f]");
    expect("\"a\\\"b\\$c\\n\"", true, "[a\"b$c\\n]");
    expect("'' \"\"", true, "[][]");
    expect("\"a\\\nb\"", true, "[ab]");
    expect("'it''s'", true, "[its]");
}

static void substitutions_are_one_word(void **state)
{
    (void)state;
    expect("$(a b $(c d)) ${X:-\"e f\"} `g h`", true,
           "[$(a b $(c d))][${X:-\"e f\"}][`g h`]");
    expect("\"$(a \"b c\")\" d", true, "[$(a \"b c\")][d]");
    expect("$((1 + (2 * 3))) x", true, "[$((1 + (2 * 3)))][x]");
}

static void operators_part_commands(void **state)
{
    (void)state;
    expect("a|b&&c;d>e 2>&1", true, "[a]<|>[b]<&&>[c]<;>[d]<>>[e][2]<>&>[1]");
    expect("A=(b c)", true, "[A=]<(>[b][c]<)>");
    expect("a|b(c)", false, "[a|b(c)]");
}

static void what_does_not_end_is_broken(void **state)
{
    (void)state;
    expect("a 'b", true, "[a]broken");
    expect("a \"b", true, "[a]broken");
    expect("$(b", true, "broken");
    expect("${b", true, "broken");
    expect("a\\", true, "[a\\]");
    char deep[200] = "";
    for (int i = 0; i < 60; i++)
        strcat(deep, "$(");
    expect(deep, true, "broken");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_end_at_blanks_and_lines),
        cmocka_unit_test(quotes_and_escapes_are_part_of_a_word),
        cmocka_unit_test(substitutions_are_one_word),
        cmocka_unit_test(operators_part_commands),
        cmocka_unit_test(what_does_not_end_is_broken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
