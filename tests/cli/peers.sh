#!/usr/bin/env bash
# predict --peers: stages on peers of uneven speed, of which some are lost, as
# docs/planning.md has them.
. "$(dirname "$0")/support.bash"
may_mix_builds=yes

question=(predict gpt2-large 6xrtx3080 --pp 2 --dp 3 --seq-length 1k --global-batch-size 1536)
page=$(dirname "$0")/../../docs/planning.md

for link in 200Mbit/s 1Gbit/s; do
    run 0 "${question[@]}" --peers 6:3 --lost-peers 2 --peer-link $link
    err_empty
    while read -r row; do
        grep -qF -- "$row" "$page" || fail "docs/planning.md lacks '$row'"
    done < <(tail -3 "$work/out")
done
run 0 "${question[@]}" --peers 6:3 --lost-peers 2 --peer-link 1Gbit/s --json
same "routing pays" "$(json '(lambda p: p["routed"]["samples_per_sec"] > 1.2 * p["by_speed"]["samples_per_sec"] >
    p["equal"]["samples_per_sec"])(d["peers"])')" True
same "below the bound" "$(json 'd["peers"]["routed"]["samples_per_sec"] < d["peers"]["bound_samples_per_sec"]')" True

# Equal peers that stay: routing is round robin.
run 0 "${question[@]}" --peers 6 --json
same "round robin" "$(json '(lambda p: p["routed"] == p["equal"] == p["by_speed"])(d["peers"])')" True
same "no move" "$(json 'd["peers"]["routed"]["moves"]')" 0.0
same "200 Mbit/s" "$(json 'd["peers"]["link_bytes_per_sec"]')" 25000000.0

for words in six 0 -3 6:0.5 6: 6:3:1 2000; do
    run 1 "${question[@]}" "--peers=$words"
    err_has "--peers $words: expected up to 1000 peers"
done
run 1 "${question[@]}" --peers 6 --lost-peers 5
err_has "6 peers of which 5 are lost leave fewer than one for each of 2 stages"
run 1 "${question[@]}" --peers 6 --peer-link fast
err_has "--peer-link fast: expected a rate"
run 2 "${question[@]}" --lost-peers 2
err_has "--lost-peers belongs to --peers; give that as well"
run 1 predict preset:vgg-16 2xh100 --pp 2 --dp 1 --global-batch-size 64 --peers 4
err_has "--peers: images are not supported"
finish
