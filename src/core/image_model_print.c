/* A model for images as config.json; the inverse of image_model_config.c. */
#include "core/image_model.h"

#include "core/image_model_internal.h"

static void add_list(struct pen_text *out, const char *key,
                     const uint32_t *entries, uint32_t count)
{
    pen_text_add(out, ",\n  \"%s\": [", key);
    for (uint32_t i = 0; i < count; i++)
        pen_text_add(out, "%s%u", i == 0 ? "" : ", ", entries[i]);
    pen_text_add_string(out, "]");
}

static void add_resnet(const struct pen_image_model *model,
                       struct pen_text *out)
{
    add_list(out, "hidden_sizes", model->stage_sizes, model->num_stages);
    add_list(out, "depths", model->depths, model->num_stages);
    pen_text_add(out,
                 ",\n  \"embedding_size\": %u,\n  \"layer_type\": \"%s\""
                 ",\n  \"hidden_act\": \"relu\""
                 ",\n  \"downsample_in_first_stage\": %s"
                 ",\n  \"downsample_in_bottleneck\": %s",
                 model->embedding_size,
                 model->is_bottleneck ? "bottleneck" : "basic",
                 model->has_downsample_in_first_stage ? "true" : "false",
                 model->has_downsample_in_bottleneck ? "true" : "false");
}

void pen_image_model_print(const struct pen_image_model *model,
                           struct pen_text *out)
{
    pen_text_add(out, "{\n  \"model_type\": \"%s\",\n  \"num_channels\": %u",
                 pen_image_family_name(model->family), model->num_channels);
    if (model->family == PEN_IMAGE_FAMILY_RESNET) {
        pen_text_add_string(
            out, ",\n  \"architectures\": [\"ResNetForImageClassification\"]");
        add_resnet(model, out);
    } else {
        pen_text_add(out, ",\n  \"image_size\": %u", model->image_size);
        bool is_cnn = model->family == PEN_IMAGE_FAMILY_CNN;
        if (is_cnn && model->kernel_size > 0) {
            add_list(out, "conv_sizes", model->stage_sizes, model->num_stages);
            pen_text_add(out, ",\n  \"kernel_size\": %u", model->kernel_size);
        }
        if (is_cnn && model->kernel_size == 0)
            pen__image_steps_print(model, out);
        else
            add_list(out, "hidden_sizes", model->dense_sizes, model->num_dense);
    }
    pen_text_add(out, ",\n  \"num_labels\": %u\n}\n", model->num_labels);
}
