/*
 * A line per revision: eight hexadecimal digits of the CRC32C of the record, a
 * space, the record. Only the last line counts; when the file has grown, it is
 * rewritten with that line alone.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): F_OFD_SETLK */
#include "ring/stores/stores.h"

#include "base/crc32c.h"
#include "base/draft.h"
#include "base/file.h"
#include "base/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_BYTES ((size_t)8 << 20)  /* that are read at most */
#define ANEW_BYTES ((int64_t)4 << 20) /* at which it is rewritten */
#define HEAD_LETTERS 9u               /* checksum and space */

/*
 * A journal. Its record is in memory, too, which comes first: reads take that
 * one.
 */
struct journal {
    struct pen_ring_memory memory;
    struct pen_ring_store kept; /* the function table of the memory */
    struct pen_text path;
    struct pen_journal file;
    bool is_open;     /* the file is open for writing */
    bool is_doubtful; /* a sync failed: the contents of the disk are unknown */
    int lock;
    struct pen_ring_past *past; /* gets all rounds of the file; NULL: none */
};

/* ---- lines ---- */

static pen_status add_line(const struct pen_ring_record *record,
                           uint64_t revision, struct pen_text *out)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_status status = pen_ring_record_print(record, revision, &text);
    if (status == PEN_OK)
        pen_text_add(out, "%08" PRIx32 " %s\n",
                     pen_crc32c(pen_text_string(&text), text.length),
                     pen_text_string(&text));
    pen_text_release(&text);
    return out->has_failed ? PEN_NOMEM : status;
}

/* Returns false when the checksum is wrong. */
static bool is_intact(const char *line, size_t length)
{
    char found[HEAD_LETTERS];
    if (length <= HEAD_LETTERS || line[HEAD_LETTERS - 1] != ' ')
        return false;
    snprintf(found, sizeof found, "%08" PRIx32,
             pen_crc32c(line + HEAD_LETTERS, length - HEAD_LETTERS));
    return memcmp(found, line, HEAD_LETTERS - 1) == 0;
}

/*
 * Adds a record's round, unless it has been added: rounds stay in records that
 * change something else.
 */
static pen_status add_past(struct pen_ring_past *past,
                           const struct pen_ring_record *record,
                           struct pen_text *why)
{
    struct pen_ring_record *rounds = past->rounds;
    if (record->round == past->count)
        return PEN_OK;
    if (record->round != past->count + 1) {
        pen_why(why,
                "round %" PRIu64 " is missing: a journal that was written anew "
                "cannot be replayed",
                past->count + 1);
        return PEN_INVALID;
    }
    if ((past->count & (past->count - 1)) == 0)
        rounds = realloc(rounds, (2 * past->count + 1) * sizeof *rounds);
    if (rounds == NULL)
        return PEN_NOMEM;
    rounds[past->count++] = *record;
    past->rounds = rounds;
    return PEN_OK;
}

static pen_status take_line(struct journal *journal, const char *line,
                            size_t length, struct pen_text *why)
{
    uint64_t revision;
    struct pen_ring_record record;
    if (!is_intact(line, length)) {
        pen_why(why, "its checksum is wrong");
        return PEN_INVALID;
    }
    pen_status status = pen_ring_record_parse(
        line + HEAD_LETTERS, length - HEAD_LETTERS, &record, &revision, why);
    if (status != PEN_OK)
        return status;
    if (journal->memory.revision > 1 &&
        revision != journal->memory.revision + 1) {
        pen_why(why, "revision %" PRIu64 " follows %" PRIu64, revision,
                journal->memory.revision);
        return PEN_INVALID;
    }
    journal->memory.record = record;
    journal->memory.revision = revision;
    return journal->past == NULL ? PEN_OK
                                 : add_past(journal->past, &record, why);
}

/*
 * Takes the whole lines; *kept is their length: a writer was cut off after
 * them.
 */
static pen_status take_lines(struct journal *journal,
                             const struct pen_text *text, int64_t *kept,
                             struct pen_text *why)
{
    const char *begin = pen_text_string(text);
    const char *line = begin;
    const char *end = begin + text->length;
    pen_status status = PEN_OK;
    for (size_t number = 1; status == PEN_OK; number++) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        struct pen_text reason = PEN_TEXT_EMPTY;
        if (stop == NULL)
            break;
        status = take_line(journal, line, (size_t)(stop - line), &reason);
        if (status != PEN_OK)
            pen_why(why, "%s:%zu: %s", pen_text_string(&journal->path), number,
                    pen_text_string(&reason));
        pen_text_release(&reason);
        line = stop + 1;
    }
    *kept = line - begin;
    return status;
}

/* ---- the table ---- */

/*
 * Rewrites the journal. The new file has another name first, so that a whole
 * one always exists.
 */
static pen_status write_anew(struct journal *journal,
                             const struct pen_text *line, struct pen_text *why)
{
    const char *path = pen_text_string(&journal->path);
    pen_status status =
        pen_draft_write_file(path, pen_text_string(line), line->length, why);
    if (status != PEN_OK)
        return status;
    pen_journal_close(&journal->file);
    status = pen_journal_open(&journal->file, path, (int64_t)line->length, why);
    journal->is_open = status == PEN_OK;
    journal->is_doubtful = !journal->is_open;
    return status;
}

static pen_status append(struct journal *journal, const struct pen_text *line,
                         struct pen_text *why)
{
    struct pen_journal *file = &journal->file;
    if (file->size_bytes == 0 || file->size_bytes > ANEW_BYTES ||
        journal->is_doubtful)
        return write_anew(journal, line, why);
    pen_status status =
        pen_journal_append(file, pen_text_string(line), line->length, why);
    if (status != PEN_OK || fdatasync(file->handle) == 0)
        return status;
    journal->is_doubtful = true;
    return pen_file_refuse("sync", pen_text_string(&journal->path), why);
}

static pen_status swap(void *target, uint64_t revision,
                       const struct pen_ring_record *record, bool *is_done,
                       struct pen_text *why)
{
    struct journal *journal = target;
    struct pen_text line = PEN_TEXT_EMPTY;
    *is_done = false;
    if (journal->lock < 0) {
        pen_why(why, "%s was opened to be read",
                pen_text_string(&journal->path));
        return PEN_INVALID;
    }
    if (revision != journal->memory.revision)
        return PEN_OK;
    pen_status status = add_line(record, revision + 1, &line);
    if (status == PEN_OK)
        status = append(journal, &line, why);
    pen_text_release(&line);
    return status == PEN_OK
               ? journal->kept.swap(target, revision, record, is_done, why)
               : status;
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/*
 * Grants the lease among the nodes that ask this process: no other has the
 * file.
 */
static pen_status lease(void *target, uint32_t holder, int64_t duration,
                        bool *is_granted, struct pen_text *why)
{
    struct journal *journal = target;
    journal->memory.now = now();
    return journal->kept.lease(target, holder, duration, is_granted, why);
}

static void close_journal(void *target)
{
    struct journal *journal = target;
    if (journal->is_open)
        pen_journal_close(&journal->file);
    if (journal->lock >= 0)
        close(journal->lock);
    pen_text_release(&journal->path);
    free(journal);
}

/* ---- opening ---- */

/* Locks a separate file, since the journal itself is replaced in time. */
static pen_status take_lock(struct journal *journal, struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    pen_status status = PEN_OK;
    pen_text_add(&path, "%s.lock", pen_text_string(&journal->path));
    journal->lock = open(pen_text_string(&path),
                         O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (journal->lock < 0) {
        status = pen_file_refuse("open", pen_text_string(&path), why);
    } else if (fcntl(journal->lock, F_OFD_SETLK, &whole) != 0) {
        pen_why(why, "%s is in use by another coordinator",
                pen_text_string(&journal->path));
        status = PEN_BUSY;
    }
    pen_text_release(&path);
    return status;
}

/* Loads the file. A reader needs it to exist; a writer may begin it. */
static pen_status load(struct journal *journal, bool is_read_only,
                       struct pen_text *why)
{
    const char *path = pen_text_string(&journal->path);
    struct pen_text text = PEN_TEXT_EMPTY;
    int64_t kept = 0;
    pen_status status = PEN_OK;
    if (is_read_only || access(path, F_OK) == 0)
        status = pen_file_read(path, MOST_BYTES, &text, why);
    if (status == PEN_OK)
        status = take_lines(journal, &text, &kept, why);
    pen_text_release(&text);
    if (status != PEN_OK || is_read_only)
        return status;
    status = pen_journal_open(&journal->file, path, kept, why);
    journal->is_open = status == PEN_OK;
    return status;
}

pen_status pen_ring_journal_open(const char *path, bool is_read_only,
                                 struct pen_ring_store *out,
                                 struct pen_text *why)
{
    struct journal *journal = calloc(1, sizeof *journal);
    if (journal == NULL)
        return PEN_NOMEM;
    pen_ring_memory_init(&journal->memory, &journal->kept);
    journal->lock = -1;
    pen_text_add_string(&journal->path, path);
    pen_status status = is_read_only ? PEN_OK : take_lock(journal, why);
    if (status == PEN_OK)
        status = load(journal, is_read_only, why);
    if (status != PEN_OK) {
        close_journal(journal);
        return status;
    }
    *out = journal->kept;
    out->target = journal;
    out->swap = swap;
    out->lease = lease;
    out->close = close_journal;
    return PEN_OK;
}

pen_status pen_ring_journal_past(const char *path, struct pen_ring_past *out,
                                 struct pen_text *why)
{
    struct pen_ring_past past = {.count = 0};
    struct journal journal = {.path = PEN_TEXT_EMPTY, .past = &past};
    pen_text_add_string(&journal.path, path);
    pen_status status = load(&journal, true, why);
    pen_text_release(&journal.path);
    if (status == PEN_OK && past.count == 0) {
        pen_why(why, "%s has no committed round: there is nothing to replay",
                path);
        status = PEN_INVALID;
    }
    if (status == PEN_OK)
        *out = past;
    else
        free(past.rounds);
    return status;
}
