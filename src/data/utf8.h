#ifndef PEN_DATA_UTF8_H
#define PEN_DATA_UTF8_H

#include <stddef.h>
#include <stdint.h>

/*
 * Index of the first byte that does not belong to UTF-8 (surrogates, overlong
 * forms and numbers above U+10FFFF do not); `length` when all is well.
 */
size_t pen__utf8_check(const char *text, size_t length);

/* Bytes of the character that begins with this byte of checked text. */
size_t pen__utf8_size(char first);

/* The character at `text`, which is checked; *size is set to its bytes. */
uint32_t pen__utf8_read(const char *text, size_t *size);

/* Returns where the character in front of `at`, which is not 0, begins. */
size_t pen__utf8_before(const char *text, size_t at);

/* Writes a character as one to four bytes and returns their number. */
size_t pen__utf8_write(uint32_t character, char out[4]);

/* The first place of a pattern of at least one byte; NULL when none. */
const char *pen__search(const char *text, size_t length, const char *pattern,
                        size_t size);

#endif
