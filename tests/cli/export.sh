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
same files "$(cat "$work/out")" "$work/job/megatron.args"
file_has job/megatron.args "--pipeline-model-parallel-size 3"
file_has job/megatron.args '--pipeline-model-parallel-layout "Et|tt|tL"'
file_has job/megatron.args "--global-batch-size 32"
file_lacks job/megatron.args "# note"

# Without --to it is the target of the plan; for our own it is a job.
rm -r "$work/job"
run 0 export "$work/plan.json" -o "$work/job"
same files "$(cat "$work/out")" "$work/job/megatron.args"
plan "$work/own.json" '{"pp": 2}' 1f1b '{"target": "penstock"}'
run 0 export "$work/own.json" -o "$work/own"
file_has own/job.sbatch "penstock}\" train --plan"
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
out_has "$work/all/megatron@0.20.0/megatron.args"
out_has "$work/all/deepspeed@0.19.6/ds_config.json"
out_has "$work/all/nanotron@0.4/nanotron.yaml"
out_has "$work/all/sbatch/job.sbatch"
err_has "skipped torchtitan: torchtitan 0.2.2 selects these models by name"
err_has "deepspeed: DeepSpeed has no schedule zb-v: the export uses 1f1b"
for script in "$work"/all/sbatch/job.sbatch "$work"/own/job.sbatch; do
    bash -n "$script" || fail "$script is no shell script"
done
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
err_has "ep 2 does not divide 0 experts and dp x cp, 2"
run 1 export "$work/plan.json" --to megatron@1 -o "$work/no"
err_has "there is no exporter megatron@1; expected one of megatron@0.20.0, torchtitan@0.3.0"
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
