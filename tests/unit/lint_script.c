/* Scripts are read as bash would read them, and what is unknown stays so. */
#include "support/support.h"

#include "lint/shell_script.h"

#include <string.h>

/* Words of all commands: "a b; c", unknown ones as ?, several as *. */
static void expect(const char *text, const char *expected)
{
    struct pen__lint_script script;
    struct pen_text found = PEN_TEXT_EMPTY;
    size_t broken = 0;
    assert_int_equal(
        pen__lint_script_read(text, strlen(text), &script, &broken), PEN_OK);
    for (uint32_t i = 0; i < script.count; i++)
        for (uint32_t j = 0; j < script.commands[i].count; j++) {
            const struct pen__lint_word *word = &script.commands[i].list[j];
            pen_text_add(&found, "%s%s%s",
                         j > 0   ? " "
                         : i > 0 ? "; "
                                 : "",
                         word->text,
                         word->is_many     ? "*"
                         : !word->is_known ? "?"
                                           : "");
        }
    assert_string_equal(pen_text_string(&found), expected);
    pen_text_release(&found);
    pen__lint_script_release(&script);
}

static void variables_have_the_values_of_the_script(void **state)
{
    (void)state;
    expect("A=1\nB=\"$A 2\"\nx $B \"$B\" ${A}b", "x 1 2 1 2 1b");
    expect("A=1\nA+=2\nx $A", "x 12");
    expect("x ${A:-3} ${A-4} ${A:=5}", "x 3 4 5");
    expect("A=1\nx ${A:-3}", "x 1");
    expect("export A=1 B=2\nx $A$B", "export; x 12");
    expect("A=1 x $A", "x *");
}

static void arrays_are_words(void **state)
{
    (void)state;
    expect("A=(a 'b c' # d\n e)\nx \"${A[@]}\"", "x a b c e");
    expect("A=(a)\nA+=(b c)\nx ${A[@]} ${A[*]}", "x a b c a b c");
    expect("A=()\nx ${A[@]} y", "x y");
    expect("B=(a b)\nA=(\"${B[@]}\" c)\nx \"${A[@]}\"", "x a b c");
}

static void what_may_be_skipped_is_unknown(void **state)
{
    (void)state;
    expect("A=1\nif true; then A=2; fi\nx $A", "true; x *");
    expect("A=1\n[ -n \"$B\" ] && A=2\nx $A", "[ -n ? ]; x *");
    expect("A=1\ncase $B in\n a) A=2 ;;\nesac\nx $A", "case * in; a; x *");
    expect("for A in 1 2; do x $A; done", "for A in 1 2; x *");
    expect("A=(a)\nif b; then A+=(c); fi\nx \"${A[@]}\"", "b; x a *");
    expect("A=1\nread A\nx $A", "read A; x *");
    expect("A=1\n. ./env\nA=2\nx $A", ". ./env; x 2");
    expect("A=1\n. ./env\nx $A", ". ./env; x *");
    expect("f() {\n A=2\n}\nA=1\nf\nx $A", "f; f; x 1");
    expect("A=1\nfunction f {\n A=2\n}\nx $A", "f; x *");
    expect("A=1\n(A=2)\nx $A", "x *");
}

static void a_shell_s_work_is_unknown(void **state)
{
    (void)state;
    expect("x $(a) \"$(b c)\" `d` $1 \"$@\" $((1 + 2))", "x * ? * * * *");
    expect("x ${A%.sh} ${#A} ${A:+b}", "x * * *");
    expect("x --lr=$A", "x --lr=*");
}

static void here_documents_and_files_are_skipped(void **state)
{
    (void)state;
    expect("cat <<END > f\nx \"\nEND\ny", "cat; y");
    expect("cat <<-'A B'\n\tx\n\tA B\ny", "cat; y");
    expect("cat <<A <<B\n1\nA\n2\nB\ny", "cat; y");
    expect("x <<< word\ny 2>&1 >> log | z", "x; y; z");
    expect("cat <<END\nnever", "cat");
}

static void slurm_s_lines_give_its_variables(void **state)
{
    (void)state;
    expect("#SBATCH --nodes=4 --gres=gpu:h100:8\n#SBATCH -n 32\n"
           "x $SLURM_NNODES $SLURM_GPUS_ON_NODE $SLURM_NTASKS",
           "x 4 8 32");
    expect("#SBATCH -N2\nx $SLURM_JOB_NUM_NODES $SLURM_NTASKS", "x 2 *");
}

static void options_alone_are_one_command(void **state)
{
    (void)state;
    expect("# a\n--a 1\n--b (2|3)", "--a 1 --b (2|3)");
}

static void letters_know_their_place(void **state)
{
    (void)state;
    static const char text[] = "A=\"12 \\\n34\"\nx $A";
    struct pen__lint_script script;
    size_t broken;
    assert_int_equal(
        pen__lint_script_read(text, strlen(text), &script, &broken), PEN_OK);
    const struct pen__lint_word *word = &script.commands[0].list[2];
    assert_string_equal(word->text, "34");
    assert_memory_equal(text + pen__lint_word_begin(word), "34", 2);
    assert_int_equal(pen__lint_word_end(word) - pen__lint_word_begin(word), 2);
    pen__lint_script_release(&script);
}

static void words_that_double_end(void **state)
{
    (void)state;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen__lint_script script;
    size_t broken;
    pen_text_add_string(&text, "A=0123456789\n");
    for (int i = 0; i < 40; i++)
        pen_text_add_string(&text, "A=\"$A$A\"\n");
    pen_text_add_string(&text, "x $A\n");
    assert_int_equal(
        pen__lint_script_read(text.bytes, text.length, &script, &broken),
        PEN_OK);
    assert_true(script.scope.budget.has_failed);
    pen__lint_script_release(&script);
    pen_text_release(&text);
}

static void a_quote_that_does_not_end_has_a_place(void **state)
{
    (void)state;
    struct pen__lint_script script;
    size_t broken = 0;
    assert_int_equal(pen__lint_script_read("x\ny 'z", 6, &script, &broken),
                     PEN_INVALID);
    assert_int_equal(broken, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_have_the_values_of_the_script),
        cmocka_unit_test(arrays_are_words),
        cmocka_unit_test(what_may_be_skipped_is_unknown),
        cmocka_unit_test(a_shell_s_work_is_unknown),
        cmocka_unit_test(here_documents_and_files_are_skipped),
        cmocka_unit_test(slurm_s_lines_give_its_variables),
        cmocka_unit_test(options_alone_are_one_command),
        cmocka_unit_test(letters_know_their_place),
        cmocka_unit_test(words_that_double_end),
        cmocka_unit_test(a_quote_that_does_not_end_has_a_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
