/*
 * Tokens of each expert in a whole micro-batch, of which a pass may have a
 * slice or a part: the auxiliary loss is that of the micro-batch. The gradient
 * of a token's logits then depends on the other tokens by these counts alone.
 */
#include "network/experts.h"

#include <string.h>

/* Every slice has a place of its own, so that computing it again is harmless.
 */
void pen__experts_keep_counts(const struct pen__experts *self,
                              const struct pen__experts_pass *pass)
{
    size_t bytes = self->num_experts * sizeof(int32_t);
    if (pass->kept_counts != NULL)
        memcpy(pen__at(pass->kept_counts, pass->slice * bytes),
               pen__at(pass->stash, self->tokens), bytes);
}

/* Adds up rows of counts into the first. */
static void add_rows(int32_t *counts, size_t each, size_t num_rows)
{
    for (size_t row = 1; row < num_rows; row++)
        for (size_t e = 0; e < each; e++)
            counts[e] += counts[row * each + e];
}

const void *pen__experts_all_counts(const struct pen__experts *self,
                                    const struct pen__experts_pass *pass)
{
    const struct pen_context_share *share = pass->sequence->share;
    const void *own = pen__at(pass->stash, self->tokens);
    int32_t *counts = pen__at(pass->scratch, self->all_counts);
    size_t each = self->num_experts, bytes = each * sizeof *counts;
    if (self->num_cuts == 1 || self->router.aux <= 0)
        return own;
    if (share->total > 1) {
        memset(counts, 0, share->total * bytes); /* read after a loss, too */
        memcpy(counts + share->part * each, own, bytes);
        pen__context_gather_counts(pass->sequence, counts, each);
    } else {
        memcpy(counts, pass->kept_counts, self->num_cuts * bytes);
    }
    add_rows(counts, each, self->num_cuts);
    return counts;
}
