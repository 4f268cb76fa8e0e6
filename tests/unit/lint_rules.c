/* Each rule speaks where it should, and is silent where it cannot know. */
#include "support/support.h"

#include "lint/lint.h"
#include "lint/nearest.h"

#include <string.h>

#define MODEL                                                                  \
    "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 "             \
    "--seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 "

/* Rules of all findings, in the order of their places. */
static void expect(const char *path, const char *text, uint64_t world,
                   const char *expected)
{
    struct pen_lint_report report;
    struct pen_text found = PEN_TEXT_EMPTY;
    struct pen_lint_question question = {path, text, strlen(text), world};
    assert_int_equal(pen_lint_file(&question, &report, NULL), PEN_OK);
    for (uint32_t i = 0; i < report.num_findings; i++)
        pen_text_add(&found, "%s%s", i > 0 ? " " : "",
                     report.findings[i].rule->name);
    assert_string_equal(pen_text_string(&found), expected);
    pen_text_release(&found);
    pen_lint_report_release(&report);
}

static void line(const char *words, uint64_t world, const char *expected)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_text_add(&text, "python pretrain_gpt.py " MODEL "%s\n", words);
    expect("run.sh", pen_text_string(&text), world, expected);
    pen_text_release(&text);
}

static void batches_and_ranks_divide(void **state)
{
    (void)state;
    line("", 0, "");
    line("--tensor-model-parallel-size 4", 6, "world-size");
    line("--tensor-model-parallel-size 4", 0, "");
    line("--global-batch-size 12", 8, "global-batch");
    line("--global-batch-size 12 --rampup-batch-size 4 4 100", 8, "");
    line("--global-batch-size 12 $MORE", 8, "");
    line("--num-experts 8 --expert-model-parallel-size 8 --global-batch-size 8",
         8, "");
}

static void layers_divide(void **state)
{
    (void)state;
    line("--pipeline-model-parallel-size 5", 0, "pipeline-layers");
    line("--pipeline-model-parallel-size 5 "
         "--account-for-embedding-in-pipeline-split",
         0, "");
    line("--pipeline-model-parallel-size 4 "
         "--num-virtual-stages-per-pipeline-rank 4",
         0, "virtual-stages");
    line("--pipeline-model-parallel-size 4 "
         "--num-layers-per-virtual-pipeline-stage 3",
         0, "");
    line("--pipeline-model-parallel-size 2 --no-overlap-p2p-communication "
         "--num-virtual-stages-per-pipeline-rank 2",
         0, "virtual-stages");
    line("--pipeline-model-parallel-size 3 "
         "--decoder-first-pipeline-num-layers 8 "
         "--decoder-last-pipeline-num-layers 9",
         0, "");
}

static void unknown_values_are_not_judged(void **state)
{
    (void)state;
    line("--tensor-model-parallel-size $TP", 7, "");
    line("--pipeline-model-parallel-size $(pp)", 7, "");
    line("--overlap-param-gather --use-distributed-optimizer $MORE", 0, "");
    line("--overlap-param-gather --use-distributed-optimizer", 0,
         "needs-option");
}

static void names_have_one_meaning(void **state)
{
    (void)state;
    line("--num_query_groups 4", 0, "unknown-option");
    line("--tensor-model-parallel 2", 0, "unknown-option");
    line("--nothing-like-it", 0, "other-option");
    expect("run.sh", "python mine.py " MODEL "--nothing-like-it 3\n", 0, "");
    line("--bf16 --bf16", 0, "");
    line("--seed 1 --seed 2", 0, "repeated-option");
    expect("run.sh", "echo python pretrain_gpt.py " MODEL "--wrong\n", 0, "");
}

static void nearest_names_stand_out(void **state)
{
    (void)state;
    struct pen__lint_nearest nearest = pen__lint_nearest_to("tran");
    pen__lint_nearest_offer(&nearest, "train");
    pen__lint_nearest_offer(&nearest, "trans");
    assert_null(pen__lint_nearest_best(&nearest));
    nearest = pen__lint_nearest_to("sequnece");
    pen__lint_nearest_offer(&nearest, "nothing");
    pen__lint_nearest_offer(&nearest, "sequence");
    assert_string_equal(pen__lint_nearest_best(&nearest), "sequence");
    assert_int_equal(pen__lint_edits("abc", "acb"), 1);
    assert_int_equal(pen__lint_edits("abc", "abc"), 0);
    assert_int_equal(pen__lint_edits("", "abc"), 3);
}

static void others_have_their_arithmetic(void **state)
{
    (void)state;
    static const char ds[] = "{\"train_batch_size\": 64, "
                             "\"train_micro_batch_size_per_gpu\": 2, "
                             "\"gradient_accumulation_steps\": 8}";
    expect("a.json", ds, 0, "");
    expect("a.json", ds, 4, "");
    expect("a.json", ds, 8, "global-batch");
    static const char tt[] = "[training]\nlocal_batch_size = 2\n"
                             "global_batch_size = 16\n[parallelism]\n"
                             "tensor_parallel_degree = 2\n"
                             "data_parallel_shard_degree = -1\n";
    expect("a.toml", tt, 0, "");
    expect("a.toml", tt, 8, "");
    expect("a.toml", tt, 12, "global-batch");
    expect("a.toml", tt, 9, "world-size");
    static const char na[] = "parallelism: {dp: 2, pp: 2, tp: 2}\n";
    expect("a.yaml", na, 8, "");
    expect("a.yaml", na, 16, "world-size");
}

static void fixes_are_written_and_end(void **state)
{
    (void)state;
    static const char text[] = "--num-layers 4 --squence-parallel --sede 1\n";
    struct pen_lint_report report;
    struct pen_text before = PEN_TEXT_EMPTY;
    struct pen_text after = PEN_TEXT_EMPTY;
    struct pen_text diff = PEN_TEXT_EMPTY;
    struct pen_lint_question question = {"a.args", text, strlen(text), 0};
    assert_int_equal(pen_lint_file(&question, &report, NULL), PEN_OK);
    assert_true(pen_lint_fix(&question, &report, &after));
    assert_string_equal(pen_text_string(&after),
                        "--num-layers 4 --sequence-parallel --seed 1\n");
    pen_text_add_string(&before, text);
    pen_lint_diff("a.args", &before, &after, &diff);
    assert_string_equal(pen_text_string(&diff),
                        "--- a.args\n+++ a.args\n@@ -1,1 +1,1 @@\n"
                        "---num-layers 4 --squence-parallel --sede 1\n"
                        "+--num-layers 4 --sequence-parallel --seed 1\n");
    pen_lint_report_release(&report);
    pen_text_release(&before);
    pen_text_release(&after);
    pen_text_release(&diff);
}

static void words_in_pieces_are_not_fixed(void **state)
{
    (void)state;
    static const char text[] =
        "A=parallel\npython pretrain_gpt.py --num-layers 4 --squence-$A\n";
    struct pen_lint_report report;
    struct pen_lint_question question = {"a.sh", text, strlen(text), 0};
    assert_int_equal(pen_lint_file(&question, &report, NULL), PEN_OK);
    assert_int_equal(report.num_findings, 1);
    assert_null(report.findings[0].fix);
    assert_memory_equal(text + report.findings[0].begin, "--squence", 9);
    pen_lint_report_release(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_and_ranks_divide),
        cmocka_unit_test(layers_divide),
        cmocka_unit_test(unknown_values_are_not_judged),
        cmocka_unit_test(names_have_one_meaning),
        cmocka_unit_test(nearest_names_stand_out),
        cmocka_unit_test(others_have_their_arithmetic),
        cmocka_unit_test(fixes_are_written_and_end),
        cmocka_unit_test(words_in_pieces_are_not_fixed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
