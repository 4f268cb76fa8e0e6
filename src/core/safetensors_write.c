/*
 * Writing safetensors, byte for byte as the reference writer would: compact
 * JSON, padded with spaces to a multiple of 8, wide types first, then by name.
 */
#include "core/safetensors.h"

#include "base/bug.h"
#include "base/draft.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Where the bytes of a tensor go. */
struct place {
    uint64_t offset; /* in the file */
    uint64_t num_bytes;
    uint64_t num_written;
};

struct pen_safetensors_writer {
    struct pen_draft draft;
    struct place *places; /* by the caller's numbers */
    size_t num_places;
    uint64_t num_bytes;   /* of the file */
    struct pen_hash hash; /* of its head, so far */
    uint64_t num_hashed;
};

struct entry {
    const struct pen_tensor_spec *spec;
    size_t tensor;
};

static int compare_names(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    return strcmp(x->spec->name, y->spec->name);
}

int pen_tensor_spec_compare(const struct pen_tensor_spec *a,
                            const struct pen_tensor_spec *b)
{
    if (a->dtype != b->dtype)
        return a->dtype > b->dtype ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int compare_places(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    return pen_tensor_spec_compare(x->spec, y->spec);
}

static pen_status check_names(struct entry *entries, size_t count,
                              struct pen_text *why)
{
    qsort(entries, count, sizeof *entries, compare_names);
    for (size_t i = 0; i < count; i++) {
        const char *name = entries[i].spec->name;
        bool is_twice =
            i > 0 && compare_names(&entries[i - 1], &entries[i]) == 0;
        if (!is_twice && strcmp(name, "__metadata__") != 0)
            continue;
        pen_why(why, "cannot write a tensor called %s%s", name,
                is_twice ? " twice" : "");
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status add_name(struct pen_text *header, const char *name,
                           struct pen_text *why)
{
    json_t *string = json_string(name);
    char *quoted = json_dumps(string, JSON_ENCODE_ANY);
    json_decref(string);
    if (quoted == NULL) {
        pen_why(why, "cannot write a tensor whose name is not UTF-8");
        return PEN_INVALID;
    }
    pen_text_add(header, ",%s:", quoted);
    free(quoted);
    return PEN_OK;
}

static void add_shape(struct pen_text *header,
                      const struct pen_tensor_spec *spec)
{
    pen_text_add(header, "{\"dtype\":\"%s\",\"shape\":[",
                 pen_dtype_name(spec->dtype));
    for (uint32_t i = 0; i < spec->num_dims; i++)
        pen_text_add(header, "%s%" PRIu64, i == 0 ? "" : ",", spec->shape[i]);
}

/* Returns the bytes missing to a multiple. */
static size_t pad(size_t length, size_t multiple)
{
    return (multiple - length % multiple) % multiple;
}

/* Offsets in places count from the end of the header. */
static pen_status build_header(struct entry *entries, size_t count,
                               struct place *places, struct pen_text *header,
                               struct pen_text *why)
{
    uint64_t end = 0;
    qsort(entries, count, sizeof *entries, compare_places);
    pen_text_add_string(header, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < count; i++) {
        const struct pen_tensor_spec *spec = entries[i].spec;
        struct place *place = &places[entries[i].tensor];
        pen_status status = pen_tensor_spec_bytes(spec, &place->num_bytes, why);
        if (status == PEN_OK && place->num_bytes > INT64_MAX - end) {
            pen_why(why, "the tensors do not fit in one file");
            status = PEN_INVALID;
        }
        if (status == PEN_OK)
            status = add_name(header, spec->name, why);
        if (status != PEN_OK)
            return status;
        add_shape(header, spec);
        place->offset = end;
        end += place->num_bytes;
        pen_text_add(header, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                     place->offset, end);
    }
    pen_text_add_string(header, "}");
    pen_text_add_repeat(header, ' ', pad(header->length, 8));
    if (header->has_failed) {
        pen_why(why, "no memory for the names of %zu tensors", count);
        return PEN_NOMEM;
    }
    if (header->length > PEN_SAFETENSORS_MAX_HEADER) {
        pen_why(why, "the names of %zu tensors do not fit in one file", count);
        return PEN_INVALID;
    }
    return PEN_OK;
}

/* Writes the bytes; if they begin where the hash ends, hashes them, too. */
static pen_status write_bytes(struct pen_safetensors_writer *writer,
                              uint64_t offset, const void *bytes, size_t length,
                              struct pen_text *why)
{
    pen_status status =
        pen_draft_write(&writer->draft, offset, bytes, length, why);
    if (status == PEN_OK && offset == writer->num_hashed) {
        pen_hash_add(&writer->hash, bytes, length);
        writer->num_hashed += length;
    }
    return status;
}

static void print_length(uint64_t length, unsigned char out[8])
{
    for (unsigned i = 0; i < 8; i++)
        out[i] = (unsigned char)(length >> (8 * i));
}

static pen_status write_header(struct pen_safetensors_writer *writer,
                               const struct pen_text *header,
                               struct pen_text *why)
{
    unsigned char length[8];
    print_length(header->length, length);
    pen_status status = write_bytes(writer, 0, length, sizeof length, why);
    if (status == PEN_OK)
        status = write_bytes(writer, sizeof length, header->bytes,
                             header->length, why);
    writer->num_bytes = sizeof length + header->length;
    for (size_t i = 0; i < writer->num_places; i++) {
        writer->places[i].offset += sizeof length + header->length;
        writer->num_bytes += writer->places[i].num_bytes;
    }
    return status;
}

static pen_status lay(struct entry *entries, size_t count, struct place *places,
                      struct pen_text *head, struct pen_text *why)
{
    struct pen_text header = PEN_TEXT_EMPTY;
    unsigned char length[8];
    pen_status status = check_names(entries, count, why);
    if (status == PEN_OK)
        status = build_header(entries, count, places, &header, why);
    if (status == PEN_OK) {
        pen_text_add_repeat(&header, ' ',
                            pad(sizeof length + header.length, 64));
        print_length(header.length, length);
        pen_text_add_bytes(head, (const char *)length, sizeof length);
        pen_text_add_bytes(head, pen_text_string(&header), header.length);
        if (header.has_failed || head->has_failed)
            status = PEN_NOMEM;
    }
    pen_text_release(&header);
    return status;
}

pen_status pen_safetensors_lay(const struct pen_tensor_spec *specs,
                               size_t count, struct pen_text *head,
                               uint64_t *offsets, uint64_t *num_bytes,
                               struct pen_text *why)
{
    struct entry *entries = calloc(count + 1, sizeof *entries);
    struct place *places = calloc(count + 1, sizeof *places);
    pen_status status = PEN_NOMEM;
    for (size_t i = 0; i < count && entries != NULL; i++)
        entries[i] = (struct entry){&specs[i], i};
    if (entries != NULL && places != NULL)
        status = lay(entries, count, places, head, why);
    if (status == PEN_OK)
        *num_bytes = head->length;
    for (size_t i = 0; i < count && status == PEN_OK; i++) {
        offsets[i] = head->length + places[i].offset;
        *num_bytes += places[i].num_bytes;
    }
    free(entries);
    free(places);
    return status;
}

static struct pen_safetensors_writer *allocate(size_t count)
{
    struct pen_safetensors_writer *writer = calloc(1, sizeof *writer);
    struct place *places = calloc(count + 1, sizeof *places);
    if (writer == NULL || places == NULL) {
        free(writer);
        free(places);
        return NULL;
    }
    writer->places = places;
    writer->num_places = count;
    pen_hash_init(&writer->hash);
    return writer;
}

static void deallocate(struct pen_safetensors_writer *writer)
{
    pen_hash_release(&writer->hash);
    free(writer->places);
    free(writer);
}

/* Opens the file once everything about the header is known to be right. */
static pen_status start(struct pen_safetensors_writer *writer, const char *path,
                        struct entry *entries, struct pen_text *why)
{
    struct pen_text header = PEN_TEXT_EMPTY;
    size_t count = writer->num_places;
    pen_status status = check_names(entries, count, why);
    if (status == PEN_OK)
        status = build_header(entries, count, writer->places, &header, why);
    if (status == PEN_OK)
        status = pen_draft_open(&writer->draft, path, why);
    if (status == PEN_OK) {
        status = write_header(writer, &header, why);
        if (status != PEN_OK)
            pen_draft_abandon(&writer->draft);
    }
    pen_text_release(&header);
    return status;
}

pen_status pen_safetensors_create(const char *path,
                                  const struct pen_tensor_spec *specs,
                                  size_t count,
                                  struct pen_safetensors_writer **out,
                                  struct pen_text *why)
{
    struct entry *entries = calloc(count + 1, sizeof *entries);
    struct pen_safetensors_writer *writer = allocate(count);
    pen_status status = PEN_NOMEM;
    if (entries != NULL && writer != NULL) {
        for (size_t i = 0; i < count; i++)
            entries[i] = (struct entry){&specs[i], i};
        status = start(writer, path, entries, why);
    } else {
        pen_why(why, "no memory to write %zu tensors", count);
    }
    free(entries);
    if (status == PEN_OK)
        *out = writer;
    else if (writer != NULL)
        deallocate(writer);
    return status;
}

pen_status pen_safetensors_put_at(struct pen_safetensors_writer *writer,
                                  size_t tensor, uint64_t at, const void *bytes,
                                  size_t length, struct pen_text *why)
{
    PEN_BUG_UNLESS(tensor < writer->num_places);
    struct place *place = &writer->places[tensor];
    PEN_BUG_UNLESS(length <= place->num_bytes - place->num_written &&
                   at <= place->num_bytes && length <= place->num_bytes - at);
    pen_status status =
        write_bytes(writer, place->offset + at, bytes, length, why);
    if (status == PEN_OK)
        place->num_written += length;
    return status;
}

pen_status pen_safetensors_put(struct pen_safetensors_writer *writer,
                               size_t tensor, const void *bytes, size_t length,
                               struct pen_text *why)
{
    PEN_BUG_UNLESS(tensor < writer->num_places);
    return pen_safetensors_put_at(
        writer, tensor, writer->places[tensor].num_written, bytes, length, why);
}

static pen_status take_facts(struct pen_safetensors_writer *writer,
                             struct pen_file_facts *out, struct pen_text *why)
{
    *out = (struct pen_file_facts){.num_bytes = writer->num_bytes};
    return writer->num_hashed == writer->num_bytes
               ? pen_hash_finish(&writer->hash, out->hash, why)
               : PEN_OK;
}

pen_status pen_safetensors_finish(struct pen_safetensors_writer *writer,
                                  struct pen_file_facts *facts,
                                  struct pen_text *why)
{
    for (size_t i = 0; i < writer->num_places; i++)
        PEN_BUG_UNLESS(writer->places[i].num_written ==
                       writer->places[i].num_bytes);
    struct pen_file_facts found;
    pen_status status = take_facts(writer, &found, why);
    if (status == PEN_OK)
        status = pen_draft_commit(&writer->draft, why);
    else
        pen_draft_abandon(&writer->draft);
    deallocate(writer);
    if (status == PEN_OK && facts != NULL)
        *facts = found;
    return status;
}

void pen_safetensors_abandon(struct pen_safetensors_writer *writer)
{
    pen_draft_abandon(&writer->draft);
    deallocate(writer);
}
