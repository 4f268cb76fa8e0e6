/*
 * One thread, the caller's, reads the text in parts and writes their ids; the
 * others encode. Parts wait in a ring, in the order of the text:
 *
 *      written            taken               added
 *        ▼                  ▼                   ▼
 *   ...  [done][done][busy][waiting][waiting] [free] ...
 *
 * The ring is what bounds the memory. A part ends with a document or where a
 * document may be cut; then it is encoded by itself. If there is no such place
 * near its end, it ends anywhere, and the encoder that has begun the document
 * is handed over to the next part, which waits for it:
 *
 *   [... end of A][B: to be continued][B: more of it][B: its end, C, D ...]
 *                     encoder ───────► encoder ─────► encoder
 */
#include "data/tokenize.h"

#include "base/bug.h"
#include "base/file.h"
#include "base/json.h"
#include "data/pipeline.h"
#include "data/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PARTS_PER_THREAD 4u
#define THREADS_MAX 1024u

/* A part is smaller where there are many: together about this much. */
#define RING_BYTES ((size_t)8 << 20)
#define PART_LEAST ((size_t)32 << 10)

/* The bytes after a part in which a place to cut is sought. */
#define SEARCH_BYTES ((size_t)64 << 10)

/* A JSON line is parsed at once. */
#define JSON_MAX ((size_t)16 << 20)

struct part {
    const char *path;
    char *text;
    size_t length;
    size_t capacity;
    uint64_t offset; /* in the file */
    uint64_t index;  /* of all parts */
    bool is_last;    /* of its file */
    bool continues;  /* begins inside a text that the part before has begun */
    bool is_open;    /* ends inside a text */
    bool is_done;
    struct pen_token_list ids;
    struct pen_token_list ends; /* indices into ids, of documents */
    pen_status status;
    struct pen_text why;
};

struct ring {
    pthread_mutex_t lock; /* guards counters, encoders, is_done, is_closed */
    pthread_cond_t changed;
    struct part *parts;
    size_t num_parts;
    uint64_t num_added;
    uint64_t num_taken;
    uint64_t num_written;
    uint64_t first_failed; /* part; UINT64_MAX: none */
    bool is_closed;        /* no more parts will come */
    /*
     * Encoders handed on from parts that are open and done, by the number of
     * the part, modulo one more than the ring has: that many may be waited for.
     */
    struct pen_encoder **handed;
    struct pen_encoder **resting; /* as many and one for each thread */
    size_t num_resting;
    const struct pen_tokenize_job *job;
    uint32_t end_id;
    size_t part_bytes;
    uint64_t waiting_bytes; /* of parts that are not written yet */
};

/* ---- encoding, in the threads ---- */

static pen_status end_document(const struct ring *ring, struct part *part)
{
    if (ring->job->appends_end)
        pen_token_list_add_one(&part->ids, ring->end_id);
    if (part->ids.count > UINT32_MAX)
        return PEN_NOMEM;
    pen_token_list_add_one(&part->ends, (uint32_t)part->ids.count);
    return part->ids.has_failed || part->ends.has_failed ? PEN_NOMEM : PEN_OK;
}

static pen_status encode_json(const struct ring *ring,
                              struct pen_encoder *encoder, struct part *part,
                              const char *line, size_t length)
{
    struct pen_json json;
    const char *key = ring->job->json_key;
    pen_status status = pen_json_load(line, length, &json, &part->why);
    if (status != PEN_OK)
        return status;
    const json_t *text = json_object_get(json.object, key);
    if (json_is_string(text)) {
        status = pen_encoder_encode(encoder, json_string_value(text),
                                    json_string_length(text), &part->ids,
                                    &part->why);
    } else {
        pen_why(&part->why, "there is no text under the key \"%s\"", key);
        status = PEN_INVALID;
    }
    json_decref(json.object);
    return status == PEN_OK ? end_document(ring, part) : status;
}

static void name_place(struct part *part, size_t at)
{
    struct pen_text named = PEN_TEXT_EMPTY;
    pen_text_add(&named, "%s, offset %" PRIu64 ": %s", part->path,
                 part->offset + at, pen_text_string(&part->why));
    pen_text_release(&part->why);
    part->why = named;
}

/*
 * Returns the length of the line at `at` without its end; *next is where the
 * next one begins.
 */
static size_t length_of_line(const struct part *part, size_t at, size_t *next)
{
    const char *line = part->text + at;
    const char *newline = memchr(line, '\n', part->length - at);
    size_t length =
        newline == NULL ? part->length - at : (size_t)(newline - line);
    *next = newline == NULL ? part->length : at + length + 1;
    return length;
}

/*
 * Encodes lines that are documents. Only the last line of a part may continue
 * in the next part. Its end is then not here, so it has no CR to drop: the
 * reader does not cut after one.
 */
static pen_status encode_lines(const struct ring *ring,
                               struct pen_encoder *encoder, struct part *part)
{
    bool is_json = ring->job->kind == PEN_DOCUMENT_JSON_LINE;
    bool continues = part->continues;
    pen_status status = PEN_OK;
    for (size_t at = 0; (at < part->length || continues) && status == PEN_OK;) {
        size_t next;
        size_t length = length_of_line(part, at, &next);
        bool is_open = part->is_open && next == part->length;
        const char *line = part->text + at;
        if (!is_open && length > 0 && line[length - 1] == '\r')
            length--;
        if (is_json && length > 0)
            status = encode_json(ring, encoder, part, line, length);
        else if (!is_json && (length > 0 || continues))
            status = pen__encoder_feed(
                encoder, (struct pen__block){line, length, !is_open},
                &part->ids, &part->why);
        if (!is_json && (length > 0 || continues) && !is_open &&
            status == PEN_OK)
            status = end_document(ring, part);
        if (status != PEN_OK)
            name_place(part, at);
        continues = false;
        at = next;
    }
    return status;
}

static pen_status encode_part(const struct ring *ring,
                              struct pen_encoder *encoder, struct part *part)
{
    size_t bad = pen__utf8_check(part->text, part->length);
    if (bad != part->length) {
        pen_why(&part->why, "not UTF-8");
        name_place(part, bad);
        return PEN_INVALID;
    }
    if (ring->job->kind != PEN_DOCUMENT_FILE)
        return encode_lines(ring, encoder, part);
    struct pen__block block = {part->text, part->length, !part->is_open};
    pen_status status =
        pen__encoder_feed(encoder, block, &part->ids, &part->why);
    if (status == PEN_OK && part->is_last)
        status = end_document(ring, part);
    else if (status != PEN_OK)
        name_place(part, 0);
    return status;
}

/* Takes the next part that waits; NULL when there will be no more. */
static struct part *take_part(struct ring *ring)
{
    struct part *part = NULL;
    pthread_mutex_lock(&ring->lock);
    while (ring->num_taken == ring->num_added && !ring->is_closed)
        pthread_cond_wait(&ring->changed, &ring->lock);
    if (ring->num_taken < ring->num_added)
        part = &ring->parts[ring->num_taken++ % ring->num_parts];
    pthread_mutex_unlock(&ring->lock);
    return part;
}

static struct pen_encoder **handed_to(struct ring *ring, uint64_t index)
{
    return &ring->handed[index % (ring->num_parts + 1)];
}

/*
 * Takes the encoder that has begun the text of the part, for which this waits,
 * or any. PEN_INVALID when the part before has failed: that one has the reason.
 */
static pen_status take_encoder(struct ring *ring, const struct part *part,
                               struct pen_encoder **out)
{
    struct pen_encoder **handed = handed_to(ring, part->index);
    *out = NULL;
    pthread_mutex_lock(&ring->lock);
    while (part->continues && *handed == NULL &&
           ring->first_failed >= part->index)
        pthread_cond_wait(&ring->changed, &ring->lock);
    if (part->continues) {
        *out = *handed;
        *handed = NULL;
    } else if (ring->num_resting > 0) {
        *out = ring->resting[--ring->num_resting];
    }
    pthread_mutex_unlock(&ring->lock);
    if (*out != NULL)
        return PEN_OK;
    return part->continues ? PEN_INVALID
                           : pen_encoder_create(ring->job->tokenizer, out);
}

static void end_part(struct ring *ring, struct part *part,
                     struct pen_encoder *encoder)
{
    bool is_handed = part->status == PEN_OK && part->is_open;
    pthread_mutex_lock(&ring->lock);
    if (is_handed)
        *handed_to(ring, part->index + 1) = encoder;
    else if (encoder != NULL)
        ring->resting[ring->num_resting++] = encoder;
    if (part->status != PEN_OK && part->index < ring->first_failed)
        ring->first_failed = part->index;
    part->is_done = true;
    pthread_cond_broadcast(&ring->changed);
    pthread_mutex_unlock(&ring->lock);
}

static void *encode_parts(void *argument)
{
    struct ring *ring = argument;
    struct part *part;
    while ((part = take_part(ring)) != NULL) {
        struct pen_encoder *encoder;
        part->status = take_encoder(ring, part, &encoder);
        if (part->status == PEN_OK)
            part->status = encode_part(ring, encoder, part);
        end_part(ring, part, encoder);
    }
    return NULL;
}

/* ---- reading and writing, in the caller's thread ---- */

static pen_status write_part(struct ring *ring, const struct part *part,
                             struct pen_tokenize_counts *counts,
                             struct pen_text *why)
{
    struct pen_token_writer *writer = ring->job->writer;
    size_t done = 0;
    if (part->status != PEN_OK) {
        pen_why(why, "%s",
                part->why.length > 0 ? part->why.bytes : "out of memory");
        return part->status;
    }
    for (size_t i = 0; i < part->ends.count; i++) {
        size_t end = part->ends.ids[i];
        pen_status status =
            pen_token_writer_add(writer, part->ids.ids + done, end - done, why);
        if (status == PEN_OK)
            status = pen_token_writer_end_document(writer, why);
        if (status != PEN_OK)
            return status;
        done = end;
        counts->num_documents++;
    }
    if (done == part->ids.count)
        return PEN_OK;
    return pen_token_writer_add(writer, part->ids.ids + done,
                                part->ids.count - done, why);
}

/*
 * Shrinks a part that was unusually large, so that it does not keep the memory.
 */
static void shrink_part(const struct ring *ring, struct part *part)
{
    size_t usual = 2 * (ring->part_bytes + SEARCH_BYTES);
    if (part->capacity > usual) {
        free(part->text);
        part->text = NULL;
        part->capacity = 0;
    }
    if (part->ids.capacity > usual)
        pen_token_list_release(&part->ids);
}

/* Waits for the oldest part and writes it. */
static pen_status finish_part(struct ring *ring,
                              struct pen_tokenize_counts *counts,
                              struct pen_text *why)
{
    struct part *part = &ring->parts[ring->num_written % ring->num_parts];
    pthread_mutex_lock(&ring->lock);
    while (!part->is_done)
        pthread_cond_wait(&ring->changed, &ring->lock);
    pthread_mutex_unlock(&ring->lock);
    ring->num_written++;
    ring->waiting_bytes -= part->length;
    pen_status status = write_part(ring, part, counts, why);
    shrink_part(ring, part);
    return status;
}

static void add_part(struct ring *ring, struct part *part)
{
    part->index = ring->num_added;
    part->is_done = false;
    part->ids.count = 0;
    part->ends.count = 0;
    ring->waiting_bytes += part->length;
    pthread_mutex_lock(&ring->lock);
    ring->num_added++;
    pthread_cond_broadcast(&ring->changed);
    pthread_mutex_unlock(&ring->lock);
}

/*
 * A file under way: `ahead` is text that was read after the end of the last
 * part.
 */
struct reader {
    const char *path;
    int handle;
    uint64_t left; /* bytes that were not read yet */
    uint64_t offset;
    struct pen_text ahead;
    bool is_open; /* the last part was */
};

static pen_status read_bytes(struct reader *reader, char *out, size_t length,
                             struct pen_text *why)
{
    for (size_t done = 0; done < length;) {
        ssize_t got = read(reader->handle, out + done, length - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            pen_why(why, "cannot read %s: %s", reader->path,
                    got < 0 ? strerror(errno)
                            : "it became shorter while it was read");
            return PEN_IO;
        }
        done += (size_t)got;
    }
    reader->left -= length;
    return PEN_OK;
}

static pen_status reserve_part(struct part *part, size_t capacity,
                               struct pen_text *why)
{
    if (part->capacity >= capacity)
        return PEN_OK;
    char *text = realloc(part->text, capacity);
    if (text == NULL) {
        pen_why(why, "out of memory while reading %s", part->path);
        return PEN_NOMEM;
    }
    part->text = text;
    part->capacity = capacity;
    return PEN_OK;
}

/* Reads until the part has `wanted` bytes, or all that the file has. */
static pen_status fill_part(struct reader *reader, struct part *part,
                            size_t wanted, struct pen_text *why)
{
    size_t more = wanted > part->length ? wanted - part->length : 0;
    if (more > reader->left)
        more = (size_t)reader->left;
    /* One byte more, so that the room is never empty. */
    pen_status status = reserve_part(part, part->length + more + 1, why);
    if (status == PEN_OK)
        status = read_bytes(reader, part->text + part->length, more, why);
    if (status == PEN_OK)
        part->length += more;
    return status;
}

/* Returns the place after the last newline before `end`; 0: there is none. */
static size_t behind_newline(const struct part *part, size_t end)
{
    while (end > 0 && part->text[end - 1] != '\n')
        end--;
    return end;
}

/*
 * Finds an end inside a text: between characters, and not between CR and LF.
 * Malformed bytes may be cut anywhere: they are refused.
 */
static size_t any_end(const struct part *part)
{
    size_t end = pen__utf8_before(part->text, part->length);
    if (end > 1 && part->text[end] == '\n' && part->text[end - 1] == '\r')
        end--;
    return end == 0 || part->length - end > 4 ? part->length : end;
}

/* Finds where the part ends; *next is where the next one begins. */
static size_t end_of_part(const struct ring *ring, struct part *part,
                          size_t *next)
{
    const struct pen_tokenize_job *job = ring->job;
    size_t end;
    if (job->kind == PEN_DOCUMENT_FILE) {
        end = pen_tokenizer_cut(job->tokenizer, part->text, part->length,
                                ring->part_bytes, next);
        part->is_open = end == part->length;
    } else {
        end = behind_newline(part, part->length);
        part->is_open = end == 0;
        *next = end;
    }
    if (part->is_open)
        *next = end = any_end(part);
    return end;
}

/* Fills a part with a whole JSON line. */
static pen_status fill_line(struct reader *reader, struct part *part,
                            struct pen_text *why)
{
    pen_status status = PEN_OK;
    while (status == PEN_OK && reader->left > 0 &&
           behind_newline(part, part->length) == 0) {
        if (part->length >= JSON_MAX) {
            pen_why(why,
                    "%s, offset %" PRIu64
                    ": a JSON line of more than %zu MB; split the document, or "
                    "put its text into a file of its own",
                    reader->path, reader->offset, JSON_MAX >> 20);
            return PEN_INVALID;
        }
        size_t wanted = 2 * part->length;
        status =
            fill_part(reader, part, wanted < JSON_MAX ? wanted : JSON_MAX, why);
    }
    return status;
}

/* Moves the text that was read after the end of the last part into this one. */
static pen_status take_ahead(struct reader *reader, struct part *part,
                             struct pen_text *why)
{
    size_t length = reader->ahead.length;
    pen_status status = reserve_part(part, length + 1, why);
    if (status == PEN_OK && length > 0)
        memcpy(part->text, reader->ahead.bytes, length);
    part->length = status == PEN_OK ? length : 0;
    pen_text_clear(&reader->ahead);
    return status;
}

/* Reads the next part into its place in the ring, which is free. */
static pen_status read_part(const struct ring *ring, struct reader *reader,
                            struct part *part, struct pen_text *why)
{
    part->path = reader->path;
    part->offset = reader->offset;
    part->continues = reader->is_open;
    part->is_open = false;
    pen_status status = take_ahead(reader, part, why);
    if (status == PEN_OK)
        status = fill_part(reader, part, ring->part_bytes + SEARCH_BYTES, why);
    if (status == PEN_OK && ring->job->kind == PEN_DOCUMENT_JSON_LINE)
        status = fill_line(reader, part, why);
    if (status != PEN_OK)
        return status;
    size_t filled = part->length;
    size_t next = filled;
    part->is_last = reader->left == 0;
    if (!part->is_last)
        part->length = end_of_part(ring, part, &next);
    pen_text_add_bytes(&reader->ahead, part->text + next, filled - next);
    reader->is_open = part->is_open;
    reader->offset += next;
    return reader->ahead.has_failed ? PEN_NOMEM : PEN_OK;
}

/* Makes room for a part: in the ring, and in memory. */
static pen_status make_room(struct ring *ring, size_t next_bytes,
                            struct pen_tokenize_counts *counts,
                            struct pen_text *why)
{
    pen_status status = PEN_OK;
    while (status == PEN_OK && ring->num_written < ring->num_added &&
           (ring->num_added - ring->num_written == ring->num_parts ||
            ring->waiting_bytes + next_bytes > 2 * RING_BYTES))
        status = finish_part(ring, counts, why);
    return status;
}

static pen_status encode_file(struct ring *ring, struct reader *reader,
                              uint64_t total,
                              struct pen_tokenize_counts *counts,
                              struct pen_text *why)
{
    const struct pen_tokenize_job *job = ring->job;
    struct part *part = NULL;
    do {
        pen_status status = make_room(ring, reader->ahead.length, counts, why);
        if (status != PEN_OK)
            return status;
        part = &ring->parts[ring->num_added % ring->num_parts];
        uint64_t before = reader->offset;
        struct pen_text reason = PEN_TEXT_EMPTY;
        status = read_part(ring, reader, part, &reason);
        /* An error in earlier text is reported first. */
        while (status != PEN_OK && ring->num_written < ring->num_added) {
            pen_status earlier = finish_part(ring, counts, why);
            if (earlier != PEN_OK) {
                pen_text_release(&reason);
                return earlier;
            }
        }
        if (status != PEN_OK)
            pen_why(why, "%s", pen_text_string(&reason));
        pen_text_release(&reason);
        if (status != PEN_OK)
            return status;
        add_part(ring, part);
        counts->num_bytes += reader->offset - before;
        if (job->report != NULL)
            job->report(job->context, counts->num_bytes, total);
    } while (!part->is_last);
    return PEN_OK;
}

static pen_status encode_path(struct ring *ring, const char *path,
                              uint64_t total,
                              struct pen_tokenize_counts *counts,
                              struct pen_text *why)
{
    struct reader reader = {.path = path};
    pen_status status = pen_file_open(path, &reader.handle, &reader.left, why);
    if (status != PEN_OK)
        return status;
    status = encode_file(ring, &reader, total, counts, why);
    pen_text_release(&reader.ahead);
    close(reader.handle);
    return status;
}

static pen_status measure(const struct pen_tokenize_job *job, uint64_t *total,
                          struct pen_text *why)
{
    pen_status status = PEN_OK;
    *total = 0;
    for (size_t i = 0; i < job->num_paths && status == PEN_OK; i++) {
        int handle;
        uint64_t length;
        status = pen_file_open(job->paths[i], &handle, &length, why);
        if (status != PEN_OK)
            break;
        *total += length;
        close(handle);
    }
    return status;
}

static pen_status encode_files(struct ring *ring,
                               struct pen_tokenize_counts *counts,
                               struct pen_text *why)
{
    const struct pen_tokenize_job *job = ring->job;
    uint64_t total;
    pen_status status = measure(job, &total, why);
    for (size_t i = 0; i < job->num_paths && status == PEN_OK; i++)
        status = encode_path(ring, job->paths[i], total, counts, why);
    while (status == PEN_OK && ring->num_written < ring->num_added)
        status = finish_part(ring, counts, why);
    return status;
}

static void close_ring(struct ring *ring)
{
    pthread_mutex_lock(&ring->lock);
    ring->is_closed = true;
    pthread_cond_broadcast(&ring->changed);
    pthread_mutex_unlock(&ring->lock);
}

/* Starts the threads, does the work, waits for them. */
static pen_status run(struct ring *ring, struct pen_tokenize_counts *counts,
                      struct pen_text *why)
{
    pthread_t threads[THREADS_MAX];
    uint32_t count = 0;
    pen_status status = PEN_OK;
    while (count < ring->job->num_threads &&
           pthread_create(&threads[count], NULL, encode_parts, ring) == 0)
        count++;
    if (count == 0) {
        pen_why(why, "no thread could be started");
        status = PEN_NOMEM;
    } else {
        status = encode_files(ring, counts, why);
    }
    close_ring(ring);
    for (uint32_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return status;
}

static pen_status init_ring(struct ring *ring,
                            const struct pen_tokenize_job *job)
{
    size_t usual = pen_tokenizer_block(job->tokenizer);
    size_t num_parts = (size_t)PARTS_PER_THREAD * job->num_threads;
    size_t share = RING_BYTES / num_parts;
    *ring = (struct ring){.job = job, .first_failed = UINT64_MAX};
    ring->num_parts = num_parts;
    ring->part_bytes = share < PART_LEAST ? PART_LEAST : share;
    if (ring->part_bytes > usual)
        ring->part_bytes = usual;
    pthread_mutex_init(&ring->lock, NULL);
    pthread_cond_init(&ring->changed, NULL);
    ring->parts = calloc(num_parts, sizeof(struct part));
    ring->handed = calloc(num_parts + 1, sizeof(struct pen_encoder *));
    ring->resting =
        calloc(num_parts + 1 + job->num_threads, sizeof(struct pen_encoder *));
    return ring->parts == NULL || ring->handed == NULL || ring->resting == NULL
               ? PEN_NOMEM
               : PEN_OK;
}

static void release_ring(struct ring *ring)
{
    for (size_t i = 0; ring->parts != NULL && i < ring->num_parts; i++) {
        pen_token_list_release(&ring->parts[i].ids);
        pen_token_list_release(&ring->parts[i].ends);
        pen_text_release(&ring->parts[i].why);
        free(ring->parts[i].text);
    }
    for (size_t i = 0; ring->handed != NULL && i <= ring->num_parts; i++)
        pen_encoder_free(ring->handed[i]);
    for (size_t i = 0; i < ring->num_resting; i++)
        pen_encoder_free(ring->resting[i]);
    free(ring->parts);
    free(ring->handed);
    free(ring->resting);
    pthread_cond_destroy(&ring->changed);
    pthread_mutex_destroy(&ring->lock);
}

pen_status pen_tokenize(const struct pen_tokenize_job *job,
                        struct pen_tokenize_counts *out, struct pen_text *why)
{
    struct ring ring;
    struct pen_tokenize_counts counts = {.num_bytes = 0};
    uint32_t end_id = 0;
    PEN_BUG_UNLESS(job->num_threads > 0 && job->num_threads <= THREADS_MAX);
    if (job->appends_end &&
        !pen_tokenizer_end_of_document(job->tokenizer, &end_id)) {
        pen_why(why, "the tokenizer has no end-of-document token; leave out "
                     "--append-eod");
        return PEN_INVALID;
    }
    pen_status status = init_ring(&ring, job);
    ring.end_id = end_id;
    if (status == PEN_OK)
        status = run(&ring, &counts, why);
    release_ring(&ring);
    if (status == PEN_OK)
        *out = counts;
    return status;
}
