/* Adam, Adam in 8 bits, Adafactor and Muon: bytes and seconds. */
#include "planner/optimizer.h"

#include "base/bug.h"
#include "planner/layer_operations.h"

#include <math.h>

/* ---- matrices ---- */

static void add_matrix(struct pen__matrix_list *list, double rows,
                       double columns, double count)
{
    PEN_BUG_UNLESS(list->count < PEN__MAX_MATRICES);
    list->items[list->count++] =
        (struct pen__matrix){.rows = rows, .columns = columns, .count = count};
}

/* Queries, keys and values are one product but three matrices. */
static bool is_joint(const struct pen__layer *layer,
                     const struct pen_operation *product)
{
    return layer->setting->model->kv_lora_rank == 0 &&
           product->m == layer->hidden &&
           product->n == layer->query + 2 * layer->key;
}

static bool is_expert(const struct pen__layer *layer,
                      const struct pen_operation *product)
{
    if (layer->experts == 0 || product->batch != layer->experts)
        return false;
    double up = pen__layer_up_width(layer, layer->expert_inner);
    return product->n == up || product->m == layer->expert_inner;
}

/* Gradients of weights have their shapes. */
static void list_block(const struct pen__layer *layer,
                       struct pen__matrix_list *out)
{
    struct pen_operation_list list = {.count = 0};
    bool has_joint = false;
    pen__layer_list_weight(layer, &list);
    for (uint32_t i = 0; i < list.count; i++) {
        const struct pen_operation *item = &list.items[i];
        if (item->kind != PEN_OPERATION_PRODUCT)
            continue;
        if (!has_joint && is_joint(layer, item)) {
            has_joint = true;
            add_matrix(out, item->m, layer->query, 1);
            add_matrix(out, item->m, layer->key, 2);
            continue;
        }
        add_matrix(out, item->m, item->n, item->batch);
        out->items[out->count - 1].is_expert = is_expert(layer, item);
    }
}

void pen__layer_list_matrices(const struct pen_setting *setting,
                              const struct pen_plan *plan, uint32_t group,
                              uint32_t layer, struct pen__matrix_list *out)
{
    const struct pen_model *model = setting->model;
    struct pen__layer it;
    out->count = 0;
    if (model->images != NULL)
        return;
    enum pen_layer_kind kind = pen_model_layer_kind(model, layer);
    pen__layer_open(setting, plan, group, layer, &it);
    if (kind == PEN_LAYER_BLOCK) {
        list_block(&it, out);
        return;
    }
    if (kind == PEN_LAYER_HEAD && model->has_tied_embeddings)
        return;
    double width = (double)pen_model_vocab_parameters(model) / model->vocab;
    add_matrix(out, model->vocab / it.tp, width, 1);
    out->items[0].is_table = true;
}

/* ---- Newton-Schulz ---- */

#define ROUNDS 5.0

/* A round is three products, two of them with a sum. The other kernels, before
 * and after the rounds, are the norm, the scale and the momentum. */
#define ROUND_KERNELS 3.0
#define OTHER_KERNELS 6.0

double pen__orthogonal_sec(const struct pen_device *device,
                           enum pen_number number, double rows, double columns)
{
    struct pen_operation_list list = {.count = 0};
    double m = fmin(rows, columns);
    double n = fmax(rows, columns);
    pen_operations_add_product(&list, 1, m, m, n); /* X by its transpose */
    pen_operations_add_product(&list, 1, m, m, m); /* that by itself */
    pen_operations_add_product(&list, 1, m, n, m); /* their sum by X */
    double busy =
        ROUNDS * pen_operations_busy(device, pen_number_beside(number), &list);
    double host = (ROUNDS * ROUND_KERNELS + OTHER_KERNELS) *
                  device->constants[PEN_CONSTANT_LAUNCH];
    return pen__layer_blend(busy, host);
}

/* ---- sums ---- */

static bool is_asked(const struct pen_plan *plan)
{
    return plan->recipe.optimizer == PEN_OPTIMIZER_MUON ||
           plan->recipe.optimizer == PEN_OPTIMIZER_ADAFACTOR;
}

static void add_sums(const struct pen_setting *setting, uint32_t group,
                     const struct pen__matrix *matrix, bool is_muon,
                     struct pen__matrix_sums *sums)
{
    int owner = matrix->is_expert ? PEN__OF_EXPERTS : PEN__COMMON;
    double weights = matrix->rows * matrix->columns;
    sums->weights[owner] += matrix->count * weights;
    sums->edges[owner] += matrix->count * (matrix->rows + matrix->columns);
    if (!is_muon || matrix->is_table)
        return;
    double sec =
        pen__orthogonal_sec(&setting->cluster->groups[group].device,
                            setting->number, matrix->rows, matrix->columns);
    sums->whole[owner] += matrix->count * weights;
    sums->whole_sec[owner] += matrix->count * sec;
    sums->most_weights[owner] = fmax(sums->most_weights[owner], weights);
    sums->most_sec[owner] = fmax(sums->most_sec[owner], sec);
}

void pen__matrix_sums_add(const struct pen_setting *setting,
                          const struct pen_plan *plan, uint32_t group,
                          const struct pen_layer_range *range,
                          struct pen__matrix_sums *sums)
{
    struct pen__matrix_list list;
    bool is_muon = plan->recipe.optimizer == PEN_OPTIMIZER_MUON;
    if (!is_asked(plan))
        return;
    for (uint32_t i = range->first; i < range->first + range->count; i++) {
        pen__layer_list_matrices(setting, plan, group, i, &list);
        for (uint32_t j = 0; j < list.count; j++)
            add_sums(setting, group, &list.items[j], is_muon, sums);
    }
}

void pen__matrix_sums_join(const struct pen__matrix_sums *from,
                           struct pen__matrix_sums *sums)
{
    for (int i = 0; i < PEN__OWNERS; i++) {
        sums->weights[i] += from->weights[i];
        sums->edges[i] += from->edges[i];
        sums->whole[i] += from->whole[i];
        sums->whole_sec[i] += from->whole_sec[i];
        sums->most_weights[i] =
            fmax(sums->most_weights[i], from->most_weights[i]);
        sums->most_sec[i] = fmax(sums->most_sec[i], from->most_sec[i]);
    }
}

/* ---- bytes ---- */

#define MOMENTS_BYTES 8.0 /* both, of one weight */

/* Two moments of a byte each, with a scale for each block of 256. */
#define NARROW_BYTES (2.0 * (1 + 4.0 / 256))

#define FACTOR_BYTES 4.0

static double master_bytes(const struct pen_setting *setting,
                           const struct pen_recipe *recipe)
{
    double usual = setting->practice.optimizer_bytes - MOMENTS_BYTES;
    return recipe->master_bytes > 0 ? recipe->master_bytes : fmax(0, usual);
}

static double moment_bytes(const struct pen_recipe *recipe)
{
    if (recipe->moment_bytes > 0)
        return recipe->moment_bytes;
    return recipe->optimizer == PEN_OPTIMIZER_ADAM8 ? NARROW_BYTES
                                                    : MOMENTS_BYTES;
}

double pen__gradient_bytes(const struct pen_setting *setting,
                           const struct pen_plan *plan)
{
    return plan->recipe.gradient_bytes > 0 ? plan->recipe.gradient_bytes
                                           : setting->practice.gradient_bytes;
}

double pen__num_owners(const uint32_t degrees[PEN_DEGREES], uint32_t expert_tp,
                       int owner)
{
    double all = (double)degrees[PEN_DEGREE_DP] * degrees[PEN_DEGREE_CP];
    if (owner == PEN__COMMON)
        return all;
    double experts =
        (double)degrees[PEN_DEGREE_EP] * pen_expert_tp(degrees, expert_tp);
    return fmax(1, all * degrees[PEN_DEGREE_TP] / experts);
}

static double weights_of(const struct pen_layer_bytes *bytes, int owner)
{
    uint64_t all = owner == PEN__OF_EXPERTS
                       ? bytes->num_experts
                       : bytes->num_parameters - bytes->num_experts;
    return (double)all;
}

/* Ranks that a sharded optimizer is divided by. */
static double parts_of(const struct pen_plan *plan, int owner)
{
    return plan->sharding == PEN_SHARDING_NONE
               ? 1
               : pen__num_owners(plan->degrees, plan->expert_tp, owner);
}

/* Whole matrices are dealt out: one rank has the largest. */
static double dealt(double all, double largest, double parts)
{
    return fmax(all / parts, fmin(all, largest));
}

/* Masters and moments of the weights of one owner on one rank. */
static double owner_bytes(const struct pen_setting *setting,
                          const struct pen_plan *plan, double weights,
                          const struct pen__matrix_sums *sums, int owner)
{
    double master = master_bytes(setting, &plan->recipe);
    double moments = moment_bytes(&plan->recipe);
    double parts = parts_of(plan, owner);
    double whole = sums->whole[owner];
    switch (plan->recipe.optimizer) {
    case PEN_OPTIMIZER_ADAFACTOR:
        return (weights * master +
                FACTOR_BYTES * (sums->edges[owner] +
                                fmax(0, weights - sums->weights[owner]))) /
               parts;
    case PEN_OPTIMIZER_MUON:
        return (master + moments) * fmax(0, weights - whole) / parts +
               (master + moments / 2) *
                   dealt(whole, sums->most_weights[owner], parts);
    default:
        return (master + moments) * weights / parts;
    }
}

double pen__optimizer_bytes(const struct pen_setting *setting,
                            const struct pen_plan *plan,
                            const struct pen_layer_bytes *bytes,
                            const struct pen__matrix_sums *sums)
{
    double sum = 0;
    for (int owner = 0; owner < PEN__OWNERS; owner++)
        sum +=
            owner_bytes(setting, plan, weights_of(bytes, owner), sums, owner);
    return sum;
}

double pen__least_optimizer_bytes(const struct pen_setting *setting,
                                  const struct pen_recipe *recipe)
{
    double master = master_bytes(setting, recipe);
    double moments = moment_bytes(recipe);
    switch (recipe->optimizer) {
    case PEN_OPTIMIZER_ADAFACTOR:
        return master;
    case PEN_OPTIMIZER_MUON:
        return master + moments / 2;
    default:
        return master + moments;
    }
}

/* ---- seconds ---- */

bool pen__needs_whole_gradients(const struct pen_plan *plan)
{
    return plan->recipe.optimizer == PEN_OPTIMIZER_MUON;
}

/*
 * Adafactor reads a gradient for the sums of rows and columns and again for the
 * update, which is written, read for its norm, and read to be applied.
 */
#define UPDATE_BYTES 12.0

/* Bytes read and written for each weight, in addition to its moments. */
static double step_bytes(const struct pen_setting *setting,
                         const struct pen_plan *plan)
{
    double element = pen_number_bytes(setting->number);
    double master = master_bytes(setting, &plan->recipe);
    double gradient = pen__gradient_bytes(setting, plan);
    if (plan->recipe.optimizer == PEN_OPTIMIZER_ADAFACTOR)
        gradient = 2 * gradient + UPDATE_BYTES;
    /* Without a master the weight itself is read and written. */
    return gradient + (master > 0 ? 2 * master + element : 2 * element);
}

static double owner_sec(const struct pen_setting *setting,
                        const struct pen_plan *plan,
                        const struct pen_device *device, double weights,
                        const struct pen__matrix_sums *sums, int owner)
{
    double parts = parts_of(plan, owner);
    double each = step_bytes(setting, plan);
    double moments = 2 * moment_bytes(&plan->recipe);
    double whole = sums->whole[owner];
    if (weights <= 0)
        return 0;
    switch (plan->recipe.optimizer) {
    case PEN_OPTIMIZER_ADAFACTOR:
        return pen_bytes_time(device, each * weights / parts);
    case PEN_OPTIMIZER_MUON:
        return pen_bytes_time(
                   device,
                   (each + moments) * fmax(0, weights - whole) / parts +
                       (each + moments / 2) *
                           dealt(whole, sums->most_weights[owner], parts)) +
               dealt(sums->whole_sec[owner], sums->most_sec[owner], parts);
    default:
        return pen_bytes_time(device, (each + moments) * weights / parts);
    }
}

/*
 * A step on the host: gradients go there, weights come back, and in between
 * master and moments are read and written, at the rate of the way there: as
 * much as a device's share of the host's memory gives.
 */
static double host_sec(const struct pen_setting *setting,
                       const struct pen_plan *plan,
                       const struct pen_device *device,
                       const struct pen_layer_bytes *bytes)
{
    double each = pen__gradient_bytes(setting, plan) +
                  pen_number_bytes(setting->number) +
                  step_bytes(setting, plan) + 2 * moment_bytes(&plan->recipe);
    double weights = 0;
    for (int owner = 0; owner < PEN__OWNERS; owner++)
        weights += weights_of(bytes, owner) / parts_of(plan, owner);
    return each * weights / device->constants[PEN_CONSTANT_HOST_RATE];
}

double pen__optimizer_sec(const struct pen_setting *setting,
                          const struct pen_plan *plan,
                          const struct pen_device *device,
                          const struct pen_layer_bytes *bytes,
                          const struct pen__matrix_sums *sums)
{
    double sec = 0;
    if (plan->recipe.offloads_optimizer)
        return host_sec(setting, plan, device, bytes);
    for (int owner = 0; owner < PEN__OWNERS; owner++)
        sec += owner_sec(setting, plan, device, weights_of(bytes, owner), sums,
                         owner);
    return sec;
}
