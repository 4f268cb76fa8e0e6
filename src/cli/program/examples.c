/*
 * Examples of `penstock help --json`, in an order in which they can be carried
 * out: later ones read files of earlier ones. tests/cli/help_json.sh does.
 */
#include "cli/program/help.h"

const struct pen__example pen__examples[] = {
    {"plan", "penstock plan llama-3.1-70b 64xh100 --json"},
    {"plan", "penstock plan gpt2 8xa100-40 -o plan.json"},
    {"plan", "penstock plan llama-3.1-8b 8xh100 --why tp=4 --json"},
    {"plan check", "penstock plan check plan.json --json"},
    {"predict", "penstock predict llama-3.1-8b 16xh100 --tp 4 --pp 2 --json"},
    {"simulate", "penstock simulate --plan plan.json --json"},
    {"schedule list", "penstock schedule list --json"},
    {"schedule make",
     "penstock schedule make zb-h1 --stages 4 --microbatches 8 -o zb-h1.pen"},
    {"schedule search",
     "penstock schedule search --stages 2 --microbatches 4 --json"},
    {"schedule check", "penstock schedule check zb-h1.pen --json"},
    {"schedule time", "penstock schedule time zb-h1.pen --json"},
    {"schedule draw", "penstock schedule draw zb-h1.pen -o zb-h1.svg"},
    {"schedule compare",
     "penstock schedule compare --stages 4 --microbatches 8 --json"},
    {"schedule convert", "penstock schedule convert zb-h1.pen zb-h1.csv"},
    {"view", "penstock view plan.json --json"},
    {"models", "penstock models --json"},
    {"cluster list", "penstock cluster list --json"},
    {"cluster show", "penstock cluster show 64xh100"},
    {"cluster check", "penstock cluster check 64xh100 --json"},
    {"export", "penstock export plan.json --to megatron -o job --json"},
    {"lint", "penstock lint job/megatron.args --json"},
    {"ring draw", "penstock ring draw 7 -o round.svg"},
    {"sync list", "penstock sync list --json"},
    {"sync compare", "penstock sync compare --model gpt2 --link 1Gb/s "
                     "--replicas 4 --step-time 1s --json"},
    {"schema", "penstock schema plan"},
    {NULL, NULL}};
