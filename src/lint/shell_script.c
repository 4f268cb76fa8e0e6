/*
 * A script as its commands. Assignments are followed line by line; one that a
 * condition, a loop or a function may skip makes its variable unknown.
 */
#include "lint/shell_script.h"

#include "lint/shell_assign.h"

#include <stdlib.h>
#include <string.h>

#define MOST_LETTERS ((size_t)2 << 20)
#define MOST_COMMANDS 20000u
#define MOST_PENDING 64u
#define MOST_HEREDOCS 8u

struct heredoc {
    struct pen_text word;
    bool has_tabs; /* <<- */
};

struct reader {
    struct pen_shell_scanner scanner;
    struct pen__lint_script *script;
    struct pen__lint_word_list words; /* of the command so far */
    struct pen__lint_pending pending[MOST_PENDING];
    uint32_t num_pending;
    struct heredoc heredocs[MOST_HEREDOCS];
    uint32_t num_heredocs;
    uint32_t depth;       /* of what may be skipped */
    uint32_t parentheses; /* that are open */
    bool is_conditional;  /* after && or || */
    bool is_declaring;    /* export and the like: words are assignments */
    bool is_redirected;   /* the next word is a file */
    bool is_heredoc;      /* the next word ends a here document */
};

static bool is_word(const struct pen__lint_word *word, const char *text)
{
    return word->is_known && strcmp(word->text, text) == 0;
}

/* Commands that give variables values of their own. */
static void forget_names(struct reader *reader)
{
    const struct pen__lint_word_list *words = &reader->words;
    struct pen__lint_scope *scope = &reader->script->scope;
    bool is_for =
        is_word(&words->list[0], "for") || is_word(&words->list[0], "select");
    bool is_read = is_word(&words->list[0], "read") ||
                   is_word(&words->list[0], "unset") ||
                   is_word(&words->list[0], "mapfile");
    for (uint32_t i = 1; i < words->count && (is_read || (is_for && i == 1));
         i++)
        pen__lint_scope_forget(scope, words->list[i].text,
                               words->list[i].length);
    if (is_word(&words->list[0], "source") || is_word(&words->list[0], "."))
        for (uint32_t i = 0; i < scope->count; i++)
            scope->list[i].is_unknown = true;
}

static void keep_command(struct reader *reader)
{
    struct pen__lint_script *script = reader->script;
    if (script->count == script->capacity) {
        uint32_t capacity = script->capacity == 0 ? 16 : 2 * script->capacity;
        struct pen__lint_word_list *list =
            capacity > 2 * MOST_COMMANDS
                ? NULL
                : realloc(script->commands, capacity * sizeof *list);
        if (list == NULL) {
            script->scope.budget.has_failed = true;
            pen__lint_words_release(&reader->words);
            return;
        }
        script->commands = list;
        script->capacity = capacity;
    }
    script->commands[script->count++] = reader->words;
    reader->words = (struct pen__lint_word_list){.list = NULL};
}

/* Assignments without a command after them, or after export, last. */
static void end_command(struct reader *reader)
{
    if (reader->words.count == 0 || reader->is_declaring)
        for (uint32_t i = 0; i < reader->num_pending; i++)
            pen__lint_assign(&reader->script->scope, &reader->pending[i],
                             reader->depth > 0 || reader->is_conditional);
    reader->num_pending = 0;
    if (reader->words.count > 0) {
        forget_names(reader);
        keep_command(reader);
    }
    reader->is_declaring = false;
    reader->is_redirected = false;
    reader->is_heredoc = false;
}

/*
 * Takes a word that begins or ends a conditional part; a command begins after
 * it.
 */
static bool take_keyword(struct reader *reader,
                         const struct pen_shell_token *token)
{
    static const struct {
        const char *word;
        int depth;
    } keywords[] = {{"if", 1},   {"while", 1}, {"until", 1},   {"{", 1},
                    {"fi", -1},  {"done", -1}, {"esac", -1},   {"}", -1},
                    {"then", 0}, {"do", 0},    {"else", 0},    {"elif", 0},
                    {"!", 0},    {"time", 0},  {"function", 0}};
    const char *text = reader->scanner.text + token->begin;
    size_t length = token->end - token->begin;
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        if (strlen(keywords[i].word) != length ||
            memcmp(keywords[i].word, text, length) != 0)
            continue;
        if (keywords[i].depth > 0)
            reader->depth++;
        if (keywords[i].depth < 0 && reader->depth > 0)
            reader->depth--;
        return true;
    }
    if ((length == 3 && memcmp(text, "for", 3) == 0) ||
        (length == 4 && memcmp(text, "case", 4) == 0) ||
        (length == 6 && memcmp(text, "select", 6) == 0))
        reader->depth++;
    return false;
}

static bool declares(const struct pen__lint_word *word)
{
    return is_word(word, "export") || is_word(word, "declare") ||
           is_word(word, "local") || is_word(word, "readonly") ||
           is_word(word, "typeset");
}

static void note_heredoc(struct reader *reader,
                         const struct pen_shell_token *token)
{
    reader->is_heredoc = false;
    if (reader->num_heredocs == MOST_HEREDOCS)
        return;
    struct heredoc *heredoc = &reader->heredocs[reader->num_heredocs++];
    pen_text_clear(&heredoc->word);
    pen_shell_unquote(reader->scanner.text, token, &heredoc->word);
}

static bool take_assignment(struct reader *reader,
                            const struct pen_shell_token *token)
{
    struct pen__lint_pending pending;
    if (!pen__lint_assignment_parse(&reader->scanner, token, &pending))
        return false;
    if (reader->num_pending < MOST_PENDING)
        reader->pending[reader->num_pending++] = pending;
    return true;
}

/*
 * Returns whether the body of `name() {` or `function name {` opens, after a
 * word.
 */
static bool opens_body(const struct reader *reader,
                       const struct pen_shell_token *token)
{
    return token->end - token->begin == 1 &&
           reader->scanner.text[token->begin] == '{';
}

static void take_word(struct reader *reader,
                      const struct pen_shell_token *token)
{
    if (opens_body(reader, token))
        end_command(reader);
    bool is_first = reader->words.count == 0;
    if (reader->is_heredoc) {
        note_heredoc(reader, token);
    } else if (reader->is_redirected) {
        reader->is_redirected = false;
    } else if ((is_first || reader->is_declaring) &&
               take_assignment(reader, token)) {
        return;
    } else if (!is_first || reader->num_pending > 0 ||
               !take_keyword(reader, token)) {
        pen__lint_expand(&reader->script->scope, token, false, &reader->words);
        reader->is_declaring =
            reader->is_declaring || (is_first && reader->words.count == 1 &&
                                     declares(&reader->words.list[0]));
    }
}

/* Skips to a line that is the word; `<<-` lets it begin with tabs. */
static void skip_heredoc(struct reader *reader, const struct heredoc *heredoc)
{
    struct pen_shell_scanner *scanner = &reader->scanner;
    bool is_end = false;
    while (!is_end && scanner->at < scanner->length) {
        const char *line = scanner->text + scanner->at;
        const char *end = memchr(line, '\n', scanner->length - scanner->at);
        size_t length =
            end == NULL ? scanner->length - scanner->at : (size_t)(end - line);
        scanner->at += length + (end != NULL);
        while (heredoc->has_tabs && length > 0 && line[0] == '\t') {
            line++;
            length--;
        }
        is_end = length == heredoc->word.length &&
                 memcmp(line, pen_text_string(&heredoc->word), length) == 0;
    }
}

/* Drops the 2 of "2>&1", which is not a word of the command. */
static void drop_descriptor(struct reader *reader, size_t place)
{
    struct pen__lint_word_list *words = &reader->words;
    if (words->count == 0)
        return;
    struct pen__lint_word *last = &words->list[words->count - 1];
    if (last->length > 0 && pen__lint_word_end(last) == place &&
        strspn(last->text, "0123456789") == last->length) {
        pen__lint_word_release(last);
        words->count--;
    }
}

/* Operators that end a command. The ")" of a case opens nothing. */
static void take_end(struct reader *reader, const char *text, size_t length)
{
    struct pen_shell_scanner *scanner = &reader->scanner;
    bool is_function = text[0] == '(' && reader->words.count == 1;
    end_command(reader);
    if (is_function && scanner->at < scanner->length &&
        scanner->text[scanner->at] == ')') {
        scanner->at++;
    } else if (text[0] == '(') {
        reader->depth++;
        reader->parentheses++;
    } else if (text[0] == ')' && reader->parentheses > 0) {
        reader->parentheses--;
        reader->depth -= reader->depth > 0;
    }
    reader->is_conditional = length == 2 && (memcmp(text, "&&", 2) == 0 ||
                                             memcmp(text, "||", 2) == 0);
}

static void take_operator(struct reader *reader,
                          const struct pen_shell_token *token)
{
    const char *text = reader->scanner.text + token->begin;
    size_t length = token->end - token->begin;
    if (length >= 2 && memcmp(text, "<<", 2) == 0 &&
        (length == 2 || text[2] != '<')) {
        bool has_tabs = token->end < reader->scanner.length &&
                        reader->scanner.text[token->end] == '-';
        reader->scanner.at += has_tabs;
        reader->is_heredoc = true;
        if (reader->num_heredocs < MOST_HEREDOCS)
            reader->heredocs[reader->num_heredocs].has_tabs = has_tabs;
        return;
    }
    if (text[0] == '<' || text[0] == '>' ||
        (length > 1 && text[0] == '&' && text[1] == '>')) {
        reader->is_redirected = true;
        drop_descriptor(reader, token->begin);
        return;
    }
    take_end(reader, text, length);
}

static pen_status read_all(struct reader *reader, size_t *broken)
{
    for (;;) {
        struct pen_shell_token token = pen_shell_next(&reader->scanner);
        switch (token.kind) {
        case PEN_SHELL_WORD:
            take_word(reader, &token);
            break;
        case PEN_SHELL_OPERATOR:
            take_operator(reader, &token);
            break;
        case PEN_SHELL_LINE:
            end_command(reader);
            reader->is_conditional = false;
            for (uint32_t i = 0; i < reader->num_heredocs; i++)
                skip_heredoc(reader, &reader->heredocs[i]);
            reader->num_heredocs = 0;
            break;
        case PEN_SHELL_END:
            end_command(reader);
            return PEN_OK;
        case PEN_SHELL_BROKEN:
            *broken = token.begin;
            return PEN_INVALID;
        }
    }
}

/*
 * Returns whether the file begins with an option: then its lines are one
 * command.
 */
static bool is_options(const char *text, size_t length)
{
    struct pen_shell_scanner scanner = {
        .text = text, .length = length, .has_commands = false};
    struct pen_shell_token token = pen_shell_next(&scanner);
    return token.kind == PEN_SHELL_WORD && token.end - token.begin > 2 &&
           memcmp(text + token.begin, "--", 2) == 0;
}

pen_status pen__lint_script_read(const char *text, size_t length,
                                 struct pen__lint_script *out, size_t *broken)
{
    struct reader *reader = calloc(1, sizeof *reader);
    *out = (struct pen__lint_script){
        .scope = {.text = text, .budget = {.letters = MOST_LETTERS}}};
    if (reader == NULL)
        return PEN_NOMEM;
    reader->script = out;
    reader->scanner =
        (struct pen_shell_scanner){.text = text,
                                   .length = length,
                                   .has_commands = !is_options(text, length)};
    pen__lint_sbatch_read(text, length, out);
    pen_status status = read_all(reader, broken);
    for (uint32_t i = 0; i < MOST_HEREDOCS; i++)
        pen_text_release(&reader->heredocs[i].word);
    pen__lint_words_release(&reader->words);
    free(reader);
    if (status != PEN_OK)
        pen__lint_script_release(out);
    return status;
}

void pen__lint_script_release(struct pen__lint_script *script)
{
    for (uint32_t i = 0; i < script->count; i++)
        pen__lint_words_release(&script->commands[i]);
    free(script->commands);
    pen__lint_scope_release(&script->scope);
    *script = (struct pen__lint_script){.commands = NULL};
}
