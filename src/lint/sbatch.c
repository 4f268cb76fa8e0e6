/* The lines of a batch script that ask Slurm for nodes and devices. */
#include "lint/launch.h"

#include <stdlib.h>
#include <string.h>

/* The value of "--nodes=4", "--nodes 4", "-N4" or "-N 4"; NULL: another one. */
static const char *value_of(const char *word, const char *next,
                            const char *name)
{
    size_t length = strlen(name);
    if (strncmp(word, name, length) != 0)
        return NULL;
    if (word[length] == '=')
        return word + length + 1;
    if (word[length] == '\0')
        return next;
    return name[1] != '-' ? word + length : NULL;
}

/* "8", "h100:8" or "gpu:h100:8". */
static uint64_t last_number(const char *value)
{
    const char *colon = strrchr(value, ':');
    return pen__lint_number(colon == NULL ? value : colon + 1);
}

void pen__lint_sbatch_option(const char *word, const char *next,
                             struct pen__lint_sbatch *out)
{
    const struct {
        const char *name;
        uint64_t *out;
    } options[] = {{"--nodes", &out->nodes},
                   {"-N", &out->nodes},
                   {"--ntasks-per-node", &out->node_tasks},
                   {"--gpus-per-node", &out->node_devices},
                   {"--gres", &out->node_devices},
                   {"--ntasks", &out->tasks},
                   {"-n", &out->tasks}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const char *value = value_of(word, next, options[i].name);
        if (value != NULL && strchr(value, ',') == NULL)
            *options[i].out = last_number(value);
    }
}

static void read_line(const char *text, size_t begin, size_t end,
                      struct pen__lint_sbatch *out)
{
    struct pen_shell_scanner scanner = {
        .text = text, .length = end, .at = begin};
    struct pen_shell_token token = pen_shell_next(&scanner);
    struct pen_text word = PEN_TEXT_EMPTY;
    struct pen_text next = PEN_TEXT_EMPTY;
    while (token.kind == PEN_SHELL_WORD) {
        pen_text_clear(&word);
        pen_text_clear(&next);
        pen_shell_unquote(text, &token, &word);
        token = pen_shell_next(&scanner);
        if (token.kind == PEN_SHELL_WORD)
            pen_shell_unquote(text, &token, &next);
        pen__lint_sbatch_option(pen_text_string(&word), pen_text_string(&next),
                                out);
    }
    pen_text_release(&word);
    pen_text_release(&next);
}

/*
 * Sets a variable whose value has no place in the file: findings point at the
 * line that asks.
 */
static void set_variable(struct pen__lint_scope *scope, const char *name,
                         uint64_t value, size_t place)
{
    struct pen__lint_variable *variable;
    struct pen__lint_word word;
    char digits[24];
    size_t length = 0;
    if (value == 0 ||
        (variable = pen__lint_scope_make(scope, name, strlen(name))) == NULL)
        return;
    for (uint64_t rest = value; rest > 0; rest /= 10)
        digits[length++] = (char)('0' + rest % 10);
    pen__lint_word_init(&word);
    while (length > 0)
        pen__lint_word_add(&word, &scope->budget, digits[--length], place);
    pen__lint_words_release(&variable->values);
    pen__lint_words_add(&variable->values, &scope->budget, &word);
    pen__lint_word_release(&word);
}

void pen__lint_sbatch_read(const char *text, size_t length,
                           struct pen__lint_script *script)
{
    static const char mark[] = "#SBATCH";
    struct pen__lint_sbatch *found = &script->sbatch;
    size_t place = 0;
    for (size_t at = 0; at < length;) {
        const char *line = memchr(text + at, '\n', length - at);
        size_t end = line == NULL ? length : (size_t)(line - text);
        if (end - at > sizeof mark &&
            memcmp(text + at, mark, sizeof mark - 1) == 0) {
            read_line(text, at + sizeof mark - 1, end, found);
            place = at;
        }
        at = end + 1;
    }
    set_variable(&script->scope, "SLURM_NNODES", found->nodes, place);
    set_variable(&script->scope, "SLURM_JOB_NUM_NODES", found->nodes, place);
    set_variable(&script->scope, "SLURM_GPUS_ON_NODE", found->node_devices,
                 place);
    set_variable(&script->scope, "SLURM_GPUS_PER_NODE", found->node_devices,
                 place);
    set_variable(&script->scope, "SLURM_NTASKS_PER_NODE", found->node_tasks,
                 place);
    set_variable(&script->scope, "SLURM_NTASKS", found->tasks, place);
}
