#ifndef PEN_DATA_TOKENIZE_H
#define PEN_DATA_TOKENIZE_H

#include "data/token_writer.h"
#include "data/tokenizer.h"

/*
 * Files of text to a file of tokens, on several threads. The output does not
 * depend on their number: parts are written in the order of the text, and a
 * document is only cut where the ids stay the same.
 */

enum pen_document_kind {
    PEN_DOCUMENT_FILE,     /* each file is one */
    PEN_DOCUMENT_LINE,     /* each line that is not empty, without its end */
    PEN_DOCUMENT_JSON_LINE /* each line is an object with the text under a key
                            */
};

struct pen_tokenize_job {
    const struct pen_tokenizer *tokenizer;
    struct pen_token_writer *writer; /* not yet finished */
    char *const *paths;
    size_t num_paths;
    enum pen_document_kind kind;
    const char *json_key;
    bool appends_end;     /* the end-of-document token after each document */
    uint32_t num_threads; /* at least 1 */
    /* Called from the calling thread now and then; may be NULL. */
    void (*report)(void *context, uint64_t done_bytes, uint64_t total_bytes);
    void *context;
};

struct pen_tokenize_counts {
    uint64_t num_bytes;
    uint64_t num_documents;
};

/*
 * Tokenizes the files. On failure why has the path and, for a wrong byte or
 * line, the offset.
 */
pen_status pen_tokenize(const struct pen_tokenize_job *job,
                        struct pen_tokenize_counts *out, struct pen_text *why);

#endif
