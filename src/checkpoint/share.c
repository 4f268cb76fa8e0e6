/*
 * The files of one process: up to three groups, each with its shards.
 *
 *   model.000003.safetensors       NAME
 *   optimizer.000003.safetensors   NAME.moment1, NAME.moment2
 *   sync.000003.safetensors        NAME.version1, ... then extras
 *
 * The leader gives them their names when it knows how many there are.
 */
#include "checkpoint/share.h"

#include "base/bug.h"
#include "checkpoint/internal.h"

#include <stdlib.h>
#include <string.h>

/* A part of a tensor. */
struct slot {
    size_t tensor;
    enum pen_checkpoint_part part;
};

struct group {
    struct pen_tensor_spec *specs;
    struct slot *slots; /* of the specs */
    size_t count;
    size_t first_extra;                /* specs from here on are no parts */
    size_t *first;                     /* of each tensor, in specs */
    struct pen_weights_writer *writer; /* NULL when there are no specs */
};

struct pen_checkpoint_share {
    struct pen_text directory;
    uint64_t step;
    uint32_t number;
    uint32_t num_moments;
    struct pen_text names; /* of all specs, each with a NUL */
    uint64_t *dims;        /* of all tensors, then of extras */
    struct group groups[PEN_RECORD_KINDS];
};

static pen_status refuse_memory(struct pen_text *why)
{
    pen_why(why, "no memory to write a checkpoint");
    return PEN_NOMEM;
}

static void deallocate(struct pen_checkpoint_share *share)
{
    for (enum pen_record_kind i = 0; i < PEN_RECORD_KINDS; i++) {
        struct group *group = &share->groups[i];
        if (group->writer != NULL)
            pen_weights_free(group->writer);
        free(group->specs);
        free(group->slots);
        free(group->first);
    }
    pen_text_release(&share->directory);
    pen_text_release(&share->names);
    free(share->dims);
    free(share);
}

static const enum pen_checkpoint_part first_parts[] = {
    PEN_CHECKPOINT_WEIGHT, PEN_CHECKPOINT_MOMENT1, PEN_CHECKPOINT_VERSION1};

/* Returns how many specs of this kind a tensor has. */
static uint32_t num_parts(const struct pen_checkpoint_share *share,
                          const struct pen_checkpoint_tensor *tensor,
                          enum pen_record_kind kind)
{
    if (kind == PEN_RECORD_MODEL)
        return 1;
    if (kind == PEN_RECORD_SYNC)
        return tensor->num_versions;
    return pen_checkpoint_tensor_moments(tensor->has_moments,
                                         share->num_moments);
}

static size_t num_extras(const struct pen_checkpoint_share_args *args,
                         enum pen_record_kind kind)
{
    return kind == PEN_RECORD_SYNC ? args->num_extras : 0;
}

static pen_status allocate_group(const struct pen_checkpoint_share *share,
                                 const struct pen_checkpoint_share_args *args,
                                 enum pen_record_kind kind, struct group *group,
                                 struct pen_text *why)
{
    size_t count = num_extras(args, kind);
    for (size_t i = 0; i < args->count; i++)
        count += num_parts(share, &args->tensors[i], kind);
    group->specs = calloc(count + 1, sizeof *group->specs);
    group->slots = calloc(count + 1, sizeof *group->slots);
    group->first = calloc(args->count + 1, sizeof *group->first);
    if (group->specs == NULL || group->slots == NULL || group->first == NULL)
        return refuse_memory(why);
    return PEN_OK;
}

static size_t count_dims(const struct pen_checkpoint_share_args *args)
{
    size_t num_dims = 0;
    for (size_t i = 0; i < args->count; i++)
        num_dims += args->tensors[i].spec.num_dims;
    for (size_t i = 0; i < args->num_extras; i++)
        num_dims += args->extras[i].num_dims;
    return num_dims;
}

static void copy_shape(const struct pen_tensor_spec *spec, uint64_t **dims)
{
    if (spec->num_dims > 0)
        memcpy(*dims, spec->shape, spec->num_dims * sizeof **dims);
    *dims += spec->num_dims;
}

static void copy_shapes(struct pen_checkpoint_share *share,
                        const struct pen_checkpoint_share_args *args)
{
    uint64_t *dims = share->dims;
    for (size_t i = 0; i < args->count; i++)
        copy_shape(&args->tensors[i].spec, &dims);
    for (size_t i = 0; i < args->num_extras; i++)
        copy_shape(&args->extras[i], &dims);
}

/* Names move while the text grows, so they come first. */
static void add_names(struct pen_checkpoint_share *share,
                      const struct pen_checkpoint_share_args *args,
                      enum pen_record_kind kind)
{
    for (size_t i = 0; i < args->count; i++) {
        const struct pen_checkpoint_tensor *tensor = &args->tensors[i];
        for (uint32_t m = 0; m < num_parts(share, tensor, kind); m++) {
            pen__part_name(tensor->spec.name, first_parts[kind] + m,
                           &share->names);
            pen_text_add_bytes(&share->names, "", 1);
        }
    }
    for (size_t i = 0; i < num_extras(args, kind); i++) {
        PEN_BUG_UNLESS(!pen__is_version_name(args->extras[i].name));
        pen_text_add_string(&share->names, args->extras[i].name);
        pen_text_add_bytes(&share->names, "", 1);
    }
}

static const char *next_name(const char **at)
{
    const char *name = *at;
    *at += strlen(name) + 1;
    return name;
}

static void fill_group(const struct pen_checkpoint_share *share,
                       const struct pen_checkpoint_share_args *args,
                       enum pen_record_kind kind, struct group *group,
                       const char **name)
{
    const uint64_t *dims = share->dims;
    for (size_t i = 0; i < args->count; i++) {
        const struct pen_checkpoint_tensor *tensor = &args->tensors[i];
        uint32_t num_dims = tensor->spec.num_dims;
        enum pen_dtype dtype =
            kind == PEN_RECORD_MODEL ? tensor->spec.dtype : PEN_DTYPE_F32;
        group->first[i] = group->count;
        for (uint32_t m = 0; m < num_parts(share, tensor, kind); m++) {
            group->slots[group->count] =
                (struct slot){i, first_parts[kind] + m};
            group->specs[group->count++] = (struct pen_tensor_spec){
                next_name(name), dtype, num_dims, dims};
        }
        dims += num_dims;
    }
    group->first_extra = group->count;
    for (size_t i = 0; i < num_extras(args, kind); i++) {
        const struct pen_tensor_spec *extra = &args->extras[i];
        group->specs[group->count++] = (struct pen_tensor_spec){
            next_name(name), extra->dtype, extra->num_dims, dims};
        dims += extra->num_dims;
    }
}

static pen_status copy_tensors(struct pen_checkpoint_share *share,
                               const struct pen_checkpoint_share_args *args,
                               struct pen_text *why)
{
    pen_status status = PEN_OK;
    share->dims = calloc(count_dims(args) + 1, sizeof *share->dims);
    for (enum pen_record_kind i = 0; i < PEN_RECORD_KINDS && status == PEN_OK;
         i++) {
        status = allocate_group(share, args, i, &share->groups[i], why);
        add_names(share, args, i);
    }
    if (status == PEN_OK && (share->dims == NULL || share->names.has_failed))
        status = refuse_memory(why);
    if (status != PEN_OK)
        return status;
    copy_shapes(share, args);
    const char *name = share->names.bytes;
    for (enum pen_record_kind i = 0; i < PEN_RECORD_KINDS; i++)
        fill_group(share, args, i, &share->groups[i], &name);
    return PEN_OK;
}

static pen_status open_group(const struct pen_checkpoint_share *share,
                             enum pen_record_kind kind, struct group *group,
                             uint64_t max_shard_bytes, struct pen_text *why)
{
    struct pen_text prefix = PEN_TEXT_EMPTY;
    if (group->count == 0)
        return PEN_OK;
    pen_text_add(&prefix, "%s.%06u", pen_record_kind_name(kind), share->number);
    pen_status status =
        prefix.has_failed
            ? refuse_memory(why)
            : pen_weights_create(pen_text_string(&share->directory),
                                 pen_text_string(&prefix), group->specs,
                                 group->count, max_shard_bytes, &group->writer,
                                 why);
    pen_text_release(&prefix);
    return status;
}

pen_status
pen_checkpoint_share_create(const struct pen_checkpoint_share_args *args,
                            struct pen_checkpoint_share **out,
                            struct pen_text *why)
{
    PEN_BUG_UNLESS(args->number <= PEN_RECORD_MAX_SHARE);
    struct pen_checkpoint_share *share = calloc(1, sizeof *share);
    if (share == NULL)
        return refuse_memory(why);
    share->step = args->step;
    share->number = args->number;
    share->num_moments = args->num_moments;
    pen__temporary_path(args->run, args->step, &share->directory);
    pen_status status = share->directory.has_failed
                            ? refuse_memory(why)
                            : copy_tensors(share, args, why);
    for (enum pen_record_kind i = 0; i < PEN_RECORD_KINDS && status == PEN_OK;
         i++)
        status =
            open_group(share, i, &share->groups[i], args->max_shard_bytes, why);
    if (status == PEN_OK)
        *out = share;
    else
        deallocate(share);
    return status;
}

pen_status pen_checkpoint_share_put(struct pen_checkpoint_share *share,
                                    enum pen_checkpoint_part part,
                                    size_t tensor, const void *bytes,
                                    size_t length, struct pen_text *why)
{
    enum pen_record_kind kind =
        part >= PEN_CHECKPOINT_VERSION1  ? PEN_RECORD_SYNC
        : part >= PEN_CHECKPOINT_MOMENT1 ? PEN_RECORD_OPTIMIZER
                                         : PEN_RECORD_MODEL;
    const struct group *group = &share->groups[kind];
    size_t spec = group->first[tensor] + (size_t)part - first_parts[kind];
    PEN_BUG_UNLESS(spec < group->first_extra &&
                   group->slots[spec].tensor == tensor);
    return pen_weights_put(group->writer, spec, bytes, length, why);
}

pen_status pen_checkpoint_share_put_extra(struct pen_checkpoint_share *share,
                                          size_t extra, const void *bytes,
                                          size_t length, struct pen_text *why)
{
    const struct group *group = &share->groups[PEN_RECORD_SYNC];
    PEN_BUG_UNLESS(extra < group->count - group->first_extra);
    return pen_weights_put(group->writer, group->first_extra + extra, bytes,
                           length, why);
}

/* ------------------------------------------------------------- The record */

/* A file that was not written in order has to be read once more. */
static pen_status complete_facts(const struct pen_checkpoint_share *share,
                                 const char *name, struct pen_file_facts *facts,
                                 struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen__reading reading = {.watch = NULL};
    if (facts->hash[0] != '\0')
        return PEN_OK;
    pen_text_add(&path, "%s/%s", pen_text_string(&share->directory), name);
    pen_status status =
        pen__file_hash(pen_text_string(&path), &reading, facts, why);
    pen_text_release(&path);
    return status;
}

static size_t count_extras(const struct group *group,
                           const struct pen_weights_file *file)
{
    size_t end = file->first + file->count;
    size_t first =
        file->first > group->first_extra ? file->first : group->first_extra;
    return first < end ? end - first : 0;
}

static pen_status describe_file(const struct pen_checkpoint_share *share,
                                enum pen_record_kind kind, size_t number,
                                struct pen_text *name,
                                struct pen_record_file *out,
                                struct pen_text *why)
{
    const struct group *group = &share->groups[kind];
    struct pen_weights_file file;
    pen_weights_file(group->writer, number, name, &file);
    out->tensors = calloc(file.count + 1, sizeof *out->tensors);
    if (out->tensors == NULL || name->has_failed)
        return refuse_memory(why);
    for (size_t i = 0; i < file.count; i++)
        out->tensors[i] = group->specs[file.first + i].name;
    out->num_tensors = file.count;
    out->num_extras = count_extras(group, &file);
    out->kind = kind;
    out->name = pen_text_string(name);
    out->facts = file.facts;
    out->tensor_bytes = file.tensor_bytes;
    return complete_facts(share, out->name, &out->facts, why);
}

static size_t num_files(const struct group *group)
{
    return group->writer == NULL ? 0 : pen_weights_num_files(group->writer);
}

static pen_status print_record(const struct pen_checkpoint_share *share,
                               size_t count, struct pen_text *out,
                               struct pen_text *why)
{
    struct pen_record record = {.step = share->step, .share = share->number};
    struct pen_text *names = calloc(count + 1, sizeof *names);
    record.files = calloc(count + 1, sizeof *record.files);
    pen_status status =
        names == NULL || record.files == NULL ? refuse_memory(why) : PEN_OK;
    for (enum pen_record_kind kind = 0; kind < PEN_RECORD_KINDS; kind++) {
        for (size_t i = 0;
             status == PEN_OK && i < num_files(&share->groups[kind]); i++) {
            size_t at = record.num_files++;
            status = describe_file(share, kind, i, &names[at],
                                   &record.files[at], why);
        }
    }
    if (status == PEN_OK)
        status = pen_record_print(&record, out, why);
    for (size_t i = 0; i < record.num_files; i++)
        pen_text_release(&names[i]);
    free(names);
    pen_record_release(&record);
    return status;
}

pen_status pen_checkpoint_share_finish(struct pen_checkpoint_share *share,
                                       struct pen_text *record,
                                       struct pen_text *why)
{
    pen_status status = PEN_OK;
    size_t count = 0;
    for (enum pen_record_kind i = 0; i < PEN_RECORD_KINDS && status == PEN_OK;
         i++) {
        struct group *group = &share->groups[i];
        count += num_files(group);
        if (group->writer != NULL)
            status = pen_weights_flush(group->writer, why);
    }
    if (status == PEN_OK)
        status = print_record(share, count, record, why);
    if (status == PEN_OK)
        deallocate(share);
    else
        pen_checkpoint_share_abandon(share);
    return status;
}

void pen_checkpoint_share_abandon(struct pen_checkpoint_share *share)
{
    for (enum pen_record_kind i = 0; i < PEN_RECORD_KINDS; i++) {
        struct group *group = &share->groups[i];
        if (group->writer != NULL)
            pen_weights_abandon(group->writer);
        group->writer = NULL;
    }
    deallocate(share);
}

/* ------------------------------------------------------- Out of memory */

/* Puts a stretch in blocks, which the hash finds in the cache. */
static pen_status put_stretch(struct group *group, size_t spec, uint64_t at,
                              const char *bytes, uint64_t left,
                              struct pen_text *why)
{
    pen_status status = PEN_OK;
    while (status == PEN_OK && left > 0) {
        size_t length = left < PEN_CHECKPOINT_BLOCK_BYTES
                            ? (size_t)left
                            : PEN_CHECKPOINT_BLOCK_BYTES;
        status =
            pen_weights_put_at(group->writer, spec, at, bytes, length, why);
        bytes += length;
        at += length;
        left -= length;
    }
    return status;
}

/* Puts a tensor in pieces, which becomes whole in the file. */
static pen_status put_pieces(struct group *group, size_t spec,
                             const struct pen_checkpoint_cut *cut,
                             const char *bytes, struct pen_text *why)
{
    const struct pen_tensor_spec *of = &group->specs[spec];
    const struct pen_tensor_piece whole =
        pen_tensor_piece_whole(of->num_dims, of->shape);
    const struct pen_tensor_piece *pieces =
        cut->count > 0 ? cut->pieces : &whole;
    size_t count = cut->count > 0 ? cut->count : 1;
    uint64_t width = pen_dtype_bits(of->dtype) / 8;
    pen_status status = PEN_OK;
    PEN_BUG_UNLESS(pen_tensor_pieces_tile(&whole, pieces, count));
    for (size_t k = 0; k < count; k++) {
        uint64_t num = pen_tensor_piece_num_stretches(&pieces[k], &whole);
        for (uint64_t i = 0; i < num && status == PEN_OK; i++) {
            struct pen_tensor_stretch it =
                pen_tensor_piece_stretch(&pieces[k], &whole, i);
            status = put_stretch(group, spec, it.first * width, bytes,
                                 it.count * width, why);
            bytes += it.count * width;
        }
    }
    return status;
}

static const void *find_bytes(const struct group *group,
                              const struct pen_checkpoint_source *source,
                              size_t spec)
{
    const struct slot *slot = &group->slots[spec];
    return spec < group->first_extra
               ? source->bytes_of(source->context, slot->part, slot->tensor)
               : source->extra_of(source->context, spec - group->first_extra);
}

static pen_status put_group(struct group *group,
                            const struct pen_checkpoint_share_args *args,
                            const struct pen_checkpoint_source *source,
                            struct pen_text *why)
{
    const struct pen_tensor_spec **order =
        calloc(group->count + 1, sizeof *order);
    if (order == NULL)
        return refuse_memory(why);
    pen_status status = PEN_OK;
    if (group->writer != NULL)
        pen_weights_order(group->writer, order);
    for (size_t i = 0; i < group->count && status == PEN_OK; i++) {
        size_t spec = (size_t)(order[i] - group->specs);
        bool is_cut = args->cuts != NULL && spec < group->first_extra;
        const struct pen_checkpoint_cut whole = {NULL, 0};
        status =
            put_pieces(group, spec,
                       is_cut ? &args->cuts[group->slots[spec].tensor] : &whole,
                       find_bytes(group, source, spec), why);
    }
    free(order);
    return status;
}

pen_status
pen_checkpoint_share_write(const struct pen_checkpoint_share_args *args,
                           const struct pen_checkpoint_source *source,
                           struct pen_text *record, struct pen_text *why)
{
    struct pen_checkpoint_share *share = NULL;
    pen_status status = pen_checkpoint_share_create(args, &share, why);
    if (status != PEN_OK)
        return status;
    for (enum pen_record_kind i = 0; i < PEN_RECORD_KINDS && status == PEN_OK;
         i++)
        status = put_group(&share->groups[i], args, source, why);
    if (status == PEN_OK)
        return pen_checkpoint_share_finish(share, record, why);
    pen_checkpoint_share_abandon(share);
    return status;
}
