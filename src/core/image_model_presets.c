/*
 * Image models by name. AlexNet, VGG-16 and ResNet-50 are those of torchvision,
 * for images of 224 x 224 and 1000 labels, without dropout:
 *
 *   alexnet    Krizhevsky, arXiv 1404.5997
 *   vgg-16     Simonyan and Zisserman, arXiv 1409.1556, configuration D
 *   resnet-50  He et al., arXiv 1512.03385, stride in the 3 x 3 convolution
 */
#include "core/image_model_internal.h"

#include <string.h>

#define IMAGENET                                                               \
    "\"model_type\": \"penstock_cnn\", \"num_channels\": 3,"                   \
    "\"image_size\": 224, \"num_labels\": 1000,"

#define PREFIX "preset:"

static const struct preset {
    const char *name;
    const char *config;
} presets[] = {
    {"preset:alexnet",
     "{" IMAGENET "\"layers\": ["
     "{\"conv\": 64, \"kernel\": 11, \"stride\": 4, \"padding\": 2,"
     " \"pool\": 3, \"pool_stride\": 2},"
     "{\"conv\": 192, \"kernel\": 5, \"pool\": 3, \"pool_stride\": 2},"
     "{\"conv\": 384}, {\"conv\": 256},"
     "{\"conv\": 256, \"pool\": 3, \"pool_stride\": 2},"
     "{\"dense\": 4096, \"repeat\": 2}]}"},
    {"preset:cifar-cnn",
     "{\"model_type\": \"penstock_cnn\", \"num_channels\": 3,"
     " \"image_size\": 32, \"conv_sizes\": [32, 64], \"kernel_size\": 5}"},
    {"preset:mnist-cnn", "{\"model_type\": \"penstock_cnn\"}"},
    {"preset:mnist-mlp", "{\"model_type\": \"penstock_mlp\"}"},
    {"preset:resnet-50",
     "{" IMAGENET "\"layers\": ["
     "{\"conv\": 64, \"kernel\": 7, \"stride\": 2, \"norm\": true,"
     " \"pool\": 3, \"pool_stride\": 2, \"pool_padding\": 1},"
     "{\"residual\": 256, \"inner\": 64, \"repeat\": 3},"
     "{\"residual\": 512, \"inner\": 128, \"stride\": 2, \"repeat\": 4},"
     "{\"residual\": 1024, \"inner\": 256, \"stride\": 2, \"repeat\": 6},"
     "{\"residual\": 2048, \"inner\": 512, \"stride\": 2, \"repeat\": 3}],"
     "\"global_average\": true}"},
    {"preset:vgg-16", "{" IMAGENET "\"layers\": ["
                      "{\"conv\": 64, \"repeat\": 2, \"pool\": 2},"
                      "{\"conv\": 128, \"repeat\": 2, \"pool\": 2},"
                      "{\"conv\": 256, \"repeat\": 3, \"pool\": 2},"
                      "{\"conv\": 512, \"repeat\": 3, \"pool\": 2},"
                      "{\"conv\": 512, \"repeat\": 3, \"pool\": 2},"
                      "{\"dense\": 4096, \"repeat\": 2}]}"}};

enum { NUM_PRESETS = sizeof presets / sizeof *presets };

const char *pen_image_model_preset_at(size_t index)
{
    return index < NUM_PRESETS ? presets[index].name + strlen(PREFIX) : NULL;
}

const char *pen__image_preset(const char *name)
{
    for (size_t i = 0; i < NUM_PRESETS; i++)
        if (strcmp(name, presets[i].name) == 0 ||
            strcmp(name, pen_image_model_preset_at(i)) == 0)
            return presets[i].config;
    return NULL;
}

void pen_image_model_list_presets(struct pen_text *out)
{
    for (size_t i = 0; i < NUM_PRESETS; i++)
        pen_why(out, "%s%s", i == 0 ? "" : ", ", presets[i].name);
}
