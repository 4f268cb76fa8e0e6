/*
 * One hash of what a run has learnt. For each tensor of the model and each of
 * its parts: a line of text, then the numbers in little-endian float32. What is
 * not trained has one part; a number of batches is its eight bytes.
 *
 *   transformer.wte.weight weight F32 [50257,768]\n
 *   transformer.wte.weight moment1 F32 [50257,768]\n
 */
#include "core/checkpoint_internal.h"

#include <inttypes.h>
#include <string.h>

#define BLOCK_FLOATS 16384u

static void add_title(struct pen_hash *hash, const struct pen_any_tensor *info,
                      enum pen_checkpoint_part part)
{
    static const char *const names[] = {"weight", "moment1", "moment2"};
    struct pen_text title = PEN_TEXT_EMPTY;
    pen_text_add(&title, "%s %s %s [", info->name, names[part],
                 pen_dtype_name(info->dtype));
    for (uint32_t i = 0; i < info->num_dims; i++)
        pen_text_add(&title, "%s%" PRIu64, i == 0 ? "" : ",", info->shape[i]);
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

/* What is hashed. */
struct state {
    const struct pen_any_model *model;
    const struct pen_weights *weights;
    const struct pen_weights *optimizer;
    uint32_t num_moments;
};

static pen_status add_tensor(struct pen_hash *hash, const struct state *state,
                             uint32_t tensor, struct pen__reading *reading,
                             struct pen_text *why)
{
    struct pen_any_tensor info;
    pen_any_model_tensor(state->model, tensor, &info);
    uint32_t num_parts = 1 + (info.is_trained ? state->num_moments : 0);
    for (uint32_t part = 0; part < num_parts; part++) {
        const struct pen_safetensor *found = NULL;
        pen_status status =
            pen__find_part(state->model, tensor, part, state->weights,
                           state->optimizer, &found, why);
        if (status != PEN_OK)
            return status;
        add_title(hash, &info, part);
        if (info.dtype == PEN_DTYPE_F32)
            add_numbers(hash, found, info.num_elements, reading);
        else
            pen_hash_add(hash, found->bytes, found->num_bytes);
    }
    return PEN_OK;
}

pen_status pen_checkpoint_hash(const struct pen_any_model *model,
                               const struct pen_weights *weights,
                               const struct pen_weights *optimizer,
                               uint32_t num_moments,
                               const struct pen_checkpoint_watch *watch,
                               char out[PEN_HASH_SIZE], struct pen_text *why)
{
    const struct state state = {model, weights, optimizer, num_moments};
    struct pen_hash hash;
    struct pen__reading reading = {.watch = watch,
                                   .total =
                                       pen_any_model_num_parameters(model) *
                                       (1 + num_moments) * sizeof(float)};
    pen_status status = PEN_OK;
    pen_hash_init(&hash);
    for (uint32_t i = 0;
         status == PEN_OK && i < pen_any_model_num_tensors(model); i++)
        status = add_tensor(&hash, &state, i, &reading, why);
    if (status == PEN_OK)
        return pen_hash_finish(&hash, out, why);
    pen_hash_release(&hash);
    return status;
}
