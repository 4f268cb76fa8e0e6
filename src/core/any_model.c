#include "core/any_model.h"

#include <string.h>

static pen_status refuse_without_tensors(struct pen_any_model *out,
                                         const char *source,
                                         struct pen_any_model *model,
                                         struct pen_text *why)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = pen_model_check_trainable(model->decoder, &reason);
    if (status == PEN_OK) {
        *out = *model;
    } else {
        pen_why(why, "%s: %s", source, pen_text_string(&reason));
        pen_any_model_release(model);
    }
    pen_text_release(&reason);
    return status;
}

pen_status pen_any_model_load(struct pen_any_model *out, const char *source,
                              struct pen_text *why)
{
    struct pen_any_model model = {.decoder = NULL};
    if (pen_image_model_is(source)) {
        pen_status status = pen_image_model_load(source, &model.images, why);
        if (status == PEN_OK)
            *out = model;
        return status;
    }
    pen_status status = pen_model_load(source, &model.decoder, why);
    if (status != PEN_OK) {
        if (strncmp(source, "preset:", strlen("preset:")) == 0) {
            pen_why(why, "\nfor images ");
            pen_image_model_list_presets(why);
        }
        return status;
    }
    return refuse_without_tensors(out, source, &model, why);
}

void pen_any_model_release(struct pen_any_model *model)
{
    pen_model_free(model->decoder);
    pen_image_model_free(model->images);
    *model = (struct pen_any_model){.decoder = NULL};
}

void pen_any_model_print(const struct pen_any_model *model,
                         enum pen_dtype dtype, struct pen_text *out)
{
    if (model->images != NULL) {
        pen_image_model_print(model->images, out);
        return;
    }
    struct pen_model saved = *model->decoder;
    saved.dtype = dtype;
    pen_model_print(&saved, out);
}

uint64_t pen_any_model_num_parameters(const struct pen_any_model *model)
{
    return model->images != NULL ? model->images->num_parameters
                                 : model->decoder->num_parameters;
}

uint32_t pen_any_model_num_tensors(const struct pen_any_model *model)
{
    return model->images != NULL ? model->images->num_tensors
                                 : model->decoder->num_tensors;
}

static void image_tensor(const struct pen_image_tensor *from,
                         struct pen_any_tensor *out)
{
    bool is_count = from->part == PEN_IMAGE_NUM_BATCHES;
    *out = (struct pen_any_tensor){.dtype =
                                       is_count ? PEN_DTYPE_I64 : PEN_DTYPE_F32,
                                   .num_dims = from->num_dims,
                                   .num_elements = from->num_elements,
                                   .is_trained = from->is_trained};
    memcpy(out->name, from->name, sizeof out->name);
    memcpy(out->shape, from->shape, sizeof out->shape);
}

static void decoder_tensor(const struct pen_model *model,
                           const struct pen_tensor_info *from,
                           struct pen_any_tensor *out)
{
    *out = (struct pen_any_tensor){.dtype = PEN_DTYPE_F32,
                                   .num_dims = from->form->num_dims,
                                   .num_elements = from->form->num_elements,
                                   .is_trained = true};
    out->is_block_matrix = from->form->role == PEN_ROLE_MATRIX &&
                           from->form->num_dims >= 2 && from->layer > 0 &&
                           from->layer + 1 < model->num_layers &&
                           from->form->part != PEN_PART_LOCAL_HEAD;
    memcpy(out->name, from->name, sizeof out->name);
    memcpy(out->shape, from->form->shape, sizeof from->form->shape);
}

void pen_any_model_tensor(const struct pen_any_model *model, uint32_t tensor,
                          struct pen_any_tensor *out)
{
    struct pen_tensor_info info;
    if (model->images != NULL) {
        image_tensor(&model->images->tensors[tensor], out);
        return;
    }
    pen_model_tensor(model->decoder, tensor, &info);
    decoder_tensor(model->decoder, &info, out);
}

pen_status pen_any_model_find(const struct pen_any_model *model,
                              uint32_t tensor,
                              const struct pen_weights *weights,
                              const struct pen_safetensor **out,
                              struct pen_text *why)
{
    return model->images != NULL
               ? pen_weights_find_image_tensor(weights, model->images, tensor,
                                               out, why)
               : pen_weights_find_tensor(weights, model->decoder, tensor, out,
                                         why);
}
