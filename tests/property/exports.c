/*
 * Random plans, exported to every target: none is refused, what is written is
 * what the nearest plan says, and what was noted stands in the files.
 */
#include "support/random_plan.h"
#include "support/support.h"

#include "base/file.h"
#include "export/export.h"
#include "export/megatron_line.h"
#include "schedule/torch_csv.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUM_PLANS 200

/* The name by which this very version is found. */
static void full_name(const struct pen_export *exporter, char *out, size_t size)
{
    snprintf(out, size, "%s%s%s", exporter->name,
             exporter->version == NULL ? "" : "@",
             exporter->version == NULL ? "" : exporter->version);
}

/* What a check gets to see. */
struct exported {
    const struct pen_export *exporter;
    const struct random_plan *given;
    const struct pen_plan *nearest;
    const struct pen_export_files *files;
    const char *notes;
};

static const struct pen_text *find_file(const struct exported *exported,
                                        const char *name)
{
    for (uint32_t i = 0; i < exported->files->count; i++)
        if (strcmp(exported->files->list[i].name, name) == 0)
            return &exported->files->list[i].text;
    return NULL;
}

/* ---- one random plan ---- */

static void export_one(const struct pen_export *exporter,
                       const struct random_plan *given,
                       void (*check)(const struct exported *))
{
    struct pen_export_files files = PEN_EXPORT_NO_FILES;
    struct pen_text notes = PEN_TEXT_EMPTY;
    struct pen_text again = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_plan *nearest = NULL;
    if (pen_export_make(exporter, given->plan, given->model, &files, &notes,
                        &why) != PEN_OK)
        fail_msg("refused: %s", pen_text_string(&why));
    assert_int_equal(PEN_OK,
                     pen_export_nearest(exporter, given->plan, given->model,
                                        &nearest, &again, &why));
    assert_string_equal(pen_text_string(&notes), pen_text_string(&again));
    struct exported exported = {exporter, given, nearest, &files,
                                pen_text_string(&notes)};
    check(&exported);
    pen_plan_free(nearest);
    pen_export_files_release(&files);
    pen_text_release(&notes);
    pen_text_release(&again);
    pen_text_release(&why);
}

static void export_many(const char *target,
                        void (*check)(const struct exported *))
{
    struct pen_random random = {.state = 20261115};
    const struct pen_export *exporter = pen_export_find(target, NULL);
    assert_non_null(exporter);
    for (int i = 0; i < NUM_PLANS; i++) {
        struct random_plan given;
        random_plan_make(&random, target, &given);
        export_one(exporter, &given, check);
        random_plan_release(&given);
    }
}

/* ---- what holds for all ---- */

static void expect_notes_in_file(const struct exported *exported)
{
    const char *line = exported->notes;
    char comment[400];
    while (*line != '\0') {
        size_t length = strcspn(line, "\n");
        bool is_found = false;
        snprintf(comment, sizeof comment, "# note: %.*s\n", (int)length, line);
        for (uint32_t i = 0; i < exported->files->count; i++)
            is_found = is_found ||
                       strstr(pen_text_string(&exported->files->list[i].text),
                              comment) != NULL;
        if (!is_found)
            fail_msg("no file has %s", comment);
        line += length + 1;
    }
}

/* The nearest plan is near enough: exported again, nothing is noted. */
static void expect_still(const struct exported *exported)
{
    struct pen_plan *again = NULL;
    struct pen_text notes = PEN_TEXT_EMPTY;
    struct pen_text first = PEN_TEXT_EMPTY;
    struct pen_text second = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_OK, pen_export_nearest(
                                 exported->exporter, exported->nearest,
                                 exported->given->model, &again, &notes, NULL));
    pen_plan_print(exported->nearest, &first);
    pen_plan_print(again, &second);
    assert_string_equal(pen_text_string(&first), pen_text_string(&second));
    pen_plan_free(again);
    pen_text_release(&notes);
    pen_text_release(&first);
    pen_text_release(&second);
}

/* Neither ranks nor batch change on the way. */
static void expect_same_work(const struct exported *exported)
{
    const struct pen_plan *plan = exported->given->plan;
    assert_true(pen_plan_num_ranks(plan) ==
                pen_plan_num_ranks(exported->nearest));
    assert_true(pen_plan_global_batch(plan) ==
                pen_plan_global_batch(exported->nearest));
    assert_int_equal(
        PEN_OK, pen_plan_fits(exported->nearest, exported->given->model, NULL));
}

static void check_common(const struct exported *exported)
{
    assert_true(exported->files->count > 0);
    expect_notes_in_file(exported);
    expect_still(exported);
    expect_same_work(exported);
}

static void every_target_takes_random_plans(void **state)
{
    (void)state;
    const struct pen_export *exporter;
    for (size_t i = 0; (exporter = pen_export_at(i)) != NULL; i++) {
        char name[64];
        full_name(exporter, name, sizeof name);
        export_many(name, check_common);
    }
}

/* ---- Megatron: there and back ---- */

static void expect_same_model(const struct pen_model *a,
                              const struct pen_model *b)
{
    assert_int_equal(a->num_blocks, b->num_blocks);
    assert_int_equal(a->hidden, b->hidden);
    assert_int_equal(a->intermediate, b->intermediate);
    assert_int_equal(a->num_heads, b->num_heads);
    assert_int_equal(a->num_kv_heads, b->num_kv_heads);
    assert_int_equal(a->head_dim, b->head_dim);
    assert_int_equal(a->vocab, b->vocab);
    assert_int_equal(a->max_positions, b->max_positions);
    assert_int_equal(a->window, b->window);
    assert_int_equal(a->norm, b->norm);
    assert_int_equal(a->activation, b->activation);
    assert_int_equal(a->rope.kind, b->rope.kind);
    assert_true(a->rope.theta == b->rope.theta);
    assert_true(a->rope.factor == b->rope.factor);
    assert_true(a->norm_eps == b->norm_eps);
    assert_int_equal(a->has_tied_embeddings, b->has_tied_embeddings);
    assert_int_equal(a->has_qkv_bias, b->has_qkv_bias);
    assert_int_equal(a->has_mlp_bias, b->has_mlp_bias);
    assert_int_equal(a->has_qk_norm, b->has_qk_norm);
    assert_int_equal(a->num_experts, b->num_experts);
    assert_int_equal(a->experts_per_token, b->experts_per_token);
    assert_int_equal(a->kv_lora_rank, b->kv_lora_rank);
    assert_int_equal(a->dtype, b->dtype);
    assert_true(a->num_parameters == b->num_parameters);
}

/* What no option carries is taken over, all else has to be there. */
static void expect_same_plan(const struct pen_plan *plan, struct pen_plan *read)
{
    struct pen_text first = PEN_TEXT_EMPTY;
    struct pen_text second = PEN_TEXT_EMPTY;
    assert_true(pen_plan_set(&read->model, plan->model));
    assert_true(pen_plan_set(&read->config, plan->config));
    assert_true(pen_plan_set(&read->cluster, plan->cluster));
    memcpy(read->model_hash, plan->model_hash, sizeof read->model_hash);
    read->node_size = plan->node_size;
    pen_plan_print(plan, &first);
    pen_plan_print(read, &second);
    assert_string_equal(pen_text_string(&first), pen_text_string(&second));
    pen_text_release(&first);
    pen_text_release(&second);
}

/* Whether the options say all of a model, not the nearest one. */
static bool is_whole(const struct pen_model *model)
{
    return model->family != PEN_FAMILY_OPT &&
           model->family != PEN_FAMILY_BLOOM &&
           model->family != PEN_FAMILY_GPT_NEOX &&
           model->family != PEN_FAMILY_GPT_OSS;
}

static void check_megatron(const struct exported *exported)
{
    const struct pen_text *file = find_file(exported, "megatron.args");
    struct pen_model *model = NULL;
    struct pen_plan *plan = NULL;
    struct pen_text notes = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_non_null(file);
    if (pen_megatron_line_parse(pen_text_string(file), file->length,
                                pen_plan_num_ranks(exported->nearest), &model,
                                &plan, &notes, &why) != PEN_OK)
        fail_msg("%s\nnot read back: %s", pen_text_string(file),
                 pen_text_string(&why));
    if (is_whole(exported->given->model))
        expect_same_model(exported->given->model, model);
    expect_same_plan(exported->nearest, plan);
    pen_model_free(model);
    pen_plan_free(plan);
    pen_text_release(&notes);
    pen_text_release(&why);
}

static void a_megatron_line_reads_back_as_its_plan(void **state)
{
    (void)state;
    export_many("megatron", check_megatron);
    export_many("megatron@2026.08", check_megatron);
}

/* ---- Megatron of 2026: options that exist ---- */

static struct pen_text known_options = PEN_TEXT_EMPTY;
static unsigned seen_members; /* bits, by their place in the table */
static unsigned seen_folded;

static void load_options(const char *name)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text file = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/src/lint/%s", PEN_SOURCE_DIR, name);
    assert_int_equal(
        PEN_OK, pen_file_read(pen_text_string(&path), 1u << 20, &file, NULL));
    pen_text_add_string(&known_options, pen_text_string(&file));
    pen_text_release(&path);
    pen_text_release(&file);
}

/* At the begin of a line, with a blank or the end of the line behind it. */
static bool is_known(const char *name, size_t length)
{
    char line[200];
    const char *at = pen_text_string(&known_options);
    int size = snprintf(line, sizeof line, "\n%.*s", (int)length, name);
    assert_true(size > 0 && (size_t)size < sizeof line);
    while ((at = strstr(at, line)) != NULL) {
        at += size;
        if (strchr("\t\n", *at) != NULL)
            return true;
    }
    return false;
}

static void check_names(const struct exported *exported)
{
    const char *text = pen_text_string(find_file(exported, "megatron.args"));
    const struct pen_plan *plan = exported->nearest;
    for (const char *line = text; *line != '\0';
         line += strcspn(line, "\n") + 1) {
        size_t length = strcspn(line, " \n");
        if (line[0] == '-' && !is_known(line, length))
            fail_msg("no option of Megatron: %.*s", (int)length, line);
    }
    for (unsigned i = 0; pen_recipe_fields[i].key != NULL; i++)
        if (pen_recipe_get(&plan->recipe, &pen_recipe_fields[i]) != 0)
            seen_members |= 1u << i;
    seen_folded += plan->expert_tp == 1 &&
                   plan->degrees[PEN_DEGREE_EP] > plan->degrees[PEN_DEGREE_DP];
}

static void options_of_2026_exist_and_say_every_member(void **state)
{
    (void)state;
    load_options("megatron_options.tsv");
    load_options("megatron_2026_options.txt");
    seen_members = 0;
    export_many("megatron@2026.08", check_names);
    for (unsigned i = 0; pen_recipe_fields[i].key != NULL; i++)
        if ((seen_members >> i & 1) == 0)
            fail_msg("no plan has recipe.%s", pen_recipe_fields[i].key);
    assert_true(seen_folded > 0);
    pen_text_release(&known_options);
}

/* ---- torchtitan: rows are a right schedule ---- */

static void check_csv(const struct exported *exported)
{
    const struct pen_text *csv = find_file(exported, "schedule.csv");
    struct pen_schedule *compute = NULL;
    struct pen_schedule *schedule = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (csv == NULL)
        return;
    if (pen_torch_csv_parse(pen_text_string(csv), csv->length, &compute,
                            &why) != PEN_OK ||
        pen_schedule_lower(compute, &schedule, &why) != PEN_OK)
        fail_msg("%s\n%s", pen_text_string(csv), pen_text_string(&why));
    const struct pen_plan *plan = exported->nearest;
    assert_int_equal(plan->degrees[PEN_DEGREE_PP], schedule->shape.num_ranks);
    assert_int_equal(plan->num_stages, schedule->shape.num_stages);
    assert_int_equal(plan->num_microbatches, schedule->shape.num_microbatches);
    pen_schedule_free(compute);
    pen_schedule_free(schedule);
    pen_text_release(&why);
}

static void rows_for_torchtitan_have_the_shape_of_the_plan(void **state)
{
    (void)state;
    export_many("torchtitan@0.2.2", check_csv);
    export_many("torchtitan@0.3.0", check_csv);
}

/* ---- DeepSpeed: JSON whose numbers agree ---- */

static void check_deepspeed(const struct exported *exported)
{
    const struct pen_text *file = find_file(exported, "ds_config.json");
    json_t *config = json_loads(pen_text_string(file), 0, NULL);
    assert_non_null(config);
    json_int_t whole =
        json_integer_value(json_object_get(config, "train_batch_size"));
    json_int_t micro = json_integer_value(
        json_object_get(config, "train_micro_batch_size_per_gpu"));
    json_int_t count = json_integer_value(
        json_object_get(config, "gradient_accumulation_steps"));
    assert_int_equal(whole,
                     micro * count * exported->nearest->degrees[PEN_DEGREE_DP]);
    json_int_t stage = json_integer_value(
        json_object_get(json_object_get(config, "zero_optimization"), "stage"));
    if (exported->nearest->degrees[PEN_DEGREE_PP] > 1)
        assert_true(stage <= 1);
    json_decref(config);
}

static void batches_of_deepspeed_agree(void **state)
{
    (void)state;
    export_many("deepspeed", check_deepspeed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_target_takes_random_plans),
        cmocka_unit_test(a_megatron_line_reads_back_as_its_plan),
        cmocka_unit_test(options_of_2026_exist_and_say_every_member),
        cmocka_unit_test(rows_for_torchtitan_have_the_shape_of_the_plan),
        cmocka_unit_test(batches_of_deepspeed_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
