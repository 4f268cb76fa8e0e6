#ifndef PEN_CORE_MODEL_COST_H
#define PEN_CORE_MODEL_COST_H

#include "core/model.h"
#include "core/recipe.h"

/*
 * The costs of a layer of a model: flops of its three passes, and the bytes it
 * keeps between them. Counted from the shapes alone, before anything runs, for
 * the layers as src/network computes them; the bytes of families that it does
 * not compute are what the same way of computing would keep.
 */

enum pen_recompute {
    PEN_RECOMPUTE_NONE,
    PEN_RECOMPUTE_SELECTIVE, /* norms and activation functions: cheap */
    PEN_RECOMPUTE_FULL,      /* whole blocks; their inputs are kept */
    PEN_RECOMPUTES
};

/* "none", "selective", "full", NULL. */
extern const char *const pen_recompute_names[PEN_RECOMPUTES + 1];

/* Modules that selective recomputation may name in this runtime, as bits. */
#define PEN_TRAINED_MODULES                                                    \
    (1u << PEN_MODULE_CORE_ATTENTION | 1u << PEN_MODULE_NORMS |                \
     1u << PEN_MODULE_MLP)

/*
 * The arrays of a block that a mode computes again, apart from those of whole
 * blocks. Without modules, selective is what costs no product: norms and inner.
 */
struct pen_recomputed {
    bool norms;     /* their results */
    bool attention; /* its result, and the statistics of its rows */
    bool wide;      /* the first product of the MLP */
    bool inner;     /* its activation function */
};

struct pen_recomputed pen_recomputed_of(enum pen_recompute recompute,
                                        unsigned modules);

/* A stage: layers that follow each other, as the model counts them. */
struct pen_layer_range {
    uint32_t first;
    uint32_t count;
    enum pen_recompute recompute;
};

/*
 * Which blocks of a stage full recomputation computes again, counted from its
 * first one, and which of them keep their input. All zero: all, and each.
 */
struct pen_recompute_span {
    uint32_t first; /* blocks that recompute, the first ones; 0: all */
    /*
     * of each N blocks the first keeps its input, and they are computed again
     * together; 0 as 1
     */
    uint32_t chunk;
};

static inline bool pen_recompute_covers(const struct pen_recompute_span *span,
                                        uint32_t block)
{
    return span->first == 0 || block < span->first;
}

/*
 * Returns whether a covered block is inside a chunk: it has no input until its
 * chunk is computed.
 */
static inline bool pen_recompute_is_inner(const struct pen_recompute_span *span,
                                          uint32_t block)
{
    return span->chunk > 1 && block % span->chunk != 0;
}

struct pen_workload {
    uint64_t batch; /* sequences of a micro-batch */
    uint64_t sequence;
    uint32_t element_bytes; /* of an activation */
    uint32_t stat_bytes;    /* of a row's statistics */
    enum pen_recompute recompute;
    unsigned
        modules; /* of selective: 1u << PEN_MODULE_...; 0: the cheap ones */
};

/*
 * The part of a layer's bytes that all ranks of a tensor group have, without
 * arrays as wide as the residual stream: what routers make, copies of tokens
 * for experts, and the narrow layers of latent attention.
 */
struct pen_layer_common {
    uint64_t stash_bytes;
    uint64_t hold_bytes;
    uint64_t copy_bytes; /* of scratch */
};

struct pen_layer_cost {
    /* Multiply-adds count two. Products and attention; attention is causal. */
    double forward_flops;
    double input_flops;
    double weight_flops;

    /* Bytes of one micro-batch. */
    uint64_t output_bytes; /* what goes to the next layer; 0 for the head */
    uint64_t stash_bytes;  /* from forward to backward, the input included */
    uint64_t hold_bytes;   /* from backward input to backward weight */
    uint64_t again_bytes;  /* of scratch, for what is computed again */
    uint64_t copy_bytes;   /* of scratch, for copies of tokens for experts */
    struct pen_layer_common common; /* of these bytes */
    double again_flops; /* of selective recomputation, in the backward */
};

void pen_model_layer_cost(const struct pen_model *model, uint32_t layer,
                          const struct pen_workload *workload,
                          struct pen_layer_cost *out);

/*
 * Returns the parameters that a stage trains. The stage with the head trains a
 * matrix that head and embedding share.
 */
uint64_t pen_model_trained_parameters(const struct pen_model *model,
                                      const struct pen_layer_range *range);

/*
 * Returns the flops of all three passes of all layers, without recomputation.
 */
double pen_model_step_flops(const struct pen_model *model, uint64_t batch,
                            uint64_t sequence);

#endif
