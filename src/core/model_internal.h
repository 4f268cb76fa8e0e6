#ifndef PEN_CORE_MODEL_INTERNAL_H
#define PEN_CORE_MODEL_INTERNAL_H

#include "core/model.h"

#include "base/json.h"

/* Chosen so that no count of bytes of a layer leaves 64 bits. */
#define PEN__MAX_HIDDEN (1u << 18)
#define PEN__MAX_BLOCKS (1u << 16)
#define PEN__MAX_HEADS (1u << 16)
#define PEN__MAX_EXPERTS (1u << 14)
#define PEN__MAX_WIDTH (1u << 22)
#define PEN__MAX_VOCAB (1u << 24)
#define PEN__MAX_POSITIONS (1u << 30)

/* The same for all layers together. */
#define PEN__MAX_PARAMETERS ((uint64_t)1 << 60)

/* Copies the shape and lists its tensors. Takes over shape->kind_of_block, also
 * when it fails. */
pen_status pen__model_create(const struct pen_model *shape,
                             struct pen_model **out, struct pen_text *why);

/* The tensors of heads in the middle, and their parts (model_local.c). */
uint32_t pen__model_num_local_tensors(const struct pen_model *model);
void pen__model_local_tensor(const struct pen_model *model, uint32_t index,
                             struct pen_tensor_info *out);
uint32_t pen__model_find_local_part(const struct pen_model *model,
                                    uint32_t layer, enum pen_part part);

/* Counts all parameters; false if there are more than the most. */
bool pen__model_count(const struct pen_model *model, uint64_t *out);

/*
 * Families for planning: keys of a config.json in addition to those of all
 * families, read and printed from one table.
 */
pen_status pen__model_read_planned(const struct pen_json *json,
                                   struct pen_model *model,
                                   struct pen_text *why);
void pen__model_print_planned(const struct pen_model *model,
                              struct pen_text *out);

/*
 * The part of a config.json that describes the model: in one for text and
 * images, the part for text. That part may leave its type and more to the
 * whole.
 */
struct pen__model_part {
    struct pen_json whole;
    struct pen_json text; /* the same, if there are no parts */
    bool is_part;
    char type[PEN_MODEL_TYPE_SIZE];
};

pen_status pen__model_open_part(const struct pen_json *json,
                                struct pen__model_part *out,
                                struct pen_text *why);

/* Returns the object that has a key: the part, if the key is there. */
const struct pen_json *pen__model_place(const struct pen__model_part *part,
                                        const char *key);

/*
 * Reads any decoder that states its sizes, whatever its type (model_general.c).
 * The keys are those of its text part; *type is its model_type.
 */
pen_status pen__model_read_general(const struct pen_json *json,
                                   const char *type, struct pen_model *model,
                                   struct pen_text *why);
pen_status pen__model_read_keys(const struct pen_json *json,
                                struct pen_model *model, struct pen_text *why);
enum pen_activation pen__model_read_activation(const struct pen_json *json);
void pen__model_print_general(const struct pen_model *model,
                              struct pen_text *out);

/* Entries of the matrices of what mixes positions, and of the rest of it. */
uint64_t pen__mixer_matrices(const struct pen_model *model,
                             const struct pen_block *block);
uint64_t pen__mixer_vectors(const struct pen_model *model,
                            const struct pen_block *block);

/* Reads which blocks are alike, from lists or steps (model_block_lists.c). */
pen_status pen__model_read_blocks(const struct pen_json *json,
                                  struct pen_model *model,
                                  struct pen_text *why);
void pen__model_print_blocks(const struct pen_model *model,
                             struct pen_text *out);

/*
 * Returns whether a block has experts, by the first block with experts and the
 * step between them.
 */
bool pen__model_has_experts(const struct pen_model *model, uint32_t block);

/* Fills kinds and kind_of_block where no list did. */
bool pen__model_fill_blocks(struct pen_model *model);

/*
 * Returns whether such a model has one matrix for words, where no key says so.
 */
bool pen__model_is_tied(const char *type);

/*
 * Turns keys of llm-analysis into those of Hugging Face, or replaces a text
 * other than JSON by the same settings as GPT-NeoX reads it. Drop out->object
 * with json_decref().
 */
pen_status pen__model_load_keys(const char *text, size_t length,
                                struct pen_json *out, struct pen_text *why);

/* Find and make the model of a preset by its name, without "preset:". */
bool pen__model_is_preset(const char *name);
pen_status pen__model_make_preset(const char *name, struct pen_model **out,
                                  struct pen_text *why);

#endif
