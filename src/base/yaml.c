/*
 * libyaml gives events; this makes them a tree and keeps their places. The
 * library counts lines and columns from 0.
 */
#include "base/yaml.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct reader {
    yaml_parser_t parser;
    const char *source;
    size_t length;
    struct pen_yaml_node *root;
    struct pen_yaml_node *open[PEN_YAML_MAX_DEPTH]; /* the innermost last */
    uint32_t depth;
    struct pen_yaml_node *key; /* of the value that comes next, owned */
    bool is_over;              /* the document has ended */
    struct pen_text *why;
};

/* ---- the tree ---- */

static void free_node(struct pen_yaml_node *node)
{
    if (node->key != NULL)
        free(node->key->text);
    free(node->key);
    free(node->text);
    free(node);
}

/*
 * Frees without recursion: the children of a node are put in front of its
 * successors.
 */
void pen_yaml_free(struct pen_yaml_node *root)
{
    while (root != NULL) {
        struct pen_yaml_node *next = root->next;
        if (root->first != NULL) {
            root->last->next = next;
            next = root->first;
        }
        free_node(root);
        root = next;
    }
}

static pen_status refuse_at(struct pen_text *why, size_t line, size_t column,
                            const char *reason)
{
    pen_why(why, "line %zu, column %zu: %s", line + 1, column + 1, reason);
    return PEN_INVALID;
}

static pen_status refuse_event(struct reader *reader, const yaml_event_t *event,
                               const char *reason)
{
    return refuse_at(reader->why, event->start_mark.line,
                     event->start_mark.column, reason);
}

static pen_status make_node(struct reader *reader, const yaml_event_t *event,
                            enum pen_yaml_kind kind, struct pen_yaml_node **out)
{
    struct pen_yaml_node *node = calloc(1, sizeof *node);
    if (node == NULL) {
        pen_why(reader->why, "no memory for a YAML file");
        return PEN_NOMEM;
    }
    node->kind = kind;
    node->line = (uint32_t)event->start_mark.line + 1;
    node->column = (uint32_t)event->start_mark.column + 1;
    *out = node;
    return PEN_OK;
}

static pen_status make_scalar(struct reader *reader, const yaml_event_t *event,
                              struct pen_yaml_node **out)
{
    const char *text = (const char *)event->data.scalar.value;
    struct pen_yaml_node *node = NULL;
    if (strlen(text) != event->data.scalar.length)
        return refuse_event(reader, event, "a string contains a NUL");
    pen_status status = make_node(reader, event, PEN_YAML_SCALAR, &node);
    if (status != PEN_OK)
        return status;
    node->text = strdup(text);
    if (node->text == NULL) {
        free(node);
        pen_why(reader->why, "no memory for a YAML file");
        return PEN_NOMEM;
    }
    *out = node;
    return PEN_OK;
}

/* Takes the node: it goes to where the reader is. */
static void place(struct reader *reader, struct pen_yaml_node *node)
{
    if (reader->depth == 0) {
        reader->root = node;
        return;
    }
    struct pen_yaml_node *parent = reader->open[reader->depth - 1];
    if (parent->kind == PEN_YAML_MAP && reader->key == NULL) {
        reader->key = node;
        return;
    }
    node->key = reader->key;
    reader->key = NULL;
    if (parent->last == NULL)
        parent->first = node;
    else
        parent->last->next = node;
    parent->last = node;
    parent->num_entries++;
}

static bool expects_key(const struct reader *reader)
{
    return reader->depth > 0 && reader->key == NULL &&
           reader->open[reader->depth - 1]->kind == PEN_YAML_MAP;
}

static pen_status open_node(struct reader *reader, const yaml_event_t *event,
                            enum pen_yaml_kind kind)
{
    struct pen_yaml_node *node = NULL;
    if (expects_key(reader))
        return refuse_event(reader, event, "a key must be a string");
    if (reader->depth == PEN_YAML_MAX_DEPTH)
        return refuse_event(reader, event,
                            "lists and maps are nested too deep");
    pen_status status = make_node(reader, event, kind, &node);
    if (status != PEN_OK)
        return status;
    place(reader, node);
    reader->open[reader->depth++] = node;
    return PEN_OK;
}

static pen_status add_scalar(struct reader *reader, const yaml_event_t *event)
{
    struct pen_yaml_node *node = NULL;
    if (event->data.scalar.anchor != NULL || event->data.scalar.tag != NULL)
        return refuse_event(reader, event,
                            "anchors and tags are not supported");
    pen_status status = make_scalar(reader, event, &node);
    if (status == PEN_OK)
        place(reader, node);
    return status;
}

static pen_status take_event(struct reader *reader, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (reader->root == NULL)
            return PEN_OK;
        return refuse_event(reader, event,
                            "the file must have only one document");
    case YAML_SCALAR_EVENT:
        return add_scalar(reader, event);
    case YAML_SEQUENCE_START_EVENT:
        if (event->data.sequence_start.anchor != NULL ||
            event->data.sequence_start.tag != NULL)
            return refuse_event(reader, event,
                                "anchors and tags are not supported");
        return open_node(reader, event, PEN_YAML_LIST);
    case YAML_MAPPING_START_EVENT:
        if (event->data.mapping_start.anchor != NULL ||
            event->data.mapping_start.tag != NULL)
            return refuse_event(reader, event,
                                "anchors and tags are not supported");
        return open_node(reader, event, PEN_YAML_MAP);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        reader->depth--;
        return PEN_OK;
    case YAML_ALIAS_EVENT:
        return refuse_event(reader, event, "aliases are not supported");
    case YAML_STREAM_END_EVENT:
        reader->is_over = true;
        return PEN_OK;
    default:
        return PEN_OK;
    }
}

/*
 * Refuses an invalid letter: the library reads ahead and knows only its byte.
 */
static pen_status refuse_byte(const struct reader *reader, size_t at)
{
    size_t line = 0, begin = 0;
    for (size_t i = 0; i < at && i < reader->length; i++)
        if (reader->source[i] == '\n') {
            line++;
            begin = i + 1;
        }
    return refuse_at(reader->why, line, at - begin, reader->parser.problem);
}

/*
 * Refuses with the library's reason; it has a place for every error but lack of
 * memory.
 */
static pen_status refuse_syntax(struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    if (parser->error == YAML_MEMORY_ERROR) {
        pen_why(reader->why, "no memory for a YAML file");
        return PEN_NOMEM;
    }
    if (parser->error == YAML_READER_ERROR)
        return refuse_byte(reader, parser->problem_offset);
    return refuse_at(reader->why, parser->problem_mark.line,
                     parser->problem_mark.column, parser->problem);
}

static pen_status read_all(struct reader *reader)
{
    pen_status status = PEN_OK;
    while (status == PEN_OK && !reader->is_over) {
        yaml_event_t event;
        if (yaml_parser_parse(&reader->parser, &event) == 0)
            return refuse_syntax(reader);
        status = take_event(reader, &event);
        yaml_event_delete(&event);
    }
    if (status == PEN_OK && reader->root == NULL)
        return refuse_at(reader->why, 0, 0, "the file is empty");
    return status;
}

pen_status pen_yaml_load(const char *text, size_t length,
                         struct pen_yaml_node **out, struct pen_text *why)
{
    struct reader reader = {.source = text, .length = length, .why = why};
    if (yaml_parser_initialize(&reader.parser) == 0) {
        pen_why(why, "no memory for a YAML file");
        return PEN_NOMEM;
    }
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text,
                                 length);
    pen_status status = read_all(&reader);
    yaml_parser_delete(&reader.parser);
    if (status == PEN_OK) {
        *out = reader.root;
        return PEN_OK;
    }
    pen_yaml_free(reader.key);
    pen_yaml_free(reader.root);
    return status;
}

/* ---- what nodes say ---- */

pen_status pen_yaml_refuse(const struct pen_yaml_node *node,
                           struct pen_text *why, const char *format, ...)
{
    va_list args;
    if (why == NULL)
        return PEN_INVALID;
    va_start(args, format);
    pen_text_add(why, "line %u, column %u: ", node->line, node->column);
    pen_text_add_list(why, format, args);
    va_end(args);
    return PEN_INVALID;
}

static size_t index_of(const char *key, const char *const *keys)
{
    size_t i = 0;
    while (keys[i] != NULL && strcmp(keys[i], key) != 0)
        i++;
    return i;
}

static pen_status refuse_key(const struct pen_yaml_node *key, const char *name,
                             const char *const *keys, struct pen_text *why)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_text_add_printable(&text, key->text, strnlen(key->text, 40));
    pen_status status =
        pen_yaml_refuse(key, why, "%s has no key '%s'; expected one of", name,
                        pen_text_string(&text));
    for (size_t i = 0; keys[i] != NULL; i++)
        pen_why(why, " %s", keys[i]);
    pen_text_release(&text);
    return status;
}

/* Stops at the first key that is unknown or there already: never slow. */
pen_status pen_yaml_check_map(const struct pen_yaml_node *node,
                              const char *name, const char *const *keys,
                              struct pen_text *why)
{
    if (node->kind != PEN_YAML_MAP)
        return pen_yaml_refuse(node, why, "%s must be a map", name);
    for (const struct pen_yaml_node *at = node->first; at != NULL;
         at = at->next) {
        if (keys[index_of(at->key->text, keys)] == NULL)
            return refuse_key(at->key, name, keys, why);
        if (pen_yaml_find(node, at->key->text) != at)
            return pen_yaml_refuse(at->key, why, "%s has '%s' twice", name,
                                   at->key->text);
    }
    return PEN_OK;
}

pen_status pen_yaml_check_list(const struct pen_yaml_node *node,
                               const char *name, uint32_t least, uint32_t most,
                               struct pen_text *why)
{
    if (node->kind != PEN_YAML_LIST)
        return pen_yaml_refuse(node, why, "%s must be a list", name);
    if (node->num_entries >= least && node->num_entries <= most)
        return PEN_OK;
    if (least == most)
        return pen_yaml_refuse(node, why, "%s must have %u entries, not %u",
                               name, least, node->num_entries);
    return pen_yaml_refuse(node, why, "%s must have %u to %u entries, not %u",
                           name, least, most, node->num_entries);
}

const struct pen_yaml_node *pen_yaml_find(const struct pen_yaml_node *map,
                                          const char *key)
{
    const struct pen_yaml_node *at = map->first;
    while (at != NULL && strcmp(at->key->text, key) != 0)
        at = at->next;
    return at;
}

pen_status pen_yaml_require(const struct pen_yaml_node *map, const char *name,
                            const char *key, const struct pen_yaml_node **out,
                            struct pen_text *why)
{
    const struct pen_yaml_node *found = pen_yaml_find(map, key);
    if (found == NULL)
        return pen_yaml_refuse(map, why, "%s needs '%s'", name, key);
    *out = found;
    return PEN_OK;
}

pen_status pen_yaml_read_word(const struct pen_yaml_node *node,
                              const char *name, char *out, size_t size,
                              struct pen_text *why)
{
    if (node->kind != PEN_YAML_SCALAR || !pen_json_is_word(node->text, size))
        return pen_yaml_refuse(
            node, why,
            "%s must be a string of 1 to %zu printable ASCII characters "
            "without quotes and backslashes",
            name, size - 1);
    memcpy(out, node->text, strlen(node->text) + 1);
    return PEN_OK;
}

pen_status pen_yaml_read_count(const struct pen_yaml_node *node,
                               const char *name, uint64_t least, uint64_t most,
                               uint64_t *out, struct pen_text *why)
{
    const char *text = node->kind == PEN_YAML_SCALAR ? node->text : "";
    size_t length = strspn(text, "0123456789");
    uint64_t value = length < 20 ? strtoull(text, NULL, 10) : UINT64_MAX;
    if (length == 0 || text[length] != '\0' || value < least || value > most)
        return pen_yaml_refuse(
            node, why, "%s must be a whole number from %" PRIu64 " to %" PRIu64,
            name, least, most);
    *out = value;
    return PEN_OK;
}

pen_status pen_yaml_read_real(const struct pen_yaml_node *node,
                              const char *name, double least, double most,
                              double *out, struct pen_text *why)
{
    double value = -1;
    bool is_number =
        node->kind == PEN_YAML_SCALAR &&
        strspn(node->text, "0123456789.eE+-") == strlen(node->text) &&
        pen_unit_parse(PEN_UNIT_SECONDS, node->text, &value);
    if (!is_number || value < least || value > most)
        return pen_yaml_refuse(node, why, "%s must be a number from %g to %g",
                               name, least, most);
    *out = value;
    return PEN_OK;
}

pen_status pen_yaml_read_unit(const struct pen_yaml_node *node,
                              const char *name, enum pen_unit unit,
                              double least, double most, double *out,
                              struct pen_text *why)
{
    double value = -1;
    bool is_number = node->kind == PEN_YAML_SCALAR &&
                     pen_unit_parse(unit, node->text, &value);
    if (!is_number || value < least || value > most)
        return pen_yaml_refuse(node, why,
                               "%s must be a number with its unit, such as "
                               "%s, from %g to %g",
                               name, pen_unit_example(unit), least, most);
    *out = value;
    return PEN_OK;
}
