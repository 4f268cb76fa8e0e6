#ifndef PEN_PLANNER_LAYER_CLASS_H
#define PEN_PLANNER_LAYER_CLASS_H

#include "planner/predict.h"

/*
 * Layers that are alike: embedding, head, and the kinds of blocks of the model.
 * A thousand layers are few classes, and cost no more than these. Every layer
 * of a network for images is a class of its own, and such a network has no more
 * layers than there are classes.
 */
#define PEN_LAYER_CLASSES 64u

uint32_t pen__layer_class(const struct pen_model *model, uint32_t layer);

/* One layer of each class, and how many there are; none: count 0. */
struct pen__layer_classes {
    uint32_t num; /* of the classes, those that may have a layer */
    uint32_t layer[PEN_LAYER_CLASSES];
    uint32_t count[PEN_LAYER_CLASSES];
};

void pen__layer_classes_find(const struct pen_model *model,
                             struct pen__layer_classes *out);

/* Seconds and bytes of each class on this group of devices. */
struct pen__class_costs {
    double seconds[PEN_LAYER_CLASSES]; /* of a micro-batch, all passes */
    double path[PEN_LAYER_CLASSES];    /* without the weights' gradients */
    double busy[PEN_LAYER_CLASSES];    /* without messages */
    struct pen_layer_bytes bytes[PEN_LAYER_CLASSES];
};

void pen__class_costs_find(const struct pen_setting *setting,
                           const struct pen_plan *plan, uint32_t group,
                           enum pen_recompute recompute,
                           const struct pen__layer_classes *classes,
                           struct pen__class_costs *out);

/* Bytes that one parameter takes on one device, by the sharding of a plan; not
 * more than any parameter does. */
double pen__parameter_bytes(const struct pen_setting *setting,
                            const struct pen_recipe *recipe,
                            enum pen_sharding sharding, double num_replicas);

#endif
