/*
 * Heads in the middle of a model, for local updates (network/local.c has the
 * paper and its equations): section j of K ends with block floor((j + 1) N / K)
 * of N. They are a norm as the model has it and a matrix of vocab by hidden,
 * named "local_heads.J.norm.weight", "local_heads.J.norm.bias" and
 * "local_heads.J.weight". Their numbers come after those of all other tensors,
 * so that these begin with the same random weights with and without them.
 */
#include "core/model_internal.h"

#include "base/bug.h"

#include <stdio.h>

static void add_form(struct pen_model *model, enum pen_part part,
                     enum pen_role role, const char *name)
{
    struct pen_tensor_form form = {.part = part,
                                   .role = role,
                                   .name = name,
                                   .num_dims = 1,
                                   .shape = {model->hidden},
                                   .num_elements = model->hidden};
    if (role == PEN_ROLE_MATRIX) {
        form.num_dims = 2;
        form.shape[0] = model->vocab;
        form.shape[1] = model->hidden;
        form.num_elements *= model->vocab;
    }
    model->local_forms[model->num_local_forms++] = form;
}

pen_status pen_model_add_local_heads(struct pen_model *model, uint32_t sections,
                                     struct pen_text *why)
{
    PEN_BUG_UNLESS(model->num_tensors > 0 && sections > 0);
    if (sections == 1)
        return PEN_OK;
    if (sections > model->num_blocks) {
        pen_why(
            why,
            "the %u blocks of the model cannot be cut into %u sections with "
            "losses of their own; use at most %u",
            model->num_blocks, sections, model->num_blocks);
        return PEN_INVALID;
    }
    PEN_BUG_UNLESS(model->num_sections == 0);
    model->num_sections = sections;
    add_form(model, PEN_PART_LOCAL_NORM, PEN_ROLE_NORM, "norm.weight");
    if (model->norm == PEN_MODEL_NORM_LAYER)
        add_form(model, PEN_PART_LOCAL_NORM_BIAS, PEN_ROLE_NORM, "norm.bias");
    add_form(model, PEN_PART_LOCAL_HEAD, PEN_ROLE_MATRIX, "weight");
    model->num_tensors += pen__model_num_local_tensors(model);
    model->num_parameters += (sections - 1) * pen_model_local_parameters(model);
    return PEN_OK;
}

uint32_t pen_model_section_end(const struct pen_model *model, uint32_t section)
{
    uint32_t count = model->num_sections;
    return section + 1 >= count
               ? model->num_layers - 1
               : (uint32_t)((section + 1) * (uint64_t)model->num_blocks /
                            count);
}

/* Returns the section of a block. */
static uint32_t section_of(const struct pen_model *model, uint32_t layer)
{
    uint32_t blocks = model->num_blocks;
    uint64_t above = (uint64_t)layer * model->num_sections + blocks - 1;
    return layer == 0 ? 0 : (uint32_t)(above / blocks) - 1;
}

bool pen_model_has_local_head(const struct pen_model *model, uint32_t layer)
{
    if (model->num_sections <= 1 || layer > model->num_blocks)
        return false;
    uint32_t section = section_of(model, layer);
    return section + 1 < model->num_sections &&
           pen_model_section_end(model, section) == layer;
}

uint64_t pen_model_local_parameters(const struct pen_model *model)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < model->num_local_forms; i++)
        sum += model->local_forms[i].num_elements;
    return sum;
}

uint32_t pen__model_num_local_tensors(const struct pen_model *model)
{
    return model->num_sections <= 1
               ? 0
               : (model->num_sections - 1) * model->num_local_forms;
}

void pen__model_local_tensor(const struct pen_model *model, uint32_t index,
                             struct pen_tensor_info *out)
{
    uint32_t section = index / model->num_local_forms;
    *out = (struct pen_tensor_info){
        .layer = pen_model_section_end(model, section),
        .form = &model->local_forms[index % model->num_local_forms]};
    int length = snprintf(out->name, sizeof out->name, "local_heads.%u.%s",
                          section, out->form->name);
    PEN_BUG_UNLESS(length > 0 && (size_t)length < sizeof out->name);
}

uint32_t pen__model_find_local_part(const struct pen_model *model,
                                    uint32_t layer, enum pen_part part)
{
    uint32_t first = model->num_tensors - pen__model_num_local_tensors(model);
    if (!pen_model_has_local_head(model, layer))
        return model->num_tensors;
    first += section_of(model, layer) * model->num_local_forms;
    for (uint32_t i = 0; i < model->num_local_forms; i++)
        if (model->local_forms[i].part == part)
            return first + i;
    return model->num_tensors;
}
