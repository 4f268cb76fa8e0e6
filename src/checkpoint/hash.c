/*
 * One hash of everything that a run has learnt. For each tensor of the model
 * and each of its parts: a line of text, then the numbers in little-endian
 * float32. A tensor that is not trained has one part; a number of batches is
 * its eight bytes.
 *
 *   transformer.wte.weight weight F32 [50257,768]\n
 *   transformer.wte.weight moment1 F32 [50257,768]\n
 *   transformer.wte.weight version1 F32 [50257,768]\n
 *
 * Then for each extra, in order of names: a line without a part, and its bytes.
 *
 *   transformer.wte.weight.replica3.weight F32 [50257,768]\n
 */
#include "checkpoint/internal.h"

#include <inttypes.h>
#include <string.h>

#define BLOCK_FLOATS 16384u

/* Takes the title, which has the name. */
static void add_title(struct pen_hash *hash, struct pen_text *title,
                      enum pen_dtype dtype, uint32_t num_dims,
                      const uint64_t *shape)
{
    pen_text_add(title, " %s [", pen_dtype_name(dtype));
    for (uint32_t i = 0; i < num_dims; i++)
        pen_text_add(title, "%s%" PRIu64, i == 0 ? "" : ",", shape[i]);
    pen_text_add_string(title, "]\n");
    hash->has_failed |= title->has_failed;
    pen_hash_add(hash, pen_text_string(title), title->length);
    pen_text_release(title);
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

static void add_part(struct pen_hash *hash, const struct pen_any_tensor *info,
                     enum pen_checkpoint_part part,
                     const struct pen_safetensor *found,
                     struct pen__reading *reading)
{
    struct pen_text title = PEN_TEXT_EMPTY;
    pen_text_add(&title, "%s ", info->name);
    pen__part_word(part, &title);
    add_title(hash, &title, info->dtype, info->num_dims, info->shape);
    if (info->dtype == PEN_DTYPE_F32)
        add_numbers(hash, found, info->num_elements, reading);
    else
        pen_hash_add(hash, found->bytes, found->num_bytes);
}

static pen_status add_parts(struct pen_hash *hash,
                            const struct pen_checkpoint *checkpoint,
                            const struct pen_any_model *model, uint32_t tensor,
                            struct pen__reading *reading, struct pen_text *why)
{
    struct pen_any_tensor info;
    pen_any_model_tensor(model, tensor, &info);
    uint32_t num_moments = pen_checkpoint_tensor_moments(
        pen_checkpoint_moments_of(checkpoint->manifest.optimizer, &info),
        checkpoint->manifest.num_moments);
    uint32_t num_parts = 1 + num_moments +
                         pen_checkpoint_num_versions(checkpoint, model, tensor);
    for (uint32_t i = 0; i < num_parts; i++) {
        uint32_t part = i <= num_moments
                            ? i
                            : PEN_CHECKPOINT_VERSION1 + i - num_moments - 1;
        const struct pen_safetensor *found = NULL;
        pen_status status =
            pen_checkpoint_find(checkpoint, model, tensor, part, &found, why);
        if (status != PEN_OK)
            return status;
        add_part(hash, &info, part, found, reading);
    }
    return PEN_OK;
}

static void add_extras(struct pen_hash *hash,
                       const struct pen_checkpoint *checkpoint,
                       struct pen__reading *reading)
{
    const struct pen_safetensor *it;
    for (size_t i = 0; (it = pen__next_extra(checkpoint, &i)) != NULL;) {
        struct pen_text title = PEN_TEXT_EMPTY;
        pen_text_add_string(&title, it->name);
        add_title(hash, &title, it->dtype, it->num_dims, it->shape);
        pen_hash_add(hash, it->bytes, it->num_bytes);
        pen__reading_add(reading, it->num_bytes);
    }
}

static uint64_t extra_bytes(const struct pen_checkpoint *checkpoint)
{
    const struct pen_safetensor *it;
    uint64_t total = 0;
    for (size_t i = 0; (it = pen__next_extra(checkpoint, &i)) != NULL;)
        total += it->num_bytes;
    return total;
}

pen_status pen_checkpoint_hash(const struct pen_checkpoint *checkpoint,
                               const struct pen_any_model *model,
                               const struct pen_checkpoint_watch *watch,
                               char out[PEN_HASH_SIZE], struct pen_text *why)
{
    struct pen_hash hash;
    struct pen__reading reading = {
        .watch = watch,
        .total = pen_any_model_num_parameters(model) *
                     (1 + checkpoint->manifest.num_moments) * sizeof(float) +
                 extra_bytes(checkpoint)};
    pen_status status = PEN_OK;
    pen_hash_init(&hash);
    for (uint32_t i = 0;
         status == PEN_OK && i < pen_any_model_num_tensors(model); i++)
        status = add_parts(&hash, checkpoint, model, i, &reading, why);
    add_extras(&hash, checkpoint, &reading);
    if (status == PEN_OK)
        return pen_hash_finish(&hash, out, why);
    pen_hash_release(&hash);
    return status;
}

pen_status pen_weights_hash(const struct pen_weights *weights,
                            const struct pen_any_model *model,
                            const struct pen_checkpoint_watch *watch,
                            char out[PEN_HASH_SIZE], struct pen_text *why)
{
    /* Tensors are only read, but closing a checkpoint would close them. */
    const struct pen_checkpoint alone = {.model =
                                             (struct pen_weights *)weights};
    return pen_checkpoint_hash(&alone, model, watch, out, why);
}
