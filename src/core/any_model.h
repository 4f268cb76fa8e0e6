#ifndef PEN_CORE_ANY_MODEL_H
#define PEN_CORE_ANY_MODEL_H

#include "core/image_model.h"
#include "core/weights.h"

/*
 * A model of either kind, for whatever asks only for its tensors and their
 * names: checkpoints, hashes, the trainer.
 */
struct pen_any_model {
    struct pen_model *decoder;      /* one of the two, */
    struct pen_image_model *images; /* the other is NULL */
};

/*
 * Loads what pen_model_load() or pen_image_model_load() does; model_type or the
 * name of the preset says which. A model for planning is refused. On success
 * release it.
 */
pen_status pen_any_model_load(struct pen_any_model *out, const char *source,
                              struct pen_text *why);
void pen_any_model_release(struct pen_any_model *model);

/* Writes a config.json that is read as this model, with weights of a type. */
void pen_any_model_print(const struct pen_any_model *model,
                         enum pen_dtype dtype, struct pen_text *out);

uint64_t pen_any_model_num_parameters(const struct pen_any_model *model);
uint32_t pen_any_model_num_tensors(const struct pen_any_model *model);

/* A tensor as checkpoints have it. */
struct pen_any_tensor {
    char name[PEN_TENSOR_NAME_SIZE];
    enum pen_dtype dtype; /* F32; I64 for a number of batches */
    uint32_t num_dims;
    uint64_t shape[4];
    uint64_t num_elements;
    bool is_trained;      /* has gradient and moments, else is a statistic */
    bool is_block_matrix; /* neither of the ends, nor a bias or norm */
};

/* Returns a tensor of the model; tensor < num_tensors. */
void pen_any_model_tensor(const struct pen_any_model *model, uint32_t tensor,
                          struct pen_any_tensor *out);

/*
 * Finds a tensor like pen_weights_find_tensor() or
 * pen_weights_find_image_tensor().
 */
pen_status pen_any_model_find(const struct pen_any_model *model,
                              uint32_t tensor,
                              const struct pen_weights *weights,
                              const struct pen_safetensor **out,
                              struct pen_text *why);

#endif
