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

struct reading {
    struct pen_hash hash;
    const struct pen_checkpoint_watch *watch;
    uint64_t done; /* bytes of float32 */
    uint64_t total;
};

static void add_title(struct reading *reading,
                      const struct pen_tensor_info *info,
                      enum pen_checkpoint_part part)
{
    static const char *const names[] = {"weight", "moment1", "moment2"};
    struct pen_text title = PEN_TEXT_EMPTY;
    pen_text_add(&title, "%s %s F32 [", info->name, names[part]);
    for (uint32_t i = 0; i < info->form->num_dims; i++)
        pen_text_add(&title, "%s%" PRIu64, i == 0 ? "" : ",",
                     info->form->shape[i]);
    pen_text_add_string(&title, "]\n");
    reading->hash.has_failed |= title.has_failed;
    pen_hash_add(&reading->hash, pen_text_string(&title), title.length);
    pen_text_release(&title);
}

static void add_numbers(struct reading *reading,
                        const struct pen_safetensor *tensor,
                        uint64_t num_elements)
{
    static const size_t block = BLOCK_FLOATS;
    float floats[BLOCK_FLOATS];
    size_t width = pen_dtype_bits(tensor->dtype) / 8;
    for (uint64_t i = 0; i < num_elements; i += block) {
        size_t count =
            num_elements - i < block ? (size_t)(num_elements - i) : block;
        pen_dtype_to_float(tensor->dtype, tensor->bytes + i * width, count,
                           floats);
        pen_hash_add(&reading->hash, floats, count * sizeof *floats);
        reading->done += count * sizeof *floats;
        if (reading->watch != NULL)
            reading->watch->report(reading->watch->context, reading->done,
                                   reading->total);
    }
}

pen_status pen_checkpoint_hash(const struct pen_model *model,
                               const struct pen_weights *weights,
                               const struct pen_weights *optimizer,
                               uint32_t num_moments,
                               const struct pen_checkpoint_watch *watch,
                               char out[PEN_HASH_SIZE], struct pen_text *why)
{
    struct reading reading = {.watch = watch,
                              .total = model->num_parameters *
                                       (1 + num_moments) * sizeof(float)};
    pen_status status = PEN_OK;
    pen_hash_init(&reading.hash);
    for (uint32_t i = 0; i < model->num_tensors; i++) {
        struct pen_tensor_info info;
        pen_model_tensor(model, i, &info);
        for (uint32_t part = 0; part <= num_moments; part++) {
            const struct pen_safetensor *found = NULL;
            status =
                pen__find_part(model, i, part, weights, optimizer, &found, why);
            if (status != PEN_OK) {
                pen_hash_release(&reading.hash);
                return status;
            }
            add_title(&reading, &info, part);
            add_numbers(&reading, found, info.form->num_elements);
        }
    }
    return pen_hash_finish(&reading.hash, out, why);
}
