/*
 * Whether a step is what its manifest says: the manifest itself, names, sizes,
 * bytes.
 */
#include "checkpoint/internal.h"

#include "base/file.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

static pen_status check_regular(const char *path, struct stat *about,
                                struct pen_text *why)
{
    if (lstat(path, about) != 0) {
        return pen_file_refuse("open", path, why);
    }
    if (!S_ISREG(about->st_mode)) {
        pen_why(why, "%s is not a regular file", path);
        return PEN_INVALID;
    }
    return PEN_OK;
}

pen_status pen__checkpoint_read_manifest(const char *path,
                                         struct pen_manifest *out,
                                         struct pen_text *why)
{
    struct pen_text name = PEN_TEXT_EMPTY;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text reason = PEN_TEXT_EMPTY;
    struct stat about;
    pen_text_add(&name, "%s/" PEN_MANIFEST_NAME, path);
    pen_status status = check_regular(pen_text_string(&name), &about, why);
    if (status == PEN_OK)
        status = pen_file_read(pen_text_string(&name), PEN_MANIFEST_MAX_BYTES,
                               &text, why);
    if (status == PEN_OK) {
        status = pen_manifest_parse(text.bytes, text.length, out, &reason);
        if (status != PEN_OK)
            pen_why(why, "%s: %s", pen_text_string(&name),
                    pen_text_string(&reason));
    }
    pen_text_release(&name);
    pen_text_release(&text);
    pen_text_release(&reason);
    return status;
}

/* Refuses a file; each error has its own line in why. */
static pen_status refuse_file(const struct pen_text *reason,
                              struct pen_text *why)
{
    bool is_first = why == NULL || why->length == 0;
    pen_why(why, "%s%s", is_first ? "" : "\n", pen_text_string(reason));
    return PEN_INVALID;
}

/*
 * Checks the names: a file that is not in the manifest could be read in place
 * of one that is.
 */
static pen_status check_names(const char *path,
                              const struct pen_manifest *manifest,
                              struct pen_text *why)
{
    struct pen__names names;
    pen_status status = pen__names_list(path, &names, why);
    if (status != PEN_OK)
        return status;
    for (size_t i = 0; i < names.count; i++) {
        const char *name = names.names[i];
        struct pen_text reason = PEN_TEXT_EMPTY;
        if (name[0] == '.' || strcmp(name, PEN_MANIFEST_NAME) == 0 ||
            pen_manifest_find_file(manifest, name) != NULL)
            continue;
        pen_text_add(&reason, "%s/", path);
        pen_text_add_printable(&reason, name, strlen(name));
        pen_text_add(&reason, " is not in " PEN_MANIFEST_NAME
                              "; move it to another folder");
        status = refuse_file(&reason, why);
        pen_text_release(&reason);
    }
    pen__names_release(&names);
    return status;
}

static pen_status check_size(const char *path, uint64_t expected,
                             struct pen_text *reason)
{
    struct stat about;
    pen_status status = check_regular(path, &about, reason);
    if (status != PEN_OK || (uint64_t)about.st_size == expected)
        return status;
    pen_why(reason, "%s has %" PRIu64 " bytes, must have %" PRIu64, path,
            (uint64_t)about.st_size, expected);
    return PEN_INVALID;
}

pen_status pen__checkpoint_check_files(const char *path,
                                       const struct pen_manifest *manifest,
                                       struct pen_text *why)
{
    pen_status status = check_names(path, manifest, why);
    for (size_t i = 0; i < manifest->num_files; i++) {
        const struct pen_manifest_file *file = &manifest->files[i];
        struct pen_text name = PEN_TEXT_EMPTY;
        struct pen_text reason = PEN_TEXT_EMPTY;
        pen_text_add(&name, "%s/%s", path, file->name);
        if (check_size(pen_text_string(&name), file->num_bytes, &reason) !=
            PEN_OK)
            status = refuse_file(&reason, why);
        pen_text_release(&name);
        pen_text_release(&reason);
    }
    return status;
}

static pen_status check_hash(const char *path, const char *expected,
                             struct pen__reading *reading,
                             struct pen_text *reason)
{
    struct pen_file_facts facts;
    pen_status status = pen__file_hash(path, reading, &facts, reason);
    if (status != PEN_OK || strcmp(facts.hash, expected) == 0)
        return status;
    pen_why(reason, "%s is damaged: its SHA-256 is %s, but the manifest has %s",
            path, facts.hash, expected);
    return PEN_INVALID;
}

static pen_status check_bytes(const char *path,
                              const struct pen_manifest *manifest,
                              const struct pen_checkpoint_watch *watch,
                              struct pen_text *why)
{
    struct pen__reading reading = {.watch = watch,
                                   .total = pen_manifest_total_bytes(manifest)};
    pen_status status = PEN_OK;
    for (size_t i = 0; i < manifest->num_files; i++) {
        const struct pen_manifest_file *file = &manifest->files[i];
        struct pen_text name = PEN_TEXT_EMPTY;
        struct pen_text reason = PEN_TEXT_EMPTY;
        pen_text_add(&name, "%s/%s", path, file->name);
        if (check_hash(pen_text_string(&name), file->hash, &reading, &reason) !=
            PEN_OK)
            status = refuse_file(&reason, why);
        pen_text_release(&name);
        pen_text_release(&reason);
    }
    return status;
}

pen_status pen__checkpoint_verify(const char *path,
                                  const struct pen_checkpoint_watch *watch,
                                  struct pen_manifest *out,
                                  struct pen_text *why)
{
    struct pen_manifest manifest;
    pen_status status = pen__checkpoint_read_manifest(path, &manifest, why);
    if (status != PEN_OK)
        return status;
    status = pen__checkpoint_check_files(path, &manifest, why);
    if (status == PEN_OK)
        status = check_bytes(path, &manifest, watch, why);
    if (status == PEN_OK)
        *out = manifest;
    else
        pen_manifest_release(&manifest);
    return status;
}

pen_status pen_checkpoint_verify(const char *path,
                                 const struct pen_checkpoint_watch *watch,
                                 struct pen_text *why)
{
    struct pen_manifest manifest;
    pen_status status = pen__checkpoint_verify(path, watch, &manifest, why);
    if (status == PEN_OK)
        pen_manifest_release(&manifest);
    return status;
}
