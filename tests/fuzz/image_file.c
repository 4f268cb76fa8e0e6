/*
 * Files of images and labels that are accepted lead to pixels and labels inside
 * their bytes only, packed by gzip or not. The first byte says which kind.
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_text file = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_image_set set = {.num_images = 0};
    const uint8_t *bytes = NULL;
    size_t count = 0;
    if (size == 0)
        return 0;
    pen_text_add_bytes(&file, (const char *)data + 1, size - 1);
    pen_status status = data[0] % 2 == 0
                            ? pen_image_file_parse(&file, "x", &set, &why)
                            : pen_label_file_parse(&file, "x", &set.labels,
                                                   &set.num_images, &why);
    if (data[0] % 2 == 0) {
        bytes = set.pixels;
        count = (size_t)set.num_images * set.height * set.width;
    } else {
        bytes = set.labels;
        count = set.num_images;
    }
    if (status == PEN_OK)
        PEN_BUG_UNLESS(count > 0 && sum_of(bytes, count) <= count * 255);
    else
        PEN_BUG_UNLESS(why.length > 0);
    pen_text_release(&file);
    pen_text_release(&why);
    return 0;
}
