#ifndef PEN_EXPORT_MEGATRON_WORDS_H
#define PEN_EXPORT_MEGATRON_WORDS_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The options of a Megatron line that a model or a plan is made of. */
#define PEN__MEGATRON_TABLE(X)                                                 \
    X(NUM_LAYERS, "num-layers")                                                \
    X(HIDDEN_SIZE, "hidden-size")                                              \
    X(FFN_HIDDEN_SIZE, "ffn-hidden-size")                                      \
    X(NUM_HEADS, "num-attention-heads")                                        \
    X(KV_CHANNELS, "kv-channels")                                              \
    X(GROUP_QUERY, "group-query-attention")                                    \
    X(QUERY_GROUPS, "num-query-groups")                                        \
    X(QK_NORM, "qk-layernorm")                                                 \
    X(WINDOW_SIZE, "window-size")                                              \
    X(WINDOW_SKIP, "window-attn-skip-freq")                                    \
    X(MAX_POSITIONS, "max-position-embeddings")                                \
    X(POSITION_TYPE, "position-embedding-type")                                \
    X(USE_ROTARY, "use-rotary-position-embeddings")                            \
    X(ROTARY_BASE, "rotary-base")                                              \
    X(ROTARY_FACTOR, "rotary-seq-len-interpolation-factor")                    \
    X(ROPE_SCALING, "use-rope-scaling")                                        \
    X(ROPE_FACTOR, "rope-scaling-factor")                                      \
    X(VOCAB_SIZE, "vocab-size")                                                \
    X(PADDED_VOCAB, "padded-vocab-size")                                       \
    X(TOKENIZER, "tokenizer-type")                                             \
    X(NORMALIZATION, "normalization")                                          \
    X(NORM_EPSILON, "norm-epsilon")                                            \
    X(SWIGLU, "swiglu")                                                        \
    X(NO_BIAS, "disable-bias-linear")                                          \
    X(QKV_BIAS, "add-qkv-bias")                                                \
    X(UNTIE, "untie-embeddings-and-output-weights")                            \
    X(ROTARY_SHARE, "rotary-percent")                                          \
    X(NUM_EXPERTS, "num-experts")                                              \
    X(TOP_EXPERTS, "moe-router-topk")                                          \
    X(EXPERT_SIZE, "moe-ffn-hidden-size")                                      \
    X(EXPERT_BLOCKS, "moe-layer-freq")                                         \
    X(SHARED_SIZE, "moe-shared-expert-intermediate-size")                      \
    X(LATENT, "multi-latent-attention")                                        \
    X(Q_RANK, "q-lora-rank")                                                   \
    X(KV_RANK, "kv-lora-rank")                                                 \
    X(QK_DIM, "qk-head-dim")                                                   \
    X(QK_ROPE_DIM, "qk-pos-emb-head-dim")                                      \
    X(V_DIM, "v-head-dim")                                                     \
    X(MTP_LAYERS, "mtp-num-layers")                                            \
    X(SEQ_LENGTH, "seq-length")                                                \
    X(MICRO_BATCH, "micro-batch-size")                                         \
    X(GLOBAL_BATCH, "global-batch-size")                                       \
    X(BF16, "bf16")                                                            \
    X(FP16, "fp16")                                                            \
    X(FP8, "fp8-format")                                                       \
    X(FP8_RECIPE, "fp8-recipe")                                                \
    X(FP4, "fp4-format")                                                       \
    X(SEED, "seed")                                                            \
    X(TP, "tensor-model-parallel-size")                                        \
    X(SP, "sequence-parallel")                                                 \
    X(PP, "pipeline-model-parallel-size")                                      \
    X(LAYOUT, "pipeline-model-parallel-layout")                                \
    X(CHUNK_LAYERS, "num-layers-per-virtual-pipeline-stage")                   \
    X(CHUNKS, "num-virtual-stages-per-pipeline-rank")                          \
    X(GROUP_SIZE, "microbatch-group-size-per-virtual-pipeline-stage")          \
    X(FIRST_LAYERS, "decoder-first-pipeline-num-layers")                       \
    X(LAST_LAYERS, "decoder-last-pipeline-num-layers")                         \
    X(COUNT_EMBEDDING, "account-for-embedding-in-pipeline-split")              \
    X(COUNT_LOSS, "account-for-loss-in-pipeline-split")                        \
    X(CP, "context-parallel-size")                                             \
    X(EP, "expert-model-parallel-size")                                        \
    X(DISTRIBUTED, "use-distributed-optimizer")                                \
    X(FSDP, "use-megatron-fsdp")                                               \
    X(TORCH_FSDP, "use-torch-fsdp2")                                           \
    X(STRATEGY, "data-parallel-sharding-strategy")                             \
    X(GRANULARITY, "recompute-granularity")                                    \
    X(RECOMPUTE, "recompute-activations")                                      \
    X(METHOD, "recompute-method")                                              \
    X(METHOD_LAYERS, "recompute-num-layers")                                   \
    X(OVERLAP_GRADIENTS, "overlap-grad-reduce")                                \
    X(OVERLAP_PARAMETERS, "overlap-param-gather")                              \
    X(FUSED_LOSS, "cross-entropy-loss-fusion")                                 \
    X(ETP, "expert-tensor-parallel-size")                                      \
    X(DISPATCHER, "moe-token-dispatcher-type")                                 \
    X(BACKEND, "moe-flex-dispatcher-backend")                                  \
    X(DEEPEP, "moe-enable-deepep")                                             \
    X(OVERLAP_EXPERTS, "overlap-moe-expert-parallel-comm")                     \
    X(DELAY_WEIGHTS, "delay-wgrad-compute")                                    \
    X(CAPACITY, "moe-expert-capacity-factor")                                  \
    X(PADDING, "moe-pad-expert-input-to-capacity")                             \
    X(RANK_CAPACITY, "moe-expert-rank-capacity-factor")                        \
    X(PAGED, "moe-paged-stash")                                                \
    X(OP_FUSER, "use-transformer-engine-op-fuser")                             \
    X(GRAPH_IMPL, "cuda-graph-impl")                                           \
    X(GRAPH_SCOPE, "cuda-graph-scope")                                         \
    X(GRAPH_MODULES, "cuda-graph-modules")                                     \
    X(ENABLE_GRAPH, "enable-cuda-graph")                                       \
    X(EXTERNAL_GRAPH, "external-cuda-graph")                                   \
    X(MODULES, "recompute-modules")                                            \
    X(FINE_OFFLOAD, "fine-grained-activation-offloading")                      \
    X(OFFLOAD_MODULES, "offload-modules")                                      \
    X(OFFLOAD_LAYERS, "cpu-offloading-num-layers")                             \
    X(OFFLOAD_OPTIMIZER, "optimizer-cpu-offload")                              \
    X(OPTIMIZER, "optimizer")                                                  \
    X(AWARE, "use-precision-aware-optimizer")                                  \
    X(MAIN_GRADS, "main-grads-dtype")                                          \
    X(MAIN_PARAMS, "main-params-dtype")                                        \
    X(EXP_AVG, "exp-avg-dtype")                                                \
    X(EXP_AVG_SQ, "exp-avg-sq-dtype")                                          \
    X(GRAD_BF16, "grad-reduce-in-bf16")                                        \
    X(FP8_GATHER, "fp8-param-gather")                                          \
    X(FP4_GATHER, "fp4-param-gather")                                          \
    X(FP8_ATTENTION, "fp8-dot-product-attention")                              \
    X(NODE_RANKS, "nproc-per-node") /* of torchrun, as the next */             \
    X(NODES, "nnodes")

enum pen__megatron_option {
#define PEN__MEGATRON_ENUM(name, word) PEN__MEGATRON_##name,
    PEN__MEGATRON_TABLE(PEN__MEGATRON_ENUM)
#undef PEN__MEGATRON_ENUM
        PEN__MEGATRON_OPTIONS
};

struct pen__megatron_words {
    struct pen_text words; /* each ended by a NUL */
    /* Where the value is, "" for a flag; NULL when the option is not there. */
    const char *values[PEN__MEGATRON_OPTIONS];
    /* Options and variables that are not in the table: "--lr, $ARGS". */
    struct pen_text unread;
};

/* Parts a line into words; of an option given twice the last one counts. */
pen_status pen__megatron_words_init(struct pen__megatron_words *words,
                                    const char *text, size_t length,
                                    struct pen_text *why);
void pen__megatron_words_release(struct pen__megatron_words *words);

bool pen__megatron_has(const struct pen__megatron_words *words,
                       enum pen__megatron_option option);

/* Returns whether the option is given with this value. */
bool pen__megatron_is(const struct pen__megatron_words *words,
                      enum pen__megatron_option option, const char *value);

/* Returns the name of an option, without dashes. */
const char *pen__megatron_name(enum pen__megatron_option option);

/* Returns the option's next value after this one, or NULL. */
const char *pen__megatron_next(const struct pen__megatron_words *words,
                               const char *value);

/*
 * Reads a count from 1 to most; *out is left alone when the option is missing.
 */
pen_status pen__megatron_count(const struct pen__megatron_words *words,
                               enum pen__megatron_option option, uint32_t most,
                               uint32_t *out, struct pen_text *why);

pen_status pen__megatron_real(const struct pen__megatron_words *words,
                              enum pen__megatron_option option, double *out,
                              struct pen_text *why);

#endif
