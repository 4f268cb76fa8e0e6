#ifndef PEN_PLANNER_LAYER_OPERATIONS_H
#define PEN_PLANNER_LAYER_OPERATIONS_H

#include "planner/operations.h"
#include "planner/predict.h"

/* The sizes of a layer on one rank, and the operations of a block. */

struct pen__layer {
    const struct pen_setting *setting;
    const struct pen_recipe *recipe;
    const struct pen_device *device;
    const struct pen_block *block; /* NULL: embedding or head */
    double parts;       /* of a block: attention and MLP, or one of them */
    bool has_own_mixer; /* see layer_mixer.h */
    double tp;
    double cp;
    double ep;
    double etp;      /* ranks that share the tensors of an expert */
    double rows_tp;  /* over which norms and residuals are cut */
    double batch;    /* sequences */
    double sequence; /* tokens of one on this rank */
    double tokens;   /* of all of them */
    double hidden;
    double heads; /* of this rank */
    double head_dim;
    double query;   /* width of all queries of this rank */
    double key;     /* of its keys; without latent attention of values, too */
    double value;   /* of what attention gives */
    double window;  /* positions that a query sees; 0: all before it */
    double inner;   /* of the MLP that every token takes, on this rank */
    double experts; /* on this rank; 0: the block has none */
    double expert_inner;
    double expert_width; /* of what experts take and give */
    double dispatched;   /* tokens that this rank sends to experts */
    double routed;       /* that come to its own, all together */
    double element;      /* bytes */
    bool has_gate;
};

/* The sizes of layer `index` under a plan, on this group of devices. */
void pen__layer_open(const struct pen_setting *setting,
                     const struct pen_plan *plan, uint32_t group,
                     uint32_t index, struct pen__layer *out);

/* Width of the first product of an MLP: twice with a gate. */
double pen__layer_up_width(const struct pen__layer *layer, double inner);

/* Queries by keys, softmax, by values. */
void pen__layer_list_attention(const struct pen__layer *layer, bool is_backward,
                               struct pen_operation_list *list);

/* The operations in the passes of a block. */
void pen__layer_list_forward(const struct pen__layer *layer,
                             struct pen_operation_list *list);
void pen__layer_list_input(const struct pen__layer *layer,
                           struct pen_operation_list *list);
void pen__layer_list_weight(const struct pen__layer *layer,
                            struct pen_operation_list *list);

/* The operations in the forward of one of its modules. */
void pen__layer_list_module(const struct pen__layer *layer,
                            enum pen_module module,
                            struct pen_operation_list *list);

/*
 * Norms whose results recomputation or offload frees. Transformer Engine joins
 * the norm before plain attention and the one before a dense MLP with the
 * product that follows, and Megatron-LM then leaves them as they are; and all
 * norms inside graphs of modules.
 */
double pen__layer_free_norms(const struct pen__layer *layer);

/* Tokens to their experts and back again, once. */
double pen__layer_exchange_time(const struct pen__layer *layer);

/*
 * Seconds of the host for the experts of one pass, apart from their launches.
 */
double pen__layer_expert_wait(const struct pen__layer *layer);

/* Modules, as bits, that selective recomputation computes again. */
unsigned pen__layer_modules(const struct pen__layer *layer);

/* Bytes that a block keeps and needs, without its parameters. */
void pen__layer_fill_bytes(const struct pen__layer *layer,
                           enum pen_recompute recompute,
                           struct pen_layer_bytes *out);

/*
 * Elements that the gradients of a block's weights are computed from: the
 * gradients of the results of all products, and their inputs.
 */
double pen__layer_held_elements(const struct pen__layer *layer,
                                bool has_inputs);

/*
 * The gradient of `batch` weights of [rows, columns] over `tokens` tokens each,
 * and its way into the sum over the micro-batches.
 */
void pen__layer_add_gradient(const struct pen__layer *layer, double batch,
                             double rows, double columns, double tokens,
                             struct pen_operation_list *list);

/*
 * Turns the prediction of a layer without recomputation into that with it, as
 * pen_predict_layer() has it; its passes are the same.
 */
void pen__layer_recompute(const struct pen_setting *setting,
                          const struct pen_plan *plan, uint32_t group,
                          uint32_t index, enum pen_recompute recompute,
                          struct pen_layer_time *time,
                          struct pen_layer_bytes *bytes);

/* Adds `count` times the seconds of a layer to a sum. */
void pen__layer_time_add(const struct pen_layer_time *time, double count,
                         struct pen_layer_time *sum);

/* Seconds of a device that runs while the host launches what comes next. */
double pen__layer_blend(double device_sec, double host_sec);

/* As pen_predict_layer(), of a network for images. */
void pen__image_layer_predict(const struct pen_setting *setting,
                              const struct pen_plan *plan, uint32_t group,
                              uint32_t index, struct pen_layer_time *time,
                              struct pen_layer_bytes *bytes);

#endif
