#ifndef PEN_LINT_SHELL_WORDS_H
#define PEN_LINT_SHELL_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Words of a script after expansion. Each letter knows the byte of the file
 * that it was written in, so that a finding about a value points into the
 * assignment that holds it.
 */
struct pen__lint_word {
    char *text; /* ends in NUL; what is unknown of it is left out */
    uint32_t *places;
    size_t length;
    size_t capacity;
    bool is_known;
    bool is_many;   /* unknown, and any number of words in truth */
    bool is_quoted; /* '' is a word, too */
};

struct pen__lint_word_list {
    struct pen__lint_word *list;
    uint32_t count;
    uint32_t capacity;
};

/* Letters that all expansions of one script may make. */
struct pen__lint_budget {
    size_t letters;
    bool has_failed; /* memory ran out, or the letters did */
};

void pen__lint_word_init(struct pen__lint_word *word);
void pen__lint_word_release(struct pen__lint_word *word);
void pen__lint_word_add(struct pen__lint_word *word,
                        struct pen__lint_budget *budget, char letter,
                        size_t place);

/* Takes the word. */
void pen__lint_words_add(struct pen__lint_word_list *words,
                         struct pen__lint_budget *budget,
                         struct pen__lint_word *word);
void pen__lint_words_add_copy(struct pen__lint_word_list *words,
                              struct pen__lint_budget *budget,
                              const struct pen__lint_word *word);
void pen__lint_words_release(struct pen__lint_word_list *words);

/*
 * Return the places in the file where a word's letters begin and end. For
 * letters that are not adjacent in the file, the end is the beginning.
 */
size_t pen__lint_word_begin(const struct pen__lint_word *word);
size_t pen__lint_word_end(const struct pen__lint_word *word);

/* Returns where the letters from `first` to before `last` end in the file. */
size_t pen__lint_part_end(const struct pen__lint_word *word, size_t first,
                          size_t last);

/* Parts a word at its blanks, as `bash -c` does, without its quotes. */
void pen__lint_words_split(struct pen__lint_word_list *words,
                           struct pen__lint_budget *budget,
                           const struct pen__lint_word *word);

#endif
