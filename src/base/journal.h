#ifndef PEN_BASE_JOURNAL_H
#define PEN_BASE_JOURNAL_H

#include "base/status.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

/*
 * A file that grows by whole records, each added with one write: a concurrent
 * reader sees no partial record, and a killed writer loses nothing.
 */
struct pen_journal {
    int handle;
    int64_t size_bytes; /* of the whole records */
    struct pen_text path;
};

/*
 * Opens the file, or makes it, and keeps its first kept_bytes. Pipes and
 * devices are written as they are. On success end with pen_journal_close().
 */
pen_status pen_journal_open(struct pen_journal *journal, const char *path,
                            int64_t kept_bytes, struct pen_text *why);

/*
 * Does not allocate. When it fails (the disk is full) the file keeps its whole
 * records and a later one may be added.
 */
pen_status pen_journal_append(struct pen_journal *journal, const void *bytes,
                              size_t length, struct pen_text *why);

void pen_journal_close(struct pen_journal *journal);

#endif
