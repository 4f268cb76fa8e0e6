/*
 * One block:
 *
 *   | directory | note | model | optimizer | sync |
 *
 * The last three are images of safetensors files; one that would have no tensor
 * has no bytes. All begin at a multiple of 64 bytes.
 */
#include "checkpoint/snapshot.h"

#include "base/bug.h"
#include "checkpoint/internal.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64u

/* Ends the name of a matrix that lies column by column; dimensions are those
 * of the rows that it then has. */
#define TRANSPOSED " transposed"

enum { MODEL, OPTIMIZER, SYNC, NUM_IMAGES };

struct directory {
    struct {
        uint64_t offset;
        uint64_t num_bytes;
    } note, images[NUM_IMAGES];
};

/* A file in the block. */
struct image {
    struct pen_tensor_spec *specs;
    uint64_t (*shapes)[2]; /* of those that are transposed */
    uint64_t *offsets;     /* of the specs, from the beginning of the image */
    size_t count;
    struct pen_text head;
};

struct pen_snapshot {
    struct pen_snapshot_contents contents;
    size_t *firsts[NUM_IMAGES]; /* spec of each tensor's first part there */
    struct image images[NUM_IMAGES];
    struct directory directory;
    size_t note_room;
    size_t block_bytes;
    char *block; /* in use */
    char *own;
};

static size_t align(size_t num_bytes)
{
    return (num_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---- making ---- */

static enum pen_checkpoint_part part_at(int image, size_t number)
{
    static const enum pen_checkpoint_part firsts[] = {
        PEN_CHECKPOINT_WEIGHT, PEN_CHECKPOINT_MOMENT1, PEN_CHECKPOINT_VERSION1};
    return firsts[image] + (enum pen_checkpoint_part)number;
}

static size_t num_parts(const struct pen_snapshot *snapshot, int image,
                        size_t tensor)
{
    const struct pen_checkpoint_tensor *it =
        &snapshot->contents.tensors[tensor];
    if (image == MODEL)
        return 1;
    if (image == SYNC)
        return it->num_versions;
    return pen_checkpoint_tensor_moments(it->has_moments,
                                         snapshot->contents.num_moments);
}

static size_t count_specs(const struct pen_snapshot *snapshot, int image)
{
    size_t count = image == SYNC ? snapshot->contents.num_extras : 0;
    for (size_t i = 0; i < snapshot->contents.count; i++)
        count += num_parts(snapshot, image, i);
    return count;
}

/* Names are owned by the image, also those of extras. */
static pen_status add_spec(struct image *image,
                           const struct pen_tensor_spec *spec,
                           const struct pen_text *name)
{
    struct pen_tensor_spec *added = &image->specs[image->count];
    *added = *spec;
    added->name = name->has_failed ? NULL : strdup(pen_text_string(name));
    if (added->name == NULL)
        return PEN_NOMEM;
    image->count++;
    return PEN_OK;
}

static pen_status add_part(struct pen_snapshot *snapshot, int image,
                           size_t tensor, size_t number)
{
    struct pen_tensor_spec spec = snapshot->contents.tensors[tensor].spec;
    enum pen_checkpoint_part part = part_at(image, number);
    struct pen_text name = PEN_TEXT_EMPTY;
    pen__part_name(spec.name, part, &name);
    if (part != PEN_CHECKPOINT_WEIGHT)
        spec.dtype = PEN_DTYPE_F32;
    if (snapshot->contents.transposed != NULL &&
        snapshot->contents.transposed[tensor]) {
        uint64_t *shape =
            snapshot->images[image].shapes[snapshot->images[image].count];
        PEN_BUG_UNLESS(spec.num_dims == 2 && spec.dtype == PEN_DTYPE_F32);
        shape[0] = spec.shape[1];
        shape[1] = spec.shape[0];
        spec.shape = shape;
        pen_text_add_string(&name, TRANSPOSED);
    }
    pen_status status = add_spec(&snapshot->images[image], &spec, &name);
    pen_text_release(&name);
    return status;
}

static pen_status list_image(struct pen_snapshot *snapshot, int image)
{
    const struct pen_snapshot_contents *contents = &snapshot->contents;
    struct image *it = &snapshot->images[image];
    size_t count = count_specs(snapshot, image);
    pen_status status = PEN_OK;
    it->specs = calloc(count + 1, sizeof *it->specs);
    it->shapes = calloc(count + 1, sizeof *it->shapes);
    it->offsets = calloc(count + 1, sizeof *it->offsets);
    snapshot->firsts[image] =
        calloc(contents->count + 1, sizeof *snapshot->firsts[image]);
    if (it->specs == NULL || it->shapes == NULL || it->offsets == NULL ||
        snapshot->firsts[image] == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < contents->count; i++) {
        snapshot->firsts[image][i] = it->count;
        for (size_t k = 0;
             k < num_parts(snapshot, image, i) && status == PEN_OK; k++)
            status = add_part(snapshot, image, i, k);
    }
    for (size_t i = 0;
         image == SYNC && i < contents->num_extras && status == PEN_OK; i++) {
        struct pen_text name = PEN_TEXT_EMPTY;
        pen_text_add_string(&name, contents->extras[i].name);
        status = add_spec(it, &contents->extras[i], &name);
        pen_text_release(&name);
    }
    return status;
}

static pen_status lay_out(struct pen_snapshot *snapshot, struct pen_text *why)
{
    struct directory *directory = &snapshot->directory;
    size_t end = align(sizeof *directory);
    pen_status status = PEN_OK;
    directory->note.offset = end;
    end += align(snapshot->note_room);
    for (int i = 0; i < NUM_IMAGES && status == PEN_OK; i++) {
        struct image *it = &snapshot->images[i];
        uint64_t num_bytes = 0;
        status = list_image(snapshot, i);
        if (status == PEN_OK && it->count > 0)
            status = pen_safetensors_lay(it->specs, it->count, &it->head,
                                         it->offsets, &num_bytes, why);
        directory->images[i].offset = end;
        directory->images[i].num_bytes = num_bytes;
        end += align((size_t)num_bytes);
    }
    snapshot->block_bytes = end;
    return status;
}

pen_status pen_snapshot_plan(const struct pen_snapshot_contents *contents,
                             size_t note_bytes, struct pen_snapshot **out,
                             struct pen_text *why)
{
    struct pen_snapshot *snapshot = calloc(1, sizeof *snapshot);
    pen_status status = PEN_NOMEM;
    if (snapshot != NULL) {
        snapshot->contents = *contents;
        snapshot->note_room = note_bytes;
        status = lay_out(snapshot, why);
    }
    if (status == PEN_OK) {
        *out = snapshot;
        return PEN_OK;
    }
    if (status == PEN_NOMEM)
        pen_why(why, "no memory for the snapshot of a checkpoint");
    pen_snapshot_free(snapshot);
    return status;
}

pen_status pen_snapshot_create(const struct pen_snapshot_contents *contents,
                               struct pen_snapshot **out, struct pen_text *why)
{
    struct pen_snapshot *snapshot = NULL;
    pen_status status = pen_snapshot_plan(contents, 0, &snapshot, why);
    if (status != PEN_OK)
        return status;
    snapshot->own = aligned_alloc(ALIGNMENT, snapshot->block_bytes);
    if (snapshot->own == NULL) {
        pen_why(why, "no memory for the snapshot of a checkpoint: %zu bytes",
                snapshot->block_bytes);
        pen_snapshot_free(snapshot);
        return PEN_NOMEM;
    }
    /* All pages exist from now on, so that no step waits for one. */
    memset(snapshot->own, 0, snapshot->block_bytes);
    pen_snapshot_use(snapshot, snapshot->own);
    *out = snapshot;
    return PEN_OK;
}

void pen_snapshot_free(struct pen_snapshot *snapshot)
{
    if (snapshot == NULL)
        return;
    for (int i = 0; i < NUM_IMAGES; i++) {
        struct image *it = &snapshot->images[i];
        for (size_t k = 0; k < it->count; k++)
            free((char *)it->specs[k].name);
        free(it->specs);
        free(it->shapes);
        free(it->offsets);
        free(snapshot->firsts[i]);
        pen_text_release(&it->head);
    }
    free(snapshot->own);
    free(snapshot);
}

size_t pen_snapshot_bytes(const struct pen_snapshot *snapshot)
{
    size_t total = sizeof *snapshot + snapshot->block_bytes;
    for (int i = 0; i < NUM_IMAGES; i++) {
        const struct image *it = &snapshot->images[i];
        total += it->head.capacity +
                 it->count * (sizeof *it->specs + sizeof *it->shapes +
                              sizeof *it->offsets) +
                 snapshot->contents.count * sizeof *snapshot->firsts[i];
        for (size_t k = 0; k < it->count; k++)
            total += strlen(it->specs[k].name) + 1;
    }
    return total;
}

size_t pen_snapshot_block_bytes(const struct pen_snapshot *snapshot)
{
    return snapshot->block_bytes;
}

/* ---- filling ---- */

void pen_snapshot_use(struct pen_snapshot *snapshot, void *block)
{
    PEN_BUG_UNLESS((uintptr_t)block % ALIGNMENT == 0);
    snapshot->block = block;
    memcpy(block, &snapshot->directory, sizeof snapshot->directory);
    for (int i = 0; i < NUM_IMAGES; i++)
        if (snapshot->images[i].count > 0)
            memcpy(snapshot->block + snapshot->directory.images[i].offset,
                   snapshot->images[i].head.bytes,
                   snapshot->images[i].head.length);
}

void pen_snapshot_set_note(struct pen_snapshot *snapshot, const char *text,
                           size_t length)
{
    struct directory *directory = (struct directory *)(void *)snapshot->block;
    PEN_BUG_UNLESS(length <= snapshot->note_room);
    directory->note.num_bytes = length;
    memcpy(snapshot->block + directory->note.offset, text, length);
}

static void *place_of(struct pen_snapshot *snapshot, int image, size_t spec)
{
    PEN_BUG_UNLESS(spec < snapshot->images[image].count);
    return snapshot->block + snapshot->directory.images[image].offset +
           snapshot->images[image].offsets[spec];
}

void *pen_snapshot_part(struct pen_snapshot *snapshot,
                        enum pen_checkpoint_part part, size_t tensor)
{
    int image = part == PEN_CHECKPOINT_WEIGHT    ? MODEL
                : part < PEN_CHECKPOINT_VERSION1 ? OPTIMIZER
                                                 : SYNC;
    size_t number = (size_t)part - (size_t)part_at(image, 0);
    PEN_BUG_UNLESS(tensor < snapshot->contents.count);
    PEN_BUG_UNLESS(number < num_parts(snapshot, image, tensor));
    return place_of(snapshot, image, snapshot->firsts[image][tensor] + number);
}

void *pen_snapshot_extra(struct pen_snapshot *snapshot, size_t extra)
{
    PEN_BUG_UNLESS(extra < snapshot->contents.num_extras);
    return place_of(snapshot, SYNC,
                    snapshot->images[SYNC].count -
                        snapshot->contents.num_extras + extra);
}

static const void *bytes_of(void *context, enum pen_checkpoint_part part,
                            size_t tensor)
{
    return pen_snapshot_part(context, part, tensor);
}

static const void *extra_of(void *context, size_t extra)
{
    return pen_snapshot_extra(context, extra);
}

pen_status pen_snapshot_write(struct pen_snapshot *snapshot, const char *run,
                              uint64_t step, uint32_t number,
                              uint64_t max_shard_bytes, struct pen_text *record,
                              struct pen_text *why)
{
    const struct pen_checkpoint_share_args args = {
        .run = run,
        .step = step,
        .number = number,
        .tensors = snapshot->contents.tensors,
        .cuts = snapshot->contents.cuts,
        .count = snapshot->contents.count,
        .num_moments = snapshot->contents.num_moments,
        .extras = snapshot->contents.extras,
        .num_extras = snapshot->contents.num_extras,
        .max_shard_bytes = max_shard_bytes};
    const struct pen_checkpoint_source source = {bytes_of, extra_of, snapshot};
    return pen_checkpoint_share_write(&args, &source, record, why);
}

/* ---- reading ---- */

/* Returns false where the directory reaches out of its block. */
static bool read_directory(const struct pen_snapshot_block *block,
                           struct directory *out)
{
    if (block->num_bytes < sizeof *out)
        return false;
    memcpy(out, block->bytes, sizeof *out);
    bool is_fine = out->note.offset <= block->num_bytes &&
                   out->note.num_bytes <= block->num_bytes - out->note.offset;
    for (int i = 0; i < NUM_IMAGES; i++)
        is_fine = is_fine && out->images[i].offset <= block->num_bytes &&
                  out->images[i].num_bytes <=
                      block->num_bytes - out->images[i].offset;
    return is_fine;
}

/* Names and dimensions are those of the model again. */
static pen_status mark_transposed(struct pen_safetensors *file,
                                  struct pen_text *why)
{
    for (size_t i = 0; i < file->num_tensors; i++) {
        struct pen_safetensor *it = &file->tensors[i];
        size_t length = strlen(it->name);
        size_t end = strlen(TRANSPOSED);
        if (length <= end || strcmp(it->name + length - end, TRANSPOSED) != 0)
            continue;
        if (it->num_dims != 2 || it->dtype != PEN_DTYPE_F32) {
            pen_why(why, "tensor %s is not a matrix of F32", it->name);
            return PEN_INVALID;
        }
        /* Both belong to the file, which is used only here. */
        uint64_t *shape = (uint64_t *)it->shape;
        uint64_t rows = shape[0];
        shape[0] = shape[1];
        shape[1] = rows;
        ((char *)it->name)[length - end] = '\0';
        it->is_transposed = true;
    }
    return PEN_OK;
}

/* Opens the image of all blocks; NULL where none has a tensor of it. */
static pen_status open_image(const struct pen_snapshot_block *blocks,
                             size_t count, int image, struct pen_weights **out,
                             struct pen_text *why)
{
    struct pen_safetensors **files = calloc(count + 1, sizeof(void *));
    size_t num_files = 0;
    pen_status status = files == NULL ? PEN_NOMEM : PEN_OK;
    for (size_t i = 0; i < count && status == PEN_OK; i++) {
        struct directory directory;
        if (!read_directory(&blocks[i], &directory)) {
            pen_why(why, "block %zu has a wrong directory", i);
            status = PEN_INVALID;
        } else if (directory.images[image].num_bytes > 0) {
            status = pen_safetensors_parse(
                (const char *)blocks[i].bytes + directory.images[image].offset,
                (size_t)directory.images[image].num_bytes, &files[num_files],
                why);
            num_files += status == PEN_OK;
            if (status == PEN_OK)
                status = mark_transposed(files[num_files - 1], why);
        }
    }
    if (status == PEN_OK && num_files > 0)
        status = pen_weights_join(files, num_files, out, why);
    else
        for (size_t i = 0; i < num_files; i++)
            pen_safetensors_close(files[i]);
    free(files);
    return status;
}

static pen_status open_blocks(struct pen_checkpoint *checkpoint,
                              const struct pen_snapshot_block *blocks,
                              size_t count, struct pen_text *why)
{
    struct directory first;
    if (count == 0 || !read_directory(&blocks[0], &first)) {
        pen_why(why, "the first block has a wrong directory");
        return PEN_INVALID;
    }
    pen_status status = pen_manifest_parse(
        (const char *)blocks[0].bytes + first.note.offset,
        (size_t)first.note.num_bytes, &checkpoint->manifest, why);
    if (status == PEN_OK)
        status = open_image(blocks, count, MODEL, &checkpoint->model, why);
    if (status == PEN_OK)
        status =
            open_image(blocks, count, OPTIMIZER, &checkpoint->optimizer, why);
    if (status == PEN_OK)
        status = open_image(blocks, count, SYNC, &checkpoint->sync, why);
    if (status == PEN_OK && checkpoint->model == NULL) {
        pen_why(why, "the blocks have no weights");
        status = PEN_INVALID;
    }
    return status;
}

pen_status pen_checkpoint_open_blocks(const struct pen_snapshot_block *blocks,
                                      size_t count, const char *name,
                                      struct pen_checkpoint **out,
                                      struct pen_text *why)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    struct pen_checkpoint *checkpoint = calloc(1, sizeof *checkpoint);
    pen_status status = checkpoint == NULL ? PEN_NOMEM : PEN_OK;
    if (status == PEN_OK) {
        pen_text_add_string(&checkpoint->path, name);
        checkpoint->is_in_memory = true;
        status = open_blocks(checkpoint, blocks, count, &reason);
    }
    if (status == PEN_OK) {
        *out = checkpoint;
    } else {
        pen_why(why, "%s: %s", name, pen_text_string(&reason));
        pen_checkpoint_close(checkpoint);
    }
    pen_text_release(&reason);
    return status;
}
