/*
 * One thread, the caller's, cuts the text into parts and writes their ids; the
 * others encode. Parts wait in a ring, in the order of the text:
 *
 *      written            taken               added
 *        ▼                  ▼                   ▼
 *   ...  [done][done][busy][waiting][waiting] [free] ...
 *
 * The ring is what bounds the memory.
 */
#include "data/tokenize.h"

#include "base/bug.h"
#include "base/json.h"
#include "data/map.h"
#include "data/utf8.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define PART_BYTES ((size_t)1 << 20)
#define PARTS_PER_THREAD 4u
#define THREADS_MAX 1024u

struct part {
    const char *path;
    const char *text; /* borrowed from the map of the file */
    size_t length;
    uint64_t offset; /* in the file */
    bool is_last;    /* of its file */
    bool is_done;
    struct pen_token_list ids;
    struct pen_token_list ends; /* indices into ids, of documents */
    pen_status status;
    struct pen_text why;
};

struct ring {
    pthread_mutex_t lock; /* guards the counters, is_done and is_closed */
    pthread_cond_t changed;
    struct part *parts;
    size_t num_parts;
    uint64_t num_added;
    uint64_t num_taken;
    uint64_t num_written;
    bool is_closed; /* no more parts will come */
    const struct pen_tokenize_job *job;
    uint32_t end_id;
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

static pen_status encode_line(const struct ring *ring,
                              struct pen_encoder *encoder, struct part *part,
                              const char *text, size_t length)
{
    pen_status status =
        pen_encoder_encode(encoder, text, length, &part->ids, &part->why);
    return status == PEN_OK ? end_document(ring, part) : status;
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
        status = encode_line(ring, encoder, part, json_string_value(text),
                             json_string_length(text));
    } else {
        pen_why(&part->why, "no text under the key \"%s\"", key);
        status = PEN_INVALID;
    }
    json_decref(json.object);
    return status;
}

static void name_place(struct part *part, size_t at)
{
    struct pen_text named = PEN_TEXT_EMPTY;
    pen_text_add(&named, "%s, offset %" PRIu64 ": %s", part->path,
                 part->offset + at, pen_text_string(&part->why));
    pen_text_release(&part->why);
    part->why = named;
}

static pen_status encode_lines(const struct ring *ring,
                               struct pen_encoder *encoder, struct part *part)
{
    bool is_json = ring->job->kind == PEN_DOCUMENT_JSON_LINE;
    pen_status status = PEN_OK;
    for (size_t at = 0; at < part->length && status == PEN_OK;) {
        const char *line = part->text + at;
        const char *newline = memchr(line, '\n', part->length - at);
        size_t length =
            newline == NULL ? part->length - at : (size_t)(newline - line);
        size_t next = at + length + 1;
        if (length > 0 && line[length - 1] == '\r')
            length--;
        if (length > 0 && is_json)
            status = encode_json(ring, encoder, part, line, length);
        else if (length > 0)
            status = encode_line(ring, encoder, part, line, length);
        if (status != PEN_OK)
            name_place(part, at);
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
    pen_status status = pen_encoder_encode(encoder, part->text, part->length,
                                           &part->ids, &part->why);
    if (status == PEN_OK && part->is_last)
        status = end_document(ring, part);
    else if (status != PEN_OK)
        name_place(part, 0);
    return status;
}

/* The next part that waits; NULL when there will be no more. */
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

static void *encode_parts(void *argument)
{
    struct ring *ring = argument;
    struct pen_encoder *encoder = NULL;
    struct part *part;
    pen_status ready = pen_encoder_create(ring->job->tokenizer, &encoder);
    while ((part = take_part(ring)) != NULL) {
        part->status =
            ready == PEN_OK ? encode_part(ring, encoder, part) : ready;
        pthread_mutex_lock(&ring->lock);
        part->is_done = true;
        pthread_cond_broadcast(&ring->changed);
        pthread_mutex_unlock(&ring->lock);
    }
    pen_encoder_free(encoder);
    return NULL;
}

/* ---- cutting and writing, in the caller's thread ---- */

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
    return write_part(ring, part, counts, why);
}

static void add_part(struct ring *ring, const struct part *what)
{
    struct part *part = &ring->parts[ring->num_added % ring->num_parts];
    struct pen_token_list ids = part->ids;
    struct pen_token_list ends = part->ends;
    struct pen_text why = part->why;
    *part = *what;
    part->ids = ids;
    part->ends = ends;
    part->why = why;
    part->ids.count = 0;
    part->ends.count = 0;
    pthread_mutex_lock(&ring->lock);
    ring->num_added++;
    pthread_cond_broadcast(&ring->changed);
    pthread_mutex_unlock(&ring->lock);
}

/* Where the part that begins at `begin` ends and the next begins. */
static size_t end_of_part(const struct pen_tokenize_job *job, const char *text,
                          size_t length, size_t begin, size_t *next)
{
    *next = length;
    if (length - begin <= PART_BYTES)
        return length;
    if (job->kind == PEN_DOCUMENT_FILE) {
        size_t end = pen_tokenizer_cut(job->tokenizer, text + begin,
                                       length - begin, PART_BYTES, next);
        *next += begin;
        return begin + end;
    }
    const char *newline =
        memchr(text + begin + PART_BYTES, '\n', length - begin - PART_BYTES);
    if (newline != NULL)
        *next = (size_t)(newline - text) + 1;
    return *next;
}

static pen_status encode_file(struct ring *ring, const char *path,
                              const struct pen__map *map, uint64_t total,
                              struct pen_tokenize_counts *counts,
                              struct pen_text *why)
{
    const struct pen_tokenize_job *job = ring->job;
    const char *text = map->length == 0 ? "" : (const char *)map->bytes;
    pen_status status = PEN_OK;
    size_t begin = 0;
    do {
        size_t next;
        size_t end = end_of_part(job, text, map->length, begin, &next);
        struct part part = {.path = path,
                            .text = text + begin,
                            .length = end - begin,
                            .offset = begin,
                            .is_last = next == map->length};
        if (ring->num_added - ring->num_written == ring->num_parts)
            status = finish_part(ring, counts, why);
        if (status != PEN_OK)
            break;
        add_part(ring, &part);
        counts->num_bytes += next - begin;
        begin = next;
        if (job->report != NULL)
            job->report(job->context, counts->num_bytes, total);
    } while (begin < map->length);
    /* The map must outlive its parts. */
    while (ring->num_written < ring->num_added) {
        pen_status written =
            finish_part(ring, counts, status == PEN_OK ? why : NULL);
        if (status == PEN_OK)
            status = written;
    }
    return status;
}

static pen_status encode_files(struct ring *ring,
                               struct pen_tokenize_counts *counts,
                               struct pen_text *why)
{
    const struct pen_tokenize_job *job = ring->job;
    uint64_t total = 0;
    pen_status status = PEN_OK;
    struct pen__map *maps = calloc(job->num_paths + 1, sizeof *maps);
    if (maps == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < job->num_paths && status == PEN_OK; i++) {
        status = pen__map_init(&maps[i], job->paths[i], why);
        total += maps[i].length;
    }
    for (size_t i = 0; i < job->num_paths && status == PEN_OK; i++)
        status = encode_file(ring, job->paths[i], &maps[i], total, counts, why);
    for (size_t i = 0; i < job->num_paths; i++)
        pen__map_release(&maps[i]);
    free(maps);
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

pen_status pen_tokenize(const struct pen_tokenize_job *job,
                        struct pen_tokenize_counts *out, struct pen_text *why)
{
    PEN_BUG_UNLESS(job->num_threads > 0 && job->num_threads <= THREADS_MAX);
    struct ring ring = {
        .job = job, .num_parts = (size_t)PARTS_PER_THREAD * job->num_threads};
    struct pen_tokenize_counts counts = {.num_bytes = 0};
    if (job->appends_end &&
        !pen_tokenizer_end_of_document(job->tokenizer, &ring.end_id)) {
        pen_why(why, "the tokenizer has no token for the end of a document");
        return PEN_INVALID;
    }
    ring.parts = calloc(ring.num_parts, sizeof *ring.parts);
    if (ring.parts == NULL)
        return PEN_NOMEM;
    pthread_mutex_init(&ring.lock, NULL);
    pthread_cond_init(&ring.changed, NULL);
    pen_status status = run(&ring, &counts, why);
    pthread_cond_destroy(&ring.changed);
    pthread_mutex_destroy(&ring.lock);
    for (size_t i = 0; i < ring.num_parts; i++) {
        pen_token_list_release(&ring.parts[i].ids);
        pen_token_list_release(&ring.parts[i].ends);
        pen_text_release(&ring.parts[i].why);
    }
    free(ring.parts);
    if (status == PEN_OK)
        *out = counts;
    return status;
}
