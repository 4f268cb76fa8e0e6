/*
 * Reads Megatron's .bin/.idx, llm.c's and nanoGPT's files.
 *
 *   Megatron .idx   0  "MMIDIDX\0\0"      llm.c   0     int32 magic
 *                   9  u64 version 1              4     int32 version
 *                  17  u8 type                    8     int32 tokens
 *                  18  u64 sequences S            1024  tokens
 *                  26  u64 document ends D
 *                  34  i32 lengths[S]     nanoGPT 0     uint16 tokens
 *             34 + 4S  i64 pointers[S]
 *            34 + 12S  i64 ends[D], in sequences, from 0
 */
#include "data/token_file.h"

#include "base/bug.h"
#include "data/token_layout.h"
#include "data/utf8.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 4096 }; /* read at once */

const char *const pen_token_format_names[] = {
#define PEN_TOKEN_FORMAT_NAME(name, text) text,
    PEN_TOKEN_FORMAT_TABLE(PEN_TOKEN_FORMAT_NAME)
#undef PEN_TOKEN_FORMAT_NAME
        NULL};

size_t pen_token_type_bytes(enum pen_token_type type)
{
    switch (type) {
    case PEN_TOKEN_UINT8:
        return 1;
    case PEN_TOKEN_INT16:
    case PEN_TOKEN_UINT16:
        return 2;
    case PEN_TOKEN_INT32:
    case PEN_TOKEN_UINT32:
        return 4;
    case PEN_TOKEN_INT64:
        return 8;
    }
    return 0;
}

static const uint8_t *lengths_of(const struct pen_token_file *file)
{
    return file->idx.bytes + PEN__IDX_HEADER;
}

static const uint8_t *pointers_of(const struct pen_token_file *file)
{
    return lengths_of(file) + 4 * file->num_sequences;
}

static const uint8_t *ends_of(const struct pen_token_file *file)
{
    return pointers_of(file) + 8 * file->num_sequences;
}

/* Reads the fixed part, and checks that the lists fill the file. */
static pen_status read_index_header(struct pen_token_file *file,
                                    const char *path, struct pen_text *why)
{
    const uint8_t *bytes = file->idx.bytes;
    size_t length = file->idx.length;
    if (length < PEN__IDX_HEADER ||
        memcmp(bytes, PEN__IDX_MAGIC, PEN__IDX_MAGIC_BYTES) != 0) {
        pen_why(why, "%s, offset 0: not an index of Megatron (MMIDIDX)", path);
        return PEN_INVALID;
    }
    uint64_t version = pen__load_u64(bytes + 9);
    if (version != 1) {
        pen_why(why, "%s, offset 9: version %" PRIu64 "; expected version 1",
                path, version);
        return PEN_INVALID;
    }
    file->type = (enum pen_token_type)bytes[17];
    if (bytes[17] > PEN_TOKEN_UINT16 || pen_token_type_bytes(file->type) == 0) {
        pen_why(why, "%s, offset 17: type %u does not hold tokens", path,
                bytes[17]);
        return PEN_INVALID;
    }
    uint64_t sequences = pen__load_u64(bytes + 18);
    uint64_t ends = pen__load_u64(bytes + 26);
    uint64_t room = length - PEN__IDX_HEADER;
    /* A list of one byte per sequence may follow (multimodal data). */
    if (sequences > room / 12 || ends == 0 ||
        ends > (room - 12 * sequences) / 8 ||
        (room - 12 * sequences - 8 * ends != 0 &&
         room - 12 * sequences - 8 * ends != sequences)) {
        pen_why(why,
                "%s, offset 18: %" PRIu64 " sequences and %" PRIu64
                " document ends do not match a file of %zu bytes",
                path, sequences, ends, length);
        return PEN_INVALID;
    }
    file->num_sequences = sequences;
    file->num_documents = ends - 1;
    return PEN_OK;
}

/* Sequences must follow each other without holes: the stream is the file. */
static pen_status check_sequences(const struct pen_token_file *file,
                                  const char *path, struct pen_text *why)
{
    size_t size = pen_token_type_bytes(file->type);
    const uint8_t *lengths = lengths_of(file);
    const uint8_t *pointers = pointers_of(file);
    uint64_t at = 0;
    for (uint64_t i = 0; i < file->num_sequences; i++) {
        uint32_t length = pen__load_u32(lengths + 4 * i);
        uint64_t pointer = pen__load_u64(pointers + 8 * i);
        if (pointer != at) {
            pen_why(why,
                    "%s, offset %" PRIu64 ": sequence %" PRIu64
                    " begins at byte %" PRIu64 ", expected %" PRIu64,
                    path, PEN__IDX_HEADER + 4 * file->num_sequences + 8 * i, i,
                    pointer, at);
            return PEN_INVALID;
        }
        if (length > INT32_MAX || length * size > file->bin.length - at) {
            pen_why(why,
                    "%s, offset %" PRIu64 ": sequence %" PRIu64 " of %" PRIu32
                    " tokens does not fit in the .bin file of %zu bytes",
                    path, PEN__IDX_HEADER + 4 * i, i, length, file->bin.length);
            return PEN_INVALID;
        }
        at += length * size;
    }
    if (at != file->bin.length) {
        pen_why(why,
                "%s: its sequences end at byte %" PRIu64
                ", but the .bin file ends at %zu",
                path, at, file->bin.length);
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status check_documents(const struct pen_token_file *file,
                                  const char *path, struct pen_text *why)
{
    const uint8_t *ends = ends_of(file);
    uint64_t before = 0;
    for (uint64_t i = 0; i <= file->num_documents; i++) {
        uint64_t end = pen__load_u64(ends + 8 * i);
        bool is_first = i == 0;
        bool is_last = i == file->num_documents;
        if (end < before || end > file->num_sequences ||
            (is_first && end != 0) || (is_last && end != file->num_sequences)) {
            pen_why(why,
                    "%s, offset %" PRIu64 ": document end %" PRIu64
                    " is %" PRIu64
                    "; document ends must rise from 0 to %" PRIu64,
                    path, PEN__IDX_HEADER + 12 * file->num_sequences + 8 * i, i,
                    end, file->num_sequences);
            return PEN_INVALID;
        }
        before = end;
    }
    return PEN_OK;
}

pen_status pen__token_index_check(struct pen_token_file *file, const char *path,
                                  struct pen_text *why)
{
    pen_status status = read_index_header(file, path, why);
    if (status == PEN_OK)
        status = check_sequences(file, path, why);
    if (status == PEN_OK)
        status = check_documents(file, path, why);
    if (status != PEN_OK)
        return status;
    file->tokens = file->bin.bytes;
    file->num_tokens = file->bin.length / pen_token_type_bytes(file->type);
    return PEN_OK;
}

/* Opens Megatron's files; `stem` is the path without .idx or .bin. */
static pen_status open_megatron(struct pen_token_file *file, const char *stem,
                                struct pen_text *why)
{
    struct pen_text idx = PEN_TEXT_EMPTY;
    struct pen_text bin = PEN_TEXT_EMPTY;
    pen_text_add(&idx, "%s.idx", stem);
    pen_text_add(&bin, "%s.bin", stem);
    file->format = PEN_TOKENS_MEGATRON;
    pen_status status = pen__map_init(&file->idx, pen_text_string(&idx), why);
    if (status == PEN_OK)
        status = pen__map_init(&file->bin, pen_text_string(&bin), why);
    if (status == PEN_OK)
        status = pen__token_index_check(file, pen_text_string(&idx), why);
    pen_text_release(&idx);
    pen_text_release(&bin);
    return status;
}

static bool has_llmc_magic(const struct pen__map *bin)
{
    if (bin->length < PEN__LLMC_HEADER)
        return false;
    uint32_t magic = pen__load_u32(bin->bytes);
    return magic == PEN__LLMC_GPT2_MAGIC || magic == PEN__LLMC_LLAMA3_MAGIC;
}

static pen_status check_llmc(struct pen_token_file *file, const char *path,
                             struct pen_text *why)
{
    const uint8_t *bytes = file->bin.bytes;
    bool is_gpt2 = pen__load_u32(bytes) == PEN__LLMC_GPT2_MAGIC;
    uint32_t version = pen__load_u32(bytes + 4);
    uint32_t expected =
        is_gpt2 ? PEN__LLMC_GPT2_VERSION : PEN__LLMC_LLAMA3_VERSION;
    if (version != expected) {
        pen_why(why, "%s, offset 4: version %" PRIu32 "; expected version %u",
                path, version, expected);
        return PEN_INVALID;
    }
    file->format = PEN_TOKENS_LLMC;
    file->type = is_gpt2 ? PEN_TOKEN_UINT16 : PEN_TOKEN_UINT32;
    file->num_tokens = pen__load_u32(bytes + 8);
    uint64_t length =
        PEN__LLMC_HEADER + file->num_tokens * pen_token_type_bytes(file->type);
    if (file->num_tokens > INT32_MAX || length != file->bin.length) {
        pen_why(why,
                "%s, offset 8: %" PRIu64 " tokens need %" PRIu64
                " bytes, but the file has %zu",
                path, file->num_tokens, length, file->bin.length);
        return PEN_INVALID;
    }
    file->tokens = bytes + PEN__LLMC_HEADER;
    return PEN_OK;
}

#define TEXT_BYTES 65536u /* that are looked at */
#define LEAST_TEXT 16u    /* fewer tokens may look like letters by chance */

/*
 * Returns whether the bytes are text: UTF-8 without control characters. Tokens
 * of 16 bits have zeros among them where a vocabulary is small, and malformed
 * UTF-8 where it is large.
 */
static bool is_text(const struct pen__map *bin)
{
    const char *bytes = (const char *)bin->bytes;
    size_t length = bin->length < TEXT_BYTES ? bin->length : TEXT_BYTES;
    size_t good = pen__utf8_check(bytes, length);
    bool is_cut = length < bin->length; /* perhaps inside a character */
    if (length < LEAST_TEXT || good + (is_cut ? 4 : 0) < length)
        return false;
    for (size_t i = 0; i < good; i++)
        if ((bin->bytes[i] < ' ' && strchr("\t\n\v\f\r", bytes[i]) == NULL) ||
            bytes[i] == '\0')
            return false;
    return true;
}

static pen_status refuse_text(const char *path, struct pen_text *why)
{
    pen_why(why,
            "%s is text, not tokens. `penstock train TEXT` makes tokens and "
            "trains; or make tokens of it, with a tokenizer or "
            "with one of its characters:\n"
            "  penstock tokenize --train-chars %s -o MODEL\n"
            "  penstock tokenize %s --tokenizer MODEL -o TOKENS\n"
            "and give --data-path TOKENS",
            path, path, path);
    return PEN_INVALID;
}

static pen_status check_nanogpt(struct pen_token_file *file, const char *path,
                                struct pen_text *why)
{
    if (is_text(&file->bin))
        return refuse_text(path, why);
    if (file->bin.length % 2 != 0) {
        pen_why(why,
                "%s is not a file of tokens: it has neither a header of llm.c "
                "nor an index of Megatron, and %zu bytes are not a whole "
                "number of 16-bit tokens",
                path, file->bin.length);
        return PEN_INVALID;
    }
    file->format = PEN_TOKENS_NANOGPT;
    file->type = PEN_TOKEN_UINT16;
    file->num_tokens = file->bin.length / 2;
    file->tokens = file->bin.bytes;
    return PEN_OK;
}

static pen_status open_single(struct pen_token_file *file, const char *path,
                              struct pen_text *why)
{
    pen_status status = pen__map_init(&file->bin, path, why);
    if (status != PEN_OK)
        return status;
    file->num_documents = 1;
    if (has_llmc_magic(&file->bin))
        return check_llmc(file, path, why);
    return check_nanogpt(file, path, why);
}

static bool ends_in(const char *path, const char *ending)
{
    size_t length = strlen(path);
    size_t tail = strlen(ending);
    return length > tail && strcmp(path + length - tail, ending) == 0;
}

/* Finds the stem of a pair that exists; false when there is none. */
static bool find_pair(const char *path, struct pen_text *stem)
{
    static const char *const tails[] = {"", "_text_document"};
    int length = (int)strlen(path);
    bool is_file = ends_in(path, ".bin") || ends_in(path, ".idx");
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        pen_text_clear(stem);
        pen_text_add(stem, "%.*s%s.idx", is_file ? length - 4 : length, path,
                     tails[i]);
        if (!stem->has_failed && access(stem->bytes, F_OK) == 0) {
            stem->length -= 4;
            stem->bytes[stem->length] = '\0';
            return true;
        }
    }
    return false;
}

pen_status pen_token_file_init(struct pen_token_file *out, const char *path,
                               struct pen_text *why)
{
    struct pen_token_file file = {.num_tokens = 0};
    struct pen_text stem = PEN_TEXT_EMPTY;
    pen_status status = find_pair(path, &stem)
                            ? open_megatron(&file, stem.bytes, why)
                            : open_single(&file, path, why);
    pen_text_release(&stem);
    if (status != PEN_OK) {
        pen_token_file_release(&file);
        return status;
    }
    pen__map_forget(&file.bin);
    pen__map_forget(&file.idx);
    *out = file;
    return PEN_OK;
}

void pen_token_file_release(struct pen_token_file *file)
{
    pen__map_release(&file->bin);
    pen__map_release(&file->idx);
}

static uint32_t id_of(int64_t value)
{
    return value < 0 || value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static void decode(enum pen_token_type type, const uint8_t *at, size_t count,
                   uint32_t *out)
{
    size_t size = pen_token_type_bytes(type);
    for (size_t i = 0; i < count; i++, at += size) {
        switch (type) {
        case PEN_TOKEN_UINT8:
            out[i] = *at;
            break;
        case PEN_TOKEN_INT16:
            out[i] = id_of((int16_t)pen__load_u16(at));
            break;
        case PEN_TOKEN_UINT16:
            out[i] = pen__load_u16(at);
            break;
        case PEN_TOKEN_INT32:
            out[i] = id_of((int32_t)pen__load_u32(at));
            break;
        case PEN_TOKEN_UINT32:
            out[i] = pen__load_u32(at);
            break;
        case PEN_TOKEN_INT64:
            out[i] = id_of((int64_t)pen__load_u64(at));
            break;
        }
    }
}

void pen_token_file_read(const struct pen_token_file *file, uint64_t begin,
                         size_t count, uint32_t *out)
{
    PEN_BUG_UNLESS(begin <= file->num_tokens &&
                   count <= file->num_tokens - begin);
    if (count == 0)
        return; /* of an empty file, which has no bytes at all */
    uint8_t piece[PIECE_BYTES];
    size_t size = pen_token_type_bytes(file->type);
    const uint8_t *at = file->tokens + begin * size;
    if (!file->bin.has_handle) {
        decode(file->type, at, count, out);
        return;
    }
    while (count > 0) {
        size_t some = count < PIECE_BYTES / size ? count : PIECE_BYTES / size;
        pen__map_copy(&file->bin, (size_t)(at - file->bin.bytes), some * size,
                      piece);
        decode(file->type, piece, some, out);
        at += some * size;
        out += some;
        count -= some;
    }
}

uint64_t pen_token_file_document(const struct pen_token_file *file,
                                 uint64_t document)
{
    PEN_BUG_UNLESS(document <= file->num_documents);
    if (document == file->num_documents)
        return file->num_tokens;
    if (file->format != PEN_TOKENS_MEGATRON)
        return 0;
    uint64_t sequence = pen__load_u64(ends_of(file) + 8 * document);
    if (sequence == file->num_sequences)
        return file->num_tokens;
    return pen__load_u64(pointers_of(file) + 8 * sequence) /
           pen_token_type_bytes(file->type);
}
