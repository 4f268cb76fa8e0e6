#include "core/recipe_text.h"

#include <string.h>

/* ---- printing ---- */

static void add_list(const struct pen_recipe_field *field, unsigned bits,
                     struct pen_text *out)
{
    const char *before = "[";
    for (unsigned i = 0; i < field->most; i++) {
        if ((bits >> i & 1) == 0)
            continue;
        pen_text_add(out, "%s\"%s\"", before, field->names[i]);
        before = ", ";
    }
    pen_text_add_string(out, "]");
}

static void add_value(const struct pen_recipe_field *field, unsigned value,
                      struct pen_text *out)
{
    switch (field->kind) {
    case PEN_RECIPE_FLAG:
        pen_text_add_string(out, "true");
        break;
    case PEN_RECIPE_WORD:
        pen_text_add(out, "\"%s\"", field->names[value]);
        break;
    case PEN_RECIPE_LIST:
        add_list(field, value, out);
        break;
    case PEN_RECIPE_COUNT:
    case PEN_RECIPE_CHOICE:
        pen_text_add(out, "%u", value);
        break;
    }
}

void pen_recipe_print(const struct pen_recipe *recipe, struct pen_text *out)
{
    const char *before = "{";
    for (const struct pen_recipe_field *field = pen_recipe_fields;
         field->key != NULL; field++) {
        unsigned value = pen_recipe_get(recipe, field);
        if (value == 0)
            continue;
        pen_text_add(out, "%s\"%s\": ", before, field->key);
        add_value(field, value, out);
        before = ", ";
    }
    pen_text_add_string(out, "}");
}

/* ---- reading ---- */

static pen_status check_keys(const struct pen_json *json, struct pen_text *why)
{
    struct pen_text known = PEN_TEXT_EMPTY;
    for (const struct pen_recipe_field *field = pen_recipe_fields;
         field->key != NULL; field++)
        pen_text_add(&known, "%s%s", known.length == 0 ? "" : " ", field->key);
    pen_status status = pen_json_check_keys(json, pen_text_string(&known), why);
    pen_text_release(&known);
    return status;
}

static pen_status refuse(const struct pen_json *json,
                         const struct pen_recipe_field *field,
                         struct pen_text *why)
{
    pen_why(why, "%s%s must be ", json->path, field->key);
    switch (field->kind) {
    case PEN_RECIPE_FLAG:
        pen_why(why, "true or false");
        break;
    case PEN_RECIPE_WORD:
    case PEN_RECIPE_LIST:
        pen_why(why, field->kind == PEN_RECIPE_WORD
                         ? "one of"
                         : "a list of one or more different words of");
        for (unsigned i = 0; i < field->most; i++)
            pen_why(why, " \"%s\"", field->names[i]);
        break;
    case PEN_RECIPE_COUNT:
        pen_why(why, "an integer from 1 to %u", field->most);
        break;
    case PEN_RECIPE_CHOICE:
        pen_why(why, "one of");
        for (unsigned i = 1; i < 32; i++)
            if ((field->choices >> i & 1) != 0)
                pen_why(why, " %u", i);
        break;
    }
    return PEN_INVALID;
}

/*
 * Returns the place of a text among the names; their number when it is not
 * there.
 */
static unsigned find_name(const struct pen_recipe_field *field,
                          const json_t *value)
{
    const char *text = json_string_value(value);
    unsigned i = 0;
    while (i < field->most &&
           (text == NULL || strcmp(text, field->names[i]) != 0))
        i++;
    return i;
}

static bool read_bits(const struct pen_recipe_field *field, const json_t *list,
                      unsigned *out)
{
    *out = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        unsigned name = find_name(field, json_array_get(list, i));
        if (name == field->most || (*out >> name & 1) != 0)
            return false;
        *out |= 1u << name;
    }
    return *out != 0;
}

static bool read_count(const struct pen_recipe_field *field,
                       const json_t *value, unsigned *out)
{
    json_int_t number = json_integer_value(value);
    if (number < 1 || number > UINT32_MAX ||
        !pen_recipe_allows(field, (unsigned)number))
        return false;
    *out = (unsigned)number;
    return true;
}

static bool read_value(const struct pen_recipe_field *field,
                       const json_t *value, unsigned *out)
{
    switch (field->kind) {
    case PEN_RECIPE_FLAG:
        *out = json_is_true(value);
        return json_is_boolean(value);
    case PEN_RECIPE_WORD:
        *out = find_name(field, value);
        return *out < field->most;
    case PEN_RECIPE_LIST:
        return read_bits(field, value, out);
    case PEN_RECIPE_COUNT:
    case PEN_RECIPE_CHOICE:
        return read_count(field, value, out);
    }
    return false;
}

pen_status pen__recipe_read(const struct pen_json *json, struct pen_recipe *out,
                            struct pen_text *why)
{
    struct pen_recipe recipe = {.dispatcher = PEN_DISPATCHER_ALLTOALL};
    pen_status status = check_keys(json, why);
    if (status != PEN_OK)
        return status;
    for (const struct pen_recipe_field *field = pen_recipe_fields;
         field->key != NULL; field++) {
        const json_t *value = json_object_get(json->object, field->key);
        unsigned number = 0;
        if (value != NULL && !read_value(field, value, &number))
            return refuse(json, field, why);
        pen_recipe_set(&recipe, field, number);
    }
    *out = recipe;
    return PEN_OK;
}
