/*
 * YAML and JSON as settings with their places. libyaml reads both: it is the
 * one of the two readers that keeps places.
 */
#include "lint/tree.h"

#include "base/json.h"
#include "base/yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- places ---- */

struct source {
    const char *text;
    size_t length;
    size_t *lines; /* where each begins */
    uint32_t num_lines;
};

static bool open_source(struct source *source, const char *text, size_t length)
{
    uint32_t count = 1;
    for (size_t i = 0; i < length; i++)
        count += text[i] == '\n';
    *source = (struct source){text, length, NULL, count};
    source->lines = calloc(count, sizeof *source->lines);
    if (source->lines == NULL)
        return false;
    count = 1;
    for (size_t i = 0; i < length; i++)
        if (text[i] == '\n')
            source->lines[count++] = i + 1;
    return true;
}

/* Columns count letters, of which those beyond ASCII have several bytes. */
static size_t byte_at(const struct source *source, uint32_t line,
                      uint32_t column)
{
    if (line == 0 || line > source->num_lines)
        return source->length;
    size_t at = source->lines[line - 1];
    for (uint32_t i = 1; i < column && at < source->length; i++) {
        at++;
        while (at < source->length &&
               ((unsigned char)source->text[at] & 0xc0) == 0x80)
            at++;
    }
    return at;
}

size_t pen__lint_reason_place(const char *text, size_t length,
                              const char *reason)
{
    struct source source;
    unsigned line = 0;
    unsigned column = 0;
    size_t at = 0;
    if (sscanf(reason, "line %u, column %u", &line, &column) != 2 ||
        !open_source(&source, text, length))
        return 0;
    at = byte_at(&source, line, column);
    free(source.lines);
    return at;
}

/* Finds the letters of a scalar, without quotes; none where they differ. */
static void find_place(const struct source *source,
                       const struct pen_yaml_node *node, size_t *begin,
                       size_t *end)
{
    size_t at = byte_at(source, node->line, node->column);
    size_t length = strlen(node->text);
    if (at < source->length &&
        (source->text[at] == '"' || source->text[at] == '\''))
        at++;
    *begin = at;
    *end = at;
    if (length <= source->length - at &&
        memcmp(source->text + at, node->text, length) == 0)
        *end = at + length;
}

/* ---- settings ---- */

struct walker {
    struct source source;
    struct pen__lint_config *out;
    struct pen_text path;
    struct pen__lint_trouble *trouble;
};

static void walk(struct walker *walker, const struct pen_yaml_node *node);

static void add_setting(struct walker *walker,
                        const struct pen_yaml_node *entry)
{
    struct pen__lint_setting setting = {.name = NULL};
    const struct pen_yaml_node *value = entry;
    char *path = strdup(pen_text_string(&walker->path));
    if (path == NULL) {
        walker->out->has_failed = true;
        return;
    }
    setting.key = path;
    setting.name = path;
    setting.is_list = entry->kind == PEN_YAML_LIST;
    if (setting.is_list)
        value = entry->first;
    find_place(&walker->source, entry->key, &setting.begin, &setting.end);
    char none[1] = "";
    setting.value = none;
    if (value != NULL && value->kind == PEN_YAML_SCALAR) {
        setting.value = value->text;
        find_place(&walker->source, value, &setting.value_begin,
                   &setting.value_end);
    }
    pen__lint_config_add(walker->out, &setting);
    free(path);
}

/* libyaml lets a map have a key twice; the last one counts. */
static void note_duplicate(struct walker *walker,
                           const struct pen_yaml_node *map,
                           const struct pen_yaml_node *entry)
{
    size_t end;
    for (const struct pen_yaml_node *other = map->first; other != entry;
         other = other->next) {
        if (strcmp(other->key->text, entry->key->text) != 0)
            continue;
        if (walker->trouble->is_duplicate)
            return;
        walker->trouble->is_duplicate = true;
        pen_text_add(&walker->trouble->why, "the key '%s' is given twice",
                     entry->key->text);
        find_place(&walker->source, entry->key, &walker->trouble->at, &end);
        return;
    }
}

static void walk(struct walker *walker, const struct pen_yaml_node *node)
{
    for (const struct pen_yaml_node *entry = node->first; entry != NULL;
         entry = entry->next) {
        size_t length = walker->path.length;
        if (entry->key == NULL)
            return;
        if (node->num_entries <= 1000)
            note_duplicate(walker, node, entry);
        pen_text_add(&walker->path, "%s%s", length > 0 ? "." : "",
                     entry->key->text);
        if (entry->kind != PEN_YAML_MAP || entry->num_entries == 0)
            add_setting(walker, entry);
        else
            walk(walker, entry);
        if (walker->path.length > length) {
            walker->path.length = length;
            walker->path.bytes[length] = '\0';
        }
    }
}

static pen_status read_tree(const char *text, size_t length,
                            struct pen__lint_config *out,
                            struct pen__lint_trouble *trouble)
{
    struct pen_yaml_node *root = NULL;
    pen_status status = pen_yaml_load(text, length, &root, &trouble->why);
    if (status != PEN_OK) {
        trouble->at = pen__lint_reason_place(text, length,
                                             pen_text_string(&trouble->why));
        trouble->is_ours =
            strstr(pen_text_string(&trouble->why), "supported") != NULL ||
            strstr(pen_text_string(&trouble->why), "must") != NULL ||
            strstr(pen_text_string(&trouble->why), "too deep") != NULL;
        return status;
    }
    struct walker walker = {
        .out = out, .path = PEN_TEXT_EMPTY, .trouble = trouble};
    if (!open_source(&walker.source, text, length))
        status = PEN_NOMEM;
    else if (root != NULL && root->kind == PEN_YAML_MAP)
        walk(&walker, root);
    free(walker.source.lines);
    pen_text_release(&walker.path);
    pen_yaml_free(root);
    return status;
}

pen_status pen__lint_yaml_read(const char *text, size_t length,
                               struct pen__lint_config *out,
                               struct pen__lint_trouble *trouble)
{
    return read_tree(text, length, out, trouble);
}

/*
 * Reads JSON. For a key that is given twice, the reader of YAML finds the
 * place.
 */
pen_status pen__lint_json_read(const char *text, size_t length,
                               struct pen__lint_config *out,
                               struct pen__lint_trouble *trouble)
{
    struct pen_json json = {.object = NULL};
    pen_status status = pen_json_load(text, length, &json, &trouble->why);
    json_decref(json.object);
    bool is_duplicate =
        status == PEN_INVALID &&
        strstr(pen_text_string(&trouble->why), "duplicate") != NULL;
    if (status != PEN_OK && !is_duplicate) {
        trouble->at = pen__lint_reason_place(text, length,
                                             pen_text_string(&trouble->why));
        return status;
    }
    pen_text_clear(&trouble->why);
    status = read_tree(text, length, out, trouble);
    /* Text that is valid JSON but not YAML is not the user's fault. */
    trouble->is_ours = status == PEN_INVALID;
    return status;
}
