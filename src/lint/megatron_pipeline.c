/*
 * Layers and pipeline stages of Megatron. A shipped recipe had 48 layers, 8
 * pipeline ranks and 4 virtual stages on each (Megatron-Bridge, pull request
 * 4604): six layers of a rank do not divide by four.
 */
#include "export/megatron_layout.h"
#include "lint/rules.h"

#include <inttypes.h>
#include <string.h>

struct pipeline {
    uint64_t layers; /* 0: unknown, as all of these */
    uint64_t pp;
    uint64_t chunks; /* virtual stages of a rank; 1: none */
    uint64_t first;
    uint64_t last;
    bool is_uneven;
};

static struct pipeline read_pipeline(const struct pen__lint_config *config)
{
    struct pipeline found = {
        .layers = pen__lint_count(config, PEN__LINT_LAYERS, 0),
        .pp = pen__lint_count(config, PEN__LINT_PP, 1),
        .chunks = pen__lint_count(config, PEN__LINT_CHUNKS, 1),
        .first = pen__lint_count(config, PEN__LINT_FIRST, 0),
        .last = pen__lint_count(config, PEN__LINT_LAST, 0),
        .is_uneven = !pen__lint_is_off(config, PEN__LINT_FIRST) ||
                     !pen__lint_is_off(config, PEN__LINT_LAST)};
    if (found.layers > 0)
        found.layers += (uint64_t)pen__lint_is_on(
                            config, "account-for-embedding-in-pipeline-split") +
                        (uint64_t)pen__lint_is_on(
                            config, "account-for-loss-in-pipeline-split");
    return found;
}

/* ---- stages ---- */

static void judge_even(struct pen__lint_judge *judge,
                       const struct pipeline *pipeline)
{
    pen__lint_what(judge,
                   "%" PRIu64 " layers do not divide into %" PRIu64
                   " pipeline stages",
                   pipeline->layers, pipeline->pp);
    pen__lint_why(judge, "Without a layout every stage has the same number of "
                         "layers; the model is not built.");
    pen__lint_todo(judge,
                   "Use %" PRIu64 " stages, or give "
                   "--pipeline-model-parallel-layout or layers of the first "
                   "and last stage.",
                   pen__lint_divisor(pipeline->layers, pipeline->pp));
    pen__lint_file_at(judge, PEN_LINT_RULE_PIPELINE_LAYERS, PEN__LINT_PP);
}

static void judge_virtual(struct pen__lint_judge *judge,
                          const struct pipeline *pipeline, uint64_t layers)
{
    if (pipeline->chunks < 2 || layers % pipeline->chunks == 0)
        return;
    pen__lint_what(judge,
                   "%" PRIu64 " layers of a pipeline rank do not divide into "
                   "%" PRIu64 " virtual stages",
                   layers, pipeline->chunks);
    pen__lint_why(judge,
                  "%" PRIu64 " layers on %" PRIu64
                  " pipeline ranks give %" PRIu64
                  " each; the model fails at construction.",
                  pipeline->layers, pipeline->pp, layers);
    pen__lint_todo(judge, "Use %" PRIu64 " virtual stages.",
                   pen__lint_divisor(layers, pipeline->chunks));
    pen__lint_file_at(judge, PEN_LINT_RULE_VIRTUAL_STAGES, PEN__LINT_CHUNKS);
}

/* Judges virtual stages that are given by their layers. */
static void judge_chunk_layers(struct pen__lint_judge *judge,
                               const struct pipeline *pipeline)
{
    uint64_t each = pen__lint_count(judge->config, PEN__LINT_CHUNK_LAYERS, 0);
    uint64_t layers = pipeline->layers / pipeline->pp;
    if (each == 0 || layers % each == 0)
        return;
    pen__lint_what(judge,
                   "%" PRIu64 " layers of a pipeline rank do not divide into "
                   "virtual stages of %" PRIu64,
                   layers, each);
    pen__lint_why(judge, "Every virtual stage has the same number of layers.");
    pen__lint_todo(judge, "Use %" PRIu64 " layers.",
                   pen__lint_divisor(layers, each < layers ? each : layers));
    pen__lint_file_at(judge, PEN_LINT_RULE_VIRTUAL_STAGES,
                      PEN__LINT_CHUNK_LAYERS);
}

/*
 * Judges uneven stages: the layers of the first and last stage are given; the
 * others share the rest.
 */
static void judge_uneven(struct pen__lint_judge *judge,
                         const struct pipeline *pipeline)
{
    uint64_t ends = pipeline->first + pipeline->last;
    uint64_t inner = pipeline->pp - (pipeline->first > 0) -
                     (pipeline->last > 0 && pipeline->pp > 1);
    bool is_known = ends > 0 && pipeline->pp > 1 && !judge->config->is_open;
    if (!is_known)
        return;
    bool is_even = ends <= pipeline->layers &&
                   (inner == 0 ? ends == pipeline->layers
                               : (pipeline->layers - ends) % inner == 0);
    if (is_even)
        return;
    pen__lint_what(judge,
                   "%" PRIu64 " layers at the ends leave %" PRIu64
                   " others no whole share of %" PRIu64,
                   ends, inner, pipeline->layers);
    pen__lint_why(judge, "The stages between the first and the last have the "
                         "same number of layers.");
    pen__lint_todo(judge, "Choose other numbers for the first and last stage.");
    pen__lint_file_at(judge, PEN_LINT_RULE_PIPELINE_LAYERS,
                      pipeline->first > 0 ? PEN__LINT_FIRST : PEN__LINT_LAST);
}

static void judge_stages(struct pen__lint_judge *judge,
                         const struct pipeline *pipeline)
{
    const struct pen__lint_config *config = judge->config;
    bool is_told = pipeline->layers > 0 && pipeline->pp > 0;
    /* A recipe may have a layout that its overrides do not show. */
    bool is_even = config->dialect == PEN_LINT_BRIDGE
                       ? pen__lint_find(config, PEN__LINT_FIRST) == NULL &&
                             pen__lint_find(config, PEN__LINT_LAST) == NULL
                       : !pipeline->is_uneven;
    if (!is_told)
        return;
    if (!is_even)
        judge_uneven(judge, pipeline);
    else if (pipeline->pp > 1 && pipeline->layers % pipeline->pp != 0)
        judge_even(judge, pipeline);
    else {
        judge_virtual(judge, pipeline, pipeline->layers / pipeline->pp);
        judge_chunk_layers(judge, pipeline);
    }
}

/* ---- layouts ---- */

#define LETTERS "EtmdL|(),*0123456789 "

static void file_layout(struct pen__lint_judge *judge)
{
    pen__lint_file_at(judge, PEN_LINT_RULE_PIPELINE_LAYOUT, PEN__LINT_LAYOUT);
}

static void judge_layout(struct pen__lint_judge *judge,
                         const struct pipeline *pipeline,
                         const struct pen__lint_setting *setting)
{
    struct pen_megatron_layout layout;
    uint64_t layers = pen__lint_count(judge->config, PEN__LINT_LAYERS, 0);
    if (setting->value == NULL || setting->is_list)
        return;
    if (strspn(setting->value, LETTERS) != strlen(setting->value)) {
        pen__lint_what(judge, "the pipeline layout has other letters than "
                              "Megatron-LM reads");
        pen__lint_why(judge, "Each letter is a layer, and others have no "
                             "meaning.");
        pen__lint_todo(judge, "Write E for the embedding, t for each layer, L "
                              "for the loss, and | between stages.");
        file_layout(judge);
        return;
    }
    /* Some that Megatron-LM runs have no plan; they are not judged. */
    if (pen_megatron_layout_parse(setting->value, &layout, NULL) != PEN_OK)
        return;
    if (layers > 0 && layout.num_all_blocks != layers) {
        pen__lint_what(judge, "the layout has %u layers, the model %" PRIu64,
                       layout.num_all_blocks, layers);
        pen__lint_why(judge, "Every layer is in one stage of the layout.");
        pen__lint_todo(judge, "Write one t for each of %" PRIu64 " layers.",
                       layers);
        file_layout(judge);
    } else if (pipeline->pp > 0 && layout.num_stages % pipeline->pp != 0) {
        pen__lint_what(judge,
                       "the layout has %u stages, which do not divide by "
                       "%" PRIu64 " pipeline ranks",
                       layout.num_stages, pipeline->pp);
        pen__lint_why(judge, "Every rank has the same number of stages.");
        pen__lint_todo(judge, "Write a multiple of %" PRIu64 " stages.",
                       pipeline->pp);
        file_layout(judge);
    }
    pen_megatron_layout_release(&layout);
}

/* ---- the interleaved schedule ---- */

static bool is_interleaved(const struct pen__lint_config *config,
                           const struct pipeline *pipeline)
{
    return pipeline->chunks > 1 ||
           pen__lint_count(config, PEN__LINT_CHUNK_LAYERS, 0) > 0;
}

static const char *chunk_key(const struct pen__lint_config *config)
{
    return pen__lint_find(config, PEN__LINT_CHUNKS) != NULL
               ? PEN__LINT_CHUNKS
               : PEN__LINT_CHUNK_LAYERS;
}

static void judge_interleaved(struct pen__lint_judge *judge,
                              const struct pipeline *pipeline)
{
    const struct pen__lint_config *config = judge->config;
    bool is_blocking = pen__lint_is_on(config, "no-overlap-p2p-communication");
    uint64_t least = is_blocking ? 3 : 2;
    uint64_t layers = pipeline->layers;
    uint64_t each = pen__lint_count(config, PEN__LINT_CHUNK_LAYERS, 0);
    /*
     * All layers of a rank in one virtual stage means that nothing is
     * interleaved.
     */
    if (each > 0 &&
        (layers == 0 || pipeline->pp == 0 || each * pipeline->pp >= layers))
        return;
    if (pipeline->pp == 0 || pipeline->pp >= least)
        return;
    pen__lint_what(judge,
                   "virtual stages need %" PRIu64
                   " pipeline ranks or more, there %s %" PRIu64,
                   least, pipeline->pp == 1 ? "is" : "are", pipeline->pp);
    pen__lint_why(judge, is_blocking
                             ? "Without overlapping messages two ranks would "
                               "exchange several at once."
                             : "The interleaved schedule passes activations "
                               "between ranks.");
    pen__lint_todo(judge, "Raise --pipeline-model-parallel-size, or delete the "
                          "virtual stages.");
    pen__lint_file_at(judge, PEN_LINT_RULE_VIRTUAL_STAGES, chunk_key(config));
}

/* Micro-batches of a replica come in groups of the pipeline's size. */
static void judge_microbatches(struct pen__lint_judge *judge,
                               const struct pipeline *pipeline)
{
    const struct pen__lint_config *config = judge->config;
    uint64_t replica = pipeline->pp * pen__lint_count(config, PEN__LINT_TP, 1) *
                       pen__lint_count(config, PEN__LINT_CP, 1);
    uint64_t micro = pen__lint_count(config, PEN__LINT_MICRO, 0);
    uint64_t global = pen__lint_count(config, PEN__LINT_GLOBAL, 0);
    uint64_t replicas = replica == 0 ? 0 : config->world / replica;
    uint64_t each = micro * replicas;
    if (each == 0 || pipeline->pp < 2 || global % each != 0 || global == 0 ||
        config->world % replica != 0 || global / each >= pipeline->pp)
        return;
    pen__lint_what(judge,
                   "%" PRIu64 " micro-batches are fewer than %" PRIu64
                   " pipeline ranks",
                   global / each, pipeline->pp);
    pen__lint_why(judge, "The interleaved schedule takes micro-batches in "
                         "groups of at least the number of pipeline ranks.");
    pen__lint_todo(judge, "Use a global batch of %" PRIu64 " or more.",
                   each * pipeline->pp);
    pen__lint_file_at(judge, PEN_LINT_RULE_MICROBATCHES, PEN__LINT_GLOBAL);
}

void pen__lint_megatron_pipeline(struct pen__lint_judge *judge)
{
    const struct pen__lint_config *config = judge->config;
    struct pipeline pipeline = read_pipeline(config);
    const struct pen__lint_setting *layout =
        pen__lint_find(config, PEN__LINT_LAYOUT);
    if (layout != NULL)
        judge_layout(judge, &pipeline, layout);
    else
        judge_stages(judge, &pipeline);
    if (is_interleaved(config, &pipeline)) {
        judge_interleaved(judge, &pipeline);
        judge_microbatches(judge, &pipeline);
    }
}
