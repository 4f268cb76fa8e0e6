#include "base/json.h"

#include "base/bug.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void why_printable(struct pen_text *why, const char *text)
{
    if (why != NULL)
        pen_text_add_printable(why, text, strlen(text));
}

pen_status pen_json_load(const char *text, size_t length, struct pen_json *out,
                         struct pen_text *why)
{
    json_error_t error;
    json_t *object = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (object == NULL) {
        pen_why(why, "line %d, column %d: ", error.line, error.column);
        why_printable(why, error.text);
        return PEN_INVALID;
    }
    if (!json_is_object(object)) {
        pen_why(why, "the file must be one JSON object");
        json_decref(object);
        return PEN_INVALID;
    }
    *out = (struct pen_json){.object = object};
    return PEN_OK;
}

static pen_status check_name(const struct pen_json *json, const char *format,
                             struct pen_text *why)
{
    const char *found =
        json_string_value(json_object_get(json->object, "format"));
    if (found == NULL || strcmp(found, format) != 0) {
        pen_why(why, "%sformat must be \"%s\"", json->path, format);
        return PEN_INVALID;
    }
    return PEN_OK;
}

pen_status pen_json_read_version(const struct pen_json *json,
                                 const char *format, uint32_t newest,
                                 uint32_t *out, struct pen_text *why)
{
    pen_status status = check_name(json, format, why);
    if (status != PEN_OK)
        return status;
    return pen_json_read_integer(json, "version", 1, newest, out, why);
}

pen_status pen_json_check_format(const struct pen_json *json,
                                 const char *format, uint32_t version,
                                 struct pen_text *why)
{
    uint32_t ignored;
    pen_status status = check_name(json, format, why);
    if (status != PEN_OK)
        return status;
    return pen_json_read_integer(json, "version", version, version, &ignored,
                                 why);
}

static bool is_listed(const char *key, const char *list)
{
    size_t length = strlen(key);
    for (const char *at = list; *at != '\0'; at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");
        if (word == length && memcmp(at, key, length) == 0)
            return true;
        at += word;
    }
    return false;
}

pen_status pen_json_check_keys(const struct pen_json *json, const char *known,
                               struct pen_text *why)
{
    const char *key;
    json_t *value;
    json_object_foreach(json->object, key, value)
    {
        if (is_listed(key, known))
            continue;
        pen_why(why, "%s", json->path);
        why_printable(why, key);
        pen_why(why, " is not a key of this format; expected one of %s", known);
        return PEN_INVALID;
    }
    return PEN_OK;
}

pen_status pen_json_require_keys(const struct pen_json *json,
                                 const char *required, struct pen_text *why)
{
    for (const char *at = required; *at != '\0'; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        char key[32];
        PEN_BUG_UNLESS(length < sizeof key);
        memcpy(key, at, length);
        key[length] = '\0';
        if (!pen_json_has(json, key)) {
            pen_why(why, "%s%s is missing", json->path, key);
            return PEN_INVALID;
        }
        at += length;
    }
    return PEN_OK;
}

bool pen_json_has(const struct pen_json *json, const char *key)
{
    return json_object_get(json->object, key) != NULL;
}

pen_status pen_json_read_numbers(const struct pen_json *json,
                                 const struct pen_json_number *numbers,
                                 size_t count, struct pen_text *why)
{
    for (size_t i = 0; i < count; i++) {
        const struct pen_json_number *number = &numbers[i];
        const json_t *found = json_object_get(json->object, number->key);
        if (found == NULL)
            continue;
        double value = json_number_value(found);
        if (!json_is_number(found) || value < number->least ||
            value > number->most) {
            pen_why(why, "%s%s must be a number from %g to %g", json->path,
                    number->key, number->least, number->most);
            return PEN_INVALID;
        }
        *number->value = value + 0.0; /* never -0 */
    }
    return PEN_OK;
}

pen_status pen_json_read_unit(const struct pen_json *json, enum pen_unit unit,
                              const struct pen_json_number *number,
                              struct pen_text *why)
{
    const json_t *found = json_object_get(json->object, number->key);
    if (!json_is_string(found))
        return pen_json_read_numbers(json, number, 1, why);
    double value = 0;
    if (pen_unit_parse(unit, json_string_value(found), &value) &&
        value >= number->least && value <= number->most) {
        *number->value = value;
        return PEN_OK;
    }
    pen_why(why,
            "%s%s must be a number from %g to %g, or a text with a unit, such "
            "as \"%s\"",
            json->path, number->key, number->least, number->most,
            pen_unit_example(unit));
    return PEN_INVALID;
}

pen_status pen_json_read_integer(const struct pen_json *json, const char *key,
                                 uint32_t least, uint32_t most, uint32_t *out,
                                 struct pen_text *why)
{
    const json_t *found = json_object_get(json->object, key);
    json_int_t value = json_integer_value(found);
    if (json_is_integer(found) && value >= (json_int_t)least &&
        value <= (json_int_t)most) {
        *out = (uint32_t)value;
        return PEN_OK;
    }
    pen_why(why, "%s%s must be ", json->path, key);
    if (least == most)
        pen_why(why, "%u", least);
    else
        pen_why(why, "an integer from %u to %u", least, most);
    return PEN_INVALID;
}

pen_status pen_json_read_count(const struct pen_json *json, const char *key,
                               uint64_t least, uint64_t most, uint64_t *out,
                               struct pen_text *why)
{
    const json_t *found = json_object_get(json->object, key);
    json_int_t value = json_integer_value(found);
    if (json_is_integer(found) && value >= 0 && (uint64_t)value >= least &&
        (uint64_t)value <= most) {
        *out = (uint64_t)value;
        return PEN_OK;
    }
    pen_why(why, "%s%s must be an integer from %" PRIu64 " to %" PRIu64,
            json->path, key, least, most);
    return PEN_INVALID;
}

bool pen_json_is_word(const char *text, size_t size)
{
    size_t length = 0;
    while (length < size && text[length] >= ' ' && text[length] <= '~' &&
           text[length] != '"' && text[length] != '\\')
        length++;
    return length > 0 && length < size && text[length] == '\0';
}

pen_status pen_json_read_word(const struct pen_json *json, const char *key,
                              char *out, size_t size, struct pen_text *why)
{
    const char *found = json_string_value(json_object_get(json->object, key));
    if (found == NULL || !pen_json_is_word(found, size)) {
        pen_why(why,
                "%s%s must be a string of 1 to %zu printable ASCII characters "
                "without quotes and backslashes",
                json->path, key, size - 1);
        return PEN_INVALID;
    }
    memcpy(out, found, strlen(found) + 1);
    return PEN_OK;
}

pen_status pen_json_read_choice(const struct pen_json *json, const char *key,
                                const char *const *words, unsigned *out,
                                struct pen_text *why)
{
    const char *found = json_string_value(json_object_get(json->object, key));
    for (unsigned i = 0; found != NULL && words[i] != NULL; i++) {
        if (strcmp(found, words[i]) == 0) {
            *out = i;
            return PEN_OK;
        }
    }
    pen_why(why, "%s%s must be one of", json->path, key);
    for (unsigned i = 0; words[i] != NULL; i++)
        pen_why(why, " \"%s\"", words[i]);
    return PEN_INVALID;
}

pen_status pen_json_read_hash(const struct pen_json *json, const char *key,
                              char out[PEN_HASH_SIZE], struct pen_text *why)
{
    const char *found = json_string_value(json_object_get(json->object, key));
    if (found == NULL || !pen_hash_is_valid(found)) {
        pen_why(why, "%s%s must be 64 hexadecimal digits", json->path, key);
        return PEN_INVALID;
    }
    memcpy(out, found, PEN_HASH_SIZE);
    return PEN_OK;
}

pen_status pen_json_read_boolean(const struct pen_json *json, const char *key,
                                 bool *out, struct pen_text *why)
{
    const json_t *found = json_object_get(json->object, key);
    if (found == NULL)
        return PEN_OK;
    if (!json_is_boolean(found)) {
        pen_why(why, "%s%s must be true or false", json->path, key);
        return PEN_INVALID;
    }
    *out = json_is_true(found);
    return PEN_OK;
}

pen_status pen_json_open(const struct pen_json *json, const char *key,
                         struct pen_json *out, struct pen_text *why)
{
    json_t *object = json_object_get(json->object, key);
    if (!json_is_object(object)) {
        pen_why(why, "%s%s must be an object", json->path, key);
        return PEN_INVALID;
    }
    struct pen_json opened = {.object = object};
    int length =
        snprintf(opened.path, sizeof opened.path, "%s%s.", json->path, key);
    PEN_BUG_UNLESS(length < (int)sizeof opened.path);
    *out = opened;
    return PEN_OK;
}

pen_status pen_json_open_entry(const json_t *list, const char *name,
                               size_t index, struct pen_json *out,
                               struct pen_text *why)
{
    json_t *object = json_array_get(list, index);
    if (!json_is_object(object)) {
        pen_why(why, "%s[%zu] must be an object", name, index);
        return PEN_INVALID;
    }
    *out = (struct pen_json){.object = object};
    int length = snprintf(out->path, sizeof out->path, "%s[%zu].", name, index);
    PEN_BUG_UNLESS(length < (int)sizeof out->path);
    return PEN_OK;
}
