#ifndef PEN_EXPORT_MEGATRON_SHAPE_H
#define PEN_EXPORT_MEGATRON_SHAPE_H

#include "core/model.h"
#include "export/megatron_words.h"

/* The sizes of a Megatron line's model; those that it has not are 0. */
struct pen__megatron_shape {
    enum pen_family family;
    uint32_t num_blocks;
    uint32_t hidden;
    uint32_t intermediate;
    uint32_t num_heads;
    uint32_t num_kv_heads;
    uint32_t head_dim;
    uint32_t max_positions;
    uint32_t vocab;
    uint32_t window;
    uint32_t first_window_block;
    uint32_t rotary_base;
    uint32_t rotary_factor;
    double rope_factor;
    double norm_eps;
    uint32_t num_experts;
    uint32_t experts_per_token;
    uint32_t expert_intermediate;
    uint32_t shared_intermediate;
    uint32_t num_dense_blocks;
    uint32_t sparse_step;
    uint32_t q_lora_rank;
    uint32_t kv_lora_rank;
    uint32_t qk_nope_dim;
    uint32_t qk_rope_dim;
    uint32_t v_head_dim;
    bool has_rope;
    bool has_all_biases;
};

/* Prints the shape as a config.json of the family. */
void pen__megatron_shape_print(const struct pen__megatron_words *words,
                               const struct pen__megatron_shape *shape,
                               struct pen_text *out);

#endif
