/*
 * Files of images and labels that are accepted lead to pixels and labels inside
 * their bytes only, packed by gzip or not. The first byte says which kind: two
 * of MNIST, and CIFAR-10's.
 */
#include "data/image_file.h"
#include "base/bug.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned sum_of(const uint8_t *bytes, size_t length)
{
    unsigned sum = 0;
    for (size_t i = 0; i < length; i++)
        sum += bytes[i];
    return sum;
}

static pen_status parse(uint8_t kind, struct pen_text *file,
                        struct pen_image_set *set, struct pen_text *why)
{
    switch (kind) {
    case 0:
        return pen_image_file_parse(file, "x", set, why);
    case 1:
        return pen_label_file_parse(file, "x", &set->labels, &set->num_images,
                                    why);
    default:
        return pen_cifar_file_parse(file, "x", set, why);
    }
}

static void check(const struct pen_image_set *set)
{
    size_t pixels =
        (size_t)set->num_images * set->channels * set->height * set->width;
    PEN_BUG_UNLESS(set->num_images > 0);
    if (set->pixels != NULL)
        PEN_BUG_UNLESS(sum_of(set->pixels, pixels) <= pixels * 255);
    if (set->labels != NULL)
        PEN_BUG_UNLESS(sum_of(set->labels, set->num_images) <=
                       (size_t)set->num_images * 255);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_text file = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_image_set set = {.num_images = 0};
    if (size == 0)
        return 0;
    pen_text_add_bytes(&file, (const char *)data + 1, size - 1);
    if (parse(data[0] % 3, &file, &set, &why) == PEN_OK)
        check(&set);
    else
        PEN_BUG_UNLESS(why.length > 0);
    pen_image_set_release(&set);
    pen_text_release(&file);
    pen_text_release(&why);
    return 0;
}
