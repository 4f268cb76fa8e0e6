#include "watch/launch_identity.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MAGIC 0x50494431u /* "PID1" */

_Static_assert(sizeof(struct pen_launch_identity) == 1024,
               "all versions have the same size");

static const char *const part_words[PEN_IDENTITY_PARTS] = {
#define PEN_IDENTITY_WORDS(name, words) [PEN_IDENTITY_##name] = words,
    PEN_IDENTITY_TABLE(PEN_IDENTITY_WORDS)
#undef PEN_IDENTITY_WORDS
};

void pen_launch_identity_init(struct pen_launch_identity *identity,
                              uint32_t rank, const char *host)
{
    memset(identity, 0, sizeof *identity);
    identity->magic = MAGIC;
    identity->rank = rank;
    snprintf(identity->host, sizeof identity->host, "%s", host);
}

pen_status pen_launch_identity_set(struct pen_launch_identity *identity,
                                   enum pen_identity_part part,
                                   const char *words, const void *bytes,
                                   size_t length, struct pen_text *why)
{
    char hash[PEN_HASH_SIZE];
    pen_status status = pen_hash_bytes(bytes, length, hash, why);
    if (status != PEN_OK)
        return status;
    snprintf(identity->parts[part].words, sizeof identity->parts[part].words,
             "%s", words);
    memcpy(identity->parts[part].hash, hash, sizeof hash);
    return PEN_OK;
}

static pen_status add_file(const char *path, struct pen_text *list,
                           unsigned long long *total_bytes,
                           struct pen_text *why)
{
    struct stat info;
    const char *slash = strrchr(path, '/');
    if (stat(path, &info) != 0) {
        return pen_file_refuse("open", path, why);
    }
    pen_text_add(list, "%s %lld\n", slash != NULL ? slash + 1 : path,
                 (long long)info.st_size);
    *total_bytes += (unsigned long long)info.st_size;
    return list->has_failed ? PEN_NOMEM : PEN_OK;
}

pen_status pen_launch_identity_set_files(struct pen_launch_identity *identity,
                                         const char *const *paths, size_t count,
                                         struct pen_text *why)
{
    struct pen_text list = PEN_TEXT_EMPTY;
    char words[64];
    unsigned long long total_bytes = 0;
    pen_status status = PEN_OK;
    for (size_t i = 0; i < count && status == PEN_OK; i++)
        status = add_file(paths[i], &list, &total_bytes, why);
    snprintf(words, sizeof words, "%zu %s, %llu bytes", count,
             count == 1 ? "file" : "files", total_bytes);
    if (status == PEN_OK)
        status =
            pen_launch_identity_set(identity, PEN_IDENTITY_DATA, words,
                                    pen_text_string(&list), list.length, why);
    pen_text_release(&list);
    return status;
}

pen_status pen_launch_identity_set_build(struct pen_launch_identity *identity,
                                         const char *version,
                                         const char *library,
                                         const char *instructions,
                                         struct pen_text *why)
{
    struct pen_text words = PEN_TEXT_EMPTY;
#ifdef __clang__
    const char *compiler = __VERSION__; /* begins with the compiler's name */
#else
    const char *compiler = "gcc " __VERSION__;
#endif
    pen_text_add(&words, "penstock %s, %s, %s, %s", version, library,
                 instructions, compiler);
    pen_status status =
        words.has_failed ? PEN_NOMEM
                         : pen_launch_identity_set(identity, PEN_IDENTITY_BUILD,
                                                   pen_text_string(&words),
                                                   pen_text_string(&words),
                                                   words.length, why);
    pen_text_release(&words);
    return status;
}

/* Adds up to `limit` bytes, which another build may have left unterminated. */
static void add_bounded(struct pen_text *out, const char *bytes, size_t limit)
{
    pen_text_add_printable(out, bytes, strnlen(bytes, limit));
}

static void add_rank(struct pen_text *out,
                     const struct pen_launch_identity *identity)
{
    pen_text_add(out, "rank %u on ", identity->rank);
    add_bounded(out, identity->host, sizeof identity->host);
}

/*
 * Adds " (A against B)": the words where they differ, else the hashes in
 * digits.
 */
static void add_difference(struct pen_text *out,
                           const struct pen_launch_identity *own,
                           const struct pen_launch_identity *other, int part)
{
    enum { DIGITS = 12 };
    const char *a = own->parts[part].words;
    const char *b = other->parts[part].words;
    size_t limit = sizeof own->parts[part].words;
    if (strncmp(a, b, limit) == 0) {
        a = own->parts[part].hash;
        b = other->parts[part].hash;
        limit = DIGITS;
    }
    pen_text_add_string(out, part_words[part]);
    pen_text_add_string(out, " (");
    add_bounded(out, a, limit);
    pen_text_add_string(out, " against ");
    add_bounded(out, b, limit);
    pen_text_add_string(out, ")");
}

pen_status pen_launch_identity_compare(const struct pen_launch_identity *own,
                                       const struct pen_launch_identity *other,
                                       struct pen_text *why)
{
    struct pen_text words = PEN_TEXT_EMPTY;
    int num_different = 0;
    if (other->magic != own->magic) {
        pen_why(why,
                "rank %u on %s runs another version of penstock than the first "
                "rank; install the same version on all nodes",
                own->rank, own->host);
        return PEN_INVALID;
    }
    for (int i = 0; i < PEN_IDENTITY_PARTS; i++) {
        if (memcmp(own->parts[i].hash, other->parts[i].hash, PEN_HASH_SIZE) ==
            0)
            continue;
        pen_text_add_string(&words, num_different++ == 0 ? " in " : ", ");
        add_difference(&words, own, other, i);
    }
    if (num_different > 0) {
        struct pen_text line = PEN_TEXT_EMPTY;
        add_rank(&line, own);
        pen_text_add_string(&line, " differs from ");
        add_rank(&line, other);
        pen_why(why, "%s%s", pen_text_string(&line), pen_text_string(&words));
        pen_text_release(&line);
    }
    pen_text_release(&words);
    return num_different > 0 ? PEN_INVALID : PEN_OK;
}
