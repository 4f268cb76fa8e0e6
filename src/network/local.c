/*
 * Local updates: Laskin, Metz, Nabarro et al., "Parallel Training of Deep
 * Networks with Local Updates", 2020, arXiv 2012.03837.
 *
 * A model of blocks f_1 .. f_N is cut into K sections. Section j is trained by
 * the loss of a head of its own, g_j, and by nothing else:
 *
 *     h_j = f_j(stop(h_(j-1)))         the next section gets numbers
 *     L_j = loss(g_j(h_j), targets)    g_j = matrix . norm; g_K is the model's
 *     dL / d(f_j, g_j) = dL_j / d(f_j, g_j)
 *
 *   x --> [section 1] --h--> [section 2] --h--> [section 3] --> head
 *              |                  |                  |            |
 *   dx <-- [ head 1 ]    X <-- [ head 2 ]     X <----+------------'
 *
 * No gradient passes from a section to the one before it. A pipeline whose
 * stages are whole sections sends none, and a backward waits for nothing but
 * its own forward (schedule/generators/local.c).
 *
 * Here a block with such a head is one layer:
 *
 *   stash   | of the block | its output | of the head |
 *   hold    | of the block | gradient of its output | of the head |
 *
 * Heads are not computed in passes without a backward.
 */
#include "network/decoder.h"

#include <stdlib.h>

struct local {
    struct pen__layer base;
    struct pen__layer *block; /* owned, as the next */
    struct pen__layer *head;
    size_t output; /* in the stash, as the next */
    size_t head_stash;
    size_t gradient; /* in the hold, as the next */
    size_t head_hold;
    struct pen_engine *engine;
    double *loss; /* in staging; owned */
};

static struct local *local_of(struct pen__layer *layer)
{
    return (struct local *)layer;
}

static void free_local(struct pen__layer *layer)
{
    struct local *local = local_of(layer);
    if (local->block != NULL)
        local->block->ops->free(local->block);
    if (local->head != NULL)
        local->head->ops->free(local->head);
    pen_engine_give(local->engine, PEN_PLACE_STAGING, local->loss,
                    sizeof *local->loss);
    free(local);
}

static struct pen__pass pass_of_head(const struct local *local,
                                     const struct pen__pass *pass)
{
    struct pen__pass out = *pass;
    out.stash = pen__at(pass->stash, local->head_stash);
    if (pass->hold != NULL)
        out.hold = pen__at(pass->hold, local->head_hold);
    out.loss = local->loss;
    return out;
}

/* The block's output is there, too, where the caller does not need it. */
static void forward(struct pen__layer *layer, const struct pen__pass *pass,
                    const void *x, void *y)
{
    struct local *local = local_of(layer);
    void *output = pen__at(pass->stash, local->output);
    if (pass->is_forward_only) {
        local->block->ops->forward(local->block, pass, x, y);
        return;
    }
    const struct pen__pass of_head = pass_of_head(local, pass);
    local->block->ops->forward(local->block, pass, x, output);
    local->head->ops->forward(local->head, &of_head, output, NULL);
    if (y != NULL)
        pass->engine->ops->copy(pass->engine, output, y,
                                local->block->output_bytes);
}

static void backward_input(struct pen__layer *layer,
                           const struct pen__pass *pass, const void *x,
                           const void *dy, void *dx)
{
    struct local *local = local_of(layer);
    const struct pen__pass of_head = pass_of_head(local, pass);
    void *gradient = pen__at(pass->hold, local->gradient);
    (void)dy;
    local->head->ops->backward_input(local->head, &of_head,
                                     pen__at(pass->stash, local->output), NULL,
                                     gradient);
    local->block->ops->backward_input(local->block, pass, x, gradient, dx);
}

static void backward_weight(struct pen__layer *layer,
                            const struct pen__pass *pass, const void *x,
                            const void *dy)
{
    struct local *local = local_of(layer);
    const struct pen__pass of_head = pass_of_head(local, pass);
    (void)dy;
    local->head->ops->backward_weight(
        local->head, &of_head, pen__at(pass->stash, local->output), NULL);
    local->block->ops->backward_weight(local->block, pass, x,
                                       pen__at(pass->hold, local->gradient));
}

static const struct pen__layer_ops local_ops = {
    .free = free_local,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void lay_out(struct local *local)
{
    struct pen__layer *base = &local->base;
    const struct pen__layer *block = local->block, *head = local->head;
    *base = *block;
    base->ops = &local_ops;
    base->has_own_loss = true;
    local->output = pen__take(&base->stash_bytes, block->output_bytes);
    local->head_stash = pen__take(&base->stash_bytes, head->stash_bytes);
    local->gradient = pen__take(&base->hold_bytes, block->output_bytes);
    local->head_hold = pen__take(&base->hold_bytes, head->hold_bytes);
    base->scratch_bytes = larger(block->scratch_bytes, head->scratch_bytes);
}

pen_status pen__local_head_add(struct pen_network *network, uint32_t number,
                               struct pen__layer **layer, struct pen_text *why)
{
    struct local *local = calloc(1, sizeof *local);
    if (local == NULL)
        return PEN_NOMEM;
    local->engine = network->options.engine;
    local->loss =
        pen_engine_take(local->engine, PEN_PLACE_STAGING, sizeof *local->loss);
    pen_status status =
        local->loss == NULL
            ? PEN_NOMEM
            : pen__head_create(network, number, &local->head, why);
    if (status != PEN_OK) {
        free_local(&local->base);
        return status;
    }
    local->block = *layer;
    lay_out(local);
    *layer = &local->base;
    return PEN_OK;
}
