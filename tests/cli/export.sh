#!/usr/bin/env bash
# export writes the files of each target into a folder, names them, warns of
# what it changed, and refuses in one line what has no near plan.
. "$(dirname "$0")/support.bash"

# plan FILE DEGREES SCHEDULE MORE: of a Llama with four blocks, in six layers.
plan() {
    python3 - "$@" <<'END'
import hashlib, json, sys
path, degrees, schedule, more = sys.argv[1:5]
config = """{
  "architectures": ["LlamaForCausalLM"],
  "model_type": "llama",
  "torch_dtype": "bfloat16",
  "vocab_size": 1000,
  "tie_word_embeddings": false,
  "hidden_size": 256,
  "num_hidden_layers": 4,
  "num_attention_heads": 8,
  "num_key_value_heads": 4,
  "head_dim": 32,
  "intermediate_size": 512,
  "max_position_embeddings": 4096,
  "hidden_act": "silu",
  "rms_norm_eps": 1e-05,
  "mlp_bias": false,
  "attention_bias": false,
  "rope_theta": 10000.0
}
"""
d = dict(dp=1, tp=1, pp=1, vpp=1, cp=1, ep=1, **{})
d.update(json.loads(degrees))
stages = d["pp"] * d["vpp"]
cuts = [round(6 * i / stages) for i in range(stages + 1)]
plan = {"format": "penstock-plan", "version": 1,
        "model": {"name": "tiny", "sha256": hashlib.sha256(config.encode()).hexdigest(),
                  "config": json.loads(config)},
        "target": "megatron", "workload": {"sequence": 1024, "dtype": "bf16"},
        "degrees": d, "micro_batch": 2, "microbatches": 8,
        "stages": [{"first": a, "count": b - a, "recompute": "none"}
                   for a, b in zip(cuts, cuts[1:])],
        "schedule": {"name": schedule}, "sharding": "zero1",
        "sequence_parallel": False, "logical_replicas": d["dp"], "seed": 1}
plan.update(json.loads(more))
json.dump(plan, open(path, "w"))
END
}

file_has() { grep -qF -- "$2" "$work/$1" || fail "$1 lacks '$2'"; }
file_lacks() { ! grep -qF -- "$2" "$work/$1" || fail "$1 has '$2'"; }

plan "$work/plan.json" '{"pp": 3, "dp": 2}' 1f1b '{}'
run 0 export "$work/plan.json" --to megatron -o "$work/job"
err_empty
same files "$(cat "$work/out")" "$(printf '%s\n' "$work"/job/{megatron.args,settings.sh,job.sbatch})"
file_has job/megatron.args "--pipeline-model-parallel-size 3"
file_has job/megatron.args '--pipeline-model-parallel-layout "Et|tt|tL"'
file_has job/megatron.args "--global-batch-size 32"
file_lacks job/megatron.args "# note"

# Without --to it is the target of the plan; for our own it is a job.
rm -r "$work/job"
run 0 export "$work/plan.json" -o "$work/job"
out_has "$work/job/megatron.args"
plan "$work/own.json" '{"pp": 2}' 1f1b '{"target": "penstock"}'
run 0 export "$work/own.json" -o "$work/own"
file_has own/job.sbatch "\"\$PENSTOCK\" train --plan"
err_has "sbatch: the plan does not have the number of devices per node"

# What cannot be said is noted, on stderr and in the file.
plan "$work/zb.json" '{"pp": 3, "vpp": 2}' zb-v '{"microbatches": 9}'
run 0 export "$work/zb.json" --to megatron -o "$work/zb"
err_has "megatron: Megatron-LM has no schedule zb-v: the export uses interleaved"
file_has zb/megatron.args "# note: Megatron-LM has no schedule zb-v"
run 0 export "$work/zb.json" --to torchtitan -o "$work/zb"
err_lacks "schedule"
file_has zb/torchtitan.args "--parallelism.pipeline_parallel_schedule ZBVZeroBubble"
file_has zb/recipe.py "def plan():"

# What is written instead has a prediction of its own.
file_lacks zb/megatron.args "# predicted"
run 0 export "$work/zb.json" --to megatron -o "$work/zb" --cluster "preset:h100-sxm*3"
err_has "megatron: "
err_has "GiB, which fits"
file_has zb/megatron.args "# predicted: "
run 1 export "$work/zb.json" --to megatron -o "$work/zb" --cluster "preset:none"
err_has "preset"

# A schedule that PyTorch does not make itself comes as rows.
plan "$work/half.json" '{"pp": 3, "vpp": 2}' v-half '{"sharding": "zero3"}'
run 0 export "$work/half.json" --to torchtitan@0.3.0 -o "$work/half"
err_empty
out_has "$work/half/schedule.csv"
run 0 schedule check "$work/half/schedule.csv"

# Everything that can say it, each in a folder of its own.
run 0 export "$work/zb.json" --to all -o "$work/all"
out_has "$work/all/megatron@0.16.1/megatron.args"
out_has "$work/all/deepspeed@0.19.6/ds_config.json"
out_has "$work/all/nanotron@0.4/nanotron.yaml"
out_has "$work/all/sbatch/job.sbatch"
err_has "skipped torchtitan: torchtitan 0.2.2 selects these models by name"
err_has "deepspeed: DeepSpeed has no schedule zb-v: the export uses 1f1b"
for script in "$work"/all/*/{job.sbatch,settings.sh} "$work"/own/{job.sbatch,settings.sh}; do
    case $script in *nanotron*) continue ;; esac
    bash -n "$script" || fail "$script is no shell script"
done

# A plan without a seed has no warning of one; a seed of 64 bits has.
plan "$work/seed.json" '{"pp": 2}' 1f1b '{"seed": 0}'
run 0 export "$work/seed.json" --to megatron -o "$work/seed"
err_empty
file_has seed/megatron.args "--seed 1"
plan "$work/seed.json" '{"pp": 2}' 1f1b '{"seed": 4294967299}'
run 0 export "$work/seed.json" --to megatron -o "$work/seed"
err_has "32-bit seeds above 0"

# What Megatron-LM asks of the environment: one connection, unless weights are sharded.
file_has job/settings.sh "export CUDA_DEVICE_MAX_CONNECTIONS=1"
plan "$work/fsdp.json" '{"dp": 4}' 1f1b '{"sharding": "zero3"}'
run 0 export "$work/fsdp.json" --to megatron -o "$work/fsdp"
file_has fsdp/settings.sh "unset CUDA_DEVICE_MAX_CONNECTIONS"

# The job, with stand-ins for Slurm: srun notes its words and ends as $work/code says.
mkdir "$work/bin"
cat >"$work/bin/srun" <<'END'
#!/usr/bin/env bash
printf '%s\n' "$@" >"$STANDIN/words"
echo "${CUDA_DEVICE_MAX_CONNECTIONS-unset}" >"$STANDIN/connections"
[ -z "${SAVED-}" ] || { mkdir -p run && echo "$SAVED" >run/latest_checkpointed_iteration.txt; }
exit "$(cat "$STANDIN/code")"
END
printf '#!/bin/sh\ncase $1 in show) echo n1 ;; requeue) echo "$2" >"$STANDIN/requeued" ;; esac\n' >"$work/bin/scontrol"
printf '#!/bin/sh\necho RUNNING\n' >"$work/bin/squeue"
chmod +x "$work"/bin/*
job() { # CODE FOLDER VARIABLE=VALUE...
    local expected=$1 folder=$2 code=0
    shift 2
    line="job.sbatch of $folder with $*"
    rm -f "$work/requeued" "$work/words"
    (cd "$work/$folder" && env PATH="$work/bin:$PATH" STANDIN="$work" SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n1 \
        SLURM_CPUS_ON_NODE=16 "$@" bash job.sbatch) >"$work/out" 2>"$work/err" || code=$?
    [ "$code" = "$expected" ] || fail "exit code $code, expected $expected"
}
filled=(DATA="0.7 a 0.3 b" TOKENIZER=tok LR=3e-4 STEPS=1000)
echo 0 >"$work/code"
job 2 job DATA=x TOKENIZER=y STEPS=5
err_has "settings.sh: fill in LR"
job 0 job "${filled[@]}" SAVED=1000
same "connections" "$(cat "$work/connections")" 1
for words in '--nproc-per-node 6' '--cpus-per-task=16' '--pipeline-model-parallel-layout Et|tt|tL' '--data-path 0.7 a 0.3 b' \
    '--tokenizer-model tok' '--lr 3e-4' '--train-iters 1000' '--load run' '--exit-duration-in-mins 470'; do
    tr '\n' ' ' <"$work/words" | grep -qF -- "$words " || fail "srun did not get $words"
done
[ ! -e "$work/requeued" ] || fail "a finished training was queued again"
rm -r "$work/job/run"
job 0 job "${filled[@]}" SAVED=500
same "ended early" "$(cat "$work/requeued")" 7
err_has "exit code 0 at step 500 of 1000; queued again"
echo 1 >"$work/code"
job 0 job "${filled[@]}" SAVED=600
same "failed after a checkpoint" "$(cat "$work/requeued")" 7
job 1 job "${filled[@]}"
err_has "exit code 1 at step 600 of 1000; not queued again"
[ ! -e "$work/requeued" ] || fail "a job without progress was queued again"
job 1 job "${filled[@]}" SAVED=700 SLURM_RESTART_COUNT=20
[ ! -e "$work/requeued" ] || fail "the job has no end"
echo 0 >"$work/code"
job 0 fsdp "${filled[@]}" SAVED=1000 CUDA_DEVICE_MAX_CONNECTIONS=1
same "connections" "$(cat "$work/connections")" unset
for folder in all/torchtitan@0.3.0 all/deepspeed@0.19.6; do
    job 0 "$folder" "${filled[@]}" SCRIPT=train.py
    grep -qxF -- --nproc-per-node "$work/words" || fail "$folder does not start torchrun"
done
mv "$work/seed/settings.sh" "$work/seed/elsewhere"
job 2 seed "${filled[@]}"
err_has "submit in the folder of job.sbatch"
for script in "$work"/all/*/*.py; do
    python3 -m py_compile "$script" || fail "$script is no Python"
done

# The same folder again is fine; a plan without its model needs one.
run 0 export "$work/zb.json" --to all -o "$work/all"
python3 -c 'import json, sys
plan = json.load(open(sys.argv[1]))
json.dump(plan["model"].pop("config"), open(sys.argv[2] + "/config.json", "w"))
json.dump(plan, open(sys.argv[2] + "/bare.json", "w"))' "$work/plan.json" "$work"
run 1 export "$work/bare.json" -o "$work/bare"
err_has "bare.json does not contain its model; give --model"
run 0 export "$work/bare.json" --model "$work/config.json" -o "$work/bare"
out_has "$work/bare/megatron.args"

plan "$work/cp.json" '{"pp": 2, "cp": 2}' 1f1b '{}'
run 1 export "$work/cp.json" --to deepspeed -o "$work/no"
err_has "DeepSpeed splits sequences neither in a pipeline nor with tensor parallelism"
plan "$work/tp.json" '{"tp": 8}' 1f1b '{}'
run 1 export "$work/tp.json" --to megatron -o "$work/no"
err_has "tp 8 does not divide 4 heads of keys and values"
plan "$work/ep.json" '{"ep": 2, "dp": 2}' 1f1b '{}'
run 1 export "$work/ep.json" --to megatron -o "$work/no"
err_has "ep 2: the model has no experts; plan with ep 1"
run 1 export "$work/plan.json" --to megatron@1 -o "$work/no"
err_has "there is no exporter megatron@1; expected one of megatron@0.16.1, megatron@2026.08, torchtitan@0.3.0"
run 1 export "$work/none.json" -o "$work/no"
err_has "cannot open $work/none.json"
run 1 export "$work/plan.json" -o "$work/plan.json/below"
err_has "cannot make $work/plan.json/below"
run 2 export "$work/plan.json"
err_has "expected PLAN and -o DIR"
run 0 export --help
out_has "Usage: penstock export"
run 0 help export
out_has "--to=NAME"
finish
