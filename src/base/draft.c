#include "base/draft.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pen_status refuse(const struct pen_draft *draft, struct pen_text *why)
{
    return pen_file_refuse("write", pen_text_string(&draft->path), why);
}

static void release(struct pen_draft *draft)
{
    pen_text_release(&draft->path);
    pen_text_release(&draft->temporary);
}

static void add_directory(const char *path, struct pen_text *out)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        pen_text_add_string(out, ".");
    else
        pen_text_add_bytes(out, path, (size_t)(slash - path) + 1);
}

/* Others get no right to a file that they do not have to its directory. */
static mode_t mode_of(const char *path)
{
    struct stat about;
    struct pen_text directory = PEN_TEXT_EMPTY;
    mode_t mode = S_IRUSR | S_IWUSR;
    add_directory(path, &directory);
    if (stat(pen_text_string(&directory), &about) == 0)
        mode |= about.st_mode & (S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH);
    pen_text_release(&directory);
    return mode;
}

pen_status pen_draft_open(struct pen_draft *draft, const char *path,
                          struct pen_text *why)
{
    *draft = (struct pen_draft){.handle = -1};
    pen_text_add_string(&draft->path, path);
    pen_text_add(&draft->temporary, "%s.part", path);
    if (draft->path.has_failed || draft->temporary.has_failed) {
        release(draft);
        pen_why(why, "no memory to write a file");
        return PEN_NOMEM;
    }
    draft->handle = open(pen_text_string(&draft->temporary),
                         O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                         mode_of(path));
    if (draft->handle >= 0)
        return PEN_OK;
    pen_status status = refuse(draft, why);
    release(draft);
    return status;
}

pen_status pen_draft_write(struct pen_draft *draft, uint64_t offset,
                           const void *bytes, size_t length,
                           struct pen_text *why)
{
    const char *at = bytes;
    while (length > 0) {
        ssize_t written = pwrite(draft->handle, at, length, (off_t)offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return refuse(draft, why);
        at += written;
        offset += (uint64_t)written;
        length -= (size_t)written;
    }
    return PEN_OK;
}

/* Syncs the folder: then a rename in it is on disk. */
static int sync_directory(const char *path)
{
    struct pen_text directory = PEN_TEXT_EMPTY;
    add_directory(path, &directory);
    int handle = open(pen_text_string(&directory), O_RDONLY | O_CLOEXEC);
    pen_text_release(&directory);
    if (handle < 0)
        return -1;
    int failed = fsync(handle);
    close(handle);
    return failed;
}

pen_status pen_draft_commit(struct pen_draft *draft, struct pen_text *why)
{
    const char *temporary = pen_text_string(&draft->temporary);
    const char *path = pen_text_string(&draft->path);
    if (fsync(draft->handle) != 0) {
        pen_status status = refuse(draft, why);
        pen_draft_abandon(draft);
        return status;
    }
    int failed = close(draft->handle) != 0 || rename(temporary, path) != 0 ||
                 sync_directory(path) != 0;
    pen_status status = failed ? refuse(draft, why) : PEN_OK;
    if (failed)
        unlink(temporary);
    release(draft);
    return status;
}

void pen_draft_abandon(struct pen_draft *draft)
{
    close(draft->handle);
    unlink(pen_text_string(&draft->temporary));
    release(draft);
}

pen_status pen_draft_write_file(const char *path, const void *bytes,
                                size_t length, struct pen_text *why)
{
    struct pen_draft draft;
    pen_status status = pen_draft_open(&draft, path, why);
    if (status != PEN_OK)
        return status;
    status = pen_draft_write(&draft, 0, bytes, length, why);
    if (status == PEN_OK)
        return pen_draft_commit(&draft, why);
    pen_draft_abandon(&draft);
    return status;
}
