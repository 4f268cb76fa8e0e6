/*
 * The other direction of token_file.c. Tokens go to the disk as they come, and
 * so do the lengths of documents, which are the first list of Megatron's index:
 * memory does not depend on their number.
 */
#include "data/token_writer.h"

#include "base/bug.h"
#include "base/file.h"
#include "data/map.h"
#include "data/token_layout.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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
    uint64_t num_documents; /* in Megatron's index */
};

static pen_status refuse_part(const struct part *part, struct pen_text *why)
{
    return pen_file_refuse("write", pen_text_string(&part->path), why);
}

static pen_status open_part(struct part *part, const char *stem,
                            const char *ending, struct pen_text *why)
{
    pen_text_add(&part->path, "%s%s", stem, ending);
    pen_text_add(&part->part, "%s%s.part", stem, ending);
    if (part->path.has_failed || part->part.has_failed)
        return PEN_NOMEM;
    part->stream = fopen(part->part.bytes, "w+b");
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

/* Puts 0 in the place of the number of documents, until that is known. */
static pen_status put_index_header(struct pen_token_writer *writer,
                                   struct pen_text *why)
{
    struct part *idx = &writer->idx;
    uint64_t count = writer->num_documents;
    pen_status status = put(idx, PEN__IDX_MAGIC, PEN__IDX_MAGIC_BYTES, why);
    if (status == PEN_OK)
        status = put_number(idx, 1, 8, why);
    if (status == PEN_OK)
        status = put_number(idx, writer->type, 1, why);
    if (status == PEN_OK)
        status = put_number(idx, count, 8, why);
    if (status == PEN_OK)
        status = put_number(idx, count + 1, 8, why);
    return status;
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
    if (status == PEN_OK && is_pair)
        status = put_index_header(writer, why);
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
        pen_why(
            why,
            "nanogpt files hold 16-bit tokens, but this vocabulary has %" PRIu32
            "; use --format megatron or llmc",
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

pen_status pen_token_writer_end_document(struct pen_token_writer *writer,
                                         struct pen_text *why)
{
    if (writer->format != PEN_TOKENS_MEGATRON)
        return PEN_OK;
    uint64_t length = writer->num_tokens - writer->document_begin;
    if (length > INT32_MAX) {
        pen_why(why,
                "%s: a document of %" PRIu64
                " tokens; Megatron's index supports at most %d",
                pen_text_string(&writer->idx.path), length, INT32_MAX);
        return PEN_INVALID;
    }
    writer->document_begin = writer->num_tokens;
    writer->num_documents++;
    return put_number(&writer->idx, length, 4, why);
}

#define IDX_HEADER (PEN__IDX_MAGIC_BYTES + 8 + 1 + 8 + 8)
#define LENGTHS 1024u /* that are read at once */

/* Puts where documents begin, from their lengths, which are in the file. */
static pen_status put_begins(struct pen_token_writer *writer,
                             struct pen_text *why)
{
    struct part *idx = &writer->idx;
    size_t size = pen_token_type_bytes(writer->type);
    uint64_t begin = 0;
    if (fflush(idx->stream) != 0)
        return refuse_part(idx, why);
    for (uint64_t done = 0; done < writer->num_documents;) {
        uint8_t lengths[4 * LENGTHS];
        uint64_t left = writer->num_documents - done;
        size_t count = left < LENGTHS ? (size_t)left : LENGTHS;
        off_t from = (off_t)(IDX_HEADER + 4 * done);
        if (pread(fileno(idx->stream), lengths, 4 * count, from) !=
            (ssize_t)(4 * count))
            return refuse_part(idx, why);
        for (size_t i = 0; i < count; i++) {
            pen_status status = put_number(idx, begin, 8, why);
            if (status != PEN_OK)
                return status;
            begin += (uint64_t)pen__load_u32(lengths + 4 * i) * size;
        }
        done += count;
    }
    return PEN_OK;
}

static pen_status complete_index(struct pen_token_writer *writer,
                                 struct pen_text *why)
{
    pen_status status = put_begins(writer, why);
    for (uint64_t i = 0; i <= writer->num_documents && status == PEN_OK; i++)
        status = put_number(&writer->idx, i, 8, why);
    if (status == PEN_OK && fseek(writer->idx.stream, 0, SEEK_SET) != 0)
        status = refuse_part(&writer->idx, why);
    return status == PEN_OK ? put_index_header(writer, why) : status;
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
        status = complete_index(writer, why);
    if (status == PEN_OK)
        status = close_part(&writer->bin, why);
    if (status == PEN_OK && is_pair)
        status = close_part(&writer->idx, why);
    /* The index comes last: a reader that finds it finds the tokens, too. */
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
