/* Options of Megatron that exclude or need each other. */
#include "lint/rules.h"

#include <string.h>

/* NULL as a value: the option is there and on. */
struct condition {
    const char *key;
    const char *value;
};

static bool holds(const struct pen__lint_config *config,
                  const struct condition *condition)
{
    return condition->value == NULL
               ? pen__lint_is_on(config, condition->key)
               : pen__lint_is(config, condition->key, condition->value);
}

/* ---- contradictions ---- */

static const struct {
    struct condition one;
    struct condition other;
    const char *why;
} contradictions[] = {
    {{"fp16", NULL}, {"bf16", NULL}, "Weights have one number format."},
    {{"fp4-format", NULL},
     {"fp8-format", NULL},
     "Matrix products have one narrow format."},
    {{"recompute-granularity", "selective"},
     {"recompute-method", NULL},
     "The method is for full recomputation; selective recomputation takes "
     "modules."},
    {{"recompute-granularity", "selective"},
     {"recompute-num-layers", NULL},
     "The number of layers is for full recomputation."},
    {{"recompute-granularity", "full"},
     {"cuda-graph-impl", "local"},
     "CUDA graphs do not recompute whole layers."},
    {{"recompute-granularity", "full"},
     {"cuda-graph-impl", "transformer_engine"},
     "CUDA graphs do not recompute whole layers."},
    {{PEN__LINT_CHUNK_LAYERS, NULL},
     {PEN__LINT_CHUNKS, NULL},
     "Virtual stages are given once: by their number or by their layers."},
    {{PEN__LINT_LAYOUT, NULL},
     {PEN__LINT_CHUNKS, NULL},
     "The layout says how many virtual stages there are."},
    {{PEN__LINT_LAYOUT, NULL},
     {PEN__LINT_CHUNK_LAYERS, NULL},
     "The layout says how many virtual stages there are."},
    {{PEN__LINT_LAYOUT, NULL},
     {PEN__LINT_FIRST, NULL},
     "The layout says which layers the first stage has."},
    {{PEN__LINT_LAYOUT, NULL},
     {PEN__LINT_LAST, NULL},
     "The layout says which layers the last stage has."},
    {{PEN__LINT_CHUNK_LAYERS, NULL},
     {PEN__LINT_FIRST, NULL},
     "Uneven stages take the number of virtual stages, not their layers."},
    {{"train-iters", NULL},
     {"train-samples", NULL},
     "The length of a training is given in iterations or in samples."},
    {{"train-iters", NULL},
     {"rampup-batch-size", NULL},
     "A batch that grows needs a training counted in samples."},
    {{"train-iters", NULL},
     {"lr-decay-samples", NULL},
     "A training in iterations decays in iterations."},
    {{"train-iters", NULL},
     {"lr-warmup-samples", NULL},
     "A training in iterations warms up in iterations."},
    {{"train-samples", NULL},
     {"lr-decay-iters", NULL},
     "A training in samples decays in samples."},
    {{"train-samples", NULL},
     {"lr-warmup-iters", NULL},
     "A training in samples warms up in samples."},
    {{"lr-warmup-fraction", NULL},
     {"lr-warmup-iters", NULL},
     "The warm-up is given as a share or in iterations."},
    {{"swiglu", NULL},
     {"squared-relu", NULL},
     "An MLP has one activation function."},
    {{"use-torch-fsdp2", NULL},
     {"use-distributed-optimizer", NULL},
     "Both shard the state of the optimizer."},
    {{"use-torch-fsdp2", NULL},
     {"fp16", NULL},
     "PyTorch's FSDP runs in bf16 or float here."},
    {{"mock-data", NULL}, {"data-path", NULL}, "There is one source of data."},
    {{"deterministic-mode", NULL},
     {"cross-entropy-loss-fusion", NULL},
     "The fused loss is not deterministic."},
    {{"cpu-offloading-num-layers", NULL},
     {"recompute-granularity", NULL},
     "Activations are kept on the host or recomputed."},
    {{"enable-cuda-graph", NULL},
     {"external-cuda-graph", NULL},
     "Graphs are captured by one of the two."}};

static void judge_contradictions(struct pen__lint_judge *judge)
{
    const struct pen__lint_config *config = judge->config;
    for (size_t i = 0; i < sizeof contradictions / sizeof *contradictions;
         i++) {
        const struct condition *one = &contradictions[i].one;
        const struct condition *other = &contradictions[i].other;
        if (!holds(config, one) || !holds(config, other) ||
            pen__lint_is(config, other->key, "0") ||
            pen__lint_is(config, one->key, "0"))
            continue;
        pen__lint_what(judge, "%s%s%s and %s exclude each other",
                       pen__lint_name(config, one->key),
                       one->value == NULL ? "" : " ",
                       one->value == NULL ? "" : one->value,
                       pen__lint_name(config, other->key));
        pen__lint_why(judge, "%s", contradictions[i].why);
        pen__lint_todo(judge, "Delete one of them.");
        pen__lint_file(judge, &(struct pen__lint_words){
                                  .at = pen__lint_find(config, other->key),
                                  .rule = PEN_LINT_RULE_CONTRADICTION,
                                  .is_name = true});
    }
}

/* ---- what needs another option ---- */

static const struct {
    struct condition one;
    const char *needs;
    const char *or_else; /* does as well; NULL: nothing */
    const char *why;
} needs[] = {
    {{"recompute-granularity", "full"},
     "recompute-method",
     NULL,
     "Full recomputation is by block or uniform."},
    {{"recompute-granularity", "full"},
     "recompute-num-layers",
     NULL,
     "Full recomputation is of a number of layers."},
    {{"overlap-param-gather", NULL},
     "use-distributed-optimizer",
     "use-megatron-fsdp",
     "Only sharded parameters are gathered."},
    {{"overlap-param-gather", NULL},
     "overlap-grad-reduce",
     NULL,
     "Parameters are gathered in the buckets that gradients are reduced in."},
    {{"overlap-param-gather-with-optimizer-step", NULL},
     "overlap-param-gather",
     NULL,
     "It moves a gather that has to be overlapped in the first place."},
    {{"fp4-param-gather", NULL},
     "fp4-format",
     NULL,
     "Parameters are gathered in the format of the products."},
    {{"tp-comm-overlap", NULL},
     "sequence-parallel",
     NULL,
     "It overlaps the messages of sequence parallelism."},
    {{"moe-grouped-gemm", NULL},
     "bf16",
     NULL,
     "Grouped products of experts are for bf16."},
    {{"optimizer-cpu-offload", NULL},
     "use-precision-aware-optimizer",
     NULL,
     "The offloaded optimizer runs in that one's code."},
    {{"distribute-saved-activations", NULL},
     "recompute-granularity",
     NULL,
     "It parts activations that full recomputation keeps."},
    {{"save", NULL},
     "save-interval",
     NULL,
     "Checkpoints are written every N iterations."},
    {{"load-main-params-from-ckpt", NULL},
     "no-load-optim",
     NULL,
     "Master weights come from the model instead of the optimizer's state."},
    {{"use-torch-fsdp2", NULL},
     "untie-embeddings-and-output-weights",
     NULL,
     "PyTorch's FSDP does not share a weight between two modules."},
    {{"use-torch-fsdp2", NULL},
     "no-gradient-accumulation-fusion",
     NULL,
     "PyTorch's FSDP accumulates gradients itself."},
    {{"position-embedding-type", "mrope"},
     "mrope-section",
     NULL,
     "The sections say which positions a dimension stands for."},
    {{"delay-wgrad-compute", NULL},
     "overlap-moe-expert-parallel-comm",
     NULL,
     "Weight gradients are delayed to hide messages of experts."}};

static void judge_needs(struct pen__lint_judge *judge)
{
    const struct pen__lint_config *config = judge->config;
    if (config->is_open)
        return;
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        if (!holds(config, &needs[i].one) ||
            !pen__lint_is_off(config, needs[i].needs) ||
            (needs[i].or_else != NULL &&
             !pen__lint_is_off(config, needs[i].or_else)))
            continue;
        pen__lint_what(judge, "%s%s%s needs --%s",
                       pen__lint_name(config, needs[i].one.key),
                       needs[i].one.value == NULL ? "" : " ",
                       needs[i].one.value == NULL ? "" : needs[i].one.value,
                       needs[i].needs);
        pen__lint_why(judge, "%s", needs[i].why);
        pen__lint_todo(judge, "Add --%s.", needs[i].needs);
        pen__lint_file(judge,
                       &(struct pen__lint_words){
                           .at = pen__lint_find(config, needs[i].one.key),
                           .rule = PEN_LINT_RULE_NEEDS_OPTION,
                           .is_name = true});
    }
}

/* ---- sequence parallelism ---- */

/* Megatron-LM switches it off itself; the core of Megatron-Bridge stops. */
static void judge_sequence_parallel(struct pen__lint_judge *judge)
{
    const struct pen__lint_config *config = judge->config;
    uint64_t tp = pen__lint_count(config, PEN__LINT_TP, 1);
    uint64_t ep = pen__lint_count(config, PEN__LINT_EP, 1);
    bool is_on = pen__lint_is_on(config, "sequence-parallel");
    if (is_on && tp == 1) {
        bool is_line = config->dialect == PEN_LINT_MEGATRON;
        pen__lint_what(judge, "sequence parallelism without tensor "
                              "parallelism");
        pen__lint_why(judge, is_line
                                 ? "It parts sequences over tensor-parallel "
                                   "ranks; with one rank Megatron-LM switches "
                                   "it off."
                                 : "It parts sequences over tensor-parallel "
                                   "ranks; with one rank the model is not "
                                   "built.");
        pen__lint_todo(judge, "Delete it, or raise the tensor-parallel size.");
        pen__lint_file(judge,
                       &(struct pen__lint_words){
                           .at = pen__lint_find(config, "sequence-parallel"),
                           .rule = is_line ? PEN_LINT_RULE_NO_EFFECT
                                           : PEN_LINT_RULE_SEQUENCE_PARALLEL,
                           .is_name = true});
    }
    if (tp > 1 && ep > 1 && pen__lint_is_off(config, "sequence-parallel")) {
        pen__lint_what(judge, "experts with tensor parallelism need sequence "
                              "parallelism");
        pen__lint_why(judge, "Without it tensor-parallel ranks would send the "
                             "same tokens to the experts; training stops.");
        pen__lint_todo(judge, "Add --sequence-parallel.");
        pen__lint_file_at(judge, PEN_LINT_RULE_NEEDS_OPTION, PEN__LINT_EP);
    }
}

void pen__lint_megatron_needs(struct pen__lint_judge *judge)
{
    judge_contradictions(judge);
    judge_needs(judge);
    judge_sequence_parallel(judge);
}
