#include "base/journal.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

static pen_status refuse(const struct pen_journal *journal,
                         struct pen_text *why)
{
    return pen_file_refuse("write", pen_text_string(&journal->path), why);
}

/*
 * Cuts the file: only a regular file can be cut, and only a regular file needs
 * it.
 */
static bool cut(const struct pen_journal *journal)
{
    return ftruncate(journal->handle, journal->size_bytes) == 0 ||
           errno == EINVAL;
}

pen_status pen_journal_open(struct pen_journal *journal, const char *path,
                            int64_t kept_bytes, struct pen_text *why)
{
    *journal = (struct pen_journal){.size_bytes = kept_bytes};
    pen_text_add_string(&journal->path, path);
    journal->handle =
        open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (journal->handle >= 0 && cut(journal))
        return PEN_OK;
    pen_status status = refuse(journal, why);
    pen_journal_close(journal);
    return status;
}

pen_status pen_journal_append(struct pen_journal *journal, const void *bytes,
                              size_t length, struct pen_text *why)
{
    size_t done = 0;
    while (done < length) {
        ssize_t written =
            write(journal->handle, (const char *)bytes + done, length - done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            pen_status status = refuse(journal, why);
            cut(journal);
            return status;
        }
        done += (size_t)written;
    }
    journal->size_bytes += (int64_t)length;
    return PEN_OK;
}

void pen_journal_close(struct pen_journal *journal)
{
    if (journal->handle >= 0)
        close(journal->handle);
    journal->handle = -1;
    pen_text_release(&journal->path);
}
