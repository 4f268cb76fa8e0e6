/*
 * Every extra that a rank reads or writes is an entry of one list, which the
 * saver and the loader walk. A vector like the weights has the order of rows;
 * between two steps the gradient is not needed, so the vector goes through it
 * to the order of files:
 *
 *   vector  <->  gradient of the parameter  <->  plain array, slices of which
 *                                                are tensors of the model
 */
#include "runtime/replicas_checkpoint.h"

#include "base/bug.h"
#include "network/images.h"
#include "runtime/trainer_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum source {
    OWN_WEIGHT,
    MOMENT1,
    MOMENT2,
    STATISTIC, /* of the network, and of no place */
    VECTOR,    /* a state of one of the three kinds */
    FLOATS,
    NUMBERS
};

struct entry {
    enum source source;
    size_t place; /* whose parameter it is of */
    size_t slice; /* of that */
    size_t state;
    bool is_common; /* the same in all replicas */
    struct pen_text name;
    struct pen_any_tensor tensor; /* of the model; by its type and shape */
};

struct list {
    struct pen_trainer *trainer;
    struct pen_replicas *replicas;
    struct pen_sync_states states;
    size_t *firsts; /* of places, in vectors like the weights */
    struct entry *entries;
    size_t count;
    size_t room_bytes; /* of the largest parameter */
};

/* ---- the list ---- */

static const struct pen_network_parameter *parameter_of(const struct list *list,
                                                        size_t place)
{
    const struct pen_replicas_place *it =
        pen_replicas_place(list->replicas, place);
    return pen_network_parameter(pen_trainer_network(list->trainer, it->stage),
                                 it->parameter);
}

static size_t elements_of(const struct list *list, size_t place)
{
    return pen_network_count(parameter_of(list, place));
}

/* A state may be of some tensors only. */
static bool is_of(const struct list *list, const struct pen_sync_state *state,
                  size_t place)
{
    size_t count = state->num_tensors == 0
                       ? pen_replicas_num_places(list->replicas)
                       : state->num_tensors;
    return state->kind != PEN_STATE_NUMBERS && place >= state->first_tensor &&
           place - state->first_tensor < count;
}

/* NAME.replica3.WORD, or NAME.WORD of what all have in common. */
static struct entry *add_entry(struct list *list, const struct entry *made,
                               const char *name, const char *word)
{
    struct entry *entry = &list->entries[list->count++];
    *entry = *made;
    pen_text_add_string(&entry->name, name);
    if (!entry->is_common)
        pen_text_add(&entry->name, ".replica%u",
                     pen_replicas_number(list->replicas));
    pen_text_add(&entry->name, ".%s", word);
    return entry;
}

static void set_length(struct pen_any_tensor *tensor, enum pen_dtype dtype,
                       size_t length)
{
    tensor->dtype = dtype;
    tensor->num_dims = 1;
    tensor->shape[0] = tensor->num_elements = length;
}

/* The tensor of a slice; one that stacks experts is named and shaped as the one
 * of them that the slice is. */
static void describe(const struct list *list,
                     const struct pen_tensor_slice *slice,
                     struct pen_any_tensor *out)
{
    const struct pen_any_model *model = list->trainer->options.model;
    struct pen_tensor_info info;
    pen_any_model_tensor(model, slice->tensor, out);
    if (model->decoder == NULL)
        return;
    pen_model_tensor(model->decoder, slice->tensor, &info);
    if (!info.form->is_stacked)
        return;
    size_t length = strlen(out->name);
    uint64_t rows = slice->piece.num_rows;
    snprintf(out->name + length, sizeof out->name - length, ".expert%" PRIu64,
             slice->piece.first_row / rows);
    out->num_elements /= out->shape[0];
    out->num_dims--;
    memmove(out->shape, out->shape + 1, out->num_dims * sizeof *out->shape);
}

/* One entry for each tensor that the parameter holds. */
static void add_slices(struct list *list, const struct entry *made,
                       const char *word)
{
    const struct pen_network_parameter *it = parameter_of(list, made->place);
    for (size_t k = 0; k < it->num_slices; k++) {
        struct entry entry = *made;
        entry.slice = k;
        describe(list, &it->slices[k], &entry.tensor);
        add_entry(list, &entry, entry.tensor.name, word);
    }
}

/* As many floats as the method has of the parameter, with its first name. */
static void add_floats(struct list *list, const struct entry *made,
                       const struct pen_sync_state *state)
{
    size_t index = made->place - state->first_tensor;
    struct entry entry = *made;
    describe(list, &parameter_of(list, made->place)->slices[0], &entry.tensor);
    set_length(&entry.tensor, PEN_DTYPE_F32,
               state->firsts[index + 1] - state->firsts[index]);
    add_entry(list, &entry, entry.tensor.name, state->name);
}

static void add_place(struct list *list, size_t place)
{
    static const char *const words[] = {"weight", "moment1", "moment2"};
    int num_parts =
        1 + pen_optimizer_moments(&list->trainer->options.optimizer);
    PEN_BUG_UNLESS(num_parts <= (int)(sizeof words / sizeof *words));
    for (int i = 0; i < num_parts; i++)
        add_slices(list,
                   &(struct entry){.source = (enum source)(OWN_WEIGHT + i),
                                   .place = place},
                   words[i]);
    for (size_t i = 0; i < list->states.count; i++) {
        const struct pen_sync_state *state = &list->states.items[i];
        struct entry entry = {
            .place = place, .state = i, .is_common = state->is_common};
        if (!is_of(list, state, place))
            continue;
        entry.source = state->kind == PEN_STATE_PER_TENSOR ? FLOATS : VECTOR;
        if (entry.source == FLOATS)
            add_floats(list, &entry, state);
        else
            add_slices(list, &entry, state->name);
    }
}

static void add_numbers(struct list *list)
{
    for (size_t i = 0; i < list->states.count; i++) {
        const struct pen_sync_state *state = &list->states.items[i];
        struct entry entry = {
            .source = NUMBERS, .state = i, .is_common = state->is_common};
        set_length(&entry.tensor, PEN_DTYPE_F64, state->count);
        if (state->kind == PEN_STATE_NUMBERS)
            add_entry(list, &entry, "sync", state->name);
    }
}

static void add_statistics(struct list *list)
{
    const struct pen_any_model *model = list->trainer->options.model;
    for (uint32_t i = 0; i < pen_any_model_num_tensors(model); i++) {
        struct entry entry = {.source = STATISTIC, .state = i};
        pen_any_model_tensor(model, i, &entry.tensor);
        if (!entry.tensor.is_trained)
            add_entry(list, &entry, entry.tensor.name, "weight");
    }
}

static pen_status allocate(struct list *list)
{
    size_t num_places = pen_replicas_num_places(list->replicas);
    size_t most = pen_any_model_num_tensors(list->trainer->options.model) +
                  list->states.count;
    for (size_t i = 0; i < num_places; i++)
        most += parameter_of(list, i)->num_slices * (3 + list->states.count);
    list->firsts = calloc(num_places + 1, sizeof *list->firsts);
    list->entries = calloc(most + 1, sizeof *list->entries);
    return list->firsts == NULL || list->entries == NULL ? PEN_NOMEM : PEN_OK;
}

static void list_release(struct list *list)
{
    for (size_t i = 0; i < list->count; i++)
        pen_text_release(&list->entries[i].name);
    free(list->entries);
    free(list->firsts);
}

/* Release it in any case. */
static pen_status list_init(struct list *list, struct pen_trainer *trainer)
{
    *list = (struct list){.trainer = trainer,
                          .replicas = pen_trainer_replicas(trainer),
                          .room_bytes = sizeof(float)};
    pen_replicas_states(list->replicas, &list->states);
    if (allocate(list) != PEN_OK)
        return PEN_NOMEM;
    for (size_t i = 0; i < pen_replicas_num_places(list->replicas); i++) {
        size_t count = elements_of(list, i);
        size_t bytes = count * sizeof(float);
        list->firsts[i + 1] = list->firsts[i] + count;
        if (bytes > list->room_bytes)
            list->room_bytes = bytes;
        add_place(list, i);
    }
    add_numbers(list);
    add_statistics(list);
    for (size_t i = 0; i < list->count; i++)
        if (list->entries[i].name.has_failed)
            return PEN_NOMEM;
    return PEN_OK;
}

/* Where the part of a vector lies that is of a parameter. */
static float *vector_at(const struct list *list, const struct entry *entry)
{
    const struct pen_sync_state *state = &list->states.items[entry->state];
    return state->floats + list->firsts[entry->place] -
           list->firsts[state->first_tensor];
}

static float *floats_at(const struct list *list, const struct entry *entry)
{
    const struct pen_sync_state *state = &list->states.items[entry->state];
    return state->floats + state->firsts[entry->place - state->first_tensor];
}

static size_t bytes_of(const struct entry *entry)
{
    return entry->tensor.num_elements * pen_dtype_bits(entry->tensor.dtype) / 8;
}

static void *statistic_of(const struct list *list, const struct entry *entry)
{
    return pen_network_statistic(pen_trainer_network(list->trainer, 0),
                                 (uint32_t)entry->state);
}

/* ---- saving ---- */

struct pen_replicas_saver {
    struct list list;
    size_t *written; /* entries that this rank writes */
    struct pen_tensor_spec *specs;
    size_t count;
};

/* Entries without a tensor are written by the first rank of a replica. */
static bool writes(const struct list *list, const struct entry *entry)
{
    bool is_first = pen_transport_rank(list->trainer->options.transport) == 0;
    return (!entry->is_common || pen_replicas_number(list->replicas) == 0) &&
           (is_first ||
            (entry->source != NUMBERS && entry->source != STATISTIC));
}

pen_status pen_replicas_saver_create(struct pen_trainer *trainer,
                                     struct pen_replicas_saver **out,
                                     struct pen_text *why)
{
    struct pen_replicas_saver *saver = calloc(1, sizeof *saver);
    pen_status status =
        saver == NULL ? PEN_NOMEM : list_init(&saver->list, trainer);
    if (status == PEN_OK) {
        size_t most = saver->list.count;
        saver->written = calloc(most + 1, sizeof *saver->written);
        saver->specs = calloc(most + 1, sizeof *saver->specs);
        if (saver->written == NULL || saver->specs == NULL)
            status = PEN_NOMEM;
    }
    if (status != PEN_OK) {
        pen_replicas_saver_free(saver);
        pen_why(why, "no memory for the names of the replicas' state");
        return status;
    }
    for (size_t i = 0; i < saver->list.count; i++) {
        const struct entry *entry = &saver->list.entries[i];
        if (!writes(&saver->list, entry))
            continue;
        saver->specs[saver->count] = (struct pen_tensor_spec){
            pen_text_string(&entry->name), entry->tensor.dtype,
            entry->tensor.num_dims, entry->tensor.shape};
        saver->written[saver->count++] = i;
    }
    *out = saver;
    return PEN_OK;
}

void pen_replicas_saver_free(struct pen_replicas_saver *saver)
{
    if (saver == NULL)
        return;
    list_release(&saver->list);
    free(saver->written);
    free(saver->specs);
    free(saver);
}

const struct pen_tensor_spec *
pen_replicas_saver_extras(const struct pen_replicas_saver *saver, size_t *count)
{
    *count = saver->count;
    return saver->specs;
}

size_t pen_replicas_saver_room(const struct pen_replicas_saver *saver)
{
    return saver->list.room_bytes;
}

pen_status pen_replicas_saver_begin(struct pen_replicas_saver *saver)
{
    struct list *list = &saver->list;
    size_t count = list->states.count;
    pen_status status = pen_replicas_show(list->replicas);
    if (status != PEN_OK)
        return status;
    list->states.count = 0; /* where they lie may have changed */
    pen_replicas_states(list->replicas, &list->states);
    PEN_BUG_UNLESS(list->states.count == count);
    return PEN_OK;
}

pen_status pen_replicas_saver_end(struct pen_replicas_saver *saver)
{
    return pen_replicas_hide(saver->list.replicas);
}

static void read_part(const struct list *list, const struct entry *entry,
                      enum pen_parameter_part part, float *room)
{
    struct pen_engine *engine = list->trainer->engine;
    const struct pen_network_parameter *it = parameter_of(list, entry->place);
    engine->ops->parameter_export(engine, it->parameter, part, it->order, room);
}

static void read_vector(const struct list *list, const struct entry *entry,
                        const float *vector, float *room)
{
    struct pen_engine *engine = list->trainer->engine;
    engine->ops->parameter_import(engine,
                                  parameter_of(list, entry->place)->parameter,
                                  PEN_PART_GRADIENT, PEN_ORDER_ROWS, vector);
    read_part(list, entry, PEN_PART_GRADIENT, room);
}

const void *pen_replicas_saver_read(struct pen_replicas_saver *saver,
                                    size_t extra, float *room)
{
    const struct list *list = &saver->list;
    const struct entry *entry = &list->entries[saver->written[extra]];
    switch (entry->source) {
    case OWN_WEIGHT:
        read_vector(list, entry,
                    pen_replicas_hidden(list->replicas) +
                        list->firsts[entry->place],
                    room);
        break;
    case MOMENT1:
        read_part(list, entry, PEN_PART_MOMENT1, room);
        break;
    case MOMENT2:
        read_part(list, entry, PEN_PART_MOMENT2, room);
        break;
    case VECTOR:
        read_vector(list, entry, vector_at(list, entry), room);
        break;
    case FLOATS:
        return floats_at(list, entry);
    case NUMBERS:
        return list->states.items[entry->state].numbers;
    case STATISTIC:
        return pen_replicas_hidden_statistic(list->replicas,
                                             (uint32_t)entry->state);
    }
    return room + parameter_of(list, entry->place)->slices[entry->slice].first;
}

static pen_status
describe_options(const struct pen_sync_option *options, size_t count,
                 const struct pen_sync_values *values, bool is_of_compressor,
                 struct pen_manifest *manifest, struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (size_t i = 0; i < count && status == PEN_OK; i++)
        status = pen_manifest_set_sync_option(
            manifest, is_of_compressor, options[i].name, values->at[i], why);
    return status;
}

pen_status pen_replicas_describe(const struct pen_replicas *replicas,
                                 struct pen_manifest *manifest,
                                 struct pen_text *why)
{
    const struct pen_sync_choice *choice = pen_replicas_choice(replicas);
    const struct pen_compressor *compressor = choice->compressor;
    const struct pen_manifest_sync sync = {
        .method = choice->method->name,
        .interval = choice->interval,
        .num_replicas = pen_replicas_count(replicas),
        .compressor = compressor == NULL ? NULL : compressor->name};
    pen_status status = pen_manifest_set_sync(manifest, &sync, why);
    if (status == PEN_OK)
        status = describe_options(choice->method->options,
                                  choice->method->num_options, &choice->options,
                                  false, manifest, why);
    if (status == PEN_OK && compressor != NULL)
        status =
            describe_options(compressor->options, compressor->num_options,
                             &choice->compressor_options, true, manifest, why);
    return status;
}

/* ---- loading ---- */

static pen_status check_run(const struct pen_replicas *replicas,
                            const struct pen_checkpoint *checkpoint,
                            struct pen_text *why)
{
    struct pen_manifest wanted = {0};
    struct pen_text changes = PEN_TEXT_EMPTY;
    pen_status status = pen_manifest_init(&wanted, why);
    if (status == PEN_OK)
        status = pen_replicas_describe(replicas, &wanted, why);
    if (status == PEN_OK)
        status =
            pen_manifest_compare_sync(&checkpoint->manifest, &wanted, &changes);
    if (changes.length > 0)
        pen_why(why,
                "%s belongs to a run with other settings: %s; to start a new "
                "run from its weights, give it as --model",
                pen_text_string(&checkpoint->path), pen_text_string(&changes));
    pen_manifest_release(&wanted);
    pen_text_release(&changes);
    return status;
}

static pen_status find(const struct entry *entry,
                       const struct pen_checkpoint *checkpoint,
                       const struct pen_safetensor **out, struct pen_text *why)
{
    const struct pen_any_tensor *tensor = &entry->tensor;
    const struct pen_safetensor *found = NULL;
    pen_status status = pen_checkpoint_find_extra(
        checkpoint, pen_text_string(&entry->name), &found, why);
    if (status != PEN_OK)
        return status;
    if (found->dtype != tensor->dtype || found->num_dims != tensor->num_dims ||
        memcmp(found->shape, tensor->shape,
               tensor->num_dims * sizeof *tensor->shape) != 0) {
        pen_why(why, "%s: %s has another type or shape than in this run",
                pen_text_string(&checkpoint->path), found->name);
        return PEN_INVALID;
    }
    *out = found;
    return PEN_OK;
}

/* Writes a parameter out of the room, which has all of it. */
static void write_parameter(const struct list *list, const struct entry *entry,
                            const float *room)
{
    static const enum pen_parameter_part parts[] = {
        [OWN_WEIGHT] = PEN_PART_VALUE,
        [MOMENT1] = PEN_PART_MOMENT1,
        [MOMENT2] = PEN_PART_MOMENT2,
        [VECTOR] = PEN_PART_GRADIENT};
    struct pen_engine *engine = list->trainer->engine;
    const struct pen_network_parameter *it = parameter_of(list, entry->place);
    engine->ops->parameter_import(engine, it->parameter, parts[entry->source],
                                  it->order, room);
    if (entry->source == VECTOR)
        engine->ops->parameter_export(engine, it->parameter, PEN_PART_GRADIENT,
                                      PEN_ORDER_ROWS, vector_at(list, entry));
}

/* The slices of a parameter come one after the other. */
static void take_slice(const struct list *list, const struct entry *entry,
                       const struct pen_safetensor *found, float *room)
{
    const struct pen_network_parameter *it = parameter_of(list, entry->place);
    memcpy(room + it->slices[entry->slice].first, found->bytes,
           bytes_of(entry));
    if (entry->slice + 1 == it->num_slices)
        write_parameter(list, entry, room);
}

static pen_status load_entry(const struct list *list, const struct entry *entry,
                             const struct pen_checkpoint *checkpoint,
                             float *room, struct pen_text *why)
{
    const struct pen_safetensor *found = NULL;
    pen_status status = find(entry, checkpoint, &found, why);
    if (status != PEN_OK)
        return status;
    switch (entry->source) {
    case FLOATS:
        memcpy(floats_at(list, entry), found->bytes, bytes_of(entry));
        break;
    case NUMBERS:
        memcpy(list->states.items[entry->state].numbers, found->bytes,
               bytes_of(entry));
        break;
    case STATISTIC:
        memcpy(statistic_of(list, entry), found->bytes, bytes_of(entry));
        break;
    default:
        take_slice(list, entry, found, room);
    }
    return PEN_OK;
}

static pen_status load_entries(const struct list *list,
                               const struct pen_checkpoint *checkpoint,
                               struct pen_text *why)
{
    float *room = malloc(list->room_bytes);
    pen_status status = room == NULL ? PEN_NOMEM : PEN_OK;
    for (size_t i = 0; i < list->count && status == PEN_OK; i++)
        status = load_entry(list, &list->entries[i], checkpoint, room, why);
    free(room);
    return status;
}

pen_status pen_replicas_load(struct pen_trainer *trainer,
                             const struct pen_checkpoint *checkpoint,
                             struct pen_text *why)
{
    struct list list;
    pen_status status =
        check_run(pen_trainer_replicas(trainer), checkpoint, why);
    if (status != PEN_OK)
        return status;
    status = list_init(&list, trainer);
    if (status == PEN_OK)
        status = load_entries(&list, checkpoint, why);
    list_release(&list);
    return status;
}
