/*
 * Whatever is accepted as safetensors has tensors that lie inside the file,
 * cover its data exactly once, and are found by their names.
 */
#include "core/safetensors.h"
#include "base/bug.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every tensor's bytes are read, so that a sanitizer sees a wrong pointer. */
static uint64_t sum_of(const struct pen_safetensor *tensor)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < tensor->num_bytes; i++)
        sum += tensor->bytes[i];
    return sum;
}

static void check_file(const struct pen_safetensors *file, const uint8_t *data,
                       size_t size)
{
    uint64_t covered = 0;
    uint64_t sum = 0;
    for (size_t i = 0; i < file->num_tensors; i++) {
        const struct pen_safetensor *tensor = &file->tensors[i];
        const struct pen_tensor_spec spec = {tensor->name, tensor->dtype,
                                             tensor->num_dims, tensor->shape};
        uint64_t bytes;
        PEN_BUG_UNLESS(pen_tensor_spec_bytes(&spec, &bytes, NULL) == PEN_OK);
        PEN_BUG_UNLESS(bytes == tensor->num_bytes);
        PEN_BUG_UNLESS(pen_safetensors_find(file, tensor->name) == tensor);
        PEN_BUG_UNLESS(i == 0 || strcmp(tensor[-1].name, tensor->name) < 0);
        covered += bytes;
        sum += sum_of(tensor);
    }
    PEN_BUG_UNLESS(covered <= size - 8);
    for (size_t i = size - covered; i < size; i++)
        sum -= data[i];
    PEN_BUG_UNLESS(sum == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_safetensors *file = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_safetensors_parse(data, size, &file, &why) == PEN_OK) {
        check_file(file, data, size);
        pen_safetensors_metadata(file, "format");
    } else {
        PEN_BUG_UNLESS(why.length > 0 && file == NULL);
        PEN_BUG_UNLESS(why.bytes[why.length - 1] == ')');
    }
    pen_safetensors_close(file);
    pen_text_release(&why);
    return 0;
}
