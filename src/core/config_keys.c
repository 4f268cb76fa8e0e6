#include "core/config_keys.h"

#include "base/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_CONFIG_BYTES (16u << 20)

pen_status pen__config_read(const char *source, struct pen_text *path,
                            struct pen_text *text, struct pen_text *why)
{
    struct stat about;
    pen_text_add_string(path, source);
    if (stat(source, &about) == 0 && S_ISDIR(about.st_mode))
        pen_text_add_string(path, "/config.json");
    return pen_file_read(pen_text_string(path), MAX_CONFIG_BYTES, text, why);
}

bool pen__config_has(const struct pen_json *json, const char *key)
{
    const json_t *value = json_object_get(json->object, key);
    return value != NULL && !json_is_null(value);
}

pen_status pen__config_flag(const struct pen_json *json, const char *key,
                            bool *out, struct pen_text *why)
{
    return pen__config_has(json, key)
               ? pen_json_read_boolean(json, key, out, why)
               : PEN_OK;
}

pen_status pen__config_number(const struct pen_json *json, const char *key,
                              double least, double most, double *out,
                              struct pen_text *why)
{
    double value = 0;
    const struct pen_json_number number = {key, &value, least, most};
    if (!pen__config_has(json, key))
        return PEN_OK;
    pen_status status = pen_json_read_numbers(json, &number, 1, why);
    if (status == PEN_OK)
        *out = value;
    return status;
}

pen_status pen__config_count(const struct pen_json *json,
                             const struct pen__config_count *optional,
                             uint32_t *out, struct pen_text *why)
{
    if (pen__config_has(json, optional->key))
        return pen_json_read_integer(json, optional->key, 1, optional->most,
                                     out, why);
    *out =
        pen_json_has(json, optional->key) ? optional->null : optional->absent;
    return PEN_OK;
}

pen_status pen__config_demand(const struct pen_json *json, const char *key,
                              bool demanded, struct pen_text *why)
{
    bool found = demanded;
    pen_status status = pen__config_flag(json, key, &found, why);
    if (status != PEN_OK || found == demanded)
        return status;
    pen_why(why, "%s%s is %s; only %s is supported", json->path, key,
            found ? "true" : "false", demanded ? "true" : "false");
    return PEN_INVALID;
}

pen_status pen__config_word(const struct pen_json *json, const char *key,
                            const struct pen__config_word *words, size_t count,
                            int *out, struct pen_text *why)
{
    if (!pen__config_has(json, key))
        return PEN_OK;
    const char *found = json_string_value(json_object_get(json->object, key));
    for (size_t i = 0; found != NULL && i < count; i++) {
        if (strcmp(found, words[i].text) == 0) {
            *out = words[i].value;
            return PEN_OK;
        }
    }
    pen_why(why, "%s%s ", json->path, key);
    if (found != NULL && why != NULL) {
        pen_why(why, "\"");
        pen_text_add_printable(why, found, strnlen(found, 40));
        pen_why(why, "\" is not supported; it ");
    }
    pen_why(why, "must be ");
    for (size_t i = 0; i < count; i++)
        pen_why(why, "%s\"%s\"",
                i == 0          ? ""
                : i + 1 < count ? ", "
                                : " or ",
                words[i].text);
    return PEN_INVALID;
}

void pen__config_add_word(struct pen_text *out, const char *key,
                          const char *word)
{
    pen_text_add(out, ",\n  \"%s\": \"%s\"", key, word);
}

void pen__config_add_count(struct pen_text *out, const char *key,
                           uint32_t count)
{
    pen_text_add(out, ",\n  \"%s\": %u", key, count);
}

void pen__config_add_flag(struct pen_text *out, const char *key, bool flag)
{
    pen_text_add(out, ",\n  \"%s\": %s", key, flag ? "true" : "false");
}

void pen__config_add_real(struct pen_text *out, const char *key, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.15g", value);
    if (strtod(text, NULL) != value)
        snprintf(text, sizeof text, "%.17g", value);
    bool is_whole = value == floor(value) && fabs(value) < 1e15;
    pen_text_add(out, ",\n  \"%s\": %s%s", key, text, is_whole ? ".0" : "");
}
