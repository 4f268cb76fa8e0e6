#include "base/json_walk.h"

#include <string.h>

/* "line 3, column 7: REASON" of a byte. */
static pen_status refuse_at(const struct pen_json_walk *walk, size_t at,
                            const char *reason, struct pen_text *why)
{
    size_t line = 1;
    size_t begin = 0;
    for (size_t i = 0; i < at && i < walk->length; i++) {
        if (walk->text[i] == '\n') {
            line++;
            begin = i + 1;
        }
    }
    pen_why(why, "line %zu, column %zu: %s", line, at - begin + 1, reason);
    return PEN_INVALID;
}

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

/* Returns whether a number or a word ends before this byte. */
static bool ends_word(char byte)
{
    return is_space(byte) || byte == ',' || byte == ':' || byte == '"' ||
           byte == '[' || byte == ']' || byte == '{' || byte == '}';
}

static void skip_spaces(struct pen_json_walk *walk)
{
    while (walk->at < walk->length && is_space(walk->text[walk->at]))
        walk->at++;
}

/* Returns the next byte that is not white space; NUL at the end. */
static char peek(struct pen_json_walk *walk)
{
    skip_spaces(walk);
    return walk->at < walk->length ? walk->text[walk->at] : '\0';
}

/* Skips a string, from its opening quote to its closing one. */
static pen_status skip_string(struct pen_json_walk *walk, struct pen_text *why)
{
    size_t begin = walk->at++;
    while (walk->at < walk->length && walk->text[walk->at] != '"')
        walk->at += walk->text[walk->at] == '\\' ? 2 : 1;
    if (walk->at >= walk->length)
        return refuse_at(walk, begin, "the file ends in this string", why);
    walk->at++;
    return PEN_OK;
}

/* Skips a number or a word, which jansson checks. */
static pen_status skip_word(struct pen_json_walk *walk, struct pen_text *why)
{
    size_t begin = walk->at;
    while (walk->at < walk->length && !ends_word(walk->text[walk->at]))
        walk->at++;
    return walk->at > begin ? PEN_OK
                            : refuse_at(walk, begin, "expected a value", why);
}

/* Skips without recursion: counts brackets, each kind by itself. */
static pen_status skip_nested(struct pen_json_walk *walk, struct pen_text *why)
{
    size_t begin = walk->at;
    size_t depth = 0;
    while (walk->at < walk->length) {
        char letter = walk->text[walk->at];
        if (letter == '"') {
            pen_status status = skip_string(walk, why);
            if (status != PEN_OK)
                return status;
            continue;
        }
        depth += letter == '[' || letter == '{';
        depth -= letter == ']' || letter == '}';
        walk->at++;
        if (depth == 0)
            return PEN_OK;
    }
    return refuse_at(walk, begin, "the file ends before this is closed", why);
}

static pen_status skip_value(struct pen_json_walk *walk, struct pen_text *why)
{
    char letter = peek(walk);
    if (letter == '"')
        return skip_string(walk, why);
    if (letter == '[' || letter == '{')
        return skip_nested(walk, why);
    return skip_word(walk, why);
}

static pen_status open_here(struct pen_json_walk *walk, struct pen_text *why)
{
    char letter = peek(walk);
    if (letter != '[' && letter != '{')
        return refuse_at(walk, walk->at, "expected a list or an object", why);
    walk->closing = letter == '[' ? ']' : '}';
    walk->is_first = true;
    walk->at++;
    return PEN_OK;
}

pen_status pen_json_walk_open(const char *text, size_t length,
                              struct pen_json_walk *out, struct pen_text *why)
{
    *out = (struct pen_json_walk){.text = text, .length = length};
    return open_here(out, why);
}

pen_status pen_json_walk_enter(const struct pen_json_walk *parent,
                               const struct pen_json_piece *piece,
                               struct pen_json_walk *out, struct pen_text *why)
{
    *out = (struct pen_json_walk){.text = parent->text,
                                  .length = parent->length,
                                  .at = (size_t)(piece->text - parent->text)};
    return open_here(out, why);
}

/* "key": of an object. */
static pen_status read_key(struct pen_json_walk *walk,
                           struct pen_json_piece *out, struct pen_text *why)
{
    if (peek(walk) != '"')
        return refuse_at(walk, walk->at, "expected a key in quotes", why);
    size_t begin = walk->at + 1;
    pen_status status = skip_string(walk, why);
    if (status != PEN_OK)
        return status;
    out->key = walk->text + begin;
    out->key_length = walk->at - 1 - begin;
    if (peek(walk) != ':')
        return refuse_at(walk, walk->at, "expected ':' after the key", why);
    walk->at++;
    return PEN_OK;
}

pen_status pen_json_walk_next(struct pen_json_walk *walk,
                              struct pen_json_piece *out, bool *has_one,
                              struct pen_text *why)
{
    pen_status status = PEN_OK;
    bool is_end = peek(walk) == walk->closing;
    *has_one = !is_end;
    *out = (struct pen_json_piece){.key = NULL};
    if (is_end) {
        walk->at++;
        return PEN_OK;
    }
    if (!walk->is_first && peek(walk) != ',')
        return refuse_at(walk, walk->at, "expected ',' or the end", why);
    if (!walk->is_first)
        walk->at++;
    walk->is_first = false;
    if (walk->closing == '}')
        status = read_key(walk, out, why);
    skip_spaces(walk);
    out->text = walk->text + walk->at;
    size_t begin = walk->at;
    if (status == PEN_OK)
        status = skip_value(walk, why);
    out->length = walk->at - begin;
    return status;
}

pen_status pen_json_walk_end(const struct pen_json_walk *walk,
                             struct pen_text *why)
{
    struct pen_json_walk rest = *walk;
    skip_spaces(&rest);
    return rest.at == rest.length
               ? PEN_OK
               : refuse_at(&rest, rest.at, "expected the end of the file", why);
}

bool pen_json_piece_is(const struct pen_json_piece *piece, const char *key)
{
    return piece->key != NULL && piece->key_length == strlen(key) &&
           memcmp(piece->key, key, piece->key_length) == 0;
}

pen_status pen_json_walk_read(const struct pen_json_walk *walk,
                              const struct pen_json_piece *piece, json_t **out,
                              struct pen_text *why)
{
    json_error_t error;
    *out = json_loadb(piece->text, piece->length, JSON_DECODE_ANY, &error);
    if (*out != NULL)
        return PEN_OK;
    size_t begin = (size_t)(piece->text - walk->text);
    size_t at = error.position > 0 ? (size_t)error.position - 1 : 0;
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_text_add_printable(&reason, error.text, strlen(error.text));
    pen_status status =
        refuse_at(walk, begin + at, pen_text_string(&reason), why);
    pen_text_release(&reason);
    return status;
}
