#include "runtime/stage.h"

#include "base/bug.h"

#include <stdlib.h>

enum { ALIGNMENT = 64 };

/* ---- shelves ---- */

pen_status pen_shelf_init(struct pen_shelf *shelf, struct pen_engine *engine,
                          enum pen_place place, uint32_t count, size_t bytes)
{
    *shelf = (struct pen_shelf){
        .engine = engine, .place = place, .bytes = bytes, .count = count};
    if (count == 0 || bytes == 0)
        return PEN_OK;
    shelf->is_taken = calloc(count, sizeof *shelf->is_taken);
    shelf->block = pen_engine_take(engine, place, count * bytes);
    return shelf->is_taken == NULL || shelf->block == NULL ? PEN_NOMEM : PEN_OK;
}

void pen_shelf_release(struct pen_shelf *shelf)
{
    pen_engine_give(shelf->engine, shelf->place, shelf->block,
                    shelf->count * shelf->bytes);
    free(shelf->is_taken);
    *shelf = (struct pen_shelf){0};
}

uint32_t pen_shelf_take(struct pen_shelf *shelf)
{
    for (uint32_t i = 0; i < shelf->count && shelf->bytes > 0; i++)
        if (!shelf->is_taken[i]) {
            shelf->is_taken[i] = true;
            return i;
        }
    return PEN_SHELF_NONE;
}

void pen_shelf_give(struct pen_shelf *shelf, uint32_t index)
{
    PEN_BUG_UNLESS(index < shelf->count && shelf->is_taken[index]);
    shelf->is_taken[index] = false;
}

void *pen_shelf_at(const struct pen_shelf *shelf, uint32_t index)
{
    PEN_BUG_UNLESS(index < shelf->count);
    return shelf->block + index * shelf->bytes;
}

/* ---- stages ---- */

static size_t array_bytes(size_t count, size_t element)
{
    return (count * element + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t input_bytes(const struct pen_stage *stage)
{
    const struct pen_sample_shape *sample = &stage->sample;
    size_t micro = stage->micro_batch;
    return array_bytes(micro * sample->num_ids, sizeof(int32_t)) +
           array_bytes(micro * pen_sample_pixels(sample), sizeof(float)) +
           array_bytes(micro * sample->num_targets, sizeof(int32_t));
}

static pen_status make_stays(struct pen_stage *stage, uint32_t num_microbatches)
{
    stage->num_stays = num_microbatches * stage->num_slices;
    stage->stays = calloc(stage->num_stays, sizeof *stage->stays);
    stage->shared = calloc(num_microbatches, sizeof *stage->shared);
    if (stage->stays == NULL || stage->shared == NULL)
        return PEN_NOMEM;
    for (uint32_t i = 0; i < num_microbatches; i++)
        stage->shared[i] =
            (struct pen_shared_stay){PEN_SHELF_NONE, PEN_SHELF_NONE};
    for (uint32_t i = 0; i < stage->num_stays; i++)
        stage->stays[i] = (struct pen_stay){.stash = PEN_SHELF_NONE,
                                            .hold = PEN_SHELF_NONE,
                                            .input = PEN_SHELF_NONE,
                                            .kept = PEN_SHELF_NONE,
                                            .version = PEN_OP_CURRENT};
    return PEN_OK;
}

pen_status pen_stage_init_room(struct pen_stage *stage,
                               const struct pen_stage_needs *needs,
                               uint32_t num_microbatches)
{
    const struct pen_network_sizes *sizes = &stage->sizes;
    struct pen_engine *engine =
        stage->network == NULL ? NULL : pen_network_engine(stage->network);
    pen_status status =
        pen_shelf_init(&stage->stashes, engine,
                       stage->has_guests ? PEN_PLACE_STAGING : PEN_PLACE_ENGINE,
                       needs->stashes, sizes->stash);
    if (status == PEN_OK)
        status = pen_shelf_init(&stage->holds, engine, PEN_PLACE_ENGINE,
                                needs->holds, sizes->hold);
    if (status == PEN_OK && sizes->stash > 0) /* else it only takes time */
        status = pen_shelf_init(&stage->kept, engine, PEN_PLACE_ENGINE,
                                needs->kept, sizes->input);
    if (status == PEN_OK && stage->reads_data)
        status = pen_shelf_init(&stage->inputs, engine, PEN_PLACE_STAGING,
                                needs->inputs, input_bytes(stage));
    if (status == PEN_OK)
        status = pen_shelf_init(&stage->contexts, engine, PEN_PLACE_ENGINE,
                                needs->contexts, sizes->context);
    if (status == PEN_OK)
        status = pen_shelf_init(&stage->slopes, engine, PEN_PLACE_ENGINE,
                                needs->slopes, sizes->slopes);
    return status == PEN_OK ? make_stays(stage, num_microbatches) : status;
}

pen_status pen_stage_borrow(const struct pen_stage *from,
                            uint32_t num_microbatches, struct pen_stage *out)
{
    *out = *from;
    out->is_borrowed = true;
    return make_stays(out, num_microbatches);
}

void pen_stage_release(struct pen_stage *stage)
{
    free(stage->stays);
    free(stage->shared);
    if (!stage->is_borrowed) {
        pen_shelf_release(&stage->stashes);
        pen_shelf_release(&stage->holds);
        pen_shelf_release(&stage->inputs);
        pen_shelf_release(&stage->kept);
        pen_shelf_release(&stage->contexts);
        pen_shelf_release(&stage->slopes);
        pen_network_free(stage->network);
    }
    *stage = (struct pen_stage){0};
}

struct pen_stay *pen_stage_stay(const struct pen_stage *stage,
                                const struct pen_op *op)
{
    return &stage->stays[op->microbatch * stage->num_slices + op->slice];
}

struct pen_shared_stay *pen_stage_shared(const struct pen_stage *stage,
                                         const struct pen_op *op)
{
    return &stage->shared[op->microbatch];
}

size_t pen_stage_bytes(const struct pen_stage *stage)
{
    if (stage->is_borrowed)
        return 0;
    return stage->stashes.count * stage->stashes.bytes +
           stage->holds.count * stage->holds.bytes +
           stage->inputs.count * stage->inputs.bytes +
           stage->kept.count * stage->kept.bytes +
           stage->contexts.count * stage->contexts.bytes +
           stage->slopes.count * stage->slopes.bytes;
}

struct pen_batch pen_stage_batch(const struct pen_stage *stage, uint32_t input)
{
    const struct pen_sample_shape *sample = &stage->sample;
    size_t micro = stage->micro_batch;
    size_t id_bytes = array_bytes(micro * sample->num_ids, sizeof(int32_t));
    size_t pixels = pen_sample_pixels(sample);
    size_t pixel_bytes = array_bytes(micro * pixels, sizeof(float));
    char *at = pen_shelf_at(&stage->inputs, input);
    return (struct pen_batch){
        .ids = id_bytes > 0 ? (int32_t *)(void *)at : NULL,
        .pixels = pixel_bytes > 0 ? (float *)(void *)(at + id_bytes) : NULL,
        .targets = (int32_t *)(void *)(at + id_bytes + pixel_bytes)};
}
