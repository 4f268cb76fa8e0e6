#include "cli/program/fields.h"

#include "base/bug.h"
#include "base/text.h"
#include "cli/program/cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_KEY = 256 };

static const void *place_of(const struct pen__field *field, const void *args)
{
    return (const char *)args + field->offset;
}

void pen__list_release(struct pen__list *list)
{
    free(list->words);
    *list = (struct pen__list){0};
}

static bool is_output(const struct pen__field *field)
{
    return strcmp(field->name, "output") == 0;
}

static int key_of(const struct pen__field *field, size_t index)
{
    return is_output(field) ? 'o' : FIRST_KEY + (int)index;
}

void pen__fields_list(const struct pen__field *fields, size_t count,
                      struct argp_option out[PEN__FIELDS_MAX + 1])
{
    PEN_BUG_UNLESS(count <= PEN__FIELDS_MAX);
    for (size_t i = 0; i < count; i++)
        out[i] = (struct argp_option){.name = fields[i].name,
                                      .key = key_of(&fields[i], i),
                                      .arg = fields[i].value,
                                      .doc = fields[i].help,
                                      .group = 1 + (int)i};
    out[count] = (struct argp_option){0};
}

void pen__fields_hide(const char *const *names, struct argp_option *options)
{
    for (size_t i = 0; names[i] != NULL; i++) {
        size_t at = 0;
        while (options[at].name != NULL &&
               strcmp(options[at].name, names[i]) != 0)
            at++;
        PEN_BUG_UNLESS(options[at].name != NULL);
        options[at].flags |= OPTION_HIDDEN;
    }
}

void pen__fields_show(const char *const *names, struct argp_option *options)
{
    for (size_t at = 0; options[at].name != NULL; at++) {
        size_t i = 0;
        while (names[i] != NULL && strcmp(options[at].name, names[i]) != 0)
            i++;
        if (names[i] == NULL)
            options[at].flags |= OPTION_HIDDEN;
    }
}

/*
 * Suffixes of numbers: k to T are powers of 1000, Ki to Ti powers of 1024, B is
 * a billion. In a size (sequence length, batch) k is 1024: 8k tokens are 8192.
 */
static bool read_times(const char *letters, bool is_size, double *out)
{
    static const struct {
        const char *letters;
        double times;
    } all[] = {{"", 1},        {"k", 1e3},     {"K", 1e3},     {"M", 1e6},
               {"B", 1e9},     {"G", 1e9},     {"T", 1e12},    {"Ki", 0x1p10},
               {"ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(letters, all[i].letters) != 0)
            continue;
        *out = is_size && all[i].times == 1e3 ? 0x1p10 : all[i].times;
        return true;
    }
    return false;
}

static double read_number(const struct pen__field *field, const char *text,
                          const struct argp_state *state)
{
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    double times = 1;
    bool is_size = field->kind == PEN__FIELD_SIZE;
    bool is_count = field->kind != PEN__FIELD_REAL;
    bool is_read = is_count ? read_times(end, is_size, &times) : *end == '\0';
    number *= times;
    if (end == text || !is_read || errno != 0 ||
        !(number >= field->least && number <= field->most) ||
        (is_count && number != floor(number)))
        argp_error(state, "--%s must be a %s from %.15g to %.15g, not '%s'",
                   field->name, is_count ? "whole number" : "number",
                   field->least, field->most, text);
    return number;
}

static unsigned read_word(const struct pen__field *field, const char *text,
                          const struct argp_state *state)
{
    struct pen_text all = PEN_TEXT_EMPTY;
    for (unsigned i = 0; field->words[i] != NULL; i++) {
        if (strcmp(field->words[i], text) == 0) {
            pen_text_release(&all);
            return i;
        }
        const char *before = i == 0                        ? ""
                             : field->words[i + 1] == NULL ? " or "
                                                           : ", ";
        pen_text_add(&all, "%s%s", before, field->words[i]);
    }
    argp_error(state, "--%s must be %s, not '%s'", field->name,
               pen_text_string(&all), text);
    pen_text_release(&all);
    return 0;
}

error_t pen__list_add(struct pen__list *list, const char *word)
{
    const char **words =
        realloc(list->words, (list->count + 1) * sizeof *list->words);
    if (words == NULL)
        return ENOMEM;
    list->words = words;
    list->words[list->count++] = word;
    return 0;
}

static error_t append(struct pen__list *list, const char *word)
{
    list->is_open = true;
    return pen__list_add(list, word);
}

/* Takes a word that is not an option: it belongs to the list before it. */
static error_t take_word(const struct pen__field *fields, size_t count,
                         const char *word, struct argp_state *state)
{
    for (size_t i = 0; i < count; i++) {
        struct pen__list *list =
            (void *)((char *)state->input + fields[i].offset);
        if (fields[i].kind == PEN__FIELD_LIST && list->is_open)
            return append(list, word);
    }
    argp_error(state, "unexpected argument '%s'", word);
    return EINVAL;
}

static error_t take_field(const struct pen__field *field, const char *text,
                          struct argp_state *state)
{
    void *place = (char *)state->input + field->offset;
    switch (field->kind) {
    case PEN__FIELD_FLAG:
        *(bool *)place = true;
        return 0;
    case PEN__FIELD_JSON:
        return 0;
    case PEN__FIELD_TEXT:
        *(const char **)place = text;
        return 0;
    case PEN__FIELD_COUNT:
    case PEN__FIELD_SIZE:
        *(uint64_t *)place = (uint64_t)read_number(field, text, state);
        return 0;
    case PEN__FIELD_SMALL:
        *(uint32_t *)place = (uint32_t)read_number(field, text, state);
        return 0;
    case PEN__FIELD_REAL:
        *(double *)place = read_number(field, text, state);
        return 0;
    case PEN__FIELD_WORD:
        *(unsigned *)place = read_word(field, text, state);
        return 0;
    case PEN__FIELD_LIST:
        return append(place, text);
    }
    return ARGP_ERR_UNKNOWN;
}

error_t pen__fields_parse(const struct pen__field *fields, size_t count,
                          int key, char *text, struct argp_state *state)
{
    if (key == ARGP_KEY_ARG)
        return take_word(fields, count, text, state);
    size_t index = 0;
    while (index < count && key_of(&fields[index], index) != key)
        index++;
    if (index == count)
        return ARGP_ERR_UNKNOWN;
    for (size_t i = 0; i < count; i++)
        if (fields[i].kind == PEN__FIELD_LIST)
            ((struct pen__list *)(void *)((char *)state->input +
                                          fields[i].offset))
                ->is_open = false;
    return take_field(&fields[index], text, state);
}

size_t pen__fields_find(const struct pen__field *fields, size_t count,
                        const char *name)
{
    size_t index = 0;
    while (index < count && strcmp(fields[index].name, name) != 0)
        index++;
    return index;
}

size_t pen__fields_index(int key)
{
    return (size_t)key - FIRST_KEY;
}

int pen__fields_key(size_t index)
{
    return FIRST_KEY + (int)index;
}

static json_t *print_list(const struct pen__list *list)
{
    json_t *words = json_array();
    for (size_t i = 0; i < list->count && words != NULL; i++)
        pen__json_append(&words, json_string(list->words[i]));
    return words;
}

/* Returns NULL for an option that was not given, too. */
static json_t *print_field(const struct pen__field *field, const void *args)
{
    const void *place = place_of(field, args);
    switch (field->kind) {
    case PEN__FIELD_FLAG:
        return json_boolean(*(const bool *)place);
    case PEN__FIELD_JSON:
        return NULL;
    case PEN__FIELD_TEXT:
        return json_string(*(const char *const *)place);
    case PEN__FIELD_COUNT:
    case PEN__FIELD_SIZE:
        return json_integer((json_int_t) * (const uint64_t *)place);
    case PEN__FIELD_SMALL:
        return json_integer((json_int_t) * (const uint32_t *)place);
    case PEN__FIELD_REAL:
        return json_real(*(const double *)place);
    case PEN__FIELD_WORD:
        return json_string(field->words[*(const unsigned *)place]);
    case PEN__FIELD_LIST:
        return print_list(place);
    }
    return NULL;
}

json_t *pen__fields_print(const struct pen__field *fields, size_t count,
                          const void *args)
{
    json_t *object = json_object();
    for (size_t i = 0; i < count && object != NULL; i++) {
        json_t *value = print_field(&fields[i], args);
        if (value != NULL &&
            json_object_set_new(object, fields[i].name, value) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}
