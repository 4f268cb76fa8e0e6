/*
 * How a command starts its ranks: torchrun, srun, mpirun or a script alone.
 * Words of the launcher end where those of the program begin.
 */
#include "lint/launch.h"

#include <string.h>

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    size_t wanted = strlen(end);
    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

/*
 * Returns whether the word is this option, "--nproc_per_node" or with dashes.
 */
static bool is_option(const char *word, const char *name)
{
    size_t i = 0;
    for (; name[i] != '\0'; i++)
        if (word[i] != name[i] && (name[i] != '-' || word[i] != '_' || i < 2))
            return false;
    return word[i] == '\0' || word[i] == '=';
}

/*
 * Reads the value of an option of the launcher; *out stays where it is missing.
 */
static void read_value(const struct pen__lint_word_list *words, uint32_t end,
                       const char *name, uint64_t *out)
{
    for (uint32_t i = 0; i < end; i++) {
        const char *word = words->list[i].text;
        if (!is_option(word, name))
            continue;
        const char *equals = strchr(word, '=');
        const struct pen__lint_word *value = &words->list[i];
        if (equals == NULL && i + 1 < words->count)
            value = &words->list[i + 1];
        *out = !value->is_known ? 0
                                : pen__lint_number(equals == NULL ? value->text
                                                                  : equals + 1);
    }
}

/* ---- where the program begins ---- */

static bool is_script(const struct pen__lint_word *word)
{
    return ends_with(word->text, ".py") && word->text[0] != '-';
}

static uint32_t find_program(const struct pen__lint_word_list *words)
{
    for (uint32_t i = 0; i < words->count; i++) {
        bool is_module =
            i + 1 < words->count && strcmp(words->list[i].text, "-m") == 0;
        if (is_script(&words->list[i]))
            return i;
        if (is_module &&
            strstr(words->list[i + 1].text, "torch.distributed") == NULL &&
            strstr(words->list[i + 1].text, "accelerate") == NULL)
            return i + 1;
    }
    return words->count;
}

/* ---- ranks ---- */

static bool has_word(const struct pen__lint_word_list *words, uint32_t end,
                     const char *name)
{
    for (uint32_t i = 0; i < end; i++)
        if (strcmp(base_name(words->list[i].text), name) == 0)
            return true;
    return false;
}

/*
 * Returns the ranks that the script asks Slurm for, as overridden by srun's
 * options.
 */
static uint64_t slurm_world(const struct pen__lint_script *script,
                            const struct pen__lint_word_list *words,
                            uint32_t end)
{
    struct pen__lint_sbatch found = script->sbatch;
    for (uint32_t i = 0; i < end; i++)
        pen__lint_sbatch_option(words->list[i].text,
                                i + 1 < end ? words->list[i + 1].text : "",
                                &found);
    if (found.tasks > 0)
        return found.tasks;
    return found.nodes *
           (found.node_tasks > 0 ? found.node_tasks : found.node_devices);
}

static uint64_t torchrun_world(const struct pen__lint_script *script,
                               const struct pen__lint_word_list *words,
                               uint32_t end)
{
    uint64_t nodes = 1;
    uint64_t each = 1;
    read_value(words, end, "--nnodes", &nodes);
    read_value(words, end, "--nproc-per-node", &each);
    if (nodes == 0 && has_word(words, end, "srun"))
        nodes = script->sbatch.nodes;
    return nodes * each;
}

static uint64_t find_world(const struct pen__lint_script *script,
                           const struct pen__lint_word_list *words,
                           uint32_t end)
{
    uint64_t world = 0;
    if (has_word(words, end, "torchrun") ||
        has_word(words, end, "torch.distributed.run") ||
        has_word(words, end, "torch.distributed.launch"))
        return torchrun_world(script, words, end);
    if (has_word(words, end, "srun"))
        return slurm_world(script, words, end);
    if (has_word(words, end, "mpirun") || has_word(words, end, "mpiexec")) {
        read_value(words, end, "-n", &world);
        read_value(words, end, "-np", &world);
    }
    return world;
}

struct pen__lint_launch
pen__lint_launch_find(const struct pen__lint_script *script,
                      const struct pen__lint_word_list *words)
{
    uint32_t program = find_program(words);
    struct pen__lint_launch launch = {.script = ""};
    if (program == words->count)
        return launch;
    launch.first = program + 1;
    launch.script = base_name(words->list[program].text);
    launch.world = find_world(script, words, program);
    return launch;
}
