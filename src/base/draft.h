#ifndef PEN_BASE_DRAFT_H
#define PEN_BASE_DRAFT_H

#include "base/status.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

/*
 * A file in the making. It has the name "PATH.part" until it is committed:
 * synced to disk, then renamed. A reader that finds PATH finds all of it, even
 * after a power failure. (pen_file_write() does not sync: it is for results
 * that can be made again.) Group and others may read it if they may read its
 * directory and the umask lets them: in a directory of mode 0700 it has mode
 * 0600.
 */
struct pen_draft {
    int handle;
    struct pen_text path;
    struct pen_text temporary;
};

/*
 * Opens a draft. On success end with pen_draft_commit() or pen_draft_abandon().
 */
pen_status pen_draft_open(struct pen_draft *draft, const char *path,
                          struct pen_text *why);

pen_status pen_draft_write(struct pen_draft *draft, uint64_t offset,
                           const void *bytes, size_t length,
                           struct pen_text *why);

/* Releases the draft in either case; on failure no file is left. */
pen_status pen_draft_commit(struct pen_draft *draft, struct pen_text *why);

void pen_draft_abandon(struct pen_draft *draft);

/* Writes and commits a whole file at once. */
pen_status pen_draft_write_file(const char *path, const void *bytes,
                                size_t length, struct pen_text *why);

#endif
