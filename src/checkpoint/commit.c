/*
 * The end of writing a checkpoint: further files, manifest, name.
 */
#include "checkpoint/internal.h"

#include "base/bug.h"
#include "base/draft.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_COPY_BYTES (256u << 20)

static pen_status write_file(const struct pen_checkpoint_writer *writer,
                             const char *name, const void *bytes, size_t length,
                             struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/%s", pen_text_string(&writer->temporary), name);
    pen_status status =
        pen_draft_write_file(pen_text_string(&path), bytes, length, why);
    pen_text_release(&path);
    return status;
}

pen_status pen_checkpoint_add_file(struct pen_checkpoint_writer *writer,
                                   const char *name, const void *bytes,
                                   size_t length, struct pen_text *why)
{
    PEN_BUG_UNLESS(pen__is_file_name(name));
    PEN_BUG_UNLESS(pen_manifest_find_file(&writer->manifest, name) == NULL);
    struct pen_file_facts facts = {.num_bytes = length};
    pen_status status = pen_hash_bytes(bytes, length, facts.hash, why);
    if (status == PEN_OK)
        status = write_file(writer, name, bytes, length, why);
    if (status == PEN_OK)
        status = pen_manifest_add_file(&writer->manifest, name, facts.num_bytes,
                                       facts.hash, why);
    return status;
}

pen_status pen_checkpoint_copy_file(struct pen_checkpoint_writer *writer,
                                    const char *path, struct pen_text *why)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    if (!pen__is_file_name(name)) {
        pen_why(why, "%s cannot be copied into a checkpoint under this name",
                path);
        return PEN_INVALID;
    }
    struct pen_text bytes = PEN_TEXT_EMPTY;
    pen_status status = pen_file_read(path, MAX_COPY_BYTES, &bytes, why);
    if (status == PEN_OK)
        status = pen_checkpoint_add_file(writer, name, bytes.bytes,
                                         bytes.length, why);
    pen_text_release(&bytes);
    return status;
}

pen_status pen_checkpoint_copy_tokenizer(struct pen_checkpoint_writer *writer,
                                         const char *directory,
                                         struct pen_text *why)
{
    static const char *const names[] = {"tokenizer.json",
                                        "tokenizer_config.json",
                                        "tokenizer.model",
                                        "spiece.model",
                                        "vocab.json",
                                        "merges.txt",
                                        "encoder.json",
                                        "vocab.bpe",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "chat_template.jinja",
                                        "generation_config.json"};
    pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < sizeof names / sizeof *names;
         i++) {
        struct pen_text path = PEN_TEXT_EMPTY;
        pen_text_add(&path, "%s/%s", directory, names[i]);
        if (access(pen_text_string(&path), F_OK) == 0)
            status =
                pen_checkpoint_copy_file(writer, pen_text_string(&path), why);
        pen_text_release(&path);
    }
    return status;
}

/* Its own share, if it has one, becomes one of the records. */
static pen_status finish_share(struct pen_checkpoint_writer *writer,
                               struct pen_text *why)
{
    struct pen_checkpoint_share *share = writer->share;
    struct pen_text record = PEN_TEXT_EMPTY;
    if (share == NULL)
        return PEN_OK;
    writer->share = NULL;
    pen_status status = pen_checkpoint_share_finish(share, &record, why);
    if (status == PEN_OK)
        status =
            pen_checkpoint_add_record(writer, record.bytes, record.length, why);
    pen_text_release(&record);
    return status;
}

static pen_status write_manifest(struct pen_checkpoint_writer *writer,
                                 struct pen_text *why)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_status status = pen_manifest_print(&writer->manifest, &text, why);
    if (status == PEN_OK)
        status =
            write_file(writer, PEN_MANIFEST_NAME, text.bytes, text.length, why);
    pen_text_release(&text);
    return status;
}

/*
 * Both names stay occupied all the time, so there is no moment at which a
 * crash would leave neither the old step nor the new one. Where the file
 * system cannot do that there is such a moment, a short one.
 */
static int exchange(const char *temporary, const char *path)
{
    if (syscall(SYS_renameat2, AT_FDCWD, temporary, AT_FDCWD, path,
                RENAME_EXCHANGE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    struct pen_text aside = PEN_TEXT_EMPTY;
    pen_text_add(&aside, "%s-replaced", temporary);
    int failed = rename(path, pen_text_string(&aside));
    if (failed == 0) {
        failed = rename(temporary, path);
        rename(pen_text_string(&aside), failed == 0 ? temporary : path);
    }
    pen_text_release(&aside);
    return failed;
}

/* Renames the folder, which makes it a checkpoint. */
static pen_status give_name(const struct pen_checkpoint_writer *writer,
                            struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    const char *temporary = pen_text_string(&writer->temporary);
    pen__step_path(pen_text_string(&writer->run), writer->manifest.step, &path);
    int failed = rename(temporary, pen_text_string(&path));
    bool is_there = failed != 0 && (errno == EEXIST || errno == ENOTEMPTY);
    if (is_there)
        failed = exchange(temporary, pen_text_string(&path));
    pen_status status = PEN_OK;
    if (failed != 0 || fsync(writer->run_handle) != 0) {
        pen_why(why, "cannot write %s: %s", pen_text_string(&path),
                strerror(errno));
        status = PEN_IO;
    }
    pen_text_release(&path);
    return status;
}

static pen_status check_run(const struct pen_checkpoint_writer *writer,
                            struct pen_text *why)
{
    const char *own = writer->manifest.run;
    if (writer->other_run[0] == '\0' ||
        (strcmp(writer->other_run, own) == 0 && !writer->has_several_runs))
        return PEN_OK;
    pen_why(why,
            "%s holds steps of another run than this one (id %s); write to "
            "another folder",
            pen_text_string(&writer->run), own);
    return PEN_INVALID;
}

pen_status pen_checkpoint_finish(struct pen_checkpoint_writer *writer,
                                 struct pen_checkpoint_keep *keep,
                                 struct pen_text *why)
{
    pen_status status = finish_share(writer, why);
    if (status == PEN_OK)
        status = check_run(writer, why);
    if (status == PEN_OK)
        status = pen__checkpoint_collect(writer, why);
    /* Others wrote some of them: whether this process sees them, too. */
    if (status == PEN_OK)
        status = pen__checkpoint_check_files(
            pen_text_string(&writer->temporary), &writer->manifest, why);
    if (status == PEN_OK)
        status = write_manifest(writer, why);
    if (status == PEN_OK)
        status = give_name(writer, why);
    if (status == PEN_OK && keep != NULL && keep->count > 0)
        pen__checkpoint_remove_old(writer, keep);
    pen_checkpoint_abandon(writer);
    return status;
}

void pen_checkpoint_abandon(struct pen_checkpoint_writer *writer)
{
    if (writer->share != NULL)
        pen_checkpoint_share_abandon(writer->share);
    /* After a success that is the step which was replaced, or nothing. */
    pen__tree_remove(pen_text_string(&writer->temporary));
    pen__checkpoint_deallocate(writer);
}
