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
    expect_refusal(&setting, &candidate,
                   "tp 2: the target penstock does not split tensors");
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

static void targets_differ_in_schedules_and_sharding(void **state)
{
    (void)state;
    struct pen_setting setting = make_setting(
        "preset:gpt2", "preset:h100-sxm*16", PEN_TARGET_MEGATRON, 64, 1024);
    struct pen_candidate candidate = make_candidate(1, 2, 4);
    candidate.generator = pen_generator_find("zb-v");
    candidate.degrees[PEN_DEGREE_VPP] = 2;
    expect_refusal(&setting, &candidate, "megatron does not run zb-v");
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
    release_setting(&setting);
}

/* Penstock runs every schedule that it can make, the others a few. */
static void every_schedule_has_a_target(void **state)
{
    (void)state;
    unsigned counts[PEN_TARGETS] = {0};
    unsigned all = 0;
    for (; pen_generator_at(all) != NULL; all++)
        for (int target = 0; target < PEN_TARGETS; target++)
            counts[target] += pen_target_has_schedule((enum pen_target)target,
                                                      pen_generator_at(all));
    assert_int_equal(all, counts[PEN_TARGET_PENSTOCK]);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_cut_evenly_inside_a_node),
        cmocka_unit_test(batch_stages_and_devices_must_come_out),
        cmocka_unit_test(sequences_are_cut_in_pieces),
        cmocka_unit_test(targets_differ_in_schedules_and_sharding),
        cmocka_unit_test(every_schedule_has_a_target),
        cmocka_unit_test(torchtitan_runs_what_a_csv_file_carries)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
