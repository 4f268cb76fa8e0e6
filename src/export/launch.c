/*
 * The start of each program: the settings that it needs in addition to the
 * plan.
 */
#include "export/job.h"

#define LEARNING                                                               \
    "LR=${LR-}               # peak learning rate, as 3e-4\n"                  \
    "STEPS=${STEPS-}         # optimizer steps\n"

#define RUN_FOLDER                                                             \
    "RUN=${RUN-run}          # folder of checkpoints, seen by all nodes\n"     \
    "SAVE_EVERY=${SAVE_EVERY-500} # steps between checkpoints\n"

#define MINUTES                                                                \
    "MINUTES=${MINUTES-470}  # then it ends with a checkpoint; less than "     \
    "--time\n"

#define HUGGING_FACE                                                           \
    "TOKENIZER=${TOKENIZER-} # folder of a Hugging Face tokenizer\n"

#define READ_OPTIONS(file)                                                     \
    "mapfile -t options < <(grep -v '^#' " file " | xargs -n 1)\n"

#define GROWING_SEGMENTS                                                       \
    "# Less memory is lost between arrays.\n"                                  \
    "export PYTORCH_ALLOC_CONF=expandable_segments:True\n"                     \
    "export PYTORCH_CUDA_ALLOC_CONF=$PYTORCH_ALLOC_CONF\n"

/* For shards of gradients and weights: one connection would serialise them. */
#define MEGATRON(environment_lines)                                            \
    {                                                                          \
        .fill =                                                                \
            "DATA=${DATA-}           # prefix of .bin and .idx files, or a "   \
            "list: 0.7 a 0.3 b\n" HUGGING_FACE LEARNING,                       \
        .names = "DATA TOKENIZER LR STEPS",                                    \
        .keep =                                                                \
            "SCRIPT=${SCRIPT-pretrain_gpt.py} # of Megatron-LM\n" RUN_FOLDER   \
                MINUTES,                                                       \
        .environment = environment_lines GROWING_SEGMENTS,                     \
        .last_step = "cat \"$RUN/latest_checkpointed_iteration.txt\"",         \
        .prepare =                                                             \
            READ_OPTIONS("megatron.args") "read -ra data <<<\"$DATA\"\n",      \
        .program =                                                             \
            "\"$SCRIPT\" \"${options[@]}\" --data-path \"${data[@]}\" \\\n"    \
            "    --tokenizer-type HuggingFaceTokenizer "                       \
            "--tokenizer-model \"$TOKENIZER\" \\\n"                            \
            "    --lr \"$LR\" --train-iters \"$STEPS\" --save \"$RUN\" "       \
            "--load \"$RUN\" \\\n"                                             \
            "    --save-interval \"$SAVE_EVERY\" "                             \
            "--exit-duration-in-mins \"$MINUTES\"",                            \
        .has_torchrun = true, .ends_early = true                               \
    }

static const struct pen__launch megatron = MEGATRON(
    "# Megatron-LM refuses to start without it when tensors or sequences are "
    "shared\n"
    "# on devices before Blackwell: messages must not overtake kernels.\n"
    "export CUDA_DEVICE_MAX_CONNECTIONS=1\n");

static const struct pen__launch megatron_overlap =
    MEGATRON("# Messages of experts need connections of their own. Before "
             "Blackwell,\n# Megatron-LM wants 1 when tensors or sequences are "
             "shared.\n"
             "export CUDA_DEVICE_MAX_CONNECTIONS=32\n");

static const struct pen__launch megatron_fsdp =
    MEGATRON("# Sharded weights need more than one connection.\n"
             "unset CUDA_DEVICE_MAX_CONNECTIONS\n");

#define TITAN_FILL                                                             \
    "DATA=${DATA-}           # name of a data set of torchtitan, as c4\n"      \
    "TOKENIZER=${TOKENIZER-} # folder of Hugging Face assets, with the "       \
    "tokenizer\n" LEARNING
#define TITAN_KEEP                                                             \
    "DATA_PATH=${DATA_PATH-} # where the data set is, if it is not downloaded" \
    "\n" RUN_FOLDER
#define TITAN_LAST                                                             \
    "find \"$RUN/checkpoint\" -maxdepth 1 -name 'step-*' | sed 's/.*step-//' " \
    "| sort -n | tail -n 1"
static const struct pen__launch titan = {
    .fill = TITAN_FILL,
    .names = "DATA TOKENIZER LR STEPS",
    .keep = TITAN_KEEP,
    .environment = GROWING_SEGMENTS
    "export LR # recipe.py reads it\n"
    "export PYTHONPATH=$PWD:${PYTHONPATH-} # recipe.py is here\n",
    .last_step = TITAN_LAST,
    .prepare = "path=()\n"
               "[ -z \"$DATA_PATH\" ] || path=(--dataloader.dataset_path "
               "\"$DATA_PATH\")\n",
    .program = "-m torchtitan.train --module recipe --config plan \\\n"
               "    --dataloader.dataset \"$DATA\" \"${path[@]}\" "
               "--hf_assets_path \"$TOKENIZER\" \\\n"
               "    --training.steps \"$STEPS\" --dump_folder \"$RUN\" \\\n"
               "    --checkpoint.enable --checkpoint.interval "
               "\"$SAVE_EVERY\"",
    .has_torchrun = true};

const struct pen__launch pen__launch_titan_022 = {
    .fill = TITAN_FILL,
    .names = "DATA TOKENIZER LR STEPS",
    .keep = TITAN_KEEP,
    .environment = GROWING_SEGMENTS,
    .last_step = TITAN_LAST,
    .prepare = "path=()\n"
               "[ -z \"$DATA_PATH\" ] || path=(--training.dataset_path "
               "\"$DATA_PATH\")\n",
    .program = "-m torchtitan.train --job.config_file torchtitan.toml \\\n"
               "    --training.dataset \"$DATA\" \"${path[@]}\" "
               "--model.hf_assets_path \"$TOKENIZER\" \\\n"
               "    --training.steps \"$STEPS\" --optimizer.lr \"$LR\" "
               "--job.dump_folder \"$RUN\" \\\n"
               "    --checkpoint.enable --checkpoint.interval "
               "\"$SAVE_EVERY\"",
    .has_torchrun = true};

static const struct pen__launch deepspeed = {
    .fill = "SCRIPT=${SCRIPT-}       # your training script: it calls "
            "pipeline.py and takes\n"
            "                        # the values below from the environment\n"
            "DATA=${DATA-}           # as the script reads it\n"
            "TOKENIZER=${TOKENIZER-} # the same\n" LEARNING,
    .names = "SCRIPT DATA TOKENIZER LR STEPS",
    .keep = RUN_FOLDER,
    .environment = "export DATA TOKENIZER LR STEPS RUN SAVE_EVERY\n"
                   "export PYTHONPATH=$PWD:${PYTHONPATH-} # pipeline.py is "
                   "here\n",
    .last_step = "grep -oE '[0-9]+$' \"$RUN/latest\"",
    .prepare = "",
    .program = "\"$SCRIPT\" --deepspeed --deepspeed_config ds_config.json",
    .has_torchrun = true};

static const struct pen__launch penstock = {
    .fill = "MODEL=${MODEL-}         # config.json, its folder, or a preset\n"
            "DATA=${DATA-}           # tokens, as `penstock tokenize` writes "
            "them\n" LEARNING,
    .names = "MODEL DATA LR STEPS",
    .keep = "PENSTOCK=${PENSTOCK-penstock}\n"
            "PLAN=${PLAN-plan.json}\n"
            "MPI=${MPI-pmix}         # of Open MPI; MPICH: pmi2\n" RUN_FOLDER
                MINUTES,
    .environment = "",
    .last_step = "find \"$RUN\" -maxdepth 1 -name 'step-*' | sed "
                 "'s/.*step-0*//' | sort -n | tail -n 1",
    .prepare = "load=()\n"
               "[ \"$before\" = 0 ] || load=(--load \"$RUN\")\n",
    .program = "\"$PENSTOCK\" train --plan \"$PLAN\" --model \"$MODEL\" "
               "--data-path \"$DATA\" \\\n"
               "    --lr \"$LR\" --train-iters \"$STEPS\" --save \"$RUN\" "
               "--save-interval \"$SAVE_EVERY\" \\\n"
               "    \"${load[@]}\" --exit-duration-in-mins \"$MINUTES\"",
    .ends_early = true};

const struct pen__launch *pen__launch_of(const struct pen_plan *plan)
{
    switch (plan->target) {
    case PEN_TARGET_MEGATRON:
        if (plan->sharding > PEN_SHARDING_ZERO1)
            return &megatron_fsdp;
        return plan->recipe.overlaps_experts ? &megatron_overlap : &megatron;
    case PEN_TARGET_TORCHTITAN:
        return &titan;
    case PEN_TARGET_DEEPSPEED:
        return &deepspeed;
    case PEN_TARGET_PENSTOCK:
    case PEN_TARGETS:
        break;
    }
    return &penstock;
}
