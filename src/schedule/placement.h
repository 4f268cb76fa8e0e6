#ifndef PEN_SCHEDULE_PLACEMENT_H
#define PEN_SCHEDULE_PLACEMENT_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Placements: which rank holds which stage. This file and its .c are the only
 * place that computes this; all other code calls it.
 *
 *   linear           stage s on rank s
 *   loop             chunk c of rank r is stage c p + r
 *   v                chunk 0: r, chunk 1: 2p-1-r
 *   wave             chunks go to and fro: c even c p + r, c odd c p + p-1-r
 *   bidirectional    two copies of p parts; copy 1 runs from rank p-1 to 0
 *   bidirectional-v  two copies of 2p parts; copy 1 is the V turned round
 *   cyclic           every rank holds a whole copy (N copies of N parts)
 *   replicated       part j on replicas[j] ranks of its own
 *
 * With several copies, stage c*parts + j holds the same layers as stage j, and
 * the micro-batches are dealt to the copies in equal blocks, in order.
 *
 * Replicated parts have as many copies as their counts have a least common
 * multiple. The ranks of a part share the copies in equal blocks, so that
 * several stages of one rank may have the same layers. These stages share one
 * set of weights, which the first of them keeps: SYNC and STEP are of that one.
 *
 *   replicas 3,1     copy 0   rank 0 --> rank 3
 *                    copy 1   rank 1 --> rank 3
 *                    copy 2   rank 2 --> rank 3
 */
#define PEN_PLACEMENT_TABLE(X)                                                 \
    X(LINEAR, "linear")                                                        \
    X(LOOP, "loop")                                                            \
    X(V, "v")                                                                  \
    X(WAVE, "wave")                                                            \
    X(BIDIRECTIONAL, "bidirectional")                                          \
    X(BIDIRECTIONAL_V, "bidirectional-v")                                      \
    X(CYCLIC, "cyclic")                                                        \
    X(REPLICATED, "replicated")

enum pen_placement_kind {
#define PEN_PLACEMENT_ENUM(name, text) PEN_PLACEMENT_##name,
    PEN_PLACEMENT_TABLE(PEN_PLACEMENT_ENUM)
#undef PEN_PLACEMENT_ENUM
        PEN_PLACEMENT_KINDS
};

#define PEN_MAX_STAGES 65535u
#define PEN_NO_STAGE UINT32_MAX
#define PEN_MAX_REPLICATED 64u /* parts with a number of ranks each */

/* The shape of a schedule: what placements and micro-batches depend on. */
struct pen_shape {
    enum pen_placement_kind placement;
    uint32_t num_ranks;
    uint32_t num_stages; /* of all copies together */
    uint32_t num_copies;
    uint32_t num_microbatches; /* of all copies together */
    uint32_t num_slices;       /* token slices of a micro-batch, usually 1 */
    uint16_t first_ranks[PEN_MAX_REPLICATED + 1]; /* of replicated parts, and
                                                     the number of ranks */
    bool is_local; /* stages have losses of their own: no gradient goes from a
                      stage to the one before it */
};

const char *pen_placement_text(enum pen_placement_kind kind);
bool pen_placement_parse(const char *text, size_t length,
                         enum pen_placement_kind *out);

/* Returns how many copies of the model are on this many ranks. */
uint32_t pen_placement_copies(enum pen_placement_kind kind, uint32_t num_ranks);

/* Parses numbers of ranks with commas between them, such as 3,1. */
pen_status pen_replicas_parse(const char *text, size_t length,
                              uint32_t out[PEN_MAX_REPLICATED], uint32_t *count,
                              struct pen_text *why);

/*
 * Places each part on its number of ranks, which gives ranks, stages and
 * copies. INVALID when they are more than a shape can have.
 */
pen_status pen_shape_replicate(struct pen_shape *shape,
                               const uint32_t *replicas, uint32_t num_parts,
                               struct pen_text *why);

/* Says whether stages, copies and ranks go together under this placement. */
pen_status pen_shape_check(const struct pen_shape *shape, struct pen_text *why);

/* The functions below expect a shape that pen_shape_check() accepts. */

uint32_t pen_shape_rank_of(const struct pen_shape *shape, uint32_t stage);

/* Stages of one copy: the number of parts the model is cut into. */
uint32_t pen_shape_parts(const struct pen_shape *shape);

/* Stages that one rank holds of one copy: v of the papers. */
uint32_t pen_shape_chunks(const struct pen_shape *shape);

/*
 * Returns the stage of the chunk-th part (in model order) of this copy on this
 * rank; PEN_NO_STAGE where a replicated part leaves the copy to another rank.
 */
uint32_t pen_shape_stage_at(const struct pen_shape *shape, uint32_t rank,
                            uint32_t copy, uint32_t chunk);

uint32_t pen_shape_copy_of_stage(const struct pen_shape *shape, uint32_t stage);
uint32_t pen_shape_part_of_stage(const struct pen_shape *shape, uint32_t stage);
uint32_t pen_shape_copy_of_microbatch(const struct pen_shape *shape,
                                      uint32_t microbatch);

/*
 * Return the stage of its rank that keeps the weights of this one; and how many
 * stages use these weights.
 */
uint32_t pen__shape_replicated_keeper(const struct pen_shape *shape,
                                      uint32_t stage);

static inline uint32_t pen_shape_keeper(const struct pen_shape *shape,
                                        uint32_t stage)
{
    return shape->placement != PEN_PLACEMENT_REPLICATED
               ? stage
               : pen__shape_replicated_keeper(shape, stage);
}

uint32_t pen_shape_users(const struct pen_shape *shape, uint32_t stage);

/* Sets of weights of a part, and which of them a stage uses. */
uint32_t pen_shape_members(const struct pen_shape *shape, uint32_t part);
uint32_t pen_shape_member_of_stage(const struct pen_shape *shape,
                                   uint32_t stage);

/*
 * Return the next or the previous stage of the same copy, or PEN_NO_STAGE at
 * its end.
 */
uint32_t pen_shape_next_stage(const struct pen_shape *shape, uint32_t stage);
uint32_t pen_shape_previous_stage(const struct pen_shape *shape,
                                  uint32_t stage);

/* Returns true when `other` is a stage (not PEN_NO_STAGE) on another rank. */
bool pen_shape_is_remote(const struct pen_shape *shape, uint32_t stage,
                         uint32_t other);

/* Returns the rank that keeps an evicted stash: the mirror image (BPipe). */
uint32_t pen_shape_partner(const struct pen_shape *shape, uint32_t rank);

#endif
