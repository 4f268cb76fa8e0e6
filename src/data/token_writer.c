/*
 * The other direction of token_file.c. Tokens go to the disk as they come; of
 * a document only its length is kept, four bytes, for Megatron's index.
 */
#include "data/token_writer.h"

#include "base/bug.h"
#include "data/token_layout.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One output, under its .part name until it is complete. */
struct part {
    struct pen_text path;
    struct pen_text part;
    FILE *stream; /* NULL: closed */
    bool exists;
};

struct pen_token_writer {
    enum pen_token_format format;
    enum pen_token_type type;
    uint32_t vocab_size;
    struct pen_text stem; /* of Megatron's pair */
    struct part bin;
    struct part idx;
    uint64_t num_tokens;
    uint64_t document_begin;
    uint32_t *lengths; /* of Megatron's documents */
    size_t num_documents;
    size_t capacity;
};

static pen_status refuse_part(const struct part *part, struct pen_text *why)
{
    pen_why(why, "cannot write %s: %s", pen_text_string(&part->path),
            strerror(errno));
    return PEN_IO;
}

static pen_status open_part(struct part *part, const char *stem,
                            const char *ending, struct pen_text *why)
{
    pen_text_add(&part->path, "%s%s", stem, ending);
    pen_text_add(&part->part, "%s%s.part", stem, ending);
    if (part->path.has_failed || part->part.has_failed)
        return PEN_NOMEM;
    part->stream = fopen(part->part.bytes, "wb");
    if (part->stream == NULL)
        return refuse_part(part, why);
    part->exists = true;
    return PEN_OK;
}

static pen_status close_part(struct part *part, struct pen_text *why)
{
    FILE *stream = part->stream;
    part->stream = NULL;
    if (fclose(stream) != 0)
        return refuse_part(part, why);
    return PEN_OK;
}

static pen_status name_part(struct part *part, struct pen_text *why)
{
    if (rename(part->part.bytes, part->path.bytes) != 0)
        return refuse_part(part, why);
    part->exists = false;
    return PEN_OK;
}

static void release_part(struct part *part)
{
    if (part->stream != NULL)
        fclose(part->stream);
    if (part->exists)
        remove(part->part.bytes);
    pen_text_release(&part->path);
    pen_text_release(&part->part);
}

static pen_status put(struct part *part, const void *bytes, size_t length,
                      struct pen_text *why)
{
    if (fwrite(bytes, 1, length, part->stream) != length)
        return refuse_part(part, why);
    return PEN_OK;
}

static void store(uint8_t *bytes, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
}

static pen_status put_number(struct part *part, uint64_t value, size_t size,
                             struct pen_text *why)
{
    uint8_t bytes[8];
    store(bytes, value, size);
    return put(part, bytes, size, why);
}

static enum pen_token_type type_for(enum pen_token_format format,
                                    uint32_t vocab_size)
{
    if (format == PEN_TOKENS_MEGATRON)
        return vocab_size < 65500 ? PEN_TOKEN_UINT16 : PEN_TOKEN_INT32;
    return vocab_size <= 65536 ? PEN_TOKEN_UINT16 : PEN_TOKEN_UINT32;
}

static pen_status put_llmc_header(struct pen_token_writer *writer,
                                  struct pen_text *why)
{
    bool is_gpt2 = writer->type == PEN_TOKEN_UINT16;
    uint8_t header[PEN__LLMC_HEADER] = {0};
    store(header, is_gpt2 ? PEN__LLMC_GPT2_MAGIC : PEN__LLMC_LLAMA3_MAGIC, 4);
    store(header + 4,
          is_gpt2 ? PEN__LLMC_GPT2_VERSION : PEN__LLMC_LLAMA3_VERSION, 4);
    store(header + 8, writer->num_tokens, 4);
    return put(&writer->bin, header, sizeof header, why);
}

static pen_status open_files(struct pen_token_writer *writer,
                             const char *prefix, struct pen_text *why)
{
    bool is_pair = writer->format == PEN_TOKENS_MEGATRON;
    pen_text_add(&writer->stem, "%s%s", prefix,
                 is_pair ? "_text_document" : "");
    const char *stem = pen_text_string(&writer->stem);
    pen_status status = open_part(&writer->bin, stem, ".bin", why);
    if (status == PEN_OK && is_pair)
        status = open_part(&writer->idx, stem, ".idx", why);
    /* Holds the place; the number of tokens is known at the end. */
    if (status == PEN_OK && writer->format == PEN_TOKENS_LLMC)
        status = put_llmc_header(writer, why);
    return status;
}

pen_status pen_token_writer_create(const char *prefix,
                                   enum pen_token_format format,
                                   uint32_t vocab_size,
                                   struct pen_token_writer **out,
                                   struct pen_text *why)
{
    enum pen_token_type type = type_for(format, vocab_size);
    if (format == PEN_TOKENS_NANOGPT && type != PEN_TOKEN_UINT16) {
        pen_why(why,
                "nanogpt files hold 16-bit tokens and this vocabulary has "
                "%" PRIu32 "; use --format megatron or llmc",
                vocab_size);
        return PEN_INVALID;
    }
    struct pen_token_writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL)
        return PEN_NOMEM;
    writer->format = format;
    writer->type = type;
    writer->vocab_size = vocab_size;
    pen_status status = open_files(writer, prefix, why);
    if (status == PEN_OK)
        *out = writer;
    else
        pen_token_writer_free(writer);
    return status;
}

void pen_token_writer_free(struct pen_token_writer *writer)
{
    if (writer == NULL)
        return;
    release_part(&writer->bin);
    release_part(&writer->idx);
    pen_text_release(&writer->stem);
    free(writer->lengths);
    free(writer);
}

pen_status pen_token_writer_add(struct pen_token_writer *writer,
                                const uint32_t *ids, size_t count,
                                struct pen_text *why)
{
    uint8_t block[16384];
    size_t size = pen_token_type_bytes(writer->type);
    size_t room = sizeof block / size;
    for (size_t i = 0; i < count;) {
        size_t filled = 0;
        for (; filled < room && i < count; filled++, i++) {
            PEN_BUG_UNLESS(ids[i] < writer->vocab_size);
            store(block + filled * size, ids[i], size);
        }
        pen_status status = put(&writer->bin, block, filled * size, why);
        if (status != PEN_OK)
            return status;
    }
    writer->num_tokens += count;
    if (writer->format == PEN_TOKENS_LLMC && writer->num_tokens > INT32_MAX) {
        pen_why(why,
                "%s: llm.c files hold at most %d tokens; tokenize fewer files "
                "at a time, or use --format megatron",
                pen_text_string(&writer->bin.path), INT32_MAX);
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status keep_length(struct pen_token_writer *writer, uint32_t length)
{
    if (writer->num_documents == writer->capacity) {
        size_t capacity = writer->capacity == 0 ? 256 : writer->capacity * 2;
        uint32_t *lengths =
            realloc(writer->lengths, capacity * sizeof *lengths);
        if (lengths == NULL)
            return PEN_NOMEM;
        writer->lengths = lengths;
        writer->capacity = capacity;
    }
    writer->lengths[writer->num_documents++] = length;
    return PEN_OK;
}

pen_status pen_token_writer_end_document(struct pen_token_writer *writer,
                                         struct pen_text *why)
{
    if (writer->format != PEN_TOKENS_MEGATRON)
        return PEN_OK;
    uint64_t length = writer->num_tokens - writer->document_begin;
    if (length > INT32_MAX) {
        pen_why(why,
                "%s: a document of %" PRIu64
                " tokens; Megatron's index holds at most %d",
                pen_text_string(&writer->idx.path), length, INT32_MAX);
        return PEN_INVALID;
    }
    writer->document_begin = writer->num_tokens;
    return keep_length(writer, (uint32_t)length);
}

static pen_status put_index(struct pen_token_writer *writer,
                            struct pen_text *why)
{
    struct part *idx = &writer->idx;
    size_t size = pen_token_type_bytes(writer->type);
    size_t count = writer->num_documents;
    pen_status status = put(idx, PEN__IDX_MAGIC, PEN__IDX_MAGIC_BYTES, why);
    if (status == PEN_OK)
        status = put_number(idx, 1, 8, why);
    if (status == PEN_OK)
        status = put_number(idx, writer->type, 1, why);
    if (status == PEN_OK)
        status = put_number(idx, count, 8, why);
    if (status == PEN_OK)
        status = put_number(idx, count + 1, 8, why);
    for (size_t i = 0; i < count && status == PEN_OK; i++)
        status = put_number(idx, writer->lengths[i], 4, why);
    uint64_t at = 0;
    for (size_t i = 0; i < count && status == PEN_OK; i++) {
        status = put_number(idx, at, 8, why);
        at += writer->lengths[i] * size;
    }
    for (size_t i = 0; i <= count && status == PEN_OK; i++)
        status = put_number(idx, i, 8, why);
    return status;
}

static pen_status complete_header(struct pen_token_writer *writer,
                                  struct pen_text *why)
{
    if (fseek(writer->bin.stream, 0, SEEK_SET) != 0)
        return refuse_part(&writer->bin, why);
    return put_llmc_header(writer, why);
}

pen_status pen_token_writer_finish(struct pen_token_writer *writer,
                                   struct pen_text *why)
{
    bool is_pair = writer->format == PEN_TOKENS_MEGATRON;
    pen_status status = PEN_OK;
    PEN_BUG_UNLESS(!is_pair || writer->document_begin == writer->num_tokens);
    if (writer->format == PEN_TOKENS_LLMC)
        status = complete_header(writer, why);
    else if (is_pair)
        status = put_index(writer, why);
    if (status == PEN_OK)
        status = close_part(&writer->bin, why);
    if (status == PEN_OK && is_pair)
        status = close_part(&writer->idx, why);
    /* The index comes last: who finds it finds the tokens too. */
    if (status == PEN_OK)
        status = name_part(&writer->bin, why);
    if (status == PEN_OK && is_pair)
        status = name_part(&writer->idx, why);
    return status;
}

uint64_t pen_token_writer_tokens(const struct pen_token_writer *writer)
{
    return writer->num_tokens;
}

const char *pen_token_writer_path(const struct pen_token_writer *writer)
{
    return writer->format == PEN_TOKENS_MEGATRON
               ? pen_text_string(&writer->stem)
               : pen_text_string(&writer->bin.path);
}
