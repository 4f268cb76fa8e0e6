#include "engine/mirror.h"

#include "base/bug.h"

#include <sched.h>

static size_t stat_bytes(const struct pen_engine *engine)
{
    return pen_precision_bytes(pen_precision_master(engine->dtype));
}

pen_status pen_mirror_init(struct pen_mirror *mirror, struct pen_engine *engine,
                           size_t count)
{
    *mirror = (struct pen_mirror){.engine = engine};
    if (engine->ops->is_host || count == 0)
        return PEN_OK;
    mirror->bytes = count * stat_bytes(engine);
    mirror->staging = pen_engine_take(engine, PEN_PLACE_STAGING, mirror->bytes);
    return mirror->staging == NULL ? PEN_NOMEM : PEN_OK;
}

/* The engine may be writing from staging still. */
void pen_mirror_release(struct pen_mirror *mirror)
{
    if (mirror->staging != NULL)
        pen_engine_await(mirror->engine);
    pen_engine_give(mirror->engine, PEN_PLACE_STAGING, mirror->staging,
                    mirror->bytes);
    *mirror = (struct pen_mirror){.engine = NULL};
}

/* Everything reads and writes the first of two gradients. */
static void swap_second(const struct pen_mirror *mirror)
{
    struct pen_engine *engine = mirror->engine;
    if (mirror->piece.is_second)
        engine->ops->gradient_swap(engine, mirror->piece.parameter);
}

static void *read_piece(const struct pen_mirror *mirror)
{
    const struct pen_mirror_piece *piece = &mirror->piece;
    swap_second(mirror);
    void *at = mirror->engine->ops->parameter_read(
        mirror->engine, piece->parameter, piece->part, piece->first,
        piece->count, mirror->staging);
    swap_second(mirror);
    return at;
}

static void set_mark(struct pen_mirror *mirror)
{
    if (mirror->staging != NULL)
        mirror->mark = mirror->engine->ops->mark(mirror->engine);
}

void pen_mirror_open(struct pen_mirror *mirror,
                     const struct pen_mirror_piece *piece)
{
    PEN_BUG_UNLESS(mirror->staging == NULL ||
                   piece->count * stat_bytes(mirror->engine) <= mirror->bytes);
    mirror->piece = *piece;
    mirror->at = read_piece(mirror);
    set_mark(mirror);
}

/* Staging is free once what was put from it has been written. */
void pen_mirror_cover(struct pen_mirror *mirror,
                      const struct pen_mirror_piece *piece)
{
    if (mirror->staging == NULL) {
        pen_mirror_open(mirror, piece);
        return;
    }
    PEN_BUG_UNLESS(piece->count * stat_bytes(mirror->engine) <= mirror->bytes);
    mirror->piece = *piece;
    mirror->at = mirror->staging;
}

bool pen_mirror_is_ready(const struct pen_mirror *mirror)
{
    return mirror->staging == NULL ||
           pen_engine_is_reached(mirror->engine, mirror->mark);
}

void *pen_mirror_at(const struct pen_mirror *mirror)
{
    while (!pen_mirror_is_ready(mirror))
        sched_yield();
    return mirror->at;
}

void *pen_mirror_show(struct pen_mirror *mirror,
                      const struct pen_mirror_piece *piece)
{
    pen_mirror_open(mirror, piece);
    return pen_mirror_at(mirror);
}

void pen_mirror_put(struct pen_mirror *mirror)
{
    const struct pen_mirror_piece *piece = &mirror->piece;
    if (mirror->staging == NULL)
        return;
    swap_second(mirror);
    mirror->engine->ops->parameter_write(mirror->engine, piece->parameter,
                                         piece->part, piece->first,
                                         piece->count, mirror->at);
    swap_second(mirror);
    set_mark(mirror);
}
