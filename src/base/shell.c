/*
 * Tokens and pieces of a shell's text. Quotes and substitutions nest, up to a
 * depth that no script reaches.
 */
#include "base/shell.h"

#include <ctype.h>
#include <string.h>

#define MOST_DEPTH 24u

static bool is_blank(char letter)
{
    return letter == ' ' || letter == '\t' || letter == '\r' ||
           letter == '\v' || letter == '\f';
}

static bool is_among(const char *letters, char letter)
{
    return letter != '\0' && strchr(letters, letter) != NULL;
}

static bool is_operator(char letter)
{
    return is_among(";&|()<>", letter);
}

/* ---- what nests ---- */

struct place {
    const char *text;
    size_t at;
    size_t end;
    unsigned depth;
};

static bool skip_closed(struct place *place, char close);

static char letter_at(const struct place *place, size_t ahead)
{
    return place->at + ahead < place->end ? place->text[place->at + ahead]
                                          : '\0';
}

/* Moves past the quote that ends it; single quotes have no escapes. */
static bool skip_single(struct place *place)
{
    const char *from = place->text + place->at + 1;
    const char *quote = place->at + 1 < place->end
                            ? memchr(from, '\'', place->end - place->at - 1)
                            : NULL;
    if (quote == NULL)
        return false;
    place->at = (size_t)(quote - place->text) + 1;
    return true;
}

/* Moves past "$(...)" or "${...}". A "$" alone is a letter. */
static bool skip_dollar(struct place *place)
{
    char next = letter_at(place, 1);
    if (next != '(' && next != '{') {
        place->at++;
        return true;
    }
    place->at += 2;
    return skip_closed(place, next == '(' ? ')' : '}');
}

/* Skips one letter, or everything that it opens. */
static bool skip_part(struct place *place, bool is_double)
{
    switch (letter_at(place, 0)) {
    case '\\':
        place->at += place->at + 1 < place->end ? 2 : 1;
        return true;
    case '\'':
        if (!is_double)
            return skip_single(place);
        place->at++;
        return true;
    case '"':
        place->at++;
        return is_double || skip_closed(place, '"');
    case '`':
        place->at++;
        return skip_closed(place, '`');
    case '$':
        return skip_dollar(place);
    default:
        place->at++;
        return true;
    }
}

static bool skip_closed(struct place *place, char close)
{
    bool is_closed = false;
    unsigned open = 0; /* parentheses inside of parentheses */
    if (place->depth == MOST_DEPTH)
        return false;
    place->depth++;
    while (!is_closed && place->at < place->end) {
        char letter = letter_at(place, 0);
        if (letter == close && open == 0) {
            is_closed = true;
            place->at++;
        } else {
            open += close == ')' && letter == '(';
            open -= close == ')' && letter == ')';
            if (!skip_part(place, close == '"'))
                break;
        }
    }
    place->depth--;
    return is_closed;
}

/* ---- tokens ---- */

/* Skips blanks, comments, and newlines after a backslash. */
static void skip_blanks(struct pen_shell_scanner *scanner)
{
    const char *text = scanner->text;
    while (scanner->at < scanner->length) {
        char letter = text[scanner->at];
        if (is_blank(letter) || (letter == '\n' && !scanner->has_commands))
            scanner->at++;
        else if (letter == '\\' && scanner->at + 1 < scanner->length &&
                 text[scanner->at + 1] == '\n')
            scanner->at += 2;
        else if (letter == '#')
            while (scanner->at < scanner->length && text[scanner->at] != '\n')
                scanner->at++;
        else
            return;
    }
}

static struct pen_shell_token take(struct pen_shell_scanner *scanner,
                                   enum pen_shell_kind kind, size_t length)
{
    struct pen_shell_token token = {kind, scanner->at, scanner->at + length};
    scanner->at += length;
    return token;
}

static size_t operator_length(const struct pen_shell_scanner *scanner)
{
    const char *text = scanner->text + scanner->at;
    size_t most = scanner->length - scanner->at;
    size_t length = 1;
    if (text[0] == '(' || text[0] == ')')
        return 1;
    while (length < most && is_operator(text[length]) && text[length] != '(' &&
           text[length] != ')')
        length++;
    return length;
}

static bool ends_word(const struct pen_shell_scanner *scanner, char letter)
{
    return is_blank(letter) || letter == '\n' ||
           (scanner->has_commands && is_operator(letter));
}

static struct pen_shell_token take_word(struct pen_shell_scanner *scanner)
{
    struct place place = {scanner->text, scanner->at, scanner->length, 0};
    while (place.at < place.end && !ends_word(scanner, letter_at(&place, 0)))
        if (!skip_part(&place, false))
            return take(scanner, PEN_SHELL_BROKEN, 0);
    return take(scanner, PEN_SHELL_WORD, place.at - scanner->at);
}

struct pen_shell_token pen_shell_next(struct pen_shell_scanner *scanner)
{
    skip_blanks(scanner);
    if (scanner->at == scanner->length)
        return take(scanner, PEN_SHELL_END, 0);
    char letter = scanner->text[scanner->at];
    if (letter == '\n')
        return take(scanner, PEN_SHELL_LINE, 1);
    if (scanner->has_commands && is_operator(letter))
        return take(scanner, PEN_SHELL_OPERATOR, operator_length(scanner));
    return take_word(scanner);
}

/* ---- pieces ---- */

static bool is_name_start(char letter)
{
    return isalpha((unsigned char)letter) || letter == '_';
}

/*
 * Returns the bytes of a variable or substitution at the place; 0: there is
 * none.
 */
static size_t variable_length(const struct pen_shell_pieces *pieces)
{
    struct place place = {pieces->text, pieces->at, pieces->end, 0};
    char letter = letter_at(&place, 0);
    char next = letter_at(&place, 1);
    if (letter == '`' || next == '(' || next == '{')
        return (letter == '`' || letter == '$') && skip_part(&place, false)
                   ? place.at - pieces->at
                   : 0;
    if (letter != '$' || next == '\0')
        return 0;
    if (!is_name_start(next))
        return isdigit((unsigned char)next) || strchr("@*#?$!-", next) != NULL
                   ? 2
                   : 0;
    size_t length = 2;
    while (is_name_start(letter_at(&place, length)) ||
           isdigit((unsigned char)letter_at(&place, length)))
        length++;
    return length;
}

static bool give(struct pen_shell_pieces *pieces, size_t length, size_t skipped,
                 struct pen_shell_piece *out)
{
    *out = (struct pen_shell_piece){.begin = pieces->at,
                                    .end = pieces->at + length,
                                    .is_quoted = pieces->is_double};
    pieces->at += length + skipped;
    return true;
}

/* Returns the letters of '...'. */
static bool give_single(struct pen_shell_pieces *pieces,
                        struct pen_shell_piece *out)
{
    const char *from = pieces->text + pieces->at + 1;
    size_t most = pieces->end - pieces->at - 1;
    const char *quote = memchr(from, '\'', most);
    pieces->at++;
    give(pieces, quote == NULL ? most : (size_t)(quote - from), quote != NULL,
         out);
    out->is_quoted = true;
    return true;
}

/* Returns whether a backslash here escapes the next letter. */
static bool covers(const struct pen_shell_pieces *pieces)
{
    return pieces->at + 1 < pieces->end &&
           (!pieces->is_double ||
            is_among("\"\\$`\n", pieces->text[pieces->at + 1]));
}

static bool give_escape(struct pen_shell_pieces *pieces,
                        struct pen_shell_piece *out)
{
    pieces->at++;
    give(pieces, 1, 0, out);
    out->is_quoted = true;
    return true;
}

static size_t plain_length(const struct pen_shell_pieces *pieces)
{
    size_t length = 1;
    while (pieces->at + length < pieces->end &&
           !is_among("\\'\"$`", pieces->text[pieces->at + length]))
        length++;
    return length;
}

bool pen_shell_next_piece(struct pen_shell_pieces *pieces,
                          struct pen_shell_piece *out)
{
    while (pieces->at + 1 < pieces->end && pieces->text[pieces->at] == '\\' &&
           pieces->text[pieces->at + 1] == '\n')
        pieces->at += 2;
    if (pieces->at >= pieces->end)
        return false;
    char letter = pieces->text[pieces->at];
    size_t length = variable_length(pieces);
    if (length > 0) {
        give(pieces, length, 0, out);
        out->is_variable = true;
        return true;
    }
    if (letter == '"') {
        pieces->is_double = !pieces->is_double;
        pieces->at++;
        give(pieces, 0, 0, out);
        out->is_quoted = true;
        return true;
    }
    if (letter == '\'' && !pieces->is_double)
        return give_single(pieces, out);
    if (letter == '\\' && covers(pieces))
        return give_escape(pieces, out);
    return give(pieces, plain_length(pieces), 0, out);
}

void pen_shell_unquote(const char *text, const struct pen_shell_token *word,
                       struct pen_text *out)
{
    struct pen_shell_pieces pieces = {text, word->begin, word->end, false};
    struct pen_shell_piece piece;
    while (pen_shell_next_piece(&pieces, &piece))
        pen_text_add_bytes(out, text + piece.begin, piece.end - piece.begin);
}
