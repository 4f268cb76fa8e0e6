#ifndef PEN_CLI_RECIPE_OPTIONS_H
#define PEN_CLI_RECIPE_OPTIONS_H

#include "cli/program/line.h"
#include "core/recipe.h"

#include <argp.h>

/*
 * Options of `penstock plan` and `penstock predict` that make a recipe. They
 * have Megatron-LM's names where it has one, and a short one.
 */

/* Options not given are 0, NULL or false, words the number of their words. */
struct pen__recipe_args {
    uint64_t expert_tp;
    unsigned dispatcher;
    unsigned dispatcher_type; /* of Megatron: alltoall, allgather, flex */
    unsigned backend;         /* of flex: deepep, hybridep */
    unsigned graphs;
    unsigned graph_impl; /* Megatron's words */
    unsigned optimizer;
    const char *modules;
    const char *offloaded;
    uint64_t offload_blocks;
    uint64_t master_bytes;
    uint64_t moment_bytes;
    uint64_t mtp_blocks;
    bool overlaps_experts;
    bool delays_weights;
    bool drops_tokens;
    bool is_paged;
    bool has_fused_experts;
    bool offloads_optimizer;
    bool has_narrow_gradients;
    bool gathers_narrow;
    bool has_narrow_attention;
};

/* Sets all options to not given. */
void pen__recipe_args_init(struct pen__recipe_args *args);

/* Makes a recipe of the options; a wrong list ends the program with the usage.
 */
void pen__recipe_args_take(const struct pen__recipe_args *args,
                           const struct argp_state *state,
                           struct pen_recipe *out);

/* The options, for struct pen__plan_args; the last has a NULL name. */
extern const struct pen__field pen__recipe_options[];

#endif
