#include "cli/plan/options.h"

#include "cli/program/field_rows.h"

#include <string.h>

enum { TYPE_ALLTOALL, TYPE_ALLGATHER, TYPE_FLEX, TYPES };
enum { BACKEND_DEEPEP, BACKEND_HYBRIDEP, BACKENDS };
enum { IMPL_NONE, IMPL_LOCAL, IMPL_TRANSFORMER_ENGINE, IMPL_FULL, IMPLS };

static const char *const dispatcher_types[] = {"alltoall", "allgather", "flex",
                                               NULL};
static const char *const flex_backends[] = {"deepep", "hybridep", NULL};
static const char *const graph_impls[] = {"none", "local", "transformer_engine",
                                          "full_iteration", NULL};

#define AT(member) offsetof(struct pen__plan_args, recipe_args.member)
#define MOST_OFFLOADED 65536
#define MOST_MTP 64

const struct pen__field pen__recipe_options[] = {
    COUNT("expert-tensor-parallel-size", expert_tp, 1, PEN_PLAN_MAX_DEGREE,
          "devices that share the tensors of an expert; when not given, 1 with "
          "ep "
          "for megatron, else as tp"),
    COUNT("etp", expert_tp, 1, PEN_PLAN_MAX_DEGREE, "the same"),
    WORD(
        "dispatcher", dispatcher, pen_dispatcher_names,
        "how tokens reach their experts: alltoall, allgather, deepep (one copy "
        "per node) or hybridep (also NVLink over several nodes); alltoall when "
        "not given"),
    WORD("moe-token-dispatcher-type", dispatcher_type, dispatcher_types,
         "the same in Megatron's words: alltoall, allgather or flex"),
    WORD("moe-flex-dispatcher-backend", backend, flex_backends,
         "backend of the flex dispatcher: deepep or hybridep; deepep when not "
         "given"),
    FLAG("overlap-moe-expert-parallel-comm", overlaps_experts,
         "send messages of experts while another micro-batch computes"),
    FLAG("delay-wgrad-compute", delays_weights,
         "fill the gaps of that overlap with weight gradients"),
    FLAG("drop-tokens", drops_tokens,
         "drop tokens beyond an equal share for each expert"),
    FLAG("moe-paged-stash", is_paged, "keep stored inputs of experts in pages"),
    FLAG("fused-experts", has_fused_experts,
         "compute all experts of a device in one kernel"),
    WORD(
        "graphs", graphs, pen_graphs_names,
        "work that is launched as one piece: none, modules (attention, router, "
        "dense MLP) or full (the whole step); none when not given"),
    WORD("cuda-graph-impl", graph_impl, graph_impls,
         "the same in Megatron's words: none, local, transformer_engine or "
         "full_iteration"),
    TEXT("recompute-modules", "LIST", modules,
         "modules that selective recomputation computes again, as "
         "moe_act,layernorm; also core_attn, mla_up_proj, mlp, moe, "
         "shared_experts; when not given, plan chooses them for megatron; else "
         "the target's usual ones"),
    TEXT("offload-modules", "LIST", offloaded,
         "modules whose inputs wait in the host's memory, from the same list"),
    COUNT("cpu-offloading-num-layers", offload_blocks, 1, MOST_OFFLOADED,
          "blocks whose activations wait in the host's memory; needs pp 1"),
    COUNT("offload-blocks", offload_blocks, 1, MOST_OFFLOADED, "the same"),
    FLAG("optimizer-cpu-offload", offloads_optimizer,
         "keep and step the optimizer's state in the host's memory"),
    WORD("optimizer", optimizer, pen_optimizer_names,
         "adam, adam8 (moments in 8 bits), adafactor or muon; adam when not "
         "given"),
    FLAG("grad-reduce-in-bf16", has_narrow_gradients,
         "accumulate and sum gradients in 2 bytes"),
    COUNT("master-bytes", master_bytes, 2, 4,
          "bytes of a master weight: 2 or 4; those of the target when not "
          "given"),
    COUNT("moment-bytes", moment_bytes, 2, 8,
          "bytes of both moments of a weight: 2 to 6 or 8; when not given, 8, "
          "or 2 with adam8"),
    FLAG("fp8-param-gather", gathers_narrow,
         "gather weights in the 8 bits of the products"),
    FLAG("fp8-dot-product-attention", has_narrow_attention,
         "also compute attention in 8 bits"),
    COUNT("mtp-num-layers", mtp_blocks, 1, MOST_MTP,
          "train N blocks that predict further tokens; none when not given"),
    {.name = NULL}};

void pen__recipe_args_init(struct pen__recipe_args *args)
{
    *args = (struct pen__recipe_args){.dispatcher = PEN_DISPATCHERS,
                                      .dispatcher_type = TYPES,
                                      .backend = BACKENDS,
                                      .graphs = PEN_GRAPHSES,
                                      .graph_impl = IMPLS,
                                      .optimizer = PEN_OPTIMIZERS};
}

static enum pen_dispatcher read_dispatcher(const struct pen__recipe_args *args,
                                           const struct argp_state *state)
{
    bool is_flex = args->dispatcher_type == TYPE_FLEX;
    if (args->dispatcher != PEN_DISPATCHERS &&
        (args->dispatcher_type != TYPES || args->backend != BACKENDS))
        argp_error(state, "--dispatcher and --moe-token-dispatcher-type say "
                          "the same; give only one of them");
    if (args->backend != BACKENDS && !is_flex)
        argp_error(state, "--moe-flex-dispatcher-backend needs "
                          "--moe-token-dispatcher-type flex");
    if (args->dispatcher != PEN_DISPATCHERS)
        return (enum pen_dispatcher)args->dispatcher;
    if (is_flex)
        return args->backend == BACKEND_HYBRIDEP ? PEN_DISPATCHER_HYBRIDEP
                                                 : PEN_DISPATCHER_DEEPEP;
    return args->dispatcher_type == TYPE_ALLGATHER ? PEN_DISPATCHER_ALLGATHER
                                                   : PEN_DISPATCHER_ALLTOALL;
}

static enum pen_graphs read_graphs(const struct pen__recipe_args *args,
                                   const struct argp_state *state)
{
    if (args->graphs != PEN_GRAPHSES && args->graph_impl != IMPLS)
        argp_error(state, "--graphs and --cuda-graph-impl say the same; give "
                          "only one of them");
    if (args->graphs != PEN_GRAPHSES)
        return (enum pen_graphs)args->graphs;
    switch (args->graph_impl) {
    case IMPL_LOCAL:
    case IMPL_TRANSFORMER_ENGINE:
        return PEN_GRAPHS_MODULES;
    case IMPL_FULL:
        return PEN_GRAPHS_FULL;
    default:
        return PEN_GRAPHS_NONE;
    }
}

static void refuse_list(const char *option, const char *text,
                        const struct argp_state *state)
{
    struct pen_text words = PEN_TEXT_EMPTY;
    for (int i = 0; i < PEN_MODULES; i++)
        pen_text_add(&words, "%s%s", i == 0 ? "" : ", ", pen_module_names[i]);
    argp_error(state, "--%s %s: expected a list, as moe_act,layernorm, of %s",
               option, text, pen_text_string(&words));
    pen_text_release(&words);
}

/* "moe_act,layernorm" as bits; NULL is none. */
static unsigned read_modules(const char *option, const char *text,
                             const struct argp_state *state)
{
    unsigned bits = 0;
    if (text != NULL && !pen_modules_parse(text, &bits))
        refuse_list(option, text, state);
    return bits;
}

static void check_bytes(const struct pen_recipe *recipe,
                        const struct argp_state *state)
{
    for (const struct pen_recipe_field *field = pen_recipe_fields;
         field->key != NULL; field++)
        if (field->kind == PEN_RECIPE_CHOICE &&
            !pen_recipe_allows(field, pen_recipe_get(recipe, field)))
            argp_error(state, "%s must be 2%s or %s",
                       field->at == offsetof(struct pen_recipe, moment_bytes)
                           ? "--moment-bytes"
                           : "--master-bytes",
                       field->choices >> 3 & 1 ? ", 3, 4, 5, 6" : "",
                       field->choices >> 3 & 1 ? "8" : "4");
}

void pen__recipe_args_take(const struct pen__recipe_args *args,
                           const struct argp_state *state,
                           struct pen_recipe *out)
{
    *out = (struct pen_recipe){
        .dispatcher = read_dispatcher(args, state),
        .overlaps_experts = args->overlaps_experts,
        .delays_weights = args->delays_weights,
        .drops_tokens = args->drops_tokens,
        .is_paged = args->is_paged,
        .has_fused_experts = args->has_fused_experts,
        .graphs = read_graphs(args, state),
        .modules = read_modules("recompute-modules", args->modules, state),
        .offloaded = read_modules("offload-modules", args->offloaded, state),
        .offload_blocks = (uint32_t)args->offload_blocks,
        .offloads_optimizer = args->offloads_optimizer,
        .optimizer = args->optimizer == PEN_OPTIMIZERS
                         ? PEN_OPTIMIZER_ADAM
                         : (enum pen_optimizer_kind)args->optimizer,
        .gradient_bytes = args->has_narrow_gradients ? 2 : 0,
        .master_bytes = (uint32_t)args->master_bytes,
        .moment_bytes = (uint32_t)args->moment_bytes,
        .gathers_narrow = args->gathers_narrow,
        .has_narrow_attention = args->has_narrow_attention,
        .mtp_blocks = (uint32_t)args->mtp_blocks};
    check_bytes(out, state);
}
