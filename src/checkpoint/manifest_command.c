/*
 * The command that trained, as the manifest keeps it, so that a run can be
 * resumed without typing it again. Since version 3:
 *
 *   "command": {"ranks": 2, "options": {"lr": ["1e-3"], "bf16": [],
 *                                       "data-path": ["0.3", "a", "0.7", "b"]}}
 *
 * Options have the words that followed them.
 */
#include "checkpoint/manifest.h"

#include "base/bug.h"
#include "base/json.h"
#include "checkpoint/internal.h"

#define MAX_WORDS 4096u

static bool is_word(const json_t *word)
{
    return json_is_string(word) &&
           json_string_length(word) <= PEN__MAX_SETTING_BYTES;
}

static bool is_option(const char *name, const json_t *words)
{
    bool is_right = pen__is_setting_name(name) && json_is_array(words) &&
                    json_array_size(words) <= MAX_WORDS;
    for (size_t i = 0; is_right && i < json_array_size(words); i++)
        is_right = is_word(json_array_get(words, i));
    return is_right;
}

static bool are_options(json_t *options)
{
    const char *name;
    json_t *words;
    bool are_right = json_is_object(options) &&
                     json_object_size(options) <= PEN__MAX_SETTINGS;
    json_object_foreach(options, name, words)
    {
        are_right = are_right && is_option(name, words);
    }
    return are_right;
}

pen_status pen_manifest_set_command(struct pen_manifest *manifest,
                                    uint32_t num_ranks, json_t *options,
                                    struct pen_text *why)
{
    if (!are_options(options)) {
        pen_why(why,
                "options of a command must have at most %u words of at most %u "
                "bytes each",
                MAX_WORDS, PEN__MAX_SETTING_BYTES);
        return PEN_INVALID;
    }
    json_t *command = json_pack("{s:I, s:O}", "ranks", (json_int_t)num_ranks,
                                "options", options);
    if (command == NULL) {
        pen_why(why, "no memory for the manifest of a checkpoint");
        return PEN_NOMEM;
    }
    json_decref(manifest->command);
    manifest->command = command;
    return PEN_OK;
}

json_t *pen_manifest_get_command(const struct pen_manifest *manifest,
                                 uint32_t *num_ranks)
{
    *num_ranks = (uint32_t)json_integer_value(
        json_object_get(manifest->command, "ranks"));
    return json_object_get(manifest->command, "options");
}

pen_status pen__manifest_read_command(const struct pen_json *json,
                                      uint32_t version, json_t **out,
                                      struct pen_text *why)
{
    struct pen_json command;
    uint32_t num_ranks = 0;
    if (!pen_json_has(json, "command"))
        return PEN_OK;
    if (version < 3) {
        pen_why(why, "command is a key of version 3; version is %u", version);
        return PEN_INVALID;
    }
    pen_status status = pen_json_open(json, "command", &command, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(&command, "ranks options", why);
    if (status == PEN_OK)
        status = pen_json_read_integer(
            &command, "ranks", 1, PEN_MANIFEST_MAX_REPLICAS, &num_ranks, why);
    if (status == PEN_OK &&
        !are_options(json_object_get(command.object, "options"))) {
        pen_why(why,
                "command.options must have at most %u names, each with a list "
                "of at most %u strings",
                PEN__MAX_SETTINGS, MAX_WORDS);
        status = PEN_INVALID;
    }
    if (status == PEN_OK)
        *out = json_incref(command.object);
    return status;
}
