#include "runtime/saved_state.h"

#include "engine/mirror.h"

#include <stdlib.h>
#include <string.h>

struct pen_saved_state {
    struct pen_engine *engine;
    struct pen_mirror mirror;
    struct pen_mirror_piece *pieces; /* whole parts, one after the other */
    size_t num_pieces;
    float *block; /* their copies */
    size_t num_floats;
};

static const enum pen_parameter_part parts[] = {
    PEN_PART_VALUE, PEN_PART_MOMENT1, PEN_PART_MOMENT2};

enum { MOST_PARTS = sizeof parts / sizeof *parts };

/* Returns the stats of a part. */
static size_t add_parameter(struct pen_saved_state *saved,
                            struct pen_parameter *parameter)
{
    struct pen_parameter_shape shape;
    saved->engine->ops->parameter_shape(parameter, &shape);
    size_t count = shape.rows * shape.columns;
    for (int i = 0; i < 1 + shape.moments; i++) {
        saved->pieces[saved->num_pieces++] = (struct pen_mirror_piece){
            .parameter = parameter, .part = parts[i], .count = count};
        saved->num_floats += count;
    }
    return count;
}

static size_t count_parameters(struct pen_executor *executor)
{
    size_t count = 0;
    for (uint32_t s = 0; s < pen_executor_num_stages(executor); s++)
        count += pen_network_num_parameters(
            pen_executor_stage(executor, s)->network);
    return count;
}

/* Returns the stats of the largest part. */
static size_t add_parameters(struct pen_saved_state *saved,
                             struct pen_executor *executor,
                             const struct pen_exchange *exchange)
{
    size_t largest = 0;
    for (uint32_t s = 0; s < pen_executor_num_stages(executor); s++) {
        struct pen_network *network = pen_executor_stage(executor, s)->network;
        for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
            if (!pen_exchange_owns(exchange, s, i))
                continue;
            size_t count = add_parameter(
                saved, pen_network_parameter(network, i)->parameter);
            largest = count > largest ? count : largest;
        }
    }
    return largest;
}

pen_status pen_saved_state_create(struct pen_executor *executor,
                                  const struct pen_exchange *exchange,
                                  struct pen_saved_state **out)
{
    struct pen_saved_state *saved = calloc(1, sizeof *saved);
    if (saved == NULL)
        return PEN_NOMEM;
    saved->engine =
        pen_network_engine(pen_executor_stage(executor, 0)->network);
    saved->pieces = calloc(MOST_PARTS * count_parameters(executor) + 1,
                           sizeof *saved->pieces);
    pen_status status = saved->pieces == NULL ? PEN_NOMEM : PEN_OK;
    if (status == PEN_OK)
        status = pen_mirror_init(&saved->mirror, saved->engine,
                                 add_parameters(saved, executor, exchange));
    saved->block = malloc(pen_saved_state_bytes(saved) + 1);
    if (saved->block == NULL)
        status = PEN_NOMEM;
    if (status != PEN_OK) {
        pen_saved_state_free(saved);
        return status;
    }
    memset(saved->block, 0, pen_saved_state_bytes(saved));
    *out = saved;
    return PEN_OK;
}

void pen_saved_state_free(struct pen_saved_state *saved)
{
    if (saved == NULL)
        return;
    pen_mirror_release(&saved->mirror);
    free(saved->block);
    free(saved->pieces);
    free(saved);
}

size_t pen_saved_state_bytes(const struct pen_saved_state *saved)
{
    return saved->num_floats * sizeof *saved->block;
}

void pen_saved_state_keep(struct pen_saved_state *saved)
{
    float *to = saved->block;
    for (size_t i = 0; i < saved->num_pieces; i++) {
        const struct pen_mirror_piece *piece = &saved->pieces[i];
        memcpy(to, pen_mirror_show(&saved->mirror, piece),
               piece->count * sizeof *to);
        to += piece->count;
    }
}

void pen_saved_state_restore(struct pen_saved_state *saved)
{
    struct pen_engine *engine = saved->engine;
    const float *from = saved->block;
    for (size_t i = 0; i < saved->num_pieces; i++) {
        const struct pen_mirror_piece *piece = &saved->pieces[i];
        pen_mirror_cover(&saved->mirror, piece);
        memcpy(pen_mirror_at(&saved->mirror), from,
               piece->count * sizeof *from);
        pen_mirror_put(&saved->mirror);
        if (piece->part == PEN_PART_VALUE)
            engine->ops->parameter_value_changed(engine, piece->parameter);
        from += piece->count;
    }
}
