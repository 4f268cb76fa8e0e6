/* Turns the layout options of a Megatron line into a plan. */
#include "export/megatron_line.h"

#include "core/profile.h"
#include "export/export_internal.h"
#include "export/megatron_layout.h"
#include "export/megatron_model.h"
#include "export/megatron_recipe.h"
#include "export/megatron_words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_SEED 1234u
#define NAME "a Megatron line"

struct degrees {
    uint32_t tp;
    uint32_t pp;
    uint32_t cp;
    uint32_t ep;
    uint32_t dp;
    uint32_t micro_batch;
    uint32_t num_microbatches;
};

/* ---- ranks and batches ---- */

/* The caller's number counts; a line that starts another is not silent. */
static void note_ranks(const struct pen__megatron_words *words, uint64_t world,
                       struct pen_text *notes)
{
    uint32_t ranks = 0;
    uint32_t nodes = 1;
    if (pen__megatron_count(words, PEN__MEGATRON_NODE_RANKS,
                            PEN_PLAN_MAX_DEGREE, &ranks, NULL) == PEN_OK &&
        pen__megatron_count(words, PEN__MEGATRON_NODES, PEN_PLAN_MAX_DEGREE,
                            &nodes, NULL) == PEN_OK &&
        ranks > 0 && (uint64_t)ranks * nodes != world)
        pen__note(notes,
                  "the line starts %" PRIu64 " ranks, but there are %" PRIu64
                  " devices: all of them are used",
                  (uint64_t)ranks * nodes, world);
}

static pen_status find_world(const struct pen__megatron_words *words,
                             const struct degrees *degrees, uint64_t *world,
                             struct pen_text *notes, struct pen_text *why)
{
    uint32_t ranks = 0;
    uint32_t nodes = 1;
    if (*world > 0) {
        note_ranks(words, *world, notes);
        return PEN_OK;
    }
    pen_status status = pen__megatron_count(words, PEN__MEGATRON_NODE_RANKS,
                                            PEN_PLAN_MAX_DEGREE, &ranks, why);
    if (status == PEN_OK)
        status = pen__megatron_count(words, PEN__MEGATRON_NODES,
                                     PEN_PLAN_MAX_DEGREE, &nodes, why);
    if (status != PEN_OK)
        return status;
    *world = (uint64_t)ranks * nodes;
    if (ranks > 0)
        return PEN_OK;
    *world = (uint64_t)degrees->tp * degrees->pp * degrees->cp;
    pen__note(notes,
              "the number of ranks is not given: the plan assumes %" PRIu64
              ", one replica",
              *world);
    return PEN_OK;
}

static pen_status read_degrees(const struct pen__megatron_words *words,
                               uint64_t world, struct degrees *out,
                               struct pen_text *notes, struct pen_text *why)
{
    const struct {
        enum pen__megatron_option option;
        uint32_t *out;
    } counts[] = {{PEN__MEGATRON_TP, &out->tp},
                  {PEN__MEGATRON_PP, &out->pp},
                  {PEN__MEGATRON_CP, &out->cp},
                  {PEN__MEGATRON_EP, &out->ep}};
    pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < 4; i++)
        status = pen__megatron_count(words, counts[i].option,
                                     PEN_PLAN_MAX_STAGES, counts[i].out, why);
    if (status == PEN_OK)
        status = find_world(words, out, &world, notes, why);
    if (status != PEN_OK)
        return status;
    uint64_t replica = (uint64_t)out->tp * out->pp * out->cp;
    if (world % replica != 0 || world / replica > PEN_PLAN_MAX_DEGREE) {
        pen_why(why, "%" PRIu64 " ranks do not divide by tp %u x pp %u x cp %u",
                world, out->tp, out->pp, out->cp);
        return PEN_INVALID;
    }
    out->dp = (uint32_t)(world / replica);
    return PEN_OK;
}

static pen_status read_batches(const struct pen__megatron_words *words,
                               struct degrees *out, struct pen_text *why)
{
    uint32_t global = 0;
    pen_status status =
        pen__megatron_count(words, PEN__MEGATRON_MICRO_BATCH,
                            PEN_PLAN_MAX_COUNT, &out->micro_batch, why);
    if (status == PEN_OK)
        status = pen__megatron_count(words, PEN__MEGATRON_GLOBAL_BATCH,
                                     UINT32_MAX, &global, why);
    if (status != PEN_OK || global == 0)
        return status;
    uint64_t each = (uint64_t)out->micro_batch * out->dp;
    if (global % each != 0 || global / each > PEN_PLAN_MAX_COUNT) {
        pen_why(why,
                "--global-batch-size %u does not divide by a micro-batch of "
                "%u on %u replicas",
                global, out->micro_batch, out->dp);
        return PEN_INVALID;
    }
    out->num_microbatches = (uint32_t)(global / each);
    return PEN_OK;
}

/* ---- stages ---- */

static pen_status refuse_split(uint32_t num_blocks, uint32_t pp, uint32_t vpp,
                               struct pen_text *why)
{
    pen_why(why, "%u layers do not divide into %u stages on each of %u ranks",
            num_blocks, vpp, pp);
    return PEN_INVALID;
}

static pen_status read_layout(const struct pen__megatron_words *words,
                              const struct pen_model *model, uint32_t pp,
                              struct pen_megatron_layout *out,
                              struct pen_text *why)
{
    struct pen_megatron_layout layout;
    pen_status status = pen_megatron_layout_parse(
        words->values[PEN__MEGATRON_LAYOUT], &layout, why);
    if (status != PEN_OK)
        return status;
    if (layout.num_all_blocks == model->num_blocks &&
        layout.num_stages % pp == 0) {
        *out = layout;
        return PEN_OK;
    }
    pen_why(why,
            "the layout has %u layers in %u stages; --num-layers is %u, and "
            "the stages must divide by pp %u",
            layout.num_all_blocks, layout.num_stages, model->num_blocks, pp);
    pen_megatron_layout_release(&layout);
    return PEN_INVALID;
}

/* Stages on a rank; 0 where layers of a stage are given that do not divide. */
static pen_status read_chunks(const struct pen__megatron_words *words,
                              uint32_t num_blocks, uint32_t pp, uint32_t *out,
                              struct pen_text *why)
{
    uint32_t each = 0;
    *out = 1;
    pen_status status = pen__megatron_count(words, PEN__MEGATRON_CHUNKS,
                                            PEN_PLAN_MAX_STAGES, out, why);
    if (status == PEN_OK)
        status = pen__megatron_count(words, PEN__MEGATRON_CHUNK_LAYERS,
                                     PEN_PLAN_MAX_STAGES, &each, why);
    if (status != PEN_OK)
        return status;
    if (each > 0) {
        if (num_blocks % pp != 0 || num_blocks / pp % each != 0)
            return refuse_split(num_blocks, pp, each, why);
        *out = num_blocks / pp / each;
    }
    if ((uint64_t)*out * pp > PEN_PLAN_MAX_STAGES)
        return refuse_split(num_blocks, pp, *out, why);
    return PEN_OK;
}

/* The layers of all but the first or last rank are dealt evenly. */
static pen_status deal_ends(struct pen_megatron_layout *layout,
                            uint32_t num_blocks, uint32_t pp, uint32_t first,
                            uint32_t last, struct pen_text *why)
{
    uint32_t vpp = layout->num_stages / pp;
    uint32_t inner = pp - (first > 0) - (last > 0);
    if (first > num_blocks || last > num_blocks - first)
        return refuse_split(num_blocks, pp, vpp, why);
    uint32_t rest = num_blocks - first - last;
    if (inner == 0 ? rest != 0 : rest % inner != 0)
        return refuse_split(num_blocks, pp, vpp, why);
    for (uint32_t i = 0; i < layout->num_stages; i++) {
        uint32_t rank = i % pp;
        uint32_t blocks = rank == 0 && first > 0       ? first
                          : rank == pp - 1 && last > 0 ? last
                                                       : rest / inner;
        if (blocks % vpp != 0)
            return refuse_split(num_blocks, pp, vpp, why);
        layout->num_blocks[i] = blocks / vpp;
    }
    return PEN_OK;
}

/* Embedding and head may stand for a layer each. */
static pen_status deal_evenly(const struct pen__megatron_words *words,
                              struct pen_megatron_layout *layout,
                              uint32_t num_blocks, uint32_t pp,
                              struct pen_text *why)
{
    bool has_embedding =
        pen__megatron_has(words, PEN__MEGATRON_COUNT_EMBEDDING);
    bool has_loss = pen__megatron_has(words, PEN__MEGATRON_COUNT_LOSS);
    uint32_t all = num_blocks + has_embedding + has_loss;
    uint32_t num_stages = layout->num_stages;
    if (all % num_stages != 0)
        return refuse_split(num_blocks, pp, num_stages / pp, why);
    for (uint32_t i = 0; i < num_stages; i++)
        layout->num_blocks[i] = all / num_stages;
    layout->num_blocks[0] -= has_embedding;
    layout->num_blocks[num_stages - 1] -= has_loss;
    return PEN_OK;
}

static pen_status deal_layers(const struct pen__megatron_words *words,
                              const struct pen_model *model, uint32_t pp,
                              struct pen_megatron_layout *out,
                              struct pen_text *why)
{
    uint32_t vpp;
    uint32_t first = 0;
    uint32_t last = 0;
    pen_status status = read_chunks(words, model->num_blocks, pp, &vpp, why);
    if (status == PEN_OK)
        status = pen__megatron_count(words, PEN__MEGATRON_FIRST_LAYERS,
                                     PEN_PLAN_MAX_COUNT, &first, why);
    if (status == PEN_OK)
        status = pen__megatron_count(words, PEN__MEGATRON_LAST_LAYERS,
                                     PEN_PLAN_MAX_COUNT, &last, why);
    if (status != PEN_OK)
        return status;
    struct pen_megatron_layout layout = {.num_stages = pp * vpp};
    layout.num_blocks = calloc(layout.num_stages, sizeof *layout.num_blocks);
    if (layout.num_blocks == NULL) {
        pen_why(why, "no memory for a plan");
        return PEN_NOMEM;
    }
    if (pp > 1 && (first > 0 || last > 0))
        status = deal_ends(&layout, model->num_blocks, pp, first, last, why);
    else
        status = deal_evenly(words, &layout, model->num_blocks, pp, why);
    if (status == PEN_OK)
        *out = layout;
    else
        pen_megatron_layout_release(&layout);
    return status;
}

static pen_status set_stages(struct pen_plan *plan,
                             const struct pen_megatron_layout *layout,
                             struct pen_text *why)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        struct pen_layer_range *stage = &plan->stages[i];
        stage->first = next;
        stage->count =
            layout->num_blocks[i] + (i == 0) + (i + 1 == plan->num_stages);
        next += stage->count;
        if (stage->count == 0) {
            pen_why(why,
                    "stage %u of the layout is empty, which a plan does not "
                    "support",
                    i);
            return PEN_INVALID;
        }
    }
    return PEN_OK;
}

/* ---- the rest ---- */

static enum pen_number read_number(const struct pen__megatron_words *words)
{
    if (pen__megatron_has(words, PEN__MEGATRON_FP4))
        return PEN_NUMBER_NVFP4;
    if (pen__megatron_has(words, PEN__MEGATRON_FP8))
        return pen__megatron_is(words, PEN__MEGATRON_FP8_RECIPE, "mxfp8")
                   ? PEN_NUMBER_MXFP8
                   : PEN_NUMBER_FP8;
    if (pen__megatron_has(words, PEN__MEGATRON_BF16))
        return PEN_NUMBER_BF16;
    return pen__megatron_has(words, PEN__MEGATRON_FP16) ? PEN_NUMBER_FP16
                                                        : PEN_NUMBER_F32;
}

static enum pen_sharding read_sharding(const struct pen__megatron_words *words,
                                       struct pen_text *notes)
{
    if (pen__megatron_has(words, PEN__MEGATRON_TORCH_FSDP))
        return PEN_SHARDING_ZERO3;
    if (!pen__megatron_has(words, PEN__MEGATRON_FSDP))
        return pen__megatron_has(words, PEN__MEGATRON_DISTRIBUTED)
                   ? PEN_SHARDING_ZERO1
                   : PEN_SHARDING_NONE;
    const char *strategy = words->values[PEN__MEGATRON_STRATEGY];
    if (strategy == NULL || strcmp(strategy, "optim_grads_params") == 0)
        return PEN_SHARDING_ZERO3;
    if (strcmp(strategy, "optim_grads") == 0)
        return PEN_SHARDING_ZERO2;
    if (strcmp(strategy, "optim") == 0)
        return PEN_SHARDING_ZERO1;
    if (strcmp(strategy, "no_shard") != 0)
        pen__note(notes, "the sharding strategy is unknown: none is assumed");
    return PEN_SHARDING_NONE;
}

/* Reads recomputation. With `block`, N layers of each stage are recomputed. */
static void read_recompute(const struct pen__megatron_words *words,
                           const struct pen_megatron_layout *layout,
                           struct pen_plan *plan, struct pen_text *notes)
{
    enum pen_recompute recompute = PEN_RECOMPUTE_NONE;
    uint32_t num_layers = 1;
    bool is_partial = false;
    if (pen__megatron_has(words, PEN__MEGATRON_RECOMPUTE) ||
        pen__megatron_is(words, PEN__MEGATRON_GRANULARITY, "selective"))
        recompute = PEN_RECOMPUTE_SELECTIVE;
    if (pen__megatron_is(words, PEN__MEGATRON_GRANULARITY, "full"))
        recompute = PEN_RECOMPUTE_FULL;
    bool is_block =
        recompute == PEN_RECOMPUTE_FULL &&
        pen__megatron_is(words, PEN__MEGATRON_METHOD, "block") &&
        pen__megatron_count(words, PEN__MEGATRON_METHOD_LAYERS,
                            PEN_PLAN_MAX_COUNT, &num_layers, NULL) == PEN_OK;
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        plan->stages[i].recompute = recompute;
        is_partial =
            is_partial || (is_block && num_layers < layout->num_blocks[i]);
    }
    if (is_partial)
        pen__note(notes,
                  "Megatron recomputes a part of each stage's layers; the plan "
                  "recomputes all of them");
}

static pen_status name_model(struct pen_plan *plan,
                             const struct pen_model *model,
                             struct pen_text *why)
{
    struct pen_text config = PEN_TEXT_EMPTY;
    pen_model_print(model, &config);
    bool is_set = !config.has_failed && pen_plan_set(&plan->model, NAME) &&
                  pen_plan_set(&plan->config, pen_text_string(&config)) &&
                  pen_plan_set(&plan->schedule.name,
                               plan->degrees[PEN_DEGREE_VPP] > 1 ? "interleaved"
                                                                 : "1f1b");
    pen_text_release(&config);
    if (!is_set) {
        pen_why(why, "no memory for a plan");
        return PEN_NOMEM;
    }
    return pen_profile_hash_model(model, plan->model_hash, why);
}

static void set_degrees(struct pen_plan *plan, const struct degrees *degrees,
                        uint32_t vpp)
{
    plan->degrees[PEN_DEGREE_DP] = degrees->dp;
    plan->degrees[PEN_DEGREE_TP] = degrees->tp;
    plan->degrees[PEN_DEGREE_PP] = degrees->pp;
    plan->degrees[PEN_DEGREE_VPP] = vpp;
    plan->degrees[PEN_DEGREE_CP] = degrees->cp;
    plan->degrees[PEN_DEGREE_EP] = degrees->ep;
    plan->micro_batch = degrees->micro_batch;
    plan->num_microbatches = degrees->num_microbatches;
    plan->logical_replicas = degrees->dp;
    plan->target = PEN_TARGET_MEGATRON;
}

static pen_status read_sizes(const struct pen__megatron_words *words,
                             struct pen_plan *plan, struct pen_text *why)
{
    uint32_t seed = DEFAULT_SEED;
    pen_status status =
        pen__megatron_count(words, PEN__MEGATRON_SEED, UINT32_MAX, &seed, why);
    if (status == PEN_OK)
        status = pen__megatron_count(words, PEN__MEGATRON_SEQ_LENGTH,
                                     PEN_PLAN_MAX_COUNT, &plan->sequence, why);
    plan->seed = seed;
    plan->number = read_number(words);
    plan->has_sequence_parallel = plan->degrees[PEN_DEGREE_TP] > 1 &&
                                  pen__megatron_has(words, PEN__MEGATRON_SP);
    return status;
}

static pen_status fill_plan(const struct pen__megatron_words *words,
                            const struct pen_model *model,
                            const struct pen_megatron_layout *layout,
                            struct pen_plan *plan, struct pen_text *notes,
                            struct pen_text *why)
{
    pen_status status = read_sizes(words, plan, why);
    if (status == PEN_OK)
        status = set_stages(plan, layout, why);
    if (status == PEN_OK)
        status = name_model(plan, model, why);
    if (status != PEN_OK)
        return status;
    plan->sharding = read_sharding(words, notes);
    read_recompute(words, layout, plan, notes);
    plan->recipe.mtp_blocks = layout->num_further;
    status = pen__megatron_read_recipe(words, plan, notes, why);
    if (status == PEN_OK)
        status = pen_plan_check(plan, why);
    return status == PEN_OK ? pen_plan_fits(plan, model, why) : status;
}

static pen_status read_plan(const struct pen__megatron_words *words,
                            const struct pen_model *model, uint64_t world,
                            struct pen_plan **out, struct pen_text *notes,
                            struct pen_text *why)
{
    struct degrees degrees = {1, 1, 1, 1, 1, 1, 1};
    struct pen_megatron_layout layout;
    pen_status status = read_degrees(words, world, &degrees, notes, why);
    if (status == PEN_OK)
        status = read_batches(words, &degrees, why);
    if (status == PEN_OK)
        status = pen__megatron_has(words, PEN__MEGATRON_LAYOUT)
                     ? read_layout(words, model, degrees.pp, &layout, why)
                     : deal_layers(words, model, degrees.pp, &layout, why);
    if (status != PEN_OK)
        return status;
    uint32_t vpp = layout.num_stages / degrees.pp;
    struct pen_plan *plan = pen_plan_create(degrees.pp, vpp);
    if (plan == NULL) {
        pen_why(why, "no memory for a plan");
        status = PEN_NOMEM;
    } else {
        set_degrees(plan, &degrees, vpp);
        status = fill_plan(words, model, &layout, plan, notes, why);
    }
    if (status == PEN_OK)
        *out = plan;
    else
        pen_plan_free(plan);
    pen_megatron_layout_release(&layout);
    return status;
}

pen_status pen_megatron_line_parse(const char *text, size_t length,
                                   uint64_t world_size,
                                   struct pen_model **model,
                                   struct pen_plan **plan,
                                   struct pen_text *notes, struct pen_text *why)
{
    struct pen__megatron_words words;
    struct pen_model *found = NULL;
    pen_status status = pen__megatron_words_init(&words, text, length, why);
    if (status != PEN_OK)
        return status;
    status = pen__megatron_model(&words, &found, notes, why);
    if (status == PEN_OK)
        status = read_plan(&words, found, world_size, plan, notes, why);
    if (status == PEN_OK && words.unread.length > 0)
        pen__note(notes, "not read:%.*s", (int)words.unread.length - 1,
                  pen_text_string(&words.unread));
    if (status == PEN_OK)
        *model = found;
    else
        pen_model_free(found);
    pen__megatron_words_release(&words);
    return status;
}

void pen_megatron_line_overlaps(const char *text, size_t length,
                                struct pen_megatron_overlaps *out)
{
    struct pen__megatron_words words;
    *out = (struct pen_megatron_overlaps){.gradients = false};
    if (pen__megatron_words_init(&words, text, length, NULL) != PEN_OK)
        return;
    out->gradients = pen__megatron_has(&words, PEN__MEGATRON_OVERLAP_GRADIENTS);
    out->parameters =
        pen__megatron_has(&words, PEN__MEGATRON_OVERLAP_PARAMETERS);
    out->loss = pen__megatron_has(&words, PEN__MEGATRON_FUSED_LOSS);
    pen__megatron_words_release(&words);
}
