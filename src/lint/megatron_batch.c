/* Ranks, batches and experts of Megatron: what has to divide what. */
#include "lint/rules.h"

#include <inttypes.h>

uint64_t pen__lint_divisor(uint64_t count, uint64_t most)
{
    for (uint64_t i = most; i > 1; i--)
        if (count % i == 0)
            return i;
    return 1;
}

void pen__lint_file_at(struct pen__lint_judge *judge,
                       enum pen_lint_rule_id rule, const char *key)
{
    pen__lint_file(judge,
                   &(struct pen__lint_words){
                       .at = pen__lint_find(judge->config, key), .rule = rule});
}

static uint64_t size_of(const struct pen__lint_judge *judge, const char *key)
{
    return pen__lint_count(judge->config, key, 1);
}

/* The size that is most likely wrong: the largest one that is given. */
static const char *largest(const struct pen__lint_judge *judge)
{
    static const char *const keys[] = {PEN__LINT_TP, PEN__LINT_PP,
                                       PEN__LINT_CP};
    const char *best = keys[0];
    for (size_t i = 1; i < sizeof keys / sizeof *keys; i++)
        if (size_of(judge, keys[i]) > size_of(judge, best))
            best = keys[i];
    return best;
}

static uint64_t replica_of(const struct pen__lint_judge *judge)
{
    return size_of(judge, PEN__LINT_TP) * size_of(judge, PEN__LINT_PP) *
           size_of(judge, PEN__LINT_CP);
}

static void judge_world(struct pen__lint_judge *judge, uint64_t replica)
{
    uint64_t world = judge->config->world;
    if (world == 0 || replica == 0 || world % replica == 0)
        return;
    pen__lint_what(judge,
                   "%" PRIu64 " ranks do not divide by %" PRIu64
                   " (tensor %" PRIu64 " x pipeline %" PRIu64
                   " x context %" PRIu64 ")",
                   world, replica, size_of(judge, PEN__LINT_TP),
                   size_of(judge, PEN__LINT_PP), size_of(judge, PEN__LINT_CP));
    pen__lint_why(judge, "Every replica of the model takes that many ranks, "
                         "and the ranks form whole replicas.");
    pen__lint_todo(judge,
                   "Start a multiple of %" PRIu64
                   " ranks, or choose sizes whose product divides %" PRIu64 ".",
                   replica, world);
    pen__lint_file_at(judge, PEN_LINT_RULE_WORLD_SIZE, largest(judge));
}

static void judge_expert_ranks(struct pen__lint_judge *judge)
{
    uint64_t world = judge->config->world;
    uint64_t ep = size_of(judge, PEN__LINT_EP);
    uint64_t etp = pen__lint_count(judge->config, PEN__LINT_ETP,
                                   size_of(judge, PEN__LINT_TP));
    uint64_t pp = size_of(judge, PEN__LINT_PP);
    uint64_t group = ep * etp * pp;
    if (world == 0 || ep < 2 || group == 0 || world % group == 0)
        return;
    pen__lint_what(judge,
                   "%" PRIu64 " ranks do not divide by %" PRIu64
                   " (expert %" PRIu64 " x expert tensor %" PRIu64
                   " x pipeline %" PRIu64 ")",
                   world, group, ep, etp, pp);
    pen__lint_why(judge, "The ranks of a pipeline stage are parted into whole "
                         "groups of experts.");
    pen__lint_todo(judge, "Lower %s, or set --expert-tensor-parallel-size 1.",
                   pen__lint_name(judge->config, PEN__LINT_EP));
    pen__lint_file_at(judge, PEN_LINT_RULE_WORLD_SIZE, PEN__LINT_EP);
}

static void judge_experts(struct pen__lint_judge *judge)
{
    uint64_t ep = size_of(judge, PEN__LINT_EP);
    const struct pen__lint_setting *experts =
        pen__lint_find(judge->config, PEN__LINT_EXPERTS);
    uint64_t count = pen__lint_count(judge->config, PEN__LINT_EXPERTS, 0);
    if (ep < 2)
        return;
    if (experts == NULL && !judge->config->is_open) {
        pen__lint_what(judge,
                       "expert parallelism of %" PRIu64 " without experts", ep);
        pen__lint_why(judge, "Only a mixture of experts has something to part "
                             "over these ranks.");
        pen__lint_todo(judge, "Give --num-experts, or delete the option.");
        pen__lint_file_at(judge, PEN_LINT_RULE_NEEDS_OPTION, PEN__LINT_EP);
    } else if (count > 0 && count % ep != 0) {
        pen__lint_what(judge,
                       "%" PRIu64 " experts do not divide by %" PRIu64
                       " expert-parallel ranks",
                       count, ep);
        pen__lint_why(judge, "Every rank holds the same number of experts.");
        pen__lint_todo(
            judge, "Use %" PRIu64 " ranks, a divisor of %" PRIu64 ".",
            pen__lint_divisor(count, ep < count ? ep : count), count);
        pen__lint_file_at(judge, PEN_LINT_RULE_EXPERTS, PEN__LINT_EP);
    }
}

static void judge_batch(struct pen__lint_judge *judge, uint64_t replica)
{
    const struct pen__lint_config *config = judge->config;
    uint64_t global = pen__lint_count(config, PEN__LINT_GLOBAL, 0);
    uint64_t micro = pen__lint_count(config, PEN__LINT_MICRO, 0);
    uint64_t replicas = replica > 0 && config->world % replica == 0
                            ? config->world / replica
                            : 0;
    uint64_t each = micro * (replicas > 0 ? replicas : 1);
    if (global == 0 || each == 0 || global % each == 0 ||
        (pen__lint_find(config, "rampup-batch-size") == NULL
             ? config->is_open && config->dialect == PEN_LINT_MEGATRON
             : !pen__lint_is_off(config, "rampup-batch-size")) ||
        pen__lint_is_on(config, "decrease-batch-size-if-needed"))
        return;
    if (replicas > 0)
        pen__lint_what(judge,
                       "a global batch of %" PRIu64
                       " does not divide by %" PRIu64 " (micro-batch %" PRIu64
                       " x %" PRIu64 " replicas)",
                       global, each, micro, replicas);
    else
        pen__lint_what(judge,
                       "a global batch of %" PRIu64
                       " does not divide by a micro-batch of %" PRIu64,
                       global, micro);
    pen__lint_why(judge, "Each replica takes the same number of whole "
                         "micro-batches in a step.");
    pen__lint_todo(judge, "Use %" PRIu64 " or %" PRIu64 ".",
                   global > each ? global / each * each : each,
                   (global / each + 1) * each);
    pen__lint_file_at(judge, PEN_LINT_RULE_GLOBAL_BATCH, PEN__LINT_GLOBAL);
}

void pen__lint_megatron_batch(struct pen__lint_judge *judge)
{
    uint64_t replica = replica_of(judge);
    judge_world(judge, replica);
    judge_expert_ranks(judge);
    judge_experts(judge);
    judge_batch(judge, replica);
}
