/*
 * Each restriction of the trainer is told in words, alone and with its remedy,
 * and what generators say of their steps is what their schedules do.
 */
#include "support/models.h"
#include "support/support.h"

#include "schedule/restrictions.h"

#include <string.h>

static struct pen_model *model;

static int load(void **state)
{
    (void)state;
    model = parse_model("{\"model_type\":\"gpt2\",\"vocab_size\":100,"
                        "\"n_positions\":16,\"n_embd\":8,\"n_layer\":4,"
                        "\"n_head\":2}");
    return 0;
}

static int unload(void **state)
{
    (void)state;
    pen_model_free(model);
    return 0;
}

/* Two pipelines of four ranks, four micro-batches of two each. */
static struct pen_training_facts synchronous(void)
{
    return (struct pen_training_facts){.schedule = "1f1b",
                                       .num_ranks = 4,
                                       .num_stages = 4,
                                       .num_parts = 4,
                                       .num_slices = 1,
                                       .degrees = {2, 1, 4, 1, 1, 1},
                                       .sharding = PEN_SHARDING_ZERO1,
                                       .num_members = 2,
                                       .num_logical = 4,
                                       .micro_batch = 2,
                                       .global_batch = 16,
                                       .model = model,
                                       .sequence = 16,
                                       .has_tied_embeddings = true,
                                       .recomputes = true,
                                       .clip_norm = 1,
                                       .has_optimizer = true,
                                       .is_adam = true};
}

static struct pen_training_facts asynchronous(void)
{
    struct pen_training_facts facts = synchronous();
    facts.schedule = "pipedream-2bw";
    facts.is_asynchronous = true;
    facts.period = 4;
    facts.sharding = PEN_SHARDING_NONE;
    facts.num_logical = 2;
    facts.has_tied_embeddings = false;
    facts.clip_norm = 0;
    return facts;
}

static void expect_kept(const struct pen_training_facts *facts)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_restrictions_check(facts, PEN_REASON_ALONE, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
}

/* The remedy may be "". */
static void expect_broken(const struct pen_training_facts *facts,
                          const char *reason, const char *remedy)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_text all = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID,
                     pen_restrictions_check(facts, PEN_REASON_ALONE, &why));
    assert_string_equal(reason, pen_text_string(&why));
    pen_text_clear(&why);
    assert_int_equal(PEN_INVALID, pen_restrictions_check(
                                      facts, PEN_REASON_AND_REMEDY, &why));
    pen_text_add(&all, "%s%s", reason, remedy);
    assert_string_equal(pen_text_string(&all), pen_text_string(&why));
    pen_text_release(&why);
    pen_text_release(&all);
}

#define CHUNK_REMEDY                                                           \
    "; use another --context-parallel-size, with --schedule 1f1b"

#define EXPERT_REMEDY                                                          \
    "; use another --expert-model-parallel-size and --schedule 1f1b"

static void expect_not_dealt_out(const struct pen_training_facts *facts,
                                 const char *reason)
{
    expect_broken(facts, reason, EXPERT_REMEDY);
}

static void experts_are_dealt_out_evenly(void **state)
{
    (void)state;
    struct pen_model *experts =
        parse_model("{\"model_type\":\"mixtral\",\"vocab_size\":100,"
                    "\"max_position_embeddings\":16,\"hidden_size\":8,"
                    "\"num_hidden_layers\":4,\"num_attention_heads\":2,"
                    "\"num_key_value_heads\":2,\"intermediate_size\":8,"
                    "\"num_local_experts\":6,\"num_experts_per_tok\":2}");
    struct pen_training_facts facts = synchronous();
    facts.model = experts;
    facts.degrees[PEN_DEGREE_EP] = 2;
    expect_kept(&facts);
    facts.degrees[PEN_DEGREE_EP] = 3;
    expect_not_dealt_out(&facts, "ep 3 is not a power of two");
    facts.degrees[PEN_DEGREE_EP] = 4;
    expect_not_dealt_out(&facts,
                         "ep 4 does not divide the 6 experts of the model");
    facts.degrees[PEN_DEGREE_EP] = 2;
    facts.num_members = 3;
    expect_not_dealt_out(&facts, "ep 2 does not divide the 3 replicas");
    facts.num_members = 4;
    facts.num_stages = 8;
    expect_not_dealt_out(&facts,
                         "ep 2 needs a schedule with one copy of the model");
    facts.num_stages = 4;
    facts.has_uneven_shares = true;
    expect_not_dealt_out(&facts,
                         "ep 2 needs replicas with equal shares of the batch");
    facts.has_uneven_shares = false;
    facts.sharding = PEN_SHARDING_ZERO3;
    expect_kept(&facts);
    facts.sharding = PEN_SHARDING_NONE;
    facts.is_asynchronous = true;
    expect_not_dealt_out(&facts, "ep 2 needs a synchronous schedule");
    pen_model_free(experts);
}

static void any_training_is_restricted(void **state)
{
    (void)state;
    struct pen_training_facts facts = synchronous();
    expect_kept(&facts);
    facts.degrees[PEN_DEGREE_CP] = 2;
    expect_kept(&facts);
    facts.degrees[PEN_DEGREE_TP] = 2;
    expect_kept(&facts);
    facts.degrees[PEN_DEGREE_TP] = 1;
    facts.degrees[PEN_DEGREE_CP] = 3;
    expect_broken(&facts, "cp 3 is not a power of two", CHUNK_REMEDY);
    facts.degrees[PEN_DEGREE_CP] = 2;
    facts.sequence += 2;
    expect_broken(&facts,
                  "cp 2 needs a sequence length that twice this number divides",
                  CHUNK_REMEDY);
    facts.sequence -= 2;
    facts.sharding = PEN_SHARDING_ZERO3;
    expect_kept(&facts);
    facts.degrees[PEN_DEGREE_CP] = 1;
    facts.degrees[PEN_DEGREE_TP] = 2;
    expect_kept(&facts);
    facts.degrees[PEN_DEGREE_CP] = 2;
    facts.degrees[PEN_DEGREE_TP] = 1;
    facts.sharding = PEN_SHARDING_NONE;
    facts.num_slices = 2;
    expect_broken(&facts, "cp 2 needs sequences without token slices",
                  CHUNK_REMEDY);
    facts = synchronous();
    facts.degrees[PEN_DEGREE_EP] = 2;
    expect_broken(&facts, "ep 2: the model has no experts", EXPERT_REMEDY);
    facts = synchronous();
    facts.degrees[PEN_DEGREE_TP] = 4;
    expect_kept(&facts);
    facts.degrees[PEN_DEGREE_TP] = 3;
    expect_broken(&facts, "tp 3 is not a power of two",
                  "; use --tp 2, 4 or 8 with --schedule 1f1b");
    struct pen_model few_words = *facts.model;
    few_words.vocab = 10;
    facts.model = &few_words;
    facts.degrees[PEN_DEGREE_TP] = 4;
    expect_kept(&facts);
    facts.degrees[PEN_DEGREE_TP] = 8;
    expect_broken(&facts, "tp 8 leaves a rank without any of the 10 words",
                  "; use --tp 2, 4 or 8 with --schedule 1f1b");
    facts = synchronous();
    facts.sharding = PEN_SHARDING_ZERO3;
    expect_kept(&facts);
    facts.has_uneven_shares = true;
    expect_broken(&facts,
                  "zero3 needs equal replicas: leave out --replica-shares",
                  "; or use --sharding zero1");
    facts = synchronous();
    facts.number = PEN_NUMBER_FP16;
    expect_broken(&facts, "penstock train computes in f32 or bf16, not in fp16",
                  "; plan with another --dtype");
    facts = synchronous();
    facts.sequence = 17;
    expect_broken(&facts,
                  "--seq-length 17 is more than the model's 16 positions", "");
    facts = synchronous();
    facts.num_slices = 3;
    expect_broken(&facts,
                  "--seq-length 16 cannot be cut into 3 equal token slices",
                  "; give a number of --slices that divides it");
}

static void batches_and_replicas_come_out_even(void **state)
{
    (void)state;
    struct pen_training_facts facts = synchronous();
    facts.num_logical = 3;
    expect_broken(&facts,
                  "--logical-replicas 3 is not a multiple of the 2 copies of "
                  "the model",
                  "");
    facts.num_logical = 6;
    expect_broken(&facts,
                  "--logical-replicas 6 for 2 copies of the model are 3 each; "
                  "this must be a power of two, because sums have a fixed "
                  "order",
                  "");
    facts = synchronous();
    facts.global_batch = 20;
    expect_broken(&facts,
                  "--global-batch-size 20 is not a multiple of "
                  "--micro-batch-size 2 times 4 logical replicas",
                  "");
}

static void families_for_planning_are_refused(void **state)
{
    (void)state;
    struct pen_model *planned = load_model("preset:llama-4-scout");
    struct pen_training_facts facts = synchronous();
    struct pen_text why = PEN_TEXT_EMPTY;
    facts.model = planned;
    assert_int_equal(PEN_INVALID,
                     pen_restrictions_check(&facts, PEN_REASON_ALONE, &why));
    assert_true(why.length > 0);
    pen_text_release(&why);
    pen_model_free(planned);
}

static void sequences_with_latent_attention_are_whole(void **state)
{
    (void)state;
    struct pen_model *mixture = load_model("preset:mixtral-8x7b");
    struct pen_model *latent = load_model("preset:deepseek-v3");
    struct pen_training_facts facts = synchronous();
    facts.model = mixture;
    facts.sharding = PEN_SHARDING_ZERO3;
    expect_kept(&facts);
    facts = synchronous();
    facts.model = mixture;
    facts.num_slices = 2;
    expect_kept(&facts);
    facts.model = latent;
    expect_broken(&facts,
                  "penstock train cannot cut sequences of models with latent "
                  "attention into token slices",
                  "");
    facts.model = mixture;
    facts.degrees[PEN_DEGREE_EP] = 2;
    expect_broken(&facts, "ep 2 needs sequences without token slices",
                  EXPERT_REMEDY);
    facts.degrees[PEN_DEGREE_EP] = 1;
    facts.num_slices = 1;
    facts.degrees[PEN_DEGREE_TP] = 2;
    expect_kept(&facts);
    pen_model_free(mixture);
    pen_model_free(latent);
}

static void overlapping_steps_are_restricted(void **state)
{
    (void)state;
    struct pen_training_facts facts = asynchronous();
    expect_kept(&facts);
    facts.num_logical = 4;
    expect_broken(&facts,
                  "--logical-replicas 4: this --schedule needs one per "
                  "replica, 2",
                  "");
    facts = asynchronous();
    facts.schedule = "pipedream";
    facts.period = 1;
    expect_broken(&facts,
                  "pipedream makes a step after 1 micro-batch in each of 2 "
                  "replicas: --global-batch-size must be 4, not 16",
                  "");
    facts = asynchronous();
    facts.clip_norm = 0.5;
    expect_broken(&facts,
                  "--clip-grad 0.5: in --schedule pipedream-2bw a stage steps "
                  "before the norm of all gradients is known",
                  "; give --clip-grad 0, or --schedule pipedream-2bw");
    facts.is_joint = true;
    expect_kept(&facts);
    facts = asynchronous();
    facts.sharding = PEN_SHARDING_ZERO1;
    expect_broken(&facts,
                  "zero1 needs a synchronous schedule, and pipedream-2bw is "
                  "asynchronous",
                  "; leave out --sharding and --use-distributed-optimizer");
    facts = asynchronous();
    facts.has_tied_embeddings = true;
    expect_broken(&facts,
                  "embedding and head are tied but step at different times in "
                  "pipedream-2bw",
                  "; use --schedule pipedream-2bw, or a model with "
                  "\"tie_word_embeddings\": false");
    facts.is_joint = true;
    expect_kept(&facts);
    facts.is_joint = false;
    facts.num_parts = 1;
    expect_kept(&facts);
    facts = asynchronous();
    facts.schedule = "pipemare";
    facts.is_stale = true;
    expect_broken(&facts,
                  "in pipemare a backward has other weights than its forward "
                  "and cannot recompute it",
                  "; leave out --recompute-granularity");
}

static void corrections_ask_for_their_optimizer(void **state)
{
    (void)state;
    const struct {
        enum pen_correction correction;
        bool is_adam;
        bool is_nesterov;
        double momentum;
        const char *needs; /* NULL: nothing */
    } all[] = {
        {PEN_CORRECTION_NONE, false, false, 0, NULL},
        {PEN_CORRECTION_AVERAGE, false, false, 0, NULL},
        {PEN_CORRECTION_MOMENTUM, false, false, 0.9, NULL},
        {PEN_CORRECTION_MOMENTUM, true, false, 0, "--optimizer sgd"},
        {PEN_CORRECTION_MOMENTUM, false, false, 0, "a --sgd-momentum above 0"},
        {PEN_CORRECTION_SPIKE, false, true, 0.9, "SGD without --sgd-nesterov"},
        {PEN_CORRECTION_ADAM, true, false, 0, NULL},
        {PEN_CORRECTION_ADAM, false, false, 0.9, "--optimizer adam"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct pen_training_facts facts = asynchronous();
        struct pen_text reason = PEN_TEXT_EMPTY;
        facts.correction = all[i].correction;
        facts.is_adam = all[i].is_adam;
        facts.is_nesterov = all[i].is_nesterov;
        facts.momentum = all[i].momentum;
        pen_text_add(&reason,
                     "pipedream-2bw corrects its delays with the optimizer's "
                     "state and needs %s",
                     all[i].needs == NULL ? "" : all[i].needs);
        if (all[i].needs == NULL)
            expect_kept(&facts);
        else
            expect_broken(&facts, pen_text_string(&reason), "");
        pen_text_release(&reason);
    }
    struct pen_training_facts facts = asynchronous();
    facts.correction = PEN_CORRECTION_AVERAGE;
    facts.num_stages = 8;
    expect_broken(&facts,
                  "the correction of delays supports one stage per rank, but "
                  "the schedule has 8 stages on 4 ranks",
                  "");
}

static void a_discount_is_for_uncorrected_delays(void **state)
{
    (void)state;
    struct pen_training_facts facts = asynchronous();
    facts.discount_steps = 5;
    expect_kept(&facts);
    facts.correction = PEN_CORRECTION_AVERAGE;
    expect_broken(
        &facts,
        "--stale-discount 5: pipedream-2bw corrects its delays by itself",
        "; leave it out");
}

static void predictions_are_of_one_step(void **state)
{
    (void)state;
    struct pen_training_facts facts = asynchronous();
    facts.predicts = true;
    facts.num_versions = 2;
    facts.has_tied_embeddings = false;
    expect_kept(&facts);
    facts.num_versions = 4;
    expect_broken(&facts, "--predict-weights needs --schedule pipedream-2bw",
                  "");
}

static void joint_steps_are_plain_steps(void **state)
{
    (void)state;
    struct pen_training_facts facts = asynchronous();
    facts.is_joint = true;
    facts.correction = PEN_CORRECTION_AVERAGE;
    expect_broken(&facts,
                  "a schedule with joint steps needs a method that does not "
                  "correct delays by itself",
                  "");
    facts.correction = PEN_CORRECTION_NONE;
    facts.num_stages = 8;
    expect_broken(&facts,
                  "a schedule with joint steps needs one stage per rank", "");
}

static void expect_row(const char *text, const char *reason)
{
    struct pen_schedule *schedule = parse(text);
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = pen_restrictions_check_row(schedule, 0, &why);
    assert_int_equal(*reason == '\0' ? PEN_OK : PEN_INVALID, status);
    assert_string_equal(reason, pen_text_string(&why));
    pen_schedule_free(schedule);
    pen_text_release(&why);
}

#define ONE_RANK                                                               \
    "# penstock-schedule 1\nname x\nranks 1 stages 1 microbatches 2 slices 1 " \
    "copies 1 placement linear\n"

static void weight_gradients_are_in_order(void **state)
{
    (void)state;
    expect_row(ONE_RANK "rank 0: 0F0 0F1 0B0 0B1\n", "");
    expect_row(ONE_RANK "rank 0: 0F0 0F1 0B1 0B0\n",
               "stage 0 has the weight gradient of micro-batch 0 after that "
               "of 1: they must be in order, because sums depend on it");
}

/* All that a generator makes for the trainer passes, whatever its size. */
static void rows_of_generators_pass(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    unsigned num_rows = 0;
    for (size_t i = 0; pen_generator_at(i) != NULL; i++)
        for (uint32_t p = 1; p <= 9; p++)
            for (uint32_t m = 1; m <= 20; m++) {
                const struct pen_generator *generator = pen_generator_at(i);
                const struct pen_generator_args args = {.ranks = p,
                                                        .microbatches = m,
                                                        .slices = 1,
                                                        .batches = 3,
                                                        .costs = &costs};
                struct pen_schedule *schedule = NULL;
                struct pen_text why = PEN_TEXT_EMPTY;
                if (pen_generator_make(generator, &args, &schedule, NULL) !=
                    PEN_OK)
                    continue;
                for (uint32_t rank = 0; rank < p; rank++, num_rows++)
                    if (pen_restrictions_check_row(schedule, rank, &why) !=
                        PEN_OK)
                        fail_msg("%s p=%u m=%u: %s", generator->name, p, m,
                                 pen_text_string(&why));
                pen_schedule_free(schedule);
            }
    print_message("%u rows\n", num_rows);
    assert_true(num_rows > 10000);
}

static void generators_say_when_they_step(void **state)
{
    (void)state;
    enum { M = 8 };
    struct pen_costs costs = unit_costs();
    for (size_t i = 0; pen_generator_at(i) != NULL; i++) {
        const struct pen_generator *generator = pen_generator_at(i);
        const struct pen_generator_args args = {
            .ranks = 4, .microbatches = M, .batches = 2, .costs = &costs};
        struct pen_schedule *schedule = make_with(generator->name, &args);
        uint32_t period = generator->is_synchronous ? 0
                          : generator->steps_each   ? 1
                                                    : M;
        if (schedule->rules.period != period ||
            schedule->rules.is_stale != generator->is_stale)
            fail_msg("%s has period %u and is_stale %d, not %u and %d",
                     generator->name, schedule->rules.period,
                     schedule->rules.is_stale, period, generator->is_stale);
        pen_schedule_free(schedule);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_training_is_restricted),
        cmocka_unit_test(experts_are_dealt_out_evenly),
        cmocka_unit_test(batches_and_replicas_come_out_even),
        cmocka_unit_test(families_for_planning_are_refused),
        cmocka_unit_test(sequences_with_latent_attention_are_whole),
        cmocka_unit_test(overlapping_steps_are_restricted),
        cmocka_unit_test(corrections_ask_for_their_optimizer),
        cmocka_unit_test(a_discount_is_for_uncorrected_delays),
        cmocka_unit_test(predictions_are_of_one_step),
        cmocka_unit_test(joint_steps_are_plain_steps),
        cmocka_unit_test(weight_gradients_are_in_order),
        cmocka_unit_test(rows_of_generators_pass),
        cmocka_unit_test(generators_say_when_they_step)};
    return cmocka_run_group_tests(tests, load, unload);
}
