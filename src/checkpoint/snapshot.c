/*
 * One block, tensor by tensor:
 *
 *   | weight | moment1 | moment2 | version1 ... | weight | ... | extra | ...
 *
 * each part at a multiple of 64 bytes.
 */
#include "checkpoint/snapshot.h"

#include "base/bug.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64u

struct pen_snapshot {
    struct pen_snapshot_contents contents;
    size_t *offsets; /* of the weight of each tensor, then of extras */
    char *block;
};

static size_t align(size_t num_bytes)
{
    return (num_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t num_elements(const struct pen_tensor_spec *spec)
{
    size_t count = 1;
    for (uint32_t i = 0; i < spec->num_dims; i++)
        count *= (size_t)spec->shape[i];
    return count;
}

static size_t weight_bytes(const struct pen_tensor_spec *spec)
{
    return align(num_elements(spec) * pen_dtype_bits(spec->dtype) / 8);
}

/* Of a moment or version. */
static size_t float_bytes(const struct pen_tensor_spec *spec)
{
    return align(num_elements(spec) * sizeof(float));
}

static uint32_t moments_of(const struct pen_checkpoint_tensor *tensor,
                           uint32_t num_moments)
{
    return tensor->has_moments ? num_moments : 0;
}

static size_t tensor_bytes(const struct pen_checkpoint_tensor *tensor,
                           uint32_t num_moments)
{
    size_t num_floats =
        moments_of(tensor, num_moments) + (size_t)tensor->num_versions;
    return weight_bytes(&tensor->spec) +
           num_floats * float_bytes(&tensor->spec);
}

/* Of the tensor, or of the extra behind all tensors. */
static size_t entry_bytes(const struct pen_snapshot_contents *contents,
                          size_t entry)
{
    return entry < contents->count
               ? tensor_bytes(&contents->tensors[entry], contents->num_moments)
               : weight_bytes(&contents->extras[entry - contents->count]);
}

static size_t num_entries(const struct pen_snapshot_contents *contents)
{
    return contents->count + contents->num_extras;
}

static size_t block_bytes(const struct pen_snapshot_contents *contents)
{
    size_t total = ALIGNMENT;
    for (size_t i = 0; i < num_entries(contents); i++)
        total += entry_bytes(contents, i);
    return total;
}

size_t pen_snapshot_bytes(const struct pen_snapshot_contents *contents)
{
    return sizeof(struct pen_snapshot) +
           (num_entries(contents) + 1) * sizeof(size_t) + block_bytes(contents);
}

pen_status pen_snapshot_create(const struct pen_snapshot_contents *contents,
                               struct pen_snapshot **out, struct pen_text *why)
{
    size_t count = num_entries(contents);
    size_t num_bytes = block_bytes(contents);
    struct pen_snapshot *snapshot = calloc(1, sizeof *snapshot);
    if (snapshot == NULL) {
        pen_why(why, "no memory for the snapshot of a checkpoint");
        return PEN_NOMEM;
    }
    snapshot->contents = *contents;
    snapshot->offsets = calloc(count + 1, sizeof *snapshot->offsets);
    snapshot->block = aligned_alloc(ALIGNMENT, num_bytes);
    if (snapshot->offsets == NULL || snapshot->block == NULL) {
        pen_snapshot_free(snapshot);
        pen_why(why, "no memory for the snapshot of a checkpoint: %zu bytes",
                num_bytes);
        return PEN_NOMEM;
    }
    for (size_t i = 0; i < count; i++)
        snapshot->offsets[i + 1] =
            snapshot->offsets[i] + entry_bytes(contents, i);
    /* All of it is there from now on, and no step waits for a page. */
    memset(snapshot->block, 0, num_bytes);
    *out = snapshot;
    return PEN_OK;
}

void pen_snapshot_free(struct pen_snapshot *snapshot)
{
    if (snapshot == NULL)
        return;
    free(snapshot->offsets);
    free(snapshot->block);
    free(snapshot);
}

void *pen_snapshot_part(struct pen_snapshot *snapshot,
                        enum pen_checkpoint_part part, size_t tensor)
{
    const struct pen_snapshot_contents *contents = &snapshot->contents;
    PEN_BUG_UNLESS(tensor < contents->count);
    const struct pen_checkpoint_tensor *it = &contents->tensors[tensor];
    uint32_t num_moments = moments_of(it, contents->num_moments);
    char *weight = snapshot->block + snapshot->offsets[tensor];
    if (part == PEN_CHECKPOINT_WEIGHT)
        return weight;
    bool is_version = part >= PEN_CHECKPOINT_VERSION1;
    uint32_t number = is_version ? (uint32_t)part - PEN_CHECKPOINT_VERSION1
                                 : (uint32_t)part - PEN_CHECKPOINT_MOMENT1;
    PEN_BUG_UNLESS(number < (is_version ? it->num_versions : num_moments));
    return weight + weight_bytes(&it->spec) +
           ((is_version ? num_moments : 0) + number) * float_bytes(&it->spec);
}

void *pen_snapshot_extra(struct pen_snapshot *snapshot, size_t extra)
{
    PEN_BUG_UNLESS(extra < snapshot->contents.num_extras);
    return snapshot->block +
           snapshot->offsets[snapshot->contents.count + extra];
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
