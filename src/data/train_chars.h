#ifndef PEN_DATA_TRAIN_CHARS_H
#define PEN_DATA_TRAIN_CHARS_H

#include "base/status.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Makes a tokenizer of single characters: appends a tokenizer.json whose ids
 * are the different characters of the files in UTF-8, in the order of Unicode,
 * and sets *num_chars to their number. A character that is in none of the
 * files has no id: encoding leaves it out. On failure why has the path and,
 * for a wrong byte, the offset.
 */
pen_status pen_train_chars(char *const *paths, size_t num_paths,
                           struct pen_text *out, uint32_t *num_chars,
                           struct pen_text *why);

#endif
