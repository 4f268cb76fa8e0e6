#include "base/text.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pen_text_init(struct pen_text *text)
{
    *text = (struct pen_text)PEN_TEXT_EMPTY;
}

void pen_text_release(struct pen_text *text)
{
    free(text->bytes);
    pen_text_init(text);
}

const char *pen_text_string(const struct pen_text *text)
{
    return text->bytes == NULL ? "" : text->bytes;
}

void pen_text_clear(struct pen_text *text)
{
    text->length = 0;
    if (text->bytes != NULL)
        text->bytes[0] = '\0';
}

/* Makes room for `more` bytes and the NUL; 0 when there is no memory. */
static int reserve(struct pen_text *text, size_t more)
{
    size_t need = text->length + more + 1;
    if (need <= text->capacity)
        return 1;
    size_t capacity = text->capacity < 64 ? 64 : text->capacity * 2;
    if (capacity < need)
        capacity = need;
    char *bytes = realloc(text->bytes, capacity);
    if (bytes == NULL) {
        text->has_failed = 1;
        return 0;
    }
    text->bytes = bytes;
    text->capacity = capacity;
    return 1;
}

void pen_text_add_bytes(struct pen_text *text, const char *bytes, size_t length)
{
    if (!reserve(text, length))
        return;
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    text->bytes[text->length] = '\0';
}

void pen_text_add_string(struct pen_text *text, const char *string)
{
    pen_text_add_bytes(text, string, strlen(string));
}

void pen_text_add_repeat(struct pen_text *text, char letter, size_t count)
{
    if (!reserve(text, count))
        return;
    memset(text->bytes + text->length, letter, count);
    text->length += count;
    text->bytes[text->length] = '\0';
}

void pen_text_add_number(struct pen_text *text, unsigned long number)
{
    char digits[24];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    pen_text_add_bytes(text, digits + at, sizeof digits - at);
}

void pen_real_print(double value, char text[PEN_REAL_SIZE])
{
    if (!isfinite(value)) {
        strcpy(text, "null");
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, PEN_REAL_SIZE, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            return;
    }
}

void pen_text_add_real(struct pen_text *text, double value)
{
    char digits[PEN_REAL_SIZE];
    pen_real_print(value, digits);
    pen_text_add_string(text, digits);
}

void pen_text_add_quoted(struct pen_text *text, const char *word)
{
    pen_text_add_string(text, "'");
    for (; *word != '\0'; word++) {
        if (*word == '\'')
            pen_text_add_string(text, "'\\''");
        else
            pen_text_add_bytes(text, word, 1);
    }
    pen_text_add_string(text, "'");
}

void pen_text_add_printable(struct pen_text *text, const char *bytes,
                            size_t length)
{
    for (size_t i = 0; i < length; i++) {
        bool is_printable = bytes[i] >= ' ' && bytes[i] <= '~';
        pen_text_add_repeat(text, is_printable ? bytes[i] : '?', 1);
    }
}

void pen_text_add_excerpt(struct pen_text *text, const char *source,
                          size_t length, size_t at)
{
    const size_t around = 32;
    size_t from = at;
    while (from > 0 && at - from < around && source[from - 1] != '\n')
        from--;
    size_t to = at;
    while (to < length && to - at < around && source[to] != '\n')
        to++;
    bool is_cut = from > 0 && source[from - 1] != '\n';
    pen_text_add_string(text, is_cut ? "\n  ..." : "\n  ");
    pen_text_add_printable(text, source + from, to - from);
    bool has_more = to < length && source[to] != '\n';
    pen_text_add_string(text, has_more ? "...\n  " : "\n  ");
    pen_text_add_repeat(text, ' ', at - from + (is_cut ? 3 : 0));
    pen_text_add_string(text, "^");
}

void pen_text_add_list(struct pen_text *text, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0 || !reserve(text, (size_t)length))
        return;
    vsnprintf(text->bytes + text->length, (size_t)length + 1, format, args);
    text->length += (size_t)length;
}

void pen_text_add(struct pen_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pen_text_add_list(text, format, args);
    va_end(args);
}

void pen_why(struct pen_text *text, const char *format, ...)
{
    if (text == NULL)
        return;
    va_list args;
    va_start(args, format);
    pen_text_add_list(text, format, args);
    va_end(args);
}
