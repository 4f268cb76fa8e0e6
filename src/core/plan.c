/* Plans as a noun: made, checked, saved. The text is plan_text.c. */
#include "core/plan.h"

#include "base/file.h"
#include "base/json.h"
#include "core/profile.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FILE_BYTES ((size_t)64 << 20)

const char *const pen_target_names[PEN_TARGETS + 1] = {
#define TARGET_NAME(name, key) key,
    PEN_TARGET_TABLE(TARGET_NAME) NULL};

const char *const pen_sharding_names[PEN_SHARDINGS + 1] = {
    "none", "zero1", "zero2", "zero3", NULL};

pen_status pen_sharding_group_check(enum pen_sharding sharding, uint32_t group,
                                    uint64_t replicas, struct pen_text *why)
{
    if (group == 0)
        return PEN_OK;
    if (sharding != PEN_SHARDING_ZERO3)
        pen_why(why,
                "--sharding-group %u is about weights, which --sharding %s "
                "keeps whole. Give --sharding zero3, or drop it",
                group, pen_sharding_names[sharding]);
    else if (replicas % group != 0)
        pen_why(why,
                "--sharding-group %u does not divide the %llu replicas. Give "
                "a number that does, or drop it",
                group, (unsigned long long)replicas);
    else
        return PEN_OK;
    return PEN_INVALID;
}

const char *const pen_memory_names[PEN_MEMORY_PARTS + 1] = {
#define MEMORY_NAME(name, key) key,
    PEN_MEMORY_TABLE(MEMORY_NAME) NULL};

uint64_t pen_plan_memory_bytes(const struct pen_plan_memory *memory)
{
    uint64_t bytes = 0;
    for (int part = 0; part < PEN_MEMORY_PARTS; part++)
        bytes += memory->bytes[part];
    return bytes;
}

struct pen_plan *pen_plan_create(uint32_t pp, uint32_t vpp)
{
    struct pen_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL)
        return NULL;
    for (int degree = 0; degree < PEN_DEGREES; degree++)
        plan->degrees[degree] = 1;
    plan->degrees[PEN_DEGREE_PP] = pp;
    plan->degrees[PEN_DEGREE_VPP] = vpp;
    plan->num_stages = pp * vpp;
    plan->stages = calloc(plan->num_stages, sizeof *plan->stages);
    plan->micro_batch = 1;
    plan->num_microbatches = 1;
    plan->logical_replicas = 1;
    if (plan->stages == NULL || !pen_plan_set(&plan->schedule.name, "1f1b")) {
        pen_plan_free(plan);
        return NULL;
    }
    return plan;
}

void pen_plan_free(struct pen_plan *plan)
{
    if (plan == NULL)
        return;
    free(plan->model);
    free(plan->config);
    free(plan->cluster);
    free(plan->stages);
    free(plan->schedule.name);
    free(plan->schedule.file);
    free(plan->predicted.memory);
    free(plan);
}

bool pen_plan_set(char **text, const char *value)
{
    char *copy = strdup(value);
    if (copy == NULL)
        return false;
    free(*text);
    *text = copy;
    return true;
}

uint64_t pen_plan_num_ranks(const struct pen_plan *plan)
{
    return (uint64_t)plan->degrees[PEN_DEGREE_DP] *
           plan->degrees[PEN_DEGREE_TP] * plan->degrees[PEN_DEGREE_PP] *
           plan->degrees[PEN_DEGREE_CP];
}

uint64_t pen_plan_global_batch(const struct pen_plan *plan)
{
    return (uint64_t)plan->micro_batch * plan->num_microbatches *
           plan->degrees[PEN_DEGREE_DP];
}

static pen_status parse_file(void *out, const char *bytes, size_t length,
                             struct pen_text *why)
{
    return pen_plan_parse(bytes, length, out, why);
}

pen_status pen_plan_load(const char *path, struct pen_plan **out,
                         struct pen_text *why)
{
    return pen_file_parse(path, MAX_FILE_BYTES, parse_file, out, why);
}

pen_status pen_plan_save(const struct pen_plan *plan, const char *path,
                         struct pen_text *why)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_status status = pen_plan_check(plan, why);
    if (status != PEN_OK)
        return status;
    pen_plan_print(plan, &text);
    status = pen_file_write_text(path, &text, why);
    pen_text_release(&text);
    return status;
}

/* ---- the check ---- */

static bool is_within(uint64_t value, uint64_t most)
{
    return value >= 1 && value <= most;
}

static bool is_text(const char *text)
{
    return text != NULL && pen_json_is_word(text, PEN_PLAN_WORD_SIZE);
}

static pen_status check_words(const struct pen_plan *plan, struct pen_text *why)
{
    const struct pen_plan_schedule *schedule = &plan->schedule;
    if (!is_text(plan->model) || !pen_hash_is_valid(plan->model_hash)) {
        pen_why(why, "model must have a name in plain ASCII and a hash");
        return PEN_INVALID;
    }
    if (plan->cluster != NULL && !is_text(plan->cluster)) {
        pen_why(why, "cluster must have a name in plain ASCII");
        return PEN_INVALID;
    }
    if ((schedule->name == NULL) == (schedule->file == NULL) ||
        !is_text(schedule->name == NULL ? schedule->file : schedule->name)) {
        pen_why(why, "schedule must have either a name or a file");
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status check_counts(const struct pen_plan *plan,
                               struct pen_text *why)
{
    bool is_right = is_within(plan->sequence, PEN_PLAN_MAX_COUNT) &&
                    is_within(plan->micro_batch, PEN_PLAN_MAX_COUNT) &&
                    is_within(plan->num_microbatches, PEN_PLAN_MAX_COUNT) &&
                    plan->seed <= INT64_MAX;
    for (int degree = 0; degree < PEN_DEGREES; degree++)
        is_right =
            is_right && is_within(plan->degrees[degree], PEN_PLAN_MAX_DEGREE);
    if (!is_right) {
        pen_why(why, "a degree, a count or the seed is out of range");
        return PEN_INVALID;
    }
    uint32_t dp = plan->degrees[PEN_DEGREE_DP];
    if (is_within(plan->logical_replicas, PEN_PLAN_MAX_DEGREE) &&
        plan->logical_replicas % dp == 0)
        return PEN_OK;
    pen_why(why,
            "logical_replicas must be a multiple of dp, %u, and at most %u", dp,
            PEN_PLAN_MAX_DEGREE);
    return PEN_INVALID;
}

/* Checks that groups that have all weights together make up the replicas. */
static pen_status check_group(const struct pen_plan *plan, struct pen_text *why)
{
    uint64_t replicas =
        (uint64_t)plan->degrees[PEN_DEGREE_DP] * plan->degrees[PEN_DEGREE_CP];
    uint32_t group = plan->sharding_group;
    if (group == 0 ||
        (plan->sharding == PEN_SHARDING_ZERO3 && replicas % group == 0))
        return PEN_OK;
    if (plan->sharding != PEN_SHARDING_ZERO3)
        pen_why(why,
                "sharding_group %u is about weights, which %s keeps whole; use "
                "zero3, or drop it",
                group, pen_sharding_names[plan->sharding]);
    else
        pen_why(why,
                "sharding_group %u does not divide dp x cp, %llu; use a number "
                "that does, or drop it",
                group, (unsigned long long)replicas);
    return PEN_INVALID;
}

/* Checks that the stages are layers 0, 1, ... without a gap. */
static pen_status check_stages(const struct pen_plan *plan,
                               struct pen_text *why)
{
    uint64_t wanted =
        (uint64_t)plan->degrees[PEN_DEGREE_PP] * plan->degrees[PEN_DEGREE_VPP];
    if (plan->num_stages != wanted || wanted > PEN_PLAN_MAX_STAGES) {
        pen_why(why,
                "the plan has %u stages; it must have pp * vpp, %llu, and at "
                "most %u",
                plan->num_stages, (unsigned long long)wanted,
                PEN_PLAN_MAX_STAGES);
        return PEN_INVALID;
    }
    uint32_t next = 0;
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        const struct pen_layer_range *stage = &plan->stages[i];
        if (stage->first != next ||
            !is_within(stage->count, PEN_PLAN_MAX_COUNT - next)) {
            pen_why(
                why,
                "stages[%u] must begin at layer %u and have at least one layer",
                i, next);
            return PEN_INVALID;
        }
        next += stage->count;
    }
    return PEN_OK;
}

static bool is_share(double share)
{
    return share >= 0 && share <= 1;
}

/* Checks that the classes of ranks are all ranks. */
static pen_status check_prediction(const struct pen_plan *plan,
                                   struct pen_text *why)
{
    const struct pen_plan_prediction *predicted = &plan->predicted;
    if (!predicted->is_there)
        return PEN_OK;
    bool is_right = is_share(predicted->bubble) &&
                    is_share(predicted->utilisation) &&
                    predicted->step_sec >= 0 &&
                    predicted->step_sec <= PEN_PROFILE_MAX_SECONDS &&
                    predicted->tokens_per_sec >= 0 &&
                    predicted->tokens_per_sec <= (double)PEN_PROFILE_MAX_BYTES;
    uint64_t num_ranks = 0;
    for (uint32_t i = 0; i < predicted->num_memory; i++) {
        const struct pen_plan_memory *memory = &predicted->memory[i];
        num_ranks += memory->count;
        is_right =
            is_right && pen_plan_memory_bytes(memory) <= PEN_PROFILE_MAX_BYTES;
    }
    if (!is_right) {
        pen_why(why, "predicted has a number out of range");
        return PEN_INVALID;
    }
    if (predicted->num_memory == 0 || num_ranks == pen_plan_num_ranks(plan))
        return PEN_OK;
    pen_why(why,
            "predicted.memory describes %llu ranks, but the degrees make "
            "%llu",
            (unsigned long long)num_ranks,
            (unsigned long long)pen_plan_num_ranks(plan));
    return PEN_INVALID;
}

pen_status pen_plan_check(const struct pen_plan *plan, struct pen_text *why)
{
    pen_status status = check_words(plan, why);
    if (status == PEN_OK)
        status = check_counts(plan, why);
    if (status == PEN_OK)
        status = check_group(plan, why);
    if (status == PEN_OK)
        status = check_stages(plan, why);
    if (status == PEN_OK)
        status = pen_plan_check_recipe(plan, why);
    if (status == PEN_OK)
        status = check_prediction(plan, why);
    return status;
}

pen_status pen_plan_fits(const struct pen_plan *plan,
                         const struct pen_model *model, struct pen_text *why)
{
    char hash[PEN_HASH_SIZE];
    pen_status status = pen_profile_hash_model(model, hash, why);
    if (status != PEN_OK)
        return status;
    if (strcmp(hash, plan->model_hash) != 0) {
        pen_why(why, "the plan is for another model (%s)", plan->model);
        return PEN_INVALID;
    }
    const struct pen_layer_range *last = &plan->stages[plan->num_stages - 1];
    uint32_t num_layers = last->first + last->count;
    if (num_layers == model->num_layers)
        return PEN_OK;
    pen_why(why, "the stages have %u layers, but the model has %u", num_layers,
            model->num_layers);
    return PEN_INVALID;
}
