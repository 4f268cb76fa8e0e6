#include "support/random_plan.h"

#include "base/bug.h"
#include "core/profile.h"
#include "export/export.h"
#include "schedule/generators.h"

#include <stdlib.h>
#include <string.h>

static uint32_t between(struct pen_random *random, uint32_t least,
                        uint32_t most)
{
    return least + pen_random_below(random, most - least + 1);
}

static bool one_in(struct pen_random *random, uint32_t count)
{
    return pen_random_below(random, count) == 0;
}

/* Whatever the version. */
static bool is_for(const char *target, const char *name)
{
    return strncmp(target, name, strlen(name)) == 0;
}

/* ---- models ---- */

static const char *dtype_of(enum pen_number number)
{
    return number == PEN_NUMBER_F32    ? "float32"
           : number == PEN_NUMBER_FP16 ? "float16"
                                       : "bfloat16";
}

/* Models that torchtitan has by name. */
static void add_named(struct pen_random *random, struct pen_text *out)
{
    static const struct {
        const char *family;
        uint32_t numbers[5]; /* hidden, blocks, heads, kv heads, width */
        uint32_t vocab;
        bool is_tied;
    } models[] = {{"llama", {4096, 32, 32, 8, 14336}, 128256, false},
                  {"llama", {8192, 80, 64, 8, 28672}, 128256, false},
                  {"llama", {16384, 126, 128, 8, 53248}, 128256, false},
                  {"qwen3", {1024, 28, 16, 8, 3072}, 151936, true},
                  {"qwen3", {2560, 36, 32, 8, 9728}, 151936, true},
                  {"qwen3", {4096, 36, 32, 8, 12288}, 151936, false},
                  {"qwen3", {5120, 40, 40, 8, 17408}, 151936, false},
                  {"qwen3", {5120, 64, 64, 8, 25600}, 151936, false},
                  {"qwen3_moe", {2048, 48, 32, 4, 6144}, 151936, false}};
    size_t i = pen_random_below(random, sizeof models / sizeof *models);
    const uint32_t *numbers = models[i].numbers;
    pen_text_add(out,
                 "\"model_type\": \"%s\", \"hidden_size\": %u, "
                 "\"num_hidden_layers\": %u, \"num_attention_heads\": %u, "
                 "\"num_key_value_heads\": %u, \"head_dim\": 128, "
                 "\"intermediate_size\": %u, \"vocab_size\": %u, "
                 "\"max_position_embeddings\": 131072, "
                 "\"tie_word_embeddings\": %s",
                 models[i].family, numbers[0], numbers[1], numbers[2],
                 numbers[3], numbers[4], models[i].vocab,
                 models[i].is_tied ? "true" : "false");
    if (strcmp(models[i].family, "qwen3_moe") == 0)
        pen_text_add_string(out, ", \"num_experts\": 128, "
                                 "\"moe_intermediate_size\": 768");
}

static void add_gpt2(struct pen_random *random, struct pen_text *out)
{
    uint32_t heads = 8 * between(random, 1, 8);
    pen_text_add(out,
                 "\"model_type\": \"gpt2\", \"n_embd\": %u, \"n_layer\": %u, "
                 "\"n_head\": %u, \"n_positions\": 131072, \"n_inner\": %u, "
                 "\"vocab_size\": %u, \"tie_word_embeddings\": %s",
                 64 * heads, between(random, 1, 100), heads,
                 64 * between(random, 1, 1000), between(random, 100, 60000),
                 one_in(random, 2) ? "true" : "false");
}

static void add_rope(struct pen_random *random, struct pen_text *out)
{
    pen_text_add(out, ", \"rope_theta\": %u",
                 one_in(random, 2) ? 500000u : 10000u);
    if (one_in(random, 3))
        pen_text_add_string(out, ", \"rope_scaling\": {\"rope_type\": "
                                 "\"llama3\", \"factor\": 8.0, "
                                 "\"low_freq_factor\": 1.0, "
                                 "\"high_freq_factor\": 4.0, "
                                 "\"original_max_position_embeddings\": 8192}");
}

static void add_window(struct pen_random *random, const char *family,
                       struct pen_text *out)
{
    bool has_window = one_in(random, 2);
    if (strcmp(family, "mistral") == 0)
        pen_text_add(out, ", \"sliding_window\": %s",
                     has_window ? "4096" : "null");
    else if (strcmp(family, "llama") != 0 && has_window)
        pen_text_add(out,
                     ", \"use_sliding_window\": true, \"sliding_window\": "
                     "2048, \"max_window_layers\": %u",
                     pen_random_below(random, 2));
}

static void add_llama(struct pen_random *random, const char *family,
                      bool is_plain, struct pen_text *out)
{
    uint32_t groups = 8 * between(random, 1, 2);
    uint32_t heads = groups * between(random, 1, 8);
    pen_text_add(out,
                 "\"model_type\": \"%s\", \"hidden_size\": %u, "
                 "\"num_hidden_layers\": %u, \"num_attention_heads\": %u, "
                 "\"num_key_value_heads\": %u, \"head_dim\": %u, "
                 "\"intermediate_size\": %u, \"vocab_size\": %u, "
                 "\"max_position_embeddings\": 131072, "
                 "\"tie_word_embeddings\": %s, \"rms_norm_eps\": 1e-%u",
                 family, 64 * heads, between(random, 2, 130), heads, groups,
                 64 * between(random, 1, 2), 64 * between(random, 1, 1000),
                 between(random, 100, 200000),
                 one_in(random, 2) ? "true" : "false", between(random, 5, 6));
    add_rope(random, out);
    if (is_plain)
        pen_text_add_string(out, ", \"sliding_window\": null");
    else
        add_window(random, family, out);
}

static void add_latent(struct pen_random *random, struct pen_text *out)
{
    pen_text_add(out,
                 ", \"q_lora_rank\": %s, \"kv_lora_rank\": 512, "
                 "\"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, "
                 "\"v_head_dim\": 128, \"n_shared_experts\": %u, "
                 "\"first_k_dense_replace\": %u",
                 one_in(random, 2) ? "1536" : "null", between(random, 1, 3),
                 between(random, 0, 2));
}

/* Experts in the blocks of a Llama. */
static void add_mixture(struct pen_random *random, struct pen_text *out)
{
    static const char *const families[] = {"mixtral", "qwen3_moe",
                                           "deepseek_v3", "gpt_oss"};
    uint32_t i = pen_random_below(random, 4);
    uint32_t experts = 8u << pen_random_below(random, 5);
    add_llama(random, families[i], true, out);
    pen_text_add(out,
                 ", \"num_local_experts\": %u, \"num_experts_per_tok\": %u, "
                 "\"moe_intermediate_size\": %u",
                 experts, between(random, 1, 8), 64 * between(random, 1, 64));
    if (i == 1)
        pen_text_add(out, ", \"decoder_sparse_step\": %u",
                     between(random, 1, 2));
    if (i == 2)
        add_latent(random, out);
}

/* Families of another kind: not all of them can be said. */
static void add_older(struct pen_random *random, struct pen_text *out)
{
    uint32_t heads = 8 * between(random, 1, 8);
    uint32_t hidden = 64 * heads;
    static const char *const families[] = {"opt", "bloom", "gpt_neox"};
    pen_text_add(out,
                 "\"model_type\": \"%s\", \"hidden_size\": %u, "
                 "\"num_hidden_layers\": %u, \"num_attention_heads\": %u, "
                 "\"max_position_embeddings\": 131072, \"ffn_dim\": %u, "
                 "\"intermediate_size\": %u, \"vocab_size\": 50000",
                 families[pen_random_below(random, 3)], hidden,
                 between(random, 2, 100), heads, 4 * hidden, 4 * hidden);
}

static void add_model(struct pen_random *random, const char *target,
                      struct pen_text *out)
{
    static const char *const families[] = {"llama", "mistral", "qwen3",
                                           "qwen2"};
    bool is_titan = is_for(target, "torchtitan");
    bool is_nanotron = is_for(target, "nanotron");
    if (strcmp(target, "torchtitan@0.2.2") == 0 ||
        (is_titan && one_in(random, 2)))
        add_named(random, out);
    else if (!is_titan && !is_nanotron && one_in(random, 5))
        add_gpt2(random, out);
    else if (!is_titan && !is_nanotron && one_in(random, 5))
        add_older(random, out);
    else if (!is_titan && !is_nanotron && one_in(random, 2))
        add_mixture(random, out);
    else
        add_llama(random,
                  families[pen_random_below(random, is_nanotron ? 2
                                                    : is_titan  ? 3
                                                                : 4)],
                  is_titan || is_nanotron, out);
}

static struct pen_model *make_model(struct pen_random *random,
                                    const char *target, enum pen_number number)
{
    struct pen_text config = PEN_TEXT_EMPTY;
    struct pen_model *model = NULL;
    pen_text_add(&config, "{\"torch_dtype\": \"%s\", ", dtype_of(number));
    add_model(random, target, &config);
    pen_text_add_string(&config, "}");
    PEN_BUG_UNLESS(pen_model_parse(pen_text_string(&config), config.length,
                                   &model, NULL) == PEN_OK);
    pen_text_release(&config);
    return model;
}

/* ---- plans ---- */

/* Those that keep versions of weights, too: an exporter has to say something.
 */
static const struct pen_generator *choose_schedule(struct pen_random *random)
{
    uint32_t count = 0;
    while (pen_generator_at(count) != NULL)
        count++;
    return pen_generator_at(pen_random_below(random, count));
}

static uint32_t choose_chunks(struct pen_random *random,
                              const struct pen_generator *generator)
{
    if (generator->has_chunks)
        return between(random, 2, 4);
    return generator->placement == PEN_PLACEMENT_V ? 2 : 1;
}

/* Cuts at random places, or evenly where that can be. */
static void cut_stages(struct pen_random *random, const struct pen_model *model,
                       struct pen_plan *plan)
{
    uint32_t left = model->num_layers;
    uint32_t next = 0;
    bool is_even =
        model->num_blocks % plan->num_stages == 0 && one_in(random, 2);
    enum pen_recompute recompute =
        (enum pen_recompute)pen_random_below(random, PEN_RECOMPUTES);
    bool is_mixed = one_in(random, 4);
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        struct pen_layer_range *stage = &plan->stages[i];
        uint32_t others = plan->num_stages - i - 1;
        uint32_t most = left - others;
        uint32_t about = 2 * left / (others + 1);
        if (others == 0)
            stage->count = left;
        else if (is_even)
            stage->count = model->num_blocks / plan->num_stages + (i == 0);
        else
            stage->count = between(random, 1, about < most ? about : most);
        stage->first = next;
        stage->recompute =
            is_mixed
                ? (enum pen_recompute)pen_random_below(random, PEN_RECOMPUTES)
                : recompute;
        next += stage->count;
        left -= stage->count;
    }
}

static void choose_degrees(struct pen_random *random, const char *target,
                           const struct pen_model *model, struct pen_plan *plan)
{
    uint32_t *degrees = plan->degrees;
    bool has_pipeline = degrees[PEN_DEGREE_PP] > 1;
    degrees[PEN_DEGREE_DP] = between(random, 1, 9);
    do
        degrees[PEN_DEGREE_TP] = 1u << pen_random_below(random, 4);
    while (model->num_kv_heads % degrees[PEN_DEGREE_TP] != 0 ||
           model->intermediate % degrees[PEN_DEGREE_TP] != 0);
    bool can_share = model->num_experts % 2 == 0 && model->num_experts > 0 &&
                     degrees[PEN_DEGREE_DP] % 2 == 0 &&
                     !(is_for(target, "deepspeed") && has_pipeline);
    if (can_share && one_in(random, 2))
        degrees[PEN_DEGREE_EP] = 2;
    bool is_cut = has_pipeline || degrees[PEN_DEGREE_TP] > 1;
    if (one_in(random, 4) && !(is_for(target, "deepspeed") && is_cut))
        degrees[PEN_DEGREE_CP] = 2;
    if (model->num_heads / degrees[PEN_DEGREE_TP] % 2 != 0)
        degrees[PEN_DEGREE_CP] = 1;
    plan->has_sequence_parallel = one_in(random, 2);
    plan->logical_replicas = degrees[PEN_DEGREE_DP] * between(random, 1, 2);
}

static void choose_sizes(struct pen_random *random, struct pen_plan *plan)
{
    uint32_t pp = plan->degrees[PEN_DEGREE_PP];
    plan->sequence = 1024u << pen_random_below(random, 5);
    plan->micro_batch = between(random, 1, 4);
    plan->num_microbatches =
        one_in(random, 2) ? pp * between(random, 1, 4) : between(random, 1, 30);
    plan->sharding = (enum pen_sharding)pen_random_below(random, PEN_SHARDINGS);
    plan->node_size = one_in(random, 2) ? 8 : 0;
    plan->seed = between(random, 1, 100000);
}

static void name_plan(struct pen_plan *plan, const struct pen_model *model,
                      const char *schedule)
{
    struct pen_text config = PEN_TEXT_EMPTY;
    pen_model_print(model, &config);
    PEN_BUG_UNLESS(pen_plan_set(&plan->model, "by dice") &&
                   pen_plan_set(&plan->cluster, "by dice") &&
                   pen_plan_set(&plan->config, pen_text_string(&config)) &&
                   pen_plan_set(&plan->schedule.name, schedule) &&
                   pen_profile_hash_model(model, plan->model_hash, NULL) ==
                       PEN_OK);
    pen_text_release(&config);
}

/* ---- recipes ---- */

static unsigned choose_value(struct pen_random *random,
                             const struct pen_recipe_field *field)
{
    unsigned value = 0;
    switch (field->kind) {
    case PEN_RECIPE_FLAG:
        return 1;
    case PEN_RECIPE_WORD:
        return pen_random_below(random, field->most);
    case PEN_RECIPE_LIST:
        return 1 + pen_random_below(random, (1u << field->most) - 1);
    case PEN_RECIPE_COUNT:
        return between(random, 1, 2);
    case PEN_RECIPE_CHOICE:
        do
            value = between(random, 2, 8);
        while (!pen_recipe_allows(field, value));
        return value;
    }
    return value;
}

/* Experts over more than replicas, where the target has that. */
static void fold_experts(struct pen_random *random, const char *target,
                         const struct pen_model *model, struct pen_plan *plan)
{
    uint32_t *degrees = plan->degrees;
    if (model->num_experts == 0 || !is_for(target, "megatron") ||
        one_in(random, 3))
        return;
    uint64_t ranks = pen_plan_num_ranks(plan) / degrees[PEN_DEGREE_PP];
    plan->expert_tp = 1;
    degrees[PEN_DEGREE_EP] = 1;
    while (ranks % (2 * (uint64_t)degrees[PEN_DEGREE_EP]) == 0 &&
           model->num_experts % (2 * degrees[PEN_DEGREE_EP]) == 0 &&
           !one_in(random, 4))
        degrees[PEN_DEGREE_EP] *= 2;
}

static bool is_taken(const struct pen_export *exporter,
                     const struct pen_model *model, const struct pen_plan *plan)
{
    struct pen_plan *nearest = NULL;
    struct pen_text notes = PEN_TEXT_EMPTY;
    pen_status status =
        pen_export_nearest(exporter, plan, model, &nearest, &notes, NULL);
    pen_plan_free(nearest);
    pen_text_release(&notes);
    return status == PEN_OK;
}

/* Overlap is picky: what it does not go with gives way. */
static void make_way(struct pen_plan *plan)
{
    for (uint32_t i = 0; i < plan->num_stages; i++)
        if (plan->stages[i].recompute == PEN_RECOMPUTE_FULL)
            plan->stages[i].recompute = PEN_RECOMPUTE_SELECTIVE;
    plan->recipe.overlaps_experts = true;
}

/* Member after member, from a random one on; what is not taken stays away. */
static void choose_recipe(struct pen_random *random, const char *target,
                          const struct pen_model *model, struct pen_plan *plan)
{
    const struct pen_export *exporter = pen_export_find(target, NULL);
    uint32_t count = 0;
    fold_experts(random, target, model, plan);
    if (plan->degrees[PEN_DEGREE_EP] > 1 && one_in(random, 2))
        make_way(plan);
    if (!is_taken(exporter, model, plan))
        plan->recipe.overlaps_experts = false;
    while (pen_recipe_fields[count].key != NULL)
        count++;
    uint32_t first = pen_random_below(random, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct pen_recipe_field *field =
            &pen_recipe_fields[(first + i) % count];
        unsigned before = pen_recipe_get(&plan->recipe, field);
        if (one_in(random, 2))
            continue;
        pen_recipe_set(&plan->recipe, field, choose_value(random, field));
        if (!is_taken(exporter, model, plan))
            pen_recipe_set(&plan->recipe, field, before);
    }
}

void random_plan_make(struct pen_random *random, const char *target,
                      struct random_plan *out)
{
    enum pen_number number =
        (enum pen_number)pen_random_below(random, PEN_NUMBERS);
    struct pen_model *model = make_model(random, target, number);
    const struct pen_generator *generator = choose_schedule(random);
    bool is_titan = is_for(target, "torchtitan");
    bool has_no_pipeline =
        is_titan &&
        (model->has_tied_embeddings ||
         (is_for(target, "torchtitan@0.2.2") && model->has_qk_norm));
    bool is_alone = one_in(random, 6) || has_no_pipeline;
    uint32_t vpp = choose_chunks(random, generator);
    uint32_t most = model->num_layers / vpp;
    uint32_t pp =
        is_alone || most < 2 ? 1 : between(random, 2, most < 9 ? most : 9);
    if (pp * vpp > model->num_layers)
        vpp = 1;
    struct pen_plan *plan = pen_plan_create(pp, vpp);
    PEN_BUG_UNLESS(plan != NULL);
    plan->number = number;
    plan->target = (enum pen_target)pen_random_below(random, PEN_TARGETS);
    choose_degrees(random, target, model, plan);
    choose_sizes(random, plan);
    cut_stages(random, model, plan);
    name_plan(plan, model, generator->name);
    if (!one_in(random, 3))
        choose_recipe(random, target, model, plan);
    PEN_BUG_UNLESS(pen_plan_check(plan, NULL) == PEN_OK);
    *out = (struct random_plan){model, plan};
}

void random_plan_release(struct random_plan *random_plan)
{
    pen_model_free(random_plan->model);
    pen_plan_free(random_plan->plan);
}
