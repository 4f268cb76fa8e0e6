#ifndef PEN_EXPORT_EXPORT_INTERNAL_H
#define PEN_EXPORT_EXPORT_INTERNAL_H

#include "export/export.h"

#include <stdbool.h>

/* The exporters, and the parts that they share; export.c has the list. */

extern const struct pen_export pen__export_megatron;
extern const struct pen_export pen__export_megatron_2026;
extern const struct pen_export pen__export_torchtitan_030;
extern const struct pen_export pen__export_torchtitan_022;
extern const struct pen_export pen__export_deepspeed;
extern const struct pen_export pen__export_nanotron;
extern const struct pen_export pen__export_sbatch;

/* Begins a file. */
struct pen_text *pen__export_open(struct pen_export_files *files,
                                  const char *name);

/*
 * Comments at the head of a file: the program, the plan in a line, what was
 * predicted, the notes.
 */
void pen__export_add_head(const struct pen_export *exporter,
                          const struct pen_export_job *job,
                          struct pen_text *out);

/* Blocks of a stage, without embedding and head. */
uint32_t pen__export_num_blocks(const struct pen_model *model,
                                const struct pen_layer_range *stage);

/* Returns the stage's first block, counted from 0. */
uint32_t pen__export_first_block(const struct pen_layer_range *stage);

bool pen__export_has_embedding(const struct pen_layer_range *stage);
bool pen__export_has_head(const struct pen_model *model,
                          const struct pen_layer_range *stage);

/* ---- towards the nearest plan ---- */

void pen__note(struct pen_text *notes, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Merges several stages on a rank into one; leaves one as it is. */
void pen__nearest_merge(struct pen_plan *plan, const char *program,
                        struct pen_text *notes);

/* Shards weights over all replicas instead of groups of them. */
void pen__nearest_group(struct pen_plan *plan, const char *program,
                        struct pen_text *notes);

/* Chooses one way of recomputation for all stages: the one that keeps least. */
void pen__nearest_recompute(struct pen_plan *plan, const char *program,
                            struct pen_text *notes);

/* Chooses it likewise, where layers are recomputed whole. */
void pen__nearest_whole_recompute(struct pen_plan *plan, const char *program,
                                  struct pen_text *notes);

/* Replaces the schedule by another. */
pen_status pen__nearest_schedule(struct pen_plan *plan, const char *name,
                                 const char *program, struct pen_text *notes,
                                 struct pen_text *why);

/* Refuses a degree above 1, with the reason why. */
pen_status pen__refuse_degree(const struct pen_plan *plan,
                              enum pen_degree degree, const char *program,
                              struct pen_text *why);

/* Checks whether heads, widths and tokens can be cut as tp and cp say. */
pen_status pen__check_cuts(const struct pen_plan *plan,
                           const struct pen_model *model, struct pen_text *why);

/*
 * Returns whether every block is attention and an MLP or experts, of one size.
 */
bool pen__has_usual_blocks(const struct pen_model *model);

/* Refuses others; notes a model that is known by its sizes only. */
pen_status pen__check_blocks(const struct pen_plan *plan,
                             const struct pen_model *model, const char *program,
                             struct pen_text *notes, struct pen_text *why);

/* Checks whether there are experts for ep to share, and ranks to share them. */
pen_status pen__check_experts(const struct pen_plan *plan,
                              const struct pen_model *model,
                              struct pen_text *why);

/*
 * Leaves out what says nothing in this plan: the usual bytes, degrees and
 * modules that are those without a recipe, experts that the model has not.
 */
void pen__nearest_recipe(struct pen_plan *plan, const struct pen_model *model);

/*
 * Refuses members of the recipe that are not among `known`, keys separated by
 * one space, with the reason why.
 */
pen_status pen__check_recipe(const struct pen_plan *plan, const char *known,
                             const char *program, struct pen_text *why);

/* Returns whether the plan's schedule is the one of this name. */
bool pen__schedule_is(const struct pen_plan *plan, const char *name);

#endif
