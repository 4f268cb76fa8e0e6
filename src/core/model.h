#ifndef PEN_CORE_MODEL_H
#define PEN_CORE_MODEL_H

#include "base/status.h"
#include "base/text.h"
#include "core/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A model: what a Hugging Face config.json says of a network, and the tensors
 * that follow from it, with the names and shapes they have in a checkpoint.
 *
 * Layers are counted from the input: 0 is the embedding, 1 to num_blocks are
 * the blocks, num_blocks + 1 is the head (last norm and output matrix). That
 * is the chain which a pipeline cuts. Tensors are numbered in that order.
 *
 * Layers of one kind have the same tensors, so a model keeps one list per kind
 * and makes names when they are asked for: a thousand layers cost nothing.
 */

enum pen_family {
    PEN_FAMILY_GPT2,
    PEN_FAMILY_LLAMA,
    PEN_FAMILY_MISTRAL,
    PEN_FAMILY_QWEN2,
    PEN_FAMILY_QWEN3,
    /* From here on read from tables: model_planned.c. */
    PEN_FAMILY_OPT,
    PEN_FAMILY_BLOOM,
    PEN_FAMILY_GPT_NEOX,
    PEN_FAMILY_BERT,
    PEN_FAMILY_MIXTRAL,
    PEN_FAMILY_QWEN3_MOE,
    PEN_FAMILY_DEEPSEEK_V2,
    PEN_FAMILY_DEEPSEEK_V3,
    PEN_FAMILY_GPT_OSS,
    PEN_FAMILY_GENERAL, /* recognised by its keys: model_general.c */
    PEN_FAMILIES
};

enum pen_model_norm {
    PEN_MODEL_NORM_LAYER, /* mean and variance, weight and bias */
    PEN_MODEL_NORM_RMS    /* mean square, weight */
};

enum pen_activation {
    PEN_ACTIVATION_GELU_TANH, /* up, gelu by tanh ("gelu_new"), down */
    PEN_ACTIVATION_SILU,      /* gated: down(silu(gate) * up) */
    PEN_ACTIVATION_GELU,
    PEN_ACTIVATION_RELU,
    PEN_ACTIVATION_GELU_GATED, /* down(gelu(gate) * up) */
    PEN_ACTIVATION_RELU_SQUARE
};

enum pen_rope_kind {
    PEN_ROPE_NONE, /* positions are learnt, or BLOOM's slopes */
    PEN_ROPE_DEFAULT,
    PEN_ROPE_LINEAR, /* positions divided by factor */
    PEN_ROPE_LLAMA3, /* slow frequencies divided by factor, smoothly */
    PEN_ROPE_YARN    /* likewise, between two numbers of turns */
};

/* Rotary positions; numbers that the kind does not use are 0. */
struct pen_rope {
    enum pen_rope_kind kind;
    double theta;
    double share; /* of a head that is rotated; 0: all of it */
    double factor;
    double low_freq_factor;
    double high_freq_factor;
    uint32_t original_positions;
    double beta_fast; /* YaRN: turns over original_positions that stay */
    double beta_slow; /* and that are divided by factor */
    double mscale;    /* and what the length of heads depends on */
    double mscale_all_dim;
    double attention_factor; /* of cosines and sines; 0: by the two above */
    bool has_exact_ends;     /* YaRN: no whole pairs where the passage ends */
    bool is_unknown;         /* scaled in a way that is not computed */
};

enum pen_layer_kind {
    PEN_LAYER_EMBEDDING,
    PEN_LAYER_BLOCK,
    PEN_LAYER_HEAD,
    PEN_LAYER_KINDS
};

/* How a block mixes the positions of a sequence. */
enum pen_mixer {
    PEN_MIXER_ATTENTION,
    PEN_MIXER_MAMBA, /* Mamba-2: a state for each head, no pairs */
    PEN_MIXER_DELTA, /* gated delta net: the same with another update */
    PEN_MIXER_NONE   /* the block is an MLP and nothing else */
};

enum pen_mlp {
    PEN_MLP_DENSE,
    PEN_MLP_EXPERTS,
    PEN_MLP_NONE /* the block is a mixer and nothing else */
};

/* The differences between blocks of one model. */
struct pen_block {
    enum pen_mixer mixer;
    enum pen_mlp mlp;
    uint32_t window; /* positions that its attention sees; 0: all */
    uint32_t head_dim;
    uint32_t num_kv_heads;
    uint32_t compression;   /* positions that become one key; 0: none do */
    bool is_picked;         /* attention sees index_topk keys, picked */
    bool has_indexer;       /* picks them; otherwise a block before it does */
    bool has_shared_values; /* the keys are the values, too */
    bool has_fixed_choice;  /* of experts, by token: no bias of the router */
};

#define PEN_MAX_BLOCK_KINDS 16u

/* Sizes of Mamba-2 or of a gated delta net; num_heads is 0 without. */
struct pen_recurrence {
    uint32_t num_heads; /* of values */
    uint32_t head_dim;
    uint32_t num_groups; /* heads of keys; Mamba: of B and C */
    uint32_t state_dim;  /* of a key */
    uint32_t conv_kernel;
    uint32_t chunk; /* positions that are computed as pairs */
    bool has_conv_bias;
    bool has_bias;
};

/* The kind of a weight, by which an optimizer decides whether to decay it. */
enum pen_role {
    PEN_ROLE_MATRIX,
    PEN_ROLE_BIAS,
    PEN_ROLE_NORM, /* weights and biases of norms */
    PEN_ROLE_FIXED /* no optimizer steps it */
};

/* The place of a tensor in its layer, whatever the family calls it. */
enum pen_part {
    PEN_PART_TOKEN_EMBEDDING,
    PEN_PART_POSITION_EMBEDDING,
    PEN_PART_ATTENTION_NORM,
    PEN_PART_ATTENTION_NORM_BIAS,
    PEN_PART_QKV, /* queries, keys and values side by side */
    PEN_PART_QKV_BIAS,
    PEN_PART_Q,
    PEN_PART_Q_BIAS,
    PEN_PART_Q_DOWN, /* latent attention; then PEN_PART_Q is the way up */
    PEN_PART_Q_DOWN_BIAS,
    PEN_PART_Q_LOW_NORM,
    PEN_PART_KV_DOWN,
    PEN_PART_KV_DOWN_BIAS,
    PEN_PART_KV_LOW_NORM,
    PEN_PART_KV_UP,
    PEN_PART_K,
    PEN_PART_K_BIAS,
    PEN_PART_V,
    PEN_PART_V_BIAS,
    PEN_PART_Q_NORM, /* per head, before the rotation */
    PEN_PART_K_NORM,
    PEN_PART_SINKS, /* a logit of each head that no position has */
    PEN_PART_ATTENTION_OUT,
    PEN_PART_ATTENTION_OUT_BIAS,
    PEN_PART_MLP_NORM,
    PEN_PART_MLP_NORM_BIAS,
    PEN_PART_GATE,
    PEN_PART_GATE_BIAS,
    PEN_PART_UP,
    PEN_PART_UP_BIAS,
    PEN_PART_DOWN,
    PEN_PART_DOWN_BIAS,
    PEN_PART_SHARED_GATE, /* the MLP of all tokens in addition to the experts */
    PEN_PART_SHARED_UP,
    PEN_PART_SHARED_DOWN,
    PEN_PART_ROUTER,
    PEN_PART_ROUTER_BIAS,
    PEN_PART_ROUTER_OFFSET, /* added to scores for the choice alone */
    PEN_PART_EXPERT_GATE,   /* and the next two: one of each expert */
    PEN_PART_EXPERT_UP,
    PEN_PART_EXPERT_DOWN,
    PEN_PART_EXPERT_WIDE, /* gate and up, whose outputs take turns */
    PEN_PART_EXPERT_WIDE_BIAS,
    PEN_PART_EXPERT_DOWN_BIAS,
    PEN_PART_FINAL_NORM,
    PEN_PART_FINAL_NORM_BIAS,
    PEN_PART_HEAD,
    PEN_PART_LOCAL_NORM, /* of a head in the middle: model_local.c */
    PEN_PART_LOCAL_NORM_BIAS,
    PEN_PART_LOCAL_HEAD,
    PEN_PARTS
};

/*
 * The lists of tensors of a model: one for each kind of layer, and one more for
 * blocks that have experts.
 */
enum { PEN_TENSOR_LISTS = PEN_LAYER_KINDS + 1 };

/* Tensors of a head in the middle, at most: a norm with its bias, a matrix. */
enum { PEN_LOCAL_FORMS = 3 };

/* The common part of a tensor in all layers of one list. */
struct pen_tensor_form {
    enum pen_part part;
    enum pen_role role;
    bool is_input_first; /* a matrix stored [in, out], as GPT-2 does */
    const char *name;    /* follows the prefix of the layer; a constant */
    const char *tail;    /* follows the number of an expert; NULL: no expert */
    bool is_stacked;     /* the first dimension counts experts */
    uint32_t num_dims;
    uint64_t shape[3];
    uint64_t num_elements;
};

struct pen_image_model; /* core/image_model.h */

#define PEN_MODEL_TYPE_SIZE 48

struct pen_model {
    enum pen_family family;
    uint32_t hidden;
    uint32_t num_blocks;
    uint32_t num_heads;
    uint32_t num_kv_heads;
    uint32_t head_dim;     /* num_heads * head_dim need not be hidden */
    uint32_t intermediate; /* of a block without experts */
    uint32_t vocab;
    uint32_t max_positions;
    enum pen_model_norm norm;
    double norm_eps;
    enum pen_activation activation;
    struct pen_rope rope;
    uint32_t window; /* positions a windowed block sees; 0: all */
    uint32_t first_window_block;
    bool has_alternate_windows; /* every second block sees all positions */
    bool has_tied_embeddings;   /* the head uses the token embedding */
    bool has_qkv_bias;
    bool has_attention_out_bias;
    bool has_mlp_bias;
    bool has_qk_norm;
    enum pen_dtype dtype; /* of the weights on disk, as far as the file says */

    /* For families for planning only; 0 and false in the others. */
    uint32_t embedding_dim;     /* of a token, if it is not hidden */
    uint32_t num_token_types;   /* rows that BERT adds by segment */
    bool has_embedding_norm;    /* BLOOM, BERT */
    bool is_post_norm;          /* norms after the sums, none in the head */
    bool has_parallel_residual; /* attention and MLP have the same input */
    bool has_attention_sinks;   /* one number per head */

    /* Experts; num_experts is 0 where every token takes the same weights. */
    uint32_t num_experts; /* of a block, routed */
    uint32_t experts_per_token;
    uint32_t expert_intermediate;
    uint32_t num_shared_experts; /* as wide as the others; for every token */
    uint32_t num_dense_blocks;   /* at the input, without experts */
    uint32_t sparse_step;        /* every how many blocks has experts */
    bool has_plain_gates;        /* not divided by the sum of those chosen */
    bool has_sigmoid_gates; /* scores are sigmoids of logits, not a softmax */
    uint32_t num_expert_groups; /* experts come from some of these; 0: one */
    uint32_t chosen_groups;
    double gate_scale;       /* gates are multiplied by it; 0: by 1 */
    bool has_neighbour_rope; /* neighbours in a head turn, not its halves */
    bool has_router_bias;
    bool has_expert_bias;
    double gate_alpha; /* of gates that are clamped: gate_limit is above 0 */
    double gate_limit;
    uint32_t num_mtp_layers; /* predict further tokens; in no other count */

    /* Latent attention; kv_lora_rank is 0 where there is none. */
    uint32_t q_lora_rank; /* 0: queries straight from the input */
    uint32_t kv_lora_rank;
    uint32_t qk_nope_dim; /* of a head, together head_dim */
    uint32_t qk_rope_dim;
    uint32_t v_head_dim; /* head_dim where there is no latent attention */

    /* Blocks by kind; set for every family when a model is made. */
    struct pen_block kinds[PEN_MAX_BLOCK_KINDS];
    uint32_t num_kinds;
    uint8_t *kind_of_block; /* owned; NULL: a network for images */
    uint8_t mtp_kinds[2];   /* the blocks of a layer that predicts further */
    uint32_t num_mtp_kinds;
    uint32_t shared_intermediate; /* of all shared experts together */

    /* For PEN_FAMILY_GENERAL only; 0 and false in the others. */
    char type[PEN_MODEL_TYPE_SIZE]; /* model_type */
    bool is_guessed;                /* of a type that Penstock does not know */
    bool is_text_part;              /* of a model that has others */
    uint32_t window_step;     /* every how many blocks sees all; 0: none */
    uint32_t global_head_dim; /* of blocks that see all; 0: as the others */
    uint32_t global_kv_heads;
    bool has_shared_values; /* keys are values, too; of those, if it is */
    uint32_t expert_hidden; /* width of what experts take; 0: hidden */
    bool has_shared_gate;   /* one number that weighs the shared experts */
    bool has_side_experts;  /* in addition to the MLP, with norms and scales */
    bool has_output_norms;  /* norms also after attention and MLP */
    bool has_output_gate;   /* of attention, as wide as the queries */
    bool has_wide_qk_norm;  /* over all heads at once */
    bool has_key_norm;      /* of keys alone */
    uint32_t output_groups; /* the way out of attention is cut in these */
    uint32_t output_rank;   /* and passes so narrow a layer each; 0: not */
    uint32_t index_heads;   /* of what picks keys */
    uint32_t index_dim;
    uint32_t index_topk;
    bool has_index_weights;   /* one for each head that picks */
    uint32_t block_input_dim; /* not counted, nor are keys that blocks share */
    uint32_t num_kv_shared_blocks;
    uint32_t num_streams; /* hyper-connections: residuals; 0: one */
    struct pen_recurrence recurrence;

    /* The forms of one list are together; in it, those of experts come last. */
    struct pen_tensor_form forms[2 * PEN_PARTS];
    uint32_t first_form[PEN_TENSOR_LISTS + 1];
    uint32_t num_expert_forms;
    uint32_t num_layers;  /* num_blocks + 2 */
    uint32_t num_tensors; /* 0 in families for planning */

    /* Heads in the middle; 0 and none without (model_local.c). */
    uint32_t num_sections;
    uint32_t num_local_forms;
    struct pen_tensor_form local_forms[PEN_LOCAL_FORMS];
    uint64_t num_parameters;

    /* A network for images (model_images.c), owned; NULL: it is for text. */
    struct pen_image_model *images;
};

#define PEN_TENSOR_NAME_SIZE 96

struct pen_tensor_info {
    char name[PEN_TENSOR_NAME_SIZE]; /* as transformers saves it */
    uint32_t layer;
    uint32_t expert;                    /* that it belongs to; 0 otherwise */
    const struct pen_tensor_form *form; /* borrowed until the model is freed */
};

/*
 * Loads "preset:gpt2" or another of model_presets.c, a config.json or a
 * directory that has one; also what llm-analysis and GPT-NeoX have instead
 * (model_dialect.c). Keys that Penstock does not know are ignored; settings
 * that would change the network and are not supported are refused.
 *
 * On success *out is owned by the caller; free it with pen_model_free(). On
 * failure why has the path and the key, or line and column.
 */
pen_status pen_model_load(const char *source, struct pen_model **out,
                          struct pen_text *why);

/* Returns the names of presets, without "preset:"; NULL after the last one. */
const char *pen_model_preset_at(size_t index);

/* Parses such a model from the text of a config.json. */
pen_status pen_model_parse(const char *text, size_t length,
                           struct pen_model **out, struct pen_text *why);

/*
 * Load a model of the above, or an image network: models that plan, predict and
 * profile take. The layers of an image network are its own: the first
 * represents the embedding, the last is the head, those between are the blocks,
 * a sequence is one image, and it has no tensors here. An image network has 2
 * to 64 layers.
 */
pen_status pen_model_load_any(const char *source, struct pen_model **out,
                              struct pen_text *why);
pen_status pen_model_parse_any(const char *text, size_t length,
                               struct pen_model **out, struct pen_text *why);

void pen_model_free(struct pen_model *model);

/*
 * Writes a config.json that Penstock and transformers read as this model; one
 * of PEN_FAMILY_GENERAL is for Penstock alone.
 */
void pen_model_print(const struct pen_model *model, struct pen_text *out);

/* Returns "llama" or the like, as model_type has it; a constant. */
const char *pen_family_name(enum pen_family family);
const char *pen_model_type(const struct pen_model *model);

enum pen_layer_kind pen_model_layer_kind(const struct pen_model *model,
                                         uint32_t layer);

/* Finds the tensors of a layer, *first to *first + count - 1; returns count. */
uint32_t pen_model_layer_tensors(const struct pen_model *model, uint32_t layer,
                                 uint32_t *first);

/* Returns a tensor; tensor < num_tensors. */
void pen_model_tensor(const struct pen_model *model, uint32_t tensor,
                      struct pen_tensor_info *out);

/*
 * Returns the tensor of this part in this layer, or num_tensors if it has none.
 * If every expert has the part, it is that of expert 0; the next function takes
 * an expert.
 */
uint32_t pen_model_find_part(const struct pen_model *model, uint32_t layer,
                             enum pen_part part);
uint32_t pen_model_find_expert_part(const struct pen_model *model,
                                    uint32_t layer, uint32_t expert,
                                    enum pen_part part);

/*
 * Returns the name without the part that the outer module puts before it:
 * checkpoints of the bare network, as gpt2's own, have "h.0.ln_1.weight".
 * Points into name.
 */
const char *pen_model_bare_name(const struct pen_model *model,
                                const char *name);

/*
 * Returns whether train, eval, generate and profile run this family. If not,
 * why says so and the answer is PEN_INVALID: such a model has no list of
 * tensors.
 */
pen_status pen_model_check_trainable(const struct pen_model *model,
                                     struct pen_text *why);

/*
 * Local updates (model_local.c): cuts the blocks into sections, as even as
 * can be, which learn from losses of their own. The last block of each section
 * but the last then has a head in the middle: a norm and an output matrix,
 * whose tensors follow all others. They are in no file of the model itself: a
 * checkpoint has them in addition. 1 changes nothing. INVALID, with a reason,
 * where there are fewer blocks, or the model has heads already.
 */
pen_status pen_model_add_local_heads(struct pen_model *model, uint32_t sections,
                                     struct pen_text *why);

/* Returns whether a layer is a block with such a head. */
bool pen_model_has_local_head(const struct pen_model *model, uint32_t layer);

/* Returns the last layer of a section: of the last one, the model's head. */
uint32_t pen_model_section_end(const struct pen_model *model, uint32_t section);

/* Returns the parameters of one head in the middle. */
uint64_t pen_model_local_parameters(const struct pen_model *model);

/*
 * Counts, from the sizes alone (model_shape.c).
 */

/*
 * Returns the parameters of a layer. A tied output matrix counts where it is
 * stored, in the embedding.
 */
uint64_t pen_model_layer_parameters(const struct pen_model *model,
                                    uint32_t layer);

/* Returns the parameters of a layer's routed experts. */
uint64_t pen_model_expert_parameters(const struct pen_model *model,
                                     uint32_t layer);

/* Returns the parameters of the whole model that one token uses. */
uint64_t pen_model_active_parameters(const struct pen_model *model);

/*
 * Returns the parameters of one layer that predicts a further token. It shares
 * the model's embedding and output matrix. 0 where num_mtp_layers is.
 */
uint64_t pen_model_mtp_parameters(const struct pen_model *model);

/* Entries of the token embedding, or of the output matrix. */
uint64_t pen_model_vocab_parameters(const struct pen_model *model);

/* Entries of the matrices that one token is multiplied with in a block. */
uint64_t pen_model_block_products(const struct pen_model *model,
                                  uint32_t block);

/* Returns the same for the head. */
uint64_t pen_model_head_products(const struct pen_model *model);

bool pen_model_block_is_sparse(const struct pen_model *model, uint32_t block);

/* Returns whether an MLP or expert has three matrices: gate, up and down. */
bool pen_model_has_gate(const struct pen_model *model);

/*
 * Returns whether every position sees only those before it; not so in an
 * encoder.
 */
bool pen_model_is_causal(const struct pen_model *model);

/* Return the composition of block 0, 1, ..., and its index in model->kinds. */
const struct pen_block *pen_model_block(const struct pen_model *model,
                                        uint32_t block);
uint32_t pen_model_block_kind(const struct pen_model *model, uint32_t block);

/*
 * Returns the flops of one sequence in the mixer of a block, forward, in
 * addition to its products with weights: pairs of positions, or the states of a
 * recurrence.
 */
double pen_model_mixer_flops(const struct pen_model *model,
                             const struct pen_block *block, double sequence);

/*
 * Returns the width per token of the first product of Mamba-2 or of a gated
 * delta net.
 */
uint64_t pen_model_recurrence_width(const struct pen_model *model,
                                    enum pen_mixer mixer);

/* Sentences for the user, a line each, of what is assumed or left out. */
void pen_model_add_warnings(const struct pen_model *model,
                            struct pen_text *out);

/*
 * Returns how many positions the attention of block 0, 1, ... sees; 0 means
 * all.
 */
uint32_t pen_model_window(const struct pen_model *model, uint32_t block);

#endif
