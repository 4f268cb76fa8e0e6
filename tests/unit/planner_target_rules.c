/* Each target's rules are told by name, with both numbers. */
#include "support/setting.h"
#include "support/support.h"

#include "planner/target_rules.h"
#include "schedule/torch_csv.h"

#include <string.h>

/* tp, pp, dp of a batch of 64; 1F1B, micro-batches of 1. */
static struct pen_candidate make_candidate(uint32_t tp, uint32_t pp,
                                           uint32_t dp)
{
    struct pen_candidate candidate = {.degrees = {1, 1, 1, 1, 1, 1},
                                      .micro_batch = 1,
                                      .num_microbatches = 64 / dp,
                                      .generator = pen_generator_find("1f1b")};
    candidate.degrees[PEN_DEGREE_TP] = tp;
    candidate.degrees[PEN_DEGREE_PP] = pp;
    candidate.degrees[PEN_DEGREE_DP] = dp;
    return candidate;
}

static void expect_refusal(const struct pen_setting *setting,
                           const struct pen_candidate *candidate,
                           const char *words)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID, pen_target_check(setting, candidate, &why));
    assert_string_equal(words, pen_text_string(&why));
    pen_text_release(&why);
}

static void expect_allowed(const struct pen_setting *setting,
                           const struct pen_candidate *candidate)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_target_check(setting, candidate, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
}

static void tensors_are_cut_evenly_inside_a_node(void **state)
{
    (void)state;
    struct pen_setting setting = make_setting(
        "preset:gpt2", "preset:h100-sxm*64", PEN_TARGET_MEGATRON, 64, 1024);
    struct pen_candidate candidate = make_candidate(4, 2, 8);
    expect_allowed(&setting, &candidate);
    candidate = make_candidate(8, 1, 8);
    expect_refusal(&setting, &candidate,
                   "tp 8 does not divide 12 attention heads");
    candidate = make_candidate(16, 1, 4);
    expect_refusal(&setting, &candidate,
                   "tp 16 does not divide 8 devices of a node");
    candidate = make_candidate(3, 1, 8);
    expect_refusal(&setting, &candidate,
                   "tp 3 does not divide 8 devices of a node");
    setting.target = PEN_TARGET_PENSTOCK;
    candidate = make_candidate(2, 1, 8);
    candidate.degrees[PEN_DEGREE_CP] = 2;
    expect_allowed(&setting, &candidate);
    candidate = make_candidate(1, 1, 8);
    candidate.degrees[PEN_DEGREE_CP] = 2;
    expect_allowed(&setting, &candidate);
    release_setting(&setting);
}

static void batch_stages_and_devices_must_come_out(void **state)
{
    (void)state;
    struct pen_setting setting = make_setting(
        "preset:gpt2", "preset:h100-sxm*16", PEN_TARGET_MEGATRON, 64, 1024);
    struct pen_candidate candidate = make_candidate(1, 1, 16);
    candidate.num_microbatches = 5;
    expect_refusal(
        &setting, &candidate,
        "16 replicas with micro-batches of 1 do not divide the batch "
        "of 64");
    candidate = make_candidate(1, 15, 1);
    expect_refusal(&setting, &candidate,
                   "15 stages are more than the 14 layers");
    candidate = make_candidate(2, 2, 8);
    expect_refusal(&setting, &candidate, "needs 32 devices, but there are 16");
    release_setting(&setting);
}

static void sequences_are_cut_in_pieces(void **state)
{
    (void)state;
    struct pen_setting setting = make_setting(
        "preset:gpt2", "preset:h100-sxm*16", PEN_TARGET_MEGATRON, 64, 1020);
    struct pen_candidate candidate = make_candidate(1, 1, 2);
    candidate.degrees[PEN_DEGREE_CP] = 4;
    expect_refusal(&setting, &candidate,
                   "tp 1 and cp 4 cut a sequence into 8 pieces, which do not "
                   "divide 1020 tokens");
    candidate.degrees[PEN_DEGREE_CP] = 2;
    expect_allowed(&setting, &candidate);
    candidate.degrees[PEN_DEGREE_EP] = 2;
    expect_refusal(&setting, &candidate, "ep 2: the model has no experts");
    release_setting(&setting);
}

static void experts_fold_where_the_target_folds(void **state)
{
    (void)state;
    struct pen_setting setting =
        make_setting("preset:qwen3-30b-a3b", "preset:h100-sxm*16",
                     PEN_TARGET_MEGATRON, 64, 1024);
    struct pen_candidate candidate = make_candidate(2, 1, 8);
    candidate.degrees[PEN_DEGREE_EP] = 16;
    candidate.expert_tp = 1;
    expect_allowed(&setting, &candidate);
    candidate.expert_tp = 0; /* both tensor ranks share each expert */
    expect_refusal(&setting, &candidate,
                   "ep 16 of experts on 2 ranks each does not divide the 16 "
                   "ranks of a stage");
    assert_int_equal(1, pen_target_expert_tp(PEN_TARGET_MEGATRON, 2, 16));
    assert_int_equal(0, pen_target_expert_tp(PEN_TARGET_MEGATRON, 1, 16));
    assert_int_equal(0, pen_target_expert_tp(PEN_TARGET_DEEPSPEED, 2, 4));
    setting.target = PEN_TARGET_DEEPSPEED;
    candidate.degrees[PEN_DEGREE_TP] = 1;
    candidate.degrees[PEN_DEGREE_DP] = 8;
    expect_refusal(&setting, &candidate, "ep 16 does not divide 8 replicas");
    setting.target = PEN_TARGET_PENSTOCK;
    candidate.degrees[PEN_DEGREE_EP] = 2;
    candidate.sharding = PEN_SHARDING_ZERO2;
    candidate.micro_batch *= candidate.num_microbatches;
    candidate.num_microbatches = 1;
    expect_allowed(&setting, &candidate);
    release_setting(&setting);
}

static void targets_differ_in_schedules_and_sharding(void **state)
{
    (void)state;
    struct pen_setting setting = make_setting(
        "preset:gpt2", "preset:h100-sxm*16", PEN_TARGET_MEGATRON, 64, 1024);
    struct pen_candidate candidate = make_candidate(1, 2, 4);
    candidate.generator = pen_generator_find("zb-v");
    candidate.degrees[PEN_DEGREE_VPP] = 2;
    expect_refusal(&setting, &candidate,
                   "megatron does not run zb-v; --target torchtitan does");
    setting.target = PEN_TARGET_TORCHTITAN;
    expect_allowed(&setting, &candidate);
    candidate.degrees[PEN_DEGREE_VPP] = 3;
    expect_refusal(&setting, &candidate,
                   "zb-v does not run with 3 stages on a rank");
    candidate = make_candidate(1, 2, 4);
    candidate.sharding = PEN_SHARDING_ZERO1;
    expect_refusal(&setting, &candidate,
                   "torchtitan has no zero1 in a pipeline");
    setting.target = PEN_TARGET_DEEPSPEED;
    candidate.sharding = PEN_SHARDING_ZERO3;
    expect_refusal(&setting, &candidate,
                   "deepspeed has no zero3 in a pipeline");
    candidate = make_candidate(1, 1, 4);
    candidate.sharding = PEN_SHARDING_ZERO3;
    expect_allowed(&setting, &candidate);
    setting.target = PEN_TARGET_PENSTOCK;
    expect_refusal(&setting, &candidate,
                   "zero3: penstock train keeps whole gradients where a rank "
                   "has 16 micro-batches in a step; use zero1, or "
                   "micro-batches of 16");
    candidate.sharding = PEN_SHARDING_ZERO2;
    expect_refusal(&setting, &candidate,
                   "zero2: penstock train keeps whole gradients where a rank "
                   "has 16 micro-batches in a step; use zero1, or "
                   "micro-batches of 16");
    candidate.micro_batch = 16;
    candidate.num_microbatches = 1;
    expect_allowed(&setting, &candidate);
    candidate.sharding = PEN_SHARDING_ZERO3;
    expect_allowed(&setting, &candidate);
    release_setting(&setting);
}

/* Penstock runs every schedule, the others a few. */
static void every_schedule_has_a_target(void **state)
{
    (void)state;
    unsigned counts[PEN_TARGETS] = {0};
    unsigned all = 0;
    for (; pen_generator_at(all) != NULL; all++)
        for (int target = 0; target < PEN_TARGETS; target++)
            counts[target] += pen_target_has_schedule((enum pen_target)target,
                                                      pen_generator_at(all));
    /* All but local, for which a model needs heads in the middle. */
    assert_int_equal(all - 1, counts[PEN_TARGET_PENSTOCK]);
    assert_int_equal(2, counts[PEN_TARGET_MEGATRON]);
    assert_int_equal(1, counts[PEN_TARGET_DEEPSPEED]);
}

/* torchtitan runs what PyTorch's file can say and has a class for, with any
 * number of chunks. */
static void torchtitan_runs_what_a_csv_file_carries(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    for (size_t i = 0; pen_generator_at(i) != NULL; i++) {
        const struct pen_generator *generator = pen_generator_at(i);
        struct pen_generator_args args = {.ranks = 4,
                                          .microbatches = 8,
                                          .chunks =
                                              generator->has_chunks ? 4 : 0,
                                          .costs = &costs};
        struct pen_text text = PEN_TEXT_EMPTY;
        struct pen_schedule *schedule = make_with(generator->name, &args);
        bool is_carried = pen_torch_csv_class(schedule) != NULL &&
                          pen_torch_csv_print(schedule, &text, NULL) == PEN_OK;
        bool is_run = pen_target_has_schedule(PEN_TARGET_TORCHTITAN, generator);
        if (is_run != is_carried)
            fail_msg("%s: a CSV file carries it: %d, torchtitan runs it: %d",
                     generator->name, is_carried, is_run);
        pen_schedule_free(schedule);
        pen_text_release(&text);
    }
}

/* The trainer's restrictions are rules of its target, and of no other. */
static void penstock_proposes_what_it_trains(void **state)
{
    (void)state;
    struct pen_setting setting = make_setting(
        "preset:gpt2", "preset:h100-sxm*16", PEN_TARGET_PENSTOCK, 64, 1024);
    struct pen_candidate candidate = make_candidate(1, 4, 2);
    candidate.sharding = PEN_SHARDING_ZERO1;
    expect_allowed(&setting, &candidate);
    candidate.generator = pen_generator_find("pipedream-2bw");
    expect_refusal(&setting, &candidate,
                   "zero1 needs a synchronous schedule, and pipedream-2bw is "
                   "asynchronous");
    candidate.sharding = PEN_SHARDING_NONE;
    expect_allowed(&setting, &candidate);
    candidate.generator = pen_generator_find("pipemare");
    expect_refusal(&setting, &candidate,
                   "embedding and head are tied but step at different times in "
                   "pipemare");
    setting.sequence = 2048;
    expect_refusal(&setting, &candidate,
                   "--seq-length 2048 is more than the model's 1024 positions");
    release_setting(&setting);
    setting = make_setting("preset:llama-2-7b", "preset:h100-sxm*16",
                           PEN_TARGET_PENSTOCK, 64, 1024);
    expect_allowed(&setting, &candidate);
    setting.clip_norm = 1;
    expect_refusal(&setting, &candidate,
                   "--clip-grad 1: in --schedule pipemare a stage steps before "
                   "the norm of all gradients is known");
    candidate.generator = pen_generator_find("pipedream-2bw");
    expect_allowed(&setting, &candidate);
    setting.clip_norm = 0;
    candidate.generator = pen_generator_find("cyclic");
    expect_refusal(&setting, &candidate,
                   "cyclic makes a step after 1 micro-batch in each of 8 "
                   "replicas: --global-batch-size must be 8, not 64");
    candidate.generator = pen_generator_find("spectrain");
    candidate.num_microbatches = 1;
    setting.global_batch = 2;
    expect_refusal(&setting, &candidate,
                   "spectrain corrects its delays with the optimizer's state "
                   "and needs --optimizer sgd");
    candidate.generator = pen_generator_find("pipemare");
    expect_allowed(&setting, &candidate);
    candidate.recompute = PEN_RECOMPUTE_FULL;
    expect_refusal(&setting, &candidate,
                   "in pipemare a backward has other weights than its forward "
                   "and cannot recompute it");
    release_setting(&setting);
}

/* What a generator makes has as many stages as were asked for. */
static void chunks_are_those_of_the_schedule(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    for (size_t i = 0; pen_generator_at(i) != NULL; i++)
        for (uint32_t vpp = 1; vpp <= 4; vpp++) {
            const struct pen_generator *generator = pen_generator_at(i);
            const struct pen_generator_args args = {
                .ranks = 4,
                .microbatches = 16,
                .chunks = generator->has_chunks ? vpp : 0,
                .costs = &costs};
            struct pen_schedule *schedule = NULL;
            bool is_made = pen_generator_make(generator, &args, &schedule,
                                              NULL) == PEN_OK &&
                           pen_shape_parts(&schedule->shape) == 4 * vpp;
            if (pen_target_has_chunks(generator, vpp) && !is_made)
                fail_msg("%s with %u stages on a rank: made %d",
                         generator->name, vpp, is_made);
            pen_schedule_free(schedule);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_cut_evenly_inside_a_node),
        cmocka_unit_test(batch_stages_and_devices_must_come_out),
        cmocka_unit_test(sequences_are_cut_in_pieces),
        cmocka_unit_test(experts_fold_where_the_target_folds),
        cmocka_unit_test(targets_differ_in_schedules_and_sharding),
        cmocka_unit_test(every_schedule_has_a_target),
        cmocka_unit_test(penstock_proposes_what_it_trains),
        cmocka_unit_test(chunks_are_those_of_the_schedule),
        cmocka_unit_test(torchtitan_runs_what_a_csv_file_carries)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
