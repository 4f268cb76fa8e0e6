#ifndef PEN_ENGINE_MIRROR_H
#define PEN_ENGINE_MIRROR_H

#include "engine/engine.h"

/*
 * A mirror shows the host a piece of a parameter, to read, to change or to
 * fill:
 *
 *   open   ->  at (read and change there)  ->  put  ->  open ...
 *   cover  ->  at (fill it)                ->  put
 *
 * Where the engine's memory is the host's, the piece is shown where it lies
 * and nothing is copied. Elsewhere the mirror has staging memory for one piece:
 * open() enqueues a read, put() a write.
 */
struct pen_mirror_piece {
    struct pen_parameter *parameter;
    enum pen_parameter_part part;
    bool is_second; /* of two gradients (engine.h) */
    size_t first;   /* stat of the part */
    size_t count;   /* at most what the mirror was made for */
};

struct pen_mirror {
    struct pen_engine *engine;
    struct pen_mirror_piece piece; /* that is shown */
    void *at;
    void *staging; /* NULL where memory is the host's */
    size_t bytes;  /* of staging */
    uint64_t mark; /* of the last read or write of staging */
};

/* Prepares a mirror for pieces of up to `count` stats. Release in any case. */
pen_status pen_mirror_init(struct pen_mirror *mirror, struct pen_engine *engine,
                           size_t count);
void pen_mirror_release(struct pen_mirror *mirror);

/* Shows a piece; cover() shows anything in its place, to be overwritten. */
void pen_mirror_open(struct pen_mirror *mirror,
                     const struct pen_mirror_piece *piece);
void pen_mirror_cover(struct pen_mirror *mirror,
                      const struct pen_mirror_piece *piece);

/* Returns whether at() need not wait; never waits. */
bool pen_mirror_is_ready(const struct pen_mirror *mirror);

/*
 * Returns where the host finds the piece; waits until it has come. Valid until
 * the next open() or cover().
 */
void *pen_mirror_at(const struct pen_mirror *mirror);

/* Does both: open() and at(). */
void *pen_mirror_show(struct pen_mirror *mirror,
                      const struct pen_mirror_piece *piece);

/*
 * Writes the piece back. After a change of a value, call
 * parameter_value_changed() for its parameter.
 */
void pen_mirror_put(struct pen_mirror *mirror);

#endif
