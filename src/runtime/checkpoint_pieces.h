#ifndef PEN_RUNTIME_CHECKPOINT_PIECES_H
#define PEN_RUNTIME_CHECKPOINT_PIECES_H

#include "checkpoint/checkpoint.h"
#include "group/group.h"
#include "network/network.h"

/*
 * The first rank of a tensor group writes the tensors that all of the group
 * have pieces of, the first of an expert group those that stack experts, by
 * the calls pen__pieces_...:
 *
 *   first    _hear      _fetch ... _fetch     _end
 *              ^          | ^                  |
 *   others   _tell        v |   _serve         v
 *
 * Others list their pieces once. Whenever a checkpoint is taken they serve: the
 * first rank asks for one piece at a time, by its number in the list. All of it
 * goes through the group; after a loss everything returns PEN_LOST at once.
 */
pen_status pen__pieces_tell(struct pen_group *group,
                            const struct pen_tensor_slice *slices,
                            size_t count) PEN_MUST_CHECK;

/* Receives the list of another member; free *slices. */
pen_status pen__pieces_hear(struct pen_group *group, uint32_t member,
                            struct pen_tensor_slice **slices,
                            size_t *count) PEN_MUST_CHECK;

/* The numbers of a piece, `count` of them; they mean nothing after a loss,
 * which pen__pieces_end() reports. */
void pen__pieces_fetch(struct pen_group *group, uint32_t member, size_t number,
                       enum pen_checkpoint_part part, float *numbers,
                       size_t count);

/* Nothing more is asked for. */
pen_status pen__pieces_end(struct pen_group *group,
                           uint32_t member) PEN_MUST_CHECK;

/* A part of a listed piece, valid until the next call. */
typedef const float *pen__pieces_read(void *context, size_t number,
                                      enum pen_checkpoint_part part,
                                      size_t *count);
pen_status pen__pieces_serve(struct pen_group *group, pen__pieces_read *read,
                             void *context) PEN_MUST_CHECK;

#endif
