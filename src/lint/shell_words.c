#include "lint/shell_words.h"

#include <stdlib.h>
#include <string.h>

void pen__lint_word_init(struct pen__lint_word *word)
{
    *word = (struct pen__lint_word){.is_known = true};
}

void pen__lint_word_release(struct pen__lint_word *word)
{
    free(word->text);
    free(word->places);
    pen__lint_word_init(word);
}

static bool grow_word(struct pen__lint_word *word)
{
    size_t capacity = word->capacity == 0 ? 16 : 2 * word->capacity;
    char *text = realloc(word->text, capacity);
    if (text != NULL)
        word->text = text;
    uint32_t *places = realloc(word->places, capacity * sizeof *places);
    if (places != NULL)
        word->places = places;
    if (text == NULL || places == NULL)
        return false;
    word->capacity = capacity;
    return true;
}

void pen__lint_word_add(struct pen__lint_word *word,
                        struct pen__lint_budget *budget, char letter,
                        size_t place)
{
    bool has_room = word->length + 1 < word->capacity || grow_word(word);
    if (budget->letters == 0 || !has_room) {
        budget->has_failed = true;
        word->is_known = false;
        return;
    }
    budget->letters--;
    word->text[word->length] = letter;
    word->places[word->length++] = (uint32_t)place;
    word->text[word->length] = '\0';
}

void pen__lint_words_add(struct pen__lint_word_list *words,
                         struct pen__lint_budget *budget,
                         struct pen__lint_word *word)
{
    if (word->text == NULL && !grow_word(word)) {
        budget->has_failed = true;
        return;
    }
    word->text[word->length] = '\0';
    if (words->count == words->capacity) {
        uint32_t capacity = words->capacity == 0 ? 8 : 2 * words->capacity;
        struct pen__lint_word *list =
            realloc(words->list, capacity * sizeof *list);
        if (list == NULL) {
            budget->has_failed = true;
            pen__lint_word_release(word);
            return;
        }
        words->list = list;
        words->capacity = capacity;
    }
    words->list[words->count++] = *word;
    pen__lint_word_init(word);
}

void pen__lint_words_add_copy(struct pen__lint_word_list *words,
                              struct pen__lint_budget *budget,
                              const struct pen__lint_word *word)
{
    struct pen__lint_word copy;
    pen__lint_word_init(&copy);
    copy.is_known = word->is_known;
    copy.is_many = word->is_many;
    copy.is_quoted = word->is_quoted;
    if (budget->letters < word->length + 1) {
        budget->has_failed = true;
        return;
    }
    budget->letters--;
    for (size_t i = 0; i < word->length; i++)
        pen__lint_word_add(&copy, budget, word->text[i], word->places[i]);
    pen__lint_words_add(words, budget, &copy);
    pen__lint_word_release(&copy);
}

void pen__lint_words_release(struct pen__lint_word_list *words)
{
    for (uint32_t i = 0; i < words->count; i++)
        pen__lint_word_release(&words->list[i]);
    free(words->list);
    *words = (struct pen__lint_word_list){.list = NULL};
}

size_t pen__lint_word_begin(const struct pen__lint_word *word)
{
    return word->length == 0 ? 0 : word->places[0];
}

size_t pen__lint_word_end(const struct pen__lint_word *word)
{
    return pen__lint_part_end(word, 0, word->length);
}

size_t pen__lint_part_end(const struct pen__lint_word *word, size_t first,
                          size_t last)
{
    if (first >= last)
        return 0;
    for (size_t i = first + 1; i < last; i++)
        if (word->places[i] != word->places[i - 1] + 1)
            return word->places[first];
    return word->places[last - 1] + 1u;
}

void pen__lint_words_split(struct pen__lint_word_list *words,
                           struct pen__lint_budget *budget,
                           const struct pen__lint_word *word)
{
    struct pen__lint_word part;
    pen__lint_word_init(&part);
    for (size_t i = 0; i <= word->length; i++) {
        char letter = i < word->length ? word->text[i] : '\n';
        if (strchr(" \t\r\n;", letter) == NULL) {
            if (letter != '"' && letter != '\'' && letter != '\\')
                pen__lint_word_add(&part, budget, letter, word->places[i]);
        } else if (part.length > 0) {
            pen__lint_words_add(words, budget, &part);
        }
    }
    pen__lint_word_release(&part);
    if (!word->is_known) {
        part.is_known = false;
        part.is_many = true;
        pen__lint_words_add(words, budget, &part);
        pen__lint_word_release(&part);
    }
}
