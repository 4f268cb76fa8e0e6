/* A file of keys and values: whose it is, and what rules say of it. */
#include "lint/bridge.h"
#include "lint/files.h"

#include <string.h>

/* ---- whose file ---- */

static bool has_table(const struct pen__lint_config *config, const char *path)
{
    size_t length = strlen(path);
    for (uint32_t i = 0; i < config->count; i++)
        if (strncmp(config->list[i].key, path, length) == 0)
            return true;
    return false;
}

/* Keys of which one is enough. */
static const struct {
    enum pen_lint_dialect dialect;
    const char *key;
} marks[] = {{PEN_LINT_DEEPSPEED, "train_batch_size"},
             {PEN_LINT_DEEPSPEED, "train_micro_batch_size_per_gpu"},
             {PEN_LINT_DEEPSPEED, "zero_optimization."},
             {PEN_LINT_ACCELERATE, "compute_environment"},
             {PEN_LINT_ACCELERATE, "distributed_type"},
             {PEN_LINT_TORCHTITAN, "parallelism.tensor_parallel_degree"},
             {PEN_LINT_TORCHTITAN, "parallelism.pipeline_parallel_degree"},
             {PEN_LINT_TORCHTITAN, "parallelism.data_parallel_"},
             {PEN_LINT_TORCHTITAN, "training.local_batch_size"},
             {PEN_LINT_TORCHTITAN, "training.seq_len"},
             {PEN_LINT_NANOTRON, "parallelism.tp"},
             {PEN_LINT_NANOTRON, "parallelism.dp"},
             {PEN_LINT_NANOTRON, "tokens.micro_batch_size"},
             {PEN_LINT_BRIDGE, "model.tensor_model_parallel_size"},
             {PEN_LINT_BRIDGE, "model.pipeline_model_parallel_size"},
             {PEN_LINT_MEGATRON, "tensor_model_parallel_size"},
             {PEN_LINT_MEGATRON, "pipeline_model_parallel_size"},
             {PEN_LINT_MEGATRON, "model_parallel.tensor_model_parallel_size"}};

static bool find_dialect(struct pen__lint_config *config)
{
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (has_table(config, marks[i].key)) {
            config->dialect = marks[i].dialect;
            return true;
        }
    return false;
}

/* Returns whether a text that cannot be read has a key of ours. */
static bool looks_known(const struct pen_lint_question *question)
{
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *dot = strrchr(marks[i].key, '.');
        const char *word =
            dot == NULL || dot[1] == '\0' ? marks[i].key : dot + 1;
        size_t length = strcspn(word, ".");
        for (size_t at = 0; length > 2 && at + length <= question->length; at++)
            if (memcmp(question->text + at, word, length) == 0)
                return true;
    }
    return false;
}

/* ---- one file ---- */

void pen__lint_file_trouble(const struct pen__lint_trouble *trouble,
                            struct pen_lint_report *report)
{
    struct pen__lint_config config = {.begin = trouble->at};
    struct pen__lint_judge judge = {.config = &config,
                                    .report = report,
                                    .what = PEN_TEXT_EMPTY,
                                    .why = PEN_TEXT_EMPTY,
                                    .todo = PEN_TEXT_EMPTY};
    pen__lint_what(&judge, "%s", pen_text_string(&trouble->why));
    pen__lint_why(&judge, "%s",
                  trouble->is_duplicate
                      ? "The program refuses the file, or reads the last one."
                      : "No program can read the file.");
    pen__lint_todo(&judge, "%s",
                   trouble->is_duplicate ? "Delete one of them."
                                         : "Correct the syntax.");
    pen__lint_file(&judge, &(struct pen__lint_words){
                               .rule = trouble->is_duplicate
                                           ? PEN_LINT_RULE_DUPLICATE_KEY
                                           : PEN_LINT_RULE_UNREADABLE});
    pen__lint_judge_release(&judge);
}

/* Files of others have their faults for themselves. */
pen_status pen__lint_tree_file(const struct pen_lint_question *question,
                               pen__lint_reader *read,
                               struct pen_lint_report *report)
{
    struct pen__lint_config config = {.list = NULL};
    struct pen__lint_trouble trouble = {.why = PEN_TEXT_EMPTY};
    pen_status status =
        read(question->text, question->length, &config, &trouble);
    bool is_ours = find_dialect(&config);
    if (status == PEN_INVALID && !trouble.is_ours && looks_known(question))
        pen__lint_file_trouble(&trouble, report);
    if (status == PEN_OK && is_ours) {
        if (trouble.is_duplicate)
            pen__lint_file_trouble(&trouble, report);
        config.is_open = config.dialect == PEN_LINT_BRIDGE ||
                         config.dialect == PEN_LINT_MEGATRON;
        if (config.is_open)
            pen__lint_bridge_keys(&config);
        pen__lint_judge_config(&config, question, report);
    }
    report->has_failed = report->has_failed || config.has_failed;
    pen__lint_config_release(&config);
    pen_text_release(&trouble.why);
    return status == PEN_INVALID ? PEN_OK : status;
}
