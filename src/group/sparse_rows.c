#include "group/sparse_rows.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define ALL_ROWS UINT32_MAX

enum { WORD = sizeof(uint32_t) };

static void put_word(char *message, size_t index, uint32_t word)
{
    memcpy(message + index * WORD, &word, WORD);
}

static uint32_t word_at(const char *message, size_t index)
{
    uint32_t word;
    memcpy(&word, message + index * WORD, WORD);
    return word;
}

static bool is_zero(const float *row, size_t width)
{
    uint32_t any = 0;
    for (size_t i = 0; i < width; i++) {
        uint32_t bits;
        memcpy(&bits, &row[i], sizeof bits);
        any |= bits;
    }
    return any == 0;
}

static size_t row_bytes(size_t width)
{
    return width * sizeof(float);
}

size_t pen_sparse_rows_most(size_t rows, size_t width)
{
    return WORD + rows * row_bytes(width);
}

/* Returns the bytes of a message that sends this many rows. */
static size_t message_bytes(size_t sent, size_t width)
{
    return WORD + sent * (WORD + row_bytes(width));
}

static size_t pack_all(const float *from, size_t rows, size_t width,
                       char *message)
{
    put_word(message, 0, ALL_ROWS);
    memcpy(message + WORD, from, rows * row_bytes(width));
    return pen_sparse_rows_most(rows, width);
}

/* Indices never need more room than the rows would. */
size_t pen_sparse_rows_pack(const float *from, size_t rows, size_t width,
                            void *message)
{
    uint32_t sent = 0;
    char *to = message;
    for (size_t row = 0; row < rows; row++)
        if (!is_zero(from + row * width, width))
            put_word(to, ++sent, (uint32_t)row);
    size_t bytes = message_bytes(sent, width);
    if (bytes >= pen_sparse_rows_most(rows, width))
        return pack_all(from, rows, width, to);
    put_word(to, 0, sent);
    char *place = to + (sent + (size_t)1) * WORD;
    for (uint32_t i = 0; i < sent; i++, place += row_bytes(width))
        memcpy(place, from + word_at(to, i + (size_t)1) * width,
               row_bytes(width));
    return bytes;
}

size_t pen_sparse_rows_bytes(const void *message, size_t rows, size_t width)
{
    uint32_t sent = word_at(message, 0);
    return sent == ALL_ROWS ? pen_sparse_rows_most(rows, width)
                            : message_bytes(sent, width);
}

void pen_sparse_rows_unpack(const void *message, size_t rows, size_t width,
                            float *to)
{
    const char *from = message;
    uint32_t sent = word_at(from, 0);
    if (sent == ALL_ROWS) {
        memcpy(to, from + WORD, rows * row_bytes(width));
        return;
    }
    const char *place = from + (sent + (size_t)1) * WORD;
    memset(to, 0, rows * row_bytes(width));
    for (uint32_t i = 0; i < sent; i++, place += row_bytes(width))
        memcpy(to + word_at(from, i + (size_t)1) * width, place,
               row_bytes(width));
}
