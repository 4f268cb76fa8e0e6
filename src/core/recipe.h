#ifndef PEN_CORE_RECIPE_H
#define PEN_CORE_RECIPE_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A recipe: the settings of a plan's runtime in addition to its degrees. All
 * zero is the meaning of plans of version 1: experts by all-to-all, which
 * nothing overlaps, no graphs, and bytes as in the target's own practice.
 */

/* How tokens come to their experts: name, key of files. */
#define PEN_DISPATCHER_TABLE(X)                                                \
    X(ALLTOALL, "alltoall")   /* a copy for each expert; the host counts */    \
    X(ALLGATHER, "allgather") /* all tokens to all ranks */                    \
    X(DEEPEP, "deepep")       /* a copy for each node, forwarded inside */     \
    X(HYBRIDEP, "hybridep")   /* the same, with NVLink over several nodes */

enum pen_dispatcher {
#define PEN_DISPATCHER_ENUM(name, key) PEN_DISPATCHER_##name,
    PEN_DISPATCHER_TABLE(PEN_DISPATCHER_ENUM)
#undef PEN_DISPATCHER_ENUM
        PEN_DISPATCHERS
};

/* The part of a step that is launched as one piece: name, key of files. */
#define PEN_GRAPHS_TABLE(X)                                                    \
    X(NONE, "none")                                                            \
    X(MODULES, "modules") /* attention, router, dense MLP; experts are not */  \
    X(FULL, "full")       /* the whole step; experts then need no host */

enum pen_graphs {
#define PEN_GRAPHS_ENUM(name, key) PEN_GRAPHS_##name,
    PEN_GRAPHS_TABLE(PEN_GRAPHS_ENUM)
#undef PEN_GRAPHS_ENUM
        PEN_GRAPHSES
};

/* Parts of a block that are computed again, or wait on the host: name, key. */
#define PEN_MODULE_TABLE(X)                                                    \
    X(CORE_ATTENTION, "core_attn")                                             \
    X(NORMS, "layernorm")    /* both norms of a block */                       \
    X(LATENT, "mla_up_proj") /* queries, keys, values out of the latent */     \
    X(MLP, "mlp")            /* of blocks without experts */                   \
    X(EXPERTS, "moe")        /* all of it, messages too */                     \
    X(EXPERT_ACT, "moe_act") /* the activation function alone */               \
    X(SHARED_EXPERTS, "shared_experts")

enum pen_module {
#define PEN_MODULE_ENUM(name, key) PEN_MODULE_##name,
    PEN_MODULE_TABLE(PEN_MODULE_ENUM)
#undef PEN_MODULE_ENUM
        PEN_MODULES
};

/* The optimizer of the weights: name, key of files. */
#define PEN_OPTIMIZER_TABLE(X)                                                 \
    X(ADAM, "adam")                                                            \
    X(ADAM8, "adam8")         /* both moments in 8 bits, by blocks */          \
    X(ADAFACTOR, "adafactor") /* second moments by rows and columns */         \
    X(MUON, "muon")           /* matrices whole; all else by Adam */

enum pen_optimizer_kind {
#define PEN_OPTIMIZER_ENUM(name, key) PEN_OPTIMIZER_##name,
    PEN_OPTIMIZER_TABLE(PEN_OPTIMIZER_ENUM)
#undef PEN_OPTIMIZER_ENUM
        PEN_OPTIMIZERS
};

/* Without unused bytes: equal recipes have equal bytes. */
struct pen_recipe {
    enum pen_dispatcher dispatcher;
    enum pen_graphs graphs;
    unsigned modules;        /* recomputed where a stage says selective: bits
                                1u << PEN_MODULE_...; 0: the target's own */
    unsigned offloaded;      /* their inputs wait on the host; the same bits */
    uint32_t offload_blocks; /* of a rank: all their activations do */
    enum pen_optimizer_kind optimizer;
    uint32_t gradient_bytes; /* of one accumulated gradient; 0: as usual */
    uint32_t master_bytes;   /* of one master weight, as the others */
    uint32_t moment_bytes;   /* of both moments together */
    uint32_t mtp_blocks;   /* after the last block, to predict further tokens */
    bool overlaps_experts; /* during another micro-batch's work */
    bool delays_weights;   /* their gradients fill what is left free */
    bool drops_tokens;     /* beyond an equal share for each expert */
    bool is_paged;         /* stashes of experts in pages, without holes */
    bool has_fused_experts;    /* all experts of a rank in one kernel */
    bool offloads_optimizer;   /* moments and masters, and their step */
    bool gathers_narrow;       /* parameters in the 8 bits of the products */
    bool has_narrow_attention; /* attention in 8 bits, too */
};

/* The keys, NULL after the last one. */
extern const char *const pen_dispatcher_names[PEN_DISPATCHERS + 1];
extern const char *const pen_graphs_names[PEN_GRAPHSES + 1];
extern const char *const pen_module_names[PEN_MODULES + 1];
extern const char *const pen_optimizer_names[PEN_OPTIMIZERS + 1];

/* The kind of a recipe's member. */
enum pen_recipe_kind {
    PEN_RECIPE_FLAG,
    PEN_RECIPE_WORD,   /* one of names */
    PEN_RECIPE_LIST,   /* bits, each one of names */
    PEN_RECIPE_COUNT,  /* up to most */
    PEN_RECIPE_CHOICE, /* a number whose bit of choices is set */
};

/* A member of a recipe under its key of plan.json. */
struct pen_recipe_field {
    const char *key;
    enum pen_recipe_kind kind;
    size_t at;
    const char *const *names;
    unsigned most;    /* or the number of names */
    unsigned choices; /* without 0 */
};

/* The members in the order of plan.json; a NULL key after the last one. */
extern const struct pen_recipe_field pen_recipe_fields[];

/* The value of a setting as a number: of a flag 0 or 1, of a list its bits. */
unsigned pen_recipe_get(const struct pen_recipe *recipe,
                        const struct pen_recipe_field *field);
void pen_recipe_set(struct pen_recipe *recipe,
                    const struct pen_recipe_field *field, unsigned value);

/* Returns whether the member may have this value; 0 is always allowed. */
bool pen_recipe_allows(const struct pen_recipe_field *field, unsigned value);

/*
 * Parses "mlp,core_attn" as bits 1u << PEN_MODULE_...; false where a word is
 * not a module.
 */
bool pen_modules_parse(const char *text, unsigned *out);

/* Returns whether all members are zero. */
bool pen_recipe_is_plain(const struct pen_recipe *recipe);

/* Prints JSON, {"graphs": "full"}, without members that are 0. */
void pen_recipe_print(const struct pen_recipe *recipe, struct pen_text *out);

#endif
