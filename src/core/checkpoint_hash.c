/*
 * One hash of what a run has learnt. For each tensor of the model and each of
 * its parts: a line of text, then the numbers in little-endian float32.
 *
 *   transformer.wte.weight weight F32 [50257,768]\n
 *   transformer.wte.weight moment1 F32 [50257,768]\n
 */
#include "core/checkpoint_internal.h"

#include <inttypes.h>
#include <string.h>

#define BLOCK_FLOATS 16384u

static void add_title(struct pen_hash *hash, const struct pen_tensor_info *info,
                      enum pen_checkpoint_part part)
{
    static const char *const names[] = {"weight", "moment1", "moment2"};
    struct pen_text title = PEN_TEXT_EMPTY;
    pen_text_add(&title, "%s %s F32 [", info->name, names[part]);
    for (uint32_t i = 0; i < info->form->num_dims; i++)
        pen_text_add(&title, "%s%" PRIu64, i == 0 ? "" : ",",
                     info->form->shape[i]);
    pen_text_add_string(&title, "]\n");
    hash->has_failed |= title.has_failed;
    pen_hash_add(hash, pen_text_string(&title), title.length);
    pen_text_release(&title);
}

static void add_numbers(struct pen_hash *hash,
                        const struct pen_safetensor *tensor,
                        uint64_t num_elements, struct pen__reading *reading)
{
    float block[BLOCK_FLOATS];
    size_t width = pen_dtype_bits(tensor->dtype) / 8;
    for (uint64_t i = 0; i < num_elements; i += BLOCK_FLOATS) {
        uint64_t left = num_elements - i;
        size_t count = left < BLOCK_FLOATS ? (size_t)left : BLOCK_FLOATS;
        pen_dtype_to_float(tensor->dtype, tensor->bytes + i * width, count,
                           block);
        pen_hash_add(hash, block, count * sizeof *block);
        pen__reading_add(reading, count * sizeof *block);
    }
}

pen_status pen_checkpoint_hash(const struct pen_model *model,
                               const struct pen_weights *weights,
                               const struct pen_weights *optimizer,
                               uint32_t num_moments,
                               const struct pen_checkpoint_watch *watch,
                               char out[PEN_HASH_SIZE], struct pen_text *why)
{
    struct pen_hash hash;
    struct pen__reading reading = {.watch = watch,
                                   .total = model->num_parameters *
                                            (1 + num_moments) * sizeof(float)};
    uint32_t num_parts = 1 + num_moments;
    pen_status status = PEN_OK;
    pen_hash_init(&hash);
    for (uint32_t i = 0; status == PEN_OK && i < model->num_tensors * num_parts;
         i++) {
        const struct pen_safetensor *found = NULL;
        uint32_t tensor = i / num_parts;
        enum pen_checkpoint_part part = i % num_parts;
        struct pen_tensor_info info;
        pen_model_tensor(model, tensor, &info);
        status = pen__find_part(model, tensor, part, weights, optimizer, &found,
                                why);
        if (status != PEN_OK)
            break;
        add_title(&hash, &info, part);
        add_numbers(&hash, found, info.form->num_elements, &reading);
    }
    if (status == PEN_OK)
        return pen_hash_finish(&hash, out, why);
    pen_hash_release(&hash);
    return status;
}
