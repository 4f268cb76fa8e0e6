#ifndef PEN_EXPORT_TORCHTITAN_H
#define PEN_EXPORT_TORCHTITAN_H

#include "export/export_internal.h"

/* The common part of the exports to torchtitan's versions. */

/* A model that torchtitan has by name. */
struct pen__titan_flavour {
    const char *module;    /* "llama3" */
    const char *flavour;   /* "8B"; of 0.2.2, or NULL */
    const char *configure; /* "llama3_8b"; function of 0.3.0, or NULL */
};

/* Returns the flavour with these numbers, or NULL. */
const struct pen__titan_flavour *
pen__titan_flavour(const struct pen_model *model);

/*
 * Returns "llama3" or another module that has the layers of this model, or
 * NULL.
 */
const char *pen__titan_module(const struct pen_model *model);

/* The version that an export is written for, where they differ. */
struct pen__titan {
    const char *program;
    bool is_old; /* 0.2.2 */
};

pen_status pen__titan_fit(const struct pen__titan *titan, struct pen_plan *plan,
                          const struct pen_model *model, struct pen_text *notes,
                          struct pen_text *why);

/* Degrees and dispatcher of experts, before they are checked. */
pen_status pen__titan_fit_experts(const struct pen__titan *titan,
                                  struct pen_plan *plan, struct pen_text *notes,
                                  struct pen_text *why);

/* Fits the rest of the recipe, once schedule and recomputation are settled. */
pen_status pen__titan_fit_recipe(const struct pen__titan *titan,
                                 struct pen_plan *plan, struct pen_text *notes,
                                 struct pen_text *why);

/* Returns whether the schedule may overlap messages of experts. */
bool pen__titan_can_overlap(const struct pen_plan *plan);

/*
 * Finds the name of the schedule; rows of a schedule that torchtitan does not
 * make itself are added to csv.
 */
pen_status pen__titan_schedule(const struct pen_plan *plan, const char **name,
                               struct pen_text *csv, struct pen_text *why);

/* Modules of a stage, parted by `comma`, each in `quote`s. */
void pen__titan_add_modules(const struct pen_model *model,
                            const struct pen_layer_range *stage,
                            const char *head, const char *quote,
                            const char *comma, struct pen_text *out);

/* Keys and numbers that both versions have. */
struct pen__titan_numbers {
    uint32_t replicas;
    uint32_t shards;
    const char *reshard; /* fsdp_reshard_after_forward */
    uint64_t local_batch;
    uint64_t global_batch;
    const char *dtype; /* mixed_precision_param */
};

struct pen__titan_numbers pen__titan_numbers(const struct pen_plan *plan);

#endif
