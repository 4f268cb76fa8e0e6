#ifndef PEN_NETWORK_CHAIN_H
#define PEN_NETWORK_CHAIN_H

#include "core/image_model.h"
#include "network/layer.h"

/*
 * The network as its makers see it: layers in order, and the parameters they
 * use. A maker (decoder.c) fills a zeroed one and calls pen__network_seal().
 */
struct pen_network {
    struct pen_network_options options;
    struct pen__layer **layers; /* owned; num_layers of the options */
    struct pen_network_parameter *parameters;
    size_t num_parameters;
    size_t capacity; /* of parameters */
    void *tables;    /* rotary; owned, in the engine's memory */
    size_t table_bytes;
    const struct pen_image_model *image_model; /* NULL for a decoder */
    void *statistics; /* running ones, of images; owned, in staging */
    size_t statistic_bytes;
    uint32_t building;      /* the layer that is being made */
    bool is_adding_values;  /* parameters that others train */
    bool is_adding_copies;  /* of what an earlier piece has */
    uint32_t adding_shared; /* pieces that share them; 0: one */
    uint32_t adding_piece;
    uint32_t adding_expert;
    size_t dealt_bytes;         /* of gradients of experts, by source */
    uint32_t adding_kind;       /* of those that one piece has of a tensor */
    struct pen__copies *copies; /* of parameters; NULL: none */
    struct pen__subspace *subspace; /* that blocks write to; NULL: none */
    void *pruned_block; /* of dense gradients (pruned.c); NULL: none */
    size_t pruned_bytes;
    struct pen_group_request *requests; /* of parts of rows; NULL: none */
    struct pen__layer *gathering;       /* embedding tied to a head elsewhere */
    struct pen_parameter *tied_end;     /* first of either side; NULL: none
                                           elsewhere */
    size_t logits_at; /* in the stash of the last layer, if that is a head */

    /* Offsets of each layer's arrays; see chain.c. */
    struct pen__places *places;
    struct pen_network_sizes sizes;

    /* One block: what passes need and micro-batches share. */
    void *block;
    size_t block_bytes;
    double *loss; /* of the last forward pass; in staging */
    void *scratch;
    void *shared_region;       /* of the chunk that is computed again */
    void *shared_hold;         /* of the layer in a whole backward */
    void *shared_gradients[2]; /* dy of this layer and of the next */

    pen_network_progress *progress;
    void *progress_context;
    pen_network_progress *entrance;
    void *entrance_context;
    pen_network_visit *visit;
    void *visit_context;
    pen_network_observer *observer;
    void *observer_context;
};

/*
 * Creates the parameter that `added` describes and takes it into the list. On
 * success *out is what layers use: added->parameter, unless it is pruned.
 */
pen_status pen__network_add(struct pen_network *network,
                            enum pen_parameter_use use,
                            struct pen_network_parameter *added,
                            struct pen_parameter **out, struct pen_text *why);

/* Lays out stash and hold and allocates what is shared. */
pen_status pen__network_seal(struct pen_network *network, struct pen_text *why);

/*
 * With another member of a group, at the same time: sends `mine` and receives
 * as many bytes, which may not overlap. After a loss it returns at once.
 */
void pen__exchange(struct pen_group *group, uint32_t with, const void *mine,
                   void *theirs, size_t bytes);

/* Adds numbers of `size` bytes, float or double, to others. */
void pen__add_masters(size_t size, void *to, const void *from, size_t count);

/*
 * Parameters that several pieces of a cut model have, as keys and values of
 * which there are fewer heads than pieces. Their gradients are added in the
 * tree, and all copies get the sum. A network without copies has no list.
 *
 * Layers from `first` on are summed that were not since gradients were cleared.
 */
pen_status pen__copies_create(struct pen_network *network);
void pen__copies_free(struct pen__copies *copies);
void pen__copies_sum(struct pen__copies *copies, uint32_t first);
void pen__copies_clear(struct pen__copies *copies);

/* The offset of an array of `bytes` at *end, which moves past it. */
static inline size_t pen__take(size_t *end, size_t bytes)
{
    size_t at = *end;
    *end += pen__align(bytes);
    return at;
}

static inline void *pen__at(void *block, size_t offset)
{
    return (char *)block + offset;
}

#endif
