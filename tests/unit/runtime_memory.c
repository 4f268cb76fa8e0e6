/*
 * The memory of a training is as predicted before its first step, and grows
 * with the length of the sequence, not with its square.
 */
#include "support/support.h"

#include "runtime/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { VOCAB = 64, LENGTHS = 4 };

static const size_t lengths[LENGTHS] = {256, 512, 1024, 2048};

static const char gpt2[] =
    "{\"model_type\":\"gpt2\",\"vocab_size\":64,\"n_positions\":2048,"
    "\"n_embd\":128,\"n_layer\":2,\"n_head\":2}";

struct example {
    const char *name;
    const char *engine;
    bool is_bf16;
    enum pen_recompute recompute;
    bool has_step; /* the reference would take minutes */
};

/* Bytes. */
struct found {
    double activations; /* with the scratch of the engine, as predicted */
    double predicted;   /* of all */
    double grown;       /* resident from before the trainer to the end */
    double peak;        /* of all, getting ready included */
    double step_predicted;
    double step_peak;
};

/* One line of ids per sample. */
static struct pen_batches *batches_of(uint32_t sequence)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_batches *batches = NULL;
    for (unsigned line = 0; line < 4; line++) {
        for (unsigned i = 0; i <= sequence; i++)
            pen_text_add(&text, "%u ", (i * i + line) % VOCAB);
        pen_text_add(&text, "\n");
    }
    if (pen_batches_parse("lines", &text, sequence, VOCAB, &batches, &why) !=
        PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&text);
    return batches;
}

static void measure(const struct example *example, size_t sequence,
                    struct found *out)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_any_model model = {.decoder = NULL};
    struct pen_trainer *trainer = NULL;
    struct pen_trainer_memory memory;
    struct pen_step step;
    struct pen_batches *batches = batches_of((uint32_t)sequence);
    assert_int_equal(pen_model_parse(gpt2, strlen(gpt2), &model.decoder, &why),
                     PEN_OK);
    struct pen_trainer_options options = {
        .model = &model,
        .sample = pen_batches_shape(batches),
        .engine = pen_engine_find(example->engine),
        .is_bf16 = example->is_bf16,
        .threads = 2,
        .micro_batch = 4,
        .global_batch = 4,
        .recompute = example->recompute,
        .optimizer = {.kind = PEN_STEP_RULE_SGD},
        .rates = {.style = PEN_LR_CONSTANT, .rate = 1e-3}};
    uint32_t count;
    size_t before = pen_memory_resident();
    if (pen_trainer_create(&options, &trainer, &why) != PEN_OK ||
        pen_trainer_initialize(trainer, 7) != PEN_OK)
        fail_msg("%s: %s", example->name, pen_text_string(&why));
    pen_trainer_predict_memory(trainer, 0, 0, &memory);
    if (example->has_step &&
        pen_trainer_pass(trainer, batches, &step, &count, &why) != PEN_OK)
        fail_msg("%s: %s", example->name, pen_text_string(&why));
    *out = (struct found){.activations =
                              (double)(memory.activations + memory.parameters),
                          .grown = (double)(pen_memory_resident() - before),
                          .step_predicted = (double)memory.total,
                          .step_peak = (double)pen_memory_peak()};
    out->predicted = fmax(out->step_predicted, (double)memory.loading);
    out->peak = fmax(out->step_peak, (double)memory.loading);
    pen_trainer_free(trainer);
    pen_any_model_release(&model);
    pen_batches_free(batches);
}

/* In a process of its own, so that nothing is left of another length. */
static struct found measure_apart(const struct example *example,
                                  size_t sequence)
{
    struct found *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    pid_t child = fork();
    if (child == 0) {
        measure(example, sequence, shared);
        _exit(0);
    }
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
    struct found found = *shared;
    munmap(shared, sizeof *shared);
    print_message("%s, %zu tokens: %.2f MB predicted, grown by %.2f MB, in "
                  "all %.1f MB for %.1f MB\n",
                  example->name, sequence, 1e-6 * found.activations,
                  1e-6 * found.grown, 1e-6 * found.peak,
                  1e-6 * found.predicted);
    return found;
}

/* Bytes per token between the last two lengths, and the two before. */
static void expect_linear(const char *name, const double bytes[LENGTHS])
{
    double late = (bytes[3] - bytes[2]) / (double)(lengths[3] - lengths[2]);
    double early = (bytes[2] - bytes[1]) / (double)(lengths[2] - lengths[1]);
    if (fabs(late / early - 1) > 0.03)
        fail_msg("%s: %.0f bytes per token at first, %.0f later", name, early,
                 late);
}

static void expect_near(const char *name, size_t sequence, double predicted,
                        double found)
{
    if (fabs(found / predicted - 1) > 0.02)
        fail_msg("%s, %zu tokens: predicted %.1f MB, found %.1f MB", name,
                 sequence, 1e-6 * predicted, 1e-6 * found);
}

static const struct example examples[] = {
    {"f32", "onednn", false, PEN_RECOMPUTE_NONE, true},
    {"bf16, some again", "onednn", true, PEN_RECOMPUTE_SELECTIVE, true},
    {"f32, all again", "onednn", false, PEN_RECOMPUTE_FULL, true},
    {"reference", "reference", false, PEN_RECOMPUTE_NONE, false}};

enum { EXAMPLES = sizeof examples / sizeof *examples };

static void memory_grows_with_the_sequence(void **state)
{
    (void)state;
    for (int i = 0; i < EXAMPLES; i++) {
        double activations[LENGTHS], grown[LENGTHS];
        for (int k = 0; k < LENGTHS; k++) {
            struct found found = measure_apart(&examples[i], lengths[k]);
            activations[k] = found.activations;
            grown[k] = found.grown;
            expect_near(examples[i].name, lengths[k], found.predicted,
                        found.peak);
            /*
             * Of the room that the library may pack into it leaves up to a
             * megabyte alone, which the peak of getting ready hides.
             */
            if (k > 0)
                expect_near(examples[i].name, lengths[k], found.step_predicted,
                            found.step_peak);
        }
        expect_linear(examples[i].name, activations);
        expect_linear(examples[i].name, grown);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_grows_with_the_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
