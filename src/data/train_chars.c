/*
 * A vocabulary of the characters of a text, written as the tokenizers package
 * writes it: BPE without merges leaves characters as they are.
 */
#include "data/train_chars.h"

#include "base/json.h"
#include "data/map.h"
#include "data/utf8.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define UNICODE_SIZE 0x110000u

static pen_status refuse(struct pen_text *why, const char *path, size_t offset,
                         const char *what)
{
    pen_why(why, "%s, offset %zu: %s", path, offset, what);
    return PEN_INVALID;
}

static pen_status mark_chars(const char *path, const struct pen__map *map,
                             bool *is_seen, struct pen_text *why)
{
    const char *text = (const char *)map->bytes;
    size_t size;
    size_t bad = pen__utf8_check(text, map->length);
    if (bad != map->length)
        return refuse(why, path, bad, "not UTF-8");
    for (size_t at = 0; at < map->length; at += size) {
        uint32_t character = pen__utf8_read(text + at, &size);
        /* jansson has no keys with a NUL, and no text should have one. */
        if (character == 0)
            return refuse(why, path, at, "the text contains a NUL");
        is_seen[character] = true;
    }
    return PEN_OK;
}

static pen_status mark_files(char *const *paths, size_t num_paths,
                             bool *is_seen, struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (size_t i = 0; i < num_paths && status == PEN_OK; i++) {
        struct pen__map map;
        status = pen__map_init(&map, paths[i], why);
        if (status != PEN_OK)
            break;
        status = mark_chars(paths[i], &map, is_seen, why);
        pen__map_release(&map);
    }
    return status;
}

static json_t *make_vocab(const bool *is_seen, uint32_t *num_chars)
{
    json_t *vocab = json_object();
    uint32_t count = 0;
    for (uint32_t character = 0; character < UNICODE_SIZE; character++) {
        char key[5] = {0};
        if (!is_seen[character])
            continue;
        pen__utf8_write(character, key);
        json_object_set_new(vocab, key, json_integer(count++));
    }
    *num_chars = count;
    if (json_object_size(vocab) == count)
        return vocab;
    json_decref(vocab);
    return NULL; /* no memory */
}

static pen_status write_tokenizer(json_t *vocab, struct pen_text *out)
{
    /* Without a decoder the package would put spaces between the tokens. */
    json_t *all =
        json_pack("{s:s, s:[], s:n, s:n, s:n, s:{s:s}, s:{s:s, s:n, s:b, s:b, "
                  "s:o, s:[]}}",
                  "version", "1.0", "added_tokens", "normalizer",
                  "pre_tokenizer", "post_processor", "decoder", "type", "Fuse",
                  "model", "type", "BPE", "unk_token", "fuse_unk", 0,
                  "byte_fallback", 0, "vocab", vocab, "merges");
    char *bytes = json_dumps(all, JSON_INDENT(1));
    json_decref(all);
    if (bytes == NULL)
        return PEN_NOMEM;
    pen_text_add(out, "%s\n", bytes);
    free(bytes);
    return out->has_failed ? PEN_NOMEM : PEN_OK;
}

pen_status pen_train_chars(char *const *paths, size_t num_paths,
                           struct pen_text *out, uint32_t *num_chars,
                           struct pen_text *why)
{
    bool *is_seen = calloc(UNICODE_SIZE, sizeof *is_seen);
    if (is_seen == NULL)
        return PEN_NOMEM;
    pen_status status = mark_files(paths, num_paths, is_seen, why);
    if (status == PEN_OK &&
        memchr(is_seen, true, UNICODE_SIZE * sizeof *is_seen) == NULL) {
        pen_why(why,
                num_paths == 1 ? "%s is empty"
                               : "%s and all others are "
                                 "empty",
                paths[0]);
        pen_why(why, ": a tokenizer needs at least one character; name a file "
                     "with text");
        status = PEN_INVALID;
    }
    if (status == PEN_OK)
        status = write_tokenizer(make_vocab(is_seen, num_chars), out);
    free(is_seen);
    return status;
}
