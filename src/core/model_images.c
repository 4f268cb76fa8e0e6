/* A network for images as a model that plan, predict and profile take. */
#include "core/config_keys.h"
#include "core/image_model.h"
#include "core/model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_LAYERS = 2, MOST_LAYERS = 64 };

/* Takes the network over, also when it fails. */
static pen_status wrap(struct pen_image_model *images, struct pen_model **out,
                       struct pen_text *why)
{
    if (images->num_layers < LEAST_LAYERS || images->num_layers > MOST_LAYERS) {
        pen_why(why,
                "the network has %" PRIu32 " layers; plan, predict and profile "
                "support %d to %d",
                images->num_layers, LEAST_LAYERS, MOST_LAYERS);
        pen_image_model_free(images);
        return PEN_INVALID;
    }
    struct pen_model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        pen_image_model_free(images);
        pen_why(why, "no memory for a model");
        return PEN_NOMEM;
    }
    *model = (struct pen_model){.family = PEN_FAMILIES,
                                .hidden = 1,
                                .num_blocks = images->num_layers - 2,
                                .num_heads = 1,
                                .num_kv_heads = 1,
                                .head_dim = 1,
                                .intermediate = 1,
                                .vocab = images->num_labels,
                                .max_positions = 1,
                                .num_layers = images->num_layers,
                                .num_parameters = images->num_parameters,
                                .images = images};
    *out = model;
    return PEN_OK;
}

pen_status pen_model_load_any(const char *source, struct pen_model **out,
                              struct pen_text *why)
{
    struct pen_image_model *images = NULL;
    if (pen_image_model_is(source)) {
        pen_status status = pen_image_model_load(source, &images, why);
        return status == PEN_OK ? wrap(images, out, why) : status;
    }
    pen_status status = pen_model_load(source, out, why);
    if (status != PEN_OK &&
        strncmp(source, "preset:", strlen("preset:")) == 0) {
        pen_why(why, "\nfor images ");
        pen_image_model_list_presets(why);
    }
    return status;
}

pen_status pen_model_parse_any(const char *text, size_t length,
                               struct pen_model **out, struct pen_text *why)
{
    struct pen_image_model *images = NULL;
    if (!pen_image_model_is_config(text, length))
        return pen_model_parse(text, length, out, why);
    pen_status status = pen_image_model_parse(text, length, &images, why);
    return status == PEN_OK ? wrap(images, out, why) : status;
}

const char *pen_model_type(const struct pen_model *model)
{
    if (model->images != NULL)
        return pen_image_family_name(model->images->family);
    return model->family == PEN_FAMILY_GENERAL ? model->type
                                               : pen_family_name(model->family);
}
