#ifndef PEN_GROUP_SPARSE_ROWS_H
#define PEN_GROUP_SPARSE_ROWS_H

#include <stddef.h>

/*
 * Rows of floats of which most are zero, as the gradient of a token table is
 * (Parallax, Kim et al., 2019, arXiv:1808.02621), as a message:
 *
 *   | number of rows sent, 4 bytes | their indices, 4 bytes each | the rows |
 *
 * A row is left out if all its bits are zero: unpacking is bit-identical.
 * Sending a share a of the rows pays if a (4 width + 4) < 4 width; else all are
 * sent, with a number that no piece has.
 */

/* Returns the bytes of a message, at most. */
size_t pen_sparse_rows_most(size_t rows, size_t width);

/* Packs rows into a message, which needs no alignment. Returns its bytes. */
size_t pen_sparse_rows_pack(const float *from, size_t rows, size_t width,
                            void *message);

/* Returns the bytes of a packed message. */
size_t pen_sparse_rows_bytes(const void *message, size_t rows, size_t width);

/* Unpacks all rows; those that were left out are zero. They may not overlap. */
void pen_sparse_rows_unpack(const void *message, size_t rows, size_t width,
                            float *to);

#endif
