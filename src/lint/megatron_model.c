/* Heads and sequences of a model that Megatron parts. */
#include "lint/rules.h"

#include <inttypes.h>

static void judge_heads(struct pen__lint_judge *judge, uint64_t heads,
                        uint64_t tp)
{
    if (heads == 0 || tp < 2 || heads % tp == 0)
        return;
    pen__lint_what(judge,
                   tp > heads ? "tensor parallelism of %" PRIu64
                                " exceeds %" PRIu64 " attention heads"
                              : "tensor parallelism of %" PRIu64
                                " does not divide %" PRIu64 " attention heads",
                   tp, heads);
    pen__lint_why(judge, "Every tensor-parallel rank computes the same number "
                         "of whole heads.");
    pen__lint_todo(judge, "Use %" PRIu64 ", a divisor of %" PRIu64 ".",
                   pen__lint_divisor(heads, tp < heads ? tp : heads), heads);
    pen__lint_file_at(
        judge, tp > heads ? PEN_LINT_RULE_TENSOR_SIZE : PEN_LINT_RULE_HEADS,
        PEN__LINT_TP);
}

/* Since core 0.16 groups may also be fewer than ranks, and divide them. */
static void judge_groups(struct pen__lint_judge *judge, uint64_t heads,
                         uint64_t tp)
{
    const struct pen__lint_config *config = judge->config;
    const struct pen__lint_setting *setting =
        pen__lint_find(config, PEN__LINT_GROUPS);
    uint64_t groups = pen__lint_count(config, PEN__LINT_GROUPS, 0);
    if (setting == NULL || groups == 0)
        return;
    if (setting->name[0] == '-' &&
        pen__lint_is_off(config, "group-query-attention")) {
        if (groups == 1)
            return;
        pen__lint_what(judge, "%s has no effect", setting->name);
        pen__lint_why(judge, "Megatron-LM reads it only with "
                             "--group-query-attention; without, every head "
                             "has keys and values of its own.");
        pen__lint_todo(judge, "Add --group-query-attention.");
        pen__lint_file_at(judge, PEN_LINT_RULE_NO_EFFECT, PEN__LINT_GROUPS);
        return;
    }
    if (heads > 0 && heads % groups != 0) {
        pen__lint_what(judge,
                       "%" PRIu64 " query groups do not divide %" PRIu64
                       " attention heads",
                       groups, heads);
        pen__lint_why(judge, "Every group has the same number of heads.");
        pen__lint_todo(judge, "Use %" PRIu64 ", a divisor of %" PRIu64 ".",
                       pen__lint_divisor(heads, groups), heads);
    } else if (tp > 1 && groups % tp != 0 && tp % groups != 0) {
        pen__lint_what(judge,
                       "%" PRIu64 " query groups and tensor parallelism of "
                       "%" PRIu64 " do not divide each other",
                       groups, tp);
        pen__lint_why(judge, "Ranks share out whole groups, or several ranks "
                             "share one group.");
        pen__lint_todo(judge, "Use tensor parallelism of %" PRIu64 ".",
                       pen__lint_divisor(groups, tp < groups ? tp : groups));
    } else {
        return;
    }
    pen__lint_file_at(judge, PEN_LINT_RULE_HEADS, PEN__LINT_GROUPS);
}

static void judge_width(struct pen__lint_judge *judge, uint64_t heads)
{
    const struct pen__lint_config *config = judge->config;
    uint64_t hidden = pen__lint_count(config, PEN__LINT_HIDDEN, 0);
    if (hidden == 0 || heads == 0 || hidden % heads == 0 ||
        !pen__lint_is_off(config, "kv-channels") ||
        !pen__lint_is_off(config, "multi-latent-attention"))
        return;
    pen__lint_what(judge,
                   "a hidden size of %" PRIu64 " does not divide by %" PRIu64
                   " attention heads",
                   hidden, heads);
    pen__lint_why(judge, "Without --kv-channels a head is as wide as the "
                         "hidden size over the heads.");
    pen__lint_todo(judge, "Give --kv-channels, or use %" PRIu64 " heads.",
                   pen__lint_divisor(hidden, heads));
    pen__lint_file_at(judge, PEN_LINT_RULE_HEADS, PEN__LINT_HEADS);
}

static void judge_sequence(struct pen__lint_judge *judge, uint64_t tp)
{
    const struct pen__lint_config *config = judge->config;
    uint64_t sequence = pen__lint_count(config, PEN__LINT_SEQUENCE, 0);
    uint64_t cp = pen__lint_count(config, PEN__LINT_CP, 1);
    uint64_t positions = pen__lint_count(config, "max-position-embeddings", 0);
    uint64_t parts = cp > 1 ? 2 * cp : 1;
    if (sequence == 0)
        return;
    if (pen__lint_is_on(config, "sequence-parallel") && tp > 1)
        parts *= tp;
    if (cp != 0 && sequence % parts != 0) {
        pen__lint_what(judge,
                       "a sequence of %" PRIu64 " does not divide by %" PRIu64,
                       sequence, parts);
        pen__lint_why(judge, "Context parallelism parts a sequence into two "
                             "pieces for each rank, sequence parallelism into "
                             "one for each tensor-parallel rank.");
        pen__lint_todo(judge, "Use %" PRIu64 ".",
                       (sequence / parts + 1) * parts);
        pen__lint_file_at(judge, PEN_LINT_RULE_SEQUENCE, PEN__LINT_SEQUENCE);
    }
    if (positions > 0 && positions < sequence) {
        pen__lint_what(
            judge, "a sequence of %" PRIu64 " exceeds %" PRIu64 " positions",
            sequence, positions);
        pen__lint_why(judge, "Every token needs a position of its own.");
        pen__lint_todo(judge, "Set %s to %" PRIu64 ".",
                       pen__lint_name(config, "max-position-embeddings"),
                       sequence);
        pen__lint_file_at(judge, PEN_LINT_RULE_SEQUENCE,
                          "max-position-embeddings");
    }
}

void pen__lint_megatron_model(struct pen__lint_judge *judge)
{
    uint64_t heads = pen__lint_count(judge->config, PEN__LINT_HEADS, 0);
    uint64_t tp = pen__lint_count(judge->config, PEN__LINT_TP, 1);
    judge_heads(judge, heads, tp);
    judge_groups(judge, heads, tp);
    judge_width(judge, heads);
    judge_sequence(judge, tp);
}
