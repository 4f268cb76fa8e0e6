/*
 * The last layer: norm, logits, loss. Also those three in the middle of a model
 * (local.c), then with a matrix and a norm of its own.
 *
 * The forward replaces the logits by their gradient where there will be a
 * backward, for the loss has no other use for them.
 *
 * In a model that is cut, every piece has the logits of some words. Their loss
 * needs three numbers of each row of a piece, which are joined in the tree.
 * Ranks that have parts of the rows gather them after the norm.
 */
#include "network/stream.h"
#include "network/subspace.h"

#include "group/tree.h"

#include <stdlib.h>

struct piece {
    struct pen_linear output;
    struct pen_cross_entropy entropy;
    size_t logits; /* in the stash */
};

struct head {
    struct pen__layer base;
    struct pen__shape shape;
    struct pen__norm norm;
    bool is_local; /* in the middle */
    bool is_tied;

    /* In the stash. */
    size_t normed;
    size_t mean;
    size_t rstd;
    /* In the hold. */
    size_t normed_gradient;
    /* In the scratch, of a vocabulary that is cut. */
    size_t stats;  /* of each piece */
    size_t others; /* gradients of pieces; or rows of all members */
    size_t inside; /* of the subspace that a tied matrix is trained in */

    uint32_t num_pieces;
    struct piece pieces[];
};

static struct head *head_of(struct pen__layer *layer)
{
    return (struct head *)layer;
}

static void free_head(struct pen__layer *layer)
{
    pen__norm_release(&head_of(layer)->norm);
    free(layer);
}

/* The products read the norm's outputs of all rows. */
static const void *normed_of(const struct head *head,
                             const struct pen__pass *pass)
{
    return pen__gather_rows(
        pass, head->shape.rows * head->shape.hidden * head->shape.element,
        pen__at(pass->stash, head->normed),
        pen__at(pass->scratch, head->others));
}

static size_t stat_bytes(const struct head *head)
{
    return pen__align(head->shape.rows * 3 * head->shape.stat);
}

/* Joins the losses of all pieces, and the slopes of the logits where asked. */
static void join_losses(const struct head *head, const struct pen__pass *pass,
                        bool with_gradient)
{
    struct pen_engine *engine = pass->engine;
    const int32_t *targets = pass->microbatch->targets;
    struct pen_group *group = pass->tensor->group;
    void *stats = pen__at(pass->scratch, head->stats);
    size_t each = stat_bytes(head);
    for (uint32_t i = 0; i < head->num_pieces; i++)
        engine->ops->entropy_measure(
            engine, &head->pieces[i].entropy, targets,
            pen__at(pass->stash, head->pieces[i].logits),
            pen__at(stats, i * each));
    for (struct pen_tree at = {.size = head->num_pieces};
         head->num_pieces > 1 && pen_tree_next(&at);)
        engine->ops->entropy_join(engine, head->shape.rows,
                                  pen__at(stats, at.from * each),
                                  pen__at(stats, at.to * each));
    for (uint32_t apart = 1; group != NULL && apart < group->size; apart *= 2) {
        void *theirs = pen__at(stats, each);
        pen__exchange(group, group->self ^ apart, stats, theirs, each);
        engine->ops->entropy_join(engine, head->shape.rows, theirs, stats);
    }
    for (uint32_t i = 0; i < head->num_pieces; i++) {
        struct pen_cross_entropy entropy = head->pieces[i].entropy;
        entropy.count = pass->microbatch->loss_count;
        engine->ops->entropy_finish(
            engine, &entropy, targets, stats,
            pen__at(pass->stash, head->pieces[i].logits), with_gradient,
            i == 0 ? pass->loss : NULL);
    }
}

static void forward(struct pen__layer *layer, const struct pen__pass *pass,
                    const void *x, void *y)
{
    struct head *head = head_of(layer);
    struct pen_engine *engine = pass->engine;
    (void)y;
    engine->ops->norm_forward(
        engine, &head->norm.all, x, pen__at(pass->stash, head->normed),
        pen__at(pass->stash, head->mean), pen__at(pass->stash, head->rstd));
    const void *normed = normed_of(head, pass);
    for (uint32_t i = 0; i < head->num_pieces; i++)
        engine->ops->linear_forward(
            engine, &head->pieces[i].output, normed, NULL,
            pen__at(pass->stash, head->pieces[i].logits));
    if (pass->microbatch->targets == NULL)
        return;
    if (pass->tensor->total > 1) {
        join_losses(head, pass, !pass->is_forward_only);
        return;
    }
    struct pen_cross_entropy entropy = head->pieces[0].entropy;
    entropy.count = pass->microbatch->loss_count;
    engine->ops->cross_entropy(engine, &entropy, pass->microbatch->targets,
                               pen__at(pass->stash, head->pieces[0].logits),
                               !pass->is_forward_only, pass->loss);
}

static void backward_input(struct pen__layer *layer,
                           const struct pen__pass *pass, const void *x,
                           const void *dy, void *dx)
{
    struct head *head = head_of(layer);
    struct pen_engine *engine = pass->engine;
    void *gradient = pen__at(pass->hold, head->normed_gradient);
    void *others = pen__at(pass->scratch, head->others);
    size_t elements = head->shape.rows * head->shape.hidden;
    (void)dy;
    for (uint32_t i = 0; i < head->num_pieces; i++)
        engine->ops->linear_backward_input(
            engine, &head->pieces[i].output,
            pen__at(pass->stash, head->pieces[i].logits),
            pen__piece_result(pass->tensor, i, elements * head->shape.element,
                              gradient, others));
    pen__sum_pieces(pass, elements, gradient, others);
    if (dx != NULL)
        engine->ops->norm_backward_input(
            engine, &head->norm.all, x, pen__at(pass->stash, head->mean),
            pen__at(pass->stash, head->rstd), gradient, NULL, dx);
}

/* The columns of a tied matrix outside of a subspace do not change. */
static const void *inside_of(const struct head *head,
                             const struct pen__pass *pass, const void *normed)
{
    void *inside = pen__at(pass->scratch, head->inside);
    if (pass->subspace == NULL || !head->is_tied)
        return normed;
    pen__subspace_project(pass, normed, inside);
    return inside;
}

static void backward_weight(struct pen__layer *layer,
                            const struct pen__pass *pass, const void *x,
                            const void *dy)
{
    struct head *head = head_of(layer);
    struct pen_engine *engine = pass->engine;
    const void *normed = inside_of(head, pass, normed_of(head, pass));
    (void)dy;
    for (uint32_t i = 0; i < head->num_pieces; i++)
        engine->ops->linear_backward_weight(
            engine, &head->pieces[i].output, normed,
            pen__at(pass->stash, head->pieces[i].logits));
    pen__norm_backward_weight(&head->norm, engine, x,
                              pen__at(pass->stash, head->mean),
                              pen__at(pass->stash, head->rstd),
                              pen__at(pass->hold, head->normed_gradient));
}

static const struct pen__layer_ops head_ops = {
    .free = free_head,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};

static void lay_out(struct head *head,
                    const struct pen_network_options *options)
{
    const struct pen_tensor_share *tensor = &options->tensor;
    struct pen__layer *base = &head->base;
    const struct pen__shape *shape = &head->shape;
    size_t width = shape->rows * shape->hidden * shape->element;
    size_t own = shape->own_rows * shape->hidden * shape->element;
    size_t stat = shape->own_rows * shape->stat;
    bool has_mean = head->norm.all.kind == PEN_NORM_LAYER;
    base->input_bytes = pen__align(own);
    head->normed = pen__take(&base->stash_bytes, own);
    head->mean = pen__take(&base->stash_bytes, has_mean ? stat : 0);
    head->rstd = pen__take(&base->stash_bytes, stat);
    for (uint32_t i = 0; i < head->num_pieces; i++)
        head->pieces[i].logits = pen__take(
            &base->stash_bytes,
            shape->rows * head->pieces[i].entropy.classes * shape->element);
    head->normed_gradient = pen__take(&base->hold_bytes, own);
    if (options->subspace > 0 && head->is_tied)
        head->inside = pen__take(&base->scratch_bytes, own);
    if (tensor->total == 1)
        return;
    head->stats = pen__take(&base->scratch_bytes,
                            (pen__num_others(tensor) + 1) * stat_bytes(head));
    head->others = pen__take(&base->scratch_bytes,
                             pen__num_others(tensor) * pen__align(width));
}

/* A tied matrix is the embedding's, or a copy where that is elsewhere. */
static pen_status find_matrix(const struct head *head,
                              struct pen_network *network, uint32_t layer,
                              uint32_t piece, struct pen_parameter **out,
                              struct pen_text *why)
{
    const struct pen_network_options *options = &network->options;
    struct pen__part part = {.part = head->is_local ? PEN_PART_LOCAL_HEAD
                                                    : PEN_PART_HEAD,
                             .cut = pen__cut_words(options, piece)};
    bool is_tied = head->is_tied;
    if (is_tied && options->first_layer == 0) {
        *out = network->parameters[piece - options->tensor.first].parameter;
        return PEN_OK;
    }
    if (is_tied)
        part.part = PEN_PART_TOKEN_EMBEDDING;
    network->adding_piece = piece;
    pen_status status = pen__add_parameter(
        network, is_tied ? 0 : layer, PEN_PARAMETER_DENSE, &part, 1, out, why);
    network->adding_piece = 0;
    if (status != PEN_OK || !is_tied)
        return status;
    network->parameters[network->num_parameters - 1].has_anchor =
        options->subspace > 0;
    if (network->tied_end == NULL)
        network->tied_end = *out;
    return status;
}

static pen_status add_piece(struct head *head, struct pen_network *network,
                            uint32_t layer, uint32_t index,
                            struct pen_text *why)
{
    struct pen_engine *engine = network->options.engine;
    struct piece *piece = &head->pieces[index];
    uint32_t number = network->options.tensor.first + index;
    struct pen__cut words = pen__cut_words(&network->options, number);
    piece->output.rows = head->shape.rows;
    piece->entropy = (struct pen_cross_entropy){.rows = head->shape.rows,
                                                .classes = words.count,
                                                .first = (int32_t)words.first,
                                                .ignore = PEN_NO_TARGET};
    pen_status status =
        find_matrix(head, network, layer, number, &piece->output.weight, why);
    if (status == PEN_OK)
        status = engine->ops->linear_prepare(engine, &piece->output, why);
    if (!head->is_local)
        network->sizes.logits +=
            head->shape.rows * words.count * head->shape.element;
    return status;
}

pen_status pen__head_create(struct pen_network *network, uint32_t layer,
                            struct pen__layer **out, struct pen_text *why)
{
    const struct pen_model *model = network->options.model;
    uint32_t count = network->options.tensor.count;
    struct head *head =
        calloc(1, sizeof *head + count * sizeof head->pieces[0]);
    if (head == NULL)
        return PEN_NOMEM;
    head->base.ops = &head_ops;
    head->shape = pen__shape_of(&network->options);
    head->is_local = pen_model_has_local_head(model, layer);
    head->is_tied = model->has_tied_embeddings && !head->is_local;
    head->num_pieces = count;
    pen_status status = pen__norm_init(
        &head->norm, network, layer,
        head->is_local ? PEN_PART_LOCAL_NORM : PEN_PART_FINAL_NORM,
        head->is_local ? PEN_PART_LOCAL_NORM_BIAS : PEN_PART_FINAL_NORM_BIAS,
        why);
    for (uint32_t i = 0; i < count && status == PEN_OK; i++)
        status = add_piece(head, network, layer, i, why);
    if (status != PEN_OK) {
        free_head(&head->base);
        return status;
    }
    lay_out(head, &network->options);
    if (!head->is_local)
        network->logits_at = head->pieces[0].logits;
    *out = &head->base;
    return PEN_OK;
}
