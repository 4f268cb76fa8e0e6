/*
 * An index of Megatron that is accepted leads to tokens inside its .bin file
 * only. The first two bytes are the length of that file.
 */
#include "base/bug.h"
#include "data/token_layout.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_file(const struct pen_token_file *file)
{
    uint64_t before = 0;
    for (uint64_t i = 0; i <= file->num_documents; i++) {
        uint64_t begin = pen_token_file_document(file, i);
        PEN_BUG_UNLESS(begin >= before && begin <= file->num_tokens);
        before = begin;
    }
    uint32_t *ids = malloc((file->num_tokens + 1) * sizeof *ids);
    pen_token_file_read(file, 0, file->num_tokens, ids);
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t length = pen__load_u16(data) % 1024;
    uint8_t *bin = calloc(1, length + 1);
    struct pen_token_file file = {
        .idx = {.bytes = data + 2, .length = size - 2},
        .bin = {.bytes = length == 0 ? NULL : bin, .length = length}};
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen__token_index_check(&file, "x.idx", &why) == PEN_OK)
        check_file(&file);
    else
        PEN_BUG_UNLESS(why.length > 0);
    pen_text_release(&why);
    free(bin);
    return 0;
}
