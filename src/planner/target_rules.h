#ifndef PEN_PLANNER_TARGET_RULES_H
#define PEN_PLANNER_TARGET_RULES_H

#include "planner/candidate.h"

/*
 * The rules of what each target can run. A broken rule is reported in words,
 * with both numbers: "tp 8 does not divide 12 attention heads". The rules of
 * the target penstock are those of its trainer, schedule/restrictions.h.
 */

/* Whether the target has this schedule. */
bool pen_target_has_schedule(enum pen_target target,
                             const struct pen_generator *generator);

bool pen_target_has_sharding(enum pen_target target, uint32_t pp,
                             enum pen_sharding sharding);

/* Chunks that a rank may have under this schedule, 1 where it has no choice. */
bool pen_target_has_chunks(const struct pen_generator *generator, uint32_t vpp);

/*
 * Whether the target runs the candidate, in this setting: INVALID, and why
 * names the rule that it breaks. Memory and time are not looked at.
 */
pen_status pen_target_check(const struct pen_setting *setting,
                            const struct pen_candidate *candidate,
                            struct pen_text *why);

/* Whether ranks that share tensors share the rows of norms, too. */
bool pen_target_has_sequence_parallel(enum pen_target target);

/* Whether a plan for a target that can do without it may have it. */
bool pen_target_may_cut_rows(const struct pen_setting *setting,
                             const struct pen_candidate *candidate);

/* Devices that the innermost links join: those that may share tensors. */
uint64_t pen_target_node_size(const struct pen_cluster *cluster);

/*
 * The default number of ranks that share an expert's tensors: Megatron-LM keeps
 * experts whole, so that their groups fold over tensor ranks. As in a plan, 0
 * means tp.
 */
uint32_t pen_target_expert_tp(enum pen_target target, uint32_t tp, uint32_t ep);

/* Whether `dp` replicas can share the experts of a candidate. */
bool pen_target_shares_experts(enum pen_target target,
                               const struct pen_candidate *candidate,
                               uint32_t dp);

#endif
