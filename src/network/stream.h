#ifndef PEN_NETWORK_STREAM_H
#define PEN_NETWORK_STREAM_H

#include "network/decoder.h"

/*
 * The stream of rows between products that are cut into pieces, whose results
 * are added.
 *
 *   tensor parallelism     x -> norm ------------> pieces --- all add ---> y
 *   and sequence, too      x -> norm --- gather -> pieces --- scatter ---> y
 *
 * With sequence parallelism a member has rows self * R / P to
 * (self + 1) * R / P - 1 of the R rows: the part. Gathering gives every member
 * all parts. Scattering gives it the sum of its part over all members, with the
 * additions of the tree. x is added to the sum, not to the first piece.
 *
 * A network that has all pieces has all rows as its part, and sends nothing.
 */

/*
 * The sum of the results of all pieces in the tree, at `sum`. `elements` is
 * that of all rows. Results are where pen__piece_result() says.
 */
void pen__sum_pieces(const struct pen__pass *pass, size_t elements, void *sum,
                     void *others);

/*
 * Rooms at `others`, each of pen__align() of the bytes of all rows: for pieces
 * whose result is not at the sum, and one to receive where other members have
 * pieces.
 */
static inline uint32_t pen__num_others(const struct pen_tensor_share *tensor)
{
    if (pen_tensor_shares_rows(tensor))
        return tensor->count > 1 ? tensor->count : 2;
    return tensor->count > 1 ? tensor->count - 1 : tensor->group != NULL;
}

/*
 * Where the result of a piece goes, for pen__sum_pieces(): that of the first
 * one here to the sum, but to the first room where the sum is of a part.
 */
static inline void *pen__piece_result(const struct pen_tensor_share *tensor,
                                      uint32_t piece, size_t bytes, void *sum,
                                      void *others)
{
    uint32_t room = piece + pen_tensor_shares_rows(tensor);
    return room == 0 ? sum : pen__at(others, (room - 1) * pen__align(bytes));
}

/*
 * All rows, in `room`, of which the own ones are at `own`; `own` itself where
 * it has all. `bytes` is that of all rows.
 */
const void *pen__gather_rows(const struct pen__pass *pass, size_t bytes,
                             const void *own, void *room);

/* The most messages that are under way at the same time. */
size_t pen__stream_num_requests(const struct pen_group *group);

/*
 * A norm over the rows that are here. With sequence parallelism it has one copy
 * of its weights for each piece here, and every copy the gradient of one of
 * `total` equal parts of the rows.
 */
struct pen__norm {
    struct pen_norm all; /* with the weights of the first copy */
    uint32_t num_parts;
    struct pen_norm *parts; /* owned; NULL: `all` is the only one */
};

/* Release in any case; a zeroed one may be, too. */
pen_status pen__norm_init(struct pen__norm *norm, struct pen_network *network,
                          uint32_t layer, enum pen_part gain,
                          enum pen_part bias, struct pen_text *why);
void pen__norm_release(struct pen__norm *norm);

/* As norm_backward_weight() of the engine. */
void pen__norm_backward_weight(const struct pen__norm *norm,
                               struct pen_engine *engine, const void *x,
                               const void *mean, const void *rstd,
                               const void *dy);

#endif
