/*
 * Reading safetensors. The checks and their order are those of the reference
 * implementation (huggingface/safetensors, src/tensor.rs), so that both give
 * the same name to what is wrong with a file. Two things are stricter here: a
 * name that occurs twice is refused, and so is one with a NUL in it.
 */
#include "core/safetensors.h"

#include "base/bug.h"
#include "base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LENGTH_BYTES 8u
#define METADATA "__metadata__"

static void add_name(struct pen_text *why, const char *name)
{
    if (why == NULL)
        return;
    pen_why(why, "tensor \"");
    pen_text_add_printable(why, name, strnlen(name, 100));
    pen_why(why, "\": ");
}

static pen_status refuse_entry(const char *name, const char *reason,
                               struct pen_text *why)
{
    add_name(why, name);
    pen_why(why, "%s (InvalidHeaderDeserialization)", reason);
    return PEN_INVALID;
}

static pen_status read_length(const unsigned char *bytes, size_t length,
                              size_t *out, struct pen_text *why)
{
    if (bytes == NULL || length < LENGTH_BYTES) {
        pen_why(why, "%zu bytes, a file has at least 8 (HeaderTooSmall)",
                length);
        return PEN_INVALID;
    }
    uint64_t header = 0;
    for (size_t i = 0; i < LENGTH_BYTES; i++)
        header |= (uint64_t)bytes[i] << (8 * i);
    if (header > PEN_SAFETENSORS_MAX_HEADER) {
        pen_why(why,
                "the header length at offset 0 is %" PRIu64
                ", must be at most %u (HeaderTooLarge)",
                header, PEN_SAFETENSORS_MAX_HEADER);
        return PEN_INVALID;
    }
    if (header > length - LENGTH_BYTES) {
        pen_why(why,
                "the header length at offset 0 is %" PRIu64
                ", but only %zu bytes follow (InvalidHeaderLength)",
                header, length - LENGTH_BYTES);
        return PEN_INVALID;
    }
    *out = (size_t)header;
    return PEN_OK;
}

static const char *rule_of(const json_error_t *error)
{
    switch (json_error_code(error)) {
    case json_error_invalid_utf8:
        return "InvalidHeader";
    case json_error_numeric_overflow:
        return "ValidationOverflow";
    default:
        return "InvalidHeaderDeserialization";
    }
}

static pen_status read_header(const char *text, size_t length, json_t **out,
                              struct pen_text *why)
{
    json_error_t error;
    json_t *header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (header == NULL) {
        pen_why(why, "offset %d: ", (int)LENGTH_BYTES + error.position);
        if (why != NULL)
            pen_text_add_printable(why, error.text, strlen(error.text));
        pen_why(why, " (%s)", rule_of(&error));
        return PEN_INVALID;
    }
    if (!json_is_object(header)) {
        json_decref(header);
        pen_why(why, "the header must be one JSON object "
                     "(InvalidHeaderDeserialization)");
        return PEN_INVALID;
    }
    *out = header;
    return PEN_OK;
}

static pen_status check_metadata(const json_t *metadata, struct pen_text *why)
{
    const char *key;
    json_t *value;
    bool is_right = metadata == NULL || json_is_object(metadata);
    json_object_foreach((json_t *)metadata, key, value)
    {
        is_right = is_right && json_is_string(value);
    }
    if (is_right)
        return PEN_OK;
    pen_why(why, METADATA " must be an object of strings "
                          "(InvalidHeaderDeserialization)");
    return PEN_INVALID;
}

/* Returns whether a value is a list of integers from 0. */
static bool is_count_list(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        if (!json_is_integer(item) || json_integer_value(item) < 0)
            return false;
    }
    return json_is_array(list);
}

static uint64_t count_at(const json_t *list, size_t index)
{
    return (uint64_t)json_integer_value(json_array_get(list, index));
}

/* Reads an entry but for the place of its bytes. Takes room from *dims. */
static pen_status read_entry(const char *name, const json_t *entry,
                             uint64_t **dims, struct pen_safetensor *out,
                             struct pen_text *why)
{
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    const json_t *shape = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (dtype == NULL || pen_dtype_find(dtype) == PEN_DTYPES)
        return refuse_entry(name, "dtype must be a type of safetensors", why);
    if (!is_count_list(shape))
        return refuse_entry(name, "shape must be a list of integers from 0",
                            why);
    if (!is_count_list(offsets) || json_array_size(offsets) != 2)
        return refuse_entry(name, "data_offsets must be two integers from 0",
                            why);
    uint64_t begin = count_at(offsets, 0);
    uint64_t end = count_at(offsets, 1);
    if (end < begin) {
        add_name(why, name);
        pen_why(why,
                "begins at %" PRIu64 " but ends earlier, at %" PRIu64
                " (InvalidOffset)",
                begin, end);
        return PEN_INVALID;
    }
    *out = (struct pen_safetensor){.name = name,
                                   .dtype = pen_dtype_find(dtype),
                                   .num_dims = (uint32_t)json_array_size(shape),
                                   .shape = *dims,
                                   .offset = begin,
                                   .num_bytes = end - begin};
    for (uint32_t i = 0; i < out->num_dims; i++)
        *(*dims)++ = count_at(shape, i);
    return PEN_OK;
}

static size_t count_dims(const json_t *header)
{
    size_t count = 0;
    const char *name;
    json_t *entry;
    json_object_foreach((json_t *)header, name, entry)
    {
        count += json_array_size(json_object_get(entry, "shape"));
    }
    return count;
}

static pen_status read_entries(struct pen_safetensors *file,
                               struct pen_text *why)
{
    size_t num_dims = count_dims(file->header);
    file->dims = calloc(num_dims + 1, sizeof *file->dims);
    file->tensors =
        calloc(json_object_size(file->header) + 1, sizeof *file->tensors);
    if (file->dims == NULL || file->tensors == NULL) {
        pen_why(why, "no memory for %zu tensors",
                json_object_size(file->header));
        return PEN_NOMEM;
    }
    uint64_t *dims = file->dims;
    const char *name;
    json_t *entry;
    json_object_foreach(file->header, name, entry)
    {
        if (strcmp(name, METADATA) == 0)
            continue;
        pen_status status = read_entry(name, entry, &dims,
                                       &file->tensors[file->num_tensors], why);
        if (status != PEN_OK)
            return status;
        file->num_tensors++;
    }
    PEN_BUG_UNLESS(dims <= file->dims + num_dims);
    return check_metadata(json_object_get(file->header, METADATA), why);
}

pen_status pen_tensor_spec_bytes(const struct pen_tensor_spec *spec,
                                 uint64_t *out, struct pen_text *why)
{
    uint64_t bits = pen_dtype_bits(spec->dtype);
    uint64_t size = 1;
    bool fits = true;
    for (uint32_t i = 0; fits && i < spec->num_dims; i++) {
        fits = spec->shape[i] == 0 || size <= UINT64_MAX / spec->shape[i];
        size *= spec->shape[i];
    }
    if (!fits || size > UINT64_MAX / bits) {
        add_name(why, spec->name);
        pen_why(why, "the shape has more numbers than 64 bits can count "
                     "(ValidationOverflow)");
        return PEN_INVALID;
    }
    if (size * bits % 8 != 0) {
        add_name(why, spec->name);
        pen_why(why,
                "%" PRIu64 " numbers of %s are not a whole number of bytes "
                "(MisalignedSlice)",
                size, pen_dtype_name(spec->dtype));
        return PEN_INVALID;
    }
    *out = size * bits / 8;
    return PEN_OK;
}

static pen_status check_size(const struct pen_safetensor *tensor,
                             struct pen_text *why)
{
    const struct pen_tensor_spec spec = {tensor->name, tensor->dtype,
                                         tensor->num_dims, tensor->shape};
    uint64_t expected;
    pen_status status = pen_tensor_spec_bytes(&spec, &expected, why);
    if (status != PEN_OK || tensor->num_bytes == expected)
        return status;
    add_name(why, tensor->name);
    pen_why(why,
            "dtype and shape make %" PRIu64 " bytes, data_offsets %" PRIu64
            " (TensorInvalidInfo)",
            expected, tensor->num_bytes);
    return PEN_INVALID;
}

static int compare_places(const void *a, const void *b)
{
    const struct pen_safetensor *x = a;
    const struct pen_safetensor *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->num_bytes > y->num_bytes) - (x->num_bytes < y->num_bytes);
}

static int compare_names(const void *a, const void *b)
{
    const struct pen_safetensor *x = a;
    const struct pen_safetensor *y = b;
    return strcmp(x->name, y->name);
}

/*
 * Checks that the tensors, one after the other, cover exactly `length` bytes.
 */
static pen_status check_cover(struct pen_safetensors *file, uint64_t length,
                              struct pen_text *why)
{
    uint64_t end = 0;
    qsort(file->tensors, file->num_tensors, sizeof *file->tensors,
          compare_places);
    for (size_t i = 0; i < file->num_tensors; i++) {
        const struct pen_safetensor *tensor = &file->tensors[i];
        if (tensor->offset != end) {
            add_name(why, tensor->name);
            pen_why(why,
                    "begins at %" PRIu64
                    " of the data, but the tensor before it ends at %" PRIu64
                    " (InvalidOffset)",
                    tensor->offset, end);
            return PEN_INVALID;
        }
        pen_status status = check_size(tensor, why);
        if (status != PEN_OK)
            return status;
        end += tensor->num_bytes;
    }
    if (end == length)
        return PEN_OK;
    pen_why(why,
            "the tensors take %" PRIu64
            " bytes, but after the header there are %" PRIu64
            " (MetadataIncompleteBuffer)",
            end, length);
    return PEN_INVALID;
}

static pen_status parse_into(struct pen_safetensors *file,
                             const unsigned char *bytes, size_t length,
                             struct pen_text *why)
{
    size_t header = 0;
    pen_status status = read_length(bytes, length, &header, why);
    if (status != PEN_OK)
        return status;
    json_t *json = NULL;
    status =
        read_header((const char *)bytes + LENGTH_BYTES, header, &json, why);
    if (status != PEN_OK)
        return status;
    file->header = json;
    status = read_entries(file, why);
    const unsigned char *data = bytes + LENGTH_BYTES + header;
    if (status == PEN_OK)
        status = check_cover(file, length - LENGTH_BYTES - header, why);
    if (status != PEN_OK)
        return status;
    for (size_t i = 0; i < file->num_tensors; i++)
        file->tensors[i].bytes = data + file->tensors[i].offset;
    qsort(file->tensors, file->num_tensors, sizeof *file->tensors,
          compare_names);
    return PEN_OK;
}

pen_status pen_safetensors_parse(const void *bytes, size_t length,
                                 struct pen_safetensors **out,
                                 struct pen_text *why)
{
    struct pen_safetensors *file = calloc(1, sizeof *file);
    if (file == NULL) {
        pen_why(why, "no memory to read a file");
        return PEN_NOMEM;
    }
    pen_status status = parse_into(file, bytes, length, why);
    if (status != PEN_OK) {
        pen_safetensors_close(file);
        return status;
    }
    *out = file;
    return PEN_OK;
}

/* Maps the file; out stays NULL for an empty one, which cannot be mapped. */
static pen_status map_file(const char *path, void **out, size_t *length,
                           struct pen_text *why)
{
    int handle;
    uint64_t num_bytes;
    void *mapping = NULL;
    pen_status status = pen_file_open(path, &handle, &num_bytes, why);
    if (status != PEN_OK)
        return status;
    if (num_bytes > 0)
        mapping = mmap(NULL, num_bytes, PROT_READ, MAP_PRIVATE, handle, 0);
    if (mapping == MAP_FAILED) {
        pen_why(why, "cannot map %s: %s", path, strerror(errno));
        status = PEN_IO;
    }
    close(handle);
    if (status == PEN_OK) {
        *out = mapping;
        *length = num_bytes;
    }
    return status;
}

pen_status pen_safetensors_open(const char *path, struct pen_safetensors **out,
                                struct pen_text *why)
{
    void *mapping = NULL;
    size_t length = 0;
    pen_status status = map_file(path, &mapping, &length, why);
    if (status != PEN_OK)
        return status;
    struct pen_safetensors *file = NULL;
    struct pen_text reason = PEN_TEXT_EMPTY;
    status = pen_safetensors_parse(mapping, length, &file, &reason);
    if (status == PEN_OK) {
        file->mapping = mapping;
        file->mapping_bytes = length;
        *out = file;
    } else {
        pen_why(why, "%s: %s", path, pen_text_string(&reason));
        if (mapping != NULL)
            munmap(mapping, length);
    }
    pen_text_release(&reason);
    return status;
}

void pen_safetensors_close(struct pen_safetensors *file)
{
    if (file == NULL)
        return;
    if (file->mapping != NULL)
        munmap(file->mapping, file->mapping_bytes);
    json_decref(file->header);
    free(file->tensors);
    free(file->dims);
    free(file);
}

const struct pen_safetensor *
pen_safetensors_find(const struct pen_safetensors *file, const char *name)
{
    const struct pen_safetensor key = {.name = name};
    return bsearch(&key, file->tensors, file->num_tensors,
                   sizeof *file->tensors, compare_names);
}

const char *pen_safetensors_metadata(const struct pen_safetensors *file,
                                     const char *key)
{
    const json_t *metadata = json_object_get(file->header, METADATA);
    return json_string_value(json_object_get(metadata, key));
}
