/*
 * A model for images has the tensors and the exact number of parameters that
 * its config.json stands for, and what cannot be carried is refused with its
 * key. tests/interop/run_images compares names and shapes with transformers.
 */
#include "support/support.h"

#include "core/image_model.h"

#include <string.h>

static struct pen_image_model *parse_model(const char *text)
{
    struct pen_image_model *model = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_image_model_parse(text, strlen(text), &model, &why) != PEN_OK)
        fail_msg("%s\n%s", pen_text_string(&why), text);
    pen_text_release(&why);
    return model;
}

static void expect_refusal(const char *text, const char *reason)
{
    struct pen_image_model *model = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID,
                     pen_image_model_parse(text, strlen(text), &model, &why));
    assert_null(model);
    assert_string_equal(reason, pen_text_string(&why));
    pen_text_release(&why);
}

/* Also that what is printed is read as the same model. */
static void expect_parameters(const char *text, uint64_t expected)
{
    struct pen_image_model *model = parse_model(text);
    assert_int_equal(expected, model->num_parameters);
    struct pen_text printed = PEN_TEXT_EMPTY;
    pen_image_model_print(model, &printed);
    struct pen_image_model *again = parse_model(pen_text_string(&printed));
    assert_int_equal(model->num_tensors, again->num_tensors);
    for (uint32_t i = 0; i < model->num_tensors; i++)
        assert_memory_equal(&model->tensors[i], &again->tensors[i],
                            sizeof *model->tensors);
    pen_text_release(&printed);
    pen_image_model_free(again);
    pen_image_model_free(model);
}

/* The published numbers of parameters, with a thousand labels. */
static void published_resnets_have_their_parameters(void **state)
{
    (void)state;
    expect_parameters("{\"model_type\":\"resnet\",\"num_labels\":1000}",
                      25557032);
    expect_parameters("{\"model_type\":\"resnet\",\"num_labels\":1000,"
                      "\"layer_type\":\"basic\",\"depths\":[2,2,2,2],"
                      "\"hidden_sizes\":[64,128,256,512]}",
                      11689512);
    expect_parameters("{\"model_type\":\"resnet\",\"num_labels\":1000,"
                      "\"depths\":[3,8,36,3]}",
                      60192808);
}

static void expect_preset(const char *name, uint64_t expected,
                          uint32_t num_layers)
{
    struct pen_image_model *model = NULL;
    struct pen_text printed = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_OK, pen_image_model_load(name, &model, NULL));
    assert_int_equal(expected, model->num_parameters);
    assert_int_equal(num_layers, model->num_layers);
    pen_image_model_print(model, &printed);
    expect_parameters(pen_text_string(&printed), expected);
    pen_text_release(&printed);
    pen_image_model_free(model);
}

/* sum(p.numel() for p in torchvision.models.NAME().parameters()) */
static void presets_have_the_parameters_of_torchvision(void **state)
{
    (void)state;
    expect_preset("preset:alexnet", 61100840, 8);
    expect_preset("preset:vgg-16", 138357544, 16);
    expect_preset("preset:resnet-50", 25557032, 18);
}

static void layers_are_a_chain_of_any_sizes(void **state)
{
    (void)state;
    struct pen_image_model *model = parse_model(
        "{\"model_type\":\"penstock_cnn\",\"image_size\":9,\"num_channels\":2,"
        "\"layers\":[{\"conv\":4,\"kernel\":2,\"stride\":2,\"padding\":0,"
        "\"pool\":3,\"pool_stride\":1},{\"residual\":6,\"stride\":2,"
        "\"repeat\":2},{\"dense\":5}]}");
    assert_int_equal(5, model->num_layers);
    assert_string_equal("conv.0.weight", model->tensors[0].name);
    assert_string_equal("residual.0.shortcut.convolution.weight",
                        model->tensors[2].name);
    assert_int_equal(0, model->layers[2].shortcut.outputs);
    assert_int_equal(6, model->layers[3].inputs); /* 9, 4, 2, 1, 1 */
    pen_image_model_free(model);
    expect_parameters("{\"model_type\":\"penstock_cnn\",\"layers\":["
                      "{\"conv\":4,\"norm\":true,\"repeat\":2,\"pool\":2}],"
                      "\"global_average\":true}",
                      4 * 9 + 8 + 16 * 9 + 8 + 50);
}

static void layers_that_cannot_be_are_refused(void **state)
{
    (void)state;
#define LAYERS "{\"model_type\":\"penstock_cnn\",\"layers\":"
    expect_refusal(LAYERS "[]}", "layers must be a list of 1 to 64 objects");
    expect_refusal(LAYERS "[{}]}",
                   "layers[0].conv, layers[0].residual or layers[0].dense must "
                   "say what the layer is");
    expect_refusal(LAYERS "[{\"conv\":0}]}",
                   "layers[0].conv must be an integer from 1 to 65536");
    expect_refusal(LAYERS "[{\"conv\":8,\"pool_stride\":2}]}",
                   "layers[0].pool is missing, but there are keys of a pool");
    expect_refusal(LAYERS "[{\"conv\":8,\"pool\":2,\"pool_padding\":2}]}",
                   "layers[0].pool_padding must be an integer from 0 to 1");
    expect_refusal(LAYERS "[{\"dense\":8},{\"conv\":8}]}",
                   "layers[1] has positions, but a dense layer before it has "
                   "left none");
    expect_refusal(LAYERS "[{\"dense\":8}],\"global_average\":true}",
                   "global_average needs positions, but the last entry of "
                   "layers is dense");
    expect_refusal(LAYERS "[{\"conv\":8}],\"kernel_size\":3}",
                   "layers and kernel_size both describe the network; give "
                   "only one of them");
    expect_refusal(LAYERS "[{\"conv\":8,\"kernel\":9,\"padding\":0}],"
                          "\"image_size\":8}",
                   "image_size is too small: layers[0] has a window of 9 on an "
                   "image of 8 x 8");
#undef LAYERS
}

static void presets_are_small_networks_for_mnist(void **state)
{
    (void)state;
    struct pen_image_model *model = NULL;
    assert_int_equal(PEN_OK,
                     pen_image_model_load("preset:mnist-cnn", &model, NULL));
    assert_int_equal(4, model->num_layers);
    assert_int_equal(8, model->num_tensors);
    assert_string_equal("conv.0.weight", model->tensors[0].name);
    assert_string_equal("classifier.bias", model->tensors[7].name);
    assert_int_equal(32 * 7 * 7, model->layers[2].inputs);
    pen_image_model_free(model);
    assert_int_equal(PEN_OK,
                     pen_image_model_load("preset:mnist-mlp", &model, NULL));
    assert_int_equal((784 + 1) * 128 + (128 + 1) * 10, model->num_parameters);
    pen_image_model_free(model);
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID,
                     pen_image_model_load("preset:mnist", &model, &why));
    assert_string_equal("there is no preset:mnist for images; expected one of "
                        "preset:alexnet, preset:cifar-cnn, "
                        "preset:mnist-cnn, preset:mnist-mlp, "
                        "preset:resnet-50, preset:vgg-16",
                        pen_text_string(&why));
    pen_text_release(&why);
}

static void running_statistics_are_tensors_but_not_trained(void **state)
{
    (void)state;
    struct pen_image_model *model =
        parse_model("{\"model_type\":\"resnet\",\"hidden_sizes\":[8],"
                    "\"depths\":[1],\"embedding_size\":4}");
    const struct pen_image_tensor *tensors = model->tensors;
    assert_string_equal("resnet.embedder.embedder.convolution.weight",
                        tensors[PEN_IMAGE_FILTERS].name);
    assert_string_equal("resnet.embedder.embedder.normalization.running_var",
                        tensors[PEN_IMAGE_RUNNING_VARIANCE].name);
    assert_true(tensors[PEN_IMAGE_NORM_BIAS].is_trained);
    assert_false(tensors[PEN_IMAGE_RUNNING_MEAN].is_trained);
    assert_false(tensors[PEN_IMAGE_NUM_BATCHES].is_trained);
    assert_int_equal(0, tensors[PEN_IMAGE_NUM_BATCHES].num_dims);
    /* Stage 0 keeps the size but not the channels: it has a shortcut. */
    assert_string_equal(
        "resnet.encoder.stages.0.layers.0.shortcut.convolution.weight",
        tensors[model->layers[1].first_tensor].name);
    pen_image_model_free(model);
}

static void what_cannot_be_carried_is_refused_with_its_key(void **state)
{
    (void)state;
    expect_refusal("{}", "model_type is missing");
    expect_refusal("{\"model_type\":\"gpt2\"}",
                   "model_type \"gpt2\" is not supported; it must be "
                   "\"resnet\", \"penstock_cnn\" or \"penstock_mlp\"");
    expect_refusal("{\"model_type\":\"resnet\",\"hidden_act\":\"gelu\"}",
                   "hidden_act \"gelu\" is not supported; it must be "
                   "\"relu\"");
    expect_refusal("{\"model_type\":\"resnet\",\"depths\":[1,2]}",
                   "depths has 2 entries, hidden_sizes has 4");
    expect_refusal("{\"model_type\":\"resnet\",\"depths\":[1,0,1,1]}",
                   "depths[1] must be an integer from 1 to 256");
    expect_refusal("{\"model_type\":\"resnet\",\"hidden_sizes\":[]}",
                   "hidden_sizes must be a list of 1 to 16 counts");
    expect_refusal("{\"model_type\":\"resnet\",\"hidden_sizes\":[3],"
                   "\"depths\":[1]}",
                   "hidden_sizes[0] is 3; layer_type \"bottleneck\" needs at "
                   "least 4");
    expect_refusal("{\"model_type\":\"resnet\",\"num_labels\":3,"
                   "\"id2label\":{\"0\":\"a\",\"1\":\"b\"}}",
                   "num_labels is 3, but id2label has 2 labels");
    expect_refusal("{\"model_type\":\"penstock_cnn\",\"kernel_size\":4}",
                   "kernel_size must be odd, so that the image keeps its size");
    expect_refusal(
        "{\"model_type\":\"penstock_cnn\",\"image_size\":3}",
        "image_size is 3, too small for 2 pools that halve it; it must "
        "be at least 4");
    expect_refusal(
        "{\"model_type\":\"penstock_mlp\",\"image_size\":4096,"
        "\"num_channels\":65536}",
        "image_size is 4096: 1099511627776 values are too many for a "
        "dense layer; the limit is 268435456");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_resnets_have_their_parameters),
        cmocka_unit_test(presets_have_the_parameters_of_torchvision),
        cmocka_unit_test(layers_are_a_chain_of_any_sizes),
        cmocka_unit_test(layers_that_cannot_be_are_refused),
        cmocka_unit_test(presets_are_small_networks_for_mnist),
        cmocka_unit_test(running_statistics_are_tensors_but_not_trained),
        cmocka_unit_test(what_cannot_be_carried_is_refused_with_its_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
