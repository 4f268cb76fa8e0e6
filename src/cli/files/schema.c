/*
 * penstock schema: JSON schemas of all answers, and of the files that are JSON
 * or YAML. Files in src/cli/schemas refer to definitions of defs.json; what is
 * printed has them inside.
 */
#include "cli/program/cli.h"

#include "base/bug.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/table.h"
#include "cli/files/schemas.h"
#include "cli/program/answer.h"
#include "cli/program/field_rows.h"
#include "cli/program/line.h"

#include <stdlib.h>
#include <string.h>

#define SHARED "defs"
#define REFERENCE "#/$defs/"

static const struct pen__schema_text *find(const char *name)
{
    const struct pen__schema_text *schema = pen__schemas;
    while (schema->name != NULL && strcmp(schema->name, name) != 0)
        schema++;
    return schema->name == NULL ? NULL : schema;
}

/* Loads a schema; NULL when memory runs out. */
static json_t *load(const char *name)
{
    json_error_t error;
    const struct pen__schema_text *schema = find(name);
    PEN_BUG_UNLESS(schema != NULL);
    return json_loads(schema->text, 0, &error);
}

/* ---- definitions ---- */

/* Adds the shared definitions that a value refers to, and theirs. */
static void add_definitions(const json_t *value, const json_t *shared,
                            json_t *out);

static void add_definition(const char *reference, const json_t *shared,
                           json_t *out)
{
    const char *name = reference + strlen(REFERENCE);
    if (json_object_get(out, name) != NULL)
        return;
    json_t *definition = json_object_get(shared, name);
    PEN_BUG_UNLESS(definition != NULL);
    json_object_set(out, name, definition);
    add_definitions(definition, shared, out);
}

static void add_definitions(const json_t *value, const json_t *shared,
                            json_t *out)
{
    const char *key;
    json_t *item;
    size_t i;
    json_array_foreach(value, i, item) add_definitions(item, shared, out);
    json_object_foreach((json_t *)value, key, item)
    {
        if (strcmp(key, "$ref") == 0)
            add_definition(json_string_value(item), shared, out);
        else
            add_definitions(item, shared, out);
    }
}

/* Assembles the schemas; NULL when memory runs out. */
static json_t *assemble(const char *name)
{
    json_t *shared = load(SHARED);
    json_t *schema = load(name);
    json_t *definitions = json_object();
    add_definitions(schema, shared, definitions);
    if (json_object_size(definitions) > 0)
        json_object_set(schema, "$defs", definitions);
    json_decref(definitions);
    json_decref(shared);
    return schema;
}

/* ---- what is printed ---- */

static int print_schema(const char *name)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    json_t *schema = assemble(name);
    char *bytes = schema == NULL ? NULL : json_dumps(schema, JSON_INDENT(2));
    if (bytes == NULL)
        text.has_failed = 1;
    else
        pen_text_add(&text, "%s\n", bytes);
    int code = pen__print(&text);
    free(bytes);
    json_decref(schema);
    pen_text_release(&text);
    return code;
}

static const char *text_of(const json_t *schema, const char *key)
{
    const char *text = json_string_value(json_object_get(schema, key));
    return text == NULL ? "" : text;
}

static bool is_answer(const json_t *schema)
{
    const json_t *properties = json_object_get(schema, "properties");
    return json_object_get(properties, "notes") != NULL;
}

static void add_row(const char *name, json_t **rows, struct pen_table *table)
{
    json_t *schema = load(name);
    const char *kind = is_answer(schema) ? "answer" : "file";
    const char *title = text_of(schema, "title");
    pen__json_append(rows, json_pack("{s:s, s:s, s:s}", "name", name, "kind",
                                     kind, "title", title));
    pen_table_add(table, "%s", name);
    pen_table_add(table, "%s", kind);
    pen_table_add(table, "%s", title);
    json_decref(schema);
}

static int list(void)
{
    static const struct pen_column columns[] = {
        {"name", false, false}, {"of", false, false}, {"what", false, true}};
    struct pen_table table;
    struct pen_text text = PEN_TEXT_EMPTY;
    json_t *rows = json_array();
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (const struct pen__schema_text *it = pen__schemas; it->name != NULL;
         it++)
        if (strcmp(it->name, SHARED) != 0)
            add_row(it->name, &rows, &table);
    int code;
    if (pen__answer_is_json()) {
        code = pen__print_json("schema", json_pack("{s:O}", "schemas", rows));
    } else {
        pen_table_print(&table, pen__page_width(), &text);
        code = pen__print(&text);
    }
    pen_table_release(&table);
    pen_text_release(&text);
    json_decref(rows);
    return code;
}

static int refuse(const char *name)
{
    struct pen_nearest nearest = pen_nearest_to(name);
    for (const struct pen__schema_text *it = pen__schemas; it->name != NULL;
         it++)
        if (strcmp(it->name, SHARED) != 0)
            pen_nearest_offer(&nearest, it->name);
    pen_log(PEN_LOG_ERROR,
            "there is no schema '%s'%s%s; `penstock schema` lists all", name,
            nearest.best != NULL ? "; did you mean " : "",
            nearest.best != NULL ? nearest.best : "");
    return PEN__EXIT_USAGE;
}

/* ---- the command ---- */

static const struct pen__field fields[] = {JSON("print the list as JSON")};

static const struct pen__line command_line = {
    .name = "penstock schema",
    .fields = fields,
    .num_fields = sizeof fields / sizeof *fields,
    .usage = "[NAME]",
    .most_words = 1,
    .doc = "Lists JSON schemas, or prints the one of this name.\vThere is one "
           "for each answer of --json and for each file that is JSON or YAML. "
           "New releases may add keys, but do not change or remove any."};

static int run(int argc, char **argv)
{
    struct pen__rest words = {NULL, 0};
    if (!pen__line_read(&command_line, argc, argv, &words))
        return PEN__EXIT_USAGE;
    if (words.count == 0)
        return list();
    const char *name = words.words[0];
    if (strcmp(name, SHARED) == 0 || find(name) == NULL)
        return refuse(name);
    return print_schema(name);
}

const struct pen__command pen__schema = {
    "schema", "prints JSON schemas of answers and files", run, NULL};
