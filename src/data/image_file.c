/*
 * IDX: a magic with the type of the numbers (8: bytes) and how many dimensions
 * follow, the dimensions, the numbers. All big-endian.
 *
 *   00 00 08 03   images   height   width   pixels ...
 *   00 00 08 01   labels                    labels ...
 */
#include "data/image_file.h"

#include "base/file.h"
#include "data/gzip.h"
#include "data/image_file_internal.h"

#include <inttypes.h>
#include <unistd.h>

#define IMAGES_MAGIC 2051u
#define LABELS_MAGIC 2049u
#define FILE_MAX PEN__IMAGE_FILE_MAX
#define SIDE_MAX (1u << 12)

/* The header that a kind of file must have. */
struct form {
    uint32_t magic;
    uint32_t num_dims;
    const char *what;
};

static const struct form images_form = {IMAGES_MAGIC, 3, "images"};
static const struct form labels_form = {LABELS_MAGIC, 1, "labels"};

static uint32_t number_at(const struct pen_text *file, size_t offset)
{
    const uint8_t *at = (const uint8_t *)file->bytes + offset;
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 |
           (uint32_t)at[2] << 8 | at[3];
}

pen_status pen__image_file_unpack(struct pen_text *file, struct pen_text *why)
{
    struct pen_text plain = PEN_TEXT_EMPTY;
    if (!pen__gzip_is(file->bytes, file->length))
        return PEN_OK;
    pen_status status =
        pen__gzip_unpack(file->bytes, file->length, FILE_MAX, &plain, why);
    if (status != PEN_OK) {
        pen_text_release(&plain);
        return status;
    }
    pen_text_release(file);
    *file = plain;
    return PEN_OK;
}

/*
 * Returns the product of up to three dimensions, each below 2^32: 0 if too
 * many.
 */
static uint64_t count_numbers(const struct form *form, const uint32_t *dims)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < form->num_dims; i++)
        count =
            dims[i] == 0 || count > FILE_MAX / dims[i] ? 0 : count * dims[i];
    return count;
}

/* Reads the dimensions; the numbers follow them. */
static pen_status check_head(const struct pen_text *file,
                             const struct form *form, uint32_t *dims,
                             struct pen_text *why)
{
    size_t head = 4 * ((size_t)form->num_dims + 1);
    if (file->length < head) {
        pen_why(why,
                "the file has %zu bytes; the header of a file of %s has %zu",
                file->length, form->what, head);
        return PEN_INVALID;
    }
    if (number_at(file, 0) != form->magic) {
        pen_why(why,
                "the magic number is %" PRIu32 "; the one of %s is %" PRIu32,
                number_at(file, 0), form->what, form->magic);
        return PEN_INVALID;
    }
    for (uint32_t i = 0; i < form->num_dims; i++)
        dims[i] = number_at(file, 4 * ((size_t)i + 1));
    uint64_t count = count_numbers(form, dims);
    if (count == 0) {
        pen_why(
            why,
            "its header has no entries, or more than a file can hold: %" PRIu32,
            dims[0]);
        for (uint32_t i = 1; i < form->num_dims; i++)
            pen_why(why, " x %" PRIu32, dims[i]);
        return PEN_INVALID;
    }
    if (file->length - head == count)
        return PEN_OK;
    pen_why(why,
            "%zu bytes follow the header, but its %" PRIu32 " %s take %" PRIu64,
            file->length - head, dims[0], form->what, count);
    return PEN_INVALID;
}

static pen_status parse(struct pen_text *file, const char *path,
                        const struct form *form, uint32_t *dims,
                        struct pen_text *why)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = pen__image_file_unpack(file, &reason);
    if (status == PEN_OK)
        status = check_head(file, form, dims, &reason);
    if (status != PEN_OK)
        pen_why(why, "%s: %s", path, pen_text_string(&reason));
    pen_text_release(&reason);
    return status;
}

pen_status pen_image_file_parse(struct pen_text *file, const char *path,
                                struct pen_image_set *out, struct pen_text *why)
{
    uint32_t dims[3];
    pen_status status = parse(file, path, &images_form, dims, why);
    if (status != PEN_OK)
        return status;
    if (dims[1] > SIDE_MAX || dims[2] > SIDE_MAX) {
        pen_why(why, "%s: images of %" PRIu32 " x %" PRIu32 "; at most %u",
                path, dims[1], dims[2], SIDE_MAX);
        return PEN_INVALID;
    }
    out->num_images = dims[0];
    out->channels = 1;
    out->height = dims[1];
    out->width = dims[2];
    out->pixels = (const uint8_t *)file->bytes + 16;
    return PEN_OK;
}

pen_status pen_label_file_parse(struct pen_text *file, const char *path,
                                const uint8_t **labels, uint32_t *num_labels,
                                struct pen_text *why)
{
    pen_status status = parse(file, path, &labels_form, num_labels, why);
    if (status == PEN_OK)
        *labels = (const uint8_t *)file->bytes + 8;
    return status;
}

/* Finds the file, plain or packed; sets its path. */
static pen_status find_file(const char *directory, const char *part,
                            const char *rest, struct pen_text *path,
                            struct pen_text *why)
{
    static const char *const endings[] = {"", ".gz"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        pen_text_clear(path);
        pen_text_add(path, "%s/%s-%s%s", directory, part, rest, endings[i]);
        if (access(pen_text_string(path), F_OK) == 0)
            return PEN_OK;
    }
    pen_why(why,
            "%s has neither %s-%s nor %s-%s.gz; an image data set is a "
            "folder with the files of MNIST or CIFAR-10",
            directory, part, rest, part, rest);
    return PEN_INVALID;
}

/* The paths are for messages; *out is released when it fails. */
static pen_status read_set(struct pen_image_set *out, const char *image_path,
                           const char *label_path, struct pen_text *why)
{
    uint32_t num_labels = 0;
    pen_status status =
        pen_file_read(image_path, FILE_MAX, &out->image_file, why);
    if (status == PEN_OK)
        status = pen_image_file_parse(&out->image_file, image_path, out, why);
    if (status == PEN_OK)
        status = pen_file_read(label_path, FILE_MAX, &out->label_file, why);
    if (status == PEN_OK)
        status = pen_label_file_parse(&out->label_file, label_path,
                                      &out->labels, &num_labels, why);
    if (status == PEN_OK && num_labels != out->num_images) {
        pen_why(why, "%s has %" PRIu32 " images, but %s has %" PRIu32 " labels",
                image_path, out->num_images, label_path, num_labels);
        status = PEN_INVALID;
    }
    if (status != PEN_OK)
        pen_image_set_release(out);
    return status;
}

pen_status pen_image_set_load(struct pen_image_set *out, const char *directory,
                              const char *part, struct pen_text *why)
{
    struct pen_image_set set = {.num_images = 0};
    struct pen_text images = PEN_TEXT_EMPTY;
    struct pen_text labels = PEN_TEXT_EMPTY;
    bool is_cifar = false;
    pen_status status = pen__cifar_load(out, directory, part, &is_cifar, why);
    if (is_cifar)
        return status;
    status = find_file(directory, part, "images-idx3-ubyte", &images, why);
    if (status == PEN_OK)
        status = find_file(directory, part, "labels-idx1-ubyte", &labels, why);
    if (status == PEN_OK)
        status = read_set(&set, pen_text_string(&images),
                          pen_text_string(&labels), why);
    if (status == PEN_OK)
        *out = set;
    pen_text_release(&images);
    pen_text_release(&labels);
    return status;
}

void pen_image_set_release(struct pen_image_set *set)
{
    pen_text_release(&set->image_file);
    pen_text_release(&set->label_file);
    *set = (struct pen_image_set){.num_images = 0};
}
