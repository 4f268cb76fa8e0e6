/*
 * Writing the weights of a model: which tensor goes to which shard is known
 * from the sizes alone, so shards can be written one after the other.
 */
#include "core/weights.h"

#include "base/bug.h"
#include "base/draft.h"
#include "base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A run of specs that makes one file. */
struct shard {
    size_t first;
    size_t count;
    uint64_t bytes_left;
    uint64_t tensor_bytes;
    struct pen_safetensors_writer *writer; /* while begun and not complete */
    struct pen_file_facts facts;           /* when complete */
    bool is_complete;
};

struct pen_weights_writer {
    struct pen_text base; /* DIRECTORY/PREFIX */
    const struct pen_tensor_spec *specs;
    size_t num_specs;
    struct shard *shards;
    size_t num_shards;
    size_t *shard_of; /* by tensor */
    uint64_t total_bytes;
};

void pen_weights_free(struct pen_weights_writer *writer)
{
    pen_text_release(&writer->base);
    free(writer->shards);
    free(writer->shard_of);
    free(writer);
}

static struct pen_weights_writer *allocate(const char *directory,
                                           const char *prefix, size_t count)
{
    struct pen_weights_writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL)
        return NULL;
    writer->shards = calloc(count + 1, sizeof *writer->shards);
    writer->shard_of = calloc(count + 1, sizeof *writer->shard_of);
    pen_text_add(&writer->base, "%s/%s", directory, prefix);
    if (writer->shards == NULL || writer->shard_of == NULL ||
        writer->base.has_failed) {
        pen_weights_free(writer);
        return NULL;
    }
    return writer;
}

/* Deals the tensors to shards in order. */
static pen_status deal(struct pen_weights_writer *writer, uint64_t most,
                       struct pen_text *why)
{
    writer->num_shards = 1;
    for (size_t i = 0; i < writer->num_specs; i++) {
        struct shard *shard = &writer->shards[writer->num_shards - 1];
        uint64_t bytes;
        pen_status status =
            pen_tensor_spec_bytes(&writer->specs[i], &bytes, why);
        if (status != PEN_OK)
            return status;
        if (bytes > INT64_MAX - writer->total_bytes) {
            pen_why(why, "the tensors have more than 2^63 bytes");
            return PEN_INVALID;
        }
        bool is_full = shard->count > 0 && most > 0 &&
                       (bytes > most || shard->bytes_left > most - bytes);
        if (is_full) {
            shard = &writer->shards[writer->num_shards++];
            shard->first = i;
        }
        shard->count++;
        shard->bytes_left += bytes;
        shard->tensor_bytes += bytes;
        writer->total_bytes += bytes;
        writer->shard_of[i] = writer->num_shards - 1;
    }
    return PEN_OK;
}

pen_status pen_weights_create(const char *directory, const char *prefix,
                              const struct pen_tensor_spec *specs, size_t count,
                              uint64_t max_shard_bytes,
                              struct pen_weights_writer **out,
                              struct pen_text *why)
{
    struct pen_weights_writer *writer = allocate(directory, prefix, count);
    if (writer == NULL) {
        pen_why(why, "no memory to write %zu tensors", count);
        return PEN_NOMEM;
    }
    writer->specs = specs;
    writer->num_specs = count;
    pen_status status = deal(writer, max_shard_bytes, why);
    if (status == PEN_OK)
        *out = writer;
    else
        pen_weights_free(writer);
    return status;
}

void pen_weights_add_name(const char *prefix, size_t file, size_t num_files,
                          struct pen_text *out)
{
    pen_text_add_string(out, prefix);
    if (num_files > 1)
        pen_text_add(out, "-%05zu-of-%05zu", file + 1, num_files);
    pen_text_add_string(out, ".safetensors");
}

static void add_path(const struct pen_weights_writer *writer, size_t shard,
                     struct pen_text *out)
{
    pen_weights_add_name(pen_text_string(&writer->base), shard,
                         writer->num_shards, out);
}

static void add_name(const struct pen_weights_writer *writer, size_t shard,
                     struct pen_text *out)
{
    const char *base = pen_text_string(&writer->base);
    pen_weights_add_name(strrchr(base, '/') + 1, shard, writer->num_shards,
                         out);
}

static pen_status begin_shard(struct pen_weights_writer *writer, size_t shard,
                              struct pen_text *why)
{
    struct shard *begun = &writer->shards[shard];
    struct pen_text path = PEN_TEXT_EMPTY;
    add_path(writer, shard, &path);
    pen_status status = pen_safetensors_create(
        pen_text_string(&path), writer->specs + begun->first, begun->count,
        &begun->writer, why);
    pen_text_release(&path);
    return status;
}

static pen_status complete_shard(struct shard *shard, struct pen_text *why)
{
    struct pen_safetensors_writer *file = shard->writer;
    shard->writer = NULL;
    pen_status status = pen_safetensors_finish(file, &shard->facts, why);
    shard->is_complete = status == PEN_OK;
    return status;
}

/* Puts bytes after those that the tensor has, or at the given place of it. */
static pen_status put(struct pen_weights_writer *writer, size_t tensor,
                      const uint64_t *at, const void *bytes, size_t length,
                      struct pen_text *why)
{
    PEN_BUG_UNLESS(tensor < writer->num_specs);
    size_t number = writer->shard_of[tensor];
    struct shard *shard = &writer->shards[number];
    size_t place = tensor - shard->first;
    if (length == 0)
        return PEN_OK;
    pen_status status =
        shard->writer == NULL ? begin_shard(writer, number, why) : PEN_OK;
    if (status == PEN_OK)
        status = at == NULL ? pen_safetensors_put(shard->writer, place, bytes,
                                                  length, why)
                            : pen_safetensors_put_at(shard->writer, place, *at,
                                                     bytes, length, why);
    if (status != PEN_OK)
        return status;
    shard->bytes_left -= length;
    return shard->bytes_left == 0 ? complete_shard(shard, why) : PEN_OK;
}

pen_status pen_weights_put(struct pen_weights_writer *writer, size_t tensor,
                           const void *bytes, size_t length,
                           struct pen_text *why)
{
    return put(writer, tensor, NULL, bytes, length, why);
}

pen_status pen_weights_put_at(struct pen_weights_writer *writer, size_t tensor,
                              uint64_t at, const void *bytes, size_t length,
                              struct pen_text *why)
{
    return put(writer, tensor, &at, bytes, length, why);
}

/* Makes the map; NULL when there is no memory. */
static json_t *make_map(const struct pen_weights_writer *writer)
{
    json_t *map = json_object();
    struct pen_text file = PEN_TEXT_EMPTY;
    int failed = 0;
    for (size_t i = 0; i < writer->num_specs; i++) {
        pen_text_clear(&file);
        add_name(writer, writer->shard_of[i], &file);
        failed |= json_object_set_new(map, writer->specs[i].name,
                                      json_string(pen_text_string(&file)));
    }
    PEN_BUG_UNLESS(failed != 0 || json_object_size(map) == writer->num_specs);
    if (failed != 0 || file.has_failed) {
        json_decref(map);
        map = NULL;
    }
    pen_text_release(&file);
    return map;
}

char *pen_weight_index_print(json_t *map, uint64_t total_bytes)
{
    json_t *index = json_pack("{s:{s:I}, s:o}", "metadata", "total_size",
                              (json_int_t)total_bytes, "weight_map", map);
    char *text = json_dumps(index, JSON_INDENT(2) | JSON_SORT_KEYS);
    json_decref(index);
    return text;
}

static pen_status write_index(const struct pen_weights_writer *writer,
                              const char *path, struct pen_text *why)
{
    char *text = pen_weight_index_print(make_map(writer), writer->total_bytes);
    if (text == NULL) {
        pen_why(why, "no memory for the index of %zu tensors",
                writer->num_specs);
        return PEN_NOMEM;
    }
    pen_status status = pen_draft_write_file(path, text, strlen(text), why);
    free(text);
    return status;
}

/*
 * Removes stale files, so that a reader's first choice is one that was written
 * now.
 */
static pen_status remove_stale(const char *path, struct pen_text *why)
{
    if (unlink(path) == 0 || errno == ENOENT)
        return PEN_OK;
    return pen_file_refuse("remove", path, why);
}

static pen_status write_end(struct pen_weights_writer *writer,
                            struct pen_text *why)
{
    struct pen_text index = PEN_TEXT_EMPTY;
    struct pen_text single = PEN_TEXT_EMPTY;
    const char *base = pen_text_string(&writer->base);
    pen_text_add(&index, "%s.safetensors.index.json", base);
    pen_text_add(&single, "%s.safetensors", base);
    pen_status status = PEN_OK;
    if (writer->num_shards == 1) {
        status = remove_stale(pen_text_string(&index), why);
    } else {
        status = write_index(writer, pen_text_string(&index), why);
        if (status == PEN_OK)
            status = remove_stale(pen_text_string(&single), why);
    }
    pen_text_release(&index);
    pen_text_release(&single);
    return status;
}

pen_status pen_weights_flush(struct pen_weights_writer *writer,
                             struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < writer->num_shards; i++) {
        struct shard *shard = &writer->shards[i];
        PEN_BUG_UNLESS(shard->bytes_left == 0);
        if (shard->is_complete)
            continue;
        /* A shard without bytes never gets a put, so it begins here. */
        status = begin_shard(writer, i, why);
        if (status == PEN_OK)
            status = complete_shard(shard, why);
    }
    return status;
}

size_t pen_weights_num_files(const struct pen_weights_writer *writer)
{
    return writer->num_shards;
}

void pen_weights_file(const struct pen_weights_writer *writer, size_t file,
                      struct pen_text *name, struct pen_weights_file *out)
{
    PEN_BUG_UNLESS(file < writer->num_shards);
    const struct shard *shard = &writer->shards[file];
    PEN_BUG_UNLESS(shard->is_complete);
    add_name(writer, file, name);
    *out = (struct pen_weights_file){shard->facts, shard->first, shard->count,
                                     shard->tensor_bytes};
}

static int compare_specs(const void *a, const void *b)
{
    const struct pen_tensor_spec *const *x = a;
    const struct pen_tensor_spec *const *y = b;
    return pen_tensor_spec_compare(*x, *y);
}

void pen_weights_order(const struct pen_weights_writer *writer,
                       const struct pen_tensor_spec **order)
{
    for (size_t i = 0; i < writer->num_specs; i++)
        order[i] = &writer->specs[i];
    for (size_t i = 0; i < writer->num_shards; i++)
        qsort(order + writer->shards[i].first, writer->shards[i].count,
              sizeof *order, compare_specs);
}

pen_status pen_weights_finish(struct pen_weights_writer *writer,
                              struct pen_text *why)
{
    pen_status status = pen_weights_flush(writer, why);
    if (status == PEN_OK)
        status = write_end(writer, why);
    if (status == PEN_OK)
        pen_weights_free(writer);
    else
        pen_weights_abandon(writer);
    return status;
}

void pen_weights_abandon(struct pen_weights_writer *writer)
{
    for (size_t i = 0; i < writer->num_shards; i++) {
        struct shard *shard = &writer->shards[i];
        struct pen_text path = PEN_TEXT_EMPTY;
        add_path(writer, i, &path);
        if (shard->writer != NULL)
            pen_safetensors_abandon(shard->writer);
        if (shard->is_complete)
            unlink(pen_text_string(&path));
        pen_text_release(&path);
    }
    pen_weights_free(writer);
}
