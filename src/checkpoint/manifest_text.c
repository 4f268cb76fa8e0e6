/*
 * MANIFEST.json. The last key seals the rest:
 *
 *   {                                  \
 *     "format": "penstock-checkpoint",  |  hashed
 *     ...                               |
 *     "previous": null                 /
 *   ,\n  "sha256": "64 digits"\n}\n        compared letter by letter
 */
#include "checkpoint/manifest.h"

#include "base/json.h"
#include "checkpoint/internal.h"

#include <stdlib.h>
#include <string.h>

#define FORMAT "penstock-checkpoint"
#define VERSION 4
#define SEAL_HEAD ",\n  \"sha256\": \""
#define SEAL_TAIL "\"\n}\n"
#define SEAL_SIZE                                                              \
    (sizeof SEAL_HEAD - 1 + PEN_HASH_SIZE - 1 + sizeof SEAL_TAIL - 1)
#define KEYS                                                                   \
    "format version run step sample dtype optimizer logical_replicas "         \
    "logical_tensor sync random configuration configuration_sha256 command "   \
    "files previous sha256"

static pen_status make_seal(const char *text, size_t length,
                            struct pen_text *seal, struct pen_text *why)
{
    char hash[PEN_HASH_SIZE];
    pen_status status = pen_hash_bytes(text, length, hash, why);
    pen_text_add(seal, "%s%s%s", SEAL_HEAD, hash, SEAL_TAIL);
    if (status == PEN_OK && seal->has_failed) {
        pen_why(why, "no memory for the manifest of a checkpoint");
        status = PEN_NOMEM;
    }
    return status;
}

pen_status pen_manifest_seal(struct pen_text *text, struct pen_text *why)
{
    struct pen_text seal = PEN_TEXT_EMPTY;
    pen_status status =
        make_seal(pen_text_string(text), text->length, &seal, why);
    if (status == PEN_OK)
        pen_text_add_string(text, pen_text_string(&seal));
    pen_text_release(&seal);
    return status;
}

static pen_status check_seal(const char *text, size_t length,
                             struct pen_text *why)
{
    struct pen_text seal = PEN_TEXT_EMPTY;
    if (length < SEAL_SIZE) {
        pen_why(why, "%zu bytes are too few for a manifest", length);
        return PEN_INVALID;
    }
    size_t head = length - SEAL_SIZE;
    pen_status status = make_seal(text, head, &seal, why);
    if (status == PEN_OK && memcmp(text + head, seal.bytes, SEAL_SIZE) != 0) {
        pen_why(why,
                "the hash at its end (offset %zu) does not match the bytes "
                "before it",
                head);
        status = PEN_INVALID;
    }
    pen_text_release(&seal);
    return status;
}

static pen_status hash_configuration(const json_t *configuration,
                                     char out[PEN_HASH_SIZE],
                                     struct pen_text *why)
{
    char *text = json_dumps(configuration, JSON_COMPACT | JSON_SORT_KEYS);
    if (text == NULL) {
        pen_why(why, "no memory for the settings of a checkpoint");
        return PEN_NOMEM;
    }
    pen_status status = pen_hash_bytes(text, strlen(text), out, why);
    free(text);
    return status;
}

static json_t *make_files(const struct pen_manifest *manifest)
{
    json_t *list = json_array();
    int failed = list == NULL;
    for (size_t i = 0; failed == 0 && i < manifest->num_files; i++) {
        const struct pen_manifest_file *file = &manifest->files[i];
        failed = json_array_append_new(
            list, json_pack("{s:s, s:I, s:s}", "name", file->name, "bytes",
                            (json_int_t)file->num_bytes, "sha256", file->hash));
    }
    if (failed == 0)
        return list;
    json_decref(list);
    return NULL;
}

/* Returns the oldest version that can express the manifest. */
static int version_of(const struct pen_manifest *manifest)
{
    return manifest->num_pieces > 1    ? VERSION
           : manifest->command != NULL ? 3
                                       : 2;
}

/* Prints without the seal and the closing brace. */
static pen_status print_fields(const struct pen_manifest *manifest,
                               struct pen_text *out, struct pen_text *why)
{
    json_t *json = json_pack(
        "{s:s, s:i, s:s, s:I, s:I, s:s, s:{s:s, s:i}, s:I, s:o*, s:O*, s:O, "
        "s:O, s:s, s:O*, s:o, s:s?}",
        "format", FORMAT, "version", version_of(manifest), "run", manifest->run,
        "step", (json_int_t)manifest->step, "sample",
        (json_int_t)manifest->sample, "dtype", pen_dtype_name(manifest->dtype),
        "optimizer", "name", manifest->optimizer, "moments",
        (int)manifest->num_moments, "logical_replicas",
        (json_int_t)manifest->num_replicas, "logical_tensor",
        manifest->num_pieces > 1 ? json_integer(manifest->num_pieces) : NULL,
        "sync", manifest->sync, "random", manifest->random, "configuration",
        manifest->configuration, "configuration_sha256",
        manifest->configuration_hash, "command", manifest->command, "files",
        make_files(manifest), "previous",
        manifest->previous[0] == '\0' ? NULL : manifest->previous);
    char *text = json_dumps(json, JSON_INDENT(2));
    json_decref(json);
    if (text != NULL)
        pen_text_add_bytes(out, text, strlen(text) - strlen("\n}"));
    free(text);
    if (text != NULL && !out->has_failed)
        return PEN_OK;
    pen_why(why, "no memory for the manifest of a checkpoint");
    return PEN_NOMEM;
}

pen_status pen_manifest_print(struct pen_manifest *manifest,
                              struct pen_text *out, struct pen_text *why)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_status status = hash_configuration(manifest->configuration,
                                           manifest->configuration_hash, why);
    if (status == PEN_OK)
        status = print_fields(manifest, &text, why);
    if (status == PEN_OK)
        status = pen_manifest_seal(&text, why);
    if (status == PEN_OK)
        status = pen_hash_bytes(text.bytes, text.length, manifest->hash, why);
    if (status == PEN_OK)
        *out = text;
    else
        pen_text_release(&text);
    return status;
}

static pen_status read_dtype(const struct pen_json *json, enum pen_dtype *out,
                             struct pen_text *why)
{
    const char *name =
        json_string_value(json_object_get(json->object, "dtype"));
    enum pen_dtype dtype = name == NULL ? PEN_DTYPES : pen_dtype_find(name);
    if (dtype != PEN_DTYPE_F32 && dtype != PEN_DTYPE_BF16) {
        pen_why(why, "dtype must be \"F32\" or \"BF16\"");
        return PEN_INVALID;
    }
    *out = dtype;
    return PEN_OK;
}

static pen_status read_optimizer(const struct pen_json *json,
                                 struct pen_manifest *out, struct pen_text *why)
{
    struct pen_json optimizer;
    pen_status status = pen_json_open(json, "optimizer", &optimizer, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(&optimizer, "name moments", why);
    if (status == PEN_OK)
        status = pen_json_read_integer(&optimizer, "moments", 0,
                                       PEN_MANIFEST_MAX_MOMENTS,
                                       &out->num_moments, why);
    if (status != PEN_OK)
        return status;
    const char *name =
        json_string_value(json_object_get(optimizer.object, "name"));
    if (name == NULL || !pen__is_setting_name(name) ||
        strlen(name) >= sizeof out->optimizer) {
        pen_why(why, "optimizer.name must be a word of at most %zu letters",
                sizeof out->optimizer - 1);
        return PEN_INVALID;
    }
    memcpy(out->optimizer, name, strlen(name) + 1);
    return PEN_OK;
}

static bool is_random_state(const json_t *value)
{
    const char *digits = json_string_value(value);
    return digits != NULL && strlen(digits) == 16 &&
           strspn(digits, "0123456789abcdef") == 16;
}

static bool is_setting(const json_t *value)
{
    return json_is_number(value) || json_is_boolean(value) ||
           (json_is_string(value) &&
            json_string_length(value) <= PEN__MAX_SETTING_BYTES);
}

/* Reads an object whose names are valid and whose values all pass the test. */
static pen_status read_settings(const struct pen_json *json, const char *key,
                                bool (*is_right)(const json_t *),
                                const char *what, json_t **out,
                                struct pen_text *why)
{
    struct pen_json settings;
    pen_status status = pen_json_open(json, key, &settings, why);
    if (status != PEN_OK)
        return status;
    const char *name;
    json_t *value;
    bool fits = json_object_size(settings.object) <= PEN__MAX_SETTINGS;
    json_object_foreach(settings.object, name, value)
    {
        fits = fits && pen__is_setting_name(name) && is_right(value);
    }
    if (!fits) {
        pen_why(why, "%s must have at most %u names, each with %s", key,
                PEN__MAX_SETTINGS, what);
        return PEN_INVALID;
    }
    *out = json_incref(settings.object);
    return PEN_OK;
}

static pen_status read_file(const json_t *list, size_t index,
                            struct pen_manifest *out, struct pen_text *why)
{
    struct pen_json json;
    uint64_t num_bytes = 0;
    char hash[PEN_HASH_SIZE];
    pen_status status = pen_json_open_entry(list, "files", index, &json, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(&json, "name bytes sha256", why);
    if (status == PEN_OK)
        status = pen_json_read_count(&json, "bytes", 0, PEN__MAX_FILE_BYTES,
                                     &num_bytes, why);
    if (status == PEN_OK)
        status = pen_json_read_hash(&json, "sha256", hash, why);
    if (status != PEN_OK)
        return status;
    const char *name = json_string_value(json_object_get(json.object, "name"));
    if (name == NULL || !pen__is_file_name(name)) {
        pen_why(why,
                "%sname must be the name of a file in the manifest's folder, "
                "of letters, digits, '.', '_' and '-'",
                json.path);
        return PEN_INVALID;
    }
    if (index > 0 && strcmp(out->files[index - 1].name, name) >= 0) {
        pen_why(why, "%sname must be in alphabetical order", json.path);
        return PEN_INVALID;
    }
    return pen_manifest_add_file(out, name, num_bytes, hash, why);
}

static pen_status read_files(const struct pen_json *json,
                             struct pen_manifest *out, struct pen_text *why)
{
    const json_t *list = json_object_get(json->object, "files");
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > PEN_MANIFEST_MAX_FILES) {
        pen_why(why, "files must be a list of at most %u",
                PEN_MANIFEST_MAX_FILES);
        return PEN_INVALID;
    }
    pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < count; i++)
        status = read_file(list, i, out, why);
    return status;
}

static pen_status read_configuration(const struct pen_json *json,
                                     struct pen_manifest *out,
                                     struct pen_text *why)
{
    char hash[PEN_HASH_SIZE];
    pen_status status = read_settings(json, "configuration", is_setting,
                                      "a number, a string, true or false",
                                      &out->configuration, why);
    if (status == PEN_OK)
        status = hash_configuration(out->configuration, hash, why);
    if (status == PEN_OK)
        status = pen_json_read_hash(json, "configuration_sha256",
                                    out->configuration_hash, why);
    if (status != PEN_OK || strcmp(hash, out->configuration_hash) == 0)
        return status;
    pen_why(why, "configuration_sha256 does not match the configuration");
    return PEN_INVALID;
}

/* Reads the replicas, which older manifests lack. */
static pen_status read_replicas(const struct pen_json *json,
                                struct pen_manifest *out, struct pen_text *why)
{
    out->num_replicas = 1;
    return pen_json_has(json, "logical_replicas")
               ? pen_json_read_integer(json, "logical_replicas", 1,
                                       PEN_MANIFEST_MAX_REPLICAS,
                                       &out->num_replicas, why)
               : PEN_OK;
}

/* Reads pieces, which are written where a model was cut, from version 4 on. */
static pen_status read_pieces(const struct pen_json *json, uint32_t version,
                              struct pen_manifest *out, struct pen_text *why)
{
    out->num_pieces = 1;
    if (!pen_json_has(json, "logical_tensor"))
        return PEN_OK;
    if (version < 4) {
        pen_why(why, "logical_tensor is a key of version 4; version is %u",
                version);
        return PEN_INVALID;
    }
    return pen_json_read_integer(json, "logical_tensor", 1,
                                 PEN_MANIFEST_MAX_PIECES, &out->num_pieces,
                                 why);
}

/* Reads the run; version 1 has no id. */
static pen_status read_run(const struct pen_json *json, uint32_t version,
                           struct pen_manifest *out, struct pen_text *why)
{
    const char *run = json_string_value(json_object_get(json->object, "run"));
    if (version == 1 && pen_json_has(json, "run")) {
        pen_why(why, "run is a key of version 2; version is 1");
        return PEN_INVALID;
    }
    if (version == 1)
        run = PEN_RUN_ID_OLD;
    if (run == NULL || !pen_run_id_is_valid(run)) {
        pen_why(why, "run must be 16 hexadecimal digits");
        return PEN_INVALID;
    }
    memcpy(out->run, run, sizeof out->run);
    return PEN_OK;
}

static pen_status read_fields(const struct pen_json *json,
                              struct pen_manifest *out, struct pen_text *why)
{
    uint32_t version = 0;
    pen_status status =
        pen_json_read_version(json, FORMAT, VERSION, &version, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(json, KEYS, why);
    if (status == PEN_OK)
        status = read_run(json, version, out, why);
    if (status == PEN_OK)
        status = pen_json_read_count(json, "step", 0, PEN__MAX_STEP, &out->step,
                                     why);
    if (status == PEN_OK)
        status = pen_json_read_count(json, "sample", 0, INT64_MAX, &out->sample,
                                     why);
    if (status == PEN_OK)
        status = read_dtype(json, &out->dtype, why);
    if (status == PEN_OK)
        status = read_optimizer(json, out, why);
    if (status == PEN_OK)
        status = read_replicas(json, out, why);
    if (status == PEN_OK)
        status = read_pieces(json, version, out, why);
    if (status == PEN_OK && pen_json_has(json, "sync"))
        status = pen__manifest_read_sync(json, &out->sync, why);
    if (status == PEN_OK)
        status = read_settings(json, "random", is_random_state,
                               "16 hexadecimal digits", &out->random, why);
    if (status == PEN_OK)
        status = read_configuration(json, out, why);
    if (status == PEN_OK)
        status = pen__manifest_read_command(json, version, &out->command, why);
    if (status == PEN_OK)
        status = read_files(json, out, why);
    if (status == PEN_OK &&
        !json_is_null(json_object_get(json->object, "previous")))
        status = pen_json_read_hash(json, "previous", out->previous, why);
    return status;
}

pen_status pen_manifest_parse(const char *text, size_t length,
                              struct pen_manifest *out, struct pen_text *why)
{
    struct pen_json json;
    struct pen_manifest manifest = {.files = NULL};
    pen_status status = check_seal(text, length, why);
    if (status == PEN_OK)
        status = pen_hash_bytes(text, length, manifest.hash, why);
    if (status == PEN_OK)
        status = pen_json_load(text, length, &json, why);
    if (status != PEN_OK)
        return status;
    status = read_fields(&json, &manifest, why);
    json_decref(json.object);
    if (status == PEN_OK)
        *out = manifest;
    else
        pen_manifest_release(&manifest);
    return status;
}
