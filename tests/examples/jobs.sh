#!/usr/bin/env bash
# The unit for systemd and the manifest for Kubernetes are accepted by those who judge them, and their commands train: a rank that is killed is
# restarted, TERM to the supervisor saves and ends. What examples/slurm has runs under tests/slurm/run. Needs PENSTOCK, the program under test.
. "$(dirname "$0")/../cli/support.bash"
root=$(cd "$(dirname "$0")/../.." && pwd)
if ! command -v mpirun >/dev/null; then
    echo "mpirun is missing; skipped"
    exit 77
fi
if ! "$PENSTOCK" supervise --help >/dev/null 2>&1; then
    echo "penstock supervise is not built; skipped"
    exit 77
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMP_NUM_THREADS=1
mkdir "$work/bin" "$work/tmp" "$work/tiny"
export TMPDIR=$work/tmp
printf '#!/bin/sh\nexec "%s" "$@"\n' "$PENSTOCK" >"$work/bin/penstock"
chmod +x "$work/bin/penstock"
export PATH=$work/bin:$PATH
cat >"$work/tiny/config.json" <<'END'
{"model_type": "gpt2", "vocab_size": 32, "n_positions": 16, "n_embd": 64, "n_layer": 2, "n_head": 2,
 "activation_function": "gelu_new", "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
END
python3 -c 'import struct, sys
open(sys.argv[1], "wb").write(struct.pack("<5001H", *[i * i % 31 for i in range(5001)]))' "$work/letters.bin"

newest() { find "$1" -maxdepth 1 -name 'step-????????' 2>/dev/null | sort | tail -1; }

# wait_for CONDITION: for at most two minutes, while the command runs.
wait_for() {
    local i
    for ((i = 0; i < 1200 * ${PEN_SLOWNESS:-1}; i++)); do
        ! eval "$1" || return 0
        kill -0 "$supervisor" 2>/dev/null || break
        sleep 0.1
    done
    eval "$1" || fail "never: $1"
}

# A rank of the command in this folder.
rank_of() {
    local pid
    for pid in $(pgrep -x penstock-train); do
        [ "$(readlink "/proc/$pid/cwd")" != "$1" ] || echo "$pid"
    done | tail -1
}

# What the second launch shows to Prometheus, if its command has a page.
check_metrics() {
    local port
    port=$(sed -n 's,.*http://127.0.0.1:\([0-9]*\)/metrics.*,\1,p' "$work/err" | tail -1)
    [ -n "$port" ] || return 0
    python3 -c 'import sys, urllib.request
page = urllib.request.urlopen("http://127.0.0.1:%s/metrics" % sys.argv[1]).read().decode()
found = dict(line.split() for line in page.splitlines() if line[0] != "#")
print(found.get("penstock_epoch"), found.get("penstock_restarts_total"), found.get("penstock_steps_skipped_total"),
      0 < float(found.get("penstock_memory_step", 0)) <= float(found["penstock_step"]))' "$port" >"$work/page" 2>&1
    same "metrics" "$(cat "$work/page")" "2 1 0 True"
}

# train_with FOLDER COMMAND...: a command of an example, in a folder of its own.
train_with() {
    local folder=$work/$1 victim
    mkdir "$folder"
    cd "$folder" || exit 1
    "${@:2}" >"$work/out" 2>"$work/err" &
    supervisor=$!
    wait_for '[ -n "$(newest run)" ]'
    victim=$(rank_of "$folder")
    if [ -n "$victim" ]; then kill -KILL "$victim"; else fail "there is no rank"; fi
    wait_for 'grep -q "\"event\":\"resumed\"" run/supervise.jsonl'
    check_metrics
    before=$(newest run)
    kill -TERM "$supervisor"
    wait "$supervisor"
    same "exit code after TERM" $? 0
    [ "$(newest run)" != "$before" ] || fail "TERM saved no step after $before"
    grep -q '"cause":"rank-died"' run/supervise.jsonl || fail "the events lack the fault"
    "$PENSTOCK" report --json log.jsonl >"$work/out" 2>"$work/err" || fail "no report"
    same "restarts in the report" "$(json 'd["runs"][0]["restarts"], 0 < d["runs"][0]["goodput"] < 1')" "(1, True)"
    cd "$root" || exit 1
}
export RANKS=2 MODEL=$work/tiny DATA=$work/letters.bin STEPS=1000000 SAVE_STEPS=20

# ---- systemd
unit=$root/examples/systemd/penstock-train.service
about "$unit"
if command -v systemd-analyze >/dev/null; then
    # Verification wants programs and man pages that are there.
    sed "s,/usr/bin/penstock,$work/bin/penstock,; /^Documentation=/d" "$unit" >"$work/penstock-train.service"
    systemd-analyze verify "$work/penstock-train.service" >"$work/out" 2>"$work/err" || fail "systemd refuses it"
    ! grep penstock-train "$work/err" || fail "systemd warns"
else
    echo "systemd-analyze is missing: the unit is not verified"
    [ -z "${PEN_REQUIRE_SHARED:-}" ] || fail "CI must have it"
fi
# What systemd would start: words without quotes, ${NAME} from the environment.
start=$(sed -n 's,^ExecStart=/usr/bin/,,p' "$unit")
start=$(eval "echo \"${start/9400/0}\"")
read -ra words <<<"$start"
train_with systemd "${words[@]}"

# ---- Kubernetes
manifest=$root/examples/kubernetes/job.yaml
about "$manifest"
python=${PEN_JUDGES:-$root/build/judges}/bin/python
if ! "$python" -c 'import kubernetes_validate' 2>/dev/null; then
    echo "kubernetes-validate is missing: the manifest is not validated"
    [ -z "${PEN_REQUIRE_SHARED:-}" ] || fail "CI must have it"
    finish
    exit
fi
"$python" - "$manifest" >"$work/words" 2>"$work/err" <<'END' || fail "Kubernetes refuses it"
import os, re, sys, kubernetes_validate, yaml
job = yaml.safe_load(open(sys.argv[1]))
kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)
spec = job["spec"]["template"]["spec"]
container = spec["containers"][0]
claims = {volume["name"] for volume in spec["volumes"]}
assert {mount["name"] for mount in container["volumeMounts"]} == claims
assert all("value" in variable for variable in container["env"])
names = {variable["name"] for variable in container["env"]}
for word in container["command"] + container["args"]:
    name = re.fullmatch(r"\$\((\w+)\)", word)
    assert name is None or name[1] in names, word
    print(os.environ[name[1]] if name else word)
job["spec"]["template"]["spec"]["restartPolice"] = "Never"
try:
    kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)
    sys.exit("a misspelt key is accepted")
except kubernetes_validate.ValidationError:
    pass
END
mapfile -t words <"$work/words"
train_with kubernetes "${words[@]}"
finish
