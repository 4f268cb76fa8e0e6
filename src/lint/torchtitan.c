/* Rules of torchtitan's TOML and of its options. */
#include "lint/keys.h"

#include <inttypes.h>
#include <string.h>

#define P "parallelism."

static const struct pen__lint_table tables[] = {
    {"training.",
     "dataset dataset_path local_batch_size global_batch_size seq_len max_norm "
     "steps enable_cpu_offload mixed_precision_param mixed_precision_reduce "
     "compile gc_freq gc_debug seed deterministic dtype batch_size "
     "debug_moe_force_load_balance disable_cuda_graphs dataloader "
     "data_parallel_replicate_degree data_parallel_shard_degree "
     "tensor_parallel_degree deterministic_warn_only"},
    {"parallelism.",
     "data_parallel_replicate_degree data_parallel_shard_degree "
     "enable_compiled_autograd fsdp_reshard_after_forward "
     "tensor_parallel_degree disable_loss_parallel "
     "enable_async_tensor_parallel "
     "pipeline_parallel_degree pipeline_parallel_split_points "
     "pipeline_parallel_layers_per_stage pipeline_parallel_schedule "
     "pipeline_parallel_schedule_csv pipeline_parallel_microbatch_size "
     "pipeline_parallel_first_stage_less_layers "
     "pipeline_parallel_last_stage_less_layers "
     "pipeline_parallel_expert_parallel_overlap "
     "context_parallel_degree context_parallel_rotate_method "
     "context_parallel_load_balancer expert_parallel_degree "
     "expert_tensor_parallel_degree expert_parallel_comm_backend "
     "module_fqns_per_model_part spmd_backend enable_sequence_parallel"},
    {"activation_checkpoint.",
     "mode selective_ac_option per_op_sac_force_recompute_mm_shapes_by_fqns "
     "early_stop memory_budget visualize_memory_budget_pareto "
     "preserve_rng_state "
     "determinism_check debug"},
    {NULL, NULL}};

static uint64_t degree(const struct pen__lint_judge *judge, const char *key)
{
    return pen__lint_count(judge->config, key, 1);
}

/* Replicas of the batch: replicate x shard; 0 where a rest is not known. */
static uint64_t find_replicas(struct pen__lint_judge *judge)
{
    const struct pen__lint_config *config = judge->config;
    uint64_t model = degree(judge, P "tensor_parallel_degree") *
                     degree(judge, P "pipeline_parallel_degree") *
                     degree(judge, P "context_parallel_degree");
    uint64_t replicate = degree(judge, P "data_parallel_replicate_degree");
    uint64_t shard = pen__lint_count(config, P "data_parallel_shard_degree", 0);
    uint64_t all = model * replicate * (shard > 0 ? shard : 1);
    bool is_rest =
        pen__lint_find(config, P "data_parallel_shard_degree") == NULL ||
        pen__lint_is(config, P "data_parallel_shard_degree", "-1");
    if (all == 0 || (shard == 0 && !is_rest))
        return 0;
    if (config->world > 0 &&
        (shard > 0 ? config->world != all : config->world % all != 0)) {
        pen__lint_what(judge,
                       "%" PRIu64 " ranks are not the product of the degrees, "
                       "%" PRIu64,
                       config->world, all);
        pen__lint_why(judge, "torchtitan starts only where the product of "
                             "the degrees is the number of ranks.");
        pen__lint_todo(judge,
                       "Set data_parallel_shard_degree = -1, or start "
                       "%" PRIu64 " ranks.",
                       all);
        pen__lint_file_at(judge, PEN_LINT_RULE_WORLD_SIZE,
                          shard > 0 ? P "data_parallel_shard_degree"
                                    : P "tensor_parallel_degree");
        return 0;
    }
    return shard > 0 ? replicate * shard : config->world / model;
}

static void judge_batch(struct pen__lint_judge *judge, uint64_t replicas)
{
    const struct pen__lint_config *config = judge->config;
    uint64_t global = pen__lint_count(config, "training.global_batch_size", 0);
    uint64_t local = pen__lint_count(config, "training.local_batch_size", 8);
    uint64_t each = local * replicas;
    if (global == 0 || each == 0 || global % each == 0)
        return;
    pen__lint_what(judge,
                   "a global batch of %" PRIu64 " does not divide by %" PRIu64
                   " (local batch %" PRIu64 " x %" PRIu64 " replicas)",
                   global, each, local, replicas);
    pen__lint_why(judge, "The quotient is the number of accumulations, a whole "
                         "one.");
    pen__lint_todo(judge, "Use %" PRIu64 ".", (global / each + 1) * each);
    pen__lint_file_at(judge, PEN_LINT_RULE_GLOBAL_BATCH,
                      "training.global_batch_size");
}

static void judge_sequence(struct pen__lint_judge *judge)
{
    uint64_t sequence =
        pen__lint_count(judge->config, "training.seq_len", 2048);
    uint64_t cp = degree(judge, P "context_parallel_degree");
    uint64_t parts =
        degree(judge, P "tensor_parallel_degree") * (cp > 1 ? 2 * cp : cp);
    if (sequence == 0 || parts == 0 || sequence % parts == 0)
        return;
    pen__lint_what(judge,
                   "a sequence of %" PRIu64 " does not divide by %" PRIu64,
                   sequence, parts);
    pen__lint_why(judge, "Tensor-parallel ranks share a sequence out, and "
                         "context-parallel ones take two pieces each.");
    pen__lint_todo(judge, "Use %" PRIu64 ".", (sequence / parts + 1) * parts);
    pen__lint_file_at(judge, PEN_LINT_RULE_SEQUENCE, "training.seq_len");
}

static void judge_pipeline(struct pen__lint_judge *judge)
{
    const struct pen__lint_config *config = judge->config;
    uint64_t pp = degree(judge, P "pipeline_parallel_degree");
    uint64_t local = pen__lint_count(config, "training.local_batch_size", 8);
    uint64_t micro =
        pen__lint_count(config, P "pipeline_parallel_microbatch_size", 1);
    pen__lint_judge_words(judge, P "pipeline_parallel_schedule",
                          "1F1B GPipe Interleaved1F1B LoopedBFS "
                          "InterleavedZeroBubble ZBVZeroBubble DualPipeV "
                          "PipelineScheduleSingle PipelineScheduleMulti "
                          "_PipelineScheduleRuntime");
    if (pp < 2 || local == 0 || micro == 0 || local % micro == 0)
        return;
    pen__lint_what(judge,
                   "a local batch of %" PRIu64
                   " does not divide by micro-batches of %" PRIu64,
                   local, micro);
    pen__lint_why(judge, "The pipeline takes whole micro-batches.");
    pen__lint_todo(judge, "Use micro-batches of %" PRIu64 ".",
                   pen__lint_divisor(local, micro));
    pen__lint_file_at(judge, PEN_LINT_RULE_MICROBATCHES,
                      P "pipeline_parallel_microbatch_size");
}

/* Heads of the flavors that are published; keys and values have 8. */
static void judge_heads(struct pen__lint_judge *judge)
{
    const struct pen__lint_config *config = judge->config;
    uint64_t tp = degree(judge, P "tensor_parallel_degree");
    bool is_llama = pen__lint_is(config, "model.name", "llama3") &&
                    (pen__lint_is(config, "model.flavor", "8B") ||
                     pen__lint_is(config, "model.flavor", "70B") ||
                     pen__lint_is(config, "model.flavor", "405B"));
    if (!is_llama || tp < 2 || 8 % tp == 0)
        return;
    pen__lint_what(judge,
                   "tensor parallelism of %" PRIu64
                   " does not divide 8 heads of keys and values",
                   tp);
    pen__lint_why(judge, "Every rank computes whole heads of Llama 3.");
    pen__lint_todo(judge, "Use %" PRIu64 ".", pen__lint_divisor(8, 8));
    pen__lint_file_at(judge, PEN_LINT_RULE_HEADS, P "tensor_parallel_degree");
}

void pen__lint_torchtitan(struct pen__lint_judge *judge)
{
    static const char *const degrees[] = {P "data_parallel_replicate_degree",
                                          P "tensor_parallel_degree",
                                          P "pipeline_parallel_degree",
                                          P "context_parallel_degree",
                                          P "expert_parallel_degree",
                                          "training.local_batch_size",
                                          "training.seq_len"};
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
        pen__lint_judge_least(judge, degrees[i], 1);
    pen__lint_judge_keys(judge, "torchtitan", tables);
    pen__lint_judge_words(judge, "activation_checkpoint.mode",
                          "selective full none memory_budget");
    judge_batch(judge, find_replicas(judge));
    judge_sequence(judge);
    judge_pipeline(judge);
    judge_heads(judge);
}
