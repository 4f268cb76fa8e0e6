#ifndef PEN_BASE_SHELL_H
#define PEN_BASE_SHELL_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Text of a shell, parted as bash parts it. Nothing is executed and nothing is
 * expanded: tokens and pieces are places in the text, and the reader decides
 * what a variable stands for.
 */
enum pen_shell_kind {
    PEN_SHELL_WORD,
    PEN_SHELL_OPERATOR, /* a run of ; & | < >, or one ( or ) */
    PEN_SHELL_LINE,     /* the end of a line */
    PEN_SHELL_END,
    PEN_SHELL_BROKEN /* a quote or a substitution does not end */
};

struct pen_shell_scanner {
    const char *text;
    size_t length;
    size_t at;
    bool has_commands; /* false: operators are letters, lines are blanks */
};

struct pen_shell_token {
    enum pen_shell_kind kind;
    size_t begin;
    size_t end;
};

/* Returns the next token; skips comments, blanks and continued lines. */
struct pen_shell_token pen_shell_next(struct pen_shell_scanner *scanner);

/*
 * The pieces of one word: letters that stand for themselves, and variables or
 * substitutions ("$X", "${X:-1}", "$(hostname)"). A pair of quotes also gives
 * an empty piece, so that '' is a word.
 */
struct pen_shell_pieces {
    const char *text;
    size_t at;
    size_t end;
    bool is_double; /* inside of double quotes */
};

struct pen_shell_piece {
    size_t begin;
    size_t end;
    bool is_variable;
    bool is_quoted;
};

bool pen_shell_next_piece(struct pen_shell_pieces *pieces,
                          struct pen_shell_piece *out);

/* Adds the word without quotes; variables stay as they are written. */
void pen_shell_unquote(const char *text, const struct pen_shell_token *word,
                       struct pen_text *out);

#endif
