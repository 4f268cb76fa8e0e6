/* TOML, YAML and JSON become settings with their places. */
#include "support/support.h"

#include "lint/tree.h"

#include <string.h>

typedef pen_status reader(const char *, size_t, struct pen__lint_config *,
                          struct pen__lint_trouble *);

/* "key=value" of each setting; "!" and the reason where it is refused. */
static void expect(reader *read, const char *text, const char *expected)
{
    struct pen__lint_config config = {.list = NULL};
    struct pen__lint_trouble trouble = {.why = PEN_TEXT_EMPTY};
    struct pen_text found = PEN_TEXT_EMPTY;
    pen_status status = read(text, strlen(text), &config, &trouble);
    for (uint32_t i = 0; status == PEN_OK && i < config.count; i++) {
        const struct pen__lint_setting *setting = &config.list[i];
        pen_text_add(&found, "%s%s=%s%s", i > 0 ? " " : "", setting->key,
                     setting->value, setting->is_list ? "..." : "");
        assert_true(setting->end <= strlen(text));
        if (setting->value_end > setting->value_begin &&
            strchr(setting->value, '_') == NULL)
            assert_memory_equal(text + setting->value_begin, setting->value, 1);
    }
    if (status != PEN_OK || trouble.is_duplicate)
        pen_text_add(&found, "!%zu %s", trouble.at,
                     pen_text_string(&trouble.why));
    assert_string_equal(pen_text_string(&found), expected);
    pen_text_release(&found);
    pen_text_release(&trouble.why);
    pen__lint_config_release(&config);
}

static void toml_has_tables_and_values(void **state)
{
    (void)state;
    expect(pen__lint_toml_read,
           "a = 1\n[t] # c\nb = 'x y'\nc.d = \"z\"\n[t.'u']\ne = true\n",
           "a=1 t.b=x y t.c.d=z t.u.e=true");
    expect(pen__lint_toml_read, "a = [1,\n 2, # c\n]\nb = []\nc = 1_000",
           "a=1... b=... c=1000");
    expect(pen__lint_toml_read, "a = {b = 1, c = {d = 2}}\ne = 3",
           "a.b=1 a.c.d=2 e=3");
    expect(pen__lint_toml_read, "[t]\na = {b = 1}\nc = 2", "t.a.b=1 t.c=2");
    expect(pen__lint_toml_read, "a = \"\"\"x\ny = 2\n\"\"\"\nb = 1979-05-27",
           "a=x\ny = 2\n b=1979-05-27");
    expect(pen__lint_toml_read, "[[t]]\na = 1\n[[t]]\na = 2\n", "t.a=1 t.a=2");
}

static void wrong_toml_has_a_place(void **state)
{
    (void)state;
    expect(pen__lint_toml_read, "a = ", "!4 expected a value");
    expect(pen__lint_toml_read, "a 1", "!2 expected = after the key");
    expect(pen__lint_toml_read, "a = 1 b", "!6 expected the end of the line");
    expect(pen__lint_toml_read, "a = 'x",
           "!6 a string does not end in its line");
    expect(pen__lint_toml_read, "a = [1", "!6 expected , or ] in a list");
    expect(pen__lint_toml_read, "[a",
           "!2 expected ] after the name of a table");
    expect(pen__lint_toml_read, "a = 1\na = 2",
           "a=1 a=2!6 the key 'a' is given twice");
    char deep[64];
    memset(deep, '[', sizeof deep);
    memcpy(deep, "a = ", 4);
    deep[sizeof deep - 1] = '\0';
    expect(pen__lint_toml_read, deep,
           "!20 lists and tables are nested too deep");
}

static void yaml_and_json_have_paths(void **state)
{
    (void)state;
    expect(pen__lint_yaml_read, "a:\n  b: 1\n  c: [2, 3]\nd: null\n",
           "a.b=1 a.c=2... d=null");
    expect(pen__lint_yaml_read, "\xc3\xa9: 1\n# \xc3\xa9\nb: 'x'\n",
           "\xc3\xa9=1 b=x");
    expect(pen__lint_yaml_read, "a: {}\nb: []\n", "a= b=...");
    expect(pen__lint_json_read, "{\"a\": {\"b\": \"x\"},\n\t\"c\": [1]}",
           "a.b=x c=1...");
}

static void wrong_yaml_and_json_have_a_place(void **state)
{
    (void)state;
    expect(pen__lint_yaml_read, "a: 1\na: 2\n",
           "a=1 a=2!5 the key 'a' is given twice");
    expect(pen__lint_json_read, "{\"a\": 1, \"a\": 2}",
           "a=1 a=2!10 the key 'a' is given twice");
    struct pen__lint_config config = {.list = NULL};
    struct pen__lint_trouble trouble = {.why = PEN_TEXT_EMPTY};
    assert_int_equal(
        pen__lint_json_read("{\"a\":\n 1,,}", 11, &config, &trouble),
        PEN_INVALID);
    assert_true(trouble.at >= 7 && !trouble.is_ours);
    pen_text_clear(&trouble.why);
    assert_int_equal(pen__lint_yaml_read("a: &b 1\n", 8, &config, &trouble),
                     PEN_INVALID);
    assert_true(trouble.is_ours);
    pen_text_release(&trouble.why);
    pen__lint_config_release(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(toml_has_tables_and_values),
        cmocka_unit_test(wrong_toml_has_a_place),
        cmocka_unit_test(yaml_and_json_have_paths),
        cmocka_unit_test(wrong_yaml_and_json_have_a_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
