/*
 * A plan prints as a file that reads back as the same plan, and a file that is
 * wrong is refused by its place.
 */
#include "support/support.h"

#include "base/file.h"
#include "core/plan.h"
#include "core/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* The shortest plan, in its parts, so that a test can change one. */
#define HEAD "{\"format\":\"penstock-plan\",\"version\":1,"
#define MODEL "\"model\":{\"name\":\"m\",\"sha256\":\"" HASH "\"},"
#define WORK "\"workload\":{\"sequence\":8,\"dtype\":\"f32\"},"
#define DEGREES                                                                \
    "\"degrees\":{\"dp\":2,\"tp\":1,\"pp\":2,\"vpp\":1,\"cp\":1,\"ep\":1},"
#define COUNTS "\"micro_batch\":1,\"microbatches\":4,"
#define STAGES                                                                 \
    "\"stages\":[{\"first\":0,\"count\":2,\"recompute\":\"none\"},"            \
    "{\"first\":2,\"count\":2,\"recompute\":\"full\"}],"
#define SCHEDULE "\"schedule\":{\"name\":\"1f1b\"},"
#define REST "\"sharding\":\"none\",\"logical_replicas\":2,\"seed\":1"
#define PLAN HEAD MODEL WORK DEGREES COUNTS STAGES SCHEDULE REST "}"

static struct pen_plan *parse_plan(const char *text)
{
    struct pen_plan *plan = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_plan_parse(text, strlen(text), &plan, &why) != PEN_OK)
        fail_msg("%s\nrefused: %s", text, pen_text_string(&why));
    pen_text_release(&why);
    return plan;
}

static void expect_refusal(const char *text, const char *expected)
{
    struct pen_plan *plan = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_plan_parse(text, strlen(text), &plan, &why) != PEN_INVALID)
        fail_msg("accepted: %s", text);
    assert_string_equal(expected, pen_text_string(&why));
    assert_null(plan);
    pen_text_release(&why);
}

static void expect_same_print(const struct pen_plan *plan)
{
    struct pen_text first = PEN_TEXT_EMPTY;
    struct pen_text second = PEN_TEXT_EMPTY;
    pen_plan_print(plan, &first);
    struct pen_plan *again = parse_plan(pen_text_string(&first));
    pen_plan_print(again, &second);
    assert_string_equal(pen_text_string(&first), pen_text_string(&second));
    pen_plan_free(again);
    pen_text_release(&first);
    pen_text_release(&second);
}

static void a_plan_is_read(void **state)
{
    (void)state;
    struct pen_plan *plan = parse_plan(PLAN);
    assert_string_equal("m", plan->model);
    assert_string_equal(HASH, plan->model_hash);
    assert_int_equal(8, plan->sequence);
    assert_int_equal(PEN_NUMBER_F32, plan->number);
    assert_int_equal(2, plan->degrees[PEN_DEGREE_DP]);
    assert_int_equal(2, plan->degrees[PEN_DEGREE_PP]);
    assert_int_equal(1, plan->degrees[PEN_DEGREE_EP]);
    assert_int_equal(2, plan->num_stages);
    assert_int_equal(2, plan->stages[1].first);
    assert_int_equal(2, plan->stages[1].count);
    assert_int_equal(PEN_RECOMPUTE_FULL, plan->stages[1].recompute);
    assert_string_equal("1f1b", plan->schedule.name);
    assert_null(plan->schedule.file);
    assert_int_equal(PEN_SHARDING_NONE, plan->sharding);
    assert_int_equal(2, plan->logical_replicas);
    assert_int_equal(4, pen_plan_num_ranks(plan));
    assert_int_equal(8, pen_plan_global_batch(plan));
    assert_false(plan->predicted.is_there);
    expect_same_print(plan);
    pen_plan_free(plan);
}

static void all_that_a_plan_can_say_comes_back(void **state)
{
    (void)state;
    struct pen_plan *plan = parse_plan(
        HEAD MODEL "\"workload\":{\"sequence\":1024,\"dtype\":\"bf16\"},"
                   "\"degrees\":{\"dp\":1,\"tp\":1,\"pp\":1,\"vpp\":2,"
                   "\"cp\":1,\"ep\":1}," COUNTS STAGES
                   "\"schedule\":{\"name\":\"zb-v\",\"slices\":2,"
                   "\"batches\":3,\"warmup\":4,\"memory_limit\":0.1,"
                   "\"vertical_sync\":true},"
                   "\"sharding\":\"zero1\",\"logical_replicas\":8,"
                   "\"seed\":9223372036854775807,"
                   "\"predicted\":{\"step_sec\":0.3,\"bubble\":0.125,"
                   "\"utilisation\":0.7,\"tokens_per_sec\":1e5,"
                   "\"memory\":[{\"count\":1,\"weights\":1,"
                   "\"gradients\":2,\"optimizer\":3,\"activations\":4,"
                   "\"loss\":5,\"buffers\":6,\"overhead\":7}]}}");
    assert_int_equal(PEN_NUMBER_BF16, plan->number);
    assert_int_equal(2, plan->schedule.slices);
    assert_int_equal(3, plan->schedule.batches);
    assert_int_equal(4, plan->schedule.warmup);
    expect_close(0.1, plan->schedule.memory_limit, "memory limit");
    assert_true(plan->schedule.has_vertical_sync);
    assert_int_equal(PEN_SHARDING_ZERO1, plan->sharding);
    assert_true(plan->seed == INT64_MAX);
    assert_true(plan->predicted.is_there);
    assert_true(plan->predicted.step_sec == 0.3);
    assert_true(plan->predicted.utilisation == 0.7);
    assert_int_equal(7, plan->predicted.memory[0].bytes[PEN_MEMORY_OVERHEAD]);
    assert_int_equal(28, pen_plan_memory_bytes(&plan->predicted.memory[0]));
    expect_same_print(plan);
    pen_plan_free(plan);
    plan = parse_plan(HEAD MODEL WORK DEGREES COUNTS STAGES
                      "\"schedule\":{\"file\":\"a b.pen\"}," REST "}");
    assert_null(plan->schedule.name);
    assert_string_equal("a b.pen", plan->schedule.file);
    expect_same_print(plan);
    pen_plan_free(plan);
}

static void a_plan_is_made_and_saved(void **state)
{
    (void)state;
    char folder[] = "/tmp/penstock-plan-XXXXXX";
    char path[100];
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/plan.json", folder);
    struct pen_plan *plan = pen_plan_create(2, 1);
    struct pen_plan *loaded = NULL;
    assert_non_null(plan);
    assert_int_equal(PEN_INVALID, pen_plan_save(plan, path, &why));
    assert_int_not_equal(0, access(path, F_OK));
    assert_true(pen_plan_set(&plan->model, "gpt2"));
    memcpy(plan->model_hash, HASH, PEN_HASH_SIZE);
    plan->sequence = 64;
    plan->stages[0].count = 3;
    plan->stages[1] = (struct pen_layer_range){.first = 3, .count = 1};
    assert_int_equal(PEN_OK, pen_plan_save(plan, path, NULL));
    assert_int_equal(PEN_OK, pen_plan_load(path, &loaded, NULL));
    assert_int_equal(3, loaded->stages[1].first);
    assert_string_equal("1f1b", loaded->schedule.name);
    pen_plan_free(loaded);
    pen_plan_free(plan);
    assert_int_equal(PEN_OK, pen_file_write(path, "{\n\"a\":\n}", 8, NULL));
    pen_text_clear(&why);
    assert_int_equal(PEN_INVALID, pen_plan_load(path, &loaded, &why));
    assert_non_null(strstr(pen_text_string(&why), "plan.json: line 3, column"));
    unlink(path);
    rmdir(folder);
    pen_text_release(&why);
}

static void a_plan_fits_its_model(void **state)
{
    (void)state;
    struct pen_model *model = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_plan *plan = parse_plan(PLAN);
    assert_int_equal(PEN_OK, pen_model_load("preset:gpt2", &model, NULL));
    assert_int_equal(PEN_INVALID, pen_plan_fits(plan, model, &why));
    assert_string_equal("the plan is for another model (m)",
                        pen_text_string(&why));
    pen_text_clear(&why);
    assert_int_equal(PEN_OK,
                     pen_profile_hash_model(model, plan->model_hash, NULL));
    assert_int_equal(PEN_INVALID, pen_plan_fits(plan, model, &why));
    assert_string_equal("the stages have 4 layers, but the model has 14",
                        pen_text_string(&why));
    plan->stages[1].count = 12;
    assert_int_equal(PEN_OK, pen_plan_fits(plan, model, NULL));
    pen_plan_free(plan);
    pen_model_free(model);
    pen_text_release(&why);
}

static void wrong_plans_are_refused_by_their_place(void **state)
{
    (void)state;
    expect_refusal("{\"format\":\"penstock-costs\",\"version\":1}",
                   "format must be \"penstock-plan\"");
    expect_refusal("{\"format\":\"penstock-plan\",\"version\":4}",
                   "version must be an integer from 1 to 3");
    expect_refusal("[]", "the file must be one JSON object");
    expect_refusal("{\"seed\":1,\n \"seed\":2}",
                   "line 2, column 7: duplicate object key near '\"seed\"'");
    expect_refusal(HEAD "\"sede\":1}",
                   "sede is not a key of this format; expected one of format "
                   "version model cluster target workload degrees micro_batch "
                   "microbatches stages schedule sharding sequence_parallel "
                   "logical_replicas seed predicted");
    expect_refusal(HEAD WORK "\"seed\":1}", "model must be an object");
    expect_refusal(HEAD "\"model\":{\"name\":\"m\",\"sha256\":\"12\"}}",
                   "model.sha256 must be 64 hexadecimal digits");
    expect_refusal(HEAD "\"model\":{\"name\":\"a\\\"b\",\"sha256\":\"12\"}}",
                   "model.name must be a string of 1 to 255 printable ASCII "
                   "characters without quotes and backslashes");
    expect_refusal(HEAD MODEL
                   "\"workload\":{\"sequence\":8,\"dtype\":\"f16\"}}",
                   "workload.dtype must be one of \"f32\" \"bf16\" \"fp16\" "
                   "\"fp8\" \"mxfp8\" \"nvfp4\"");
    expect_refusal(HEAD MODEL WORK "\"degrees\":{\"dp\":0}}",
                   "degrees.dp must be an integer from 1 to 1000000");
    expect_refusal(HEAD MODEL WORK "\"degrees\":{\"dp\":1}}",
                   "degrees.tp must be an integer from 1 to 1000000");
    expect_refusal(HEAD MODEL WORK DEGREES "\"micro_batch\":1.5}",
                   "micro_batch must be an integer from 1 to 16777216");
}

/* A plan with groups has the version that knows them, others keep theirs. */
static void groups_that_share_weights_come_back(void **state)
{
    (void)state;
#define GROUPS(version, sharding, group)                                       \
    "{\"format\":\"penstock-plan\",\"version\":" version "," MODEL WORK        \
    "\"degrees\":{\"dp\":4,\"tp\":1,\"pp\":2,\"vpp\":1,\"cp\":1,\"ep\":1}"     \
    "," COUNTS STAGES SCHEDULE "\"sharding\":\"" sharding                      \
    "\",\"sharding_group\":" group ",\"logical_replicas\":4,\"seed\":1}"
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_plan *plan = parse_plan(GROUPS("3", "zero3", "2"));
    assert_int_equal(2, plan->sharding_group);
    expect_same_print(plan);
    pen_plan_print(plan, &text);
    assert_non_null(strstr(pen_text_string(&text), "\"version\": 3,"));
    pen_text_release(&text);
    plan->sharding_group = 0;
    pen_plan_print(plan, &text);
    assert_non_null(strstr(pen_text_string(&text), "\"version\": 1,"));
    pen_text_release(&text);
    pen_plan_free(plan);
    expect_refusal(GROUPS("3", "zero3", "3"),
                   "sharding_group 3 does not divide dp x cp, 4; use a number "
                   "that does, or drop it");
    expect_refusal(GROUPS("3", "zero2", "2"),
                   "sharding_group 2 is about weights, which zero2 keeps "
                   "whole; use zero3, or drop it");
    expect_refusal(GROUPS("2", "zero3", "2"),
                   "sharding_group is not a key of this format; expected one "
                   "of format version model cluster target workload degrees "
                   "micro_batch microbatches stages schedule sharding "
                   "sequence_parallel logical_replicas seed predicted recipe");
}

static void parts_that_do_not_go_together_are_refused(void **state)
{
    (void)state;
    expect_refusal(HEAD MODEL WORK DEGREES COUNTS
                   "\"stages\":[],\"sharding\":\"none\",\"seed\":1,"
                   "\"logical_replicas\":2}",
                   "stages must be a list of 1 to 65535 objects");
    expect_refusal(
        HEAD MODEL WORK DEGREES COUNTS "\"stages\":[{\"first\":0,\"count\":2,"
                                       "\"recompute\":\"none\"}]," SCHEDULE REST
                                       "}",
        "the plan has 1 stages; it must have pp * vpp, 2, and at most "
        "65535");
    expect_refusal(
        HEAD MODEL WORK DEGREES COUNTS
        "\"stages\":[{\"first\":0,\"count\":2,"
        "\"recompute\":\"none\"},{\"first\":3,\"count\":1,"
        "\"recompute\":\"none\"}]," SCHEDULE REST "}",
        "stages[1] must begin at layer 2 and have at least one layer");
    expect_refusal(HEAD MODEL WORK DEGREES COUNTS
                   "\"stages\":[{\"first\":0,\"count\":2,"
                   "\"recompute\":\"some\"}]," SCHEDULE REST "}",
                   "stages[0].recompute must be one of \"none\" \"selective\" "
                   "\"full\"");
    expect_refusal(HEAD MODEL WORK DEGREES COUNTS STAGES SCHEDULE
                   "\"sharding\":\"none\",\"logical_replicas\":3,\"seed\":1}",
                   "logical_replicas must be a multiple of dp, 2, and at most "
                   "1000000");
    expect_refusal(HEAD MODEL WORK DEGREES COUNTS STAGES
                   "\"schedule\":{\"file\":\"a\",\"name\":\"b\"}," REST "}",
                   "schedule.name is not a key of this format; expected one "
                   "of file");
    expect_refusal(HEAD MODEL WORK DEGREES COUNTS STAGES SCHEDULE REST
                   ",\"predicted\":{\"step_sec\":1}}",
                   "predicted.bubble is missing");
    expect_refusal(HEAD MODEL WORK DEGREES COUNTS STAGES SCHEDULE REST
                   ",\"predicted\":{\"step_sec\":1,\"bubble\":2,"
                   "\"utilisation\":0,\"tokens_per_sec\":0}}",
                   "predicted.bubble must be a number from 0 to 1");
    expect_refusal(
        HEAD MODEL WORK DEGREES COUNTS STAGES SCHEDULE REST
        ",\"predicted\":{\"step_sec\":1,\"bubble\":0,"
        "\"utilisation\":0,\"tokens_per_sec\":0,"
        "\"memory\":[{\"count\":3,\"weights\":1,"
        "\"gradients\":2,\"optimizer\":3,\"activations\":4,"
        "\"loss\":5,\"buffers\":6,\"overhead\":7}]}}",
        "predicted.memory describes 3 ranks, but the degrees make 4");
}

/* ---- version 2: a recipe ---- */

#define NEW "{\"format\":\"penstock-plan\",\"version\":2,"
#define SHARED                                                                 \
    "\"degrees\":{\"dp\":2,\"tp\":4,\"pp\":2,\"vpp\":1,\"cp\":1,\"ep\":8"
#define BF16 "\"workload\":{\"sequence\":8,\"dtype\":\"bf16\"},"
#define PLAN_WITH(degrees, recipe)                                             \
    NEW MODEL BF16 degrees "}," COUNTS STAGES SCHEDULE REST                    \
                           ",\"recipe\":{" recipe "}}"

static bool is_version(const struct pen_plan *plan, const char *version)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_plan_print(plan, &text);
    bool is_it = strstr(pen_text_string(&text), version) != NULL;
    pen_text_release(&text);
    return is_it;
}

static void a_recipe_comes_back(void **state)
{
    (void)state;
    struct pen_plan *plan =
        parse_plan(PLAN_WITH(SHARED ",\"expert_tp\":1",
                             "\"dispatcher\":\"deepep\","
                             "\"graphs\":\"none\",\"fused_experts\":false,"
                             "\"recompute_modules\":[\"moe_act\","
                             "\"core_attn\"],\"gradient_bytes\":2"));
    assert_int_equal(1, plan->expert_tp);
    assert_int_equal(PEN_DISPATCHER_DEEPEP, plan->recipe.dispatcher);
    assert_int_equal(PEN_GRAPHS_NONE, plan->recipe.graphs);
    assert_int_equal(1u << PEN_MODULE_EXPERT_ACT |
                         1u << PEN_MODULE_CORE_ATTENTION,
                     plan->recipe.modules);
    assert_int_equal(2, plan->recipe.gradient_bytes);
    assert_true(is_version(plan, "\"version\": 2"));
    expect_same_print(plan);
    pen_plan_free(plan);
}

/* Each member alone, with all values that it may have. */
static void every_member_of_a_recipe_comes_back(void **state)
{
    (void)state;
    for (const struct pen_recipe_field *field = pen_recipe_fields;
         field->key != NULL; field++)
        for (unsigned value = 1; value < 200; value++) {
            struct pen_plan *plan = parse_plan(PLAN);
            struct pen_text text = PEN_TEXT_EMPTY;
            pen_recipe_set(&plan->recipe, field, value);
            if (pen_recipe_allows(field, value) &&
                pen_plan_check(plan, NULL) == PEN_OK) {
                pen_plan_print(plan, &text);
                struct pen_plan *again = parse_plan(pen_text_string(&text));
                assert_int_equal(pen_recipe_get(&plan->recipe, field),
                                 pen_recipe_get(&again->recipe, field));
                assert_false(pen_recipe_is_plain(&again->recipe));
                expect_same_print(again);
                pen_plan_free(again);
            }
            pen_text_release(&text);
            pen_plan_free(plan);
        }
}

/* So that 0.1.0 reads it. */
static void a_plan_without_a_recipe_is_of_version_1(void **state)
{
    (void)state;
    struct pen_plan *plan = parse_plan(PLAN_WITH(SHARED, ""));
    assert_true(is_version(plan, "\"version\": 1"));
    expect_same_print(plan);
    pen_plan_free(plan);
}

static void wrong_recipes_are_refused(void **state)
{
    (void)state;
    expect_refusal(HEAD MODEL BF16 SHARED ",\"expert_tp\":1}}",
                   "degrees.expert_tp is not a key of this format; expected "
                   "one of dp tp pp vpp cp ep");
    expect_refusal(PLAN_WITH(SHARED ",\"expert_tp\":2", ""),
                   "expert_tp 2 x ep 8 does not divide dp x tp x cp, 8; choose "
                   "an ep whose product does");
    expect_refusal(PLAN_WITH(SHARED, "\"dispatcher\":\"nccl\""),
                   "recipe.dispatcher must be one of \"alltoall\" "
                   "\"allgather\" \"deepep\" \"hybridep\"");
    expect_refusal(PLAN_WITH(SHARED, "\"moment_bytes\":7"),
                   "recipe.moment_bytes must be one of 2 3 4 5 6 8");
    expect_refusal(PLAN_WITH(SHARED, "\"mtp_blocks\":0"),
                   "recipe.mtp_blocks must be an integer from 1 to 64");
    expect_refusal(PLAN_WITH(SHARED, "\"drop_tokens\":1"),
                   "recipe.drop_tokens must be true or false");
    expect_refusal(PLAN_WITH(SHARED, "\"offload_modules\":[\"mlp\",\"mlp\"]"),
                   "recipe.offload_modules must be a list of one or more "
                   "different words of \"core_attn\" \"layernorm\" "
                   "\"mla_up_proj\" \"mlp\" \"moe\" \"moe_act\" "
                   "\"shared_experts\"");
    struct pen_plan *plan = NULL;
    assert_int_equal(PEN_INVALID,
                     pen_plan_parse(PLAN_WITH(SHARED, "\"speed\":1"),
                                    strlen(PLAN_WITH(SHARED, "\"speed\":1")),
                                    &plan, NULL));
}

static void recipes_that_no_runtime_has_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *recipe;
        const char *reason;
    } cases[] = {
        {PLAN_WITH(SHARED, "\"delay_weight_gradients\":true"),
         "needs recipe.overlap_experts"},
        {PLAN_WITH(SHARED, "\"overlap_experts\":true"), "use vpp 2 or more"},
        {PLAN_WITH(SHARED, "\"paged_stash\":true"), "dispatcher hybridep"},
        {PLAN_WITH(SHARED, "\"drop_tokens\":true,"
                           "\"dispatcher\":\"deepep\""),
         "dispatcher alltoall only"},
        {PLAN_WITH(SHARED, "\"graphs\":\"full\""), "wait for the host"},
        {PLAN_WITH(SHARED, "\"graphs\":\"modules\""),
         "excludes full recomputation"},
        {PLAN_WITH(SHARED, "\"offload_blocks\":1"), "use pp 1"},
        {PLAN_WITH(SHARED, "\"narrow_gather\":true"), "8 bits or less"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_plan *plan = NULL;
        struct pen_text why = PEN_TEXT_EMPTY;
        assert_int_equal(PEN_INVALID,
                         pen_plan_parse(cases[i].recipe,
                                        strlen(cases[i].recipe), &plan, &why));
        if (strstr(pen_text_string(&why), cases[i].reason) == NULL)
            fail_msg("%s\nexpected: %s", pen_text_string(&why),
                     cases[i].reason);
        pen_text_release(&why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_read),
        cmocka_unit_test(all_that_a_plan_can_say_comes_back),
        cmocka_unit_test(a_plan_is_made_and_saved),
        cmocka_unit_test(a_plan_fits_its_model),
        cmocka_unit_test(wrong_plans_are_refused_by_their_place),
        cmocka_unit_test(groups_that_share_weights_come_back),
        cmocka_unit_test(parts_that_do_not_go_together_are_refused),
        cmocka_unit_test(a_recipe_comes_back),
        cmocka_unit_test(every_member_of_a_recipe_comes_back),
        cmocka_unit_test(a_plan_without_a_recipe_is_of_version_1),
        cmocka_unit_test(wrong_recipes_are_refused),
        cmocka_unit_test(recipes_that_no_runtime_has_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
