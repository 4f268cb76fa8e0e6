/* Rules of accelerate's YAML, which is refused with a key that is unknown. */
#include "lint/keys.h"

#include <inttypes.h>
#include <string.h>

static const struct pen__lint_table tables[] = {
    {"",
     "compute_environment distributed_type mixed_precision use_cpu debug "
     "num_processes machine_rank num_machines gpu_ids main_process_ip "
     "main_process_port rdzv_backend same_network main_training_function "
     "enable_cpu_affinity fp8_config deepspeed_config fsdp_config tp_config "
     "megatron_lm_config ipex_config mpirun_config downcast_bf16 tpu_name "
     "tpu_zone tpu_use_cluster tpu_use_sudo command_file commands tpu_vm "
     "tpu_env dynamo_config dynamo_backend fp16 parallelism_config "
     "ec2_instance_type iam_role_name image_uri profile region base_job_name "
     "pytorch_version transformers_version py_version sagemaker_inputs_file "
     "sagemaker_metrics_file additional_args"},
    {NULL, NULL}};

/* Judges a section that only its own type reads. */
static void judge_section(struct pen__lint_judge *judge, const char *section,
                          const char *type)
{
    const struct pen__lint_config *config = judge->config;
    const struct pen__lint_setting *found = NULL;
    size_t length = strlen(section);
    for (uint32_t i = 0; found == NULL && i < config->count; i++)
        if (strncmp(config->list[i].key, section, length) == 0 &&
            config->list[i].key[length] == '.')
            found = &config->list[i];
    if (found == NULL || pen__lint_find(config, "distributed_type") == NULL ||
        pen__lint_is(config, "distributed_type", type))
        return;
    pen__lint_what(judge, "%s has no effect", section);
    pen__lint_why(judge, "accelerate reads it with distributed_type: %s only.",
                  type);
    pen__lint_todo(judge, "Set distributed_type: %s, or delete the section.",
                   type);
    pen__lint_file(judge,
                   &(struct pen__lint_words){.at = found,
                                             .rule = PEN_LINT_RULE_NO_EFFECT,
                                             .is_name = true});
}

static void judge_processes(struct pen__lint_judge *judge)
{
    const struct pen__lint_config *config = judge->config;
    uint64_t processes = pen__lint_count(config, "num_processes", 0);
    uint64_t machines = pen__lint_count(config, "num_machines", 1);
    uint64_t rank = pen__lint_count(config, "machine_rank", 0);
    if (processes > 0 && machines > 1 && processes % machines != 0) {
        pen__lint_what(judge,
                       "%" PRIu64 " processes do not divide by %" PRIu64
                       " machines",
                       processes, machines);
        pen__lint_why(judge, "num_processes counts all machines, and each "
                             "starts the same number.");
        pen__lint_todo(judge, "Use %" PRIu64 ".",
                       (processes / machines + 1) * machines);
        pen__lint_file_at(judge, PEN_LINT_RULE_WORLD_SIZE, "num_processes");
    }
    if (rank > 0 && machines > 0 && rank >= machines) {
        pen__lint_what(judge,
                       "machine_rank is %" PRIu64 " of %" PRIu64 " machines",
                       rank, machines);
        pen__lint_why(judge, "Ranks of machines count from 0.");
        pen__lint_todo(judge, "Use at most %" PRIu64 ".", machines - 1);
        pen__lint_file_at(judge, PEN_LINT_RULE_BAD_VALUE, "machine_rank");
    }
}

/* Options of Megatron-LM with a prefix. */
static void judge_megatron(struct pen__lint_judge *judge)
{
    const struct pen__lint_config *config = judge->config;
    uint64_t tp =
        pen__lint_count(config, "megatron_lm_config.megatron_lm_tp_degree", 1);
    uint64_t pp =
        pen__lint_count(config, "megatron_lm_config.megatron_lm_pp_degree", 1);
    uint64_t processes = pen__lint_count(config, "num_processes", 0);
    if (tp * pp < 2 || processes == 0 || processes % (tp * pp) == 0)
        return;
    pen__lint_what(judge,
                   "%" PRIu64 " processes do not divide by %" PRIu64
                   " (tensor %" PRIu64 " x pipeline %" PRIu64 ")",
                   processes, tp * pp, tp, pp);
    pen__lint_why(judge, "The processes form whole replicas of the model.");
    pen__lint_todo(judge, "Start a multiple of %" PRIu64 ".", tp * pp);
    pen__lint_file_at(judge, PEN_LINT_RULE_WORLD_SIZE, "num_processes");
}

void pen__lint_accelerate(struct pen__lint_judge *judge)
{
    pen__lint_judge_keys(judge, "accelerate", tables);
    pen__lint_judge_words(judge, "distributed_type",
                          "NO MULTI_CPU MULTI_GPU MULTI_NPU MULTI_MLU "
                          "MULTI_SDAA MULTI_MUSA MULTI_XPU MULTI_HPU "
                          "MULTI_NEURON DEEPSPEED FSDP XLA TPU TP MEGATRON_LM "
                          "DATA_PARALLEL MODEL_PARALLEL");
    pen__lint_judge_words(judge, "mixed_precision", "no fp16 bf16 fp8");
    pen__lint_judge_words(judge, "deepspeed_config.zero_stage", "0 1 2 3");
    pen__lint_judge_least(judge, "num_machines", 1);
    judge_section(judge, "fsdp_config", "FSDP");
    judge_section(judge, "deepspeed_config", "DEEPSPEED");
    judge_section(judge, "megatron_lm_config", "MEGATRON_LM");
    judge_processes(judge);
    judge_megatron(judge);
}
