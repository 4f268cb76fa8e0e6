#ifndef PEN_LINT_BRIDGE_H
#define PEN_LINT_BRIDGE_H

#include "lint/config.h"

/*
 * Paths of Megatron-Bridge and of Megatron's YAML become the options that rules
 * know: "model.num_moe_experts" is "num-experts".
 */
void pen__lint_bridge_keys(struct pen__lint_config *config);

#endif
