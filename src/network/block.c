/*
 * A block of a decoder.
 *
 *   x -> norm -> a -> q, k, v -> attention -> out -> (+ x) -> middle
 *   middle -> norm -> b -> wide -> activation -> inner -> down -> (+ middle)
 *          -> y
 *
 * The stash keeps q, k, v and middle; and, unless they are computed again, a, b
 * and inner, which costs no product, attention, or wide. Attention and wide are
 * computed again into the hold, for the backward weight reads them, too.
 *
 * In a model that is cut, every piece has some heads and some features of wide:
 * its own way from a to out and from b to down. The results of the pieces are
 * summed, and so are their gradients of a and b. The first piece adds x, middle
 * and the biases.
 *
 * With sequence parallelism (stream.h) x, a, middle, b, y and their gradients
 * have the rows that are here. Products read rows of all members: a and b are
 * gathered into the scratch for every pass, the gradients of middle and y into
 * the hold. x and middle are added to the sums.
 *
 * A block with experts has these (experts.h) in place of wide and down, or in
 * addition to them. With latent attention (latent.h) values are narrower than
 * the output of the attention, which is padded with zeros.
 */
#include "network/context.h"
#include "network/experts.h"
#include "network/projection.h"
#include "network/stream.h"
#include "network/subspace.h"

#include <stdlib.h>
#include <string.h>

struct piece {
    struct pen__projection projection;
    struct pen_attention attention;
    struct pen_sinks sinks; /* without logits: none */
    struct pen_linear out;
    struct pen_linear up;     /* to wide: with the gate before it */
    struct pen_swiglu swiglu; /* without gate: rows and width only */
    struct pen_linear down;

    /* In the stash: of the projection, and in the context what slices share. */
    size_t projected, shared;
    size_t keys; /* in the stash: of all parts of a sequence */
    /* In the stash, or in the scratch when computed again. */
    size_t inner, lse;
    /* In the stash, or in the hold when computed again. */
    size_t attended, wide;
    /* In the hold; what slices share is in the slopes, as in the context. */
    size_t projected_gradient, wide_gradient, sink_slopes;
};

struct block {
    struct pen__layer base;
    struct pen_recomputed again;
    bool is_gated;
    struct pen__shape shape;
    struct pen__norm attention_norm;
    struct pen__norm mlp_norm;
    struct pen__experts *experts; /* owned; NULL: one MLP for all tokens */
    bool has_features; /* an MLP of all tokens in addition to the experts */

    /* Room for the experts in stash, hold and scratch. */
    size_t experts_stash, experts_hold, experts_scratch;
    size_t kept_counts; /* in the context */
    /* Context parallelism: pieces use this in turn. */
    struct pen__context context;
    size_t key_stride;       /* elements, as the projection has them */
    size_t shares, received; /* in the scratch */

    /* In the stash. */
    size_t mean1, rstd1, middle, mean2, rstd2;
    /* In the stash, or in the scratch when computed again. */
    size_t a, b;
    /* In the hold. */
    size_t middle_gradient, a_gradient, b_gradient;
    size_t all_of_y, all_of_middle; /* gradients of all members' rows */
    /* In the scratch: of one piece, or the results of all but the first. */
    size_t inner_gradient, attended_gradient, projection_scratch, others;
    size_t values;        /* of latent attention */
    size_t all_of_normed; /* a or b of all members' rows */

    uint32_t num_pieces;
    struct piece pieces[];
};

static struct block *block_of(struct pen__layer *layer)
{
    return (struct block *)layer;
}

static void free_block(struct pen__layer *layer)
{
    struct block *block = block_of(layer);
    for (uint32_t i = 0; i < block->num_pieces; i++)
        pen__projection_release(&block->pieces[i].projection);
    pen__experts_free(block->experts);
    pen__norm_release(&block->attention_norm);
    pen__norm_release(&block->mlp_norm);
    pen__context_release(&block->context);
    free(block);
}

/* Where a and b lie. */
static void *normed(const struct block *block, const struct pen__pass *pass,
                    size_t at)
{
    return pen__at(block->again.norms ? pass->scratch : pass->stash, at);
}

static void *inner_of(const struct block *block, const struct piece *piece,
                      const struct pen__pass *pass)
{
    return pen__at(block->again.inner ? pass->scratch : pass->stash,
                   piece->inner);
}

static void *lse_of(const struct block *block, const struct piece *piece,
                    const struct pen__pass *pass)
{
    return pen__at(block->again.attention ? pass->scratch : pass->stash,
                   piece->lse);
}

/*
 * The output of attention. A forward has no hold, but the room of a gradient to
 * spare.
 */
static void *attended_of(const struct block *block, const struct piece *piece,
                         const struct pen__pass *pass)
{
    if (!block->again.attention)
        return pen__at(pass->stash, piece->attended);
    return pass->hold != NULL
               ? pen__at(pass->hold, piece->attended)
               : pen__at(pass->scratch, block->attended_gradient);
}

/* The values that the product after the attention reads. */
static const void *values_of(const struct block *block,
                             const struct piece *piece,
                             const struct pen__pass *pass)
{
    const struct pen__latent *latent = piece->projection.latent;
    void *attended = attended_of(block, piece, pass);
    void *values = pen__at(pass->scratch, block->values);
    if (latent == NULL)
        return attended;
    pen__latent_narrow(latent, pass->engine, attended, values);
    return values;
}

static void *wide_of(const struct block *block, const struct piece *piece,
                     const struct pen__pass *pass)
{
    if (!block->again.wide)
        return pen__at(pass->stash, piece->wide);
    return pass->hold != NULL ? pen__at(pass->hold, piece->wide)
                              : pen__at(pass->scratch, block->inner_gradient);
}

static struct pen__experts_pass experts_pass(const struct block *block,
                                             const struct pen__pass *pass)
{
    return (struct pen__experts_pass){
        .engine = pass->engine,
        .stash = pen__at(pass->stash, block->experts_stash),
        .hold = pass->hold == NULL ? NULL
                                   : pen__at(pass->hold, block->experts_hold),
        .scratch = pen__at(pass->scratch, block->experts_scratch),
        .share = (double)block->shape.rows / pass->microbatch->loss_count,
        .is_forward_only = pass->is_forward_only,
        .tensor = pass->tensor,
        .others = pen__at(pass->scratch, block->others),
        .adds = block->has_features,
        .sequence = &block->context,
        .slice = pass->microbatch->slice,
        .kept_counts = pass->context == NULL
                           ? NULL
                           : pen__at(pass->context, block->kept_counts)};
}

/* Where the projection of a piece has its arrays, and their gradients. */
static struct pen__room room_of_values(const struct piece *piece,
                                       const struct pen__pass *pass)
{
    struct pen__room room = {pass->microbatch->slice, pen__chunks_of(pass),
                             pen__at(pass->stash, piece->projected), NULL};
    if (pass->context != NULL)
        room.shared = pen__at(pass->context, piece->shared);
    return room;
}

static struct pen__room room_of_slopes(const struct piece *piece,
                                       const struct pen__pass *pass)
{
    struct pen__room room = {pass->microbatch->slice, pen__chunks_of(pass),
                             pen__at(pass->hold, piece->projected_gradient),
                             NULL};
    if (pass->slopes != NULL)
        room.shared = pen__at(pass->slopes, piece->shared);
    return room;
}

/* Attention of a chunk to all up to it. The backward begins with the last chunk
 * of the sequence that is here, and the others add to its gradients. */
static struct pen_attention attention_of(const struct piece *piece,
                                         const struct pen__chunks *chunks,
                                         uint32_t index)
{
    struct pen_attention attention = piece->attention;
    attention.first = chunks->numbers[index] * attention.sequence;
    attention.adds = index + 1 < chunks->count ||
                     chunks->numbers[index] + 1 < piece->projection.num_slices;
    return attention;
}

/* ---- parts of a sequence ---- */

static bool has_parts(const struct pen__pass *pass)
{
    return pass->sequence->total > 1;
}

/* Elements of a key and its value in the context, where pairs lie together. */
static size_t pair_width(const struct piece *piece)
{
    return 2 * piece->projection.key_width;
}

static void *keys_of(const struct piece *piece, const struct pen__pass *pass)
{
    return pen__at(pass->stash, piece->keys);
}

/*
 * Converts a chunk of rows, where keys and values are separate arrays, to pairs
 * in the context, and back.
 */
struct pairs {
    size_t count;
    size_t width;  /* bytes of a key, or a value */
    size_t stride; /* bytes from a key to the next in the separate array */
};

static struct pairs pairs_of(const struct block *block,
                             const struct piece *piece)
{
    size_t element = block->shape.element;
    return (struct pairs){.count = piece->attention.batch *
                                   piece->attention.sequence,
                          .width = piece->projection.key_width * element,
                          .stride = block->key_stride * element};
}

static void join_pairs(const struct pairs *pairs, const char *k, const char *v,
                       char *to)
{
    for (size_t i = 0; i < pairs->count; i++, to += 2 * pairs->width) {
        memcpy(to, k + i * pairs->stride, pairs->width);
        memcpy(to + pairs->width, v + i * pairs->stride, pairs->width);
    }
}

static void part_pairs(const struct pairs *pairs, const char *from, char *k,
                       char *v)
{
    for (size_t i = 0; i < pairs->count; i++, from += 2 * pairs->width) {
        memcpy(k + i * pairs->stride, from, pairs->width);
        memcpy(v + i * pairs->stride, from + pairs->width, pairs->width);
    }
}

/* Gathers keys and values of all parts. */
static void gather(struct block *block, const struct piece *piece,
                   const struct pen__pass *pass)
{
    const struct pen__room values = room_of_values(piece, pass);
    const struct pairs pairs = pairs_of(block, piece);
    struct pen__heads heads =
        pen__projection_values(&piece->projection, &values);
    for (uint32_t n = 0; n < values.chunks.count; n++) {
        size_t at = n * pairs.count * pairs.stride;
        join_pairs(
            &pairs, pen__at(heads.k, at), pen__at(heads.v, at),
            pen__at(keys_of(piece, pass),
                    values.chunks.numbers[n] * block->context.chunk_bytes));
    }
    pen__context_gather(&block->context, keys_of(piece, pass));
}

/* Sums the gradients of the own keys and values over all parts. */
static void scatter(struct block *block, const struct piece *piece,
                    const struct pen__pass *pass)
{
    const struct pen__room slopes = room_of_slopes(piece, pass);
    const struct pairs pairs = pairs_of(block, piece);
    struct pen__heads gradients =
        pen__projection_slopes(&piece->projection, &slopes);
    struct pen__context_sums sums = pen__context_sum(
        &block->context, pass->engine, pen__at(pass->scratch, block->shares),
        pen__at(pass->scratch, block->received));
    for (uint32_t n = 0; n < slopes.chunks.count; n++) {
        size_t at = n * pairs.count * pairs.stride;
        part_pairs(&pairs, sums.of[n], pen__at(gradients.k, at),
                   pen__at(gradients.v, at));
    }
}

/* ---- what pieces make together ---- */

static size_t num_elements(const struct block *block)
{
    return block->shape.rows * block->shape.hidden;
}

/* The rows of all members, in a room where they are not here. */
static const void *all_rows(const struct block *block,
                            const struct pen__pass *pass, const void *own,
                            void *room)
{
    return pen__gather_rows(pass, num_elements(block) * block->shape.element,
                            own, room);
}

/* a or b as products read it: until the next one is asked for. */
static const void *all_normed(const struct block *block,
                              const struct pen__pass *pass, size_t at)
{
    return all_rows(block, pass, normed(block, pass, at),
                    pen__at(pass->scratch, block->all_of_normed));
}

/* A gradient in the hold as products read it, once it was gathered. */
static const void *all_gradients(const struct pen__pass *pass, const void *own,
                                 size_t gathered)
{
    return pen_tensor_shares_rows(pass->tensor) ? pen__at(pass->hold, gathered)
                                                : own;
}

/* Where a piece puts its part of `sum`, which is as wide as the stream. */
static void *result_of(const struct block *block, const struct pen__pass *pass,
                       uint32_t piece, void *sum)
{
    return pen__piece_result(pass->tensor, piece,
                             num_elements(block) * block->shape.element, sum,
                             pen__at(pass->scratch, block->others));
}

/* The residual that a piece adds to its result, or NULL. */
static const void *residual_of(const struct pen__pass *pass, uint32_t piece,
                               const void *x)
{
    bool is_first = pass->tensor->first + piece == 0;
    return is_first && !pass->tensor->cuts_rows ? x : NULL;
}

static void add_results(const struct block *block, const struct pen__pass *pass,
                        void *sum)
{
    pen__sum_pieces(pass, num_elements(block), sum,
                    pen__at(pass->scratch, block->others));
}

/* Adds the results of all pieces, and the residual where no piece added it. */
static void add_outputs(const struct block *block, const struct pen__pass *pass,
                        const void *residual, void *sum)
{
    add_results(block, pass, sum);
    if (pass->tensor->cuts_rows)
        pass->engine->ops->add(pass->engine,
                               block->shape.own_rows * block->shape.hidden, sum,
                               residual, sum);
}

/* ---- forward ---- */

static void compute_a(const struct block *block, const struct pen__pass *pass,
                      const void *x)
{
    pass->engine->ops->norm_forward(pass->engine, &block->attention_norm.all, x,
                                    normed(block, pass, block->a),
                                    pen__at(pass->stash, block->mean1),
                                    pen__at(pass->stash, block->rstd1));
}

static void compute_b(const struct block *block, const struct pen__pass *pass)
{
    pass->engine->ops->norm_forward(
        pass->engine, &block->mlp_norm.all, pen__at(pass->stash, block->middle),
        normed(block, pass, block->b), pen__at(pass->stash, block->mean2),
        pen__at(pass->stash, block->rstd2));
}

/* The second half of each row of `wide`, where there is a gate. */
static void *up_half(const struct block *block, const struct piece *piece,
                     void *wide)
{
    return (char *)wide + piece->swiglu.width * block->shape.element;
}

static void compute_inner(const struct block *block, const struct piece *piece,
                          const struct pen__pass *pass)
{
    struct pen_engine *engine = pass->engine;
    void *wide = wide_of(block, piece, pass);
    void *inner = inner_of(block, piece, pass);
    if (block->is_gated)
        engine->ops->swiglu_forward(engine, &piece->swiglu, wide,
                                    up_half(block, piece, wide), inner);
    else
        engine->ops->gelu_forward(
            engine, piece->swiglu.rows * piece->swiglu.width, wide, inner);
}

static void compute_wide(const struct block *block, const struct piece *piece,
                         const struct pen__pass *pass, const void *b)
{
    pass->engine->ops->linear_forward(pass->engine, &piece->up, b, NULL,
                                      wide_of(block, piece, pass));
}

/*
 * Arrays that attention of a chunk reads and writes, apart from keys and
 * values.
 */
struct queries {
    void *q, *dq, *out, *dout, *lse;
};

/* Arrays of a chunk; they begin at the first chunk of the pass. */
static struct queries queries_at(const struct block *block,
                                 const struct pen_attention *attention,
                                 struct queries first, uint32_t index)
{
    size_t rows = index * attention->batch * attention->sequence;
    size_t q = rows * attention->q_stride * block->shape.element;
    size_t out =
        rows * attention->heads * attention->head_size * block->shape.element;
    return (struct queries){
        .q = pen__at(first.q, q),
        .dq = pen__at(first.dq, q),
        .out = pen__at(first.out, out),
        .dout = pen__at(first.dout, out),
        .lse = pen__at(first.lse, rows * attention->heads * block->shape.stat)};
}

/* Keys and values from the first position on. */
static struct pen__heads context_of(const struct block *block,
                                    const struct piece *piece,
                                    const struct pen__pass *pass,
                                    const struct pen__heads *own, void *all)
{
    struct pen__heads heads = *own;
    if (!has_parts(pass))
        return heads;
    heads.first_k = all;
    heads.first_v =
        pen__at(all, piece->projection.key_width * block->shape.element);
    return heads;
}

static void attend(const struct block *block, const struct piece *piece,
                   const struct pen__pass *pass)
{
    const struct pen__room values = room_of_values(piece, pass);
    struct pen__heads own = pen__projection_values(&piece->projection, &values);
    struct pen__heads heads =
        context_of(block, piece, pass, &own, keys_of(piece, pass));
    struct queries all = {heads.q, heads.q, attended_of(block, piece, pass),
                          attended_of(block, piece, pass),
                          lse_of(block, piece, pass)};
    for (uint32_t n = 0; n < values.chunks.count; n++) {
        struct pen_attention attention = attention_of(piece, &values.chunks, n);
        struct queries it = queries_at(block, &attention, all, n);
        pass->engine->ops->attention_forward(pass->engine, &attention, it.q,
                                             heads.first_k, heads.first_v,
                                             it.out, it.lse);
    }
    if (piece->sinks.logits != NULL)
        pass->engine->ops->sinks_forward(pass->engine, &piece->sinks, all.out,
                                         all.lse);
}

/* Turns the gradient of the attention's output into those of q, k and v. */
static void attend_back(struct block *block, const struct piece *piece,
                        const struct pen__pass *pass, void *dattended)
{
    const struct pen__room values = room_of_values(piece, pass);
    const struct pen__room slopes = room_of_slopes(piece, pass);
    struct pen__heads own = pen__projection_values(&piece->projection, &values);
    struct pen__heads own_to =
        pen__projection_slopes(&piece->projection, &slopes);
    struct pen__heads heads =
        context_of(block, piece, pass, &own, keys_of(piece, pass));
    struct pen__heads to = context_of(block, piece, pass, &own_to,
                                      pen__at(pass->scratch, block->shares));
    struct queries all = {heads.q, to.q, attended_of(block, piece, pass),
                          dattended, lse_of(block, piece, pass)};
    if (piece->sinks.logits != NULL)
        pass->engine->ops->sinks_backward_input(
            pass->engine, &piece->sinks, all.out, all.lse, dattended,
            pen__at(pass->hold, piece->sink_slopes));
    for (uint32_t n = values.chunks.count; n-- > 0;) {
        struct pen_attention attention = attention_of(piece, &values.chunks, n);
        struct queries it = queries_at(block, &attention, all, n);
        pass->engine->ops->attention_backward(
            pass->engine, &attention, it.q, heads.first_k, heads.first_v,
            it.out, it.lse, it.dout, it.dq, to.first_k, to.first_v);
    }
    if (has_parts(pass))
        scatter(block, piece, pass);
}

static void forward_attention(struct block *block, const struct pen__pass *pass,
                              const void *x, void *middle)
{
    struct pen_engine *engine = pass->engine;
    const void *a = all_normed(block, pass, block->a);
    for (uint32_t i = 0; i < block->num_pieces; i++) {
        const struct piece *piece = &block->pieces[i];
        const struct pen__room values = room_of_values(piece, pass);
        pen__projection_forward(
            &piece->projection, engine, a, &values,
            pen__at(pass->scratch, block->projection_scratch));
        if (has_parts(pass))
            gather(block, piece, pass);
        attend(block, piece, pass);
        engine->ops->linear_forward(
            engine, &piece->out, values_of(block, piece, pass),
            residual_of(pass, i, x), result_of(block, pass, i, middle));
    }
    add_outputs(block, pass, x, middle);
}

static void forward_features(const struct block *block,
                             const struct pen__pass *pass, const void *b,
                             void *y)
{
    struct pen_engine *engine = pass->engine;
    void *middle = pen__at(pass->stash, block->middle);
    if (y == NULL && block->again.wide)
        return;
    for (uint32_t i = 0; i < block->num_pieces; i++) {
        const struct piece *piece = &block->pieces[i];
        compute_wide(block, piece, pass, b);
        if (y == NULL && block->again.inner)
            continue;
        compute_inner(block, piece, pass);
        if (y != NULL)
            engine->ops->linear_forward(
                engine, &piece->down, inner_of(block, piece, pass),
                residual_of(pass, i, middle), result_of(block, pass, i, y));
    }
}

static void forward_mlp(const struct block *block, const struct pen__pass *pass,
                        void *y)
{
    void *middle = pen__at(pass->stash, block->middle);
    if (y == NULL && block->again.wide && block->experts == NULL)
        return;
    const void *b = all_normed(block, pass, block->b);
    if (block->has_features)
        forward_features(block, pass, b, y);
    if (block->experts != NULL) {
        const struct pen__experts_pass experts = experts_pass(block, pass);
        pen__experts_forward(block->experts, &experts, b,
                             residual_of(pass, 0, middle), y);
    }
    if (y != NULL)
        add_outputs(block, pass, middle, y);
}

/* The forward of a block; without y it fills the stash only. */
static void forward(struct pen__layer *layer, const struct pen__pass *pass,
                    const void *x, void *y)
{
    struct block *block = block_of(layer);
    void *middle = pen__at(pass->stash, block->middle);
    compute_a(block, pass, x);
    forward_attention(block, pass, x, middle);
    compute_b(block, pass);
    forward_mlp(block, pass, y);
}

/* ---- backward ---- */

/* Turns dy into the part of the gradient of b that a piece adds. */
static void backward_piece(const struct block *block, const struct piece *piece,
                           const struct pen__pass *pass, const void *b,
                           const void *dy, void *db)
{
    struct pen_engine *engine = pass->engine;
    void *wide = wide_of(block, piece, pass);
    void *dwide = pen__at(pass->hold, piece->wide_gradient);
    void *dinner = pen__at(pass->scratch, block->inner_gradient);
    if (block->again.wide)
        compute_wide(block, piece, pass, b);
    engine->ops->linear_backward_input(engine, &piece->down, dy, dinner);
    if (block->is_gated)
        engine->ops->swiglu_backward(engine, &piece->swiglu, wide,
                                     up_half(block, piece, wide), dinner, dwide,
                                     up_half(block, piece, dwide));
    else
        engine->ops->gelu_backward(engine,
                                   piece->swiglu.rows * piece->swiglu.width,
                                   wide, dinner, dwide);
    engine->ops->linear_backward_input(engine, &piece->up, dwide, db);
}

/* Turns dy into the gradient of middle. */
static void backward_mlp(const struct block *block,
                         const struct pen__pass *pass, const void *dy)
{
    void *db = pen__at(pass->hold, block->b_gradient);
    if (block->again.wide && block->again.norms)
        compute_b(block, pass);
    const void *b =
        block->again.wide ? all_normed(block, pass, block->b) : NULL;
    const void *all_of_y =
        all_rows(block, pass, dy, pen__at(pass->hold, block->all_of_y));
    for (uint32_t i = 0; i < block->num_pieces && block->has_features; i++)
        backward_piece(block, &block->pieces[i], pass, b, all_of_y,
                       result_of(block, pass, i, db));
    if (block->experts != NULL) {
        const struct pen__experts_pass experts = experts_pass(block, pass);
        pen__experts_backward_input(block->experts, &experts, b, all_of_y, db);
    }
    add_results(block, pass, db);
    pass->engine->ops->norm_backward_input(
        pass->engine, &block->mlp_norm.all, pen__at(pass->stash, block->middle),
        pen__at(pass->stash, block->mean2), pen__at(pass->stash, block->rstd2),
        db, dy, pen__at(pass->hold, block->middle_gradient));
}

/* Turns the gradient of middle into the part of that of a that a piece adds. */
static void backward_heads(struct block *block, const struct piece *piece,
                           const struct pen__pass *pass, const void *dmiddle,
                           void *da)
{
    struct pen_engine *engine = pass->engine;
    const struct pen__projection *projection = &piece->projection;
    const struct pen__room values = room_of_values(piece, pass);
    const struct pen__room slopes = room_of_slopes(piece, pass);
    void *dattended = pen__at(pass->scratch, block->attended_gradient);
    void *dvalues = projection->latent == NULL
                        ? dattended
                        : pen__at(pass->scratch, block->values);
    engine->ops->linear_backward_input(engine, &piece->out, dmiddle, dvalues);
    if (projection->latent != NULL)
        pen__latent_widen(projection->latent, engine, dvalues, dattended);
    if (block->again.attention)
        attend(block, piece, pass);
    attend_back(block, piece, pass, dattended);
    pen__projection_backward_input(
        &piece->projection, engine, &values, &slopes,
        pen__at(pass->scratch, block->projection_scratch), da);
}

static void backward_input(struct pen__layer *layer,
                           const struct pen__pass *pass, const void *x,
                           const void *dy, void *dx)
{
    struct block *block = block_of(layer);
    void *da = pen__at(pass->hold, block->a_gradient);
    backward_mlp(block, pass, dy);
    pen__subspace_clear(pass, pen__at(pass->hold, block->middle_gradient));
    const void *dmiddle =
        all_rows(block, pass, pen__at(pass->hold, block->middle_gradient),
                 pen__at(pass->hold, block->all_of_middle));
    for (uint32_t i = 0; i < block->num_pieces; i++)
        backward_heads(block, &block->pieces[i], pass, dmiddle,
                       result_of(block, pass, i, da));
    add_results(block, pass, da);
    if (dx != NULL)
        pass->engine->ops->norm_backward_input(
            pass->engine, &block->attention_norm.all, x,
            pen__at(pass->stash, block->mean1),
            pen__at(pass->stash, block->rstd1), da,
            pen__at(pass->hold, block->middle_gradient), dx);
}

static void weigh_features(const struct block *block,
                           const struct pen__pass *pass, const void *b,
                           const void *dy)
{
    struct pen_engine *engine = pass->engine;
    const struct pen_engine_ops *ops = engine->ops;
    for (uint32_t i = 0; i < block->num_pieces; i++) {
        const struct piece *piece = &block->pieces[i];
        if (block->again.inner)
            compute_inner(block, piece, pass);
        ops->linear_backward_weight(engine, &piece->down,
                                    inner_of(block, piece, pass), dy);
        ops->linear_backward_weight(engine, &piece->up, b,
                                    pen__at(pass->hold, piece->wide_gradient));
    }
}

static void weigh_mlp(const struct block *block, const struct pen__pass *pass,
                      const void *dy)
{
    const void *b = all_normed(block, pass, block->b);
    const void *all_of_y = all_gradients(pass, dy, block->all_of_y);
    if (block->experts != NULL) {
        const struct pen__experts_pass experts = experts_pass(block, pass);
        pen__experts_backward_weight(block->experts, &experts, b, all_of_y);
    }
    if (block->has_features)
        weigh_features(block, pass, b, all_of_y);
    pen__norm_backward_weight(
        &block->mlp_norm, pass->engine, pen__at(pass->stash, block->middle),
        pen__at(pass->stash, block->mean2), pen__at(pass->stash, block->rstd2),
        pen__at(pass->hold, block->b_gradient));
}

static void backward_weight(struct pen__layer *layer,
                            const struct pen__pass *pass, const void *x,
                            const void *dy)
{
    const struct block *block = block_of(layer);
    struct pen_engine *engine = pass->engine;
    const struct pen_engine_ops *ops = engine->ops;
    if (block->again.norms) {
        compute_a(block, pass, x);
        compute_b(block, pass);
    }
    weigh_mlp(block, pass, dy);
    const void *a = all_normed(block, pass, block->a);
    const void *dmiddle =
        all_gradients(pass, pen__at(pass->hold, block->middle_gradient),
                      block->all_of_middle);
    for (uint32_t i = 0; i < block->num_pieces; i++) {
        const struct piece *piece = &block->pieces[i];
        ops->linear_backward_weight(engine, &piece->out,
                                    values_of(block, piece, pass), dmiddle);
        if (piece->sinks.logits != NULL)
            ops->sinks_backward_weight(engine, &piece->sinks,
                                       pen__at(pass->hold, piece->sink_slopes));
        const struct pen__room values = room_of_values(piece, pass);
        const struct pen__room slopes = room_of_slopes(piece, pass);
        pen__projection_backward_weight(&piece->projection, engine, a, &values,
                                        &slopes);
    }
    pen__norm_backward_weight(&block->attention_norm, engine, x,
                              pen__at(pass->stash, block->mean1),
                              pen__at(pass->stash, block->rstd1),
                              pen__at(pass->hold, block->a_gradient));
}

static void take_routings(struct pen__layer *layer, struct pen_routings *sum)
{
    struct pen__experts *experts = block_of(layer)->experts;
    if (experts == NULL)
        return;
    sum->imbalance += experts->routings.imbalance;
    sum->count += experts->routings.count;
    sum->dropped += experts->routings.dropped;
    experts->routings = (struct pen_routings){.count = 0};
}

static void clear_gradients(struct pen__layer *layer)
{
    if (block_of(layer)->experts != NULL)
        pen__experts_clear_gradients(block_of(layer)->experts);
}

static const struct pen__layer_ops block_ops = {
    .free = free_block,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
    .take_routings = take_routings,
    .clear_gradients = clear_gradients,
};

/* ---- making one ---- */

/* Prepares attention for every chunk that a pass may have. */
static pen_status prepare_attention(const struct piece *piece,
                                    const struct pen_network_options *options,
                                    struct pen_text *why)
{
    uint32_t parts = options->context.total;
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < 2 * parts * options->num_slices; i++) {
        struct pen_attention attention = piece->attention;
        bool is_here = parts == 1
                           ? i < options->num_slices
                           : i == options->context.part ||
                                 i == 2 * parts - 1 - options->context.part;
        attention.first = i * attention.sequence;
        if (is_here && status == PEN_OK)
            status = options->engine->ops->attention_prepare(options->engine,
                                                             &attention, why);
    }
    return status;
}

static pen_status add_heads(struct piece *piece, struct pen_network *network,
                            uint32_t layer, uint32_t number,
                            struct pen_text *why)
{
    const struct pen_network_options *options = &network->options;
    const struct pen_model *model = options->model;
    size_t width = (size_t)model->num_heads * model->v_head_dim;
    const struct pen__dense out = {
        PEN_PART_ATTENTION_OUT, PEN_PART_ATTENTION_OUT_BIAS,
        pen__cut_equally(PEN__INPUTS, width, number, options->tensor.total)};
    const struct pen__part sinks = {
        PEN_PART_SINKS, pen__cut_equally(PEN__OUTPUTS, model->num_heads, number,
                                         options->tensor.total)};
    network->adding_piece = number;
    pen_status status =
        pen__projection_init(&piece->projection, network, layer, number, why);
    if (status == PEN_OK)
        status = pen__add_linear(network, layer, &out, 1, &piece->out, why);
    if (status == PEN_OK)
        status = pen__add_parameter(network, layer, PEN_PARAMETER_VECTORS,
                                    &sinks, 1, &piece->sinks.logits, why);
    network->adding_piece = 0;
    if (status != PEN_OK)
        return status;
    piece->attention =
        (struct pen_attention){.batch = options->batch,
                               .sequence = pen__chunk_tokens(options),
                               .head_size = model->head_dim,
                               .window = pen_model_window(model, layer - 1),
                               .scale = pen__attention_scale(model)};
    pen__projection_strides(&piece->projection, &piece->attention);
    if (options->context.total > 1)
        piece->attention.kv_stride = pair_width(piece);
    piece->sinks.batch = options->batch * (options->context.total > 1 ? 2 : 1);
    piece->sinks.sequence = piece->attention.sequence;
    piece->sinks.heads = piece->attention.heads;
    piece->sinks.head_size = piece->attention.head_size;
    return prepare_attention(piece, options, why);
}

static pen_status add_features(const struct block *block, struct piece *piece,
                               struct pen_network *network, uint32_t layer,
                               uint32_t number, struct pen_text *why)
{
    uint32_t total = network->options.tensor.total;
    const struct pen_model *model = network->options.model;
    bool is_shared = block->experts != NULL;
    size_t inner = is_shared ? model->shared_intermediate : model->intermediate;
    const struct pen__cut cut =
        pen__cut_equally(PEN__OUTPUTS, inner, number, total);
    const struct pen__dense up[] = {
        {is_shared ? PEN_PART_SHARED_GATE : PEN_PART_GATE, PEN_PART_GATE_BIAS,
         cut},
        {is_shared ? PEN_PART_SHARED_UP : PEN_PART_UP, PEN_PART_UP_BIAS, cut}};
    const struct pen__dense down = {
        is_shared ? PEN_PART_SHARED_DOWN : PEN_PART_DOWN, PEN_PART_DOWN_BIAS,
        pen__cut_equally(PEN__INPUTS, inner, number, total)};
    piece->swiglu =
        (struct pen_swiglu){.rows = block->shape.rows,
                            .width = cut.count,
                            .stride = (block->is_gated ? 2u : 1u) * cut.count};
    network->adding_piece = number;
    pen_status status = pen__add_linear(network, layer, up, 2, &piece->up, why);
    if (status == PEN_OK)
        status = pen__add_linear(network, layer, &down, 1, &piece->down, why);
    network->adding_piece = 0;
    return status;
}

static pen_status add_parameters(struct block *block,
                                 struct pen_network *network, uint32_t layer,
                                 struct pen_text *why)
{
    uint32_t first = network->options.tensor.first;
    pen_status status = pen__norm_init(&block->attention_norm, network, layer,
                                       PEN_PART_ATTENTION_NORM,
                                       PEN_PART_ATTENTION_NORM_BIAS, why);
    for (uint32_t i = 0; i < block->num_pieces && status == PEN_OK; i++)
        status = add_heads(&block->pieces[i], network, layer, first + i, why);
    if (status == PEN_OK)
        status = pen__norm_init(&block->mlp_norm, network, layer,
                                PEN_PART_MLP_NORM, PEN_PART_MLP_NORM_BIAS, why);
    const struct pen_model *model = network->options.model;
    bool has_experts = pen_model_block_is_sparse(model, layer - 1);
    uint32_t pieces =
        has_experts && model->shared_intermediate == 0 ? 0 : block->num_pieces;
    block->has_features = pieces > 0;
    if (status == PEN_OK && has_experts)
        status = pen__experts_create(network, layer, &block->experts, why);
    for (uint32_t i = 0; i < pieces && status == PEN_OK; i++)
        status = add_features(block, &block->pieces[i], network, layer,
                              first + i, why);
    return status;
}

static void lay_out_stash(struct block *block)
{
    const struct pen__shape *shape = &block->shape;
    size_t *end = &block->base.stash_bytes;
    size_t stat = shape->rows * shape->stat;
    size_t row = shape->rows * shape->element;
    size_t rstd = shape->own_rows * shape->stat;
    size_t mean = block->attention_norm.all.kind == PEN_NORM_LAYER ? rstd : 0;
    block->mean1 = pen__take(end, mean);
    block->rstd1 = pen__take(end, rstd);
    block->middle =
        pen__take(end, shape->own_rows * shape->element * shape->hidden);
    block->mean2 = pen__take(end, mean);
    block->rstd2 = pen__take(end, rstd);
    for (uint32_t i = 0; i < block->num_pieces; i++) {
        struct piece *piece = &block->pieces[i];
        piece->projected = pen__take(end, piece->projection.stash_bytes);
        piece->shared = pen__take(&block->base.context_bytes,
                                  piece->projection.context_bytes);
        piece->attended =
            pen__take(block->again.attention ? &block->base.hold_bytes : end,
                      row * piece->projection.query_width);
        piece->lse =
            pen__take(block->again.attention ? &block->base.scratch_bytes : end,
                      stat * piece->attention.heads);
        piece->wide =
            pen__take(block->again.wide ? &block->base.hold_bytes : end,
                      row * piece->swiglu.stride);
    }
}

/* Lays out the scratch, which pieces use one after the other; all are alike. */
static void lay_out_scratch(struct block *block,
                            const struct pen_tensor_share *tensor)
{
    size_t *end = &block->base.scratch_bytes;
    size_t row = block->shape.rows * block->shape.element;
    const struct piece *piece = &block->pieces[0];
    block->inner_gradient =
        pen__take(end, row * (block->again.wide ? piece->swiglu.stride
                                                : piece->swiglu.width));
    block->attended_gradient =
        pen__take(end, row * piece->projection.query_width);
    block->projection_scratch = pen__take(end, piece->projection.scratch_bytes);
    block->values = pen__take(end, piece->projection.latent == NULL
                                       ? 0
                                       : row * piece->projection.value_width);
    block->others = *end;
    for (uint32_t i = 0; i < pen__num_others(tensor); i++)
        pen__take(end, row * block->shape.hidden);
    if (pen_tensor_shares_rows(tensor))
        block->all_of_normed = pen__take(end, row * block->shape.hidden);
}

static void lay_out_experts(struct block *block)
{
    const struct pen__experts *experts = block->experts;
    struct pen__layer *base = &block->base;
    if (experts == NULL)
        return;
    block->experts_stash = pen__take(&base->stash_bytes, experts->stash_bytes);
    block->experts_hold = pen__take(&base->hold_bytes, experts->hold_bytes);
    block->experts_scratch =
        pen__take(&base->scratch_bytes, experts->scratch_bytes);
    block->kept_counts = pen__take(&base->context_bytes, experts->counts_bytes);
}

static pen_status add_context(struct block *block,
                              const struct pen_network_options *options)
{
    const struct piece *piece = &block->pieces[0];
    struct pen_attention apart;
    pen__projection_strides(&piece->projection, &apart);
    block->key_stride = apart.kv_stride;
    return pen__context_init(&block->context, &options->context,
                             pen__chunk_rows(options) * pair_width(piece),
                             block->shape.element);
}

static void lay_out_context(struct block *block)
{
    const struct pen__context *context = &block->context;
    struct pen__layer *base = &block->base;
    if (context->share->total == 1)
        return;
    for (uint32_t i = 0; i < block->num_pieces; i++)
        block->pieces[i].keys =
            pen__take(&base->stash_bytes, pen__context_bytes(context));
    block->shares =
        pen__take(&base->scratch_bytes, pen__context_bytes(context));
    block->received =
        pen__take(&base->scratch_bytes, pen__context_received_bytes(context));
}

static void lay_out(struct block *block, const struct pen_tensor_share *tensor)
{
    struct pen__layer *base = &block->base;
    size_t row = block->shape.rows * block->shape.element;
    size_t width =
        block->shape.own_rows * block->shape.element * block->shape.hidden;
    base->input_bytes = pen__align(width);
    base->output_bytes = base->input_bytes;
    lay_out_stash(block);
    size_t *norms =
        block->again.norms ? &base->scratch_bytes : &base->stash_bytes;
    size_t *inner =
        block->again.inner ? &base->scratch_bytes : &base->stash_bytes;
    block->a = pen__take(norms, width);
    block->b = pen__take(norms, width);
    block->middle_gradient = pen__take(&base->hold_bytes, width);
    block->a_gradient = pen__take(&base->hold_bytes, width);
    block->b_gradient = pen__take(&base->hold_bytes, width);
    if (pen_tensor_shares_rows(tensor)) {
        block->all_of_y =
            pen__take(&base->hold_bytes, row * block->shape.hidden);
        block->all_of_middle =
            pen__take(&base->hold_bytes, row * block->shape.hidden);
    }
    for (uint32_t i = 0; i < block->num_pieces; i++) {
        struct piece *piece = &block->pieces[i];
        piece->inner = pen__take(inner, row * piece->swiglu.width);
        piece->projected_gradient =
            pen__take(&base->hold_bytes, piece->projection.hold_bytes);
        piece->wide_gradient =
            pen__take(&base->hold_bytes, row * piece->swiglu.stride);
        if (piece->sinks.logits != NULL)
            piece->sink_slopes = pen__take(
                &base->hold_bytes, block->shape.stat * piece->attention.heads);
    }
    lay_out_experts(block);
    base->slopes_bytes = base->context_bytes;
    lay_out_scratch(block, tensor);
    lay_out_context(block);
}

pen_status pen__block_create(struct pen_network *network, uint32_t layer,
                             struct pen__layer **out, struct pen_text *why)
{
    uint32_t count = network->options.tensor.count;
    struct block *block =
        calloc(1, sizeof *block + count * sizeof block->pieces[0]);
    if (block == NULL)
        return PEN_NOMEM;
    block->base.ops = &block_ops;
    block->again =
        pen_recomputed_of(network->options.recompute, network->options.modules);
    block->is_gated = network->options.model->activation == PEN_ACTIVATION_SILU;
    block->shape = pen__shape_of(&network->options);
    block->num_pieces = count;
    pen_status status = add_parameters(block, network, layer, why);
    if (status != PEN_OK) {
        free_block(&block->base);
        return status;
    }
    status = add_context(block, &network->options);
    if (status != PEN_OK) {
        free_block(&block->base);
        return status;
    }
    lay_out(block, &network->options.tensor);
    *out = &block->base;
    return PEN_OK;
}
