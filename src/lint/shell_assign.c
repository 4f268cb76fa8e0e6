/* Assignments of a script: scalars, arrays and what is added to them. */
#include "lint/shell_assign.h"

static void assign_values(struct pen__lint_scope *scope,
                          const struct pen__lint_pending *pending,
                          struct pen__lint_word_list *out)
{
    struct pen_shell_scanner scanner = {.text = scope->text,
                                        .length = pending->value.end,
                                        .at = pending->value.begin};
    struct pen_shell_token token;
    if (!pending->is_array) {
        pen__lint_expand(scope, &pending->value, true, out);
        return;
    }
    while ((token = pen_shell_next(&scanner)).kind == PEN_SHELL_WORD)
        pen__lint_expand(scope, &token, false, out);
}

/* Adds something unknown to an array, which keeps its values. */
static void add_unknown(struct pen__lint_scope *scope,
                        struct pen__lint_variable *variable)
{
    struct pen__lint_word word;
    pen__lint_word_init(&word);
    word.is_known = false;
    word.is_many = true;
    pen__lint_words_add(&variable->values, &scope->budget, &word);
    pen__lint_word_release(&word);
}

static void append(struct pen__lint_scope *scope,
                   struct pen__lint_variable *variable,
                   const struct pen__lint_word *word)
{
    if (variable->values.count == 0) {
        pen__lint_words_add_copy(&variable->values, &scope->budget, word);
        return;
    }
    struct pen__lint_word *first = &variable->values.list[0];
    for (size_t i = 0; i < word->length; i++)
        pen__lint_word_add(first, &scope->budget, word->text[i],
                           word->places[i]);
    first->is_known = first->is_known && word->is_known;
    first->is_many = first->is_many || word->is_many;
}

void pen__lint_assign(struct pen__lint_scope *scope,
                      const struct pen__lint_pending *pending, bool may_skip)
{
    struct pen__lint_word_list values = {.list = NULL};
    assign_values(scope, pending, &values);
    struct pen__lint_variable *variable = pen__lint_scope_make(
        scope, scope->text + pending->name, pending->name_length);
    if (variable == NULL) {
        pen__lint_words_release(&values);
        return;
    }
    if (may_skip && pending->is_added && pending->is_array) {
        add_unknown(scope, variable);
    } else if (may_skip) {
        variable->is_unknown = true;
    } else if (pending->is_added && !pending->is_array && values.count > 0) {
        append(scope, variable, &values.list[0]);
    } else {
        if (!pending->is_added) {
            pen__lint_words_release(&variable->values);
            variable->is_unknown = false;
        }
        for (uint32_t i = 0; i < values.count; i++)
            pen__lint_words_add_copy(&variable->values, &scope->budget,
                                     &values.list[i]);
    }
    variable->is_array = pending->is_array;
    pen__lint_words_release(&values);
}

/* Moves past the ")" that ends an array, which begins at this place. */
static bool skip_array(struct pen_shell_scanner *scanner,
                       struct pen_shell_token *inner)
{
    struct pen_shell_token token;
    uint32_t open = 1;
    inner->begin = scanner->at;
    do {
        token = pen_shell_next(scanner);
        if (token.kind == PEN_SHELL_OPERATOR &&
            scanner->text[token.begin] == '(')
            open++;
        if (token.kind == PEN_SHELL_OPERATOR &&
            scanner->text[token.begin] == ')')
            open--;
    } while (open > 0 && token.kind != PEN_SHELL_END &&
             token.kind != PEN_SHELL_BROKEN);
    inner->end = token.begin;
    return open == 0;
}

bool pen__lint_assignment_parse(struct pen_shell_scanner *scanner,
                                const struct pen_shell_token *word,
                                struct pen__lint_pending *out)
{
    const char *text = scanner->text;
    size_t length =
        pen__lint_name_length(text + word->begin, word->end - word->begin);
    size_t at = word->begin + length;
    struct pen__lint_pending pending = {.name = word->begin,
                                        .name_length = length};
    if (length == 0 || at >= word->end)
        return false;
    pending.is_added = text[at] == '+' && at + 1 < word->end;
    at += pending.is_added;
    if (text[at] != '=')
        return false;
    pending.value = (struct pen_shell_token){PEN_SHELL_WORD, at + 1, word->end};
    if (at + 1 == word->end && word->end < scanner->length &&
        text[word->end] == '(') {
        scanner->at = word->end + 1;
        pending.is_array = skip_array(scanner, &pending.value);
    }
    *out = pending;
    return true;
}
