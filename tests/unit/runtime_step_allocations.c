/*
 * A step allocates nothing: from the second one on, no call of ours. What
 * oneDNN asks for inside its own calls is counted apart and bounded.
 */
#include "support/support.h"

#include "runtime/trainer.h"
#include "support/allocations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEQUENCE = 64, VOCAB = 96, MICRO = 2, GLOBAL = 4 };

#define MAP_BYTES 1024 /* more than a part of a map of arguments has */

static const char gpt2[] =
    "{\"model_type\":\"gpt2\",\"vocab_size\":96,\"n_positions\":64,"
    "\"n_embd\":64,\"n_layer\":2,\"n_head\":2}";
static const char qwen3[] =
    "{\"model_type\":\"qwen3\",\"vocab_size\":96,\"hidden_size\":64,"
    "\"intermediate_size\":128,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":32,"
    "\"max_position_embeddings\":64,\"tie_word_embeddings\":true}";

struct example {
    const char *name;
    const char *config;
    const char *engine;
    bool is_bf16;
    enum pen_recompute recompute;
    enum pen_step_rule optimizer;
};

static struct pen_any_model model_of(const struct example *example)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_any_model model = {.decoder = NULL};
    if (pen_model_parse(example->config, strlen(example->config),
                        &model.decoder, &why) != PEN_OK)
        fail_msg("%s: %s", example->name, pen_text_string(&why));
    pen_text_release(&why);
    return model;
}

static struct pen_trainer *trainer_of(const struct example *example,
                                      const struct pen_any_model *model)
{
    struct pen_trainer_options options = {
        .model = model,
        .sample = {.num_ids = SEQUENCE, .num_targets = SEQUENCE},
        .engine = pen_engine_find(example->engine),
        .is_bf16 = example->is_bf16,
        .threads = 2,
        .micro_batch = MICRO,
        .global_batch = GLOBAL,
        .recompute = example->recompute,
        .optimizer = {.kind = example->optimizer,
                      .beta1 = 0.9,
                      .beta2 = 0.999,
                      .epsilon = 1e-8,
                      .momentum = 0.9,
                      .weight_decay = 0.01,
                      .clip_norm = 1},
        .rates = {.style = PEN_LR_CONSTANT, .rate = 1e-3}};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_trainer *trainer = NULL;
    if (pen_trainer_create(&options, &trainer, &why) != PEN_OK)
        fail_msg("%s: %s", example->name, pen_text_string(&why));
    pen_text_release(&why);
    assert_int_equal(pen_trainer_initialize(trainer, 7), PEN_OK);
    return trainer;
}

/* Out of a file that is mapped, as in a long training. */
static struct pen_batches *new_batches(void)
{
    char path[] = "/tmp/pen-tokens-XXXXXX";
    uint16_t tokens[SEQUENCE * 40];
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        tokens[i] = (uint16_t)(i * i % VOCAB);
    int handle = mkstemp(path);
    assert_true(handle >= 0);
    assert_int_equal(write(handle, tokens, sizeof tokens), sizeof tokens);
    close(handle);
    struct pen_data_path data = {.path = path};
    struct pen_batches_options options = {
        .sequence = SEQUENCE, .vocab = VOCAB, .seed = 3, .split = {1}};
    struct pen_batches *batches = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_batches_open(&data, 1, &options, &batches, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    unlink(path);
    return batches;
}

static void step(struct pen_trainer *trainer, struct pen_batches *batches)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_step done;
    uint32_t count;
    if (pen_trainer_pass(trainer, batches, &done, &count, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
}

static struct allocations count_step(struct pen_trainer *trainer,
                                     struct pen_batches *batches)
{
    allocations_begin();
    step(trainer, batches);
    return allocations_end();
}

static void show(const struct example *example, const struct allocations *found)
{
    static const char *const owners[] = {"ours", "oneDNN", "others"};
    for (int i = 0; i < ALLOCATION_OWNERS; i++)
        print_message("%s, a step, %s: %zu calls, %zu bytes, at most %zu\n",
                      example->name, owners[i], found->by[i].calls,
                      found->by[i].bytes, found->by[i].largest);
}

/* Otherwise oneDNN multiplies bf16 as it does floats. */
static bool has_bf16_instructions(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

/*
 * oneDNN puts the arguments of a primitive into a map, and its own matrix
 * product packs operands; nobody can hand it memory for either. It gives back
 * what it takes, so each step is like the one before.
 */
static void expect_no_growth(const struct example *example,
                             const struct allocations *before,
                             const struct allocations *found)
{
    const struct allocation_count *library = &found->by[ALLOCATION_ONEDNN];
    const struct allocation_count *last = &before->by[ALLOCATION_ONEDNN];
    assert_int_equal(last->calls, library->calls);
    assert_int_equal(last->bytes, library->bytes);
    if (strcmp(example->engine, "reference") == 0)
        assert_int_equal(library->calls, 0);
    else if (example->is_bf16 && has_bf16_instructions())
        assert_in_range(library->largest, 1, MAP_BYTES);
}

static const struct example examples[] = {
    {"reference", gpt2, "reference", false, PEN_RECOMPUTE_NONE,
     PEN_STEP_RULE_ADAM},
    {"f32", gpt2, "onednn", false, PEN_RECOMPUTE_NONE, PEN_STEP_RULE_ADAM},
    {"f32, all again", qwen3, "onednn", false, PEN_RECOMPUTE_FULL,
     PEN_STEP_RULE_SGD},
    {"bf16", gpt2, "onednn", true, PEN_RECOMPUTE_NONE, PEN_STEP_RULE_ADAM},
    {"bf16, some again", qwen3, "onednn", true, PEN_RECOMPUTE_SELECTIVE,
     PEN_STEP_RULE_ADAM}};

enum { EXAMPLES = sizeof examples / sizeof *examples };

static void no_step_but_the_first_allocates(void **state)
{
    (void)state;
    for (int i = 0; i < EXAMPLES; i++) {
        struct pen_any_model model = model_of(&examples[i]);
        struct pen_trainer *trainer = trainer_of(&examples[i], &model);
        struct pen_batches *batches = new_batches();
        step(trainer, batches);
        struct allocations second = count_step(trainer, batches);
        struct allocations third = count_step(trainer, batches);
        pen_batches_free(batches);
        pen_trainer_free(trainer);
        pen_any_model_release(&model);
        show(&examples[i], &third);
        assert_int_equal(third.by[ALLOCATION_OURS].calls, 0);
        assert_int_equal(third.by[ALLOCATION_OTHER].calls, 0);
        expect_no_growth(&examples[i], &second, &third);
    }
}

/* Or the counts above would prove nothing. */
static void allocations_are_counted(void **state)
{
    (void)state;
    allocations_begin();
    void *volatile block = malloc(100);
    free(block);
    block = strdup("seven b");
    free(block);
    struct allocations found = allocations_end();
    assert_int_equal(found.by[ALLOCATION_OURS].calls, 2);
    assert_int_equal(found.by[ALLOCATION_OURS].bytes, 108);
    assert_int_equal(found.by[ALLOCATION_OURS].largest, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_counted),
        cmocka_unit_test(no_step_but_the_first_allocates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
