/*
 * plan.json.
 *
 *   {"format": "penstock-plan", "version": 3,
 *    "model": {"name": "gpt2", "sha256": "...", "config": {...}},
 *    "cluster": {"name": "dgx-a100*8", "node_size": 8}, "target": "megatron",
 *    "workload": {"sequence": 1024, "dtype": "bf16"},
 *    "degrees": {"dp": 1, "tp": 1, "pp": 2, "vpp": 1, "cp": 1, "ep": 1},
 *    "micro_batch": 4, "microbatches": 8,
 *    "stages": [{"first": 0, "count": 7, "recompute": "none"}, ...],
 *    "schedule": {"name": "1f1b"}, "sharding": "none",
 *    "sequence_parallel": false, "logical_replicas": 1, "seed": 1234,
 *    "recipe": {"dispatcher": "hybridep", ...}, "predicted": {...}}
 *
 * Version 3 has "sharding_group", version 2 "recipe" and "expert_tp" of the
 * degrees. A plan is printed as the first version that has all of its keys:
 * 0.1.0 reads version 1.
 */
#include "core/plan.h"

#include "base/json.h"
#include "core/profile.h"
#include "core/recipe_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT "penstock-plan"
#define VERSION 3
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define MAX_LIMIT 1e6 /* of a schedule's memory, in A */

#define MAX_ERROR 100.0

static const char *const degree_keys[] = {
#define DEGREE_KEY(name, key) key,
    PEN_DEGREE_TABLE(DEGREE_KEY)};

/* ---- printing ---- */

static void add_stages(const struct pen_plan *plan, struct pen_text *out)
{
    pen_text_add_string(out, "  \"stages\": [\n");
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        const struct pen_layer_range *stage = &plan->stages[i];
        pen_text_add(out,
                     "    {\"first\": %u, \"count\": %u, "
                     "\"recompute\": \"%s\"}%s\n",
                     stage->first, stage->count,
                     pen_recompute_names[stage->recompute],
                     i + 1 < plan->num_stages ? "," : "");
    }
    pen_text_add_string(out, "  ],\n");
}

static void add_option(struct pen_text *out, const char *key, uint32_t value)
{
    if (value != 0)
        pen_text_add(out, ", \"%s\": %u", key, value);
}

static void add_schedule(const struct pen_plan_schedule *schedule,
                         struct pen_text *out)
{
    pen_text_add(out, "  \"schedule\": {\"%s\": \"%s\"",
                 schedule->name == NULL ? "file" : "name",
                 schedule->name == NULL ? schedule->file : schedule->name);
    add_option(out, "slices", schedule->slices);
    add_option(out, "batches", schedule->batches);
    add_option(out, "warmup", schedule->warmup);
    if (schedule->memory_limit != 0) {
        pen_text_add_string(out, ", \"memory_limit\": ");
        pen_text_add_real(out, schedule->memory_limit);
    }
    if (schedule->has_vertical_sync)
        pen_text_add_string(out, ", \"vertical_sync\": true");
    pen_text_add_string(out, "},\n");
}

static void add_memory(const struct pen_plan_prediction *predicted,
                       struct pen_text *out)
{
    pen_text_add_string(out, ",\n    \"memory\": [\n");
    for (uint32_t i = 0; i < predicted->num_memory; i++) {
        const struct pen_plan_memory *memory = &predicted->memory[i];
        pen_text_add(out, "      {\"count\": %" PRIu64, memory->count);
        for (int part = 0; part < PEN_MEMORY_PARTS; part++)
            pen_text_add(out, ", \"%s\": %" PRIu64, pen_memory_names[part],
                         memory->bytes[part]);
        pen_text_add(out, "}%s\n", i + 1 < predicted->num_memory ? "," : "");
    }
    pen_text_add_string(out, "    ]");
}

static void add_prediction(const struct pen_plan_prediction *predicted,
                           struct pen_text *out)
{
    const struct {
        const char *key;
        double value;
    } reals[] = {{"step_sec", predicted->step_sec},
                 {"step_error", predicted->step_error},
                 {"memory_error", predicted->memory_error},
                 {"bubble", predicted->bubble},
                 {"utilisation", predicted->utilisation},
                 {"tokens_per_sec", predicted->tokens_per_sec}};
    pen_text_add_string(out, ",\n  \"predicted\": {");
    for (size_t i = 0; i < COUNT_OF(reals); i++) {
        pen_text_add(out, "%s\n    \"%s\": ", i == 0 ? "" : ",", reals[i].key);
        pen_text_add_real(out, reals[i].value);
    }
    if (predicted->num_memory > 0)
        add_memory(predicted, out);
    pen_text_add_string(out, "\n  }");
}

/* Adds the config, which is JSON of its own, indented by two. */
static void add_config(const char *config, struct pen_text *out)
{
    pen_text_add_string(out, ", \"config\":\n    ");
    for (const char *at = config; *at != '\0'; at++)
        if (*at != '\n')
            pen_text_add(out, "%c", *at);
        else if (at[1] != '\0')
            pen_text_add_string(out, "\n    ");
}

/* Returns the first version that can express all of it. */
static int version_of(const struct pen_plan *plan)
{
    bool is_old = plan->expert_tp == 0 && plan->number <= PEN_NUMBER_FP8 &&
                  pen_recipe_is_plain(&plan->recipe);
    return plan->sharding_group != 0 ? VERSION : is_old ? 1 : 2;
}

static void add_head(const struct pen_plan *plan, struct pen_text *out)
{
    pen_text_add(out,
                 "{\n  \"format\": \"%s\",\n  \"version\": %d,\n"
                 "  \"model\": {\"name\": \"%s\", \"sha256\": \"%s\"",
                 FORMAT, version_of(plan), plan->model, plan->model_hash);
    if (plan->config != NULL)
        add_config(plan->config, out);
    pen_text_add_string(out, "},\n");
    if (plan->cluster != NULL)
        pen_text_add(out,
                     "  \"cluster\": {\"name\": \"%s\", \"node_size\": %u},\n",
                     plan->cluster, plan->node_size);
    pen_text_add(out,
                 "  \"target\": \"%s\",\n"
                 "  \"workload\": {\"sequence\": %u, \"dtype\": \"%s\"},\n",
                 pen_target_names[plan->target], plan->sequence,
                 pen_number_names[plan->number]);
}

void pen_plan_print(const struct pen_plan *plan, struct pen_text *out)
{
    add_head(plan, out);
    pen_text_add_string(out, "  \"degrees\": {");
    for (int degree = 0; degree < PEN_DEGREES; degree++)
        pen_text_add(out, "%s\"%s\": %u", degree == 0 ? "" : ", ",
                     degree_keys[degree], plan->degrees[degree]);
    add_option(out, "expert_tp", plan->expert_tp);
    pen_text_add(out, "},\n  \"micro_batch\": %u,\n  \"microbatches\": %u,\n",
                 plan->micro_batch, plan->num_microbatches);
    add_stages(plan, out);
    add_schedule(&plan->schedule, out);
    pen_text_add(out, "  \"sharding\": \"%s\",\n",
                 pen_sharding_names[plan->sharding]);
    if (plan->sharding_group != 0)
        pen_text_add(out, "  \"sharding_group\": %u,\n", plan->sharding_group);
    pen_text_add(out,
                 "  \"sequence_parallel\": %s,\n"
                 "  \"logical_replicas\": %u,\n  \"seed\": %" PRIu64,
                 plan->has_sequence_parallel ? "true" : "false",
                 plan->logical_replicas, plan->seed);
    if (!pen_recipe_is_plain(&plan->recipe)) {
        pen_text_add_string(out, ",\n  \"recipe\": ");
        pen_recipe_print(&plan->recipe, out);
    }
    if (plan->predicted.is_there)
        add_prediction(&plan->predicted, out);
    pen_text_add_string(out, "\n}\n");
}

/* ---- reading ---- */

static pen_status refuse_memory(struct pen_text *why)
{
    pen_why(why, "no memory for a plan");
    return PEN_NOMEM;
}

static pen_status read_text(const struct pen_json *json, const char *key,
                            char **out, struct pen_text *why)
{
    char word[PEN_PLAN_WORD_SIZE];
    pen_status status = pen_json_read_word(json, key, word, sizeof word, why);
    if (status == PEN_OK && !pen_plan_set(out, word))
        status = refuse_memory(why);
    return status;
}

/* The object is printed again, so that a plan has one form of it. */
static pen_status read_config(const struct pen_json *json, char **out,
                              struct pen_text *why)
{
    const json_t *config = json_object_get(json->object, "config");
    if (config == NULL)
        return PEN_OK;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_model *model = NULL;
    char *dump = json_dumps(config, JSON_ENCODE_ANY);
    pen_status status = dump == NULL ? refuse_memory(why) : PEN_OK;
    if (status == PEN_OK)
        status = pen_model_parse_any(dump, strlen(dump), &model, why);
    if (status == PEN_OK) {
        pen_model_print(model, &text);
        if (!pen_plan_set(out, pen_text_string(&text)))
            status = refuse_memory(why);
    }
    free(dump);
    pen_model_free(model);
    pen_text_release(&text);
    return status;
}

static pen_status read_cluster(const struct pen_json *file,
                               struct pen_plan *out, struct pen_text *why)
{
    struct pen_json json;
    if (!pen_json_has(file, "cluster"))
        return PEN_OK;
    pen_status status = pen_json_open(file, "cluster", &json, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(&json, "name node_size", why);
    if (status == PEN_OK)
        status = read_text(&json, "name", &out->cluster, why);
    if (status == PEN_OK)
        status = pen_json_read_integer(
            &json, "node_size", 0, PEN_PLAN_MAX_DEGREE, &out->node_size, why);
    return status;
}

static pen_status read_model(const struct pen_json *file, struct pen_plan *out,
                             struct pen_text *why)
{
    struct pen_json json;
    pen_status status = pen_json_open(file, "model", &json, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(&json, "name sha256 config", why);
    if (status == PEN_OK)
        status = read_config(&json, &out->config, why);
    if (status == PEN_OK)
        status = read_text(&json, "name", &out->model, why);
    if (status == PEN_OK)
        status = pen_json_read_hash(&json, "sha256", out->model_hash, why);
    return status;
}

static pen_status read_workload(const struct pen_json *file,
                                struct pen_plan *out, struct pen_text *why)
{
    struct pen_json json;
    unsigned number = 0;
    pen_status status = pen_json_open(file, "workload", &json, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(&json, "sequence dtype", why);
    if (status == PEN_OK)
        status = pen_json_read_integer(&json, "sequence", 1, PEN_PLAN_MAX_COUNT,
                                       &out->sequence, why);
    if (status == PEN_OK)
        status = pen_json_read_choice(&json, "dtype", pen_number_names, &number,
                                      why);
    out->number = (enum pen_number)number;
    return status;
}

static pen_status read_degrees(const struct pen_json *file, uint32_t version,
                               struct pen_plan *out, struct pen_text *why)
{
    struct pen_json json;
    pen_status status = pen_json_open(file, "degrees", &json, why);
    if (status == PEN_OK)
        status =
            pen_json_check_keys(&json,
                                version == 1 ? "dp tp pp vpp cp ep"
                                             : "dp tp pp vpp cp ep expert_tp",
                                why);
    if (status == PEN_OK && pen_json_has(&json, "expert_tp"))
        status = pen_json_read_integer(
            &json, "expert_tp", 1, PEN_PLAN_MAX_DEGREE, &out->expert_tp, why);
    for (int degree = 0; status == PEN_OK && degree < PEN_DEGREES; degree++)
        status = pen_json_read_integer(&json, degree_keys[degree], 1,
                                       PEN_PLAN_MAX_DEGREE,
                                       &out->degrees[degree], why);
    return status;
}

static pen_status read_stage(const struct pen_json *json,
                             struct pen_layer_range *out, struct pen_text *why)
{
    unsigned recompute = 0;
    pen_status status = pen_json_check_keys(json, "first count recompute", why);
    if (status == PEN_OK)
        status = pen_json_read_integer(json, "first", 0, PEN_PLAN_MAX_COUNT,
                                       &out->first, why);
    if (status == PEN_OK)
        status = pen_json_read_integer(json, "count", 1, PEN_PLAN_MAX_COUNT,
                                       &out->count, why);
    if (status == PEN_OK)
        status = pen_json_read_choice(json, "recompute", pen_recompute_names,
                                      &recompute, why);
    out->recompute = (enum pen_recompute)recompute;
    return status;
}

/* Checks that the key has a list of 1 to most entries; returns it. */
static const json_t *read_list(const struct pen_json *json, const char *key,
                               uint32_t most, struct pen_text *why)
{
    const json_t *list = json_object_get(json->object, key);
    size_t count = json_array_size(list);
    if (json_is_array(list) && count >= 1 && count <= most)
        return list;
    pen_why(why, "%s%s must be a list of 1 to %u objects", json->path, key,
            most);
    return NULL;
}

static pen_status read_stages(const struct pen_json *file, struct pen_plan *out,
                              struct pen_text *why)
{
    const json_t *list = read_list(file, "stages", PEN_PLAN_MAX_STAGES, why);
    if (list == NULL)
        return PEN_INVALID;
    out->num_stages = (uint32_t)json_array_size(list);
    out->stages = calloc(out->num_stages, sizeof *out->stages);
    if (out->stages == NULL)
        return refuse_memory(why);
    pen_status status = PEN_OK;
    for (uint32_t i = 0; status == PEN_OK && i < out->num_stages; i++) {
        struct pen_json json;
        status = pen_json_open_entry(list, "stages", i, &json, why);
        if (status == PEN_OK)
            status = read_stage(&json, &out->stages[i], why);
    }
    return status;
}

/* Numbers that a generator takes; 0, its own choice, when absent. */
static pen_status read_options(const struct pen_json *json,
                               struct pen_plan_schedule *out,
                               struct pen_text *why)
{
    const struct {
        const char *key;
        uint32_t *value;
    } options[] = {{"slices", &out->slices},
                   {"batches", &out->batches},
                   {"warmup", &out->warmup}};
    const struct pen_json_number limit = {"memory_limit", &out->memory_limit, 0,
                                          MAX_LIMIT};
    pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < COUNT_OF(options); i++)
        if (pen_json_has(json, options[i].key))
            status = pen_json_read_integer(json, options[i].key, 1,
                                           PEN_PLAN_MAX_COUNT, options[i].value,
                                           why);
    if (status == PEN_OK)
        status = pen_json_read_numbers(json, &limit, 1, why);
    if (status == PEN_OK)
        status = pen_json_read_boolean(json, "vertical_sync",
                                       &out->has_vertical_sync, why);
    return status;
}

static pen_status read_schedule(const struct pen_json *file,
                                struct pen_plan_schedule *out,
                                struct pen_text *why)
{
    struct pen_json json;
    pen_status status = pen_json_open(file, "schedule", &json, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(&json,
                                     "name file slices batches warmup "
                                     "memory_limit vertical_sync",
                                     why);
    if (status != PEN_OK)
        return status;
    if (pen_json_has(&json, "file")) {
        status = pen_json_check_keys(&json, "file", why);
        if (status == PEN_OK)
            status = read_text(&json, "file", &out->file, why);
        return status;
    }
    status = read_text(&json, "name", &out->name, why);
    if (status == PEN_OK)
        status = read_options(&json, out, why);
    return status;
}

static pen_status read_memory(const struct pen_json *json,
                              struct pen_plan_memory *out, struct pen_text *why)
{
    pen_status status = pen_json_check_keys(
        json,
        "count weights gradients optimizer activations loss buffers "
        "overhead",
        why);
    if (status == PEN_OK)
        status =
            pen_json_read_count(json, "count", 1, UINT32_MAX, &out->count, why);
    for (int i = 0; status == PEN_OK && i < PEN_MEMORY_PARTS; i++)
        status =
            pen_json_read_count(json, pen_memory_names[i], 0,
                                PEN_PROFILE_MAX_BYTES, &out->bytes[i], why);
    return status;
}

static pen_status read_memories(const struct pen_json *json,
                                struct pen_plan_prediction *out,
                                struct pen_text *why)
{
    if (!pen_json_has(json, "memory"))
        return PEN_OK;
    const json_t *list = read_list(json, "memory", PEN_PLAN_MAX_STAGES, why);
    if (list == NULL)
        return PEN_INVALID;
    out->num_memory = (uint32_t)json_array_size(list);
    out->memory = calloc(out->num_memory, sizeof *out->memory);
    if (out->memory == NULL)
        return refuse_memory(why);
    pen_status status = PEN_OK;
    for (uint32_t i = 0; status == PEN_OK && i < out->num_memory; i++) {
        struct pen_json entry;
        status = pen_json_open_entry(list, "predicted.memory", i, &entry, why);
        if (status == PEN_OK)
            status = read_memory(&entry, &out->memory[i], why);
    }
    return status;
}

static pen_status read_prediction(const struct pen_json *file,
                                  struct pen_plan_prediction *out,
                                  struct pen_text *why)
{
    struct pen_json json;
    const struct pen_json_number numbers[] = {
        {"step_sec", &out->step_sec, 0, PEN_PROFILE_MAX_SECONDS},
        {"step_error", &out->step_error, 0, MAX_ERROR},
        {"memory_error", &out->memory_error, 0, MAX_ERROR},
        {"bubble", &out->bubble, 0, 1},
        {"utilisation", &out->utilisation, 0, 1},
        {"tokens_per_sec", &out->tokens_per_sec, 0,
         (double)PEN_PROFILE_MAX_BYTES}};
    const char *required = "step_sec bubble utilisation tokens_per_sec";
    if (!pen_json_has(file, "predicted"))
        return PEN_OK;
    pen_status status = pen_json_open(file, "predicted", &json, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(&json,
                                     "step_sec step_error memory_error bubble "
                                     "utilisation tokens_per_sec memory",
                                     why);
    if (status == PEN_OK)
        status = pen_json_require_keys(&json, required, why);
    if (status == PEN_OK)
        status = pen_json_read_numbers(&json, numbers, COUNT_OF(numbers), why);
    if (status == PEN_OK)
        status = read_memories(&json, out, why);
    out->is_there = true;
    return status;
}

static pen_status read_counts(const struct pen_json *file, struct pen_plan *out,
                              struct pen_text *why)
{
    unsigned sharding = 0;
    unsigned target = PEN_TARGET_PENSTOCK;
    pen_status status = pen_json_read_integer(
        file, "micro_batch", 1, PEN_PLAN_MAX_COUNT, &out->micro_batch, why);
    if (status == PEN_OK)
        status =
            pen_json_read_integer(file, "microbatches", 1, PEN_PLAN_MAX_COUNT,
                                  &out->num_microbatches, why);
    if (status == PEN_OK)
        status = pen_json_read_choice(file, "sharding", pen_sharding_names,
                                      &sharding, why);
    if (status == PEN_OK && pen_json_has(file, "sharding_group"))
        status = pen_json_read_integer(file, "sharding_group", 1,
                                       PEN_PLAN_MAX_DEGREE,
                                       &out->sharding_group, why);
    if (status == PEN_OK)
        status = pen_json_read_integer(file, "logical_replicas", 1,
                                       PEN_PLAN_MAX_DEGREE,
                                       &out->logical_replicas, why);
    if (status == PEN_OK)
        status =
            pen_json_read_count(file, "seed", 0, INT64_MAX, &out->seed, why);
    if (status == PEN_OK && pen_json_has(file, "target"))
        status = pen_json_read_choice(file, "target", pen_target_names, &target,
                                      why);
    if (status == PEN_OK)
        status = pen_json_read_boolean(file, "sequence_parallel",
                                       &out->has_sequence_parallel, why);
    out->target = (enum pen_target)target;
    out->sharding = (enum pen_sharding)sharding;
    return status;
}

static pen_status read_recipe(const struct pen_json *file,
                              struct pen_recipe *out, struct pen_text *why)
{
    struct pen_json json;
    if (!pen_json_has(file, "recipe"))
        return PEN_OK;
    pen_status status = pen_json_open(file, "recipe", &json, why);
    return status == PEN_OK ? pen__recipe_read(&json, out, why) : status;
}

#define OLD_KEYS                                                               \
    "format version model cluster target workload degrees micro_batch "        \
    "microbatches stages schedule sharding sequence_parallel "                 \
    "logical_replicas seed predicted"

static pen_status read_file(const struct pen_json *file, struct pen_plan *out,
                            struct pen_text *why)
{
    uint32_t version = 0;
    pen_status status =
        pen_json_read_version(file, FORMAT, VERSION, &version, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(file,
                                     version == 1   ? OLD_KEYS
                                     : version == 2 ? OLD_KEYS " recipe"
                                                    : OLD_KEYS
                                         " recipe sharding_group",
                                     why);
    if (status == PEN_OK)
        status = read_model(file, out, why);
    if (status == PEN_OK)
        status = read_cluster(file, out, why);
    if (status == PEN_OK)
        status = read_workload(file, out, why);
    if (status == PEN_OK)
        status = read_degrees(file, version, out, why);
    if (status == PEN_OK)
        status = read_counts(file, out, why);
    if (status == PEN_OK)
        status = read_stages(file, out, why);
    if (status == PEN_OK)
        status = read_schedule(file, &out->schedule, why);
    if (status == PEN_OK)
        status = read_recipe(file, &out->recipe, why);
    if (status == PEN_OK)
        status = read_prediction(file, &out->predicted, why);
    if (status == PEN_OK)
        status = pen_plan_check(out, why);
    return status;
}

pen_status pen_plan_parse(const char *text, size_t length,
                          struct pen_plan **out, struct pen_text *why)
{
    struct pen_json file;
    pen_status status = pen_json_load(text, length, &file, why);
    if (status != PEN_OK)
        return status;
    struct pen_plan *plan = calloc(1, sizeof *plan);
    status = plan == NULL ? refuse_memory(why) : read_file(&file, plan, why);
    json_decref(file.object);
    if (status == PEN_OK)
        *out = plan;
    else
        pen_plan_free(plan);
    return status;
}
