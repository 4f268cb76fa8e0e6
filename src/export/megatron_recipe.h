#ifndef PEN_EXPORT_MEGATRON_RECIPE_H
#define PEN_EXPORT_MEGATRON_RECIPE_H

#include "export/export_internal.h"
#include "export/megatron_words.h"

/* A plan's recipe in options of Megatron-LM, there and back. */

/* The version that an export is written for. */
struct pen__megatron {
    const char *program;
    bool is_new; /* of 2026: no judge has it */
};

/*
 * Towards the nearest recipe; refuses what there is no option for. Degrees,
 * schedule and recomputation are those of the nearest plan already.
 */
pen_status pen__megatron_fit_recipe(const struct pen__megatron *version,
                                    struct pen_plan *plan,
                                    const struct pen_model *model,
                                    struct pen_text *notes,
                                    struct pen_text *why);

/*
 * Adds the options of a plan's recipe, of its sharding and of its
 * recomputation.
 */
void pen__megatron_add_recipe(const struct pen__megatron *version,
                              const struct pen_plan *plan,
                              const struct pen_model *model,
                              struct pen_text *out);

/*
 * Reads them back into a plan whose degrees, numbers, sharding and
 * recomputation are set.
 */
pen_status pen__megatron_read_recipe(const struct pen__megatron_words *words,
                                     struct pen_plan *plan,
                                     struct pen_text *notes,
                                     struct pen_text *why);

/* Modules in Megatron's words: one for each kind of bits. */
struct pen__megatron_module {
    const char *word;
    unsigned bits; /* 1u << PEN_MODULE_... */
};

/* The modules of --offload-modules; NULL after the last one. */
extern const struct pen__megatron_module pen__megatron_offloads[];

/* Returns whether Adam keeps its state in a special way. */
bool pen__megatron_is_aware(const struct pen_recipe *recipe);

/*
 * Returns whether experts are computed without the host's help, which needs
 * room.
 */
bool pen__megatron_is_sync_free(const struct pen_recipe *recipe,
                                const struct pen_model *model);

/* Bytes of exp_avg and exp_avg_sq, as "fp32", for both together. */
struct pen__megatron_moments {
    uint32_t bytes;
    const char *first;
    const char *second;
};

/* A table that ends with an entry of 0 bytes. */
extern const struct pen__megatron_moments pen__megatron_moments[];

#endif
