#!/usr/bin/env bash
# Goodput of predict --failures beside the simulated trainer on 128 ranks: hosts
# fail in the simulation, which decides how many steps were done by then; the
# seconds of saves and recoveries are added. PEN_LONG=1 simulates more failures.
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
import json, random, subprocess, sys
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
for name, expected, memory in ("restart", restart, False), ("holders", holders, True):
    wall, kept, saved = 0.0, 0, 0
    for _ in range(20000):
        left = random.expovariate(1 / float(mtbf))
        wall += left
        while left >= step:
            left, kept = left - step, kept + 1
            if kept % interval == 0 and kept > saved:
                if left < 0.02:
                    break
                left, saved = left - 0.02, kept
        if not memory:
            kept = saved
        recovery = 0.15 + (0 if memory else 0.05)
        while (again := random.expovariate(1 / float(mtbf))) < recovery:
            wall += again
        wall += recovery
    found = kept * step / wall
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
