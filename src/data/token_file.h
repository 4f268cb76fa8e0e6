#ifndef PEN_DATA_TOKEN_FILE_H
#define PEN_DATA_TOKEN_FILE_H

#include "base/status.h"
#include "base/text.h"
#include "data/map.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Files of tokens as other programs write them, read as one stream of ids.
 * docs/formats.md has the bytes.
 */

/* name, words on the command line, file that has the tokens */
#define PEN_TOKEN_FORMAT_TABLE(X)                                              \
    X(MEGATRON, "megatron")                                                    \
    X(LLMC, "llmc")                                                            \
    X(NANOGPT, "nanogpt")

enum pen_token_format {
#define PEN_TOKEN_FORMAT_ENUM(name, text) PEN_TOKENS_##name,
    PEN_TOKEN_FORMAT_TABLE(PEN_TOKEN_FORMAT_ENUM)
#undef PEN_TOKEN_FORMAT_ENUM
        PEN_TOKEN_FORMATS
};

/* The last is NULL. */
extern const char *const pen_token_format_names[];

/* Codes as in byte 17 of Megatron's index; uint32 is llm.c's alone. */
enum pen_token_type {
    PEN_TOKEN_UINT8 = 1,
    PEN_TOKEN_INT16 = 3,
    PEN_TOKEN_INT32 = 4,
    PEN_TOKEN_INT64 = 5,
    PEN_TOKEN_UINT16 = 8,
    PEN_TOKEN_UINT32 = 128
};

size_t pen_token_type_bytes(enum pen_token_type type);

/* Read-only, so that any number of threads may read. */
struct pen_token_file {
    enum pen_token_format format;
    enum pen_token_type type;
    uint64_t num_tokens;
    uint64_t num_documents; /* 1 where the format does not separate them */
    struct pen__map bin;
    struct pen__map idx;   /* Megatron's only */
    const uint8_t *tokens; /* inside bin */
    uint64_t num_sequences;
};

/*
 * Opens the file of a path: Megatron's format when PATH.idx or
 * PATH_text_document.idx exists (PATH may also end in .bin or .idx), otherwise
 * llm.c's when the file begins with its magic, otherwise nanoGPT's.
 *
 * Every number of the index is checked here, so that reading needs no checks.
 * On failure *out is untouched and why has the path and the offset.
 */
pen_status pen_token_file_init(struct pen_token_file *out, const char *path,
                               struct pen_text *why);
void pen_token_file_release(struct pen_token_file *file);

/*
 * Copies tokens [begin, begin + count), which must be inside. An id that no
 * vocabulary has (negative, or beyond 32 bits) comes out as UINT32_MAX. A
 * process that reads a whole file does not grow by it.
 */
void pen_token_file_read(const struct pen_token_file *file, uint64_t begin,
                         size_t count, uint32_t *out);

/* Returns where a document begins; num_documents gives num_tokens. */
uint64_t pen_token_file_document(const struct pen_token_file *file,
                                 uint64_t document);

#endif
