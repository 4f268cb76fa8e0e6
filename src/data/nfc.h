#ifndef PEN_DATA_NFC_H
#define PEN_DATA_NFC_H

#include "base/text.h"

#include <stddef.h>

/*
 * Returns the length of the beginning that form C surely leaves unchanged. Most
 * text is in form C and need not be copied.
 */
size_t pen__nfc_calm(const char *text, size_t length);

/* Appends the normalization form C of checked UTF-8. */
void pen__nfc_add(struct pen_text *out, const char *text, size_t length);

/*
 * Returns the length of the beginning whose form C no later text could change:
 * up to the last character that begins anew.
 */
size_t pen__nfc_decided(const char *text, size_t length);

#endif
