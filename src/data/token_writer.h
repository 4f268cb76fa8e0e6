#ifndef PEN_DATA_TOKEN_WRITER_H
#define PEN_DATA_TOKEN_WRITER_H

#include "data/token_file.h"

/*
 * Writes a file of tokens, document by document:
 *
 *   megatron   PREFIX_text_document.bin and .idx
 *   llmc       PREFIX.bin
 *   nanogpt    PREFIX.bin
 *
 * The files appear whole or not at all: until pen_token_writer_finish() they
 * have the ending .part.
 */
struct pen_token_writer;

/*
 * Creates a writer. The vocabulary decides the type: Megatron's uint16 below
 * 65,500 ids, else int32; llm.c's uint16 up to 65,536, else uint32; nanoGPT's
 * uint16.
 */
pen_status pen_token_writer_create(const char *prefix,
                                   enum pen_token_format format,
                                   uint32_t vocab_size,
                                   struct pen_token_writer **out,
                                   struct pen_text *why);

/* Removes what was not finished. */
void pen_token_writer_free(struct pen_token_writer *writer);

/* Adds tokens to the document under way; ids are below the vocab_size. */
pen_status pen_token_writer_add(struct pen_token_writer *writer,
                                const uint32_t *ids, size_t count,
                                struct pen_text *why);

/* Ends the document under way, which may be empty. */
pen_status pen_token_writer_end_document(struct pen_token_writer *writer,
                                         struct pen_text *why);

/* Completes and names the files. Call it once; then free the writer. */
pen_status pen_token_writer_finish(struct pen_token_writer *writer,
                                   struct pen_text *why);

uint64_t pen_token_writer_tokens(const struct pen_token_writer *writer);

/*
 * Returns the file that a user names in --data-path. Borrowed from the writer.
 */
const char *pen_token_writer_path(const struct pen_token_writer *writer);

#endif
