#ifndef PEN_CORE_SAFETENSORS_H
#define PEN_CORE_SAFETENSORS_H

#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "core/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * safetensors: named tensors in a file.
 *
 *   0        8                8+N
 *   | N, u64 | N bytes of JSON | bytes of the tensors, without holes |
 *
 *   {"__metadata__": {"format": "pt"},
 *    "a.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
 *
 * Offsets count from 8+N. Everything is little-endian and row-major.
 */

#define PEN_SAFETENSORS_MAX_HEADER 100000000u

/* One tensor of a file. All pointers are borrowed until the file is closed. */
struct pen_safetensor {
    const char *name;
    enum pen_dtype dtype;
    uint32_t num_dims;
    const uint64_t *shape;
    uint64_t offset; /* from the end of the header */
    uint64_t num_bytes;
    const unsigned char *bytes; /* not aligned in general */
    bool is_transposed; /* F32 with two dimensions, column by column; in memory
                           alone */
};

/* An open file; tensors are sorted by name. */
struct pen_safetensors {
    struct pen_safetensor *tensors;
    size_t num_tensors;
    uint64_t *dims; /* allocated after the shapes */
    void *header;   /* parsed; has the names */
    void *mapping;  /* NULL when the bytes are the caller's */
    size_t mapping_bytes;
};

/*
 * Maps a file and checks all of its header: bounds, shapes, offsets, that the
 * tensors cover the file without overlap or hole. Bytes are read when they
 * are touched. The file must not be made shorter while it is open.
 *
 * On success close with pen_safetensors_close(). On failure why has the path,
 * the tensor or offset, and in brackets the name that the reference
 * implementation gives the error: "... (InvalidOffset)".
 */
pen_status pen_safetensors_open(const char *path, struct pen_safetensors **out,
                                struct pen_text *why);

/* Opens bytes in memory likewise; they must outlive the result. */
pen_status pen_safetensors_parse(const void *bytes, size_t length,
                                 struct pen_safetensors **out,
                                 struct pen_text *why);

void pen_safetensors_close(struct pen_safetensors *file);

/* Returns the tensor, or NULL. Borrowed until the file is closed. */
const struct pen_safetensor *
pen_safetensors_find(const struct pen_safetensors *file, const char *name);

/* Returns the value of a key of "__metadata__", or NULL; borrowed likewise. */
const char *pen_safetensors_metadata(const struct pen_safetensors *file,
                                     const char *key);

/* A tensor that is going to be written. */
struct pen_tensor_spec {
    const char *name;
    enum pen_dtype dtype;
    uint32_t num_dims;
    const uint64_t *shape;
};

/* Computes the bytes of a tensor; refuses shapes that no file can hold. */
pen_status pen_tensor_spec_bytes(const struct pen_tensor_spec *spec,
                                 uint64_t *out, struct pen_text *why);

/*
 * Returns a number below 0 if a comes before b in a file: wide types first,
 * then by name.
 */
int pen_tensor_spec_compare(const struct pen_tensor_spec *a,
                            const struct pen_tensor_spec *b);

/*
 * Lays out a file that is kept in memory: adds all bytes before the tensors to
 * *head; offsets[count] are from the beginning of the file, of the tensors as
 * they were given, and *num_bytes is its size. Tensors begin at a multiple of
 * 64 bytes.
 */
pen_status pen_safetensors_lay(const struct pen_tensor_spec *specs,
                               size_t count, struct pen_text *head,
                               uint64_t *offsets, uint64_t *num_bytes,
                               struct pen_text *why);

/*
 * Writes a file tensor by tensor, so that nothing needs the whole model in
 * memory. Tensors lie in the order of the reference writer: wide types first,
 * then by name. They may be put in any order, each in as many stretches as
 * wanted.
 */
struct pen_safetensors_writer;

/*
 * Writes the header to a temporary name in the folder of path. Specs are only
 * read during the call. Names must differ. On success end with _finish() or
 * _abandon().
 */
pen_status pen_safetensors_create(const char *path,
                                  const struct pen_tensor_spec *specs,
                                  size_t count,
                                  struct pen_safetensors_writer **out,
                                  struct pen_text *why);

/* Appends bytes to the tensor that was specs[tensor]. */
pen_status pen_safetensors_put(struct pen_safetensors_writer *writer,
                               size_t tensor, const void *bytes, size_t length,
                               struct pen_text *why);

/*
 * Puts bytes likewise, from byte `at` of the tensor on; no byte may be put
 * twice.
 */
pen_status pen_safetensors_put_at(struct pen_safetensors_writer *writer,
                                  size_t tensor, uint64_t at, const void *bytes,
                                  size_t length, struct pen_text *why);

/*
 * Syncs and renames; every tensor must be complete. Frees the writer in either
 * case; on failure no file is left. Facts may be NULL; the hash is made while
 * writing, so it is "" unless the tensors were put in the order of the file.
 */
pen_status pen_safetensors_finish(struct pen_safetensors_writer *writer,
                                  struct pen_file_facts *facts,
                                  struct pen_text *why);

void pen_safetensors_abandon(struct pen_safetensors_writer *writer);

#endif
