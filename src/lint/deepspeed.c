/* Rules of DeepSpeed's JSON, which ignores most keys that it does not know. */
#include "lint/keys.h"

#include <inttypes.h>

static const struct pen__lint_table tables[] = {
    {"",
     "train_batch_size train_micro_batch_size_per_gpu "
     "gradient_accumulation_steps optimizer scheduler communication_data_type "
     "seq_parallel_communication_data_type prescale_gradients "
     "gradient_predivide_factor sparse_gradients fp16 bf16 bfloat16 amp "
     "gradient_clipping zero_optimization zero_allow_untested_optimizer "
     "zero_force_ds_cpu_optimizer steps_per_print wall_clock_breakdown "
     "dump_state memory_breakdown disable_allgather activation_checkpointing "
     "sparse_attention aio autotuning flops_profiler tensorboard wandb comet "
     "csv_monitor monitor_config comms_logger data_efficiency "
     "curriculum_learning data_types compression_training checkpoint pipeline "
     "elasticity eigenvalue progressive_layer_drop quantize_training "
     "hybrid_engine tensor_parallel nebula weight_quantization compile timers "
     "dataloader_drop_last use_data_before_expert_parallelism "
     "graph_harvesting torch_autocast sequence_parallel_size "
     "data_parallel_size "
     "use_node_local_storage mpu moe inference vocabulary_size "
     "managed_gradient_accumulation gradient_allreduce_op expert_parallel "
     "disable_python_gc datastates_ckpt log_level comment _comment $schema"},
    {"zero_optimization.",
     "stage contiguous_gradients reduce_scatter reduce_bucket_size "
     "use_multi_rank_bucket_allreduce allgather_partitions "
     "allgather_bucket_size overlap_comm load_from_fp32_weights "
     "elastic_checkpoint offload_param offload_optimizer zenflow "
     "sub_group_size cpu_offload_param cpu_offload_use_pin_memory cpu_offload "
     "prefetch_bucket_size stage3_prefetch_bucket_size "
     "param_persistence_threshold stage3_param_persistence_threshold "
     "model_persistence_threshold stage3_model_persistence_threshold "
     "max_live_parameters stage3_max_live_parameters max_reuse_distance "
     "stage3_max_reuse_distance gather_16bit_weights_on_model_save "
     "stage3_gather_16bit_weights_on_model_save "
     "stage3_gather_fp16_weights_on_model_save module_granularity_threshold "
     "stage3_module_granularity_threshold use_all_reduce_for_fetch_params "
     "stage3_use_all_reduce_for_fetch_params ignore_unused_parameters "
     "legacy_stage1 round_robin_gradients zero_hpz_partition_size "
     "zero_quantized_weights zero_quantized_nontrainable_weights "
     "zero_quantized_gradients zeropp_loco_param mics_shard_size "
     "mics_hierarchical_params_gather memory_efficient_linear "
     "pipeline_loading_checkpoint override_module_apply "
     "log_trace_cache_warnings allreduce_always_fp32 leaf_module "
     "allgather_sequential stage3_allgather_sequential compute_grad_norm "
     "enable_sanity_checks parameter_alignment "
     "save_muon_momentum_buffer_in_memory"},
    {"fp16.", "enabled auto_cast loss_scale initial_scale_power "
              "loss_scale_window hysteresis consecutive_hysteresis "
              "min_loss_scale fp16_master_weights_and_grads"},
    {"bf16.", "enabled immediate_grad_update check_grad_overflow "
              "bf16_master_weights_and_grads bf16_optimizer_states"},
    {NULL, NULL}};

/*
 * Judges the batch: train = micro x accumulation x replicas; two of the three
 * give the other.
 */
static void judge_batch(struct pen__lint_judge *judge)
{
    const struct pen__lint_config *config = judge->config;
    uint64_t train = pen__lint_count(config, "train_batch_size", 0);
    uint64_t micro =
        pen__lint_count(config, "train_micro_batch_size_per_gpu", 0);
    uint64_t steps = pen__lint_count(config, "gradient_accumulation_steps", 0);
    uint64_t tensor = pen__lint_count(config, "tensor_parallel.autotp_size", 1);
    uint64_t stages = pen__lint_count(config, "pipeline.stages", 1);
    uint64_t replica = tensor * stages;
    uint64_t replicas = replica > 0 && config->world % replica == 0
                            ? config->world / replica
                            : 0;
    uint64_t each = (micro > 0 ? micro : 1) * (steps > 0 ? steps : 1);
    bool is_whole = micro > 0 && steps > 0 && replicas > 0;
    if (train == 0 || (micro == 0 && steps == 0))
        return;
    if (is_whole ? train == each * replicas : train % each == 0)
        return;
    if (is_whole)
        pen__lint_what(judge,
                       "train_batch_size is %" PRIu64 ", but %" PRIu64
                       " samples x %" PRIu64 " accumulations x %" PRIu64
                       " replicas are %" PRIu64,
                       train, micro, steps, replicas, each * replicas);
    else
        pen__lint_what(judge,
                       "train_batch_size %" PRIu64
                       " does not divide by %" PRIu64
                       " (micro-batch and accumulation)",
                       train, each);
    pen__lint_why(judge, "DeepSpeed stops unless the batch is micro-batch x "
                         "accumulation x replicas.");
    pen__lint_todo(judge, "Use %" PRIu64 ", or leave one of the three out.",
                   is_whole ? each * replicas : (train / each + 1) * each);
    pen__lint_file_at(judge, PEN_LINT_RULE_GLOBAL_BATCH, "train_batch_size");
}

static void judge_zero(struct pen__lint_judge *judge)
{
    const struct pen__lint_config *config = judge->config;
    const struct pen__lint_setting *stage =
        pen__lint_find(config, "zero_optimization.stage");
    uint64_t number = pen__lint_count(config, "zero_optimization.stage", 0);
    bool is_known = stage == NULL || number > 0 ||
                    pen__lint_is(config, "zero_optimization.stage", "0");
    pen__lint_judge_words(judge, "zero_optimization.stage", "0 1 2 3");
    if (!is_known)
        return;
    if (number < 3 &&
        (pen__lint_is(config, "zero_optimization.offload_param.device",
                      "cpu") ||
         pen__lint_is(config, "zero_optimization.offload_param.device",
                      "nvme"))) {
        pen__lint_what(judge, "offload_param needs stage 3");
        pen__lint_why(judge, "Only stage 3 splits the parameters, and can keep "
                             "them elsewhere.");
        pen__lint_todo(judge, "Set stage 3, or delete offload_param.");
        pen__lint_file_at(judge, PEN_LINT_RULE_NEEDS_OPTION,
                          "zero_optimization.offload_param.device");
    }
    if (number >= 2 && pen__lint_count(config, "pipeline.stages", 1) > 1) {
        pen__lint_what(judge, "ZeRO stage %" PRIu64 " with a pipeline", number);
        pen__lint_why(judge, "The pipeline sums whole gradients of "
                             "micro-batches, but stages 2 and 3 split them.");
        pen__lint_todo(judge, "Use stage 1.");
        pen__lint_file_at(judge, PEN_LINT_RULE_CONTRADICTION,
                          "zero_optimization.stage");
    }
}

void pen__lint_deepspeed(struct pen__lint_judge *judge)
{
    const struct pen__lint_config *config = judge->config;
    pen__lint_judge_keys(judge, "DeepSpeed", tables);
    pen__lint_judge_least(judge, "train_batch_size", 1);
    pen__lint_judge_least(judge, "train_micro_batch_size_per_gpu", 1);
    pen__lint_judge_least(judge, "gradient_accumulation_steps", 1);
    judge_batch(judge);
    judge_zero(judge);
    if (pen__lint_is(config, "fp16.enabled", "true") &&
        pen__lint_is(config, "bf16.enabled", "true")) {
        pen__lint_what(judge, "fp16 and bf16 are both enabled");
        pen__lint_why(judge, "Weights have one number format; DeepSpeed "
                             "stops.");
        pen__lint_todo(judge, "Disable one of them.");
        pen__lint_file_at(judge, PEN_LINT_RULE_CONTRADICTION, "bf16.enabled");
    }
}
