/* Rules of nanotron's YAML. */
#include "lint/keys.h"

#include <inttypes.h>

#define MODEL "model.model_config."
#define ACCUMULATION "tokens.batch_accumulation_per_replica"

static const struct pen__lint_table tables[] = {
    {"", "general parallelism model tokenizer checkpoints logging tokens "
         "optimizer data_stages profiler lighteval s3_upload metrics_logging"},
    {"parallelism.",
     "dp pp tp expert_parallel_size pp_engine tp_mode "
     "tp_linear_async_communication tp_recompute_allgather "
     "recompute_granularity recompute_layer context_parallel_size cp ep "
     "moe_layer_recompute enabled_moe expert_tensor_parallel_size "
     "expert_data_parallel_size"},
    {"tokens.", "sequence_length train_steps micro_batch_size "
                "batch_accumulation_per_replica val_check_interval "
                "limit_val_batches limit_test_batches"},
    {"optimizer.", "optimizer_factory zero_stage weight_decay clip_grad "
                   "accumulate_grad_in_fp32 learning_rate_scheduler "
                   "weight_decay_exclude_named_params"},
    {NULL, NULL}};

static void judge_world(struct pen__lint_judge *judge)
{
    const struct pen__lint_config *config = judge->config;
    uint64_t all =
        pen__lint_count(config, "parallelism.dp", 0) *
        pen__lint_count(config, "parallelism.pp", 0) *
        pen__lint_count(config, "parallelism.tp", 0) *
        pen__lint_count(config, "parallelism.context_parallel_size", 1);
    if (config->world == 0 || all == 0 || config->world == all ||
        pen__lint_find(config, "parallelism.expert_parallel_size") != NULL)
        return;
    pen__lint_what(judge, "%" PRIu64 " ranks are not dp x pp x tp, %" PRIu64,
                   config->world, all);
    pen__lint_why(judge, "nanotron starts one rank for each place.");
    pen__lint_todo(judge, "Start %" PRIu64 " ranks, or change dp.", all);
    pen__lint_file_at(judge, PEN_LINT_RULE_WORLD_SIZE, "parallelism.dp");
}

static bool judge_heads(struct pen__lint_judge *judge, const char *key)
{
    const struct pen__lint_config *config = judge->config;
    uint64_t tp = pen__lint_count(config, "parallelism.tp", 1);
    uint64_t heads = pen__lint_count(config, key, 0);
    if (tp < 2 || heads == 0 || heads % tp == 0)
        return false;
    pen__lint_what(judge, "tp %" PRIu64 " does not divide %s, %" PRIu64, tp,
                   key + sizeof MODEL - 1, heads);
    pen__lint_why(judge, "Every tensor-parallel rank computes the same number "
                         "of whole heads.");
    pen__lint_todo(judge, "Use tp %" PRIu64 ".",
                   pen__lint_divisor(heads, tp < heads ? tp : heads));
    pen__lint_file_at(
        judge, tp > heads ? PEN_LINT_RULE_TENSOR_SIZE : PEN_LINT_RULE_HEADS,
        "parallelism.tp");
    return true;
}

static void judge_stages(struct pen__lint_judge *judge)
{
    const struct pen__lint_config *config = judge->config;
    uint64_t pp = pen__lint_count(config, "parallelism.pp", 1);
    uint64_t layers = pen__lint_count(config, MODEL "num_hidden_layers", 0);
    uint64_t steps = pen__lint_count(config, ACCUMULATION, 0);
    if (pp > 1 && layers > 0 && layers < pp) {
        pen__lint_what(judge,
                       "%" PRIu64 " layers are fewer than %" PRIu64 " stages",
                       layers, pp);
        pen__lint_why(judge, "A stage without a layer cannot be built.");
        pen__lint_todo(judge, "Use pp %" PRIu64 " or less.", layers);
        pen__lint_file_at(judge, PEN_LINT_RULE_PIPELINE_LAYERS,
                          "parallelism.pp");
    }
    if (pp > 1 && steps > 0 && steps + 1 < pp) {
        pen__lint_what(judge,
                       "%" PRIu64 " micro-batches are too few for %" PRIu64
                       " stages",
                       steps, pp);
        pen__lint_why(judge, "The pipeline needs at least one micro-batch "
                             "less than it has stages.");
        pen__lint_todo(judge, "Use %" PRIu64 " or more.", pp);
        pen__lint_file_at(judge, PEN_LINT_RULE_MICROBATCHES, ACCUMULATION);
    }
}

void pen__lint_nanotron(struct pen__lint_judge *judge)
{
    static const char *const sizes[] = {
        "parallelism.dp",          "parallelism.pp",         "parallelism.tp",
        "tokens.micro_batch_size", "tokens.sequence_length", ACCUMULATION};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        pen__lint_judge_least(judge, sizes[i], 1);
    pen__lint_judge_keys(judge, "nanotron", tables);
    pen__lint_judge_words(judge, "parallelism.pp_engine", "1f1b afab");
    pen__lint_judge_words(judge, "parallelism.tp_mode",
                          "ALL_REDUCE REDUCE_SCATTER all_reduce "
                          "reduce_scatter");
    pen__lint_judge_words(judge, "optimizer.zero_stage", "0 1");
    judge_world(judge);
    if (!judge_heads(judge, MODEL "num_attention_heads"))
        judge_heads(judge, MODEL "num_key_value_heads");
    judge_stages(judge);
}
