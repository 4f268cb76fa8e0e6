#ifndef PEN_BASE_TEXT_H
#define PEN_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>

/*
 * A string that grows. Used for everything printed and for the reason of a
 * refusal: functions that judge input take a `struct pen_text *why` and put
 * one sentence there, so that a search may try a thousand schedules in silence
 * and the command line prints the one that matters.
 *
 * Running out of memory while writing text is not reported call by call: the
 * text stays as it was and has_failed is set.
 */
struct pen_text {
    char *bytes; /* always ends in NUL once anything was added; may be NULL */
    size_t length;
    size_t capacity;
    int has_failed;
};

#define PEN_TEXT_EMPTY                                                         \
    {                                                                          \
        NULL, 0, 0, 0                                                          \
    }

void pen_text_init(struct pen_text *text);
void pen_text_release(struct pen_text *text);

/*
 * Returns the string, "" while nothing was added. Borrowed until the next
 * change.
 */
const char *pen_text_string(const struct pen_text *text);

void pen_text_clear(struct pen_text *text);
void pen_text_add(struct pen_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void pen_text_add_list(struct pen_text *text, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
void pen_text_add_bytes(struct pen_text *text, const char *bytes,
                        size_t length);
void pen_text_add_string(struct pen_text *text, const char *string);
void pen_text_add_repeat(struct pen_text *text, char letter, size_t count);

/*
 * Adds a number in decimal, without the cost of printf: a schedule has millions
 * of numbers.
 */
void pen_text_add_number(struct pen_text *text, unsigned long number);

/* The fewest digits that read back as the same number; "null" if not finite. */
#define PEN_REAL_SIZE 32
void pen_real_print(double value, char text[PEN_REAL_SIZE]);
void pen_text_add_real(struct pen_text *text, double value);

/* Adds a word quoted for a shell, whatever it contains. */
void pen_text_add_quoted(struct pen_text *text, const char *word);

/* Adds words out of a file: bytes that cannot be printed become '?'. */
void pen_text_add_printable(struct pen_text *text, const char *bytes,
                            size_t length);

/*
 * Shows byte `at` of a source: the line around it, indented, and a caret
 * under it. Begins with a newline, ends without.
 */
void pen_text_add_excerpt(struct pen_text *text, const char *source,
                          size_t length, size_t at);

/* Sets the text like pen_text_add(), but does nothing when text is NULL. */
void pen_why(struct pen_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
