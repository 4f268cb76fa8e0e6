/*
 * Finds the files of a tokenizer: the ones users have, under the names that
 * they have.
 */
#include "base/file.h"
#include "data/map.h"
#include "data/pipeline.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MOST ((size_t)256 << 20)

/* Puts the path in front of what is wrong with the file. */
static pen_status name_reason(pen_status status, const char *path,
                              const struct pen_text *reason,
                              struct pen_text *why)
{
    if (status != PEN_OK)
        pen_why(why, "%s: %s", path, pen_text_string(reason));
    return status;
}

static pen_status load_file(const char *path, struct pen_tokenizer **out,
                            struct pen_text *why)
{
    struct pen_text bytes = PEN_TEXT_EMPTY;
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = pen_file_read(path, FILE_MOST, &bytes, why);
    if (status != PEN_OK)
        return status;
    /* A SentencePiece model begins with 0x0a, the key of its first piece. */
    bool is_json = bytes.length > 0 && bytes.bytes[0] == '{';
    if (is_json) {
        status =
            pen_tokenizer_parse_json(bytes.bytes, bytes.length, out, &reason);
    } else {
        pen_text_add(&reason, "neither tokenizer.json nor a SentencePiece "
                              "model: ");
        status = pen_tokenizer_parse_sentencepiece((const uint8_t *)bytes.bytes,
                                                   bytes.length, out, &reason);
    }
    name_reason(status, path, &reason, why);
    pen_text_release(&reason);
    pen_text_release(&bytes);
    return status;
}

static pen_status load_pair(const char *vocab_path, const char *merges_path,
                            struct pen_tokenizer **out, struct pen_text *why)
{
    struct pen_text vocab = PEN_TEXT_EMPTY;
    struct pen_text merges = PEN_TEXT_EMPTY;
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = pen_file_read(vocab_path, FILE_MOST, &vocab, why);
    if (status == PEN_OK)
        status = pen_file_read(merges_path, FILE_MOST, &merges, why);
    if (status == PEN_OK)
        status =
            name_reason(pen__parse_gpt2(vocab.bytes, vocab.length, merges.bytes,
                                        merges.length, out, &reason),
                        vocab_path, &reason, why);
    pen_text_release(&vocab);
    pen_text_release(&merges);
    pen_text_release(&reason);
    return status;
}

/* The files that a folder may hold; the second one, if any, has the merges. */
static const char *const known_files[][2] = {{"tokenizer.json", NULL},
                                             {"tokenizer.model", NULL},
                                             {"spiece.model", NULL},
                                             {"encoder.json", "vocab.bpe"},
                                             {"vocab.json", "merges.txt"}};

static pen_status load_directory(const char *path, struct pen_tokenizer **out,
                                 struct pen_text *why)
{
    for (size_t i = 0; i < sizeof known_files / sizeof *known_files; i++) {
        const char *second = known_files[i][1];
        struct pen_text first_path = PEN_TEXT_EMPTY;
        struct pen_text second_path = PEN_TEXT_EMPTY;
        pen_text_add(&first_path, "%s/%s", path, known_files[i][0]);
        pen_text_add(&second_path, "%s/%s", path, second != NULL ? second : "");
        bool is_there = access(pen_text_string(&first_path), F_OK) == 0 &&
                        access(pen_text_string(&second_path), F_OK) == 0;
        pen_status status = PEN_IO;
        if (is_there && second == NULL)
            status = load_file(first_path.bytes, out, why);
        else if (is_there)
            status = load_pair(first_path.bytes, second_path.bytes, out, why);
        pen_text_release(&first_path);
        pen_text_release(&second_path);
        if (is_there)
            return status;
    }
    pen_why(why,
            "%s has no tokenizer; expected tokenizer.json, "
            "tokenizer.model, spiece.model, encoder.json with vocab.bpe, "
            "or vocab.json with merges.txt",
            path);
    return PEN_INVALID;
}

pen_status pen_tokenizer_load(const char *path, struct pen_tokenizer **out,
                              struct pen_text *why)
{
    struct stat about;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        return load_directory(path, out, why);
    return load_file(path, out, why);
}
