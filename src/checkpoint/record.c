/*
 * The record of a share as JSON and back. It comes from another process: as
 * with files, every number has bounds and every name is checked.
 */
#include "checkpoint/record.h"

#include "base/json.h"
#include "checkpoint/internal.h"

#include <stdlib.h>
#include <string.h>

#define FORMAT "penstock-share"
#define VERSION 1

const char *pen_record_kind_name(enum pen_record_kind kind)
{
    static const char *const names[] = {"model", "optimizer", "sync"};
    return names[kind];
}

static pen_status refuse_memory(struct pen_text *why)
{
    pen_why(why, "no memory for the record of a share");
    return PEN_NOMEM;
}

/* Returns NULL when there is no memory, or a name is not UTF-8. */
static json_t *make_file(const struct pen_record_file *file)
{
    json_t *tensors = json_array();
    int failed = tensors == NULL;
    for (size_t i = 0; failed == 0 && i < file->num_tensors; i++)
        failed = json_array_append_new(tensors, json_string(file->tensors[i]));
    json_t *made = json_pack(
        "{s:s, s:s, s:I, s:s, s:I, s:o}", "kind",
        pen_record_kind_name(file->kind), "name", file->name, "bytes",
        (json_int_t)file->facts.num_bytes, "sha256", file->facts.hash,
        "tensor_bytes", (json_int_t)file->tensor_bytes, "tensors", tensors);
    if (failed == 0 && file->num_extras > 0)
        failed = json_object_set_new(
            made, "extras", json_integer((json_int_t)file->num_extras));
    if (failed == 0)
        return made;
    json_decref(made);
    return NULL;
}

pen_status pen_record_print(const struct pen_record *record,
                            struct pen_text *out, struct pen_text *why)
{
    json_t *files = json_array();
    int failed = files == NULL;
    for (size_t i = 0; failed == 0 && i < record->num_files; i++)
        failed = json_array_append_new(files, make_file(&record->files[i]));
    json_t *json =
        json_pack("{s:s, s:i, s:I, s:I, s:o}", "format", FORMAT, "version",
                  VERSION, "step", (json_int_t)record->step, "share",
                  (json_int_t)record->share, "files", files);
    char *text = failed == 0 ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (text != NULL)
        pen_text_add_string(out, text);
    free(text);
    return text != NULL && !out->has_failed ? PEN_OK : refuse_memory(why);
}

static bool is_kind(const char *word, enum pen_record_kind *out)
{
    for (enum pen_record_kind i = 0; word != NULL && i < PEN_RECORD_KINDS;
         i++) {
        if (strcmp(word, pen_record_kind_name(i)) != 0)
            continue;
        *out = i;
        return true;
    }
    return false;
}

/* "model.000003.safetensors" or a part of it, of kind model. */
static bool is_name_of(const char *name, enum pen_record_kind kind)
{
    const char *word = pen_record_kind_name(kind);
    return name != NULL && pen__is_file_name(name) &&
           strncmp(name, word, strlen(word)) == 0 && name[strlen(word)] == '.';
}

static pen_status read_names(const struct pen_json *json,
                             struct pen_record_file *out, struct pen_text *why)
{
    const json_t *list = json_object_get(json->object, "tensors");
    const json_t *name;
    size_t i;
    bool is_right = json_is_array(list) && json_array_size(list) > 0;
    out->tensors = calloc(json_array_size(list) + 1, sizeof *out->tensors);
    if (out->tensors == NULL)
        return refuse_memory(why);
    json_array_foreach(list, i, name)
    {
        is_right = is_right && json_string_length(name) > 0;
        out->tensors[i] = json_string_value(name);
    }
    out->num_tensors = json_array_size(list);
    if (is_right)
        return PEN_OK;
    pen_why(why, "%stensors must be a list of names", json->path);
    return PEN_INVALID;
}

/* Reads the extras, which only files with extras have. */
static pen_status read_extras(const struct pen_json *json,
                              struct pen_record_file *out, struct pen_text *why)
{
    uint64_t most = out->kind == PEN_RECORD_SYNC ? out->num_tensors : 0;
    uint64_t count = 0;
    pen_status status =
        pen_json_has(json, "extras")
            ? pen_json_read_count(json, "extras", 0, most, &count, why)
            : PEN_OK;
    out->num_extras = (size_t)count;
    return status;
}

static pen_status read_facts(const struct pen_json *json,
                             struct pen_record_file *out, struct pen_text *why)
{
    pen_status status = pen_json_read_count(
        json, "bytes", 0, PEN__MAX_FILE_BYTES, &out->facts.num_bytes, why);
    if (status == PEN_OK)
        status =
            pen_json_read_count(json, "tensor_bytes", 0, out->facts.num_bytes,
                                &out->tensor_bytes, why);
    if (status == PEN_OK)
        status = pen_json_read_hash(json, "sha256", out->facts.hash, why);
    return status;
}

static pen_status read_file(const json_t *list, size_t index,
                            struct pen_record_file *out, struct pen_text *why)
{
    struct pen_json json;
    pen_status status = pen_json_open_entry(list, "files", index, &json, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(
            &json, "kind name bytes sha256 tensor_bytes tensors extras", why);
    if (status != PEN_OK)
        return status;
    out->name = json_string_value(json_object_get(json.object, "name"));
    if (!is_kind(json_string_value(json_object_get(json.object, "kind")),
                 &out->kind) ||
        !is_name_of(out->name, out->kind)) {
        pen_why(why,
                "%skind must be model, optimizer or sync, and %sname must "
                "begin with it",
                json.path, json.path);
        return PEN_INVALID;
    }
    status = read_facts(&json, out, why);
    if (status == PEN_OK)
        status = read_names(&json, out, why);
    return status == PEN_OK ? read_extras(&json, out, why) : status;
}

static pen_status read_files(const struct pen_json *json,
                             struct pen_record *out, struct pen_text *why)
{
    const json_t *list = json_object_get(json->object, "files");
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > PEN_RECORD_MAX_FILES) {
        pen_why(why, "files must be a list of at most %u",
                PEN_RECORD_MAX_FILES);
        return PEN_INVALID;
    }
    out->files = calloc(count + 1, sizeof *out->files);
    if (out->files == NULL)
        return refuse_memory(why);
    out->num_files = count;
    pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < count; i++)
        status = read_file(list, i, &out->files[i], why);
    return status;
}

static pen_status read_fields(const struct pen_json *json,
                              struct pen_record *out, struct pen_text *why)
{
    pen_status status = pen_json_check_format(json, FORMAT, VERSION, why);
    if (status == PEN_OK)
        status =
            pen_json_check_keys(json, "format version step share files", why);
    if (status == PEN_OK)
        status = pen_json_read_count(json, "step", 0, PEN__MAX_STEP, &out->step,
                                     why);
    if (status == PEN_OK)
        status = pen_json_read_integer(json, "share", 0, PEN_RECORD_MAX_SHARE,
                                       &out->share, why);
    return status == PEN_OK ? read_files(json, out, why) : status;
}

pen_status pen_record_parse(const char *text, size_t length,
                            struct pen_record *out, struct pen_text *why)
{
    struct pen_json json;
    if (length > PEN_RECORD_MAX_BYTES) {
        pen_why(why, "the record has %zu bytes, more than %u", length,
                PEN_RECORD_MAX_BYTES);
        return PEN_INVALID;
    }
    pen_status status = pen_json_load(text, length, &json, why);
    if (status != PEN_OK)
        return status;
    struct pen_record record = {.json = json.object};
    status = read_fields(&json, &record, why);
    if (status == PEN_OK)
        *out = record;
    else
        pen_record_release(&record);
    return status;
}

void pen_record_release(struct pen_record *record)
{
    for (size_t i = 0; i < record->num_files; i++)
        free(record->files[i].tensors);
    free(record->files);
    json_decref(record->json);
    *record = (struct pen_record){.files = NULL};
}
