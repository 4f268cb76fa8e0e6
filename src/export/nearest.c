/*
 * Steps towards the nearest plan that a program has words for. Each says in a
 * line what it changed; a plan that needs no change passes in silence.
 */
#include "export/export_internal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void pen__note(struct pen_text *notes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pen_text_add_list(notes, format, args);
    va_end(args);
    pen_text_add_string(notes, "\n");
}

void pen__nearest_group(struct pen_plan *plan, const char *program,
                        struct pen_text *notes)
{
    if (plan->sharding_group == 0)
        return;
    pen__note(notes,
              "the export for %s shards weights over all replicas instead of "
              "groups of %u",
              program, plan->sharding_group);
    plan->sharding_group = 0;
}

static enum pen_recompute stronger(enum pen_recompute a, enum pen_recompute b)
{
    return a > b ? a : b;
}

void pen__nearest_merge(struct pen_plan *plan, const char *program,
                        struct pen_text *notes)
{
    uint32_t vpp = plan->degrees[PEN_DEGREE_VPP];
    uint32_t pp = plan->degrees[PEN_DEGREE_PP];
    if (vpp == 1)
        return;
    const struct pen_layer_range *next = plan->stages;
    for (uint32_t rank = 0; rank < pp; rank++) {
        struct pen_layer_range merged = *next++;
        for (uint32_t i = 1; i < vpp; i++, next++) {
            merged.count += next->count;
            merged.recompute = stronger(merged.recompute, next->recompute);
        }
        plan->stages[rank] = merged;
    }
    plan->degrees[PEN_DEGREE_VPP] = 1;
    plan->num_stages = pp;
    pen__note(notes,
              "%s supports one stage per rank in this case: %u consecutive "
              "stages are joined",
              program, vpp);
}

void pen__nearest_recompute(struct pen_plan *plan, const char *program,
                            struct pen_text *notes)
{
    enum pen_recompute strongest = PEN_RECOMPUTE_NONE;
    bool is_even = true;
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        strongest = stronger(strongest, plan->stages[i].recompute);
        is_even =
            is_even && plan->stages[i].recompute == plan->stages[0].recompute;
    }
    if (is_even)
        return;
    for (uint32_t i = 0; i < plan->num_stages; i++)
        plan->stages[i].recompute = strongest;
    pen__note(notes,
              "%s recomputes in all stages or in none: all stages get %s "
              "recomputation, which costs time and saves memory",
              program, pen_recompute_names[strongest]);
}

void pen__nearest_whole_recompute(struct pen_plan *plan, const char *program,
                                  struct pen_text *notes)
{
    pen__nearest_recompute(plan, program, notes);
    if (plan->stages[0].recompute != PEN_RECOMPUTE_SELECTIVE)
        return;
    for (uint32_t i = 0; i < plan->num_stages; i++)
        plan->stages[i].recompute = PEN_RECOMPUTE_FULL;
    pen__note(notes,
              "%s recomputes only whole layers: the export uses full instead "
              "of selective recomputation",
              program);
}

bool pen__schedule_is(const struct pen_plan *plan, const char *name)
{
    return plan->schedule.name != NULL &&
           strcmp(plan->schedule.name, name) == 0;
}

pen_status pen__nearest_schedule(struct pen_plan *plan, const char *name,
                                 const char *program, struct pen_text *notes,
                                 struct pen_text *why)
{
    struct pen_plan_schedule *schedule = &plan->schedule;
    if (pen__schedule_is(plan, name))
        return PEN_OK;
    if (plan->degrees[PEN_DEGREE_PP] > 1)
        pen__note(notes, "%s has no schedule %s: the export uses %s", program,
                  schedule->name != NULL ? schedule->name : schedule->file,
                  name);
    char *word = NULL;
    if (!pen_plan_set(&word, name)) {
        pen_why(why, "no memory for a plan");
        return PEN_NOMEM;
    }
    free(schedule->name);
    free(schedule->file);
    *schedule = (struct pen_plan_schedule){.name = word};
    return PEN_OK;
}

pen_status pen__refuse_degree(const struct pen_plan *plan,
                              enum pen_degree degree, const char *program,
                              struct pen_text *why)
{
    static const char *const words[] = {
#define DEGREE_WORD(name, key) key,
        PEN_DEGREE_TABLE(DEGREE_WORD)};
    if (plan->degrees[degree] == 1)
        return PEN_OK;
    pen_why(why, "%s does not support %s %u; plan with %s 1", program,
            words[degree], plan->degrees[degree], words[degree]);
    return PEN_INVALID;
}

/* ---- recipes ---- */

void pen__nearest_recipe(struct pen_plan *plan, const struct pen_model *model)
{
    struct pen_recipe *recipe = &plan->recipe;
    const unsigned of_experts = 1u << PEN_MODULE_EXPERTS |
                                1u << PEN_MODULE_EXPERT_ACT |
                                1u << PEN_MODULE_SHARED_EXPERTS;
    if (plan->expert_tp == plan->degrees[PEN_DEGREE_TP])
        plan->expert_tp = 0;
    if (recipe->gradient_bytes == 4)
        recipe->gradient_bytes = 0;
    if (recipe->master_bytes == 4)
        recipe->master_bytes = 0;
    if (recipe->moment_bytes == 8)
        recipe->moment_bytes = 0;
    if (model->num_experts > 0)
        return;
    plan->expert_tp = 0;
    recipe->dispatcher = PEN_DISPATCHER_ALLTOALL;
    recipe->drops_tokens = false;
    recipe->is_paged = false;
    recipe->has_fused_experts = false;
    recipe->offloaded &= ~of_experts;
}

/* Returns whether a word is among others that one space separates. */
static bool is_among(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words; at != NULL; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, word, length) == 0 &&
            (at[length] == ' ' || at[length] == '\0'))
            return true;
    }
    return false;
}

pen_status pen__check_recipe(const struct pen_plan *plan, const char *known,
                             const char *program, struct pen_text *why)
{
    for (const struct pen_recipe_field *field = pen_recipe_fields;
         field->key != NULL; field++) {
        if (pen_recipe_get(&plan->recipe, field) == 0 ||
            is_among(known, field->key))
            continue;
        pen_why(why, "%s has no option for recipe.%s; plan without it", program,
                field->key);
        return PEN_INVALID;
    }
    return PEN_OK;
}

/* ---- models ---- */

bool pen__has_usual_blocks(const struct pen_model *model)
{
    for (uint32_t i = 0; i < model->num_kinds; i++) {
        const struct pen_block *kind = &model->kinds[i];
        if (kind->mixer != PEN_MIXER_ATTENTION || kind->mlp == PEN_MLP_NONE ||
            kind->compression > 0 || kind->is_picked ||
            kind->has_shared_values || kind->head_dim != model->head_dim ||
            kind->num_kv_heads != model->num_kv_heads)
            return false;
    }
    return model->expert_hidden == 0 && !model->has_side_experts &&
           !model->has_output_norms && !model->has_output_gate &&
           !model->has_wide_qk_norm && !model->has_key_norm &&
           model->output_rank == 0 && model->num_streams == 0 &&
           model->block_input_dim == 0 && model->num_kv_shared_blocks == 0;
}

pen_status pen__check_blocks(const struct pen_plan *plan,
                             const struct pen_model *model, const char *program,
                             struct pen_text *notes, struct pen_text *why)
{
    if (!pen__has_usual_blocks(model)) {
        pen_why(why,
                "%s export supports blocks of attention and an MLP, all of one "
                "size; %s (model_type \"%s\") has others; export to deepspeed, "
                "whose files do not describe the model",
                program, plan->model, pen_model_type(model));
        return PEN_INVALID;
    }
    if (model->family == PEN_FAMILY_GENERAL)
        pen__note(notes,
                  "model_type \"%s\" is exported by its sizes: compare what "
                  "else it has with the options of %s",
                  pen_model_type(model), program);
    return PEN_OK;
}

/* ---- what tensors and sequences can be cut into ---- */

/* Ranks that share the tensors of an expert. */
static uint32_t expert_tp(const struct pen_plan *plan)
{
    return pen_expert_tp(plan->degrees, plan->expert_tp);
}

static pen_status check_heads(const struct pen_plan *plan,
                              const struct pen_model *model,
                              struct pen_text *why)
{
    uint32_t tp = plan->degrees[PEN_DEGREE_TP];
    if (model->num_heads % tp != 0 || model->intermediate % tp != 0) {
        pen_why(why, "tp %u does not divide %u heads and a width of %u", tp,
                model->num_heads, model->intermediate);
        return PEN_INVALID;
    }
    if (model->expert_intermediate % expert_tp(plan) != 0) {
        pen_why(why,
                "%u ranks that share an expert do not divide its width, %u; "
                "plan with --etp 1",
                expert_tp(plan), model->expert_intermediate);
        return PEN_INVALID;
    }
    if (model->num_kv_heads % tp != 0) {
        pen_why(why, "tp %u does not divide %u heads of keys and values", tp,
                model->num_kv_heads);
        return PEN_INVALID;
    }
    return PEN_OK;
}

pen_status pen__check_cuts(const struct pen_plan *plan,
                           const struct pen_model *model, struct pen_text *why)
{
    uint32_t tp = plan->degrees[PEN_DEGREE_TP];
    uint64_t pieces = plan->degrees[PEN_DEGREE_CP];
    pen_status status = check_heads(plan, model, why);
    if (status != PEN_OK)
        return status;
    if (pieces > 1)
        pieces *= 2; /* each rank has a piece of either end */
    if (plan->has_sequence_parallel)
        pieces *= tp;
    if (plan->sequence % pieces != 0) {
        pen_why(why, "a sequence of %u tokens does not divide by %llu",
                plan->sequence, (unsigned long long)pieces);
        return PEN_INVALID;
    }
    return PEN_OK;
}

pen_status pen__check_experts(const struct pen_plan *plan,
                              const struct pen_model *model,
                              struct pen_text *why)
{
    uint32_t ep = plan->degrees[PEN_DEGREE_EP];
    uint64_t ranks = pen_plan_num_ranks(plan) / plan->degrees[PEN_DEGREE_PP];
    uint64_t group = (uint64_t)ep * expert_tp(plan);
    if (ep <= 1)
        return PEN_OK;
    if (model->num_experts == 0) {
        pen_why(why, "ep %u: the model has no experts; plan with ep 1", ep);
        return PEN_INVALID;
    }
    if (model->num_experts % ep == 0 && ranks % group == 0)
        return PEN_OK;
    pen_why(why,
            "ep %u x expert_tp %u does not divide dp x tp x cp, %llu, or ep "
            "does not divide %u experts",
            ep, expert_tp(plan), (unsigned long long)ranks, model->num_experts);
    return PEN_INVALID;
}
