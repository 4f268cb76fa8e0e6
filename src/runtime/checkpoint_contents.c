#include "runtime/checkpoint_contents.h"

#include "base/bug.h"
#include "engine/mirror.h"
#include "network/images.h"
#include "runtime/agree.h"
#include "runtime/checkpoint_pieces.h"
#include "runtime/replicas_checkpoint.h"
#include "runtime/trainer_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Where a tensor that this rank writes lies, or a piece of one that is cut. The
 * first rank of a tensor group writes what all of it have; the first of an
 * expert group the tensors that stack the experts of all of it.
 */
struct pen__place {
    struct pen_group *group; /* borrowed; NULL: it is here */
    uint32_t member;         /* of the group */
    uint32_t stage;
    size_t parameter; /* NO_PARAMETER: a running statistic; of another member
                         the number of the piece in its list */
    struct pen_tensor_slice slice;
    size_t tensor; /* of the contents */
};

#define NO_PARAMETER SIZE_MAX

static const enum pen_parameter_part engine_parts[] = {
    PEN_PART_VALUE, PEN_PART_MOMENT1, PEN_PART_MOMENT2};

/* ---- what this rank writes ---- */

static bool writes(const struct pen_trainer *trainer, uint32_t stage,
                   size_t parameter)
{
    const struct pen_replicas *replicas = pen_trainer_replicas(trainer);
    const struct pen_stage *of = pen_executor_stage(trainer->executor, stage);
    const struct pen_network_parameter *it =
        pen_network_parameter(of->network, parameter);
    bool is_first =
        pen_layout_comes_first(&trainer->layout, of->stage, it->num_dealt);
    return (replicas == NULL || pen_replicas_number(replicas) == 0) &&
           !it->is_copy &&
           pen_exchange_owns(trainer->exchange, stage, parameter) &&
           (trainer->options.sharding != PEN_SHARDING_NONE || is_first);
}

/* The number of a tensor in the contents; adds a new one at the end. */
static size_t add_tensor(struct pen__contents *contents, uint32_t tensor)
{
    const struct pen_any_model *model = contents->trainer->options.model;
    for (size_t i = 0; i < contents->num_places; i++)
        if (contents->places[i].slice.tensor == tensor)
            return contents->places[i].tensor;
    struct pen_any_tensor *about = &contents->about[contents->count];
    pen_any_model_tensor(model, tensor, about);
    contents->tensors[contents->count] = (struct pen_checkpoint_tensor){
        .spec = {about->name, about->dtype, about->num_dims, about->shape},
        .has_moments = pen_checkpoint_moments_of(
            pen_optimizer_name(&contents->trainer->options.optimizer), about)};
    return contents->count++;
}

static void add_place(struct pen__contents *contents, struct pen__place place)
{
    place.tensor = add_tensor(contents, place.slice.tensor);
    contents->places[contents->num_places++] = place;
    contents->is_cut |= contents->num_places > contents->count;
}

/* Whether the first rank of the expert group writes a tensor. */
static bool is_handed_in(const struct pen_trainer *trainer,
                         const struct pen_network_parameter *it)
{
    struct pen_tensor_info info;
    if (trainer->experts == NULL || trainer->experts->self == 0)
        return false;
    pen_model_tensor(trainer->options.model->decoder, it->slices[0].tensor,
                     &info);
    return info.form->is_stacked;
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
        size_t bytes = pen_network_plain_count(it) * sizeof(float);
        if (bytes > contents->plain_bytes)
            contents->plain_bytes = bytes;
        for (size_t k = 0; k < it->num_slices; k++) {
            const struct pen__place place = {
                .stage = stage, .parameter = i, .slice = it->slices[k]};
            if (is_handed_in(trainer, it))
                contents->handed_in[contents->num_handed_in++] = place;
            else
                add_place(contents, place);
        }
    }
}

/* Tensors that are not trained are in the network, not in the engine. */
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
    size_t most_places =
        most * pen_tensor_numbers(trainer->options.model,
                                  trainer->options.logical_tensor);
    contents->places = calloc(most_places, sizeof *contents->places);
    contents->handed_in = calloc(most_places, sizeof *contents->handed_in);
    contents->tensors = calloc(most, sizeof *contents->tensors);
    contents->about = calloc(most, sizeof *contents->about);
    if (contents->places == NULL || contents->handed_in == NULL ||
        contents->tensors == NULL || contents->about == NULL)
        return PEN_NOMEM;
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++)
        add_stage(contents, s);
    if (is_leader)
        add_statistics(contents);
    return PEN_OK;
}

/* ---- pieces of other ranks ---- */

static void need_plain(struct pen__contents *contents, size_t count)
{
    if (count * sizeof(float) > contents->plain_bytes)
        contents->plain_bytes = count * sizeof(float);
}

static pen_status hear_member(struct pen__contents *contents,
                              struct pen_group *group, uint32_t member)
{
    struct pen_tensor_slice *slices;
    size_t count;
    pen_status status = pen__pieces_hear(group, member, &slices, &count);
    if (status != PEN_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        need_plain(contents, pen_tensor_piece_count(&slices[i].piece));
        add_place(contents, (struct pen__place){.group = group,
                                                .member = member,
                                                .parameter = i,
                                                .slice = slices[i]});
    }
    free(slices);
    return PEN_OK;
}

/* Hands the pieces of this rank to the first rank of the group. */
static pen_status tell_first(struct pen_group *group,
                             const struct pen__place *places, size_t count)
{
    struct pen_tensor_slice *slices = calloc(count + 1, sizeof *slices);
    if (slices == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < count; i++)
        slices[i] = places[i].slice;
    pen_status status = pen__pieces_tell(group, slices, count);
    free(slices);
    return status;
}

static pen_status hear_all(struct pen__contents *contents,
                           struct pen_group *group)
{
    pen_status status = PEN_OK;
    for (uint32_t k = 1; k < group->size && status == PEN_OK; k++)
        status = hear_member(contents, group, k);
    return status;
}

static pen_status join_experts(struct pen__contents *contents)
{
    const struct pen_trainer *trainer = contents->trainer;
    struct pen_group *group = trainer->experts;
    if (group == NULL || !trainer->options.model->decoder->has_expert_bias)
        return PEN_OK;
    return group->self == 0 ? hear_all(contents, group)
                            : tell_first(group, contents->handed_in,
                                         contents->num_handed_in);
}

/* After it the contents are those of the first rank, and not of this one. */
static pen_status join_pieces(struct pen__contents *contents)
{
    struct pen_group *group = contents->trainer->tensor;
    if (group == NULL)
        return PEN_OK;
    contents->is_cut = true;
    if (group->self == 0)
        return hear_all(contents, group);
    contents->count = 0;
    return tell_first(group, contents->places, contents->num_places);
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
        status = join_experts(contents);
    if (status == PEN_OK)
        status = join_pieces(contents);
    if (status == PEN_OK)
        status = list_extras(contents, why);
    return status;
}

void pen__contents_release(struct pen__contents *contents)
{
    pen_replicas_saver_free(contents->replicas);
    free(contents->plain);
    free(contents->places);
    free(contents->handed_in);
    free(contents->tensors);
    free(contents->about);
}

bool pen__contents_is_empty(const struct pen__contents *contents)
{
    return contents->count + contents->num_extras == 0;
}

uint32_t pen__contents_tensor(const struct pen__contents *contents,
                              size_t index)
{
    size_t place = 0;
    while (contents->places[place].tensor != index)
        place++;
    return contents->places[place].slice.tensor;
}

struct pen_snapshot_contents
pen__contents_list(const struct pen__contents *contents)
{
    return (struct pen_snapshot_contents){.tensors = contents->tensors,
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

/* After a loss the numbers mean nothing, and the checkpoint is not finished. */
static const float *fetch_place(enum pen_checkpoint_part part,
                                const struct pen__place *place, float *plain)
{
    pen__pieces_fetch(place->group, place->member, place->parameter, part,
                      plain, pen_tensor_piece_count(&place->slice.piece));
    return plain;
}

/* A part of a parameter, into `plain`; returns where the slice begins. */
static const float *read_place(struct pen__contents *contents,
                               enum pen_checkpoint_part part,
                               const struct pen__place *place, float *plain)
{
    struct pen_trainer *trainer = contents->trainer;
    if (place->group != NULL)
        return fetch_place(part, place, plain);
    struct pen_network *network = pen_trainer_network(trainer, place->stage);
    PEN_BUG_UNLESS(part < sizeof engine_parts / sizeof *engine_parts);
    const struct pen_network_parameter *it =
        pen_network_parameter(network, place->parameter);
    pen_network_export(network, it, engine_parts[part], plain);
    return plain + place->slice.first;
}

/* Copies the numbers of a slice to their places in the whole tensor. */
static void put_slice(const struct pen__contents *contents,
                      const struct pen__place *place, const float *from,
                      float *to)
{
    const struct pen_any_tensor *tensor = &contents->about[place->tensor];
    const struct pen_tensor_piece whole =
        pen_tensor_piece_whole(tensor->num_dims, tensor->shape);
    const struct pen_tensor_piece *piece = &place->slice.piece;
    uint64_t count = pen_tensor_piece_num_stretches(piece, &whole);
    for (uint64_t i = 0; i < count; i++) {
        struct pen_tensor_stretch it =
            pen_tensor_piece_stretch(piece, &whole, i);
        memcpy(to + it.first, from, (size_t)it.count * sizeof *to);
        from += it.count;
    }
}

/*
 * A part of a tensor, valid until the next call; pieces of a cut tensor are
 * joined.
 */
static const void *read_part(struct pen__contents *contents,
                             enum pen_checkpoint_part part, size_t tensor)
{
    for (size_t i = 0; i < contents->num_places; i++) {
        const struct pen__place *place = &contents->places[i];
        if (place->tensor != tensor)
            continue;
        if (place->parameter == NO_PARAMETER)
            return pen_network_statistic(
                pen_trainer_network(contents->trainer, place->stage),
                place->slice.tensor);
        const float *slice = read_place(contents, part, place, contents->plain);
        if (!contents->is_cut)
            return slice;
        put_slice(contents, place, slice, contents->whole);
    }
    return contents->whole;
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
    return 1 +
           pen_checkpoint_tensor_moments(contents->tensors[tensor].has_moments,
                                         contents->num_moments);
}

static bool take_plain(struct pen__contents *contents)
{
    size_t most = 1;
    for (size_t i = 0; i < contents->count && contents->is_cut; i++)
        if (bytes_of(&contents->about[i]) > most)
            most = bytes_of(&contents->about[i]);
    contents->plain = malloc(contents->plain_bytes + 1);
    contents->whole = malloc(most);
    return contents->plain != NULL && contents->whole != NULL;
}

static void drop_plain(struct pen__contents *contents)
{
    free(contents->plain);
    free(contents->whole);
    contents->plain = contents->whole = NULL;
}

/* One past the last place of the parameter that a place belongs to. */
static size_t end_of_parameter(const struct pen__contents *contents,
                               size_t place)
{
    const struct pen__place *it = &contents->places[place];
    size_t end = place + 1;
    while (it->parameter != NO_PARAMETER && end < contents->num_places &&
           contents->places[end].group == it->group &&
           contents->places[end].member == it->member &&
           contents->places[end].stage == it->stage &&
           contents->places[end].parameter == it->parameter)
        end++;
    return end;
}

/* Copies a part of a parameter, out of the engine once for all its tensors. */
static void copy_parameter(struct pen__contents *contents, size_t first,
                           size_t end, uint32_t number,
                           struct pen_snapshot *snapshot)
{
    const struct pen__place *places = contents->places;
    enum pen_checkpoint_part part = (enum pen_checkpoint_part)number;
    void *to = pen_snapshot_part(snapshot, part, places[first].tensor);
    if (places[first].parameter == NO_PARAMETER) {
        memcpy(to, read_part(contents, part, places[first].tensor),
               bytes_of(&contents->about[places[first].tensor]));
        return;
    }
    if (end == first + 1 && !contents->is_cut) {
        read_place(contents, part, &places[first], to);
        return;
    }
    const float *slice =
        read_place(contents, part, &places[first], contents->plain);
    for (size_t i = first; i < end; i++)
        put_slice(contents, &places[i],
                  slice + places[i].slice.first - places[first].slice.first,
                  pen_snapshot_part(snapshot, part, places[i].tensor));
}

/* Releases the ranks of the groups that have served their pieces until now. */
static pen_status end_fetching(const struct pen__contents *contents)
{
    const struct pen__place *last = NULL; /* those of a member are in a row */
    pen_status status = PEN_OK;
    for (size_t i = 0; i < contents->num_places && status == PEN_OK; i++) {
        const struct pen__place *it = &contents->places[i];
        bool is_same = last != NULL && it->group == last->group &&
                       it->member == last->member;
        if (it->group != NULL && !is_same)
            status = pen__pieces_end(it->group, it->member);
        last = it;
    }
    return status;
}

static pen_status refuse_room(const struct pen__contents *contents)
{
    pen_status status = end_fetching(contents);
    return status == PEN_OK ? PEN_NOMEM : status;
}

pen_status pen__contents_copy(struct pen__contents *contents,
                              struct pen_snapshot *snapshot)
{
    if (!take_plain(contents))
        return refuse_room(contents);
    for (size_t i = 0, end; i < contents->num_places; i = end) {
        size_t tensor = contents->places[i].tensor;
        end = end_of_parameter(contents, i);
        for (uint32_t p = 0; p < num_parts_of(contents, tensor); p++)
            copy_parameter(contents, i, end, p, snapshot);
    }
    for (size_t i = 0; i < contents->num_extras; i++)
        copy_extra(contents, i, snapshot);
    drop_plain(contents);
    return end_fetching(contents);
}

/* ---- where it lies: tensors that are not cut, each in one place ---- */

size_t pen__contents_num_pieces(const struct pen__contents *contents)
{
    const struct pen_engine *engine = contents->trainer->engine;
    size_t count = 0;
    if (!engine->ops->is_host || contents->num_extras > 0 || contents->is_cut ||
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
    bool is_matrix = contents->about[tensor].num_dims == 2;
    PEN_BUG_UNLESS(it->order == PEN_ORDER_ROWS || !is_matrix ||
                   it->num_slices == 1);
    return it->order == PEN_ORDER_TRANSPOSED && is_matrix;
}

static struct pen_copier_piece piece_of(struct pen__contents *contents,
                                        enum pen_checkpoint_part part,
                                        size_t tensor, void *to)
{
    const struct pen__place *place = &contents->places[tensor];
    struct pen_copier_piece piece = {
        .to = to, .num_bytes = bytes_of(&contents->about[tensor])};
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
    manifest->num_replicas =
        trainer->layout.num_logical / pen_layout_num_parts(&trainer->layout);
    manifest->num_pieces = trainer->options.logical_tensor > 1
                               ? trainer->options.logical_tensor
                               : 1;
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
    return read_part(contents, part, tensor);
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
    args.count = contents->count;
    args.num_moments = contents->num_moments;
    args.extras = contents->extras;
    args.num_extras = contents->num_extras;
    if (!take_plain(contents))
        return refuse_room(contents);
    pen_status status = pen_checkpoint_share_write(&args, &source, record, why);
    drop_plain(contents);
    pen_status ended = end_fetching(contents);
    return status == PEN_OK ? ended : status;
}

/* The list that the first rank of a group has. */
struct listed {
    struct pen__contents *contents;
    const struct pen__place *places;
};

static const float *read_listed(void *context, size_t number,
                                enum pen_checkpoint_part part, size_t *count)
{
    const struct listed *listed = context;
    const struct pen__place *place = &listed->places[number];
    *count = pen_tensor_piece_count(&place->slice.piece);
    return read_place(listed->contents, part, place, listed->contents->plain);
}

static pen_status serve(struct pen__contents *contents, struct pen_group *group,
                        const struct pen__place *places)
{
    struct listed listed = {contents, places};
    contents->plain = malloc(contents->plain_bytes + 1);
    if (contents->plain == NULL)
        pen_agree_alone(contents->trainer->options.transport, PEN_NOMEM,
                        "collecting a checkpoint", NULL);
    pen_status status = pen__pieces_serve(group, read_listed, &listed);
    drop_plain(contents);
    return status;
}

/* A rank that serves its tensor group fetches from its expert group for it. */
static pen_status serve_pieces(struct pen__contents *contents)
{
    struct pen_group *group = contents->trainer->tensor;
    if (group == NULL || group->self == 0 || contents->num_places == 0)
        return PEN_OK;
    pen_status status = serve(contents, group, contents->places);
    pen_status ended = end_fetching(contents);
    return status == PEN_OK ? ended : status;
}

pen_status pen__contents_serve(struct pen__contents *contents)
{
    pen_status status = PEN_OK;
    if (contents->num_handed_in > 0)
        status =
            serve(contents, contents->trainer->experts, contents->handed_in);
    return status == PEN_OK ? serve_pieces(contents) : status;
}
