#include "cli/train/recall.h"

#include "checkpoint/checkpoint.h"

#include <string.h>

/* ---- what is taken ---- */

static bool is_in(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

bool pen__recall_takes(const char *name)
{
    /* The checkpoint has the model; --save is the folder of --load. */
    static const char *const own[] = {"load", "model", "random-weights",
                                      "check", "save"};
    return !is_in(own, sizeof own / sizeof *own, name);
}

bool pen__recall_is_layout(const char *name)
{
    static const char *const layout[] = {"pipeline-model-parallel-size",
                                         "pp",
                                         "num-virtual-stages-per-pipeline-rank",
                                         "vpp",
                                         "tensor-model-parallel-size",
                                         "context-parallel-size",
                                         "cp",
                                         "ep",
                                         "expert-model-parallel-size",
                                         "tp",
                                         "stage-replicas",
                                         "stage-layers",
                                         "replica-shares",
                                         "recompute-stages",
                                         "schedule",
                                         "plan",
                                         "move",
                                         "use-distributed-optimizer",
                                         "sharding",
                                         "data-parallel-sharding-strategy",
                                         "sharding-group",
                                         "logical-replicas"};
    return is_in(layout, sizeof layout / sizeof *layout, name);
}

/* ---- words of a setting ---- */

/* A list is kept as its JSON; see checkpoint.c. */
static json_t *words_of_text(const json_t *text)
{
    const char *string = json_string_value(text);
    json_t *list = string[0] == '[' ? json_loads(string, 0, NULL) : NULL;
    return list != NULL ? list : json_pack("[O]", text);
}

static json_t *words_of(const json_t *value)
{
    if (json_is_string(value))
        return words_of_text(value);
    if (json_is_boolean(value))
        return json_array();
    if (json_is_integer(value))
        return json_pack("[o]", json_sprintf("%" JSON_INTEGER_FORMAT,
                                             json_integer_value(value)));
    return json_pack("[o]", json_sprintf("%.17g", json_real_value(value)));
}

static bool is_usual(const json_t *value, const json_t *usual)
{
    return json_is_false(value) || json_equal(value, usual) ||
           (json_is_string(value) &&
            strcmp(json_string_value(value), "[]") == 0);
}

static json_t *options_of(json_t *settings, const json_t *usual)
{
    json_t *options = json_object();
    const char *name;
    json_t *value;
    json_object_foreach(settings, name, value)
    {
        if (options == NULL || is_usual(value, json_object_get(usual, name)))
            continue;
        if (json_object_set_new(options, name, words_of(value)) == 0)
            continue;
        json_decref(options);
        options = NULL;
    }
    return options;
}

pen_status pen__recall_load(struct pen__recall *recall, const char *load,
                            const json_t *usual, struct pen_text *why)
{
    struct pen_manifest manifest;
    *recall = (struct pen__recall){.options = NULL};
    pen_status status =
        pen_checkpoint_load_manifest(load, &manifest, &recall->from, why);
    if (status != PEN_OK)
        return status;
    json_t *options = pen_manifest_get_command(&manifest, &recall->num_ranks);
    recall->options = options != NULL
                          ? json_incref(options)
                          : options_of(manifest.configuration, usual);
    pen_manifest_release(&manifest);
    return recall->options == NULL ? PEN_NOMEM : PEN_OK;
}

void pen__recall_release(struct pen__recall *recall)
{
    json_decref(recall->options);
    pen_text_release(&recall->from);
    *recall = (struct pen__recall){.options = NULL};
}

/* ---- for people ---- */

static bool needs_quotes(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "@%+=:,./_-";
    return word[0] == '\0' || word[strspn(word, plain)] != '\0';
}

void pen__option_print(const char *name, const json_t *words,
                       struct pen_text *out)
{
    pen_text_add(out, " --%s", name);
    for (size_t i = 0; i < json_array_size(words); i++) {
        const char *word = json_string_value(json_array_get(words, i));
        pen_text_add_string(out, " ");
        if (needs_quotes(word))
            pen_text_add_quoted(out, word);
        else
            pen_text_add_string(out, word);
    }
}
