/*
 * Expands words with the values of variables that a script assigns. In
 * "${X:-1}" the word after the dash counts where the script itself does not
 * assign X. Anything else that a shell would compute is unknown.
 */
#include "lint/shell_expand.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DEPTH 8u

/* ---- variables ---- */

size_t pen__lint_name_length(const char *text, size_t most)
{
    size_t length = 0;
    while (length < most &&
           (isalpha((unsigned char)text[length]) || text[length] == '_' ||
            (length > 0 && isdigit((unsigned char)text[length]))))
        length++;
    return length;
}

void pen__lint_scope_release(struct pen__lint_scope *scope)
{
    for (uint32_t i = 0; i < scope->count; i++) {
        free(scope->list[i].name);
        pen__lint_words_release(&scope->list[i].values);
    }
    free(scope->list);
    scope->list = NULL;
    scope->count = 0;
}

struct pen__lint_variable *pen__lint_scope_find(struct pen__lint_scope *scope,
                                                const char *name, size_t length)
{
    for (uint32_t i = 0; i < scope->count; i++)
        if (strlen(scope->list[i].name) == length &&
            memcmp(scope->list[i].name, name, length) == 0)
            return &scope->list[i];
    return NULL;
}

struct pen__lint_variable *pen__lint_scope_make(struct pen__lint_scope *scope,
                                                const char *name, size_t length)
{
    struct pen__lint_variable *found =
        pen__lint_scope_find(scope, name, length);
    if (found != NULL)
        return found;
    if (scope->count == scope->capacity) {
        uint32_t capacity = scope->capacity == 0 ? 16 : 2 * scope->capacity;
        struct pen__lint_variable *list =
            realloc(scope->list, capacity * sizeof *list);
        if (list == NULL) {
            scope->budget.has_failed = true;
            return NULL;
        }
        scope->list = list;
        scope->capacity = capacity;
    }
    char *copy = strndup(name, length);
    if (copy == NULL) {
        scope->budget.has_failed = true;
        return NULL;
    }
    scope->list[scope->count] = (struct pen__lint_variable){.name = copy};
    return &scope->list[scope->count++];
}

void pen__lint_scope_forget(struct pen__lint_scope *scope, const char *name,
                            size_t length)
{
    struct pen__lint_variable *variable =
        pen__lint_scope_make(scope, name, length);
    if (variable != NULL)
        variable->is_unknown = true;
}

/* ---- building words ---- */

struct builder {
    struct pen__lint_scope *scope;
    struct pen__lint_word word;
    struct pen__lint_word_list *out;
    bool is_assigned;
    unsigned depth;
};

static bool has_word(const struct builder *builder)
{
    return builder->word.length > 0 || builder->word.is_quoted ||
           !builder->word.is_known;
}

static void end_word(struct builder *builder)
{
    if (has_word(builder))
        pen__lint_words_add(builder->out, &builder->scope->budget,
                            &builder->word);
}

static void add_letter(struct builder *builder, char letter, size_t place)
{
    pen__lint_word_add(&builder->word, &builder->scope->budget, letter, place);
}

static void add_unknown(struct builder *builder, bool is_quoted)
{
    builder->word.is_known = false;
    builder->word.is_many = builder->word.is_many || !is_quoted;
}

/* Blanks of a value that is not quoted part it. */
static void add_value(struct builder *builder,
                      const struct pen__lint_word *value, bool is_quoted)
{
    bool is_whole = is_quoted || builder->is_assigned;
    for (size_t i = 0; i < value->length; i++) {
        if (!is_whole && isspace((unsigned char)value->text[i]))
            end_word(builder);
        else
            add_letter(builder, value->text[i], value->places[i]);
    }
    if (!value->is_known)
        add_unknown(builder, !value->is_many);
    builder->word.is_quoted = builder->word.is_quoted || is_quoted;
}

/* "${A[@]}": each entry is a word. */
static void add_array(struct builder *builder,
                      const struct pen__lint_variable *variable, bool is_quoted)
{
    for (uint32_t i = 0; i < variable->values.count; i++) {
        if (i > 0 && !builder->is_assigned)
            end_word(builder);
        if (i > 0 && builder->is_assigned)
            add_letter(builder, ' ',
                       pen__lint_word_begin(&variable->values.list[i]));
        add_value(builder, &variable->values.list[i], is_quoted);
    }
}

/* ---- one variable ---- */

static void expand_range(struct builder *builder, size_t begin, size_t end,
                         bool is_quoted);

/* The parts of "${X...}" after the name. */
struct reference {
    const char *name;
    size_t length;
    size_t begin; /* of the rest */
    size_t end;
    bool is_all;       /* [@] or [*] */
    bool has_fallback; /* :- or the like, and a word from begin on */
    bool is_other;     /* what is not supported */
};

static struct reference parse_reference(const char *text,
                                        const struct pen_shell_piece *piece)
{
    bool is_braced = text[piece->begin + 1] == '{';
    size_t begin = piece->begin + (is_braced ? 2 : 1);
    size_t end = piece->end - is_braced;
    struct reference found = {.name = text + begin, .begin = begin, .end = end};
    found.length =
        begin < end ? pen__lint_name_length(text + begin, end - begin) : 0;
    size_t at = begin + found.length;
    size_t left = end > at ? end - at : 0;
    if (left >= 3 && text[at] == '[' && text[at + 2] == ']' &&
        (text[at + 1] == '@' || text[at + 1] == '*')) {
        found.is_all = true;
        at += 3;
        left -= 3;
    }
    if (left > 0 && text[at] == ':' && left > 1) {
        at++;
        left--;
    }
    found.has_fallback = left > 0 && (text[at] == '-' || text[at] == '=');
    found.is_other = found.length == 0 || (left > 0 && !found.has_fallback);
    found.begin = at + 1;
    return found;
}

static void add_variable(struct builder *builder,
                         const struct pen_shell_piece *piece)
{
    const char *text = builder->scope->text;
    bool is_plain = text[piece->begin] == '$' && text[piece->begin + 1] != '(';
    struct reference found = {.is_other = true};
    if (is_plain)
        found = parse_reference(text, piece);
    struct pen__lint_variable *variable =
        found.is_other
            ? NULL
            : pen__lint_scope_find(builder->scope, found.name, found.length);
    if (variable != NULL)
        variable->is_used = true;
    if (variable == NULL && found.has_fallback) {
        expand_range(builder, found.begin, found.end, piece->is_quoted);
    } else if (variable == NULL || variable->is_unknown) {
        add_unknown(builder, piece->is_quoted && !found.is_all &&
                                 text[piece->begin + 1] != '@');
    } else if (found.is_all) {
        add_array(builder, variable, piece->is_quoted);
    } else if (variable->values.count > 0) {
        add_value(builder, &variable->values.list[0], piece->is_quoted);
    }
}

static void expand_range(struct builder *builder, size_t begin, size_t end,
                         bool is_quoted)
{
    const char *text = builder->scope->text;
    struct pen_shell_pieces pieces = {text, begin, end, false};
    struct pen_shell_piece piece;
    if (builder->depth == MOST_DEPTH) {
        add_unknown(builder, is_quoted);
        return;
    }
    builder->depth++;
    while (pen_shell_next_piece(&pieces, &piece)) {
        piece.is_quoted = piece.is_quoted || is_quoted;
        if (piece.is_variable) {
            add_variable(builder, &piece);
            continue;
        }
        builder->word.is_quoted = builder->word.is_quoted || piece.is_quoted;
        for (size_t i = piece.begin; i < piece.end; i++)
            add_letter(builder, text[i], i);
    }
    builder->depth--;
}

void pen__lint_expand(struct pen__lint_scope *scope,
                      const struct pen_shell_token *word, bool is_assigned,
                      struct pen__lint_word_list *out)
{
    struct builder builder = {
        .scope = scope, .out = out, .is_assigned = is_assigned};
    pen__lint_word_init(&builder.word);
    expand_range(&builder, word->begin, word->end, false);
    if (is_assigned)
        pen__lint_words_add(out, &scope->budget, &builder.word);
    else
        end_word(&builder);
    pen__lint_word_release(&builder.word);
}
