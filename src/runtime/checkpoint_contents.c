#include "runtime/checkpoint_contents.h"

#include "base/bug.h"
#include "engine/mirror.h"
#include "network/images.h"
#include "runtime/replicas_checkpoint.h"
#include "runtime/trainer_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a tensor that this rank writes lies. */
struct pen__place {
    uint32_t stage;
    size_t parameter; /* NO_PARAMETER: a running statistic */
    struct pen_tensor_slice slice;
    struct pen_any_tensor tensor;
};

#define NO_PARAMETER SIZE_MAX

static const enum pen_parameter_part engine_parts[] = {
    PEN_PART_VALUE, PEN_PART_MOMENT1, PEN_PART_MOMENT2};

/* ---- what this rank writes ---- */

static bool writes(const struct pen_trainer *trainer, uint32_t stage,
                   size_t parameter)
{
    const struct pen_replicas *replicas = pen_trainer_replicas(trainer);
    uint32_t member = pen_layout_member(
        &trainer->layout, pen_executor_stage(trainer->executor, stage)->stage);
    return (replicas == NULL || pen_replicas_number(replicas) == 0) &&
           pen_exchange_owns(trainer->exchange, stage, parameter) &&
           (trainer->options.is_sharded || member == 0);
}

static void add_place(struct pen__contents *contents, struct pen__place place)
{
    const struct pen_any_model *model = contents->trainer->options.model;
    struct pen__place *kept = &contents->places[contents->count];
    *kept = place;
    pen_any_model_tensor(model, place.slice.tensor, &kept->tensor);
    contents->cuts[contents->count] =
        (struct pen_checkpoint_cut){&kept->slice.piece, 1};
    contents->tensors[contents->count++] = (struct pen_checkpoint_tensor){
        .spec = {kept->tensor.name, kept->tensor.dtype, kept->tensor.num_dims,
                 kept->tensor.shape},
        .has_moments = kept->tensor.is_trained};
}

static void add_stage(struct pen__contents *contents, uint32_t stage)
{
    struct pen_trainer *trainer = contents->trainer;
    const struct pen_network *network = pen_trainer_network(trainer, stage);
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(network, i);
        if (!writes(trainer, stage, i))
            continue;
        size_t bytes = pen_network_count(it) * sizeof(float);
        if (bytes > contents->plain_bytes)
            contents->plain_bytes = bytes;
        for (size_t k = 0; k < it->num_slices; k++)
            add_place(contents, (struct pen__place){.stage = stage,
                                                    .parameter = i,
                                                    .slice = it->slices[k]});
    }
}

/* What is not trained is in the network, not in the engine. */
static void add_statistics(struct pen__contents *contents)
{
    const struct pen_any_model *model = contents->trainer->options.model;
    for (uint32_t i = 0; i < pen_any_model_num_tensors(model); i++) {
        struct pen_any_tensor tensor;
        pen_any_model_tensor(model, i, &tensor);
        if (!tensor.is_trained)
            add_place(contents,
                      (struct pen__place){
                          .parameter = NO_PARAMETER,
                          .slice = {.tensor = i,
                                    .piece = pen_tensor_piece_whole(
                                        tensor.num_dims, tensor.shape)}});
    }
}

static pen_status list_tensors(struct pen__contents *contents, bool is_leader)
{
    struct pen_trainer *trainer = contents->trainer;
    size_t most = pen_any_model_num_tensors(trainer->options.model);
    contents->places = calloc(most, sizeof *contents->places);
    contents->tensors = calloc(most, sizeof *contents->tensors);
    contents->cuts = calloc(most, sizeof *contents->cuts);
    if (contents->places == NULL || contents->tensors == NULL ||
        contents->cuts == NULL)
        return PEN_NOMEM;
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++)
        add_stage(contents, s);
    if (is_leader)
        add_statistics(contents);
    return PEN_OK;
}

static pen_status list_extras(struct pen__contents *contents,
                              struct pen_text *why)
{
    struct pen_trainer *trainer = contents->trainer;
    if (pen_trainer_replicas(trainer) == NULL)
        return PEN_OK;
    pen_status status =
        pen_replicas_saver_create(trainer, &contents->replicas, why);
    if (status != PEN_OK)
        return status;
    size_t room = pen_replicas_saver_room(contents->replicas);
    contents->extras =
        pen_replicas_saver_extras(contents->replicas, &contents->num_extras);
    if (room > contents->plain_bytes)
        contents->plain_bytes = room;
    return PEN_OK;
}

pen_status pen__contents_init(struct pen__contents *contents,
                              struct pen_trainer *trainer, bool is_leader,
                              struct pen_text *why)
{
    bool has_own = pen_trainer_replicas(trainer) != NULL;
    *contents = (struct pen__contents){
        .trainer = trainer,
        .num_moments = has_own ? 0
                               : (uint32_t)pen_optimizer_moments(
                                     &trainer->options.optimizer)};
    pen_status status = list_tensors(contents, is_leader);
    if (status == PEN_OK)
        status = list_extras(contents, why);
    return status;
}

void pen__contents_release(struct pen__contents *contents)
{
    pen_replicas_saver_free(contents->replicas);
    free(contents->plain);
    free(contents->places);
    free(contents->tensors);
    free(contents->cuts);
}

bool pen__contents_is_empty(const struct pen__contents *contents)
{
    return contents->count + contents->num_extras == 0;
}

uint32_t pen__contents_tensor(const struct pen__contents *contents,
                              size_t index)
{
    return contents->places[index].slice.tensor;
}

struct pen_snapshot_contents
pen__contents_list(const struct pen__contents *contents)
{
    return (struct pen_snapshot_contents){.tensors = contents->tensors,
                                          .cuts = contents->cuts,
                                          .count = contents->count,
                                          .num_moments = contents->num_moments,
                                          .extras = contents->extras,
                                          .num_extras = contents->num_extras};
}

/* ---- out of the engine ---- */

static size_t bytes_of(const struct pen_any_tensor *tensor)
{
    return tensor->num_elements * pen_dtype_bits(tensor->dtype) / 8;
}

/* Into `whole`, room for a parameter; returns where the tensor begins. */
static const void *read_part(struct pen__contents *contents,
                             enum pen_checkpoint_part part, size_t tensor,
                             float *whole)
{
    struct pen_trainer *trainer = contents->trainer;
    struct pen_engine *engine = trainer->engine;
    const struct pen__place *place = &contents->places[tensor];
    struct pen_network *network = pen_trainer_network(trainer, place->stage);
    if (place->parameter == NO_PARAMETER)
        return pen_network_statistic(network, place->slice.tensor);
    PEN_BUG_UNLESS(part < sizeof engine_parts / sizeof *engine_parts);
    const struct pen_network_parameter *it =
        pen_network_parameter(network, place->parameter);
    engine->ops->parameter_export(engine, it->parameter, engine_parts[part],
                                  it->order, whole);
    return whole + place->slice.first;
}

static void copy_extra(struct pen__contents *contents, size_t extra,
                       struct pen_snapshot *snapshot)
{
    const struct pen_tensor_spec *spec = &contents->extras[extra];
    size_t length = pen_dtype_bits(spec->dtype) / 8;
    for (uint32_t i = 0; i < spec->num_dims; i++)
        length *= (size_t)spec->shape[i];
    memcpy(pen_snapshot_extra(snapshot, extra),
           pen_replicas_saver_read(contents->replicas, extra, contents->plain),
           length);
}

static uint32_t num_parts_of(const struct pen__contents *contents,
                             size_t tensor)
{
    return contents->tensors[tensor].has_moments ? 1 + contents->num_moments
                                                 : 1;
}

static bool take_plain(struct pen__contents *contents)
{
    contents->plain = malloc(contents->plain_bytes + 1);
    return contents->plain != NULL;
}

static void drop_plain(struct pen__contents *contents)
{
    free(contents->plain);
    contents->plain = NULL;
}

/* One behind the last tensor of the parameter that a tensor belongs to. */
static size_t end_of_parameter(const struct pen__contents *contents,
                               size_t tensor)
{
    const struct pen__place *it = &contents->places[tensor];
    size_t end = tensor + 1;
    while (it->parameter != NO_PARAMETER && end < contents->count &&
           contents->places[end].stage == it->stage &&
           contents->places[end].parameter == it->parameter)
        end++;
    return end;
}

/* Of a parameter with several tensors a part comes out of the engine once. */
static void copy_parameter(struct pen__contents *contents, size_t first,
                           size_t end, uint32_t part,
                           struct pen_snapshot *snapshot)
{
    const struct pen__place *places = contents->places;
    enum pen_checkpoint_part it = (enum pen_checkpoint_part)part;
    void *to = pen_snapshot_part(snapshot, it, first);
    if (end == first + 1 && places[first].parameter != NO_PARAMETER) {
        read_part(contents, it, first, to);
        return;
    }
    const float *whole =
        (const float *)read_part(contents, it, first, contents->plain);
    for (size_t i = first; i < end; i++)
        memcpy(pen_snapshot_part(snapshot, it, i),
               whole + places[i].slice.first - places[first].slice.first,
               bytes_of(&places[i].tensor));
}

pen_status pen__contents_copy(struct pen__contents *contents,
                              struct pen_snapshot *snapshot)
{
    if (!take_plain(contents))
        return PEN_NOMEM;
    for (size_t i = 0, end; i < contents->count; i = end) {
        end = end_of_parameter(contents, i);
        for (uint32_t p = 0; p < num_parts_of(contents, i); p++)
            copy_parameter(contents, i, end, p, snapshot);
    }
    for (size_t i = 0; i < contents->num_extras; i++)
        copy_extra(contents, i, snapshot);
    drop_plain(contents);
    return PEN_OK;
}

/* ---- where it lies ---- */

size_t pen__contents_num_pieces(const struct pen__contents *contents)
{
    const struct pen_engine *engine = contents->trainer->engine;
    size_t count = 0;
    if (!engine->ops->is_host || contents->num_extras > 0 ||
        pen_precision_bytes(pen_precision_master(engine->dtype)) !=
            sizeof(float))
        return 0;
    for (size_t i = 0; i < contents->count; i++)
        count += num_parts_of(contents, i);
    return count;
}

static const struct pen_network_parameter *
parameter_of(const struct pen__contents *contents, size_t tensor)
{
    const struct pen__place *place = &contents->places[tensor];
    return pen_network_parameter(
        pen_trainer_network(contents->trainer, place->stage), place->parameter);
}

bool pen__contents_is_transposed(const struct pen__contents *contents,
                                 size_t tensor)
{
    if (contents->places[tensor].parameter == NO_PARAMETER)
        return false;
    const struct pen_network_parameter *it = parameter_of(contents, tensor);
    bool is_matrix = contents->places[tensor].tensor.num_dims == 2;
    PEN_BUG_UNLESS(it->order == PEN_ORDER_ROWS || !is_matrix ||
                   it->num_slices == 1);
    return it->order == PEN_ORDER_TRANSPOSED && is_matrix;
}

static struct pen_copier_piece piece_of(struct pen__contents *contents,
                                        enum pen_checkpoint_part part,
                                        size_t tensor, void *to)
{
    const struct pen__place *place = &contents->places[tensor];
    struct pen_copier_piece piece = {.to = to,
                                     .num_bytes = bytes_of(&place->tensor)};
    if (place->parameter == NO_PARAMETER) {
        piece.from = pen_network_statistic(
            pen_trainer_network(contents->trainer, place->stage),
            place->slice.tensor);
        return piece;
    }
    PEN_BUG_UNLESS(part < sizeof engine_parts / sizeof *engine_parts);
    const struct pen_network_parameter *it = parameter_of(contents, tensor);
    struct pen_mirror mirror = {.engine = contents->trainer->engine};
    const struct pen_mirror_piece whole = {.parameter = it->parameter,
                                           .part = engine_parts[part],
                                           .count = pen_network_count(it)};
    const float *values = pen_mirror_show(&mirror, &whole);
    piece.from = values + place->slice.first;
    return piece;
}

static int compare_pieces(const void *a, const void *b)
{
    const struct pen_copier_piece *x = a, *y = b;
    return x->to < y->to ? -1 : x->to > y->to;
}

void pen__contents_list_pieces(struct pen__contents *contents,
                               struct pen_snapshot *snapshot,
                               struct pen_copier_piece *out)
{
    size_t count = 0;
    for (size_t i = 0; i < contents->count; i++)
        for (uint32_t p = 0; p < num_parts_of(contents, i); p++) {
            enum pen_checkpoint_part part = (enum pen_checkpoint_part)p;
            out[count++] = piece_of(contents, part, i,
                                    pen_snapshot_part(snapshot, part, i));
        }
    qsort(out, count, sizeof *out, compare_pieces);
}

pen_status pen__contents_describe(
    const struct pen__contents *contents, struct pen_manifest *manifest,
    const char *run_id,
    pen_status (*describe)(void *context, struct pen_manifest *manifest,
                           struct pen_text *why),
    void *context, struct pen_text *why)
{
    const struct pen_trainer *trainer = contents->trainer;
    if (run_id[0] != '\0')
        snprintf(manifest->run, sizeof manifest->run, "%s", run_id);
    manifest->sample = trainer->progress.samples;
    manifest->dtype = trainer->options.is_bf16 ? PEN_DTYPE_BF16 : PEN_DTYPE_F32;
    manifest->num_moments = contents->num_moments;
    manifest->num_replicas = trainer->layout.num_logical;
    snprintf(manifest->optimizer, sizeof manifest->optimizer, "%s",
             pen_optimizer_name(&trainer->options.optimizer));
    pen_status status = describe(context, manifest, why);
    if (status == PEN_OK && contents->replicas != NULL)
        status =
            pen_replicas_describe(pen_trainer_replicas(trainer), manifest, why);
    return status;
}

static const void *source_of(void *context, enum pen_checkpoint_part part,
                             size_t tensor)
{
    struct pen__contents *contents = context;
    return read_part(contents, part, tensor, contents->plain);
}

static const void *source_of_extra(void *context, size_t extra)
{
    struct pen__contents *contents = context;
    return pen_replicas_saver_read(contents->replicas, extra, contents->plain);
}

pen_status pen__contents_write(struct pen__contents *contents,
                               struct pen_checkpoint_share_args args,
                               struct pen_text *record, struct pen_text *why)
{
    struct pen_checkpoint_source source = {source_of, source_of_extra,
                                           contents};
    args.tensors = contents->tensors;
    args.cuts = contents->cuts;
    args.count = contents->count;
    args.num_moments = contents->num_moments;
    args.extras = contents->extras;
    args.num_extras = contents->num_extras;
    if (!take_plain(contents))
        return PEN_NOMEM;
    pen_status status = pen_checkpoint_share_write(&args, &source, record, why);
    drop_plain(contents);
    return status;
}
