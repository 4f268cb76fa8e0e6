/*
 * Whatever is accepted as config.json of a model for images is one whose
 * tensors add up, and which prints as a config.json that means the same.
 */
#include "base/bug.h"
#include "core/image_model.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tensors(const struct pen_image_model *model)
{
    uint64_t sum = 0;
    uint32_t tensor = 0;
    for (uint32_t i = 0; i < model->num_layers; i++) {
        const struct pen_image_layer *layer = &model->layers[i];
        PEN_BUG_UNLESS(layer->first_tensor == tensor && layer->num_tensors > 0);
        for (; tensor < layer->first_tensor + layer->num_tensors; tensor++) {
            const struct pen_image_tensor *it = &model->tensors[tensor];
            PEN_BUG_UNLESS(it->layer == i && it->num_elements > 0);
            sum += it->is_trained ? it->num_elements : 0;
        }
    }
    PEN_BUG_UNLESS(tensor == model->num_tensors);
    PEN_BUG_UNLESS(sum == model->num_parameters && sum < UINT64_MAX / 8);
    PEN_BUG_UNLESS(model->layers[model->num_layers - 1].kind ==
                   PEN_IMAGE_LAYER_HEAD);
}

static void check_print(const struct pen_image_model *model)
{
    struct pen_text once = PEN_TEXT_EMPTY;
    struct pen_text twice = PEN_TEXT_EMPTY;
    struct pen_image_model *again = NULL;
    pen_image_model_print(model, &once);
    PEN_BUG_UNLESS(
        pen_image_model_parse(once.bytes, once.length, &again, NULL) == PEN_OK);
    pen_image_model_print(again, &twice);
    PEN_BUG_UNLESS(strcmp(once.bytes, twice.bytes) == 0);
    PEN_BUG_UNLESS(again->num_parameters == model->num_parameters);
    pen_image_model_free(again);
    pen_text_release(&once);
    pen_text_release(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_image_model *model = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_image_model_parse((const char *)data, size, &model, &why) ==
        PEN_OK) {
        check_tensors(model);
        check_print(model);
    } else {
        PEN_BUG_UNLESS(why.length > 0 && model == NULL);
    }
    pen_image_model_free(model);
    pen_text_release(&why);
    return 0;
}
