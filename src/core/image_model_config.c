/*
 * Where models for images come from: a preset, or a config.json. ResNet has
 * the keys and defaults of transformers; the others have keys of our own:
 *
 *   penstock_cnn   num_channels, image_size, num_labels, and
 *                  conv_sizes, kernel_size, hidden_sizes, or
 *                  layers (image_model_steps.c), global_average
 *   penstock_mlp   num_channels, image_size, hidden_sizes, num_labels
 */
#include "core/image_model.h"

#include "core/config_keys.h"
#include "core/image_model_internal.h"

#include "base/json.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

#define MAX_CHANNELS PEN__IMAGE_MAX_CHANNELS
#define MAX_LABELS (1u << 24)
#define MAX_DEPTH 256

static const char *const families[] = {[PEN_IMAGE_FAMILY_RESNET] = "resnet",
                                       [PEN_IMAGE_FAMILY_CNN] = "penstock_cnn",
                                       [PEN_IMAGE_FAMILY_MLP] = "penstock_mlp"};

const char *pen_image_family_name(enum pen_image_family family)
{
    return families[family];
}

static pen_status read_family(const struct pen_json *json,
                              enum pen_image_family *out, struct pen_text *why)
{
    struct pen__config_word words[COUNT_OF(families)];
    for (size_t i = 0; i < COUNT_OF(families); i++)
        words[i] = (struct pen__config_word){families[i], (int)i};
    int found = -1;
    pen_status status = pen__config_word(json, "model_type", words,
                                         COUNT_OF(families), &found, why);
    if (status != PEN_OK)
        return status;
    if (found < 0) {
        pen_why(why, "model_type is missing");
        return PEN_INVALID;
    }
    *out = (enum pen_image_family)found;
    return PEN_OK;
}

/* A list of 1 to PEN_IMAGE_MAX_SIZES counts; left alone when absent. */
struct list {
    const char *key;
    uint32_t least; /* of its entries */
    uint32_t most;
    uint32_t *entries;
    uint32_t *count;
};

static pen_status read_list(const struct pen_json *json,
                            const struct list *list, struct pen_text *why)
{
    if (!pen__config_has(json, list->key))
        return PEN_OK;
    const json_t *found = json_object_get(json->object, list->key);
    size_t count = json_array_size(found);
    if (!json_is_array(found) || count < list->least ||
        count > PEN_IMAGE_MAX_SIZES) {
        pen_why(why, "%s must be a list of %u to %u counts", list->key,
                list->least, PEN_IMAGE_MAX_SIZES);
        return PEN_INVALID;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *entry = json_array_get(found, i);
        json_int_t value = json_integer_value(entry);
        if (!json_is_integer(entry) || value < 1 ||
            value > (json_int_t)list->most) {
            pen_why(why, "%s[%zu] must be an integer from 1 to %u", list->key,
                    i, list->most);
            return PEN_INVALID;
        }
        list->entries[i] = (uint32_t)value;
    }
    *list->count = (uint32_t)count;
    return PEN_OK;
}

static pen_status read_count(const struct pen_json *json, const char *key,
                             uint32_t most, uint32_t *value,
                             struct pen_text *why)
{
    const struct pen__config_count count = {key, *value, *value, most};
    return pen__config_count(json, &count, value, why);
}

/* Reads the number of labels; transformers saves their names instead. */
static pen_status read_labels(const struct pen_json *json, uint32_t *out,
                              struct pen_text *why)
{
    uint32_t named = 0;
    if (pen__config_has(json, "id2label")) {
        struct pen_json names;
        pen_status status = pen_json_open(json, "id2label", &names, why);
        if (status != PEN_OK)
            return status;
        size_t count = json_object_size(names.object);
        if (count < 1 || count > MAX_LABELS) {
            pen_why(why, "id2label must have 1 to %u labels", MAX_LABELS);
            return PEN_INVALID;
        }
        named = *out = (uint32_t)count;
    }
    pen_status status = read_count(json, "num_labels", MAX_LABELS, out, why);
    if (status != PEN_OK || named == 0 || named == *out)
        return status;
    pen_why(why, "num_labels is %u, but id2label has %u labels", *out, named);
    return PEN_INVALID;
}

static pen_status check_resnet(const struct pen_image_model *model,
                               uint32_t num_depths, struct pen_text *why)
{
    if (num_depths != model->num_stages) {
        pen_why(why, "depths has %u entries, hidden_sizes has %u", num_depths,
                model->num_stages);
        return PEN_INVALID;
    }
    for (uint32_t i = 0; model->is_bottleneck && i < model->num_stages; i++)
        if (model->stage_sizes[i] < 4) {
            pen_why(why,
                    "hidden_sizes[%u] is %u; layer_type \"bottleneck\" needs "
                    "at least 4",
                    i, model->stage_sizes[i]);
            return PEN_INVALID;
        }
    return PEN_OK;
}

static pen_status read_resnet(const struct pen_json *json,
                              struct pen_image_model *model,
                              struct pen_text *why)
{
    static const uint32_t sizes[] = {256, 512, 1024, 2048};
    static const uint32_t depths[] = {3, 4, 6, 3};
    static const struct pen__config_word kinds[] = {{"basic", 0},
                                                    {"bottleneck", 1}};
    static const struct pen__config_word relu[] = {{"relu", 0}};
    uint32_t num_depths = 4;
    int kind = 1;
    int activation = 0;
    memcpy(model->stage_sizes, sizes, sizeof sizes);
    memcpy(model->depths, depths, sizeof depths);
    model->num_stages = 4;
    model->num_channels = 3;
    model->embedding_size = 64;
    const struct list lists[] = {
        {"hidden_sizes", 1, MAX_CHANNELS, model->stage_sizes,
         &model->num_stages},
        {"depths", 1, MAX_DEPTH, model->depths, &num_depths}};
    pen_status status =
        pen__config_word(json, "layer_type", kinds, 2, &kind, why);
    if (status == PEN_OK)
        status =
            pen__config_word(json, "hidden_act", relu, 1, &activation, why);
    for (size_t i = 0; status == PEN_OK && i < COUNT_OF(lists); i++)
        status = read_list(json, &lists[i], why);
    if (status == PEN_OK)
        status = read_count(json, "embedding_size", MAX_CHANNELS,
                            &model->embedding_size, why);
    if (status == PEN_OK)
        status = pen__config_flag(json, "downsample_in_first_stage",
                                  &model->has_downsample_in_first_stage, why);
    if (status == PEN_OK)
        status = pen__config_flag(json, "downsample_in_bottleneck",
                                  &model->has_downsample_in_bottleneck, why);
    model->is_bottleneck = kind == 1;
    return status == PEN_OK ? check_resnet(model, num_depths, why) : status;
}

/* Inputs of the first dense layer, which is what can grow too large. */
static pen_status check_inputs(const struct pen_image_model *model,
                               struct pen_text *why)
{
    uint64_t size = model->image_size >> model->num_stages;
    uint64_t channels = model->num_stages == 0
                            ? model->num_channels
                            : model->stage_sizes[model->num_stages - 1];
    if (size == 0) {
        pen_why(why,
                "image_size is %u, too small for %u pools that halve it; it "
                "must be at least %u",
                model->image_size, model->num_stages, 1u << model->num_stages);
        return PEN_INVALID;
    }
    uint64_t inputs = channels * size * size;
    if (inputs > PEN__IMAGE_MAX_INPUTS) {
        pen_why(why,
                "image_size is %u: %" PRIu64
                " values are too many for a dense layer; the limit is %u",
                model->image_size, inputs, PEN__IMAGE_MAX_INPUTS);
        return PEN_INVALID;
    }
    return PEN_OK;
}

/*
 * Reads the keys that describe a plain chain; their defaults are the preset's.
 */
static pen_status read_short(const struct pen_json *json,
                             struct pen_image_model *model,
                             struct pen_text *why)
{
    const struct list convolutions = {"conv_sizes", 1, MAX_CHANNELS,
                                      model->stage_sizes, &model->num_stages};
    model->num_stages = 2;
    model->stage_sizes[0] = 16;
    model->stage_sizes[1] = 32;
    model->kernel_size = 5;
    pen_status status = read_list(json, &convolutions, why);
    if (status == PEN_OK)
        status = read_count(json, "kernel_size", PEN__IMAGE_MAX_KERNEL,
                            &model->kernel_size, why);
    if (status == PEN_OK && model->kernel_size % 2 == 0) {
        pen_why(why, "kernel_size must be odd, so that the image keeps its "
                     "size");
        return PEN_INVALID;
    }
    return status;
}

/* Reads a chain that is written out, which has no key of the short form. */
static pen_status read_layers(const struct pen_json *json,
                              struct pen_image_model *model,
                              struct pen_text *why)
{
    static const char *const others[] = {"conv_sizes", "kernel_size",
                                         "hidden_sizes"};
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (pen__config_has(json, others[i])) {
            pen_why(why,
                    "layers and %s both describe the network; give only "
                    "one of them",
                    others[i]);
            return PEN_INVALID;
        }
    return pen__image_steps_read(json, model, why);
}

/* Reads the two families of our own. */
static pen_status read_own(const struct pen_json *json,
                           struct pen_image_model *model, struct pen_text *why)
{
    bool is_cnn = model->family == PEN_IMAGE_FAMILY_CNN;
    const struct list dense = {"hidden_sizes", 0, MAX_CHANNELS,
                               model->dense_sizes, &model->num_dense};
    model->num_channels = 1;
    model->image_size = 28;
    pen_status status = read_count(json, "image_size", PEN__IMAGE_MAX_SIDE,
                                   &model->image_size, why);
    if (status == PEN_OK && is_cnn && pen__config_has(json, "layers"))
        return read_layers(json, model, why);
    model->num_dense = 1;
    model->dense_sizes[0] = 128;
    if (status == PEN_OK && is_cnn)
        status = read_short(json, model, why);
    if (status == PEN_OK)
        status = read_list(json, &dense, why);
    return status;
}

static pen_status read_model(const struct pen_json *json,
                             struct pen_image_model *model,
                             struct pen_text *why)
{
    pen_status status = read_family(json, &model->family, why);
    if (status != PEN_OK)
        return status;
    bool is_resnet = model->family == PEN_IMAGE_FAMILY_RESNET;
    model->num_labels = is_resnet ? 2 : 10;
    status =
        is_resnet ? read_resnet(json, model, why) : read_own(json, model, why);
    if (status == PEN_OK)
        status = read_count(json, "num_channels", MAX_CHANNELS,
                            &model->num_channels, why);
    if (status == PEN_OK)
        status = read_labels(json, &model->num_labels, why);
    bool is_short = !is_resnet && model->num_steps == 0;
    return status == PEN_OK && is_short ? check_inputs(model, why) : status;
}

pen_status pen_image_model_parse(const char *text, size_t length,
                                 struct pen_image_model **out,
                                 struct pen_text *why)
{
    struct pen_json json;
    struct pen_image_model model = {.family = PEN_IMAGE_FAMILY_RESNET};
    pen_status status = pen_json_load(text, length, &json, why);
    if (status != PEN_OK)
        return status;
    status = read_model(&json, &model, why);
    json_decref(json.object);
    return status == PEN_OK ? pen__image_model_create(&model, out, why)
                            : status;
}

/*
 * Returns whether it is a preset; the prefix may be left out where there is no
 * file of this name.
 */
static bool is_preset(const char *source)
{
    static const char prefix[] = "preset:";
    return strncmp(source, prefix, sizeof prefix - 1) == 0 ||
           (pen__image_preset(source) != NULL && access(source, F_OK) != 0);
}

static pen_status parse_preset(const char *name, struct pen_image_model **out,
                               struct pen_text *why)
{
    const char *config = pen__image_preset(name);
    if (config != NULL)
        return pen_image_model_parse(config, strlen(config), out, why);
    pen_why(why, "there is no %s for images; expected one of ", name);
    pen_image_model_list_presets(why);
    return PEN_INVALID;
}

bool pen_image_model_is_config(const char *text, size_t length)
{
    struct pen_json json;
    enum pen_image_family family;
    if (pen_json_load(text, length, &json, NULL) != PEN_OK)
        return false;
    bool is_known = read_family(&json, &family, NULL) == PEN_OK;
    json_decref(json.object);
    return is_known;
}

bool pen_image_model_is(const char *source)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text text = PEN_TEXT_EMPTY;
    if (is_preset(source))
        return pen__image_preset(source) != NULL;
    bool is_known = pen__config_read(source, &path, &text, NULL) == PEN_OK &&
                    pen_image_model_is_config(text.bytes, text.length);
    pen_text_release(&path);
    pen_text_release(&text);
    return is_known;
}

pen_status pen_image_model_load(const char *source,
                                struct pen_image_model **out,
                                struct pen_text *why)
{
    if (is_preset(source))
        return parse_preset(source, out, why);
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = pen__config_read(source, &path, &text, why);
    if (status == PEN_OK) {
        status = pen_image_model_parse(text.bytes, text.length, out, &reason);
        if (status != PEN_OK)
            pen_why(why, "%s: %s", pen_text_string(&path),
                    pen_text_string(&reason));
    }
    pen_text_release(&path);
    pen_text_release(&text);
    pen_text_release(&reason);
    return status;
}
