#ifndef PEN_NETWORK_NETWORK_H
#define PEN_NETWORK_NETWORK_H

#include "base/status.h"
#include "base/text.h"
#include "core/any_model.h"
#include "core/dtype.h"
#include "core/model_cost.h"
#include "core/tensor_piece.h"
#include "engine/engine.h"
#include "group/group.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A network: a chain of layers on an engine, all of a model or the part that
 * one stage of a pipeline has.
 *
 *              stash                     stash
 *          .- - - - - .              .- - - - - .
 *   x ---> | layer k  | -- x' -----> | layer k+1| ---> y      forward
 *   dx <-- |          | <-- dy' ---- |          | <--- dy     backward input
 *              hold                      hold
 *
 * Each layer has three passes. The forward leaves in the stash what the other
 * two read. The backward input leaves in the hold what the backward weight
 * reads, so that a schedule may run that as late as it likes. Where it does not
 * care, pen_network_backward() runs the two layer by layer and one layer's hold
 * serves all.
 *
 * The caller owns stash and hold, one of each per micro-batch in flight; their
 * sizes are known when the network is made, and no pass allocates.
 */
struct pen_network;

#define PEN_NO_LAYER UINT32_MAX

/*
 * Tensor parallelism: what one network has of a decoder whose products are cut
 * into `total` pieces of the same shape. Heads and the wide half of the MLP are
 * cut, and so are the rows of the vocabulary. Results of a piece that are
 * parts of a sum are added in the tree of group/tree.h over all pieces, so that
 * the bits depend on `total` alone. All zero: a model that is not cut.
 *
 * Members of a group, a power of two of them, may have `count` pieces each, in
 * order, and `count` is a power of two, too. Then a member's pieces are a
 * subtree; members that are 1, 2, 4, ... apart exchange their sums and both add
 * them, which has the bits of the tree on all of them. All run the same passes
 * in the same order; the engine's memory is the host's.
 *
 * Sequence parallelism (network/stream.h): between products that are cut, a
 * member has an equal part of the rows of a micro-batch alone. Inputs, outputs
 * and their gradients are those of the part. Gradients of norms are then sums
 * over `total` parts of the rows, added in the tree, wherever they are
 * computed.
 */
struct pen_tensor_share {
    uint32_t total;
    uint32_t first; /* piece that is here */
    uint32_t count;
    struct pen_group *group; /* borrowed; NULL: all pieces are here */
    bool cuts_rows;          /* sequence parallelism; divides the rows */
};

/* Whether a member has a part of the rows only. */
static inline bool pen_tensor_shares_rows(const struct pen_tensor_share *tensor)
{
    return tensor->cuts_rows && tensor->group != NULL;
}

/* Settings of the routers of blocks with experts, in addition to routing. */
struct pen_router_settings {
    double aux; /* of their losses; see struct pen_router */
    double z;
    /* In training, an expert takes at most this many times the mean number of
     * copies of a micro-batch and drops the others; 0: takes all. */
    double capacity;
    bool counts_tokens; /* of each expert, as the gradient of its offset */
};

/*
 * Context parallelism: sequences are cut into 2 * total chunks, of which part i
 * has i and 2 * total - 1 - i, so that causal attention is even. Every member
 * of the group is one part and has all weights; it runs the same passes as the
 * others in the same order. Rows are [chunk][batch][token]. Gradients of
 * weights are those of the part, and the loss is its share. `total` is a power
 * of two; 0 is 1, without a group. The engine's memory is the host's.
 */
struct pen_context_share {
    uint32_t total;
    uint32_t part;
    struct pen_group *group; /* borrowed */
};

/*
 * Expert parallelism: the experts of every block are dealt out over the members
 * of a group, in order and evenly. Every member has a micro-batch of its own
 * and runs the same passes as the others in the same order. The gradient of an
 * expert is there once for each member (see `gradients` of a parameter). 0 and
 * 1: all experts are here. The engine's memory is the host's.
 */
struct pen_expert_share {
    uint32_t total;          /* members */
    struct pen_group *group; /* borrowed */
};

struct pen_network_options {
    struct pen_engine *engine;     /* borrowed until the network is freed */
    const struct pen_model *model; /* borrowed likewise */
    uint32_t first_layer;          /* as the model counts them */
    uint32_t num_layers;
    size_t batch; /* sequences of a micro-batch */
    size_t sequence;
    uint32_t num_slices; /* token slices of a micro-batch; 0: one */
    size_t step_rows;    /* most tokens between two optimizer steps */
    int moments;         /* that the optimizer keeps per parameter */
    bool has_no_room;    /* of gradients: see gradient_place() of the engine */
    bool has_no_values;  /* likewise: see value_place() */
    enum pen_recompute recompute;
    unsigned modules; /* of selective: 1u << PEN_MODULE_...; 0: cheap ones */
    struct pen_recompute_span span; /* of full */
    struct pen_tensor_share tensor;
    struct pen_context_share context;
    struct pen_router_settings router; /* of blocks with experts */
    struct pen_expert_share experts;
    size_t subspace;      /* columns of the stream that blocks write to
                             (subspace.c), fewer than it has; 0: all */
    double sparsity;      /* share of each matrix of the blocks that is pruned
                             (pruned.c), below 1; 0: none */
    bool is_forward_only; /* no gradients: evaluation, generation */
};

/*
 * INVALID, with the reason, where a model cannot be cut into that many pieces.
 */
pen_status pen_network_check_pieces(const struct pen_model *model,
                                    uint32_t pieces, struct pen_text *why);

/*
 * Token slices: the sequences of a micro-batch are cut into equal slices, and
 * every pass is one over a slice. Forward passes go from the first slice to the
 * last, the others from the last to the first. A micro-batch then has two more
 * blocks of memory, which its slices share: the context, from the first forward
 * pass to the last backward one, has queries, keys and values of all slices;
 * the slopes, from the first backward pass to the last, have their gradients.
 * A slice adds to those of the keys and values before it, so that they are
 * complete when its turn comes. A stash, a hold, an input and an output are
 * those of one slice.
 */

/*
 * One micro-batch, or a slice of it: what comes from the data.
 *
 * ids and targets have an entry for each token; the stage with the embedding
 * reads the one, the stage with the head the other; both lie in staging and
 * must stay until the last pass of the micro-batch is finished. Targets of
 * `PEN_NO_TARGET` do not count. Losses are divided by loss_count, the number of
 * targets of the whole step, so that the losses of its micro-batches add up to
 * the mean.
 *
 * A network for images (network/images.h) reads pixels in place of ids, and has
 * one target per image.
 */
#define PEN_NO_TARGET (-1)

struct pen_microbatch {
    const int32_t *ids;
    const int32_t *targets;
    const float *pixels; /* [batch][channels][height][width] */
    bool is_evaluation;  /* of a network that trains: no backward follows */
    bool measures;       /* an evaluation in which norms over batches measure */
    double loss_count;
    uint32_t slice;
    void *context; /* of the micro-batch; NULL without slices, as the next */
    void *slopes;  /* not read by a forward */
};

/*
 * On failure *out is untouched. Parameters are zero; see
 * pen_network_initialize() and pen_network_load() in network/weights.h.
 */
pen_status pen_network_create(const struct pen_network_options *options,
                              struct pen_network **out, struct pen_text *why);
void pen_network_free(struct pen_network *network);

/*
 * Random weights as the family's training code draws them: normal with
 * deviation 0.02, matrices that write to the residual stream divided by
 * sqrt(2 * blocks); norms one, biases zero. Each tensor has a stream of its
 * own, so the bits depend on the seed and the tensor, not on the stage.
 */
pen_status pen_network_initialize(struct pen_network *network, uint64_t seed);

/*
 * Bytes that one micro-batch takes, or one slice of it; multiples of 64. Stash,
 * hold, context and slopes are in the engine's memory or in staging, input and
 * output of a stage in staging.
 */
struct pen_network_sizes {
    size_t stash;
    size_t hold;    /* for the split backward */
    size_t input;   /* of the first layer: 0 with the embedding */
    size_t output;  /* of the last layer: 0 with the head */
    size_t logits;  /* inside the stash of the head, else 0 */
    size_t context; /* of a micro-batch with slices, as the next; else 0 */
    size_t slopes;
};

void pen_network_sizes(const struct pen_network *network,
                       struct pen_network_sizes *out);

/* Bytes that the network holds itself, without parameters: its scratch. */
size_t pen_network_scratch_bytes(const struct pen_network *network);

/*
 * Called after every layer of a pass, with its index in the model, so that the
 * caller can look at its messages. May be NULL.
 */
typedef void pen_network_progress(void *context, uint32_t layer);
void pen_network_set_progress(struct pen_network *network,
                              pen_network_progress *progress, void *context);

/*
 * Called ahead of the backward weight of every layer, with its index in the
 * model, so that the caller can make room for its gradients. May be NULL.
 */
void pen_network_set_entrance(struct pen_network *network,
                              pen_network_progress *entrance, void *context);

/*
 * Called ahead of every pass through a layer that reads its values, with its
 * index in the model and that of the next layer of the same pass (PEN_NO_LAYER:
 * none), so that the caller can fetch the values. May be NULL.
 */
typedef void pen_network_visit(void *context, uint32_t layer, uint32_t next);
void pen_network_set_visit(struct pen_network *network,
                           pen_network_visit *visit, void *context);

/*
 * Called with every output of a layer that a forward makes and every gradient
 * of one that a backward makes, in the engine's memory; `layer` is the one with
 * that output, as the model counts them. May be NULL.
 */
typedef void pen_network_observer(void *context, bool is_backward,
                                  uint32_t layer, const void *numbers);
void pen_network_set_observer(struct pen_network *network,
                              pen_network_observer *observer, void *context);

/* The type of outputs and of their gradients. */
enum pen_dtype pen_network_dtype(const struct pen_network *network);

/*
 * x is NULL on the stage with the embedding, y on the one with the head. To
 * make the stash of a decoder again, with the weights of its first forward, y
 * may be NULL on any stage: the stash is bit-identical to the first. x is
 * copied into the stash where it does not lie there already: see
 * pen_network_input().
 */
void pen_network_forward(struct pen_network *network,
                         struct pen_microbatch *microbatch, void *stash,
                         const void *x, void *y);

/*
 * After the forward pass of a micro-batch, with its stash, y and loss: the
 * first layer, as the model counts them, whose output is not finite;
 * PEN_NO_LAYER when all are. Not for the step.
 */
uint32_t pen_network_first_nonfinite(const struct pen_network *network,
                                     const void *stash, const void *y,
                                     double loss);

/* Whether an output is finite; true where the host cannot see it. */
bool pen_network_is_finite(const struct pen_network *network, const void *y);

/*
 * The loss of the last forward pass through the head, once a mark after it is
 * reached.
 */
double pen_network_loss(const struct pen_network *network);

/* dy is NULL on the stage with the head, dx on the one with the embedding. */
void pen_network_backward_input(struct pen_network *network,
                                struct pen_microbatch *microbatch, void *stash,
                                void *hold, const void *dy, void *dx);
void pen_network_backward_weight(struct pen_network *network,
                                 struct pen_microbatch *microbatch, void *stash,
                                 void *hold);

/*
 * How unevenly routers dealt out tokens: the sum, over blocks with experts and
 * micro-batches that were trained on, of the tokens of the busiest expert over
 * those of a mean one; how many there were; and the slots of tokens that
 * experts had no room for.
 */
struct pen_routings {
    double imbalance;
    double count;
    double dropped;
};

/* Adds the routings since the last call to *sum. */
void pen_network_take_routings(struct pen_network *network,
                               struct pen_routings *sum);

/* Both backwards, layer by layer; bit-identical to the two in a row. */
void pen_network_backward(struct pen_network *network,
                          struct pen_microbatch *microbatch, void *stash,
                          const void *dy, void *dx);

/* Where x lies in a stash, so that a message can be received in place. */
void *pen_network_input(struct pen_network *network, void *stash);

/*
 * After forward-only passes: the logits of the micro-batch, of the engine's
 * dtype, [batch * sequence][vocab], in the stash. NULL without the head, and
 * where the vocabulary is cut.
 */
const void *pen_network_logits(const struct pen_network *network,
                               const void *stash);

/*
 * After the last backward of a step: adds what the embedding gathered to the
 * gradient of a tied matrix. The order is thus the head's sum over the
 * micro-batches plus the embedding's, wherever the two layers live. Then sums
 * the gradients of which pieces have copies.
 */
void pen_network_finish_gradients(struct pen_network *network);

/*
 * Sums the gradients of copies in this layer and the layers after it ahead of
 * pen_network_finish_gradients(), where the last backward of a step has
 * finished them.
 */
void pen_network_finish_layer(struct pen_network *network, uint32_t layer);

void pen_network_clear_gradients(struct pen_network *network);

/* Bytes of the gradients of experts where they are dealt out. */
size_t pen_network_dealt_bytes(const struct pen_network *network);

/*
 * Where embedding and head are tied but live in different networks, the head's
 * trains the matrix and the embedding's has its value alone. The gradient of
 * the embedding is then handed over: rows of it and the words they belong to,
 * between the last backward and the clearing, in staging memory: operations
 * may read them at once, the host once a later mark is reached. NULL in *rows
 * when there is nothing to hand over because the network does both or is not
 * tied.
 */
void pen_network_gathered(struct pen_network *network, size_t *count,
                          const int32_t **words, const void **rows);
void pen_network_clear_gathered(struct pen_network *network);

/*
 * Puts what was gathered aside and takes up other rows, with their words, in
 * their place: both have room for the most rows. Returns how many were put
 * aside.
 */
size_t pen_network_swap_gathered(struct pen_network *network, size_t count,
                                 int32_t *words, void *rows);

/* Most rows that can be gathered. */
size_t pen_network_gathered_capacity(const struct pen_network *network);

/* On the head's side: adds rows that the embedding gathered. */
void pen_network_add_gathered(struct pen_network *network, size_t count,
                              const int32_t *words, const void *rows);

/*
 * The parameters that are tied to those of another network, one for each piece
 * of it, in a row: the first of them, or NULL for none.
 */
const struct pen_network_parameter *
pen_network_tied(const struct pen_network *network);
uint32_t pen_network_num_tied(const struct pen_network *network);
bool pen_network_is_tied(const struct pen_network *network,
                         const struct pen_network_parameter *parameter);

/* Whether one layer alone reads a parameter and trains it: it is not tied. */
bool pen_network_is_of_one_layer(const struct pen_network *network,
                                 const struct pen_network_parameter *parameter);

/*
 * Parameters of the engine, layer by layer, the same for any range. A parameter
 * may hold several tensors one after the other, as queries, keys and values are
 * one product: in the plain array of a parameter_export() with this order a
 * tensor is a slice, as it is in files.
 */
#define PEN_MAX_PARAMETER_TENSORS 3

struct pen_tensor_slice {
    uint32_t tensor;               /* of the model */
    struct pen_tensor_piece piece; /* of the tensor, that is here */
    size_t first;                  /* element of the plain array */
};

struct pen__pruned;

struct pen_network_parameter {
    struct pen_parameter *parameter; /* owned by the network */
    struct pen__pruned *pruned; /* the parameter has the elements that are kept
                                   of a larger one; NULL: it has all */
    uint32_t layer;             /* that it belongs to, of the model */
    uint32_t number; /* among all that the first tensor is cut into: pieces, and
                        experts of each */
    bool is_copy;    /* another piece has the same, counts it and writes it */
    uint32_t num_sharing; /* pieces that have it, each a part of its gradient */
    bool is_value_only;   /* another member trains it */
    uint32_t num_dealt;   /* ranks that such parameters are dealt out over */
    /* Gradients from `num_sources` sources, one after the other, in the
     * engine's memory; the engine's is the first. NULL: it has one, of its own.
     */
    uint32_t num_sources;
    void *gradients;
    bool is_of_both_ends;     /* of this network: the head's first, tied */
    bool has_sparse_gradient; /* zero but for rows of a step's tokens */
    bool has_anchor;          /* some of its columns never change: no decay */
    enum pen_role role;
    enum pen_parameter_order order;
    size_t rows;
    size_t columns;
    size_t num_slices;
    struct pen_tensor_slice slices[PEN_MAX_PARAMETER_TENSORS];
};

/* Numbers of parameters that begin with one tensor: see `number`. */
uint32_t pen_tensor_numbers(const struct pen_any_model *model, uint32_t pieces);

/* Elements of a parameter. */
static inline size_t
pen_network_count(const struct pen_network_parameter *parameter)
{
    return parameter->rows * parameter->columns;
}

/*
 * Elements of the plain array that its slices are parts of, and a part of it
 * from or to that array, which has the order of files. The first import of a
 * pruned parameter is its value, which chooses the elements that are kept: the
 * largest ones.
 */
size_t pen_network_plain_count(const struct pen_network_parameter *parameter);
void pen_network_import(struct pen_network *network,
                        const struct pen_network_parameter *parameter,
                        enum pen_parameter_part part, const void *plain);
void pen_network_export(const struct pen_network *network,
                        const struct pen_network_parameter *parameter,
                        enum pen_parameter_part part, void *plain);

/* After a step of a parameter: products read the new value. */
void pen_network_spread(const struct pen_network *network, size_t parameter);

size_t pen_network_num_parameters(const struct pen_network *network);

/* Elements of the largest plain array of them. */
size_t pen_network_largest(const struct pen_network *network);

/* Borrowed until the network is freed. */
const struct pen_network_parameter *
pen_network_parameter(const struct pen_network *network, size_t index);

/*
 * Columns of the tables that a network without the embedding has in addition to
 * its parameters, where blocks write to a subspace of the stream. They are
 * filled as parameters are, and never change.
 */
size_t pen_network_num_anchors(const struct pen_network *network);
const struct pen_network_parameter *
pen_network_anchor(const struct pen_network *network, size_t index);

struct pen_engine *pen_network_engine(const struct pen_network *network);
const struct pen_model *pen_network_model(const struct pen_network *network);

#endif
