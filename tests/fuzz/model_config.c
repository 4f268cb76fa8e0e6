/*
 * Whatever is accepted as config.json is a model whose tensors add up, and
 * which prints as a config.json that means the same.
 */
#include "base/bug.h"
#include "core/model.h"

#include <string.h>

#define MOST_LAYERS 100

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Returns its elements. */
static uint64_t check_tensor(const struct pen_model *model, uint32_t tensor)
{
    struct pen_tensor_info info;
    pen_model_tensor(model, tensor, &info);
    PEN_BUG_UNLESS(info.layer < model->num_layers);
    PEN_BUG_UNLESS(info.form->num_elements > 0);
    PEN_BUG_UNLESS(pen_model_find_expert_part(model, info.layer, info.expert,
                                              info.form->part) == tensor);
    PEN_BUG_UNLESS(strlen(pen_model_bare_name(model, info.name)) > 0);
    return info.form->num_elements;
}

/* Layers of one kind are alike: the first and last of each say it all. */
static void check_tensors(const struct pen_model *model)
{
    const uint32_t layers[] = {0, 1, model->num_blocks, model->num_blocks + 1};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        uint32_t first;
        uint32_t count = pen_model_layer_tensors(model, layers[i], &first);
        PEN_BUG_UNLESS(count > 0 && first + count <= model->num_tensors);
        uint64_t sum = 0;
        for (uint32_t tensor = first; tensor < first + count; tensor++)
            sum += check_tensor(model, tensor);
        PEN_BUG_UNLESS(sum == pen_model_layer_parameters(model, layers[i]));
    }
}

/* Every layer, where there are not so many that it takes long. */
static void check_sums(const struct pen_model *model)
{
    uint64_t sum = 0;
    uint64_t experts = 0;
    for (uint32_t layer = 0; layer < model->num_layers; layer++) {
        uint64_t part = pen_model_expert_parameters(model, layer);
        PEN_BUG_UNLESS(part <= pen_model_layer_parameters(model, layer));
        sum += pen_model_layer_parameters(model, layer);
        experts += part;
    }
    PEN_BUG_UNLESS(sum == model->num_parameters && sum < UINT64_MAX / 8);
    uint64_t active = pen_model_active_parameters(model);
    PEN_BUG_UNLESS(active <= sum && active >= sum - experts);
}

static void check_layers(const struct pen_model *model)
{
    if (model->num_layers <= MOST_LAYERS)
        check_sums(model);
    PEN_BUG_UNLESS(pen_model_window(model, 0) <= model->window);
    if (pen_model_check_trainable(model, NULL) == PEN_OK)
        check_tensors(model);
    else
        PEN_BUG_UNLESS(model->num_tensors == 0);
}

static void check_print(const struct pen_model *model)
{
    struct pen_text once = PEN_TEXT_EMPTY;
    struct pen_text twice = PEN_TEXT_EMPTY;
    struct pen_model *again = NULL;
    pen_model_print(model, &once);
    PEN_BUG_UNLESS(pen_model_parse(once.bytes, once.length, &again, NULL) ==
                   PEN_OK);
    pen_model_print(again, &twice);
    PEN_BUG_UNLESS(strcmp(once.bytes, twice.bytes) == 0);
    PEN_BUG_UNLESS(again->num_parameters == model->num_parameters);
    PEN_BUG_UNLESS(pen_model_active_parameters(again) ==
                   pen_model_active_parameters(model));
    pen_model_free(again);
    pen_text_release(&once);
    pen_text_release(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_model *model = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_model_parse((const char *)data, size, &model, &why) == PEN_OK) {
        check_layers(model);
        check_print(model);
    } else {
        PEN_BUG_UNLESS(why.length > 0 && model == NULL);
    }
    pen_model_free(model);
    pen_text_release(&why);
    return 0;
}
