#!/usr/bin/env bash
# Goodput of predict --failures beside SimGrid on 128 ranks. The simulated trainer
# gives the step, and shows that one whose host fails never ends. Then the whole
# run is simulated, with hosts that fail, saves and restarts
# (tests/smpi/failing_hosts.c). PEN_LONG=1 simulates more failures.
. "$(dirname "$0")/support.bash"
if [ ! -x "$(dirname "$PENSTOCK")/penstock-simulate" ]; then
    echo "penstock-simulate is not built; skipped"
    exit 77
fi
compare() { # MTBF
run 0 predict gpt2 128xh100 --seq-length 1024 --global-batch-size 128 --pp 4 --mtbf "$1s" --checkpoint-interval 0.4s \
    --save-sec 0.02 --detect-sec 0.05 --restart-sec 0.1 --reload-sec 0.05 --pair-share 0 --json -o "$work/plan.json"
json '[d["failures"]["rows"][0][way]["goodput"] for way in ("restart", "holders")]
    + [d["failures"]["rows"][0]["restart"]["interval_steps"]]' >"$work/predicted"
about "goodput of the simulated trainer"
python3 - "$PENSTOCK" "$work/plan.json" "$work/predicted" "$1" "${PEN_LONG:+8}" >"$work/out" 2>"$work/err" <<'END' || fail "differs by more than 5 %"
import json, os, random, subprocess, sys
penstock, plan, predicted, mtbf, more = sys.argv[1:]
restart, holders, interval = json.load(open(predicted))
random.seed(1)


def simulate(*words):
    done = subprocess.run([penstock, "simulate", "--plan", plan, "--json", *words], capture_output=True, text=True)
    answer = json.loads(done.stdout)
    return answer["simulated"] if "simulated" in answer else sys.exit(done.stderr)


step = simulate("--steps", "2")["step_sec"]
# A host that fails within a step: the steps before it are done, that step never ends.
for _ in range(int(more or 1)):
    rank, at = random.randrange(128), step * random.uniform(1.1, 2.9)
    for steps in (int(at / step), int(at / step) + 1):
        stuck = simulate("--steps", str(steps), "--fail", f"rank-{rank}@{at:.9g}")["is_stuck"]
        if stuck != (steps * step > at):
            sys.exit(f"{steps} steps of {step} s, rank {rank} fails at {at}: stuck {stuck}")

hosts = os.path.join(os.path.dirname(plan), "hosts.xml")
with open(hosts, "w") as file:
    names = [f"rank-{i}" for i in range(128)] + ["lasting"]
    file.write('<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n<platform version="4.1"><zone id="all" '
               'routing="None">' + "".join(f'<host id="{name}" speed="1f"/>' for name in names) + "</zone></platform>\n")
for name, expected, recovery in ("restart", restart, 0.2), ("holders", holders, 0.15):
    program = os.path.join(os.path.dirname(penstock), "tests/smpi_failing_hosts")
    done = subprocess.run([program, hosts, "128", "500" if more else "60", "1", str(interval), name, mtbf, str(step), "0.02", str(recovery)],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    found = float(done.stdout)
    print(f"fails every {mtbf} s, {name}: simulated {found:.4f}, predicted {expected:.4f}")
    if abs(found / expected - 1) > 0.05:
        sys.exit(1)
END
cat "$work/out"
}
for mtbf in 3 ${PEN_LONG:+1 30}; do
    compare "$mtbf"
done
finish
