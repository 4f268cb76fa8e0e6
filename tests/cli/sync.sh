#!/usr/bin/env bash
# sync list names every method and compressor, and compare says what they cost
# on a link, which of them pay, and which to take.
. "$(dirname "$0")/support.bash"
may_mix_builds=yes
root=$(cd "$(dirname "$0")/../.." && pwd)

run 0 sync list
err_empty
out_has "arXiv:2311.08105"
names=$(awk 'NF == 0 { exit } NR > 2 { print $1 }' "$work/out" | sort)
run 0 sync list --json
same "names in JSON" "$(json '"\n".join(sorted(x["name"]
    for x in d["methods"]))')" "$names"
same "no name twice" "$(uniq -d <<<"$names")" ""
names=$(json '"\n".join(sorted(x["name"]
    for x in d["methods"] + d["compressors"]))')
same "methods whose row is missing in a list of src/sync/registry.c" \
    "$(comm -13 <(echo "$names") \
        <(defined 'pen_(sync_method|compressor)' "$root"/src/sync/*/*.c))" ""
for name in $names; do
    about "$name"
    grep -q "^|.*\`$name[\`:]" "$root/docs/sync.md" ||
        fail "it has no row in the tables of docs/sync.md"
    # The trainer itself does zero1; tests/mpi/run_bits has it.
    [ "$name" = zero1 ] || grep -q "\"$name[\":]" "$root"/tests/unit/sync_*.c ||
        fail "it has no test tests/unit/sync_*.c"
done
same "all have papers and titles" "$(json 'all(x["paper"] and x["title"]
    for x in d["methods"] + d["compressors"])')" True
same "all options have a default in their range" "$(json 'all(
    o["help"] and o["least"] <= o["default"] <= o["most"]
    for x in d["methods"] + d["compressors"] for o in x["options"])')" True
same "bytes of an all-reduce" "$(json '[x["bytes_per_step"]
    for x in d["methods"] if x["name"] == "allreduce"]')" "[1.5]"
same "staleness" "$(json 'all(x["staleness"] is None or x["staleness"] >= 0
    for x in d["methods"])')" True

# 14 million parameters over 100 Mbit/s: 2 * 20 ms + 84.4 MB / 12.5 MB/s.
tiny=(--model preset:pythia-14m --replicas 4 --step-time 1s)
slow=("${tiny[@]}" --link 100Mbit/s --latency 20ms)
run 0 sync compare "${slow[@]}"
err_empty
out_has "a step computes 1000 ms"
out_has "allreduce takes 6.87 s on the link"
out_has "the time of a step is not the time to reach a loss"
run 0 sync compare "${slow[@]}" --json
same "seconds on the link" "$(json '[round(x["sync_sec"], 4)
    for x in d["methods"] if x["verdict"] == "reference"]')" "[6.8725]"
same "samples a second" "$(json 'all(abs(x["samples_per_sec"] * x["step_sec"]
    - 4) < 1e-9 for x in d["methods"])')" True
same "parts of a step" "$(json 'all(abs(1 + x["stall_sec"] + x["encode_sec"] -
    x["step_sec"]) < 1e-9 for x in d["methods"])')" True
same "the quickest first" "$(json 'd["methods"] == sorted(d["methods"],
    key=lambda x: (x["step_sec"], x["bytes_per_step"] * x["interval"]))')" True
same "what is advised pays" "$(json '[x["verdict"] for x in d["methods"] if
    (x["method"], x["compressor"]) == (d["advice"]["method"],
    d["advice"]["compressor"])]')" "['pays']"

# A link as people write it.
run 0 sync compare "${tiny[@]}" --link 100Mbit/s --json
cp "$work/out" "$work/plain"
for link in 100Mb/s 0.1Gbit 100Mbps 12.5MB/s "100 Mb"; do
    run 0 sync compare "${tiny[@]}" --link "$link" --json
    cmp -s "$work/out" "$work/plain" || fail "not a link of 100 Mbit/s"
done
for link in 1Gb/s/s -1Gb/s 1e308Tb/s 1GB 0; do
    run 1 sync compare "${tiny[@]}" --link "$link"
    err_has "--link $link: expected a number with a unit, as 450 GB/s"
done

# Fast networks: nothing but the all-reduce, whatever there is.
for link in 10Gbit/s 100Gbit/s 20GB/s; do
    run 0 sync compare "${tiny[@]}" --link $link --compress all
    out_has "advice: allreduce; nothing else is faster by a tenth"
    out_has "compression does not pay"
    out_has "rare synchronisation does not pay"
    run 0 sync compare "${tiny[@]}" --link $link --compress all --json
    same "advice" "$(json 'd["advice"]["method"], d["advice"]["compressor"]')" \
        "('allreduce', None)"
    same "none pays" "$(json '[x for x in d["methods"]
        if x["verdict"] == "pays"]')" "[]"
done

# Only what is named, and the reference; an interval.
run 0 sync compare "${slow[@]}" --sync-interval 25 diloco --json
same "rows" "$(json '[(x["method"], x["interval"]) for x in d["methods"]]')" \
    "[('diloco', 25), ('allreduce', 1)]"
same "bytes" "$(json 'd["methods"][0]["bytes_per_step"] * 25 ==
    d["methods"][1]["bytes_per_step"]')" True
run 0 sync compare "${slow[@]}" --compress random-block:4 diloco --json
same "with a compressor" "$(json '[x["compressor"] for x in d["methods"]
    if x["method"] == "diloco"]')" "['random-block', None]"

# Encoding on slow cores, and steps that are hidden by no backward.
run 0 sync compare "${slow[@]}" allreduce --encode-rate 5MB/s --json \
    --compress random-block
same "encoding" "$(json '[x["verdict"] for x in d["methods"]
    if x["compressor"]]')" "['encode']"
run 0 sync compare "${tiny[@]}" --link 1Gbit/s --microbatches 100 allreduce \
    --compress none --json
same "overlap" "$(json 'round(d["overlap_sec"], 6)')" 0.006667

# Steps to a loss are the user's.
printf '# to 3.2\ndiloco 20\nallreduce+random-block\t1.1\n' >"$work/factors"
run 0 sync compare "${slow[@]}" --factors "$work/factors" diloco allreduce
out_has "advice: allreduce+random-block"
out_has "needs more steps, so that reaching a loss takes longer"
out_has "the time to reach a loss is the time of a step times your factors"
echo "diloco" >"$work/factors"
run 1 sync compare "${slow[@]}" --factors "$work/factors"
err_has "$work/factors: line 1: expected a method and a factor"

# The step as predicted for a device.
run 0 sync compare --model preset:gpt2 --link 1Gbit/s --replicas 4 \
    --cluster "preset:h100-sxm*1" --seq-length 1024 --global-batch-size 256 --json
same "predicted" "$(json '0.01 < d["compute_sec"] < 100 and
    0 < d["overlap_sec"] < d["compute_sec"]')" True

# Encoding is the device's work where that is known: a read and a write of each
# gradient. A core does it otherwise.
gpt=(--model preset:gpt2 --link 1Gbit/s --replicas 4 --compress random-block)
work_of='[x["encode_sec"] * d["encode_bytes_per_sec"] / d["weights"]
    for x in d["methods"] if x["compressor"]]'
sizes=(--seq-length 1024 --global-batch-size 256)
run 0 sync compare "${gpt[@]}" --cluster "preset:h100-sxm*1" "${sizes[@]}" --json \
    allreduce
same "bytes of a weight" "$(json "[round(x, 6) for x in $work_of]")" "[4.0]"
one=$(json 'round(d["encode_bytes_per_sec"])')
same "rate of a device" "$(json 'd["encode_bytes_per_sec"] > 2e11')" True
run 0 sync compare "${gpt[@]}" --cluster "preset:h100-sxm*1" "${sizes[@]}" allreduce
out_has "compressors encode $((one / 1000000000))"
out_has "GB/s, on the devices of a replica"
run 0 sync compare "${gpt[@]}" --cluster "preset:h100-sxm*1" "${sizes[@]}" \
    --encode-rate 2GB/s allreduce
out_has "compressors encode 2 GB/s, as --encode-rate says"
run 0 sync compare "${gpt[@]}" --cluster "preset:xeon-amx*1" "${sizes[@]}" --json
same "rate of a processor" "$(json 'd["encode_bytes_per_sec"]')" 2000000000.0
run 0 sync compare "${gpt[@]}" --step-time 1s allreduce
out_has "compressors encode 2 GB/s, on one core"

# The step as measured: 14 layers of 1 ms forward and 1 ms backward for a
# micro-batch of 4, two of them, and AdamW.
run 0 plan --model preset:gpt2 --cluster "preset:h100-sxm*1" --seq-length 128 \
    --global-batch-size 4 --top 1 -o "$work/plan.json"
python3 - "$root/tests/fuzz/corpus/profile_file/all-modes" "$work" <<'END'
import json, sys
profile = json.load(open(sys.argv[1]))
plan = json.load(open(sys.argv[2] + "/plan.json"))
profile["model"]["sha256"] = plan["model"]["sha256"]
for key in profile["update"]:
    profile["update"][key] = 1e-9 if key == "adam" else 0
json.dump(profile, open(sys.argv[2] + "/profile.json", "w"))
END
measured=(--model preset:gpt2 --link 1Gbit/s --replicas 4
    --profile "$work/profile.json")
run 0 sync compare "${measured[@]}" --global-batch-size 32 --json
same "measured" "$(json 'round(d["compute_sec"], 6)')" 0.18044
same "of it, a backward" "$(json 'round(d["overlap_sec"], 6)')" 0.014
run 0 sync compare "${measured[@]}" --json
same "one micro-batch of each" "$(json 'd["samples"]')" 16.0
run 1 sync compare "${measured[@]}" --global-batch-size 24
err_has "replicas in micro-batches of 4"
run 1 sync compare --model preset:gpt2-medium "${measured[@]:2}"
err_has "another model"
run 0 sync compare --model preset:mnist-cnn --link 1Gbit/s --replicas 3 \
    --step-time 20ms
out_has "preset:mnist-cnn, 2.154e+05 parameters"

# Replicas that fail: where nothing fails an all-reduce is as quick as anything on
# this link, and with failures what loses one island of eight at a time stays.
failing=(--model preset:gpt2 --link 100Gbit/s --replicas 8 --step-time 1s
    --sync-interval 50 --compress none allreduce diloco sgp)
run 0 sync compare "${failing[@]}"
out_has "advice: allreduce; nothing else"
out_lacks "goodput"
run 0 sync compare "${failing[@]}" --mtbf 30min --restart-sec 300
out_has "advice: diloco with an interval of 50"
out_has "failures, one per 30 min: one job keeps"
out_has ", 8 islands with diloco"
run 0 sync compare "${failing[@]}" --mtbf 30min --restart-sec 300 --json
same "by what stays" "$(json 'd["methods"] == sorted(d["methods"],
    key=lambda x: -x["kept_samples_per_sec"])')" True
same "speed times goodput" "$(json 'all(abs(x["kept_samples_per_sec"] -
    x["samples_per_sec"] * x["goodput"]) < 1e-9 for x in d["methods"])')" True
same "islands" "$(json '{x["method"]: x["islands"] for x in
    d["methods"]} == {"allreduce": 0, "diloco": 8, "sgp": 0}')" True
same "time between failures" "$(json 'd["mtbf_sec"]')" 1800.0
all=$(json '[x["goodput"] for x in d["methods"] if x["method"] == "diloco"][0]')
run 0 sync compare "${failing[@]}" --mtbf 30min --restart-sec 300 --islands 2 --json
same "two islands lose more at a time than eight" "$(json '[0.8 < x["goodput"] <
    '"$all"' and x["islands"] == 2 for x in d["methods"]
    if x["method"] == "diloco"]')" "[True]"
run 1 sync compare "${failing[@]}" --mtbf 30min --islands 3
err_has "--islands 3 does not divide --replicas 8; give as many replicas to each"
run 1 sync compare "${failing[@]}" --mtbf often
err_has "--mtbf often: expected a number with a unit, as"
run 2 sync compare "${failing[@]}" --islands 2
err_has "--islands belongs to replicas that fail; give --mtbf as well"
run 2 sync compare "${failing[@]}" --restart-sec 2
err_has "--restart-sec belongs to replicas that fail; give --mtbf as well"

# What cannot be compared.
run 2 sync
err_has "Usage: penstock sync"
run 2 sync compare --model preset:gpt2
err_has "--link is required"
run 2 sync compare "${tiny[@]}" --link 1Gbit/s --replicas 1
err_has "--replicas must be a whole number from 2"
run 1 sync compare "${tiny[@]}" --link fast
err_has "--link fast: expected a number with a unit, as"
run 1 sync compare "${tiny[@]}" --link 1Gbit/s gossipp
err_has "there is no synchronisation 'gossipp'"
run 1 sync compare "${tiny[@]}" --link 1Gbit/s --compress zip
err_has "there is no compressor 'zip'"
run 1 sync compare --model preset:gpt2 --link 1Gbit/s --replicas 4
err_has "is unknown; give --step-time, --profile or --cluster"
run 1 sync compare --model preset:gpt2 --link 1Gbit/s --replicas 3 \
    --cluster "preset:h100-sxm*1" --seq-length 1024 --global-batch-size 256
err_has "a batch of 256 cannot be split among 3 replicas"
run 2 sync list extra
err_has "unexpected argument 'extra'"
finish
