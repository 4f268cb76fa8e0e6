#!/usr/bin/env bash
# Figures for people: groups of digits, speed of a device, utilisation with the
# name of its peak, days and device-hours; what is missing where nothing fits;
# words and sizes as people type them; and one number for one thing.
. "$(dirname "$0")/support.bash"
may_mix_builds=yes

# ---- figures of a plan
eight=(llama-3.1-8b 64xh100 --seq-length 8k --global-batch-size 512)
run 0 plan "${eight[@]}" --top 3 --tokens 15T
out_has "8.03 billion parameters"
out_has "a batch of 512 x 8,192 tokens"
out_lacks "e+"
out_lacks "use, %"
about "tokens/s with groups of digits"
grep -qE '^ *1 .* [0-9]{3},[0-9]{3} ' "$work/out" || fail "no such figure"
out_has "MFU: model-flops utilisation, the share of the bf16 peak (989 Tflop/s a device)"
out_has "GiB: memory of the"
out_has "dp: replicas. batch:"
out_has "% of the bf16 peak (989 Tflop/s)"
cp "$work/out" "$work/text"
run 0 plan "${eight[@]}" --top 3 --tokens 15T --json
figures=$(json '"{:,.0f} tokens/s; {:,.0f} tokens/s/device, {:,.0f} Tflop/s/device, a model-flops utilisation of {:.1f} %".format(
    d["plans"][0]["tokens_per_sec"], d["plans"][0]["tokens_per_sec_per_device"],
    d["plans"][0]["flops_per_sec_per_device"] / 1e12, 100 * d["plans"][0]["utilisation"])')
about "figures of the text and of JSON"
grep -qF "$figures" "$work/text" || fail "the text lacks '$figures'"
same "speed of a device" "$(json '[abs(p["tokens_per_sec_per_device"] * p["devices"] / p["tokens_per_sec"] - 1) < 1e-9 and
    abs(p["flops_per_sec_per_device"] / p["peak_flops_per_device"] / p["utilisation"] - 1) < 1e-9 for p in d["plans"]]')" \
    "[True, True, True]"
# 8.03e9 parameters, 6 flops each, and attention on top: not less, not twice.
same "flops of a token" "$(json '6 < d["plans"][0]["flops_per_sec_per_device"] /
    d["plans"][0]["tokens_per_sec_per_device"] / 8.03e9 < 8')" True
same "days and device-hours" "$(json '(lambda p, r: (r["tokens"], abs(r["days"] * 86400 * p["tokens_per_sec"] / 15e12 - 1) < 1e-9,
    abs(r["device_hours"] / (r["days"] * 24 * 64) - 1) < 1e-9))(d["plans"][0], d["run"])')" "(15000000000000.0, True, True)"
run_words=$(json '"15 trillion tokens: {:,.0f} days, {:,.0f} device-hours".format(d["run"]["days"], d["run"]["device_hours"])')
about "days and device-hours of the text"
grep -qF "$run_words" "$work/text" || fail "the text lacks '$run_words'"
run 0 plan "${eight[@]}" --top 1 --json
same "not asked" "$(json '"run" in d')" False

# The peak is that of the numbers: of fp8 it is another one, and has its name.
run 0 plan "${eight[@]}" --top 1 --dtype fp8
out_has "the share of the fp8 peak (1979 Tflop/s a device)"
out_has "% of the fp8 peak (1,979 Tflop/s)"
run 0 predict "${eight[@]}" --tp 2 --dtype fp8 --tokens 1B --json
same "peak" "$(json 'd["peak_of"], d["peak_flops_per_device"], "run" in d')" "('fp8', 1979000000000000.0, True)"

# ---- nothing fits: the sum, and devices for which the search does find a plan
short() { # WORDS...
    run 1 plan "$@"
    out_empty
    err_has "no layout fits: the leanest, "
    python3 - "$work/err" <<'PYTHON' || fail "the sum does not come out"
import re, sys
text = open(sys.argv[1]).read()
a, p, b, c = map(float, re.search(r"needs ([\d.]+) GiB \+ (\d+) % = ([\d.]+) GiB > ([\d.]+) GiB of a device", text).groups())
sys.exit(not (abs(a * (1 + p / 100) - b) < 0.11 and b > c))
PYTHON
    enough=$(grep -oE '[0-9]+ devices would fit' "$work/err" | grep -oE '^[0-9]+')
}
short llama-3.1-70b 8xh100
err_has "GiB > 79.6 GiB of a device"
err_has "; with --optimizer-cpu-offload a plan fits here, with "
run 0 plan llama-3.1-70b 8xh100 --optimizer-cpu-offload --top 1 -o "$work/offload.json"
run 0 export "$work/offload.json" --to megatron -o "$work/offload"
grep -qxF -- "--optimizer-cpu-offload" "$work/offload/megatron.args" || fail "the export does not offload"
short llama-3.1-70b 8xh100
about "devices that would fit"
[ -n "$enough" ] || fail "no number of devices"
run 0 plan llama-3.1-70b "${enough:-8}xh100" --top 1
run 1 plan llama-3.1-70b "$((${enough:-16} - 8))xh100" --top 1
short llama-3.1-8b 1xh100
run 0 plan llama-3.1-8b "${enough:-1}xh100" --top 1
run 1 plan llama-3.1-8b "$((${enough:-2} - 1))xh100" --top 1
short gpt2-xl 16xa100-40 --memory-limit 3GiB
err_has "> 3.0 GiB of a device; none fits on up to 1024 devices, either"
# The leanest layout is the one that is named: predict has the same bytes.
run 1 plan llama-3.1-8b 1xh100
needed=$(grep -oE 'needs [0-9.]+' "$work/err")
run 1 predict llama-3.1-8b 1xh100 --recompute-granularity full
out_has "which does not fit: ${needed#needs } GiB + 5 % ="

# ---- sizes and words
for words in 8k 8K 8Ki 8192; do
    run 0 predict gpt2 8xh100 --seq-length 1k --global-batch-size "$words" --json
    same "a batch of $words" "$(json 'd["num_microbatches"] * d["degrees"]["dp"]')" 8192
done
run 0 predict gpt2 8xh100 --seq-length 1k --global-batch-size 1Mi --tokens 2k --json
same "1Mi and 2k" "$(json 'd["num_microbatches"] * 8, d["run"]["tokens"]')" "(1048576, 2000.0)"
for wrong in 8q 8kB k 8.0001k -1k 8kk; do
    run 2 predict gpt2 8xh100 --seq-length "$wrong"
    err_has "--seq-length must be a whole number"
done
run 2 predict gpt2 8xh100 more
err_has "unexpected argument 'more'"
for kind in h800 h20 b300 h200 a100; do
    run 0 predict llama-3.1-8b "8x$kind" --tp 2 --json
done
# H800: an H100 with slower links, which tensor parallelism pays for.
run 0 predict llama-3.1-8b 8xh100 --tp 8 --json
fast=$(json 'd["step_sec"]')
run 0 predict llama-3.1-8b 8xh800 --tp 8 --json
same "h800 is slower" "$(json "d['step_sec'] > 1.02 * $fast and d['peak_flops_per_device'] == 989e12")" True
run 0 plan vgg-16 8xh100 --global-batch-size 256 --top 1
out_has "samples/s"

# ---- models
run 0 models
err_empty
out_has "llama-3.1-70b "
out_has "70.55 billion"
out_has "cluster list"
names=$(awk 'NF == 0 { exit } NR > 2 { print $1 }' "$work/out")
run 0 models --json
same "names of --json" "$names" "$(json '"\n".join(x["model"] for x in d["models"])')"
same "one of them" "$(json '[(x["parameters"], x["layers"], x["positions"], x["trained"]) for x in d["models"]
    if x["model"] == "llama-3.1-70b"]')" "[(70553706496, 80, 131072, True)]"
same "experts" "$(json '[x["active_parameters"] < x["parameters"] / 10 for x in d["models"]
    if x["model"] == "deepseek-v3"]')" "[True]"
run 1 plan llama-70b 64xh100
err_has "penstock models"
run 2 models more
err_has "unexpected argument 'more'"

# ---- one number for one thing
# What the all-reduce takes on the link is what the plan's own prediction has:
# seconds that are waited for and seconds that overlap.
run 0 plan llama-3.1-8b 64xh100 --top 1 --allow-local --json
same "link and stall" "$(json '[x["stall_sec"] <= x["sync_sec"] * 1.001 and x["sync_sec"] < 3 * max(x["stall_sec"], 0.1)
    for x in d["sync"]["methods"] if x["verdict"] == "reference"]')" "[True]"
run 0 plan llama-3.1-8b 64xh100 --top 1 --allow-local
out_has "on the link, computing takes"
out_has "of the step, would be waiting"
about "seconds of the advice"
python3 - "$work/out" <<'PYTHON' || fail "link is not overlap and stall"
import re, sys
unit = {"us": 1e-6, "ms": 1e-3, "s": 1}
text = re.search(r"allreduce takes (.*) would be waiting", open(sys.argv[1]).read()).group(1)
seconds = [float(a) * unit[b] for a, b in re.findall(r"([\d.]+) (us|ms|s)\b", text)]
link, compute, *hidden, stall = seconds
sys.exit(abs(link - sum(hidden) - stall) > 0.02 * link)
PYTHON

# A schedule that the target does not run: with a way out that is open.
way_out() { # WORDS...
    run 1 predict "$@"
    read -r -a words <<<"$(grep -oE -- '--target [a-z]+( --schedule [a-z0-9-]+)? does' "$work/err" | sed 's/ does$//')"
    [ "${#words[@]}" -gt 0 ] || fail "no way out"
    "$PENSTOCK" predict "$@" "${words[@]}" >"$work/out" 2>"$work/err"
    [ $? -le 1 ] && grep -q "a step of" "$work/out" || fail "${words[*]} is refused, too"
}
experts=(deepseek-v3 1024xh100 --pp 16 --ep 8 --global-batch-size 2048 --seq-length 4k)
way_out "${experts[@]}" --schedule dualpipe
way_out "${experts[@]}" --schedule dualpipe --target penstock
way_out llama-3.1-8b 8xh100 --pp 4 --schedule zb-v
finish
