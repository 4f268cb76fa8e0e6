#include "planner/layer_class.h"

#include "base/bug.h"
#include "planner/memo.h"
#include "planner/optimizer.h"

enum class { EMBEDDING, HEAD, BLOCK };

uint32_t pen__layer_class(const struct pen_model *model, uint32_t layer)
{
    if (model->images != NULL)
        return layer;
    if (layer == 0)
        return EMBEDDING;
    if (layer == model->num_layers - 1)
        return HEAD;
    return BLOCK + pen_model_block_kind(model, layer - 1);
}

void pen__layer_classes_find(const struct pen_model *model,
                             struct pen__layer_classes *out)
{
    *out = (struct pen__layer_classes){.num = BLOCK + model->num_kinds};
    if (model->images != NULL)
        out->num = model->num_layers;
    PEN_BUG_UNLESS(out->num <= PEN_LAYER_CLASSES);
    for (uint32_t layer = 0; layer < model->num_layers; layer++) {
        uint32_t found = pen__layer_class(model, layer);
        out->layer[found] = layer;
        out->count[found]++;
    }
}

void pen__class_costs_find(const struct pen_setting *setting,
                           const struct pen_plan *plan, uint32_t group,
                           enum pen_recompute recompute,
                           const struct pen__layer_classes *classes,
                           struct pen__class_costs *out)
{
    for (uint32_t i = 0; i < classes->num; i++) {
        out->path[i] = out->seconds[i] = out->busy[i] = 0;
        out->bytes[i] = (struct pen_layer_bytes){.num_parameters = 0};
        if (classes->count[i] == 0)
            continue;
        struct pen_layer_time time;
        pen__layer_recall(setting, plan, group, classes->layer[i], recompute,
                          &time, &out->bytes[i]);
        out->path[i] = time.forward_sec + time.input_sec + time.recompute_sec;
        out->seconds[i] = out->path[i] + time.weight_sec;
        out->busy[i] = out->seconds[i] - time.tensor_sec - time.context_sec -
                       time.expert_sec;
    }
}

#define LEAST_WEIGHT_BYTES 0.5 /* gathered in 4 bits */

double pen__parameter_bytes(const struct pen_setting *setting,
                            const struct pen_recipe *recipe,
                            enum pen_sharding sharding, double num_replicas)
{
    double weights = recipe->gathers_narrow ? LEAST_WEIGHT_BYTES
                                            : pen_number_bytes(setting->number);
    double gradients = recipe->gradient_bytes > 0
                           ? recipe->gradient_bytes
                           : setting->practice.gradient_bytes;
    double optimizer = recipe->offloads_optimizer
                           ? 0
                           : pen__least_optimizer_bytes(setting, recipe);
    if (sharding >= PEN_SHARDING_ZERO1)
        optimizer /= num_replicas;
    if (sharding >= PEN_SHARDING_ZERO2)
        gradients /= num_replicas;
    if (sharding >= PEN_SHARDING_ZERO3)
        weights /= num_replicas;
    return weights + gradients + optimizer;
}
