/*
 * CIFAR-10's binary files: records of 3073 bytes and nothing else. A record is
 * a label and an image of 32 x 32, red first, then green, then blue:
 *
 *   label   32 x 32 red   32 x 32 green   32 x 32 blue
 */
#include "data/image_file_internal.h"

#include "base/file.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum {
    CHANNELS = 3,
    SIDE = 32,
    PIXELS = CHANNELS * SIDE * SIDE,
    RECORD = 1 + PIXELS,
    LABELS = 10,
    TRAIN_FILES = 5
};

static pen_status check(const struct pen_text *file, struct pen_text *why)
{
    if (file->length == 0 || file->length % RECORD != 0) {
        pen_why(why,
                "the file has %zu bytes, which are not whole records of %d "
                "bytes",
                file->length, RECORD);
        return PEN_INVALID;
    }
    for (size_t i = 0; i < file->length / RECORD; i++) {
        uint8_t label = (uint8_t)file->bytes[i * RECORD];
        if (label >= LABELS) {
            pen_why(why, "record %zu has the label %u; CIFAR-10 has 0 to %d", i,
                    label, LABELS - 1);
            return PEN_INVALID;
        }
    }
    return PEN_OK;
}

static pen_status add_records(const struct pen_text *file,
                              struct pen_image_set *set, struct pen_text *why)
{
    size_t count = file->length / RECORD;
    if (set->num_images + count > PEN__IMAGE_FILE_MAX / PIXELS) {
        pen_why(why, "the files together have more than %zu images",
                PEN__IMAGE_FILE_MAX / PIXELS);
        return PEN_INVALID;
    }
    for (size_t i = 0; i < count; i++) {
        const char *record = file->bytes + i * RECORD;
        pen_text_add_bytes(&set->label_file, record, 1);
        pen_text_add_bytes(&set->image_file, record + 1, PIXELS);
    }
    if (set->label_file.has_failed || set->image_file.has_failed) {
        pen_why(why, "no memory for %zu images", set->num_images + count);
        return PEN_NOMEM;
    }
    set->num_images += (uint32_t)count;
    set->channels = CHANNELS;
    set->height = set->width = SIDE;
    set->pixels = (const uint8_t *)set->image_file.bytes;
    set->labels = (const uint8_t *)set->label_file.bytes;
    return PEN_OK;
}

pen_status pen_cifar_file_parse(struct pen_text *file, const char *path,
                                struct pen_image_set *set, struct pen_text *why)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = pen__image_file_unpack(file, &reason);
    if (status == PEN_OK)
        status = check(file, &reason);
    if (status == PEN_OK)
        status = add_records(file, set, &reason);
    if (status != PEN_OK)
        pen_why(why, "%s: %s", path, pen_text_string(&reason));
    pen_text_release(&reason);
    return status;
}

/* ---- a folder ---- */

/* Sets the path of a file of the part, plain or packed; false: none. */
static bool find_file(const char *directory, bool is_test, int number,
                      struct pen_text *path)
{
    static const char *const endings[] = {"", ".gz"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        pen_text_clear(path);
        if (is_test)
            pen_text_add(path, "%s/test_batch.bin%s", directory, endings[i]);
        else
            pen_text_add(path, "%s/data_batch_%d.bin%s", directory, number,
                         endings[i]);
        if (access(pen_text_string(path), F_OK) == 0)
            return true;
    }
    return false;
}

static pen_status add_file(const char *path, struct pen_image_set *set,
                           struct pen_text *why)
{
    struct pen_text file = PEN_TEXT_EMPTY;
    pen_status status = pen_file_read(path, PEN__IMAGE_FILE_MAX, &file, why);
    if (status == PEN_OK)
        status = pen_cifar_file_parse(&file, path, set, why);
    pen_text_release(&file);
    return status;
}

pen_status pen__cifar_load(struct pen_image_set *out, const char *directory,
                           const char *part, bool *is_cifar,
                           struct pen_text *why)
{
    bool is_test = strcmp(part, "train") != 0;
    struct pen_image_set set = {.num_images = 0};
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    *is_cifar = false;
    for (int i = 1; status == PEN_OK && i <= (is_test ? 1 : TRAIN_FILES); i++) {
        if (!find_file(directory, is_test, i, &path))
            break;
        *is_cifar = true;
        status = add_file(pen_text_string(&path), &set, why);
    }
    if (status == PEN_OK && *is_cifar)
        *out = set;
    else
        pen_image_set_release(&set);
    pen_text_release(&path);
    return status;
}
