/*
 * TOML 1.0 as settings. Keys, tables, inline tables, strings of all four
 * kinds, lists over several lines; numbers and dates are kept as their text.
 */
#include "lint/tree.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DEPTH 16u

struct reader {
    const char *text;
    size_t at;
    size_t end;
    unsigned depth;
    struct pen_text table; /* path of the table, with a dot at its end */
    struct pen__lint_config *out;
    struct pen__lint_trouble *trouble;
    bool is_listed; /* in [[table]]: keys come again */
};

static bool refuse(struct reader *reader, const char *why)
{
    if (reader->trouble->why.length == 0) {
        reader->trouble->at =
            reader->at < reader->end ? reader->at : reader->end;
        pen_text_add_string(&reader->trouble->why, why);
    }
    return false;
}

static char letter(const struct reader *reader)
{
    return reader->at < reader->end ? reader->text[reader->at] : '\0';
}

static bool is_at(const struct reader *reader, const char *word)
{
    size_t length = strlen(word);
    return reader->end - reader->at >= length &&
           memcmp(reader->text + reader->at, word, length) == 0;
}

static void skip_blanks(struct reader *reader)
{
    while (letter(reader) == ' ' || letter(reader) == '\t')
        reader->at++;
}

/* Skips blanks, comments and ends of lines. */
static void skip_lines(struct reader *reader)
{
    for (;;) {
        skip_blanks(reader);
        if (letter(reader) == '#')
            while (reader->at < reader->end && letter(reader) != '\n')
                reader->at++;
        else if (letter(reader) == '\n' || letter(reader) == '\r')
            reader->at++;
        else
            return;
    }
}

/* ---- values ---- */

/* Where the letters of a value are; their text, if it is asked for. */
struct value {
    size_t begin;
    size_t end;
    struct pen_text text;
    bool is_list;
    bool has_text;
};

static bool read_value(struct reader *reader, struct value *out);
static bool read_pair(struct reader *reader);

/* Reads a string that begins with three quotes. */
static bool read_long(struct reader *reader, const char *quotes,
                      struct value *out)
{
    reader->at += 3;
    out->begin = reader->at;
    while (reader->at < reader->end && !is_at(reader, quotes))
        reader->at += letter(reader) == '\\' && quotes[0] == '"' ? 2 : 1;
    if (reader->at >= reader->end)
        return refuse(reader, "a string of several lines does not end");
    out->end = reader->at;
    reader->at += 3;
    return true;
}

static bool read_string(struct reader *reader, struct value *out)
{
    char quote = letter(reader);
    if (is_at(reader, "\"\"\""))
        return read_long(reader, "\"\"\"", out);
    if (is_at(reader, "'''"))
        return read_long(reader, "'''", out);
    out->begin = ++reader->at;
    while (reader->at < reader->end && letter(reader) != quote &&
           letter(reader) != '\n')
        reader->at += letter(reader) == '\\' && quote == '"' ? 2 : 1;
    if (letter(reader) != quote || reader->at >= reader->end)
        return refuse(reader, "a string does not end in its line");
    out->end = reader->at++;
    return true;
}

static bool read_list(struct reader *reader, struct value *out)
{
    bool has_first = false;
    reader->at++;
    for (skip_lines(reader); letter(reader) != ']'; skip_lines(reader)) {
        struct value entry = {.text = PEN_TEXT_EMPTY};
        if (reader->at >= reader->end)
            return refuse(reader, "a list does not end");
        bool is_read = read_value(reader, &entry);
        if (is_read && !has_first) {
            out->begin = entry.begin;
            out->end = entry.end;
            pen_text_add_string(&out->text, pen_text_string(&entry.text));
        }
        has_first = true;
        pen_text_release(&entry.text);
        if (!is_read)
            return false;
        skip_lines(reader);
        if (letter(reader) == ',')
            reader->at++;
        else if (letter(reader) != ']')
            return refuse(reader, "expected , or ] in a list");
    }
    reader->at++;
    out->is_list = true;
    out->has_text = true;
    return true;
}

static bool read_inline(struct reader *reader)
{
    reader->at++;
    skip_blanks(reader);
    while (letter(reader) != '}') {
        if (!read_pair(reader))
            return false;
        skip_blanks(reader);
        if (letter(reader) == ',')
            reader->at++;
        else if (letter(reader) != '}')
            return refuse(reader, "expected , or } in a table");
        skip_blanks(reader);
    }
    reader->at++;
    return true;
}

/* Reads a value without quotes: true, 8, 3.0e-4, 1979-05-27. */
static bool read_bare(struct reader *reader, struct value *out)
{
    out->begin = reader->at;
    while (isalnum((unsigned char)letter(reader)) ||
           (letter(reader) != '\0' && strchr("+-_.:", letter(reader)) != NULL))
        reader->at++;
    out->end = reader->at;
    return out->end > out->begin || refuse(reader, "expected a value");
}

static bool read_value(struct reader *reader, struct value *out)
{
    char first = letter(reader);
    bool is_read = false;
    if (reader->depth == MOST_DEPTH)
        return refuse(reader, "lists and tables are nested too deep");
    reader->depth++;
    if (first == '"' || first == '\'')
        is_read = read_string(reader, out);
    else if (first == '[')
        is_read = read_list(reader, out);
    else if (first == '{')
        is_read = read_inline(reader);
    else
        is_read = read_bare(reader, out);
    reader->depth--;
    bool is_number =
        first == '+' || first == '-' || isdigit((unsigned char)first);
    for (size_t i = out->begin; is_read && !out->has_text && i < out->end; i++)
        if (!is_number || reader->text[i] != '_')
            pen_text_add_bytes(&out->text, reader->text + i, 1);
    return is_read;
}

/* ---- keys ---- */

/* "a", "a.b" or "a.'b c'"; the place is that of its last part. */
static bool read_key(struct reader *reader, struct pen_text *path,
                     size_t *begin, size_t *end)
{
    for (;;) {
        struct value part = {.text = PEN_TEXT_EMPTY};
        skip_blanks(reader);
        if (letter(reader) == '"' || letter(reader) == '\'') {
            if (!read_string(reader, &part))
                return false;
        } else {
            part.begin = reader->at;
            while (isalnum((unsigned char)letter(reader)) ||
                   letter(reader) == '_' || letter(reader) == '-')
                reader->at++;
            part.end = reader->at;
            if (part.end == part.begin)
                return refuse(reader, "expected a key");
        }
        pen_text_add_bytes(path, reader->text + part.begin,
                           part.end - part.begin);
        *begin = part.begin;
        *end = part.end;
        skip_blanks(reader);
        if (letter(reader) != '.')
            return true;
        reader->at++;
        pen_text_add_string(path, ".");
    }
}

static void add_setting(struct reader *reader, const struct pen_text *path,
                        const struct value *value, size_t begin, size_t end)
{
    char *key = strdup(pen_text_string(path));
    char *text = strdup(pen_text_string(&value->text));
    struct pen__lint_setting setting = {.key = key,
                                        .name = key,
                                        .value = text,
                                        .begin = begin,
                                        .end = end,
                                        .value_begin = value->begin,
                                        .value_end = value->end,
                                        .is_list = value->is_list};
    if (key == NULL || text == NULL) {
        reader->out->has_failed = true;
    } else {
        if (!reader->is_listed && !reader->trouble->is_duplicate &&
            pen__lint_find(reader->out, key) != NULL) {
            reader->trouble->is_duplicate = true;
            reader->trouble->at = begin;
            pen_text_add(&reader->trouble->why, "the key '%s' is given twice",
                         key);
        }
        pen__lint_config_add(reader->out, &setting);
    }
    free(key);
    free(text);
}

static bool read_pair(struct reader *reader)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct value value = {.text = PEN_TEXT_EMPTY};
    size_t length = reader->table.length;
    size_t begin = 0;
    size_t end = 0;
    pen_text_add_string(&path, pen_text_string(&reader->table));
    bool is_read = read_key(reader, &path, &begin, &end);
    if (is_read && letter(reader) != '=')
        is_read = refuse(reader, "expected = after the key");
    if (is_read) {
        reader->at++;
        skip_blanks(reader);
        bool is_table = letter(reader) == '{';
        if (is_table) {
            pen_text_clear(&reader->table);
            pen_text_add(&reader->table, "%s.", pen_text_string(&path));
        }
        is_read = read_value(reader, &value);
        if (is_table) {
            /* The path of the key begins with that of the table. */
            pen_text_clear(&reader->table);
            pen_text_add_bytes(&reader->table, pen_text_string(&path), length);
        } else if (is_read) {
            add_setting(reader, &path, &value, begin, end);
        }
    }
    pen_text_release(&value.text);
    pen_text_release(&path);
    return is_read;
}

static bool read_table(struct reader *reader)
{
    size_t begin;
    size_t end;
    reader->is_listed = is_at(reader, "[[");
    reader->at += reader->is_listed ? 2 : 1;
    pen_text_clear(&reader->table);
    if (!read_key(reader, &reader->table, &begin, &end))
        return false;
    pen_text_add_string(&reader->table, ".");
    if (!is_at(reader, reader->is_listed ? "]]" : "]"))
        return refuse(reader, "expected ] after the name of a table");
    reader->at += reader->is_listed ? 2 : 1;
    return true;
}

static bool read_line(struct reader *reader)
{
    bool is_read =
        letter(reader) == '[' ? read_table(reader) : read_pair(reader);
    skip_blanks(reader);
    if (is_read && reader->at < reader->end && letter(reader) != '#' &&
        letter(reader) != '\n' && letter(reader) != '\r')
        return refuse(reader, "expected the end of the line");
    return is_read;
}

pen_status pen__lint_toml_read(const char *text, size_t length,
                               struct pen__lint_config *out,
                               struct pen__lint_trouble *trouble)
{
    struct reader reader = {.text = text,
                            .end = length,
                            .table = PEN_TEXT_EMPTY,
                            .out = out,
                            .trouble = trouble};
    bool is_read = true;
    for (skip_lines(&reader); is_read && reader.at < reader.end;
         skip_lines(&reader))
        is_read = read_line(&reader);
    pen_text_release(&reader.table);
    return is_read ? PEN_OK : PEN_INVALID;
}
